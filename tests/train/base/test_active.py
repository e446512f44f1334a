"""Rows that take no part for a while count for nothing, in training, statistics and evaluation."""

import json
from types import SimpleNamespace

import pytest
import torch
from environments.melee import Melee
from gymnasium.spaces import MultiDiscrete
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_batchsim.train import PPOConfig, Trainer, evaluate, generalised_advantages
from torch_batchsim.train.algorithms.ppo import PPO
from torch_batchsim.train.base.active import counted_ends, mean, std_mean
from torch_batchsim.train.commands import evaluating
from torch_batchsim.train.policies.networks import ActorCritic
from torch_batchsim.train.rollouts.evaluation import SEED_OFFSET

from torch_batchsim import TorchVectorEnv

SETTINGS = {"num_envs": 80, "num_steps": 16, "num_minibatches": 1, "total_steps": 80 * 16 * 4, "hidden_sizes": (16,)}


def trainer(score=None, **changes):
    env = TorchVectorEnv(Melee(max_episode_steps=9), num_envs=80)
    env.metadata["score"] = score
    return Trainer(env, PPOConfig(**(SETTINGS | changes)))


# ---- advantages ------------------------------------------------------------------------------------------


def advantages_of_one_row(rewards, values, next_values, terminations, truncations, gamma, gae_lambda, active):
    """The definition, in plain Python: from each step that counts to the next that does."""
    steps, advantages = len(rewards), [0.0] * len(rewards)
    for t in reversed([t for t in range(steps) if active[t]]):
        n, linked, future = t, None, None
        while future is None:
            if terminations[n]:
                future = 0.0
            elif truncations[n]:
                future = next_values[n] if n == t else values[t]
            elif n + 1 == steps:
                future = next_values[n] if active[steps] else values[t]
            elif active[n + 1]:
                future, linked = values[n + 1], n + 1
            n += 1
        discount = gamma ** (n - t)
        advantages[t] = rewards[t] + discount * future - values[t]
        if linked is not None:
            advantages[t] += discount * gae_lambda * advantages[linked]
    return advantages


@st.composite
def rollouts(draw):
    """``next_values`` are those of the next step but where an episode ends or the rollout does."""
    steps, rows = draw(st.integers(1, 8)), draw(st.integers(1, 3))

    def draws(elements, steps=steps):
        drawn = st.lists(elements, min_size=steps * rows, max_size=steps * rows)
        return torch.tensor(draw(drawn)).view(steps, rows)

    rewards, values, finals = (draws(st.floats(-10, 10, width=32)) for _ in range(3))
    rare = st.sampled_from([True, False, False, False])
    terminations, truncations, active = draws(rare), draws(rare), draws(st.booleans(), steps + 1)
    following = torch.cat([values[1:], finals[-1:]])
    next_values = torch.where(terminations | truncations, finals, following)
    series = (rewards, values, next_values, terminations, truncations)
    return (*series, draw(st.floats(0, 1)), draw(st.floats(0, 1)), active)


@given(rollouts())
@settings(deadline=None)
def test_advantages_go_from_one_step_that_counts_to_the_next(rollout):
    *series, gamma, gae_lambda, active = rollout
    advantages, plain = (generalised_advantages(*series, gamma, gae_lambda, who) for who in (active, None))
    for found, who in ((advantages, active), (plain, torch.ones_like(active))):
        for row in range(found.shape[1]):
            columns = [tensor[:, row].tolist() for tensor in series]
            expected = advantages_of_one_row(*columns, gamma, gae_lambda, who[:, row].tolist())
            torch.testing.assert_close(found[:, row], torch.tensor(expected), rtol=1e-4, atol=1e-4)
    rewards, values, next_values, *flags = series
    rubbish = [torch.where(active[:-1], tensor, torch.nan) for tensor in (rewards, values)]
    used = active[:-1] & (flags[0] | flags[1])
    used[-1] |= active[-1]
    next_values = torch.where(used, next_values, torch.inf)
    again = generalised_advantages(*rubbish, next_values, *flags, gamma, gae_lambda, active)
    assert torch.equal(again, advantages)


