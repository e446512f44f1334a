"""Docstrings as griffe and Markdown take them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_CODE = re.compile(r"::(\n\n {4})")  # of reStructuredText
_DOCTEST = re.compile(r"^>>> .*\n?(?:(?:>>>|\.\.\.).*\n?)*", re.MULTILINE)
_SEVERAL = re.compile(r"^ {4}(\w+(?:, \w+)+): (.*(?:\n {5,}.*)*)", re.MULTILINE)  # arguments in one item


def as_markdown(text: str) -> str:
    """A docstring whose code is in blocks, and whose sections have an item for each argument."""
    text = _CODE.sub(r":\1", text)
    text = _DOCTEST.sub(lambda found: f"\n```pycon\n{found[0].rstrip()}\n```\n", text)
    return _SEVERAL.sub(_items, text)


def _items(found: re.Match[str]) -> str:
    return "\n".join(f"    {name}: {found[2]}" for name in found[1].split(", "))


class Docstrings(Extension):
    """Changes each docstring that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
