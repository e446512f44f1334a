"""``examples/experiments/beside_ale.py``: Atari beside ale-py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import beside_ale
import pytest

from torch_batchsim.command_line import UsageError


def test_figures_are_medians_of_turns() -> None:
    times = {
        "ale_py": [100.0, 90.0, 300.0],
        "not_drawn": [20.0, 30.0, 30.0],  # 5, 3 and 10 times
        "2_of_4_drawn": [40.0, 40.0, 41.0],
        "all_drawn": [50.0, 45.0, 100.0],
        "84x84": [50.0, 45.0, 45.0],  # 10, 5 and 4 more a frame
    }
    assert beside_ale.row_of("pong", times) == {
        "game": "pong",
        "ale_py_frames_per_second": 10_000,
        "not_drawn_is_faster_by": "5.00",
        "2_of_4_drawn_is_faster_by": "2.50",
        "all_drawn_is_faster_by": "2.00",
        "84x84_is_faster_by": "2.00",
        "chain_us_per_step": "20.0",
    }


def test_contenders_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, turns = 0.0, []

    def player(name: str, seconds: float) -> Callable[[int], int]:
        def play(count: int) -> int:
            nonlocal now
            now += seconds * count
            turns.append((name, count))
            return 8 * count

        return play

    plays = {"ale_py": player("ale_py", 0.08), **{name: player(name, 0.02) for name in beside_ale.OURS}}
    monkeypatch.setattr(beside_ale, "contenders", lambda game, num_worlds, compiled: plays)
    monkeypatch.setattr(beside_ale.time, "process_time", lambda: now)
    path = tmp_path / "ale.json"
    beside_ale.main([*"--games pong --seconds 0.4 --runs 2 --json".split(), str(path)])
    names = list(plays)
    assert [name for name, _ in turns[-10:]] == names * 2
    assert [round(count / 5) for _, count in turns[-5:]] == [1, 4, 4, 4, 4]
    (row,) = json.loads(path.read_text())["rows"]
    assert row["all_drawn_is_faster_by"] == "4.00" and row["ale_py_frames_per_second"] == 100
    assert "not_drawn_is_faster_by" in capsys.readouterr().out


@pytest.mark.full
def test_each_plays() -> None:
    pytest.importorskip("ale_py", reason="ale-py is not installed: nothing is beside ours")
    plays = beside_ale.contenders("pong", 2)
    assert {name: play(1) for name, play in plays.items()} == {
        "ale_py": 4, "not_drawn": 8, "2_of_4_drawn": 8, "all_drawn": 4, "84x84": 8,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--games pong pang", "--games takes names of torch_batchsim.envs.atari.games, got pang"),
        ("--runs 0", "--num-worlds, --runs and --seconds must be positive"),
    ],
)
def test_bad_options(given: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        beside_ale.main(given.split())
