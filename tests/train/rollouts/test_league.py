"""Self-play against past policies."""

import gymnasium
import pytest
import torch
from torch_batchsim.train import PPOConfig, Trainer
from torch_batchsim.train.rollouts import league
from training import assert_goes_on_to_the_bit, melee_trainer

PAST = {"past_share": 0.5, "past_every": 2}


@pytest.fixture(autouse=True)
def two_players(monkeypatch):
    monkeypatch.setattr(league, "PLAYERS", 2)


def made(**settings):
    return melee_trainer(worlds=8, **PAST | settings)


def teams_of(trainer):
    return trainer.env.team.view(8, -1)


@pytest.mark.parametrize("policies", ["shared", "teams"])
def test_past_policies_play_one_team_in_their_worlds(policies):
    trainer = made(policies=policies)
    team, agents = teams_of(trainer), trainer.env.num_agents
    by = torch.full((trainer.env.num_envs,), -1)  # the number of a past policy, -1: the present one
    for group, players in zip(trainer.groups, trainer.league.players, strict=True):
        for number, each in enumerate(players):
            assert policies == "shared" or (trainer.env.team[each.rows] == group.acting.team).all()
            by[each.rows] = number
        assert (by[group.acting.rows] == -1).all()
    rows = torch.cat([group.acting.rows for group in trainer.groups])
    assert len(rows) == int((by == -1).sum())
    by = by.view(8, agents)
    assert (by[:4] == -1).all()
    for world in range(4, 8):
        past = by[world] >= 0
        assert by[world][past].unique().tolist() == [world % 2]
        assert team[world][past].unique().tolist() == [int(team.min() if world < 6 else team.max())]
        assert torch.equal(past, team[world] == team[world][past][0])


def test_past_policies_act_and_nothing_is_learned_from_their_rows():
    trainer = made()
    trainer.iterate()
    past = [each for players in trainer.league.players for each in players]
    for each in past:  # always the last choice
        each.agent.actor.head.bias[-1] = 1e6
    trainer.checked_rollout()
    last = trainer.env.single_action_space.n - 1
    rows = torch.cat([each.rows for each in past])
    active = trainer.storage.active[:-1, rows]
    assert (trainer.storage.actions[:, rows][active] == last).all()
    group = trainer.groups[0]
    assert (trainer.storage.actions[:, group.acting.rows] != last).any()
    batch = group.estimate(trainer.storage)
    trainer.storage.rewards[:, rows] = 1e6
    trainer.storage.obs[:, rows] = 1e6
    group.learner.critic_hidden.zero_()
    again = group.estimate(trainer.storage)
    for one, other in zip(batch, again, strict=True):
        assert one is other is None or torch.equal(one, other)


def test_policies_are_kept_and_drawn(monkeypatch):
    monkeypatch.setattr(league, "MOST", 3)
    trainer, kept = made(), []
    for iteration in range(9):
        before = [value.clone() for value in trainer.groups[0].agent.state_dict().values()]
        trainer.iterate()
        members = trainer.league.members
        kept.append([member["iteration"] for member in members])
        if iteration % 2 == 0:
            assert all(torch.equal(*pair) for pair in zip(before, members[-1]["agents"][0].values(), strict=True))
        for each, number in zip(trainer.league.players[0], trainer.league.drawn, strict=True):
            values = members[number]["agents"][0]
            assert all(torch.equal(values[name], value) for name, value in each.agent.state_dict().items())
    assert kept == [[0], [0], [0, 2], [0, 2], [0, 2, 4], [0, 2, 4], [2, 4, 6], [2, 4, 6], [4, 6, 8]]


@pytest.mark.parametrize(
    "settings",
    [{}, {"memory": "gru", "memory_size": 4}, {"policies": "teams"}, {"algorithm": "a2c", "norm_obs": True}],
)
def test_it_goes_on_to_the_bit(settings):
    resumed = assert_goes_on_to_the_bit(lambda: made(**settings))
    assert [each["iteration"] for each in resumed.league.members] == [0, 2, 4]


def test_a_fault_keeps_no_policy_twice():
    trainer = made()
    agents = [group.agent for group in trainer.groups]
    trainer.league.begin(0, agents)
    trainer.begin_new_episodes()
    trainer.league.begin(0, agents)
    assert len(trainer.league.members) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"past_share": 0.3}, "past_share 0.3 of 8 worlds are 2, too few for 2 past policies: each needs a world for"),
        ({"past_share": 1.0}, "past_share is 1.0, but must be from 0 to less than 1"),
        ({"past_every": 0}, "past_every is 0, but must be at least 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        made(**settings)


def test_there_must_be_two_teams():
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=16)
    with pytest.raises(ValueError, match="past policies play one of two teams, and this environment has none"):
        Trainer(env, PPOConfig(**PAST, num_envs=16))


def test_any_seed_draws():
    trainer = made(seed=2**63 - 1)
    trainer.iterate()
    assert len(trainer.league.drawn) == 2
