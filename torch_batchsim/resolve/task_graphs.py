"""Task graphs: the systems that they name, in order, and the nodes that follow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from ..base.names import suggestion
from ..base.shared import NODE_BITS
from ..declare.columns import Column
from ..declare.environment import Environment
from ..declare.library import Library
from ..declare.python_systems import PythonSystem
from ..declare.schema import Archetype, Repeat, TaskGraph
from ..errors import SchemaError
from ..read.cpp_text import Source
from ..read.systems import System
from .nodes import GRAPHS, Loop, Node
from .queries import Queries
from .scopes import Scopes

MAX_NODES = 1 << NODE_BITS


def declared_graphs(environment: Environment) -> dict[str, TaskGraph]:
    """The task graphs of an environment by name. Raises SchemaError for anything else in their place."""
    graphs = {name: getattr(environment, name) for name in GRAPHS}
    for name, given in graphs.items():
        if not isinstance(given, TaskGraph):
            systems = [given] if isinstance(given, str) else given if isinstance(given, (list, tuple)) else ["move"]
            write = f"{name} = TaskGraph({', '.join(map(repr, systems))})"
            raise SchemaError(f"{environment.name}: {name} must be a TaskGraph, got {given!r}; write {write}")
    return graphs


class TaskGraphs:
    """Resolves task graphs. Raises SchemaError for a name of a system that does not exist.

    Args:
        systems: by name: ``"move"``, or ``"grid.insert"`` of a library.
        sources: files with their namespaces.
    """

    def __init__(self, scopes: Scopes, systems: Mapping[str, System], sources: Sequence[tuple[str, Source]]) -> None:
        self.scopes, self.systems, self.sources = scopes, systems, sources

    def nodes(self, graphs: Mapping[str, TaskGraph], queries: Queries) -> tuple[Node, ...]:
        """The nodes of all graphs, numbered in the order of ``GRAPHS``."""
        nodes: list[Node] = []
        loop_numbers = count()
        for graph in GRAPHS:
            entries = list(self.flattened(graphs[graph], graph, loop_numbers))
            names = [name for name, _ in entries]
            for position, (name, loops) in enumerate(entries):
                occurrence = names[:position].count(name)
                nodes += queries.nodes(self.systems[name], graph, occurrence, loops, len(nodes))
        if len(nodes) >= MAX_NODES:
            raise SchemaError(
                f"{self.scopes.author.title} has {len(nodes)} nodes; at most {MAX_NODES - 1} are allowed"
            )
        return tuple(nodes)

    def flattened(
        self,
        part: TaskGraph | Repeat,
        graph: str,
        numbers: Iterator[int],
        namespace: str = "",
        loops: tuple[Loop, ...] = (),
    ) -> Iterator[tuple[str, tuple[Loop, ...]]]:
        """The systems of a part of a task graph in order, each with the loops around it.

        Args:
            numbers: for the loops.
            namespace: where its names are looked up.
        """
        if part.owner is not None and issubclass(part.owner, Library):
            namespace = self._fragment_of(part.owner, namespace, graph)
        if isinstance(part, Repeat):
            loops = (*loops, Loop(next(numbers), part.times))
        for item in part.items:
            if isinstance(item, PythonSystem):
                yield f"{namespace}.{item.name}" if namespace else item.name, loops
            elif isinstance(item, str):
                yield self._system_name(item, namespace, graph), loops
            else:
                yield from self.flattened(item, graph, numbers, namespace, loops)

    def _fragment_of(self, library: type[Library], namespace: str, graph: str) -> str:
        """The namespace of a fragment of ``library``, which the holder of the fragment must name."""
        holder = self.scopes.of(namespace)
        for name in (namespace, *holder.visible):
            if name and self.scopes.of(name).is_of(library):
                return name
        where = "uses" if namespace else "libraries"
        raise SchemaError(
            f"task graph '{graph}' of {self.scopes.author.title} has a fragment of library {library.name}, which "
            f"{holder.title} does not name: add {library.__name__} to {where}"
        )

    def _system_name(self, text: str, namespace: str, graph: str) -> str:
        visible = self.scopes.of(namespace).visible
        own = f"{namespace}.{text}" if namespace else text
        prefix = text.rpartition(".")[0]
        if text in self.systems and prefix:  # from outside of its library
            self._check_alone(text, prefix, graph)
        if own in self.systems:
            return own
        if text in self.systems and prefix in visible:
            return text
        names = [name.removeprefix(f"{namespace}.") for name in self.systems]
        known = [name for name in names if name.rpartition(".")[0] in ("", *visible)]
        of_libraries = [name for name in known if name.rpartition(".")[2] == text]
        hint = suggestion(of_libraries[0], of_libraries) if of_libraries else suggestion(text, known)
        function = re.compile(rf"\bTBS_FUNCTION\s+void\s+{re.escape(text)}\s*\(")
        if any(function.search(source.whole) for _, source in self.sources):
            hint = " (it has a function of this name: put TBS_SYSTEM in front of it)"
        owner = prefix or namespace
        headers = ", ".join(unit.source.name for scope in self.scopes if scope.name == owner for unit in scope.units)
        lacks = f"{headers} does not define" if headers else "is not defined"
        raise SchemaError(
            f"task graph '{graph}' of {self.scopes.author.title} names system '{own}', which {lacks}{hint}; there are: "
            f"{', '.join(known) or 'none'}"
        )

    def _check_alone(self, text: str, namespace: str, graph: str) -> None:
        """Raise SchemaError for a library's system that leaves workspace to others, or finds it: they go together."""
        scope = self.scopes.of(namespace)
        lasting = {component.__name__ for component in scope.lasting}
        if not any(parameter.type.rpartition("::")[2] in lasting for parameter in self.systems[text].parameters):
            return
        kind, name = type(scope.declaration), text.rpartition(".")[2]
        graphs = {each: value for each in dir(kind) if isinstance(value := getattr(kind, each), TaskGraph)}
        whole = next((each for each, fragment in graphs.items() if name in fragment.items), None)
        hint = f": put {kind.__name__}.{whole} in the task graph" if whole else ""
        raise SchemaError(
            f"task graph '{graph}' of {self.scopes.author.title} names system '{text}', which works with what other "
            f"systems leave in workspace{hint}"
        )


def check_nodes(nodes: Sequence[Node], columns: Mapping[str, Column], dynamic: Sequence[Archetype]) -> None:
    """Raise SchemaError for a node of ``observe`` that changes state, and one that reads scratch before it is written.

    Args:
        nodes: of one task graph.
    """
    come_and_go = {a.name for a in dynamic if a.scratch}  # rows created within the graph, not in 'observe'
    written: set[str] = set()
    for node in nodes:
        if node.graph == "observe":
            _check_looks_only(node)
        written |= node.writes
        for name in sorted(node.reads):
            column = columns.get(name)
            if (column.table if column else name) in come_and_go:
                stale = node.graph == "observe"
            else:
                stale = column is not None and column.scratch and name not in written
            if stale:
                raise SchemaError(
                    f"{node.system.place}: system '{node.system.name}' reads {name}, which is scratch and holds "
                    f"anything when '{node.graph}' begins; no system before it in '{node.graph}' writes it"
                )


def _check_looks_only(node: Node) -> None:
    does = "creates or destroys rows" if node.changes else "ends the episode" if "Episode" in node.writes else ""
    if does:
        raise SchemaError(
            f"{node.system.place}: system '{node.system.name}' {does}, which 'observe' may not: it only looks at the "
            "state; do that in 'step'"
        )
