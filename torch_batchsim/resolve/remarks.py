"""Warnings about a program that compiles and runs, but hardly does what its author means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..declare.columns import Column
from ..declare.roles import ENGINE_COMPONENTS, INFO_ROLES, Roles
from ..declare.schema import Archetype
from ..errors import SchemaError, warn_at
from ..read.cpp_text import Source
from ..read.kinds import Kind, Known, member_kinds
from ..read.mistakes import Functions, Mistake, constants, mistakes, structs
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
    sources = list(sources)
    for number, mistake in _mistakes_in(sources, every, scopes):
        source = sources[number][1]
        if mistake.certain:
            raise SchemaError(f"{source.place(mistake.line)}: {mistake.text}")
        warn_at(mistake.text, str(source.path), mistake.line)


_Mistakes = list[tuple[int, Mistake]]  # with the number of the file
_Question = tuple[str, str, str]  # namespace, an attribute of ``Known``, name
# By the texts of files: what ``mistakes`` asked of the declarations, with the answers, and what it found. The next
# program of the same texts is not read again if its declarations give the same answers: reading takes most of the time
# that a simulator takes to be made.
_read: dict[str, list[tuple[dict[_Question, object], _Mistakes]]] = {}
_MOST_TEXTS, _MOST_ANSWERS = 200, 4


def _mistakes_in(
    sources: Sequence[tuple[str, Source]], every: Sequence[tuple[str, Source]], scopes: Scopes
) -> _Mistakes:
    hashed = sha256()
    for namespace, source in (*every, ("", None), *sources):
        hashed.update(repr((namespace, str(source.path), source.whole) if source else None).encode())
    known = {namespace: _known(scopes, namespace) for namespace, _ in sources}
    remembered = _read.get(hashed.hexdigest(), [])
    for answers, found in remembered:
        if all(_answer(known[space], kind, name) == answer for (space, kind, name), answer in answers.items()):
            return found
    asked: dict[_Question, object] = {}
    found = _read_mistakes(sources, every, {space: _noted(each, space, asked) for space, each in known.items()})
    while len(_read) >= _MOST_TEXTS:
        _read.pop(next(iter(_read)), None)
    _read[hashed.hexdigest()] = [(asked, found), *remembered][:_MOST_ANSWERS]
    return found


def _read_mistakes(
    sources: Sequence[tuple[str, Source]], every: Sequence[tuple[str, Source]], known_to: Mapping[str, Known]
) -> _Mistakes:
    files = [(namespace, source, declarations_of(source.path, source.whole)) for namespace, source in every]
    functions = Functions(files)
    macros = {
        macro.name: frozenset(token.text for token in macro.body) - macro.parameters
        for _, source in every
        for macro in source.macros
    }
    found: _Mistakes = []
    for number, (namespace, source) in enumerate(sources):
        own: dict[str, Mapping[str, Kind]] = {}
        known = replace(known_to[namespace], functions=functions, macros=macros, structs=own, constants=[])
        for space, each, declared in files:
            if space == namespace:
                known.constants += [*constants(each, declared)]
                own.update(structs(each, declared, known))
        for mistake in mistakes(source, declarations_of(source.path, source.whole), known):
            found.append((number, mistake))
            if mistake.certain:  # which will be raised
                return found
    return found


def _answer(known: Known, kind: str, name: str) -> object:
    """What a declaration says of a name, in a form that is equal only to the same answer."""
    try:
        answer = getattr(known, kind)(name)
    except KeyError:
        return KeyError
    return (type(answer), [*answer.items()] if isinstance(answer, Mapping) else answer)


def _noted(known: Known, namespace: str, asked: dict[_Question, object]) -> Known:
    """The same that keeps what it is asked."""

    def noting(kind: str) -> Callable[[str], Any]:
        def ask(name: str) -> Any:
            question = namespace, kind, name
            if question not in asked:
                asked[question] = _answer(known, kind, name)
            return getattr(known, kind)(name)

        return ask

    return Known(noting("declared"), noting("number"), noting("rows"))


def _known(scopes: Scopes, namespace: str) -> Known:
    """The declarations that the text of a namespace may use."""

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

    return Known(members, number, rows)


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
