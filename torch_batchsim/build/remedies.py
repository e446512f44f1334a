"""Remedies of compile errors: a table of messages of g++ and nvcc whose cause they do not state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..base.names import nearest, suggestion
from ..base.numbers import SPELLINGS
from ..read.cpp_rules import NOTE_VALUES
from ..read.offered import functions, members
from ..read.systems import System
from ..resolve.program import Program
from .diagnostics import Diagnostic, plain

# Functions of libm that the engine lacks, and expressions in their place, of x and y.
_INSTEAD = {
    "log10": "0.30103f * log2(x)",
    "log1p": "log(1.0f + x)",
    "expm1": "exp(x) - 1.0f",
    "sinh": "0.5f * (exp(x) - exp(-x))",
    "cosh": "0.5f * (exp(x) + exp(-x))",
    "cbrt": "copysign(pow(abs(x), 1.0f / 3.0f), x)",
    "fdim": "max(x - y, 0.0f)",
    "ldexp": "x * exp2(f32(n))",
    "lround": "i32(round(x))",
    "lrint": "i32(rint(x))",
    "remainder": "x - y * rint(x / y)",
}
_RENAMED = {"fabs": "abs", "fmin": "min", "fmax": "max", "nearbyint": "rint"}
_RANDOM = "draw by `Random &random = world.random();`: the numbers of C's generators differ from run to run"
_OUTSIDE = "what they need is a parameter or a resource, time is world.step(), and world.fail reports a mistake"
_LITERALS = "write f32 numbers with an f, `0.5f` for `0.5`, or cast by `f32(x)`"
_ENDS = ("terminate", "terminated", "truncate", "truncated", "done", "end", "end_episode", "finish", "reset")
_PAGE = "docs/reference.md lists what systems can use"
_ENGINE_FIELDS = {
    "Episode": ["step", "terminated", "truncated"],
    "AgentEnd": ["terminated", "truncated"],
    "Reward": ["value"],
}


@dataclass(frozen=True)
class Case:
    """An error, and the system in whose lines it is; None outside of systems."""

    program: Program
    error: Diagnostic
    system: System | None

    @property
    def function(self) -> str:
        return self.system.name if self.system else "the function"

    def base(self) -> str:
        """The variable of the expression that ends at the error's column: ``ball`` of ``ball.at.x``."""
        source, column = self.error.source, self.error.column
        behind = re.match(r"\w*", source[max(column - 1, 0) :])
        text = source[: column - 1] + (behind[0] if behind else "")
        found = re.search(r"(\w+)(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])*\s*(?:\.|->)?$", text)
        if found and not found[1].isdigit() and found[1] != "const":
            return found[1]
        first = re.search(r"\w+", source[max(column - 1, 0) :])
        return first[0] if first else ""

    def component(self, variable: str) -> str:
        """The component of a parameter that the system only reads; empty for any other variable."""
        for parameter in self.system.parameters if self.system else ():
            if parameter.name == variable and not parameter.writes:
                return parameter.type
        return ""


def remedy(program: Program, error: Diagnostic) -> str:
    """The remedy, as a sentence without a full stop; empty where the table lacks the message."""
    case = Case(program, error, _system_at(program, error))
    for pattern, write in _TABLE:
        found = pattern.search(error.text)
        if found and (text := write(case, found)):
            return text
    return ""


def _system_at(program: Program, error: Diagnostic) -> System | None:
    """The last system that begins in this file before the line."""
    name = Path(error.file).name
    begun = []
    for system in program.systems.values():
        file, _, line = system.place.rpartition(":")
        if file == name and int(line) <= error.line:
            begun.append((int(line), system))
    return max(begun, key=lambda each: each[0])[1] if begun else None


def _written(case: Case, found: re.Match[str]) -> str:
    """A write to a const object."""
    variable = case.base()
    if re.search(r"\bparameters\s*\.", case.error.source[: case.error.column]) or variable == "parameters":
        return "parameters are read only: keep what changes in a component or a singleton"
    component = case.component(variable)
    if component:
        return f"take `{component} &{variable}` without const in `{case.function}` to write it"
    asked = re.findall(r"\b(get|rows|find)<([^<>]*)\bconst (\w[\w:]*)>", case.error.source[: case.error.column])
    if asked:
        method, archetype, component = asked[-1]
        wanted = f"{method}<{archetype}{component}>"
        return f"ask for `{wanted}`, without const, to write it: a system that runs once per world may"
    if not re.fullmatch(r"[A-Za-z_]\w*", variable):
        return ""
    return f"`{variable}` is const here: to write it, declare it and its origin without const"


