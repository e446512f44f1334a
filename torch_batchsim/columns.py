"""A column: one component of one table, in the words of the program and of whoever looks at its memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .schema import Component, homogeneous_dtype


@dataclass(frozen=True)
class Column:
    """One component of one table. ``name`` is as in ``sim.tensor(name)``."""

    name: str
    table: str
    component: type[Component]
    rows_per_world: int  # of a dynamic table: for which there is room at first
    singleton: bool  # of no archetype: once per world, or once for all worlds
    dynamic: bool = False
    resource: bool = False  # once for all worlds
    scratch: bool = False  # holds anything when a task graph begins
    workspace: bool = False  # a system's for as long as it runs for a world; none of the program's columns
    c_name: str = ""  # in generated code; distinct

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


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """The numpy dtype of the same name."""
    return np.dtype(str(dtype).removeprefix("torch."))
