"""Tianshou: its collector gets what the bare environment returns, worlds stand still when asked to, and PPO learns."""

from __future__ import annotations

import os
import re

import gymnasium
import numpy as np
import pytest
import torch
from libraries_of_others import library, run_script

import torch_batchsim
from torch_batchsim.testing import assert_same_bits, of_worlds, snapshot

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiling Tianshou's few loops takes longer than all that is run of them here
library(__file__, "tianshou")

from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy  # noqa: E402
from tianshou.data import Collector, VectorReplayBuffer  # noqa: E402
from tianshou.env import BaseVectorEnv, VectorEnvNormObs  # noqa: E402
from tianshou.utils.net.common import Net  # noqa: E402

from torch_batchsim.adapters.tianshou import TianshouVectorEnv  # noqa: E402

CARTPOLE, OVERCOOKED, HANABI, SWARM = (
    f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi", "Swarm")
)


def policy_of(venv: TianshouVectorEnv, state_shape: int | tuple[int, ...]) -> DiscreteQLearningPolicy:
    """A policy of Tianshou's that is not trained, and deterministic."""
    torch.manual_seed(0)
    actions = venv.vector_env.single_action_space
    model = Net(state_shape=state_shape, action_shape=int(actions.n), hidden_sizes=[16])
    return DiscreteQLearningPolicy(model=model, action_space=actions, eps_training=0.0, eps_inference=0.0)


def test_a_collector_stores_copies() -> None:
    """Each row's transitions, by the policy's own actions, over many ends of episodes."""
    rows, steps = 6, 100
    venv = TianshouVectorEnv(CARTPOLE, rows)
    buffer = VectorReplayBuffer(rows * steps, rows)
    collector = Collector(policy_of(venv, 4), venv, buffer)
    collector.reset(gym_reset_kwargs={"seed": 3})
    stats = collector.collect(n_step=rows * steps)
    bare = gymnasium.make_vec(CARTPOLE, num_envs=rows, autoreset_mode="Disabled", output="numpy", copy=True)
    observations, _ = bare.reset(seed=3)
    stored = buffer[:]
    by_row = {name: stored[name].reshape(rows, steps, -1) for name in ("obs", "act", "obs_next", "rew", "done")}
    returns, running = [], np.zeros(rows)
    for step in range(steps):
        assert np.array_equal(by_row["obs"][:, step], observations)
        following, rewards, terminations, truncations, _ = bare.step(by_row["act"][:, step, 0])
        done = terminations | truncations
        assert np.array_equal(by_row["obs_next"][:, step], following)
        assert np.array_equal(by_row["rew"][:, step, 0], rewards)
        assert np.array_equal(by_row["done"][:, step, 0], done)
        running += rewards
        returns += running[done].tolist()
        running[done] = 0
        observations = bare.reset(options={"reset_mask": done})[0] if done.any() else following
    assert len(returns) > rows
    assert sorted(stats.returns) == sorted(returns)


def test_collecting_episodes() -> None:
    venv = TianshouVectorEnv(CARTPOLE, 4)
    collector = Collector(policy_of(venv, 4), venv, VectorReplayBuffer(10_000, 4))
    stats = collector.collect(n_episode=10, reset_before_collect=True)
    assert stats.n_collected_episodes == 10
    assert np.array_equal(stats.returns, stats.lens)


@pytest.mark.parametrize(("env_id", "worlds"), [(CARTPOLE, 4), (OVERCOOKED, 4), (SWARM, 4)])
def test_rows_that_are_not_stepped_stand_still(env_id: str, worlds: int) -> None:
    """Worlds stepped in turns are afterwards as if they had been stepped together."""
    together, apart = (TianshouVectorEnv(env_id, num_worlds=worlds) for _ in range(2))
    space = together.vector_env.action_space
    space.seed(0)
    actions = [space.sample() for _ in range(40)]
    for venv in (together, apart):
        venv.seed(5)
    first = np.arange(len(together)) < len(together) // 2
    halves = np.flatnonzero(first)[::-1], np.flatnonzero(~first)
    for action in actions:
        whole = together.step(action)
        for ids in halves:
            parts = apart.step(action[ids], ids)
            for part, expected in zip(parts[:4], whole[:4], strict=True):
                assert np.array_equal(part, expected[ids])
            assert parts[4].tolist() == whole[4][ids].tolist()
    last = torch.arange(worlds) >= worlds // 2  # flags of those that stood still in the last call are not theirs
    expected, found = (of_worlds(snapshot(venv.vector_env.sim), last) for venv in (together, apart))
    assert_same_bits(expected, found)


def test_masks_of_legal_actions() -> None:
    venv = TianshouVectorEnv(HANABI, 4)
    policy = policy_of(venv, venv.vector_env.single_observation_space.shape)
    collector = Collector(policy, venv, VectorReplayBuffer(1000, 4))
    collector.reset(gym_reset_kwargs={"seed": 0})
    collector.collect(n_step=400)  # an illegal move would be a fault
    stored = collector.buffer[:]
    assert stored.obs.mask.shape == (400, 20)
    assert np.take_along_axis(stored.obs.mask, stored.act[:, None], 1).all()
    assert stored.info.score.shape == (400,)


