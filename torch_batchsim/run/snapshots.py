"""Copies of the state of worlds, compared to the bit."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..memory.state import clear_padding
from .simulator import Simulator

Tensors = dict[str, torch.Tensor]


def snapshot(sim: Simulator, *, final: bool = True) -> Tensors:
    """Copies of all that worlds hold, on the host; free slots, resources and scratch are left out.

    Rooms of dynamic tables are those after the growth that the next call does first: when it happens changes no world,
    and a rejected action or a reset of other worlds may be that call.

    Args:
        final: with the values that were kept at the end of episodes, in the rows that ended in the last step.

    Returns tensors by name: one entry a world or row in the first dimension. Those of a dynamic table are called
    ``"<table> <part>"``; ``"<table> counts"`` has the number of rows of each world.
    """
    apart = {f"column_{c.c_name}" for c in sim.program.columns.values() if c.dynamic or c.resource or c.scratch}
    held = {}
    for name, tensor in sim.memory.columns.items():
        scratch = name == "phase" or name in apart or name.startswith("table_")
        if not scratch and (final or not name.startswith("final_")):
            held[name] = tensor.detach().clone().cpu()
    ended = held["agent_done"].bool()
    for name in held:
        if name.startswith("final_"):  # other rows are undefined
            held[name].view(len(ended), -1)[~ended] = 0
    tables = {
        name: {**table.state(), "rooms": table.grown_rooms(), "crowded": torch.zeros_like(table["crowded"])}
        for name, table in sim.memory.tables.items()
        if not table.archetype.scratch
    }
    clear_padding(sim.program, held, tables)
    _make_nans_alike(sim, held, tables)
    for name, state in tables.items():
        held |= {f"{name} {part}": tensor.cpu() for part, tensor in state.items()}
    return held


def _make_nans_alike(sim: Simulator, held: Tensors, tables: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Give every NaN of copied rows one sign and payload, which differ between processors."""
    for column in sim.program.columns.values():
        if column.dynamic:
            state = tables.get(column.table, {})  # without scratch
            places = [state[column.name]] if column.name in state else []
        else:
            starts = ("column_", "output_", "final_")
            places = [held[name] for start in starts if (name := start + column.c_name) in held]
        for field in column.component.fields:
            for place in places if field.type.dtype.is_floating_point else ():
                numbers = sim.memory.view(place, column, field)
                numbers[numbers.isnan()] = torch.nan


def of_worlds(held: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> Tensors:
    """The part of a snapshot that belongs to some worlds, given as a bool mask ``[worlds]``."""
    part = {}
    worlds = worlds.cpu()
    for name, tensor in held.items():
        table, _, what = name.partition(" ")
        if what and what not in ("rooms", "counts", "crowded"):  # an entry a row
            part[name] = tensor[worlds.repeat_interleave(held[f"{table} counts"])]
        else:
            part[name] = tensor.reshape(len(worlds), -1)[worlds].reshape(-1)
    return part


def first_worlds(sim: Simulator, count: int, *, final: bool = True) -> Tensors:
    """The part of a snapshot that belongs to the first ``count`` worlds."""
    return of_worlds(snapshot(sim, final=final), torch.arange(sim.num_worlds) < count)


def assert_same_bits(expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], where: str = "") -> None:
    """Raise AssertionError with the names and bytes that differ, after the words ``where``; shapes do not count.

    All NaN are alike.
    """
    missing = [*(name for name in expected if name not in found), *(name for name in found if name not in expected)]
    if missing:
        raise AssertionError(f"{where}only one side has {', '.join(missing)}")
    wrong = []
    for name, tensor in expected.items():
        a, b = (_bytes(t) for t in (tensor, found[name]))
        if a.shape != b.shape:
            wrong.append(f"{name} has {b.numel()} bytes for {a.numel()}")
        elif not torch.equal(a, b):
            at = (a != b).nonzero().flatten()
            wrong.append(f"{name} differs in {len(at)} of {len(a)} bytes, first at {at[:4].tolist()}")
    if wrong:
        raise AssertionError(where + "; ".join(wrong[:8]) + ("; ..." if len(wrong) > 8 else ""))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    host = tensor.cpu().contiguous().view(-1)
    if host.is_floating_point():
        host = host.masked_fill(host.isnan(), torch.nan)
    return host.view(torch.uint8)
