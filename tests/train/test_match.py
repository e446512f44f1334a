"""Checkpoints that play each other."""

import json
import re

import gymnasium
import pytest
import torch
from environments.melee import Melee
from torch_batchsim.train import ActorCritic, Evaluation, PPOConfig, Trainer, match
from torch_batchsim.train.match import Games, main, play, ratings, short_names
from torch_batchsim.train.run_folder import checkpoint

from torch_batchsim import TorchVectorEnv
from torch_batchsim.command_line import UsageError


def made(*_, num_worlds=4, **__):
    return TorchVectorEnv(Melee(), num_worlds=num_worlds)


def agent(env, seed=1, **settings):
    config = PPOConfig(seed=seed, hidden_sizes=(8,), **settings)
    return ActorCritic(env.single_observation_space, env.single_action_space, config, env.device)


def test_shares_and_intervals_are_wilsons():
    games = Games(wins=7, draws=2, losses=1)
    assert games.share == 0.8 and games.turned.share == pytest.approx(0.2)
    assert games.interval == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert Games(0, 0, 5).interval[0] >= 0


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["runs/a/league/000.pt", "runs/a/league/010.pt", "random"], ["000", "010", "random"]),
        (["runs/one", "runs/two/checkpoint.pt"], ["one", "two/checkpoint"]),
        (["runs/one", "random"], ["one", "random"]),
        (["runs/x.pt", "runs/x"], ["runs/x.pt", "runs/x"]),
    ],
)
def test_a_table_has_short_names(names, short):
    assert short_names(names) == dict(zip(names, short, strict=True))


def test_ratings_are_those_of_the_odds():
    many = 100_000
    games = {("a", "b"): Games(many * 10, 0, many), ("b", "c"): Games(many * 10, 0, many), ("a", "c"): Games(100, 0, 1)}
    rated = ratings("abc", games)
    assert rated["a"] - rated["b"] == pytest.approx(400, abs=1) and rated["b"] - rated["c"] == pytest.approx(400, abs=1)
    assert sum(rated.values()) == pytest.approx(0, abs=1e-6)
    never_lost = ratings("ab", {("a", "b"): Games(50, 0, 0)})
    assert 500 < never_lost["a"] - never_lost["b"] < 1000
    assert ratings("ab", {("a", "b"): Games(3, 4, 3)}) == pytest.approx({"a": 0, "b": 0})


def test_the_team_with_the_greater_mean_of_those_who_took_part_wins(monkeypatch):
    env, given = made(num_worlds=3), {}
    team = env.reset(seed=0)[1]["team"].view(3, -1)
    agents = team.shape[1]
    lower, upper = team == team.min(), team == team.max()
    returns, lengths = torch.zeros(3, agents), torch.ones(3, agents)
    returns[0][lower[0]], returns[1][upper[1]] = 1.0, 1.0
    first = lower[2].nonzero()[0]
    returns[2, first], lengths[2, first] = 100.0, 0.0  # took no part: a draw

    def evaluated(env, agents, seed, deterministic, **others):
        given.update(agents=agents, deterministic=deterministic, **others)
        return Evaluation(returns.flatten(), lengths.flatten())

    monkeypatch.setattr(match, "evaluate", evaluated)
    one = agent(env)
    assert play(env, one, None, seed=1) == Games(1, 1, 1)
    assert given["by_reward"] and torch.equal(given["untrained"].view(3, -1), upper)
    assert play(env, None, one, seed=1, likeliest=True) == Games(1, 1, 1)
    assert given["deterministic"] and torch.equal(given["untrained"].view(3, -1), lower)
    teams = {number: agent(env, number) for number in team.unique().tolist()}
    play(env, teams, one, seed=1)
    assert list(given["agents"].values()) == [teams[int(team.min())], one]
    returns[1, 0] = torch.nan
    with pytest.raises(ValueError, match="the return of world 1, agent 0 is nan: nobody wins that game"):
        play(env, one, None, seed=1)


def test_games_are_the_same_again():
    env = made(num_worlds=40)
    sides = agent(env, 1), agent(env, 2, memory="gru", memory_size=4)
    first, again = (play(env, *sides, seed=5) for _ in range(2))
    assert first == again and first.played == 40 and first.wins and first.losses


