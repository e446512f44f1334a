"""Environments with any number of agents in a world, for figure 4 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from micro import Micro

from torch_batchsim.vector.vector_env import TorchVectorEnv

# A kitchen with 40 starting places. The first eight stand apart, so that a few chefs are not all in one corner.
KITCHEN = """
XXPXXXXPXX
O*1****2*O
X**    **X
D***34***D
D***56***D
X**    **X
O*7****8*O
XXSXPPXSXX
"""


@dataclass(frozen=True)
class Crowd:
    """An environment of figure 4.

    Attributes:
        make: a vector environment, from ``agents`` in a world and keyword arguments of ``TorchVectorEnv``.
        agents: in a world, by default.
        worlds: by default, on each type of device.
        about: how the agents depend on each other.
    """

    make: Callable[..., TorchVectorEnv]
    agents: tuple[int, ...]
    worlds: Mapping[str, tuple[int, ...]]
    about: str


def make_micro(agents: int | None = None, **arguments: Any) -> TorchVectorEnv:
    return TorchVectorEnv(Micro() if agents is None else Micro(agents=agents), **arguments)


def make_kitchen(agents: int, **arguments: Any) -> TorchVectorEnv:
    env_id = "torch_batchsim/Overcooked-v0"
    # One set of outputs: observations of 40 chefs are most of the memory.
    return gymnasium.make_vec(env_id, layout=KITCHEN, agents=agents, copy=False, **arguments).unwrapped


def make_crowded_square(agents: int, **arguments: Any) -> TorchVectorEnv:
    """Half of them hiders, rounded up."""
    env_id = "torch_batchsim/HideSeek-v0"
    teams = {"hiders": agents - agents // 2, "seekers": agents // 2}
    return gymnasium.make_vec(env_id, **teams, copy=False, **arguments).unwrapped  # one set of outputs, as above


CROWDS = {
    "micro": Crowd(
        make_micro,
        (1, 4, 16, 64, 256, 1024),
        {"cuda": (128, 1024), "cpu": (16, 128)},
        "Agents do not affect each other",
    ),
    # Observations of 40 chefs are 0.7 MB a world, and final observations as much again: 1.4 GB for 1024 worlds, once
    # for each executor.
    "overcooked": Crowd(
        make_kitchen,
        (2, 4, 8, 16, 24, 32, 40),
        {"cuda": (1024,), "cpu": (16, 128)},
        "Each agent observes all others: memory grows with the square of their number",
    ),
    # Each number of agents is a build for each executor. 40 agents are 0.27 MB a world.
    "hideseek": Crowd(
        make_crowded_square,
        (2, 5, 10, 20, 40),
        {"cuda": (16 * 1024,), "cpu": (1024,)},
        "Each agent observes all others, and casts a ray to each",
    ),
}
