"""What a run writes, what it begins from, and where its numbers go."""

import csv
import errno
import json
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch_batchsim.train import PPOConfig
from torch_batchsim.train.base.errors import UsageError
from torch_batchsim.train.commands import cli, settings_file
from torch_batchsim.train.commands.options import Options, tuned
from torch_batchsim.train.run_folder import checkpoint, disk
from torch_batchsim.train.run_folder.learning import forget_later
from torch_batchsim.train.run_folder.tracking import MLflow, Table

ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 1024 --eval-episodes 2".split()


def run(*arguments):
    return cli.main(["cartpole", *map(str, arguments)])


def rows_of(folder):
    return list(csv.DictReader((folder / "metrics.csv").read_text().splitlines()))


def parameters(folder):
    return checkpoint.load(folder / "checkpoint.pt", ENV)["trainer"]["groups"][0]["agent"]


def test_a_run_is_repeated_from_its_own_settings(tmp_path):
    given = ["--learning-rate", "0.01", "--hidden-sizes", "8", "--memory", "gru", "--length", "0.7", "--seed", "5"]
    assert run(*SMALL, *given, "--run-dir", tmp_path / "a") == 0
    text = (tmp_path / "a" / "config.toml").read_text()
    assert "learning_rate = 0.01" in text and "hidden_sizes = [8]" in text and "[env]\nlength = 0.7" in text
    assert settings_file.read(tmp_path / "a") == settings_file.read(tmp_path / "a" / "config.toml")
    assert run("--config", tmp_path / "a", "--run-dir", tmp_path / "b") == 0
    assert (tmp_path / "b" / "config.toml").read_text() == text
    a, b = parameters(tmp_path / "a"), parameters(tmp_path / "b")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_all_that_settings_can_be_is_written_as_toml(tmp_path):
    config = PPOConfig(max_grad_norm=math.inf, clip_coef=math.inf, anneal=('"a"\\\n', "\x7f\U0001f600"))
    options = Options(config, threads=1, track=("ü:B",))
    path = tmp_path / "config.toml"
    settings_file.write(path, ENV, options, {"level": "\U0001f600", "wind": -math.inf})
    given, env_options = settings_file.read(path)
    assert settings_file.applied(given, Options()) == options
    assert env_options == {"level": "\U0001f600", "wind": -math.inf}


def test_policies_of_a_run_before_do_not_stay_in_the_league(tmp_path):
    league = tmp_path / "league"
    league.mkdir()
    for name in ("000000000000.pt", "000000000128.pt", "000000000256.pt", "mine.pt"):
        (league / name).touch()
    forget_later(tmp_path, 256)  # where a run goes on
    assert sorted(each.name for each in league.iterdir()) == ["000000000000.pt", "000000000128.pt", "mine.pt"]
    assert run(*SMALL, "--total-steps", 128, "--eval-episodes", 0, "--run-dir", tmp_path) == 0
    assert [each.name for each in league.iterdir()] == ["mine.pt"]


