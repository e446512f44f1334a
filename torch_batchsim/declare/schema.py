"""What tables and their order of work are declared with: components, archetypes, bundles, task graphs."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ..base.names import check_identifier, told_arguments
from ..errors import SchemaError
from ..types import boolean, f32
from .fields import Field, Layout, Member, Struct, declared
from .python_systems import PythonSystem

MAX_ROWS = 2**31 - 2**13  # of one table in all worlds: row numbers are 32-bit, with room to round up to a whole tile
_WIDEST_ACCESS = 16  # bytes that a thread of a GPU moves at once
MAX_REPETITIONS = 1 << 16  # of a system in one task graph: more would hardly end

AUTHOR_STRUCTS = ("Constants", "Fault", "Parameters")  # written beside the author's components, in their namespace
ENGINE_TENSORS = ("World", "Agents", "final")  # first parts of names of the engine's own tensors: "World.step"


class Component:
    """Base of all components: a class whose annotations are the fields of a C++ struct of the same name.

    ::

        class CartState(Component):
            x: f32
            history: f32[4]
    """

    layout: ClassVar[Layout] = Layout("", {})
    members: ClassVar[tuple[Member, ...]] = ()  # as they are declared
    fields: ClassVar[tuple[Field, ...]] = ()  # the numbers in them, those in structs one by one
    size: ClassVar[int] = 0  # bytes, padding included, as in C
    alignment: ClassVar[int] = 1  # bytes, of a row in memory
    library: ClassVar[type | None] = None  # the ``Library`` that declares it; None for an author's own

    if TYPE_CHECKING:  # systems in Python make rows: Shot(owner=me, left=20)

        def __init__(self, **fields: Any) -> None: ...

    def __init_subclass__(cls) -> None:
        check_identifier(cls.__name__, "a component")
        if cls.__bases__ != (Component,):
            raise SchemaError(
                f"component {cls.__name__} must inherit from Component only; list all of its fields in it"
            )
        cls._take(declared(cls, f"component {cls.__name__}"))
        cls._closed: dict[tuple[Any, ...], type[Component]] = {}

    @classmethod
    def _take(cls, layout: Layout) -> None:
        cls.layout, cls.members, cls.fields, cls.size = layout, layout.members, layout.fields, layout.size
        # As far as no row is padded, so that a device moves rows as vectors.
        cls.alignment = min(_WIDEST_ACCESS, layout.size & -layout.size)

    @classmethod
    def closed(cls, constants: Mapping[str, Any]) -> type[Component]:
        """The component with the values of the constants that it names: for the same values the same class.

        Itself if it names none. Raises SchemaError for one that is not among ``constants``.
        """
        if not cls.layout.constants:
            return cls
        values = tuple(constants.get(name) for name in cls.layout.constants)
        if values not in cls._closed:
            layout = cls.layout.closed(constants)
            made = type(cls)(cls.__name__, (Component,), {"__annotations__": {"none": boolean}})
            made.__module__, made.__qualname__ = cls.__module__, cls.__qualname__
            made._take(layout)
            cls._closed[values] = made
        cls._closed[values].library = cls.library
        return cls._closed[values]


class Reward(Component):
    """The reward of a row in this step. The engine sets it to zero before every step."""

    value: f32


class AgentEnd(Component):
    """Whether the episode of a row, an agent, ends with this step while its world may go on.

    The engine sets both to false before every step; systems of ``step`` set them. The row's flags are these or its
    world's.
    """

    terminated: boolean
    truncated: boolean  # cut short by a limit


class Bundle:
    """Components of a library that belong together: ``Archetype("Drone", Place, SpatialGrid.body, count=4)``.

    Args:
        components: component classes, and bundles, such as those of a library that this one uses.

    As an attribute of a ``Library`` it has that attribute's ``name``. A component that comes with several bundles is
    taken once.
    """

    def __init__(self, *components: type[Component] | Bundle) -> None:
        self.name = ""
        self.components = unbundled(components, "a bundle")
        if not self.components:
            raise SchemaError("a bundle has no components")

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or f"{owner.__name__}.{name}"


def unbundled(components: Iterable[Any], where: str) -> tuple[type[Component], ...]:
    """Components and those of bundles, each once. SchemaError for anything else, and for one that is named twice."""
    found: dict[type[Component], bool] = {}  # whether it was named itself
    for component in components:
        if isinstance(component, Bundle):
            for part in component.components:
                found.setdefault(part, False)
            continue
        check_component(component, where)
        if found.get(component):
            raise SchemaError(f"{where} names a component twice: {component.__name__}; leave one out")
        found[component] = True
    return tuple(found)


class Archetype:
    """A set of components and the table of all entities that have them.

    A fixed archetype has ``count`` rows in every world: row ``world * count + i`` belongs to ``world``. Of a dynamic
    one (``capacity``) systems create and destroy rows; every world has its own number of them.

    Args:
        name: of the table, e.g. ``"Cart"``; tensors are named ``"Cart.CartState.x"``.
        components: component classes, each of which becomes a column, and libraries' bundles of them.
        count: rows per world.
        capacity: rows for which every world has room at first.
        limit: rows in one world up to which its room grows, between steps, by doubling when three quarters are used;
            ``capacity`` by default, so that nothing grows.
        ephemeral: rows last until the next step begins (events, candidate pairs).
        scratch: all columns are memory that systems use within a step, see ``Environment.scratch``. With ``capacity``
            the rows last until the next step begins, and the room does not grow.

    Raises SchemaError unless one of ``count`` and ``capacity`` is given, from 1 to ``MAX_ROWS``, and limit >= capacity.
    """

    @told_arguments("Archetype")
    def __init__(
        self,
        name: str,
        *components: type[Component] | Bundle,
        count: int | None = None,
        capacity: int | None = None,
        limit: int | None = None,
        ephemeral: bool = False,
        scratch: bool = False,
    ) -> None:
        if isinstance(name, type):
            raise SchemaError(f'an archetype has its name first: Archetype("{name.__name__}s", {name.__name__}, ...)')
        self.name = check_identifier(name, "an archetype")
        if not components:
            raise SchemaError(f"archetype {name} has no components")
        components = unbundled(components, f"archetype {name}")
        if count is not None and capacity is not None:
            raise SchemaError(
                f"archetype {name} has count={count!r} and capacity={capacity!r}: give count for rows that every world "
                "always has, or capacity for rows that come and go"
            )
        if count is None and capacity is None:
            raise SchemaError(
                f"archetype {name} needs either count (rows that every world always has) or capacity (rows come and go)"
            )
        if count is not None:
            self._check_rows("count", count)
            if limit is not None or ephemeral:
                raise SchemaError(f"archetype {name}: limit and ephemeral go with capacity, not with count")
        else:
            self._check_rows("capacity", capacity)
            limit = capacity if limit is None else limit
            self._check_rows("limit", limit)
            if limit < capacity:
                raise SchemaError(f"archetype {name}: limit must be at least capacity, got {limit} and {capacity}")
        for what, given in (("ephemeral", ephemeral), ("scratch", scratch)):
            if not isinstance(given, bool):
                raise SchemaError(f"archetype {name}: {what} must be True or False, got {given!r}")
        if scratch and (ephemeral or limit != capacity):
            raise SchemaError(
                f"archetype {name}: scratch excludes ephemeral, which its rows are anyway, and limit, because "
                "the size of a grown table would be state"
            )
        self.components = components
        self.count, self.capacity, self.limit = count, capacity, limit
        self.ephemeral, self.scratch = ephemeral, scratch
        self.number = 0  # of the table in handles of rows, from 1, dynamic tables first; a program gives it

    def __repr__(self) -> str:
        rows = f"count={self.count}" if self.count is not None else f"capacity={self.capacity}"
        return f"Archetype({self.name!r}, {', '.join(c.__name__ for c in self.components)}, {rows})"

    def _check_rows(self, what: str, rows: Any) -> None:
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_ROWS:
            raise SchemaError(
                f"archetype {self.name}: {what} must be an integer from 1 to {MAX_ROWS} (rows have 32-bit numbers), "
                f"got {rows!r}"
            )

    def within(self, library: str) -> Archetype:
        """The same, as a table of a library: named ``"grid.Cells"``."""
        named = copy.copy(self)
        named.name = f"{library}.{self.name}"
        return named

    def of(self, components: Iterable[type[Component]]) -> Archetype:
        """The same with other classes of the same components."""
        made = copy.copy(self)
        made.components = tuple(components)
        return made

    @property
    def dynamic(self) -> bool:
        return self.capacity is not None

    @property
    def most_rows(self) -> int:
        """The greatest number of rows that a world can have."""
        return self.limit if self.dynamic else self.count

    @property
    def alone(self) -> bool:
        """Whether a world has at most one row, so that no two rows of a world run at once."""
        return self.most_rows == 1


def component(name: str, **fields: Any) -> type[Component]:
    """A component class made by call, for fields that depend on options: ``component("Cells", content=u8[rows])``."""
    if not isinstance(name, str):
        raise TypeError(f'component takes its name first, component("Cells", content=u8[9]), got {name!r}')
    module = sys._getframe(1).f_globals.get("__name__", __name__)  # libraries may make components of one name
    return type(name, (Component,), {"__annotations__": fields, "__module__": module})


def check_component(component: Any, where: str) -> None:
    if not (isinstance(component, type) and issubclass(component, Component) and component is not Component):
        raise SchemaError(f"{where}: {component!r} is not a component class{_component_hint(component)}")


def _component_hint(given: Any) -> str:
    """What to write in place of something that is not a component class, or nothing."""
    if isinstance(given, (list, tuple)):
        return '; list the classes without brackets: Archetype("Cart", CartState, Push, count=1)'
    if isinstance(given, str):
        return f"; give the class, not its name: {given}"
    if isinstance(given, Component):
        return f"; give the class, not an instance of it: {type(given).__name__}"
    if isinstance(given, type) and issubclass(given, Struct):
        return f"; {given.__name__} is a struct, a part of components: inherit from Component, or make it a field"
    if isinstance(given, type) and given is not Component:
        return f"; inherit from Component: class {given.__name__}(Component)"
    return ""


class _Items:
    """Systems, those in C++ by name, and parts of task graphs."""

    def __init__(self, *items: str | PythonSystem[Any, Any] | _Items) -> None:
        for item in items:
            if not isinstance(item, (str, PythonSystem, _Items)):
                what = "Repeat" if isinstance(self, Repeat) else "a task graph"
                raise SchemaError(
                    f"{what} lists functions with @system, names of systems in C++, and Repeat(times, ...) of them, "
                    f"got {item!r}"
                )
        self.items = items
        self.owner: type | None = None  # the class that has it as an attribute
        self.total: int = max((item.total for item in items if isinstance(item, _Items)), default=1)

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = self.owner or owner

    @property
    def has_python_systems(self) -> bool:
        return any(isinstance(i, PythonSystem) or (isinstance(i, _Items) and i.has_python_systems) for i in self.items)


class Repeat(_Items):
    """A part of a task graph that runs ``times`` times, one after the other: ``Repeat(4, "collide", "solve")``.

    It is a loop, so its code does not grow with ``times``. ``world.repetition()`` says which time it is, from 0; random
    streams differ between repetitions. Repeats may be nested.

    Args:
        times: from 1 to ``MAX_REPETITIONS``, those of repeats around it and within it multiplied.
        items: as those of a ``TaskGraph``, at least one.

    Raises SchemaError for anything else.
    """

    def __init__(self, times: int, *items: str | PythonSystem[Any, Any] | _Items) -> None:
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= MAX_REPETITIONS:
            raise SchemaError(
                f"Repeat needs the number of repetitions first, an integer from 1 to {MAX_REPETITIONS}, got {times!r}"
            )
        if not items:
            raise SchemaError(f"Repeat({times}) repeats nothing; name systems behind the number")
        super().__init__(*items)
        self.times = times
        self.total *= times
        if self.total > MAX_REPETITIONS:
            raise SchemaError(f"nested Repeats run a system {self.total} times; {MAX_REPETITIONS} are allowed")


class TaskGraph(_Items):
    """Systems in the order in which they run, ``Repeat``s of them, and further task graphs.

    A system in Python is the function itself, ``TaskGraph(move, judge)``, one in C++ its name.

    A task graph, or a ``Repeat``, that is an attribute of a ``Library`` is a fragment: its names are those of the
    library's systems. Elsewhere a library's system is named ``"grid.insert"``.
    """


def homogeneous_dtype(component: type[Component]) -> torch.dtype | None:
    """The one dtype of all fields, if there is one and no padding, so that a column is one dense tensor; else None."""
    dtypes = {field.type.dtype for field in component.fields}
    return dtypes.pop() if len(dtypes) == 1 else None
