"""Spaces of all kinds, whose choices begin at other numbers than 0, through the adapters that train in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from environments.signs import Pushed, Sign, Signs
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from libraries_of_others import adapter

DIALS = torch.tensor([[2, 1, 0, 1], [0, 0, 1, 0]])  # as policies count them
PAID, SHOWN = torch.tensor([160.0, -49.0]), torch.tensor([1.0, -1.0])  # of [[1, 6], [0, 1]] and [[-1, 5], [1, 0]]
DIGITS = torch.tensor([[2.0, 1.0], [2.0, 0.0]])
SIGNS = torch.tensor([2, 0])


def test_torchrl() -> None:
    adapted = adapter("torchrl", "TorchRLEnv")
    from torchrl.envs.utils import check_env_specs

    for declared in (Signs(), Sign(), Pushed()):
        check_env_specs(adapted(declared, num_envs=2), seed=1)
    env = adapted(Signs(), num_envs=2)
    following = env.step(env.reset().set("action", DIALS))["next"]
    assert torch.equal(following["reward"].view(-1), PAID)
    assert torch.equal(following["observation", "sign"].view(-1), SHOWN.long())
    low, high = env.observation_spec["observation", "digits"].space
    assert low[0].tolist() == [1, 0] and high[0].tolist() == [2, 1]
    hot = adapted(Sign(), num_envs=2, categorical_actions=False)
    check_env_specs(hot)
    one_hot = torch.nn.functional.one_hot(SIGNS, 3)
    assert torch.equal(hot.step(hot.reset().set("action", one_hot))["next", "reward"].view(-1), 100 * SHOWN)


def test_skrl() -> None:
    env = adapter("skrl", "SkrlEnv")(Signs(), num_envs=2, seed=0)
    assert env.action_space == MultiDiscrete([3, 2, 2, 2])
    assert {type(part) for part in env.observation_space.values()} == {Box}
    env.reset()
    observations, rewards, *_ = env.step(DIALS)
    assert torch.equal(rewards.view(-1), PAID)
    from skrl.utils.spaces.torch import compute_space_size, unflatten_tensorized_space

    assert observations.shape == (2, compute_space_size(env.observation_space, occupied_size=True))
    parts = unflatten_tensorized_space(env.observation_space, observations)
    assert torch.equal(parts["sign"].view(-1), SHOWN) and torch.equal(parts["digits"], DIGITS)
    one = adapter("skrl", "SkrlMultiAgentEnv")(Sign(), num_envs=2, seed=0)
    assert one.action_space("agent_0") == Discrete(3) and one.state_space("agent_0").shape == (1,)
    one.reset()
    seen = one.step({"agent_0": SIGNS.view(2, 1)})
    assert torch.equal(seen[0]["agent_0"].view(-1), SHOWN)
    assert torch.equal(one.state()["agent_0"], seen[0]["agent_0"])


def test_stable_baselines3() -> None:
    adapted = adapter("stable_baselines3", "StableBaselinesVecEnv")
    from stable_baselines3 import PPO

    env = adapted(Signs(), 2)
    assert env.action_space == MultiDiscrete([3, 2, 2, 2])
    env.reset()
    observations, rewards, *_ = env.step(DIALS.numpy())
    assert np.array_equal(rewards, PAID) and np.array_equal(observations["digits"], DIGITS)
    assert all(env.observation_space[key].contains(rows[0]) for key, rows in observations.items())
    few = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 1, "device": "cpu"}
    PPO("MultiInputPolicy", env, **few).learn(32)
    one = adapted(Sign(), 2)
    assert one.action_space == Discrete(3) and one.observation_space == Box(-1, 1, (1,), np.int64)
    assert one.reset().shape == (2, 1)
    observations, rewards, *_ = one.step(SIGNS.numpy())
    assert np.array_equal(observations[:, 0], SHOWN) and np.array_equal(rewards, 100 * SHOWN)
    for _ in range(8):
        *_, dones, infos = one.step(SIGNS.numpy())
    assert dones.all() and infos[0]["terminal_observation"].tolist() == [1]
    PPO("MlpPolicy", one, **few).learn(32)


def test_rl_games() -> None:
    adapted = adapter("rl_games", "RlGamesEnv")
    env = adapted(num_actors=2, env=Signs(), central_value=True)
    assert [int(part.n) for part in env.action_space] == [3, 2, 2, 2] and env.state_space.shape == (7,)
    seen = env.reset()
    assert {key: tuple(rows.shape[1:]) for key, rows in seen["obs"].items()} == {
        key: space.shape for key, space in env.observation_space.items()
    }
    seen, rewards, *_ = env.step(DIALS)
    assert torch.equal(rewards, PAID) and torch.equal(seen["obs"]["digits"], DIGITS) and seen["states"].shape == (2, 7)
    one = adapted(num_actors=2, env=Sign())
    assert one.action_space == Discrete(3) and one.observation_space == Box(-1, 1, (1,), np.float32)
    one.reset()
    seen, rewards, *_ = one.step(SIGNS)
    assert torch.equal(seen.view(-1), SHOWN) and torch.equal(rewards, 100 * SHOWN)


def test_rsl_rl() -> None:
    adapted = adapter("rsl_rl", "RslRlEnv")
    env = adapted(Pushed(), num_envs=2, seed=0)
    seen = env.step(torch.tensor([[0.5], [-3.0]]))[0]
    assert {part.dtype for part in seen.values()} == {torch.float32}
    assert {key: tuple(part.shape) for key, part in seen.items()} == {
        "sign": (2, 1), "digits": (2, 2), "bits": (2, 3), "level": (2, 1),
    }  # fmt: skip
    assert seen["level"].view(-1).tolist() == [0.5, -1.0]
    from rsl_rl.runners import OnPolicyRunner

    small = {"class_name": "MLPModel", "hidden_dims": [8]}
    sets = ["sign", "digits", "bits", "level"]
    settings = {
        "num_steps_per_env": 8, "save_interval": 100, "obs_groups": {"actor": sets, "critic": sets}, "critic": small,
        "actor": {**small, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "algorithm": {"class_name": "PPO"},
    }  # fmt: skip
    OnPolicyRunner(env, settings).learn(1)
    with pytest.raises(ValueError, match="rsl_rl needs actions of a Box with one axis, and Sign has Discrete"):
        adapted(Sign(), num_envs=2)
