"""What worlds are: saved, loaded, and copied from world to world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from ..errors import CheckpointError
from ..resolve.program import Program
from . import holding
from .memory import Memory

STATE_FORMAT = 3


def bytes_per_world(memory: Memory) -> float:
    """See ``Simulator.bytes_per_world``."""
    columns = memory.columns
    shared = sum(columns[name].numel() * columns[name].element_size() for name in memory.resource_fields())
    return (memory.num_bytes - shared) / memory.num_worlds


def bytes_by_column(program: Program, memory: Memory) -> dict[str, float]:
    """See ``Simulator.bytes_by_column``."""
    held = {f"column_{c.c_name}": c for c in program.columns.values() if not c.resource and not c.scratch}
    apart = ("column_", "final_", "output_", "phase")  # without the columns of `held`
    sizes = {name: t.numel() * t.element_size() / memory.num_worlds for name, t in memory.columns.items()}
    columns = {column.name: sizes[name] for name, column in held.items()}
    return columns | {"engine": sum(size for name, size in sizes.items() if not name.startswith(apart))}


def state_tensors(program: Program, memory: Memory) -> dict[str, torch.Tensor]:
    """All memory but scratch, faults to be reported, and final values, which mean something in ended rows only."""
    apart = tuple(f"column_{c.c_name}" for c in program.columns.values() if c.dynamic or c.scratch)
    left_out = ("phase", "fault", *apart)
    elsewhere = ("final_", "table_")  # dynamic tables have a state of their own
    return {n: t for n, t in memory.columns.items() if n not in left_out and not n.startswith(elsewhere)}


def save(program: Program, memory: Memory, started: bool) -> dict[str, Any]:
    """See ``Simulator.state_dict``."""
    tensors = {name: as_bytes(tensor).clone() for name, tensor in state_tensors(program, memory).items()}
    tables = {name: table.state() for name, table in memory.tables.items() if not table.archetype.scratch}
    clear_padding(program, tensors, tables)
    return {
        "format": STATE_FORMAT,
        "num_worlds": memory.num_worlds,
        "started": started,
        "signature": _signature(program),
        "tensors": tensors,
        "held": {name: tensor.clone() for name, tensor in holding.tensors(program, memory).items()},
        "tables": tables,
    }


def clear_padding(
    program: Program, columns: Mapping[str, torch.Tensor], tables: Mapping[str, Mapping[str, torch.Tensor]]
) -> None:
    """Zero the bytes of copied rows that belong to no field, so that equal states have equal bytes.

    A system that assigns a whole component copies the padding of a variable on its stack, which a compiler may leave
    as it was.

    Args:
        columns: as ``memory.columns``, by name.
        tables: what ``Table.state()`` returned, by archetype.
    """
    for column in program.columns.values():
        if not column.padding:
            continue
        if column.dynamic:
            held = [tables[column.table][column.name]] if column.table in tables else []
        else:
            held = [columns[name] for start in ("column_", "final_") if (name := start + column.c_name) in columns]
        for tensor in held:
            as_bytes(tensor).view(-1, column.component.size)[:, column.padding] = 0


def load(program: Program, memory: Memory, state: Mapping[str, Any], autoreset: AutoresetMode) -> None:
    """See ``Simulator.load_state_dict``."""
    _check_format(state)
    ours, theirs = _signature(program), state["signature"]
    for key in ours:
        if theirs.get(key) != ours[key]:
            difference = _first_difference(key, theirs.get(key), ours[key])
            raise CheckpointError(f"the state is of another environment: {difference}")
    if state["num_worlds"] != memory.num_worlds:
        raise CheckpointError(f"the state has {state['num_worlds']} worlds, this simulator {memory.num_worlds}")
    own = {name: as_bytes(tensor) for name, tensor in state_tensors(program, memory).items()}
    for name, tensor in own.items():
        given = state["tensors"].get(name)
        if not isinstance(given, torch.Tensor) or given.shape != tensor.shape or given.dtype != tensor.dtype:
            raise CheckpointError(f"the state is damaged: it lacks {name} of {tensor.numel()} bytes")
    for name, table in memory.tables.items():
        if not table.archetype.scratch and not table.fits(state["tables"].get(name)):
            raise CheckpointError(f"the state is damaged: it lacks the rows of {name}")
    held = state.get("held", {})  # which states from before there was `hold` do not have
    if not isinstance(held, Mapping) or not holding.fits(program, memory, held):
        raise CheckpointError("the state is damaged: what it holds for later episodes does not fit")
    if autoreset is AutoresetMode.SAME_STEP and bool(state["tensors"]["ended"].any()):
        raise CheckpointError("the state holds ended worlds that await a reset, which with SAME_STEP never happens")
    memory.move_outputs()
    for name, tensor in state_tensors(program, memory).items():
        as_bytes(tensor).copy_(state["tensors"][name])
    holding.load(program, memory, held)
    for name, table in memory.tables.items():
        if table.archetype.scratch:
            table.empty()
        else:
            table.load(state["tables"][name])
    memory.crowded_flag[0] = any(bool(table["crowded"].any()) for table in memory.tables.values())
    memory.layout += bool(memory.tables)


def _check_format(state: Any) -> None:
    if not isinstance(state, Mapping) or "format" not in state:
        raise CheckpointError(f"this is not a state of a simulator: {type(state).__name__} without 'format'")
    if state["format"] != STATE_FORMAT:
        raise CheckpointError(f"the state has format {state['format']}, this version reads format {STATE_FORMAT}")
    kinds = {"signature": Mapping, "tensors": Mapping, "tables": Mapping, "num_worlds": int, "started": bool}
    for key, kind in kinds.items():
        if not isinstance(state.get(key), kind):
            wrong = f"its {key!r} is {type(state[key]).__name__}" if key in state else f"it has no {key!r}"
            raise CheckpointError(f"the state is damaged: {wrong}; give what state_dict() has returned, as it was")


def _signature(program: Program) -> dict[str, Any]:
    """What a state must have in common with the simulator that loads it."""
    held = {name: c.component.fields for name, c in program.columns.items() if not c.scratch}
    columns = {name: [(f.name, str(f)) for f in fields] for name, fields in held.items()}
    return {
        "environment": program.environment.name,
        "columns": columns,
        "counts": {a.name: a.count or f"at most {a.limit}" for a in program.archetypes if not a.scratch},
        "parameters": program.parameters,
        "constants": program.constants,
    }


def _first_difference(name: str, theirs: Any, ours: Any) -> str:
    """``"its gravity is 9.0, here 9.8"``: of two mappings the first entry that differs."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        name = next(key for key in (*ours, *theirs) if theirs.get(key) != ours.get(key))
        theirs, ours = theirs.get(name), ours.get(name)
    return f"its {name} is {theirs}, here {ours}"


