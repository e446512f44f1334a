"""The functions, types and members that the engine's headers offer to systems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ..declare.declaration import ENGINE_HEADERS
from .cpp_text import Declaration, Source, declarations, read_source

# Members for the engine only.
_OWN = {
    "Random": {"begin_with"},
    "Lanes": {"group_threads", "groups_per_block", "first_lane", "stride", "sync", "lanes"},
    "Rows": {"begin", "end"},
    "WorldTable": {"world"},
    "BasicWorld": {"self"},
}
_HEADERS = ("random.h", "vector.h", "lanes.h", "world.h", "worlds.h", "bits.h")


@cache
def functions(header: str) -> tuple[str, ...]:
    """The functions that a header of ``csrc/tbs`` offers, without members of types."""
    path = ENGINE_HEADERS / "tbs" / header
    declared = offered(read_source(path, plain_build(path.read_text("utf-8"))))
    named = [name for declaration, owner, name in declared if declaration.kind == "function" and not owner]
    return tuple(dict.fromkeys(name for name in named if not name.startswith("operator")))


@cache
def members(kind: str) -> tuple[str, ...]:
    """The members that systems may use of a type of the engine, by its name in the headers: ``"Random"``."""
    found: dict[str, None] = {}
    for header in _HEADERS:
        path = ENGINE_HEADERS / "tbs" / header
        for _, owner, name in offered(read_source(path, plain_build(path.read_text("utf-8")))):
            if owner == kind and name != kind and not name.startswith("operator"):
                found[name] = None
    return tuple(name for name in found if name not in _OWN.get(kind, ()))


def plain_build(text: str) -> str:
    """The text without the lines under ``#ifdef TBS_CHECKS``, the types of a checked build for the same use."""
    return re.sub(
        r"^#ifdef TBS_CHECKS\n(.*?)^#(?:else|endif)[^\n]*\n",
        lambda found: "\n" * found[0].count("\n"),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def offered(source: Source) -> Iterator[tuple[Declaration, str, str]]:
    """Declarations, each with the type of which it is a member (``""``: none), and its name."""
    tokens = source.tokens
    within: list[tuple[int, str]] = []  # where a type ends, and its name
    details = [
        (index, source.partner[index + 2])
        for index in range(len(tokens) - 2)
        if (tokens[index].text, tokens[index + 1].text) == ("namespace", "detail")
    ]
    for declaration in declarations(source):
        first = declaration.first
        if any(begin < first < end for begin, end in details):
            continue
        within = [(end, name) for end, name in within if first < end]
        name = _name(source, declaration)
        owner = within[-1][1] if within else ""
        hidden = len(within) > 1 or (within and _is_private(source, declaration))
        if name and not name.startswith("TBS_") and not hidden:
            yield declaration, owner, name
        if declaration.kind == "type":
            within.append((declaration.last, name))


def _name(source: Source, declaration: Declaration) -> str:
    """The declared name; empty for a declaration without one, such as a static_assert."""
    tokens = source.tokens
    if declaration.kind == "function":
        return tokens[declaration.name].text
    words = [tokens[index].text for index in range(declaration.first, declaration.last)]
    text = " ".join(words)
    if words[0] in ("static_assert", "friend", "extern"):
        return ""
    if declaration.kind == "type":
        text = re.sub(r"alignas \( \d+ \)|__attribute__ \( \(.*?\) \)(?= \w+ \{)", "", text)
        found = re.search(r"\b(?:struct|class)\s+(\w+)\s*(?:[{;:<]|requires)", text)
    elif declaration.kind == "other":
        found = re.search(r"\b(?:using|concept) (\w+) =", text)
    else:
        found = re.search(r"(\w+) (?:\[[^=;]*\] )?(?:=|,|;|<)", re.sub(r"^template <.*?> (?=\w)", "", text))
    return found[1] if found else ""


def _is_private(source: Source, declaration: Declaration) -> bool:
    """Whether the last ``public:``, ``protected:`` or ``private:`` in front of it in its type hides it."""
    tokens, index = source.tokens, declaration.first - 1
    while index > 0:
        text = tokens[index].text
        if text == "}" and index in source.partner:
            index = source.partner[index]
        elif text == ":" and tokens[index - 1].text in ("public", "private", "protected"):
            return tokens[index - 1].text != "public"
        elif text == "{":
            return False
        index -= 1
    return False
