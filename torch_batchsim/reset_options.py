"""Options of a reset: what users give for the episodes that begin, as values of kept singletons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .errors import SchemaError
from .inputs import checked_options, number_tensor
from .memory import Memory
from .program import Program


def reset_values(
    program: Program, memory: Memory, options: Mapping[str, Any], mask: torch.Tensor | None
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """What to write before a reset, by name of the tensor: the worlds ``[k]`` and their values ``[k, ...]``.

    Args:
        options: as given to ``reset``, of the environment's ``reset_options``.
        mask: bool ``[worlds]``, the worlds that begin; all if None.

    Raises TypeError or ValueError for what a user gave, SchemaError for what the environment made of it.
    """
    environment = program.environment
    options = checked_options(options, environment.reset_options)
    numbers = torch.arange(memory.num_worlds, device=memory.device)
    worlds = numbers if mask is None else numbers[mask]
    given = {}
    for name, value in options.items():
        tensor = number_tensor(value, name)
        if tensor.layout is not torch.strided or tensor.is_meta:
            raise TypeError(f"{name} must be a dense tensor, got layout {tensor.layout} on {tensor.device}")
        if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch hardly computes with them
            tensor = tensor.long()
        if tensor.shape[:1] != (memory.num_worlds,):
            raise ValueError(
                f"{name} must have a row for each of {memory.num_worlds} worlds, got shape {list(tensor.shape)}"
            )
        given[name] = tensor.to(memory.device)[worlds]
    values = {}
    named = environment.reset_values(given, worlds) if given else {}
    if not isinstance(named, Mapping):
        raise SchemaError(f"{environment.name}: reset_values must return a dict, got {named!r}")
    for name, value in named.items():
        memory.check_named("reset_values", name, "kept singleton", lambda column: column.name in program.kept)
        values[name] = worlds, memory.fitting("reset_values", name, value, memory.tensor(name)[worlds])
    return values
