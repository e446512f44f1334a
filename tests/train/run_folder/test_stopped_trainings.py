"""Trainings that a signal or a full disk ends: what was saved stays, and goes on to the bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch_batchsim.train.commands import cli
from torch_batchsim.train.run_folder import checkpoint, curves
from torch_batchsim.train.run_folder.learning import SECONDS_OF_ONE_CTRL_C
from training import assert_same

ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --eval-episodes 0".split()
LONG = [*SMALL, "--total-steps", "20480", "--checkpoint-every", "7"]
ROOT = Path(__file__).parents[3]


def train(*arguments):
    return cli.main(["cartpole", *map(str, arguments)])


def saved(folder):
    return checkpoint.load(folder / "checkpoint.pt", ENV)


def script(text, *arguments):
    """A process that runs a text and then the command, with its output."""
    text += "\nimport sys\nfrom torch_batchsim.train.commands import cli\nsys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", text, "cartpole", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )


def wait_for(process, ready):
    while not ready() and process.poll() is None:
        time.sleep(0.005)


def assert_same_training(one, other):
    """All but the seconds that it took."""
    a, b = (saved(folder) | {"train_seconds": 0} for folder in (one, other))
    assert_same(a, b)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a training that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(*LONG, "--run-dir", folder, "--track", "none") == 0
    return folder


@pytest.mark.full
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_signal_saves_and_the_rest_is_as_if_it_had_not_come(number, whole, tmp_path):
    process = script("", *LONG, "--run-dir", tmp_path)
    wait_for(process, (tmp_path / "checkpoint.pt").exists)
    process.send_signal(getattr(signal, number))
    out, error = process.communicate()
    assert (process.returncode, error) == (130, "")
    assert f"Stopped early. Go on with --resume {tmp_path / 'checkpoint.pt'}" in out
    assert 7 * 128 <= saved(tmp_path)["steps"] < 20480
    assert train("--resume", tmp_path, "--eval-episodes", 0) == 0
    assert_same_training(whole, tmp_path)


# Its second checkpoint is never written: the process waits there, as a file shows.
WAITS_IN_ITS_SECOND_SAVE = """
import os, time
from pathlib import Path
fsync, calls = os.fsync, []
def wait(file):
    calls.append(file)
    if len(calls) == 2:
        Path({waits!r}).touch()
        time.sleep(600)
    fsync(file)
