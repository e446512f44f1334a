"""The resolved program of an environment: tables, columns, systems, nodes and roles, as everything above reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..base.names import suggestion
from ..base.shared import BUILTIN_FAULTS, CHECK_FAULT, CODE_BITS
from ..declare.checks import Checks
from ..declare.columns import Column
from ..declare.declaration import ENGINE_HEADERS
from ..declare.environment import Environment
from ..declare.fields import Field
from ..declare.roles import Declared, check_agents, declared_roles, resolve
from ..declare.schema import AUTHOR_STRUCTS, Archetype, Component, TaskGraph
from ..errors import SchemaError, class_place
from ..read.cpp_text import Source, global_names
from ..read.sites import FaultSite, check_sites
from ..read.systems import System, read_units, systems_in
from . import remarks
from .delivered import SYSTEM, deliveries, renamed, source_of
from .nodes import GRAPHS, Node
from .python_sources import PythonSources
from .queries import Queries
from .scopes import Scopes, filled, qualified_name
from .tables import Tables
from .task_graphs import TaskGraphs, check_nodes, declared_graphs

MAX_FAULTS = 1 << CODE_BITS
_REPORTED_BY_CALLS = ("nan", "stale_entity")  # of the engine's own faults


@dataclass
class Program:
    """An environment, checked and resolved. Raises ``SchemaError`` if the declaration contradicts itself."""

    environment: Environment
    checks: Checks | None = None
    """What a checked build of it looks for; None for an ordinary build."""
    log: int = 0
    """Lines of ``world.log`` that are kept of each world; 0 for a build without."""
    scopes: Scopes = field(init=False)
    """The declarations, read once: the author's, and each library's in its namespace."""
    tables: Tables = field(init=False)
    columns: dict[str, Column] = field(init=False)
    """By name; ``Column.number`` is the place among them."""
    faults: tuple[str, ...] = field(init=False)
    """Names by code: the engine's own, the author's, those of libraries as ``"grid.overflow"``."""
    sources: list[tuple[str, Source]] = field(init=False)
    """The files with their namespaces, as they were read."""
    python: PythonSources = field(init=False)
    """Systems in Python, which are among ``sources`` as text of C++."""
    systems: dict[str, System] = field(init=False)
    """By name: ``"move"``, or ``"grid.insert"`` of a library."""
    nodes: tuple[Node, ...] = field(init=False)
    """Those of all task graphs in the order of ``GRAPHS``; ``Node.number`` is the place among them."""

    def __post_init__(self) -> None:
        environment = self.environment
        self.name = environment.name
        graphs = declared_graphs(environment)
        roles = declared_roles(environment)
        self.scopes = Scopes(environment)
        self.tables = Tables(self.scopes)
        copied = deliveries(roles, self.tables)
        if copied:  # one field of several, or of a singleton
            graphs["observe"] = TaskGraph(graphs["observe"], SYSTEM)
            agents = roles.names["action"][""].partition(".")[0]
            self.scopes = Scopes(environment, {agents: [each.component for each in copied]})
            self.tables, roles = Tables(self.scopes), renamed(roles, copied)
        self.columns = self.tables.columns
        of_libraries = (f"{scope.prefix}{fault}" for scope in self.scopes.libraries.values() for fault in scope.faults)
        self.faults = (*BUILTIN_FAULTS, *self.scopes.author.faults, *of_libraries)
        if len(self.faults) + len(self.dynamic) >= MAX_FAULTS - 1:
            raise SchemaError(f"{self.name} must have fewer than {MAX_FAULTS - 1} faults")
        self.units = [unit for scope in self.scopes for unit in scope.units]
        self.sources = read_units(*self.units)
        self.python = PythonSources(graphs, self.scopes)
        for unit, source in self.python.units:
            self.units, self.sources = [*self.units, unit], [*self.sources, (unit.namespace, source)]
        if copied:
            unit, source = source_of(copied, self.scopes)
            self.units, self.sources = [*self.units, unit], [*self.sources, ("", source)]
        self.files = {source.path: source.whole for _, source in self.sources}
        self.check_sites = list(check_sites([source for _, source in self.sources]))
        most = (CHECK_FAULT - self.first_check_code) // 2 - 1
        if len(self.check_sites) > most:
            raise SchemaError(
                f"{self.name} calls world.check at {len(self.check_sites)} places; with so many faults at "
                f"most {most} are allowed"
            )
        self._check_types()
        self.systems = self._systems(systems_in(self.sources))
        check_agents(roles, self.archetypes)
        self.task_graphs = TaskGraphs(self.scopes, self.systems, self.sources)
        self.nodes = self.task_graphs.nodes(graphs, Queries(self.scopes, self.tables))
        for nodes in self.graphs.values():
            check_nodes(nodes, self.columns, self.dynamic)
        self._resolve_roles(roles)
        self.held_columns: list[Column] = self._held_columns()
        self._warn()
        if environment.step is Environment.step:
            raise SchemaError(
                f"{self.name} has no 'step': name the systems of a step, step = TaskGraph(\"move\", ...); "
                "TaskGraph() where nothing moves"
            )

    def _warn(self) -> None:
        """Issue a ``BuildWarning`` for each thing that an author hardly means."""
        remarks.warn_of_idle_systems(self.systems.values(), self.nodes, self.files)
        remarks.warn_of_empty_step(self.name, self.nodes, self._place)
        remarks.warn_of_mistakes(self._sources_of_authors(), self.sources, self.scopes)
        remarks.warn_of_unwritten_outputs(self.name, self.roles, self.nodes, self._place)
        remarks.warn_of_state_in_observe(self.nodes, self.columns, self.outputs, self.files)

    def _place(self) -> tuple[str, int]:
        """File and line of the environment's class, or of its systems."""
        return class_place(type(self.environment)) or (str(self.units[0].source), 1)

    # ---- tables ----------------------------------------------------------------------------------------------------

    @property
    def archetypes(self) -> list[Archetype]:
        """The author's first, then those of libraries."""
        return self.tables.archetypes

    @property
    def dynamic(self) -> list[Archetype]:
        """The archetypes with capacity, in the order of their numbers."""
        return self.tables.dynamic

    @property
    def workspaces(self) -> dict[str, Column]:
        """Memory of systems by name, which is not among ``columns``."""
        return self.tables.workspaces

    @property
    def components(self) -> list[type[Component]]:
        """All components, each once: those of libraries first, also those in no table."""
        return self.tables.components

    @property
    def first_check_code(self) -> int:
        """Of faults: two codes for checks at an unknown place, behind them two for each of ``check_sites``."""
        return len(self.faults) + len(self.dynamic)

    def full_code(self, number: int) -> int:
        """The code of the fault that the dynamic table of a number is full."""
        return len(self.faults) + number - 1

    @cached_property
    def has_entities(self) -> bool:
        """Whether worlds need the memory from which handles of rows are made."""
        fields = (f.type.name for c in self.components for f in c.fields)
        parameters = (p.type for n in self.nodes for p in n.system.parameters)
        kinds = (r.kind for n in self.nodes for r in n.system.reaches)
        asked = set(kinds) & {"find", "index_of", "entity", "tables", "alive", "destroy"}
        return bool(self.dynamic or asked or "Entity" in fields or "Entity" in parameters)

    @property
    def kept_components(self) -> list[type[Component]]:
        return self.tables.kept

    @cached_property
    def kept(self) -> set[str]:
        """Names of the columns that a new episode does not zero."""
        return {qualified_name(component) for component in self.tables.kept}

    def _held_columns(self) -> list[Column]:
        """Columns for which worlds can hold values for all later episodes."""
        return [c for c in self.columns.values() if c.name in self.kept] if self.environment.reset_options else []

    @property
    def parameters(self) -> dict[str, bool | int | float]:
        """Values of all parameters by name: ``"gust"``, ``"grid.cell"``."""
        return {f"{scope.prefix}{name}": value for scope in self.scopes for name, value in scope.parameters.items()}

    @property
    def constants(self) -> dict[str, bool | int | float | str]:
        """Values of all constants by name, as those of ``parameters``."""
        return {f"{scope.prefix}{name}": value for scope in self.scopes for name, value in scope.constants.items()}

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

    # ---- systems ---------------------------------------------------------------------------------------------------

    def _systems(self, read: dict[str, System]) -> dict[str, System]:
        systems = {}
        for system in read.values():
            if system.name in AUTHOR_STRUCTS or self.scopes.is_declared(system.name, system.namespace):
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would hide what has this name already: a component, an "
                    f"archetype, an enumeration, a value of one, or one of {', '.join(AUTHOR_STRUCTS)}"
                )
            name = f"{self.scopes.of(system.namespace).prefix}{system.name}"
            systems[name] = replace(system, name=name, sites=tuple(map(self._resolved, system.sites)))
        return systems

    def _resolved(self, site: FaultSite) -> FaultSite:
        """The call with the table's name as in ``tensor``; without, if what it names is not an archetype."""
        if site.call == "fail":
            return site
        meanings = (self.scopes.meaning(name, site.namespace) for name in site.names)
        return replace(site, names=tuple(meaning.name for meaning in meanings if isinstance(meaning, Archetype)))

    def fault_texts(self, cause: str) -> tuple[str, ...]:
        """The sentences that a scope declares about one of ``faults``; often none."""
        space, _, name = cause.rpartition(".")
        return self.scopes.of(space).fault_texts.get(name, ())

    def fault_text(
        self, cause: str, part: int, row: str, value: int, value_of: Callable[[str], str] = lambda name: "?"
    ) -> str:
        """One of the sentences about a fault, filled in; ``value_of`` gives what a field of its row holds."""
        texts, scope = self.fault_texts(cause), self.scopes.of(cause.rpartition(".")[0])
        text = texts[part] if part < len(texts) else texts[0]
        values = {**scope.constants, **scope.parameters, "row": row, "value": value}
        return filled(text, values, lambda name: value_of(scope.prefix + name))

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
        """Raise SchemaError for types and functions of a text with a name that the engine declares in front of it."""
        for namespace, source in self._sources_of_authors():
            for line, name in global_names(source):
                if not self.scopes.is_declared(name, namespace):
                    continue
                meaning = self.scopes.meaning(name, namespace)
                kind = "an archetype" if isinstance(meaning, Archetype) else "a component"
                what = kind if meaning else "a struct, an enumeration or a value of one,"
                raise SchemaError(
                    f"{source.place(line)}: {name} is declared again: it is {what} of "
                    f"{self.scopes.of(namespace).title}, which the engine declares in C++ with its fields; "
                    "leave it out here, or give one of the two another name"
                )

    def _sources_of_authors(self) -> Iterator[tuple[str, Source]]:
        """Files with their namespaces, without those that come with the engine."""
        own = ENGINE_HEADERS.resolve()
        return ((space, source) for space, source in self.sources if not source.path.is_relative_to(own))

    # ---- nodes -----------------------------------------------------------------------------------------------------

    @cached_property
    def graphs(self) -> dict[str, list[Node]]:
        """The nodes of each task graph in order."""
        return {graph: [node for node in self.nodes if node.graph == graph] for graph in GRAPHS}

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

    def _resolve_roles(self, declared: Declared) -> None:
        self.roles = roles = resolve(declared, self.archetypes, self.columns, self.find)
        self.agents, self.action, self.reward, self.agent_end = roles.agents, roles.action, roles.reward, roles.end
        self.observations, self.info = roles.observations, roles.info
        self.action_space, self.observation_space = roles.action_space, roles.observation_space
        self.critic_space = roles.critic_space
        for node in (*self.graphs["start"], *self.graphs["observe"]):
            does = ""
            if self.agent_end is not None and self.agent_end.name in node.reads | node.writes:
                does = "takes AgentEnd, which only systems of 'step' may: it says what this step has ended"
            elif self.reward.name in node.writes:
                # with SAME_STEP both run once more in the step that ends an episode, before its reward is delivered
                does = "writes Reward, which only systems of 'step' may: it is the reward of a step"
            elif "Episode" in node.writes:
                does = "ends the episode, which only systems of 'step' may"
            if does:
                raise SchemaError(f"{node.system.place}: system '{node.system.name}' of '{node.graph}' {does}")

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
