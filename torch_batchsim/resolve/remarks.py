"""Warnings about a program that compiles and runs, but hardly does what its author means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..declare.columns import Column
from ..declare.roles import ENGINE_COMPONENTS, INFO_ROLES, Roles
from ..declare.schema import Archetype
from ..errors import SchemaError, warn_at
from ..read.cpp_text import Source
from ..read.kinds import Kind, Known, member_kinds
from ..read.mistakes import Functions, constants, mistakes, structs
from ..read.systems import System, declarations_of
from .nodes import Node
from .scopes import Scopes


def warn_of_idle_systems(systems: Iterable[System], nodes: Sequence[Node], files: Iterable[Path]) -> None:
    """Issue a ``BuildWarning`` for each system of the author's own, not of libraries, that no task graph names."""
    run = {node.system.name for node in nodes}
    for system in systems:
        if system.name not in run and not system.namespace:
            text = f"system '{system.name}' never runs: name it in start, step or observe, or delete it"
            _warn_of_system(system, text, files)


def warn_of_empty_step(title: str, nodes: Iterable[Node], place: Callable[[], tuple[str, int]]) -> None:
    """Issue a ``BuildWarning`` where no system runs in a step, so that nothing moves and no episode ends."""
    if not any(node.graph == "step" for node in nodes):
        text = 'step runs no system, so that actions change nothing: name them, step = TaskGraph("move", ...)'
        warn_at(f"{title}: {text}", *place())


def _warn_of_system(system: System, text: str, files: Iterable[Path]) -> None:
    name, _, line = system.place.rpartition(":")
    warn_at(text, next(str(path) for path in files if path.name == name), int(line))


def warn_of_mistakes(
    sources: Iterable[tuple[str, Source]], every: Sequence[tuple[str, Source]], scopes: Scopes
) -> None:
    """Issue a ``BuildWarning`` for each line that hardly means what it says.

    Args:
        sources: the authors' files with their namespaces; ``every``: all files, whose functions they may call.

    Raises SchemaError for a line that nobody can mean.
    """
    files = [(namespace, source, declarations_of(source.path, source.whole)) for namespace, source in every]
    functions = Functions(files)
    macros = {
        macro.name: frozenset(token.text for token in macro.body) - macro.parameters
        for _, source in every
        for macro in source.macros
    }
    for namespace, source in sources:
        known = _known(scopes, namespace, functions, macros)
        own: dict[str, Mapping[str, Kind]] = {}
        known.structs = own
        for space, each, declared in files:
            if space == namespace:
                known.constants += [*constants(each, declared)]
                own.update(structs(each, declared, known))
        for mistake in mistakes(source, declarations_of(source.path, source.whole), known):
            if mistake.certain:
                raise SchemaError(f"{source.place(mistake.line)}: {mistake.text}")
            warn_at(mistake.text, str(source.path), mistake.line)


def _known(
    scopes: Scopes, namespace: str, functions: Functions, macros: Mapping[str, frozenset[str]]
) -> Known:
    """The names that the text of a namespace may use."""

    def members(text: str) -> Mapping[str, Kind] | None:
        text = text.removeprefix("tbs::")
        found = scopes.meaning(text, namespace)
        space, _, name = text.rpartition("::")
        if not isinstance(found, type) and (space in ("", *scopes.of(namespace).visible)):
            found = next((each for each in scopes.of(space or namespace).structs if each.__name__ == name), None)
        if not isinstance(found, type) or found.__name__ in ENGINE_COMPONENTS:
            return None
        return member_kinds(found.layout.members)

    def number(text: str) -> bool | int | float | None:
        if text.startswith("parameters."):
            space, _, name = text.removeprefix("parameters.").rpartition(".")
            values = scopes.of(space).parameters if not space or space in scopes.libraries else {}
            return values.get(name)
        parts = text.split("::")
        space = parts[0] if len(parts) > 1 and parts[0] in scopes.libraries else namespace
        if len(parts) > 1 and parts[-2] == "Constants":
            return scopes.of(space).constants.get(parts[-1])
        for enum in scopes.of(space).enums:
            if parts[-1] in enum.__members__ and (len(parts) == 1 or parts[-2] == enum.__name__):
                return int(enum[parts[-1]])
        return None

    def rows(text: str) -> int | None:
        archetype = scopes.meaning(text, namespace)
        if not isinstance(archetype, Archetype):
            raise KeyError(text)
        return None if archetype.dynamic else archetype.count

    return Known(members, number, rows, functions, macros=macros)


def warn_of_unwritten_outputs(
    title: str, roles: Roles, nodes: Sequence[Node], place: Callable[[], tuple[str, int]]
) -> None:
    """Issue a ``BuildWarning`` for each output that nobody writes. Rewards may well stay 0.

    ``place``: finds the file and line to name, for which Python parses the file.
    """
    written = {roles.action.name, roles.reward.name, roles.end.name if roles.end else ""}
    written = written.union(*(node.writes for node in nodes))
    for role, key, column in _named_outputs(roles):
        if column.name not in written:
            named = f"{role} {key!r}, {column.name!r}," if key else f"{role} {column.name!r}"
            text = f"{named} is written by no system: its values stay 0 unless Python writes them"
            warn_at(f"{title}: {text}", *place())


def _named_outputs(roles: Roles) -> Iterator[tuple[str, str, Column]]:
    """Role, key (of roles with keys) and column of each observation and info."""
    yield from (("observation", key, column) for key, column in roles.observations.items())
    for key, column in roles.info.items():
        own = key in INFO_ROLES
        yield key if own else "critic" if key in roles.critic else "info", "" if own else key, column


def warn_of_state_in_observe(
    nodes: Sequence[Node], columns: Mapping[str, Column], outputs: Iterable[Column], files: Iterable[Path]
) -> None:
    """Issue a ``BuildWarning`` for each system of ``observe`` that changes what others hold from step to step.

    A step may read outputs that only ``observe`` writes, as it reads a mask.
    """
    returned = {column.name for column in outputs}
    others = [node for node in nodes if node.graph != "observe"]
    for node in (node for node in nodes if node.graph == "observe"):
        for name in sorted(node.writes):
            column = columns.get(name)
            if column is None or column.scratch:
                continue
            user = next((n for n in others if name in n.writes or (name in n.reads and name not in returned)), None)
            if user is not None:
                does = "writes" if name in user.writes else "reads"
                text = (
                    f"system '{node.system.name}' of 'observe' writes {name}, which '{user.system.name}' of "
                    f"'{user.graph}' {does}: 'observe' runs once more at the end of an episode, so change state in "
                    "'step'"
                )
                _warn_of_system(node.system, text, files)
