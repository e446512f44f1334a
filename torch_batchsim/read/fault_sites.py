"""Where an author's texts create, destroy and fail: the place that is told of such a fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .cpp_text import Source
from .systems import System

_CALLS = {"create": "table_full", "create_at": "table_full", "destroy": "stale_entity", "fail": ""}


def fault_place(
    sources: Sequence[tuple[str, Source]], system: System, cause: str, table: str | None, tables: Sequence[str]
) -> str:
    """``"maze.h:41"``: the only call by which the system can have reported the fault, else where the system begins.

    Calls are looked for in the system, and in all functions of its files, which it may use. A call in a macro, and one
    whose table or fault the text leaves open, may always be the one.

    Args:
        sources: files with their namespaces.
        cause: ``"table_full"``, ``"stale_entity"``, or a fault that is declared.
        table: the one that is full, one of the dynamic ``tables``.
    """
    short = {name.rpartition(".")[2] for name in tables}
    found: set[str] = set()
    for source in (source for namespace, source in sources if namespace == system.namespace):
        if any(token.text in _CALLS for macro in source.macros for token in macro.body):
            return system.place
        for i in _outside_of_other_systems(source, system.name.rpartition("::")[2]):
            name = source.tokens[i].text
            if name not in _CALLS or source.tokens[i - 1].text not in (".", "->"):
                continue
            given = _arguments(source, i)
            if name == "fail":
                named = re.search(r"\bFault *:: *(\w+)", given)
                possible = named is None or named[1] == cause.rpartition(".")[2]
            elif cause == "table_full":
                named = re.match(r"< *(?:\w+ *:: *)*(\w+) *>", given)
                possible = _CALLS[name] == cause and (
                    named is None or named[1] not in short or named[1] == (table or "").rpartition(".")[2]
                )
            else:
                possible = _CALLS[name] == cause
            if possible and not (name == "fail" and cause in _CALLS.values()):
                found.add(source.place(source.tokens[i]))
    return found.pop() if len(found) == 1 else system.place


def _outside_of_other_systems(source: Source, own: str) -> Iterator[int]:
    tokens, i = source.tokens, 0
    while i < len(tokens):
        if tokens[i].text == "TBS_SYSTEM":
            named = next((k for k in range(i, len(tokens) - 1) if tokens[k].text == "void"), i) + 1
            opening = next((k for k in range(named, len(tokens)) if tokens[k].text == "{"), None)
            if opening is not None and named < len(tokens) and tokens[named].text != own:
                i = source.partner[opening]
        if i > 0:
            yield i
        i += 1


def _arguments(source: Source, i: int) -> str:
    """Of the call at token ``i``: those in ``<>`` and in brackets, as one text."""
    first = i + 1
    opening = next((k for k in range(first, len(source.tokens)) if source.tokens[k].text in ("(", ";")), first)
    return source.text(first, source.partner.get(opening, opening) + 1)
