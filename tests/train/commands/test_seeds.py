"""Several seeds in one command."""

import json
from pathlib import Path

import pytest
import torch
from torch_batchsim.train import compare
from torch_batchsim.train.base.errors import RunError
from torch_batchsim.train.commands import cli, seeds, training
from torch_batchsim.train.run_folder import checkpoint, curves
from torch_batchsim.train.run_folder.learning import End

ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 1024 --eval-episodes 2 --track none".split()


def run(*arguments):
    try:
        return cli.main(["cartpole", *map(str, arguments)])
    except SystemExit as exit:  # how tyro ends
        return exit.code


def steps_of(folder):
    return {each.parent.name: checkpoint.load(each, ENV)["steps"] for each in folder.glob("seed*/checkpoint.pt")}


@pytest.fixture
def fails(monkeypatch):
    """Lets the trainings with these seeds fail, or be stopped, before they begin."""
    wrong, train = {}, training.train

    def failing(env_id, options, contents):
        if (how := wrong.get(options.config.seed)) is None:
            return train(env_id, options, contents)
        if isinstance(how, Exception):
            raise how
        return End.STOPPED

    monkeypatch.setattr(seeds.training, "train", failing)
    return wrong


def test_each_seed_is_a_run_and_all_have_one_curve_and_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draw, drawn = curves.draw, []
    monkeypatch.setattr(curves, "draw", lambda *given: (drawn.append(given), draw(*given)))
    assert run(*SMALL, "--seed", 3, "--seeds", 2, "--total-steps", 2048, "--summary", "reported.json") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("cartpole-seeds3-4-")
    assert {each.name for each in folder.iterdir()} == {".lock", "seed3", "seed4", "config.toml", "learning_curve.png"}
    reported = json.loads((tmp_path / "reported.json").read_text())
    reached = [each["eval_return_mean"] for each in reported["seeds"]]
    assert [each["seed"] for each in reported["seeds"]] == [3, 4] and reported["failed"] == []
    spread = reported["eval_return_mean"]
    assert (spread["min"], spread["max"]) == (min(reached), max(reached)) and spread["mean"] == sum(reached) / 2
    said = capsys.readouterr().out
    random = sum(each["random_return_mean"] for each in reported["seeds"]) / 2
    assert drawn[0][3:] == (f"{ENV}, seeds 3, 4", random) and "- random policy" in said
    assert f"all seeds       {spread['mean']:.2f}, from {min(reached):.2f} to {max(reached):.2f}" in said
    assert run(*SMALL, "--seed", 4, "--total-steps", 2048, "--run-dir", "alone") == 0
    ours, theirs = (
        checkpoint.load(path / "checkpoint.pt", ENV)["trainer"]["groups"][0]["agent"]
        for path in (folder / "seed4", tmp_path / "alone")
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    latest = checkpoint.find(Path("latest"), ENV)
    assert latest == Path("runs", folder.name, "seed4", "checkpoint.pt")
    compare.main([str(folder), "--output", str(tmp_path / "both.png")])
    assert "of 2 runs) after 2,048 steps" in capsys.readouterr().out
    assert run("--config", folder / "config.toml", "--run-dir", "again", "--total-steps", 256) == 0
    assert steps_of(tmp_path / "again") == {"seed3": 256, "seed4": 256}


@pytest.mark.full
def test_a_seed_that_fails_does_not_lose_the_others(tmp_path, fails, capsys):
    folder = tmp_path / "run"
    fails |= {2: RunError("it was not finite"), 3: OSError("it was no more")}
    assert run(*SMALL, "--seeds", 4, "--run-dir", folder) == 1
    assert "2 of 4 seeds failed: seed 2: it was not finite; seed 3: it was no more" in capsys.readouterr().err
    assert set(steps_of(folder)) == {"seed1", "seed4"} and (folder / "learning_curve.png").exists()
    reported = json.loads((folder / "summary.json").read_text())
    assert [each["seed"] for each in reported["failed"]] == [2, 3]
    fails.clear()
    assert run("--resume", folder) == 0
    assert capsys.readouterr().out.count("finished before, in ") == 2
    assert [each["seed"] for each in json.loads((folder / "summary.json").read_text())["seeds"]] == [1, 2, 3, 4]


@pytest.mark.full
def test_seeds_that_were_stopped_go_on_and_become_more(tmp_path, fails, capsys):
    folder = tmp_path / "run"
    fails[2] = "stopped"
    assert run(*SMALL, "--seeds", 2, "--length", 0.7, "--run-dir", folder) == 130
    assert f"The seeds from 2 on are left. Go on with --resume {folder}" in capsys.readouterr().out
    fails.clear()
    assert run("--resume", folder, "--seeds", 3, "--total-steps", 2048) == 0
    assert steps_of(folder) == {f"seed{i}": 2048 for i in (1, 2, 3)}
    assert "length = 0.7" in (folder / "seed3" / "config.toml").read_text()
    (folder / "seed2" / "summary.json").unlink()  # as if it had been stopped in the evaluation
    assert run("--resume", folder) == 0 and (folder / "seed2" / "summary.json").exists()
    for arguments, message in (
        (["--resume", folder, "--seeds", 2], f"{folder} has 3 seeds, but --seeds 2 was given: more go on"),
        (["--resume", folder, "--gamma", 0.5], "was made with gamma 0.98 and keeps it, but 0.5 was given"),
        (["--resume", folder, "--length", 1], "options of the environment cannot be changed: they are in "),
        (["--resume", folder, "--load", folder / "seed1"], "--load and --resume "),
        (["--seeds", 2, "--run-dir", folder], f"has other runs; --resume {folder} continues them"),
        (["--resume", folder / "seed1", "--seeds", 2], "seed1 is a single run, not the folder of several"),
    ):
        capsys.readouterr()
        assert run(*arguments) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--seeds 0", "seeds is 0, but must be at least 1"),
        ("--seeds 2 --eval x", "--seeds and --eval exclude each other"),
        ("--seeds 2 --video game.gif", "--seeds and --video exclude each other"),
        (f"--seeds 2 --seed {2**63 - 1}", "--seed 9223372036854775807 on: seed is 9223372036854775808, but"),
        ("--seeds 2 --num-minibatches 7", "num_minibatches is 7, but must divide the rollout"),
        ("--seeds 2 --num-minibatches 7 --run-dir here", "num_minibatches is 7, but must divide the rollout"),
        ("--seeds 2 --summary .", ". cannot be written: it is a folder"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_changes(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    assert message in capsys.readouterr().err
    assert not [each for each in tmp_path.iterdir() if each.name != "runs" or any(each.iterdir())]
