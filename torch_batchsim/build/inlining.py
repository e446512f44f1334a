"""A header together with all that it includes, as one text for the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..read.cpp_text import Source

Put = Callable[[Source], list[tuple[int, str]]]
"""Insertions into a text: ascending places, and the text for each, on the same line."""


def _nothing(source: Source) -> list[tuple[int, str]]:
    return []


def inlined(
    sources: Mapping[Path, Source], path: Path, namespace: str, put: Put = _nothing
) -> Iterator[str]:
    """The text of ``path`` with those of ``sources`` that it includes in place of the directives.

    The compiler sees the texts that the reader has read, even if the files have changed since, and each ``#include``
    names the reader's file: a compiler would search the folders of all libraries, and treat two files of the same text
    with ``#pragma once`` as one. ``#line`` keeps the author's file and line in messages. ``#pragma once`` becomes a
    macro of the ``namespace``, because the directive that includes a file first may stand in a part that is left out.
    """
    source = sources[path]
    guard = f"TBS_ONCE_{namespace}_{list(sources).index(path)}" if source.once else ""
    yield from ((_line(source, 1), f"#ifndef {guard}", f"#define {guard}") if guard else ())
    yield _line(source, 1)
    directives = [(include.first, include.last, include.path) for include in source.includes]
    directives += [(*source.once, None)] if source.once else []
    place, more = 0, put(source)
    for first, last, included in sorted(directives, key=lambda directive: directive[0]):
        yield _between(source.whole, place, first, more)
        if included is not None:
            yield from inlined(sources, included, namespace, put)
        yield _line(source, source.whole.count("\n", 0, last) + 1)
        place = last
    rest = _between(source.whole, place, len(source.whole), more)
    yield f"{rest}\n"  # an empty line, should the last one end in a backslash
    yield from (("#endif",) if guard else ())


def _between(whole: str, first: int, last: int, put: list[tuple[int, str]]) -> str:
    """A part of a text with its insertions."""
    parts = []
    for place, text in put:
        if first <= place < last:
            parts += [whole[first:place], text]
            first = place
    return "".join([*parts, whole[first:last]])


def _line(source: Source, number: int) -> str:
    """The place of the next line for the compiler. Behind a directive, that is the empty rest of its own line."""
    name = str(source.path).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {number} "{name}"'
