"""Codes, limits and records that Python and C++ share, written once. Generated units open with their C++."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from . import numbers

LANES = {"Warp": 32, "Block": 256}
"""Groups of lanes by the name that authors write: how many lanes work on a row."""

BLOCK_THREADS = 256
"""Threads of a block of the CUDA executors."""

CHIP_OF_WARP = 14 * 1024
"""Bytes of workspace of a ``Warp`` on chip at most, of a ``Block`` eight times as many: then two blocks, 16 warps with
128 registers a thread, fit a multiprocessor of compute capability 9.0."""

CHIP_OF_BLOCK = BLOCK_THREADS // LANES["Warp"] * CHIP_OF_WARP
"""Bytes of workspace that a block has on chip at most."""

CHIP_OF_MULTIPROCESSOR = 228 * 1024
"""Bytes on chip of such a multiprocessor; each block takes 1 KB of them for itself."""

VARIABLE_BYTES = 48 * 1024
"""Most bytes of ``__shared__`` variables that CUDA allows a kernel; they are on chip too."""

MAX_TILE = {"cpu": 4096, "cuda": 1024}
"""Worlds in a tile at most: the length of the lists that a thread keeps on its stack, a block in shared memory."""


MAX_THREADS = 1024
"""Threads of a step on CPU at most."""


def random_key(graph: str, system: str, table: str, occurrence: int) -> int:
    """32 bits (FNV-1a) from what a node is, not from where it stands: other nodes may come and go.

    ``table`` is ``""`` for a system that runs once per world; ``occurrence`` how often it stands before in its graph.
    """
    key = 0x811C9DC5
    for byte in f"{graph} {system} {table} {occurrence}".encode():
        key = (key ^ byte) * 0x01000193 & 0xFFFFFFFF
    return key


class ElementType(IntEnum):
    """Types of actions that cross the C interface."""

    boolean = 0
    u8 = 1
    i8 = 2
    i16 = 3
    i32 = 4
    i64 = 5
    f32 = 6
    f64 = 7


ELEMENT_TYPES = {numbers.NUMBERS[element.name].dtype: element for element in ElementType}

FLOAT_DTYPES = tuple(dtype for dtype in ELEMENT_TYPES if dtype.is_floating_point)
INTEGER_DTYPES = tuple(dtype for dtype in reversed(ELEMENT_TYPES) if not dtype.is_floating_point)
"""The widest first, booleans last."""


def action_dtypes(own: torch.dtype) -> tuple[torch.dtype, ...]:
    """Those of actions that a library reads as they are into a column of dtype ``own``."""
    return FLOAT_DTYPES if own.is_floating_point else INTEGER_DTYPES


class Autoreset(IntEnum):
    """What happens to worlds whose episode has ended."""

    disabled = 0
    next_step = 1
    same_step = 2


class StepResult(IntEnum):
    """What a step, a reset and a node that runs alone return: ``tbs::step_done`` and so on.

    A result from 0 on refuses actions: it is their first element outside the action space. CUDA error ``n`` is
    ``cuda_error - n``.
    """

    done = -1
    faults = -2  # done, and some world has a fault
    stopped = -3  # by Ctrl-C, a watchdog or a crash; worlds are undefined
    closer_look = -4  # nothing has happened: the short call of a step leaves these actions to Python
    cuda_error = -1000


AUTORESET = {
    AutoresetMode.DISABLED: Autoreset.disabled,
    AutoresetMode.NEXT_STEP: Autoreset.next_step,
    AutoresetMode.SAME_STEP: Autoreset.same_step,
}

# ---- faults: node | row within the world | code | value (32 bits); the least word of a world stands ------------------

BUILTIN_FAULTS = ("bad_action", "nan", "stale_entity", "too_many_created", "undeclared_access", "order_used_twice")
"""The engine's own faults in the order of their codes; nan is for authors' checks."""
NODE_BITS, ROW_BITS, CODE_BITS, VALUE_BITS = 10, 14, 8, 32
PLACE_ROW_BITS, PLACE_PART_BITS = 20, 5  # of a fault's value that is a place: table | row of it | what of the row
CHECK_FAULT = (1 << CODE_BITS) - 1
"""The code of what a checked build has found; no environment has so many faults."""
NO_BUDGET = 2**62
"""Iterations that loops of a checked build may make, where nothing limits them."""
NO_FAULT = -1
"""The word of a world without a fault, as int64: all bits set."""


def fault_parts(word: int) -> tuple[int, int, int, int]:
    """``(node, row, code, value)`` of a fault word; the value is unsigned."""
    parts = []
    for bits in (VALUE_BITS, CODE_BITS, ROW_BITS, NODE_BITS):
        parts.append(word & (1 << bits) - 1)
        word >>= bits
    value, code, row, node = parts
    return node, row, code, value


def place_parts(value: int) -> tuple[int, int, int]:
    """``(table, row, part)`` of a fault's value that is a place; the table by its number in handles."""
    part = value & (1 << PLACE_PART_BITS) - 1
    row = value >> PLACE_PART_BITS & (1 << PLACE_ROW_BITS) - 1
    return value >> PLACE_PART_BITS + PLACE_ROW_BITS, row, part


