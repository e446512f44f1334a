"""The tables of a program: the lists of all scopes together, checked, and the columns that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from ..declare.columns import Column
from ..declare.schema import Archetype, Component
from ..errors import SchemaError
from .scopes import Scopes, column_name, qualified_name

MAX_DYNAMIC = 64  # bits of tbs::NodeKey::creates


class Tables:
    """The tables of a program. Raises SchemaError if the lists contradict each other.

    Attributes:
        archetypes: the author's first, then those of libraries; ``dynamic`` are those with capacity.
        singletons, resources, scratch, workspace, kept: components of the lists of these names.
        components: all, each once: those of libraries first, also those in no table.
        columns: by name, numbered in this order.
        workspaces: columns of workspace by name, which are not among ``columns``.
    """

    def __init__(self, scopes: Scopes) -> None:
        declared = [scopes.author, *scopes.libraries.values()]
        self.archetypes: list[Archetype] = [archetype for scope in declared for archetype in scope.archetypes]
        if not self.archetypes:
            raise SchemaError(
                f"{scopes.author.title} has no archetypes: the agents, at least, need one, such as "
                'archetypes = [Archetype("Agent", Move, View, Reward, count=1)]'
            )
        self.dynamic = [archetype for archetype in self.archetypes if archetype.dynamic]
        if len(self.dynamic) > MAX_DYNAMIC:
            raise SchemaError(
                f"{scopes.author.title} has {len(self.dynamic)} archetypes with capacity; {MAX_DYNAMIC} are allowed"
            )
        fixed = (archetype for archetype in self.archetypes if not archetype.dynamic)
        for number, archetype in enumerate((*self.dynamic, *fixed), start=1):
            archetype.number = number
        self.singletons: list[type[Component]] = [c for scope in declared for c in scope.singletons]
        self.resources: list[type[Component]] = [c for scope in declared for c in scope.resources]
        self.scratch: list[type[Component]] = [c for scope in declared for c in scope.scratch]
        self.workspace: list[type[Component]] = [c for scope in declared for c in scope.workspace]
        self.lasting: list[type[Component]] = [c for scope in declared for c in scope.lasting]
        self.kept: list[type[Component]] = [c for scope in scopes for c in scope.kept]
        self.components = list(dict.fromkeys(c for scope in scopes for c in scope.all_components))
        in_tables = {component for archetype in self.archetypes for component in archetype.components}
        self._check_places(in_tables)
        self._check_workspace(in_tables)
        self._check_kept()
        self._check_scratch(in_tables)
        self.columns = _numbered(self._columns())
        self.workspaces = _numbered(
            Column(*[qualified_name(c)] * 2, c, 1, singleton=True, workspace=True, lasting=c in self.lasting)
            for c in self.workspace
        )

    @cached_property
    def by_component(self) -> dict[tuple[str | None, type[Component]], Column]:
        """Columns by table (None: singletons and resources) and component."""
        return {(None if c.singleton else c.table, c.component): c for c in self.columns.values()}

    @cached_property
    def by_name(self) -> dict[str, Archetype]:
        """Archetypes by name, as in ``sim.tensor``."""
        return {archetype.name: archetype for archetype in self.archetypes}

    def _columns(self) -> Iterable[Column]:
        for a in self.archetypes:
            rows = a.capacity or a.count
            for c in a.components:
                own = {"dynamic": a.dynamic, "scratch": a.scratch or c in self.scratch}
                yield Column(column_name(a, c), a.name, c, rows, singleton=False, **own)
        for components, resource in ((self.singletons, False), (self.resources, True)):
            for c in components:
                own = {"resource": resource, "scratch": c in self.scratch}
                yield Column(qualified_name(c), qualified_name(c), c, 1, singleton=True, **own)

    def _check_places(self, in_tables: set[type[Component]]) -> None:
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
                    f"component {component.__name__} is a singleton, which each world has, and a resource, which all "
                    "worlds share; take it out of one"
                )

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
        for component in self.lasting:
            if component not in self.workspace:
                raise SchemaError(
                    f"component {component.__name__} is lasting, which only workspace can be: name it in workspace "
                    "too, or take it out of lasting"
                )

    def _check_kept(self) -> None:
        for component in self.kept:
            if component not in self.singletons:
                raise SchemaError(
                    f"component {component.__name__} is kept, which only singletons can be: name it in singletons too, "
                    "or take it out of kept"
                )
            if component in self.scratch:
                raise SchemaError(
                    f"component {component.__name__} is kept, and scratch, which nothing keeps: take it out of one"
                )

    def _check_scratch(self, in_tables: set[type[Component]]) -> None:
        for component in self.scratch:
            unused = component.library is not None  # a library's, which no archetype has taken
            if component not in self.singletons and component not in in_tables and not unused:
                raise SchemaError(
                    f"component {component.__name__} is scratch, which only singletons and components of archetypes "
                    "can be: add it to one of these, or take it out of scratch"
                )


def _numbered(columns: Iterable[Column]) -> dict[str, Column]:
    """The columns by name, numbered, with names for C++ that differ: A.B_C and A_B.C are two."""
    distinct: dict[str, Column] = {}
    for column in columns:
        name = column.name.replace(".", "_")
        while name in distinct:
            name += "_"
        distinct[name] = replace(column, c_name=name, number=len(distinct))
    return {column.name: column for column in distinct.values()}
