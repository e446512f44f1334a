"""Rollouts as one CUDA graph: policy, sampling and simulator without a launch from Python for each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from ..base.config import Config

DEVICE = "cuda"
WARM_UPS = 2  # rollouts as they are, in which libraries make what they need


def require(env: VectorEnv, config: Config, device: torch.device) -> None:
    """Raises ValueError where rollouts cannot be captured."""
    what = "capture_rollouts is on, but "
    if device.type != DEVICE:
        raise ValueError(f"{what}the device is {device}: only on cuda are there CUDA graphs")
    if config.memory != "none":
        raise ValueError(f"{what}memory is {config.memory!r}: a graph would go on with the states of one rollout")
    if config.past_share:
        raise ValueError(f"{what}past_share is {config.past_share}: which past policies play changes between rollouts")
    if getattr(getattr(env.unwrapped, "sim", None), "may_grow", False):
        raise ValueError(
            f"{what}tables of this environment may grow, which a graph that is replayed does not let them: "
            "declare Archetype(..., limit=...) equal to its capacity"
        )


def capture(function: Callable[[], Any], generator: torch.Generator) -> Any:
    """A CUDA graph of a function that draws from a generator, and has run before; it does not run now."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        function()
    return graph


class CapturedRollout:
    """Calls a function: the first times as it is, then as a CUDA graph of it.

    All that the function reads and writes has to keep its place, and what it decides in Python has to stay the same.
    A fault of a system is told by `check_faults` of the environment only.
    """

    def __init__(self, rollout: Callable[[], None], generator: torch.Generator) -> None:
        self.rollout, self.generator = rollout, generator
        self.calls, self.graph = 0, None

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= WARM_UPS:
            self.rollout()
            return
        if self.graph is None:
            self.graph = capture(self.rollout, self.generator)
        self.graph.replay()
