"""Options and contenders of ``python -m torch_batchsim.bench physics``."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .throughput import measure

LEVELS = 16  # different ones, which worlds take in turns
SETTLING = 120  # steps before anything is timed


@dataclass
class Options:
    """World steps per second of rigid bodies in levels of hide and seek."""

    scene: Literal["levels", "ant"] = "levels"
    """Levels of hide and seek, or a body of nine on eight hinges."""
    beside: Literal["nothing", "mujoco"] = "nothing"
    """What is measured in turns with it; mujoco has no GPU and as many threads."""
    num_worlds: list[int] = field(default_factory=lambda: [256, 4096, 16384])
    rays: Literal["both", "with", "without"] = "both"
    """Whether agents of levels have lidar and lines of sight."""
    device: str = "cpu"
    num_threads: int | None = None
    """All cores by default."""
    executor: str | None = None
    seconds: float = 1.0
    """Length of one run; a figure is the median of the runs."""
    runs: int = 5
    json: Path | None = None
    """File for the figures; runs/bench-physics.json if not given."""


@dataclass
class Contender:
    """A way to step all worlds: ``step(batch)`` takes ``world_steps`` steps in all; ``kept()``: figures at the end."""

    figures: dict[str, Any]
    step: Callable[[Any], Any]
    batches: Sequence[Any]
    world_steps: int
    rates: list[float] = field(default_factory=list)
    kept: Callable[[], dict[str, Any]] = dict

    def time(self, seconds: float, device: str) -> None:
        self.rates.append(measure(self.step, self.batches, self.world_steps, seconds, 1, device).median)

    def result(self) -> dict[str, Any]:
        return {
            **self.figures,
            "world_steps_per_second": statistics.median(self.rates),
            "slowest_run": min(self.rates),
            "fastest_run": max(self.rates),
            **self.kept(),
        }


def threads_of(options: Options) -> int:
    """Those of the option, else a thread for each core."""
    return options.num_threads or len(os.sched_getaffinity(0))
