"""Observations, rewards and returns that are brought to one scale."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch_batchsim.train import ActorCritic, PPOConfig, Trainer
from torch_batchsim.train.policies.moments import MOST, Moments, RewardScale
from training import assert_goes_on_to_the_bit, melee_trainer

CPU = torch.device("cpu")
SMALL = {"num_envs": 6, "num_steps": 8, "num_minibatches": 2, "total_steps": 480, "hidden_sizes": (8,)}


@pytest.mark.parametrize("comes_and_goes", [False, True])
def test_moments_are_those_of_all_samples_together(comes_and_goes):
    generator, moments = torch.Generator().manual_seed(1), Moments(3)
    given, counted = [], []
    for n in (1, 5, 40, 2):
        values = torch.randn(n, 2, 3, generator=generator) * torch.tensor([1e-3, 1.0, 50.0]) + 7
        active = torch.rand(n, 2, generator=generator) < 0.6 if comes_and_goes else torch.ones(n, 2, dtype=torch.bool)
        values[~active] = torch.nan
        moments.add(values, active if comes_and_goes else None)
        given.append(values.reshape(-1, 3))
        counted.append(active.flatten())
    together = torch.cat(given)[torch.cat(counted)].double()
    assert moments.count == len(together)
    torch.testing.assert_close(moments.mean, together.mean(0), rtol=1e-5, atol=0)
    torch.testing.assert_close(moments.variance, together.var(0, correction=0), rtol=1e-3, atol=0)
    normalised = moments.normalised(together.float())
    torch.testing.assert_close(normalised.mean(0), torch.zeros(3), rtol=0, atol=0.01)
    assert moments.normalised(torch.tensor([1e9, -1e9, 0.0])).tolist()[:2] == [MOST, -MOST]


def test_nobody_who_acts_changes_nothing():
    moments = Moments(2)
    moments.add(torch.full((4, 2), torch.nan), torch.zeros(4, dtype=torch.bool))
    assert moments.count == 0 and moments.normalised(torch.tensor([1.0, -2.0])).tolist() == pytest.approx([1, -2])


def test_rewards_are_divided_by_the_spread_of_their_discounted_sum():
    rewards = torch.randn(12, 5, generator=torch.Generator().manual_seed(2)) + 1
    ends = torch.zeros(12, 5, dtype=torch.bool)
    ends[4, 1] = ends[7] = True
    scale = RewardScale(5, 0.9, CPU)
    found = torch.cat([scale.scaled(rewards[:5], ends[:5], None), scale.scaled(rewards[5:], ends[5:], None)])
    sums, running = [], np.zeros(5)
    for reward, end in zip(rewards.numpy(), ends.numpy(), strict=True):
        running = 0.9 * running + reward
        sums.append(running)
        running = np.where(end, 0, running)
    for part, seen in ((slice(0, 5), 5), (slice(5, 12), 12)):  # what a rollout has seen counts for it
        expected = rewards[part] / float(np.stack(sums[:seen]).std())
        torch.testing.assert_close(found[part], expected, rtol=1e-4, atol=1e-5)


def test_only_parts_that_are_taken_as_they_are_are_normalised():
    space = spaces.Dict(
        body=spaces.Box(-1, 1, (2,), np.float32),
        card=spaces.Box(0, 4, (1,), np.uint8),
        others=spaces.Box(-1, 1, (3, 2), np.float32),
        there=spaces.Box(0, 1, (3,), np.uint8),
    )
    config = PPOConfig(norm_obs=True, encoders=("card=embedding", "others=attention:there"), hidden_sizes=(8,))
    agent = ActorCritic(space, spaces.Discrete(3), config, CPU)
    random = torch.Generator().manual_seed(3)
    seen = {name: torch.randint(0, 2, (50, *box.shape), generator=random) for name, box in space.items()}
    agent.note(seen, None, None)
    before, after = agent.encoder.split(agent.encoder(seen)), agent.encoder.split(agent.encode(seen))
    assert all(torch.equal(before[name], after[name]) for name in ("card", "others", "there"))
    assert torch.allclose(after["body"].mean(0), torch.zeros(2), atol=1e-5)


def trained(env, factor, **options):
    """Three iterations with rewards that are so many times as large."""
    trainer, step = Trainer(env, PPOConfig(**SMALL, **options)), env.step

    def scaled(actions):
        found = step(actions)
        env.bound["rewards"].mul_(factor)
        return found

    env.step = scaled
    for _ in range(3):
        metrics = trainer.iterate()
    return trainer.groups[0].agent.actor.state_dict(), metrics["losses/value_loss"].item()


def test_the_unit_of_rewards_does_not_matter(toy_env):
    small, large = (trained(toy_env(), factor, norm_reward=True)[0] for factor in (1.0, 1024.0))
    for name, value in small.items():
        torch.testing.assert_close(value, large[name], rtol=1e-2, atol=2e-4)


def test_the_first_ratio_is_one(toy_env):
    """What acted and what learns normalise by the same numbers, which change behind the updates."""
    trainer = Trainer(toy_env(), PPOConfig(**SMALL, norm_obs=True, update_epochs=1, norm_adv=False))
    trainer.iterate()
    trainer.checked_rollout()
    group = trainer.groups[0]
    count = group.agent.observations.count.clone()
    batch = group.estimate(trainer.storage)
    acted = trainer.storage.actions.flatten()
    outputs = torch.stack([group.agent.outputs(group.agent.encode(obs)) for obs in trainer.storage.seen]).flatten(0, 1)
    log_probs, _ = group.agent.policy.log_prob_and_entropy(outputs, acted, None)
    torch.testing.assert_close(batch.log_probs, log_probs, rtol=0, atol=1e-6)
    trainer.learned(group)
    assert group.agent.observations.count == count + 6 * 8


@pytest.mark.parametrize("others", [{}, {"memory": "gru", "memory_size": 4}, {"policies": "teams"}])
def test_it_goes_on_to_the_bit_with_agents_that_come_and_go(others):
    assert_goes_on_to_the_bit(lambda: melee_trainer(norm_obs=True, norm_reward=True, **others))
