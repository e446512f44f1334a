"""Insertions into an author's text by which a device checks its subscripts, arrows and divisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..base.numbers import CPP_WORDS
from ..read.cpp_text import Source, outside_of_brackets

_NO_OPERANDS = frozenset(
    "return else do case goto throw new delete operator sizeof if while for switch and or not".split()
)


def with_looks(source: Source) -> list[tuple[int, str]]:
    """Ascending places in a text, and the insertion at each: macros of csrc/tbs/checked_device.h.

    ``a.b[i]`` becomes ``(TBS_LOOK(6) a.b)[i]``, with the column of the closing bracket, ``p->x`` becomes
    ``(TBS_LOOK_BEHIND(2) p)->x``, and ``a / b`` becomes ``a / TBS_BY(3) b``. Indices and divisors that are literals are
    left alone.
    """
    put: list[tuple[int, str]] = []
    for i in range(len(source.tokens) - 2, 0, -1):  # backwards: an outer operand first
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
    """Where the operand begins that ends in front of token ``i``; -1 where it is declared there, or missing."""
    begin, last = _postfix_begin(source, i - 1), source.tokens[i - 1].text
    is_base = begin >= 0 and last != "auto" and not last[0].isdigit() and not _is_declarator(source, begin)
    return begin if is_base else -1


def _around(source: Source, begin: int, end: int, text: str) -> Iterator[tuple[int, str]]:
    yield source.tokens[begin].start, f"({text} "
    yield source.tokens[end].start, ")"


def _division(source: Source, i: int) -> Iterator[tuple[int, str]]:
    tokens = source.tokens
    assigns = tokens[i + 1].text == "=" and tokens[i + 1].start == tokens[i].start + 1
    first = i + 1 + assigns
    if tokens[first].text[0].isdigit() or tokens[first].text[0] == "." or _enclosing(source, i) < 0:
        return
    yield tokens[first].start, f"{'TBS_BY_ALL' if assigns else 'TBS_BY'}({_column(source, i)}) "


def _column(source: Source, i: int) -> int:
    """Of a token in its line, from 1, in bytes, as compilers count."""
    start = source.tokens[i].start
    return len(source.whole[source.whole.rfind("\n", 0, start) + 1 : start].encode()) + 1


def _postfix_begin(source: Source, last: int) -> int:
    """Where the names, members, calls and subscripts begin that end with token ``last``; -1 for anything else."""
    tokens, i = source.tokens, last
    while i >= 0:
        text = tokens[i].text
        if text in (")", "]"):
            i = source.partner[i]
            before = tokens[i - 1] if i else None
            if text == ")" and (tokens[i + 1].text == "&" or (before and before.text in CPP_WORDS)):
                return -1  # a declarator, as in f32 (&rows)[4]
            if before is None or not (before.is_word or before.text in (")", "]", ">")):
                return i if text == ")" else -1
            if before.text in _NO_OPERANDS:
                return i if text == ")" and before.text in ("return", "else", "do") else -1
            i -= 1
            continue
        if text == ">":
            opened = _angle(source, i)
            if opened < 1:
                return -1
            i = opened - 1
            text = tokens[i].text
        if not tokens[i].is_word or text in _NO_OPERANDS:
            return -1
        while i > 0 and tokens[i - 1].text == "::":
            i -= 2 if i > 1 and tokens[i - 2].is_word and tokens[i - 2].text not in _NO_OPERANDS else 1
        if i > 0 and tokens[i - 1].text == "template":
            i -= 1
        if i == 0 or tokens[i - 1].text not in (".", "->"):
            return i
        i -= 2
    return -1


def _angle(source: Source, last: int) -> int:
    """The ``<`` of template arguments, names only, that end with the ``>`` at ``last``; -1 for anything else."""
    depth = 0
    for i in range(last, max(last - 64, -1), -1):
        token = source.tokens[i]
        depth += (token.text == ">") - (token.text == "<")
        if depth == 0:
            return i
        if not (token.is_word or token.text[0].isdigit() or token.text in ("::", ",", "<", ">")):
            return -1
    return -1


def _head(source: Source, i: int) -> int:
    """Where the statement, the argument list or the list in brackets begins in which token ``i`` stands."""
    while i > 0:
        text = source.tokens[i - 1].text
        if text == "}" and source.tokens[i].text == ",":  # of values
            i = source.partner[i - 1]
            continue
        if text in (";", "{", "}", "(", "["):
            return i
        i = source.partner[i - 1] if text in (")", "]") else i - 1
        if text == ")" and i > 0 and source.tokens[i - 1].text in ("if", "while", "for", "switch"):
            return source.partner[i] + 1
    return 0


def _enclosing(source: Source, i: int) -> int:
    """The opening bracket around token ``i``; -1 outside of all."""
    for k in range(i - 1, -1, -1):
        if source.partner.get(k, -1) > i:
            return k
    return -1


def _is_declarator(source: Source, begin: int) -> bool:
    """Whether the name with a subscript, or with parameters, that begins there is declared by it."""
    tokens, before = source.tokens, source.tokens[begin - 1]
    if begin == 0 or (before.is_word and before.text not in _NO_OPERANDS):
        return True
    if before.text not in (",", ">", "&", "*"):
        return False
    around = _enclosing(source, begin)
    own = [token.text for _, token in outside_of_brackets(source, _head(source, begin), begin)]
    words = [word[0].isalpha() or word[0] == "_" for word in own]
    if around >= 0 and tokens[around].text != "{":  # an argument, or a parameter, which has a type of its own
        last = len(own) - own[::-1].index(",") if "," in own else 0
        head = tokens[max(around - 2, 0) : around]
        if before.text in ("*", "&") and all(token.is_word and token.text not in _NO_OPERANDS for token in head):
            return True  # of a function: void fall(Cell *cells[3])
        return before.text != "," and (any(a and b for a, b in pairwise(words[last:])) or "::" in own[last:])
    if around >= 0:
        inside = outside_of_brackets(source, around + 1, source.partner[around])
        if not any(token.text == ";" for _, token in inside):
            return False  # a list of values
    last = own[len(own) - own[::-1].index(",") :] if "," in own else own
    if "," in own and set(last) <= {"*", "&"}:  # one more of a declaration
        while own[1:2] == ["::"]:
            own = own[2:]
        named = own[1:2] and (own[1][0].isalpha() or own[1] in ("*", "&", "<"))
        return bool(named) and own[0][0].isalpha() and own[0] not in _NO_OPERANDS
    if before.text == ">" and "<" not in own:
        return False
    marks = ("::", "<", ">", ",", "*", "&")
    of_type = all(word or text in marks or text.isdigit() for word, text in zip(words, own, strict=True))
    return bool(own) and words[0] and of_type and not _NO_OPERANDS.intersection(own)
