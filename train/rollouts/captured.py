"""Rollouts as one CUDA graph: policy, sampling and simulator without a launch from Python for each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from ..base.config import Config

DEVICE = "cuda"
WARM_UPS = 2  # rollouts without a graph, in which libraries allocate their memory


def require(env: VectorEnv, config: Config, device: torch.device) -> None:
    """Raises ValueError where rollouts cannot be captured."""
    on = "capture_rollouts is on, but "
    if device.type != DEVICE:
        raise ValueError(f"{on}the device is {device}: only cuda has CUDA graphs")
    if config.memory != "none":
        raise ValueError(f"{on}memory is {config.memory!r}: a graph would repeat the states of one rollout")
    if config.past_share:
        raise ValueError(f"{on}past_share is {config.past_share}: which past policies play changes between rollouts")
    if getattr(getattr(env.unwrapped, "sim", None), "may_grow", False):
        raise ValueError(
            f"{on}tables of this environment may grow, which a graph that is replayed does not let them: "
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

    All memory of the function has to keep its place, and its decisions in Python have to stay the same.
    Only `check_faults` of the environment reports a fault of a system.
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
