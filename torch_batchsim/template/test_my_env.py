"""MyEnv equals its model, and itself on all executors. Run with ``python -m pytest``."""

from __future__ import annotations

import gymnasium
import my_env  # registers the id
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from model import Model

import torch_batchsim
from torch_batchsim.testing import assert_same_bits, check_env, compare, first_worlds, random_actions, snapshot


def put(reference: SyncVectorEnv, world: int, values: dict[str, np.ndarray]) -> None:
    reference.envs[world].unwrapped.put(values)


@pytest.mark.parametrize("size", [8, 2])
def test_each_step_is_that_of_the_model(size: int) -> None:
    env = gymnasium.make_vec("my_env/MyEnv-v0", num_envs=16, size=size, autoreset_mode="NextStep")
    reference = SyncVectorEnv([lambda: Model(size)] * 16)
    compared = compare(env, reference, state=put, steps=300)
    assert compared.episodes > 16
    env.close()


def test_all_checks_pass() -> None:
    """A checked build, extreme actions, spaces, seeds, states, executors: see ``python -m torch_batchsim.check``."""
    print(check_env(my_env.MyEnv, steps=500))


def test_the_goal_is_another_cell() -> None:
    env = torch_batchsim.make_vec(my_env.MyEnv, num_worlds=2000)
    observations, _ = env.reset(seed=0)
    assert (observations[:, :2] != observations[:, 2:]).any(1).all()
    assert len(observations.unique(dim=0)) > 1000


def test_observations_stay_within_their_space() -> None:
    env = torch_batchsim.make_vec(my_env.MyEnv, num_worlds=100)
    env.reset(seed=0)
    for actions in random_actions(env, 100):
        observations, *_ = env.step(actions)
        assert env.observation_space.contains(observations.numpy())


def test_results_do_not_depend_on_threads_executors_and_worlds() -> None:
    few = torch_batchsim.make_vec(my_env.MyEnv, num_worlds=8, num_threads=1)
    many = torch_batchsim.make_vec(my_env.MyEnv, num_worlds=500, executor="per_world")
    for env in (few, many):
        env.reset(seed=0)
        for actions in random_actions(env, 100, most_worlds=500):
            env.step(actions)
    assert_same_bits(snapshot(few.sim), first_worlds(many.sim, 8))
