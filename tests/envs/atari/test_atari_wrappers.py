"""Options beside the wrappers whose conventions they follow: gymnasium's AtariPreprocessing and EnvPool.

Both count frames without action from their own generators, so here there is exactly one, or none. ``start="ale"`` has
the reference's episodes. EnvPool: ``pip install --no-deps envpool dm-env optree`` does, for it finds ale-py's ROMs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from torch_batchsim.envs.atari.env import Atari
from torch_batchsim.envs.atari.games import GAMES, class_name

import torch_batchsim

ale_py = pytest.importorskip("ale_py", reason="ale-py is not installed: options are not compared with wrappers of it")
pytest.importorskip("cv2", reason="cv2 is not installed: options are not compared with wrappers that need it")

AGAIN = {"reset_mask": torch.tensor([True])}


def ours(game: str, **options: Any) -> torch_batchsim.TorchVectorEnv:
    vector = {"num_worlds": 1, "num_threads": 1, "autoreset_mode": "Disabled"}
    return torch_batchsim.make_vec(Atari, game=game, start="ale", **vector, **options)


def ram(env: torch_batchsim.TorchVectorEnv) -> np.ndarray:
    return env.sim.tensor("Ram.bytes")[0].numpy()


def differences(one: np.ndarray, other: torch.Tensor) -> np.ndarray:
    """The greatest of each picture of a stack; cv2 rounds some means of areas otherwise, by 1."""
    assert one.shape == tuple(other.shape) and one.dtype == np.uint8
    return np.abs(one.astype(int) - other.numpy()).reshape(len(one), -1).max(1)


def actions(game: str, steps: int) -> list[int]:
    return np.random.default_rng(0).integers(len(GAMES[game].minimal_actions), size=steps).tolist()


# gymnasium ------------------------------------------------------------------------------------------------------------


def gymnasiums(game: str, obs: str, **options: Any) -> tuple[gymnasium.Env, Any]:
    """The wrapped environment, and ale-py's console in it."""
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    base = gymnasium.make(f"ALE/{class_name(game)}-v5", frameskip=1, repeat_action_probability=0.0)
    size = 84 if obs == "84x84" else (160, GAMES[game].lines)
    wrapped = AtariPreprocessing(base, noop_max=1, screen_size=size, grayscale_obs=obs != "rgb", **options)
    return FrameStackObservation(wrapped, 4) if obs == "84x84" else wrapped, base.unwrapped.ale


@pytest.mark.full
@pytest.mark.parametrize(
    ("game", "obs", "steps"),
    [("breakout", "84x84", 330), ("ms_pacman", "84x84", 60), ("pong", "rgb", 40), ("journey_escape", "gray", 40)],
)
def test_observations_are_gymnasiums(game: str, obs: str, steps: int) -> None:
    """But for the last picture of a game that ends within a step: theirs is one of an earlier step."""
    (theirs, console), env = gymnasiums(game, obs), ours(game, obs=obs, noop_max=1, fire_at_reset=False)
    most = int(obs == "84x84")
    assert differences(theirs.reset(seed=0)[0], env.reset(seed=0)[0][0]).max() <= most
    over = 0
    for action in actions(game, steps):
        seen, reward, terminated, truncated, _ = theirs.step(action)
        own, rewards, terminations, truncations, infos = env.step(torch.tensor([action]))
        assert (ram(env) == console.getRAM()).all() and infos["lives"][0] == console.lives()
        assert (reward, terminated, truncated) == (rewards[0], terminations[0], truncations[0])
        assert differences(seen, own[0])[: 3 if terminated else None].max() <= most
        if terminated:
            over += 1
            assert differences(theirs.reset()[0], env.reset(options=AGAIN)[0][0]).max() <= most
            assert (ram(env) == console.getRAM()).all()
    assert over == (game == "breakout")
    env.close()
    theirs.close()


