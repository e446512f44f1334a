"""``python -m torch_batchsim.bench physics [--beside mujoco]``: levels of hide and seek, in world steps per second.

Agents are pushed about in levels (levels.py) by random forces that last for 8 steps each; every step of 1/30 s has 4
substeps. Measured are all agents pushed, and one of them while the rest falls asleep; each without rays, and with 150
rays of lidar and 80 tests of line of sight a world. MuJoCo steps the same levels by
``mujoco.rollout``, with a time step of 1/120 s and four of them in a step, on as many threads, once as it comes and
once with less iterations of its solver (mujoco_rollout.py).
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
from .mujoco_rollout import SOLVERS, STEPS, MuJoCoRollout
from .physics_levels import make_levels
from .report import machine_facts, made_folder
from .throughput import measure

LEVELS = 16  # different ones, which worlds take in turns
SETTLING = 120  # steps before anything is timed
_RAYS = {"both": (False, True), "with": (True,), "without": (False,)}
MUJOCO_WORLDS = 64  # more change nothing: each thread takes them one by one


@dataclass
class Options:
    """World steps per second of rigid bodies in levels of hide and seek."""

    num_worlds: list[int] = field(default_factory=lambda: [256, 4096, 16384])
    rays: Literal["both", "with", "without"] = "both"
    """Whether agents have lidar and lines of sight."""
    beside: Literal["mujoco"] | None = None
    """Measure MuJoCo in the same run, in turns with ours."""
    device: str = "cpu"
    num_threads: int | None = None
    """Of ours and of MuJoCo; all cores by default."""
    executor: str | None = None
    seconds: float = 1.0
    """Length of one run; a figure is the median of the runs."""
    runs: int = 5
    json: Path | None = None
    """File for the figures; runs/bench-physics.json if not given."""


@dataclass
class Contender:
    """What is timed: ``step(batch)`` advances all worlds by ``steps`` steps."""

    figures: dict[str, Any]
    step: Callable[[Any], Any]
    batches: Sequence[Any]
    world_steps: int  # of one call
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
    options = parsed(Options, "python -m torch_batchsim.bench physics", arguments)
    try:
        threads = [] if options.num_threads is None else [options.num_threads]
        if min(*options.num_worlds, *threads, options.runs) < 1 or options.seconds <= 0:
            raise ValueError("--num-worlds, --num-threads, --seconds and --runs must be positive")
        path = options.json or Path("runs") / "bench-physics.json"
        made_folder(path.parent, "--json" if options.json else "the folder of the figures")
        result = {"benchmark": "physics", "rows": measured(options), "machine": machine_facts(options.device)}
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None
    print(table(result["rows"]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")


def measured(options: Options) -> list[dict[str, Any]]:
    """A row of figures for each variant; all take turns, so that what else the machine does meets all of them."""
    contenders = [*_ours(options), *(_mujoco(options) if options.beside == "mujoco" else ())]
    for _ in range(options.runs):
        for contender in contenders:
            contender.time(options.seconds, options.device)
    return [contender.result() for contender in contenders]


def _ours(options: Options) -> Iterator[Contender]:
    levels = [level(seed) for seed in range(LEVELS)]
    variants = [(pushed, rays) for pushed in (AGENTS, 1) for rays in _RAYS[options.rays]]
    for worlds in options.num_worlds:
        for pushed, rays in variants:
            where = {"device": options.device, "num_threads": _threads(options), "executor": options.executor}
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


def _threads(options: Options) -> int:
    return options.num_threads or len(os.sched_getaffinity(0))


def _mujoco(options: Options) -> Iterator[Contender]:
    levels = [level(seed) for seed in range(LEVELS)]
    for label, solver in SOLVERS.items():
        for pushed in (AGENTS, 1):
            run = MuJoCoRollout(levels, MUJOCO_WORLDS, _threads(options), solver, pushed)
            for _ in range(-(-SETTLING // STEPS)):
                run.advance(run.controls())
            figures = {
                "engine": f"mujoco {run.version}: {label}", "worlds": MUJOCO_WORLDS, "pushed": pushed, "rays": "no",
                "contacts": run.contacts(),
            }  # fmt: skip
            yield Contender(figures, run.advance, [run.controls() for _ in range(4)], MUJOCO_WORLDS * STEPS)
