"""Systems in Python of a program: found in task graphs, and translated as the texts of their scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..declare.library import Library
from ..declare.python_systems import PythonSystem
from ..declare.schema import Archetype, Repeat, TaskGraph
from ..errors import SchemaError
from ..read.cpp_text import Source, read_source
from ..read.systems import Unit
from ..translate.module import Translation
from ..translate.surroundings import Surroundings
from ..translate.thunks import Thunks
from .scopes import Scope, Scopes


@dataclass(frozen=True)
class PythonText:
    """The systems in Python of one scope: their translation, and one text for each file."""

    namespace: str
    translation: Translation
    systems: tuple[PythonSystem[Any, Any], ...]
    units: tuple[tuple[Unit, Source], ...]

    def with_trees(self) -> Translation:
        """The translation with trees of Python, which takes twice the time."""
        return Translation(self.systems, self.translation.around, self.translation.thunks, with_trees=True)


@dataclass
class PythonSources:
    """All systems in Python of a program. Raises SchemaError for what cannot be translated."""

    graphs: Mapping[str, TaskGraph]
    scopes: Scopes
    texts: list[PythonText] = field(init=False)
    thunks: Thunks = field(default_factory=Thunks)

    def __post_init__(self) -> None:
        self.texts = []
        refusals: list[SchemaError] = []
        found: dict[str, dict[PythonSystem[Any, Any], None]] = {}
        for graph in self.graphs.values():
            for namespace, system in _systems_in(graph, ""):
                found.setdefault(namespace, {})[system] = None
        for scope in self.scopes:
            if scope.name in found:
                systems = tuple(found[scope.name])
                around = _surroundings(scope, self.scopes)
                translation = Translation(systems, around, self.thunks)
                scope.take_structs(around.structs)
                if translation.refusals:
                    refusals += translation.refusals.values()
                    continue
                units = tuple(
                    (Unit(path.resolve(), scope.name), read_source(path.resolve(), text))
                    for path, text in translation.texts().items()
                )
                self.texts.append(PythonText(scope.name, translation, systems, units))
        if refusals:
            raise refusals[0] if len(refusals) == 1 else SchemaError("\n".join(map(str, refusals)))

    @property
    def units(self) -> list[tuple[Unit, Source]]:
        """Units with their sources, libraries first."""
        return [unit for text in self.texts for unit in text.units]

    def calls_of(self, namespace: str) -> Iterator[str]:
        """C++ in place of a scope's texts: systems that call Python back, and what Python calls then."""
        number = 0
        for text in self.texts:
            for system in text.systems:
                if text.namespace == namespace:
                    yield text.translation.call_of(system, number)
                number += 1

    def is_in_python(self, path: Path) -> bool:
        return any(unit.source == path for unit, _ in self.units)


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
    return Surroundings(scope.name, components, archetypes, scope.constants, author.parameters, libraries, scope.faults)
