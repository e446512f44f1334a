"""The experiments of the paper's evaluation (section 6 of Shacklett et al. 2023), with the environments that exist.

- ``batch``: throughput of every executor over the number of worlds (figure 3), and its peaks (table 1);
- ``tune``: with and without the profile-guided choice of ``sim.tune()`` (table 2; not the utilisation of the GPU);
- ``agents``: throughput of Micro and Overcooked over agents in a world (figure 4; what they are is in ``crowds``).

What is timed is ``env.step(actions)`` with random actions, new episodes included. Actions are prepared, or where an
environment has masks drawn between the steps, which is told. What is compared takes its runs in turn, so that whatever
else the machine does strikes all alike. What fails leaves its error in place of its figures, and the rest goes on.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium
import torch
import tyro

from ..executors import EXECUTORS
from ..extras import needed
from ..inputs import checked_device
from ..registration import environment_ids, find_id
from ..testing import random_actions
from ..text import figure, table
from ..vector_env import TorchVectorEnv
from .charts import Line, Panel, draw, in_k
from .crowds import CROWDS, make_micro
from .report import machine_facts, made_folder
from .throughput import measure, us_of_drawing

Make = Callable[..., TorchVectorEnv]
Cell = dict[str, Any]
"""Figures of one of those that are compared, or its ``error``."""
Record = dict[str, Any]
"""What was measured side by side: environment, num_worlds, and ``cells`` by name."""

_SIZES = tuple(4**k for k in range(3, 11))
# The number of worlds at which the paper found its peaks; on CPU what ends in a few minutes.
_MOST_WORLDS = {
    "cuda": {"hideseek": 32 * 1024, "overcooked": 64 * 1024, "hanabi": 128 * 1024, "cartpole": 1024 * 1024},
    "cpu": {"overcooked": 16 * 1024, "cartpole": 64 * 1024},
}
_MOST_WORLDS_OF_OTHERS = {"cuda": 32 * 1024, "cpu": 4 * 1024}

# The paper's tables 1 and 2, in environment steps per second.
PAPER = {
    "machine": "GeForce RTX 4090 and Core i9 13900K with 32 threads",
    "table_1": {
        "BATCH-ECS-GPU": {"hideseek": 1.9e6, "overcooked": 4.0e7, "hanabi": 2.1e7, "cartpole": 3.4e9},
        "ECS-GPU": {"hideseek": 4.5e4, "overcooked": 1.1e6, "hanabi": 4.1e6, "cartpole": 1.4e8},
        "ECS-CPU": {"hideseek": 1.6e5, "overcooked": 1.2e6, "hanabi": 4.1e6, "cartpole": 2.8e7},
        "REF-CPU": {"hideseek": 6.9e3, "overcooked": 9.7e3, "hanabi": 1.3e4, "cartpole": 1.4e5},
    },
    "table_2": {"hideseek": {"num_worlds": 32 * 1024, "default": 1.4e6, "tuned": 1.9e6, "gain": 1.35}},
}
_COUNTERPARTS = {
    "cpu": "per_world is what the paper calls ECS-CPU; it has none of batch",
    "cuda": "graph and megakernel are what the paper calls BATCH-ECS-GPU, per_world is its ECS-GPU",
}


@dataclass
class PaperOptions:
    """The paper's experiments: peak throughput of every executor (table 1), with and without sim.tune() (table 2),
    throughput over the number of worlds (figure 3) and over agents in a world (figure 4)."""

    experiments: list[Literal["batch", "tune", "agents"]] = field(default_factory=lambda: ["batch", "tune", "agents"])
    """batch: table 1 and figure 3; tune: table 2; agents: figure 4."""
    environments: list[str] = field(default_factory=lambda: [*environment_ids(), "micro"])
    """Of 'batch' and 'tune': short names (cartpole), ids, module:id, or 'micro'."""
    batch_sizes: list[int] | None = None
    """Worlds of 'batch'; 'tune' takes the greatest. By default from 64 to where the paper found an environment's peak
    (on CUDA), or to what a CPU does in a few minutes."""
    agents_environments: list[str] = field(default_factory=lambda: list(CROWDS))
    """Of 'agents': micro, overcooked, or both."""
    agents: list[int] | None = None
    """Of 'agents': agents in a world. By default 1 to 1024 of micro, 2 to 40 of overcooked, which are the most it has
    room for."""
    agents_batch_sizes: list[int] | None = None
    """Of 'agents': worlds. By default 16 and 128 on CPU; on CUDA 128 and 1024 of micro, 1024 of overcooked, which with
    40 agents are 1.4 GB for each executor."""
    device: str = "cpu"
    seconds: float = 0.5
    """Length of one run; a figure is the median of the runs."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    warm_up_seconds: float = 4.0
    """Longest time for up to 1000 steps before the first run, in which dynamic tables grow as they need."""
    tune_seconds: float = 5.0
    """What sim.tune() may take for each environment."""
    output: Path = Path("runs/paper")
    """Folder for tables.txt, paper.json, figure3.png and figure4.png."""

    @property
    def device_type(self) -> str:
        return torch.device(self.device).type

    def sizes(self, environment: str) -> list[int]:
        """Numbers of worlds at which to measure an environment."""
        if self.batch_sizes:
            return sorted(set(self.batch_sizes))
        most = _MOST_WORLDS[self.device_type].get(environment, _MOST_WORLDS_OF_OTHERS[self.device_type])
        return [*(size for size in _SIZES if size < most), most]

    def over_agents(self, environment: str) -> list[tuple[int, int]]:
        """Numbers of worlds and of agents in each at which to measure one of ``CROWDS``."""
        worlds = self.agents_batch_sizes or CROWDS[environment].worlds[self.device_type]
        return [(w, a) for w in sorted(set(worlds)) for a in sorted(set(self.agents or CROWDS[environment].agents))]

    def check(self) -> None:
        """Raise ValueError for what cannot be measured, whatever the machine."""
        sizes = [n for given in (self.batch_sizes, self.agents, self.agents_batch_sizes) for n in given or ()]
        lengths = [self.seconds, self.warm_up_seconds, self.tune_seconds]
        if any(n < 1 for n in sizes) or min(lengths) <= 0 or self.runs < 1:
            given = f"batch sizes and agents {sizes}, seconds {lengths}, runs {self.runs}"
            raise ValueError(f"batch sizes, --agents, all seconds and --runs must be positive, got {given}")
        for name in ("experiments", "environments", "agents_environments"):
            if not getattr(self, name):
                raise ValueError(f"--{name.replace('_', '-')} needs at least one name")
        for name in self.agents_environments:
            if name not in CROWDS:
                raise ValueError(f"--agents-environments are of {', '.join(CROWDS)}, got {name!r}")


