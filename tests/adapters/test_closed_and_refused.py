"""Adapters after ``close``, and arguments that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from libraries_of_others import adapter

CARTPOLE, OVERCOOKED, HANABI = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi"))
CLOSED: dict[str, tuple[str, str, Callable[[Any], Any], list[Callable[[Any], Any]]]] = {
    "skrl": ("skrl", "SkrlEnv", lambda c: c(CARTPOLE, num_envs=2), [lambda env: env.reset()]),
    "skrl agents": (
        "skrl", "SkrlMultiAgentEnv", lambda c: c(OVERCOOKED, num_worlds=2),
        [lambda env: env.reset(), lambda env: env.state()],
    ),
    "rsl_rl": (
        "rsl_rl", "RslRlEnv", lambda c: c(CARTPOLE, 2, continuous=True), [lambda env: env.get_observations()]
    ),
    "pettingzoo": ("pettingzoo", "env", lambda c: c(HANABI), [lambda env: env.last()]),
    "envpool": (
        "envpool", "make", lambda c: c(CARTPOLE, env_type="gymnasium", num_envs=2, batch_size=1),
        [lambda env: env.recv(), lambda env: env.send(np.zeros(2, np.int32))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_environment_says_so(name: str) -> None:
    module, what, make, calls = CLOSED[name]
    env = make(adapter(module, what))
    env.reset()
    env.close()
    for call in calls:
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            call(env)


def test_one_world_begins_as_a_whole() -> None:
    for env, options in (
        (adapter("dm_env", "DmEnvironment")(CARTPOLE, seed=0), {}),
        (adapter("rllib", "RLlibMultiAgentEnv")({"env": OVERCOOKED}), {"options": {"reset_mask": False}}),
    ):
        env.reset()
        with pytest.raises(ValueError, match="reset has no option 'reset_mask' here"):
            env.reset(**options) if options else env.reset({"reset_mask": False})


def test_tianshous_ids_are_the_mask() -> None:
    venv = adapter("tianshou", "TianshouVectorEnv")(CARTPOLE, 3)
    venv.reset()
    with pytest.raises(ValueError, match="in place of the option reset_mask"):
        venv.reset([1], options={"reset_mask": [True, False, False]})
    with pytest.raises(ValueError, match=r"seed must be a number or a list of numbers, got \[\]"):
        venv.seed([])
    assert venv.seed(np.array([1, 2, 3])) == [[1]] * 3


def test_arguments_of_rsl_rl() -> None:
    made = adapter("rsl_rl", "RslRlEnv")
    for wrong in ("x", 0, 2.5):
        with pytest.raises(ValueError, match="max_episode_length must be a positive integer, got"):
            made(CARTPOLE, 2, continuous=True, max_episode_length=wrong)


def test_seeds_of_torchrl_and_actions_of_rl_games() -> None:
    env = adapter("torchrl", "TorchRLEnv")(CARTPOLE, num_envs=2)
    with pytest.raises(ValueError, match=r"seed must be .*-1"):
        env.set_seed(-1)
    env = adapter("rl_games", "RlGamesEnv")(num_actors=3, env=CARTPOLE)
    env.reset()
    with pytest.raises(ValueError, match=r"actions must have shape \[3\], got \[2, 1\]"):
        env.step(torch.zeros(2, 1, dtype=torch.int64))


def test_pettingzoo_is_asked_before_a_reset() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before last\(\)"):
        adapter("pettingzoo", "env")(HANABI).last()
