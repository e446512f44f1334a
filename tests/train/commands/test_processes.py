"""Trainings of several processes from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_worker import free_port, started
from torch_batchsim.train.base.ranks import Ranks
from torch_batchsim.train.commands import cli, processes
from torch_batchsim.train.run_folder import checkpoint
from training import assert_close

SMALL = ["--num-envs", "8", "--num-steps", "16", "--num-minibatches", "2", "--eval-episodes", "4", "--track", "none"]


def command(folder: Path, *arguments: Any) -> list[str]:
    return ["-m", "torch_batchsim.train", "cartpole", *SMALL, "--run-dir", str(folder), *map(str, arguments)]


def both(arguments: list[str]) -> list[tuple[int, str, str]]:
    """Status, output and errors of two processes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    made = started(2, arguments, **pipes)
    try:
        reported = [process.communicate(timeout=120) for process in made]
        return [(process.returncode, *texts) for process, texts in zip(made, reported, strict=True)]
    finally:
        for process in made:
            process.kill()


def state(folder: Path) -> dict[str, Any]:
    contents = checkpoint.load(folder / "checkpoint.pt", None)
    found = {name: part for name, part in contents["trainer"].items() if name not in ("env", "config")}
    return {"steps": contents["steps"], "curve": contents["curve"], **found}


def alone(*arguments: Any) -> None:
    assert cli.main([str(argument) for argument in arguments]) == 0


def test_two_processes_make_one_run_and_one_goes_on_with_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (first, output, errors), second = both(command(two, "--total-steps", 512, "--summary", tmp_path / "two.json"))
    assert (first, second) == (0, (0, "", "")), errors
    assert "for 512 steps on cpu in 2 processes" in output and "evaluation      mean return" in output
    alone(*command(one, "--total-steps", 512, "--summary", tmp_path / "one.json")[2:])
    assert_close(state(one), state(two))
    summaries = [json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json")]
    assert_close(*({**summary, "train_seconds": 0.0} for summary in summaries))
    assert [path.name for path in sorted(one.iterdir())] == [path.name for path in sorted(two.iterdir())]
    for folder in (one, two):
        alone("cartpole", "--resume", folder, "--total-steps", 1024, "--eval-episodes", 0, "--track", "none")
    assert_close(state(one), state(two))
    assert [run["processes"] for run in json.loads((two / "run.json").read_text())["runs"]] == [2, 1]


@pytest.mark.full
def test_two_processes_go_on_where_one_has_stopped(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        alone(*command(folder, "--total-steps", 512)[2:])
    more = ["--total-steps", "1024", "--eval-episodes", "0", "--track", "none"]
    alone("cartpole", "--resume", one, *more)
    again = both(["-m", "torch_batchsim.train", "cartpole", "--resume", str(two), *more])
    assert [status for status, *_ in again] == [0, 0]
    assert_close(state(one), state(two))


ON_MACHINES_OF_THEIR_OWN = """
import os, sys
from torch_batchsim.train.base import neighbours
from torch_batchsim.train.commands import cli
neighbours._machine = lambda: os.environ["GROUP_RANK"]
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.full
def test_processes_of_two_launchers_learn_what_one_does(tmp_path: Path) -> None:
    """As on two machines, by gloo: `torchrun --nnodes=2`."""
    one, two, script = tmp_path / "one", tmp_path / "two", tmp_path / "train.py"
    script.write_text(ON_MACHINES_OF_THEIR_OWN)
    port, paths = free_port(), os.pathsep.join(path or "." for path in sys.path)
    run = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--master-port={port}"]
    rest = ["--master-addr=127.0.0.1", str(script), *command(two, "--total-steps", 512)[2:]]
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    made = [subprocess.Popen([*run, f"--node-rank={node}", *rest], env=env) for node in range(2)]
    try:
        assert [process.wait(timeout=120) for process in made] == [0, 0]
    finally:
        for process in made:
            process.kill()
    alone(*command(one, "--total-steps", 512)[2:])
    assert_close(state(one), state(two))


def interrupted(folder: Path, act: Any, *arguments: Any) -> list[tuple[int, str, str]]:
    """Two processes with a long way to go, on whose processes `act` acts once there is a checkpoint."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    made = started(2, command(folder, "--total-steps", 10**9, "--checkpoint-every", 2, *arguments), **pipes)
    try:
        end = time.monotonic() + 60
        while not (folder / "checkpoint.pt").exists():
            assert all(process.poll() is None for process in made) and time.monotonic() < end
            time.sleep(0.05)
        act(made)
        reported = [process.communicate(timeout=60) for process in made]
        return [(process.returncode, *texts) for process, texts in zip(made, reported, strict=True)]
    finally:
        for process in made:
            process.kill()


def assert_goes_on(folder: Path) -> None:
    steps = checkpoint.load(folder / "checkpoint.pt", None)["steps"]
    end = steps + 256
    alone("cartpole", "--resume", folder, "--total-steps", end, "--eval-episodes", 0, "--track", "none")
    assert state(folder)["steps"] == end and all(map(torch.isfinite, torch.tensor(state(folder)["curve"]).flatten()))


@pytest.mark.full
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_process_ends_the_others_and_one_goes_on(lost: int, tmp_path: Path) -> None:
    reported = interrupted(tmp_path, lambda made: made[lost].kill())
    assert reported[lost][0] == -signal.SIGKILL
    status, _, errors = reported[1 - lost]
    assert status == 1 and "error: training failed after " in errors
    assert "steps: another of the 2 processes has ended" in errors
    steps = checkpoint.load(tmp_path / "checkpoint.pt", None)["steps"]
    assert (f"the last checkpoint is of {steps:,} steps" in errors) == (lost == 1)  # which the first process writes
    assert_goes_on(tmp_path)


@pytest.mark.full
def test_a_process_that_does_not_answer_ends_the_other(tmp_path: Path) -> None:
    def stop(made: list[subprocess.Popen[str]]) -> None:
        made[1].send_signal(signal.SIGSTOP)
        made[0].wait(timeout=60)
        made[1].kill()

    (status, _, errors), _ = interrupted(tmp_path, stop, "--process-timeout", 3)
    assert status == 1 and "steps: another of the 2 processes does not answer any more" in errors
    assert_goes_on(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--eval", "latest"], "--eval takes one process, but 2 were started"),
        (["--tune"], "--tune takes one process, but 2 were started"),
        (["--device", "cuda:0"], "each of 2 processes takes a GPU of its own: give cuda"),
        (["--device", "cuda"], "2 processes on this machine need a GPU each, but it has "),
    ],
)
@pytest.mark.parametrize("rank", ["0", "1"])
def test_what_several_processes_do_not_do(
    arguments: list[str], message: str, rank: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(cli.checkpoint, "find", lambda *_: None)
    status, errors = cli.main(["cartpole", *arguments]), capsys.readouterr().err
    assert (status, message in errors) == ((2, True) if rank == "0" else (0, False))


def test_worlds_are_divided_equally() -> None:
    assert processes.part_of_worlds(Ranks(1, 2), 12, 3) == {"num_envs": 6, "first_world": 2}
    with pytest.raises(processes.UsageError, match="must get as many worlds of 3 rows each: give 6 or 12"):
        processes.part_of_worlds(Ranks(1, 2), 9, 3)


def test_a_sweep_is_done_by_one_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    assert cli.main(["sweep", "cartpole"]) == 2
    assert "a sweep takes one process, but 2 were started: leave out torchrun" in capsys.readouterr().err
