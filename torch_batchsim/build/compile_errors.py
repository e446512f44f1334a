"""Messages of a build for authors: the place and the remedy of an error first, a line for each warning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..declare.declaration import ENGINE_HEADERS
from ..errors import SchemaError, warn_at
from ..read.cpp_text import read_source
from ..resolve.program import Program
from .diagnostics import Diagnostic, diagnostics, plain
from .remedies import remedy

_UNDECLARED = re.compile(
    r"^In [^\n]*function[^\n]*,\n(?:    inlined from[^\n]*\n)+[^\n]*undeclared_access", re.MULTILINE
)
_INLINED = re.compile(r"inlined from .(?P<function>.*). at (?P<file>.*?):(?P<line>\d+):\d+[,:]")
_INSTANTIATED = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+):   required from|at line (?P<line_>\d+) of (?P<file_>.+?)$",
    re.MULTILINE,
)  # g++'s words, nvcc's
_MISSING_END = re.compile(
    r"^expected (?:(?:',' or )?';'|initializer|unqualified-id) before|^expected primary-expression before '}'"
    r"|^expected a \";\""
)
_F64 = ("-Wdouble-promotion", "-Wfloat-conversion")
_MOST = 10  # errors that are listed

# Remedies of warnings.
_REMEDIES = (
    (r"suggest parentheses around assignment used as truth value", "`=` assigns: write `==` to compare"),
    (r"implicit conversion from 'f32' to 'f64'", "computes in f64: write `0.5f` for `0.5`, or convert by `f32(x)`"),
    (r"conversion from 'f64' to 'f32' (?:may change value|changes value)",
     "rounds f64 to f32: write `0.5f` for `0.5`, and `f32` for `double`"),
    (r"missing initializer for member '(\w+)::(\w+)'", r"`\1` is given no `\2`, which is then 0: give all its fields"),
    (r"conversion from '(f32|f64)' to '(\w+)' (?:may change|changes) value",
     r"cuts off the decimals: write `\2(...)`"),
    (r"unused parameter 'episode'",
     "`episode` is not used: end episodes by `episode.terminated = ...`, `episode.truncated = ...`, or leave it out"),
    (r"unused parameter '(\w+)'",
     r"`\1` is not used: leave it out, or only its name where it chooses the rows of a system"),
    (r"variable '(\w+)' set but not used",
     r"`\1` is written and never read: where it is a copy, declare it with & to write the original"),
    (r"comparison of integer expressions of different signedness: '(?:const )?(\w+)' and '(?:const )?(\w+)'",
     r"compares \1 with \2, where a negative number counts as a great one: convert one, by `i32(...)` or `u32(...)`"),
    (r"integer overflow in expression of type '(\w+)'", r"overflows \1: compute in i64, or in u32, which wraps around"),
    (r"suggest braces around empty body in an '(\w+)'", r"the `;` ends the `\1`: nothing depends on it"),
)  # fmt: skip


def explain(program: Program, log: str) -> str:
    """The message of a compiler's or a linker's log: the first error with its remedy, then the others."""
    own = _own_files(program)
    undeclared = undeclared_accesses(program, log)
    if undeclared:
        return "\n".join([undeclared[0], _of_program(program), *undeclared[1:]])
    errors = [error for error in diagnostics(log) if error.kind == "error"]
    found = list(_of_author(errors, own))
    if not found and (undefined := _undefined(log, own)):
        return "\n".join([undefined[0], _of_program(program), *undefined[1:]])
    if not found:  # an error in the engine's headers, or a linker's
        names = "|".join(map(re.escape, own))
        mention = re.search(rf"^({names}):(\d+)(?=(?::\d+)?:(?! warning:))", log, re.MULTILINE)
        place = f"{Path(mention[1]).name}:{mention[2]}: " if mention else ""
        of_program = _of_program(program, mention[1] if mention else "")
        first, *rest = log.strip().splitlines() or [""]
        text = errors[0].text if errors else first
        return "\n".join([f"{place}{text}", of_program, *([first] if errors else []), *rest[:40]])
    lines = [_line(program, error) for error in found[:_MOST]]
    more = [f"({len(found) - _MOST} more errors)"] if len(found) > _MOST else []
    of_program = _of_program(program, found[0].file)
    return "\n".join([lines[0], of_program, *filter(None, [found[0].excerpt]), *lines[1:], *more])


def _undefined(log: str, own: dict[str, None]) -> list[str]:
    """A sentence for each function that the author's files declare and do not define: only a linker misses it.

    A warning of the compiler has its place.
    """
    found = {}
    for warning in diagnostics(log):
        name = re.search(r"'.*?([\w:]+)\(.*used but never defined", warning.text)
        if name and str(Path(warning.file).resolve()) in own:
            place = f"{Path(warning.file).name}:{warning.line}"
            remedy_of = "write its body where it is declared"
            found[place] = f"{place}: function `{name[1]}` is declared and not defined: {remedy_of}"
    return list(found.values())


def _of_program(program: Program, file: str = "") -> str:
    """Whose systems they are, and the path of the file in which the first error is."""
    return f"(while compiling the systems of {program.environment.name}{f', {file}' if file else ''})"


def error_lines(program: Program, log: str) -> list[str]:
    """A line for each line of the author's files in which a compiler has found an error: place, remedy, message."""
    errors = [error for error in diagnostics(log) if error.kind == "error"]
    return [_line(program, error) for error in _of_author(errors, _own_files(program))]


