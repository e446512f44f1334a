"""EnvPool's interface: scripts as its users write them, which run with EnvPool too; the same worlds as in one batch."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import environments.drift
import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from gymnasium.vector import AutoresetMode
from libraries_of_others import library, run_script

from torch_batchsim import GroupFault, Parameters, register
from torch_batchsim.adapters import envpool as ours
from torch_batchsim.adapters.envpool_spec import field_names

CARTPOLE = "torch_batchsim/CartPole-v0"
register("torch_batchsim_tests/Drift-v0", Drift)


class Odd(Drift):
    """Names that are no fields of a namedtuple, or are another's."""

    systems = str(Path(environments.drift.__file__).with_name("drift.h"))
    parameters = Parameters(max_episode_steps=9, seed=0.5, batch_size=7, count=1.0)
    info = dict.fromkeys(("lambda", "a.b", "a_b", "2"), "Particle.Thrust")


register("torch_batchsim_tests/Odd-v0", Odd)
Pool = tuple[ModuleType, str]


@pytest.fixture(params=["torch_batchsim", "EnvPool"])
def pool(request: pytest.FixtureRequest) -> Pool:
    """A module with EnvPool's names, and the id of its CartPole."""
    if request.param == "EnvPool":
        return library(__file__, "envpool")[0], "CartPole-v1"
    return ours, CARTPOLE


# ---- scripts, as with EnvPool ----------------------------------------------------------------------------------------


def test_steps_of_all_and_of_some(pool: Pool) -> None:
    envpool, task = pool
    env = envpool.make_gym(task, num_envs=4)
    choices = env.action_space.n
    observations, info = env.reset()
    assert observations.shape == (4, 4) and len(env) == 4 and not env.is_async
    for _ in range(100):
        observations, rewards, terminated, truncated, info = env.step(np.random.randint(choices, size=4))
        assert rewards.dtype == np.float32 and terminated.dtype == truncated.dtype == np.bool_
    observations, _ = env.reset(np.array([1, 3]))
    assert observations.shape == (2, 4)
    observations, *_, info = env.step(np.array([0, 0, 1]), np.array([3, 2, 0]))
    np.testing.assert_array_equal(info["env_id"], [3, 2, 0])
    assert observations.shape == (3, 4) and info["env_id"].dtype == info["elapsed_step"].dtype == np.int32
    assert info["elapsed_step"][0] == 1  # env 3 was reset just before


def test_dm_env(pool: Pool) -> None:
    library(__file__, "dm_env")
    envpool, task = pool
    env = envpool.make_dm(task, num_envs=4, max_episode_steps=20)
    choices = env.action_spec().num_values
    assert choices == 2 and env.observation_spec().obs.shape == (4,)
    timestep = env.reset()
    assert timestep.observation.obs.shape == (4, 4) and timestep.first().all() and (timestep.discount == 1).all()
    seen = set()
    for _ in range(100):
        before, timestep = timestep, env.step(np.random.randint(choices, size=4))
        assert (timestep.discount == ~timestep.last()).all()
        assert (timestep.first() == before.last()).all()
        seen |= set(timestep.step_type.tolist())
    assert seen == {0, 1, 2} and timestep.step_type.dtype == np.int32
    assert env.reset(np.array([1, 3])).observation.obs.shape == (2, 4)
    timestep = env.step(np.array([0, 0, 1]), np.array([3, 2, 0]))
    np.testing.assert_array_equal(timestep.observation.env_id, [3, 2, 0])
    np.testing.assert_array_equal(timestep.observation.players.env_id, [3, 2, 0])


def test_steps_of_whoever_is_ready(pool: Pool) -> None:
    envpool, task = pool
    env = envpool.make_gym(task, num_envs=8, batch_size=4, gym_reset_return_info=True)
    observations, info = env.reset()
    for _ in range(50):
        assert observations.shape == (4, 4) and len(info["env_id"]) == 4 and env.is_async
        observations, *_, info = env.step(np.random.randint(2, size=4), info["env_id"])
    library(__file__, "dm_env")
    env = envpool.make_dm(task, num_envs=8, batch_size=4)
    timestep = env.reset()
    for _ in range(50):
        assert len(timestep.observation.env_id) == 4
        timestep = env.step(np.random.randint(2, size=4), timestep.observation.env_id)


