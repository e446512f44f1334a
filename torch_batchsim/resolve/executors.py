"""The executors, a record each: a new executor is a record here and its C++ header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..base.shared import BLOCK_THREADS, MAX_TILE

_TILE_BYTES = 24 * 1024  # of columns in one tile: a first-level cache holds these beside the code's own data
_LEAST_TILE = 8
_VECTOR = 16
_BLOCKS_WANTED = 8  # on a multiprocessor: 64 warps of 8 a block
_AT_A_TIME = 16  # worlds that a thread takes at a time if it runs them one after another


@dataclass(frozen=True)
class Workload:
    """The numbers on which the size of a tile depends."""

    worlds: int
    agents: int  # in a world
    rows: int  # in a world, of the largest archetype
    hot_bytes: int  # of a world, that each step reads or writes
    workers: int  # threads, or multiprocessors of a GPU


@dataclass(frozen=True)
class Executor:
    """One executor: how its unit is compiled, and the choices that it leaves to tuning.

    Attributes:
        device, name: together they are unique; the first of a device is its default.
        c_type, header: the C++ type, a template over the generated ``Program``, and its header.
        default_tile: worlds in a tile before a measurement.
        candidate_tiles: worlds in a tile that tuning tries, from the present size and the number of worlds.
        defines: macros of its unit.
        kernels: how a plan can cut a step: into ``"many"`` kernels, ``"one"``, or None (it takes no plan).
        joins: all blocks can run the tasks together, with barriers of the grid.
        in_python: systems in Python run as Python, on one thread: for debuggers, and as an oracle. Tuning passes it by.
    """

    device: str
    name: str
    c_type: str
    header: str
    default_tile: Callable[[Workload], int]
    candidate_tiles: Callable[[int, int], list[int]]
    defines: tuple[str, ...] = ()
    kernels: Literal["many", "one"] | None = None
    joins: bool = False
    in_python: bool = False

    def joined_by_default(self, load: Workload) -> bool:
        """Whether all blocks run the tasks together: if worlds are few and large."""
        return self.joins and load.rows >= 2 * BLOCK_THREADS and load.worlds < load.workers


def _cpu_tile(load: Workload) -> int:
    """Several tiles for each thread, but no more bytes than a first-level cache holds. A few worlds at least: fewer
    would not pay for the loops around them."""
    most = max(_LEAST_TILE, _TILE_BYTES // load.hot_bytes)
    shared_out = -(-load.worlds // (4 * load.workers))
    whole_vectors = -(-_VECTOR // load.agents)  # rows of agents that one instruction works on
    tile = min(max(shared_out, whole_vectors), most, MAX_TILE["cpu"], load.worlds)
    return -(-tile // 64) * 64 if tile > 64 else tile  # threads then share no cache line of flags


def _cuda_tile(load: Workload) -> int:
    """As many tiles for each multiprocessor as it runs blocks. A tile has at least one warp of rows of the largest
    table, and at most one world for each thread; large tiles are whole warps of worlds."""
    least, shared_out = -(-32 // load.rows), -(-load.worlds // (_BLOCKS_WANTED * load.workers))
    tile = min(max(shared_out, least), BLOCK_THREADS)
    return -(-tile // 32) * 32 if tile > 16 else tile


def _scaled(tile: int, worlds: int) -> list[int]:
    most = min(worlds, MAX_TILE["cpu"])
    return sorted({max(1, min(most, round(tile * factor))) for factor in (0.25, 0.5, 1, 2, 4, 8)})


def _powers(tile: int, worlds: int) -> list[int]:
    return [size for size in (8, 32, 64, 128, 256, 512, MAX_TILE["cuda"]) if size <= worlds]


def _only_this(tile: int, worlds: int) -> list[int]:
    return [tile]


RECORDS = (
    Executor("cpu", "batch", "CpuExecutor<Program, Batch>", "executor_cpu.h", _cpu_tile, _scaled),
    Executor(
        "cpu", "per_world", "CpuExecutor<Program, PerWorld>", "executor_cpu.h", lambda load: _AT_A_TIME, _only_this
    ),
    Executor(
        "cpu",
        "python",
        "CpuExecutor<Program, PerWorld>",
        "executor_cpu.h",
        lambda load: _AT_A_TIME,
        _only_this,
        in_python=True,
    ),
    Executor(
        "cuda",
        "graph",
        "CudaCalls<GraphExecutor<Program>, tbs::Context>",
        "executor_cuda.cuh",
        _cuda_tile,
        _powers,
        kernels="many",
    ),
    Executor(
        "cuda",
        "megakernel",
        "CudaCalls<MegakernelExecutor<Program>, tbs::Context>",
        "executor_cuda.cuh",
        _cuda_tile,
        _powers,
        defines=("TBS_ONE_KERNEL",),
        kernels="one",
        joins=True,
    ),
    Executor(
        "cuda",
        "per_world",
        "CudaCalls<PerWorldExecutor<Program>, tbs::Context>",
        "executor_cuda.cuh",
        lambda load: 1,
        _only_this,
        defines=("TBS_ALONE",),
    ),
)

EXECUTORS: dict[str, tuple[str, ...]] = {
    device: tuple(record.name for record in RECORDS if record.device == device and not record.in_python)
    for device in ("cpu", "cuda")
}
"""Names of the compiled executors by kind of device, the default first."""


def find(device: str, name: str | None = None) -> Executor:
    """The record of an executor, by default the device's first. Raises ValueError for an unknown name."""
    known = {record.name: record for record in of_device(device)}
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise ValueError(f"executor must be one of {', '.join(map(repr, known))} on {device}, got {name!r}")
    return known[name]


def of_device(device: str) -> list[Executor]:
    """The records of a kind of device, the default first."""
    return [record for record in RECORDS if record.device == device]
