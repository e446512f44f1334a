"""The text of an author's C++: its files with their includes, its tokens, and the declarations of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ..declare.declaration import ENGINE_HEADERS
from ..errors import SchemaError

_TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\[ \t]*\n|\\.)*|/\*.*?\*/)
    |(?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    |(?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>::|->|[^\s])""",
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = r"\\[ \t]*\n"
_DIRECTIVE_LINE = re.compile(
    rf"""(?://(?:[^\n\\]|{_CONTINUED}|\\.)*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[^\n\\]|{_CONTINUED}|\\.)*""", re.DOTALL
)
_DIRECTIVES = frozenset("include define undef if ifdef ifndef elif else endif pragma error warning".split())
_PARTNERS = {")": "(", "}": "{", "]": "["}
_CONDITIONALS = ("if", "ifdef", "ifndef")


@dataclass(frozen=True)
class Token:
    """A word, number, string, character or punctuation mark. ``start``: its place in ``Source.code``."""

    text: str
    line: int
    start: int = 0

    @property
    def is_word(self) -> bool:
        return self.text[0].isalpha() or self.text[0] == "_"


@dataclass(frozen=True)
class Macro:
    """``#define name(parameters) body``. ``order``: its parameters in order, None without brackets."""

    name: str
    parameters: frozenset[str]
    body: tuple[Token, ...]
    line: int
    order: tuple[str, ...] | None = None


@dataclass
class Include:
    """``#include``: as ``written``, quotes or angles included; ``text[first:last]`` of its file, at ``line``.

    ``path`` is the included file; None for a header of the engine, which every unit has already.
    """

    written: str
    line: int
    first: int
    last: int
    path: Path | None = None


@dataclass
class Source:
    """A file: its text, its tokens without comments, and its directives.

    Attributes:
        whole: the text as it is; ``code`` has comments and the insides of strings and characters blanked, at the same
            places.
        once: the place of ``#pragma once`` in the text.
        guarded: a macro guards against a second inclusion.
        conditional: indices of tokens between ``#if`` and ``#endif``.
        partner: the index of the bracket that belongs to the bracket ``tokens[i]``.
    """

    path: Path
    whole: str
    code: str = ""
    tokens: list[Token] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    includes: list[Include] = field(default_factory=list)
    once: tuple[int, int] | None = None
    guarded: bool = False
    conditional: list[tuple[int, int]] = field(default_factory=list)
    partner: dict[int, int] = field(default_factory=dict)

    def place(self, token: Token | int) -> str:
        return f"{self.path.name}:{token if isinstance(token, int) else token.line}"

    def text(self, first: int, last: int) -> str:
        """The code of ``tokens[first:last]`` with single spaces."""
        if first >= last:
            return ""
        end = self.tokens[last - 1]
        return " ".join(self.code[self.tokens[first].start : end.start + len(end.text)].split())


def read_source(path: Path, text: str) -> Source:
    """Tokens and directives of a file. Raises SchemaError for a bracket without a partner."""
    source = _read_once(path, text)
    return replace(source, includes=[replace(include) for include in source.includes])  # their paths are still missing


@lru_cache(maxsize=512)
def _read_once(path: Path, text: str) -> Source:
    """``read_source`` of a text, which takes 0.2 s for the library of rigid bodies."""
    source = Source(path, text)
    blanked, place, line, line_begins = [], 0, 1, True
    opened: list[tuple[int, str]] = []  # conditionals: index of token, and the name that is not defined so far
    while match := _TOKEN.search(text, place):
        line += text.count("\n", place, match.start())
        line_begins |= "\n" in text[place : match.start()]
        blanked.append(text[place : match.start()])
        kind, content = match.lastgroup if match.lastgroup != "delimiter" else "string", match[0]
        if content == "#" and line_begins:
            whole = _DIRECTIVE_LINE.match(text, match.start())[0]
            _read_directive(source, whole, line, match.start(), opened)
            blanked.append(re.sub(r"[^\n]", " ", whole))
            place, line = match.start() + len(whole), line + whole.count("\n")
            continue
        if kind == "comment":
            blanked.append(re.sub(r"[^\n]", " ", content))
        else:
            shown = (
                content if kind not in ("string", "character") else content[0] + " " * (len(content) - 2) + content[-1]
            )
            blanked.append(shown)
            source.tokens.append(Token(shown if kind == "string" else content, line, match.start()))
            line_begins = False
        line += content.count("\n")
        place = match.end()
    source.code = "".join([*blanked, text[place:]])
    _pair_brackets(source)
    return source


