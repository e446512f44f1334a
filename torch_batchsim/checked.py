"""What the C++ unit of a checked build has beside that of an ordinary one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import shared
from .declaration import ENGINE_HEADERS
from .program import Node, Program
from .systems import Unit


def opening() -> Iterator[str]:
    """In front of all."""
    yield "#define TBS_CHECKS"


def definitions() -> Iterator[str]:
    """Before the engine's headers."""
    yield "#include <cstddef>"
    yield f'#define TBS_CHECKS_ENGINE "{_literal(ENGINE_HEADERS)}/"'
    yield from shared.checked_definitions()


def _literal(path: Path) -> str:
    return str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')


def is_checked_text(unit: Unit) -> bool:
    """Whether g++ checks the text: the author's, and that of a library that does not come with the engine."""
    return not unit.source.resolve().is_relative_to(ENGINE_HEADERS.resolve())


def before_text(program: Program, unit: Unit) -> Iterator[str]:
    """Lines in front of a text."""
    if program.checks is not None and is_checked_text(unit):
        yield '#pragma push_macro("TBS_UNCHECKED")'
        yield "#undef TBS_UNCHECKED"
        yield "#define TBS_UNCHECKED"


def behind_text(program: Program, unit: Unit) -> Iterator[str]:
    """Lines behind it."""
    if program.checks is not None and is_checked_text(unit):
        yield '#pragma pop_macro("TBS_UNCHECKED")'


def node_members(program: Program, node: Node) -> Iterator[str]:
    """What a node has for ``csrc/tbs/run_checked.h``."""
    yield f"    static constexpr u32 checked_number = {node.index + 1};"
    yield "    template <class World, class Guard>"
    yield "    static void verify(const Context &, i32, const World &, Guard &) {}"
