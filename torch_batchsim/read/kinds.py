"""Types of expressions in an author's text, as far as components, declarations and literals tell them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..base.numbers import NUMBERS
from ..base.shared import LANES
from ..declare.fields import Member
from ..types import FieldType
from .bodies import Expression, Variable

INTEGERS = frozenset(n.c_type for n in NUMBERS.values() if n.name not in ("f32", "f64", "boolean")) | {"int", "size_t"}
FLOATS = frozenset({"f32", "f64", "float", "double"})
VECTORS = {"vec2": "xy", "vec3": "xyz", "vec4": "xyzw", "quat": "wxyz"}
_FLOAT_FUNCTIONS = frozenset(
    "sqrt sin cos tan asin acos atan atan2 exp exp2 log log2 pow floor ceil round rint trunc fmod tanh fma divide "
    "length distance dot uniform normal lerp hypot copysign".split()
)
SAME_AS_ARGUMENTS = ("min", "max", "clamp", "abs")
ENDS = ("Episode", "AgentEnd", "Reward")
_OF_WORLD = {"step": "u32", "episode": "u32", "repetition": "u32", "count": "u32", "index_of": "u32", "alive": "bool"}
_OF_RANDOM = {"uniform": "f32", "normal": "f32", "below": "u32", "integer": "i32", "chance": "bool", "bits": "u32"}
_FLOAT_ARGUMENTS = {"uniform": 2, "chance": 1}  # of Random, so many
_OF_ENGINE = {  # fields of the engine's types
    "Row": {"index": "u32", "count": "u32"},
    "Episode": {"step": "u32", "terminated": "bool", "truncated": "bool"},
    "AgentEnd": {"terminated": "bool", "truncated": "bool"},
    "Reward": {"value": "f32"},
}


@dataclass(frozen=True)
class Kind:
    """A type.

    Attributes:
        name: ``"f32"``, ``"Ball"``; of a struct that a component nests, its name too.
        extents: of an array, None where it is not known; of ``Rows`` the number of rows.
        pointer: to it.
        rows: it is ``Rows`` of the component.
    """

    name: str
    extents: tuple[int | None, ...] = ()
    pointer: bool = False
    rows: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a variable of it holds the value itself."""
        return not self.pointer and not self.rows

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS and self.is_plain and not self.extents

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS and self.is_plain and not self.extents

    @property
    def element(self) -> Kind:
        """What an index gives."""
        if self.rows:
            return Kind(self.name)
        if self.extents:
            return replace(self, extents=self.extents[1:])
        return replace(self, pointer=False)


@dataclass(frozen=True)
class Signature:
    """A function of a text."""

    result: str
    reference: bool
    parameters: tuple[Variable, ...]


@dataclass
class Known:
    """The names of a text that it does not declare itself.

    Attributes:
        declared: the fields of a component or struct of Python by its name as written; None for anything else.
        structs: those of the text.
        number: the value of ``Constants::rows`` or of ``parameters.gust``; None where there is none.
        rows: of an archetype by its name as written: how many, None where rows come and go; KeyError for none.
        functions: by name, all of them.
        constants: variables outside of functions.
        macros: the words in their texts, by their names.
    """

    declared: Callable[[str], Mapping[str, Kind] | None]
    number: Callable[[str], bool | int | float | None]
    rows: Callable[[str], int | None]
    functions: Mapping[str, Sequence[Signature]] = field(default_factory=dict)
    structs: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    constants: list[Variable] = field(default_factory=list)
    macros: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def members(self, name: str) -> Mapping[str, Kind] | None:
        """The fields of a struct of either."""
        found = self.declared(name)
        return self.structs.get(name) if found is None else found


def member_kinds(members: Sequence[Member]) -> dict[str, Kind]:
    """The fields of a component or struct."""
    found = {}
    for member in members:
        if isinstance(member.type, FieldType):
            name = "bool" if member.type.c_type == "boolean" else member.type.c_type
            found[member.name] = Kind(name, tuple(member.type.shape))
        else:
            found[member.name] = Kind(member.type.__name__, tuple(member.shape))
    return found


