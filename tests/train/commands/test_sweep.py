"""Searches for settings."""

import csv
import re
import sys

import pytest
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.train.base.errors import RunError, UsageError
from torch_batchsim.train.commands import cli, ranges, settings_file, sweep, training
from torch_batchsim.train.commands.idle import refuse_idle
from torch_batchsim.train.commands.options import tuned
from torch_batchsim.train.commands.ranges import Range, ranges_for
from torch_batchsim.train.run_folder.learning import End

import torch_batchsim

pytest.importorskip("optuna")
ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 1024 --eval-episodes 2 --track none".split()


def run(*arguments):
    try:
        return cli.main(["sweep", "cartpole", *map(str, arguments)])
    except SystemExit as exit:
        return exit.code


def trials_of(folder):
    return list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))


def test_the_best_settings_of_a_sweep_are_a_file_for_config(tmp_path, capsys):
    folder = tmp_path / "sweep"
    given = ["--length", 0.7, "--gamma", 0.9, "--range", "learning_rate=0.001:0.01:log"]
    assert run(*SMALL, *given, "--range", "activation=tanh,relu", "--trials", 3, "--no-prune", "--run-dir", folder) == 0
    said = capsys.readouterr().out
    assert "3 trials to the end, 0 pruned, 0 failed" in said and "learning_rate    0.001 to 0.01, logarithmic" in said
    trials = trials_of(folder)
    assert float(trials[0]["learning_rate"]) == 0.005 and trials[0]["activation"] == '"tanh"'  # as they were
    assert "gamma" not in trials[0] and "num_envs" not in trials[0]
    best = max(trials, key=lambda each: float(each["mean"]))
    settings, env_options = settings_file.read(folder / "best.toml")
    assert settings["learning_rate"] == float(best["learning_rate"]) and env_options == {"length": 0.7}
    assert settings["gamma"] == 0.9
    summary = tmp_path / "summary.json"
    again = ["--config", folder / "best.toml", "--summary", summary, "--run-dir", tmp_path / "run"]
    assert cli.main(["cartpole", *map(str, again)]) == 0
    assert f'"eval_return_mean": {best["mean"]}' in summary.read_text()
    assert run("--resume", folder, "--trials", 4) == 0 and len(trials_of(folder)) == 4
    for arguments, message in (
        (["--resume", folder, "--gamma", 0.5], "--gamma and --resume exclude each other: "),
        (["--resume", folder, "--range", "gamma=0,1"], "--range and --resume exclude each other: "),
        (["--resume", tmp_path], "is not the folder of a sweep: it has no study.log"),
        (["--run-dir", folder], f"has another sweep; --resume {folder} continues it"),
    ):
        capsys.readouterr()
        assert run(*arguments) == 2
        assert message in capsys.readouterr().err


@pytest.mark.full
def test_bad_trials_are_pruned_and_failed_ones_reported(tmp_path, monkeypatch, capsys):
    train = training.train

    class Judged:
        def __init__(self, value):
            self.curve = [(0, value)]

        def read(self):
            pass

    def judged(env_id, options, contents, hooks):
        """Trials become worse from one to the next."""
        number = int(options.run_dir.name.removeprefix("trial"))
        if number == 1:
            raise RunError("it was not finite")
        return train(env_id, options, contents, [lambda trainer, _: hooks[0](trainer, Judged(-float(number)))])

    monkeypatch.setattr(sweep.training, "train", judged)
    monkeypatch.setattr(ranges, "USUAL", {"gamma": (0.9, 0.99)})
    monkeypatch.setattr(CartPole, "sweep", {})
    steps = ["--total-steps", 2560]
    assert run(*SMALL, *steps, "--trials", 8, "--run-dir", tmp_path) == 0
    captured = capsys.readouterr()
    assert re.search(r"trial 7    pruned after \d0 %   gamma 0\.9", captured.out)
    assert "trial 1    failed: it was not finite" in captured.err
    states = [each["state"] for each in trials_of(tmp_path)]
    assert states == ["complete", "fail", *["complete"] * 4, "pruned", "pruned"]


def test_a_trial_that_was_stopped_is_repeated(tmp_path, monkeypatch, capsys):
    train, calls = training.train, []

    def stopped_at_the_second(*arguments):
        calls.append(arguments)
        return train(*arguments) if len(calls) != 2 else End.STOPPED

    monkeypatch.setattr(sweep.training, "train", stopped_at_the_second)
    assert run(*SMALL, "--range", "gamma=0.9:0.99", "--trials", 3, "--run-dir", tmp_path) == 130
    assert f"Go on with --resume {tmp_path}" in capsys.readouterr().out
    assert run("--resume", tmp_path, "--trials", 3) == 0
    assert [each["trial"] for each in trials_of(tmp_path)] == ["0", "2", "3"]
    assert calls[1][1].config == calls[2][1].config and len(calls) == 4


