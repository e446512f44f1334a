"""Reads the signatures of systems, which are their queries, and what their bodies reach, create and destroy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import SchemaError
from .shared import LANES

_SYSTEM = re.compile(r"\bTBS_SYSTEM\b\s*(?P<result>[\w:<>\s]*?)\s*\b(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)")
_PARAMETER = re.compile(
    r"(?P<front>const\s+)?(?P<type>\w+(?:\s*::\s*\w+)*)(?P<back>\s+const)?\s*(?P<reference>&?)\s*(?P<name>\w*)"
)
_REACH = re.compile(
    r"\b(?P<kind>rows|get|find|count|index_of|entity|create|create_at|destroy)\s*<(?P<types>[^<>;]*)>\s*\("
    r"|\.\s*(?P<plain>destroy|alive|random)\s*\(\s*(?P<argument>\w+\s*)?(?P<end>\))?"
)
_FUNCTION = re.compile(
    r"\b(?P<name>\w+)\s*\((?:[^(){};]|\([^(){};]*\))*\)\s*(?:(?:const|noexcept)\s*)*(?:->\s*[\w:<>\s*&]+)?\{"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<body>(?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_LAMBDA = re.compile(r"\[[&=\w\s,]*\]\s*(?:\([^()]*\)\s*)?(?:->\s*[\w:<>\s*&]+)?\{")
_PLACE = r"(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])*"  # .field, ->field, [i] behind a name
_ASSIGNMENT = r"\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
_STANDARD_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a system: its type, whether the system writes it (a non-const reference), and its name.

    The type is as written, ``"CartState"`` or ``"grid::Cell"``; the engine's own (``Row``) are without ``tbs::``.
    """

    type: str
    writes: bool
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class Reach:
    """What a system does beyond its own row, such as ``world.rows<Stone, const Place>()``.

    ``kind`` is the method. Of ``rows`` and ``find`` there are archetype and component, of ``get`` the component (a
    singleton), of ``count``, ``index_of``, ``entity``, ``create``, ``create_at`` and ``destroy`` the archetype; of
    ``destroy``, ``alive`` and ``random`` (without an argument) neither. ``destroy_self`` is ``world.destroy(self)``.
    Names are as written, in text of ``namespace``.
    """

    kind: str
    archetype: str | None = None
    component: str | None = None
    writes: bool = False  # no const in front of the component
    namespace: str = ""

    def __str__(self) -> str:
        component = self.component if self.writes or not self.component else f"const {self.component}"
        types = ", ".join(filter(None, (self.archetype, component)))
        return f"{self.kind}<{types}>" if types else f"{self.kind}()"


@dataclass(frozen=True)
class System:
    """A system as declared: ``parameters`` without the leading ``World &``; ``place`` is file and line.

    ``reaches`` are those of its body and of the functions of the files that it calls.
    """

    name: str
    parameters: tuple[Parameter, ...]
    place: str
    reaches: tuple[Reach, ...] = ()
    shared_writes: tuple[str, ...] = ()  # what a system on several lanes does outside of operations and must not
    hands_world_on: bool = False  # to other functions, or keeps it: then its text does not show all that it reads
    namespace: str = ""  # a library's, or "" for the author's

    @property
    def lanes(self) -> int:
        """Number of lanes for each row: 32 with ``Warp &``, 256 with ``Block &``, else 1."""
        return max(LANES.get(parameter.type, 1) for parameter in (*self.parameters, Parameter("World", True)))

    def kinds(self, *kinds: str) -> list[Reach]:
        return [reach for reach in self.reaches if reach.kind in kinds]


BY_VALUE = ("Row", "Entity")
ENGINE_TYPES = ("World", "Episode", "Reward", *BY_VALUE, *LANES)  # to which the reader gives a meaning


@dataclass(frozen=True)
class Unit:
    """Systems to be read: a header, with what it includes, and the namespace in which it is compiled.

    ``namespace`` is ``""`` for the author's systems, or the name of a library, ``"grid"``.
    """

    source: Path
    namespace: str = ""