def _own_files(program: Program) -> dict[str, None]:
    return dict.fromkeys(str(path) for path in program.files)


def _of_author(errors: Iterable[Diagnostic], own: dict[str, None]) -> Iterator[Diagnostic]:
    """The errors in the author's files, each line once; those in headers where the author's line instantiates them."""
    seen = set()
    for error in errors:
        if str(Path(error.file).resolve()) not in own:
            behind = error.around[len(error.before) :]
            places = [each for each in _INSTANTIATED.finditer(error.before) if each["file"] in own]
            places += [each for each in _INSTANTIATED.finditer(behind) if each["file_"] in own]
            if not places:
                continue
            last = places[-1].groupdict()
            line = int(last["line"] or last["line_"])
            error = replace(error, file=last["file"] or last["file_"], line=line, column=int(last["column"] or 0))
        moved = _at_missing_end(error)
        if error.place not in seen and moved.place not in seen:
            seen |= {error.place, moved.place}  # what follows in the line where a compiler noticed it follows from it
            yield moved


def _at_missing_end(error: Diagnostic) -> Diagnostic:
    """The error at the end of the line where a ``;`` is missing, which compilers notice at the next word.

    Only where that word begins its line: else the place is right.
    """
    if not _MISSING_END.search(error.text) or error.source[: max(error.column - 1, 0)].strip():
        return error
    try:
        text = Path(error.file).read_text(errors="replace")
        tokens = read_source(Path(error.file), text).tokens
    except (OSError, SchemaError):
        return error
    before = next((token for token in reversed(tokens) if token.line < error.line), None)
    if before is None or (error.text.startswith("expected primary-expression") and before.text != "return"):
        return error
    line_begins = text.rfind("\n", 0, before.start) + 1
    column = before.start + len(before.text) - line_begins
    return replace(error, line=before.line, column=column + 1)


def _line(program: Program, error: Diagnostic) -> str:
    """The error in one line: its remedy, and the compiler's message."""
    text = re.sub(r"^static assertion failed(?:: | with )", "", error.text)
    advice = remedy(program, error)
    place = f"{Path(error.file).name}:{error.line}"  # as all messages name places
    return f"{place}: {advice} (the compiler: {text})" if advice else f"{place}: {text}"


def warn(program: Program, log: str) -> bool:
    """Issue a ``BuildWarning`` for each of the author's lines with a compiler's warning; whether there are any."""
    own, seen = _own_files(program), set()
    for warning in diagnostics(log):
        path = Path(warning.file).resolve()
        if warning.kind != "warning" or str(path) not in own or path.is_relative_to(ENGINE_HEADERS):
            continue
        text = warning.text
        kind = _F64 if "'f64'" in text and warning.flag in _F64 else (warning.flag,)  # one warning of f64 a line
        if (warning.place, kind) in seen or _is_world(warning):
            continue
        seen.add((warning.place, kind))
        for pattern, remedy_of in _REMEDIES:
            found = re.search(pattern, text)
            if found:
                text = found.expand(remedy_of)
                break
        flag = f" [{warning.flag}]" if warning.flag else ""
        warn_at(f"{text}{flag}", warning.file, warning.line)
    return bool(seen)


def _is_world(warning: Diagnostic) -> bool:
    """Whether it is of a system that does not use its world, which systems have to take."""
    front = warning.source[: max(warning.column - 1, 0)]
    return warning.flag == "-Wunused-parameter" and bool(re.search(r"\bWorlds?\b[^,]*&\s*$", front))


def undeclared_accesses(program: Program, log: str) -> list[str]:
    """A sentence for each place where g++ detects that a node reaches more than it declares (csrc/tbs/world.h)."""
    own = {str(path) for path in program.files}
    return [_undeclared_access(program, match[0], own) for match in _UNDECLARED.finditer(log)]


def _undeclared_access(program: Program, text: str, own: set[str]) -> str:
    place, method, system = "", "", None
    for match in _INLINED.finditer(text):
        function = match["function"]
        if "BasicWorld" in function and (not method or "::tables(" in function):  # which calls others itself
            method = _written(function)
        if not place and str(Path(match["file"]).resolve()) in own:
            place = f"{Path(match['file']).name}:{match['line']}: "
        node = re.search(r"\btbs::Node(\d+)_\w+::run\(", function)
        if node:
            system = program.nodes[int(node[1])].system
    name, where = (system.name, system.place) if system else ("", "")
    return (
        f"{place}system '{name}' ({where}) does {method}, which the engine has not read in its text: write it out, "
        f"without macros that put names together, or declare it: TBS_SYSTEM TBS_REACHES({method}) void {name}(...)"
    )


def _written(function: str) -> str:
    """A method of World as g++ writes it, as ``TBS_REACHES`` takes it: ``rows<Stone, const Place>``."""
    found = re.search(r"::(\w+)\(([^()]*)\)", function)
    name, arguments = (found[1], found[2]) if found else ("...", "")
    if name == "tables":
        wanted = re.search(r"\bComponent = \{([^{}]*)\}", function)
        return f"tables<{plain(wanted[1]) if wanted else '...'}>"
    types = [
        re.search(rf"\b{parameter} = ((?:const )?[\w:]+)", function)
        for parameter in (["Archetype", "Component"] if name in ("rows", "find") else ["Archetype", "Singleton"])
    ]
    names = [plain(match[1]) for match in types if match]
    if name == "random" and arguments:
        return "random_item"
    return f"{name}<{', '.join(names)}>" if names else name
