"""What goes into an author's text so that stores which lose a value are found (``Checks(casts=True)``)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..read.cpp_text import Source, behind_angles, outside_of_brackets

_TO, _INTO = "TBS_TO ", " TBS_INTO({}) "
_NUMBERS = frozenset(
    "i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char short int long unsigned float double int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t".split()
)
_TYPES = _NUMBERS | {"auto", "bool"}
_SEVERAL = frozenset("unsigned signed long short".split())  # words of types that take more than one
_QUALIFIERS = frozenset("const static inline volatile mutable".split())
_NO_OPERANDS = frozenset(
    "return else do case goto throw new delete operator sizeof if while for switch and or not".split()
)
_COMPOUND = frozenset("+-*/%&|^")


def with_stores(source: Source) -> list[tuple[int, str]]:
    """Ascending places in a text, and what stands there: in front of what is assigned to, and of what initialises.

    ``cell.count += 2`` becomes ``TBS_TO cell.count += 2``, ``u8 n = a`` becomes ``u8 n = TBS_INTO(u8) a``, and ``n++``
    becomes ``(TBS_TO n)++`` (csrc/tbs/casts.h has the macros). What is declared of a type by another name, braces,
    arguments and results of functions stay as they are.
    """
    put: list[tuple[int, str]] = []
    for i, token in enumerate(source.tokens):
        if token.text == "=":
            put += _store(source, i)
        elif token.text in "+-" and _adjacent(source, i) and source.tokens[i + 1].text == token.text:
            put += _increment(source, i)
    return sorted(put, key=lambda each: each[0])


def _adjacent(source: Source, i: int) -> bool:
    """Whether nothing stands between the token and the next, of one character each."""
    tokens = source.tokens
    return i >= 0 and i + 1 < len(tokens) and tokens[i].start + 1 == tokens[i + 1].start


def _store(source: Source, i: int) -> Iterator[tuple[int, str]]:
    """Of the ``=`` that is token ``i``."""
    tokens = source.tokens
    last = i - 1
    if i == 0 or i + 1 >= len(tokens) or (_adjacent(source, i) and tokens[i + 1].text == "="):
        return
    before = tokens[last].text if _adjacent(source, last) else ""
    if before in _COMPOUND:
        last -= 1
    elif before in ("<", ">") and _adjacent(source, last - 1) and tokens[last - 1].text == before:
        last -= 2
    elif before and before in "=!<>":
        return
    begin = _operand_begin(source, last)
    if begin < 0 or tokens[i + 1].text in ("{", "default", "delete"):
        return
    declared = _declared(source, begin)
    if declared is None:
        yield tokens[begin].start, _TO
    elif declared and begin == last and not _is_literal(source, i + 1):
        yield tokens[i].start + 1, _INTO.format(declared)


def _increment(source: Source, i: int) -> Iterator[tuple[int, str]]:
    """Of the ``++`` or ``--`` that begins with token ``i``."""
    tokens = source.tokens
    if i == 0 or i + 2 >= len(tokens) or (_adjacent(source, i - 1) and tokens[i - 1].text == tokens[i].text):
        return
    before, behind = tokens[i - 1], tokens[i + 2]
    ends = (before.is_word and before.text not in _NO_OPERANDS) or before.text == "]"
    if ends or (before.text == ")" and not behind.is_word and behind.text not in "(*"):
        begin = postfix_begin(source, i - 1)
        if begin >= 0:
            yield tokens[begin].start, f"({_TO}"
            yield tokens[i].start, ")"
    elif behind.is_word:
        end = _postfix_end(source, i + 2)
        yield behind.start, f"({_TO}"
        yield tokens[end].start + len(tokens[end].text), ")"


def _is_literal(source: Source, i: int) -> bool:
    """Whether a number alone stands there: the compiler knows whether that fits."""
    tokens = source.tokens
    number = tokens[i].text[0].isdigit() or tokens[i].text[0] in ".'" or tokens[i].text in ("true", "false")
    return number and i + 1 < len(tokens) and tokens[i + 1].text in (";", ",", ")")


def _operand_begin(source: Source, last: int) -> int:
    """Where the operand begins that ends with token ``last``, unary stars included; -1 where there is none."""
    tokens = source.tokens
    begin = postfix_begin(source, last)
    if begin < 0 or tokens[last].text[0].isdigit():
        return -1
    while begin > 1 and tokens[begin - 1].text == "*" and not _ends_operand(source, begin - 2):
        begin -= 1
    return begin


def _ends_operand(source: Source, i: int) -> bool:
    token = source.tokens[i]
    word = (token.is_word and token.text not in _NO_OPERANDS) or token.text[0].isdigit()
    if token.text == ")":  # not of a statement: if (found) *place = 1
        opened = source.partner[i]
        return opened == 0 or source.tokens[opened - 1].text not in ("if", "while", "for", "switch")
    return word or token.text in ("]", ">")


def postfix_begin(source: Source, last: int) -> int:
    """Where the names, members, calls and subscripts begin that end with token ``last``; -1 for anything else."""
    tokens, i = source.tokens, last
    while i >= 0:
        text = tokens[i].text
        if text in (")", "]"):
            i = source.partner[i]
            before = tokens[i - 1] if i else None
            if text == ")" and (tokens[i + 1].text == "&" or (before and before.text in _TYPES)):
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
    """The ``<`` of template arguments, names only, that end with the ``>`` at ``last``; -1 if there are none."""
    depth = 0
    for i in range(last, max(last - 64, -1), -1):
        token = source.tokens[i]
        depth += (token.text == ">") - (token.text == "<")
        if depth == 0:
            return i
        if not (token.is_word or token.text[0].isdigit() or token.text in ("::", ",", "<", ">")):
            return -1
    return -1


def _postfix_end(source: Source, first: int) -> int:
    """The last token of the names, members, calls and subscripts that begin with the word ``first``."""
    tokens, end = source.tokens, first
    while end + 1 < len(tokens):
        text = tokens[end + 1].text
        if text in (".", "->", "::") and end + 2 < len(tokens) and tokens[end + 2].is_word:
            end += 2
        elif text in ("(", "["):
            end = source.partner[end + 1]
        elif text == "<" and (behind := behind_angles(source, end + 1, len(tokens))) > end + 1:
            if _angle(source, behind - 1) != end + 1 or tokens[behind].text != "(":
                return end
            end = source.partner[behind]
        else:
            return end
    return end


def _declared(source: Source, begin: int) -> str | None:
    """None where what begins there is assigned to; else it is declared: the name of its type, "" for any other."""
    tokens = source.tokens
    if begin == 0:
        return ""
    head = _head(source, begin)
    opening = tokens[head - 1].text if head else ""
    own = [token.text for _, token in outside_of_brackets(source, head, begin)]
    if opening == "[" or "template" in own or (opening == "{" and _is_enum(source, head - 1)):
        return ""
    before = tokens[begin - 1]
    if before.text in (">", "&", "*"):
        return ""
    if before.is_word and before.text not in _NO_OPERANDS:
        return _type(own)
    if before.text == ",":  # one more of a declaration, or an expression
        first = own[: own.index(",")] if "," in own else own
        first = first[: first.index("=")] if "=" in first else first
        if not first:
            return ""
        words = [word for word in first if word[0].isalpha() or word[0] == "_"]
        pairs = any(a in words and b in words for a, b in pairwise(first))
        return (_type(first[:-1]) if len(first) > 1 else "") if pairs or {"*", "&", "<"} & set(first) else None
    return None


def _type(words: list[str]) -> str:
    """The name of the number's type that words in front of a name declare, ``""`` if they declare something else."""
    words = [word for word in words if word not in _QUALIFIERS]
    if words[:2] == ["tbs", "::"]:
        words = words[2:]
    return words[0] if len(words) == 1 and words[0] in _NUMBERS - _SEVERAL else ""


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


def _is_enum(source: Source, brace: int) -> bool:
    """Whether the brace is that of an enumeration."""
    first = _head(source, brace)
    return any(token.text == "enum" for token in source.tokens[first:brace])


def enclosing(source: Source, i: int) -> int:
    """The opening bracket around token ``i``; -1 outside of all."""
    for k in range(i - 1, -1, -1):
        if source.partner.get(k, -1) > i:
            return k
    return -1


def is_declarator(source: Source, begin: int) -> bool:
    """Whether the name with a subscript, or with parameters, that begins there is declared by it."""
    tokens, before = source.tokens, source.tokens[begin - 1]
    if begin == 0 or (before.is_word and before.text not in _NO_OPERANDS):
        return True
    if before.text not in (",", ">", "&", "*"):
        return False
    around = enclosing(source, begin)
    own = [token.text for _, token in outside_of_brackets(source, _head(source, begin), begin)]
    words = [word[0].isalpha() or word[0] == "_" for word in own]
    if around >= 0 and tokens[around].text != "{":  # an argument, or a parameter, of which each has a type
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