def _read_directive(source: Source, whole: str, line: int, first: int, opened: list[tuple[int, str]]) -> None:
    """A directive, continued lines included. Raises SchemaError for one that would bring text past the reader."""
    joined = re.sub(_CONTINUED, "", whole)
    joined = _TOKEN.sub(lambda match: " " if match.lastgroup == "comment" else match[0], joined)
    tokens = [Token(match[0], line, match.start()) for match in _TOKEN.finditer(joined)]
    name = tokens[1].text if len(tokens) > 1 else ""
    if (name and name not in _DIRECTIVES) or any(token.text.startswith("__has_") for token in tokens):
        raise SchemaError(
            f'{source.place(line)}: {" ".join(joined.split())} is unknown to the engine; write #include "file.h", and '
            "#pragma once in that file"
        )
    if name == "pragma" and [token.text for token in tokens[2:]] != ["once"]:
        raise SchemaError(f"{source.place(line)}: {' '.join(joined.split())}: only #pragma once is allowed in systems")
    if name == "pragma":
        source.once = first, first + len(whole)
    if name == "include":
        written = re.search(r'"[^"\n]*"|<[^>\n]*>', joined)
        given = written[0] if written else " ".join(joined.split()[1:])
        source.includes.append(Include(given, line, first, first + len(whole)))
    elif name == "define" and len(tokens) > 2:
        called = tokens[2].text
        order, body = None, tokens[3:]
        if re.search(rf"define\s+{re.escape(called)}\(", joined):
            end = next((i for i, token in enumerate(body) if token.text == ")"), len(body) - 1)
            order, body = tuple(t.text for t in body[:end] if t.is_word), body[end + 1 :]
        source.macros.append(Macro(called, frozenset(order or ()), tuple(body), line, order))
    elif name in _CONDITIONALS:
        opened.append((len(source.tokens), tokens[2].text if name == "ifndef" and len(tokens) > 2 else ""))
    elif name == "endif" and opened:
        first, unknown = opened.pop()
        guard = first == 0 and source.macros and source.macros[0].name == unknown  # against a second inclusion
        source.guarded |= bool(guard)
        if not guard:
            source.conditional.append((first, len(source.tokens)))


def _pair_brackets(source: Source) -> None:
    opened: list[int] = []
    for index, token in enumerate(source.tokens):
        if token.text in ("(", "{", "["):
            opened.append(index)
        elif token.text in _PARTNERS:
            if not opened or source.tokens[opened[-1]].text != _PARTNERS[token.text]:
                raise _unpaired(source, opened[-1] if opened and token.text == "}" else index)
            source.partner[index] = opened.pop()
            source.partner[source.partner[index]] = index
    if opened:
        raise _unpaired(source, opened[0])


def _unpaired(source: Source, index: int) -> SchemaError:
    """The error of a bracket without a partner. Of a function's brace, it may also be a brace inside."""
    tokens, token = source.tokens, source.tokens[index]
    place = source.place(token)
    if token.text in _PARTNERS:
        return SchemaError(f"{place}: this '{token.text}' closes nothing: leave it out, or open it before")
    close = next(mark for mark, opens in _PARTNERS.items() if opens == token.text)
    if token.text != "{" or index < 2 or tokens[index - 1].text != ")" or index - 1 not in source.partner:
        return SchemaError(f"{place}: this '{token.text}' is not closed: write '{close}' where it ends")
    name = tokens[source.partner[index - 1] - 1].text
    later = next((each for each in tokens[index:] if each.text in ("TBS_SYSTEM", "TBS_FUNCTION")), None)
    until = f" before the next function begins in line {later.line}" if later else ""
    return SchemaError(f"{place}: a brace of '{name}' is not closed{until}: write '}}' where it ends")


_ENGINE = (ENGINE_HEADERS / "tbs").resolve()


def read_files(source: Path, include_paths: Sequence[Path] = ()) -> list[Source]:
    """``source`` and every file that it includes by quotes, each once, the included files first.

    The reader looks in the folder of the including file, then in ``include_paths``, then among the engine's headers;
    it leaves out those of ``csrc/tbs``, which every unit has already. Raises SchemaError, with file and line, for a
    missing file, for one that includes itself or comes twice, and for a header of the standard library.
    """
    if not source.is_file():
        raise SchemaError(f"the systems' file {source} does not exist")
    found: dict[Path, Source] = {}

    def visit(path: Path, including: tuple[Path, ...]) -> None:
        if path in found:
            return
        read = read_source(path, path.read_text("utf-8").removeprefix("\ufeff"))
        for include in read.includes:
            included = _included(read, include.written, include.line, include_paths)
            if included in (*including, path):
                way = " includes ".join(
                    p.name for p in (*including, path, included)[(*including, path).index(included) :]
                )
                raise SchemaError(f"{read.place(include.line)}: a file includes itself: {way}")
            if included in found and not (found[included].once or found[included].guarded):
                raise SchemaError(
                    f"{read.place(include.line)}: {include.written} is included a second time; begin it with "
                    "#pragma once"
                )
            if included.parent != _ENGINE:
                include.path = included
                visit(included, (*including, path))
        found[path] = read

    visit(source.resolve(), ())
    return list(found.values())