def main(arguments: Sequence[str]) -> None:
    """Measure; print tables and write them, all figures, and the pictures."""
    options = tyro.cli(PaperOptions, prog="python -m torch_batchsim.bench paper", args=arguments)
    try:
        options.check()
        needed("matplotlib")  # rather than miss it when all has been measured
        checked_device(options.device)
        makers = {name: _maker(name) for name in options.environments}
    except (ValueError, RuntimeError, ImportError, gymnasium.error.Error) as error:
        raise SystemExit(f"error: {error}") from None
    made_folder(options.output, "--output")
    for name in ("figure3.png", "figure4.png"):  # of another run
        (options.output / name).unlink(missing_ok=True)
    result: dict[str, Any] = {
        "benchmark": "paper",
        "machine": machine_facts(options.device),
        "device_type": options.device_type,
        **{name: getattr(options, name) for name in ("seconds", "runs", "warm_up_seconds", "tune_seconds")},
        "paper": PAPER,
    }
    text = ""
    for name, measure_it in (
        ("batch", partial(measure_batch, makers)),
        ("tune", partial(measure_tune, makers)),
        ("agents", measure_agents),
    ):
        if name in options.experiments:
            result[name] = measure_it(options)
            text = write(result, options)  # after each: the next may take long
    print(f"\n{text}\nwritten to {options.output}")
    if not any("error" not in cell for record in _records(result) for cell in record["cells"].values()):
        raise SystemExit("error: nothing could be measured")


# ---- measuring -----------------------------------------------------------------------------------------------------


def _maker(environment: str) -> Make:
    if environment == "micro":
        return make_micro
    try:
        env_id = find_id(environment)
    except ValueError as error:
        raise ValueError(f"{error} (and 'micro')") from None
    gymnasium.spec(env_id)  # raises if there is none
    return lambda **arguments: gymnasium.make_vec(env_id, **arguments).unwrapped


