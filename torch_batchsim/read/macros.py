"""Macros of an author's text, expanded: messages show the expression behind one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .cpp_text import Macro, Source

_DEEPEST = 8  # macros within macros


def macros_of(sources: Iterable[Source]) -> dict[str, Macro]:
    """The macros of the files by name."""
    return {macro.name: macro for source in sources for macro in source.macros}


def call_at(macros: Mapping[str, Macro], text: str, place: int) -> str:
    """The use of a macro at a place: ``"WALL(x + 1)"``; empty without one."""
    name = re.compile(r"\w+").match(text, max(place, 0))
    macro = macros.get(name[0]) if name else None
    if name is None or macro is None:
        return ""
    return text[name.start() : _arguments(text, name.end())[1]] if macro.order is not None else name[0]


def expanded(macros: Mapping[str, Macro], text: str, depth: int = _DEEPEST) -> str:
    """The text with its macros replaced: ``"maze.walls[x + 1]"`` of ``"WALL(x + 1)"``."""
    parts: list[str] = []
    end = 0
    for name in re.finditer(r"\b[A-Za-z_]\w*", text):
        macro = macros.get(name[0])
        if macro is None or name.start() < end or depth == 0:
            continue
        given, behind = _arguments(text, name.end()) if macro.order is not None else ([], name.end())
        values = dict(zip(macro.order or (), given, strict=False))
        parts += [text[end : name.start()], expanded(macros, _body(macro, values), depth - 1)]
        end = behind
    return "".join([*parts, text[end:]])


def _body(macro: Macro, values: Mapping[str, str]) -> str:
    """The text of a macro with values for its parameters."""
    parts: list[str] = []
    end = 0
    for token in macro.body:
        parts += [" " if parts and token.start > end else "", values.get(token.text, token.text)]
        end = token.start + len(token.text)
    return "".join(parts)


def _arguments(text: str, place: int) -> tuple[list[str], int]:
    """The arguments in the brackets at a place, and the place behind these; no arguments without brackets."""
    opening = re.compile(r"\s*\(").match(text, place)
    if opening is None:
        return [], place
    depth, begin, found = 0, opening.end(), []
    for i in range(opening.end() - 1, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if (text[i] == "," and depth == 1) or depth == 0:
            found.append(" ".join(text[begin:i].split()))
            begin = i + 1
        if depth == 0:
            return found, i + 1
    return [], place
