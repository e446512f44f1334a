"""The experiments of the paper's evaluation (section 6 of Shacklett et al. 2023), with the bundled environments.

- ``batch``: throughput of every executor over the number of worlds (figure 3), and its peaks (table 1);
- ``tune``: with and without the profile-guided choice of ``sim.tune()`` (table 2; not the utilisation of the GPU);
- ``agents``: throughput of Micro, Overcooked and HideSeek over agents in a world (figure 4; see ``crowds``);
- ``trace``: which system runs when in a step of HideSeek, and how long (figure 5).

The experiments time ``env.step(actions)`` with random actions, new episodes included. Actions are prepared, or where an
environment has masks drawn between the steps, which the tables report. Contenders take their runs in turn, so that
other work of the machine slows all of them alike. A contender that fails leaves its error in place of its figures, and
the rest goes on.
"""

from __future__ import annotations

import gc
import statistics
import sys
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
from charts import in_k
from crowds import CROWDS, make_micro
from paper_report import PAPER, PICTURES, Cell, Record, all_records, write

from torch_batchsim.base.extras import needed
from torch_batchsim.base.text import figure
from torch_batchsim.bench.report import machine_facts, made_folder
from torch_batchsim.bench.throughput import measure, us_of_drawing
from torch_batchsim.command_line import UsageError, parsed
from torch_batchsim.memory.inputs import checked_device
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.run.trace import Trace
from torch_batchsim.testing import random_actions
from torch_batchsim.vector.registration import find_id
from torch_batchsim.vector.vector_env import TorchVectorEnv

Make = Callable[..., TorchVectorEnv]

_ENVIRONMENTS = ("cartpole", "hanabi", "hideseek", "overcooked", "swarm", "micro")
_SIZES = tuple(4**k for k in range(3, 11))
# The number of worlds at which the paper found its peaks; on CPU what ends in a few minutes.
_MOST_WORLDS = {
    "cuda": {"hideseek": 32 * 1024, "overcooked": 64 * 1024, "hanabi": 128 * 1024, "cartpole": 1024 * 1024},
    "cpu": {"overcooked": 16 * 1024, "cartpole": 64 * 1024},
}
_MOST_WORLDS_OF_OTHERS = {"cuda": 32 * 1024, "cpu": 4 * 1024}
_TRACED_WORLDS = {"cuda": 16 * 1024, "cpu": 4 * 1024}
_SLOW_STEPS = 3  # the first ones of a build that is traced


@dataclass
class PaperOptions:
    """The paper's experiments: peak throughput of every executor (table 1), with and without sim.tune() (table 2),
    throughput over the number of worlds (figure 3) and over agents in a world (figure 4), and which system of a step
    runs when (figure 5)."""

    experiments: list[Literal["batch", "tune", "agents", "trace"]] = field(
        default_factory=lambda: ["batch", "tune", "agents", "trace"]
    )
    """batch: table 1 and figure 3; tune: table 2; agents: figure 4; trace: figure 5."""
    environments: list[str] = field(default_factory=lambda: [*_ENVIRONMENTS])
    """Of 'batch' and 'tune': short names (cartpole), ids, module:id, or 'micro'."""
    batch_sizes: list[int] | None = None
    """Worlds of 'batch'; 'tune' takes the greatest. By default from 64 to where the paper found an environment's peak
    (on CUDA), or to what a CPU does in a few minutes."""
    agents_environments: list[str] = field(default_factory=lambda: list(CROWDS))
    """Of 'agents': some of micro, overcooked, hideseek."""
    agents: list[int] | None = None
    """Of 'agents': agents in a world. By default 1 to 1024 of micro, 2 to 40 of overcooked and hideseek, which are the
    most they have room for. Each number of hideseek is a build for each executor."""
    agents_batch_sizes: list[int] | None = None
    """Of 'agents': worlds. By default 16 and 128 on CPU, 1024 of hideseek; on CUDA 128 and 1024 of micro, 1024 of
    overcooked, 16384 of hideseek, which with 40 agents are 1.4 and 4.4 GB for each executor."""
    trace_environment: str = "hideseek"
    """Of 'trace': as in --environments."""
    trace_worlds: int | None = None
    """Of 'trace'. By default 16384 on CUDA, as in the paper, and 4096 on CPU."""
    device: str = "cpu"
    seconds: float = 0.5
    """Length of one run; a figure is the median of the runs, a trace the shortest of so many steps."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    warm_up_seconds: float = 4.0
    """Longest time for up to 1000 steps before the first run, in which dynamic tables grow as they need."""
    tune_seconds: float = 5.0
    """What sim.tune() may take for each environment."""
    output: Path = Path("runs/paper")
    """Folder for tables.txt, paper.json, figure3.png to figure5.png, and figure5.json, which ui.perfetto.dev reads."""

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
        """Raise ValueError for options that no machine can measure."""
        sizes = [n for given in (self.batch_sizes, self.agents, self.agents_batch_sizes) for n in given or ()]
        sizes += [] if self.trace_worlds is None else [self.trace_worlds]
        lengths = [self.seconds, self.warm_up_seconds, self.tune_seconds]
        if any(n < 1 for n in sizes) or min(lengths) <= 0 or self.runs < 1:
            given = f"worlds and agents {sizes}, seconds {lengths}, runs {self.runs}"
            raise ValueError(f"numbers of worlds, agents, seconds and runs must be positive, got {given}")
        for name in ("experiments", "environments", "agents_environments"):
            if not getattr(self, name):
                raise ValueError(f"--{name.replace('_', '-')} needs at least one name")
        for name in self.agents_environments:
            if name not in CROWDS:
                raise ValueError(f"--agents-environments are of {', '.join(CROWDS)}, got {name!r}")


def main(arguments: Sequence[str]) -> None:
    """Measure; print tables and write them, all figures, and the pictures."""
    options = parsed(PaperOptions, "python examples/experiments/paper.py", arguments)
    try:
        options.check()
        needed("matplotlib")  # before the measurements, not after them
        checked_device(options.device)
        makers = {name: _maker(name) for name in options.environments}
        traced = _maker(options.trace_environment)
    except (ValueError, RuntimeError, ImportError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from None
    made_folder(options.output, "--output")
    for name in PICTURES:  # of another run
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
        ("trace", partial(measure_trace, traced)),
    ):
        if name in options.experiments:
            result[name] = measure_it(options)
            text = write(result, options.output)  # after each: the next may take long
    print(f"\n{text}\nwritten to {options.output}")
    if not any("error" not in cell for record in all_records(result) for cell in record["cells"].values()):
        raise SystemExit("error: nothing could be measured")


# ---- measuring -----------------------------------------------------------------------------------------------------


def _maker(environment: str) -> Make:
    if environment == "micro":
        return make_micro
    try:
        env_id = find_id(environment)
    except ValueError as error:
        raise ValueError(f"{error} (and 'micro')") from None
    gymnasium.spec(env_id)  # raises for an unknown id
    return lambda **arguments: gymnasium.make_vec(env_id, **arguments).unwrapped


def measure_batch(makers: Mapping[str, Make], options: PaperOptions) -> list[Record]:
    """Every executor beside the others, for every environment and number of worlds."""
    records = []
    for name, make in makers.items():
        for worlds in options.sizes(name):
            cells = _executors(make, worlds, options)
            agents = next((cell["agents"] for cell in cells.values() if "error" not in cell), None)
            records.append({"environment": name, "num_worlds": worlds, "agents": agents, "cells": cells})
            _print(records[-1])
    return records


def measure_agents(options: PaperOptions) -> list[Record]:
    """Every executor beside the others, for every number of agents."""
    records = []
    for name in dict.fromkeys(options.agents_environments):
        for worlds, agents in options.over_agents(name):
            cells = _executors(partial(CROWDS[name].make, agents), worlds, options)
            records.append({"environment": name, "num_worlds": worlds, "agents": agents, "cells": cells})
            _print(records[-1])
    return records


def _executors(make: Make, worlds: int, options: PaperOptions) -> dict[str, Cell]:
    made = partial(make, num_worlds=worlds, device=options.device)
    return side_by_side({name: partial(made, executor=name) for name in EXECUTORS[options.device_type]}, options)


def measure_tune(makers: Mapping[str, Make], options: PaperOptions) -> list[Record]:
    """The device's default executor beside the choice of ``sim.tune()``."""
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

        # By its name: without one an earlier choice of sim.tune() might run.
        default = partial(made, executor=EXECUTORS[options.device_type][0])
        cells = record["cells"] = side_by_side({"default": default, "tuned": tuned}, options)
        if not any("error" in cell for cell in cells.values()):
            gains = [b / a for a, b in zip(cells["default"]["runs"], cells["tuned"]["runs"], strict=True)]
            record.update(gain=statistics.median(gains), gain_least=min(gains), gain_most=max(gains))
        records.append(record)
        _print(record)
    return records