def _included(source: Source, written: str, line: int, include_paths: Sequence[Path]) -> Path:
    name = written[1:-1]
    if written.startswith("<"):
        raise SchemaError(
            f"{source.place(line)}: systems cannot include {written}, because some device lacks it; "
            "docs/authoring.md lists the engine's functions"
        )
    if not written.startswith('"'):
        raise SchemaError(f'{source.place(line)}: #include {written} is not understood; write #include "file.h"')
    folders = [source.path.parent, *include_paths, ENGINE_HEADERS]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise SchemaError(
        f"{source.place(line)}: the included file {written} is not found in {' or '.join(map(str, folders))} "
        "(the engine's own functions need no include)"
    )


# ---- declarations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Declaration:
    """A declaration of a file, a namespace or a struct: ``tokens[first:last]`` up to its body or its end.

    Attributes:
        kind: ``"function"``, ``"variable"``, ``"type"`` or ``"other"``.
        where: ``"file"``, ``"namespace"`` or ``"struct"``.
        name: the index of a function's name, else -1.
        body: the index of ``{`` and the one behind ``}``; None without.
        types: names of template parameters around it.
        words: of its head, outside of brackets.
    """

    kind: str
    first: int
    last: int
    where: str
    name: int = -1
    body: tuple[int, int] | None = None
    types: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


_NOT_NAMES = frozenset(
    "alignas decltype __attribute__ noexcept requires explicit if while for switch return void".split()
)
_RECORDS = ("struct", "class", "union")


def declarations(source: Source) -> Iterator[Declaration]:
    """All declarations of a file, also those inside of namespaces and structs."""
    return _scope(source, 0, len(source.tokens), "file", frozenset())


def global_names(source: Source) -> Iterator[tuple[int, str]]:
    """Line and name of each type and function that a file defines outside of namespaces and structs."""
    for declaration in declarations(source):
        if declaration.where != "file":
            continue
        if declaration.kind == "function" and "TBS_SYSTEM" not in declaration.words and declaration.name >= 0:
            token = source.tokens[declaration.name]
            yield token.line, token.text
        elif declaration.kind == "type":
            words = source.tokens[declaration.first : declaration.last]
            names = [token for token in words if token.text not in ("struct", "class", "union", "enum", "TBS_METHOD")]
            begun = any(token.text == "{" for token in words)
            if begun and names[0].is_word and words[0].text != "template":
                yield names[0].line, names[0].text


def _scope(source: Source, first: int, last: int, where: str, types: frozenset[str]) -> Iterator[Declaration]:
    index = first
    tokens = source.tokens
    while index < last:
        text = tokens[index].text
        if text == ";":
            index += 1
        elif text in ("public", "private", "protected") and tokens[index + 1].text == ":":
            index += 2
        elif text == "namespace" or (text == "inline" and tokens[index + 1].text == "namespace"):
            stop = _stop(source, index, last)
            if stop < last and tokens[stop].text == "{":
                yield from _scope(source, stop + 1, source.partner[stop], "namespace", types)
                index = source.partner[stop] + 1
            else:
                index = _behind_semicolon(source, stop, last)
        else:
            for declaration in _one(source, index, last, where, types):
                yield declaration
                if declaration.where == where and declaration.first == index:
                    index = declaration.body[1] if declaration.body else declaration.last
            if index < last and tokens[index].text == ";":
                index += 1


