"""Resolves a declaration against its systems: tables, columns, and the nodes of every task graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

from ..base.names import check_identifier, suggestion
from ..base.shared import BUILTIN_FAULTS, CHECK_FAULT, CODE_BITS, NODE_BITS
from ..declare.checks import Checks
from ..declare.columns import Column
from ..declare.declaration import ENGINE_HEADERS
from ..declare.environment import Environment
from ..declare.fields import Field
from ..declare.library import Library
from ..declare.roles import INFO_ROLES, check_agents, check_kinds, resolve
from ..declare.schema import AUTHOR_STRUCTS, Archetype, Component, Repeat, TaskGraph
from ..errors import SchemaError, class_place, warn_at
from ..read.cpp_rules import written_copies
from ..read.cpp_text import Source, global_names
from ..read.sites import FaultSite, check_sites
from ..read.systems import System, Unit, read_units, systems_in
from .queries import Queries
from .scopes import Scopes, column_name, qualified_name

GRAPHS = ("start", "step", "observe")
MAX_NODES = 1 << NODE_BITS
MAX_FAULTS = 1 << CODE_BITS
_REPORTED_BY_CALLS = ("nan", "stale_entity")  # of the engine's own faults
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
    number: int  # its place in Program.nodes
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
    def word_number(self) -> int:
        """Its number in fault words and log records, where 0 is the engine's check of actions."""
        return self.number + 1

    @property
    def changes(self) -> list[str]:
        """Dynamic tables that have to be settled after it."""
        return sorted({*self.creates, *self.destroys})

    @property
    def lanes(self) -> int:
        return self.system.lanes

    @property
    def workspaces(self) -> list[Column]:
        """The memory that its system has of its own."""
        return [column for column in self.columns if isinstance(column, Column) and column.workspace]


