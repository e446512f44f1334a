"""Calls in an author's texts by which systems report: ``world.check``, ``fail``, and those that fail by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..errors import SchemaError
from .cpp_text import Source, Token, behind_angles, outside_of_brackets
from .reaches import Text


@dataclass(frozen=True)
class CheckSite:
    """A call of ``world.check(condition)``, with a message, a value, or both behind it.

    Attributes:
        path, line, column: of the word ``check``, from 1.
        last_line: of its closing bracket.
        condition, message, value: as written; ``""`` if missing.
    """

    path: Path
    line: int
    column: int
    last_line: int
    condition: str
    message: str
    value: str


def check_sites(sources: Sequence[Source]) -> Iterator[CheckSite]:
    """All calls of ``world.check`` in the texts, each text once, without those in macros.

    Raises SchemaError for a call without a condition.
    """
    for source in {source.path: source for source in sources}.values():
        if "check" in source.code:
            yield from _sites(source)


def _sites(source: Source) -> Iterator[CheckSite]:
    tokens = source.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.text != "check" or tokens[i + 1].text != "(" or i == 0 or tokens[i - 1].text not in (".", "->"):
            continue
        end = source.partner[i + 1]
        bounds = [i + 1, *_commas(source, i + 2, end), end]
        parts = [_written(source, first + 1, last) for first, last in pairwise(bounds)]
        condition, *rest = parts
        texts = [part for part in rest if part.startswith('"')]
        many = len(rest) > 2 or len(texts) > 1 or len(rest) - len(texts) > 1 or texts != rest[: len(texts)]
        if condition.startswith('"') or not condition or many:
            raise SchemaError(
                f"{source.place(token)}: world.check takes the condition first, and then a message, a number, or both: "
                'world.check(speed < 30.0f, "too fast", speed)'
            )
        message = rest.pop(0)[1:-1] if rest and rest[0].startswith('"') else ""
        column = token.start - source.code.rfind("\n", 0, token.start)
        yield CheckSite(source.path, token.line, column, tokens[end].line, condition, message, ", ".join(rest))


def _commas(source: Source, first: int, last: int) -> list[int]:
    """The commas between arguments: in no brackets, and in no types as of ``rows<Walker, const Place>()``."""
    commas, types_end = [], first
    for k, token in outside_of_brackets(source, first, last):
        if token.text == "<" and k >= types_end:
            end = behind_angles(source, k, last)
            types_end = end if end < last and source.tokens[end].text in ("(", "{", "::") else k
        elif token.text == "," and k >= types_end:
            commas.append(k)
    return commas


def _written(source: Source, first: int, last: int) -> str:
    """The text of ``tokens[first:last]`` with single spaces, and in decimals the floats of translated Python."""
    if first >= last:
        return ""
    end = source.tokens[last - 1]
    text = " ".join(source.whole[source.tokens[first].start : end.start + len(end.text)].split())
    return _HEXADECIMAL.sub(_decimal, text)


_HEXADECIMAL = re.compile(r"(?<![\w.])(0x[0-9a-f]+\.?[0-9a-f]*p[+-]?\d+)(f?)(?!\w)", re.IGNORECASE)


def _decimal(found: re.Match[str]) -> str:
    number = float.fromhex(found[1])
    return str(np.float32(number)) if found[2] else repr(number)


# ---- create, destroy, fail -----------------------------------------------------------------------------------------

_CAUSES = {"create": "table_full", "create_at": "table_full", "destroy": "stale_entity", "fail": ""}


@dataclass(frozen=True)
class FaultSite:
    """A call by which a system can report a fault, such as ``world.create<Stone>(...)``.

    Attributes:
        call: ``"create"``, ``"create_at"``, ``"destroy"`` or ``"fail"``.
        names: as written, ``"Stone"`` or ``"grid::Cell"`` of a table, ``"many"`` of each ``Fault::many``; empty if the
            text leaves it open.
        namespace: of the text.
        place: file and line.
    """

    call: str
    names: tuple[str, ...]
    namespace: str
    place: str

    def can_report(self, cause: str) -> bool:
        """Whether it can report a fault: ``"table_full"``, ``"stale_entity"``, or a declared one, ``"grid.full"``."""
        if self.call != "fail":
            return cause == _CAUSES[self.call]
        return cause not in _CAUSES.values() and (not self.names or cause.rpartition(".")[2] in self.names)


def fault_sites(text: Text) -> Iterator[FaultSite]:
    """The calls in one text."""
    tokens = text.tokens
    for i in range(1, len(tokens)):
        call = tokens[i].text
        if call in _CAUSES and tokens[i - 1].text in (".", "->", "template"):
            names = _faults_named(tokens, i + 1) if call == "fail" else _table_named(tokens, i + 1)
            yield FaultSite(call, names, text.namespace, text.place(tokens[i]))


def _faults_named(tokens: Sequence[Token], opening: int) -> tuple[str, ...]:
    """Each ``Fault::name`` in the brackets that begin at a token."""
    depth, names = 0, []
    for k in range(opening, len(tokens)):
        depth += (tokens[k].text == "(") - (tokens[k].text == ")")
        if depth == 0:
            break
        if tokens[k - 1].text == "::" and tokens[k - 2].text == "Fault":
            names.append(tokens[k].text)
    return tuple(names)


def _table_named(tokens: Sequence[Token], first: int) -> tuple[str, ...]:
    """The one type in the angle brackets that begin at a token."""
    if first >= len(tokens) or tokens[first].text != "<":
        return ()
    end = next((k for k in range(first, len(tokens)) if tokens[k].text == ">"), first)
    words = tokens[first + 1 : end]
    plain = words and all(token.is_word or token.text == "::" for token in words)
    return ("".join(token.text for token in words),) if plain else ()
