"""Queries of systems: the tables that they run over, the columns that they take, and those that they reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..base.shared import LANES
from ..declare.columns import Column
from ..declare.roles import ENGINE_COMPONENTS
from ..declare.schema import Archetype, Component
from ..errors import SchemaError
from ..read.systems import BY_VALUE, Parameter, Reach, System
from .nodes import Argument, Loop, Node
from .scopes import ENGINE_PARAMETERS, Scopes
from .tables import Tables


class Queries:
    """Resolves systems against the tables of a program. Raises SchemaError for names and accesses that do not fit."""

    def __init__(self, scopes: Scopes, tables: Tables) -> None:
        self.scopes = scopes
        self.archetypes, self.dynamic, self.columns = tables.archetypes, tables.dynamic, tables.columns
        self.columns_of = tables.by_component
        self.workspaces = {column.component: column for column in tables.workspaces.values()}

    def nodes(
        self, system: System, graph: str, occurrence: int, loops: tuple[Loop, ...], first: int
    ) -> Iterator[Node]:
        """The nodes of a system at one place of a task graph, one for each table that it runs over.

        Args:
            occurrence, loops: as in ``Node``.
            first: the number of the first.
        """
        for number, table in enumerate(self._tables(system), start=first):
            arguments = self._arguments(system, table)
            accesses = self._accesses(system, table, arguments)
            yield Node(graph, number, system, table, occurrence, loops, arguments, **accesses)

    def _tables(self, system: System) -> list[Archetype | None]:
        """The tables that have all components of a query; None for a system that runs once per world."""
        in_tables = {component for archetype in self.archetypes for component in archetype.components}
        query = []
        for parameter in system.parameters:
            if parameter.type in ENGINE_PARAMETERS:
                continue
            component = self._component(system, parameter.type)
            if component in ENGINE_COMPONENTS.values() and component not in in_tables:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' names component '{parameter.type}', which no archetype "
                    "has; the agents' archetype must have it"
                )
            if (None, component) not in self.columns_of and component not in self.workspaces:
                query.append(component)
        tables: list[Archetype | None] = [None]
        if query:
            tables = [archetype for archetype in self.archetypes if set(query) <= set(archetype.components)]
            if not tables:
                names = ", ".join(self.scopes.written(component, system.namespace) for component in query)
                raise SchemaError(
                    f"{system.place}: system '{system.name}' matches no archetype: none has all of {names}"
                    f"{self.scopes.bundles_with(query) or self._nearly_matching(system, query)}"
                )
        return tables

    def _nearly_matching(self, system: System, query: Sequence[type[Component]]) -> str:
        """The archetypes that lack fewest of a system's components, with these."""
        lacking = {each.name: [c for c in query if c not in each.components] for each in self.archetypes}
        least = min(map(len, lacking.values()), default=0)
        near = {name: lacks for name, lacks in lacking.items() if len(lacks) == least < len(query)}
        lines = [
            f"{name} lacks {', '.join(self.scopes.written(component, system.namespace) for component in lacks)}"
            for name, lacks in near.items()
        ]
        return f"; {'; '.join(lines)}" if lines else ""

    def _component(self, system: System, text: str, reach: Reach | None = None) -> type[Component]:
        """The component that ``text`` names in the namespace of a reach, the system's own by default."""
        namespace = system.namespace if reach is None else reach.namespace
        place = f"{system.place}: system '{system.name}'" if reach is None else system.by(reach)
        by = "" if reach is None else f" in {reach}"
        component = self.scopes.meaning(text, namespace)
        if not isinstance(component, type):
            known = self.scopes.known(namespace, Component)
            if isinstance(component, Archetype):
                having = ", ".join(self.scopes.written(each, namespace) for each in component.components)
                raise SchemaError(
                    f"{place} names component '{text}'{by}, which is an archetype: take components of it, {having}"
                )
            raise SchemaError(
                f"{place} names component '{text}'{by}, which does not exist"
                f"{self.scopes.hint(text, namespace, known)}; components: {', '.join(known)}"
            )
        return component

    def _arguments(self, system: System, table: Archetype | None) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        for parameter in system.parameters:
            if parameter.type in BY_VALUE and table is None:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' runs once per world and so has no {parameter.type}"
                )
            if parameter.type in (*BY_VALUE, *LANES):
                arguments.append(Argument(parameter.type, parameter.writes))
                continue
            if parameter.type == "Episode":
                column = None
            else:
                component = self._component(system, parameter.type)
                if component in self.workspaces:
                    _check_workspace(system, parameter, table)
                    arguments.append(Argument(self.workspaces[component], parameter.writes))
                    continue
                column = self.columns_of.get((table.name if table else None, component))
                column = column or self.columns_of[None, component]
            shared = column is None or column.singleton
            if shared and parameter.writes and column is not None and column.resource:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would write {parameter.type}, a resource, which all "
                    "worlds read at once; take it as const, or make it a singleton"
                )
            if shared and parameter.writes and table is not None and not table.alone:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' would write {parameter.type}, which a world has once, "
                    f"from {_rows(table)} of {table.name} at a time; take it as const, or write it in a system "
                    "that runs once per world"
                )
            arguments.append(Argument(column or "Episode", parameter.writes))
        return tuple(arguments)

    def _accesses(
        self, system: System, table: Archetype | None, arguments: tuple[Argument, ...]
    ) -> dict[str, frozenset[str] | tuple[str, ...]]:
        """The columns and tables that the system reads, writes, creates, destroys and reaches, by fields of ``Node``.

        Raises SchemaError if rows that run at once would meet in what they write, and for anything that systems on
        several lanes may not do.
        """
        _check_lanes(system)
        _check_worlds(system, arguments)
        reads, writes, creates, destroys = set(), set(), set(), set()
        reached, reached_writes, looks = set(), set(), set()
        for value, is_written in arguments:
            if value == "Episode" or (isinstance(value, Column) and not value.workspace):
                (writes if is_written else reads).add(value if isinstance(value, str) else value.name)
        written = set(writes)
        if table is not None and table.dynamic:
            reads.add(table.name)
        for reach in self._clear_reaches(system):
            if reach.kind in ("rows", "find", "get", "tables"):
                for column, is_written in self._reached(system, table, reach):
                    if not is_written and column.name in written and table is not None and not table.alone:
                        raise SchemaError(
                            f"{system.by(reach)} reads {column.name} of other rows while each row "
                            "writes its own; split it into a system that reads and one that writes"
                        )
                    (reached_writes if is_written else reached).add(column.name)
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
                        f"{system.by(reach)} destroys rows of {archetype.name}, which has count="
                        f"{archetype.count} rows in every world; rows come and go in archetypes with capacity="
                    )
                destroys.add(archetype.name)
            elif reach.kind in ("destroy", "alive"):
                names = {archetype.name for archetype in self.dynamic}
                if not names and reach.kind == "destroy":
                    raise SchemaError(f"{system.by(reach)} destroys, but no archetype is declared with capacity=")
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
        """Its reaches, without unclear ones if its TBS_REACHES declares others."""
        for reach in system.reaches:
            clear = not reach.unclear and all(self.scopes.meaning(name, reach.namespace) for name in reach.names)
            if system.declared is not None and reach not in system.declared and not clear:
                continue
            if reach.unclear:
                raise SchemaError(
                    f"{system.place}: system '{system.name}' asks for {reach}, in which a template or a macro fills in "
                    f"a name; declare it: TBS_SYSTEM TBS_REACHES({_example(reach)}) void {system.name}(...)"
                )
            yield reach

    def _archetype(self, system: System, reach: Reach) -> Archetype:
        archetype = self.scopes.meaning(reach.archetype or "", reach.namespace)
        if not isinstance(archetype, Archetype):
            known = self.scopes.known(reach.namespace, Archetype)
            if isinstance(archetype, type):
                having = [each for each in self.archetypes if archetype in each.components]
                names = ", ".join(self.scopes.written(each, reach.namespace) for each in having)
                raise SchemaError(
                    f"{system.by(reach)} asks for {reach}, but {reach.archetype} is a component: name an archetype"
                    + (f" that has it, {names}" if having else f"; archetypes: {', '.join(known)}")
                )
            raise SchemaError(
                f"{system.by(reach)} asks for {reach}, which is not an archetype"
                f"{self.scopes.hint(reach.archetype or '', reach.namespace, known)}; archetypes: {', '.join(known)} "
                "(names are read as written: aliases by using are not)"
            )
        if reach.kind in ("create", "create_at") and not archetype.dynamic:
            raise SchemaError(
                f"{system.by(reach)} asks for {reach}, but {archetype.name} has count="
                f"{archetype.count} rows in every world; rows come and go in archetypes with capacity="
            )
        return archetype

    def _reached(self, system: System, table: Archetype | None, reach: Reach) -> list[tuple[Column, bool]]:
        """The columns that a reach means, and whether it writes each.

        One; for ``find<const Body>`` one for each archetype with the component, for ``tables`` those of each archetype
        with all components.
        """
        found = self._in_tables(system, reach) if reach.kind == "tables" else self._in_one(system, reach)
        written = next((column for column, writes in found if writes), None)
        if written is not None and written.resource:
            raise SchemaError(
                f"{system.by(reach)} could write by {reach} a resource, which all worlds read at "
                f"once; put const in front of {reach.component}, or make it a singleton"
            )
        if written is not None and table is not None and not table.alone:
            name = self.scopes.written(written.component, reach.namespace)
            raise SchemaError(
                f"{system.by(reach)} could write by {reach} from {_rows(table)} of "
                f"{table.name} at a time; put const in front of {name}, or write it in a system "
                "that runs once per world"
            )
        return found

    def _in_tables(self, system: System, reach: Reach) -> list[tuple[Column, bool]]:
        """The columns that ``world.tables<...>`` reaches; none if no archetype has all of its components."""
        wanted = {}
        for each in reach.wanted:
            component = self._component(system, each.component, reach)
            if component in wanted:
                raise SchemaError(f"{system.by(reach)} asks for {reach}, which names {each.component} twice")
            if component in self.workspaces or (None, component) in self.columns_of:
                column = self.workspaces.get(component) or self.columns_of[None, component]
                kind = "workspace" if column.workspace else "a resource" if column.resource else "a singleton"
                raise SchemaError(
                    f"{system.by(reach)} asks for {reach}, but {each.component} is {kind}, which no archetype has"
                )
            wanted[component] = each
        needed = {component for component, each in wanted.items() if not each.optional}
        if not needed:
            raise SchemaError(f"{system.by(reach)} asks for {reach}; at least one component must not be Optional")
        return [
            (self.columns_of[archetype.name, component], each.writes)
            for archetype in self.archetypes
            if needed <= set(archetype.components)
            for component, each in wanted.items()
            if component in archetype.components
        ]

    def _in_one(self, system: System, reach: Reach) -> list[tuple[Column, bool]]:
        archetype = self.scopes.meaning(reach.archetype, reach.namespace) if reach.archetype else None
        component = self.scopes.meaning(str(reach.component), reach.namespace)
        columns = []
        if reach.kind == "find" and reach.archetype is None:
            columns = [column for column in self.columns.values() if column.component is component]
            columns = [column for column in columns if not column.singleton]
        elif isinstance(archetype, Archetype) or reach.archetype is None:
            columns = [self.columns_of.get((archetype.name if archetype else None, component))]
        if component in self.workspaces:
            raise SchemaError(
                f"{system.by(reach)} asks for {reach}, but {reach.component} is workspace, which a "
                f"system takes as a parameter, '{reach.component} &name', and hands on to its functions"
            )
        if not columns or columns[0] is None:
            raise SchemaError(f"{system.by(reach)} asks for {reach}, which does not exist{self._instead(reach)}")
        return [(column, reach.writes) for column in columns]

    def _instead(self, reach: Reach) -> str:
        """The end of the message about a reach without a column: its wrong part, and the remedy."""
        named = partial(self.scopes.meaning, namespace=reach.namespace)
        known = partial(self.scopes.known, reach.namespace)
        archetype, component = named(reach.archetype or ""), named(str(reach.component))
        const = "" if reach.writes else "const "
        as_written = "names are read as written: aliases by using are not"
        if isinstance(archetype, type) and isinstance(component, Archetype):
            return f": the archetype comes first, {reach.kind}<{reach.component}, const {reach.archetype}>"
        if reach.archetype and not isinstance(archetype, Archetype):
            names = known(Archetype)
            of_singleton = f"; {reach.archetype} is a component" if isinstance(archetype, type) else ""
            hint = of_singleton or self.scopes.hint(reach.archetype, reach.namespace, names)
            return f": {reach.archetype} is not an archetype{hint}; archetypes: {', '.join(names)} ({as_written})"
        if not isinstance(component, type):
            names = known(Component)
            hint = self.scopes.hint(str(reach.component), reach.namespace, names)
            return f": {reach.component} is not a component{hint}; components: {', '.join(names)} ({as_written})"
        if (None, component) in self.columns_of:
            return f": {reach.component} is not in a table; write get<{const}{reach.component}>()"
        having = [self.scopes.written(a, reach.namespace) for a in self.archetypes if component in a.components]
        if not having:
            return f": no archetype has {reach.component}, and it is not a singleton"
        methods = ("rows", "find") if reach.kind == "get" else (reach.kind,)
        ways = [f"{method}<{having[0]}, {const}{reach.component}>" for method in methods]
        if reach.kind == "find":
            ways.append(f"find<{const}{reach.component}>, which looks in all that have it")
        if not isinstance(archetype, Archetype):
            return f": {reach.component} is not a singleton; {', '.join(having)} has it: write {' or '.join(ways)}"
        own = ", ".join(self.scopes.written(each, reach.namespace) for each in archetype.components)
        return (
            f": {reach.archetype} has no {reach.component}, only {own}; {', '.join(having)} has it: write "
            f"{' or '.join(ways)}"
        )


