"""Commands that are repeated: they go on from the last whole checkpoint, to the bit, and one at a time."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch_batchsim.train.base import signals
from torch_batchsim.train.base.errors import UsageError
from torch_batchsim.train.base.ranks import Ranks
from torch_batchsim.train.commands import cli, options, processes
from torch_batchsim.train.run_folder import checkpoint, curves, disk, learning, lock, report
from training import assert_same

ENV = "torch_batchsim/CartPole-v0"
Capture = pytest.CaptureFixture[str]
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --track none --total-steps 5120".split()  # 40 iterations
PLAIN = [*SMALL, "--eval-episodes", "0", "--checkpoint-every", "4"]


def train(*arguments: Any) -> int:
    try:
        return cli.main(["cartpole", *map(str, arguments)])
    except SystemExit as ended:  # of tyro
        assert isinstance(ended.code, int)
        return ended.code


def again(folder: Path, *arguments: Any) -> int:
    """The command that is repeated."""
    return train(*PLAIN, *arguments, "--run-dir", folder, "--resume", "auto")


def contents(folder: Path, name: str = checkpoint.NAME) -> dict[str, Any]:
    return checkpoint.load(folder / name, ENV) | {"train_seconds": 0}


def steps_of(folder: Path) -> int:
    return contents(folder)["steps"]


@pytest.fixture(scope="module", autouse=True)
def signals_as_usual() -> Iterator[None]:
    """Also where the tests run under `nohup`, which ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert again(folder) == 0
    return folder


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """What happens after so many steps, once each."""
    planned: dict[int, Any] = {}
    log = report.Report.log

    def logged(self: report.Report, step: int, metrics: Any) -> bool:
        planned.pop(step, lambda: None)()
        return log(self, step, metrics)

    monkeypatch.setattr(report.Report, "log", logged)
    return planned


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# ---- going on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(n, marks=pytest.mark.full) for n in (signal.SIGHUP, signal.SIGUSR1))]
)
def test_a_signal_saves_and_the_same_command_goes_on(
    number: int, whole: Path, at: dict[int, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice() -> None:  # from a launcher and from the system
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    at |= {1280: twice, 2560: twice}
    handlers = signal.getsignal(number)
    for steps in (1280, 2560):
        assert again(tmp_path) == 130
        assert steps_of(tmp_path) == steps and signal.getsignal(number) is handlers
    assert again(tmp_path) == 0
    assert_same(contents(whole), contents(tmp_path))
    runs = json.loads((tmp_path / "run.json").read_text())["runs"]
    assert [run["from_step"] for run in runs] == [0, 1280, 2560]
    capsys.readouterr()
    before = (tmp_path / checkpoint.NAME).stat().st_mtime_ns
    assert again(tmp_path) == 0
    assert capsys.readouterr().out == f"finished before, in {tmp_path}\n"
    assert (tmp_path / checkpoint.NAME).stat().st_mtime_ns == before


def sends(number: int) -> Callable[..., None]:
    """In place of some work: a signal comes, twice, from a launcher and from the system."""

    def work(*_: Any, **__: Any) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            pytest.fail("nothing was raised")
        os.kill(os.getpid(), number)
        raise KeyboardInterrupt(signal.Signals(number).name)

    return work


@pytest.mark.crossed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("work", ["make_part", "random_baseline", "_describe"])
def test_a_signal_before_the_first_step_costs_nothing(
    work: str, number: int, at: dict[int, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    handlers = signal.getsignal(number)
    with monkeypatch.context() as patched:
        patched.setattr(cli.training, work, sends(number))
        assert again(tmp_path) == 130 and signal.getsignal(number) is handlers
    says = f"error: interrupted before the training: {number.name}; "
    assert capsys.readouterr().err == f"{says}nothing was trained yet, and --resume auto begins\n"
    at[1280] = lambda: os.kill(os.getpid(), number)
    assert again(tmp_path) == 130
    capsys.readouterr()
    if work == "random_baseline":  # which a checkpoint has
        return
    with monkeypatch.context() as patched:
        patched.setattr(cli.training, work, sends(number))
        assert again(tmp_path) == 130
    path = tmp_path / checkpoint.NAME
    assert capsys.readouterr().err == f"{says}--resume auto goes on from {path} of 1,280 steps, as before\n"


@pytest.mark.full
def test_a_signal_in_the_evaluation_leaves_it_to_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    command = [*SMALL, "--total-steps", 256, "--eval-episodes", 2, "--resume", "auto", "--run-dir"]
    assert train(*command, tmp_path / "whole") == 0
    folder = tmp_path / "stopped"
    path, evaluate = folder / checkpoint.NAME, cli.evaluating.evaluate
    says = f"error: interrupted after the training: SIGUSR1; {path} has all 256 steps, and --resume auto evaluates it\n"
    capsys.readouterr()
    for _ in range(2):  # behind the training, and where it is made up for
        monkeypatch.setattr(cli.evaluating, "evaluate", sends(signal.SIGUSR1))
        assert train(*command, folder) == 130
        assert capsys.readouterr().err == says and not (folder / "summary.json").exists()
    monkeypatch.setattr(cli.evaluating, "evaluate", evaluate)
    assert train(*command, folder) == 0
    said = capsys.readouterr().out
    assert "evaluation      mean return" in said and f"summary         {folder / 'summary.json'}" in said
    summaries = [json.loads((run / "summary.json").read_text()) for run in (tmp_path / "whole", folder)]
    assert summaries[0] | {"train_seconds": 0} == summaries[1] | {"train_seconds": 0}
    assert train(*command, folder) == 0 and "evaluation" not in capsys.readouterr().out
    command[command.index(256)] = 512  # prolonged: the summary is of fewer steps
    monkeypatch.setattr(cli.evaluating, "evaluate", sends(signal.SIGTERM))
    assert train(*command, folder) == 130
    monkeypatch.setattr(cli.evaluating, "evaluate", evaluate)
    assert train(*command, folder) == 0
    assert json.loads((folder / "summary.json").read_text())["steps"] == 512


def test_a_signal_while_a_checkpoint_is_evaluated_ends_that(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(cli.evaluating, "evaluate", sends(signal.SIGTERM))
    assert train("--eval", whole) == 130
    assert capsys.readouterr().err == "error: interrupted: SIGTERM\n"


def test_a_signal_between_seeds_says_which_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    baseline, calls = cli.training.random_baseline, []

    def second(*arguments: Any) -> Any:
        calls.append(arguments)
        return sends(signal.SIGTERM)() if len(calls) == 2 else baseline(*arguments)

    monkeypatch.setattr(cli.training, "random_baseline", second)
    command = ["--seeds", 2, "--total-steps", 256]
    assert again(tmp_path, *command) == 130
    assert f"The seeds from 2 on are left. Go on with --resume {tmp_path}" in capsys.readouterr().out
    assert again(tmp_path, *command) == 0


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with signals.raised(), learning.stop_on_signal() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopped()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_both_signals_of_one_ctrl_c_end_after_the_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    with learning.stop_on_signal() as stopped:
        for _ in range(2):  # of the terminal, and of torchrun
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped()
        monkeypatch.setattr(learning, "SECONDS_OF_ONE_CTRL_C", 0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_damaged_checkpoint_is_reported_and_the_one_before_taken(
    whole: Path, at: dict[int, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at[1280] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert again(tmp_path) == 130
    flip(tmp_path / checkpoint.NAME)
    assert train("--resume", tmp_path) == 2  # who names it shall know
    assert f"checkpoint {tmp_path / checkpoint.NAME} is damaged in bytes " in capsys.readouterr().err
    assert again(tmp_path) == 0
    said = capsys.readouterr().out
    assert f"checkpoint {tmp_path / checkpoint.NAME} is damaged in bytes " in said
    assert json.loads((tmp_path / "run.json").read_text())["runs"][1]["from_step"] == 1024
    assert_same(contents(whole), contents(tmp_path))
    rows = curves.read(tmp_path).columns["step"].tolist()
    assert rows == [128 * (i + 1) for i in range(40)]


def test_files_of_a_killed_process_do_not_hinder(whole: Path, at: dict[int, Any], tmp_path: Path) -> None:
    at[1280] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert again(tmp_path) == 130
    for name in ("checkpoint.pt.tmp", "run.json.tmp", "config.toml.tmp", "metrics.csv.tmp"):
        (tmp_path / name).write_bytes(b"half")
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("1408,0.")
    assert again(tmp_path) == 0
    assert_same(contents(whole), contents(tmp_path))
    assert not list(tmp_path.glob("*.tmp"))


def test_text_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write_text(tmp_path / "a", "before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/a'"):
        disk.write_text(tmp_path / "a", "after")
    assert (tmp_path / "a").read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_only_the_same_run_goes_on(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["--gamma", 0.5], "the checkpoint was made with gamma 0.98 and keeps it, but 0.5 was given"),
        (["--algorithm", "a2c"], "was made with algorithm ppo and keeps it, got a2c"),
        (["--length", 0.7], "length as it is by default, and 0.7 was given"),
    ):
        assert again(whole, *arguments) == 2
        assert message in capsys.readouterr().err
    assert train(*PLAIN, "--run-dir", whole) == 2
    assert "has the checkpoint of another run" in capsys.readouterr().err
    assert train("--resume", whole, "--total-steps", 6000, "--run-dir", "other") == 0  # leaves the first as it was
    assert train("--resume", whole, "--total-steps", 6000, "--run-dir", "other") == 2
    assert "folder other has the checkpoint of another run" in capsys.readouterr().err
    assert (steps_of(whole), steps_of(tmp_path / "other")) == (5120, 5888)
    assert train(*PLAIN, "--resume", "auto") == 2
    assert "--resume auto needs --run-dir: a folder that is named by the time" in capsys.readouterr().err


def test_options_of_the_environment_files_and_networks_are_given_again(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("gamma = 0.9\n[env]\ngravity = 5.0\n")
    given = ["--config", tmp_path / "mine.toml", "--length", 0.7, "--load", whole]
    assert again(tmp_path / "run", *given, "--total-steps", 256) == 0
    assert again(tmp_path / "run", *given, "--total-steps", 512) == 0  # prolongs it
    found = contents(tmp_path / "run")
    assert found["env_options"] == {"gravity": 5.0, "length": 0.7} and found["steps"] == 512
    assert again(tmp_path / "run", *given[:2], "--total-steps", 512) == 2  # without its length


def test_a_training_that_was_finished_is_evaluated_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = tmp_path / "summary.json"
    command = [*SMALL, "--eval-episodes", 2, "--run-dir", tmp_path, "--resume", "auto", "--summary", summary]
    assert train(*command, "--total-steps", 256) == 0
    first = json.loads(summary.read_text())
    summary.unlink()  # as if it had been killed in the evaluation
    assert train(*command, "--total-steps", 256) == 0
    assert json.loads(summary.read_text()) == first
    capsys.readouterr()
    assert train(*command, "--total-steps", 256) == 0
    assert "evaluation" not in capsys.readouterr().out


@pytest.mark.full
def test_seeds_go_on_with_the_same_command(
    at: dict[int, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["--seeds", 2, "--total-steps", 1280]
    command = [*plain, "--length", 0.7]
    at[640] = lambda: os.kill(os.getpid(), signal.SIGUSR1)
    assert again(tmp_path / "a", *command) == 130
    flip(tmp_path / "a" / "seed1" / checkpoint.NAME)
    assert again(tmp_path / "a", *command) == 0 == again(tmp_path / "b", *command)
    for seed in ("seed1", "seed2"):
        assert_same(contents(tmp_path / "a" / seed), contents(tmp_path / "b" / seed))
    capsys.readouterr()
    assert again(tmp_path / "a", *command) == 0
    assert capsys.readouterr().out.count("finished before, in ") == 2
    assert again(tmp_path / "a", *plain, "--length", 0.8) == 2
    assert "options of the environment cannot be changed" in capsys.readouterr().err


def test_a_training_leaves_when_its_time_is_over(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter(range(10**6))  # seconds, as the trainer sees them: a look at the clock takes one
    monkeypatch.setattr(learning.time, "monotonic", lambda: next(now))
    starts: list[int] = []
    while not starts or starts[-1] < 5120:
        summary = tmp_path / "summary.json"
        assert again(tmp_path, "--max-hours", 15 / 3600, "--summary", summary) == 0
        assert summary.exists() == (steps_of(tmp_path) == 5120)
        starts.append(steps_of(tmp_path))
    assert len(starts) > 2 and starts == sorted(set(starts))
    assert "Stopped after 0.00416667 hours. Go on with --resume " in capsys.readouterr().out
    assert_same(contents(whole), contents(tmp_path))


# ---- evaluations during the training ---------------------------------------------------------------------


def test_evaluations_change_nothing_and_the_best_is_kept(
    whole: Path, at: dict[int, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--evaluate-every", 5, "--keep-best", "--keep", 3, "--eval-episodes", 8]
    at[2048] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert [again(tmp_path, *given), again(tmp_path, *given)] == [130, 0]
    found = contents(tmp_path)
    evaluations = found["evaluations"]
    assert [steps for steps, _ in evaluations] == [640 * (i + 1) for i in range(8)]
    assert_same(contents(whole), found | {"evaluations": []})
    best_at, best = max(evaluations, key=lambda each: each[1])
    assert (kept := contents(tmp_path, "best.pt"))["steps"] == best_at and kept["evaluations"][-1] == (best_at, best)
    assert len(set(evaluations)) > 2
    names = [path.name for path in checkpoint.kept(tmp_path)]
    assert names == ["checkpoint-000000004608.pt", "checkpoint-000000004096.pt"]
    assert [contents(tmp_path, name)["steps"] for name in names] == [4608, 4096]
    run = curves.read(tmp_path)
    assert run.curve(learning.EVALUATIONS)[1].tolist() == pytest.approx([mean for _, mean in evaluations])
    assert f"evaluation      mean return {best:.2f} after {best_at:,} steps" in capsys.readouterr().out


def test_a_training_ends_when_it_is_good_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--evaluate-every", 5, "--stop-at", 30, "--eval-episodes", 8, "--total-steps", 51200]
    assert again(tmp_path / "a", *given, "--summary", tmp_path / "a.json") == 0
    evaluations = json.loads((tmp_path / "a.json").read_text())["evaluations"]
    *others, (steps, last) = evaluations
    assert steps == steps_of(tmp_path / "a") < 51200 and last >= 30 and all(mean < 30 for _, mean in others)
    assert again(tmp_path / "a", *given) == 0
    assert "finished before" in capsys.readouterr().out
    assert train("--resume", tmp_path / "a", *given) == 2  # nothing is left to do
    assert again(tmp_path / "a", *given, "--stop-at", 1e6, "--total-steps", steps + 640) == 0
    assert steps_of(tmp_path / "a") == steps + 640


def test_an_evaluation_that_fails_does_not_end_the_training(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def endless(*_: Any) -> None:
        raise learning.UNMEASURED[0]("it did not end")

    monkeypatch.setattr(learning, "evaluate", endless)
    monkeypatch.setattr(cli.evaluating, "evaluate", endless)
    assert again(tmp_path, "--evaluate-every", 20, "--keep-best", "--stop-at", 1, "--eval-episodes", 2) == 1
    assert "no evaluation after 2,560 steps: it did not end" in capsys.readouterr().out
    assert_same(contents(whole), contents(tmp_path)) and not (tmp_path / "best.pt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--keep 0", "keep is 0, but must be at least 1"),
        ("--keep-best", "--keep-best needs --evaluate-every"),
        ("--stop-at 5", "--stop-at needs --evaluate-every"),
        ("--stop-at nan --evaluate-every 5", "stop_at is nan, but must be a number"),
        ("--evaluate-every 5 --eval-episodes 0", "--eval-episodes is 0, but --evaluate-every needs at least 1"),
        ("--max-hours 0", "max_hours is 0.0, but must be greater than 0"),
        ("--process-timeout 3", "--process-timeout changes nothing with one process"),
        ("--eval x --max-hours 2", "there is no"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(*arguments.split()) == 2
    assert message in capsys.readouterr().err or arguments.startswith("--eval ")
    assert not any(tmp_path.iterdir())


# ---- one at a time ---------------------------------------------------------------------------------------

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def test_a_second_training_is_refused_until_the_first_is_dead(
    whole: Path, at: dict[int, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at[1024] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert again(tmp_path) == 130
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path / lock.NAME], **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        monkeypatch.setattr(lock, "SECONDS_TO_WAIT", 0.0)
        capsys.readouterr()
        for command in (["--run-dir", tmp_path, "--resume", "auto"], ["--resume", tmp_path], ["--run-dir", tmp_path]):
            assert train(*PLAIN, *command) == 2
            expected = f"error: another training runs in folder {tmp_path}: process {os.getpid()} on "
            assert capsys.readouterr().err.startswith(expected)
        assert steps_of(tmp_path) == 1024
        process.kill()
    assert again(tmp_path) == 0
    assert_same(contents(whole), contents(tmp_path))


def test_a_lock_is_waited_for_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    file = open(tmp_path / lock.NAME, "a")  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write("process 7 on host3")
    file.flush()
    waits = [lambda: None, file.close]  # the other process ends meanwhile
    monkeypatch.setattr(lock.time, "sleep", lambda _: waits.pop(0)())
    with lock.locked(tmp_path), lock.locked(tmp_path / "."):
        assert lock._held == {tmp_path.resolve()}
    assert not lock._held
    says = f"Another training runs in folder {tmp_path}: process 7 on host3; waiting 10 s for it.\n"
    assert capsys.readouterr().out == says


def test_a_folder_that_cannot_be_written_is_a_mistake_unless_nothing_has_to_be(
    whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    for name in (checkpoint.NAME, "summary.json"):
        shutil.copy(whole / name, tmp_path)
    (tmp_path / lock.NAME).mkdir()  # which fails for root too
    more = ["--total-steps", 10240]
    for command in (["--run-dir", tmp_path, "--resume", "auto"], ["--resume", tmp_path]):
        assert train(*PLAIN, *command, *more) == 2
        assert capsys.readouterr().err == f"error: folder {tmp_path} cannot be written: Is a directory\n"
    assert again(tmp_path) == 0
    assert capsys.readouterr().out == f"finished before, in {tmp_path}\n"


def test_an_evaluation_that_could_not_be_written_is_not_made_up_for(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shutil.copy(whole / checkpoint.NAME, tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert again(tmp_path) == 0
    assert capsys.readouterr().out == f"finished before, in {tmp_path}\n"


def test_later_checkpoints_are_set_aside_when_an_earlier_one_goes_on(
    whole: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert again(tmp_path, "--keep", 4) == 0
    early = tmp_path / "checkpoint-000000004096.pt"
    names = [path.name for path in checkpoint.kept(tmp_path)]
    assert names == [f"checkpoint-{steps:012}.pt" for steps in (4608, 4096, 3584)]
    capsys.readouterr()
    assert train("--resume", early, "--keep", 4, "--eval-episodes", 0) == 0
    assert f"Checkpoints of more steps are now in {tmp_path / 'later'}." in capsys.readouterr().out
    for steps in (4608, 5120):
        assert contents(tmp_path / "later", f"checkpoint-{steps:012}.pt")["steps"] == steps
    assert_same(contents(whole), contents(tmp_path))
    assert train("--resume", tmp_path, "--total-steps", 6400, "--eval-episodes", 0) == 0  # with the newest
    assert "of more steps" not in capsys.readouterr().out and len(list((tmp_path / "later").iterdir())) == 2


def test_a_file_system_without_locks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with lock.locked(tmp_path):
        assert "cannot be locked (No locks available): start no other training" in capsys.readouterr().out


def test_folders_of_the_same_second_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {disk.new_folder("cartpole-seed1").name for _ in range(10)}
    assert len(names) == 10 and all(re.fullmatch(r"cartpole-seed1-\d{8}-\d{6}(-\d+)?", name) for name in names)


# ---- several processes -----------------------------------------------------------------------------------


class Two(Ranks):
    """The first of two processes, of which the other was given something else."""

    def of_all(self, own: Any) -> list[Any]:
        return [own, own | self.other]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("--run-dir", Path("b"), "--run-dir is a in process 0 and b in process 1"),
        ("--gamma", 0.5, "--gamma is 0.99 in process 0 and 0.5 in process 1"),
        ("the checkpoint's number of steps", None, "the checkpoint's number of steps is 128 in process 0 and None in"),
    ],
)
def test_processes_with_other_options_are_refused(name: str, value: Any, message: str) -> None:
    given, ranks = options.Options(run_dir=Path("a")), Two(0, 2)
    object.__setattr__(ranks, "other", {})
    processes.require_same(ranks, ENV, given, 128)
    ranks.other[name] = value
    with pytest.raises(UsageError, match=f"must have the same command and files, but {message}"):
        processes.require_same(ranks, ENV, given, 128)


def test_only_processes_of_torchrun_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Library:
        def prctl(self, *arguments: int) -> None:
            calls.append(arguments)

    monkeypatch.setattr(processes.ctypes, "CDLL", lambda _: Library())
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    processes.end_with_the_launcher()
    assert calls == []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    processes.end_with_the_launcher()
    assert calls == [(1, signal.SIGTERM)]


@pytest.mark.parametrize(("process_1", "ends"), [(sys.executable, False), ("/bin/sh", True), ("missing", True)])
def test_torchrun_may_be_process_1(monkeypatch: pytest.MonkeyPatch, process_1: str, ends: bool) -> None:
    """As in a container; elsewhere process 1 has adopted a process whose torchrun has ended."""
    samefile, sent = os.path.samefile, []
    files = {"/proc/1/exe": process_1, "/proc/self/exe": sys.executable}
    monkeypatch.setattr(processes.os.path, "samefile", lambda *paths: samefile(*(files[path] for path in paths)))
    monkeypatch.setattr(processes.os, "getppid", lambda: 1)
    monkeypatch.setattr(processes.os, "kill", lambda *to: sent.append(to))
    monkeypatch.setattr(processes.ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *_: 0))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    processes.end_with_the_launcher()
    assert sent == ([(os.getpid(), signal.SIGTERM)] if ends else [])
