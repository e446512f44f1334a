"""The benchmark of rows that come and go: engine and baselines compute the same, and figures are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torch_batchsim.bench import ecs


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 16, 100])
def test_engine_and_baselines_compute_the_same(rows: int, threads: int) -> None:
    ecs.check_same(rows, threads)


@pytest.mark.full
def test_a_tenth_of_the_rows_is_replaced_in_each_step() -> None:
    worlds, rows, steps = 100, 50, 20
    sim = ecs._engine(worlds, rows, 1)
    replaced = 0
    for _ in range(steps):
        before = sim.entities("Particle").packed()[0]
        sim.step()
        still = sim.find([w for w in range(worlds) for _ in range(rows)], before) >= 0
        replaced += int((~still).sum())
        assert sim.ragged("Particle.Dice").counts.tolist() == [rows] * worlds
    assert replaced / (worlds * rows * steps) == pytest.approx(0.1, abs=0.005)


@pytest.mark.full
@pytest.mark.parametrize("handles", [False, True])
def test_one_bit_or_one_row_that_differs_is_seen(handles: bool) -> None:
    sim = ecs._engine(3, 5, 1)
    baseline = ecs.Baseline(3, 5, 1, handles)
    for step in (sim.step, baseline.step):
        step()
    theirs = baseline.state()
    baseline.close()
    assert ecs.differences(ecs.engine_state(sim), theirs) == []
    sim.tensor("Particle.Dice.state")[1] ^= 1
    assert ecs.differences(ecs.engine_state(sim), theirs) == ["Dice"]
    sim.destroy([2], sim.entities("Particle").world(2)[:1])
    assert ecs.differences(ecs.engine_state(sim), theirs) == ["counts", "Place", "Motion", "Dice"]


@pytest.mark.full
def test_figures_are_refused_where_results_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecs.Baseline, "step", lambda self: None)
    with pytest.raises(RuntimeError, match=r"differ after 50 steps.*Place, Motion, Dice differ"):
        ecs.measure_ecs([8], [4], 1, 0.001, 1)


@pytest.mark.full
def test_bookkeeping_is_counted_by_row_and_by_world() -> None:
    # world 4, birth 8, doomed 4; first (and one for the end), count, added, crowded, tag, tick 4 each.
    assert ecs.bookkeeping_bytes(ecs._engine(8, 4, 1)) == (16, 24 + 4 / 8)
    assert ecs.bookkeeping_bytes(ecs._engine(8, 40, 1)) == (16, 24 + 4 / 8)


@pytest.mark.full
def test_the_command_line_writes_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures" / "ecs.json"
    options = ["--num-envs", "4", str(2**23), "--rows", "3", "--seconds", "0.001", "--runs", "1", "--json", str(path)]
    done = _run("ecs", *options, "--num-threads", "1")
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stdout and "engine/plain" in done.stdout
    figures = json.loads(path.read_text())
    assert figures["benchmark"] == "ecs" and "cores" in figures["machine"]
    [row] = figures["rows"]
    assert (row["worlds"], row["rows"], row["threads"]) == (4, 3, 1)
    rates = {f"{name}_rows_per_second" for name in ("engine", "plain", "handles")}
    ratios = {f"engine_to_{name}{part}" for name in ("plain", "handles") for part in ("", "_least", "_most")}
    assert rates | ratios <= row.keys() and all(row[name] > 0 for name in rates | ratios)
    assert {"bookkeeping_bytes_per_row", "bookkeeping_bytes_per_world"} <= row.keys()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch_batchsim.bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