def _bound(case: Case, found: re.Match[str]) -> str:
    """A reference or pointer without const to a const object."""
    variable = case.base()
    component = case.component(variable)
    if component:
        return (
            f"take `{component} &{variable}` without const in `{case.function}`, or let the function that it is given "
            f"to take `const {component} &`"
        )
    kind = found[1].rstrip("&* ")
    return f"write `const {kind} &` where it is only read; to write it, ask for {kind} without const"


def _no_member(case: Case, found: re.Match[str]) -> str:
    kind, name = found[1].removeprefix("const ").rstrip("&* "), found[2]
    if kind == "World" and name in ("constants", "Constants"):
        return "constants are `Constants::name`"
    if kind == "World" and name in _ENDS:
        end = "truncated" if name.startswith("trunc") else "terminated"
        return f"take `Episode &episode` as a parameter, and end the episode by `episode.{end} = true;`"
    if kind == "World":
        near = suggestion(name, members("BasicWorld")) or _nearest(case) or f": {_PAGE}"
        return f"`World` has no `{name}`{near}"
    if kind in ("Episode", "AgentEnd") and name in ("done", "end", "ended", "over", "finished", "is_done"):
        return f"`{kind}` has no `{name}`: write `terminated` where the task is over, `truncated` where time is up"
    known = _ENGINE_FIELDS.get(kind) or _fields(case.program, kind)
    if not known and kind.split("::")[-1] == "Parameters":
        return f"declare it in the environment: parameters = Parameters({name}=...)"
    if not known:
        return _no_member_of_engine(kind, name)
    what = "parameters" if kind.endswith("Parameters") else "fields"
    near = suggestion(name, known)
    has = f"{what} are" if len(known) > 1 else f"{what.removesuffix('s')} is"
    return f"`{kind}` has no `{name}`{near}; its {has} {', '.join(known)}"


_VECTORS = {"vec2": "xy", "vec3": "xyz", "vec4": "xyzw", "quat": "wxyz"}
_CALLED_ELSEWHERE = {  # by members of other libraries' types
    "Random": {
        "rand": "uniform()", "random": "uniform()", "uniform_real": "uniform()", "randint": "integer(low, high)",
        "uniform_int": "integer(low, high)", "randn": "normal()", "gauss": "normal()", "gaussian": "normal()",
        "bernoulli": "chance(p)", "next": "bits()",
    },
    "Rows": {"length": "count", "len": "count"},
    "Bits": {"push": "append(bits, count)", "push_back": "append(bits, count)"},
}  # fmt: skip


def _no_member_of_engine(kind: str, name: str) -> str:
    """A member that a type of the engine's headers lacks: its members, and the nearest."""
    written = kind.rpartition("=")[2].replace("class ", "").replace("struct ", "").strip()
    base = written.partition("<")[0]
    shown = {"Lanes": "Warp" if "<32" in written else "Block", "BasicWorlds": "Worlds"}.get(base, base)
    if base == "Entity":
        return (
            f"`Entity` has no `{name}`: it is a handle. `world.find<Archetype, const Component>(entity)` gives its "
            "component, `world.index_of<Archetype>(entity)` its row"
        )
    if base in _VECTORS:
        callable_ = [*functions("vector.h"), *functions("math.h")]
        near = name if name in callable_ else nearest(name, callable_, 0.75) or ""
        call = f": write `{near}(v)` for `v.{name}()`, since functions of vectors are not members" if near else ""
        return f"`{base}` has no `{name}`{call}; its fields are {', '.join(_VECTORS[base])}"
    known = members(base)
    if not known:
        return ""
    same = _CALLED_ELSEWHERE.get(base, {}).get(name)
    near = f" (write `{same}`)" if same else suggestion(name, known)
    return f"`{shown}` has no `{name}`{near}; it has {', '.join(known)}"


def _nearest(case: Case) -> str:
    near = re.search(r"did you mean '([^']+)'", case.error.text)
    return f" (did you mean {near[1]!r}?)" if near else ""