def test_it_is_a_vector_environment_of_theirs() -> None:
    venv = TianshouVectorEnv(CARTPOLE, 3)
    assert isinstance(venv, BaseVectorEnv)
    assert len(venv) == 3 == len(venv.action_space) == len(venv.get_env_attr("spec"))
    assert venv.observation_space[0] == venv.vector_env.single_observation_space
    assert venv.get_env_attr("action_space", [0, 2]) == [venv.vector_env.single_action_space] * 2
    venv.reset()
    assert venv.get_env_attr("episode_steps", 1) == [0]
    assert venv.seed([4, 5, 6]) == [[4]] * 3
    normed = VectorEnvNormObs(venv)
    observations, infos = normed.reset()
    assert observations.shape == (3, 4)
    assert infos.tolist() == [{}] * 3
    venv.close()
    with pytest.raises(AssertionError, match="after close"):
        venv.reset()


def test_wrong_arguments_are_refused() -> None:
    venv = TianshouVectorEnv(OVERCOOKED, 4)
    with pytest.raises(gymnasium.error.ResetNeeded, match="must be of all worlds"):
        venv.reset([0, 1])
    venv.reset()
    for call in (lambda: venv.reset([0]), lambda: venv.step(np.zeros(3, int), [0, 1, 2])):
        with pytest.raises(ValueError, match="those of all agents of a world"):
            call()
    with pytest.raises(AttributeError, match="'gravity' cannot be set"):
        venv.set_env_attr("gravity", 1)


ONCE = r"ids must be integers from 0 to 3, each once, or None for all, got "


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        *(((ids), ValueError) for ids in ([0, 0], [-1, 0], [0, 4], 4)),
        *(((ids), TypeError) for ids in ([0.0, 1.0], [True, False], ["0", "1"], [0, [1, 2]], [[0, 1]], 1.0, "1", True)),
    ],
    ids=repr,
)
def test_ids_that_are_not_those_of_rows_are_refused(ids: object, error: type[Exception]) -> None:
    venv = TianshouVectorEnv(CARTPOLE, 4)
    venv.seed(0)
    before = snapshot(venv.vector_env.sim)
    for call in (
        lambda: venv.step(np.zeros(np.size(ids) if error is ValueError else 2, int), ids),
        lambda: venv.reset(ids),
        lambda: venv.get_env_attr("episode_steps", ids),
    ):
        with pytest.raises(error, match=ONCE + re.escape(repr(ids))):
            call()
    assert_same_bits(before, snapshot(venv.vector_env.sim))


def test_ids_and_actions_of_all_forms() -> None:
    venv = TianshouVectorEnv(CARTPOLE, 4)
    venv.seed(0)
    for ids in ([3, 1], (3, 1), np.array([3, 1], np.int16), torch.tensor([3, 1])):
        for actions in ([0, 1], np.array([0, 1], np.uint8), torch.tensor([0, 1])):
            assert len(venv.step(actions, ids)[0]) == len(venv.reset(ids)[0]) == 2
    assert len(venv.step([1], 2)[0]) == len(venv.step([1], np.int64(2))[0]) == len(venv.reset(2)[0]) == 1
    assert len(venv.reset([])[0]) == 0
    assert len(venv.step([0, 1, 0, 1], [0, 1, 2, 3])[0]) == 4
    steps = venv.vector_env.episode_steps.tolist()
    for ids in (None, [0, 1]):
        shape = rf"\[{4 if ids is None else 2}\]"
        for actions, error, message in (
            (0, ValueError, rf"an action for each of . ids, shape {shape}, got \[\]"),
            ([0, 1, 0], ValueError, rf"an action for each of . ids, shape {shape}, got \[3\]"),
            ([[0], [1, 1]], ValueError, rf"action must have shape {shape}, got ragged lists"),
            (["left"], TypeError, "action must be numbers, got a numpy array of dtype <U4"),
            (None, TypeError, "action must be a torch tensor or a numpy array, got NoneType"),
            (np.zeros(4 if ids is None else 2), TypeError, "actions must have dtype int64, .*, got float64"),
            (np.full(4 if ids is None else 2, 2), ValueError, r"action 2 of world 0 is not in Discrete\(2\)"),
        ):
            with pytest.raises(error, match=message):
                venv.step(actions, ids)
    assert venv.vector_env.episode_steps.tolist() == steps


def test_a_seed_resets_all_worlds() -> None:
    venv = TianshouVectorEnv(CARTPOLE, 3)
    venv.seed(4)
    first = venv.vector_env.observations.numpy().copy()
    venv.step(np.ones(3, int))
    venv.seed(4)
    assert venv.vector_env.episode_steps.tolist() == [0, 0, 0]
    assert np.array_equal(venv.vector_env.observations.numpy(), first)


@pytest.mark.full
def test_agents_with_ends_of_their_own_are_refused() -> None:
    torch_batchsim.register("tests/Melee-v0", "environments.melee:Melee")
    with pytest.raises(ValueError, match="agents of Melee may end before their world"):
        TianshouVectorEnv("tests/Melee-v0", num_worlds=2)


@pytest.mark.full
def test_the_script_of_the_page() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    assert run_script("Tianshou")["result"].best_reward >= 475
