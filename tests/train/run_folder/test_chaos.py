"""Trainings that are killed again and again end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import repeated
from torch_batchsim.train.commands import cli
from torch_batchsim.train.run_folder import checkpoint, lock
from training import assert_same

ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --track none --checkpoint-every 7".split()
LONG = [*SMALL, *"--total-steps 122880 --eval-episodes 4 --evaluate-every 160 --keep-best --keep 3".split()]
ROOT = Path(__file__).parents[3]


def found(folder: Path) -> dict[str, Any]:
    good = checkpoint.last_good(folder, ENV)
    assert good is not None
    return good[1]


def wait_for(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


# ---- a save ----------------------------------------------------------------------------------------------


def status_of(work: Callable[[], None]) -> int:
    """Of a fork of this process that does some work."""
    process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def saves(folder: Path, steps: int, dies: int) -> Callable[[], None]:
    def work() -> None:
        repeated.die_before(dies)
        keeper.save({"env": ENV, "env_options": {}, "trainer": {}, "steps": steps})

    keeper = checkpoint.Keeper(folder, 2, found(folder)["steps"] if any(folder.glob("*.pt")) else None)
    return work


@pytest.mark.parametrize("earlier", [1, 3])
def test_a_kill_before_any_call_of_a_save_leaves_a_whole_checkpoint(earlier: int, tmp_path: Path) -> None:
    for steps in range(1, earlier + 1):
        assert status_of(saves(tmp_path, steps, 1000)) == 0
    before, calls = earlier, 0
    while status_of(saves(tmp_path, before + 1, calls)) == -signal.SIGKILL:
        steps = found(tmp_path)["steps"]
        assert (tmp_path / checkpoint.NAME).exists() and before <= steps <= before + 1
        before, calls = steps, calls + 1
    assert calls >= 4 and found(tmp_path)["steps"] == before + 1
    assert len(list(tmp_path.glob("*.pt"))) == 2 and not list(tmp_path.glob("*.tmp"))


# ---- trainings -------------------------------------------------------------------------------------------


@contextmanager
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(ROOT / "tests" / "common" / "repeated.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.mark.full
def test_a_training_in_chaos_ends_as_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, folder, output, chosen = tmp_path / "whole", tmp_path / "run", tmp_path / "output.txt", random.Random(1)
    assert cli.main(["cartpole", *LONG, "--run-dir", str(whole)]) == 0
    monkeypatch.setattr(lock, "SECONDS_TO_WAIT", 0.0)
    command = ["cartpole", *LONG, "--run-dir", str(folder), "--resume", "auto"]
    signals = [signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]
    steps, done = 0, dict.fromkeys(("killed", "signal", "in a save", "full disk", "flipped", "beside"), 0)
    with server() as process:
        for turn in range(200):
            name = chosen.choice(list(done)) if turn < 60 and not all(done.values()) else "end"
            given: dict[str, Any] = {"arguments": command, "output": str(output)}
            if name == "in a save":
                given["dies"] = 8 + chosen.randrange(40)
            if name == "full disk":
                given["limit"] = 20_000 + chosen.randrange(40_000)
            if name == "flipped" and checkpoint.kept(folder):
                damaged = [folder / checkpoint.NAME, *checkpoint.kept(folder)][: chosen.choice([1, 1, 2])]
                for path in damaged[: len(checkpoint.kept(folder))]:
                    data = bytearray(path.read_bytes())
                    data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
                    path.write_bytes(data)
                steps, done[name] = found(folder)["steps"], done[name] + 1
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
            number = int(process.stdout.readline())
            if name in ("killed", "signal", "flipped", "beside"):
                time.sleep(chosen.random() * 1.5)
                if name == "beside" and held(folder):
                    assert cli.main(command) == 2
                    assert f"another training runs in folder {folder}: process " in capsys.readouterr().err
                    done[name] += 1
                os.kill(number, chosen.choice(signals) if name == "signal" else signal.SIGKILL)
            status = int(process.stdout.readline())
            if name in ("killed", "signal", "in a save", "full disk"):
                done[name] += status != 0
            if any(folder.glob("*.pt")):
                now = found(folder)["steps"]
                assert now >= steps, (turn, name)
                steps = now
            if status == 0:
                break
    assert status == 0 and all(done.values()), done
    ours, theirs = (found(each) | {"train_seconds": 0} for each in (folder, whole))
    assert_same(theirs, ours)
    assert_same(*(checkpoint.load(each / "best.pt", ENV) | {"train_seconds": 0} for each in (whole, folder)))
    assert not list(folder.glob("*.tmp"))


def held(folder: Path) -> bool:
    try:
        with lock.locked(folder):
            return False
    except (cli.UsageError, OSError):
        return folder.exists()


@pytest.mark.full
def test_a_process_of_torchrun_saves_and_ends_when_that_is_killed(tmp_path: Path) -> None:
    folder, output = tmp_path / "run", tmp_path / "output.txt"
    train = [sys.executable, "-m", "torch_batchsim.train", "cartpole", *SMALL, "--run-dir", str(folder)]
    train += ["--total-steps", str(10**9)]
    launcher = f"import subprocess; subprocess.run({train}, stdout=open({str(output)!r}, 'w'))"
    environment = {**os.environ, "TORCHELASTIC_RUN_ID": "x", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", launcher], env=environment, cwd=ROOT) as process:
        wait_for((folder / checkpoint.NAME).exists)
        process.kill()
    wait_for(lambda: "Stopped early. Go on with" in output.read_text())
    with lock.locked(folder):
        assert found(folder)["steps"] > 7 * 128


DIES_ONCE = """
import os, signal, sys
from pathlib import Path
from torch_batchsim.train.commands import cli
from torch_batchsim.train.run_folder import report
log = report.Report.log
def dies(self, step, metrics):
    if step == 1280 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return log(self, step, metrics)
report.Report.log = dies
status = cli.main(sys.argv[1:])
sys.stdout.flush()
os._exit(status)
"""


@pytest.mark.full
def test_torchrun_restarts_a_training_that_has_lost_a_process(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES_ONCE)
    once, folder = tmp_path / "once", tmp_path / "run"
    given = ["cartpole", *SMALL, "--total-steps", "2560", "--eval-episodes", "0", "--resume", "auto"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "--max-restarts", "2", str(tmp_path / "dies.py"), *given, "--run-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads((folder / "run.json").read_text())["runs"]
    assert [(run["from_step"], run["processes"]) for run in runs] == [(0, 2), (896, 2)]
    again = subprocess.run(
        [*launch, "-m", "torch_batchsim.train", *given, "--run-dir", str(once)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert_same(*(found(each) | {"train_seconds": 0} for each in (once, folder)))
