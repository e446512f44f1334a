"""What several tests share."""

from __future__ import annotations

import os
import subprocess
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from environments.drift import Drift
from environments.duel import Duel
from environments.forge import Forge
from environments.herd import Herd
from environments.zoo import Zoo
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim import Environment, Simulator, TorchVectorEnv, jit
from torch_batchsim.codegen import Target, generate
from torch_batchsim.program import Program
from torch_batchsim.schedule import Plan

# A swarm that is busy at once, soon over, and small: emulated lanes are slow.
BUSY = partial(
    Swarm, ships=2, drones=32, hull=2, reload=3, bullet_life=9, drone_reload=16, drone_speed=0.05, spawn_rate=2.0,
    max_episode_steps=30,
)  # fmt: skip
# Two kitchens of different size, started anywhere, and soon closed.
KITCHENS = partial(
    Overcooked, layout=["cramped_room", "forced_coordination"], random_start=True, horizon=25, shaping_factor=1.0,
    cook_time=3,
)  # fmt: skip
# Random play that is legal as often as not, by whoever's turn it is.
HINTS = partial(Hanabi, illegal_moves="penalty", random_start_player=True)
ENVIRONMENTS = {
    "cartpole": CartPole, "duel": Duel, "drift": Drift, "zoo": Zoo, "swarm": BUSY, "overcooked": KITCHENS,
    "hanabi": HINTS, "forge": Forge,
}  # fmt: skip
COMPILED = {**ENVIRONMENTS, "herd": Herd}  # also those that random play is not for
_EMULATION = Path(__file__).parent.parent / "emulation" / "cuda_words.h"


@cache
def emulated_cuda(
    name: str, folder: Path, executor: str = "graph", plan: Plan | None = None, traced: bool = False
) -> jit.Library:
    """The CUDA unit of an environment, compiled by g++ with the CUDA words of tests/emulation."""
    return _compiled(name, folder, Target("cuda", executor, plan, traced), "-include", str(_EMULATION))


def emulated_simulator(name: str, folder: Path, worlds: int, executor: str, **kwargs: object) -> Simulator:
    """A simulator on an emulated device, which finds its other builds there too."""


    def load(target: Target) -> jit.Library:
        return emulated_cuda(name, folder, target.executor_name, target.plan, target.traced)

    library = emulated_cuda(name, folder, executor)
    return Simulator(COMPILED[name](), worlds, _library=library, _loader=load, **kwargs)


@cache
def baseline(name: str, folder: Path) -> jit.Library:
    """The CPU unit of an environment for the least processor of its kind, hardly optimised."""
    return _compiled(name, folder, Target(), str(jit.CSRC / "runtime" / "pool.cpp"))


def sanitized(name: str, folder: Path) -> jit.Library:
    """The CPU unit of an environment that ends the process at a bad access or undefined behaviour."""
    flags = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return _compiled(name, folder, Target(), *flags, str(jit.CSRC / "runtime" / "pool.cpp"))


def _compiled(name: str, folder: Path, target: Target, *arguments: str) -> jit.Library:
    source = folder / f"{name}_{target.device}_{target.executor_name}_{abs(hash(target)):x}.cpp"
    source.write_text(generate(Program(COMPILED[name]()), target))
    library = source.with_suffix(".so")
    flags = [f for f in jit.compiler_flags("cpu") if f not in ("-O3", "-march=native")]
    command = ["g++", *flags, "-O1", "-fPIC", "-shared", f"-I{jit.CSRC}", str(source), *arguments, "-o", str(library)]
    subprocess.run(command, check=True)
    return jit.Library(library, target)


def random_actions(env: TorchVectorEnv, generator: np.random.Generator) -> torch.Tensor:
    """Actions drawn from the action space, ``[rows, ...]``."""
    space = env.action_space
    space._np_random = generator
    return torch.from_numpy(np.asarray(space.sample()))


def snapshot(sim: Simulator) -> dict[str, torch.Tensor]:
    """All that worlds hold, final values included and free slots left out, to be compared bit for bit."""
    others = [f"column_{c.c_name}" for c in sim.program.columns.values() if c.dynamic or c.resource or c.scratch]
    left_out = ("phase", *others)
    held = {n: t.clone() for n, t in sim.memory.columns.items() if n not in left_out and not n.startswith("table_")}
    for name, table in sim.state_dict()["tables"].items():
        held |= {f"{name} {part}": tensor for part, tensor in table.items()}
    return held


def spoil_scratch(sim: Simulator) -> None:
    """Fill all scratch with random bytes, which are others each time: nothing may depend on them."""
    for column in sim.program.columns.values():
        if column.scratch:
            memory = sim.memory.columns[f"column_{column.c_name}"]
            memory.copy_(torch.from_numpy(np.frombuffer(os.urandom(len(memory)), np.uint8).copy()))


def of_worlds(state: dict[str, torch.Tensor], worlds: torch.Tensor) -> dict[str, torch.Tensor]:
    """The part of a snapshot that belongs to some worlds, given as a bool mask ``[worlds]``."""
    part = {}
    for key, tensor in state.items():
        table, _, what = key.partition(" ")
        if what and what not in ("rooms", "counts", "crowded"):
            part[key] = tensor[worlds.repeat_interleave(state[f"{table} counts"])]
        else:
            part[key] = tensor.reshape(len(worlds), -1)[worlds].reshape(-1)
    return part


def first_worlds(sim: Simulator, count: int) -> dict[str, torch.Tensor]:
    """The part of a snapshot that belongs to the first ``count`` worlds."""
    return of_worlds(snapshot(sim), torch.arange(sim.num_worlds) < count)


def assert_same_bits(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        a, b = tensor.contiguous().view(torch.uint8), second[name].contiguous().view(torch.uint8)
        assert torch.equal(a, b), f"{name} differs at bytes {(a != b).nonzero().flatten()[:8].tolist()}"


def declare(text: str, folder: Path, **attributes: object) -> type[Environment]:
    """A small environment class whose systems are ``text``."""
    source = folder / "systems.h"
    source.write_text(text)
    return type("Declared", (Environment,), {"source": source, **attributes})
