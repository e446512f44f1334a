"""The random policy, which every training measures first."""

import json

import gymnasium
import pytest
import torch
from gymnasium import spaces
from torch_batchsim.train.commands import cli, training
from torch_batchsim.train.policies.distributions import make_policy
from torch_batchsim.train.rollouts import baseline, evaluation

LENGTHS = torch.tensor([2.0, 3, 4, 5, 2, 3]).double()  # of the episodes of ToyEnv
CPU = torch.device("cpu")


def test_every_episode_counts_once(toy_env):
    found = baseline.random_policy(toy_env(), seed=1)
    assert found == {"mean": (LENGTHS * (LENGTHS + 1) / 2).mean().item(), "episodes": 24, "error": None}


def test_masks_are_honoured(toy_env):
    assert baseline.random_policy(toy_env(masked=True), seed=1)["error"] is None  # the environment asserts them


def test_choices_are_as_likely_as_each_other_among_those_that_are_legal():
    policy, generator = make_policy(spaces.MultiDiscrete([3, 4]), CPU), torch.Generator().manual_seed(1)
    actions, mask = policy.empty_actions(6000), torch.ones(6000, 7, dtype=torch.bool)
    mask[:, 1] = False
    policy.uniform(generator, actions, mask)
    first, second = (column.bincount(minlength=n) for column, n in zip(actions.T, (3, 4), strict=True))
    assert first[1] == 0 and (first[[0, 2]] - 3000).abs().max() < 200  # five standard deviations
    assert (second - 1500).abs().max() < 170


def test_numbers_fill_their_bounds_or_are_normal():
    space = spaces.Box(torch.tensor([-3.0, -torch.inf]).numpy(), torch.tensor([5.0, 1.0]).numpy())
    policy, generator = make_policy(space, CPU), torch.Generator().manual_seed(1)
    actions = policy.empty_actions(10_000)
    policy.uniform(generator, actions, None)
    bounded, free = actions.T
    assert -3 <= bounded.min() < -2.98 and 4.98 < bounded.max() <= 5 and (bounded.mean() - 1).abs() < 0.12
    assert free.mean().abs() < 0.05 and (free.std() - 1).abs() < 0.05


def test_it_is_the_mean_of_gymnasiums_own_cartpole():
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=baseline.WORLDS)
    ours = baseline.random_policy(env, seed=1)
    assert ours["episodes"] == 256
    assert ours["mean"] == pytest.approx(22.3, abs=4)  # five standard deviations of a mean of 256: 12 / 16 each
    assert ours == baseline.random_policy(env, seed=1) != baseline.random_policy(env, seed=2)


def test_slow_worlds_run_once_and_endless_ones_not_to_their_end(toy_env, monkeypatch):
    monkeypatch.setattr(baseline, "SECONDS", 0.0)
    assert baseline.random_policy(toy_env(), seed=1)["episodes"] == 6
    monkeypatch.setattr(baseline, "MOST_SECONDS", -1.0)
    assert baseline.random_policy(toy_env(), seed=1)["error"] == "episodes did not end within -1 s"
    monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 4)
    monkeypatch.setattr(baseline, "MOST_SECONDS", 5.0)
    assert baseline.random_policy(toy_env(), seed=1)["error"] == "1 of 6 episodes did not end within 4 steps"


def test_rewards_that_are_no_numbers_give_no_line(toy_env):
    env = toy_env()
    step = env.step
    env.step = lambda actions: (lambda obs, rewards, *rest: (obs, rewards * torch.nan, *rest))(*step(actions))
    assert baseline.random_policy(env, seed=1) == {"mean": None, "episodes": 24, "error": "the mean is nan"}


def test_a_training_prints_it_and_keeps_it(tmp_path, capsys):
    small = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 256 --eval-episodes 2".split()
    files = ["--run-dir", str(tmp_path), "--summary", str(tmp_path / "s.json")]
    assert cli.main(["cartpole", *small, *files]) == 0
    assert capsys.readouterr().out.startswith("random policy   mean return ")
    summary = json.loads((tmp_path / "s.json").read_text())
    assert 15 < summary["random_return_mean"] < 30 and summary["random_episodes"] == 256
    assert cli.main(["cartpole", "--eval", str(tmp_path / "checkpoint.pt"), "--eval-episodes", "2"]) == 0
    assert json.loads((tmp_path / "eval.json").read_text()) == summary


def test_a_score_is_called_a_score(tmp_path, capsys, monkeypatch):
    reported = {}
    draw = training.draw_curve
    monkeypatch.setattr(training, "draw_curve", lambda *given, **named: (reported.update(named), draw(*given, **named)))
    small = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 384 --eval-episodes 2 --horizon 20".split()
    files = ["--run-dir", str(tmp_path), "--summary", str(tmp_path / "s.json")]
    assert cli.main(["overcooked", *small, *files]) == 0
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["measure"] == reported["measure"] == "score"
    assert summary["random_score_mean"] == summary["eval_score_mean"] == 0
    assert summary["curve_first_step"] == 256  # the second rollout, for episodes have 20 steps
    assert not any("return" in name for name in summary)
    assert "mean score" in (out := capsys.readouterr().out) and "mean return" not in out