@dataclass
class Program:
    """An environment, checked and resolved. Raises ``SchemaError`` where the declaration contradicts itself."""

    environment: Environment
    checks: Checks | None = None
    """What a checked build of it looks for; None for an ordinary build."""
    log: int = 0
    """Lines of ``world.log`` that are kept of each world; 0 for a build without."""
    columns: dict[str, Column] = field(init=False)
    nodes: tuple[Node, ...] = field(init=False)
    """Those of all task graphs in the order of ``GRAPHS``."""

    def __post_init__(self) -> None:
        self._check_kinds()
        self.scopes = Scopes(self.environment)
        declared = [self.scopes.author, *self.scopes.libraries.values()]
        self.archetypes: list[Archetype] = [archetype for scope in declared for archetype in scope.archetypes]
        if not self.archetypes:
            raise SchemaError(
                f"{self.environment.name} has no archetypes: the agents, at least, need one, such as "
                'archetypes = [Archetype("Agent", Move, View, Reward, count=1)]'
            )
        self.singletons: list[type[Component]] = [component for scope in declared for component in scope.singletons]
        self.resources: list[type[Component]] = [component for scope in declared for component in scope.resources]
        self.scratch: list[type[Component]] = [component for scope in declared for component in scope.scratch]
        self.workspace: list[type[Component]] = [component for scope in declared for component in scope.workspace]
        of_libraries = (f"{scope.name}.{fault}" for scope in declared[1:] for fault in scope.faults)
        self.faults = (*BUILTIN_FAULTS, *self.scopes.author.faults, *of_libraries)
        self._check_tables()
        self.columns = self._columns()
        self.workspaces = _distinct(
            Column(qualified_name(c), qualified_name(c), c, 1, singleton=True, workspace=True) for c in self.workspace
        )
        self.queries = Queries(self.scopes, self.archetypes, self.columns, self.workspaces.values())
        self.dynamic: list[Archetype] = [archetype for archetype in self.archetypes if archetype.dynamic]
        self.units = [
            Unit(source, scope.name, scope.declaration.include_folders)
            for scope in self.scopes
            for source in scope.declaration.sources
        ]
        self.sources = read_units(*self.units)
        self.check_sites = list(check_sites([source for _, source in self.sources]))
        most = (CHECK_FAULT - self.first_check_code) // 2 - 1
        if len(self.check_sites) > most:
            raise SchemaError(
                f"{self.environment.name} calls world.check at {len(self.check_sites)} places; with so many faults at "
                f"most {most} are allowed"
            )
        self.files = {source.path: source.whole for _, source in self.sources}
        self._check_types()
        self.systems = self._systems(systems_in(self.sources))
        check_agents(self.environment, self.archetypes)
        self.nodes = tuple(self._nodes())
        if len(self.nodes) >= MAX_NODES:
            raise SchemaError(
                f"{self.environment.name} has {len(self.nodes)} nodes; at most {MAX_NODES - 1} are allowed"
            )
        for nodes in self.graphs.values():
            self._check_scratch(nodes)
        self._resolve_roles()
        self._warn_of_idle_systems()
        self._warn_of_written_copies()
        self._warn_of_unwritten_outputs()
        self._warn_of_state_in_observe()
        if self.environment.step is Environment.step:
            raise SchemaError(
                f"{self.environment.name} has no 'step': name the systems of a step, step = TaskGraph(\"move\", ...); "
                "TaskGraph() where nothing moves"
            )

    def _check_kinds(self) -> None:
        """Refuse attributes of a wrong type, which would fail somewhere further on."""
        environment = self.environment
        for name in GRAPHS:
            given = getattr(environment, name)
            if not isinstance(given, TaskGraph):
                systems = [given] if isinstance(given, str) else given if isinstance(given, (list, tuple)) else ["move"]
                write = f"{name} = TaskGraph({', '.join(map(repr, systems))})"
                raise SchemaError(f"{environment.name}: {name} must be a TaskGraph, got {given!r}; write {write}")
        check_kinds(environment)

    # ---- tables ----------------------------------------------------------------------------------------------------

    def _check_tables(self) -> None:
        in_tables = {component for archetype in self.archetypes for component in archetype.components}
        for kind, components in (("singleton", self.singletons), ("resource", self.resources)):
            for component in components:
                if component in in_tables:
                    raise SchemaError(
                        f"component {component.__name__} is a {kind} and in an archetype; take it out of one, "
                        "or give each a component of its own"
                    )
        for component in self.resources:
            if component in self.singletons:
                raise SchemaError(
                    f"component {component.__name__} is a singleton, which each world has, and a resource, which there "
                    "is once for all; take it out of one"
                )
        self._check_workspace(in_tables)
        for component in self.kept_components:
            if component not in self.singletons:
                raise SchemaError(
                    f"component {component.__name__} is kept, which only singletons can be: name it in singletons too, "
                    "or take it out of kept"
                )
            if component in self.scratch:
                raise SchemaError(
                    f"component {component.__name__} is kept, and scratch, which nothing keeps: take it out of one"
                )
        for component in self.scratch:
            unused = component.library is not None  # a library's, which no archetype has taken
            if component not in self.singletons and component not in in_tables and not unused:
                raise SchemaError(
                    f"component {component.__name__} is scratch, which only singletons and components of archetypes "
                    "can be: add it to one of these, or take it out of scratch"
                )
        for scope in self.scopes:
            for name in scope.faults:
                check_identifier(name, "a fault")
                if name in BUILTIN_FAULTS:
                    raise SchemaError(
                        f"faults of {scope.declaration.title}: {name!r} is a fault of the engine's own; rename it"
                    )
                if scope.faults.count(name) > 1:
                    raise SchemaError(f"faults of {scope.declaration.title} name {name!r} twice; leave one out")
        dynamic = sum(archetype.dynamic for archetype in self.archetypes)
        if dynamic > MAX_DYNAMIC:
            raise SchemaError(
                f"{self.environment.name} has {dynamic} archetypes with capacity; {MAX_DYNAMIC} are allowed"
            )
        if len(self.faults) + dynamic >= MAX_FAULTS - 1:
            raise SchemaError(f"{self.environment.name} must have fewer than {MAX_FAULTS - 1} faults")

    def _check_workspace(self, in_tables: set[type[Component]]) -> None:
        others = {"singletons": self.singletons, "resources": self.resources, "scratch": self.scratch}
        for component in self.workspace:
            where = [f"in {what}" for what, listed in others.items() if component in listed]
            where += ["in an archetype"] * (component in in_tables) + ["twice"] * (self.workspace.count(component) > 1)
            if where:
                raise SchemaError(
                    f"component {component.__name__} is workspace, which lasts for one system, and listed {where[0]}; "
                    "list it in workspace only, once"
                )

    @property
    def first_check_code(self) -> int:
        """Of faults: two codes for checks whose place is not known, behind them two for each of ``check_sites``."""
        return len(self.faults) + len(self.dynamic)

    @cached_property
    def has_entities(self) -> bool:
        """Whether worlds need what handles of rows are made from."""
        fields = (f.type.name for c in self.components for f in c.fields)
        parameters = (p.type for n in self.nodes for p in n.system.parameters)
        kinds = (r.kind for n in self.nodes for r in n.system.reaches)
        asked = set(kinds) & {"find", "index_of", "entity", "tables", "alive", "destroy"}
        return bool(self.dynamic or asked or "Entity" in fields or "Entity" in parameters)

    @property
    def kept_components(self) -> list[type[Component]]:
        return [component for scope in self.scopes for component in scope.kept]

    @property
    def kept(self) -> set[str]:
        """Names of the columns that a new episode does not zero."""
        return {qualified_name(component) for component in self.kept_components}

    @cached_property
    def held_columns(self) -> list[Column]:
        """Columns of which worlds can hold values for all later episodes."""
        return [c for c in self.columns.values() if c.name in self.kept] if self.environment.reset_options else []

    @cached_property
    def components(self) -> list[type[Component]]:
        """All components, each once: those of libraries first, also where no table has them."""
        return list(dict.fromkeys(component for scope in self.scopes for component in scope.all_components))

    @property
    def parameters(self) -> dict[str, bool | int | float]:
        """Values of all parameters by name: ``"gust"``, ``"grid.cell"``."""
        return self._options("parameters")

    @property
    def constants(self) -> dict[str, bool | int | float | str]:
        return self._options("constants")

    def _options(self, what: str) -> dict[str, Any]:
        named = ((f"{scope.name}." if scope.name else "", getattr(scope.declaration, what)) for scope in self.scopes)
        return {f"{prefix}{name}": value for prefix, values in named for name, value in values.items()}

    def _columns(self) -> dict[str, Column]:
        columns = []
        for a in self.archetypes:
            rows = a.capacity or a.count
            for c in a.components:
                own = {"dynamic": a.dynamic, "scratch": a.scratch or c in self.scratch}
                columns.append(Column(column_name(a, c), a.name, c, rows, singleton=False, **own))
        for components, resource in ((self.singletons, False), (self.resources, True)):
            for c in components:
                own = {"resource": resource, "scratch": c in self.scratch}
                columns.append(Column(qualified_name(c), qualified_name(c), c, 1, singleton=True, **own))
        return _distinct(columns)

    def is_prefix(self, name: str) -> bool:
        """Whether names of fields go on behind it: a table, ``"Drone.grid"``, a column, or a struct in one."""
        names = (f"{column.name}.{part.name}" for column in self.columns.values() for part in column.component.fields)
        return any(full.startswith(f"{name}.") for full in names)

    def find(self, name: str, what: str = "tensor") -> tuple[Column, Field | None]:
        """The column (and field) that is meant by ``"Cart.CartState"``, ``"Cart.CartState.x"``, ``"Clock.time"``.

        Raises KeyError; TypeError for a struct in a component whose fields have different types.
        """
        if name in self.columns:
            return self.columns[name], None
        parts = name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            column, field_name = self.columns.get(".".join(parts[:end])), ".".join(parts[end:])
            if column is None:
                continue
            component = column.component
            known = {candidate.name: candidate for candidate in component.fields}
            selected = known.get(field_name) or component.layout.member_at(field_name)
            if selected is not None:
                return column, selected
            raise KeyError(
                f"{what} {name!r}: component {component.__name__} has no field {field_name!r}; it has "
                f"{', '.join(known)}"
            )
        if ".".join(parts[:-1]) in self.workspaces or name in self.workspaces:
            raise KeyError(f"{what} {name!r} does not exist: it is of workspace, which lasts while one system runs")
        # Without the archetype, of a column or of a field in one.
        fields = [f"{c.name}.{field.name}" for c in self.columns.values() for field in c.component.fields]
        ends = [known for known in (*self.columns, *fields) if known.endswith(f".{name}")]
        near = suggestion(ends[0] if ends else name, [*self.columns, *ends])
        raise KeyError(f"{what} {name!r} does not exist{near}; columns: {', '.join(self.columns)}")

    # ---- graphs ----------------------------------------------------------------------------------------------------

    def _systems(self, read: dict[str, System]) -> dict[str, System]:
        """All systems by name: ``"move"``, or ``"grid.insert"`` where it is of a library."""
        systems = {}
        for system in read.values():
            if system.name in AUTHOR_STRUCTS or self.scopes.is_declared(system.name, system.namespace):
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would hide what has this name already: a component, an "
                    f"archetype, an enumeration, a value of one, or one of {', '.join(AUTHOR_STRUCTS)}"
                )
            name = f"{system.namespace}.{system.name}" if system.namespace else system.name
            systems[name] = replace(system, name=name, sites=tuple(map(self._resolved, system.sites)))
        return systems

    def _resolved(self, site: FaultSite) -> FaultSite:
        """The call with the table's name as in ``tensor``; without, if what it names is not an archetype."""
        if site.call == "fail":
            return site
        meanings = (self.scopes.meaning(name, site.namespace) for name in site.names)
        return replace(site, names=tuple(meaning.name for meaning in meanings if isinstance(meaning, Archetype)))

    def fault_place(self, node: Node, cause: str, table: str = "") -> str:
        """``"maze.h:41"``: the only call by which a node can have reported a fault, else the line of its system.

        A call in a library that the system uses counts as its system's line, since the author has not written it.

        Args:
            cause: one of ``faults``, or ``"table_full"`` with the name of the table.
        """
        system = node.system
        if cause in BUILTIN_FAULTS and cause not in _REPORTED_BY_CALLS:
            return system.place
        sites = [site for site in system.sites if site.can_report(cause)]
        if table:
            sites = [site for site in sites if not site.names or table in site.names]
        places = {site.place if site.namespace == system.namespace else system.place for site in sites}
        return places.pop() if len(places) == 1 else system.place

    def _check_types(self) -> None:
        """Refuse types and functions of a text that have the name of what the engine declares in front of it."""
        for namespace, source in self._sources_of_authors():
            for line, name in global_names(source):
                if not self.scopes.is_declared(name, namespace):
                    continue
                meaning = self.scopes.meaning(name, namespace)
                kind = "an archetype" if isinstance(meaning, Archetype) else "a component"
                what = kind if meaning else "a struct, an enumeration or a value of one,"
                raise SchemaError(
                    f"{source.place(line)}: {name} is declared again: it is {what} of "
                    f"{self.scopes.of(namespace).declaration.title}, which the engine declares in C++ with its fields; "
                    "leave it out here, or give one of the two another name"
                )

    def _warn_of_written_copies(self) -> None:
        """Issue a ``BuildWarning`` where a text writes a copy of a component, of which nothing comes."""
        for namespace, source in self._sources_of_authors():
            is_component = partial(self._is_component, namespace=namespace)
            for line, kind, name in written_copies(source, is_component):
                told = f"`{name}` is a copy, and what is written to it is lost: declare it as `{kind} &{name}`"
                warn_at(told, str(source.path), line)

    def _sources_of_authors(self) -> Iterator[tuple[str, Source]]:
        """Files with their namespaces, without those that come with the engine."""
        own = ENGINE_HEADERS.resolve()
        return ((space, source) for space, source in self.sources if not source.path.is_relative_to(own))

    def _is_component(self, text: str, namespace: str) -> bool:
        return isinstance(self.scopes.meaning(text, namespace), type)

    def _warn_of_idle_systems(self) -> None:
        """Issue a ``BuildWarning`` for each system of the author's own, not of libraries, that no task graph names."""
        run = {node.system.name for node in self.nodes}
        for system in self.systems.values():
            if system.name not in run and not system.namespace:
                text = f"system '{system.name}' never runs: name it in start, step or observe, or delete it"
                self._warn_of_system(system, text)

    def _warn_of_system(self, system: System, text: str) -> None:
        """Issue a ``BuildWarning`` at a system's place."""
        name, _, line = system.place.rpartition(":")
        warn_at(text, next(str(path) for path in self.files if path.name == name), int(line))

    def _warn_of_unwritten_outputs(self) -> None:
        """Issue a ``BuildWarning`` for each output that nobody writes. Rewards may well be left at 0."""
        written = {self.action.name, self.reward.name, self.agent_end.name if self.agent_end else ""}
        written = written.union(*(node.writes for node in self.nodes))
        for role, key, column in self._named_outputs():
            if column.name in written:
                continue
            named = f"{role} {key!r}, {column.name!r}," if key else f"{role} {column.name!r}"
            text = f"{named} is written by no system: its values stay 0 unless Python writes them"
            path, line = class_place(type(self.environment)) or (str(self.units[0].source), 1)
            warn_at(f"{self.environment.name}: {text}", path, line)

    def _named_outputs(self) -> Iterator[tuple[str, str, Column]]:
        """Role, key (where the role has some) and column of what is delivered."""
        yield from (("observation", key, column) for key, column in self.observations.items())
        for key, column in self.info.items():
            own = key in INFO_ROLES
            role = key if own else "critic" if key in self.environment.critic else "info"
            yield role, "" if own else key, column

    def _warn_of_state_in_observe(self) -> None:
        """Issue a ``BuildWarning`` for each system of ``observe`` that changes what others hold from step to step.

        Outputs that only ``observe`` writes may be read in the next step, as a mask is.
        """
        outputs = {column.name for column in self.outputs}
        others = [node for graph in ("start", "step") for node in self.graphs[graph]]
        for node in self.graphs["observe"]:
            for name in sorted(node.writes):
                column = self.columns.get(name)
                if column is None or column.scratch:
                    continue
                user = next((n for n in others if name in n.writes or (name in n.reads and name not in outputs)), None)
                if user is not None:
                    does = "writes" if name in user.writes else "reads"
                    text = (
                        f"system '{node.system.name}' of 'observe' writes {name}, which '{user.system.name}' of "
                        f"'{user.graph}' {does}: 'observe' runs once more at the end of an episode, so change state in "
                        "'step'"
                    )
                    self._warn_of_system(node.system, text)

    @cached_property
    def graphs(self) -> dict[str, list[Node]]:
        """The nodes of each task graph in order."""
        return {graph: [node for node in self.nodes if node.graph == graph] for graph in GRAPHS}

    def _nodes(self) -> Iterator[Node]:
        numbers, loop_numbers = count(), count()
        for graph in GRAPHS:
            entries = list(self.flattened(getattr(self.environment, graph), "", graph, loop_numbers))
            names = [name for name, _ in entries]
            for position, (name, loops) in enumerate(entries):
                for table, columns in self.queries.matches(self.systems[name]):
                    system = self.systems[name]
                    occurrence = names[:position].count(name)
                    accesses = self.queries.accesses(system, table, columns)
                    node = Node(graph, next(numbers), system, table, occurrence, columns, **accesses, loops=loops)
                    if graph == "observe":
                        _check_looks_only(node)
                    yield node

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

    def flattened(
        self, part: TaskGraph | Repeat, namespace: str, graph: str, numbers: Iterator[int], loops: tuple[Loop, ...] = ()
    ) -> Iterator[tuple[str, tuple[Loop, ...]]]:
        """The systems of a part of a task graph in order, each with the loops in which it is.

        ``namespace`` is where its names are looked up.
        """
        if part.owner is not None and issubclass(part.owner, Library):
            namespace = self._fragment_of(part.owner, namespace, graph)
        if isinstance(part, Repeat):
            loops = (*loops, Loop(next(numbers), part.times))
        for item in part.items:
            if isinstance(item, str):
                yield self._system_name(item, namespace, graph), loops
            else:
                yield from self.flattened(item, namespace, graph, numbers, loops)

    def _fragment_of(self, library: type, namespace: str, graph: str) -> str:
        """The namespace of a fragment of ``library``, which the holder of the fragment must name."""
        holder = self.scopes.of(namespace)
        for name in (namespace, *holder.visible):
            if name and isinstance(self.scopes.of(name).declaration, library):
                return name
        where = "uses" if namespace else "libraries"
        raise SchemaError(
            f"task graph '{graph}' of {self.environment.name} has a fragment of library {library.name}, which "
            f"{holder.declaration.title} does not name: add {library.__name__} to {where}"
        )

    def _system_name(self, text: str, namespace: str, graph: str) -> str:
        scope = self.scopes.of(namespace)
        own = f"{namespace}.{text}" if namespace else text
        if own in self.systems:
            return own
        prefix = text.rpartition(".")[0]
        if text in self.systems and prefix in scope.visible:
            return text
        headers = ", ".join(unit.source.name for unit in self.units if unit.namespace == (prefix or namespace))
        names = [name.removeprefix(f"{namespace}.") for name in self.systems]
        known = [name for name in names if name.rpartition(".")[0] in ("", *scope.visible)]
        of_libraries = [name for name in known if name.rpartition(".")[2] == text]
        hint = suggestion(of_libraries[0], of_libraries) if of_libraries else suggestion(text, known)
        if any(re.search(rf"\bTBS_FUNCTION\s+void\s+{re.escape(text)}\s*\(", read) for read in self.files.values()):
            hint = " (it has a function of this name: put TBS_SYSTEM in front of it)"
        raise SchemaError(
            f"task graph '{graph}' of {self.environment.name} names system '{own}', which {headers or 'no header'} "
            f"does not define{hint}; it defines: {', '.join(known) or 'none'}"
        )

    @cached_property
    def observe_only(self) -> set[str]:
        """Columns that only ``observe`` writes: it writes them wholly, so a new episode need not zero them."""
        written: dict[str, set[str]] = {graph: set() for graph in GRAPHS}
        for node in self.nodes:
            written[node.graph] |= node.writes
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
        return [column for column in self.outputs if column.name in self.observe_only and not self.is_read_back(column)]

    def is_read_back(self, column: Column) -> bool:
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
        self.critic_space = roles.critic_space
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

    def action_shape(self, num_worlds: int) -> tuple[int, ...]:
        """Of the actions of all agents in so many worlds: ``[rows, ...]``."""
        return num_worlds * self.agents.count, *self.action.value_shape

    @property
    def agent_flags(self) -> bool:
        """Whether agents have flags beside those of their world."""
        return self.agents.count > 1 or self.agent_end is not None


def _check_looks_only(node: Node) -> None:
    """Refuse a node of ``observe`` that creates or destroys rows, or ends the episode."""
    does = "creates or destroys rows" if node.changes else "ends the episode" if "Episode" in node.writes else ""
    if does:
        raise SchemaError(
            f"{node.system.place}: system '{node.system.name}' {does}, which 'observe' may not: it only looks at the "
            "state; do that in 'step'"
        )


def _distinct(columns: Iterable[Column]) -> dict[str, Column]:
    """The columns by name, with names for C++ that differ: A.B_C and A_B.C are two."""
    distinct: dict[str, Column] = {}
    for column in columns:
        name = column.name.replace(".", "_")
        while name in distinct:
            name += "_"
        distinct[name] = replace(column, c_name=name, number=len(distinct))
    return {column.name: column for column in distinct.values()}
