"""The paper's experiments: contenders that fail do not end the rest; tables and figures are written."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import paper
import pytest
from micro import Micro
from paper_report import Cell, Record, tables

from torch_batchsim import TorchVectorEnv
from torch_batchsim.bench.throughput import Rate

# ---- measuring -------------------------------------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path: Path) -> paper.PaperOptions:
    return paper.PaperOptions(seconds=0.001, runs=3, warm_up_seconds=0.1, tune_seconds=0.1, output=tmp_path / "out")


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a few steps for each run, and not a tenth of a second."""

    def measure(step: Any, actions: Any, worlds: int, seconds: float, runs: int, device: str) -> Rate:
        started = time.perf_counter()
        for i in range(4):
            step(actions[i])
        rate = 4 * worlds / (time.perf_counter() - started)
        return Rate(rate, rate, rate)

    monkeypatch.setattr(paper, "measure", measure)


def micro(agents: int = 3, **arguments: Any) -> TorchVectorEnv:
    return TorchVectorEnv(Micro(agents=agents, work=1), **arguments)


@pytest.mark.full
def test_errors_are_text_in_their_cells(options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory() -> TorchVectorEnv:
        raise MemoryError

    def breaks_in_the_second_run() -> TorchVectorEnv:
        env, faults = micro(num_worlds=2), iter([None, RuntimeError("world 1 fell apart\nin two")])

        def check() -> None:
            if error := next(faults):
                raise error

        monkeypatch.setattr(env.sim, "check_faults", check)
        return env

    makers = {"small": no_memory, "broken": breaks_in_the_second_run, "good": partial(micro, num_worlds=2)}
    cells = paper.side_by_side(makers, options)
    assert cells["small"] == {"error": "MemoryError: "}
    assert cells["broken"] == {"error": "RuntimeError: world 1 fell apart\nin two"}
    good = cells["good"]
    assert len(good["runs"]) == 3 and good["world_steps_per_second"] == np.median(good["runs"])
    assert good["agents"] == 3 and good["agent_steps_per_second"] == 3 * good["world_steps_per_second"]


class _Report:
    gain = 1.5
    chosen = "tiles of 7 worlds"

    def as_dict(self) -> dict[str, float]:
        return {"gain": 1.5}


@pytest.mark.full
def test_all_experiments_end_to_end(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch_batchsim.Simulator.tune", lambda sim, seconds=5.0: _Report())
    sizes = ["--batch-sizes", "2", "4", "--agents", "3", "2000", "--agents-batch-sizes", "2", "--trace-worlds", "8"]
    crowds = ["--agents-environments", "micro", "--trace-environment", "cartpole"]
    paper.main(["--environments", "cartpole", *sizes, *crowds, "--runs", "2", "--output", str(options.output)])
    printed = capsys.readouterr().out
    assert {path.name for path in options.output.iterdir()} == {
        "paper.json", "tables.txt", "figure3.png", "figure4.png", "figure5.png", "figure5.json"
    }  # fmt: skip
    text = (options.output / "tables.txt").read_text()
    assert text in printed
    names = ("Table 1", "Table 2", "Figure 3", "Figure 4, micro", "Figure 5")
    assert all(f"{name}." in text for name in names)
    assert "failed [1]" in text and "[1] ValueError: option agents must be at most 1024, got 2000" in text
    result = json.loads((options.output / "paper.json").read_text())
    assert [len(result[name]) for name in ("batch", "tune", "agents", "trace")] == [2, 1, 2, 1]
    assert result["tune"][0]["chosen"] == "tiles of 7 worlds" and result["tune"][0]["num_worlds"] == 4


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--runs", "0"], "must be positive"),
        (["--environments", "cartpol"], "no environment 'cartpol' .*; known are: ant, atari, .* \\(and 'micro'\\)"),
        (["--agents-environments", "cartpole"], "are of micro, overcooked, hideseek, got 'cartpole'"),
        (["--device", "tpu"], "device must be 'cpu', 'cuda' or 'cuda:<index>', got 'tpu'"),
    ],
)
def test_wrong_options_end_in_a_sentence(arguments: list[str], message: str, options: paper.PaperOptions) -> None:
    with pytest.raises(SystemExit, match=message):
        paper.main([*arguments, "--output", str(options.output)])
    assert not options.output.exists()


# ---- tables and figures ----------------------------------------------------------------------------------------------


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


def test_table_1_shows_peaks_beside_the_papers() -> None:
    text = tables({"batch": BATCH, "device_type": "cpu"})
    block = text[text.index("Table 1") :].split("\n\n")[0]
    lines = ([part.strip() for part in line.split("  ") if part.strip()] for line in block.splitlines())
    rows = {line[0]: line[1:] for line in lines if len(line) > 1}
    assert rows["executor"] == ["cartpole", "maze", "hideseek", "overcooked", "hanabi"]
    assert rows["batch"] == ["300.0 M @ 1K", "failed [1]", "-", "-", "-"]
    assert rows["per_world"] == ["1.0 M @ 64", "failed [2]", "-", "-", "-"]
    assert rows["paper ECS-CPU"] == ["28.0 M", "-", "160.0 k", "1.2 M", "4.1 M"]
    assert text.endswith("[1] MemoryError: no 3 GiB\n[2] OSError: ")
