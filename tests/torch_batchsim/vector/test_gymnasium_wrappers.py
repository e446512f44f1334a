"""Every vector wrapper of gymnasium, over tensors and arrays and in each autoreset mode, as docs/wrappers.md has it."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium.wrappers as single
import gymnasium.wrappers.vector as wrappers
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from support import BUSY, assert_same_bits, declare, snapshot
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import Archetype, Component, Reward, TaskGraph, TorchVectorEnv, i32, u8

PAGE = Path(__file__).resolve().parents[3] / "docs" / "wrappers.md"
TABLE = re.findall(r"^- `(\w+)`: (yes|no), (yes|no); ([\w, ]+)", PAGE.read_text(), re.MULTILINE)
ROWS = {name: modes for name, *modes in TABLE}


class Eye(Component):
    pixels: u8[4, 6, 3]


class Choice(Component):
    move: i32


PICTURES = {
    "text": """
TBS_SYSTEM void stop(World &world, Episode &episode) { episode.truncated = episode.step >= 5u; }
TBS_SYSTEM void look(World &world, Eye &eye) {
    for (i32 i = 0; i < 4; ++i) {
        for (i32 j = 0; j < 6; ++j) {
            for (i32 k = 0; k < 3; ++k) eye.pixels[i][j][k] = u8(40 * i + 6 * j + k + i32(world.step()));
        }
    }
}
""",
    "archetypes": (Archetype("Viewer", Eye, Choice, Reward, count=1),),
    "step": TaskGraph("stop"),
    "observe": TaskGraph("look"),
    "observation": "Viewer.Eye",
    "action": "Viewer.Choice",
    "action_space": Discrete(2),
}


def environment_for(name: str) -> Any:
    """One that the wrapper is made for, with episodes of five steps."""
    if name in ("GrayscaleObservation", "ResizeObservation"):
        return declare(**PICTURES)()
    if name == "RescaleObservation":  # bounded
        return BUSY(max_episode_steps=5)
    if name == "FilterObservation":
        return Duel(max_episode_steps=5)
    if "Action" in name:
        return Drift(max_episode_steps=5)
    return CartPole(max_episode_steps=5)


def arguments(name: str, env: VectorEnv, folder: Path) -> dict[str, Any]:
    space, actions = env.single_observation_space, env.single_action_space
    return {
        "VectorizeTransformObservation": {
            "wrapper": single.TransformObservation, "func": lambda obs: obs * 2, "observation_space": space,
        },
        "VectorizeTransformAction": {
            "wrapper": single.TransformAction, "func": lambda action: action, "action_space": actions,
        },
        "VectorizeTransformReward": {"wrapper": single.TransformReward, "func": lambda reward: 2 * reward},
        "TransformObservation": {"func": lambda obs: obs * 2},
        "FilterObservation": {"filter_keys": ["cells"]},
        "ReshapeObservation": {"shape": (2, 2)},
        "RescaleObservation": {"min_obs": np.float32(0), "max_obs": np.float32(1)},
        "DtypeObservation": {"dtype": np.float64},
        "ResizeObservation": {"shape": (2, 3)},
        "TransformAction": {"func": lambda action: action},
        "RescaleAction": {"min_action": np.float32(0), "max_action": np.float32(1)},
        "TransformReward": {"func": lambda reward: 2 * reward},
        "ClipReward": {"min_reward": 0, "max_reward": 0.5},
        "RecordVideo": {"video_folder": str(folder)},
        "ArrayConversion": {"env_xp": np if env.output == "numpy" else torch, "target_xp": np},
    }.get(name, {})  # fmt: skip


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that show and write pictures, where they are missing: the wrappers' own code runs all the same."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    if not has("moviepy"):
        module = types.ModuleType("moviepy")
        monkeypatch.setitem(sys.modules, "moviepy", module)
        folder = types.ModuleType("moviepy.video.io.ImageSequenceClip")
        folder.ImageSequenceClip = lambda frames, fps: types.SimpleNamespace(
            write_videofile=lambda path, **_: Path(path).write_bytes(np.stack(frames).tobytes())
        )
        for name in ("moviepy.video", "moviepy.video.io"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, "moviepy.video.io.ImageSequenceClip", folder)


def state_of(env: TorchVectorEnv) -> dict[str, torch.Tensor]:
    """Without outputs, into which some wrappers write."""
    return {k: t for k, t in snapshot(env.sim).items() if not k.startswith("output_") and not k.endswith("Reward")}


def play(env: VectorEnv, name: str) -> tuple[list[Any], int]:
    """Twelve steps with what the wrapper takes as actions; what they returned, and how many episodes have ended."""
    env.reset(seed=0)
    env.action_space.seed(0)
    results, ends = [], 0
    for _ in range(12):
        actions = env.action_space.sample()
        results.append(env.step(torch.from_numpy(actions) if name == "NumpyToTorch" else actions))
        ended = np.asarray(results[-1][2]) | np.asarray(results[-1][3])
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.all():
            env.reset()
        ends += int(ended.sum())
    return results, ends


def test_the_page_has_all_of_gymnasiums_wrappers() -> None:
    assert set(ROWS) == set(wrappers.__all__)


def rows() -> Iterator[Any]:
    """Each wrapper with each output and mode; of videos, which take long, the fast run has one mode."""
    for name, output, mode in product(ROWS, ["torch", "numpy"], AutoresetMode):
        slow = name == "RecordVideo" and mode is not AutoresetMode.NEXT_STEP
        if not name.startswith("Jax"):
            yield pytest.param(name, output, mode, marks=[pytest.mark.full] if slow else [])


@pytest.mark.crossed
@pytest.mark.parametrize(("name", "output", "mode"), [*rows()], ids=lambda value: getattr(value, "name", value))
@pytest.mark.usefixtures("pretended")
@pytest.mark.filterwarnings("ignore")
def test_a_wrapper_works_where_the_page_says_so(name: str, output: str, mode: AutoresetMode, tmp_path: Path) -> None:
    needs = {"ResizeObservation": ["cv2"], "HumanRendering": ["pygame", "cv2"]}.get(name, [])
    missing = [module for module in needs if not has(module)]
    if missing:
        pytest.skip(f"{name} needs {missing}")
    takes_tensors, takes_arrays, modes = ROWS[name]
    if (takes_tensors if output == "torch" else takes_arrays) == "no":
        pytest.skip("it computes with NumPy, and may fail, or return arrays")
    pictures = {"render_mode": "rgb_array"} if name in ("RecordVideo", "HumanRendering") else {}
    env = TorchVectorEnv(environment_for(name), num_worlds=3, autoreset_mode=mode, output=output, **pictures)
    if mode.value not in modes:
        with pytest.raises(ValueError, match=r"Expected .*autoreset_mode.* to be .*NEXT_STEP"):
            getattr(wrappers, name)(env, **arguments(name, env, tmp_path))
        return
    wrapped = getattr(wrappers, name)(env, **arguments(name, env, tmp_path))
    results, ends = play(wrapped, name)
    arrays = name != "NumpyToTorch" and (output == "numpy" or name == "ArrayConversion")
    assert all(isinstance(part, np.ndarray if arrays else torch.Tensor) for result in results for part in result[1:4])
    assert ends >= 6
    if "Action" not in name:  # which give the environment other actions
        bare = TorchVectorEnv(environment_for(name), num_worlds=3, autoreset_mode=mode, output=output)
        play(bare, "")
        assert_same_bits(state_of(bare), state_of(env))  # the wrapper leaves the simulation alone
    if name != "FilterObservation" and "Action" not in name and "Reward" not in name:
        assert wrapped.single_observation_space.shape == results[-1][0].shape[1:]
    wrapped.close()
    if name == "RecordVideo":
        assert [*tmp_path.glob("*.mp4")]


def test_the_example_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    example = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(example, str(PAGE), "exec"), {})
    returned, length, count = eval(capsys.readouterr().out)
    assert count > 0 and returned == pytest.approx(0.1 * length)