def _fields(program: Program, kind: str) -> list[str]:
    """Of a component, of ``Parameters``, or of ``Constants``, a library's (``ring::Motion``) too."""
    space, _, name = kind.rpartition("::")
    prefix = f"{space}." if space else ""
    if name in ("Parameters", "Constants"):
        values = program.parameters if name == "Parameters" else program.constants
        names = [each.removeprefix(prefix) for each in values if each.startswith(prefix)]
        return [each for each in names if "." not in each]
    for component in program.components:
        if component.__name__ == name:
            return [each.name for each in component.fields]
    return []


def _not_in(case: Case, found: re.Match[str]) -> str:
    """A name that a namespace or enumeration lacks: of std, Constants, Fault."""
    name, space = found[1], found[2]
    if space.split("::")[-1] == "std" and name in ("cout", "cerr", "clog", "print", "println", "printf"):
        return f"systems have no std::{name}: {NOTE_VALUES}"
    if space.split("::")[-1] == "std":
        return f"systems have no standard library, so no std::{name}: {_PAGE}"
    if space == "Fault":
        known = list(case.program.environment.faults)
        return f"declare the fault: faults = ({name!r}, ...) in the environment; it has {', '.join(known) or 'none'}"
    known = _fields(case.program, space)
    if not known and space.split("::")[-1] == "Constants":
        return f"declare it in the environment: constants = Constants({name}=...)"
    if known:
        return f"`{space}` has no `{name}`{suggestion(name, known)}; it has {', '.join(known)}"
    return ""


def _undeclared(case: Case, found: re.Match[str]) -> str:
    """A name that is undeclared here."""
    name, program = found[1], case.program
    python = {"None": "`Entity{}` or `nullptr`", "True": "`true`", "False": "`false`", "elif": "`else if`"}
    if name in python:
        return f"C++ writes {python[name]}"
    if name in ("def", "pass", "lambda", "import"):
        return f"systems are C++, which has no `{name}`; a function is written TBS_FUNCTION i32 twice(i32 x) {{ ... }}"
    if name in ("print", "println"):
        return f"systems print nothing: {NOTE_VALUES}"
    if name == "self":
        return "a system has no `self`: name its parameters, such as `Place &place`, `World &world`, `Entity self`"
    if name in program.environment.faults:
        return f"write `Fault::{name}`"
    if name in program.constants:
        return f"write `Constants::{name}`"
    if name in program.parameters:
        return f"write `world.parameters.{name}`"
    taken = {parameter.name: parameter.type for parameter in case.system.parameters} if case.system else {}
    kinds = {kind.__name__.lower(): kind.__name__ for kind in program.components} | {"episode": "Episode"}
    if case.system and name.replace("_", "") in kinds:
        kind = kinds[name.replace("_", "")]
        written = re.search(rf"\b{re.escape(name)}\b[\w.\[\]]*\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)", case.error.source)
        if written:
            return f"take `{kind} &{name}` as a parameter of `{case.function}`"
        return f"take `const {kind} &{name}` as a parameter of `{case.function}`, without const to write it"
    for variable, kind in taken.items():
        if name in _fields(program, kind):
            return f"write `{variable}.{name}`"
    if name[:1].isupper() and name.isupper() and len(name) > 1:
        return f"no constant `{name}`{_nearest(case)}: declare it in the environment, in constants or parameters"
    if re.search(rf"\b{re.escape(name)}\s*[(<]", case.error.source):
        later = _line_of_function(case, name)
        if later:
            return f"move function `{name}` of line {later} above this line: C++ reads from top to bottom"
        near = _nearest(case)
        return f"no function `{name}`{near}: include the file that has it, #include \"file.h\"; {_PAGE}"
    near = suggestion(name, [*program.parameters, *program.constants])
    return f"no `{name}` here{near}" if near else ""


def _line_of_function(case: Case, name: str) -> int:
    """Where the file defines a function behind the error; 0 where it does not."""
    text = next((whole for path, whole in case.program.files.items() if path.name == Path(case.error.file).name), "")
    for number, line in enumerate(text.splitlines(), start=1):
        if number > case.error.line and re.search(rf"\bTBS_FUNCTION\b.*\b{re.escape(name)}\s*\(", line):
            return number
    return 0


def _libm(case: Case, found: re.Match[str]) -> str:
    called = re.search(r"[^:\w]((?:std::)?\w+)\(T", case.error.text.replace("fence::", ""))
    name = called[1] if called else ""
    return f"write `{found[1]}(...)` for `{name}`: the engine's gives the same bits everywhere, libm's does not"


