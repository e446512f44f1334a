"""Warnings about a program that compiles and runs, but hardly does what its author means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..declare.columns import Column
from ..declare.roles import INFO_ROLES, Roles
from ..errors import warn_at
from ..read.cpp_rules import written_copies
from ..read.cpp_text import Source
from ..read.systems import System
from .nodes import Node
from .scopes import Scopes


def warn_of_idle_systems(systems: Iterable[System], nodes: Sequence[Node], files: Iterable[Path]) -> None:
    """Issue a ``BuildWarning`` for each system of the author's own, not of libraries, that no task graph names."""
    run = {node.system.name for node in nodes}
    for system in systems:
        if system.name not in run and not system.namespace:
            text = f"system '{system.name}' never runs: name it in start, step or observe, or delete it"
            _warn_of_system(system, text, files)


def _warn_of_system(system: System, text: str, files: Iterable[Path]) -> None:
    name, _, line = system.place.rpartition(":")
    warn_at(text, next(str(path) for path in files if path.name == name), int(line))


def warn_of_written_copies(sources: Iterable[tuple[str, Source]], scopes: Scopes) -> None:
    """Issue a ``BuildWarning`` for each copy of a component that a text writes and nobody reads."""
    for namespace, source in sources:

        def is_component(text: str, namespace: str = namespace) -> bool:
            return isinstance(scopes.meaning(text, namespace), type)

        for line, kind, name in written_copies(source, is_component):
            text = f"`{name}` is a copy, and what is written to it is lost: declare it as `{kind} &{name}`"
            warn_at(text, str(source.path), line)


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