def _check_workspace(system: System, parameter: Parameter, table: Archetype | None) -> None:
    if not parameter.writes:
        raise SchemaError(
            f"{system.place}: system '{system.name}' takes const {parameter.type} &, but that is workspace, which "
            "holds anything when a system begins; take it without const"
        )
    if table is not None and not table.alone:
        raise SchemaError(
            f"{system.place}: system '{system.name}' takes {parameter.type}, which is workspace, and runs over "
            f"{_rows(table)} of {table.name} at a time; workspace is for systems that run once per world"
        )


def _check_lanes(system: System) -> None:
    if system.lanes == 1:
        for reach in system.kinds("create_at"):
            raise SchemaError(
                f"{system.by(reach)} uses create_at, which needs Warp & or Block &; write create"
            )
        return
    if sum(parameter.type in LANES for parameter in system.parameters) > 1:
        raise SchemaError(f"{system.place}: system '{system.name}' takes both Warp & and Block &; take one")
    if system.shared_writes:
        raise SchemaError(
            f"{system.place}: system '{system.name}' runs on several lanes, all of which would do "
            f"'{system.shared_writes[0]}': write shared memory inside of operations, such as "
            "once([&] { ... }) or for_each(n, [&](u32 i) { ... })"
        )
    for kind, instead in (("create", "create_at<...>(i, ...)"), ("random", "random(i)")):
        for reach in system.kinds(kind):
            raise SchemaError(
                f"{system.by(reach)} runs on several lanes, each of which would do {kind}(): write {instead}, where i "
                "is the item"
            )


def _check_worlds(system: System, arguments: tuple[Argument, ...]) -> None:
    if system.worlds == 1:
        return
    if system.lanes == 1:
        raise SchemaError(
            f"{system.place}: system '{system.name}' takes several worlds on one lane; take Warp & or Block &, whose "
            "operations are over the items of all of them"
        )
    for parameter, (value, _) in zip(system.parameters, arguments, strict=True):
        if value not in LANES and not (isinstance(value, Column) and value.workspace):
            raise SchemaError(
                f"{system.place}: system '{system.name}' takes {parameter.type} beside several worlds, which go "
                "only with workspace, Warp & and Block &; reach memory of a world by worlds[k].get<Singleton>()"
            )


def _example(reach: Reach) -> str:
    """A declaration of a reach, with names to fill in."""
    if reach.wanted:
        return f"{reach.kind}<const Component, ...>"
    types = [name for name, there in (("Archetype", reach.archetype), ("Component", reach.component)) if there]
    if reach.component and not reach.writes:
        types[-1] = "const Component"
    return f"{reach.kind}<{', '.join(types)}>"


def _rows(table: Archetype) -> str:
    return "many rows" if table.dynamic else f"{table.count} rows"
