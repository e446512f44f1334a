"""Reads the signatures of systems, which are their queries, and what their bodies reach by ``rows`` and ``get``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import SchemaError

_SYSTEM = re.compile(r"\bTBS_SYSTEM\b\s*(?P<result>[\w:<>\s]*?)\s*\b(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)")
_PARAMETER = re.compile(
    r"(?P<front>const\s+)?(?:tbs::)?(?P<type>\w+)(?P<back>\s+const)?\s*(?P<reference>&?)\s*(?P<name>\w*)"
)
_REACH = re.compile(r"\b(?P<kind>rows|get)\s*<(?P<types>[^<>;]*)>\s*\(")
_STANDARD_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a system: the type's name, and whether the system writes it (a non-const reference)."""

    type: str
    writes: bool


@dataclass(frozen=True)
class Reach:
    """``world.rows<archetype, component>()``, or ``world.get<component>()`` (no archetype), in a system's body."""

    archetype: str | None
    component: str
    writes: bool  # no const in front of the component

    def __str__(self) -> str:
        component = self.component if self.writes else f"const {self.component}"
        return f"rows<{self.archetype}, {component}>" if self.archetype else f"get<{component}>"


@dataclass(frozen=True)
class System:
    """A system as declared: ``parameters`` without the leading ``World &``; ``place`` is file and line.

    ``reaches`` are those of its own body; what a helper function reaches is not seen.
    """

    name: str
    parameters: tuple[Parameter, ...]
    place: str
    reaches: tuple[Reach, ...] = ()


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


def read_systems(source: Path) -> dict[str, System]:
    """Every ``TBS_SYSTEM`` in ``source`` and the files it includes, by name."""
    systems: dict[str, System] = {}
    for path, text in source_files(source).items():
        code = _blank_comments_and_strings(text)
        for match in _SYSTEM.finditer(code):
            place = f"{path.name}:{code.count(chr(10), 0, match.start()) + 1}"
            system = replace(_read_signature(match, place), reaches=_read_reaches(code, match.end()))
            if system.name in systems:
                raise SchemaError(
                    f"{place}: system '{system.name}' is defined twice, first at {systems[system.name].place}"
                )
            systems[system.name] = system
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
    if not match or not (match["reference"] or match["type"] == "Row"):
        raise SchemaError(
            f"{place}: parameter '{text}' of system '{system}' is not understood; "
            "write 'Component &name', 'const Component &name' or 'Row row'"
        )
    return Parameter(match["type"], writes=bool(match["reference"]) and not (match["front"] or match["back"]))


def _read_reaches(code: str, start: int) -> tuple[Reach, ...]:
    """What the body that begins behind ``start`` reaches, each once."""
    depth, end = 0, len(code)
    for match in re.finditer(r"[{};]", code[start:]):
        depth += {"{": 1, "}": -1, ";": 0}[match[0]]
        if depth <= 0:  # the body's end, or a declaration without a body
            end = start + match.end()
            break
    reaches = []
    for match in _REACH.finditer(code, start, end):
        *archetype, component = (part.strip() for part in match["types"].split(","))
        words = component.split()
        if len(archetype) == (match["kind"] == "rows") and words:
            name = next((word for word in words if word != "const"), "")
            reaches.append(Reach(archetype[0] if archetype else None, name, "const" not in words))
    return tuple(dict.fromkeys(reaches))


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
    """What is left to the compiler's grammar; a string becomes an empty one."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', _blank_comments(text))


def _blank_comments(text: str) -> str:
    """``text`` with comments replaced by spaces, line breaks and string literals kept, so that lines stay true."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)

    def blank(match: re.Match) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return pattern.sub(blank, text)