def test_the_command_prints_a_table_and_writes_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gymnasium, "make_vec", made)
    monkeypatch.chdir(tmp_path)
    for seed, settings in ((1, {}), (2, {"policies": "teams"})):
        env = made()
        sizes = {"num_envs": env.num_envs, "num_steps": 4, "num_minibatches": 2, "hidden_sizes": (8,)}
        trainer = Trainer(env, PPOConfig(seed=seed, **sizes, **settings))
        (tmp_path / str(seed)).mkdir()
        contents = {"env": "melee", "env_options": {}, "trainer": trainer.state_dict()}
        checkpoint.save(tmp_path / str(seed) / "checkpoint.pt", contents)
    main(["1", "2", "random", "--episodes", "30", "--json", "found.json"])
    shown, reported = capsys.readouterr().out, json.loads((tmp_path / "found.json").read_text())
    draws = sum(game["draws"] for game in reported["games"])
    assert f"\n{draws / 180:.1%} of all games are draws, which count half\n" in shown
    assert shown.count("\n") == 7 and all(f"\n| {name} | " in shown for name in ("1", "2", "random"))
    assert [game["policies"] for game in reported["games"]] == [["1", "2"], ["1", "random"], ["2", "random"]]
    assert all(game["wins"] + game["draws"] + game["losses"] == 60 for game in reported["games"])
    assert reported["ratings"].keys() == {"1", "2", "random"}
    main(["1", "2", "--episodes", "10"])
    shown = capsys.readouterr().out
    league = tmp_path / "league"
    league.mkdir()
    for seed in (1, 2):
        (tmp_path / str(seed) / "checkpoint.pt").rename(league / f"{seed}.pt")
    main(["league", "--episodes", "10"])
    assert capsys.readouterr().out == shown
    with pytest.raises(UsageError, match=r"league/1.pt and .*league/1.pt are the same checkpoint"):
        main(["league/1.pt", str(league / "1.pt"), "random"])
    other = dict(contents, env_options={"max_episode_steps": 5})
    checkpoint.save(tmp_path / "other.pt", other)
    with pytest.raises(UsageError, match=r"other.pt was trained in {'max_episode_steps': 5}, league/1.pt in {}"):
        main(["league", "other.pt"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a"], "a match is of two policies or more, each given once, not of a"),
        (["a", "a"], "each given once, not of a, a"),
        (["a", "b"], "checkpoint a cannot be read"),
        (["a", "b", "--episodes", "0"], "--episodes is 0, but must be at least 1"),
        (["a", "random", "--json", "nowhere/found.json"], "cannot be written"),
    ],
)
def test_mistakes_are_reported(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(says)) as raised:
        main(arguments)
    assert raised.value.code == 2


def test_an_environment_of_ones_own_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = {"env": "nowhere/Game-v0", "env_options": {}, "trainer": {"config": {"algorithm": "ppo"}}}
    checkpoint.save(tmp_path / "one.pt", run)
    with pytest.raises(UsageError, match=r"nowhere/Game-v0 is not registered: name .* by --env module:nowhere/Game-v0"):
        main(["one.pt", "random"])
    with pytest.raises(UsageError, match=r"--env cartpole is torch_batchsim/CartPole-v0, but .* is of nowhere/Game-v0"):
        main(["one.pt", "random", "--env", "cartpole"])
    game = tmp_path / "own_game.py"
    game.write_text("import gymnasium\ngymnasium.register('nowhere/Game-v0', vector_entry_point='own_game:Game')\n")
    game.write_text(game.read_text() + "def Game(**given): raise ValueError('here it is')\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(UsageError, match="here it is"):
            main(["one.pt", "random", "--env", "own_game:nowhere/Game-v0"])
    finally:
        gymnasium.registry.pop("nowhere/Game-v0", None)


def test_there_must_be_two_teams():
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=4)
    with pytest.raises(ValueError, match="needs an environment with two teams, and this one has none"):
        match.play(env, agent(env), None, seed=1)
    env = made()
    with pytest.raises(ValueError, match="random plays random"):
        match.play(env, None, None, seed=1)
