"""dm_env's own checker, and what it does not look at: discounts, seeds, several agents, ends of agents' own."""

from __future__ import annotations

import unittest
from typing import Any

import gymnasium
import numpy as np
import pytest
from libraries_of_others import library, run_script
from support import COMPILED

import torch_batchsim  # noqa: F401  (registers the environments)

dm_env, test_utils = library(__file__, "dm_env", "dm_env.test_utils")
from torch_batchsim.adapters.dm_env import DmEnvironment  # noqa: E402

OVERCOOKED = "torch_batchsim/Overcooked-v0"


def legal(env: DmEnvironment, timestep: Any, draws: np.random.Generator) -> Any:
    """A random action."""
    if isinstance(timestep.observation, dict) and "action_mask" in timestep.observation:
        return np.argmax(
            timestep.observation["action_mask"] * draws.random(env.observation_spec()["action_mask"].shape), -1
        )
    spec = env.action_spec()
    return draws.integers(spec.minimum, spec.maximum + 1, spec.shape)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("torch_batchsim/CartPole-v0", {}),
        (OVERCOOKED, {"horizon": 25}),
        ("torch_batchsim/Swarm-v0", {"max_episode_steps": 25}),
        ("torch_batchsim/Hanabi-v0", {}),
        pytest.param("torch_batchsim/HideSeek-v0", {"max_episode_steps": 25}, marks=pytest.mark.full),
    ],
)
def test_its_own_checker(source: str, options: dict[str, Any]) -> None:
    ends = []

    class Checked(test_utils.EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self) -> DmEnvironment:
            return DmEnvironment(source, seed=1, **options)

        def assertValidStep(self, step: Any) -> None:
            super().assertValidStep(step)
            self.seen = step
            ends.append(step.last())

        def make_action(self) -> Any:
            if not hasattr(self, "seen"):  # a fresh environment, which ignores it
                return super().make_action()
            return legal(self.environment, self.seen, np.random.default_rng(len(ends)))

        def make_action_sequence(self) -> Any:
            for _ in range(60):
                yield self.make_action()

    result = unittest.defaultTestLoader.loadTestsFromTestCase(Checked).run(unittest.TestResult())
    assert result.testsRun == 4
    assert result.wasSuccessful(), [*result.errors, *result.failures]
    assert any(ends), "no episode has ended: the checker has not seen what there is after"


@pytest.mark.parametrize(("limit", "discount"), [(500, 0.0), (5, 1.0)])
def test_the_discount_of_a_fall_and_of_the_end_of_time(limit: int, discount: float) -> None:
    with DmEnvironment("torch_batchsim/CartPole-v0", seed=0, max_episode_steps=limit) as env:
        timesteps = [env.reset()]
        while not timesteps[-1].last():
            timesteps.append(env.step(1))
    assert [timestep.discount for timestep in timesteps[1:]] == [1.0] * (len(timesteps) - 2) + [discount]
    assert isinstance(timesteps[-1].reward, float)
    assert timesteps[0].observation is not timesteps[1].observation
    assert not np.shares_memory(timesteps[0].observation, timesteps[1].observation)


def test_a_world_is_the_vector_environments() -> None:
    env = DmEnvironment(OVERCOOKED, seed=7)
    vector = gymnasium.make_vec(OVERCOOKED, num_worlds=1, output="numpy", copy=True)
    observation, _ = vector.reset(seed=7)
    timestep, draws = env.reset(), np.random.default_rng(0)
    for _ in range(50):
        assert np.array_equal(timestep.observation, observation)
        actions = draws.integers(0, 6, 2)
        timestep = env.step(actions)
        observation, rewards, *_ = vector.step(actions)
        assert np.array_equal(timestep.reward, rewards)


def test_agents_that_leave_have_no_future() -> None:
    env = DmEnvironment(COMPILED["melee"](max_episode_steps=12), seed=3)
    timestep, draws, left = env.reset(), np.random.default_rng(0), 0
    assert sorted(timestep.observation) == ["active", "observation"]
    while not timestep.last():
        before = timestep.observation["active"]
        timestep = env.step(draws.integers(0, 4, 4))
        active = timestep.observation["active"]
        if not timestep.last():
            assert not timestep.discount[~active & ~before].any()
            assert (timestep.discount[active] == 1).all()
            left += int((before & ~active).sum())
    assert left, "nobody has left"


def test_bad_actions_are_refused() -> None:
    env = DmEnvironment("torch_batchsim/CartPole-v0", seed=0)
    assert env.step("is not looked at").first()
    for wrong in (0.5, [0], None, True):
        with pytest.raises(ValueError, match="action must fit DiscreteArray"):
            env.step(wrong)
    with pytest.raises(ValueError, match="is not in Discrete"):
        env.step(2)
    several = DmEnvironment(OVERCOOKED, seed=0)
    several.reset()
    for wrong in (0, [0, 1, 2], [[0], [1, 2]], [0.0, 1.0], {"agent_0": 0}):
        with pytest.raises(ValueError, match=r"action must fit BoundedArray\(shape=\(2,\)"):
            several.step(wrong)
    assert several.step([0, 1]).mid()


def test_the_script_of_the_page() -> None:
    assert run_script("dm_env")["steps"] > 0
