"""A test environment of columns beyond 2^31 bytes (of three worlds), most of it untouched, and of a wide action."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, f32, i32, u8

WIDTH = 2000  # elements of an action, whose bounds would not fit into the parameters of a kernel


class Hoard(Component):
    marks: u8[2**30]


class Book(Component):
    text: u8[4096]


class Crate(Component):
    number: i32[1024]


class Sight(Component):
    seen: i32[5]


class Dial(Component):
    turns: f32[WIDTH]


def bounds() -> tuple[np.ndarray, np.ndarray]:
    """Of each element of an action others."""
    low = np.arange(WIDTH, dtype=np.float32) - 1000
    return low, low + 2


class Vault(Environment):
    systems = "vault.h"
    singletons = kept = [Hoard]
    scratch = [Book]
    archetypes = [
        Archetype("Pane", Sight, Dial, Reward, count=1),
        Archetype("Shelf", Book, count=2**18),
        Archetype("Crates", Crate, capacity=2**18),
    ]
    step = TaskGraph("store", "age", "drop", "look")
    observation, action = "Pane.Sight", "Pane.Dial"
    action_space = Box(*bounds())
    observation_space = Box(-(2**31), 2**31 - 1, (5,), np.int32)
