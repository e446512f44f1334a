"""Dynamic tables on the host's side: their memory, its growth, and what is read and changed between steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base.numbers import where
from ..build.context import TABLE_COLUMNS
from ..declare.columns import Column
from ..declare.schema import MAX_ROWS, Archetype

_SIGN = -(2**63)


@dataclass(frozen=True)
class Ragged:
    """The rows of every world in a column of a dynamic table, as a ragged batch.

    Attributes:
        values: ``[slots, ...]``, the simulator's own memory (of ``entities``: a copy). Rows ``first[w]`` to
            ``first[w] + counts[w] - 1`` are those of world ``w``, oldest first; slots between are free.
        first: int32 ``[worlds]``.
        counts: int32 ``[worlds]``.
        worlds: int32 ``[slots]``, the world of each slot.

    It shows the table as it is, until the table grows (``Simulator.layout`` then changes): then ask again.
    """

    values: torch.Tensor
    first: torch.Tensor
    counts: torch.Tensor
    worlds: torch.Tensor

    def world(self, world: int) -> torch.Tensor:
        """The rows of one world, ``[count, ...]``, without a copy (waits for a CUDA device)."""
        first = int(self.first[world])
        return self.values[first : first + int(self.counts[world])]

    def nested(self) -> torch.Tensor:
        """A jagged ``torch.nested`` tensor ``[worlds, count, ...]`` over ``values``, without a copy.

        It has holes (the free slots), which some functions of ``torch.nested`` refuse: use ``padded`` there.
        """
        last = torch.tensor([self.values.shape[0]], dtype=torch.int64, device=self.first.device)
        offsets = torch.cat([self.first.long(), last])
        return torch.nested.nested_tensor_from_jagged(self.values, offsets=offsets, lengths=self.counts.long())

    def packed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A dense copy: ``values [rows, ...]`` sorted by world, and ``offsets [worlds + 1]`` (int64)."""
        offsets = torch.zeros(len(self.counts) + 1, dtype=torch.int64, device=self.counts.device)
        torch.cumsum(self.counts, 0, out=offsets[1:])
        return self.values[self.slots()], offsets

    def padded(self, length: int | None = None, fill: Any = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """A copy ``[worlds, length, ...]`` and the bool mask ``[worlds, length]`` of what is a row.

        ``length`` is the greatest count by default (which waits for a CUDA device); rows beyond it are left out.
        """
        if length is None:
            length = int(self.counts.max())
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 0:
            raise ValueError(f"length must be a whole number of 0 or more, got {length!r}")
        column = torch.arange(length, device=self.counts.device)
        mask = column < self.counts[:, None]
        slots = torch.where(mask, self.first[:, None] + column, 0)
        values = self.values[slots]
        filling = torch.as_tensor(fill, dtype=values.dtype, device=values.device)
        return where(mask.view(*mask.shape, *[1] * (values.dim() - 2)), values, filling), mask

    def slots(self) -> torch.Tensor:
        """Slots of all rows, by world and age: int64 ``[rows]``."""
        return _slots(self.first, self.counts)


# On CPU the work is done by numpy, on one thread: torch wakes threads for each of these small operations and waits for
# them busily, which takes a hundred times as long where something else is running.


def _zeros(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    made = torch.empty(size, dtype=dtype, device=device)
    if device.type == "cpu":
        made.numpy().fill(0)
        return made
    return made.zero_()


def _worlds(counts: torch.Tensor) -> torch.Tensor:
    """The world of each row: int64 ``[rows]``."""
    if counts.device.type == "cpu":
        return torch.from_numpy(np.repeat(np.arange(len(counts)), counts.numpy()))
    return torch.arange(len(counts), device=counts.device).repeat_interleave(counts)


def _slots(first: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    worlds = _worlds(counts)
    if counts.device.type == "cpu":
        shift = first.numpy().astype(np.int64) - (np.cumsum(counts.numpy(), dtype=np.int64) - counts.numpy())
        return torch.from_numpy(np.arange(len(worlds)) + shift[worlds.numpy()])
    starts = torch.cumsum(counts.long(), 0) - counts
    return torch.arange(len(worlds), device=counts.device) - starts[worlds] + first.long()[worlds]


def _move(to: torch.Tensor, target: torch.Tensor, rows: torch.Tensor, source: torch.Tensor) -> None:
    """``to[target] = rows[source]``."""
    if to.device.type == "cpu":
        to.numpy()[target.numpy()] = rows.numpy()[source.numpy()]
    else:
        to[target] = rows[source]


class TableMemory:
    """The memory of one dynamic table, kept in the simulator's ``memory`` by name.

    Args:
        memory: of the simulator; entries of this table are made and replaced here.
        context: the structure that points to that memory, with an entry for each dynamic table.
    """

    def __init__(
        self,
        archetype: Archetype,
        columns: list[Column],
        worlds: int,
        device: torch.device,
        memory: dict[str, torch.Tensor],
        context: Any,
    ) -> None:
        self.archetype, self.columns, self.device = archetype, columns, device
        self._held = [column for column in columns if not column.scratch]  # those that are part of a state
        self._memory, self._context, self._structure = memory, context, context.tables[archetype.number - 1]
        rooms = torch.full((worlds,), archetype.capacity, dtype=torch.int64, device=device)
        self._take(self._allocate(rooms))
        self._structure.limit = archetype.limit

    def __getitem__(self, field: str) -> torch.Tensor:
        return self._memory[f"table_{self.archetype.name}_{field}"]

    def __setitem__(self, field: str, tensor: torch.Tensor) -> None:
        self._memory[f"table_{self.archetype.name}_{field}"] = tensor
        setattr(self._structure, field, tensor.data_ptr())

    def point(self) -> None:
        """Let the structure point to where the table's memory lies now."""
        for field in TABLE_COLUMNS:
            setattr(self._structure, field, self[field].data_ptr())

    @property
    def rooms(self) -> torch.Tensor:
        """Slots of each world, ``[worlds]``."""
        return self["first"].diff().long()

    def column(self, column: Column) -> torch.Tensor:
        """The bytes of each row, ``[slots, size]``."""
        return self._memory[f"column_{column.c_name}"].view(-1, column.component.size)

    def _allocate(self, rooms: torch.Tensor) -> dict[str, torch.Tensor]:
        """New memory by name for worlds with ``rooms``, empty; nothing has changed yet."""
        worlds, slots = len(rooms), int(rooms.sum())
        if slots > MAX_ROWS:
            raise ValueError(
                f"{self.archetype.name} would have {slots} slots in all worlds; at most {MAX_ROWS} are allowed"
            )
        made = {}
        for field, (dtype, per_world, per_slot) in TABLE_COLUMNS.items():
            size = worlds * per_world + slots * per_slot + (field == "first")
            made[field] = _zeros(size, dtype, self.device)
        made["first"][1:] = rooms.cumsum(0)
        made["world"] = _worlds(rooms).int()
        for column in self.columns:
            size = slots * column.component.size
            made[column.name] = _zeros(size, torch.uint8, self.device)
        return made

    def _take(self, made: dict[str, torch.Tensor]) -> None:
        """Let the table live in this memory from now on."""
        for field in TABLE_COLUMNS:
            self[field] = made[field]
        self._structure.slots = len(made["world"])
        for column in self.columns:
            name = f"column_{column.c_name}"
            self._memory[name] = made[column.name]
            setattr(self._context, name, made[column.name].data_ptr())

    def lay_out(self, rooms: torch.Tensor, sources: torch.Tensor | None = None) -> None:
        """Give world ``w`` ``rooms[w]`` slots and the rows of world ``sources[w]`` (its own by default).

        What is scratch does not come along.
        """
        first, counts, crowded = self["first"][:-1], self["count"], self["crowded"]
        if sources is not None:
            first, counts, crowded = first[sources], counts[sources], crowded[sources]
        made = self._allocate(rooms)
        made["count"].copy_(counts)
        made["crowded"].copy_(crowded)
        source, target = _slots(first, counts), _slots(made["first"][:-1], counts)
        _move(made["birth"].view(-1, 2), target, self["birth"].view(-1, 2), source)
        for column in self._held:
            _move(made[column.name].view(-1, column.component.size), target, self.column(column), source)
        self._take(made)

    def empty(self, worlds: torch.Tensor | slice = slice(None)) -> None:
        """Drop all rows, or those of ``worlds [k]``."""
        self["count"][worlds] = 0

    def grow(self) -> bool:
        """Double the rooms of worlds that have passed the high-water mark, up to the limit; whether any was."""
        rooms = self.grown_rooms()
        grows = not torch.equal(rooms, self.rooms)
        if grows:
            self.lay_out(rooms)
        self["crowded"].zero_()
        return grows

    def grown_rooms(self) -> torch.Tensor:
        """The rooms that the next ``grow`` leaves, int64 ``[worlds]``."""
        wanted, rooms = self["crowded"].long().clamp(max=self.archetype.limit), self.rooms
        grown = torch.where(wanted > 0, self._doubled(rooms), rooms)
        while bool((short := (grown < wanted)).any()):
            grown = torch.where(short, self._doubled(grown), grown)
        return grown if int(grown.sum()) <= MAX_ROWS else rooms

    def _doubled(self, rooms: torch.Tensor) -> torch.Tensor:
        return (rooms * 2).clamp(max=self.archetype.limit)

    def ragged(self, values: torch.Tensor) -> Ragged:
        return Ragged(values, self["first"][:-1], self["count"], self["world"])

    # ---- handles ---------------------------------------------------------------------------------------------------

    def entities(self, tags: torch.Tensor) -> torch.Tensor:
        """The handle of every slot, int32 ``[slots, 4]``; ``tags [worlds]``."""
        handles = torch.empty(self._structure.slots, 4, dtype=torch.int32, device=self.device)
        handles[:, 0] = tags[self["world"].long()]
        handles[:, 1] = self.archetype.number
        handles[:, 2:] = self["birth"].view(-1, 2)
        return handles

    def find(self, worlds: torch.Tensor, births: torch.Tensor) -> torch.Tensor:
        """Index among the rows of ``worlds [k]`` of what has ``births [k, 2]``, -1 where nothing has: int64 ``[k]``."""
        wanted, keys = _keys(births), _keys(self["birth"].view(-1, 2))
        first, counts = self["first"].long()[worlds], self["count"].long()[worlds]
        low, high = torch.zeros_like(first), counts.clone()
        for _ in range(int(self.rooms.max()).bit_length() + 1):
            middle = (low + high) // 2
            slot = (first + middle).clamp(max=len(keys) - 1)
            after = (keys[slot] < wanted) & (low < high)
            high = torch.where(after | (low >= high), high, middle)
            low = torch.where(after, middle + 1, low)
        slot = (first + low).clamp(max=len(keys) - 1)
        return torch.where((low < counts) & (keys[slot] == wanted), low, -1)

    def append(self, worlds: torch.Tensor, values: Mapping[str, torch.Tensor], ticks: torch.Tensor) -> torch.Tensor:
        """Rows in ``worlds [k]``, in that order, with bytes ``values[column] [k, size]``; returns births ``[k, 2]``."""
        added = torch.bincount(worlds, minlength=len(ticks))
        needed = self["count"].long() + added
        rooms = self.rooms
        while bool((needed > rooms).any()):
            rooms = torch.where(needed > rooms, self._doubled(rooms), rooms)
        if not torch.equal(rooms, self.rooms):
            self.lay_out(rooms)
        crowded = (added > 0) & (needed >= rooms - rooms // 4) & (rooms < self.archetype.limit)
        self["crowded"].copy_(torch.where(crowded, needed.int().maximum(self["crowded"]), self["crowded"]))
        order = torch.argsort(worlds, stable=True)
        starts = torch.cumsum(added, 0) - added
        rank = torch.empty_like(worlds)
        rank[order] = torch.arange(len(worlds), device=self.device) - starts[worlds[order]]
        slots = self["first"].long()[worlds] + self["count"].long()[worlds] + rank
        births = torch.stack([ticks[worlds], rank.int()], dim=1)
        self["birth"].view(-1, 2)[slots] = births
        for column in self.columns:
            self.column(column)[slots] = values[column.name]
        self["count"] += added.int()
        return births

    def remove(self, worlds: torch.Tensor, rows: torch.Tensor) -> None:
        """Take out rows ``rows [k]`` of ``worlds [k]``; those behind them move up."""
        self["doomed"][self["first"].long()[worlds] + rows] = 1
        slots = _slots(self["first"][:-1], self["count"])
        staying = slots[self["doomed"][slots] == 0]
        self["count"] -= torch.bincount(worlds, minlength=len(self["count"])).int()
        target = _slots(self["first"][:-1], self["count"])
        for rows_of in (self["birth"].view(-1, 2), *map(self.column, self.columns)):
            rows_of[target] = rows_of[staying]
        self["doomed"].zero_()

    # ---- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, torch.Tensor]:
        """A copy without free slots."""
        slots = _slots(self["first"][:-1], self["count"])
        columns = {column.name: self.column(column)[slots] for column in self._held}
        own = {"rooms": self.rooms, "counts": self["count"].clone(), "crowded": self["crowded"].clone()}
        return {**own, "birth": self["birth"].view(-1, 2)[slots], **columns}

    def fits(self, state: Any) -> bool:
        """Whether ``state`` could be of this table."""
        if not isinstance(state, Mapping):
            return False
        worlds = len(self["count"])
        try:
            rooms, counts = state["rooms"], state["counts"]
            rows = int(counts.sum())
            shapes = {"rooms": (worlds,), "counts": (worlds,), "crowded": (worlds,), "birth": (rows, 2)}
            shapes |= {column.name: (rows, column.component.size) for column in self._held}
            dtypes = {"rooms": torch.int64, "counts": torch.int32, "crowded": torch.int32, "birth": torch.int32}
            fits = bool((rooms <= self.archetype.limit).all()) and int(rooms.sum()) <= MAX_ROWS
            same = fits and all(
                tuple(state[name].shape) == shape and state[name].dtype == dtypes.get(name, torch.uint8)
                for name, shape in shapes.items()
            )
            return same and bool((counts >= 0).all() and (counts <= rooms).all() and (rooms >= 1).all())
        except (KeyError, AttributeError, RuntimeError, TypeError):
            return False

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        made = self._allocate(state["rooms"].to(self.device))
        made["count"].copy_(state["counts"])
        made["crowded"].copy_(state["crowded"])
        slots = _slots(made["first"][:-1], made["count"])
        made["birth"].view(-1, 2)[slots] = state["birth"].to(self.device)
        for column in self._held:
            made[column.name].view(-1, column.component.size)[slots] = state[column.name].to(self.device)
        self._take(made)


def _keys(births: torch.Tensor) -> torch.Tensor:
    """Births as int64 that are sorted as they are; tick and order are unsigned."""
    tick, order = births[..., 0].long() & 0xFFFFFFFF, births[..., 1].long() & 0xFFFFFFFF
    return (tick << 32 | order) ^ _SIGN
