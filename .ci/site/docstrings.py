"""Docstrings as Markdown: what they have of reStructuredText, ``::`` before code and doctest's ``>>>``, is changed."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^>>> .*\n(?:(?:>>>|\.\.\.).*\n?)*", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring without markup that Markdown would show as it stands."""
    text = re.sub(r"::(\n\n {4})", r":\1", text)
    return _DOCTEST.sub(lambda found: f"\n```python\n{found[0].rstrip()}\n```\n", text)


class Docstrings(Extension):
    """Changes each docstring that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
