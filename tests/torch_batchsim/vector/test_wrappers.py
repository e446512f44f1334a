"""``EpisodeStatistics`` against gymnasium's own statistics, and gymnasium's vector wrappers over ``output="numpy"``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium.wrappers.vector as vector_wrappers
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.vector import AutoresetMode, VectorEnv
from support import ENVIRONMENTS, all_but_hideseek, random_actions
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import Environment, EpisodeStatistics, TorchVectorEnv, TorchVectorWrapper

MODES = list(AutoresetMode)
SHORT = {
    "cartpole": {"max_episode_steps": 15},
    "duel": {"max_episode_steps": 7},
    "drift": {"max_episode_steps": 5},
    "zoo": {"max_episode_steps": 9},
    "swarm": {"max_episode_steps": 9},
    "overcooked": {"horizon": 9},
    "hanabi": {"colors": 2, "hand_size": 9, "max_information_tokens": 1},
    "forge": {"max_episode_steps": 9},
    "melee": {"max_episode_steps": 9},
    "yard": {"max_episode_steps": 9},
    "hideseek": {"max_episode_steps": 9},
}


def make(name: str, worlds: int, mode: AutoresetMode, **kwargs: Any) -> TorchVectorEnv:
    return TorchVectorEnv(ENVIRONMENTS[name](**SHORT[name]), num_worlds=worlds, autoreset_mode=mode, **kwargs)


# ---- what wrappers pass on -----------------------------------------------------------------------------------------


class Doubled(TorchVectorWrapper):
    """Twice the rewards."""

    def step(self, actions: Any) -> Any:
        observations, rewards, *others = self.env.step(actions)
        return observations, 2 * rewards, *others


@pytest.mark.parametrize("wrap", [EpisodeStatistics, TorchVectorWrapper, lambda env: EpisodeStatistics(Doubled(env))])
def test_our_wrappers_pass_on_whatever_the_environment_has(wrap: Callable[[VectorEnv], VectorEnv]) -> None:
    env = make("hanabi", 3, AutoresetMode.SAME_STEP)
    wrapped = wrap(env)
    wrapped.reset(seed=0)
    names = {name for name in dir(env) if not name.startswith("_")}
    assert {"device", "bind", "bind_slots", "select_slot", "by_world", "active", "team", "num_worlds", "sim"} <= names
    assert not {"env", "episode_lengths", "episode_returns", "totals"} & names  # the wrappers' own
    apart = {"reset", "step", "close", "render", "close_extras", "unwrapped", "state_dict", "load_state_dict"}
    for name in names - apart:
        ours, theirs = getattr(wrapped, name), getattr(env, name)
        assert torch.equal(ours, theirs) if isinstance(ours, torch.Tensor) else ours == theirs, name
    assert len(wrapped) == env.num_envs
    wrapped.episode_steps = torch.arange(env.num_envs)
    assert env.episode_steps.tolist() == [*range(env.num_envs)]
    rewards = torch.ones(env.num_envs)
    wrapped.bind(rewards=rewards)
    wrapped.step(wrapped.sample_actions())
    assert rewards.tolist() == env.sim.tensor("Player.Reward").view(-1).tolist() != [1.0] * env.num_envs
    with pytest.raises(AttributeError, match="bidn"):
        _ = wrapped.bidn
    twin = copy.deepcopy(wrapped)
    assert torch.equal(twin.action_mask, wrapped.action_mask) and twin.sim is not wrapped.sim


# ---- episode statistics --------------------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
# gymnasium's do not know who is active.
@pytest.mark.parametrize("name", all_but_hideseek(sorted({*ENVIRONMENTS} - {"melee"})))
def test_statistics_agree_with_gymnasiums_after_array_conversion(name: str, mode: AutoresetMode) -> None:
    """gymnasium.wrappers.vector.ArrayConversion needs array-api-compat, which is in the test extra."""
    ours = EpisodeStatistics(make(name, 20, mode))
    converted = vector_wrappers.ArrayConversion(make(name, 20, mode), env_xp=torch, target_xp=np)
    theirs = vector_wrappers.RecordEpisodeStatistics(converted)
    generator = np.random.default_rng(0)
    ours.reset(seed=3)
    theirs.reset(seed=3)
    episodes = 0
    for _ in range(60):
        actions = random_actions(ours.unwrapped, generator)
        *_, terminations, truncations, infos = ours.step(actions)
        expected = theirs.step(actions.numpy())[4]
        ended = infos["_episode"]
        assert (infos["episode"]["r"].dtype, infos["episode"]["l"].dtype) == (torch.float32, torch.int32)
        assert torch.equal(ended, terminations | truncations)
        if ended.any():
            assert np.array_equal(ended, expected["_episode"])
            assert infos["episode"]["r"].numpy() == pytest.approx(expected["episode"]["r"], rel=1e-5)
            assert np.array_equal(infos["episode"]["l"], expected["episode"]["l"])
        else:
            assert "episode" not in expected
            assert not infos["episode"]["r"].any()
            assert not infos["episode"]["l"].any()
        episodes += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            ours.reset(options={"reset_mask": ended.clone()})
            theirs.reset(options={"reset_mask": ended.numpy().copy()})
        assert ours.episode_returns.numpy() == pytest.approx(theirs.episode_returns, rel=1e-5, abs=1e-5)
        assert np.array_equal(ours.episode_lengths, theirs.episode_lengths)
    assert episodes > 50
    assert theirs.episode_count == ours.totals()[2] == episodes


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_statistics_go_back_with_the_worlds(mode: AutoresetMode) -> None:
    """Steps after a restored one count as they did, also where worlds stand still or begin; a bare state loads too."""
    env, again = (EpisodeStatistics(make("melee", 6, mode)) for _ in range(2))
    actions = [random_actions(env.unwrapped, np.random.default_rng(seed)) for seed in range(30)]
    env.reset(seed=3)
    steps = 0
    while not env.ended_worlds().any():
        env.step(actions[steps])
        steps += 1
    waiting = env.ended_worlds() & (mode is not AutoresetMode.SAME_STEP)  # the next step counts for none of them
    state = env.state_dict()
    bare = env.unwrapped.state_dict()

    def played(made: EpisodeStatistics) -> list[tuple[list[float], list[int]]]:
        episodes = [made.step(batch)[4]["episode"] for batch in actions[steps:]]
        return [(part["r"].tolist(), part["l"].tolist()) for part in episodes]

    expected, totals = played(env), env.totals()
    again.load_state_dict(state)
    assert played(again) == expected and again.totals(clear=False) == totals
    returns = env.episode_returns
    env.load_state_dict(state)
    assert env.episode_returns is returns and played(env) == expected
    TorchVectorEnv(again.unwrapped.environment, num_worlds=6, autoreset_mode=mode).load_state_dict(state)
    again.load_state_dict(bare)
    assert not again.episode_lengths.any() and again.totals()[2] == totals[2]
    again.step(actions[0])
    assert again.by_world(again.episode_lengths).any(1).tolist() == (~waiting).tolist()


def test_only_a_call_of_totals_begins_them_anew() -> None:
    env = EpisodeStatistics(make("cartpole", 5, AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    for _ in range(30):
        env.step(env.sample_actions())
    seen = env.totals(clear=False)
    assert seen[2] > 0
    env.reset(options={"reset_mask": torch.arange(5) < 3})
    env.reset()
    assert copy.deepcopy(env).totals() == env.totals() == seen
    assert env.totals()[2] == 0


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_totals_are_means_over_the_episodes_since_the_last_call(mode: AutoresetMode) -> None:
    env = EpisodeStatistics(make("cartpole", 10, mode))
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    assert np.isnan(env.totals()[:2]).all()
    for _ in range(2):
        returns, lengths = [], []
        for _ in range(25):
            *_, infos = env.step(random_actions(env.unwrapped, generator))
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
        if mode is AutoresetMode.DISABLED:
            assert len(lengths) in (10, 0)  # once, though the worlds stand ended
            env.reset()
        if lengths:
            assert env.totals() == (pytest.approx(np.mean(returns)), pytest.approx(np.mean(lengths)), len(lengths))
            assert returns == lengths  # of CartPole
        assert env.totals()[2] == 0


def test_a_reset_in_the_midst_begins_the_statistics_anew() -> None:
    env = EpisodeStatistics(make("duel", 4, AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    actions = torch.ones(8, 2, dtype=torch.int64)
    env.step(actions)
    env.step(actions)
    assert env.episode_lengths.tolist() == [2] * 8
    env.reset(options={"reset_mask": torch.tensor([True, False, False, True])})  # of worlds
    assert env.episode_lengths.tolist() == [0, 0, 2, 2, 2, 2, 0, 0]
    env.reset(options={"reset_mask": np.array([False, False, True, True, False, False, False, False])})  # of rows
    assert env.episode_lengths.tolist() == [0, 0, 0, 0, 2, 2, 0, 0]
    env.reset()
    assert not env.episode_lengths.any()
    assert not env.episode_returns.any()


def test_statistics_of_a_refused_call_stay() -> None:
    env = EpisodeStatistics(make("cartpole", 3, AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    env.step(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.ones(5, bool)})
    with pytest.raises(ValueError, match="action 7"):
        env.step(torch.tensor([0, 7, 0]))
    assert env.episode_lengths.tolist() == [1, 1, 1]
    assert env.episode_returns.tolist() == [1, 1, 1]


def test_infos_stay_when_the_next_step_comes() -> None:
    """Statistics are the user's: unlike the simulator's memory they do not change with the next step."""
    env = EpisodeStatistics(make("cartpole", 3, AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    for _ in range(15):
        infos = env.step(torch.zeros(3, dtype=torch.int64))[4]
        if infos["_episode"].any():
            break
    held = infos["episode"]["l"].clone(), infos["_episode"].clone()
    env.step(torch.zeros(3, dtype=torch.int64))
    assert torch.equal(infos["episode"]["l"], held[0])
    assert torch.equal(infos["_episode"], held[1])


def test_twice_is_refused() -> None:
    env = EpisodeStatistics(EpisodeStatistics(make("cartpole", 3, AutoresetMode.SAME_STEP)))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"infos has an 'episode' already; is the environment wrapped twice\?"):
        env.step(torch.zeros(3, dtype=torch.int64))


def test_numpy_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"needs output='torch', .*RecordEpisodeStatistics"):
        EpisodeStatistics(make("cartpole", 3, AutoresetMode.SAME_STEP, output="numpy"))


# ---- gymnasium's wrappers ------------------------------------------------------------------------------------------


def test_action_wrappers() -> None:
    def moved(wrap: Callable[[VectorEnv], VectorEnv], actions: np.ndarray) -> np.ndarray:
        env = wrap(TorchVectorEnv(Drift(), 3, output="numpy"))
        before = env.reset(seed=0)[0].copy()
        return env.step(actions)[0] - before

    huge = np.full((3, 3), 9.0, np.float32)
    top = moved(lambda env: env, np.tile(np.array([1, 2, 3], np.float32), (3, 1)))
    assert np.array_equal(moved(lambda env: vector_wrappers.ClipAction(env), huge), top)
    rescale = moved(
        lambda env: vector_wrappers.RescaleAction(env, np.float32(0), np.float32(1)), np.ones((3, 3), np.float32)
    )
    assert np.allclose(rescale, top)
    assert np.array_equal(
        moved(lambda env: vector_wrappers.TransformAction(env, lambda a: a / 9), huge),
        moved(lambda env: env, np.ones((3, 3), np.float32)),
    )


@pytest.mark.parametrize("environment", [CartPole, Duel])
def test_infos_as_a_list(environment: type[Environment]) -> None:
    """``DictInfoToList`` knows gymnasium's masks: ``final_obs`` is there for the rows that ended only."""
    env = vector_wrappers.DictInfoToList(TorchVectorEnv(environment(max_episode_steps=4), num_worlds=3, output="numpy"))
    env.reset(seed=0)
    zeros = np.zeros(env.action_space.shape, np.int64)
    for step in range(1, 5):
        infos = env.step(zeros)[4]
        assert len(infos) == env.num_envs
        assert all(("final_obs" in info) == (step == 4) for info in infos)
        assert all(("final_info" in info) == (step == 4) for info in infos)
