"""What systems do beyond their own row, as it stands in their text and in that of the functions and macros they use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..errors import SchemaError
from .cpp_text import Declaration, Source, Token

_OF_COLUMNS = {"rows": (2,), "find": (1, 2), "get": (1,)}  # methods of World with so many types
_TABLES = "tables"  # of any number of components
_OF_ARCHETYPES = ("count", "index_of", "entity", "create", "create_at", "destroy")
_PLAIN = ("destroy", "alive", "random")
_FORMS = {  # as messages show them
    "rows": "rows<Archetype, const Component>()",
    "find": "find<Archetype, const Component>(entity), or find<const Component>(entity) in every archetype that has it",
    "get": "get<const Singleton>()",
    _TABLES: "tables<const Component, ...>([&](auto table, auto components) { ... })",
    "count": "count<Archetype>()",
    "index_of": "index_of<Archetype>(entity)",
    "entity": "entity<Archetype>(index)",
    "create": "create<Archetype>(components...)",
    "create_at": "create_at<Archetype>(i, components...)",
    "destroy": "destroy<Archetype>(entity)",
}
_OPTIONAL = re.compile(r"(?:tbs :: )?Optional < (.*) >")  # words of a type, with spaces between


@dataclass(frozen=True)
class Wanted:
    """One of the components of ``world.tables<const Pose, Optional<Force>>(...)``."""

    component: str
    writes: bool
    optional: bool = False

    def __str__(self) -> str:
        name = self.component if self.writes else f"const {self.component}"
        return f"Optional<{name}>" if self.optional else name


@dataclass(frozen=True)
class Reach:
    """A method of World by which a system leaves its own row, such as ``world.rows<Stone, const Place>()``.

    Attributes:
        kind: the method; ``destroy_self`` is ``world.destroy(self)``, ``random_item`` is ``world.random(i)``.
        archetype: of ``rows``, ``count``, ``index_of``, ``entity``, ``create``, ``create_at``, ``destroy<...>``, and of
            ``find`` unless it looks in every archetype that has the component. As written in text of ``namespace``.
        component: of ``rows``, ``find`` and ``get`` (a singleton), as written.
        writes: the component stands without const.
        unclear: a template or a macro fills in a name.
        wanted: the components of ``tables``.
        place: of the first call; ``""`` if ``TBS_REACHES`` only declares it.
        through: the function or macro with the call; ``""`` for the system itself.
    """

    kind: str
    archetype: str | None = None
    component: str | None = None
    writes: bool = False
    namespace: str = ""
    unclear: bool = False
    wanted: tuple[Wanted, ...] = ()
    place: str = field(default="", compare=False)
    through: str = field(default="", compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """All names in it."""
        return tuple(filter(None, (self.archetype, self.component, *(each.component for each in self.wanted))))

    def __str__(self) -> str:
        component = self.component if self.writes or not self.component else f"const {self.component}"
        types = ", ".join(filter(None, (self.archetype, component, *map(str, self.wanted))))
        return f"{self.kind}<{types}>" if types else f"{self.kind}()"


@dataclass(frozen=True)
class Text:
    """The body of a system, a function or a macro.

    Attributes:
        namespace: of its file, ``""`` for the author's.
        tokens: of the body.
        types: names that a template fills in.
        use: where its name means it: ``"function"`` not behind a ``.``, ``"method"`` there too, ``"any"`` everywhere
            (macros, constructors).
        parameters: names that hide functions of the same names in the body.
        file: the name of its file; ``""`` for the list of ``TBS_REACHES``.
        name: of the function or macro, ``""`` for a system.
    """

    namespace: str
    tokens: Sequence[Token]
    types: frozenset[str]
    use: str = "any"
    parameters: frozenset[str] = frozenset()
    file: str = ""
    name: str = ""

    @cached_property
    def words(self) -> tuple[tuple[int, bool], ...]:
        """The index of each word, and whether it is a variable there."""
        return tuple(_names(self))

    def place(self, token: Token) -> str:
        """``"game.h:7"``, the line of a token."""
        return f"{self.file}:{token.line}" if self.file else ""

    def reach(self, kind: str, token: Token, **keywords: Any) -> Reach:
        """The reach whose method is ``token``."""
        return Reach(kind, namespace=self.namespace, place=self.place(token), through=self.name, **keywords)


def helpers_in(namespace: str, source: Source, declared: Sequence[Declaration]) -> Iterator[tuple[str, Text]]:
    """The functions and macros of a file by name."""
    for declaration in declared:
        if declaration.kind == "function" and declaration.body:
            name, (begin, end) = declaration.name, declaration.body
            parameters = frozenset(_declared_in(source.tokens[name + 1 : begin]))
            called, body = source.tokens[name].text, source.tokens[begin:end]
            use = _use(source, declaration)
            yield called, Text(namespace, body, declaration.types, use, parameters, source.path.name, called)
    for macro in source.macros:
        yield macro.name, Text(namespace, macro.body, macro.parameters, file=source.path.name, name=macro.name)


def _use(source: Source, declaration: Declaration) -> str:
    if declaration.where != "struct":
        return "function"
    before = source.tokens[declaration.name - 1].text
    marks = ("TBS_METHOD", "TBS_FUNCTION", "TBS_INLINE", "TBS_CALLED", "TBS_ONE_COPY")
    without_type = before in (*marks, "constexpr", "explicit", "inline", "~", ")")
    return "any" if without_type or declaration.name == declaration.first else "method"


def texts_of(text: Text, helpers: dict[str, list[Text]]) -> list[Text]:
    """A system's text, and those of the functions and macros that it uses, directly or through others; each once."""
    found, seen, waiting = [], set(), [text]
    while waiting:
        text = waiting.pop()
        found.append(text)
        for index, is_variable in text.words:
            if text.tokens[index].text not in helpers:
                continue
            called = [
                each
                for each in _meant(helpers[text.tokens[index].text], text, index)
                if id(each) not in seen and (each.use == "any" or (not is_variable and _is_call(text, index, each.use)))
            ]
            seen.update(map(id, called))
            waiting += called
    return found


