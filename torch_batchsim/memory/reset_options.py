"""Options of a reset: what users give for the episodes that begin, as values of kept singletons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..base.names import check_identifier
from ..declare.columns import Column
from ..errors import SchemaError
from ..resolve.program import Program
from ..types import FieldType, boolean
from .inputs import changed_numbers, checked_options, number_tensor
from .memory import Memory

Written = dict[str, tuple[torch.Tensor, torch.Tensor]]
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def write_rows(target: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> None:
    """``target[rows] = values``, also of unsigned numbers, of which torch indexes only u8."""
    same = _SIGNED.get(target.dtype, target.dtype)
    target.view(same)[rows] = values.view(same)
"""By name of a tensor: the worlds ``[k]`` and their values ``[k, ...]``."""


@dataclass(frozen=True)
class ResetOption:
    """An option of a reset: its values in one world, and the field to which they go, ``""`` for ``reset_values``."""

    name: str
    type: FieldType
    field: str = ""
    bounds: tuple[Any, Any] | None = None  # of the field, arrays of its shape; both ends included

    def checked(self, given: Any, worlds: int) -> tuple[torch.Tensor, bool]:
        """What was given as a tensor, and whether it has a row for each world or is meant for all alike.

        Raises TypeError or ValueError.
        """
        tensor, shape = number_tensor(given, self.name), list(self.type.tensor_shape)
        if tensor.layout is not torch.strided or tensor.is_meta:
            raise TypeError(f"{self.name} must be a dense tensor, got layout {tensor.layout} on {tensor.device}")
        if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch hardly computes with them
            tensor = tensor.long()
        by_world = tensor.dim() > len(shape)
        if by_world and len(tensor) != worlds:
            raise ValueError(
                f"{self.name} must have a row for each of {worlds} worlds, got shape {list(tensor.shape)}"
            )
        dtype = str(tensor.dtype).removeprefix("torch.")
        number = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
        if self.type.dtype == boolean.dtype:
            if not number and tensor.dtype != torch.bool:
                raise TypeError(f"{self.name} must be booleans, got {dtype}")
        elif not self.type.dtype.is_floating_point and not number:
            raise TypeError(f"{self.name} must be integers, got {dtype}")
        own = list(tensor.shape[1:] if by_world else tensor.shape)
        if own != shape:
            raise ValueError(f"{self.name} must have shape {shape} for each world, got {own}")
        return tensor, by_world


def reset_options(program: Program) -> dict[str, ResetOption]:
    """Those of the environment by name. Raises SchemaError for what is neither a type nor a kept singleton's field."""
    environment, found = program.environment, {}
    given = environment.reset_options
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"{environment.name}: reset_options must be a dict of names to types (u8[52]) or fields of kept singletons "
            f"('Deck.cards'), got {given!r}"
        )
    for name, value in given.items():
        check_identifier(name, "an option of reset")
        if name == "reset_mask":
            raise SchemaError(f"{environment.name}: reset has the option 'reset_mask' already")
        if isinstance(value, FieldType):
            found[name] = ResetOption(name, value)
            continue
        if not isinstance(value, str):
            raise SchemaError(
                f"{environment.name}: the reset option {name!r} must be a type (u8[52]) or a field of a kept singleton "
                f"('Deck.cards'), got {value!r}"
            )
        try:
            column, selected = program.find(value, "reset_options")
        except (KeyError, TypeError) as error:
            raise SchemaError(f"{environment.name}: {error.args[0]}") from None
        fields = column.component.fields
        selected = fields[0] if selected is None and len(fields) == 1 else selected
        if column.name not in program.kept or selected is None:
            raise SchemaError(
                f"{environment.name}: the reset option {name!r} names {value!r}, which is not a field of a kept "
                f"singleton{_may_be_named(program, column)}"
            )
        bounds = None if selected.low is None else (selected.low, selected.high)
        found[name] = ResetOption(name, selected.type, value, bounds)
    return found


def _may_be_named(program: Program, column: Column) -> str:
    """What a reset option may name, where it has named something of ``column``."""
    if column.singleton and not column.resource and column.name not in program.kept:
        names = ", ".join(each.__name__ for each in (*program.kept_components, column.component))
        return f": add it to those, kept = [{names}], so that a new episode finds what was given"
    kept = [each for each in program.columns.values() if each.name in program.kept]
    fields = [f"{each.name}.{part.name}" for each in kept for part in each.component.fields]
    return f"; those are {', '.join(fields)}" if fields else "; none is declared: singletons = [Deck], kept = [Deck]"


def reset_values(
    program: Program, memory: Memory, options: Mapping[str, Any] | None, mask: torch.Tensor | None
) -> Written:
    """What to write before a reset.

    Args:
        options: as given to ``reset``, of the environment's ``reset_options``.
        mask: bool ``[worlds]``, the worlds that begin; all if None.

    Raises TypeError or ValueError for what a user gave, SchemaError for what the environment made of it.
    """
    environment = program.environment
    known = reset_options(program)
    options = checked_options(options, tuple(known))
    numbers = torch.arange(memory.num_worlds, device=memory.device)
    worlds = numbers if mask is None else numbers[mask]
    given = {}
    for name, value in options.items():
        tensor, by_world = known[name].checked(value, memory.num_worlds)
        tensor = tensor.to(memory.device)
        given[name] = tensor[worlds] if by_world else tensor.expand(len(worlds), *tensor.shape)
    values: Written = {}
    for name, tensor in given.items():
        if known[name].field:
            values[known[name].field] = worlds, _fitting(memory, known[name], tensor)
    named = environment.reset_values(given, worlds) if given else {}
    if not isinstance(named, Mapping):
        raise SchemaError(f"{environment.name}: reset_values must return a dict, got {named!r}")
    for name, value in named.items():
        memory.check_named("reset_values", name, "kept singleton", lambda column: column.name in program.kept)
        values[name] = worlds, memory.fitting("reset_values", name, value, memory.tensor(name)[worlds])
    return values


def _fitting(memory: Memory, option: ResetOption, values: torch.Tensor) -> torch.Tensor:
    """With the field's dtype. Raises ValueError for a number that it cannot hold, or that is out of its range."""
    fitting = values.to(option.type.dtype)
    lost = changed_numbers(values, fitting)
    if bool(lost.any()):
        if option.type.dtype == boolean.dtype:
            allowed = "True or False"
        else:
            limits = torch.iinfo(option.type.dtype)
            allowed = f"whole numbers from {limits.min} to {limits.max}"
        raise ValueError(f"{option.name} has {values[lost][0]}, but {option.field} is {option.type}: {allowed}")
    if option.bounds is not None:
        low, high = (torch.as_tensor(end.copy()).to(fitting).expand_as(fitting) for end in option.bounds)
        out = ~((fitting >= low) & (fitting <= high))  # also NaN
        if bool(out.any()):
            ends = f"{low[out][0]} and {high[out][0]}"
            raise ValueError(f"{option.name} has {values[out][0]}, but {option.field} is between {ends}")
    return fitting