def test_an_actor_with_returns_by_env(pool: Pool) -> None:
    """As in EnvPool's own PPO."""
    envpool, task = pool
    env = envpool.make(task, env_type="gym", num_envs=16, batch_size=8, num_threads=0, thread_affinity_offset=-1)
    env.async_reset()
    returns, finished = np.zeros(len(env)), []
    for _ in range(200):
        observations, rewards, terminated, truncated, info = env.recv()
        env_id = info["env_id"]
        returns[env_id] += rewards
        done = terminated + truncated
        finished += returns[env_id[done]].tolist()
        returns[env_id[done]] = 0
        action = (torch.tensor(observations)[:, 2] > 0).long()
        env.send(action.cpu().numpy(), env_id)
    assert env.spec.config.num_envs == env.config["num_envs"] == 16
    assert len(finished) > 10 and 20 < np.mean(finished) < 80  # what CartPole gives whoever follows the pole's angle


def test_an_adapter_to_stable_baselines(pool: Pool) -> None:
    """That of EnvPool's example: resets one env at a time, writes into what it got, splits infos."""
    envpool, task = pool
    env = envpool.make(task, env_type="gym", num_envs=4, seed=0)
    env.spec.id = task
    observations, resets = env.reset()[0], 0
    for _ in range(60):
        observations, _, terminated, truncated, info = env.step(np.ones(4, int))
        infos = []
        for i, done in enumerate(terminated + truncated):
            infos.append({key: info[key][i] for key in info if isinstance(info[key], np.ndarray)})
            if done:
                infos[i]["terminal_observation"] = observations[i]
                observations[i] = env.reset(np.array([i]))[0]
                resets += 1
    assert resets > 10 and {"env_id", "elapsed_step"} <= infos[0].keys()


def test_a_wrapper_of_gymnasium(pool: Pool) -> None:
    envpool, task = pool
    env = envpool.make(task, env_type="gym", num_envs=3)
    assert isinstance(env, gymnasium.vector.VectorEnv) and env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    wrapped = gymnasium.Wrapper(env)
    observations, _ = wrapped.reset()
    assert wrapped.step(np.zeros(3, dtype=int))[0].shape == observations.shape
    assert env.num_envs == 3 and isinstance(env.single_action_space, gymnasium.spaces.Discrete)


def test_environments_are_listed_and_made(pool: Pool) -> None:
    envpool, task = pool
    assert task in envpool.list_all_envs()
    assert str(envpool.make(task, env_type="gym")) == str(envpool.make_gym(task))
    spec = envpool.make_spec(task, num_envs=4)
    assert "num_envs=4" in str(spec) and spec.action_space.n == 2 and spec.observation_space.shape == (4,)
    assert spec.reward_threshold == 475 and spec.config.num_envs == 4 and spec.config.max_episode_steps == 500
    env = envpool.make_gym(task)
    info = env.step(np.array([env.action_space.sample()]), np.array([0]))[-1]  # before a reset: it begins
    assert info["elapsed_step"].tolist() == [0]


