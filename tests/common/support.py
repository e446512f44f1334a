"""What several tests share."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from environments.dust import Dust
from environments.forge import Forge
from environments.gallery import Gallery
from environments.hall import Hall
from environments.heap import Heap
from environments.herd import Herd
from environments.melee import Melee
from environments.shelf import Shelf
from environments.stool import Stool
from environments.yard import Yard
from environments.zoo import Zoo
from python_systems.cartpole import PythonCartPole
from python_systems.overcooked import PythonOvercooked
from python_systems.swarm import PythonSwarm
from torch_batchsim.envs.ant import Ant
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.hideseek import HideSeek
from torch_batchsim.envs.minatar import Seaquest
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm
from torch_batchsim.envs.tag import TagContinuous

from torch_batchsim import Environment, Simulator, TorchVectorEnv
from torch_batchsim.build import emulation, jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.build.compiler import precompile
from torch_batchsim.check.spoiling import spoil, spoil_scratch  # noqa: F401
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import Plan
from torch_batchsim.testing import assert_same_bits, ended_worlds, first_worlds, of_worlds, snapshot  # noqa: F401

# A swarm that is busy at once, soon over, and small: emulated lanes are slow.
BUSY = partial(
    Swarm, ships=2, drones=32, hull=2, reload=3, bullet_life=9, drone_reload=16, drone_speed=0.05, spawn_rate=2.0,
    max_episode_steps=30,
)  # fmt: skip
# Two kitchens of different size, started anywhere, and soon closed.
KITCHENS = partial(
    Overcooked, layout=["cramped_room", "forced_coordination"], random_start=True, random_objects=0.5,
    horizon=25, shaping_factor=1.0, shaping_shared=0.5, cook_time=3,
)  # fmt: skip
# Random play that is legal as often as not, by whoever's turn it is.
HINTS = partial(Hanabi, illegal_moves="penalty", random_start_player=True, critic=True)
# Short rounds from levels of all kinds, in the one build that all tests of hide and seek share: it takes long.
HUNT = partial(
    HideSeek, critic=True, preparation_steps=3, max_episode_steps=12, min_walls=0, min_boxes=0, min_long_boxes=0
)
WALK = partial(Ant, max_episode_steps=4)
# Systems in Python with lanes; runners that leave; neighbours of more agents than lanes compare at once.
TAG = partial(
    TagContinuous, num_taggers=3, num_runners=15, grid_length=3.0, tagging_distance=0.1, episode_length=20,
    use_full_observation=False, num_other_agents_observed=3, num_turn_levels=20,
)  # fmt: skip
# Whose systems are in Python. The executor "python" runs only these as Python, and all others as "per_world" does.
IN_PYTHON = {
    "cartpole_in_python": PythonCartPole,
    "overcooked_in_python": partial(PythonOvercooked, **KITCHENS.keywords),
    "swarm_in_python": partial(PythonSwarm, **BUSY.keywords),
    "seaquest": Seaquest, "tag": TAG,
}  # fmt: skip
ENVIRONMENTS = {
    "cartpole": CartPole, "duel": Duel, "drift": Drift, "zoo": Zoo, "swarm": BUSY, "overcooked": KITCHENS,
    "hanabi": HINTS, "forge": Forge, "melee": Melee, "yard": Yard, "hideseek": HUNT,
}  # fmt: skip
# Also those that random play is not for, and those of large libraries, for which all generic tests would take too long.
COMPILED = {
    **ENVIRONMENTS, **IN_PYTHON, "ant": WALK, "dust": Dust, "gallery": Gallery, "hall": Hall, "heap": Heap,
    "herd": Herd, "shelf": Shelf, "stool": Stool,
}  # fmt: skip
EMULATION = emulation.WORDS


def full_but(fast: Iterable[str], values: Iterable[Any]) -> list[Any]:
    """Parameters of which only ``fast`` are in the fast run, and all in the full one; tuples go by their first."""
    fast = set(fast)
    named = [(value[0] if isinstance(value, tuple) else value, value) for value in values]
    unknown = fast - {name for name, _ in named}
    assert not unknown, f"there are no parameters {unknown}"
    return [value if name in fast else _full(value) for name, value in named]


def all_but_hideseek(names: Iterable[str]) -> list[Any]:
    """Parameters: names of environments, of which that of HideSeek is in the full run only. Its unit is large."""
    names = list(names)
    return full_but([name for name in names if name != "hideseek"], names)


def sampled(values: Iterable[Any], count: int, seed: int = 0) -> list[Any]:
    """Parameters of which ``count``, drawn by a seed, are in the fast run, and all in the full one."""
    values = list(values)
    chosen = set(random.Random(seed).sample(range(len(values)), count))
    return [value if i in chosen else _full(value) for i, value in enumerate(values)]


def all_tests() -> bool:
    """Whether this run has all tests and all of their steps, not others each day."""
    return os.environ["TBS_TESTS_SEED"] == "all"


def of_today(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters of the full run only, of which it takes ``count`` each day, and all in as many days as that takes.

    ``TBS_TESTS_SEED=all`` takes all. See ``tests/conftest.py``.
    """
    values = list(values)
    if not all_tests():
        random.Random(0).shuffle(values)
        first = int(os.environ["TBS_TESTS_SEED"]) * count
        values = [values[(first + i) % len(values)] for i in range(count)]
    return [_full(value) for value in values]


def _full(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.full)


@cache
def emulated_cuda(
    name: str, executor: str = "graph", plan: Plan | None = None, traced: bool = False, inside: bool = False
) -> jit.Library | jit.InsideLibrary:
    """The CUDA unit of an environment, compiled by g++ with the words of csrc/emulation.

    The ordinary ones are those that ``torch_batchsim.check`` builds, so that tests of both have one.
    """
    if plan is None and not traced and not inside:
        return emulation.load(Program(COMPILED[name]()), executor)
    return library(name, Target("cuda", executor, plan, traced, inside), "-include", str(EMULATION))


