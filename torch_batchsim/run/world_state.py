"""The state of one world as NumPy arrays by name: now, or at an earlier moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import torch

from ..memory.memory import Memory
from ..resolve.program import Program


class Worlds(Protocol):
    """A ``Simulator``, or a part of one."""

    program: Program
    memory: Memory


class WorldState(Mapping[str, np.ndarray]):
    """The state of one world: names as in ``Simulator.tensor`` to copies ``[rows, ...]``, of a singleton ``[...]``.

    ``"Cart.CartState"``, all fields of a component of one type, is ``[rows, fields]``; ``"World.step"`` is ``[]``.
    Iteration gives the names of all fields, in the order of columns. An unknown name raises KeyError with the nearest.

    Args:
        sim: of whose worlds it is one.
        world: its number.
        held: the values of all worlds at another moment: ``Memory.columns``, or copies of these tensors.
    """

    def __init__(self, sim: Worlds, world: int, held: Mapping[str, torch.Tensor] | None = None) -> None:
        self._memory: Memory = sim.memory
        self._world, self._held = world, held
        self._kept: dict[str, np.ndarray] = {}
        self._births: dict[str, list[tuple[int, int]]] = {}
        columns = sim.program.columns.values()
        self._names = [f"{column.name}.{part.name}" for column in columns for part in column.component.fields]

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._kept:
            return self._kept[name]
        table, _, rest = name.partition(".") if isinstance(name, str) else ("", "", "")
        if table in ("World", "Agents", "final", "output"):
            values = self._memory.tensor(name) if self._held is None else self._held[rest]
            return _array(values[self._world])
        column, field = self._memory.program.find(name, "state")
        values = self._memory.view(self._all[f"column_{column.c_name}"], column, field)
        if column.dynamic:
            values = values[self._rows(column.table)]
        elif not column.resource:
            values = values[self._world]
        return _array(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def births(self, table: str) -> list[tuple[int, int]]:
        """When the rows of a dynamic table were created, which no two share, in their order."""
        if table not in self._births:
            born = self._all[f"table_{table}_birth"].view(-1, 2)[self._rows(table)].tolist()
            return [tuple(birth) for birth in born]
        return self._births[table]

    def keep(self) -> WorldState:
        """Copy all fields now, so that they stay as they are while the world goes on. Returns itself."""
        self._kept = {name: self[name] for name in (*WORLD_FIELDS, *self._names)}
        self._births = {archetype.name: self.births(archetype.name) for archetype in self._memory.program.dynamic}
        return self

    @property
    def _all(self) -> Mapping[str, torch.Tensor]:
        return self._memory.columns if self._held is None else self._held

    def _rows(self, table: str) -> slice:
        first, count = (int(self._all[f"table_{table}_{part}"][self._world]) for part in ("first", "count"))
        return slice(first, first + count)


WORLD_FIELDS = tuple(f"World.{name}" for name in ("step", "episode", "terminated", "truncated"))
"""The engine's own fields of a world."""


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().copy()