def test_a_sweep_without_a_whole_trial_fails(tmp_path, capsys):
    sizes = "--num-envs 8 --num-steps 16 --total-steps 1024".split()
    assert run(*sizes, "--range", "num_minibatches=3,7", "--trials", 2, "--run-dir", tmp_path) == 1
    assert "no trial has come to its end: num_minibatches is " in capsys.readouterr().err
    assert not (tmp_path / "best.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--trials 0", "--trials is 0, but must be at least 1"),
        ("--range gamma", "--range takes NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C, but 'gamma' was given"),
        ("--range gama=0.1:0.2", "unknown setting 'gama' (did you mean 'gamma'?)"),
        ("--range seed=1,2", "range of seed: it is the same in all trials"),
        ("--range total_steps=1000,2000", "range of total_steps: it is the same in all trials"),
        ("--range gamma=0.1,0.2 --range gamma=0.3:0.4", "--range gamma was given twice"),
        ("--range gamma=0.5", "--range gamma has one value: give --gamma in its place"),
        ("--range gamma=0,0.0", "range of gamma: 0.0 is there twice"),
        ("--range clip_coef=0.1,0.2 --algorithm a2c", "clip_coef: it is a setting of ppo, not of a2c"),
        ("--range memory_size=8,16", "--range memory_size changes nothing without --memory or a --range of it"),
        ("--range past_every=8,16", "--range past_every changes nothing without --past-share or a --range"),
        ("--range anneal_until=0.1:0.2", "--range anneal_until changes nothing without --anneal or a --range"),
        ("--range memory_size=8,16 --memory none", "--range memory_size changes nothing without --memory"),
        ("--memory-size 8", "--memory-size changes nothing without --memory"),
        ("--anneal-from 0.2", "--anneal-from changes nothing without --anneal"),
        ("--process-timeout 8", "--process-timeout changes nothing with one process"),
        ("--video-every 8", "--video-every is not for a sweep"),
        ("--max-hours 8", "--max-hours is not for a sweep"),
        ("--range activation=tanh:relu:log", "--range activation takes LOW:HIGH or LOW:HIGH:log, but 'tanh:relu:log'"),
        ("--range norm_adv=0:1", "range of norm_adv: norm_adv must be true or false, got 0"),
        ("--range gamma=0.1:1.2", "range of gamma: gamma is 1.2, but must be between 0 and 1"),
        ("--range gamma=0.2:0.1", "range of gamma: 0.2 to 0.1 is empty"),
        ("--range gamma=0.2:0.3:ln", "takes LOW:HIGH or LOW:HIGH:log, but '0.2:0.3:ln' was given"),
        ("--range gamma=0:0.3:log", "a logarithmic one is greater than 0, but 0.0 was given"),
        ("--range num_envs=few,many", "range of num_envs: num_envs must be an integer, got 'few'"),
        ("--range gamma=0.1,0.2 --gamma 0.3", "--range gamma and --gamma exclude each other"),
        ("--seeds 2", "--seeds is not for a sweep"),
        ("--eval-episodes 0", "a sweep compares evaluations"),
        ("--gama 1", "there is no option --gama (did you mean --gamma?)"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    assert message in capsys.readouterr().err and not any(tmp_path.iterdir())


def test_what_an_environment_declares_is_checked(monkeypatch):
    config = tuned(ENV).config
    sizes = [(8,), (16, 16)]
    monkeypatch.setattr(CartPole, "sweep", {"gamma": (0, 1), "hidden_sizes": sizes, "norm_adv": [True, False]})
    found = ranges_for(ENV, [], ["--no-norm-adv"], config)
    assert found["gamma"] == Range(0.0, 1.0) and set(found) == {"gamma", "hidden_sizes"}
    assert found["hidden_sizes"].ends() == sizes and not found["hidden_sizes"].holds("[32, 32]")
    monkeypatch.setattr(CartPole, "sweep", {"gamma": 0.5})
    with pytest.raises(UsageError, match=r"declares the range 0.5 for gamma, which is not \(low, high\)"):
        ranges_for(ENV, [], [], config)


def test_ranges_that_change_nothing_are_left_out_unless_another_brings_them(monkeypatch):
    sizes = [8, 16]
    monkeypatch.setattr(CartPole, "sweep", {"clip_coef": (0.1, 0.3), "memory_size": sizes, "gamma": (0.9, 0.99)})
    assert set(ranges_for(ENV, [], [], tuned(ENV).config)) == {"clip_coef", "gamma"}
    assert set(ranges_for(ENV, [], [], tuned(ENV, algorithm="a2c").config)) == {"gamma"}
    found = ranges_for(ENV, ["memory=none,gru"], [], tuned(ENV).config)
    assert set(found) == {"clip_coef", "memory_size", "gamma", "memory"}
    refuse_idle(tuned(ENV), ["--memory-size", "8"], {"memory": ["none", "gru"]})
    with pytest.raises(UsageError, match="--memory-size changes nothing without --memory"):
        refuse_idle(tuned(ENV), ["--memory-size", "8"], {"memory": ["none"]})


@pytest.mark.parametrize("name", ["CartPole", "Overcooked", "Hanabi", "HideSeek", "Swarm"])
def test_the_declared_ranges_hold_the_settings(name):
    env_id = f"torch_batchsim/{name}-v0"
    config = tuned(env_id).config
    assert torch_batchsim.sweep_ranges(env_id)
    for name, each in ranges_for(env_id, [], [], config).items():
        assert each.holds(each.written(getattr(config, name))), name


def test_without_optuna_the_command_says_what_brings_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.chdir(tmp_path)
    assert run() == 2
    assert "this needs optuna, which is not installed: pip install 'torch_batchsim[sweep]'" in capsys.readouterr().err