def test_several_players(pool: Pool) -> None:
    """Arrays of agents are in ``players``, the others have an entry for each env."""
    envpool, task = pool
    task = "overcooked" if envpool is ours else "IntersectionMultiAgent-v0"
    env = envpool.make_gym(task, num_envs=3)
    spec, (observations, info) = env.spec, env.reset()
    assert list(spec.action_array_spec) == ["env_id", "players.env_id", "players.action"]
    assert spec.state_array_spec["obs:players.obs"].shape == [-1, *spec.observation_space.shape]
    for _ in range(2):
        players = info.pop("players")
        order = info["env_id"].tolist()  # EnvPool's own is that in which envs came to their end
        assert sorted(order) == [0, 1, 2] and (envpool is not ours or order == [0, 1, 2])
        assert players["env_id"].tolist() == np.repeat(order, 2).tolist() and observations.shape[0] == 6
        assert {len(value) for value in info.values()} == {3} and {len(value) for value in players.values()} == {6}
        observations, rewards, terminated, truncated, info = env.step(np.zeros(6, np.int32))
        assert rewards.shape == (6,) and terminated.shape == truncated.shape == (3,)
    library(__file__, "dm_env")
    step = envpool.make_dm(task, num_envs=3).reset()
    assert step.observation._fields == ("env_id", "players")
    assert step.observation.players._fields[:2] == ("env_id", "obs")
    assert step.reward.shape == step.discount.shape == (6,) and step.step_type.shape == (3,)


def test_specifications(pool: Pool) -> None:
    envpool, task = pool
    spec = envpool.make_spec(task, num_envs=3)
    assert list(spec.action_array_spec) == ["env_id", "players.env_id", "action"]
    action, states = spec.action_array_spec["action"], spec.state_array_spec
    assert (action.shape, action.minimum, action.maximum) == ([-1], 0, 1) and action.dtype == np.int32
    keys = ["info:env_id", "info:players.env_id", "elapsed_step"]
    keys += ["done", "reward", "discount", "step_type", "trunc", "obs"]
    assert list(states) == keys
    shapes = [[], [-1], [], [], [-1], [-1], [], [], [4]]
    assert [states[key].shape for key in keys] == shapes
    kinds = ["int32", "int32", "int32", "bool", "float32", "float32", "int32", "bool", "float32"]
    assert [np.dtype(states[key].dtype).name for key in keys] == kinds
    assert np.isclose(states["obs"].maximum[0], 4.8) and states["obs"].minimum[1] == -np.inf


# ---- the same worlds -------------------------------------------------------------------------------------------------


def synchronous(env_id: str, worlds: int, steps: int, **options: Any) -> tuple[Any, list[np.ndarray], list[Any]]:
    """Random actions, by world, and what one vector environment returns for them."""
    options |= {"autoreset_mode": AutoresetMode.NEXT_STEP, "output": "numpy", "copy": True}
    env = gymnasium.make_vec(env_id, num_worlds=worlds, **options).unwrapped
    results = [(env.reset(seed=7)[0],)]
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(steps)]
    for batch in actions:
        results.append((*env.step(batch)[:2], env.sim.tensor("World.truncated").numpy().copy()))
    return env, actions, results


