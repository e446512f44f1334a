"""The fields of the generated ``Context``, in order: the engine's columns, outputs, tables; and its ``ctypes`` twin."""

from __future__ import annotations

import ctypes

import torch

from ..base.shared import ActionBounds, DynamicTable, TraceBuffer
from ..declare.columns import Column
from ..resolve.program import Program
from .structs import parameters_structure

# The engine's own columns: name in the context, C type, dtype, and whether the column has a row per agent or per world.
ENGINE_COLUMNS: tuple[tuple[str, str, torch.dtype, bool], ...] = (
    ("seed", "u64", torch.int64, False),
    ("stream", "u32", torch.int32, False),
    ("episode", "u32", torch.int32, False),
    ("step", "u32", torch.int32, False),
    ("fault", "u64", torch.int64, False),
    ("ended", "u8", torch.uint8, False),
    ("terminated", "u8", torch.bool, False),
    ("truncated", "u8", torch.bool, False),
    ("agent_done", "u8", torch.bool, True),
)
AGENT_FLAGS = (  # only where agents have flags beside those of their world
    ("agent_terminated", "u8", torch.bool, True),
    ("agent_truncated", "u8", torch.bool, True),
)
ENTITY_COLUMNS = (
    ("tag", "u32", torch.int32, False),
    ("tick", "u32", torch.int32, False),
)  # only where there are handles
PHASE = ("phase", "u8", torch.uint8, False)  # scratch of the CUDA executors

# Memory of a dynamic table beside its columns, by field of tbs::DynamicTable: dtype, values a world, values a slot.
TABLE_COLUMNS: dict[str, tuple[torch.dtype, int, int]] = {
    "first": (torch.int32, 1, 0),  # and one more for the end
    "count": (torch.int32, 1, 0),
    "added": (torch.int32, 1, 0),
    "crowded": (torch.int32, 1, 0),
    "world": (torch.int32, 0, 1),
    "birth": (torch.int32, 0, 2),
    "doomed": (torch.int32, 0, 1),
}


MOST_BOUNDS_IN_CONTEXT = 16
"""Elements of an action whose bounds are part of the context, and so of a kernel's parameters. Bounds of more elements
are behind a pointer, because parameters have at most 4 KB, or 32,764 bytes from CUDA 12.1 on."""

MAX_KERNEL_PARAMETERS = 32_764  # bytes


def action_width(program: Program) -> int:
    """Elements of one agent's action."""
    return program.action.component.size // program.action.dtype.itemsize


def bounds_in_context(program: Program) -> bool:
    """Whether the bounds of actions are in the context itself."""
    return action_width(program) <= MOST_BOUNDS_IN_CONTEXT


def engine_columns(program: Program, cuda: bool) -> tuple[tuple[str, str, torch.dtype, bool], ...]:
    """``(name, C type, dtype, per agent)`` of the engine's columns in the order of the context."""
    flags = AGENT_FLAGS if program.agent_flags else ()
    entities = ENTITY_COLUMNS if program.has_entities else ()
    return (*ENGINE_COLUMNS, *flags, *entities, *((PHASE,) if cuda else ()))


def final_columns(program: Program) -> dict[str, Column]:
    """Columns whose values at the end of an episode are kept, by their name in the context."""
    return {f"final_{column.c_name}": column for column in program.outputs}


def output_columns(program: Program) -> dict[str, Column]:
    """Columns of which each step writes all rows, to the place that the call names; by name in the context.

    Observations and infos, as columns or delivered copies of them, the reward, and final values.
    """
    outputs = {program.output_field(column): column for column in program.outputs}
    return {**outputs, f"column_{program.reward.c_name}": program.reward, **final_columns(program)}


def output_flags(program: Program) -> tuple[tuple[str, str, torch.dtype, bool], ...]:
    """Those of ``engine_columns`` that go with them."""
    return tuple(c for c in engine_columns(program, False) if c[0].endswith(("terminated", "truncated", "done")))


def workspace_fields(program: Program) -> dict[str, Column]:
    """Workspace by name in the context of a CUDA executor."""
    return {f"workspace_{column.c_name}": column for column in program.workspaces.values()}


def outputs_structure(program: Program) -> type[ctypes.Structure]:
    """The ``ctypes`` twin of the generated ``Outputs``."""
    names = [*output_columns(program), *(name for name, *_ in output_flags(program))]
    return type("Outputs", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_void_p) for name in names]})


def context_structure(program: Program, cuda: bool) -> type[ctypes.Structure]:
    """The ``ctypes`` twin of the generated ``Context``, which begins with an ``Outputs``."""
    outputs = outputs_structure(program)
    placed = {name for name, _ in outputs._fields_}
    bounds = ActionBounds * action_width(program) if bounds_in_context(program) else ctypes.c_void_p
    fields: list[tuple[str, type]] = [
        ("device", ctypes.c_int32),
        ("num_worlds", ctypes.c_int32),
        ("first_world", ctypes.c_int32),
        ("tile", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("team", ctypes.c_int32),
        ("autoreset", ctypes.c_int32),
        ("keep_final", ctypes.c_int32),
        ("action_bounds", bounds),
        ("fault_flag", ctypes.c_void_p),
        ("trace", TraceBuffer),
    ]
    if not cuda:
        fields += [(name, ctypes.c_void_p) for name in ("share_out", "watch", "place")]
    if cuda:
        fields += [(name, ctypes.c_int32) for name in ("together", "action_type", "chip_bytes")]
        fields += [(name, ctypes.c_void_p) for name in ("queue", "mask", "action_source")]
    if program.dynamic:
        fields += [("crowded_flag", ctypes.c_void_p), ("tables", DynamicTable * len(program.dynamic))]
    if program.checks is not None:
        fields += [("check_records", ctypes.c_void_p), ("loop_budget", ctypes.c_int64)]
        fields += [("check_spare", ctypes.c_void_p)] if cuda else []
    if program.check_sites:
        fields.append(("check_steps", ctypes.c_void_p))
    if program.log:
        fields += [(name, ctypes.c_void_p) for name in ("log_records", "log_counts")]
        fields += [("log_room", ctypes.c_int64)]
    names = [name for name, *_ in engine_columns(program, cuda)]
    names += [f"column_{column.c_name}" for column in program.columns.values()]
    names += [f"{kind}_{column.c_name}" for column in program.held_columns for kind in ("held", "held_mask")]
    names += workspace_fields(program) if cuda else []
    fields += [(name, ctypes.c_void_p) for name in names if name not in placed]
    fields.append(("parameters", parameters_structure(program)))
    return type("Context", (outputs,), {"_fields_": fields})


def check_spare_bytes(program: Program) -> int:
    """Bytes of the spare row that a checked build for CUDA gives each world in place of a missing row."""
    sizes = [component.size for component in program.components]
    return -(-max(sizes) // 64) * 64
