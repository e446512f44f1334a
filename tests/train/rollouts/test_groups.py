"""A policy for each team: it acts for the rows of its team, and learns from them only."""

import pytest
import torch
from environments.melee import Melee
from support import full_but
from torch_batchsim.train import PPOConfig, Trainer, evaluate
from torch_batchsim.train.policies.networks import Player
from training import assert_goes_on_to_the_bit

from torch_batchsim import TorchVectorEnv

SETTINGS = {
    "num_envs": 80, "num_steps": 16, "num_minibatches": 2, "total_steps": 80 * 16 * 8, "hidden_sizes": (16,),
    "policies": "teams",
}  # fmt: skip
TEAM = torch.tensor([0, 1, 1, 0]).repeat(20)  # of Melee's rows, for these tests


class Teams(TorchVectorEnv):
    """Melee, in which two of four fighters are a team."""

    team = TEAM

    def reset(self, **arguments):
        obs, infos = super().reset(**arguments)
        return obs, {**infos, "team": self.team}


def env(**attributes):
    made = Teams(Melee(max_episode_steps=9), num_envs=80)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def trainer(**changes):
    return Trainer(env(), PPOConfig(**SETTINGS | changes))


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_each_team_has_networks_of_its_own_which_only_its_rows_change(memory):
    """What the other team sees and gets changes nothing."""
    found = []
    for spoil in (False, True):
        made = trainer(memory=memory, memory_size=8)
        before = [group.learner.parameters.detach().clone() for group in made.groups]
        made.rollout()
        if spoil:
            rows = TEAM == 1
            made.storage.obs[:, rows] = made.storage.obs[:, rows].sin()
            made.storage.rewards[:, rows] += 5
        made.learned(made.groups[0])
        found.append(made.groups[0].learner.parameters.detach().clone())
        assert [group.acting.team for group in made.groups] == [0, 1]
        assert not torch.equal(before[0], before[1])
        assert not torch.equal(before[0], found[-1]) and torch.equal(before[1], made.groups[1].learner.parameters)
    assert torch.equal(*found)


def test_each_row_acts_by_the_policy_of_its_team():
    made, seen = trainer(), []
    step = made.env.step
    with torch.no_grad():
        for choice, group in enumerate(made.groups):  # team 0 takes choice 0, team 1 choice 1
            group.agent.actor.head.weight.zero_()
            group.agent.actor.head.bias.zero_()[choice] = 1e4

    def watched(actions):
        seen.append((actions == TEAM)[made.env.active])  # others see infinity
        return step(actions)

    made.env.step = watched
    made.rollout()
    evaluate(made.env, made.agents, seed=3)
    assert len(seen) > 16 and all(each.all() and len(each) for each in seen)


@pytest.mark.parametrize("memory", full_but(["none"], ["none", "lstm"]))
def test_it_trains_and_resumes_to_the_bit(memory):
    metrics = assert_goes_on_to_the_bit(lambda: trainer(memory=memory, memory_size=8)).iterate()
    names = {name for name in metrics if name.startswith("losses/entropy")}
    assert names == {"losses/entropy/team_0", "losses/entropy/team_1"}


def test_a_team_of_all_rows_is_the_shared_policy():
    """To the bit: rows that are gathered are those that were."""
    shared = trainer(policies="shared")
    alone = Trainer(env(team=torch.zeros(80, dtype=torch.int64)), PPOConfig(**SETTINGS))
    for _ in range(2):
        for made in (shared, alone):
            made.iterate()
    assert torch.equal(shared.groups[0].learner.parameters, alone.groups[0].learner.parameters)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"policies is 'teams', but this environment has no teams"):
        Trainer(env(team=None), PPOConfig(**SETTINGS))
    with pytest.raises(ValueError, match="num_minibatches is 3, but must divide the rollout of team 0: 16 steps x 40"):
        trainer(num_minibatches=3)
    with pytest.raises(ValueError, match=r"policies is each, but must be one of \('shared', 'teams'\)"):
        PPOConfig(policies="each")
    made = trainer()
    with pytest.raises(ValueError, match=r"team 1 has no policy; policies are those of teams \[0\]"):
        evaluate(made.env, {0: made.groups[0].agent}, seed=1)


def test_players_of_one_team_see_their_rows_only():
    made = trainer()
    acting = made.groups[1].acting
    assert torch.equal(acting.rows, (TEAM == 1).nonzero().flatten())
    expected = Player(acting.agent, 40).outputs(made.storage.obs[0][acting.rows], None)
    assert torch.equal(acting.outputs(made.storage.obs[0], None), expected)
