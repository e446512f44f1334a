"""Reads systems: their signatures, which are their queries, and the rules for systems on several lanes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ..base.numbers import CPP_WORDS
from ..base.shared import LANES
from ..errors import SchemaError
from .cpp_rules import ASSIGNMENT, MEMBERS, check_rules, check_words
from .cpp_text import Declaration, Source, behind_angles, declarations, read_files, read_source
from .reaches import Reach, Text, declared_reaches, helpers_in, reaches_in, texts_of
from .sites import FaultSite, fault_sites

BY_VALUE = ("Row", "Entity")
ENGINE_TYPES = ("World", "Episode", "Reward", *BY_VALUE, *LANES)  # types that the reader knows

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


@dataclass(frozen=True)
class Parameter:
    """One parameter of a system: its type, whether the system writes it (a non-const reference), and its name.

    The type is as written, ``"CartState"`` or ``"grid::Cell"``; types of the engine (``Row``) stand without ``tbs::``.
    """

    type: str
    writes: bool
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class System:
    """A system as its text defines it.

    Attributes:
        parameters: without the leading ``World &``.
        place: file and line.
        reaches: of its body, of the functions and macros that it uses, and of its ``TBS_REACHES(...)``; the compiler
            rejects all others.
        sites: calls in the same texts by which it can report a fault.
        shared_writes: statements outside of operations that all lanes of a system would run, and must not.
        declared: the reaches of ``TBS_REACHES``, which settle what the text leaves unclear; None without.
        namespace: a library's, ``""`` for the author's.
        worlds: the most that one call takes: 4 with ``Worlds<4> &worlds`` in place of ``World &world``.
    """

    name: str
    parameters: tuple[Parameter, ...]
    place: str
    reaches: tuple[Reach, ...] = ()
    sites: tuple[FaultSite, ...] = ()
    shared_writes: tuple[str, ...] = ()
    declared: tuple[Reach, ...] | None = None
    namespace: str = ""
    worlds: int = 1

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
    """A header with systems, the files that it includes, and the namespace in which it is compiled.

    Attributes:
        namespace: ``""`` for the author's systems, else the name of a library, ``"grid"``.
        include_paths: folders for included files, searched after the folder of the including file.
    """

    source: Path
    namespace: str = ""
    include_paths: tuple[Path, ...] = ()


def read_units(*units: Unit) -> list[tuple[str, Source]]:
    """The files of the units with their namespaces, each once, included files first.

    Raises SchemaError as ``read_files`` does, and for a file that two namespaces include.
    """
    found: dict[Path, tuple[str, Source]] = {}
    for unit in units:
        for source in read_files(unit.source, unit.include_paths):
            namespace, _ = found.setdefault(source.path, (unit.namespace, source))
            if namespace != unit.namespace:
                raise SchemaError(
                    f"{unit.source.name} includes {source.path.name}, which is of library {namespace}: leave the "
                    f"include out, its definitions are known as {namespace}::..."
                )
    return list(found.values())


def read_systems(*units: Unit) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` of the units, by name: ``"move"``, or ``"grid::insert"`` where a unit has a namespace."""
    return systems_in(read_units(*units))