class Found(IntEnum):
    """What a checked build finds: the value of its faults, ``tbs::Found``."""

    index = 0
    row = 1
    sum = 2
    difference = 3
    product = 4
    negation = 5
    division = 6
    shift = 7
    float_cast = 8
    null = 9
    no_return = 10
    not_finite = 11
    loop = 12
    unwritten = 13
    leftover = 14
    world = 15
    bits = 16
    bits_of_value = 17
    no_choice = 18
    below = 19
    integer = 20
    shuffle = 21
    bounds = 22


# ---- records that both sides read and write --------------------------------------------------------------------------


class ActionBounds(ctypes.Structure):
    """``tbs::ActionBounds``."""

    _fields_ = [("low", ctypes.c_double), ("high", ctypes.c_double)]


class TraceBuffer(ctypes.Structure):
    """``tbs::executors::TraceBuffer``."""

    _fields_ = [("records", ctypes.c_void_p), ("taken", ctypes.c_void_p), ("capacity", ctypes.c_uint32)]


class DynamicTable(ctypes.Structure):
    """``tbs::DynamicTable``."""

    _fields_ = [
        ("slots", ctypes.c_int32),
        ("limit", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("first", "count", "added", "crowded")),
        *((name, ctypes.c_void_p) for name in ("world", "birth", "doomed")),
    ]


TRACE_RECORD = np.dtype(
    [("task", "<u2"), ("unit", "<u2"), ("tile", "<u4"), ("begin", "<u8"), ("end", "<u8"), ("global_begin", "<u8")]
)
"""One task on one unit, as the engine writes it down: ``tbs::executors::TraceRecord``."""

CHECK_RECORD = np.dtype(
    [
        *((name, "<u8") for name in ("file", "type")),  # addresses of texts; by_number: the number of a file, and 0
        *((name, "<i8") for name in ("value", "bound", "other")),
        *((name, "<u4") for name in ("line", "column", "step", "by_number")),
    ]
)
"""What a checked build has found in a world: ``tbs::CheckRecord``."""



class LogKind(IntEnum):
    """What a value is that a system has noted: ``tbs::LogKind``."""

    f32 = 0
    f64 = 1
    i64 = 2
    u64 = 3
    boolean = 4


LOG_RECORD = np.dtype(
    [
        *((name, "<u4") for name in ("node", "row", "repetition", "episode", "step", "sequence", "kind", "count")),
        ("label", "S32"),
        ("values", "<u8", (4,)),
    ]
)
"""What a system has noted by ``world.log``: ``tbs::LogRecord``."""

