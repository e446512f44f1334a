"""The command that compares trained teams with untrained ones."""

import json

import pytest
import torch
from environments.melee import Melee
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch_batchsim.envs.hideseek import HideSeek
from torch_batchsim.train import teams
from torch_batchsim.train.commands import cli
from torch_batchsim.train.rollouts import evaluation

import torch_batchsim

ENV = "tests/ScoredMelee-v0"
SMALL = ("--num-envs", 16, "--num-steps", 8, "--num-minibatches", 2, "--total-steps", 512)


class ScoredMelee(Melee):
    info = {"last": "Fighter.Choice"}
    metadata = {"score": "last"}


torch_batchsim.register(ENV, ScoredMelee)


class UnscoredMelee(ScoredMelee):
    metadata = {}


torch_batchsim.register("tests/UnscoredMelee-v0", UnscoredMelee)


@pytest.mark.full
def test_teams_without_a_score_are_warned_of_a_mean_that_hides_who_wins(tmp_path, capsys):
    arguments = [*map(str, SMALL), "--eval-episodes", "4", "--run-dir", str(tmp_path)]
    assert cli.main(["tests/UnscoredMelee-v0", *arguments]) == 0
    assert "A mean over teams hides who wins" in capsys.readouterr().out


def run(*arguments):
    try:
        return teams.main([str(argument) for argument in arguments])
    except SystemExit as exit:  # how argparse ends
        return exit.code


def test_seeds_are_trained_once_and_compared(tmp_path, monkeypatch, capsys):
    given = (ENV, "--folder", tmp_path, "--episodes", 50, *SMALL)
    assert run(*given, "--seeds", 2) == 0
    result = json.loads((tmp_path / "teams.json").read_text())
    assert (result["env"], result["episodes"], result["actions"]) == (ENV, 50, "drawn")
    assert [row["seed"] for row in result["seeds"]] == [1, 2]
    for row in result["seeds"]:
        names = ["all trained", "team 0 untrained", "team 1 untrained", "none trained"]
        assert list(row["scores"]) == names and row["steps"] == 512
        scores = list(row["scores"].values())
        assert len(set(scores)) > 1
        assert row["factors"] == [scores[0] / scores[1], scores[0] / scores[2]]
    assert capsys.readouterr().out.count("\n| ") == 3  # a table of two seeds

    def train(*_):
        raise AssertionError("the trainings are there")

    monkeypatch.setattr(cli, "main", train)
    assert run(*given, "--seeds", 2, "--json", tmp_path / "again.json") == 0
    assert json.loads((tmp_path / "again.json").read_text()) == result
    assert run(*given, "--seeds", 1, "--wanted", 1, 1e6) == 1
    assert run(*given, "--seeds", 1, "--wanted", 1e-6, 1) == 1
    assert run(*given, "--seeds", 1, "--wanted", 1e6, 1) == 1
    assert run(*given, "--seeds", 1, "--wanted", 1e-6) == 2
    assert "--wanted takes a number for each of 2 teams, but 1 were given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("cartpole --seeds 0", "--seeds is 0, but must be at least 1"),
        ("cartpole --episodes 0", "--episodes is 0, but must be at least 1"),
        ("hideseek --json nowhere/figures.json", "--json names nowhere/figures.json, which cannot be written"),
        ("cartpol", "there is no environment 'cartpol'"),
        ("cartpole --num-envs 8 --num-steps 4 --total-steps 32", "torch_batchsim/CartPole-v0 has no teams"),
        ("hideseek --total-stepps 32", "there is no option --total-stepps (did you mean --total-steps?)"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.full
def test_hide_and_seek_is_compared_and_its_figures_are_logged(tmp_path):
    settings = ("--num-envs", 16, "--num-steps", 8, "--num-minibatches", 2, "--total-steps", 256, "--hidden-sizes", 8)
    game = ("hideseek", "--preset", "empty-room", "--max-episode-steps", 4, *settings)
    assert run(*game, "--seeds", 1, "--folder", tmp_path, "--episodes", 20) == 0
    result = json.loads((tmp_path / "teams.json").read_text())
    assert result["env_options"] == {"preset": "empty-room", "max_episode_steps": 4}
    assert all(0 <= score <= 1 for score in result["seeds"][0]["scores"].values())
    events = EventAccumulator(str(tmp_path / "seed1"))
    events.Reload()
    figures = {f"figures/{name}" for name in HideSeek.metadata["figures"]}
    assert figures >= {"figures/boxes_moved", "figures/forts", "figures/ramps_used"}
    assert {tag for tag in events.Tags()["scalars"] if tag.startswith("figures/")} == figures
    assert len(events.Scalars("charts/score")) == 2


def test_a_score_that_is_undefined_is_named_and_meets_nothing(tmp_path, monkeypatch, capsys):
    evaluate = evaluation.evaluate

    def partly(env, agents, seed, *others, untrained):
        """Some episodes of seed 1 have no score, with all trained; one of seed 2 never ends, with team 1 untrained."""
        returns, lengths = evaluate(env, agents, seed, *others, untrained=untrained)
        if untrained is None and seed == 1 + evaluation.SEED_OFFSET:
            returns[3:5] = torch.nan
        if untrained is not None and seed == 2 + evaluation.SEED_OFFSET and 0 < untrained.float().mean() < 1:
            if env.team[untrained][0] == 1:
                raise evaluation.EndlessEpisode("1 of 40 episodes did not end within 100,000 steps")
            lengths[:] = 0
        return evaluation.Evaluation(returns, lengths)

    monkeypatch.setattr(evaluation, "evaluate", partly)
    given = (ENV, "--folder", tmp_path, "--episodes", 10, *SMALL, "--seeds", 2)
    assert run(*given) == 1
    says = (
        "seed 1: with all trained 2 of ",
        " scores are not finite; seed 2: with team 0 untrained nobody took part; ",
        "seed 2: with team 1 untrained 1 of 40 episodes did not end within 100,000 steps\n",
    )
    captured = capsys.readouterr()
    assert captured.err.startswith("error: scores are undefined, so factors are: ")
    assert all(part in captured.err for part in says) and "| - |" in captured.out
    first, second = json.loads((tmp_path / "teams.json").read_text())["seeds"]
    assert first["factors"] == [None, None] == second["factors"] and first["scores"]["all trained"] is None
    assert "NaN" not in (tmp_path / "teams.json").read_text()
    assert run(*given, "--wanted", 0.5, 2) == 1
