"""Rows of dynamic tables seen and changed between steps: exports, handles, creation and destruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..base.modes import in_plain_torch
from ..resolve.program import Program
from .inputs import changed_numbers, checked_worlds
from .memory import Memory
from .streams import is_capturing
from .tables import Ragged, TableMemory


class Entities:
    """The rows of the dynamic tables in ``memory``. Its methods are those of ``Simulator``."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self._program, self._memory = program, memory

    def ragged(self, name: str) -> Ragged:
        """See ``Simulator.ragged``."""
        column, _ = self._program.find(name)
        return self._table(column.table).ragged(self._memory.lend(name))

    def handles(self, table: str) -> Ragged | torch.Tensor:
        """See ``Simulator.entities``."""
        program = self._program
        known = {a.name: a for a in program.archetypes if a.dynamic or program.has_entities}
        if table not in known:
            names = ", ".join(known) or "none, because no system uses handles"
            raise ValueError(f"{table!r} has no handles; archetypes of {program.environment.name} with them: {names}")
        if not known[table].dynamic:
            number, count, device = known[table].number, known[table].count, self._memory.device
            handles = torch.zeros(self._memory.num_worlds, count, 4, dtype=torch.int32, device=device)
            handles[..., 0] = self._memory.columns["tag"][:, None]
            handles[..., 1] = number
            handles[..., 3] = torch.arange(count, device=device)
            return handles
        memory = self._table(table)
        return memory.ragged(memory.entities(self._memory.columns["tag"]))

    def find(self, worlds: Any, entities: torch.Tensor) -> torch.Tensor:
        """See ``Simulator.find``."""
        worlds, entities = self._checked(worlds, entities)
        found = torch.full_like(worlds, -1)
        own = worlds < 0
        if self._program.has_entities:
            own = entities[:, 0] == self._memory.columns["tag"][worlds]
        for archetype in self._program.archetypes:
            mine = own & (entities[:, 1] == archetype.number)
            if archetype.dynamic:
                rows = self._memory.tables[archetype.name].find(worlds, entities[:, 2:])
            else:
                order = entities[:, 3].long() & 0xFFFFFFFF
                rows = torch.where((entities[:, 2] == 0) & (order < archetype.count), order, -1)
            found = torch.where(mine, rows, found)
        return found

    def create(self, table: str, worlds: Any, values: Mapping[str, Any] | None, started: bool) -> torch.Tensor:
        """See ``Simulator.create``."""
        memory, columns = self._table(table), self._memory.columns
        worlds = checked_worlds(worlds, "worlds", self._memory.num_worlds, self._memory.device)
        if not started:
            raise RuntimeError("call reset() before create()")
        if memory.archetype.scratch:
            raise ValueError(f"{table} is a scratch table, whose rows the next step drops; nothing was created")
        self._check_room(memory, worlds)
        rows = self._new_rows(memory, worlds, values or {})
        if len(worlds) == 0:
            return torch.empty(0, 4, dtype=torch.int32, device=self._memory.device)
        layout = memory.rooms
        births = memory.append(worlds, rows, columns["tick"])
        columns["tick"][worlds.unique()] += 1
        self._memory.layout += not torch.equal(layout, memory.rooms)
        self._memory.crowded_flag[0] |= bool(memory["crowded"].any())
        head = torch.stack([columns["tag"][worlds], torch.full_like(births[:, 0], memory.archetype.number)], dim=1)
        return torch.cat([head, births], dim=1)

    def _check_room(self, memory: TableMemory, worlds: torch.Tensor) -> None:
        """Raise ValueError if new rows of ``worlds [k]`` would be dropped or too many."""
        ended = self._memory.columns["ended"].bool()[worlds]
        if bool(ended.any()):
            raise ValueError(f"world {int(worlds[ended][0])} has ended and awaits its reset, which would drop new rows")
        limit, table = memory.archetype.limit, memory.archetype.name
        needed = memory["count"].long() + torch.bincount(worlds, minlength=self._memory.num_worlds)
        if bool((needed > limit).any()):
            world = int((needed > limit).nonzero()[0])
            raise ValueError(
                f"world {world} would have {int(needed[world])} rows of {table}, whose limit is {limit}; "
                "nothing was created"
            )

    def _new_rows(
        self, memory: TableMemory, worlds: torch.Tensor, values: Mapping[str, Any]
    ) -> dict[str, torch.Tensor]:
        """The bytes of new rows, ``[k, size]`` by column."""
        columns, table = {column.name: column for column in memory.columns}, memory.archetype.name
        rows = {
            name: worlds.new_zeros(len(worlds) * c.component.size, dtype=torch.uint8) for name, c in columns.items()
        }
        for name, value in values.items():
            column, selected = self._program.find(f"{table}.{name}")
            target = self._memory.view(rows[column.name], column, selected)
            try:
                given = torch.as_tensor(value, device=self._memory.device).expand_as(target)
            except (RuntimeError, TypeError, ValueError):
                raise ValueError(
                    f"{table}.{name} of new rows needs shape {list(target.shape)}, got {value!r}"
                ) from None
            target.copy_(given)
            lost = changed_numbers(given, target)
            if bool(lost.any()):
                held = str(target.dtype).removeprefix("torch.")
                raise ValueError(f"{table}.{name} of new rows has {given[lost][0]}, which {held} cannot hold")
        return {name: row_bytes.view(len(worlds), columns[name].component.size) for name, row_bytes in rows.items()}

    def destroy(self, worlds: Any, entities: torch.Tensor) -> None:
        """See ``Simulator.destroy``."""
        worlds, entities = self._checked(worlds, entities)
        rows = self.find(worlds, entities)
        tables = self._memory.tables.values()
        numbers = torch.tensor([memory.archetype.number for memory in tables], device=self._memory.device)
        wrong = (rows < 0) | ~torch.isin(entities[:, 1], numbers.int())
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            raise ValueError(
                f"entity {entities[i].tolist()} is not a row of a dynamic table in world {int(worlds[i])}: it was "
                "destroyed, or is of another world, episode or simulator; nothing was destroyed"
            )
        named = torch.stack([worlds, entities[:, 1].long(), rows], dim=1)
        if len(torch.unique(named, dim=0)) != len(named):
            raise ValueError("an entity is named twice; nothing was destroyed")
        for memory in tables:
            mine = entities[:, 1] == memory.archetype.number
            if bool(mine.any()):
                memory.remove(worlds[mine], rows[mine])

    @in_plain_torch
    def grow(self) -> None:
        """Make room where worlds have passed the high-water mark."""
        device = self._memory.device
        if is_capturing(device):
            raise RuntimeError(
                "a dynamic table has to grow, which cannot be captured in a CUDA graph: step once outside of the "
                "capture, or declare limit = capacity"
            )
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        for memory in self._memory.tables.values():
            self._memory.layout += memory.grow()
        self._memory.crowded_flag[0] = 0

    def _table(self, name: str) -> TableMemory:
        if name not in self._memory.tables:
            known = ", ".join(self._memory.tables) or "none"
            raise ValueError(f"{name!r} is not a dynamic table; those of {self._program.environment.name}: {known}")
        return self._memory.tables[name]

    def _checked(self, worlds: Any, entities: Any) -> tuple[torch.Tensor, torch.Tensor]:
        worlds = checked_worlds(worlds, "worlds", self._memory.num_worlds, self._memory.device)
        if (
            not isinstance(entities, torch.Tensor)
            or entities.dtype != torch.int32
            or entities.shape != (len(worlds), 4)
        ):
            given = f"{entities.dtype} {list(entities.shape)}" if isinstance(entities, torch.Tensor) else repr(entities)
            raise TypeError(f"entities must be an int32 tensor [{len(worlds)}, 4], got {given}")
        return worlds, entities.to(self._memory.device)