def _lacking(case: Case, found: re.Match[str]) -> str:
    called = re.search(r"(\w+)\(T", case.error.text)
    name = called[1] if called else "it"
    instead = _INSTEAD.get(name) or _INSTEAD.get(name.rstrip("fl"))
    return f"the engine has no `{name}`" + (f": write `{instead}`" if instead else f"; {_PAGE}")


def _deleted(case: Case, found: re.Match[str]) -> str:
    """nvcc does not show the types whose names give the reason."""
    space, name = found[1], found[2]
    base = name[:-1] if name[-1:] in "fl" and not space else name
    if base in ("rand", "srand", "random", "drand48", "lrand48"):
        return _RANDOM
    if base in _INSTEAD or name in _INSTEAD:
        return f"the engine has no `{name}`: write `{_INSTEAD.get(name) or _INSTEAD[base]}`"
    if not space and base == name and name not in _RENAMED:
        return f"it takes f32: {_LITERALS}"
    return f"write `{_RENAMED.get(base, base)}(...)` for `{name}`: the engine's gives the same bits everywhere"


def _candidates(case: Case, found: re.Match[str]) -> str:
    """A call that fits none of the functions of this name."""
    if found[1].startswith("World::check("):
        form = 'world.check(condition, "message", number)'
        return f"it takes a condition, and then a message, a number, or both: `{form}`"
    if re.match(r"World::log\(const char ?\*", found[1]):
        return 'write the label itself in the call, `world.log("speed", ball.speed)`: a variable is not a label'
    if found[1].startswith("World::log("):
        return 'it takes a label and a value: `world.log("speed", ball.speed)`'
    if found[1].startswith("World::destroy("):
        return (
            "destroy takes an Entity: `Entity self` of the system's own row, or `world.entity<Archetype>(index)` of "
            "another"
        )
    if "<brace-enclosed initializer list>" in found[1] and "::create" in found[1]:
        return "name the component in front of the braces: `world.create<Bullet>(Shot{...})`"
    notes = re.findall(r"note: candidate: ['\"](.+?)['\"]$", plain(case.error.around), re.MULTILINE)
    shown = [re.sub(r"^template<[^>]*> | \[with .*\]$|\b(?:World|Random)::", "", note) for note in notes]
    shown = [re.sub(r"^\s*requires (?:\(.*?\)(?: \|\| )?)+ (?=\w)| const$", "", note) for note in shown]
    shown = [note for note in dict.fromkeys(shown) if "(const " not in note or "&&" not in note]
    return f"call it as {' or '.join(f'`{note}`' for note in shown[:3])}" if shown else ""


def _create(case: Case, found: re.Match[str]) -> str:
    around = plain(case.error.around)
    archetype = re.search(r"Archetype ?= ?(\w+(?:::\w+)*)[;,] Component ?= ?[{<]([^}>]*)", around)
    if not archetype:
        return ""
    named = [each for each in case.program.archetypes if each.name == archetype[1].split("::")[-1]]
    has = ", ".join(component.__name__ for each in named for component in each.components)
    return f"create<{archetype[1]}> takes components of it ({has}), and was given {archetype[2]}"


def _cast(case: Case, found: re.Match[str]) -> str:
    """A cast of a value that is not a number."""
    kind, to = found[1].removeprefix("const "), found[2]
    if kind in _VECTORS:
        return f"take one component of the {kind}, such as `.x`"
    if kind == "Row":
        return f"write `{to}(row.index)`: a Row has `index`, and `count`, how many there are"
    if kind == "Entity":
        return "an Entity is not a number: `world.index_of<Archetype>(entity)` is its row"
    fields = _fields(case.program, kind)
    return f"name one field of {kind}, such as `.{fields[0]}`" if fields else ""


def _assigned(case: Case, found: re.Match[str]) -> str:
    return _made(case, to=found[1], given=found[2])


def _converted(case: Case, found: re.Match[str]) -> str:
    return _made(case, to=found[2], given=found[1])


def _made(case: Case, to: str, given: str) -> str:
    """A value of a type from which the wanted one is not made."""
    if to == "Entity":
        return "the empty Entity is `Entity{}`; others come from `world.create`, `world.entity`, `Entity self`"
    fields = _ENGINE_FIELDS.get(to) or _fields(case.program, to)
    if fields and given in SPELLINGS.values():
        return f"name the field of {to} that is to be written, such as `.{fields[0]}`"
    return f"write `{to}{{{', '.join(_VECTORS[to])}}}`: a {to} is not made from {given}" if to in _VECTORS else ""


