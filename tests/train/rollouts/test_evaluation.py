from itertools import pairwise

import gymnasium
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch_batchsim.train import ActorCritic, EndlessEpisode, NoLegalAction, NotFinite, PPOConfig, evaluate
from torch_batchsim.train.rollouts import evaluation


@pytest.fixture
def agent(toy_env):
    env = toy_env()
    return ActorCritic(env.single_observation_space, env.single_action_space, PPOConfig(hidden_sizes=(8,)), env.device)


@pytest.mark.parametrize("deterministic", [True, False])
def test_every_row_counts_with_its_first_episode(toy_env, agent, deterministic):
    evaluation = evaluate(toy_env(), agent, seed=1, deterministic=deterministic)
    lengths = torch.tensor([2.0, 3, 4, 5, 2, 3])  # as ToyEnv says
    assert torch.equal(evaluation.lengths, lengths)
    assert torch.equal(evaluation.returns, lengths * (lengths + 1) / 2)


def test_an_episode_without_end_is_given_up(toy_env, agent, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 5)
    evaluate(toy_env(), agent, seed=1)  # the longest has 5 steps
    monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 4)
    with pytest.raises(EndlessEpisode, match="1 of 6 episodes did not end within 4 steps"):
        evaluate(toy_env(), agent, seed=1)


def test_faults_are_looked_for_at_the_end(toy_env, agent):
    env, looks = toy_env(), []
    env.check_faults = lambda: looks.append(env.now)
    evaluate(env, agent, seed=1)
    assert looks == [5]


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_observation_that_is_not_finite_ends_it(toy_env, agent, deterministic):
    env, step = toy_env(), toy_env.step

    def spoilt(actions):
        outputs = step(env, actions)
        if env.now == 3:
            outputs[0][4, 1] = torch.nan
        return outputs

    env.step = spoilt
    with pytest.raises(NotFinite, match=r"observation\[1\] of world 4 is nan after step 3: correct"):
        evaluate(env, agent, seed=1, deterministic=deterministic)


def test_a_mask_that_allows_nothing_ends_it(toy_env, agent):
    env, mask = toy_env(masked=True), toy_env.mask
    env.mask = lambda: mask(env) & (torch.arange(6)[:, None] != 5) if env.now == 0 else mask(env)
    with pytest.raises(NoLegalAction, match=r"world 5 has no legal action before the first step"):
        evaluate(env, agent, seed=1)


def test_what_a_world_shows_after_its_end_may_be_anything_where_it_stands_still(toy_env, agent):
    env, step = toy_env(), toy_env.step
    env.metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def spoilt(actions):
        outputs = step(env, actions)
        outputs[0][0] = torch.nan if env.now >= 2 else 0.0  # row 0 ends after 2 steps
        return outputs

    env.step = spoilt
    assert evaluate(env, agent, seed=1).lengths[0] == 2


def test_a_seed_out_of_range_is_refused_in_a_sentence():
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=2)
    agent = ActorCritic(env.single_observation_space, env.single_action_space, PPOConfig(hidden_sizes=(8,)), env.device)
    with pytest.raises(ValueError, match="seed must be an integer from 0"):
        evaluate(env, agent, seed=2**64)


def test_a_watcher_gets_the_rows_that_ran_until_then(toy_env, agent):
    env, seen = toy_env(), []
    evaluate(env, agent, seed=1, watch=lambda running: seen.append((env.now, running.tolist())))
    assert seen == [(now, [length >= now for length in (2, 3, 4, 5, 2, 3)]) for now in range(6)]


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_a_score_takes_the_place_of_rewards(mode):
    """Shaped rewards do not count; a chef who stands before an onion dispenser takes one and puts it into the pot."""
    options = {"horizon": 30, "shaping_factor": 1.0, "autoreset_mode": mode}
    env = gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_worlds=50, **options)
    agent = ActorCritic(env.single_observation_space, env.single_action_space, PPOConfig(hidden_sizes=(8,)), env.device)
    rewards, step = [], env.step

    def watched(actions):
        outputs = step(actions)
        rewards.append(outputs[1].clone())
        return outputs

    env.step = watched
    outcome = evaluate(env, agent, seed=3, deterministic=False)
    assert sum(rewards).max() > 0
    assert torch.equal(outcome.returns, torch.zeros(100))
    assert torch.equal(outcome.lengths, torch.full((100,), 30.0))


def test_the_score_is_that_at_the_end_of_each_row(toy_env, agent):
    """It may grow in every step; rows end at different times."""
    env = toy_env()
    env.metadata["score"] = "points"
    step = env.step

    def scored(actions):
        *outputs, infos = step(actions)
        points = torch.arange(6) * 100.0 + env.now
        return *outputs, infos | {"points": points * 0, "final_info": {"points": points}}

    env.step = scored
    outcome = evaluate(env, agent, seed=1)
    assert torch.equal(outcome.returns, torch.arange(6) * 100 + torch.tensor([2.0, 3, 4, 5, 2, 3]))


def test_masks_are_honoured(toy_env, agent):
    evaluate(toy_env(masked=True), agent, seed=1, deterministic=True)
    evaluate(toy_env(masked=True), agent, seed=1, deterministic=False)


@pytest.mark.parametrize("deterministic", [True, False])
def test_untrained_rows_choose_among_all_and_the_others_as_the_policy_says(toy_env, agent, deterministic):
    env, seen = toy_env(num_envs=1000), []
    with torch.no_grad():
        agent.actor.head.bias.copy_(torch.tensor([0.0, 50.0, 0.0, 0.0]))  # always 1
    step = env.step
    env.step = lambda actions: (seen.append(actions.clone()), step(actions))[1]
    untrained = torch.arange(1000) < 800
    evaluate(env, agent, 1, deterministic, untrained=untrained)
    for actions in seen:
        assert (actions[~untrained] == 1).all()
        assert ((actions[untrained].bincount(minlength=4) - 200).abs() < 65).all()  # five standard deviations
    assert any((a[untrained] != b[untrained]).any() for a, b in pairwise(seen))


def test_untrained_rows_honour_masks(toy_env, agent):
    evaluate(toy_env(masked=True), agent, seed=1, untrained=torch.ones(6, dtype=torch.bool))