@pytest.mark.full
def test_a_lost_life_ends_gymnasiums_step_and_game() -> None:
    """Ours plays the step to its end, and the next episode goes on with the game."""
    theirs, console = gymnasiums("breakout", "84x84", terminal_on_life_loss=True)
    env = ours("breakout", noop_max=1, fire_at_reset=False, episodic_life=True)
    theirs.reset(seed=0)
    env.reset(seed=0)
    for action in actions("breakout", 300):
        terminated = theirs.step(action)[2]
        assert env.step(torch.tensor([action]))[2][0] == terminated
        if terminated:
            break
        assert (ram(env) == console.getRAM()).all()
    frames = int(env.sim.tensor("Session.frames")[0]), console.getEpisodeFrameNumber() - 1
    assert terminated and 0 < frames[0] - frames[1] < 4
    theirs.reset()
    assert (env.reset(options=AGAIN)[1]["lives"][0], console.lives()) == (4, 5)
    env.close()
    theirs.close()


# EnvPool --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def envpool_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where EnvPool finds ROMs: ale-py's."""
    monkeypatch.setitem(sys.modules, "envpool.entry", ModuleType("entry"))  # registers all else, which needs packages
    pytest.importorskip("envpool", reason="EnvPool is not installed: options are not compared with it")
    (tmp_path / "atari").mkdir()
    (tmp_path / "atari" / "roms").symlink_to(Path(ale_py.roms.__file__).parent)
    return tmp_path


def envpools(base: Path, game: str, **options: Any) -> Any:
    from envpool.registration import make, registry

    name = f"{class_name(game)}-v5"
    classes = {"spec_cls": "AtariEnvSpec", "dm_cls": "AtariDMEnvPool", "gymnasium_cls": "AtariGymnasiumEnvPool"}
    registry.specs.pop(name, None)
    registry.register(name, "envpool.atari", **classes, task=game, base_path=str(base), max_episode_steps=27_000)
    return make(name, env_type="gymnasium", num_envs=1, **options)


@pytest.mark.full
@pytest.mark.parametrize(
    ("game", "steps", "expected_ends", "options", "theirs"),
    [
        ("breakout", 330, 1, {}, {}),
        ("breakout", 330, 9, {"episodic_life": True}, {"episodic_life": True}),
        ("ms_pacman", 90, 2, {"noop_max": 1, "max_episode_frames": 160}, {"max_episode_steps": 40}),
        ("space_invaders", 60, 0, {"full_action_set": True, "clip_rewards": True},
         {"full_action_space": True, "reward_clip": True}),
        ("pong", 60, 0, {"mode": 1, "difficulty": 3}, {"mode": 1, "difficulty": 3}),
    ],
)  # fmt: skip
def test_steps_are_envpools(
    envpool_base: Path, game: str, steps: int, expected_ends: int, options: dict[str, Any], theirs: dict[str, Any]
) -> None:
    """Two pictures differ: the last one of a game that ends within a step, where theirs is one of an earlier step, and
    those before a lost life, with which their stack goes on and ours, as gymnasium's, does not."""
    pool = envpools(envpool_base, game, noop_max=1, **theirs)  # a frame: FIRE where the game has it, else no action
    env = ours(game, **{"noop_max": 0, **options})
    seen, info = pool.reset()
    assert differences(seen[0], env.reset(seed=0)[0][0]).max() <= 1
    since, ends, rewarded = 4, 0, 0
    for action in actions(game, steps):
        seen, reward, terminated, truncated, info = pool.step(np.array([action]))
        own, rewards, terminations, truncations, infos = env.step(torch.tensor([action]))
        since = min(since + 1, 4)
        assert (ram(env) == info["ram"][0]).all() and infos["lives"][0] == info["lives"][0]
        found = rewards[0], terminations[0], truncations[0]
        assert found == (reward[0], terminated[0], truncated[0])
        rewarded += reward[0] != 0
        over = bool(info["terminated"][0])
        assert differences(seen[0], own[0])[4 - since : 3 if over else None].max() <= 1
        if terminated[0] or truncated[0]:
            ends += 1
            since = 4 if over or truncated[0] else 1
            seen, _, _, _, info = pool.step(np.array([action]))  # which resets
            own, infos = env.reset(options=AGAIN)
            assert (ram(env) == info["ram"][0]).all() and infos["lives"][0] == info["lives"][0]
            assert differences(seen[0], own[0])[4 - since :].max() <= 1
    assert ends == expected_ends
    assert rewarded > 0 or game in ("pong", "ms_pacman")
    env.close()
    pool.close()
