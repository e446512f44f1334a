"""Random bytes in memory that must be written before it is read: two runs differ where a system reads it earlier."""

from __future__ import annotations

import os

import numpy as np
import torch

from ..build.context import output_columns, output_flags
from ..run.simulator import Simulator


def spoil_scratch(sim: Simulator) -> None:
    """Fill all scratch with new random bytes: nothing may depend on them."""
    for column in sim.program.columns.values():
        if column.scratch:
            memory = sim.memory.columns[f"column_{column.c_name}"]
            memory.copy_(torch.from_numpy(np.frombuffer(os.urandom(len(memory)), np.uint8).copy()))


def spoil(sim: Simulator) -> None:
    """Fill memory that the next step writes before it is read with new random bytes: nothing may depend on them.

    These are scratch, the places of the next outputs, and columns that only ``observe`` writes: an ``observe`` that
    writes a column in part makes two runs differ. Bytes between fields stay.
    """
    spoil_scratch(sim)
    program, memory = sim.program, sim.memory
    places = memory.outputs.next.tensors
    columns = output_columns(program)
    for name in program.observe_only:
        column = program.columns[name]
        if not program.is_read_back(column):
            columns[f"column_{column.c_name}"] = column
    for name, column in columns.items():
        place = places[name] if name in places else memory.columns.get(name)
        for field in column.component.fields if place is not None else ():
            _fill(memory.view(place, column, field))
    for name, *_ in output_flags(program):
        _fill(places[name])


def _fill(tensor: torch.Tensor) -> None:
    noise = torch.frombuffer(bytearray(os.urandom(tensor.numel() * tensor.itemsize)), dtype=torch.uint8)
    if tensor.dtype == torch.bool:
        noise %= 2
    tensor.copy_(noise.view(tensor.dtype).view(tensor.shape))