def emulated_simulator(name: str, worlds: int, executor: str, **kwargs: object) -> Simulator:
    """A simulator on an emulated device, which finds its other builds there too."""

    def load(target: Target) -> jit.Library:
        return emulated_cuda(name, target.executor_name, target.plan, target.traced, target.inside)

    library = emulated_cuda(name, executor)
    return Simulator(COMPILED[name](), worlds, _library=library, _loader=load, **kwargs)


@cache
def baseline(name: str) -> jit.Library:
    """The CPU unit of an environment for the least processor of its kind."""
    return library(name, Target())


def unoptimised(name: str) -> jit.Library:
    """The CPU unit of an environment in which the compiler does not know what a node may reach."""
    return library(name, Target(), "-O0")


def sanitized(name: str) -> jit.Library:
    """The CPU unit of an environment that ends the process at a bad access or undefined behaviour."""
    # Rigid bodies take minutes to compile with more than -O0.
    flags = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return library(name, Target(), *flags)


def library(
    name: str, target: Target, *arguments: str, depends_on: Sequence[str] = ()
) -> jit.Library | jit.InsideLibrary:
    """What g++ makes of the unit of an environment with further arguments, and the texts that these name."""
    program = Program(COMPILED[name]())
    flags = [f for f in jit.compiler_flags("cpu") if f not in ("-O3", "-march=native")]
    flags += ["-Og", "-DTBS_FRAMES", "-fPIC", "-shared", "-DTBS_SPOIL_WORKSPACE", f"-I{jit.CSRC}"]
    depends_on = (*jit.program_sources(program), EMULATION.read_text(), *depends_on)
    flags = _with_headers_precompiled([*flags, *arguments])
    text = generate(program, target).replace("#define TBS_USES_PRECOMPILED\n", "")  # all of it with these arguments
    made = compiled(text, flags, depends_on)
    return jit.InsideLibrary(made, target) if target.inside else jit.Library(made, target)


def _with_headers_precompiled(arguments: Sequence[str]) -> list[str]:
    """The same arguments of g++, but what they ``-include`` is one header."""
    joined = "\0".join(arguments).replace("-include\0", "-include").split("\0")
    headers = [Path(word.removeprefix("-include")) for word in joined if word.startswith("-include")]
    others = [word for word in joined if not word.startswith("-include")]
    if not headers:
        return others
    texts = [f'#include "{path}"\n' for path in headers]
    linker = ("-shared", "-nodefaultlibs", "-l", "-Wl", "-iquote")  # and what is not a flag at all
    flags = [word for word in others if word.startswith("-") and not word.startswith(linker)]
    compiler = jit.cpp_compiler()
    parts = [*texts, *(path.read_text() for path in headers), *flags, jit.compiler_identity(compiler)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    made = Path(os.environ["TORCH_BATCHSIM_TEST_UNITS"]) / f"headers-{digest}"
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        header = made.with_suffix(".txt")
        header.write_text("".join(texts))
        precompile(header, compiler, flags, made)
    return [*others, "-include", f"{made}.h" if made.with_name(f"{made.name}.h").is_file() else str(header)]


def compiled(source: str, arguments: Sequence[str], depends_on: Sequence[str] = ()) -> Path:
    """What g++ makes of a text: once in a run; with TORCH_BATCHSIM_CACHE given, once until something changes.

    What it said is beside it, in a file with the suffix ``.said``.

    Args:
        source: C++.
        arguments: all others of g++, but for the output.
        depends_on: the texts of what it includes.
    """
    folder = Path(os.environ["TORCH_BATCHSIM_TEST_UNITS"])  # of tests/conftest.py
    compiler = jit.compiler_identity(jit.cpp_compiler())
    digest = hashlib.sha256("\0".join([source, compiler, *arguments, *depends_on]).encode()).hexdigest()[:20]
    made = folder / f"{digest}.so"
    if made.is_file():
        return made
    with open(folder / f"{digest}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of the run may be at it
        if not made.is_file():
            unit, part = folder / f"{digest}.cpp", folder / f"{digest}.part"
            unit.write_text(source)
            command = [jit.cpp_compiler(), str(unit), *arguments, "-o", str(part)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            made.with_suffix(".said").write_text(done.stdout + done.stderr)
            part.replace(made)  # so that what is half written is never taken up
    return made


def random_actions(env: TorchVectorEnv, generator: np.random.Generator) -> torch.Tensor:
    """Actions drawn from the action space, legal or not, ``[rows, ...]``."""
    space = env.action_space
    space._np_random = generator
    return torch.from_numpy(np.asarray(space.sample()))


def folder_of(text: str) -> Path:
    """For a text that several tests write, so that they have one build: a unit names the file."""
    folder = Path(os.environ["TORCH_BATCHSIM_TEST_UNITS"]) / hashlib.sha256(text.encode()).hexdigest()[:20]
    folder.mkdir(exist_ok=True)
    return folder


def write(path: Path, text: str) -> None:
    """At once, for another worker of the run may be reading the file."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def declare(text: str, folder: Path | None = None, **attributes: object) -> type[Environment]:
    """A small environment class whose systems are ``text``.

    ``folder``: where the text is put, which a unit names. Without one it is that of all texts alike, so that tests that
    declare the same have one build.
    """
    source = (folder or folder_of(text)) / "systems.h"
    write(source, text)
    return type("Declared", (Environment,), {"systems": str(source), **attributes})


def line_of(file: str, text: str) -> int:
    """The number of the line of a file that is this text."""
    return 1 + [line.strip() for line in Path(file).read_text().splitlines()].index(text)
