"""Rejects expressions that draw, or create, twice in an order that C++ leaves open: g++ and nvcc choose differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..errors import SchemaError
from .cpp_text import Declaration, Source, Token

# Tokens between two operands whose order C++ defines: of these operators, and where another statement begins.
_ORDERED = frozenset("; ? :".split())
_STATEMENTS = frozenset("if while for switch return else case do".split())
_WORLD = "world"
_WORDS = ("Random", "auto", "random", "create")


def check_order(source: Source, declared: Sequence[Declaration]) -> None:
    """Raise SchemaError for the first pair of draws, or of created rows, whose order is open."""
    for declaration in declared:
        if declaration.kind != "function" or declaration.body is None:
            continue
        sites: dict[str, list[int]] = {}
        for stream, index in _sites(source, declaration.name, declaration.body[1]):
            sites.setdefault(stream, []).append(index)
        for stream, found in sites.items():
            for first, second in pairwise(sorted(found)):
                if not _ordered(source, first, second):
                    raise _open(source, stream, first, second)


def _open(source: Source, stream: str, first: int, second: int) -> SchemaError:
    tokens = source.tokens
    what = "rows are created" if stream == "create" else "numbers are drawn"
    lines = "" if tokens[first].line == tokens[second].line else f" and line {tokens[second].line}"
    return SchemaError(
        f"{source.place(tokens[first])}{lines}: two {what} in one expression, and C++ leaves open which comes first: "
        "compilers differ, and so would worlds on CPU and CUDA; put each into a variable of its own"
    )


def _sites(source: Source, first: int, last: int) -> Iterator[tuple[str, int]]:
    """The stream and token of each draw, and of each created row: ``random.uniform()``, ``noise(random)``.

    References share the stream of the row, ``"row"``; a variable has its own. A function that is given a stream draws
    behind its arguments: its token is the bracket that closes them.
    """
    tokens = source.tokens
    streams: dict[str, str] = {}
    for index in range(first, last):
        text, before = tokens[index].text, tokens[index - 1].text
        if text not in _WORDS and text not in streams:
            continue
        behind = [token.text for token in tokens[index + 1 : index + 4]]
        if text == "Random" or text == "auto":
            name = tokens[index + 2] if behind[:1] == ["&"] else tokens[index + 1]
            if name.is_word and (text == "Random" or _begins_stream(tokens, index)):
                streams[name.text] = "row" if behind[:1] == ["&"] else name.text
        elif before in (".", "->"):
            if text == "random" and behind[:2] == ["(", ")"] and behind[2:] == ["."]:
                yield "row", index
            elif text == "create" and tokens[index - 2].text == _WORLD:
                yield "create", index
        elif text in streams and before not in ("Random", "&"):
            opening = _around(source, index, index) or 0
            if behind[:1] == ["."]:
                yield streams[text], index
            elif behind[:1] in ([","], [")"]) and tokens[opening].text == "(" and _is_call(tokens, opening):
                yield streams[text], source.partner[opening]


def _begins_stream(tokens: Sequence[Token], index: int) -> bool:
    """Whether ``auto &name = world.random(`` begins here."""
    following = [token.text for token in tokens[index : index + 8]]
    return "random" in following and "=" in following and ";" not in following[: following.index("random")]


def _ordered(source: Source, first: int, second: int) -> bool:
    """Whether C++ defines which of two tokens is evaluated first."""
    tokens = source.tokens
    if source.partner.get(second, second) < first:  # an argument, and its call
        return True
    opening = _around(source, first, second)
    is_call = opening is not None and tokens[opening].text == "(" and _is_call(tokens, opening)
    between = [token.text for token in _between(source, opening, first, second)]
    if "{" in between or "}" in between:  # of a block, such as the body of a lambda
        return True
    if is_call and "," in between:
        return False
    for before, text, after in zip(("", *between), between, (*between[1:], ""), strict=False):
        if text in _ORDERED or text in _STATEMENTS or text == ",":
            return True
        assigns = text == "=" and before not in tuple("=!<>") and after != "="
        if assigns or text + after in ("&&", "||", "<<", ">>"):
            return True
    return False


def _around(source: Source, first: int, second: int) -> int | None:
    """The innermost bracket around both tokens."""
    openings = [i for i in range(first) if i in source.partner and i < source.partner[i]]
    return max((i for i in openings if source.partner[i] > second), default=None)


def _between(source: Source, opening: int | None, first: int, second: int) -> Iterator[Token]:
    """The tokens between two, of the bracket around both: those of inner brackets only where these are blocks."""
    tokens, partner = source.tokens, source.partner
    inner = [i for i in range((opening if opening is not None else -1) + 1, second) if i in partner and partner[i] > i]
    # Brackets that hold one of the two: what stands in them beside it decides too, as far as they are blocks.
    index = max((partner[i] for i in inner if i < first < partner[i]), default=first)
    if tokens[index].text == "}" and index != first and _is_block(tokens, partner[index]):
        yield tokens[index]
    index += 1
    while index < second:
        if index in partner and partner[index] > index:
            block = tokens[index].text == "{" and _is_block(tokens, index)
            if block:
                yield tokens[index]
            if partner[index] > second:
                return
            index = partner[index]
        else:
            yield tokens[index]
        index += 1


def _is_block(tokens: Sequence[Token], opening: int) -> bool:
    """Whether ``{`` begins statements, not values."""
    before = tokens[opening - 1].text if opening else ""
    return before in (")", "]", "else", "do", ";", "{", "}", ":")


def _is_call(tokens: Sequence[Token], opening: int) -> bool:
    """Whether ``(`` begins arguments, whose order is open."""
    before = tokens[opening - 1]
    return (before.is_word and before.text not in _STATEMENTS) or before.text in (">", ")", "]")