def measure_trace(make: Make, options: PaperOptions) -> list[Record]:
    """The systems of a step of the device's default executor, in time: ``figure5.png``, ``figure5.json``, and a table.
    Takes the shortest of several steps, which other work of the machine has disturbed least."""
    executor, worlds = EXECUTORS[options.device_type][0], options.trace_worlds or _TRACED_WORLDS[options.device_type]
    try:
        env = make(num_worlds=worlds, device=options.device, executor=executor)
        env.reset(seed=0)
        actions = random_actions(env)
        warm_up(env, actions, options.warm_up_seconds)
        trace = min((_traced_step(env, actions) for _ in range(options.runs)), key=lambda trace: trace.span)
        env.sim.check_faults()
        trace.draw(options.output / "figure5.png")
        trace.save(options.output / "figure5.json")
        cell: Cell = {"agents": env.num_agents, "us": trace.span, "busy": trace.busy, "tasks": trace.table()}
        env.close()
        printed = f"{trace.span / 1e3:.1f} ms a step"
    except Exception as error:  # as in side_by_side
        cell = {"error": f"{type(error).__name__}: {error}"}
        printed = cell["error"].splitlines()[0]
    print(f"{options.trace_environment}, {in_k(worlds)} worlds, traced: {executor} {printed}", flush=True)
    return [{"environment": options.trace_environment, "num_worlds": worlds, "cells": {executor: cell}}]


def _traced_step(env: TorchVectorEnv, actions: Sequence[torch.Tensor]) -> Trace:
    with env.sim.tracing() as trace:
        for i in range(_SLOW_STEPS):
            env.step(actions[i % len(actions)])
        trace.restart()
        env.step(actions[_SLOW_STEPS % len(actions)])
    return trace


def warm_up(env: TorchVectorEnv, actions: Sequence[torch.Tensor], seconds: float) -> None:
    """Let dynamic tables grow: while they do, a step takes several times as long as later."""
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
        except Exception as error:  # any: out of memory, no compiler, a fault of a world
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


def _print(record: Record) -> None:
    what = [record["environment"], f"{in_k(record['num_worlds'])} worlds"]
    what += [f"{record['agents']} agents in each"] if (record.get("agents") or 1) > 1 else []
    rates = (
        f"{name} {cell['error'].splitlines()[0] if 'error' in cell else figure(cell['world_steps_per_second'])}"
        for name, cell in record["cells"].items()
    )
    print(f"{', '.join(what)}: {', '.join(rates)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