def measure_batch(makers: Mapping[str, Make], options: PaperOptions) -> list[Record]:
    """Every executor beside the others, for every environment and number of worlds."""
    records = []
    for name, make in makers.items():
        for worlds in options.sizes(name):
            cells = _executors(make, worlds, options)
            agents = next((cell["agents"] for cell in cells.values() if "error" not in cell), None)
            records.append({"environment": name, "num_worlds": worlds, "agents": agents, "cells": cells})
            _tell(records[-1])
    return records


def measure_agents(options: PaperOptions) -> list[Record]:
    """Every executor beside the others, for every number of agents."""
    records = []
    for name in dict.fromkeys(options.agents_environments):
        for worlds, agents in options.over_agents(name):
            cells = _executors(partial(CROWDS[name].make, agents), worlds, options)
            records.append({"environment": name, "num_worlds": worlds, "agents": agents, "cells": cells})
            _tell(records[-1])
    return records


def _executors(make: Make, worlds: int, options: PaperOptions) -> dict[str, Cell]:
    made = partial(make, num_worlds=worlds, device=options.device)
    return side_by_side({name: partial(made, executor=name) for name in EXECUTORS[options.device_type]}, options)


def measure_tune(makers: Mapping[str, Make], options: PaperOptions) -> list[Record]:
    """The device's default executor as it comes beside what ``sim.tune()`` chooses."""
    records = []
    for name, make in makers.items():
        worlds = max(options.sizes(name))
        record: Record = {"environment": name, "num_worlds": worlds}
        made = partial(make, num_worlds=worlds, device=options.device)

        def tuned(made: Make = made, record: Record = record) -> TorchVectorEnv:
            env = made()
            env.reset(seed=0)
            warm_up(env, random_actions(env), options.warm_up_seconds)
            report = env.sim.tune(seconds=options.tune_seconds)
            record.update(chosen=str(report.chosen), report=report.as_dict())
            return env

        # By its name: without one it might be what an earlier sim.tune() has chosen.
        default = partial(made, executor=EXECUTORS[options.device_type][0])
        cells = record["cells"] = side_by_side({"default": default, "tuned": tuned}, options)
        if not any("error" in cell for cell in cells.values()):
            gains = [b / a for a, b in zip(cells["default"]["runs"], cells["tuned"]["runs"], strict=True)]
            record.update(gain=statistics.median(gains), gain_least=min(gains), gain_most=max(gains))
        records.append(record)
        _tell(record)
    return records


def warm_up(env: TorchVectorEnv, actions: Sequence[torch.Tensor], seconds: float) -> None:
    """Let dynamic tables grow as they need: while they do, a step costs several times what it does later."""
    end = time.perf_counter() + seconds
    for i in range(1000 if env.sim.program.dynamic else 0):
        env.step(actions[i % len(actions)])
        if time.perf_counter() > end:
            break


