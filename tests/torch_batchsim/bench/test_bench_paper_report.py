"""What the paper's experiments have measured, as tables and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_batchsim.bench import charts
from torch_batchsim.bench.paper_report import Cell, Record, agents_panels, batch_panels, tables


def cell(rate: float, agents: int = 1) -> Cell:
    return {
        "agents": agents, "world_steps_per_second": rate, "agent_steps_per_second": rate * agents,
        "slowest_run": 0.9 * rate, "fastest_run": 1.1 * rate, "runs": [rate],
    }  # fmt: skip


def sweep(name: str, agents: int | None, *cells: tuple[int, Cell, Cell]) -> list[Record]:
    return [
        {"environment": name, "num_worlds": worlds, "agents": agents, "cells": {"batch": batch, "per_world": other}}
        for worlds, batch, other in cells
    ]


FAILED = {"error": "MemoryError: no 3 GiB\nhere"}
BATCH = [
    *sweep("cartpole", 1, (64, cell(2e6), cell(1e6)), (1024, cell(3e8), FAILED), (4096, cell(2e8), cell(5e5))),
    *sweep("maze", None, (64, FAILED, {"error": "OSError: "})),
]


def lines_of(text: str, start: str) -> list[list[str]]:
    """The cells of the table that follows the line that begins with ``start``."""
    block = text[text.index(start) :].split("\n\n")[0]
    return [[part.strip() for part in line.split("  ") if part.strip()] for line in block.splitlines()]


def test_table_1_shows_peaks_beside_the_papers() -> None:
    text = tables({"batch": BATCH, "device_type": "cpu"})
    rows = {line[0]: line[1:] for line in lines_of(text, "Table 1") if len(line) > 1}
    assert rows["executor"] == ["cartpole", "maze", "hideseek", "overcooked", "hanabi"]
    assert rows["batch"] == ["300.0 M @ 1K", "failed [1]", "-", "-", "-"]
    assert rows["per_world"] == ["1.0 M @ 64", "failed [2]", "-", "-", "-"]
    assert rows["paper BATCH-ECS-GPU"] == ["3.4 G", "-", "1.9 M", "40.0 M", "21.0 M"]
    assert rows["paper ECS-CPU"] == ["28.0 M", "-", "160.0 k", "1.2 M", "4.1 M"]
    assert "the paper's own figures, on other hardware: GeForce RTX 4090" in text
    assert text.endswith("[1] MemoryError: no 3 GiB\n[2] OSError: ")


def test_figures_3_and_4_as_tables() -> None:
    rows = lines_of(tables({"batch": BATCH, "device_type": "cpu"}), "Figure 3")
    assert rows[1] == ["environment", "worlds", "agents", "batch", "per_world"]
    assert rows[4:] == [
        ["cartpole", "1K", "1", "300.0 M", "failed [1]"],
        ["cartpole", "4K", "1", "200.0 M", "500.0 k"],
        ["maze", "64", "-", "failed [1]", "failed [2]"],
    ]
    few, many = sweep("micro", 16, (128, cell(2e3, 16), FAILED)), sweep("overcooked", 40, (16, FAILED, cell(1e3, 40)))
    text = tables({"agents": [*few, *many]})
    rows = lines_of(text, "Figure 4, micro.")
    assert rows[2] == ["worlds", "agents", "batch worlds", "batch agents", "per_world worlds", "per_world agents"]
    assert rows[4:] == [["128", "16", "2.0 k", "32.0 k", "failed [1]", "failed [1]"]]
    rows = lines_of(text, "Figure 4, overcooked.")
    assert rows[4:] == [["16", "40", "failed [1]", "failed [1]", "1.0 k", "40.0 k"]]
    assert "drawing" not in text


def test_table_2_shows_gains_beside_the_papers() -> None:
    record = {"environment": "maze", "num_worlds": 64, "cells": {"default": cell(1e6), "tuned": cell(2e6)}}
    rows = lines_of(tables({"tune": [record | {"gain": 1.98, "chosen": "tiles of 7 worlds"}]}), "Table 2")
    assert rows[-2:] == [
        ["maze", "64", "1.0 M", "2.0 M", "1.98", "tiles of 7 worlds"],
        ["paper hideseek", "32K", "1.4 M", "1.9 M", "1.35", "-"],
    ]


def test_panels_hold_what_did_not_fail() -> None:
    cartpole, maze = batch_panels(BATCH)
    assert cartpole.title == "cartpole" and [line.label for line in cartpole.lines] == ["batch", "per_world"]
    assert [point[:2] for point in cartpole.lines[1].points] == [(64, 1e6), (4096, 5e5)]
    assert not any(line.points for line in maze.lines)
    few, many = sweep("micro", 16, (16, cell(2e3, 16), FAILED), (128, cell(1e3, 16), cell(3e3, 16)))
    agents, worlds, *others = agents_panels([few, many, *sweep("overcooked", 2, (16, cell(1e3, 2), FAILED))])
    assert (agents.title, worlds.title) == ("micro: steps of agents", "micro: steps of worlds")
    assert [panel.title for panel in others] == ["overcooked: steps of agents", "overcooked: steps of worlds"]
    assert [len(line.points) for panel in others for line in panel.lines] == [1, 0, 1, 0]
    assert [line.label for line in agents.lines] == [
        "batch, 16 worlds", "per_world, 16 worlds", "batch, 128 worlds", "per_world, 128 worlds"
    ]  # fmt: skip
    assert [(line.colour, line.style) for line in agents.lines] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert agents.lines[0].points == [(16, 32e3, pytest.approx(28.8e3), pytest.approx(35.2e3))]
    assert worlds.lines[3].points == [(16, 3e3, pytest.approx(2.7e3), pytest.approx(3.3e3))]


def test_charts_are_pictures(tmp_path: Path) -> None:
    import matplotlib.image

    panels = [*batch_panels(BATCH)] * 2
    charts.draw(panels, "a title", tmp_path / "chart.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "chart.png").shape
    assert (height, width) == (120 * 8, 120 * 15)  # two rows of three columns
    assert [charts.in_k(n) for n in (1, 1000, 1024, 1536, 2**20)] == ["1", "1000", "1K", "1536", "1024K"]


TASKS = [
    {"task": "simulate", "phase": "live", "us/step": 9000.0, "share %": 90.0},
    {"task": "look", "phase": "all", "us/step": 990.0, "share %": 9.9},
    *({"task": name, "phase": "all", "us/step": 5.0, "share %": 0.05} for name in ("pay", "end")),
]


def test_figure_5_as_a_table() -> None:
    traced = {"agents": 5, "us": 5250.0, "busy": 0.952, "tasks": TASKS}
    record = {"environment": "hideseek", "num_worlds": 4096, "cells": {"batch": traced}}
    text = tables({"trace": [record]})
    assert "4K worlds, batch: 5.25 ms a step, busy for 95 % of it (paper: 7.9 ms of 16K worlds, on other" in text
    rows = lines_of(text, "Figure 5")
    assert rows[1] == ["task", "worlds", "us/step", "%"]
    assert rows[3:] == [
        ["simulate", "live", "9,000.0", "90.0"], ["look", "all", "990.0", "9.9"], ["2 others", "10.0", "0.1"]
    ]  # fmt: skip
    text = tables({"trace": [record | {"environment": "maze", "cells": {"graph": FAILED}}]})
    assert "4K worlds, graph: failed [1]." in text and "paper" not in text
