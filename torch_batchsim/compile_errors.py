"""What a compiler says, with the author's own line in front."""

from __future__ import annotations

import re
from pathlib import Path

from .program import Program

_ERROR = re.compile(r"^(?P<file>.+?)[:(](?P<line>\d+)\)?(?::\d+)?:? *(?:fatal )?error: *(?P<text>.*)$", re.MULTILINE)
_UNDECLARED = re.compile(
    r"^In [^\n]*function[^\n]*,\n(?:    inlined from[^\n]*\n)+[^\n]*undeclared_access", re.MULTILINE
)
_IN_FENCE = re.compile(r"tbs::fence::(systems::)?")  # in front of an author's names; a library's name stays
_INLINED = re.compile(r"inlined from .(?P<function>.*). at (?P<file>.*?):(?P<line>\d+):\d+[,:]")


def explain(program: Program, log: str) -> str:
    """The compiler's log, or a linker's, with the author's own first error in front."""
    own = {str(path) for path in program.files}
    rest = f"\n(while compiling the systems of {program.environment.name})\n\n{log}"
    undeclared = undeclared_accesses(program, log)
    if undeclared:
        return f"{undeclared[0]}{rest}"
    matches = list(_ERROR.finditer(log))
    for match in matches:
        if str(Path(match["file"]).resolve()) in own:
            text = _IN_FENCE.sub("", match["text"])
            return f"{match['file']}:{match['line']}: {text}{rest}"
    names = "|".join(map(re.escape, own))  # an error in the engine's headers, instantiated from the author's line
    mention = re.search(rf"^(?:{names}):\d+(?=(?::\d+)?:(?! warning:))", log, re.MULTILINE)
    place = f"{mention[0]}: " if mention else ""
    text = matches[0]["text"] if matches else log.strip().partition("\n")[0]
    return f"{place}{text}{rest}"


def undeclared_accesses(program: Program, log: str) -> list[str]:
    """A sentence for each place at which g++ has found that a node reaches more than it declares (csrc/tbs/world.h)."""
    own = {str(path) for path in program.files}
    return [_undeclared_access(program, match[0], own) for match in _UNDECLARED.finditer(log)]


def _undeclared_access(program: Program, text: str, own: set[str]) -> str:
    place, method, system = "", "", None
    for match in _INLINED.finditer(text):
        function = match["function"]
        if "BasicWorld" in function and (not method or "::tables(" in function):  # which calls others itself
            method = _written(function)
        if not place and str(Path(match["file"]).resolve()) in own:
            place = f"{match['file']}:{match['line']}: "
        node = re.search(r"\btbs::Node(\d+)_\w+::run\(", function)
        if node:
            nodes = [node for nodes in program.graphs.values() for node in nodes]
            system = nodes[int(node[1])].system
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
        return f"tables<{_IN_FENCE.sub('', wanted[1]).replace('tbs::', '') if wanted else '...'}>"
    types = [
        re.search(rf"\b{parameter} = ((?:const )?[\w:]+)", function)
        for parameter in (["Archetype", "Component"] if name in ("rows", "find") else ["Archetype", "Singleton"])
    ]
    names = [_IN_FENCE.sub("", match[1]) for match in types if match]
    if name == "random" and arguments:
        return "random_item"
    return f"{name}<{', '.join(names)}>" if names else name
