"""Reads the signatures of systems, which are their queries, and what their bodies reach, create and destroy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base.numbers import CPP_WORDS
from ..base.shared import LANES
from ..errors import SchemaError
from .cpp_rules import check_rules, check_words
from .cpp_text import Declaration, Source, Token, behind_angles, declarations, read_files
from .operations import writes_outside_of_operations

BY_VALUE = ("Row", "Entity")
ENGINE_TYPES = ("World", "Episode", "Reward", *BY_VALUE, *LANES)  # to which the reader gives a meaning

_PARAMETER = re.compile(
    r"(?P<front>const\s+)?(?P<type>\w+(?:\s*::\s*\w+)*)(?P<back>\s+const)?\s*(?P<reference>&?)\s*(?P<name>\w*)"
)
_TAKEN = (
    "a system takes 'World &world' first (or 'Worlds<4> &worlds', with a number), then components and singletons, "
    "'Component &name' to write and 'const Component &name' to read, 'Episode &episode', 'Row row', 'Entity self', "
    "'Warp &warp' or 'Block &block'"
)
_WORLDS = re.compile(r"(?:tbs\s*::\s*)?Worlds\s*<\s*(?P<count>\d{1,9})\s*>\s*&\s*(?P<name>\w*)")
MOST_WORLDS = 16  # in one call of a system
_OF_COLUMNS = {"rows": (2,), "find": (1, 2), "get": (1,)}  # methods of World with so many types
_TABLES = "tables"  # of any number of components
_OF_ARCHETYPES = ("count", "index_of", "entity", "create", "create_at", "destroy")
_PLAIN = ("destroy", "alive", "random")
_OPTIONAL = re.compile(r"(?:tbs :: )?Optional < (.*) >")  # words of a type, with spaces between


@dataclass(frozen=True)
class Parameter:
    """One parameter of a system: its type, whether the system writes it (a non-const reference), and its name.

    The type is as written, ``"CartState"`` or ``"grid::Cell"``; the engine's own (``Row``) are without ``tbs::``.
    """

    type: str
    writes: bool
    name: str = field(default="", compare=False)


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
    """What a system does beyond its own row, such as ``world.rows<Stone, const Place>()``.

    ``kind`` is the method. Of ``rows`` and ``find`` there are archetype and component (of ``find`` only the component,
    where any archetype that has it is meant), of ``get`` the component (a singleton), of ``count``, ``index_of``,
    ``entity``, ``create``, ``create_at`` and ``destroy`` the archetype; of ``tables`` the components ``wanted``; of
    ``destroy``, ``alive``, ``random`` neither. ``destroy_self`` is ``world.destroy(self)``, ``random_item`` is
    ``world.random(i)``. Names are as written, in text of ``namespace``; ``unclear``: a template or macro fills in one.
    ``place`` is the first call's, ``""`` of what is only declared; ``through`` is the function or macro that has it,
    ``""`` where that is the system.
    """

    kind: str
    archetype: str | None = None
    component: str | None = None
    writes: bool = False  # no const in front of the component
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
class System:
    """A system as declared: ``parameters`` without the leading ``World &``; ``place`` is file and line.

    ``reaches`` are those of its body, of the functions and macros of the files that it uses, and those that it
    declares by ``TBS_REACHES(...)``; the compiler checks that there are no others.
    """

    name: str
    parameters: tuple[Parameter, ...]
    place: str
    reaches: tuple[Reach, ...] = ()
    shared_writes: tuple[str, ...] = ()  # what a system on several lanes does outside of operations and must not
    declared: tuple[Reach, ...] | None = None  # those of TBS_REACHES: what its text leaves unclear is among them
    namespace: str = ""  # a library's, or "" for the author's
    worlds: int = 1  # how many it takes at a time at most: 4 with ``Worlds<4> &worlds`` in place of ``World &world``

    @property
    def lanes(self) -> int:
        """Number of lanes for each row: 32 with ``Warp &``, 256 with ``Block &``, else 1."""
        return max(LANES.get(parameter.type, 1) for parameter in (*self.parameters, Parameter("World", True)))

    def kinds(self, *kinds: str) -> list[Reach]:
        return [reach for reach in self.reaches if reach.kind in kinds]

    def by(self, reach: Reach) -> str:
        """How a message about a reach begins: ``"game.h:7: system 'go'"``, with the place of the call.

        In text of another library, which the author has not written, the place is the system's.
        """
        if not reach.place or reach.namespace != self.namespace:
            return f"{self.place}: system '{self.name}'"
        through = f" ({self.place}, through '{reach.through}')" if reach.through else ""
        return f"{reach.place}: system '{self.name}'{through}"


@dataclass(frozen=True)
class Unit:
    """Systems to be read: a header, with what it includes, and the namespace in which it is compiled.

    ``namespace`` is ``""`` for the author's systems, or the name of a library, ``"grid"``. ``include_paths`` are
    its folders, in which included files are looked for, after the folder of the file that includes.
    """

    source: Path
    namespace: str = ""
    include_paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Text:
    """What is run where a name is used: a function's body, or a macro's. ``types``: names that a template fills in.

    ``use`` says in which places its name means it: ``"function"`` not behind a ``.``, ``"method"`` there too,
    ``"any"`` everywhere (macros, constructors). ``parameters``: names that mean no functions in its body. ``file`` has
    it, and ``name`` is what it is used by, ``""`` of a system.
    """

    namespace: str
    tokens: Sequence[Token]
    types: frozenset[str]
    use: str = "any"
    parameters: frozenset[str] = frozenset()
    file: str = ""
    name: str = ""

    def reach(self, kind: str, token: Token, **keywords: Any) -> Reach:
        """One that a token of it begins."""
        place = f"{self.file}:{token.line}" if self.file else ""
        return Reach(kind, namespace=self.namespace, place=place, through=self.name, **keywords)


def read_units(*units: Unit) -> list[tuple[str, Source]]:
    """The files of the units with their namespaces: the headers, and what they include before them, each once.

    Raises SchemaError as ``read_files`` does, and for a file that is of two namespaces: it has one.
    """
    found: dict[Path, tuple[str, Source]] = {}
    for unit in units:
        for source in read_files(unit.source, unit.include_paths):
            namespace, _ = found.setdefault(source.path, (unit.namespace, source))
            if namespace != unit.namespace:
                raise SchemaError(
                    f"{unit.source.name} includes {source.path.name}, which is of library {namespace}: leave the "
                    f"include out, what it defines is there as {namespace}::..."
                )
    return list(found.values())


def read_systems(*units: Unit) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` of the units, by name: ``"move"``, or ``"grid::insert"`` where a unit has a namespace."""
    return systems_in(read_units(*units))