def _names(text: Text) -> Iterator[tuple[int, bool]]:
    """The words of a body, and whether each is a variable there: a parameter, or declared in front of it in a block."""
    tokens, blocks = text.tokens, [set(text.parameters)]
    for index, token in enumerate(tokens):
        if token.text == "{":
            blocks.append(set())
        elif token.text == "}" and len(blocks) > 1:
            blocks.pop()
        elif token.is_word:
            if _declares(tokens, index):
                blocks[-1].add(token.text)
            qualified = index > 0 and tokens[index - 1].text in ("::", ".", "->")
            yield index, not qualified and any(token.text in block for block in blocks)


_NO_TYPES = frozenset("return else do case and or not typename template".split())


def _declares(tokens: Sequence[Token], index: int) -> bool:
    """Whether a variable of a body is declared here: ``f32 length``, ``auto &length =``, ``f32 width, length;``."""
    before = tokens[index - 1] if index else None
    if before is None:
        return False
    last = len(tokens) - 1
    after = tokens[index + 1].text if index < last else " "
    next_after = tokens[index + 2].text if index + 1 < last else " "
    if before.is_word and before.text not in _NO_TYPES:
        return after in ("=", "{", ":", ";", ",", ")", "[", "(")
    given = after == "=" and next_after != "="
    return (
        (given and before.text in ("&", "*", ">", ","))
        or (before.text == "&" and after == ":")
        or (before.text == ">" and after == "{")
        or (before.text == "," and after == ";")
    )


def _declared_in(tokens: Sequence[Token]) -> Iterator[str]:
    """The names of a function's parameters: the last word before a comma, a default, an array or the end."""
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.is_word and after.text in (",", ")", "=", "[") and (before.is_word or before.text in ("&", "*", ">")):
            yield token.text


def _is_call(text: Text, index: int, use: str) -> bool:
    """Whether a function's name is called here, or handed on as a whole argument."""
    tokens = text.tokens
    before = tokens[index - 1].text if index else ""
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if before in (".", "->") and use == "function":
        return False
    if before == "&" and index > 1:
        before = tokens[index - 2].text
    return after in ("(", "<") or (before in ("(", ",", "<", "::") and after in (",", ")", ">"))


def _meant(found: list[Text], text: Text, index: int) -> list[Text]:
    """The functions of one name that a token of ``text`` can mean, with ``grid::`` in front or without.

    Text of a library never means the author's functions, which may have the names of its own.
    """
    is_qualified = index > 1 and text.tokens[index - 1].text == "::"
    for wanted in (text.tokens[index - 2].text, text.namespace) if is_qualified else (text.namespace,):
        own = [each for each in found if each.namespace == wanted]
        if own:
            return own
    return [each for each in found if each.namespace or not text.namespace]


def reaches_in(text: Text, own: str = "") -> Iterator[Reach]:
    """The reaches in one text. ``own`` is the name of the system's parameter ``Entity self``."""
    tokens = text.tokens
    for index in range(1, len(tokens) - 1):
        kind = tokens[index].text
        if tokens[index - 1].text not in (".", "->", "template"):
            continue
        if tokens[index + 1].text == "<" and kind in (*_OF_COLUMNS, *_OF_ARCHETYPES, _TABLES):
            types, end = _types(tokens, index + 2)
            _check_form(text, index, types, end)
            if types and end < len(tokens) and tokens[end].text == "(":
                reach = _typed_reach(text, tokens[index], types)
                if reach:
                    yield reach
        elif tokens[index + 1].text == "(" and kind in {*_FORMS} - {*_PLAIN} and tokens[index - 2].text == "world":
            place = text.place(tokens[index])
            raise SchemaError(f"{place}: world.{kind}(...) names no types: write world.{_FORMS[kind]}")
        elif tokens[index + 1].text == "(" and kind in _PLAIN:
            end = next((i for i in range(index + 2, len(tokens)) if tokens[i].text == ")"), index + 2)
            argument = "".join(token.text for token in tokens[index + 2 : end])
            if kind == "destroy" and own and argument == own:
                kind = "destroy_self"
            yield text.reach("random_item" if kind == "random" and argument else kind, tokens[index])


