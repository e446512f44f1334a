"""``python -m torch_batchsim.bench physics``: levels of hide and seek, in world steps per second.

Random forces that last for 8 steps each push agents about in levels (levels.py); every step of 1/30 s has 4 substeps.
The benchmark measures all agents pushed, and one of them while the rest falls asleep; each without rays, and with 150
rays of lidar and 80 tests of line of sight a world. ``examples/experiments/physics_beside_mujoco.py`` measures MuJoCo
in the same levels and the same run.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..base.text import table
from ..command_line import UsageError, parsed
from .levels import AGENTS, level
from .physics_levels import make_levels
from .report import machine_facts, made_folder
from .throughput import measure

LEVELS = 16  # different ones, which worlds take in turns
SETTLING = 120  # steps before anything is timed
_RAYS = {"both": (False, True), "with": (True,), "without": (False,)}


@dataclass
class Options:
    """World steps per second of rigid bodies in levels of hide and seek."""

    num_worlds: list[int] = field(default_factory=lambda: [256, 4096, 16384])
    rays: Literal["both", "with", "without"] = "both"
    """Whether agents have lidar and lines of sight."""
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
    """A way to step all worlds: ``step(batch)`` takes ``world_steps`` steps in all."""

    figures: dict[str, Any]
    step: Callable[[Any], Any]
    batches: Sequence[Any]
    world_steps: int
    rates: list[float] = field(default_factory=list)

    def time(self, seconds: float, device: str) -> None:
        self.rates.append(measure(self.step, self.batches, self.world_steps, seconds, 1, device).median)

    def result(self) -> dict[str, Any]:
        return {
            **self.figures,
            "world_steps_per_second": statistics.median(self.rates),
            "slowest_run": min(self.rates),
            "fastest_run": max(self.rates),
        }


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    report(parsed(Options, "python -m torch_batchsim.bench physics", arguments))


def report(options: Options, beside: Callable[[Options], Iterator[Contender]] | None = None) -> None:
    """The same for parsed options; ``beside`` makes further contenders."""
    try:
        threads = [] if options.num_threads is None else [options.num_threads]
        if min(*options.num_worlds, *threads, options.runs) < 1 or options.seconds <= 0:
            raise ValueError("--num-worlds, --num-threads, --seconds and --runs must be positive")
        path = options.json or Path("runs") / "bench-physics.json"
        made_folder(path.parent, "--json" if options.json else "the folder of the figures")
        result = {"benchmark": "physics", "rows": _measured(options, beside), "machine": machine_facts(options.device)}
    except (ValueError, TypeError, RuntimeError, MemoryError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None
    print(table(result["rows"]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")


def _measured(options: Options, beside: Callable[[Options], Iterator[Contender]] | None) -> list[dict[str, Any]]:
    """A row of figures for each variant; all take turns, so that other work of the machine slows all of them."""
    contenders = [*_ours(options), *(beside(options) if beside else ())]
    for _ in range(options.runs):
        for contender in contenders:
            contender.time(options.seconds, options.device)
    return [contender.result() for contender in contenders]


def _ours(options: Options) -> Iterator[Contender]:
    levels = [level(seed) for seed in range(LEVELS)]
    variants = [(pushed, rays) for pushed in (AGENTS, 1) for rays in _RAYS[options.rays]]
    for worlds in options.num_worlds:
        for pushed, rays in variants:
            where = {"device": options.device, "num_threads": threads_of(options), "executor": options.executor}
            sim = make_levels(levels, worlds, pushed, sleep=pushed < AGENTS, rays=rays, **where)
            for _ in range(SETTLING):
                sim.step()
            sim.check_faults()
            contacts = sim.tensor("physics.Contacts.count").float().mean().item()
            figures = {
                "engine": f"torch_batchsim: {sim.executor}", "worlds": worlds, "pushed": pushed,
                "rays": "yes" if rays else "no",
                "contacts": contacts,
            }  # fmt: skip
            yield Contender(figures, lambda _, sim=sim: sim.step(), [None], worlds)


def threads_of(options: Options) -> int:
    """Those of the option, else a thread for each core."""
    return options.num_threads or len(os.sched_getaffinity(0))
