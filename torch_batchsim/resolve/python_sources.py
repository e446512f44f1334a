"""Systems in Python of a program: found in task graphs, and translated as the texts of their scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..declare.library import Library
from ..declare.python_systems import PythonSystem
from ..declare.schema import Archetype, Repeat, TaskGraph
from ..read.cpp_text import Source, read_source
from ..read.systems import Unit
from ..translate.module import Translation
from ..translate.surroundings import Surroundings
from .scopes import Scope, Scopes


def python_units(graphs: Mapping[str, TaskGraph], scopes: Scopes) -> list[tuple[Unit, Source]]:
    """The texts of all systems in Python, libraries first. Raises SchemaError for what cannot be translated."""
    found: dict[str, list[PythonSystem[Any, Any]]] = {}
    for graph in graphs.values():
        for namespace, system in _systems_in(graph, ""):
            found.setdefault(namespace, []).append(system)
    units = []
    for scope in scopes:
        if scope.name in found:
            texts = Translation(found[scope.name], _surroundings(scope, scopes)).texts()
            for path, text in texts.items():
                units.append((Unit(path.resolve(), scope.name), read_source(path.resolve(), text)))
    return units


def _systems_in(part: TaskGraph | Repeat, namespace: str) -> Iterator[tuple[str, PythonSystem[Any, Any]]]:
    if part.owner is not None and issubclass(part.owner, Library):
        namespace = part.owner.name
    for item in part.items:
        if isinstance(item, PythonSystem):
            yield namespace, item
        elif not isinstance(item, str):
            yield from _systems_in(item, namespace)


def _surroundings(scope: Scope, scopes: Scopes) -> Surroundings:
    components, archetypes = {}, {}
    for declared in scopes.visible_from(scope.name):
        written = scopes.written(declared, scope.name)
        if isinstance(declared, Archetype):
            archetypes[declared.name.removeprefix(scope.prefix)] = written
        else:
            components[declared.__module__, declared.__qualname__] = written, declared
    author = scopes.author
    libraries = {name: each.parameters for name, each in scopes.libraries.items()}
    return Surroundings(components, archetypes, scope.constants, author.parameters, libraries, scope.faults)