def source_files(source: Path) -> dict[Path, str]:
    """Text of ``source`` and of every file that it includes by quotes from its own folder, in order of inclusion."""
    if not source.is_file():
        raise SchemaError(f"the systems' file {source} does not exist")
    files: dict[Path, str] = {}

    def visit(path: Path) -> None:
        if path in files:
            return
        files[path] = path.read_text()
        code = _blank_comments(files[path])
        standard = _STANDARD_INCLUDE.search(code)
        if standard:
            line = code.count("\n", 0, standard.start()) + 1
            raise SchemaError(
                f"{path.name}:{line}: systems cannot include <{standard[1]}>, since not every device has it; "
                "docs/authoring.md lists what there is instead"
            )
        for include in _INCLUDE.findall(code):
            included = (path.parent / include).resolve()
            if included.is_file():
                visit(included)

    visit(source.resolve())
    return files


def read_systems(*units: Unit) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` of the units, by name: ``"move"``, or ``"grid::insert"`` where a unit has a namespace."""
    codes = [
        (unit.namespace, path, _blank_comments_and_strings(text))
        for unit in units
        for path, text in source_files(unit.source).items()
    ]
    helpers: dict[str, list[tuple[str, str]]] = {}  # namespace and body
    for namespace, _, code in codes:
        for match in _FUNCTION.finditer(code):
            if match["name"] not in ("if", "while", "switch", "for"):
                helpers.setdefault(match["name"], []).append((namespace, _body(code, match.end() - 1)))
        for match in _MACRO.finditer(code):
            helpers.setdefault(match["name"], []).append((namespace, match["body"]))
    systems: dict[str, System] = {}
    for namespace, path, code in codes:
        for match in _SYSTEM.finditer(code):
            place = f"{path.name}:{code.count(chr(10), 0, match.start()) + 1}"
            system = _read_signature(match, place)
            own = next((parameter.name for parameter in system.parameters if parameter.type == "Entity"), "")
            body = _body(code, match.end())
            world = _PARAMETER.match(match["parameters"].strip())
            handed_on = bool(world and world["name"] and re.search(rf"\b{world['name']}\b(?!\s*\.)", body))
            hidden = {parameter.name for parameter in system.parameters}  # these names mean no functions in its body
            reaches = _reaches(namespace, body, own, helpers, hidden)
            system = replace(system, reaches=reaches, hands_world_on=handed_on, namespace=namespace)
            if system.lanes > 1:
                system = replace(system, shared_writes=_writes_outside_of_operations(body, system.parameters))
            key = f"{namespace}::{system.name}" if namespace else system.name
            if key in systems:
                raise SchemaError(f"{place}: system '{key}' is defined twice, first at {systems[key].place}")
            systems[key] = system
    return systems


def _read_signature(match: re.Match, place: str) -> System:
    name = match["name"]
    if match["result"].strip() != "void":
        raise SchemaError(f"{place}: system '{name}' must return void")
    parameters = [text.strip() for text in match["parameters"].split(",")]
    parsed = [_read_parameter(text, name, place) for text in parameters if text]
    if not parsed or parsed[0].type != "World":
        raise SchemaError(f"{place}: the first parameter of system '{name}' must be World &")
    types = [parameter.type for parameter in parsed]
    for type_name in types:
        if types.count(type_name) > 1:
            raise SchemaError(f"{place}: system '{name}' takes {type_name} twice")
    return System(name, tuple(parsed[1:]), place)


def _read_parameter(text: str, system: str, place: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if not match or bool(match["reference"]) == (match["type"].removeprefix("tbs::") in BY_VALUE):
        raise SchemaError(
            f"{place}: parameter '{text}' of system '{system}' is not understood; "
            "write 'Component &name', 'const Component &name', 'Row row' or 'Entity self'"
        )
    writes = bool(match["reference"]) and not (match["front"] or match["back"])
    type_name = "".join(match["type"].split())
    plain = type_name.removeprefix("tbs::")
    return Parameter(plain if plain in ENGINE_TYPES else type_name, writes, match["name"])


def _body(code: str, start: int) -> str:
    """The text from ``start`` to the end of the block that begins there, or to a semicolon where none does."""
    depth = 0
    for match in re.finditer(r"[{};]", code[start:]):
        depth += {"{": 1, "}": -1, ";": 0}[match[0]]
        if depth <= 0:
            return code[start : start + match.end()]
    return code[start:]


def _reaches(
    namespace: str, body: str, own: str, helpers: dict[str, list[tuple[str, str]]], hidden: set[str]
) -> tuple[Reach, ...]:
    """What a body reaches, each once: itself and by the functions that it calls, and they call.

    ``own`` is the name of its parameter ``Entity self``; ``hidden`` are the names of all its parameters.
    """
    reaches: list[Reach] = []
    seen: set[str] = set()
    bodies = [(namespace, body, own)]
    while bodies:
        namespace, text, own = bodies.pop()
        reaches += (replace(reach, namespace=namespace) for reach in _own_reaches(text, own))
        called = {match[0] for match in _WORD.finditer(text)} & helpers.keys() - seen - hidden
        hidden = set()  # of the system alone
        seen |= called
        bodies += [(*helper, "") for name in sorted(called) for helper in helpers[name]]
    return tuple(dict.fromkeys(reaches))


def _own_reaches(body: str, own: str) -> list[Reach]:
    reaches = []
    for match in _REACH.finditer(body):
        kind = match["kind"] or match["plain"]
        if match["plain"]:
            argument = (match["argument"] or "").strip()
            if kind == "destroy" and own and match["end"] and argument == own:
                kind = "destroy_self"
            if kind != "random" or (match["end"] and not argument):
                reaches.append(Reach(kind))
            continue
        *archetype, last = (re.sub(r"\s*::\s*", "::", part.strip()) for part in match["types"].split(","))
        words = last.split()
        component = next((word for word in words if word != "const"), "")
        if kind in ("rows", "find", "get"):
            if len(archetype) == (kind != "get") and words:
                reaches.append(Reach(kind, archetype[0] if archetype else None, component, "const" not in words))
        else:
            reaches.append(Reach(kind, archetype[0] if archetype else component))
    return reaches


def _writes_outside_of_operations(body: str, parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
    """Where every lane would write what all lanes share, or create: as written in the text."""
    outside = body
    while (match := _LAMBDA.search(outside)) is not None:
        operation = _body(outside, match.end() - 1)
        outside = outside[: match.start()] + " " * len(match[0]) + outside[match.end() - 1 + len(operation) :]
    names = [p.name for p in parameters if p.writes and p.name and p.type not in LANES]
    patterns = [rf"\b{name}\b{_PLACE}{_ASSIGNMENT}" for name in names]
    patterns += [rf"(?:\+\+|--)\s*{name}\b{_PLACE}" for name in names]
    patterns += [rf"\b(?:rows|get|find)\s*<[^<>;]*>\s*\([^()]*\){_PLACE}{_ASSIGNMENT}", r"\bcreate_at\s*<[^<>;]*>\s*\("]
    return tuple(" ".join(match[0].split()) for pattern in patterns for match in re.finditer(pattern, outside))


def unpaired_brace(text: str) -> int | None:
    """Line of the first brace that has no partner, None if all have one."""
    code = _blank_comments_and_strings(text)
    opened: list[int] = []
    for match in re.finditer(r"[{}]", code):
        line = code.count("\n", 0, match.start()) + 1
        if match[0] == "{":
            opened.append(line)
        elif opened:
            opened.pop()
        else:
            return line
    return opened[0] if opened else None


def _blank_comments_and_strings(text: str) -> str:
    """What is left to the compiler's grammar; a string becomes an empty one, and a character a blank."""
    without_characters = re.sub(r"'(?:\\.|[^'\\\n])'", "' '", _blank_comments(text))
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', without_characters)


def _blank_comments(text: str) -> str:
    """``text`` with comments replaced by spaces, line breaks and string literals kept, so that lines stay true."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)

    def blank(match: re.Match) -> str:
        return match[0] if match[0][0] in "\"'" else re.sub(r"[^\n]", " ", match[0])

    return pattern.sub(blank, text)