def _convert(case: Case, found: re.Match[str]) -> str:
    given, to = found[1], found[2]
    if given in _VECTORS:
        return f"take one component of the {given}, such as `.x`, where {to} is wanted"
    if to in _VECTORS:
        return _converted(case, found)
    if given.rstrip("*") == to and given.endswith("*"):
        return f"it is an array of {to}: give it one index more"
    if "char" in given:
        return f"systems have no strings: give a number, or a name of an enumeration, where {to} is wanted"
    if given.removeprefix("const ") == to and to.endswith("*"):
        return f"write `const {to}` to read it only; to write it, ask for it without const"
    kinds = {kind.__name__ for kind in case.program.components}
    if given.removeprefix("const ").rstrip("&") in kinds:
        return f"name one field of {given}, such as `.{_fields(case.program, given.removeprefix('const '))[0]}`"
    return ""


def _subscript(case: Case, found: re.Match[str]) -> str:
    kind = found[1].removeprefix("const ")
    if "'Row')" in case.error.text:
        return "a Row is not an index: write `[row.index]`"
    if "'Entity')" in case.error.text:
        return (
            "an Entity is not an index: `world.find<Archetype, const Component>(entity)` gives a pointer to its "
            "component, `world.index_of<Archetype>(entity)` its row"
        )
    if kind == "World":
        return "a system reaches its own world only; worlds share resources"
    if kind in _VECTORS:
        return f"name the component of the {kind}: .x, .y, ...; an index is for fields such as `f32[3]`"
    return ""


def _bitwise(case: Case, found: re.Match[str]) -> str:
    """An operator of integers between other numbers, or an operator of texts."""
    if "const char" in case.error.text:
        return "systems have no strings: compare with a number, or a name of an enumeration"
    if found[1] == "%":
        return "`%` is for integers: of f32 write `fmod(x, y)`"
    if found[1] == "^":
        return "`^` is for bits of integers: write `x * x`, or `pow(x, y)`"
    return ""


def _said(text: str) -> Callable[[Case, re.Match[str]], str]:
    return lambda case, found: found.expand(text)


def _of_type(case: Case, found: re.Match[str]) -> str:
    """A type where a variable is meant, or the other way round: ``Act.direction``, ``Constants.rows``."""
    if re.search(r"\bConstants\s*\.", case.error.source):
        return "constants are `Constants::name`"
    kinds = {kind.__name__ for kind in case.program.components}
    for kind, name in re.findall(r"\b(\w+)\s*(?:\.|::)\s*(\w+)", case.error.source):
        if kind in kinds:
            taken = {each.type: each.name for each in case.system.parameters} if case.system else {}
            return f"write `{taken.get(kind, kind.lower())}.{name}`: `{kind}` is a type"
    return ""


def _power(case: Case, found: re.Match[str]) -> str:
    return "C++ has no operator **: write `x * x`, or `pow(x, y)`" if "**" in case.error.source else ""


def _semicolon(case: Case, found: re.Match[str]) -> str:
    """A statement without its end. The error is at its last word, see ``compile_errors``."""
    last = case.error.source[: max(case.error.column - 1, 0)].rstrip()
    if last.endswith(","):
        return "this line ends with `,`: write `;` where the declaration ends"
    word = re.search(r"[\w.]+$|\S$", last)
    return f"a `;` is missing behind `{word[0]}`" if word else ""


def _returned(case: Case, found: re.Match[str]) -> str:
    ended = case.error.source[: max(case.error.column - 1, 0)].rstrip().endswith("return")
    return "a `;` is missing behind `return`" if ended else ""


def _colon(case: Case, found: re.Match[str]) -> str:
    python = re.search(r"\b(if|else|while|for)\b.*:\s*", case.error.source)
    return f"C++ has no `:` behind `{python[1]} (...)`: write `{python[1]} (...) {{ ... }}`" if python else ""


