"""``python -m torch_batchsim.bench contention``: what is measured, printed and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torch_batchsim.bench.contention import main, measure
from torch_batchsim.command_line import UsageError


@pytest.mark.full
def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    main(["cartpole", "--num-envs", "3000", "--busy", "1", "--seconds", "0.02", "--runs", "1", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [(row["envs"], row["busy"], row["threads"]) for row in rows] == [
        (3000, 1, threads) for threads in ("all", "team", "one")
    ]
    assert all(0 < row["policy_step"] < row["policy_loop"] and row["tight_step"] > 0 for row in rows)
    assert "policy_loop" in capsys.readouterr().out


def test_a_run_has_times() -> None:
    times = measure("cartpole", 64, "one", 0.01)
    assert times["tight_step"] > 0 and 0 < times["policy_step"] < times["policy_loop"]


@pytest.mark.parametrize(
    ("given", "says"),
    [(["--runs", "0"], "must be positive"), (["nothing"], "nothing"), (["--busy", "-1"], "at least 0")],
)
def test_bad_input(given: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        main([*given, "--json", str(tmp_path / "figures.json")])
