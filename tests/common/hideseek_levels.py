"""Worlds of hide and seek for tests of levels, and a level that is given to them."""

from __future__ import annotations

from functools import cache
from math import pi
from typing import Any

from gymnasium.vector import AutoresetMode
from hideseek_state import read
from torch_batchsim.envs.hideseek import HideSeek, Level

from torch_batchsim import TorchVectorEnv

AGENTS = [(-9.0, -9.0, 0.1), (-5.0, -9.0, 0.2), (0.0, -9.0, 0.3), (5.0, -9.0, 0.4), (9.0, -9.0, 0.5)]
GIVEN = Level(
    walls=[(0.0, 0.0, 10.0, 0.2), (0.0, 9.1, 0.2, 8.9)],
    boxes=[(-5.0, 4.0, 0.7, True), (5.0, 4.0, -0.7, False)],
    ramps=[(10.0, 10.0, pi / 2)],
    agents=AGENTS,
)


@cache
def make(worlds: int, mode: AutoresetMode = AutoresetMode.DISABLED, number: int = 0, **options: Any) -> TorchVectorEnv:
    """Tests share those that are alike; ``number`` separates two of a test."""
    return TorchVectorEnv(HideSeek(critic=True, **options), num_worlds=worlds, num_threads=1, autoreset_mode=mode)


def levels(env: TorchVectorEnv) -> list[bytes]:
    """Of each world, to the bit."""
    state = read(env.sim)
    columns = [(b.there, b.position, b.rotation, b.size) for b in (state.walls, state.boxes, state.ramps, state.agents)]
    return [b"".join(part[world].tobytes() for b in columns for part in b) for world in range(state.worlds)]