def systems_in(sources: Sequence[tuple[str, Source]]) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` of files with their namespaces, by name, as ``read_systems`` has them.

    Raises SchemaError, with file and line, for text that the reader cannot parse or that some device cannot run.
    """
    return dict(_systems_in(tuple((namespace, source.path, source.whole) for namespace, source in sources)))


@lru_cache(maxsize=32)
def _systems_in(files: tuple[tuple[str, Path, str], ...]) -> dict[str, System]:
    """By namespace, path and text, because a process makes several simulators of one environment."""
    systems: dict[str, System] = {}
    helpers: dict[str, list[Text]] = {}
    found: list[tuple[str, Source, Declaration]] = []
    for namespace, path, text in files:
        source, declared = read_source(path, text), declarations_of(path, text)
        for name, helper in helpers_in(namespace, source, declared):
            helpers.setdefault(name, []).append(helper)
        found += [(namespace, source, d) for d in declared if "TBS_SYSTEM" in d.words]
    for namespace, source, declaration in found:
        system = _read_system(namespace, source, declaration, helpers)
        key = f"{namespace}::{system.name}" if namespace else system.name
        if key in systems:
            raise SchemaError(f"{system.place}: system '{key}' is defined twice, first at {systems[key].place}")
        systems[key] = system
    return systems


@lru_cache(maxsize=256)
def declarations_of(path: Path, text: str) -> tuple[Declaration, ...]:
    """The declarations of a file that keeps the rules."""
    source = read_source(path, text)
    check_words(source)
    declared = tuple(declarations(source))
    check_rules(source, declared)
    return declared


def _read_system(namespace: str, source: Source, found: Declaration, helpers: dict[str, list[Text]]) -> System:
    tokens, place = source.tokens, source.place(source.tokens[found.first])
    name = tokens[found.name].text
    begin, declared = found.first + 1, None
    if tokens[begin].text == "TBS_REACHES" and tokens[begin + 1].text == "(":
        end = source.partner[begin + 1]
        declared = tuple(declared_reaches(namespace, tokens[begin + 2 : end], f"{place}: TBS_REACHES of '{name}'"))
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
    text = Text(namespace, body, frozenset(), parameters=hidden, file=source.path.name)
    texts = texts_of(text, helpers)
    reaches = (reach for each in texts for reach in reaches_in(each, own if each is text else ""))
    reaches = tuple(dict.fromkeys((*reaches, *(declared or ()))))
    sites = tuple(site for each in texts for site in fault_sites(each))
    system = System(name, parameters, place, reaches, sites, declared=declared, namespace=namespace, worlds=worlds)
    if system.lanes == 1:
        return system
    code = source.code[body[0].start : body[-1].start + 1]
    written = [p.name for p in parameters if p.writes and p.name and p.type not in LANES]
    return replace(system, shared_writes=_writes_outside_of_operations(code, written))


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
    """The message about the second of two parameters of one type."""
    message = f"{place}: system '{system}' takes {kind} twice, by '{first}' and by '{again}'; leave one out"
    if kind in ENGINE_TYPES:
        return message
    return (
        f"{message}: both are that of its own row. Read other rows by world.rows<Archetype, const {kind}>(), "
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
            "all worlds share is world.parameters.name or Constants::name; only functions take one: TBS_FUNCTION"
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


# ---- operations of several lanes -----------------------------------------------------------------------------------

_CAPTURES = r"\[[&=\w\s,]*\]\s*"
_LAMBDA = re.compile(rf"{_CAPTURES}(?:\([^()]*\)\s*)?(?:->\s*[\w:<>\s*&]+)?\{{")
_OF_TABLES = re.compile(
    rf"\btables\s*<(?P<types>(?:[^<>;{{}}]|<[^<>;{{}}]*>)*)>\s*\(\s*{_CAPTURES}\((?P<parameters>[^()]*)\)\s*(?=\{{)"
)


def _writes_outside_of_operations(body: str, written: Iterable[str]) -> tuple[str, ...]:
    """The statements by which every lane would write shared memory, or create, as written.

    Args:
        written: names of the parameters that the system writes.
    """
    outside, rows = _opened_tables(body)
    while (match := _LAMBDA.search(outside)) is not None:
        end = _end_of_block(outside, match.end() - 1)
        outside = outside[: match.start()] + " " * len(match[0]) + outside[end:]
    names = [*written, *rows]
    patterns = [rf"\b{name}\b{MEMBERS}{ASSIGNMENT}" for name in names]
    patterns += [rf"(?:\+\+|--)\s*{name}\b{MEMBERS}" for name in names]
    patterns.append(rf"\b(?:rows|get|find)\s*<[^<>;]*>\s*\([^()]*\){MEMBERS}{ASSIGNMENT}")
    patterns.append(r"\bcreate_at\s*<[^<>;]*>\s*\(")
    return tuple(" ".join(match[0].split()) for pattern in patterns for match in re.finditer(pattern, outside))


def _opened_tables(code: str) -> tuple[str, list[str]]:
    """The text with the lambdas of ``world.tables`` turned into blocks, because all lanes run them.

    Also the names of rows that may be written there.
    """
    rows = []
    while (match := _OF_TABLES.search(code)) is not None:
        types = re.split(r",(?![^<]*>)", match["types"])
        for parameter, wanted in zip(match["parameters"].split(",")[1:], types, strict=False):
            name = re.search(r"[\s&>](\w+)\s*$", parameter.strip())
            rows += [name[1]] if name and not re.search(r"\bconst\b", wanted) else []
        code = code[: match.start()] + " " * len(match[0]) + code[match.end() :]
    return code, rows


def _end_of_block(code: str, start: int) -> int:
    """The place behind the ``}`` that belongs to the ``{`` at ``start``."""
    depth = 0
    for match in re.finditer(r"[{}]", code[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(code)
