"""Bodies of functions as trees: statements, expressions, variables. Only as exact as warnings about them need.

The reader knows no templates and no overloads. A statement that it cannot parse is ``Unknown``: it says nothing about
this one, and goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from ..base.numbers import CPP_WORDS
from .cpp_text import Source, behind_angles

_Found = TypeVar("_Found")


@dataclass(eq=False)
class Expression:
    """A part of an expression: ``tokens[first:last]``.

    Attributes:
        kind: ``"number"``, ``"name"`` (with ``::`` in front), ``"member"``, ``"index"``, ``"call"``, ``"braces"``,
            ``"cast"``, ``"unary"``, ``"step"`` (``++`` and ``--``), ``"binary"``, ``"assign"``, ``"choice"``,
            ``"lambda"``, ``"group"`` (in brackets) or ``"other"``.
        text: of a number, name, member or operator; the type of a cast.
        parts: the operands in order; of a call the function and its arguments.
        arguments: types in angles behind a name, ``("Stone", "const Place")``.
        lambda_: of a lambda.
    """

    kind: str
    first: int
    last: int
    text: str = ""
    parts: list[Expression] = field(default_factory=list)
    arguments: tuple[str, ...] = ()
    lambda_: Lambda | None = None


@dataclass(eq=False)
class Variable:
    """A variable, or a parameter.

    Attributes:
        type: as written, without ``const`` and marks: ``"Ball"``, ``"auto"``, ``"Rows<const Place>"``.
        names: one; those of a structured binding.
        mark: ``"&"``, ``"*"``, ``"&&"`` or ``""``.
        extents: expressions of an array's.
        given: its first value; ``each``: it takes each element of that.
        at: the index of its first name's token.
    """

    type: str
    names: list[str]
    at: int
    mark: str = ""
    const: bool = False
    bound: bool = False
    extents: list[Expression] = field(default_factory=list)
    given: Expression | None = None
    each: bool = False
    parameter: bool = False


@dataclass(eq=False)
class Lambda:
    captures: list[str]  # as written, ``"&"``, ``"="``, ``"&total"``, ``"copy"``
    made: list[Variable]  # by ``[copy = ball]``
    parameters: list[Variable]
    result: str  # behind ``->``
    mutable: bool
    body: Statement


@dataclass(eq=False)
class Statement:
    """A statement: ``tokens[first:last]``.

    Attributes:
        kind: ``"block"``, ``"declaration"``, ``"expression"``, ``"if"``, ``"loop"``, ``"switch"``, ``"return"``,
            ``"break"``, ``"continue"`` or ``"unknown"``.
        variables: that it declares, in the head of a loop too.
        condition: of an ``if`` or loop; the value of a ``return``.
        step: of a ``for``.
        parts: statements within it.
        word: ``"for"``, ``"while"``, ``"do"`` of a loop.
    """

    kind: str
    first: int
    last: int
    variables: list[Variable] = field(default_factory=list)
    condition: Expression | None = None
    step: Expression | None = None
    parts: list[Statement] = field(default_factory=list)
    word: str = ""


class _Unclear(Exception):
    """The parser does not understand a statement."""


_BINARY = {  # operators by how closely they bind
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<=>": 7, "<": 6, ">": 6, "<=": 6, ">=": 6,
    "==": 5, "!=": 5, "&": 4, "^": 3, "|": 2, "&&": 1, "||": 0, "and": 1, "or": 0,
}  # fmt: skip
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_LONG = sorted((*(op for op in (*_BINARY, *_ASSIGNMENTS) if len(op) > 1), "++", "--", "&&"), key=len, reverse=True)
_KEYWORDS = frozenset(
    "return if else for while do switch case default break continue using struct class enum template static_assert "
    "goto try typedef sizeof new delete operator co_return".split()
)
_CASTS = ("static_cast", "const_cast", "reinterpret_cast", "bit_cast")
_IN_TYPES = frozenset("const typename constexpr static volatile signed unsigned mutable struct".split())


def parsed_body(source: Source, first: int, last: int) -> Statement:
    """The block of a function, whose ``{`` is the token ``first`` and whose ``}`` the one in front of ``last``."""
    return _Parser(source).block(first)


def parsed_parameters(source: Source, opened: int) -> list[Variable]:
    """The parameters in the brackets that open at a token; those that the parser does not understand are missing."""
    return _Parser(source).parameters(opened)


def parsed_fields(source: Source, first: int, last: int) -> list[Variable]:
    """The variables of one declaration; none if the parser does not understand it."""
    parser = _Parser(source)
    parser.at, parser.end = first, last
    while parser.text() in ("inline", "TBS_CONSTANT"):
        parser.at += 1
    try:
        return parser.declared() or []
    except (_Unclear, IndexError, KeyError):
        return []


@cache
def _first_operator(marks: str) -> str:
    """The longest operator of several marks with which these begin; ``""`` for none."""
    return next((long for long in _LONG if marks.startswith(long)), "")


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source, self.tokens = source, source.tokens
        self.end = len(source.tokens)  # of the tokens that the parser may take
        self.at = 0

    # ---- tokens ----------------------------------------------------------------------------------------------------

    def text(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < self.end else ""

    def operator(self) -> str:
        """The operator that begins here, of several marks side by side."""
        if self.at >= self.end:
            return ""
        token = self.tokens[self.at]
        if token.is_word or token.text[0] in "\"'0123456789":
            return token.text
        joined = token.text
        for following in self.tokens[self.at + 1 : min(self.at + 3, self.end)]:
            if following.start != token.start + len(joined) or following.is_word:
                break
            joined += following.text
        return _first_operator(joined) or token.text

    def take(self, text: str) -> None:
        if self.text() != text:
            raise _Unclear
        self.at += 1

    def skip_operator(self, operator: str) -> None:
        self.at += 1 if operator in ("and", "or", "not") else max(1, len(operator) // len(self.tokens[self.at].text))

    def closing(self) -> int:
        if self.at not in self.source.partner:
            raise _Unclear
        return self.source.partner[self.at]

    def within(self, end: int) -> _Parser:
        """A parser of the tokens from here to ``end``."""
        inner = _Parser(self.source)
        inner.at, inner.end = self.at, end
        return inner

    # ---- statements ------------------------------------------------------------------------------------------------

    def block(self, opened: int) -> Statement:
        close = self.source.partner[opened]
        block = Statement("block", opened, close + 1)
        inner = _Parser(self.source)
        inner.at, inner.end = opened + 1, close
        while inner.at < inner.end:
            block.parts.append(inner.statement())
        self.at = close + 1
        return block

    def statement(self) -> Statement:
        """The next statement. One that is not understood is unknown."""
        first = self.at
        try:
            return self._statement()
        except (_Unclear, IndexError, KeyError):
            self.at = first
            while self.at < self.end and self.text() != ";":
                if self.text() == "{":
                    self.at = self.source.partner[self.at]
                    if self.text(1) not in (";", ")", ",") and self.tokens[first].text != "do":
                        break
                elif self.text() in ("(", "["):
                    self.at = self.source.partner[self.at]
                self.at += 1
            self.at = min(self.at + 1, self.end)
            return Statement("unknown", first, self.at)

    def _statement(self) -> Statement:
        first, word = self.at, self.text()
        if word == "{":
            return self.block(first)
        if word == ";":
            self.at += 1
            return Statement("block", first, self.at)
        if word.startswith("TBS_") and word.endswith("UNROLL"):
            self.at += 1
            return self._statement()
        if word == "[" and self.text(1) == "[":  # an attribute
            self.at = self.closing() + 1
            return self._statement()
        if word in ("case", "default"):
            while self.text() != ":":
                if self.text() in (";", ""):
                    raise _Unclear
                self.at += 1
            self.at += 1
            return self._statement() if self.at < self.end else Statement("block", first, self.at)
        if word in ("if", "switch"):
            return self._if()
        if word in ("for", "while", "do"):
            return self._loop()
        if word in ("break", "continue"):
            self.at += 1
            self.take(";")
            return Statement(word, first, self.at)
        if word == "return":
            self.at += 1
            value = None
            if self.text() != ";":
                value = self.braces("") if self.text() == "{" else self.expression()
            self.take(";")
            return Statement("return", first, self.at, condition=value)
        if word in ("using", "static_assert", "typedef", "struct", "class", "enum", "template"):
            raise _Unclear
        variables = self.declared()
        if variables is not None:
            self.take(";")
            return Statement("declaration", first, self.at, variables)
        value = self.listed()
        self.take(";")
        return Statement("expression", first, self.at, condition=value)

    def _if(self) -> Statement:
        first, word = self.at, self.text()
        self.at += 1
        if self.text() == "constexpr":
            self.at += 1
        close, made = self.closing(), Statement("if" if word == "if" else "switch", first, first)
        inner = self.within(close)
        inner.at += 1
        variables = inner.declared()
        if variables is not None:
            made.variables = variables
            if inner.at < inner.end:
                inner.take(";")
        if inner.at < inner.end:
            made.condition = inner.expression()
        if inner.at != close:
            raise _Unclear
        self.at = close + 1
        made.parts.append(self.statement())
        if self.text() == "else":
            self.at += 1
            made.parts.append(self.statement())
        made.last = self.at
        return made

    def _loop(self) -> Statement:
        first, word = self.at, self.text()
        made = Statement("loop", first, first, word=word)
        self.at += 1
        if word == "do":
            made.parts.append(self.statement())
            self.take("while")
        close = self.closing()
        inner = self.within(close)
        inner.at += 1
        if word == "for":
            self._head(inner, made)
        else:
            made.condition = inner.expression()
        if inner.at != close:
            raise _Unclear
        self.at = close + 1
        if word == "do":
            self.take(";")
        else:
            made.parts.append(self.statement())
        made.last = self.at
        return made

    def _head(self, inner: _Parser, made: Statement) -> None:
        """The head of a ``for``."""
        if inner.text() != ";":
            variables = inner.declared()
            if variables is None:
                begin = Statement("expression", inner.at, inner.at, condition=inner.expression())
                made.parts.append(begin)
            else:
                made.variables = variables
        if inner.text() == ":" and len(made.variables) == 1:
            inner.at += 1
            made.variables[0].given, made.variables[0].each = inner.expression(), True
            return
        inner.take(";")
        if inner.text() != ";":
            made.condition = inner.expression()
        inner.take(";")
        if inner.at < inner.end:
            made.step = inner.listed()

    # ---- declarations ----------------------------------------------------------------------------------------------

    def declared(self) -> list[Variable] | None:
        """The variables of a declaration up to its ``;``, ``:`` or the end; None where an expression begins here."""
        first = self.at
        head = self._type()
        if head is None:
            self.at = first
            return None
        kind, const = head
        made: list[Variable] = []
        while True:
            variable = self._declarator(kind, const)
            if variable is None:
                if made:
                    raise _Unclear
                self.at = first
                return None
            made.append(variable)
            if self.text() != ",":
                return made
            self.at += 1

    def _type(self) -> tuple[str, bool] | None:
        """A type up to its marks, and whether it is const; None where there is none."""
        const, words = False, ""
        while self.text() == "[" and self.text(1) == "[":
            self.at = self.closing() + 1
        while self.text() in _IN_TYPES:
            const |= self.text() in ("const", "constexpr")
            if self.text() in ("signed", "unsigned"):
                words = self.text()
            self.at += 1
        if not words or self.text() in CPP_WORDS:
            if not self.text() or not (self.text()[0].isalpha() or self.text()[0] == "_"):
                return None
            if self.text() in _KEYWORDS:
                return None
            words = self.text()
            self.at += 1
            while self.text() == "::" and self.at + 1 < self.end:
                words += "::" + self.text(1)
                self.at += 2
                if self.text() == "template":
                    self.at += 1
            if self.text() == "<":
                behind = behind_angles(self.source, self.at, self.end)
                if behind == self.at:
                    return None
                words += self.source.text(self.at, behind)
                self.at = behind
                if self.text() == "::":
                    return None
        while self.text() == "const":
            const = True
            self.at += 1
        return words, const

    def _declarator(self, kind: str, const: bool) -> Variable | None:
        """One name with its marks, array and first value; None where this is no declaration."""
        mark = ""
        if self.text() == "(" and self.text(1) in ("&", "*") and self.text(3) == ")" and self.text(4) == "[":
            variable = Variable(kind, [self.text(2)], self.at + 2, self.text(1), const)  # of an array
            self.at += 4
            return self._first_value(variable)
        while self.text() in ("&", "*", "const"):
            mark += self.text() if self.text() != "const" else ""
            self.at += 1
        if self.text() == "[" and kind == "auto":
            close = self.closing()
            names = [token.text for token in self.tokens[self.at + 1 : close] if token.is_word]
            variable = Variable(kind, names, self.at + 1, mark, const, bound=True)
            self.at = close + 1
        else:
            if not self.text() or not (self.text()[0].isalpha() or self.text()[0] == "_") or self.text() in _KEYWORDS:
                return None
            variable = Variable(kind, [self.text()], self.at, mark, const)
            self.at += 1
        return self._first_value(variable)

    def _first_value(self, variable: Variable) -> Variable | None:
        while self.text() == "[":
            close = self.closing()
            inner = self.within(close)
            inner.at += 1
            variable.extents.append(inner.expression() if inner.at < close else Expression("other", self.at, close))
            self.at = close + 1
        if self.operator() == "=":
            self.at += 1
            variable.given = self.braces("") if self.text() == "{" else self.expression()
        elif self.text() == "{":
            variable.given = self.braces(variable.type)
        elif self.text() == "(":
            first, values = self.at, self._given()
            made = Expression("braces", first, self.at, variable.type, values)
            variable.given = values[0] if len(values) == 1 else made
        elif self.text() not in (";", ":", ",", "") and self.at < self.end:
            return None
        return variable

    def parameters(self, opened: int) -> list[Variable]:
        close = self.source.partner[opened]
        made: list[Variable] = []
        inner = _Parser(self.source)
        inner.at, inner.end = opened + 1, close
        while inner.at < close:
            begin = inner.at
            try:
                head = inner._type()
                variable = inner._declarator(*head) if head else None
            except (_Unclear, IndexError, KeyError):
                variable = None
            if variable is None or inner.text() not in (",", ""):
                inner.at = begin
                variable = Variable("", [""], begin)
                while inner.at < close and inner.text() != ",":
                    angle = behind_angles(self.source, inner.at, close) if inner.text() == "<" else inner.at
                    partner = self.source.partner.get(inner.at, inner.at)
                    inner.at = angle if angle > inner.at else max(partner, inner.at) + 1
            variable.parameter = True
            made.append(variable)
            inner.at += 1
        return made

    # ---- expressions -----------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        """An expression without commas outside of brackets."""
        first = self.at
        left = self._binary(0)
        operator = self.operator()
        if operator == "?":
            self.at += 1
            yes = self.expression()
            self.take(":")
            no = self.expression()
            return Expression("choice", first, self.at, "?", [left, yes, no])
        if operator in _ASSIGNMENTS:
            self.skip_operator(operator)
            right = self.braces("") if self.text() == "{" else self.expression()
            return Expression("assign", first, self.at, operator, [left, right])
        return left

    def listed(self) -> Expression:
        """An expression, or several with commas between."""
        made = self.expression()
        while self.text() == ",":
            self.at += 1
            following = self.expression()
            made = Expression("other", made.first, following.last, ",", [made, following])
        return made

    def _binary(self, least: int) -> Expression:
        first = self.at
        left = self._unary()
        while True:
            operator = self.operator()
            if _BINARY.get(operator, -1) < least:
                return left
            self.skip_operator(operator)
            right = self._binary(_BINARY[operator] + 1)
            left = Expression("binary", first, self.at, operator, [left, right])

    def _unary(self) -> Expression:
        first, operator = self.at, self.operator()
        if operator in ("++", "--"):
            self.skip_operator(operator)
            return Expression("step", first, self.at, operator, [self._unary()])
        if operator in ("-", "+", "!", "~", "*", "&", "not"):
            self.skip_operator(operator)
            part = self._unary()
            return Expression("unary", first, self.at, operator, [part])
        if operator == "(":
            cast = self._c_cast()
            if cast is not None:
                return cast
        return self._postfix()

    def _c_cast(self) -> Expression | None:
        """``(f32)x``: the type of a number in brackets, and something behind them."""
        first, close = self.at, self.closing()
        words = [token.text for token in self.tokens[first + 1 : close]]
        behind = self.tokens[close + 1].text if close + 1 < self.end else ""
        if len(words) != 1 or words[0] not in CPP_WORDS or not (behind == "(" or behind[:1].isalnum()):
            return None
        self.at = close + 1
        part = self._unary()
        return Expression("cast", first, self.at, words[0], [part])

    def _postfix(self) -> Expression:
        first = self.at
        made = self._primary()
        while True:
            text = self.text()
            if text in (".", "->"):
                self.at += 1
                if self.text() == "template":
                    self.at += 1
                name = self.text()
                if not name or not (name[0].isalpha() or name[0] == "_"):
                    raise _Unclear
                self.at += 1
                member = Expression("member", first, self.at, name, [made])
                member.arguments = self._angles()
                member.last = self.at
                made = member
            elif text == "(":
                made = Expression("call", first, first, parts=[made, *self._given()])
                made.last = self.at
            elif text == "[":
                index = self._enclosed()
                made = Expression("index", first, self.at, "[]", [made, index])
            elif self.operator() in ("++", "--"):
                operator = self.operator()
                self.skip_operator(operator)
                made = Expression("step", first, self.at, operator, [made])
            elif text == "{" and made.kind == "name":
                braces = self.braces(made.text)
                braces.first = first
                made = braces
            else:
                return made

    def _given(self) -> list[Expression]:
        """The arguments of a call."""
        return self._between_brackets(_Parser.values)

    def _enclosed(self) -> Expression:
        """The expression in brackets."""
        return self._between_brackets(_Parser.expression)

    def _between_brackets(self, read: Callable[[_Parser], _Found]) -> _Found:
        close = self.closing()
        inner = self.within(close)
        inner.at += 1
        found = read(inner)
        if inner.at != close:
            raise _Unclear
        self.at = close + 1
        return found

    def values(self) -> list[Expression]:
        found: list[Expression] = []
        while self.at < self.end:
            found.append(self.braces("") if self.text() == "{" else self.expression())
            if self.at < self.end:
                self.take(",")
        return found

    def braces(self, kind: str) -> Expression:
        """``{a, .b = c}`` behind the name of a type, or without."""
        first, close = self.at, self.closing()
        made = Expression("braces", first, close + 1, kind)
        inner = self.within(close)
        inner.at += 1
        while inner.at < close:
            if inner.text() == "." and inner.text(2) == "=":
                name = inner.text(1)
                inner.at += 3
                value = inner.braces("") if inner.text() == "{" else inner.expression()
                made.parts.append(Expression("other", value.first, value.last, name, [value]))
            else:
                made.parts.append(inner.braces("") if inner.text() == "{" else inner.expression())
            if inner.at < close:
                inner.take(",")
        self.at = close + 1
        return made

    def _primary(self) -> Expression:
        first, text = self.at, self.text()
        if text == "(":
            value = self._enclosed()
            return Expression("group", first, self.at, "(", [value])
        if text == "[":
            return self._lambda()
        if not text or (text in _KEYWORDS and text != "sizeof"):
            raise _Unclear
        if text[0].isdigit() or (text[0] == "." and len(text) > 1):
            self.at += 1
            return Expression("number", first, self.at, text)
        if text[0] in "\"'":
            self.at += 1
            return Expression("other", first, self.at, text)
        if not (text[0].isalpha() or text[0] == "_" or text == "::"):
            raise _Unclear
        if text in _CASTS and self.text(1) == "<":
            self.at += 1
            arguments = self._angles()
            if len(arguments) != 1:
                raise _Unclear
            return Expression("cast", first, self.at, arguments[0], self._given())
        return self._name()

    def _name(self) -> Expression:
        first, name = self.at, ""
        if self.text() == "typename":
            self.at += 1
        while True:
            if self.text() == "::":
                self.at += 1
                name += "::" if name else ""
                continue
            name += self.text()
            self.at += 1
            arguments = self._angles()
            if self.text() != "::":
                break
        if name in CPP_WORDS and self.text() in ("(", "{"):
            parts = self._given() if self.text() == "(" else self.braces(name).parts
            return Expression("cast", first, self.at, name, parts)
        return Expression("name", first, self.at, name, arguments=arguments)

    def _angles(self) -> tuple[str, ...]:
        """The types in angles that begin here, if a call or braces follow them."""
        if self.text() != "<":
            return ()
        behind = behind_angles(self.source, self.at, self.end)
        if behind == self.at or behind > self.end:
            return ()
        following = self.tokens[behind].text if behind < self.end else ""
        words = self.tokens[self.at + 1 : behind - 1]
        marks = ("::", ",", "<", ">", "&", "*", "(", ")")
        plain = all(t.is_word or t.text in marks or t.text[0].isdigit() for t in words)
        named = len(words) == 1 and words[0].text[0].isupper()  # a type, since no number begins so
        if not plain or not (following in ("(", "{", "::") or (named and following in (")", ";", ",", ""))):
            return ()
        found, begin, depth = [], self.at + 1, 0
        for index in range(self.at + 1, behind):
            text = self.tokens[index].text
            depth += (text in "<(") - (text in ">)")
            if (text == "," and depth == 0) or index == behind - 1:
                found.append(self.source.text(begin, index))
                begin = index + 1
        self.at = behind
        return tuple(found)

    def _lambda(self) -> Expression:
        first, close = self.at, self.closing()
        captures: list[str] = []
        made: list[Variable] = []
        inner = self.within(close)
        inner.at += 1
        while inner.at < close:
            begin = inner.at
            mark = "&" if inner.text() == "&" else ""
            inner.at += bool(mark)
            if inner.text(1) == "=" and inner.text() not in ("", "="):
                name, at = inner.text(), inner.at
                inner.at += 2
                made.append(Variable("auto", [name], at, mark, given=inner.expression()))
            else:
                while inner.at < close and inner.text() != ",":
                    inner.at += 1
                captures.append("".join(token.text for token in self.tokens[begin : inner.at]))
            if inner.at < close:
                inner.take(",")
        self.at = close + 1
        parameters = []
        if self.text() == "(":
            parameters = self.parameters(self.at)
            self.at = self.closing() + 1
        mutable, result = False, ""
        while self.text() not in ("{", "", ";", "->"):
            mutable |= self.text() == "mutable"
            self.at += 1
        if self.text() == "->":
            begin = self.at + 1
            while self.text() not in ("{", ""):
                self.at += 1
            result = self.source.text(begin, self.at)
        if self.text() != "{":
            raise _Unclear
        body = self.block(self.at)
        given = Lambda(captures, made, parameters, result, mutable, body)
        return Expression("lambda", first, self.at, lambda_=given)