def number_kind(value: bool | int | float) -> Kind:
    if isinstance(value, bool):
        return Kind("bool")
    return Kind("i32" if isinstance(value, int) else "f32")


def literal_kind(text: str) -> Kind:
    lowered = text.lower()
    if lowered.startswith(("0x", "0b")) and "p" not in lowered:
        return Kind("i32")
    return Kind("f32" if re.search(r"[.pe]|f$", lowered) else "i32")


def variable_kind(variable: Variable, known: Known, given: Kind | None, extents: tuple[int | None, ...]) -> Kind | None:
    """The type of a variable; ``given`` is that of its first value, or of an element of a loop's range."""
    name = re.sub(r"\bconst\b|\btbs::|\s", "", variable.type)
    if name == "auto":
        return given
    rows = re.fullmatch(r"Rows<(.+)>", name)
    if rows:
        return given if given is not None and given.rows else Kind(rows[1], (None,), rows=True)
    simple = name in INTEGERS or name in FLOATS or name in VECTORS or name in _OF_ENGINE
    if simple or name in ("bool", "World", "Random", "Entity", *LANES) or known.members(name) is not None:
        return Kind(name, extents, pointer="*" in variable.mark)
    return None


def fields_of(kind: Kind, known: Known) -> Mapping[str, Kind] | None:
    """The fields behind a ``.`` or ``->``."""
    if kind.rows or kind.extents:
        return {"count": Kind("u32")} if kind.rows else None
    if kind.name in VECTORS:
        return dict.fromkeys(VECTORS[kind.name], Kind("f32"))
    if kind.name in _OF_ENGINE:
        return {name: Kind(of) for name, of in _OF_ENGINE[kind.name].items()}
    return known.members(kind.name)


