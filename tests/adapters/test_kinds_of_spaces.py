"""Observations that are not in a Box, indices that do not begin at 0: NumPy's adapters deliver or refuse them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from environments.walkers import FromOne, FromOneInABox, Walkers, seeing
from libraries_of_others import adapter

from torch_batchsim import Environment, TorchVectorEnv

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # of Tianshou's few loops
KINDS = {"all": Walkers, **{part: lambda part=part: seeing(part) for part in ("place", "pair", "marks")}}
of_all_kinds = pytest.mark.parametrize(
    "kind", ["all", *(pytest.param(part, marks=pytest.mark.full) for part in ("place", "pair", "marks"))]
)


def rows(env: Environment, steps: int, mode: str) -> list[Any]:
    """Observations of the walkers of two worlds, as arrays, where they always go on by one place."""
    bare = TorchVectorEnv(env, num_worlds=2, output="numpy", copy=True, autoreset_mode=mode)
    seen = [bare.reset(seed=3)[0]]
    return seen + [bare.step(np.ones(4, int))[0] for _ in range(steps)]


def parts(seen: Any) -> list[np.ndarray]:
    return [np.asarray(seen[key]) for key in ("place", "pair", "marks")] if hasattr(seen, "keys") else [seen]


def assert_alike(found: Any, expected: Any, where: Any = slice(None)) -> None:
    for one, other in zip(parts(found), parts(expected), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other[where])


@of_all_kinds
def test_pettingzoo(kind: str) -> None:
    make = adapter("pettingzoo", "parallel_env")
    from pettingzoo.test import parallel_api_test

    world = make(KINDS[kind]())
    parallel_api_test(world, num_cycles=20)
    seen, _ = world.reset(seed=3)
    for expected in rows(KINDS[kind](), 5, "Disabled"):
        for agent in world.agents:
            assert seen[agent] in world.observation_space(agent)
            if kind != "all":
                assert np.shape(seen[agent]) == expected.shape[1:] and world.state().dtype == expected.dtype
        assert world.state_space.contains(world.state())
        seen = world.step(dict.fromkeys(world.agents, 1))[0]


@of_all_kinds
def test_dm_env(kind: str) -> None:
    env = adapter("dm_env", "DmEnvironment")(KINDS[kind](), seed=3)
    timestep, specs = env.reset(), env.observation_spec()
    for _ in range(5):
        for key, spec in specs.items() if kind == "all" else [(None, specs)]:
            spec.validate(timestep.observation if key is None else timestep.observation[key])
        timestep = env.step([1, 1])


@of_all_kinds
def test_rllib(kind: str) -> None:
    """Integers stay integers, which are in the space."""
    env = adapter("rllib", "RLlibVectorEnv")({"env": KINDS[kind](), "num_envs": 4})
    seen, _ = env.reset(seed=3)
    for expected in rows(KINDS[kind](), 12, "NextStep"):
        assert seen in env.observation_space
        assert_alike(seen, expected)
        seen = env.step(np.ones(4, int))[0]
    several = adapter("rllib", "RLlibMultiAgentEnv")({"env": KINDS[kind]()})
    by_agent, _ = several.reset(seed=3)
    for _ in range(9):
        assert len(by_agent) == 2
        assert all(by_agent[agent] in several.observation_spaces[agent] for agent in by_agent)
        by_agent = several.step(dict.fromkeys(several.agents, 1))[0]


def test_rllib_flattens_them() -> None:
    made = adapter("rllib", "RLlibVectorEnv")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.env_to_module import FlattenObservations
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = PPOConfig().environment(made, env_config={"env": Walkers()})
    config.env_runners(
        num_envs_per_env_runner=2,
        gym_env_vectorize_mode="vector_entry_point",
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(),
    )
    (episode, *_) = SingleAgentEnvRunner(config=config).sample(num_episodes=1)
    assert episode.get_observations(-1).shape == (6 + 5 + 3 + 3,)


@of_all_kinds
def test_tianshou(kind: str) -> None:
    venv = adapter("tianshou", "TianshouVectorEnv")(KINDS[kind](), 4)
    seen, _ = venv.reset(seed=3)
    for expected in rows(KINDS[kind](), 5, "Disabled"):
        assert_alike(seen, expected)
        assert_alike(venv._observed(np.array([2, 3]))[0], expected, [2, 3])
        seen = venv.step(np.ones(4, int))[0]


@of_all_kinds
def test_pufferlib_refuses_them(kind: str) -> None:
    with pytest.raises(TypeError, match=r"PufferLib needs observations in a Box, and those of .* are in"):
        adapter("pufferlib", "PufferLibEnv")(KINDS[kind]())


# ---- from another number on ----------------------------------------------------------------------------------------


def test_pettingzoo_and_dm_env_have_spaces_that_begin_at_another_number() -> None:
    world = adapter("pettingzoo", "parallel_env")(FromOne())
    before, _ = world.reset(seed=0)
    assert [world.action_space(agent).start for agent in world.agents] == [1, 1]
    after = world.step({"agent_0": 1, "agent_1": 3})[0]
    for agent, places in (("agent_0", 1), ("agent_1", 3)):
        assert after[agent] == (before[agent] - 1 + places) % 5 + 1
        assert after[agent] in world.observation_space(agent)
    with pytest.raises(ValueError, match=r"action 0 of world 0, agent 1 is not in Discrete\(3, start=1\)"):
        world.step({"agent_0": 1, "agent_1": 0})
    env = adapter("dm_env", "DmEnvironment")(FromOne(), seed=0)
    assert (env.action_spec().minimum, env.action_spec().maximum) == (1, 3)
    before = env.reset().observation
    assert np.array_equal(env.step([1, 3]).observation, (before - 1 + [1, 3]) % 5 + 1)


@pytest.mark.parametrize(
    ("module", "name", "library"),
    [
        ("rllib", "RLlibVectorEnv", "RLlib"),
        ("rllib", "RLlibMultiAgentEnv", "RLlib"),
        ("tianshou", "TianshouVectorEnv", "Tianshou"),
        pytest.param("pufferlib", "PufferLibEnv", "PufferLib", marks=pytest.mark.full),
    ],
)
def test_others_refuse_them(module: str, name: str, library: str) -> None:
    made, env = adapter(module, name), FromOneInABox if library == "PufferLib" else FromOne  # which is refused before
    wanted = rf"{library} counts from 0; the action space must begin there too, got Discrete\(3, start=1\)"
    with pytest.raises(ValueError, match=wanted):
        made({"env": env(), "num_envs": 2}) if library == "RLlib" else made(env(), num_envs=2)


@pytest.mark.full
def test_rllib_refuses_observations_that_begin_at_another_number() -> None:
    """Its own flattening ends in an error at their last one."""

    class Seen(FromOne):
        action_space = Walkers.action_space

    with pytest.raises(ValueError, match=r"the observation space must begin there too, got Discrete\(5, start=1"):
        adapter("rllib", "RLlibVectorEnv")({"env": Seen(), "num_envs": 2})
