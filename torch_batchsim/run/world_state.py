"""The state of one world as NumPy arrays by name: now, or at an earlier moment; or of several worlds at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

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
        self._names = _names(sim.program)

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


def _names(program: Program) -> list[str]:
    return [f"{column.name}.{part.name}" for column in program.columns.values() for part in column.component.fields]


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().copy()


class _Layout(NamedTuple):
    """Where the numbers of a name lie in the copy of its column."""

    field: str
    kind: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of any number of worlds
    strides: tuple[int, ...]
    offset: int


_layouts: WeakKeyDictionary[Memory, dict[str, _Layout]] = WeakKeyDictionary()


def _whole(values: torch.Tensor) -> np.ndarray:
    return (values.detach() if values.requires_grad else values).numpy()


class WorldStates(Sequence[Mapping[str, np.ndarray]]):
    """The states of some worlds at one moment, copied at once: each is a mapping as ``WorldState``.

    All numbers of a column are copied together, so that a picture of many worlds costs the simulation little. It may be
    read in another thread. Resources, which systems only read, are not copied.

    Args:
        sim: of whose worlds they are.
        worlds: their numbers.
    """

    def __init__(self, sim: Worlds, worlds: Sequence[int]) -> None:
        self.worlds = list(worlds)
        self._memory, self._program = sim.memory, sim.program
        memory, on_cpu, count = sim.memory.columns, sim.memory.device.type == "cpu", sim.memory.num_worlds
        places = np.array(self.worlds, np.int64)
        first = self.worlds[0] if self.worlds else 0
        in_a_row = on_cpu and self.worlds == list(range(first, first + len(self.worlds)))

        def of_worlds(values: torch.Tensor) -> np.ndarray:
            """Their part of ``values``, one world after another; on CPU NumPy copies small arrays sooner than torch."""
            if in_a_row:  # in few operations: it is the simulation that waits
                size = values.numel() // count
                return _whole(values).reshape(-1)[first * size : (first + len(places)) * size].copy()
            return rows(values.view(count, -1), places).reshape(-1)

        def rows(values: torch.Tensor, which: np.ndarray) -> np.ndarray:
            if on_cpu:
                return _whole(values).take(which, 0)
            return values.index_select(0, torch.from_numpy(which).to(values.device)).cpu().numpy()

        held: dict[str, np.ndarray] = {}
        chosen: dict[str, np.ndarray] = {}  # of each dynamic table: the slots of these worlds, one world after another
        self._ends: dict[str, list[int]] = {}
        for name in (archetype.name for archetype in self._program.dynamic):
            firsts, counts = (of_worlds(memory[f"table_{name}_{part}"][:count]) for part in ("first", "count"))
            ends = np.cumsum([0, *counts.tolist()])
            chosen[name] = np.arange(ends[-1]) + np.repeat(firsts - ends[:-1], counts)
            self._ends[name] = ends.tolist()
        for column in self._program.columns.values():
            field = f"column_{column.c_name}"
            if column.resource:
                held[field] = memory[field].detach().cpu().view(-1).view(torch.uint8).numpy()
            elif column.dynamic:
                whole = memory[field].detach().view(-1).view(torch.uint8)
                held[field] = rows(whole.view(-1, column.component.size), chosen[column.table])
            else:
                held[field] = of_worlds(memory[field]).view(np.uint8)
        for name in WORLD_FIELDS:
            held[name] = of_worlds(memory[name.partition(".")[2]])
        self._held = held
        self._arrays: dict[str, tuple[np.ndarray, str]] = {}
        self._by_world: dict[str, np.ndarray] = {}  # those of them whose first index is the world

    @cached_property
    def names(self) -> dict[str, None]:
        """Names of all fields, in the order of columns."""
        return dict.fromkeys(_names(self._program))

    def __getitem__(self, index: Any) -> Any:
        return _OneOfThem(self, range(len(self.worlds))[index])

    def __iter__(self) -> Iterator[Mapping[str, np.ndarray]]:
        return (_OneOfThem(self, index) for index in range(len(self.worlds)))

    def __len__(self) -> int:
        return len(self.worlds)

    def array(self, name: str) -> np.ndarray:
        """A name's values in all these worlds: ``[worlds, rows, ...]``, of a dynamic table the rows one after another.

        Raises KeyError for an unknown name.
        """
        return self._found(name)[0]

    def kind(self, name: str) -> str:
        """How a world's part of ``array`` is found: ``"world"``: by the first index; a dynamic table's name: by its
        rows; ``""``: all worlds share it."""
        return self._found(name)[1]

    def _found(self, name: str) -> tuple[np.ndarray, str]:
        """And how a world's part is found: by "world", by the name of a dynamic table, or "" where it is shared."""
        found = self._arrays.get(name)
        if found is None:
            if name in self._held and name.startswith("World."):
                found = self._held[name], "world"
            else:
                layouts = _layouts.setdefault(self._memory, {})
                layout = layouts.get(name)
                if layout is None:
                    layout = self._layout(name)
                    if 0 not in layout.shape:  # of no numbers torch does not say where they lie
                        layouts[name] = layout
                found = self._arranged(layout), layout.kind
            self._arrays[name] = found
            if found[1] == "world":
                self._by_world[name] = found[0]
        return found

    def _layout(self, name: str) -> _Layout:
        column, field = self._program.find(name, "state")
        held = self._held[f"column_{column.c_name}"]
        values = self._memory.view(torch.from_numpy(held), column, field, len(self.worlds)).numpy()
        offset = values.__array_interface__["data"][0] - held.__array_interface__["data"][0]
        kind = column.table if column.dynamic else "" if column.resource else "world"
        return _Layout(f"column_{column.c_name}", kind, values.dtype, values.shape, values.strides, offset)

    def _arranged(self, layout: _Layout) -> np.ndarray:
        held = self._held[layout.field]
        count = len(self.worlds) if layout.kind == "world" else self._ends[layout.kind][-1] if layout.kind else 0
        shape = (count, *layout.shape[1:]) if layout.kind else layout.shape
        if 0 in shape:
            return np.zeros(shape, layout.dtype)
        return np.ndarray(shape, layout.dtype, held, layout.offset, layout.strides)

    def part(self, name: str, index: int) -> np.ndarray:
        """A name's values in one of these worlds."""
        values, kind = self._found(name)
        if kind == "world":
            return values[index]
        if not kind:
            return values
        ends = self._ends[kind]
        return values[ends[index] : ends[index + 1]]


class _OneOfThem(Mapping[str, np.ndarray]):
    """One of several worlds."""

    __slots__ = ("_by_world", "_index", "_states")

    def __init__(self, states: WorldStates, index: int) -> None:
        self._states, self._index, self._by_world = states, index, states._by_world

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._by_world:  # in few operations: pictures of many worlds read many fields
            return self._by_world[name][self._index]
        return self._states.part(name, self._index)

    def __contains__(self, name: object) -> bool:
        return name in self._states.names or super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._states.names)

    def __len__(self) -> int:
        return len(self._states.names)
