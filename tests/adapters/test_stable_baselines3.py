"""Stable-Baselines3: its ``VecEnv``, its wrappers and its trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from environments.melee import Melee
from libraries_of_others import library, run_example, run_script

from torch_batchsim import EpisodeStatistics, TorchVectorEnv
from torch_batchsim.testing import random_actions

library(__file__, "stable_baselines3", "sb3_contrib")

from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3 import DQN, PPO  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import (  # noqa: E402
    VecCheckNan,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecVideoRecorder,
)

from torch_batchsim.adapters.stable_baselines3 import StableBaselinesVecEnv  # noqa: E402

CARTPOLE = "torch_batchsim/CartPole-v0"
OVERCOOKED = "torch_batchsim/Overcooked-v0"
HANABI = "torch_batchsim/Hanabi-v0"
SHORT = {"max_episode_steps": 12}  # CartPole then has both ends, terminated and truncated


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cartpole() -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(CARTPOLE, num_envs=16, **SHORT)


def melee() -> gymnasium.vector.VectorEnv:
    """Several agents that leave one after another, and infos."""
    return TorchVectorEnv(Melee(), num_worlds=64)


@pytest.mark.parametrize("make", [cartpole, melee])
def test_steps_are_those_of_the_vector_environment(make: Callable[[], gymnasium.vector.VectorEnv]) -> None:
    adapted, bare = StableBaselinesVecEnv(make()), EpisodeStatistics(make())
    adapted.seed(3)
    assert np.array_equal(adapted.reset(), bare.reset(seed=3)[0].numpy())
    ends, episodes = {True: 0, False: 0}, 0
    for actions in random_actions(bare, 60):
        observations, rewards, dones, infos = adapted.step(actions.numpy())
        expected, paid, terminations, truncations, of_bare = bare.step(actions)
        assert np.array_equal(observations, expected.numpy()) and observations.dtype == np.float32
        assert np.array_equal(rewards, paid.numpy()) and rewards.dtype == np.float32
        assert np.array_equal(dones, (terminations | truncations).numpy()) and dones.dtype == bool
        assert len(infos) == adapted.num_envs and all(info == {} for info in np.array(infos)[~dones])
        for row in dones.nonzero()[0]:
            info = infos[row]
            assert np.array_equal(info["terminal_observation"], of_bare["final_obs"][row].numpy())
            assert info["TimeLimit.truncated"] == bool(truncations[row] and not terminations[row])
            assert ("episode" in info) == bool(of_bare["_episode"][row])
            if "episode" in info:
                assert all(info["episode"][key] == of_bare["episode"][key][row] for key in "rl")
                episodes += 1
            final = {name: values for name, values in of_bare["final_info"].items() if not name.startswith("_")}
            assert all(np.array_equal(info[name], values[row].numpy()) for name, values in final.items())
            ends[info["TimeLimit.truncated"]] += 1
    assert ends[True] > 10 and ends[False] > 10
    several = bare.unwrapped.num_agents > 1  # a row that has left ends with its world, without an episode
    assert 10 < episodes < sum(ends.values()) if several else episodes == sum(ends.values())


def test_results_stay() -> None:
    adapted = StableBaselinesVecEnv(CARTPOLE, 4, **SHORT)
    kept = [(adapted.reset(),)]
    copies = [tuple(part.copy() for part in kept[0])]
    infos, terminal = [], []
    for actions in random_actions(adapted.vector_env, 40):
        *arrays, given = adapted.step(actions.numpy())
        kept.append(tuple(arrays))
        copies.append(tuple(part.copy() for part in arrays))
        infos.append(given)  # not read before the last step
        ended = adapted.infos["_final_obs"].nonzero().flatten().tolist()
        terminal.append({row: adapted.infos["final_obs"][row].tolist() for row in ended})
    for then, now in zip(copies, kept, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(then, now, strict=True))
    found = [{r: i["terminal_observation"].tolist() for r, i in enumerate(infos_of) if i} for infos_of in infos]
    assert found == terminal and any(terminal)
    kept[-1][1][:] = 100  # SB3 adds values of truncated episodes to the rewards
    assert adapted.step(np.zeros(4, np.int64))[1].max() == 1


def test_infos_are_the_readers_own() -> None:
    adapted = StableBaselinesVecEnv(CARTPOLE, 3, **SHORT)
    adapted.reset()
    first = adapted.step(np.zeros(3, np.int64))[3]
    first[1]["mine"] = 7
    assert list(first) == [{}, {"mine": 7}, {}] == first[:] and first[-1] == {} and "mine" in repr(first)
    assert list(adapted.step(np.zeros(3, np.int64))[3]) == [{}, {}, {}]


def test_seeds_and_options_are_of_the_next_reset() -> None:
    adapted = StableBaselinesVecEnv(CARTPOLE, 4)
    assert adapted.seed(5) == [5, 6, 7, 8]
    first, second = adapted.reset(), adapted.reset()
    adapted.seed(5)
    assert np.array_equal(adapted.reset(), first) and not np.array_equal(second, first)

    hanabi = StableBaselinesVecEnv(HANABI, 2, preset="Hanabi-Very-Small", random_start_player=True)
    hanabi.set_options({"start_player": torch.tensor([1, 0])})
    hanabi.reset()
    assert hanabi.vector_env.sim.tensor("Table.mover").flatten().tolist() == [1, 0]
    with pytest.raises(TypeError, match="one dict for all worlds, got list"):
        hanabi.set_options([{}, {}])
    with pytest.raises(ValueError, match="the option reset_mask"):
        hanabi.set_options({"reset_mask": torch.tensor([True, False])})
    with pytest.raises(ValueError, match="reset has no option 'starter'; it has: deck, start_player"):
        hanabi.set_options({"starter": torch.tensor([1, 0])})
    with pytest.raises(ValueError, match=r"seed must be an integer from 0 to 2\*\*64 - 1 or None, got \[1, 2\]"):
        hanabi.seed([1, 2])
    hanabi.reset()
    assert len(hanabi.seed()) == 2


def test_wrappers_of_the_library(tmp_path) -> None:
    made = StableBaselinesVecEnv(CARTPOLE, 4, render_mode="rgb_array", **SHORT)
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):  # infos have what it would add
        monitored = VecMonitor(VecCheckNan(made, raise_exception=True), str(tmp_path / "log"), ("TimeLimit.truncated",))
    stacked = VecFrameStack(VecNormalize(monitored, norm_reward=False), 3)
    recorded = VecVideoRecorder(stacked, str(tmp_path), lambda step: step == 0, video_length=5)
    recorded.seed(0)
    before = recorded.reset()
    assert before.shape == (4, 12)
    ended = 0
    for actions in random_actions(made.vector_env, 20):
        observations, _, dones, infos = recorded.step(actions.numpy())
        for row in dones.nonzero()[0]:
            terminal, episode = infos[row]["terminal_observation"], infos[row]["episode"]
            assert terminal.shape == (12,) and np.array_equal(terminal[:8], before[row, 4:])
            assert episode["l"] <= 12 and episode["r"] == episode["l"]
            ended += 1
        before = observations.copy()
    recorded.close()
    assert ended > 3 and [path.suffix for path in tmp_path.glob("*.mp4")] == [".mp4"]
    assert len((tmp_path / "log.monitor.csv").read_text().splitlines()) == 2 + ended


def test_pictures_are_tiled() -> None:
    made = StableBaselinesVecEnv(CARTPOLE, 20, render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"before get_images\(\)"):
        made.get_images()
    made.reset()
    height, width, _ = made.get_images()[0].shape
    for render_worlds, count, tiles in ((None, 20, (5, 4)), (3, 3, (2, 2)), (64, 20, (5, 4))):
        made.vector_env.render_worlds = render_worlds
        assert len(made.get_images()) == len(made.env_method("render")) == count
        assert made.render().shape == (tiles[0] * height, tiles[1] * width, 3)
    several = StableBaselinesVecEnv(OVERCOOKED, num_worlds=2)
    several.reset()
    assert len(several.get_images()) == 2  # agents share the picture of their world
    many = StableBaselinesVecEnv(CARTPOLE, 65)
    many.reset()
    with pytest.raises(ValueError, match=r"does not draw 65 worlds, .* with render_worlds=16"):
        many.get_images()


def test_attributes_are_of_the_vector_environment() -> None:
    made = StableBaselinesVecEnv(CARTPOLE, 4)
    assert made.get_attr("num_worlds") == [4] * 4 and made.get_attr("num_worlds", [0, 2]) == [4, 4]
    assert made.has_attr("sim") and not made.has_attr("cards") and not is_masking_supported(made)
    made.set_attr("note", "mine")
    assert made.get_attr("note", 1) == ["mine"]
    assert made.env_is_wrapped(Monitor) == [True] * 4 and made.env_is_wrapped(gymnasium.Wrapper, [0]) == [False]
    for wrong in (lambda: made.get_attr("cards"), lambda: made.env_method("action_masks")):
        with pytest.raises(AttributeError, match=r"CartPole has (no action masks|an attribute 'cards')"):
            wrong()
    made.set_attr("note", "yours", [1, 3])
    assert made.has_attr("note") and made.get_attr("note") == ["mine", "yours", "mine", "yours"]
    made.reset()
    made.set_attr("episode_steps", 7, 2)
    assert made.get_attr("episode_steps") == [0, 0, 7, 0] and made.get_attr("action_space") == [made.action_space] * 4
    with pytest.raises(AttributeError, match="'action_masks' and 'render', got 'compute_reward'"):
        made.env_method("compute_reward")
    with pytest.raises(AttributeError, match="set_attr cannot set 'num_worlds'"):
        made.set_attr("num_worlds", 1)


@pytest.mark.parametrize("wrong", [4, -1, [0, 9], np.array([4])])
def test_rows_that_are_not_there_are_refused(wrong: Any) -> None:
    made = StableBaselinesVecEnv(HANABI, 4, preset="Hanabi-Very-Small")
    calls = [
        lambda rows: made.get_attr("num_worlds", rows),
        lambda rows: made.set_attr("note", 1, rows),
        lambda rows: made.env_method("action_masks", indices=rows),
        lambda rows: made.env_is_wrapped(Monitor, rows),
    ]
    for call in calls:
        with pytest.raises(IndexError, match=r"indices must be numbers of rows, 0 to 3, got (4|-1|9)"):
            call(wrong)
        for other in (1.0, [0, 1.5], [True], "one"):
            with pytest.raises(TypeError, match="indices must be integers, the numbers of rows, got"):
                call(other)
    assert not made.has_attr("note")
    assert made.get_attr("num_worlds", np.array([3, 0])) == made.get_attr("num_worlds", range(2)) == [4, 4]


def test_an_error_is_raised_once() -> None:
    made = StableBaselinesVecEnv(CARTPOLE, 3)
    made.reset()
    made.step_async(np.array([0, 7, 0]))
    with pytest.raises(ValueError, match="action 7 of world 1"):
        made.step_wait()
    with pytest.raises(RuntimeError, match=r"step_wait\(\) needs step_async\(actions\) before it"):
        made.step_wait()
    assert made.step(np.array([0, 1, 0]))[1].tolist() == [1, 1, 1]


def test_masks_are_found() -> None:
    made = StableBaselinesVecEnv(HANABI, 6, preset="Hanabi-Very-Small")
    made.reset()
    assert is_masking_supported(made)
    masks = get_action_masks(made)
    assert masks.dtype == bool and np.array_equal(masks, made.vector_env.action_mask.numpy())
    assert np.array_equal(made.env_method("action_masks", indices=[5, 1]), masks[[5, 1]])
    assert np.array_equal(made.get_attr("action_masks", 2)[0](), masks[2])
    made.step(masks.argmax(1))
    assert not np.array_equal(get_action_masks(made), masks)


def test_environments_that_it_refuses() -> None:
    for mode in ("NextStep", "Disabled"):
        with pytest.raises(ValueError, match="needs autoreset_mode=SAME_STEP, got an environment with autoreset_mode="):
            StableBaselinesVecEnv(gymnasium.make_vec(CARTPOLE, num_envs=2, autoreset_mode=mode))
    with pytest.raises(ValueError, match="final_obs=False"):
        StableBaselinesVecEnv(CARTPOLE, 2, final_obs=False)


@pytest.mark.parametrize("wrapper", [VecNormalize, VecMonitor, VecCheckNan, lambda env: VecFrameStack(env, 2)])
@pytest.mark.parametrize("count", [1, 4])
def test_its_wrappers_of_a_vector_environment_name_the_adapter(count: int, wrapper: Callable[..., Any]) -> None:
    env = gymnasium.make_vec(CARTPOLE, num_envs=count)
    for given in (env, EpisodeStatistics(env)):
        with pytest.raises(TypeError, match=r"take torch_batchsim\.adapters\.\S+\.StableBaselinesVecEnv\(env\)$"):
            wrapper(given)
    assert wrapper(StableBaselinesVecEnv(env)).reset().shape[0] == count


def test_habits_that_run() -> None:
    """Its own vector environments, of single ones by their id."""
    made = make_vec_env(f"torch_batchsim:{CARTPOLE}", n_envs=2)
    PPO("MlpPolicy", VecNormalize(made), n_steps=8, batch_size=16, n_epochs=1, device="cpu").learn(16)
    PPO("MlpPolicy", CARTPOLE, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(16)
    bare = gymnasium.make_vec(CARTPOLE, num_envs=2)
    with pytest.raises(ValueError, match="TorchVectorEnv'>, not a Gymnasium environment"):  # as use_with.md says
        PPO("MlpPolicy", bare)


@pytest.mark.parametrize("options", [{"output": "numpy"}, {"copy": False}, {"copy": True}])
def test_environments_that_are_made_otherwise(options: dict[str, Any]) -> None:
    env = gymnasium.make_vec(CARTPOLE, num_envs=8, **SHORT, **options)
    given, usual = StableBaselinesVecEnv(env), StableBaselinesVecEnv(CARTPOLE, 8, **SHORT)
    given.seed(1), usual.seed(1)
    given.reset(), usual.reset()
    for actions in random_actions(usual.vector_env, 30):
        for mine, theirs in zip(given.step(actions.numpy())[:3], usual.step(actions.numpy())[:3], strict=True):
            assert np.array_equal(mine, theirs)
    env.step(torch.tensor([0] * 8))  # actions may be a tensor too, on a list's place
    assert given.step([0] * 8)[0].shape == (8, 4)


def test_a_replay_buffer_has_the_transitions() -> None:
    """DQN: next observations are final ones where an episode ended, and only a time limit is a timeout."""
    made = StableBaselinesVecEnv(CARTPOLE, 4, **SHORT)
    model = DQN("MlpPolicy", made, learning_starts=10_000, buffer_size=1000, seed=1, exploration_fraction=1.0)
    model.learn(400)
    buffer = model.replay_buffer
    count = buffer.pos
    observations, following = buffer.observations[:count], buffer.next_observations[:count]
    dones, timeouts = buffer.dones[:count].astype(bool), buffer.timeouts[:count].astype(bool)
    assert np.array_equal(following[:-1][~dones[:-1]], observations[1:][~dones[:-1]])
    assert not np.array_equal(following[:-1][dones[:-1]], observations[1:][dones[:-1]])
    assert not (following == observations).all(-1).any()
    assert timeouts.sum() > 3 and (dones & ~timeouts).sum() > 3 and not (timeouts & ~dones).any()


def test_returns_are_logged() -> None:
    model = PPO("MlpPolicy", StableBaselinesVecEnv(CARTPOLE, 8), n_steps=32, batch_size=64, n_epochs=1, seed=1)
    model.learn(512)
    assert 8 < np.mean([episode["r"] for episode in model.ep_info_buffer]) < 60


def test_masked_ppo_takes_dicts_and_several_choices() -> None:
    made = StableBaselinesVecEnv(TorchVectorEnv(Duel(), num_worlds=8))
    model = MaskablePPO("MultiInputPolicy", made, n_steps=16, batch_size=64, n_epochs=1, seed=1)
    model.learn(512)
    seen = model.rollout_buffer
    moves, strikes = seen.actions.astype(int).T
    samples = np.arange(len(moves))
    assert seen.observations["cells"].shape == (128 * 2, 7) and not seen.action_masks.all()
    assert seen.action_masks[samples, moves].all() and seen.action_masks[samples, 3 + strikes].all()


@pytest.mark.full
def test_ppo_solves_cartpole() -> None:
    names = run_script("Stable-Baselines3")
    assert names["mean"] >= 475


@pytest.mark.full
def test_masked_ppo_plays_hanabi() -> None:
    names = run_example("sb3_maskable")
    assert names["mean"] > 2 * names["random"]
