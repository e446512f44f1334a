"""Where an author's texts call ``world.check``: what is told of a check that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..errors import SchemaError
from .cpp_text import Source, behind_angles, outside_of_brackets


@dataclass(frozen=True)
class CheckSite:
    """A call of ``world.check(condition)``, with a message, a value, or both behind it.

    Attributes:
        path, line, column: of the word ``check``, from 1.
        last_line: of its closing bracket.
        condition, message, value: as they are written; ``""`` where there are none.
    """

    path: Path
    line: int
    column: int
    last_line: int
    condition: str
    message: str
    value: str


def check_sites(sources: Sequence[Source]) -> Iterator[CheckSite]:
    """All calls in the texts, each text once. Those in macros are not seen. Raises SchemaError for one without a
    condition."""
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
    """The text of ``tokens[first:last]`` with single spaces."""
    if first >= last:
        return ""
    end = source.tokens[last - 1]
    return " ".join(source.whole[source.tokens[first].start : end.start + len(end.text)].split())
