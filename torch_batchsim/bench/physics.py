"""``python -m torch_batchsim.bench physics``: rigid bodies, in world steps per second.

Levels of hide and seek (levels.py): random forces that last for 8 steps each push agents about; every step of 1/30 s
has 4 substeps. The benchmark measures all agents pushed, and one of them while the rest falls asleep; each without
rays, and with 150 rays of lidar and 80 tests of line of sight a world. ``--scene ant``: see ants.py. ``--beside
mujoco`` measures MuJoCo in the same scenes and the same run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..base.text import table
from ..command_line import UsageError, parsed
from .ants import our_ants
from .beside_mujoco import ants_beside, drift, levels_beside
from .contenders import LEVELS, SETTLING, Contender, Options, threads_of
from .levels import AGENTS, level
from .physics_levels import make_levels
from .report import machine_facts, made_folder

_RAYS = {"both": (False, True), "with": (True,), "without": (False,)}


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python -m torch_batchsim.bench physics", arguments)
    try:
        threads = [] if options.num_threads is None else [options.num_threads]
        if min(*options.num_worlds, *threads, options.runs) < 1 or options.seconds <= 0:
            raise ValueError("--num-worlds, --num-threads, --seconds and --runs must be positive")
        path = options.json or Path("runs") / "bench-physics.json"
        made_folder(path.parent, "--json" if options.json else "the folder of the figures")
        result = {"benchmark": "physics", "rows": _measured(options), "machine": machine_facts(options.device)}
    except (ValueError, TypeError, RuntimeError, MemoryError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None
    print(table(result["rows"]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")


def _measured(options: Options) -> list[dict[str, Any]]:
    """A row of figures for each variant; all take turns, so that other work of the machine slows all of them."""
    ours, beside = (_ours, levels_beside) if options.scene == "levels" else (our_ants, ants_beside)
    contenders = [*ours(options), *(beside(options) if options.beside == "mujoco" else ())]
    for _ in range(options.runs):
        for contender in contenders:
            contender.time(options.seconds, options.device)
    rows = [contender.result() for contender in contenders]
    for row in rows:
        if "places" in row:
            row["drift_mm"] = drift(row.pop("places")) * 1e3
    return rows


def _ours(options: Options) -> Iterator[Contender]:
    """Levels in our physics."""
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