def copy_worlds(program: Program, memory: Memory, source: torch.Tensor, target: torch.Tensor) -> None:
    """See ``Simulator.copy_worlds``; both are checked world indices ``[k]``."""
    if source.shape != target.shape:
        raise ValueError(f"source and target must be of one length, got {len(source)} and {len(target)}")
    if len(torch.unique(target)) != len(target):
        raise ValueError("target worlds must be distinct")
    if len(target) == 0:
        return
    sources = torch.arange(memory.num_worlds, device=memory.device)
    sources[target] = source
    for table in memory.tables.values():  # first: it may lack the memory
        if table.archetype.scratch:
            table.empty(target)
        else:
            table.lay_out(table.rooms[sources], sources)
    memory.move_outputs()
    shared = memory.resource_fields()
    for name, tensor in state_tensors(program, memory).items():
        if name not in shared:
            worlds = as_bytes(tensor).view(memory.num_worlds, -1)
            worlds[target] = worlds[source]
    for tensor in holding.tensors(program, memory).values():
        worlds = tensor.view(memory.num_worlds, -1)
        worlds[target] = worlds[source]
    memory.layout += bool(memory.tables)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a dense tensor, uint8."""
    return tensor.view(-1).view(torch.uint8)


# ---- states of parts of a batch --------------------------------------------------------------------------------------

_BY_WORLD = ("rooms", "counts", "crowded")  # of a table's state; the rest is by row, world after world


def join(memory: Memory, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """See ``Simulator.join_states``."""
    first, shared = states[0], memory.resource_fields()
    for each in states:
        _check_format(each)
        if each["signature"] != first["signature"] or each["started"] != first["started"]:
            raise CheckpointError("the states are not of parts of one batch")

    def together(key: str, names: Mapping[str, Any]) -> dict[str, Any]:
        return {n: first[key][n] if n in shared else torch.cat([each[key][n] for each in states]) for n in names}

    tables = {
        name: {column: torch.cat([each["tables"][name][column] for each in states]) for column in table}
        for name, table in first["tables"].items()
    }
    return {
        **first,
        "num_worlds": sum(each["num_worlds"] for each in states),
        "tensors": together("tensors", first["tensors"]),
        "held": together("held", first["held"]),
        "tables": tables,
    }


def part(memory: Memory, state: Mapping[str, Any], first: int) -> dict[str, Any]:
    """See ``Simulator.part_of_state``."""
    _check_format(state)
    worlds, end, shared = state["num_worlds"], first + memory.num_worlds, memory.resource_fields()
    if end > worlds:
        raise CheckpointError(f"the state has {worlds} worlds, and not those from {first} to {end - 1}")

    def own(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {
            name: tensor if name in shared else tensor.view(worlds, -1)[first:end].reshape(-1)
            for name, tensor in tensors.items()
        }

    tables = {}
    for name, table in state["tables"].items():
        before, rows = (int(table["counts"][worlds].sum()) for worlds in (slice(first), slice(first, end)))
        tables[name] = {
            column: tensor[first:end] if column in _BY_WORLD else tensor[before : before + rows]
            for column, tensor in table.items()
        }
    return {
        **state,
        "num_worlds": memory.num_worlds,
        "tensors": own(state["tensors"]),
        "held": own(state["held"]),
        "tables": tables,
    }
