"""The resolved node: a system over the rows of one table, with all that generated code needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..base.shared import random_key
from ..declare.columns import Column
from ..declare.schema import Archetype
from ..read.systems import System

GRAPHS = ("start", "step", "observe")


@dataclass(frozen=True)
class Loop:
    """A ``Repeat`` of a task graph. ``number``: among all of the program."""

    number: int
    times: int


class Argument(NamedTuple):
    """The value of one parameter of a system.

    ``value``: a column, or ``"Row"``, ``"Entity"``, ``"Episode"``, ``"Warp"``, ``"Block"``, which the engine makes.
    """

    value: Column | str
    writes: bool


@dataclass(frozen=True)
class Node:
    """A system over the rows of one table.

    Attributes:
        graph: the task graph, one of ``GRAPHS``.
        number: its place in ``Program.nodes``.
        system: as its text defines it.
        table: None for a system that runs once per world.
        occurrence: how often the system stands before in its graph; separates random streams.
        loops: around it, the outermost first.
        arguments: of the system, behind ``World``.
        reads, writes: names of columns; the name of a dynamic table stands for the set of its rows.
        creates, destroys: names of dynamic tables, in the order of their numbers.
        reached, reached_writes: names of the columns that it may reach through ``World``.
        looks: names of dynamic tables whose rows it may look at.
    """

    graph: str
    number: int
    system: System
    table: Archetype | None
    occurrence: int
    loops: tuple[Loop, ...]
    arguments: tuple[Argument, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    creates: tuple[str, ...]
    destroys: tuple[str, ...]
    reached: frozenset[str]
    reached_writes: frozenset[str]
    looks: frozenset[str]

    @property
    def word_number(self) -> int:
        """Its number in fault words and log records, where 0 is the engine's check of actions."""
        return self.number + 1

    @property
    def c_name(self) -> str:
        """The name of the generated struct."""
        return f"Node{self.number}_{self.system.name.replace('.', '_')}"

    @cached_property
    def random_key(self) -> int:
        """The key of its random streams."""
        return random_key(self.graph, self.system.name, self.table.name if self.table else "", self.occurrence)

    @property
    def changes(self) -> list[str]:
        """Dynamic tables that the engine settles behind it."""
        return sorted({*self.creates, *self.destroys})

    @property
    def lanes(self) -> int:
        """Lanes that work on each row."""
        return self.system.lanes

    @property
    def rows(self) -> int:
        """Rows in each world: of a fixed table, 1 without a table, 0 of a dynamic one."""
        return 1 if self.table is None else self.table.count or 0

    @property
    def dynamic(self) -> bool:
        """Whether it runs over the rows of a dynamic table."""
        return self.table is not None and self.table.dynamic

    @cached_property
    def workspaces(self) -> list[Column]:
        """The memory that its system has for as long as it runs."""
        return [value for value, _ in self.arguments if isinstance(value, Column) and value.workspace]

    @cached_property
    def flat(self) -> bool:
        """Whether one loop over all worlds may run its rows, see csrc/tbs/engine.h."""
        one_at_a_time = self.changes or self.lanes > 1 or self.workspaces  # a CPU thread has one workspace
        return not one_at_a_time and not self.dynamic

    @cached_property
    def draws(self) -> bool:
        """Whether it receives the first random block of its row."""
        return self.flat and bool(self.system.kinds("random"))