os.fsync = wait
"""


@pytest.mark.full
def test_a_second_ctrl_c_leaves_at_once_with_the_checkpoint_before(whole, tmp_path):
    waits = tmp_path / "waits"
    process = script(WAITS_IN_ITS_SECOND_SAVE.format(waits=str(waits)), *LONG, "--run-dir", tmp_path / "run")
    wait_for(process, waits.exists)
    process.send_signal(signal.SIGINT)
    time.sleep(SECONDS_OF_ONE_CTRL_C + 0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert (process.returncode, error) == (130, "error: interrupted\n")
    assert not list((tmp_path / "run").glob("*.tmp"))
    assert saved(tmp_path / "run")["steps"] == 7 * 128
    assert train("--resume", tmp_path / "run", "--eval-episodes", 0) == 0
    assert_same_training(whole, tmp_path / "run")


# Once there is a checkpoint, no file can become longer than this: what has as many bytes already fails.
FULL_DISK = """
import resource, signal
from torch_batchsim.train.commands import training
learn = training.learn
def full(*arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
    return learn(*arguments)
training.learn = full
"""


@pytest.mark.full
@pytest.mark.parametrize("track", ["none", "tensorboard"])
def test_a_full_disk_leaves_the_last_checkpoint(track, whole, tmp_path):
    assert train(*SMALL, "--total-steps", "1024", "--run-dir", tmp_path, "--track", track) == 0
    steps = ["--total-steps", "20480", "--eval-episodes", 0, "--track", track]
    limit = (tmp_path / "metrics.csv").stat().st_size + 300
    process = script(FULL_DISK.format(limit=limit), "--resume", tmp_path, *steps)
    _, error = process.communicate()
    assert process.returncode == 1, error
    assert error.startswith("error: training stopped after ") and error.count("\n") == 1
    assert "cannot be written: File too large; --resume " in error and error.endswith(" continues from 1,024 steps\n")
    assert saved(tmp_path)["steps"] == 1024 and not list(tmp_path.glob("*.tmp"))
    assert train("--resume", tmp_path, *steps) == 0
    (run,) = [curves.read(tmp_path)]
    assert run.columns["step"].tolist() == [128 * (i + 1) for i in range(160)]


def no_space(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.full
def test_a_full_disk_at_a_checkpoint_leaves_the_one_before(tmp_path, monkeypatch, capsys):
    calls, fsync, whole, stopped = [], os.fsync, tmp_path / "whole", tmp_path / "stopped"
    steps = [*SMALL, "--total-steps", "4096", "--checkpoint-every", "7"]
    assert train(*steps, "--run-dir", whole, "--track", "none") == 0
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(file), fsync(file) if len(calls) < 3 else no_space()))
    assert train(*steps, "--run-dir", stopped) == 1
    path = stopped / "checkpoint.pt"
    reported = f"{path} cannot be written: No space left on device; --resume {path} continues from 1,792 steps"
    assert f"error: training stopped after 2,688 steps: {reported}\n" == capsys.readouterr().err
    monkeypatch.undo()
    assert train("--resume", stopped, "--eval-episodes", 0) == 0
    assert_same_training(whole, stopped)


@pytest.mark.full
def test_numbers_that_cannot_be_written_do_not_lose_the_training(whole, tmp_path, monkeypatch, capsys):
    scalars, calls = cli.training.trackers(())[0].scalars, []

    def fails(self, step, values):
        calls.append(step)
        return scalars(self, step, values) if len(calls) < 20 else no_space()

    with monkeypatch.context() as patched:
        patched.setattr(cli.training.trackers(())[0], "scalars", fails)
        assert train(*LONG, "--run-dir", tmp_path, "--track", "none") == 1
    assert f"a file in {tmp_path} cannot be written: No space left on device" in capsys.readouterr().err
    assert saved(tmp_path)["steps"] > 128 * 19
    assert train("--resume", tmp_path, "--eval-episodes", 0) == 0
    assert_same_training(whole, tmp_path)


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("metrics.csv", 1, "metrics.csv cannot be written: Is a directory"),
        ("config.toml", 1, "config.toml cannot be written: Is a directory"),
        ("learning_curve.png", 1, "learning_curve.png cannot be written: Is a directory"),
        ("checkpoint.pt", 2, "has the checkpoint of another run"),
    ],
)
def test_a_folder_in_place_of_a_file_is_reported(name, status, message, tmp_path, capsys):
    (tmp_path / name).mkdir()
    assert train(*SMALL, "--total-steps", "1024", "--run-dir", tmp_path) == status
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    if name == "learning_curve.png":
        assert saved(tmp_path)["steps"] == 1024


def test_a_file_is_not_a_folder(tmp_path, capsys):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        assert train(*SMALL, "--run-dir", folder) == 2
        assert f"folder {folder} cannot be made: " in capsys.readouterr().err


@pytest.mark.full
def test_a_signal_ends_compiling(tmp_path):
    cache = tmp_path / "cache"
    text = f"import os\nos.environ['TORCH_BATCHSIM_CACHE'] = {str(cache)!r}"
    process = script(text, *SMALL, "--run-dir", tmp_path / "run", "--resume", "auto")
    wait_for(process, lambda: any(cache.rglob("*.lock")))
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate()
    says = "interrupted before the training: SIGTERM; nothing was trained yet, and --resume auto begins"
    assert (process.returncode, error) == (130, f"error: {says}\n")
    assert not (tmp_path / "run").exists()