def systems_in(sources: Sequence[tuple[str, Source]]) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` of files with their namespaces, by name, as ``read_systems`` has them.

    Raises SchemaError, with file and line, for what is not understood or would not run on every device.
    """
    systems: dict[str, System] = {}
    helpers: dict[str, list[_Text]] = {}
    found: list[tuple[str, Source, Declaration]] = []
    for namespace, source in sources:
        check_words(source)
        declared = list(declarations(source))
        check_rules(source, declared)
        for name, text in _helpers(namespace, source, declared):
            helpers.setdefault(name, []).append(text)
        found += [(namespace, source, d) for d in declared if "TBS_SYSTEM" in d.words]
    for namespace, source, declaration in found:
        system = _read_system(namespace, source, declaration, helpers)
        key = f"{namespace}::{system.name}" if namespace else system.name
        if key in systems:
            raise SchemaError(f"{system.place}: system '{key}' is defined twice, first at {systems[key].place}")
        systems[key] = system
    return systems


def _helpers(namespace: str, source: Source, declared: Sequence[Declaration]) -> Iterator[tuple[str, _Text]]:
    for declaration in declared:
        if declaration.kind == "function" and declaration.body:
            name, (begin, end) = declaration.name, declaration.body
            parameters = frozenset(_declared_in(source.tokens[name + 1 : begin]))
            called, body = source.tokens[name].text, source.tokens[begin:end]
            use = _use(source, declaration)
            yield called, _Text(namespace, body, declaration.types, use, parameters, source.path.name, called)
    for macro in source.macros:
        yield macro.name, _Text(namespace, macro.body, macro.parameters, file=source.path.name, name=macro.name)


def _use(source: Source, declaration: Declaration) -> str:
    if declaration.where != "struct":
        return "function"
    before = source.tokens[declaration.name - 1].text
    marks = ("TBS_METHOD", "TBS_FUNCTION", "TBS_INLINE", "TBS_CALLED", "constexpr", "explicit", "inline")
    without_type = before in (*marks, "~", ")")
    return "any" if without_type or declaration.name == declaration.first else "method"


def _read_system(namespace: str, source: Source, found: Declaration, helpers: dict[str, list[_Text]]) -> System:
    tokens, place = source.tokens, source.place(source.tokens[found.first])
    name = tokens[found.name].text
    begin, declared = found.first + 1, None
    if tokens[begin].text == "TBS_REACHES" and tokens[begin + 1].text == "(":
        end = source.partner[begin + 1]
        declared = tuple(_declared_reaches(namespace, tokens[begin + 2 : end], f"{place}: TBS_REACHES of '{name}'"))
        begin = end + 1
    if [token.text for token in tokens[begin : found.name]] != ["void"]:
        given = " ".join(token.text for token in tokens[begin : found.name])
        raise SchemaError(
            f"{place}: system '{name}' must return void, got '{given}': write TBS_SYSTEM void {name}(...), and results "
            "into components"
        )
    close = source.partner[found.name + 1]
    worlds, parameters = _read_parameters(source, found.name + 2, close, name, place)
    body = tokens[slice(*found.body)]
    own = next((parameter.name for parameter in parameters if parameter.type == "Entity"), "")
    hidden = frozenset(parameter.name for parameter in parameters)
    text = _Text(namespace, body, frozenset(), parameters=hidden, file=source.path.name)
    reaches = _reaches(text, own, helpers)
    reaches = tuple(dict.fromkeys((*reaches, *(declared or ()))))
    system = System(name, parameters, place, reaches, declared=declared, namespace=namespace, worlds=worlds)
    if system.lanes == 1:
        return system
    code = source.code[body[0].start : body[-1].start + 1]
    written = [p.name for p in parameters if p.writes and p.name and p.type not in LANES]
    return replace(system, shared_writes=writes_outside_of_operations(code, written))


# ---- signatures ----------------------------------------------------------------------------------------------------


def _read_parameters(source: Source, first: int, last: int, name: str, place: str) -> tuple[int, tuple[Parameter, ...]]:
    """The parameters of system ``name`` without World or Worlds, and how many worlds these are at most."""
    texts, begin, index = [], first, first
    while index < last:
        text = source.tokens[index].text
        if text == ",":
            texts.append(source.text(begin, index))
            begin = index + 1
        after = behind_angles(source, index, last) if text == "<" else index
        index = after if after > index else source.partner[index] + 1 if text in ("(", "[", "{") else index + 1
    texts.append(source.text(begin, last))
    several = _WORLDS.fullmatch(texts[0])
    if several and not 2 <= int(several["count"]) <= MOST_WORLDS:
        raise SchemaError(
            f"{place}: system '{name}' takes {several['count']} worlds at a time; Worlds<n> & takes 2 to {MOST_WORLDS}"
        )
    texts[0] = f"World &{several['name']}" if several else texts[0]
    parsed = [_read_parameter(text, name, place) for text in texts if text]
    if not parsed or parsed[0].type != "World":
        given = f", got '{texts[0]}'" if texts[0] else ""
        raise SchemaError(f"{place}: the first parameter of system '{name}' must be World &, or Worlds<n> &{given}")
    seen: dict[str, str] = {}
    for parameter, text in zip(parsed, filter(None, texts), strict=True):
        if parameter.type in seen:
            raise SchemaError(_taken_twice(parameter.type, seen[parameter.type], text, name, place))
        seen[parameter.type] = text
    return int(several["count"]) if several else 1, tuple(parsed[1:])


def _taken_twice(kind: str, first: str, again: str, system: str, place: str) -> str:
    """What is said of the second of two parameters of one type."""
    said = f"{place}: system '{system}' takes {kind} twice, by '{first}' and by '{again}'; leave one out"
    if kind in ENGINE_TYPES:
        return said
    return (
        f"{said}: both are that of its own row. Other rows are read by world.rows<Archetype, const {kind}>(), "
        f"that of another entity by world.find<const {kind}>(entity)"
    )


def _read_parameter(text: str, system: str, place: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    type_name = "".join(match["type"].split()) if match else ""
    if type_name.removeprefix("tbs::") in ENGINE_TYPES:
        type_name = type_name.removeprefix("tbs::")
    if match and type_name in CPP_WORDS:
        raise SchemaError(
            f"{place}: system '{system}' takes '{text}', which is not a component; {_TAKEN}. A number that "
            "all worlds share is world.parameters.name or Constants::name; functions may take one: TBS_FUNCTION"
        )
    if match and not match["reference"] and match["name"] and type_name not in BY_VALUE:
        named = f"{type_name} &{match['name']}"
        if type_name in ENGINE_TYPES and type_name != "Reward":
            raise SchemaError(f"{place}: system '{system}' takes '{text}', a copy: write '{named}'")
        raise SchemaError(
            f"{place}: system '{system}' takes '{text}', a copy: write '{named}' to write the component, "
            f"'const {named}' to read it"
        )
    if match and match["reference"] and type_name in BY_VALUE:
        raise SchemaError(
            f"{place}: system '{system}' takes '{text}', which is a value: write '{type_name} {match['name']}'"
        )
    if not match or bool(match["reference"]) == (type_name in BY_VALUE):
        several = re.search(r"&\s*\w+\s+(?:const\s+)?\w+(?:\s*&\s*|\s+)\w+", text)
        comma = ": a comma is missing" if several else ""
        raise SchemaError(f"{place}: parameter '{text}' of system '{system}' is not understood{comma}; {_TAKEN}")
    writes = bool(match["reference"]) and not (match["front"] or match["back"])
    return Parameter(type_name, writes, match["name"])


# ---- reaches -------------------------------------------------------------------------------------------------------


def _reaches(text: _Text, own: str, helpers: dict[str, list[_Text]]) -> Iterator[Reach]:
    """What a body reaches: itself and by the functions that it calls, and they call.

    ``own`` is the name of its parameter ``Entity self``.
    """
    seen: set[int] = set()
    texts = [(text, own)]
    while texts:
        text, own = texts.pop()
        yield from _own_reaches(text, own)
        for index, is_variable in _names(text):
            if text.tokens[index].text not in helpers:
                continue
            called = [
                each
                for each in _meant(helpers[text.tokens[index].text], text, index)
                if id(each) not in seen and (each.use == "any" or (not is_variable and _is_call(text, index, each.use)))
            ]
            seen.update(map(id, called))
            texts += [(helper, "") for helper in called]


def _names(text: _Text) -> Iterator[tuple[int, bool]]:
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
    after, next_after = (token.text for token in (*tokens[index + 1 : index + 3], *[Token(" ", 0)] * 2)[:2])
    if before is None:
        return False
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


def _is_call(text: _Text, index: int, use: str) -> bool:
    """Whether a function's name is called here, or handed on as a whole argument."""
    tokens = text.tokens
    before = tokens[index - 1].text if index else ""
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if before in (".", "->") and use == "function":
        return False
    if before == "&" and index > 1:
        before = tokens[index - 2].text
    return after in ("(", "<") or (before in ("(", ",", "<", "::") and after in (",", ")", ">"))


def _meant(found: list[_Text], text: _Text, index: int) -> list[_Text]:
    """Of the functions of one name those that a token of ``text`` means, with ``grid::`` in front or nothing.

    A library knows nothing of the author's functions, which may have the names of its own.
    """
    is_qualified = index > 1 and text.tokens[index - 1].text == "::"
    for wanted in (text.tokens[index - 2].text, text.namespace) if is_qualified else (text.namespace,):
        own = [each for each in found if each.namespace == wanted]
        if own:
            return own
    return [each for each in found if each.namespace or not text.namespace]


def _own_reaches(text: _Text, own: str) -> Iterator[Reach]:
    tokens = text.tokens
    for index in range(1, len(tokens) - 1):
        kind = tokens[index].text
        if tokens[index - 1].text not in (".", "->", "template"):
            continue
        if tokens[index + 1].text == "<" and kind in (*_OF_COLUMNS, *_OF_ARCHETYPES, _TABLES):
            types, end = _types(tokens, index + 2)
            if types and end < len(tokens) and tokens[end].text == "(":
                reach = _typed_reach(text, tokens[index], types)
                if reach:
                    yield reach
        elif tokens[index + 1].text == "(" and kind in _PLAIN:
            end = next((i for i in range(index + 2, len(tokens)) if tokens[i].text == ")"), index + 2)
            argument = "".join(token.text for token in tokens[index + 2 : end])
            if kind == "destroy" and own and argument == own:
                kind = "destroy_self"
            yield text.reach("random_item" if kind == "random" and argument else kind, tokens[index])


def _types(tokens: Sequence[Token], index: int) -> tuple[list[list[str]], int]:
    """Template arguments from ``index`` on, each as its words, and the index behind ``>``; none if not types."""
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


def _typed_reach(text: _Text, method: Token, types: list[list[str]]) -> Reach | None:
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


def _declared_reaches(namespace: str, tokens: Sequence[Token], where: str) -> Iterator[Reach]:
    """What ``TBS_REACHES(rows<Stone, const Place>, create<Bullet>, random)`` names."""
    index = 0
    while index < len(tokens):
        kind, types, end = tokens[index].text, [], index + 1
        if end < len(tokens) and tokens[end].text == "<":
            types, end = _types(tokens, end + 1)
        reach = None
        if types and kind in (*_OF_COLUMNS, *_OF_ARCHETYPES, _TABLES):
            reach = _typed_reach(_Text(namespace, (), frozenset()), tokens[index], types)
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
