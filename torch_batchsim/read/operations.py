"""What a system on several lanes does outside of operations, where all lanes do the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CAPTURES = r"\[[&=\w\s,]*\]\s*"
_LAMBDA = re.compile(rf"{_CAPTURES}(?:\([^()]*\)\s*)?(?:->\s*[\w:<>\s*&]+)?\{{")
_OF_TABLES = re.compile(
    rf"\btables\s*<(?P<types>(?:[^<>;{{}}]|<[^<>;{{}}]*>)*)>\s*\(\s*{_CAPTURES}\((?P<parameters>[^()]*)\)\s*(?=\{{)"
)
_PLACE = r"(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])*"  # .field, ->field, [i] behind a name
_ASSIGNMENT = r"\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"


def writes_outside_of_operations(body: str, written: Iterable[str]) -> tuple[str, ...]:
    """Where every lane would write what all lanes share, or create: as it stands in the text.

    ``written`` are the names of the parameters that the system writes.
    """
    outside, rows = _opened_tables(body)
    while (match := _LAMBDA.search(outside)) is not None:
        end = _end_of_block(outside, match.end() - 1)
        outside = outside[: match.start()] + " " * len(match[0]) + outside[end:]
    names = [*written, *rows]
    patterns = [rf"\b{name}\b{_PLACE}{_ASSIGNMENT}" for name in names]
    patterns += [rf"(?:\+\+|--)\s*{name}\b{_PLACE}" for name in names]
    patterns += [rf"\b(?:rows|get|find)\s*<[^<>;]*>\s*\([^()]*\){_PLACE}{_ASSIGNMENT}", r"\bcreate_at\s*<[^<>;]*>\s*\("]
    return tuple(" ".join(match[0].split()) for pattern in patterns for match in re.finditer(pattern, outside))


def _opened_tables(code: str) -> tuple[str, list[str]]:
    """The text in which ``world.tables`` is given a block and no lambda: it is no operation, for all lanes run that.

    Also the names of rows that may be written there.
    """
    rows = []
    while (match := _OF_TABLES.search(code)) is not None:
        types = re.split(r",(?![^<]*>)", match["types"])
        for parameter, wanted in zip(match["parameters"].split(",")[1:], types, strict=False):
            name = re.search(r"[\s&>](\w+)\s*$", parameter.strip())
            rows += [name[1]] if name and not re.search(r"\bconst\b", wanted) else []
        code = code[: match.start()] + " " * len(match[0]) + code[match.end() :]
    return code, rows


def _end_of_block(code: str, start: int) -> int:
    """The place behind the ``}`` that belongs to the ``{`` at ``start``."""
    depth = 0
    for match in re.finditer(r"[{}]", code[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(code)
