"""Values of kept singletons that every episode finds at its beginning, until others are held: levels, decks.

For each column there are a copy and a mask of its bytes. Both are allocated by the first ``hold``; the node
``RestoreHeld`` copies what is masked before ``start`` runs, in worlds that begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from ..declare.columns import Column
from ..resolve.program import Program
from .memory import Memory
from .reset_options import Written, write_rows

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_KINDS = ("held", "held_mask")


def hold(program: Program, memory: Memory, values: Written, worlds: torch.Tensor) -> None:
    """See ``Simulator.hold``; in place of all that ``worlds [k]`` hold."""
    if values:
        allocate(program, memory)
    for column in program.held_columns:
        if _there(memory, column):
            memory.others[f"held_mask_{column.c_name}"].view(memory.num_worlds, -1)[worlds] = 0
    for name, (own, value) in values.items():
        write_rows(_view(program, memory, "held", name), own, value)
        _mask(program, memory, name)[own] = -1 if _mask(program, memory, name).dtype != torch.uint8 else 255


@contextmanager
def given_for_once(program: Program, memory: Memory, values: Written) -> Iterator[None]:
    """Let what a reset writes stand in this one reset, also where other values are held."""
    names = [name for name in values if _there(memory, program.find(name)[0])]
    before = {name: _mask(program, memory, name).clone() for name in names}
    for name in names:
        _mask(program, memory, name)[values[name][0]] = 0
    try:
        yield
    finally:
        for name in reversed(names):
            _mask(program, memory, name).copy_(before[name])


def allocate(program: Program, memory: Memory) -> None:
    """Have memory for what worlds hold."""
    for column in program.held_columns:
        for kind in _KINDS:
            name = f"{kind}_{column.c_name}"
            if name not in memory.others:
                size = memory.num_worlds * column.component.size
                memory.others[name] = torch.zeros(size, dtype=torch.uint8, device=memory.device)
                setattr(memory.context, name, memory.others[name].data_ptr())
                memory.streams.memory_moved()


def tensors(program: Program, memory: Memory) -> dict[str, torch.Tensor]:
    """All memory of what worlds hold, uint8; none before the first ``hold``."""
    names = (f"{kind}_{column.c_name}" for column in program.held_columns for kind in _KINDS)
    return {name: memory.others[name] for name in names if name in memory.others}


def fits(program: Program, memory: Memory, saved: Mapping[str, torch.Tensor]) -> bool:
    """Whether this is what ``tensors`` gave for a simulator of as many worlds, before or after the first ``hold``."""
    sizes = {
        f"{kind}_{column.c_name}": (memory.num_worlds * column.component.size,)
        for column in program.held_columns
        for kind in _KINDS
    }
    found = {name: tuple(tensor.shape) for name, tensor in saved.items() if isinstance(tensor, torch.Tensor)}
    return not saved or found == sizes


def load(program: Program, memory: Memory, saved: Mapping[str, torch.Tensor]) -> None:
    """Hold what was saved."""
    if saved:
        allocate(program, memory)
    for name, tensor in tensors(program, memory).items():
        if name in saved:
            tensor.copy_(saved[name])
        else:
            tensor.zero_()


def _there(memory: Memory, column: Column) -> bool:
    return f"held_{column.c_name}" in memory.others


def _view(program: Program, memory: Memory, kind: str, name: str) -> torch.Tensor:
    column, selected = program.find(name)
    return memory.view(memory.others[f"{kind}_{column.c_name}"], column, selected)


def _mask(program: Program, memory: Memory, name: str) -> torch.Tensor:
    """As integers, of which all bits are set where the value is held."""
    view = _view(program, memory, "held_mask", name)
    return view.view(_INTEGERS[view.dtype.itemsize])