def _one(source: Source, first: int, last: int, where: str, types: frozenset[str]) -> Iterator[Declaration]:
    """The declaration that begins at ``first``, and those within it."""
    tokens, index = source.tokens, first
    while tokens[index].text == "template" and index + 1 < last and tokens[index + 1].text == "<":
        end = behind_angles(source, index + 1, last)
        types |= _template_parameters(tokens[index + 2 : end - 1])
        index = end
    stop = _stop(source, index, last)
    words = frozenset(t.text for i, t in outside_of_brackets(source, index, stop) if t.is_word)
    begin = next(
        (tokens[i].text for i in range(index, stop) if tokens[i].text not in ("constexpr", "inline", "static")), ""
    )
    ends = tokens[stop].text if stop < last else ""
    name = _function_name(source, index, stop)
    if begin in ("using", "typedef", "static_assert", "concept", "friend", "extern"):
        end = _behind_semicolon(source, stop, last)
        kind = "variable" if begin == "extern" else "other"
        yield Declaration(kind, first, end, where, words=words, types=types)
    elif begin in (*_RECORDS, "enum") and ends == "{" and name < 0:
        close = source.partner[stop]
        end = _behind_semicolon(source, close + 1, last)
        kind = "variable" if tokens[close + 1 : end - 1] and where != "struct" else "type"
        yield Declaration(kind, first, end, where, words=words, types=types)
        if begin != "enum":
            yield from _scope(source, stop + 1, close, "struct", types)
    elif name >= 0:
        body, end = _body(source, name, last)
        head = body[0] if body else end
        words = frozenset(t.text for i, t in outside_of_brackets(source, index, head) if t.is_word)
        yield Declaration("function", first, head, where, name, body, types, words)
    else:
        end = _behind_semicolon(source, stop, last)
        announced = begin in (*_RECORDS, "enum") and stop - index <= 3  # struct Name;
        yield Declaration("type" if announced else "variable", first, end, where, words=words, types=types)


def _stop(source: Source, index: int, last: int) -> int:
    """The index of the first ``{``, ``;`` or ``=`` outside of other brackets."""
    while index < last:
        text = source.tokens[index].text
        if text in ("{", ";"):
            return index
        if text == "=" and source.tokens[index - 1].text not in ("operator", *"=!<>+-*/%&|^"):
            return index
        index = source.partner[index] + 1 if text in ("(", "[") else index + 1
    return last


def _behind_semicolon(source: Source, index: int, last: int) -> int:
    while index < last and source.tokens[index].text != ";":
        index = source.partner[index] + 1 if source.tokens[index].text in ("(", "[", "{") else index + 1
    return min(index + 1, last)


def outside_of_brackets(source: Source, first: int, last: int) -> Iterator[tuple[int, Token]]:
    """The tokens from ``first`` to ``last``, with their indices, without the insides of brackets."""
    index = first
    while index < last:
        yield index, source.tokens[index]
        index = source.partner[index] + 1 if source.tokens[index].text in ("(", "[", "{") else index + 1


def behind_angles(source: Source, index: int, last: int) -> int:
    """The index behind the ``>`` that belongs to the ``<`` at ``index``; ``index`` itself without a partner."""
    depth, at = 0, index
    while at < last:
        text = source.tokens[at].text
        depth += (text == "<") - (text == ">")
        if depth == 0:
            return at + 1
        if text in (";", "{", "}", ")"):
            return index
        at = source.partner[at] + 1 if text in ("(", "[") else at + 1
    return index


def _template_parameters(tokens: Sequence[Token]) -> frozenset[str]:
    """Names behind ``class``, ``typename``, a concept or a type: the last word before each comma."""
    names, word, depth, default = set(), "", 0, False
    for token in (*tokens, Token(",", 0)):
        depth += (token.text in "<(") - (token.text in ">)")
        if token.text == "," and depth == 0:
            names.add(word)
            word, default = "", False
        elif token.text == "=" and depth == 0:
            default = True
        elif token.is_word and not default and depth == 0:
            word = token.text
    return frozenset(names)


def _function_name(source: Source, first: int, last: int) -> int:
    """The index of the name in front of the first parameters, -1 without any."""
    for index, token in outside_of_brackets(source, first, last):
        if token.text == "operator":
            return index
        if token.text == "(" and index > first:
            before = source.tokens[index - 1]
            if before.is_word and before.text not in _NOT_NAMES and not before.text.startswith("TBS_REACHES"):
                return index - 1
    return -1


def _body(source: Source, name: int, last: int) -> tuple[tuple[int, int] | None, int]:
    """A function's body, its member initialisers included, and the end of its declaration."""
    tokens, index = source.tokens, name + 1
    if tokens[name].text == "operator" and tokens[index].text == "(":
        index = source.partner[index] + 1  # operator()
    while index < last and tokens[index].text != "(":
        index += 1
    index = begin = source.partner.get(index, last - 1) + 1
    initialisers = False
    while index < last:
        text, before = tokens[index].text, tokens[index - 1]
        if text == ":" and not initialisers:
            initialisers, begin = True, index
        elif text == "{" and initialisers and (before.is_word or before.text == ">"):
            index = source.partner[index]
        elif text == "{":
            return (begin if initialisers else index, source.partner[index] + 1), source.partner[index] + 1
        elif text == ";":
            return None, index + 1
        index = source.partner[index] + 1 if text in ("(", "[") else index + 1
    return None, last