_TABLE: Iterable[tuple[re.Pattern[str], Callable[[Case, re.Match[str]], str]]] = [
    (re.compile(pattern), write)
    for pattern, write in [
        (r"(?:in read-only object|of read-only (?:location|reference|variable|parameter))", _written),
        (r"expression must be a modifiable lvalue", _written),
        (r"binding reference of type '([^']+)' to 'const [^']+' discards qualifiers", _bound),
        (r"qualifiers dropped in binding reference of type \"([^\"]+)\"", _bound),
        (r"'([^']+)' has no member named '([^']+)'", _no_member),
        (r"class \"([^\"]+)\" has no member \"([^\"]+)\"", _no_member),
        (r"libm_is_not_reproducible_and_namespace_tbs_lacks_this_function", _lacking),
        (r"libm_is_not_reproducible_use_tbs_(\w+)", _libm),
        (r"is deprecated: libm is not reproducible: write (\w+)", _said(r"write `\1(...)`, the engine's")),
        (r"not_reproducible_use_world_random|is deprecated: not reproducible: use world", _said(_RANDOM)),
        (r"function \"(?:\w+ )?(std::)?(\w+)\(T\.\.\.\).*it is a deleted function", _deleted),
        (r"reaches_beyond_the_world", _said(f"systems reach nothing but their world: {_OUTSIDE}")),
        (r"only_for_f32_write_a_literal", _said(f"it takes f32: {_LITERALS}")),
        (r"f32_and_f64_arguments_mixed", _said(f"its arguments are of one type: {_LITERALS}")),
        (r"use of deleted function 'Random::(?:Random|operator=)\(", _said(
            "take the stream by reference, `Random &random = world.random();`: a copy would draw the same again")),
        (r"'(\w+)' is not a member of '([^']+)'", _not_in),
        (r"(?:namespace|class) \"([^\"]+)\" has no member \"([^\"]+)\"", _no_member),
        (r"'(\w+)' (?:was not declared in this scope|has not been declared|does not name a type)", _undeclared),
        (r"identifier \"(\w+)\" is undefined", _undeclared),
        (r"expected primary-expression before ':'", _colon),
        (r"expected (?:',' or )?';' before|expected (?:initializer|unqualified-id) before '(?:\w|})", _semicolon),
        (r"expected a \";\"", _semicolon),
        (r"expected ';' (at end of member declaration|after struct definition)", _said(r"a `;` is missing \1")),
        (r"expected primary-expression before '}'", _returned),
        (r"invalid type argument of unary '\*'", _power),
        (r"overloaded function with no contextual type information", _said(
            "take the stream first, `Random &random = world.random();`, and draw from that")),
        (r"expected primary-expression before '\.'|invalid use of non-static data member", _of_type),
        (r"unable to find numeric literal operator 'operator\"\"f'", _said("write `1.0f` for `1f`")),
        (r"in '(\w+)', which is of pointer type", _said(
            r"write `\1->` for `\1.`, after a test: find gives nullptr where the row is missing")),
        (r"which is of pointer type", _said(
            "keep the pointer and test it, `const Place *place = world.find<...>(entity); if (place) ... place->x`: "
            "find gives nullptr where the row is missing")),
        (r"no match for 'operator\[\]' \(operand types are '([^']+)'", _subscript),
        (r"no match for 'operator=' \(operand types are '([^']+)' and '([^']+)'", _assigned),
        (r"no match for 'operator.+'(?:const )?Entity'", _said(
            "the empty Entity is `Entity{}`: compare with that, or write `!entity`")),
        (r"invalid operands of types '.+' and '.+' to binary 'operator(.+?)'", _bitwise),
        (r"conversion from '([^']+)' to non-scalar type '([^']+)' requested", _converted),
        (r"invalid cast from type '([^']+)' to type '([^']+)'", _cast),
        (r"(?:cast|conversion) from 'const char\*' to '(?:i32|u32)'", _said(
            "systems have no strings: declare faults = ('lost', ...), and report one by world.fail(Fault::lost)")),
        (r"(?:cannot convert|invalid conversion from|could not convert '.+' from) '([^']+)' to '([^']+)'", _convert),
        (r"no matching function for call to '(.+)'", _candidates),
        (r"return-statement with a value, in function returning 'void'", _said(
            "a system returns nothing: write results into components, and leave early by `return;`")),
        (r"(?:it )?lacks a component of these", _create),
        (r"inlining failed in call to '.*?(\w+)\(.*recursive", _said(
            r"`\1` calls itself, which systems cannot: write a loop")),
        (r"inlining failed in call to '.*?([\w:]+)\(.*function body not available", _said(
            r"function `\1` is declared and not defined: write its body where it is declared")),
        (r"calling a (?:constexpr )?__host__ function.*\"(?:.*::)?(\w+)", _said(
            r"put TBS_FUNCTION in front of function `\1`: without it a device cannot call it")),
    ]
]  # fmt: skip