def test_options_stand_before_settings_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('seed = 3\nlearning_rate = 1\ntarget_kl = 0.5\nencoders = []\n[env]\nlength = 0.7\ngravity = 5.0\n')
    given, env_options = settings_file.read(path)
    assert given == {"seed": 3, "learning_rate": 1.0, "target_kl": 0.5, "encoders": ()}
    assert env_options == {"length": 0.7, "gravity": 5.0}
    config = settings_file.applied(given, tuned(ENV)).config
    assert (config.seed, config.learning_rate, config.gamma) == (3, 1.0, 0.98)
    assert run(*SMALL, "--config", path, "--seed", 4, "--length", 0.9, "--run-dir", tmp_path / "run") == 0
    text = (tmp_path / "run" / "config.toml").read_text()
    assert "seed = 4" in text and "learning_rate = 1.0" in text and "length = 0.9" in text and "gravity = 5.0" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sede = 3", r"unknown setting 'sede' \(did you mean 'seed'\?\)"),
        ("resume = 'x'", "unknown setting 'resume'"),
        ("seed = 'three'", "seed must be an integer, got 'three'"),
        ("seed = true", "seed must be an integer, got True"),
        ("hidden_sizes = [8, 'x']", r"hidden_sizes must be a list of integers, got \[8, 'x'\]"),
        ("memory = 'rnn'", "memory must be one of none, lstm, gru, got 'rnn'"),
        ("seed = = 3", "are not TOML"),
        ("env = 3", r"env is a table, \[env\]"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, capsys, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        settings_file.applied(settings_file.read(path)[0], tuned(ENV))
    assert run("--config", path) == 2


def test_a_value_that_is_refused_and_a_file_that_is_missing(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("gamma = 1.5")
    assert run("--config", path) == 2 and run("--config", tmp_path / "none.toml") == 2
    said = capsys.readouterr().err
    assert "gamma is 1.5, but must be between 0 and 1" in said and "none.toml cannot be read: No such file" in said


def test_a_run_says_how_it_came_about(tmp_path):
    assert run(*SMALL, "--run-dir", tmp_path) == 0
    reported = json.loads((tmp_path / "run.json").read_text())
    assert reported["env"] == ENV and reported["runs"][0]["from_step"] == 0
    assert set(reported["runs"][0]) >= {"command", "started", "versions", "commit", "machine", "threads"}
    rows = rows_of(tmp_path)
    assert [int(row["step"]) for row in rows] == [128 * (i + 1) for i in range(8)]
    shares = [sum(float(row[f"time/{part}"]) for part in ("simulation", "policy", "update")) for row in rows]
    assert shares == pytest.approx([1.0] * 8, abs=1e-5)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert "hparam/eval_return_mean" in events.Tags()["scalars"]


def test_a_run_that_has_ended_goes_on_with_more_steps(tmp_path, capsys):
    assert run(*SMALL, "--run-dir", tmp_path) == 0
    assert run("--resume", tmp_path, "--eval-episodes", 2) == 2
    assert "is the end of a training of 1,024 steps; raise --total-steps" in capsys.readouterr().err
    assert run("--resume", tmp_path, "--total-steps", 2048, "--eval-episodes", 2) == 0
    assert checkpoint.load(tmp_path / "checkpoint.pt", ENV)["steps"] == 2048
    rows = rows_of(tmp_path)
    assert [int(row["step"]) for row in rows] == [128 * (i + 1) for i in range(16)]
    assert [reported["from_step"] for reported in json.loads((tmp_path / "run.json").read_text())["runs"]] == [0, 1024]


def test_a_run_begins_with_the_networks_of_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*SMALL, "--run-dir", "runs/first") == 0
    assert run(*SMALL, "--run-dir", "runs/second", "--seed", 2) == 0
    os.utime("runs/second/checkpoint.pt", (0, 0))
    before = parameters(tmp_path / "runs" / "first")
    barely = ["--load", "latest", "--learning-rate", "1e-30", "--run-dir", "other"]
    assert run(*SMALL, *barely) == 0
    after = parameters(tmp_path / "other")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert run(*SMALL, "--load", "runs/first", "--hidden-sizes", 7, "--run-dir", "third") == 2
    assert "its networks are not those of these settings" in capsys.readouterr().err
    assert run("--eval", "latest", "--eval-episodes", 2) == 0
    assert run("--eval", "latest", "--load", "latest") == 2
    assert "--load and --eval exclude each other" in capsys.readouterr().err


def test_without_runs_there_is_no_latest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("--resume", "latest") == 2
    assert "there is no checkpoint of torch_batchsim/CartPole-v0 in" in capsys.readouterr().err


# ---- trackers --------------------------------------------------------------------------------------------


class Listens:
    reported: list = []

    def __init__(self, folder, settings, start_step):
        self.reported.append((folder.name, settings["seed"], start_step))

    def scalars(self, step, values):
        self.reported.append(step)

    def close(self, outcome):
        self.reported.append(sorted(outcome))


def test_numbers_go_to_a_class_of_the_users(tmp_path):
    Listens.reported.clear()
    assert run(*SMALL, "--track", f"{__name__}:Listens", "--run-dir", tmp_path / "here") == 0
    first, *steps, last = Listens.reported
    assert first == ("here", 1, 0) and steps == [128 * (i + 1) for i in range(8)]
    assert last == ["eval_length_mean", "eval_return_mean", "eval_return_min", "eval_return_std"]
    assert not list(tmp_path.glob("here/events*")) and (tmp_path / "here" / "metrics.csv").exists()


class Client:
    """Stands in for MLflow's, with one run at most."""

    calls: list = []
    runs: list = []

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name)

    def search_runs(self, experiments, condition, max_results):
        return [each for each in self.runs if f"'{each.info.run_name}'" in condition]

    def create_run(self, experiment, run_name):
        self.runs.append(SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}/{run_name}", run_name=run_name)))
        return self.runs[-1]

    def update_run(self, run, status):
        self.calls.append((run, status))

    def log_batch(self, run, metrics=(), params=()):
        self.calls.append((run, list(metrics), list(params)))

    def set_terminated(self, run):
        self.calls.append((run, "ended"))


def test_a_run_that_goes_on_is_one_run_of_mlflow(tmp_path, monkeypatch):
    entities = SimpleNamespace(Metric=lambda name, value, now, step: (name, value, step), Param=lambda *given: given)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowClient=Client, entities=entities))
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    for start in (0, 20):
        tracker = MLflow(tmp_path / "here", {"seed": 1}, start)
        tracker.scalars(start + 10, {"a": 2.0, "b": math.nan})
        tracker.close({"eval_return_mean": 3.0})
    run = "torch_batchsim/here"
    first, again = ([(run, [("a", 2.0, step)], []), (run, [("eval_return_mean", 3.0, 0)], [])] for step in (10, 30))
    begin, end = [(run, "RUNNING")], [(run, "ended")]
    assert Client.calls == [*begin, (run, [], [("seed", "1")]), *first, *end, *begin, *again, *end]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorbord", "--track takes tensorboard, wandb, mlflow, none or module:Class, got 'tensorbord'"),
        ("os:nothing", "--track os:nothing cannot be imported"),
        ("os:getcwd", "--track os:getcwd lacks scalars and close"),
    ],
)
def test_what_is_no_tracker_is_refused(tmp_path, capsys, name, message):
    assert run(*SMALL, "--track", name, "--run-dir", tmp_path / "run") == 2
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_table_that_goes_on_forgets_steps_behind_the_checkpoint(tmp_path):
    table = Table(tmp_path, {}, 0)
    for step in (10, 20, 30):
        table.scalars(step, {"a": step / 2})
    again = Table(tmp_path, {}, 20)
    again.scalars(30, {"a": 1.0})
    assert (tmp_path / "metrics.csv").read_text().split() == ["step,a", "10,5.0", "20,10.0", "30,1.0"]


@pytest.mark.full
def test_help_whose_reader_has_ended_ends_without_a_traceback():
    command = [sys.executable, "-m", "torch_batchsim.train", "cartpole", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        reported = process.stderr.read()
    assert (process.returncode, reported) == (141, "")


def test_errors_of_the_output_differ_from_those_of_files(tmp_path):
    with pytest.raises(disk.NotWritten, match="the output cannot be written: Broken pipe"), disk.errors(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    with pytest.raises(disk.NotWritten, match=r"a file in .* cannot be written: No space"), disk.errors(tmp_path):
        raise OSError(errno.ENOSPC, "No space")
