"""A2C, and the weights that V-trace gives to what an older policy did."""

import gymnasium
import numpy as np
import pytest
import torch
from torch_batchsim.train import A2CConfig, Config, Trainer, evaluate, generalised_advantages
from torch_batchsim.train.algorithms import config_of
from torch_batchsim.train.algorithms.a2c import v_trace
from torch_batchsim.train.commands.tuned import tuned_config
from training import assert_goes_on_to_the_bit, melee_trainer

SMALL = {"num_envs": 6, "num_steps": 8, "num_minibatches": 2, "total_steps": 480, "hidden_sizes": (8,)}


def series(steps=9, rows=50, seed=1):
    """Rewards, values, next values, terminations, truncations and ratios."""
    random = torch.Generator().manual_seed(seed)
    rewards, values, finals, ratios = (torch.randn(steps, rows, generator=random) for _ in range(4))
    last = torch.randn(1, rows, generator=random)
    terminations, truncations = (torch.rand(steps, rows, generator=random) < 0.15 for _ in range(2))
    next_values = torch.where(terminations | truncations, finals, torch.cat([values[1:], last]))
    return rewards, values, next_values, terminations, truncations & ~terminations, ratios.exp()


def test_v_trace_is_its_definition():
    """Equation 1 of the paper as it stands: a sum of products, up to the end of the episode."""
    rewards, values, next_values, terminations, truncations, ratios = series()
    gamma, decay, ends = 0.9, 0.8, terminations | truncations
    advantages, targets = v_trace(rewards, values, next_values, terminations, ends, gamma, decay, ratios)
    r, v, after, rho = (each.double().numpy() for each in (rewards, values, next_values, ratios.clamp(max=1)))
    after = np.where(terminations, 0, after)
    for row in range(rewards.shape[1]):
        expected = np.zeros(len(r) + 1)
        for s in range(len(r)):
            total, product = v[s, row], 1.0
            for t in range(s, len(r)):
                total += gamma ** (t - s) * product * rho[t, row] * (r[t, row] + gamma * after[t, row] - v[t, row])
                product *= decay * rho[t, row]
                if ends[t, row]:
                    break
            expected[s] = total
        np.testing.assert_allclose(targets[:, row], expected[:-1], rtol=1e-5, atol=1e-5)
        following = np.where(ends[:, row], after[:, row], np.append(expected[1:-1], after[-1, row]))
        np.testing.assert_allclose(advantages[:, row], r[:, row] + gamma * following - v[:, row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("comes_and_goes", [False, True])
def test_of_the_policy_that_acted_targets_are_those_of_generalised_advantages(comes_and_goes):
    rewards, values, next_values, terminations, truncations, ratios = series(seed=2)
    active = None
    if comes_and_goes:
        active = torch.rand(10, 50, generator=torch.Generator().manual_seed(3)) < 0.7
        rewards = torch.where(active[:-1], rewards, torch.nan)
    ends, acted = terminations | truncations, torch.ones(9, 50, dtype=torch.bool) if active is None else active[:-1]
    ones = torch.ones_like(ratios)
    advantages, targets = v_trace(rewards, values, next_values, terminations, ends, 0.9, 0.8, ones, active)
    expected = generalised_advantages(rewards, values, next_values, terminations, truncations, 0.9, 0.8, active)
    torch.testing.assert_close((targets - values)[acted], expected[acted], rtol=1e-5, atol=1e-5)
    assert advantages.isfinite().all() and not advantages[~acted].any() and not targets[~acted].any()


def test_the_first_update_has_ratios_of_one_and_later_ones_do_not(toy_env):
    trainer = Trainer(toy_env(), A2CConfig(**SMALL | {"learning_rate": 0.05}, update_epochs=1))
    trainer.checked_rollout()
    group = trainer.groups[0]
    batch = group.estimate(trainer.storage)
    first, second = (group.learner.losses(part) for part in batch.parts(2, torch.Generator().manual_seed(1)))
    assert first[1]["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
    group.learner.differentiate(first[0])
    group.learner.descend()
    _, metrics = group.learner.losses(batch)
    assert metrics["losses/approx_kl"] > 1e-5 and 0 < metrics["losses/clipfrac"] < 1
    assert second[0].isfinite()


def test_the_gradient_of_the_policy_is_that_of_the_weighed_log_probabilities(toy_env):
    """Of a batch that another policy made: by differences of the loss with the weights held."""
    config = A2CConfig(**SMALL, norm_adv=False, ent_coef=0, vf_coef=0)
    trainer = Trainer(toy_env(), config)
    trainer.checked_rollout()
    learner = trainer.groups[0].learner
    batch = trainer.groups[0].estimate(trainer.storage)
    batch = batch._replace(log_probs=batch.log_probs + 0.3 * torch.randn(8, 6))
    loss, _ = learner.losses(batch)
    (found,) = torch.autograd.grad(loss, [learner.agent.actor.head.bias])
    bias, (log_probs, _) = learner.agent.actor.head.bias, learner.log_probs_and_entropy(batch)
    values, next_values, _ = learner.present_values(batch)
    ratios = (log_probs - batch.log_probs).exp().detach()
    advantages, _ = learner.traced(batch, values.detach(), next_values, ratios)
    (expected,) = torch.autograd.grad(-(ratios.clamp(max=1) * advantages * log_probs).mean(), [bias])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "others",
    [
        {"norm_obs": True},
        *(
            pytest.param(others, marks=pytest.mark.full)
            for others in ({}, {"memory": "lstm", "memory_size": 4}, {"policies": "teams", "norm_reward": True})
        ),
    ],
)
def test_it_goes_on_to_the_bit_with_agents_that_come_and_go(others):
    assert_goes_on_to_the_bit(lambda: melee_trainer(algorithm="a2c", **others))


@pytest.mark.full
def test_cartpole_is_learned():
    config = tuned_config("torch_batchsim/CartPole-v0", algorithm="a2c")
    trainer = Trainer(gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=config.num_envs), config)
    for _ in range(trainer.num_iterations):
        trainer.iterate()
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=100)
    assert evaluate(env, trainer.groups[0].agent, seed=7).returns.mean() > 450


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"algorithm": "a2c", "target_kl": 0.01}, TypeError, "unexpected keyword argument 'target_kl'"),
        ({"algorithm": "dqn"}, ValueError, "algorithm is 'dqn', but must be one of ppo, a2c"),
    ],
)
def test_settings_of_another_algorithm_are_refused(settings, error, says):
    with pytest.raises(error, match=says):
        config_of(settings)


def test_settings_of_no_algorithm_cannot_train(toy_env):
    with pytest.raises(ValueError, match="algorithm is '', but must be one of ppo, a2c"):
        Trainer(toy_env(), Config(num_envs=6))
    with pytest.raises(ValueError, match="algorithm is ppo, but must be 'a2c'"):
        A2CConfig(algorithm="ppo")


def test_parts_are_of_whole_rows(toy_env):
    with pytest.raises(ValueError, match="must divide the 6 rows where algorithm is 'a2c': each row is in one"):
        Trainer(toy_env(), A2CConfig(**SMALL | {"num_minibatches": 4}))
