"""Parameters that are copies of components, which functions write and nobody reads: a reference was meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .cpp_text import Declaration, Source, declarations

_NAMED = r"(?P<type>(?:\w+\s*::\s*)*\w+)\s+(?P<name>\w+)\s*"
_PARAMETER = re.compile(rf"(?<=[(,])\s*{_NAMED}(?=[,)])")
_PLACE = r"(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])*"  # .field, ->field, [i] behind a name
_ASSIGNED = r"\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"


def written_copies(source: Source, is_component: Callable[[str], bool]) -> Iterator[tuple[int, str, str]]:
    """Line, type and name of each parameter that is a copy of a component, and only written. (g++ tells of variables.)

    Args:
        is_component: whether a type as it is written, ``"grid::Body"``, is a component.
    """
    for declaration in declarations(source):
        if declaration.kind == "function" and declaration.body is not None:
            yield from _of_function(source, declaration, declaration.body, is_component)


def _of_function(
    source: Source, declaration: Declaration, body: tuple[int, int], is_component: Callable[[str], bool]
) -> Iterator[tuple[int, str, str]]:
    tokens, code = source.tokens, source.code
    begin, end = tokens[body[0]].start, tokens[body[1] - 1].start + 1
    for match in _PARAMETER.finditer(code, tokens[declaration.name].start, begin):
        kind, name = "".join(match["type"].split()), match["name"]
        line = _only_written(code, name, begin, end) if is_component(kind) else None
        if line is not None:
            yield line, kind, name


def _only_written(code: str, name: str, first: int, last: int) -> int | None:
    """The line in which a parameter is first written, where a body does nothing else with it."""
    # The statement goes with what it computes: `place.x = place.x + 1` reads for nothing but the copy.
    change = rf"(?:(?:\+\+|--)\s*{name}\b{_PLACE}|{name}\b{_PLACE}{_ASSIGNED})"
    write = re.compile(rf"(?:(?<=[;{{}})])|(?<=\belse))\s*{change}[^;{{}}]*;")
    text = code[first:last]
    written = write.search(text)
    if written is None:
        return None
    rest = text
    while (found := write.search(rest)) is not None:
        rest = f"{rest[: found.start()]};{rest[found.end() :]}"
    if re.search(rf"(?<![\w.:]){name}\b", re.sub(r"->\s*\w+", "", rest)):
        return None
    place = first + written.start() + len(written[0]) - len(written[0].lstrip())
    return code.count("\n", 0, place) + 1
