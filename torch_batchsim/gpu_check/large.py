"""Columns with more bytes than 32 bits can count."""

from __future__ import annotations

import torch

from ..testing import Tensors, assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .findings import Skipped
from .playing import SEED, Make, flat

_EDGE = 256  # worlds before and behind the limit


def large_columns(reference: Make, make: Make, name: str, limit: int, steps: int) -> str:
    """The largest column has more than ``limit`` bytes; its first worlds and those at the limit give the CPU's bits.

    A world's random numbers depend on its number, so the few worlds on the CPU take the numbers of those.
    """
    few = reference(name, 3 * _EDGE, copy=False)
    sizes = [column.rows_per_world * column.component.size for column in few.sim.program.columns.values()]
    beyond = limit // max(sizes) + 1
    worlds = beyond + _EDGE
    wanted = int(1.2 * worlds * few.sim.bytes_per_world) + 2**30
    free = torch.cuda.mem_get_info()[0]
    if wanted > free:
        raise Skipped(f"{wanted / 2**30:.0f} GiB of the device's memory are needed, and {free / 2**30:.0f} are free")
    env = make(name, worlds, copy=False)
    chosen = torch.cat([torch.arange(_EDGE), torch.arange(worlds - 2 * _EDGE, worlds)])
    env.reset(seed=SEED)
    few.sim.reseed(SEED)
    few.sim.memory.columns["stream"].copy_(chosen)
    few.reset()
    taken = torch.zeros(env.num_envs, *env.single_action_space.shape, dtype=torch.int64, device=env.device)
    for step, actions in enumerate(random_actions(few, steps), start=1):
        env.by_world(taken)[chosen.to(env.device)] = few.by_world(actions).to(env.device)
        expected, found = few.step(actions), env.step(taken)
        everywhere = torch.arange(few.num_worlds)
        assert_same_bits(_picked(few, expected, everywhere), _picked(env, found, chosen), f"step {step}: ")
    env.check_faults()
    return f"{worlds:,} worlds, a column of {worlds * max(sizes) / 2**30:.2f} GiB, {steps} steps"


def _picked(env: TorchVectorEnv, results: tuple, worlds: torch.Tensor) -> Tensors:
    """The results of ``step`` for some worlds, without final values."""
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    parts = flat(dict(zip(names, results, strict=True)))
    index = worlds.to(env.device)
    return {name: env.by_world(part)[index] for name, part in parts if not name.startswith(("infos.final", "infos._"))}