_RECORDS: dict[str, type[ctypes.Structure] | np.dtype] = {
    "ActionBounds": ActionBounds,
    "DynamicTable": DynamicTable,
    "executors::TraceBuffer": TraceBuffer,
    "executors::TraceRecord": TRACE_RECORD,
}

# ---- their C++ -------------------------------------------------------------------------------------------------------


def definitions(device_type: str) -> Iterator[str]:
    """C++ of the codes and limits, which the engine's headers need before they are included."""
    yield '#include "tbs/platform.h"'
    yield "namespace tbs {"
    yield from numbers.definitions()
    yield enumeration("ElementType", ElementType.__members__)
    yield enumeration("Autoreset", Autoreset.__members__)
    faults = {f"fault_{name}": code for code, name in enumerate(BUILTIN_FAULTS)}
    bits = {"fault_node_bits": NODE_BITS, "fault_row_bits": ROW_BITS, "fault_code_bits": CODE_BITS}
    bits |= {"place_row_bits": PLACE_ROW_BITS, "place_part_bits": PLACE_PART_BITS}
    yield from _constants({**faults, **bits})
    yield from _constants({f"step_{name}": code for name, code in StepResult.__members__.items()}, "i64")
    yield "namespace executors {"
    limits = {"block_threads": BLOCK_THREADS, "max_tile": MAX_TILE[device_type], "max_threads": MAX_THREADS}
    yield from _constants(limits)
    yield "}  // namespace executors"
    yield "}  // namespace tbs"


def checked_definitions() -> Iterator[str]:
    """C++ of what only a checked build has."""
    yield "namespace tbs {"
    yield enumeration("Found", Found.__members__)
    yield from _constants({"fault_check": CHECK_FAULT})
    yield "struct CheckRecord {"
    types = {"<u8": "u64", "<i8": "i64", "<u4": "u32"}
    yield from (f"    {types[CHECK_RECORD[name].str]} {name};" for name in CHECK_RECORD.names)
    yield "};"
    yield from layout_checks("CheckRecord", CHECK_RECORD)
    yield "}  // namespace tbs"


def log_definitions() -> Iterator[str]:
    """C++ of what only a build for logs has."""
    yield "namespace tbs {"
    yield enumeration("LogKind", LogKind.__members__)
    yield "struct LogRecord {"
    yield "    u32 node, row, repetition, episode, step, sequence, kind, count;"
    yield "    char label[32];\n    u64 values[4];"
    yield "};"
    yield from layout_checks("LogRecord", LOG_RECORD)
    yield "}  // namespace tbs"


def enumeration(name: str, members: Mapping[str, int], c_type: str = "i32", scoped: bool = True) -> str:
    """C++ of an enumeration, scoped (``Name::key``) or with keys that are names of their own and turn into numbers."""
    keys = ", ".join(f"{key} = {int(code)}" for key, code in members.items())
    return f"enum {'class ' if scoped else ''}{name} : {c_type} {{ {keys} }};"


def _constants(values: Mapping[str, int], c_type: str = "u32") -> Iterator[str]:
    yield from (f"inline constexpr {c_type} {name} = {int(value)};" for name, value in values.items())


def checks() -> Iterator[str]:
    """C++ assertions, for namespace tbs behind the headers, that C++ has the same values."""
    for name, count in LANES.items():
        yield f"static_assert({name}::lanes == {count});"
    for name, record in _RECORDS.items():
        yield from layout_checks(name, record)


def layout_checks(name: str, record: type[ctypes.Structure] | np.dtype) -> Iterator[str]:
    """C++ assertions that the struct ``name`` has the fields of ``record`` where that has them."""
    if isinstance(record, np.dtype):
        size, offsets = record.itemsize, {field: record.fields[field][1] for field in record.names}
    else:
        size, offsets = ctypes.sizeof(record), {field[0]: getattr(record, field[0]).offset for field in record._fields_}
    yield f"static_assert(sizeof({name}) == {size});"
    yield from (f"static_assert(offsetof({name}, {field}) == {offset});" for field, offset in offsets.items())
