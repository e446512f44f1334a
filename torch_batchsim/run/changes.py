"""The differences of one world between two moments, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..declare.columns import Column
from ..memory.memory import Memory
from ..resolve.program import Program
from .world_state import WORLD_FIELDS, WorldState

_SHOWN = 12  # elements of one array that are printed
_WHOLE = 4  # elements of an array, such as a vec3, that are one value


@dataclass(frozen=True)
class Change:
    """One value, or one row, of a world that differs from an earlier moment.

    Attributes:
        kind: ``"changed"``, ``"created"`` or ``"destroyed"`` (rows of dynamic tables).
        name: of the field, as in ``Simulator.tensor``; of a created or destroyed row its table.
        row: among the rows of the world; of one that is destroyed, where it was. None for a singleton.
        index: of the element, where the field is an array of more than four.
        old, new: numbers, tuples of up to four, or of created and destroyed rows ``new`` or ``old`` is a dict of all
            their fields; the other one is None.
    """

    kind: str
    name: str
    row: int | None
    index: tuple[int, ...]
    old: Any
    new: Any

    @property
    def place(self) -> str:
        """``"Game.Ball.row[0]"``; an element of an array is ``"Maze.walls (3, 4)"``."""
        row = "" if self.row is None else f"[{self.row}]"
        return f"{self.name}{row}" + (f" ({', '.join(map(str, self.index))})" if self.index else "")

    def __str__(self) -> str:
        if self.kind == "changed":
            return f"{_shown(self.old)} -> {_shown(self.new)}"
        values = self.new if self.kind == "created" else self.old
        return f"{self.kind}: " + ", ".join(f"{name} {_shown(value)}" for name, value in values.items())


class Changes(Sequence[Change]):
    """The changes of one world in the order of its columns; ``print`` shows a table of them. ``world``: its number."""

    def __init__(self, world: int, changes: Sequence[Change]) -> None:
        self.world, self._changes = world, list(changes)

    def __getitem__(self, place: Any) -> Any:
        return self._changes[place]

    def __len__(self) -> int:
        return len(self._changes)

    def lines(self) -> Iterator[str]:
        """The table without its head."""
        shown: list[tuple[str, str]] = []
        left_out: dict[tuple[str, int | None], int] = {}
        of_array: dict[tuple[str, int | None], int] = {}
        for change in self._changes:
            key = change.name, change.row
            if change.index:
                of_array[key] = of_array.get(key, 0) + 1
                if of_array[key] > _SHOWN:
                    left_out[key] = left_out.get(key, 0) + 1
                    continue
            shown.append((change.place, str(change)))
        width = max((len(place) for place, _ in shown), default=0)
        yield from (f"{place.ljust(width)}  {text}" for place, text in shown)
        for (name, row), number in left_out.items():
            yield f"... and {number} more of {name}" + ("" if row is None else f"[{row}]")

    def __str__(self) -> str:
        lines = [f"world {self.world}: " + (f"{len(self)} changes" if len(self) != 1 else "1 change")]
        return "\n".join([*lines, *(f"  {line}" for line in self.lines())])

    __repr__ = __str__


@dataclass(frozen=True)
class Mark:
    """The values of all worlds at a moment (``Simulator.mark``)."""

    held: Mapping[str, torch.Tensor] = field(repr=False)


def marked(memory: Memory) -> Mark:
    """A copy of what all worlds hold."""
    return Mark({name: tensor.detach().clone() for name, tensor in memory.columns.items()})


def compared(program: Program, world: int, old: WorldState, new: WorldState) -> Changes:
    """The differences of a world between two moments, to the bit. Births identify the rows of dynamic tables."""
    changes: list[Change] = []
    for name in WORLD_FIELDS:
        changes += _of_rows(name, old[name][None], new[name][None], [(None, 0, 0)])
    tables: dict[str, list[Column]] = {}
    for column in program.columns.values():
        if not column.resource:
            tables.setdefault(column.table, []).append(column)
    for table, columns in tables.items():
        names = [f"{column.name}.{part.name}" for column in columns for part in column.component.fields]
        was, now = ({name: state[name] for name in names} for state in (old, new))
        if columns[0].dynamic:
            before = {birth: row for row, birth in enumerate(old.births(table))}
            after = {birth: row for row, birth in enumerate(new.births(table))}
            rows = [(row, before[birth], row) for birth, row in after.items() if birth in before]
            gone = [row for birth, row in before.items() if birth not in after]
            came = [row for birth, row in after.items() if birth not in before]
        else:
            gone, came = [], []
            if columns[0].singleton:
                was, now = ({name: values[None] for name, values in state.items()} for state in (was, now))
                rows = [(None, 0, 0)]
            else:
                rows = [(row, row, row) for row in range(len(was[names[0]]))]
        for name in names:
            changes += _of_rows(name, was[name], now[name], rows)
        for row in gone:
            changes.append(Change("destroyed", table, row, (), _row(was, table, row), None))
        for row in came:
            changes.append(Change("created", table, row, (), None, _row(now, table, row)))
    return Changes(world, changes)


def _row(fields: Mapping[str, np.ndarray], table: str, row: int) -> dict[str, Any]:
    """All fields of a row of a table, by their names in it."""
    return {name.removeprefix(f"{table}."): _value(values[row]) for name, values in fields.items()}


def _of_rows(
    name: str, old: np.ndarray, new: np.ndarray, rows: Sequence[tuple[int | None, int, int]]
) -> Iterator[Change]:
    """The values that differ; ``rows``: what to call a row, where it was, and where it is."""
    if not rows:
        return
    before, after = (values[[row[i] for row in rows]] for values, i in ((old, 1), (new, 2)))
    bits = np.dtype(f"u{before.dtype.itemsize}")
    differs = np.ascontiguousarray(before).view(bits) != np.ascontiguousarray(after).view(bits)
    whole = before[0].size <= _WHOLE
    if whole:
        differs = differs.reshape(len(rows), -1).any(1)
    for place in np.argwhere(differs):
        row, *index = (int(i) for i in place)
        at = (row, *index)
        yield Change("changed", name, rows[row][0], tuple(index), _value(before[at]), _value(after[at]))


def _value(value: Any) -> Any:
    """A number with its type, so that it prints as short as it can; a tuple of them, nested as the array was."""
    return tuple(_value(part) for part in value) if isinstance(value, np.ndarray) and value.ndim else value[()]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        shown = [_shown(part) for part in value[:_SHOWN]] + ["..."] * (len(value) > _SHOWN)
        return f"({', '.join(shown)})"
    return str(value)