def side_by_side(makers: Mapping[str, Callable[[], TorchVectorEnv]], options: PaperOptions) -> dict[str, Cell]:
    """World steps per second of several environments that take their runs in turn; errors are kept as text."""
    cells: dict[str, Cell] = {}
    envs: dict[str, TorchVectorEnv] = {}
    runs: dict[str, list[float]] = {}
    actions: dict[str, Sequence[torch.Tensor]] = {}

    def attempt(name: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # whatever it is: out of memory, no compiler, a fault of a world
            cells[name] = {"error": f"{type(error).__name__}: {error}"}
            envs.pop(name, None)

    def prepare(name: str) -> None:
        env = envs[name] = makers[name]()
        env.reset(seed=0)
        actions[name] = random_actions(env)
        warm_up(env, actions[name], options.warm_up_seconds)
        runs[name] = []

    def run(name: str) -> None:
        env = envs[name]
        rate = measure(env.step, actions[name], env.num_worlds, options.seconds, 1, options.device)
        env.sim.check_faults()
        runs[name].append(rate.median)

    def finish(name: str) -> None:
        drawing = us_of_drawing(actions[name], options.seconds, options.device)
        cells[name] = _figures(envs[name], runs[name], drawing)
        envs[name].close()

    for name in makers:
        attempt(name, partial(prepare, name))
    for _ in range(options.runs):
        for name in list(envs):
            attempt(name, partial(run, name))
    for name in list(envs):
        attempt(name, partial(finish, name))
    envs.clear()
    gc.collect()
    if options.device_type == "cuda":
        with suppress(RuntimeError):  # which a device that has failed raises at every call
            torch.cuda.empty_cache()
    return {name: cells[name] for name in makers}


def _figures(env: TorchVectorEnv, runs: list[float], us_of_drawing: float) -> Cell:
    rate = statistics.median(runs)
    return {
        "agents": env.num_agents,
        "world_steps_per_second": rate,
        "agent_steps_per_second": rate * env.num_agents,
        "slowest_run": min(runs),
        "fastest_run": max(runs),
        "runs": runs,
        "us_of_drawing": us_of_drawing,  # in each step: 0.0 if actions were prepared
    }


def _tell(record: Record) -> None:
    what = [record["environment"], f"{in_k(record['num_worlds'])} worlds"]
    what += [f"{record['agents']} agents in each"] if (record.get("agents") or 1) > 1 else []
    rates = (
        f"{name} {cell['error'].splitlines()[0] if 'error' in cell else figure(cell['world_steps_per_second'])}"
        for name, cell in record["cells"].items()
    )
    print(f"{', '.join(what)}: {', '.join(rates)}", flush=True)


# ---- showing -------------------------------------------------------------------------------------------------------


def write(result: Mapping[str, Any], options: PaperOptions) -> str:
    """Write what there is so far; returns the tables."""
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paper.json").write_text(json.dumps(result, indent=2) + "\n")
    machine = result["machine"]
    where = f"{machine['device']}, {machine['cores']} cores, commit {machine['commit']}"
    text = f"{where}\n\n{tables(result)}\n"
    (folder / "tables.txt").write_text(text)
    many = f"medians of {options.runs} runs, shaded from the slowest to the fastest"
    how = many if options.runs > 1 else "one run each"
    for name, panels, records, title, columns in (
        ("figure3.png", batch_panels, result.get("batch"), "Throughput over the number of worlds", 3),
        ("figure4.png", agents_panels, result.get("agents"), "Throughput over agents in a world", 2),
    ):
        if records:
            draw(panels(records), f"{title}\n{where}\n{how}", folder / name, columns)
    return text


def tables(result: Mapping[str, Any]) -> str:
    """What has been measured as text; ``failed [1]`` refers to the errors at the end."""
    errors: dict[str, int] = {}

    def text(cell: Cell, what: str = "world_steps_per_second") -> str:
        if "error" in cell:
            return f"failed [{errors.setdefault(cell['error'].splitlines()[0], len(errors) + 1)}]"
        return figure(cell[what])

    parts = []
    if result.get("batch"):
        parts += [
            "Table 1. Peak throughput in world steps per second, and the number of worlds at which it was found.",
            f'Rows of "paper" are the paper\'s own figures, on other hardware: {PAPER["machine"]}.',
            f"({_COUNTERPARTS[result['device_type']]}.)",
            table(_table_1(result["batch"], text)) + "\n",
        ]
    if result.get("tune"):
        parts += [
            "Table 2. World steps per second of the default executor, and of what sim.tune() has chosen.",
            '"paper" is the paper\'s own figure, on other hardware: without and with profile-guided optimisation.',
            table(_table_2(result["tune"], text)) + "\n",
        ]
    if result.get("batch"):
        parts += [
            "Figure 3. World steps per second over the number of worlds.",
            table([_figure_3(record, text) for record in result["batch"]]) + "\n",
        ]
    for name, own in _by_environment(result.get("agents", ())).items():
        parts += [
            f"Figure 4, {name}. Steps of worlds and of agents per second, over agents in a world.",
            f"({CROWDS[name].about}.)",
            table([_figure_4(record, text) for record in own]) + "\n",
        ]
    drawn = [record["environment"] for record in _records(result) if _draws(record)]
    if drawn:
        parts.append(
            f"Steps of {', '.join(dict.fromkeys(drawn))} include drawing actions that its masks allow; how long that "
            'takes is in paper.json as "us_of_drawing".\n'
        )
    return "\n".join([*parts, *(f"[{number}] {error}" for error, number in errors.items())]).rstrip("\n")


def _records(result: Mapping[str, Any]) -> list[Record]:
    return [record for experiment in ("batch", "tune", "agents") for record in result.get(experiment, ())]


def _draws(record: Record) -> bool:
    return any(cell.get("us_of_drawing") for cell in record["cells"].values())


def _by_environment(records: Sequence[Record]) -> dict[str, list[Record]]:
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record["environment"], []).append(record)
    return grouped


