"""A copy of an adapter, pickled or deep, goes on as the original does, in memory of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from libraries_of_others import adapter

CARTPOLE, OVERCOOKED, HANABI = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi"))
SHORT = {"num_worlds": 4, "max_episode_steps": 7}  # episodes end within the test
RIGHT = torch.ones(4, dtype=torch.int64)
Call = Callable[[Any], Any]


def of_tianshou(venv: Any) -> Any:
    """Step two of four worlds, and let one that has ended begin anew; the others stand still."""
    results = venv.step(RIGHT[:2].numpy(), id=[0, 2])
    ended = np.array([0, 2])[results[2] | results[3]]
    return results[:4], venv.reset(ended[:1])[0] if len(ended) else (), venv.vector_env.sim.tensor("World.step")


def of_torchrl(env: Any) -> Any:
    """By the masks in the action spec, worlds that are done begin anew."""
    done = env.step(env.rand_action())
    masks = {"_reset": done["next", "done"]}
    return done, env.reset(done.empty().update(masks)) if masks["_reset"].any() else ()


def by_agent(env: Any) -> Any:
    return env.step(dict.fromkeys(env.agents, torch.randint(4, ()).numpy()[()]))


def stepped(actions: Any, parts: int = 5) -> Call:
    """A step; without its infos where these have ``final_obs``, whose rows are valid at ends only."""
    return lambda env: env.step(actions)[:parts]


def of_rsl_rl(env: Any) -> Any:
    return env.step(torch.ones(4, 1))[:3], env.episode_length_buf, env.get_observations()


MULTI = {"num_worlds": 4, "horizon": 7}
CASES: dict[str, tuple[str, str, Call, Call]] = {
    "stable_baselines3": (
        "stable_baselines3", "StableBaselinesVecEnv", lambda c: c(CARTPOLE, **SHORT), stepped(RIGHT.numpy()),
    ),
    "skrl": ("skrl", "SkrlEnv", lambda c: c(CARTPOLE, seed=0, **SHORT), stepped(RIGHT.view(-1, 1), 4)),
    "skrl agents": (
        "skrl", "SkrlMultiAgentEnv", lambda c: c(OVERCOOKED, seed=0, **MULTI),
        lambda env: (env.step(dict.fromkeys(env.agents, torch.randint(4, (4, 1))))[:4], env.state()),
    ),
    "rsl_rl": ("rsl_rl", "RslRlEnv", lambda c: c(CARTPOLE, seed=0, continuous=True, **SHORT), of_rsl_rl),
    "rl_games": ("rl_games", "RlGamesEnv", lambda c: c(num_actors=4, env=CARTPOLE, seed=0), stepped(RIGHT, 3)),
    "tianshou": ("tianshou", "TianshouVectorEnv", lambda c: c(CARTPOLE, **SHORT), of_tianshou),
    "torchrl": ("torchrl", "TorchRLEnv", lambda c: c(CARTPOLE, **SHORT), of_torchrl),
    "torchrl masks": (
        "torchrl", "TorchRLEnv", lambda c: c(HANABI, num_worlds=4, autoreset_mode="SameStep"), of_torchrl,
    ),
    "pufferlib": ("pufferlib", "PufferLibEnv", lambda c: c(CARTPOLE, **SHORT), stepped(RIGHT.numpy())),
    "pufferlib masks": (
        "pufferlib", "PufferLibEnv", lambda c: c(HANABI, num_worlds=4),
        lambda env: (env.step(env.action_mask.argmax(1)), env.action_mask),
    ),
    "rllib": (
        "rllib", "RLlibVectorEnv", lambda c: c({"env": CARTPOLE, "num_envs": 4, "max_episode_steps": 7}),
        stepped(RIGHT.numpy()),
    ),
    "rllib agents": ("rllib", "RLlibMultiAgentEnv", lambda c: c({"env": OVERCOOKED, "horizon": 30}), by_agent),
    "dm_env": ("dm_env", "DmEnvironment", lambda c: c(CARTPOLE, seed=0, max_episode_steps=7), stepped(np.int64(1))),
    "pettingzoo": ("pettingzoo", "parallel_env", lambda c: c(OVERCOOKED, horizon=30), by_agent),
}  # fmt: skip


def leaves(value: Any) -> Iterator[np.ndarray]:
    """The numbers in what an adapter returns, copied; other objects do not count."""
    if isinstance(value, (Mapping, tuple, list)) or hasattr(value, "batch_size"):
        for part in value.values() if hasattr(value, "values") else value:
            yield from leaves(part)
    elif isinstance(value, (torch.Tensor, np.ndarray, np.generic, int, float)):
        array = value.numpy().copy() if isinstance(value, torch.Tensor) else np.array(value)
        if array.dtype != object:
            yield array


def played(env: Any, step: Call, steps: int = 12) -> list[list[np.ndarray]]:
    results = []
    for number in range(steps):
        torch.manual_seed(number)
        results.append(list(leaves(step(env))))
    return results


def assert_alike(copy: list[list[np.ndarray]], original: list[list[np.ndarray]]) -> None:
    for number, (one, other) in enumerate(zip(copy, original, strict=True)):
        assert len(one) == len(other) >= 2, f"step {number}"
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left, right), f"step {number}"
    assert any(repr(parts) != repr(original[0]) for parts in original), "nothing happens"


@pytest.mark.parametrize("copied", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("name", CASES)
def test_a_copy_goes_on_alike(name: str, copied: Call) -> None:
    """The copy plays first: what it did to the original would show in what that plays afterwards."""
    module, cls, make, step = CASES[name]
    original = make(adapter(module, cls))
    original.reset()
    played(original, step, 3)
    copy = copied(original)
    again = played(copy, step)
    assert_alike(again, played(original, step))
    assert_alike(played(copied(copy), step), played(original, step))


@pytest.mark.parametrize("copied", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
def test_copies_of_rsl_rl_have_counters_of_their_own(copied: Call) -> None:
    original = adapter("rsl_rl", "RslRlEnv")(CARTPOLE, seed=0, continuous=True, **SHORT)
    copy = copied(original)
    copy.episode_length_buf = torch.tensor([6, 0, 6, 0])
    for env, expected in ((copy, [True, False, True, False]), (original, [False] * 4)):
        assert env.step(torch.zeros(4, 1))[3]["time_outs"].tolist() == expected
