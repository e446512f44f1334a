"""``python -m torch_batchsim.bench groups``: what is measured, printed and written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from torch_batchsim import GroupedEnv, TorchVectorEnv
from torch_batchsim.bench import cli
from torch_batchsim.bench.groups import Terrain


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out" / "figures.json"
    short = ["--num-envs", "24", "--terrains", "6", "--groups", "2", "3", "--seconds", "0.01", "--runs", "1"]
    given = ["bench", "groups", "cartpole", *short, "--wait-ms", "1", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", given)
    cli.main()
    rows = json.loads(path.read_text())["rows"]
    assert [(row["policy"], row["groups"]) for row in rows] == [
        (policy, groups) for policy in ("none", "same threads", "elsewhere", "none") for groups in (1, 2, 3)
    ]
    assert all(row["rows_per_second"] > 0 for row in rows) and {row["ratio"] for row in rows[::3]} == {1}
    assert all(
        row["ratio"] == row["rows_per_second"] / rows[i // 3 * 3]["rows_per_second"] for i, row in enumerate(rows)
    )
    printed = capsys.readouterr().out
    assert "Groups gain where threads wait" in printed and "Terrain" in printed and " 1.00\n" in printed
    for wrong, says in ((["--groups", "5"], "multiple of 5 groups"), (["--runs", "0"], "must be positive")):
        monkeypatch.setattr(sys, "argv", [*given, *wrong])
        with pytest.raises(SystemExit, match=rf"error: .*{says}"):
            cli.main()


def test_terrains_in_groups_are_those_of_one_batch() -> None:
    options = {"detail": 2, "steps": 5.0}
    whole = TorchVectorEnv(Terrain(**options), 6, copy=True)
    ended = 0
    with GroupedEnv(Terrain(**options), 6, groups=3) as env:
        observations = whole.reset(seed=1)[0]
        env.async_reset(seed=1)
        for _ in range(30):
            batches = sorted((env.recv() for _ in range(3)), key=lambda batch: batch.group)
            assert torch.equal(torch.cat([batch.observations for batch in batches]), observations)
            for batch in batches:
                env.send(batch.group, torch.full((2,), 2))
            observations, _, terminated, *_ = whole.step(torch.full((6,), 2))
            ended += int(terminated.sum())
    assert 10 < ended < 80
