"""A fault of one world: what adapters keep from step to step goes on, and the error has what the step would return."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from libraries_of_others import adapter

from torch_batchsim import TorchVectorEnv
from torch_batchsim.errors import WorldFault

HANABI, FAULTY = "torch_batchsim/Hanabi-v0", 1


def bare() -> Any:
    env = gymnasium.make_vec(HANABI, num_worlds=3, copy=True)
    env.reset(seed=5)
    return env


def wrong(mask: torch.Tensor) -> torch.Tensor:
    """Actions that are legal, but for one world."""
    actions = mask.int().argmax(1)
    actions[FAULTY] = mask[FAULTY].int().argmin()
    return actions


def faulty(step: Any, *arguments: Any) -> Any:
    with pytest.raises(WorldFault, match=r"world 1: .*illegal_move") as caught:
        step(*arguments)
    return caught.value.outputs


def expected() -> tuple[Any, ...]:
    """Of the bare environment."""
    env = bare()
    return faulty(env.step, wrong(env.action_mask))


def spoil(env: TorchVectorEnv) -> None:
    """Drift reports a position that is not a number."""
    env.sim.tensor("Particle.Body.position")[FAULTY] = torch.nan


def faulty_drift(step: Any, actions: Any) -> Any:
    with pytest.raises(WorldFault, match=r"world 1: .*nan") as caught:
        step(actions)
    return caught.value.outputs


def test_stable_baselines3() -> None:
    env = adapter("stable_baselines3", "StableBaselinesVecEnv")(HANABI, num_worlds=3)
    env.seed(5)
    env.reset()
    observations, rewards, dones, _ = faulty(env.step, wrong(env.env.unwrapped.action_mask).numpy())
    bares = expected()
    assert np.array_equal(observations, bares[0]) and np.array_equal(rewards, bares[1])
    assert np.array_equal(dones, bares[2] | bares[3])
    assert torch.equal(env.infos["action_mask"], bares[4]["action_mask"])
    assert env._episodes.lengths.tolist() == (1 - dones).tolist()


def test_pufferlib() -> None:
    env = adapter("pufferlib", "PufferLibEnv")(HANABI, num_worlds=3)
    env.reset(seed=5)
    outputs = faulty(env.step, wrong(torch.from_numpy(env.action_mask)).numpy())
    for part, of_bare in zip(outputs[:4], expected(), strict=False):
        assert np.array_equal(part, of_bare)
    assert env._episodes.lengths.tolist() == (1 - (outputs[2] | outputs[3])).tolist()


def test_torchrl() -> None:
    """One world has a fault and another one's episode ends, which begins anew within the step."""
    envs = TorchVectorEnv(Drift(), 3, copy=True), TorchVectorEnv(Drift(), 3)
    env = adapter("torchrl", "TorchRLEnv")(envs[1])
    seen = env.reset(seed=5)
    assert torch.equal(seen["observation"], envs[0].reset(seed=5)[0])
    for each in envs:
        spoil(each)
        each.episode_steps = torch.tensor([0, 0, 8])
    actions = torch.zeros(3, 3)
    following = faulty_drift(env.step, seen.set("action", actions))
    bares = faulty_drift(envs[0].step, actions)
    assert torch.equal(following["reward"].view(-1)[[0, 2]], bares[1][[0, 2]])
    assert following["done"].view(-1).tolist() == [False, False, True] == bares[3].tolist()
    assert torch.equal(following["observation"][2], bares[4]["final_obs"][2])
    again = env.reset(following.clone().set("_reset", following["done"]))
    assert torch.equal(again["observation"][[0, 2]], bares[0][[0, 2]]) and not again["done"].any()
    assert env.vector_env.episode_steps.tolist() == [1, 1, 0]  # nothing was reset twice


def test_skrl() -> None:
    env = adapter("skrl", "SkrlEnv")(HANABI, num_worlds=3, seed=5)
    _, infos = env.reset()
    observations, rewards, *_ = faulty(env.step, wrong(infos["action_mask"]).view(-1, 1))
    bares = expected()
    assert torch.equal(observations, bares[0].float()) and torch.equal(rewards.view(-1), bares[1])
    assert env.reset()[0] is observations


def test_rsl_rl() -> None:
    env = adapter("rsl_rl", "RslRlEnv")(TorchVectorEnv(Drift(), 3), seed=5)
    before = env.get_observations()
    spoil(env.vector_env)
    outputs = faulty_drift(env.step, torch.zeros(3, 3))
    assert outputs[0] is env.get_observations() is not before
    assert outputs[0]["policy"].isnan().any(1).tolist() == [False, True, False]
