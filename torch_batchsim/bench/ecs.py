"""Rows that come and go, beside the same simulation written by hand in C++ with one container for each world.

Every step moves all particles of a world, destroys one in ten and creates as many. ecs_baseline.cpp does so with a
``std::vector`` for each world, once plain and once with handles of the rows, which the engine's rows have too. Engine
and baselines must first have computed the same bits.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from ..build import jit
from ..build.context import TABLE_COLUMNS
from ..declare.environment import Environment
from ..declare.options import Constants, Option
from ..declare.schema import Archetype, Component, Reward, TaskGraph
from ..errors import BuildError
from ..run.simulator import Simulator
from ..types import f32, i32, u32
from .throughput import measure

WORLDS = (64, 1024, 16384, 65536)
ROWS = (16, 256)
MOST_ROWS = 2**24  # in all worlds: larger combinations are left out
_CHECKED_WORLDS, _CHECKED_STEPS = 300, 50  # enough worlds for the engine to wake a second thread
_PARTICLE = np.dtype([("Place", "u4", 3), ("Motion", "u4", 3), ("Dice", "u4", 1)])  # bits, so that -0.0 is not 0.0


class Place(Component):
    x: f32
    y: f32
    z: f32


class Motion(Component):
    x: f32
    y: f32
    z: f32


class Dice(Component):
    state: u32


class Source(Component):
    state: u32


class Knob(Component):
    position: i32  # without effect: an agent must have an action


class View(Component):
    count: f32
    height: f32  # summed over all particles


class Churn(Environment):
    """Particles of which a tenth expires in every step and is replaced; an episode never ends."""

    systems = "ecs.h"
    singletons = [Source]
    constants = Constants(rows=Option(16, minimum=1, help="particles in a world"))
    start = TaskGraph("prepare", "emit")
    step = TaskGraph("move", "expire", "emit")
    observe = TaskGraph("look")
    observation, action = "Watcher.View", "Watcher.Knob"
    action_space = Discrete(1)

    @property
    def archetypes(self) -> Sequence[Archetype]:
        rows = self.constants.rows
        return [
            Archetype("Particle", Place, Motion, Dice, capacity=rows),
            Archetype("Watcher", Knob, View, Reward, count=1),
        ]


class Baseline:
    """The same simulation by hand: one container for each world, shared out to ``threads`` threads."""

    def __init__(self, worlds: int, rows: int, threads: int, handles: bool) -> None:
        self._library, self._worlds, self._rows = _baseline_library(), worlds, rows
        self._address = ctypes.c_void_p(self._library.baseline_make(worlds, rows, threads, int(handles)))

    def step(self) -> None:
        """Advance every world by one step, in one call from Python as the engine's."""
        self._library.baseline_step(self._address, 1)

    def state(self) -> dict[str, np.ndarray]:
        """As ``engine_state``. Raises RuntimeError if a row cannot be found by its handle."""
        counts, views = np.empty(self._worlds, np.int32), np.empty((self._worlds, 2), np.float32)
        particles = np.empty(self._worlds * self._rows, _PARTICLE)
        lost = self._library.baseline_read(self._address, counts.ctypes, views.ctypes, particles.ctypes)
        if lost:
            raise RuntimeError(f"{lost} rows of the baseline are missing at their handles")
        particles = particles[: counts.sum()]
        return {"counts": counts, "View": views.view(np.uint32), **{name: particles[name] for name in _PARTICLE.names}}

    def close(self) -> None:
        """Free the worlds and end the threads."""
        self._library.baseline_free(self._address)
        self._address = None


def engine_state(sim: Simulator) -> dict[str, np.ndarray]:
    """Counts and observations of all worlds, and the bits of all particles, by world and age."""
    state = {"counts": sim.ragged("Particle.Place").counts.numpy(), "View": sim.tensor("Watcher.View")[:, 0].numpy()}
    for name in _PARTICLE.names:
        rows, _ = sim.ragged(f"Particle.{name}").packed()
        state[name] = rows.reshape(len(rows), -1).contiguous().numpy()
    return {name: array if name == "counts" else array.view(np.uint32) for name, array in state.items()}


