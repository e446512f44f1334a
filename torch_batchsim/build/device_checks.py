"""What goes into an author's text so that a device checks its subscripts, arrows and divisions."""

from __future__ import annotations

from collections.abc import Iterator

from ..read.cpp_text import Source
from .instrumented import enclosing, is_declarator, postfix_begin


def with_looks(source: Source) -> list[tuple[int, str]]:
    """Ascending places in a text, and what stands there: macros of csrc/tbs/checked_device.h.

    ``a.b[i]`` becomes ``(TBS_LOOK(6) a.b)[i]``, of which the number is the column of the closing bracket, ``p->x``
    ``(TBS_LOOK_BEHIND(2) p)->x``, and ``a / b`` ``a / TBS_BY(3) b``. Indices and divisors that are numbers stay as they
    are.
    """
    put: list[tuple[int, str]] = []
    for i in range(len(source.tokens) - 2, 0, -1):  # of those that begin together the outer one first
        token = source.tokens[i]
        if token.text == "[":
            put += _subscript(source, i)
        elif token.text == "->":
            begin = _base(source, i)
            if begin >= 0:
                put += _around(source, begin, i, f"TBS_LOOK_BEHIND({_column(source, i)})")
        elif token.text in "/%" and source.tokens[i - 1].text != "operator":
            put += _division(source, i)
    return sorted(put, key=lambda each: each[0])


def _subscript(source: Source, i: int) -> Iterator[tuple[int, str]]:
    tokens, close = source.tokens, source.partner[i]
    is_number = close == i + 2 and tokens[i + 1].text[0].isdigit()
    if close == i + 1 or is_number or tokens[i + 1].text == "[" or tokens[i - 1].text == "[":
        return
    begin = _base(source, i)
    if begin >= 0:
        yield from _around(source, begin, i, f"TBS_LOOK({_column(source, close)})")


def _base(source: Source, i: int) -> int:
    """Where the operand begins that ends in front of token ``i``; -1 where that is none, or is declared there."""
    begin, last = postfix_begin(source, i - 1), source.tokens[i - 1].text
    is_base = begin >= 0 and last != "auto" and not last[0].isdigit() and not is_declarator(source, begin)
    return begin if is_base else -1


def _around(source: Source, begin: int, end: int, text: str) -> Iterator[tuple[int, str]]:
    yield source.tokens[begin].start, f"({text} "
    yield source.tokens[end].start, ")"


def _division(source: Source, i: int) -> Iterator[tuple[int, str]]:
    tokens = source.tokens
    assigns = tokens[i + 1].text == "=" and tokens[i + 1].start == tokens[i].start + 1
    first = i + 1 + assigns
    if tokens[first].text[0].isdigit() or tokens[first].text[0] == "." or enclosing(source, i) < 0:
        return
    yield tokens[first].start, f"{'TBS_BY_ALL' if assigns else 'TBS_BY'}({_column(source, i)}) "


def _column(source: Source, i: int) -> int:
    """Of a token in its line, from 1, in bytes, as compilers count."""
    start = source.tokens[i].start
    return len(source.whole[source.whole.rfind("\n", 0, start) + 1 : start].encode()) + 1
