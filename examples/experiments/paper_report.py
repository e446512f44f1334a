"""Tables and figures of the measurements of ``paper.py``, beside the paper's own numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from charts import Line, Panel, draw, in_k
from crowds import CROWDS

from torch_batchsim.base.text import figure, table

Cell = dict[str, Any]
"""Figures of one contender, or its ``error``."""
Record = dict[str, Any]
"""Measurements side by side: environment, num_worlds, and ``cells`` by name."""

PICTURES = ("figure3.png", "figure4.png", "figure5.png", "figure5.json")
_LEAST_SHARE = 0.1  # per cent of a step: tasks of less are one row of figure 5's table

# The paper's tables 1 and 2, in environment steps per second, and the time of the step in its figure 5.
PAPER = {
    "machine": "GeForce RTX 4090 and Core i9 13900K with 32 threads",
    "table_1": {
        "BATCH-ECS-GPU": {"hideseek": 1.9e6, "overcooked": 4.0e7, "hanabi": 2.1e7, "cartpole": 3.4e9},
        "ECS-GPU": {"hideseek": 4.5e4, "overcooked": 1.1e6, "hanabi": 4.1e6, "cartpole": 1.4e8},
        "ECS-CPU": {"hideseek": 1.6e5, "overcooked": 1.2e6, "hanabi": 4.1e6, "cartpole": 2.8e7},
        "REF-CPU": {"hideseek": 6.9e3, "overcooked": 9.7e3, "hanabi": 1.3e4, "cartpole": 1.4e5},
    },
    "table_2": {"hideseek": {"num_worlds": 32 * 1024, "default": 1.4e6, "tuned": 1.9e6, "gain": 1.35}},
    "figure_5": {"hideseek": {"num_worlds": 16 * 1024, "ms": 7.9}},
}
_COUNTERPARTS = {
    "cpu": "per_world is what the paper calls ECS-CPU; it has none of batch",
    "cuda": "graph and megakernel are what the paper calls BATCH-ECS-GPU, per_world is its ECS-GPU",
}


def write(result: Mapping[str, Any], folder: Path) -> str:
    """Write the results so far into ``folder``; returns the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paper.json").write_text(json.dumps(result, indent=2) + "\n")
    machine = result["machine"]
    where = f"{machine['device']}, {machine['cores']} cores, commit {machine['commit']}"
    text = f"{where}\n\n{tables(result)}\n"
    (folder / "tables.txt").write_text(text)
    many = f"medians of {result['runs']} runs, shaded from the slowest to the fastest"
    how = many if result["runs"] > 1 else "one run each"
    for name, panels, records, title, columns in (
        ("figure3.png", batch_panels, result.get("batch"), "Throughput over the number of worlds", 3),
        ("figure4.png", agents_panels, result.get("agents"), "Throughput over agents in a world", 2),
    ):
        if records:
            draw(panels(records), f"{title}\n{where}\n{how}", folder / name, columns)
    return text


def tables(result: Mapping[str, Any]) -> str:
    """The measurements as text; ``failed [1]`` refers to the errors at the end."""
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
    for record in result.get("trace", ()):
        parts += _figure_5(record, text)
    drawn = [record["environment"] for record in all_records(result) if _draws(record)]
    if drawn:
        parts.append(
            f"Steps of {', '.join(dict.fromkeys(drawn))} include drawing actions that its masks allow; how long that "
            'takes is in paper.json as "us_of_drawing".\n'
        )
    return "\n".join([*parts, *(f"[{number}] {error}" for error, number in errors.items())]).rstrip("\n")


def all_records(result: Mapping[str, Any]) -> list[Record]:
    return [record for experiment in ("batch", "tune", "agents", "trace") for record in result.get(experiment, ())]


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


def _figure_5(record: Record, text: Callable[..., str]) -> list[str]:
    """A table of the time by task, under a heading."""
    [(executor, cell)] = record["cells"].items()
    name, where = record["environment"], f"{in_k(record['num_worlds'])} worlds, {executor}"
    heading = f"Figure 5. Time of {name} by system, summed over threads or blocks. {where}"
    if "error" in cell:
        return [f"{heading}: {text(cell)}.\n"]
    of_step = f"{cell['us'] / 1e3:,.2f} ms a step, busy for {100 * cell['busy']:.0f} % of it"
    theirs = PAPER["figure_5"].get(name)
    if theirs is not None:
        of_step += f" (paper: {theirs['ms']:g} ms of {in_k(theirs['num_worlds'])} worlds, on other hardware)"
    shown = [task for task in cell["tasks"] if task["share %"] >= _LEAST_SHARE]
    rest = [task for task in cell["tasks"] if task["share %"] < _LEAST_SHARE]
    if rest:
        sums = {key: sum(task[key] for task in rest) for key in ("us/step", "share %")}
        shown.append({"task": f"{len(rest)} others", "phase": "", **sums})
    rows = [
        {"task": task["task"], "worlds": task["phase"]}
        | {"us/step": f"{task['us/step']:,.1f}", "%": f"{task['share %']:.1f}"}
        for task in shown
    ]
    return [f"{heading}: {of_step}.", table(rows) + "\n"]


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