class Kinds:
    """Finds the types of expressions. ``find``: of a local variable by its name, else None."""

    def __init__(self, known: Known, find: Callable[[str], Kind | None]) -> None:
        self.known, self.find = known, find

    def of(self, e: Expression) -> Kind | None:
        """The type of an expression; None where it is not known."""
        if e.kind == "number":
            return literal_kind(e.text)
        if e.kind == "group":
            return self.of(e.parts[0])
        if e.kind == "name":
            return self._name(e)
        if e.kind == "member":
            return self._member(e)
        if e.kind == "index":
            base = self.of(e.parts[0])
            return base.element if base is not None and (base.rows or base.extents or base.pointer) else None
        if e.kind == "cast":
            return Kind(e.text.removeprefix("tbs::"))
        if e.kind == "braces":
            return Kind(e.text) if e.text in VECTORS or (e.text and self.known.members(e.text) is not None) else None
        if e.kind == "step":
            return self.of(e.parts[0])
        if e.kind == "unary":
            return self._unary(e)
        if e.kind == "assign":
            return self.of(e.parts[0])
        if e.kind == "choice":
            return joined(self.of(e.parts[1]), self.of(e.parts[2]))
        if e.kind == "binary":
            return self._binary(e)
        return self._call(e) if e.kind == "call" else None

    def _name(self, e: Expression) -> Kind | None:
        local = self.find(e.text)
        if local is not None:
            return local
        if e.text in ("true", "false"):
            return Kind("bool")
        value = self.known.number(e.text)
        return None if value is None or isinstance(value, str) else number_kind(value)

    def _member(self, e: Expression) -> Kind | None:
        written = path_of(e)
        if written and ".parameters." in f".{written}":
            value = self.known.number(written[written.index("parameters.") :])
            return None if value is None or isinstance(value, str) else number_kind(value)
        if written.endswith(".id") and e.parts[0].kind == "name" and self.is_world(e.parts[0]):
            return Kind("u32")
        base = self.of(e.parts[0])
        fields = fields_of(base, self.known) if base is not None else None
        return fields.get(e.text) if fields else None

    def is_world(self, e: Expression) -> bool:
        found = self.find(e.text) if e.kind == "name" else None
        return found is not None and found.name == "World"

    def _unary(self, e: Expression) -> Kind | None:
        of = self.of(e.parts[0])
        if e.text in ("!", "not"):
            return Kind("bool")
        if e.text == "*":
            return replace(of, pointer=False) if of is not None and of.pointer else None
        if e.text == "&":
            return replace(of, pointer=True) if of is not None else None
        return of

    def _binary(self, e: Expression) -> Kind | None:
        if e.text in ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "and", "or"):
            return Kind("bool")
        left, right = self.of(e.parts[0]), self.of(e.parts[1])
        if e.text in ("<<", ">>"):
            return left
        return joined(left, right)

    def _call(self, e: Expression) -> Kind | None:
        function = e.parts[0]
        if function.kind == "member":
            return self._method(function)
        if function.kind != "name":
            return None
        name = function.text.removeprefix("tbs::")
        if name in SAME_AS_ARGUMENTS:
            kinds = [self.of(part) for part in e.parts[1:]]
            made = kinds[0] if kinds else None
            for kind in kinds[1:]:
                made = joined(made, kind)
            return made
        found = self.known.functions.get(function.text, ())
        results = {re.sub(r"\bconst\b|\btbs::|[\s&]", "", each.result) for each in found}
        if len(results) == 1:
            result = results.pop()
            fields = self.known.members(result)
            plain = result in INTEGERS or result in FLOATS or result in VECTORS or result == "bool"
            return Kind(result) if plain or fields is not None else None
        if not found and name in VECTORS:
            return Kind(name)
        return Kind("f32") if not found and name in _FLOAT_FUNCTIONS else None

    def _method(self, function: Expression) -> Kind | None:
        name, arguments = function.text, [each.replace("const ", "").strip() for each in function.arguments]
        if name == "rows" and len(arguments) == 2:
            try:
                count = self.known.rows(arguments[0])
            except KeyError:
                return None
            return Kind(arguments[1], (count,), rows=True)
        if name == "get" and len(arguments) == 1:
            return Kind(arguments[0])
        if name == "find" and arguments:
            return Kind(arguments[-1], pointer=True)
        base = self.of(function.parts[0])
        if base is not None and base.name in LANES and name in ("count", "ballot", "scan"):
            return Kind("u32")
        if base is not None and base.name == "World":
            return Kind("Random") if name == "random" else Kind(_OF_WORLD[name]) if name in _OF_WORLD else None
        return Kind(_OF_RANDOM[name]) if base is not None and base.name == "Random" and name in _OF_RANDOM else None

    def float_arguments(self, e: Expression) -> list[bool]:
        """Of a call: which arguments become floats, by the function's parameters."""
        function, count = e.parts[0], len(e.parts) - 1
        if function.kind == "member":
            base = self.of(function.parts[0])
            if base is not None and base.name == "Random":
                return [i < _FLOAT_ARGUMENTS.get(function.text, 0) for i in range(count)]
            return [False] * count
        found = self.known.functions.get(function.text, ()) if function.kind == "name" else ()
        if not found and function.text.removeprefix("tbs::") in {*_FLOAT_FUNCTIONS, *VECTORS}:
            return [True] * count
        fitting = [each for each in found if len(each.parameters) >= count]
        return [
            bool(fitting)
            and all(each.parameters[i].type in FLOATS and "*" not in each.parameters[i].mark for each in fitting)
            for i in range(count)
        ]


def joined(a: Kind | None, b: Kind | None) -> Kind | None:
    """The type of ``a + b``."""
    if a is None or b is None:
        return None
    for kind in (a, b):
        if kind.name in VECTORS and not kind.extents:
            return kind
    if (a.is_float and (b.is_float or b.is_integer)) or (b.is_float and a.is_integer):
        return Kind("f64" if "f64" in (a.name, b.name) else "f32")
    integral = all(kind.is_integer or kind.name == "bool" for kind in (a, b))
    if integral:
        return Kind(a.name if a.is_integer and a.name not in ("u8", "i8", "u16", "i16") else "i32")
    return a if a == b else None


def path_of(e: Expression) -> str:
    """``"world.parameters.gust"``: names with ``.`` between; empty for anything else."""
    if e.kind == "name":
        return e.text
    inner = path_of(e.parts[0]) if e.kind == "member" else ""
    return f"{inner}.{e.text}" if inner else ""
