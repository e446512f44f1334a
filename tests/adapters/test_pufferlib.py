"""PufferLib: its buffers hold what the bare environment returns, in all of its backends; its trainer trains."""

from __future__ import annotations

from copy import deepcopy

import gymnasium
import numpy as np
import pytest
import torch
from libraries_of_others import library, run_example, run_script

import torch_batchsim
from torch_batchsim.build.jit import _path_with_ninja

pufferlib, _ = library(__file__, "pufferlib", "pufferlib.vector")

from torch_batchsim.adapters.pufferlib import PufferLibEnv  # noqa: E402

CARTPOLE, OVERCOOKED, HANABI, SWARM = (
    f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi", "Swarm")
)
MELEE = "tests/Melee-v0"
BACKENDS = {
    "native": {},
    "Serial": {"backend": "Serial", "num_envs": 2},
    "Multiprocessing": {"backend": "Multiprocessing", "num_envs": 2, "num_workers": 2, "overwork": True},
}


def played(vecenv, seed: int, actions: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Copies of what ``recv`` gives in each step."""
    vecenv.async_reset(seed)
    results = [deepcopy(vecenv.recv())]
    for action in actions:
        vecenv.send(action)
        results.append(deepcopy(vecenv.recv()))
    return results


@pytest.mark.parametrize(
    ("backend", "env_id", "worlds"),
    [
        ("native", CARTPOLE, 5),
        ("native", SWARM, 4),
        ("Serial", CARTPOLE, 5),
        ("Serial", OVERCOOKED, 3),
        ("Multiprocessing", OVERCOOKED, 3),
    ],
)
def test_backends_deliver_the_results_of_the_bare_environment(backend: str, env_id: str, worlds: int) -> None:
    copies, steps = BACKENDS[backend].get("num_envs", 1), 60
    own = {"backend": pufferlib.PufferEnv, **BACKENDS[backend]}
    vecenv = pufferlib.vector.make(PufferLibEnv, env_args=[env_id], env_kwargs={"num_worlds": worlds}, **own)
    space = vecenv.single_action_space
    rows = vecenv.num_agents // copies
    space.seed(0)
    actions = np.array([[space.sample() for _ in range(rows * copies)] for _ in range(steps)], dtype=np.int32)
    results = played(vecenv, 7, actions)
    vecenv.close()
    for copy in range(copies):
        bare = gymnasium.make_vec(env_id, num_worlds=worlds, output="numpy", copy=True)
        part = slice(copy * rows, (copy + 1) * rows)
        expected = [(bare.reset(seed=7 + copy)[0], np.zeros(rows), np.zeros(rows), np.zeros(rows))]
        expected += [bare.step(action[part])[:4] for action in actions]
        for found, wanted in zip(results, expected, strict=True):
            for i in range(4):
                assert np.array_equal(found[i][part], wanted[i])
            assert found[7].all()  # masks


def test_outputs_lie_in_the_buffers_and_are_copied_where_they_cannot() -> None:
    raw = np.zeros(8 * 16 + 4, dtype=np.uint8)
    own = {name: np.zeros(8, bool) for name in ("terminals", "truncations", "masks")}
    own |= {name: np.zeros(8, np.int32) for name in ("actions", "teacher_actions")}
    own["rewards"] = np.zeros(8, np.float32)
    aligned = PufferLibEnv(CARTPOLE, num_envs=8, buf=own | {"observations": np.zeros((8, 4), np.float32)})
    past = PufferLibEnv(CARTPOLE, num_envs=8, buf=own | {"observations": raw[4:].view(np.float32).reshape(8, 4)})
    assert not aligned._copied
    assert set(past._copied) == {"observations"}
    for env in (aligned, past):
        env.reset(seed=1)
    assert aligned.vector_env.observations.data_ptr() == aligned.observations.ctypes.data
    assert np.array_equal(aligned.observations, past.observations)
    for _ in range(20):
        for env in (aligned, past):
            env.step(np.ones(8, np.int32))
        assert np.array_equal(aligned.observations, past.observations)


@pytest.mark.parametrize("env_id", [CARTPOLE, pytest.param(MELEE, marks=pytest.mark.full)])
def test_infos_have_the_episodes_and_masks_the_active_rows(env_id: str) -> None:
    torch_batchsim.register(MELEE, "environments.melee:Melee")
    env = PufferLibEnv(env_id, num_worlds=8, seed=3)
    env.reset()
    bare = torch_batchsim.EpisodeStatistics(gymnasium.make_vec(env_id, num_worlds=8))
    assert np.array_equal(env.observations, bare.reset(seed=3)[0].numpy())
    generator, ended, left = np.random.default_rng(0), 0, False
    for _ in range(100):
        action = generator.integers(0, env.single_action_space.n, env.num_agents)
        infos, expected = env.step(action)[4], bare.step(torch.from_numpy(action))[4]
        rows = expected["_episode"]
        found = infos[0] if infos else {"episode_return": [], "episode_length": []}
        assert found["episode_return"] == expected["episode"]["r"][rows].tolist()
        assert found["episode_length"] == expected["episode"]["l"][rows].tolist()
        assert np.array_equal(env.masks, expected.get("active", torch.ones(env.num_agents, dtype=torch.bool)).numpy())
        ended, left = ended + int(rows.sum()), left or not env.masks.all()
    assert ended >= 16
    assert left == (env_id == MELEE)


def test_masks_of_actions() -> None:
    hanabi = PufferLibEnv(HANABI, num_worlds=4)
    hanabi.reset(seed=0)
    for _ in range(100):  # an illegal move would be a fault
        hanabi.step(hanabi.action_mask.argmax(1).astype(np.int32))
    assert hanabi.action_mask.shape == (4, 20)
    assert PufferLibEnv(CARTPOLE).action_mask is None


def test_pictures_are_of_the_first_world() -> None:
    kwargs = {"num_worlds": 100, "render_mode": "rgb_array"}  # more than render() draws of a vector environment
    serial = pufferlib.vector.Serial
    vecenv = pufferlib.vector.make(PufferLibEnv, env_args=[CARTPOLE], env_kwargs=kwargs, backend=serial)
    driver = vecenv.driver_env  # as PufferLib's own evaluation does
    with pytest.raises(gymnasium.error.ResetNeeded):
        driver.render()
    vecenv.reset(seed=0)
    assert driver.render_mode == "rgb_array"
    assert np.array_equal(driver.render(), driver.vector_env.render_world(0))
    hanabi = PufferLibEnv(HANABI, render_mode="ansi")
    hanabi.reset()
    assert "Fireworks" in hanabi.render()
    without = PufferLibEnv(CARTPOLE)
    without.reset()
    with pytest.warns(UserWarning, match="make the environment with render_mode='rgb_array'"):
        assert without.render() is None


def test_wrong_actions_are_refused() -> None:
    env = PufferLibEnv(CARTPOLE, num_envs=2)
    env.reset(seed=0)
    for actions, error, message in (
        (np.zeros(2), TypeError, "actions must have dtype int64, .*, got float64"),
        (np.zeros((2, 1), int), ValueError, r"actions must have shape \[2\], got \[2, 1\]"),
        (["left", "right"], TypeError, "actions must be numbers, got a numpy array of dtype <U5"),
        (np.array([0, 2]), ValueError, "action 2 of world 1 is not in"),
    ):
        with pytest.raises(error, match=message):
            env.step(actions)
    assert env.vector_env.episode_steps.tolist() == [0, 0]


def test_the_script_of_the_page() -> None:
    names = run_script("PufferLib")
    assert names["observations"].shape == (256, 4)


@pytest.mark.full
def test_its_trainer_trains(tmp_path, monkeypatch) -> None:
    """PufferLib's own PPO, with its C++ source compiled for this torch."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", _path_with_ninja())
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    names = run_example("pufferlib_ppo")
    assert names["logs"]["environment/episode_return"] > 400
