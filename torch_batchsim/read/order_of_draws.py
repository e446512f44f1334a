"""Rejects expressions that draw, or create, twice in an order that C++ leaves open: g++ and nvcc choose differently.

The reader knows no types, so it rejects only what it surely understands: two arguments of one call, or two operands of
one operator, that draw from the same stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..errors import SchemaError
from .cpp_text import Declaration, Source, Token, behind_angles

# Tokens between two operands whose order C++ defines, or that are in different statements.
_ORDERED = frozenset("; ? : , and or if while for switch return else case do".split())
_HEADS = ("if", "while", "for", "switch", "constexpr")  # in front of a bracket behind which a statement begins
_OPERATORS = frozenset("+-*/%<>=!&|^,")
_WORDS = ("Random", "auto", "random", "create")


def check_order(source: Source, declared: Sequence[Declaration]) -> None:
    """Raise SchemaError for the first pair of draws, or of created rows, whose order is open."""
    for declaration in declared:
        if declaration.kind != "function" or declaration.body is None:
            continue
        sites: dict[str, list[int]] = {}
        for stream, index in _sites(source, declaration.name, declaration.body):
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


# ---- draws ---------------------------------------------------------------------------------------------------------


def _sites(source: Source, name: int, body: tuple[int, int]) -> Iterator[tuple[str, int]]:
    """The stream of each draw, ``"create"`` of each created row, and the bracket that closes the call's arguments.

    A call draws behind its arguments. ``"row"`` is the stream of ``world.random()``, also through references; another
    variable, or a parameter, is a stream by its name.
    """
    tokens = source.tokens
    streams: dict[str, str] = {}
    for index in range(name, body[1]):
        text, before = tokens[index].text, tokens[index - 1].text
        if text not in _WORDS and text not in streams:
            continue
        behind = [token.text for token in tokens[index + 1 : index + 4]]
        if text in ("Random", "auto"):
            is_reference = behind[:1] == ["&"]
            named = tokens[index + 1 + is_reference]
            if named.is_word and (text == "Random" or _begins_stream(source, index + 1 + is_reference)):
                of_row = is_reference and index > body[0]
                streams[named.text] = "row" if of_row else named.text
        elif before in (".", "->"):
            if tokens[index - 2].text != "world":
                continue
            if text == "create":
                yield "create", _end_of_call(source, index, body[1])
            elif text == "random" and behind[:2] == ["(", ")"]:
                yield from _use(source, "row", index, index + 2, body[1])
        elif text in streams and before != "Random" and not (before == "&" and _declares(tokens, index - 2)):
            yield from _use(source, streams[text], index, index, body[1])


def _declares(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].text in ("Random", "auto")


def _use(source: Source, stream: str, first: int, last: int, end: int) -> Iterator[tuple[str, int]]:
    """The draw, if ``tokens[first:last + 1]``, which is a stream, draws: ``random.uniform()``, ``noise(random)``."""
    tokens, after = source.tokens, source.tokens[last + 1].text
    opening = _around(source, first, last)
    if after == ".":
        yield stream, _end_of_call(source, last, end)
    elif after in (",", ")") and opening is not None and _is_call(tokens, opening):
        yield stream, source.partner[opening]


def _end_of_call(source: Source, index: int, end: int) -> int:
    """The bracket that closes the arguments of the call that begins at ``index``; ``index`` where there is none."""
    opening = next((i for i in range(index + 1, end) if source.tokens[i].text == "("), None)
    return index if opening is None else source.partner[opening]


def _begins_stream(source: Source, index: int) -> bool:
    """Whether ``name = world.random(...);`` begins here, behind ``auto``."""
    tokens = source.tokens
    if [token.text for token in tokens[index + 1 : index + 6]] != ["=", "world", ".", "random", "("]:
        return False
    return tokens[source.partner[index + 5] + 1].text in (";", ",")


# ---- orders --------------------------------------------------------------------------------------------------------


def _ordered(source: Source, first: int, second: int) -> bool:
    """Whether C++ defines which of two calls comes first, or the reader does not know."""
    tokens, partner = source.tokens, source.partner
    if partner.get(second, second) < first:  # an argument, and its call
        return True
    opening = _around(source, first, second)
    start = 0 if opening is None else opening + 1
    head = next((i for i in range(start, first) if first <= partner.get(i, -1) < second), None)
    if head is not None and tokens[head].text == "(" and tokens[head - 1].text in _HEADS:
        return True
    between = [token.text for token in _between(source, start, first, second)]
    if "{" in between or "}" in between:  # of a block, such as the body of a lambda
        return True
    if opening is not None and _is_call(tokens, opening) and "," in between:
        return False
    if not _OPERATORS.intersection(between):  # one behind the other, as in a[i][j] and f(i).g(j)
        return True
    return any(_is_sequence(between, i) for i in range(len(between)))


def _is_sequence(between: Sequence[str], index: int) -> bool:
    """Whether a token separates two operands of which C++ evaluates one first: ``a && b``, ``a = b``, ``a << b``."""
    text = between[index]
    before = between[index - 1] if index else ""
    after = between[index + 1] if index + 1 < len(between) else ""
    if text == "=":
        return before not in tuple("=!<>") and after != "="
    if text + after in ("<<", ">>"):  # `|` between the two is looser: bits() << 8 | bits()
        return not any(each in "&|^" for each in between)
    return text in _ORDERED or text + after in ("&&", "||")


def _around(source: Source, first: int, second: int) -> int | None:
    """The innermost bracket around both tokens."""
    openings = [i for i in range(first) if i in source.partner and i < source.partner[i]]
    return max((i for i in openings if source.partner[i] > second), default=None)


def _between(source: Source, start: int, first: int, second: int) -> Iterator[Token]:
    """The tokens between two, of the bracket around both, which begins at ``start``: inner brackets only where they are
    blocks, and template arguments not at all."""
    tokens, partner = source.tokens, source.partner
    # Behind the outermost inner bracket that holds the first.
    index = max((partner[i] for i in range(start, first) if first <= partner.get(i, -1)), default=first)
    if tokens[index].text == "}" and _is_block(source, partner[index]):
        yield tokens[index]
    index += 1
    while index < second:
        text = tokens[index].text
        if index in partner and partner[index] > index:
            if text == "{" and _is_block(source, index):
                yield tokens[index]
            if partner[index] >= second:
                return
            index = partner[index]
        elif text == "<" and (end := behind_angles(source, index, second)) > index and tokens[end].text in ("(", "{"):
            index = end - 1
        else:
            yield tokens[index]
        index += 1


def _is_block(source: Source, opening: int) -> bool:
    """Whether ``{`` begins statements, not values."""
    tokens = source.tokens
    if tokens[opening - 1].text in (")", "]", "else", "do", ";", "{", "}", ":", "mutable", "noexcept"):
        return True
    index = opening + 1
    while index < source.partner[opening]:
        if tokens[index].text == ";":
            return True
        index = max(index, source.partner.get(index, index)) + 1
    return False


def _is_call(tokens: Sequence[Token], opening: int) -> bool:
    """Whether a bracket begins arguments, whose order is open."""
    before = tokens[opening - 1]
    is_name = before.is_word and before.text not in _ORDERED
    return tokens[opening].text == "(" and (is_name or before.text in (">", ")", "]"))
