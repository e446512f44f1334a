"""Integrators install torch, numpy, gymnasium, ninja; what the extra `train` brings is asked for when it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torch_batchsim.base import extras
from torch_batchsim.errors import MissingExtra

EXTRA = ("matplotlib", "PIL", "tyro", "tqdm", "tensorboard")
EXTRA_OF_GYMNASIUM = ("pygame", "moviepy", "cv2", "array_api_compat", "jax", "mujoco", "Box2D", "ale_py")
SENTENCE = "this needs {}, which is not installed: pip install 'torch_batchsim[train]' brings it\n"
BLOCKED = f"""
import sys

class Blocked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {EXTRA + EXTRA_OF_GYMNASIUM}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked)
"""
WITHOUT = """
import gymnasium, numpy, torch, torch_batchsim, torch_batchsim.gpu_check.stages, torch_batchsim.train
from torch_batchsim.errors import MissingExtra

for name in ("CartPole", "Swarm", "Overcooked", "Hanabi"):
    options = {"illegal_moves": "penalty"} if name == "Hanabi" else {}
    env = gymnasium.make_vec(f"torch_batchsim/{name}-v0", num_worlds=2, render_mode="rgb_array", **options)
    env.reset(seed=0)
    with env.unwrapped.tracing() if name == "CartPole" else open("/dev/null") as trace:
        env.step(torch.as_tensor(numpy.zeros_like(env.action_space.sample())))
    picture = env.unwrapped.render_world(0)
    assert picture.dtype == numpy.uint8 and picture.ndim == 3
    if name == "CartPole":
        try:
            trace.draw("trace.png")
        except MissingExtra as error:
            print(error)
"""


COMMANDS = """
import runpy

for command in ("bench", "train", "train.teams"):
    try:
        runpy.run_module(f"torch_batchsim.{command}", run_name="__main__")
    except SystemExit as ended:
        print(ended.code)
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_environments_step_and_render_without_the_extra() -> None:
    done = python(BLOCKED + WITHOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == SENTENCE.format("matplotlib")


@pytest.mark.full
def test_commands_without_the_extra_end_in_one_sentence() -> None:
    done = python(BLOCKED + COMMANDS)
    assert (done.returncode, done.stdout) == (0, "2\n" * 3)
    assert done.stderr == ("error: " + SENTENCE.format("tyro")) * 3


def test_a_module_that_a_package_lacks_is_reported_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all") as caught:
        extras.needed("half_installed")
    assert not isinstance(caught.value, MissingExtra)


@pytest.mark.full
def test_an_older_gymnasium_is_named() -> None:
    """That of CleanRL's pins, for example."""
    older = "import gymnasium.vector; del gymnasium.vector.AutoresetMode; gymnasium.__version__ = '0.29.1'\n"
    run = subprocess.run([sys.executable, "-c", f"{older}import torch_batchsim"], capture_output=True, text=True)
    assert run.stderr.endswith(
        "ImportError: torch_batchsim needs gymnasium 1.1 or later, found 0.29.1; a script that pins it can step the "
        "worlds in another Python: examples/recipes/other_pins.py\n"
    )