@cache
def _baseline_library() -> ctypes.CDLL:
    """ecs_baseline.cpp, built by the compiler that builds environments, with their flags."""
    source = Path(__file__).with_name("ecs_baseline.cpp")
    with tempfile.TemporaryDirectory() as folder:  # a loaded library needs no file
        path = Path(folder) / "baseline.so"
        flags = [*jit.compiler_flags("cpu"), "-pthread", "-fPIC", "-shared"]
        command = [jit.cpp_compiler(), *flags, str(source), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{source.name} does not compile:\n{done.stderr}")
        library = ctypes.CDLL(str(path))
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name, result, arguments in (
        ("make", pointer, (size, size, size, ctypes.c_int)),
        ("step", None, (pointer, size)),
        ("read", size, (pointer, pointer, pointer, pointer)),
        ("free", None, (pointer,)),
    ):
        function = getattr(library, f"baseline_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def check_same(rows: int, threads: int, worlds: int = _CHECKED_WORLDS, steps: int = _CHECKED_STEPS) -> None:
    """Raise RuntimeError unless engine and baselines have the same particles, to the bit and in order."""
    sim = _engine(worlds, rows, threads)
    for _ in range(steps):
        sim.step()
    ours = engine_state(sim)
    for handles in (False, True):
        baseline = Baseline(worlds, rows, threads, handles)
        try:
            for _ in range(steps):
                baseline.step()
            theirs = baseline.state()
        finally:
            baseline.close()
        wrong = differences(ours, theirs)
        if wrong:
            name = f"the baseline {'with' if handles else 'without'} handles"
            raise RuntimeError(
                f"engine and {name} differ after {steps} steps of {worlds} worlds with {rows} rows "
                f"on {threads} threads: {', '.join(wrong)} differ"
            )


def differences(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> list[str]:
    """Names of arrays that differ."""
    return [name for name, array in ours.items() if not np.array_equal(array, theirs[name])]


def _engine(worlds: int, rows: int, threads: int) -> Simulator:
    sim = Simulator(Churn(rows=rows), worlds, num_threads=threads)
    sim.reset(seed=0)
    return sim


def bookkeeping_bytes(sim: Simulator) -> tuple[float, float]:
    """Memory of the engine for dynamic rows beside their components: bytes for each slot, and for each world."""
    slots = sim.tensor("Particle.Dice").shape[0]
    per_slot = per_world = 0
    for field, (_, _, values_of_slot) in TABLE_COLUMNS.items():
        tensor = sim.memory.columns[f"table_Particle_{field}"]
        size = tensor.numel() * tensor.element_size()
        per_slot, per_world = (per_slot + size, per_world) if values_of_slot else (per_slot, per_world + size)
    for name in ("tag", "tick"):  # of worlds that have handles
        per_world += sim.memory.columns[name].numel() * sim.memory.columns[name].element_size()
    return per_slot / slots, per_world / sim.num_worlds


def measure_ecs(
    worlds: Sequence[int], rows: Sequence[int], num_threads: int | None, seconds: float, runs: int
) -> list[dict[str, Any]]:
    """Rows per second of engine and baselines for each number of worlds, rows and threads (1 and all by default).

    Each run measures the engine, then the baselines, so that other work of the machine slows all of them: a ratio is
    the median of the runs' ratios. Raises RuntimeError, before anything is timed, if their bits differ.
    """
    all_threads = [num_threads] if num_threads is not None else sorted({1, len(os.sched_getaffinity(0))})
    for row_count in rows:
        for threads in all_threads:
            check_same(row_count, threads)
    figures = []
    for row_count in rows:
        for world_count in worlds:
            if world_count * row_count > MOST_ROWS:
                print(f"{world_count} worlds with {row_count} rows: left out, more than {MOST_ROWS} rows")
                continue
            figures += [_measure(world_count, row_count, threads, seconds, runs) for threads in all_threads]
    return figures


def _measure(worlds: int, rows: int, threads: int, seconds: float, runs: int) -> dict[str, Any]:
    sim = _engine(worlds, rows, threads)
    baselines = {
        name: Baseline(worlds, rows, threads, handles) for name, handles in (("plain", False), ("handles", True))
    }
    steps: dict[str, Callable[[], None]] = {"engine": sim.step, **{name: b.step for name, b in baselines.items()}}
    rates: dict[str, list[float]] = {name: [] for name in steps}
    try:
        for _ in range(runs):
            for name, step in steps.items():
                rates[name].append(measure(lambda _, step=step: step(), [None], worlds * rows, seconds, 1).median)
    finally:
        for baseline in baselines.values():
            baseline.close()
    figures: dict[str, Any] = {"worlds": worlds, "rows": rows, "threads": threads}
    figures |= {f"{name}_rows_per_second": statistics.median(rates[name]) for name in steps}
    for name in baselines:
        ratios = [ours / theirs for ours, theirs in zip(rates["engine"], rates[name], strict=True)]
        figures |= {
            f"engine_to_{name}": statistics.median(ratios),
            f"engine_to_{name}_least": min(ratios),
            f"engine_to_{name}_most": max(ratios),
        }
    per_slot, per_world = bookkeeping_bytes(sim)
    return figures | {"bookkeeping_bytes_per_row": per_slot, "bookkeeping_bytes_per_world": per_world}


def printable(figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The figures as the rows of a table that fits a screen."""
    return [
        {
            **{name: row[name] for name in ("worlds", "rows", "threads")},
            **{f"{name} rows/s": row[f"{name}_rows_per_second"] for name in ("engine", "plain", "handles")},
            **{f"engine/{name}": f"{row[f'engine_to_{name}']:.2f}" for name in ("plain", "handles")},
            "bytes/row": row["bookkeeping_bytes_per_row"],
            "bytes/world": row["bookkeeping_bytes_per_world"],
        }
        for row in figures
    ]