def test_nothing_leaks_across_an_agents_own_end():
    """The row shows large values after its agent has left, of which none comes back."""
    rewards, values = torch.tensor([[1.0], [2.0], [50.0]]), torch.tensor([[0.5], [0.25], [70.0]])
    terminations = torch.tensor([[False], [True], [False]])
    active = torch.tensor([[True], [True], [False], [False]])
    series = rewards, values, torch.full((3, 1), 90.0), terminations, torch.zeros_like(terminations)
    found = generalised_advantages(*series, 0.5, 0.5, active)
    assert found.flatten().tolist() == [1 + 0.5 * 0.25 - 0.5 + 0.25 * 1.75, 1.75, 0.0]


# ---- sums ------------------------------------------------------------------------------------------------


def test_sums_are_of_active_samples():
    values = torch.tensor([1.0, torch.nan, 3.0, torch.inf, 8.0])
    active = torch.tensor([True, False, True, False, True])
    torch.testing.assert_close(mean(values, active), torch.tensor(4.0))
    torch.testing.assert_close(std_mean(values, active), torch.std_mean(values[active]))
    assert mean(values, torch.zeros_like(active)) == 0 and std_mean(values, torch.zeros_like(active))[0] == 0


def test_an_end_counts_once_where_the_row_has_acted_since_the_last():
    generator = torch.Generator().manual_seed(0)
    ends, active = (torch.rand(12, 200, generator=generator) < share for share in (0.3, 0.4))
    before = torch.randint(0, 2, (200,), generator=generator).float()
    expected = torch.zeros_like(ends)
    for row in range(200):
        acted = before[row] > 0
        for t in range(12):
            acted |= active[t, row]
            expected[t, row] = ends[t, row] & acted
            acted &= ~ends[t, row]
    assert torch.equal(counted_ends(ends, active, before), expected)


# ---- training --------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_active_samples():
    made = trainer(clip_coef=0.01)
    made.rollout()
    batch = made.groups[0].estimate(made.storage)
    assert 0.2 < batch.active.float().mean() < 0.8 and not made.storage.obs.isfinite().all()
    kept = type(batch)(*(None if field is None else field[batch.active] for field in batch))._replace(active=None)
    with torch.no_grad():
        parameters = made.groups[0].learner.parameters
        parameters += 0.05 * torch.sin(torch.arange(len(parameters)))  # so that ratios are not 1
    found = []
    for part in (batch, kept):
        made.groups[0].learner.parameters.grad.zero_()
        loss, metrics, _ = made.groups[0].learner.losses(part)
        loss.backward()
        found.append((loss, metrics, made.groups[0].learner.parameters.grad.clone()))
    torch.testing.assert_close(*found)
    assert found[0][2].abs().max() > 1e-3


def test_what_inactive_rows_hold_changes_not_a_bit():
    made = trainer()
    made.rollout()
    first = made.groups[0].estimate(made.storage)
    storage = made.storage
    idle = ~storage.active
    storage.obs[idle] = torch.nan
    storage.rewards[idle[:-1]] = torch.inf
    storage.actions[idle[:-1]] = 3
    storage.final_obs[idle[:-1]] = torch.nan
    second = made.groups[0].estimate(made.storage)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(first, second, strict=True))
    metrics = made.groups[0].learner.update(second)
    assert all(value.isfinite() for value in metrics.values()) and made.groups[0].learner.parameters.isfinite().all()


def test_several_forbidden_choices_of_inactive_rows_keep_numbers_finite():
    """The idle action may be forbidden in several parts, whose log-probabilities together are minus infinity."""
    made = trainer(num_minibatches=2)
    agent = ActorCritic(made.env.single_observation_space, MultiDiscrete([3, 3]), made.config, made.device)
    made.groups[0].learner = PPO(agent, 80, made.config, made.generator)
    storage, (steps, rows) = made.storage, made.storage.rewards.shape
    storage.active.copy_(torch.arange(rows) % 3 > 0)
    storage.rewards.copy_(torch.sin(torch.arange(steps * rows)).view(steps, rows))
    storage.actions = torch.full((steps, rows, 2), 2)
    storage.action_masks = storage.active.unsqueeze(-1) | torch.tensor([False, False, True]).repeat(2)
    metrics = made.groups[0].learner.update(made.groups[0].estimate(made.storage))
    assert all(value.isfinite() for value in metrics.values()) and made.groups[0].learner.parameters.isfinite().all()


