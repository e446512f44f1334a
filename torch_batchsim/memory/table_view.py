"""Tensors of a simulator by attribute: ``sim.Cart.CartState.x``."""

from __future__ import annotations

from typing import Any

import torch

from .memory import Memory


class TableView:
    """``sim.Cart`` or ``sim.Cart.CartState``: attributes are components, then fields; ``tensor`` is the column.

    Names of libraries are attributes too: ``sim.Drone.grid.Body.x``, ``sim.grid.Cells.Cell``.

    Assignment fills the field in place, as ``sim.tensor(name)[...] = value`` does.
    """

    def __init__(self, memory: Memory, name: str) -> None:
        self.__dict__.update(_memory=memory, _name=name)

    @property
    def tensor(self) -> torch.Tensor:
        return self._memory.lend(self._name)

    def __getattr__(self, attribute: str) -> TableView | torch.Tensor:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        name = f"{self._name}.{attribute}"
        program = self._memory.program
        if name in program.columns or program.is_prefix(name):
            return TableView(self._memory, name)
        try:
            return self._memory.lend(name)
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, attribute: str, value: Any) -> None:
        found = getattr(self, attribute)
        tensor = found.tensor if isinstance(found, TableView) else found
        try:
            tensor[...] = value
        except (RuntimeError, TypeError, ValueError) as error:
            given = f"shape {list(value.shape)}" if hasattr(value, "shape") else repr(value)
            raise type(error)(
                f"{self._name}.{attribute} has shape {list(tensor.shape)}, and {given} cannot be written to it: {error}"
            ) from None
