"""``gymnasium.make`` under Stable-Baselines3: its checker for every environment, and a trainer beside a partner."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import RecordEpisodeStatistics, RecordVideo
from libraries_of_others import library
from support import HUNT

library(__file__, "stable_baselines3", "sb3_contrib")

from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.utils import is_masking_supported  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402

# Every environment in a form whose spaces Stable-Baselines3 takes, and that takes all that its action space holds.
FORMS = [
    ("CartPole-v0", {}),
    ("Overcooked-v0", {"as_agent": 0}),
    ("Overcooked-v0", {"as_agent": 1}),
    ("Hanabi-v0", {"illegal_moves": "penalty"}),
    pytest.param("Hanabi-v0", {"illegal_moves": "penalty", "turns": "all", "as_agent": 1}, marks=pytest.mark.full),
    ("Swarm-v0", {}),
    pytest.param("Swarm-v0", {"ships": 2, "as_agent": 1}, marks=pytest.mark.full),
    pytest.param("HideSeek-v0", {**HUNT.keywords, "as_agent": 2}, marks=pytest.mark.full, id="hideseek"),
]
# The checker's advice on pictures and layouts; any other fails.
ADVICE = (
    ".*minimal resolution for an image",
    ".*upper and lower bounds are not in",
    ".*unconventional shape",
    "Treating image space as channels-last",
)


@pytest.mark.parametrize(("name", "kwargs"), FORMS)
def test_its_checker_passes(name: str, kwargs: dict[str, Any]) -> None:
    env = gymnasium.make(f"torch_batchsim/{name}", **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ADVICE:
            warnings.filterwarnings("ignore", text)
        check_env(env, skip_render_check=True)


def test_it_advises_against_spaces_of_all_agents_together() -> None:
    with warnings.catch_warnings(), pytest.warns(UserWarning, match="Dict or Tuple space"):
        warnings.filterwarnings("ignore", ".*image")
        check_env(gymnasium.make("torch_batchsim/Overcooked-v0"))


def test_gymnasium_records_a_video(tmp_path: Path) -> None:
    """As scripts in the manner of CleanRL do with ``--capture-video``."""
    env = gymnasium.make("torch_batchsim:torch_batchsim/CartPole-v0", render_mode="rgb_array")
    env = RecordEpisodeStatistics(RecordVideo(env, str(tmp_path / "videos")))
    env.reset(seed=1)
    while not any(env.step(env.action_space.sample())[2:4]):
        pass
    env.close()
    assert [path.suffix for path in (tmp_path / "videos").iterdir()] == [".mp4"]


def test_ppo_plays_beside_a_partner() -> None:
    asked = []

    def stay(observations: np.ndarray, infos: dict[str, Any]) -> list[int]:
        asked.append(observations.shape)
        return [4]

    torch.set_num_threads(1)
    env = gymnasium.make("torch_batchsim/Overcooked-v0", as_agent=0, partner=stay, horizon=20)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(64)
    assert set(asked) == {(1, 5, 4, 26)} and len(asked) == 64
    assert len(model.ep_info_buffer) == 3


@pytest.mark.parametrize("kwargs", [{}, {"turns": "all", "as_agent": 1}], ids=str)
def test_maskable_ppo_makes_legal_moves(kwargs: dict[str, Any]) -> None:
    """Any other would be a fault."""
    torch.set_num_threads(1)
    env = gymnasium.make("torch_batchsim/Hanabi-v0", **kwargs)
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=0)
    assert is_masking_supported(model.get_env())
    model.learn(128)
    assert len(model.ep_info_buffer) > 2
    assert not is_masking_supported(PPO("MlpPolicy", "torch_batchsim/CartPole-v0", device="cpu").get_env())