def test_statistics_of_a_rollout_count_active_steps_and_each_end_once():
    made = trainer(score="team")
    sums, latest, idle = torch.zeros(2, 80), torch.full((2, 80), torch.nan), 0
    began, curve, nothing = False, [], torch.tensor(torch.nan)
    for _ in range(4):
        made.rollout()
        metrics, storage = made.episodes.statistics(made.storage), made.storage
        finished, ends, teams = torch.zeros(2, 80), torch.zeros(80), 0.0
        for t in range(16):
            sums += torch.stack([storage.rewards[t], torch.ones(80)]) * storage.active[t]
            flags = storage.terminations[t] | storage.truncations[t]
            ended = flags & (sums[1] > 0)
            idle += (flags & ~ended).sum()
            finished, ends, teams = finished + sums * ended, ends + ended, teams + (ended * made.env.team).sum()
            sums *= ~ended
        latest = torch.where(ends > 0, finished / ends, latest)
        began |= not ((sums[1] > 0) & latest[1].isnan()).any()  # every row that has taken part has ended an episode
        expected = (latest[0].nanmean(), latest[1].nanmean(), teams / ends.sum()) if began else [nothing] * 3
        names = "charts/episodic_return", "charts/episodic_length", "charts/score"
        torch.testing.assert_close([metrics[name] for name in names], [*expected], equal_nan=True)
        curve.append(began)
    assert curve == sorted(curve) and not curve[0] and curve[-1]
    assert metrics["charts/episodic_length"] < 9 and idle > 100


# ---- evaluation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_an_evaluation_counts_each_agent_to_its_own_end(mode):
    env = TorchVectorEnv(Melee(max_episode_steps=9), num_envs=80, autoreset_mode=mode)
    agent = ActorCritic(env.single_observation_space, env.single_action_space, PPOConfig(hidden_sizes=(8,)), env.device)
    rewards, flags, actives, step = [], [], [], env.step

    def watched(actions):
        actives.append(env.active.clone())
        outputs = step(actions)
        rewards.append(outputs[1].clone())
        flags.append(outputs[2] | outputs[3])
        return outputs

    env.step = watched
    returns, lengths = evaluate(env, agent, seed=4, deterministic=False)
    running, expected = torch.ones(80, dtype=torch.bool), torch.zeros(2, 80)
    for reward, ended, active in zip(rewards, flags, actives, strict=True):
        expected += torch.stack([reward, torch.ones(80)]) * (running & active)
        running &= ~ended
    assert torch.equal(torch.stack([returns, lengths]), expected)
    never = env.by_world(lengths)[:, 3] == 0
    assert 0 < never.sum() < 20 and (env.by_world(lengths)[:, :3] > 0).all()


def test_rows_that_took_no_part_are_not_in_the_summary(monkeypatch):
    env = TorchVectorEnv(Melee(max_episode_steps=9), num_worlds=20)
    agent = ActorCritic(env.single_observation_space, env.single_action_space, PPOConfig(hidden_sizes=(8,)), env.device)
    returns, lengths = evaluate(env, agent, seed=1 + SEED_OFFSET)
    monkeypatch.setattr(evaluating, "make_env", lambda *_, **__: env)
    options = SimpleNamespace(eval_episodes=20, eval_stochastic=False, video=None, record=None)
    reported = evaluating.evaluated("melee", options, {}, agent, seed=1)
    there = lengths > 0
    assert 0 < (~there).sum() < 20
    assert reported["eval_return_mean"] == pytest.approx(returns[there].mean().item())
    assert reported["eval_length_mean"] == pytest.approx(lengths[there].mean().item())
    expected = [returns[i::4][there[i::4]].mean().item() for i in range(4)]
    assert reported["eval_return_mean_by_agent"] == pytest.approx(expected)


def test_a_summary_of_nobody_is_json(monkeypatch):
    env = TorchVectorEnv(Melee(max_episode_steps=9), num_worlds=3)
    monkeypatch.setattr(evaluating, "make_env", lambda *_, **__: env)
    monkeypatch.setattr(evaluating, "evaluate", lambda *_: (torch.zeros(12), torch.zeros(12)))
    options = SimpleNamespace(eval_episodes=3, eval_stochastic=False, video=None, record=None)
    reported = evaluating.evaluated("melee", options, {}, None, seed=1)
    assert reported["eval_return_mean"] is reported["eval_return_min"] is reported["eval_length_mean"] is None
    assert json.loads(json.dumps(reported, allow_nan=False))["eval_return_mean_by_agent"] == [None] * 4