def _where(record: Record) -> dict[str, Any]:
    return {"environment": record["environment"], "worlds": in_k(record["num_worlds"])}


def _table_1(records: Sequence[Record], text: Callable[..., str]) -> list[dict[str, str]]:
    environments = list(dict.fromkeys([r["environment"] for r in records] + list(PAPER["table_1"]["BATCH-ECS-GPU"])))
    rows = []
    for executor in records[0]["cells"]:
        row = {"executor": executor}
        for name in environments:
            cells = [(r["cells"][executor], r["num_worlds"]) for r in records if r["environment"] == name]
            good = [(cell["world_steps_per_second"], cell, worlds) for cell, worlds in cells if "error" not in cell]
            if good:
                _, cell, worlds = max(good, key=lambda found: found[0])
                row[name] = f"{text(cell)} @ {in_k(worlds)}"
            else:
                row[name] = text(cells[-1][0]) if cells else "-"
        rows.append(row)
    for configuration, figures in PAPER["table_1"].items():
        theirs = {name: figure(figures[name]) if name in figures else "-" for name in environments}
        rows.append({"executor": f"paper {configuration}", **theirs})
    return rows


def _table_2(records: Sequence[Record], text: Callable[..., str]) -> list[dict[str, str]]:
    rows = [
        _where(record)
        | {name: text(cell) for name, cell in record["cells"].items()}
        | {"gain": f"{record['gain']:.2f}" if "gain" in record else "-", "chosen": record.get("chosen", "-")}
        for record in records
    ]
    for name, figures in PAPER["table_2"].items():
        theirs = {key: figure(figures[key]) for key in ("default", "tuned")}
        where = {"environment": f"paper {name}", "worlds": in_k(figures["num_worlds"])}
        rows.append(where | theirs | {"gain": f"{figures['gain']:.2f}", "chosen": "-"})
    return rows


def _figure_3(record: Record, text: Callable[..., str]) -> dict[str, Any]:
    agents = record["agents"] or "-"
    return _where(record) | {"agents": agents} | {name: text(cell) for name, cell in record["cells"].items()}


def _figure_4(record: Record, text: Callable[..., str]) -> dict[str, Any]:
    row = {"worlds": in_k(record["num_worlds"]), "agents": record["agents"]}
    for name, cell in record["cells"].items():
        row |= {f"{name} worlds": text(cell), f"{name} agents": text(cell, "agent_steps_per_second")}
    return row


def batch_panels(records: Sequence[Record]) -> list[Panel]:
    """Figure 3: a panel for each environment, a line for each executor."""
    panels = []
    for name, own in _by_environment(records).items():
        lines = [_line(own, executor, "num_worlds") for executor in own[0]["cells"]]
        agents = next((f", {record['agents']} agents in a world" for record in own if (record["agents"] or 1) > 1), "")
        panels.append(Panel(name + agents, "worlds", "world steps per second", lines))
    return panels


def agents_panels(records: Sequence[Record]) -> list[Panel]:
    """Figure 4: of each environment panels for steps of agents and of worlds, in each a line for each executor and
    number of worlds."""
    panels = []
    for name, own in _by_environment(records).items():
        for unit in ("agent", "world"):
            title, y_label = f"{name}: steps of {unit}s", f"{unit} steps per second"
            panels.append(Panel(title, "agents in a world", y_label, _lines_over_agents(own, unit)))
    return panels


def _lines_over_agents(records: Sequence[Record], unit: str) -> list[Line]:
    lines = []
    for i, worlds in enumerate(dict.fromkeys(record["num_worlds"] for record in records)):
        own = [record for record in records if record["num_worlds"] == worlds]
        lines += [_line(own, name, "agents", unit, f", {in_k(worlds)} worlds", i) for name in own[0]["cells"]]
    return lines


def _line(
    records: Sequence[Record], executor: str, x: str, unit: str = "world", suffix: str = "", style: int = 0
) -> Line:
    points = []
    for record in records:
        cell = record["cells"][executor]
        if "error" not in cell:
            scale = cell["agents"] if unit == "agent" else 1
            rates = (cell[key] * scale for key in ("world_steps_per_second", "slowest_run", "fastest_run"))
            points.append((record[x], *rates))
    return Line(executor + suffix, points, colour=list(records[0]["cells"]).index(executor), style=style)