OPTIONS: dict[str, dict[str, Any]] = {
    "CartPole": {},
    "Overcooked": {
        "layout": ["cramped_room", "forced_coordination"], "random_start": True, "horizon": 25, "shaping_factor": 1.0,
        "cook_time": 3,
    },
    "Hanabi": {"illegal_moves": "penalty", "random_start_player": True},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_worlds_are_those_of_one_vector_environment(name: str) -> None:
    """Also where ``send`` mixes worlds of several groups, and a batch is two groups."""
    worlds, batch, steps = 12, 8, 30
    env_id = f"torch_batchsim/{name}-v0"
    whole, actions, expected = synchronous(env_id, worlds, steps, **OPTIONS[name])
    agents = whole.num_agents
    env = ours.make(env_id, num_envs=worlds, batch_size=batch, seed=7, **OPTIONS[name])
    taken, generator = np.zeros(worlds, int), np.random.default_rng(0)
    ready: list[int] = []
    env.async_reset()
    received = 0
    while received < worlds * steps // 2:
        observations, rewards, _, truncated, info = env.recv()
        ids = info["env_id"]
        assert info["players"]["env_id"].tolist() == ids.repeat(agents).tolist() and len(ids) == batch
        for i, world in enumerate(ids):
            rows, own = slice(world * agents, (world + 1) * agents), slice(i * agents, (i + 1) * agents)
            result = expected[taken[world]]
            pairs = [(result[0][key], observations[key]) for key in result[0]] if isinstance(result[0], dict) else []
            pairs += [] if pairs else [(result[0], observations)]
            pairs += [(result[1], rewards)] if taken[world] else []
            assert all(np.array_equal(want[rows], got[own]) for want, got in pairs), f"world {world}"
            assert not taken[world] or result[2][world] == truncated[i]
        taken[ids] += 1
        received += len(ids)
        ready += ids.tolist()
        generator.shuffle(ready)
        while ready:
            some, ready = ready[:5], ready[5:]
            rows = (np.array(some)[:, None] * agents + np.arange(agents)).reshape(-1)
            of_step = [actions[taken[row // agents] - 1][row] for row in rows]
            env.send(np.array(of_step), np.array(some))
    env.close()


@pytest.mark.parametrize("batch", [6, 3])
def test_tensors(batch: int) -> None:
    env = ours.make(CARTPOLE, num_envs=6, batch_size=batch, seed=7, output="torch")
    _, actions, expected = synchronous(CARTPOLE, 6, 5)
    env.async_reset()
    for observations, *_, info in [env.recv() for _ in range(6 // batch)]:
        assert torch.equal(observations, torch.from_numpy(expected[0][0][info["env_id"]]))
        env.send(torch.from_numpy(actions[0])[info["env_id"]], torch.from_numpy(info["env_id"]))
    observations, rewards, _, _, info = env.recv()
    assert torch.equal(observations, torch.from_numpy(expected[1][0][info["env_id"]]))
    assert isinstance(rewards, torch.Tensor) and info["elapsed_step"].tolist() == [1] * batch


def test_time_steps_of_tensors() -> None:
    library(__file__, "dm_env")
    env = ours.make_dm(CARTPOLE, num_envs=4, max_episode_steps=2, output="torch")
    steps = [env.reset(), *(env.step(torch.zeros(4, dtype=torch.int64)) for _ in range(3))]
    assert [step.step_type.tolist() for step in steps] == [[kind] * 4 for kind in (0, 1, 2, 0)]
    assert [step.discount.tolist() for step in steps] == [[value] * 4 for value in (1.0, 1.0, 0.0, 1.0)]


def test_sends_before_one_recv_in_parts() -> None:
    """With all in one batch ``recv`` returns what was sent, in that order."""
    env = ours.make(CARTPOLE, num_envs=6, seed=7)
    _, actions, expected = synchronous(CARTPOLE, 6, 2)
    env.reset()
    for ids in ([4, 1], [5]):
        env.send(actions[0][ids], np.array(ids))
    with pytest.raises(ValueError, match="env 1 has actions already"):
        env.send(actions[0][[0, 1]], np.array([0, 1]))
    observations, *_, info = env.recv()
    assert info["env_id"].tolist() == [4, 1, 5] and np.array_equal(observations, expected[1][0][[4, 1, 5]])
    observations, *_, info = env.step({"action": actions[0][[0]], "env_id": np.array([0]), "players": {"env_id": [0]}})
    assert np.array_equal(observations, expected[1][0][[0]])
    observations, info = env.reset(options={"reset_mask": np.array([0, 0, 1, 0, 0, 0], bool)}, seed=7)
    assert info["env_id"].tolist() == [2] and np.array_equal(observations, expected[0][0][[2]])


def test_several_agents_and_pictures() -> None:
    options = {**OPTIONS["Overcooked"], "horizon": 3}
    env = ours.make("overcooked", num_envs=4, batch_size=2, render_mode="rgb_array", **options)
    observations, info = env.reset()
    assert observations.shape[0] == 4 and info["players"]["env_id"].tolist() == info["env_id"].repeat(2).tolist()
    for _ in range(6):
        observations, rewards, terminated, truncated, info = env.step(np.zeros(4, int), info["env_id"])
        assert rewards.shape == (4,) and terminated.shape == truncated.shape == (2,)
        assert np.array_equal(info["players"]["truncated"], truncated.repeat(2))
    env.recv()
    frames = env.render(env_ids=[0, 3])
    assert frames.dtype == np.uint8 and frames.shape[0] == 2 and frames.shape[-1] == 3
    with pytest.raises(RuntimeError, match=r"render\(\) needs render_mode='rgb_array', given to make"):
        ours.make(CARTPOLE).render()


@pytest.mark.parametrize("batch", [4, 2])
def test_worlds_that_step_are_drawn_behind_their_step(batch: int) -> None:
    env = ours.make(CARTPOLE, num_envs=4, batch_size=batch, render_mode="rgb_array", num_threads=2)
    env.async_reset()
    infos = [env.recv()[-1] for _ in range(4 // batch)]
    group, gate = env.grouped.environments[0], threading.Event()
    step, log = group.step, []
    group.step = lambda actions: gate.wait(20) and (step(actions), log.append("stepped"))[0]
    for info in infos:
        env.send(np.ones(batch, int), info["env_id"])
    before = group.render_world
    group.render_world = lambda world: (log.append("drawn"), before(world))[1]
    threading.Timer(0.1, gate.set).start()
    assert env.render([1, 0]).shape[0] == 2 and log == ["stepped", "drawn", "drawn"]
    received = [env.recv()[-1] for _ in infos]
    assert sorted(np.concatenate([info["env_id"] for info in received])) == [0, 1, 2, 3]
    assert all((info["elapsed_step"] == 1).all() for info in received)


@pytest.mark.parametrize(
    "name",
    ["swarm", "overcooked", "hanabi", "torch_batchsim_tests/Odd-v0", pytest.param("hideseek", marks=pytest.mark.full)],
)
def test_everything_is_as_its_specification_says(name: str) -> None:
    """Dtypes, shapes and bounds of all arrays, by EnvPool's names: those of agents in ``players``."""
    library(__file__, "dm_env")
    env, dm = ours.make(name, num_envs=3), ours.make_dm(name, num_envs=3)
    spec, agents = env.spec, env.spec.config.max_num_players
    observations, info = env.reset()
    step = dm.reset()
    players = "players." if agents > 1 else ""
    if isinstance(observations, dict):
        found = {f"obs:{players}{key}": value for key, value in observations.items()}
    else:
        found = {f"obs:{players}obs" if players else "obs": observations}
    nested = {f"players.{key}": value for key, value in info["players"].items()}
    found |= {f"info:{key}": value for key, value in {**info, **nested}.items() if key != "players"}
    found |= {"elapsed_step": found.pop("info:elapsed_step"), "reward": step.reward, "discount": step.discount}
    found["step_type"] = step.step_type
    *_, action = spec.action_array_spec.values()
    actions = np.zeros((3 * agents, *action.shape[1:]), action.dtype)
    if "action_mask" in info:
        actions += info["action_mask"].argmax(-1).astype(np.int32)
    found["done"], found["trunc"] = env.step(actions)[2:4]
    assert found.keys() == spec.state_array_spec.keys()
    for key, array in found.items():
        own = spec.state_array_spec[key]
        rows = 3 if own.shape[:1] != [-1] else 3 * agents
        assert (array.dtype, array.shape) == (own.dtype, (rows, *[n for n in own.shape if n != -1])), key
        assert (array >= own.minimum).all() and (array <= own.maximum).all(), key
    specs, seen = dm.observation_spec(), step.observation
    assert specs._fields == seen._fields and specs.players._fields == seen.players._fields
    for each, array in [*zip(specs, seen, strict=True), *zip(specs.players, seen.players, strict=True)]:
        if each is not specs.players:
            each.validate(array[0])
    dm.action_spec().validate(actions[0])


def test_any_name_of_an_option_or_info() -> None:
    library(__file__, "dm_env")
    config = ours.make("swarm").config
    assert config["drones"] == 128 and config["grid_rows"] > 0
    env = ours.make("torch_batchsim_tests/Odd-v0", num_envs=4, batch_size=2, seed=9, count=2.5)
    config = env.config  # what the pool takes is its own; an option of that name has another
    assert (config["seed"], config["batch_size"], config["seed_"], config["batch_size_"]) == (9, 2, 0.5, 7)
    assert config["count"] == 2.5 and env.reset()[0].shape == (2, 3)
    observation = ours.make_dm("torch_batchsim_tests/Odd-v0", num_envs=2).reset().observation
    assert observation._fields == ("env_id", "players", "obs", "lambda_", "a_b", "a_b_", "field_2")
    names = field_names(["_x", "x", "x.y", "x_y", "class", "", "7"])
    assert names == ("x", "x_", "x_y", "x_y_", "class_", "field_", "field_7")


def test_actions_as_a_dict_of_several_agents() -> None:
    env = ours.make("overcooked", num_envs=2)
    env.reset()
    ids, rows = np.arange(2), np.array([0, 0, 1, 1])
    given = {"env_id": ids, "players.env_id": rows, "players.action": rows}
    assert given.keys() == env.spec.action_array_spec.keys()
    for action in (given, {"env_id": ids, "players": {"env_id": rows, "action": rows}}, {"action": rows}):
        assert env.step(action)[-1]["players"]["team_return"].shape == (4,)
    with pytest.raises(TypeError, match=r"a dict of actions must have 'action' or 'players.action', got 'move'"):
        env.step({"move": rows})


# ---- what is refused -------------------------------------------------------------------------------------------------

_MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "env_type": (lambda: ours.make(CARTPOLE, "jax"), "env_type must be 'gymnasium', 'gym' or 'dm', got 'jax'"),
    "batch": (lambda: ours.make(CARTPOLE, num_envs=2, batch_size=3), "batch_size must be at most 2, got 3"),
    "groups": (lambda: ours.make(CARTPOLE, num_envs=645, batch_size=248), "would make 645 groups of 1, .*num_envs=744"),
    "seed": (lambda: ours.make(CARTPOLE, seed=[1, 2]), "seed must be one integer"),
    "info": (lambda: ours.make(CARTPOLE, gym_reset_return_info=False), "gym_reset_return_info must be True"),
    "render": (lambda: ours.make(CARTPOLE, render_mode="human"), "render_mode must be .*, got 'human'"),
}


@pytest.mark.parametrize("case", _MADE)
def test_bad_arguments_of_make(case: str) -> None:
    make, says = _MADE[case]
    with pytest.raises((ValueError, TypeError), match=says):
        make()


def test_bad_actions_and_ids() -> None:
    env = ours.make(CARTPOLE, num_envs=8, batch_size=4)
    four, zeros = np.arange(4), np.zeros(4, int)
    with pytest.raises(RuntimeError, match=r"recv\(\) would wait for ever: it returns 4 envs"):
        env.recv()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) or async_reset\(\)"):
        env.send(zeros, four)
    env.async_reset()
    with pytest.raises(ValueError, match="env 0 has actions already"):
        env.send(zeros, four)
    env.recv(), env.recv()
    cases = [
        (zeros, np.array([0, 1, 2, 8]), ValueError, "env_id must be from 0 to 7, got 8"),
        (zeros, np.array([0, 1, 2, -1]), ValueError, "env_id must be from 0 to 7, got -1"),
        (zeros, np.array([0, 1, 2, 2]), ValueError, "env_id must name each env once, got 2 twice"),
        (zeros, four * 0.5, TypeError, r"env_id must be integers of shape \[envs\], got float64"),
        (zeros, four.reshape(2, 2), TypeError, r"got int64 of shape \[2, 2\]"),
        (zeros[:0], four[:0], ValueError, "env_id must name at least one env"),
        (zeros[:3], four, ValueError, r"actions of 4 envs must have shape \[4\], got \[3\]"),
        (zeros + 0.5, four, TypeError, "actions must be integers, got float64"),
        ({"action": zeros, "env_id": four, "players.env_id": four[::-1]}, None, ValueError, "players.env_id must name"),
    ]
    for action, ids, error, says in cases:
        with pytest.raises(error, match=says):
            env.send(action, ids)
    env.send(zeros[:2], np.array([6, 1]))
    with pytest.raises(RuntimeError, match=r"would wait for ever.*; group 0 lacks actions .*; group 1 lacks actions"):
        env.recv()
    with pytest.raises(ValueError, match="env 6 has actions already"):
        env.send(zeros[:2], np.array([5, 6]))
    env.send(zeros[:3], np.array([2, 0, 3]))
    assert env.recv()[-1]["env_id"].tolist() == [0, 1, 2, 3]
    env.send(zeros[:3], np.array([4, 5, 7]))
    assert env.recv()[-1]["env_id"].tolist() == [4, 5, 6, 7]
    env.send(zeros + 5, four + 4)
    with pytest.raises(ValueError, match=r"group 1 \(worlds 4 to 7\): action 5 of world 4 is not in Discrete\(2\)"):
        env.recv()
    env.send(zeros, four)
    assert env.recv()[-1]["elapsed_step"].tolist() == [2] * 4
    with pytest.raises(RuntimeError, match=r"xla\(\) is of torch_batchsim.adapters.jax.JaxEnv"):
        env.xla()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()


def test_it_is_not_copied() -> None:
    env = ours.make(CARTPOLE)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="EnvPool cannot be pickled or copied"):
            copied(env)


def test_an_interrupt_is_for_whoever_steps() -> None:
    env = ours.make(CARTPOLE, num_envs=2)
    env.reset()

    def interrupted(actions: torch.Tensor) -> None:
        raise KeyboardInterrupt

    step, env.grouped.environments[0].step = env.grouped.environments[0].step, interrupted
    with pytest.raises(KeyboardInterrupt):
        env.step(np.zeros(2, int))
    env.grouped.environments[0].step = step
    assert env.step(np.zeros(2, int))[-1]["elapsed_step"].tolist() == [1, 1]


def test_a_fault_leaves_the_other_groups_alone() -> None:
    env = ours.make("torch_batchsim_tests/Drift-v0", num_envs=6, batch_size=3, seed=1)
    env.async_reset()
    env.recv(), env.recv()
    env.grouped.environments[1].sim.Particle.Body.position[0] = float("nan")
    env.send(np.zeros((6, 3), np.float32))
    received = []
    for _ in range(2):
        try:
            received.append(env.recv()[-1]["env_id"].tolist())
        except GroupFault as fault:
            faulty = fault.mask.nonzero().flatten().numpy()
            assert re.match(r"group 1: [\w.]+:\d+: world 3: system 'drift' failed", str(fault))
    assert received == [[0, 1, 2]] and faulty.tolist() == [3]
    _, info = env.reset(faulty)
    assert info["env_id"].tolist() == [3, 4, 5] and info["elapsed_step"][0] == 0
    env.step(np.zeros((3, 3), np.float32), info["env_id"])


@pytest.mark.full
def test_checks_logs_and_the_watchdog_are_those_of_make_vec() -> None:
    env = ours.make("torch_batchsim_tests/Drift-v0", num_envs=2, checks=True, log=5, watchdog=60.0)
    assert (env.config["checks"], env.config["log"], env.config["watchdog"]) == (True, 5, 60.0)
    env.reset()
    assert len(env.grouped.environments[0].sim.logs()) == 0
    for name, wrong in (("checks", "nan=maybe"), ("log", -1), ("watchdog", -1.0)):
        with pytest.raises((TypeError, ValueError), match=name):
            ours.make("torch_batchsim_tests/Drift-v0", num_envs=2, **{name: wrong})


def test_the_page() -> None:
    assert 30 < run_script("EnvPool")["mean"] < 60