def _check_form(text: Text, index: int, types: list[list[str]], end: int) -> None:
    """Raise SchemaError for a method of World with other types than it takes; the compiler says that at length."""
    tokens, kind = text.tokens, text.tokens[index].text
    if not types:
        close = next((i for i in range(index, len(tokens)) if tokens[i].text in (">", ";")), len(tokens))
        marks = [token.text for token in tokens[index + 2 : close] if token.text in ("&", "*")]
        if close < len(tokens) - 1 and tokens[close].text == ">" and tokens[close + 1].text == "(" and marks:
            raise SchemaError(
                f"{text.place(tokens[index])}: leave the '{marks[0]}' in the types of {kind}<...> out: write "
                f"world.{_FORMS[kind]}"
            )
        return
    given = f"{kind}<{', '.join(' '.join(words) for words in types)}>"
    place = text.place(tokens[index])
    fits = len(types) in _OF_COLUMNS.get(kind, (1,)) if kind not in (_TABLES, "create", "create_at") else True
    if any("..." in words for words in types):
        return
    if not fits:
        more = ", a call for each component" if kind == "rows" and len(types) > 2 else ""
        count = f"{len(types)} type{'s' * (len(types) > 1)}"
        raise SchemaError(f"{place}: {given} names {count}: write world.{_FORMS[kind]}{more}")
    if end < len(tokens) and tokens[end].text in (".", "[", "->", ";"):
        raise SchemaError(f"{place}: {given} is a function: call it, world.{_FORMS[kind]}")


def _types(tokens: Sequence[Token], index: int) -> tuple[list[list[str]], int]:
    """Template arguments from ``index`` on, each as its words, and the index behind ``>``; no words unless types."""
    types: list[list[str]] = [[]]
    depth = 1
    for at in range(index, len(tokens)):
        token = tokens[at]
        depth += (token.text == "<") - (token.text == ">")
        if depth == 0:
            return (types if all(types) else []), at + 1
        if token.text == "," and depth == 1:
            types.append([])
        elif token.is_word or token.text in ("::", "<", ">", ",", "...") or token.text[0].isdigit():
            types[-1].append(token.text)
        else:
            break
    return [], len(tokens)


def _typed_reach(text: Text, method: Token, types: list[list[str]]) -> Reach | None:
    kind = method.text
    optional = [bool(_OPTIONAL.fullmatch(" ".join(words))) for words in types] if kind == _TABLES else []
    types = [_OPTIONAL.sub(r"\1", " ".join(words)).split() for words in types] if any(optional) else types
    names = ["".join(word for word in words if word not in ("const", "typename")) for words in types]
    inside = {token.text for before, token in zip(text.tokens, text.tokens[1:], strict=False)
              if before.text in ("class", "typename")}  # fmt: skip
    filled_in = {word for words in types for word in words} & (text.types | inside)
    unclear = bool(filled_in) or not all(re.fullmatch(r"(?:::)?\w+(?:::\w+)*", name) for name in names)
    if kind in _OF_ARCHETYPES:
        return text.reach(kind, method, archetype=names[0], unclear=unclear)
    if kind == _TABLES:
        each = zip(names, types, optional, strict=True)
        wanted = tuple(Wanted(name, "const" not in words, is_optional) for name, words, is_optional in each)
        return text.reach(kind, method, unclear=unclear, wanted=wanted)
    if len(names) not in _OF_COLUMNS[kind]:
        return None
    archetype = names[0] if len(names) == 2 else None
    writes = "const" not in types[-1]
    return text.reach(kind, method, archetype=archetype, component=names[-1], writes=writes, unclear=unclear)


def declared_reaches(namespace: str, tokens: Sequence[Token], where: str) -> Iterator[Reach]:
    """The reaches that ``TBS_REACHES(rows<Stone, const Place>, create<Bullet>, random)`` lists."""
    index = 0
    while index < len(tokens):
        kind, types, end = tokens[index].text, [], index + 1
        if end < len(tokens) and tokens[end].text == "<":
            types, end = _types(tokens, end + 1)
        reach = None
        if types and kind in (*_OF_COLUMNS, *_OF_ARCHETYPES, _TABLES):
            reach = _typed_reach(Text(namespace, (), frozenset()), tokens[index], types)
        elif not types and kind in (*_PLAIN, "destroy_self", "random_item"):
            reach = Reach(kind, namespace=namespace)
        if reach is None or reach.unclear or (end < len(tokens) and tokens[end].text != ","):
            raise SchemaError(
                f"{where} is not understood from '{kind}' on; it is a list of rows<Archetype, const Component>, "
                "find<Archetype, Component>, tables<const Component, Optional<Component>>, get<const Singleton>, "
                "count<Archetype>, index_of<Archetype>, entity<Archetype>, create<Archetype>, create_at<Archetype>, "
                "destroy<Archetype>, destroy, destroy_self, alive, random, random_item"
            )
        yield reach
        index = end + 1
