"""Resolves a declaration against its systems: tables, columns, and the nodes of every task graph."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import count
from typing import Any

from .columns import Column
from .errors import SchemaError
from .roles import ENGINE_COMPONENTS, check_kinds, resolve
from .schema import (
    AUTHOR_STRUCTS,
    ENGINE_TENSORS,
    Archetype,
    Component,
    Environment,
    Field,
    Repeat,
    TaskGraph,
    check_component,
    check_identifier,
)
from .shared import BUILTIN_FAULTS, CODE_BITS, LANES, NODE_BITS
from .systems import BY_VALUE, Reach, System, Unit, read_systems

GRAPHS = ("start", "step", "observe")
MAX_NODES = 1 << NODE_BITS
MAX_FAULTS = 1 << CODE_BITS
ENGINE_PARAMETERS = (*BY_VALUE, *LANES, "Episode")
# What neither a component nor an archetype can be named, since the name has a meaning already where both are named: in
# signatures, beside them in the author's namespace, or in front of tensors. All else is the author's to use.
RESERVED_NAMES = frozenset((*ENGINE_PARAMETERS, "World", *AUTHOR_STRUCTS, *ENGINE_TENSORS))
MAX_DYNAMIC = 64  # bits of tbs::NodeKey::creates


@dataclass(frozen=True)
class Loop:
    """A ``Repeat`` of a task graph. ``number`` tells those of one program apart."""

    number: int
    times: int


@dataclass(frozen=True)
class Node:
    """A system over the rows of one table (``None``: once per world)."""

    graph: str
    index: int  # in the order of all graphs; names the system in fault words
    system: System
    table: Archetype | None
    occurrence: int  # how often the system has run before in its graph; separates random streams
    columns: tuple[Column | str, ...] = ()  # per parameter; Row, Entity, Episode, Warp, Block are the engine's own
    reads: frozenset[str] = frozenset()  # names of columns, and of dynamic tables for the set of their rows
    writes: frozenset[str] = frozenset()
    creates: tuple[str, ...] = ()  # dynamic tables in which it may create rows
    destroys: tuple[str, ...] = ()
    loops: tuple[Loop, ...] = ()  # in which it is, the outermost first
    # What its system may reach through World: columns, and dynamic tables whose rows it may look at.
    reached: frozenset[str] = frozenset()
    reached_writes: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()

    @property
    def changes(self) -> list[str]:
        """Dynamic tables that have to be settled after it."""
        return sorted({*self.creates, *self.destroys})

    @property
    def lanes(self) -> int:
        return self.system.lanes


@dataclass
class Program:
    """An environment, checked and resolved. Raises ``SchemaError`` where the declaration contradicts itself."""

    environment: Environment
    columns: dict[str, Column] = field(init=False)
    graphs: dict[str, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        self.archetypes: list[Archetype] = list(self.environment.archetypes)
        self.singletons: list[type[Component]] = list(self.environment.singletons)
        self.resources: list[type[Component]] = list(self.environment.resources)
        self.faults = (*BUILTIN_FAULTS, *self.environment.faults)
        self._check_tables()
        self._check_enums()
        self.columns = self._columns()
        self.dynamic: list[Archetype] = [archetype for archetype in self.archetypes if archetype.dynamic]
        self.systems = read_systems(Unit(self.environment.source))
        self._check_names_of_systems()
        self.graphs = self._graphs()
        for nodes in self.graphs.values():
            self._check_scratch(nodes)
        self._resolve_roles()

    def _check_kinds(self) -> None:
        """Refuse attributes of a wrong type, which would fail somewhere further on."""
        environment = self.environment
        sequences = ("archetypes", "singletons", "resources", "scratch", "kept", "reset_options", "enums", "faults")
        for name in sequences:
            if not isinstance(getattr(environment, name), (list, tuple)):
                raise SchemaError(
                    f"{environment.name}: {name} must be a list or tuple, got {getattr(environment, name)!r}"
                )
        for archetype in environment.archetypes:
            if not isinstance(archetype, Archetype):
                raise SchemaError(f"{environment.name}: archetypes must be Archetype(...) each, got {archetype!r}")
        for what in ("singletons", "resources", "scratch", "kept"):
            for component in getattr(environment, what):
                check_component(component, f"{environment.name}: {what}")
        for name in GRAPHS:
            if not isinstance(getattr(environment, name), TaskGraph):
                raise SchemaError(f"{environment.name}: {name} must be a TaskGraph, got {getattr(environment, name)!r}")
        check_kinds(environment)

    # ---- tables ----------------------------------------------------------------------------------------------------

    def _check_tables(self) -> None:
        names = [a.name for a in self.archetypes] + [c.__name__ for c in self.components]
        for name in names:
            if name in RESERVED_NAMES:
                raise SchemaError(
                    f"{self.environment.name}: no component or archetype can be named {name}, which the engine gives a "
                    f"meaning; such names are {', '.join(sorted(RESERVED_NAMES))}"
                )
            if names.count(name) > 1:
                raise SchemaError(
                    f"{self.environment.name}: the name {name} is used twice among archetypes and components"
                )
        for component in self.components:
            name = component.__name__
            if ENGINE_COMPONENTS.get(name, component) is not component:
                raise SchemaError(
                    f"{self.environment.name}: {name} is the engine's component; take torch_batchsim.{name}"
                )
        in_tables = {component for archetype in self.archetypes for component in archetype.components}
        for kind, components in (("singleton", self.singletons), ("resource", self.resources)):
            for component in components:
                if component in in_tables:
                    raise SchemaError(f"component {component.__name__} is a {kind} and in an archetype; make them two")
        for component in self.resources:
            if component in self.singletons:
                raise SchemaError(
                    f"component {component.__name__} is a singleton, which each world has, and a resource, which there "
                    "is once for all; make them two"
                )
        for component in self.environment.kept:
            if component not in self.singletons:
                raise SchemaError(f"component {component.__name__} is kept, which only singletons can be")
            if component in self.environment.scratch:
                raise SchemaError(f"component {component.__name__} is kept, and scratch, which nothing keeps")
        for component in self.environment.scratch:
            if component not in self.singletons and component not in in_tables:
                raise SchemaError(
                    f"component {component.__name__} is scratch, which singletons and components of archetypes can be"
                )
        for name in self.environment.reset_options:
            check_identifier(name, "an option of reset")
            if name == "reset_mask":
                raise SchemaError(f"{self.environment.name}: reset has the option 'reset_mask' already")
        for name in self.faults:
            check_identifier(name, "a fault")
        dynamic = sum(archetype.dynamic for archetype in self.archetypes)
        if dynamic > MAX_DYNAMIC:
            raise SchemaError(
                f"{self.environment.name} has {dynamic} archetypes with capacity; {MAX_DYNAMIC} are allowed"
            )
        if len(self.faults) != len(set(self.faults)) or len(self.faults) + dynamic >= MAX_FAULTS:
            raise SchemaError(f"faults must be distinct, not {', '.join(BUILTIN_FAULTS)}, and fewer than {MAX_FAULTS}")

    def _check_enums(self) -> None:
        """Names of enumerations and of their values stand beside those of components and archetypes in C++."""
        taken = {*RESERVED_NAMES, *(a.name for a in self.archetypes), *(c.__name__ for c in self.components)}
        for given in self.environment.enums:
            if not (isinstance(given, type) and issubclass(given, IntEnum)) or not given.__members__:
                raise SchemaError(f"{self.environment.name}: enums must be IntEnum classes with values, got {given!r}")
            for name in (given.__name__, *given.__members__):
                check_identifier(name, f"enumeration {given.__name__} or a value of it")
                if name in taken:
                    raise SchemaError(
                        f"{self.environment.name}: enumeration {given.__name__} gives C++ the name {name}, which is "
                        "that of something else there; rename it"
                    )
                taken.add(name)
            for name, value in given.__members__.items():
                if not -(2**31) <= value < 2**31:
                    raise SchemaError(f"{given.__name__}.{name} is {int(value)}, which 32 bits with a sign cannot hold")

    @cached_property
    def has_entities(self) -> bool:
        """Whether worlds need what handles of rows are made from."""
        fields = (f.type.name for c in self.components for f in c.fields)
        parameters = (p.type for nodes in self.graphs.values() for n in nodes for p in n.system.parameters)
        kinds = (r.kind for nodes in self.graphs.values() for n in nodes for r in n.system.reaches)
        asked = set(kinds) & {"find", "index_of", "entity", "alive", "destroy"}
        return bool(self.dynamic or asked or "Entity" in fields or "Entity" in parameters)

    @property
    def kept(self) -> set[str]:
        """Names of the columns that a new episode does not zero."""
        return {component.__name__ for component in self.environment.kept}

    @cached_property
    def components(self) -> list[type[Component]]:
        """All components, each once, in order of declaration."""
        found = dict.fromkeys(c for archetype in self.archetypes for c in archetype.components)
        found.update(dict.fromkeys((*self.singletons, *self.resources)))
        return list(found)

    def _columns(self) -> dict[str, Column]:
        scratch = self.environment.scratch
        columns = []
        for a in self.archetypes:
            rows = a.capacity or a.count
            for c in a.components:
                own = {"dynamic": a.dynamic, "scratch": a.scratch or c in scratch}
                columns.append(Column(f"{a.name}.{c.__name__}", a.name, c, rows, singleton=False, **own))
        columns += [Column(c.__name__, c.__name__, c, 1, singleton=True, scratch=c in scratch) for c in self.singletons]
        columns += [Column(c.__name__, c.__name__, c, 1, singleton=True, resource=True) for c in self.resources]
        distinct: dict[str, Column] = {}  # by c_name: A.B_C and A_B.C are two columns
        for column in columns:
            name = column.name.replace(".", "_")
            while name in distinct:
                name += "_"
            distinct[name] = replace(column, c_name=name)
        return {column.name: column for column in distinct.values()}

    def find(self, name: str, what: str = "tensor") -> tuple[Column, Field | None]:
        """The column (and field) that is meant by ``"Cart.CartState"``, ``"Cart.CartState.x"``, ``"Clock.time"``."""
        if name in self.columns:
            return self.columns[name], None
        column_name, _, field_name = name.rpartition(".")
        column = self.columns.get(column_name)
        if column is not None:
            for candidate in column.component.fields:
                if candidate.name == field_name:
                    return column, candidate
            fields = ", ".join(f.name for f in column.component.fields)
            raise KeyError(
                f"{what} {name!r}: component {column.component.__name__} has no field {field_name!r}; it has {fields}"
            )
        raise KeyError(
            f"{what} {name!r} does not exist{_suggestion(name, self.columns)}; columns: {', '.join(self.columns)}"
        )

    def _check_names_of_systems(self) -> None:
        declared = {*(a.name for a in self.archetypes), *(c.__name__ for c in self.components), *AUTHOR_STRUCTS}
        declared |= {name for given in self.environment.enums for name in (given.__name__, *given.__members__)}
        for system in self.systems.values():
            if system.name in declared:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would hide what has this name already: a component, an "
                    f"archetype, an enumeration, a value of one, or one of {', '.join(AUTHOR_STRUCTS)}"
                )

    # ---- graphs ----------------------------------------------------------------------------------------------------

    def _graphs(self) -> dict[str, list[Node]]:
        graphs: dict[str, list[Node]] = {}
        index, numbers = 0, count()
        for graph in GRAPHS:
            nodes: list[Node] = []
            entries = list(_flattened(getattr(self.environment, graph).items, numbers))
            names = [name for name, _ in entries]
            for position, (name, loops) in enumerate(entries):
                if name not in self.systems:
                    known = ", ".join(self.systems) or "none"
                    raise SchemaError(
                        f"task graph '{graph}' of {self.environment.name} names system '{name}', which "
                        f"{self.environment.source.name} does not define; it defines: {known}"
                    )
                for table, columns in self._matches(self.systems[name]):
                    system = self.systems[name]
                    occurrence = names[:position].count(name)
                    accesses = self._accesses(system, table, columns)
                    nodes.append(Node(graph, index, system, table, occurrence, columns, **accesses, loops=loops))
                    if graph == "observe" and nodes[-1].changes:
                        raise SchemaError(
                            f"{system.place}: system '{name}' creates or destroys rows, which 'observe' may not: it "
                            "only looks at the state"
                        )
                    index += 1
            graphs[graph] = nodes
        if index >= MAX_NODES:
            raise SchemaError(f"{self.environment.name} has {index} nodes; at most {MAX_NODES - 1} are allowed")
        return graphs

    def _check_scratch(self, nodes: list[Node]) -> None:
        """Refuse nodes of a task graph that read scratch before any of them has written it."""
        come_and_go = {a.name for a in self.dynamic if a.scratch}  # rows created within the graph, not in 'observe'
        written: set[str] = set()
        for node in nodes:
            written |= node.writes
            for name in sorted(node.reads):
                column = self.columns.get(name)
                if (column.table if column else name) in come_and_go:
                    stale = node.graph == "observe"
                else:
                    stale = column is not None and column.scratch and name not in written
                if stale:
                    raise SchemaError(
                        f"{node.system.place}: system '{node.system.name}' reads {name}, which is scratch and holds "
                        f"anything when '{node.graph}' begins; no system before it in '{node.graph}' writes it"
                    )

    def _matches(self, system: System) -> list[tuple[Archetype | None, tuple[Column | str, ...]]]:
        singletons = {c.__name__ for c in (*self.singletons, *self.resources)}
        in_tables = {c.__name__ for a in self.archetypes for c in a.components}
        query = []
        for parameter in system.parameters:
            if parameter.type in in_tables:
                query.append(parameter.type)
            elif parameter.type not in singletons and parameter.type not in ENGINE_PARAMETERS:
                known = sorted(in_tables | singletons)
                if parameter.type in ENGINE_COMPONENTS:
                    raise SchemaError(
                        f"{system.place}: system '{system.name}' names component '{parameter.type}', which does not "
                        "exist in any archetype; the agents' archetype must have it"
                    )
                raise SchemaError(
                    f"{system.place}: system '{system.name}' names component '{parameter.type}', which does not exist"
                    f"{_suggestion(parameter.type, known)}; components: {', '.join(known)}"
                )
        tables: list[Archetype | None] = [None]
        if query:
            tables = [a for a in self.archetypes if set(query) <= {c.__name__ for c in a.components}]
            if not tables:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' matches no archetype: none has all of {', '.join(query)}"
                )
        return [(table, self._arguments(system, table)) for table in tables]

    def _arguments(self, system: System, table: Archetype | None) -> tuple[Column | str, ...]:
        columns: list[Column | str] = []
        for parameter in system.parameters:
            if parameter.type in BY_VALUE and table is None:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' runs once per world and so has no {parameter.type}"
                )
            if parameter.type in (*BY_VALUE, *LANES):
                columns.append(parameter.type)
                continue
            own = self.columns.get(f"{table.name}.{parameter.type}") if table else None
            if own is None and parameter.writes and parameter.type in {c.__name__ for c in self.resources}:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would write {parameter.type}, a resource, which all "
                    "worlds read at once; take it as const, or make it a singleton"
                )
            if own is None and parameter.writes and table is not None and not table.alone:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would write {parameter.type}, which a world has once, "
                    f"from {_rows(table)} of {table.name} at a time; take it as const, or write it in a system "
                    "that runs once per world"
                )
            columns.append("Episode" if parameter.type == "Episode" else own or self.columns[parameter.type])
        return tuple(columns)

    def _accesses(
        self, system: System, table: Archetype | None, columns: tuple[Column | str, ...]
    ) -> dict[str, Any]:
        """What the system reads, writes, creates, destroys and reaches over ``table``, by the names of Node's fields.

        Checks that rows that run at once do not meet in what they write, and what systems on several lanes may do.
        """
        self._check_lanes(system)
        reads, writes, creates, destroys = set(), set(), set(), set()
        reached, reached_writes, looks = set(), set(), set()
        for parameter, column in zip(system.parameters, columns, strict=True):
            if isinstance(column, Column) or column == "Episode":
                (writes if parameter.writes else reads).add(column if isinstance(column, str) else column.name)
        written = set(writes)
        if table is not None and table.dynamic:
            reads.add(table.name)
        for reach in self._clear_reaches(system):
            if reach.kind in ("rows", "find", "get"):
                column = self._reached(system, table, reach)
                if not reach.writes and column.name in written and table is not None and not table.alone:
                    raise SchemaError(
                        f"{system.place}: system '{system.name}' reads {column.name} of other rows while each row "
                        "writes its own; split it into a system that reads and one that writes"
                    )
                (reached_writes if reach.writes else reached).add(column.name)
                if column.dynamic:
                    looks.add(column.table)
            elif reach.kind in ("count", "index_of", "entity", "create", "create_at"):
                archetype = self._archetype(system, reach)
                if archetype.dynamic:
                    (creates if reach.kind in ("create", "create_at") else looks).add(archetype.name)
            elif reach.kind == "destroy_self" or (reach.kind == "destroy" and reach.archetype):
                archetype = table if reach.kind == "destroy_self" else self._archetype(system, reach)
                if not archetype.dynamic:
                    raise SchemaError(
                        f"{system.place}: system '{system.name}' destroys rows of {archetype.name}, which has count="
                        f"{archetype.count} rows in every world; rows come and go in archetypes with capacity="
                    )
                destroys.add(archetype.name)
            elif reach.kind in ("destroy", "alive"):
                names = {archetype.name for archetype in self.dynamic}
                if not names and reach.kind == "destroy":
                    raise SchemaError(
                        f"{system.place}: system '{system.name}' destroys, but no archetype is declared with capacity="
                    )
                (destroys if reach.kind == "destroy" else looks).update(names)
        writes |= creates | destroys | reached_writes
        reads |= reached | looks
        return {
            "reads": frozenset(reads - writes),
            "writes": frozenset(writes),
            "creates": tuple(a.name for a in self.dynamic if a.name in creates),
            "destroys": tuple(a.name for a in self.dynamic if a.name in destroys),
            "reached": frozenset(reached),
            "reached_writes": frozenset(reached_writes),
            "looks": frozenset(looks),
        }

    def _clear_reaches(self, system: System) -> Iterator[Reach]:
        """Its reaches, but for those that it has declared otherwise since their names do not say what is meant."""
        names = {archetype.name for archetype in self.archetypes} | {c.__name__ for c in self.components}
        for reach in system.reaches:
            named = {reach.archetype, reach.component} - {None}
            if system.declared is not None and reach not in system.declared and (reach.unclear or not named <= names):
                continue
            if reach.unclear:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' asks for {reach}, in which a template or a macro fills in "
                    f"a name; say what it reaches: TBS_SYSTEM TBS_REACHES({_example(reach)}) void {system.name}(...)"
                )
            yield reach

    def _check_lanes(self, system: System) -> None:
        if system.lanes == 1:
            if system.kinds("create_at"):
                raise SchemaError(
                    f"{system.place}: system '{system.name}' uses create_at, which is for systems that take Warp & or "
                    "Block &; write create"
                )
            return
        if sum(parameter.type in LANES for parameter in system.parameters) > 1:
            raise SchemaError(f"{system.place}: system '{system.name}' takes both Warp & and Block &; take one")
        if system.shared_writes:
            raise SchemaError(
                f"{system.place}: system '{system.name}' runs on several lanes, all of which would do "
                f"'{system.shared_writes[0]}': write what lanes share inside of operations, such as "
                "once([&] { ... }) or for_each(n, [&](u32 i) { ... })"
            )
        for kind, instead in (("create", "create_at<...>(i, ...)"), ("random", "random(i)")):
            if system.kinds(kind):
                raise SchemaError(
                    f"{system.place}: system '{system.name}' runs on several lanes, each of which would do {kind}(): "
                    f"write {instead}, where i is the item"
                )

    def _archetype(self, system: System, reach: Reach) -> Archetype:
        names = {archetype.name: archetype for archetype in self.archetypes}
        archetype = names.get(reach.archetype)
        if archetype is None:
            raise SchemaError(
                f"{system.place}: system '{system.name}' asks for {reach}, but there is no archetype of that name"
                f"{_suggestion(reach.archetype or '', names)}; archetypes: {', '.join(names)}"
            )
        if reach.kind in ("create", "create_at") and not archetype.dynamic:
            raise SchemaError(
                f"{system.place}: system '{system.name}' asks for {reach}, but {archetype.name} has count="
                f"{archetype.count} rows in every world; rows come and go in archetypes with capacity="
            )
        return archetype

    def _reached(self, system: System, table: Archetype | None, reach: Reach) -> Column:
        name = f"{reach.archetype}.{reach.component}" if reach.archetype else str(reach.component)
        column = self.columns.get(name)
        if column is None or column.singleton != (reach.archetype is None):
            raise SchemaError(
                f"{system.place}: system '{system.name}' asks for {reach}, which does not exist"
                f"{_suggestion(name, self.columns)}; columns: {', '.join(self.columns)}"
            )
        if reach.writes and column.resource:
            raise SchemaError(
                f"{system.place}: system '{system.name}' could write by {reach} a resource, which all worlds read at "
                f"once; put const in front of {reach.component}, or make it a singleton"
            )
        if reach.writes and table is not None and not table.alone:
            raise SchemaError(
                f"{system.place}: system '{system.name}' could write by {reach} from {_rows(table)} of "
                f"{table.name} at a time; put const in front of {reach.component}, or write it in a system "
                "that runs once per world"
            )
        return column

    @cached_property
    def observe_only(self) -> set[str]:
        """Columns that only ``observe`` writes: it writes them wholly, so a new episode need not zero them."""
        written: dict[str, set[str]] = {graph: set() for graph in GRAPHS}
        for graph in GRAPHS:
            for node in self.graphs[graph]:
                written[graph] |= node.writes
        return written["observe"] - written["step"] - written["start"]

    # ---- outputs ---------------------------------------------------------------------------------------------------

    @cached_property
    def outputs(self) -> list[Column]:
        """Columns that are observations or infos, each once."""
        return list(dict.fromkeys((*self.observations.values(), *self.info.values())))

    @cached_property
    def written_in_place(self) -> list[Column]:
        """Those of the outputs that ``observe`` writes wholly and nobody reads before: they may lie anywhere.

        The others are state: each step and reset delivers a copy of them.
        """
        return [column for column in self.outputs if column.name in self.observe_only and not self._read_back(column)]

    def _read_back(self, column: Column) -> bool:
        """Whether a system, or the check of actions, looks at what an earlier step has written."""
        if column is self.active:
            return True
        if any(column.name in node.reads for graph in ("start", "step") for node in self.graphs[graph]):
            return True
        for node in self.graphs["observe"]:
            if column.name in node.writes:
                return False
            if column.name in node.reads:
                return True
        return False

    @cached_property
    def delivered(self) -> list[Column]:
        """The outputs that are state."""
        return [column for column in self.outputs if column not in self.written_in_place]

    def output_field(self, column: Column) -> str:
        """The name in the context of an output's place."""
        return f"output_{column.c_name}" if column in self.delivered else f"column_{column.c_name}"

    # ---- roles in the vector environment ---------------------------------------------------------------------------

    def _resolve_roles(self) -> None:
        roles = resolve(self.environment, self.archetypes, self.columns, self.find)
        self.agents, self.action, self.reward, self.agent_end = roles.agents, roles.action, roles.reward, roles.end
        self.observations, self.info = roles.observations, roles.info
        self.action_space, self.observation_space = roles.action_space, roles.observation_space
        for node in (*self.graphs["start"], *self.graphs["observe"]):
            if self.agent_end is not None and self.agent_end.name in node.reads | node.writes:
                raise SchemaError(
                    f"{node.system.place}: system '{node.system.name}' of '{node.graph}' takes AgentEnd, which only "
                    "systems of 'step' may: it says what this step has ended"
                )

    @property
    def active(self) -> Column | None:
        """Booleans, one for each agent: whether it takes part; None if all always do."""
        return self.info.get("active")

    @property
    def agent_flags(self) -> bool:
        """Whether agents have flags beside those of their world."""
        return self.agents.count > 1 or self.agent_end is not None


def _flattened(
    items: Iterable[str | Repeat], numbers: Iterator[int], loops: tuple[Loop, ...] = ()
) -> Iterator[tuple[str, tuple[Loop, ...]]]:
    """The systems of a task graph in order, each with the loops in which it is."""
    for item in items:
        if isinstance(item, Repeat):
            yield from _flattened(item.items, numbers, (*loops, Loop(next(numbers), item.times)))
        else:
            yield item, loops


def _example(reach: Reach) -> str:
    """How a reach is declared, with names to be filled in."""
    types = [name for name, there in (("Archetype", reach.archetype), ("Component", reach.component)) if there]
    if reach.component and not reach.writes:
        types[-1] = "const Component"
    return f"{reach.kind}<{', '.join(types)}>"


def _rows(table: Archetype) -> str:
    return "many rows" if table.dynamic else f"{table.count} rows"


def _suggestion(name: str, known: object) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
