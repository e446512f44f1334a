"""A column: one component of one table, and the shape of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from .fields import Field
from .schema import Component, homogeneous_dtype


@dataclass(frozen=True)
class Column:
    """One component of one table. ``name`` is as in ``sim.tensor(name)``."""

    name: str
    table: str
    component: type[Component]
    rows_per_world: int  # of a dynamic table: its first capacity
    singleton: bool  # outside of archetypes: once per world, or once for all worlds
    dynamic: bool = False
    resource: bool = False  # once for all worlds
    scratch: bool = False  # holds anything when a task graph begins
    workspace: bool = False  # a system's for as long as it runs for a world; none of the program's columns
    lasting: bool = False  # workspace that on CUDA lasts until the task graph ends
    c_name: str = ""  # in generated code; distinct
    number: int = -1  # among the columns of a program, or among its workspace

    @property
    def dtype(self) -> torch.dtype | None:
        """dtype of the whole column as one tensor, None if its fields differ."""
        return homogeneous_dtype(self.component)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of one row's value in the whole-column tensor: a single field keeps its own shape (scalar: none)."""
        if len(self.component.fields) == 1:
            return self.component.fields[0].type.tensor_shape
        return (self.component.size // self.component.fields[0].type.dtype.itemsize,)

    @property
    def padding(self) -> tuple[int, ...]:
        """The bytes of a row that belong to no field. They are undefined."""
        return _padding(self.component)

    def element_name(self, index: Sequence[int]) -> str:
        """The field of one value of the whole-column tensor: ``"Cart.CartState.theta"``, ``"Ship.View.drones[3, 1]"``.

        Args:
            index: into ``value_shape``.
        """
        fields = self.component.fields
        if len(fields) == 1:
            name, within = fields[0].name, [*index]
        else:
            offset = index[0] * fields[0].type.dtype.itemsize
            name, within = next((field.name, found) for field in fields for found in _indices_at(field, offset))
        return f"{self.name}.{name}" + (f"[{', '.join(map(str, within))}]" if within else "")


@cache
def _padding(component: type[Component]) -> tuple[int, ...]:
    taken = np.zeros(component.size, dtype=bool)
    for field in component.fields:
        size = field.type.dtype.itemsize
        shape, strides = (*field.type.tensor_shape, size), (*field.strides, 1)
        np.ndarray(shape, bool, taken, field.offset, strides)[...] = True
    return tuple(np.flatnonzero(~taken).tolist())


def _indices_at(field: Field, offset: int) -> list[list[int]]:
    """The index of a field's element at so many bytes from the start of the struct; empty without one."""
    offsets = np.full(field.type.tensor_shape, field.offset)
    for axis, stride in enumerate(field.strides):
        offsets = offsets + np.expand_dims(np.arange(offsets.shape[axis]) * stride, [*range(1, offsets.ndim - axis)])
    return np.argwhere(offsets == offset).tolist()


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """The numpy dtype of the same name."""
    return np.dtype(str(dtype).removeprefix("torch."))


def limits(column: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least and greatest values of one row of a column of one type, both ends included, and a mask of declared ranges.

    All are ``[*column.value_shape]``. Without a range the limits are those of the type.
    """
    dtype = numpy_dtype(column.dtype)
    if dtype == np.bool_:
        ends: tuple[Any, Any] = 0, 1
    elif np.issubdtype(dtype, np.floating):
        ends = -np.inf, np.inf
    else:
        ends = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = column.component.size // dtype.itemsize
    low, high = (np.full(numbers, end, dtype) for end in ends)
    said = np.zeros(numbers, dtype)
    for field in column.component.fields:
        if field.low is not None:
            for array, value in ((low, field.low), (high, field.high), (said, np.ones((), dtype))):
                np.ndarray(field.type.tensor_shape, dtype, array, field.offset, field.strides)[...] = value
    shape = column.value_shape
    return low.reshape(shape), high.reshape(shape), said.reshape(shape).astype(bool)
