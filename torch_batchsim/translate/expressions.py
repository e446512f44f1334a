"""Expressions of systems in Python as C++, with static types."""

from __future__ import annotations

import ast
import builtins
import ctypes
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import ModuleType
from typing import Any

from ..base.constant import Constant
from ..base.names import suggestion
from ..declare.fields import Struct
from ..declare.library import Library
from ..declare.python_systems import PythonFunction
from ..declare.schema import Component
from ..errors import SchemaError
from ..types import FieldType
from .kinds import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Array,
    Kind,
    Maybe,
    Number,
    Opaque,
    Record,
    Rows,
    RowsOfSome,
    Vector,
)
from .surroundings import Signature, Surroundings, Written, refusal
from .thunks import Thunk, Thunks

MISSING = object()
SEVERAL = "one of Worlds"
WORLD_METHODS = (
    "step", "episode", "repetition", "fail", "check", "log", "rows", "get", "find", "count", "index_of", "entity",
    "create", "create_at", "destroy", "alive", "random_of", "tables", "most_rows",
)  # fmt: skip
"""Methods of the world."""
_EFFECTS = ("random", "random_of", "create", "create_at", "destroy", "fail", "check", "log")
NOTHING: ast.expr = ast.Constant(None)  # in place of trees that nobody has asked for
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_BITS: dict[type[ast.operator], str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_WRAPPED = {"+": "wrapped_add", "-": "wrapped_subtract", "*": "wrapped_multiply"}


@dataclass
class Value:
    """An expression: its kind and its text in C++.

    Attributes:
        tree: the same in Python, with every rounding and conversion of C++ written out.
        atom: needs no brackets around it.
        literal: its number, where the text of the Python file has it or a constant of the module: such a number takes
            the type of what it meets.
        place: the variable, parameter or call whose memory it is; None of a value that lies nowhere.
    """

    kind: Kind
    text: str
    tree: ast.expr
    atom: bool = True
    literal: bool | int | float | None = None
    place: Any = None

    @property
    def is_number(self) -> bool:
        return isinstance(self.kind, Number)

    @property
    def inner(self) -> str:
        """The text as an operand."""
        return self.text if self.atom else f"({self.text})"


@dataclass
class Variable:
    """A local variable or a parameter. ``place`` names its memory in ``Written.places``."""

    name: str
    kind: Kind
    text: str
    place: Any = None
    fixed: str = ""  # why it cannot be assigned to


class Expressions:
    """Translates the expressions of one function.

    Args:
        functions: gives the signature of a function that this one calls.
    """

    def __init__(
        self,
        function: PythonFunction[Any, Any],
        around: Surroundings,
        written: Written,
        functions: Callable[[PythonFunction[Any, Any]], Signature],
        thunks: Thunks,
        with_trees: bool,
    ) -> None:
        self.thunks, self.with_trees = thunks, with_trees
        self.function, self.around, self.written, self.functions = function, around, written, functions
        self.source = function.source
        self.names = function.names
        self.variables: dict[str, Variable] = {}
        self.assigned: set[str] = set()
        self.constants: dict[str, Any] = {}  # the same for Python
        self.tables: dict[str, str] = {}  # constant tables of the module, as declarations
        self.in_index = 0
        self.outside: set[Any] = set()  # within a function for lanes: the places of variables outside of it
        self.whole: Any = None  # the expression that is all of a statement: its calls may write what others read
        self.bodies: dict[str, tuple[int, Kind]] = {}  # functions within the system: their arguments and results

    def refuse(self, node: ast.AST, message: str) -> SchemaError:
        return refusal(self.source, node, message)

    # ---- the same in Python ------------------------------------------------------------------------------------------

    def python(self, node: ast.AST, template: str, *parts: Value | ast.expr) -> ast.expr:
        """An expression at the place of ``node``; ``_0``, ``_1`` in the template are the parts."""
        if not self.with_trees:
            return NOTHING
        trees = [part.tree if isinstance(part, Value) else part for part in parts]
        return placed(_Filled(trees).visit(ast.parse(template, mode="eval").body), node)

    def at(self, tree: ast.expr, node: ast.AST) -> ast.expr:
        """The tree at the place of a node."""
        return placed(tree, node) if self.with_trees else NOTHING

    def engine(
        self,
        node: ast.AST,
        template: str,
        values: Sequence[Value],
        result: Kind,
        world: Value | None = None,
        place: Any = None,
        in_thunk: str | None = None,
    ) -> Value:
        """A call of the engine: ``{0}`` are the values, ``{w}`` the world. Python calls it through a ``Thunk``.

        Args:
            in_thunk: the template of the thunk where it differs.
        """
        texts = [value.text for value in values]
        text = template.format(*texts, w=world.text if world else "")
        kinds = tuple(value.kind for value in values)
        thunk = self.thunks.number(Thunk(self.around.namespace, in_thunk or template, kinds, result))
        parts = [world.tree if world else ast.Constant(None), *(value.tree for value in values)]
        names = ", ".join(f"_{number}" for number in range(len(parts)))
        return Value(result, text, self.python(node, f"engine_{thunk}({names})", *parts), place=place)

    # ---- names outside of the function ------------------------------------------------------------------------------

    def static(self, node: ast.AST) -> Any:
        """The Python object that a name or a chain of attributes of the module means; ``MISSING`` for anything else."""
        if isinstance(node, ast.Name):
            if node.id in self.variables or node.id in self.written.kinds:
                return MISSING
            if node.id in self.names:
                return self.names[node.id]
            return getattr(builtins, node.id, MISSING)
        if isinstance(node, ast.Attribute):
            owner = self.static(node.value)
            if owner is MISSING:
                return MISSING
            if isinstance(owner, type) and issubclass(owner, (Component, Struct)):
                raise self.refuse(node, f"{owner.__name__} is a class; take a parameter of it to read its fields")
            try:
                return getattr(owner, node.attr)
            except AttributeError:
                public = {name: getattr(owner, name, None) for name in dir(owner) if not name.startswith("_")}
                hint = suggestion(node.attr, [name for name in public if not isinstance(public[name], ModuleType)])
                if isinstance(owner, ModuleType) and any(_is_library_of(owner, each) for each in public.values()):
                    hint += "; functions of a library's header are for systems in C++"
                raise self.refuse(node, f"{ast.unparse(node.value)} has no {node.attr!r}{hint}") from None
        return MISSING

    def of_object(self, given: Any, node: ast.AST, name: str) -> Value:
        """A constant of the module."""
        if isinstance(given, bool):
            return Value(BOOL, "true" if given else "false", self.at(ast.Constant(given), node), literal=given)
        if isinstance(given, (int, IntEnum)):
            return self.integer(int(given), node)
        if isinstance(given, float):
            return self.real(given, node)
        if isinstance(given, Constant):
            return self.constant_of(given, node)
        if isinstance(given, tuple):
            return self.table(given, node, name)
        if isinstance(given, (list, dict, set)):
            raise self.refuse(
                node, f"{name} is a {type(given).__name__}, which may change later; make it a tuple of numbers"
            )
        if isinstance(given, (PythonFunction, FieldType)) or callable(given):
            raise self.refuse(node, f"{name} is a function or type; call it: {name}(...)")
        raise self.refuse(
            node,
            f"{name} is {type(given).__name__} {given!r}; systems read numbers, tuples of numbers, enumerations and "
            "Constant(...) of a module",
        )

    def integer(self, value: int, node: ast.AST) -> Value:
        kind = next((kind for kind in (I32, U32, I64, U64) if kind.holds(value)), None)
        if kind is None:
            raise self.refuse(node, f"{value} does not fit into 64 bits")
        return Value(kind, _whole(value, kind), self.at(ast.Constant(value), node), literal=value)

    def real(self, value: float, node: ast.AST) -> Value:
        single = ctypes.c_float(value).value
        tree = self.at(ast.Constant(single), node)
        if math.isnan(value):
            return Value(F32, "from_bits(0x7fc00000u)", tree, literal=value)
        if math.isinf(single):
            return Value(F32, "infinity" if value > 0 else "-infinity", tree, atom=value > 0, literal=value)
        return Value(F32, _single(value), tree, atom=math.copysign(1, value) > 0, literal=value)

    def constant_of(self, constant: Constant, node: ast.AST) -> Value:
        names = set(re.findall(r"[A-Za-z_]\w*", repr(constant)))
        for name in names:
            if name not in self.around.constants:
                hint = suggestion(name, self.around.constants)
                raise self.refuse(node, f"Constant({name!r}) is not among the constants of the environment{hint}")
        if len(names) == 1 and repr(constant) in names:
            return self.named_constant(repr(constant), node)
        value = constant._compute(self.around.constants)
        return replace(self.integer(value, node), literal=None)

    def named_constant(self, name: str, node: ast.AST) -> Value:
        value = self.around.constants[name]
        kind = option_kind(value)
        return Value(kind, f"Constants::{name}", self.at(ast.Constant(_as_stored(value)), node))

    def table(self, given: tuple[Any, ...], node: ast.AST, name: str) -> Value:
        """A tuple of numbers in the module, as a constant array within the function."""
        shape, flat = _flattened(given)
        if shape is None or not flat:
            raise self.refuse(node, f"{name} must be a tuple of numbers, or of tuples of one length, got {given!r}")
        kind: Number = F32 if any(isinstance(one, float) for one in flat) else I32
        if all(isinstance(one, bool) for one in flat):
            kind = BOOL
        own = "table_" + re.sub(r"\W", "_", name)
        texts = [
            _single(float(one)) if kind == F32 else str(one).lower() if kind == BOOL else str(int(one)) for one in flat
        ]
        extents = "".join(f"[{extent}]" for extent in shape)
        self.tables[own] = f"TBS_CONSTANT {kind.cpp} {own}{extents} = {_nested(texts, shape)};"
        numbers = [_as_stored(float(one)) if kind == F32 else bool(one) if kind == BOOL else int(one) for one in flat]
        self.constants[own] = _grouped(numbers, shape)
        return Value(Array(kind.cpp, kind, shape), own, self.python(node, own))

    # ---- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Any expression. Raises SchemaError for one that systems cannot have."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise self.refuse(node, _refused(node))
        result: Value = method(node)
        return result

    def number(self, node: ast.expr, what: str) -> Value:
        value = self.value(node)
        if not isinstance(value.kind, Number):
            raise self.refuse(node, f"{what} must be a number, got {value.kind}")
        return value

    def _Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool):
            return Value(
                BOOL, "true" if node.value else "false", self.at(ast.Constant(node.value), node), literal=node.value
            )
        if isinstance(node.value, int):
            return self.integer(node.value, node)
        if isinstance(node.value, float):
            return self.real(node.value, node)
        raise self.refuse(node, f"{node.value!r} is not a number; systems compute with numbers")

    def _Name(self, node: ast.Name) -> Value:
        variable = self.variables.get(node.id)
        if variable is not None:
            if node.id not in self.assigned:
                raise self.refuse(node, f"{node.id!r} may be without a value here: assign it on every path before")
            return Value(
                variable.kind, variable.text, self.at(ast.Name(node.id, ast.Load()), node), place=variable.place
            )
        if node.id in self.written.kinds:
            raise self.refuse(node, f"{node.id!r} may be without a value here: assign it on every path before")
        given = self.static(node)
        if given is MISSING:
            known = [*self.variables, *(name for name in self.names if not name.startswith("__"))]
            stored = (each for each in ast.walk(self.source.tree) if isinstance(getattr(each, "ctx", None), ast.Store))
            if any(isinstance(each, ast.Name) and each.id == node.id for each in stored):
                raise self.refuse(node, f"{node.id!r} has no value here: assign it before, also where no loop runs")
            raise self.refuse(node, f"{node.id!r} is not defined{suggestion(node.id, known)}")
        return self.of_object(given, node, node.id)

    def _Attribute(self, node: ast.Attribute) -> Value:
        given = self.static(node)
        if given is not MISSING:
            return self.of_object(given, node, ast.unparse(node))
        owner = self.value(node.value)
        kind, name = owner.kind, node.attr
        if isinstance(kind, Maybe):
            return self.member(node, kind.element, replace(owner, text=f"{owner.inner}->"), name)
        if isinstance(kind, Record):
            return self.member(node, kind, replace(owner, text=f"{owner.inner}."), name)
        if isinstance(kind, Vector):
            if name not in kind.parts or len(name) != 1:
                raise self.refuse(node, f"{kind} has no {name!r}; it has {', '.join(kind.parts)}")
            return Value(F32, f"{owner.inner}.{name}", self.python(node, f"_0.{name}", owner), place=owner.place)
        if isinstance(kind, Opaque):
            return self.of_engine(node, owner, name)
        if isinstance(kind, Rows) and name == "count":
            return Value(I32, f"i32({owner.inner}.count)", self.python(node, "_0.count", owner))
        raise self.refuse(node, f"{kind} has no {name!r}")

    def member(self, node: ast.AST, kind: Record, owner: Value, name: str) -> Value:
        if name not in kind.members:
            hint = suggestion(name, kind.members)
            raise self.refuse(node, f"{kind} has no field {name!r}{hint}; its fields are {', '.join(kind.members)}")
        return Value(
            kind.members[name], f"{owner.text}{name}", self.python(node, f"_0.{name}", owner), place=owner.place
        )

    def of_engine(self, node: ast.AST, owner: Value, name: str) -> Value:
        """An attribute of the world, the episode, the row, or of options."""
        kind = owner.kind
        given = getattr(kind, "values", None)
        values = given if isinstance(given, Mapping) else None
        tree = self.python(node, f"_0.{name}", owner)
        if kind.cpp == "World":
            if name == "id":
                return self.engine(node, "i32({w}.id)", [], I32, owner)
            if name == "parameters":
                return Value(Opaque("parameters", self.around.parameters), f"{owner.text}.parameters", tree)
            if name == "constants":
                return Value(Opaque("constants", self.around.constants), "Constants", tree)
            if name == "random":
                if given == SEVERAL:
                    raise self.refuse(node, "a world of several has no random: take worlds[k].random_of(i)")
                return Value(Opaque("Random", (owner, None)), f"{owner.text}.random()", owner.tree)
            known = ["id", "parameters", "constants", "random", *WORLD_METHODS]
            raise self.refuse(node, f"a world has no {name!r}{suggestion(name, known)}; it has {', '.join(known)}")
        if kind.cpp == "Worlds":
            if name == "count":
                return Value(I32, f"i32({owner.text}.count)", tree)
            if name == "parameters":
                return Value(Opaque("parameters", self.around.parameters), f"{owner.text}.parameters", tree)
            if name == "constants":
                return Value(Opaque("constants", self.around.constants), "Constants", tree)
        if kind.cpp == "WorldTable" and name in ("first", "count", "number"):
            return Value(I32, f"i32({owner.text}.{name})", tree)
        if kind.cpp == "Episode" and name in ("terminated", "truncated"):
            return Value(BOOL, f"{owner.text}.{name}", tree, place=owner.place)
        # Counts and numbers of rows are i32 here: u32 would turn `row.index - 1` into four billion.
        if (kind.cpp == "Episode" and name == "step") or (kind.cpp == "Row" and name in ("index", "count")):
            return Value(I32, f"i32({owner.text}.{name})", tree)
        if values is not None and name in values:
            if kind.cpp == "constants":
                return self.named_constant(name, node)
            return Value(option_kind(values[name]), f"{owner.text}.{name}", tree)
        if kind.cpp == "parameters" and name in self.around.libraries and values is self.around.parameters:
            return Value(Opaque("parameters", self.around.libraries[name]), f"{owner.text}.{name}", tree)
        known = list(values or _ATTRIBUTES.get(kind.cpp, ()))
        raise self.refuse(node, f"{ast.unparse(node)} does not exist{suggestion(name, known)}; there are {known}")

    def _Subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if owner.kind.cpp == "Worlds":
            if len(places) != 1:
                raise self.refuse(node, "worlds have one index")
            index = self.index(places[0], None)
            text = f"{owner.text}[{index.text}]"
            return Value(Opaque("World", SEVERAL), text, self.python(node, "_0[_1]", owner, index))
        if isinstance(owner.kind, (Rows, RowsOfSome)):
            if len(places) != 1:
                raise self.refuse(node, "rows have one index")
            index = self.index(places[0], None)
            return Value(
                owner.kind.element,
                f"{owner.inner}[{index.text}]",
                self.python(node, "_0[_1]", owner, index),
                place=owner.place,
            )
        if not isinstance(owner.kind, Array):
            raise self.refuse(node, f"{owner.kind} has no elements; arrays and rows have")
        shape = owner.kind.shape
        if len(places) > len(shape):
            raise self.refuse(node, f"{owner.kind} has {len(shape)} indices, got {len(places)}")
        values = [self.index(place, extent) for place, extent in zip(places, shape, strict=False)]
        indices = "".join(f"[{value.text}]" for value in values)
        names = "".join(f"[_{number}]" for number in range(1, len(values) + 1))
        tree = self.python(node, f"_0{names}", owner, *values)
        left = shape[len(places) :]
        element = owner.kind.element
        return Value(
            Array(element.cpp, element, left) if left else element, owner.inner + indices, tree, place=owner.place
        )

    def index(self, node: ast.expr, extent: int | None) -> Value:
        if isinstance(node, ast.Slice):
            raise self.refuse(node, "systems have no slices; loop over the elements")
        self.in_index += 1
        value = self.number(node, "an index")
        self.in_index -= 1
        if not value.kind.is_integer:  # type: ignore[attr-defined]
            raise self.refuse(node, f"an index must be an integer, got {value.kind}; convert by i32(...)")
        if value.literal is not None and value.literal < 0:
            raise self.refuse(node, f"the index is {value.literal}: systems count from the front, from 0")
        if value.literal is not None and extent is not None and value.literal >= extent:
            raise self.refuse(node, f"the index is {value.literal}, but there are {extent} elements")
        return (
            value
            if value.literal is not None
            else replace(value, tree=self.python(node, f"within(_0, {extent})", value))
        )

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            condition = self.condition(node.operand)
            return Value(BOOL, f"!{condition.inner}", self.python(node, "not _0", condition), atom=False)
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            if value.literal is not None and not isinstance(value.literal, bool):
                literal = -value.literal
                return self.integer(literal, node) if isinstance(literal, int) else self.real(literal, node)
            if isinstance(value.kind, Vector):
                if value.kind.cpp == "quat":
                    raise self.refuse(node, "quat has no -; write conjugate(q) for the inverse")
                return Value(value.kind, f"-{value.inner}", self.python(node, "-_0", value), atom=False)
            value = self.promoted(value, node)
            if value.kind.is_integer:  # type: ignore[attr-defined]
                return self.wrapped(
                    node, "-", replace(self.to(value.kind, self.integer(0, node), node), literal=None), value
                )
            return Value(value.kind, f"-{value.inner}", self.python(node, "-_0", value), atom=False)
        value = self.promoted(value, node)
        if isinstance(node.op, ast.Invert):
            if not value.kind.is_integer:  # type: ignore[attr-defined]
                raise self.refuse(node, f"~ takes an integer, got {value.kind}")
            return Value(value.kind, f"~{value.inner}", self.fit(node, "~_0", value.kind, value), atom=False)
        return value

    def promoted(self, value: Value, node: ast.AST) -> Value:
        """A number as an operand: small integers and booleans count as i32, as in C++."""
        kind = value.kind
        if not isinstance(kind, Number):
            raise self.refuse(node, f"this operation takes numbers, got {kind}")
        if kind.is_bool or (kind.is_integer and kind.bits < 32):
            return Value(I32, f"i32({value.text})", self.python(node, "int(_0)", value))
        return value

    def fit(self, node: ast.AST, template: str, kind: Kind, *parts: Value) -> ast.expr:
        """In Python: the result of an operation as a number of this type has it."""
        return self.python(node, f"to_{kind.cpp}({template})" if kind != F64 else template, *parts)

    def joined(self, node: ast.AST, left: Value, right: Value) -> tuple[Value, Value]:
        """Two numbers in their common type."""
        left, right = self.promoted(left, node), self.promoted(right, node)
        kind = self.common(node, left, right)
        return self.to(kind, left, node), self.to(kind, right, node)

    def common(self, node: ast.AST, left: Value, right: Value) -> Number:
        a, b = left.kind, right.kind
        assert isinstance(a, Number) and isinstance(b, Number)
        if a == b:
            return a
        for own, other in ((left, b), (right, a)):  # a number of the text takes the other's type
            literal = own.literal
            if literal is not None and (other.is_float or (isinstance(literal, int) and other.holds(literal))):
                return other
        if a.is_float or b.is_float:
            return max((kind for kind in (a, b) if kind.is_float), key=lambda kind: kind.bits)
        if a.is_unsigned != b.is_unsigned and max(a, b, key=lambda kind: (kind.bits, kind.is_unsigned)).is_unsigned:
            signed = a if not a.is_unsigned else b
            raise self.refuse(
                node, f"{a} meets {b}: convert one, by {signed}(...) or {(a if a.is_unsigned else b)}(...)"
            )
        return a if a.bits > b.bits else b

    def to(self, kind: Kind, value: Value, node: ast.AST) -> Value:
        """A number in another type, without a change of its value."""
        if value.kind == kind or not isinstance(kind, Number):
            return value
        tree = self.python(node, f"to_{kind.cpp}(_0)", value)
        if value.literal is not None and not isinstance(value.literal, bool):
            literal, atom = value.literal, math.copysign(1, value.literal) > 0
            if kind == F32:
                return Value(kind, _single(float(literal)), tree, atom, literal)
            if kind == F64:
                return Value(
                    kind, f"f64({float(literal).hex()})", self.python(node, repr(float(literal))), True, literal
                )
            if kind.is_integer:
                return Value(kind, _whole(int(literal), kind), tree, True, literal)
        return Value(kind, f"{kind.cpp}({value.text})", tree)

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.operation(node, node.op, self.value(node.left), self.value(node.right))

    def operation(self, node: ast.AST, operator: ast.operator, left: Value, right: Value) -> Value:
        """Both operands of ``+`` and so on, also of ``+=``."""
        if isinstance(left.kind, Vector) or isinstance(right.kind, Vector):
            return self.of_vectors(node, operator, left, right)
        if left.literal is not None and right.literal is not None:
            folded = self.folded(node, operator, left.literal, right.literal)
            if folded is not None:
                return folded
        if isinstance(operator, (ast.LShift, ast.RShift)):
            left, right = self.promoted(left, node), self.promoted(right, node)
            if not (left.kind.is_integer and right.kind.is_integer):  # type: ignore[attr-defined]
                raise self.refuse(node, f"shifts take integers, got {left.kind} and {right.kind}")
            mark = "<<" if isinstance(operator, ast.LShift) else ">>"
            tree = self.fit(node, f"_0 {mark} shift_of(_1, {left.kind.bits})", left.kind, left, right)  # type: ignore[attr-defined]
            return Value(left.kind, f"{left.inner} {mark} {right.inner}", tree, atom=False)
        if type(operator) in _BITS and left.kind == BOOL and right.kind == BOOL:
            mark = _BITS[type(operator)]
            return Value(
                BOOL, f"bool({left.inner} {mark} {right.inner})", self.python(node, f"_0 {mark} _1", left, right)
            )
        left, right = self.joined(node, left, right)
        kind = left.kind
        assert isinstance(kind, Number)
        if type(operator) in _ARITHMETIC:
            mark = _ARITHMETIC[type(operator)]
            if kind.is_integer:
                return self.wrapped(node, mark, left, right)
            tree = self.fit(node, f"_0 {mark} _1", kind, left, right)
            return Value(kind, f"{left.inner} {mark} {right.inner}", tree, atom=False)
        if isinstance(operator, ast.Div):
            if kind.is_integer:
                raise self.refuse(node, "/ of integers: write f32(a) / f32(b), or a // b for the integer below")
            tree = self.fit(node, "divided(_0, _1)", kind, left, right)
            return Value(kind, f"{left.inner} / {right.inner}", tree, atom=False)
        if isinstance(operator, (ast.FloorDiv, ast.Mod)):
            if kind.is_float:
                instead = "floor(a / b)" if isinstance(operator, ast.FloorDiv) else "a - b * floor(a / b)"
                raise self.refuse(node, f"// and % take integers; write {instead}")
            if right.literal == 0:
                raise self.refuse(node, "a division by zero")
            name, mark = ("floor_divide", "/") if isinstance(operator, ast.FloorDiv) else ("floor_modulo", "%")
            tree = self.fit(node, f"_0 {'//' if mark == '/' else '%'} _1", kind, left, right)
            if kind.is_unsigned:
                return Value(kind, f"{left.inner} {mark} {right.inner}", tree, atom=False)
            return Value(kind, f"{name}({left.text}, {right.text})", tree)
        if type(operator) in _BITS:
            if kind.is_float:
                raise self.refuse(node, f"{_BITS[type(operator)]} takes integers or booleans, got {left.kind}")
            mark = _BITS[type(operator)]
            return Value(
                kind, f"{left.inner} {mark} {right.inner}", self.python(node, f"_0 {mark} _1", left, right), atom=False
            )
        if isinstance(operator, ast.Pow):
            raise self.refuse(node, "** is not in systems: write x * x, or pow(x, y)")
        raise self.refuse(node, "systems have no @; write the sum, or dot(a, b)")

    def folded(self, node: ast.AST, operator: ast.operator, a: Any, b: Any) -> Value | None:
        """Of two numbers of the text; None where Python and systems differ."""
        if isinstance(a, bool) or isinstance(b, bool) or isinstance(operator, ast.Pow):
            return None
        if isinstance(operator, ast.Div) and b != 0:
            return self.real(a / b, node)
        if not (isinstance(a, int) and isinstance(b, int)):
            return None
        compute: dict[type[ast.operator], Callable[[int, int], int]] = {
            ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
            ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.BitOr: lambda a, b: a | b,
            ast.BitAnd: lambda a, b: a & b, ast.BitXor: lambda a, b: a ^ b,
            ast.LShift: lambda a, b: a << b, ast.RShift: lambda a, b: a >> b,
        }  # fmt: skip
        if type(operator) not in compute:
            return None
        try:
            return self.integer(compute[type(operator)](a, b), node)
        except (ZeroDivisionError, ValueError) as error:
            raise self.refuse(node, str(error)) from None

    def wrapped(self, node: ast.AST, mark: str, left: Value, right: Value) -> Value:
        """Sums and products of integers: beyond the ends they begin at the other one, on every device."""
        kind = left.kind
        tree = self.fit(node, f"_0 {mark} _1", kind, left, right)
        if self.in_index or kind.is_unsigned:  # type: ignore[attr-defined]
            return Value(kind, f"{left.inner} {mark} {right.inner}", tree, atom=False)
        return Value(kind, f"{_WRAPPED[mark]}({left.text}, {right.text})", tree)

    def of_vectors(self, node: ast.AST, operator: ast.operator, left: Value, right: Value) -> Value:
        a, b = left.kind, right.kind
        mark = {**_ARITHMETIC, ast.Div: "/"}.get(type(operator))
        both = isinstance(a, Vector) and isinstance(b, Vector)
        quaternions = a.cpp == "quat" or b.cpp == "quat"
        allowed = mark is not None and (
            (both and a == b and mark in ("*" if quaternions else "+-*"))
            or (not both and not quaternions and mark == "*")
            or (isinstance(a, Vector) and not both and not quaternions and mark == "/")
        )
        if not allowed:
            raise self.refuse(node, f"{a} and {b} have no {mark or 'such operation'}")
        vector = a if isinstance(a, Vector) else b
        scalars = [
            one if isinstance(one.kind, Vector) else self.to(F32, self.promoted(one, node), node)
            for one in (left, right)
        ]
        if quaternions:
            return self.engine(node, "{0} * {1}", scalars, vector)
        tree = self.python(node, f"_0 {mark} _1", *scalars)
        return Value(vector, f"{scalars[0].inner} {mark} {scalars[1].inner}", tree, atom=False)

    def condition(self, node: ast.expr) -> Value:
        """An expression as a condition: a boolean, or a number that is not zero."""
        value = self.value(node)
        if value.kind == BOOL:
            return value
        if isinstance(value.kind, Number):
            return Value(BOOL, f"{value.inner} != 0", self.python(node, "_0 != 0", value), atom=False)
        raise self.refuse(node, f"a condition must be a boolean or a number, got {value.kind}")

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        parts = []
        for operand in node.values:
            value = self.value(operand)
            if value.kind != BOOL:
                raise self.refuse(operand, f"'and' and 'or' take booleans here, got {value.kind}; write x != 0")
            parts.append(value)
        tree = self.at(ast.BoolOp(node.op, [part.tree for part in parts]), node)
        mark = " && " if isinstance(node.op, ast.And) else " || "
        return Value(BOOL, mark.join(part.inner for part in parts), tree, atom=False)

    def _Compare(self, node: ast.Compare) -> Value:
        operands = [node.left, *node.comparators]
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and len(node.ops) == 1:
            value = self.value(node.left)
            none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
            if not none or not isinstance(value.kind, (Maybe, RowsOfSome)):
                raise self.refuse(node, "'is' compares only what world.find returns with None")
            mark = "==" if isinstance(node.ops[0], ast.Is) else "!="
            word = "is" if mark == "==" else "is not"
            if isinstance(value.kind, RowsOfSome):
                text = f"{'!' if mark == '==' else ''}{value.inner}.there"
                return Value(BOOL, text, self.python(node, f"_0 {word} None", value))
            return Value(BOOL, f"{value.inner} {mark} nullptr", self.python(node, f"_0 {word} None", value), atom=False)
        if any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops):
            return self.membership(node)
        values = [self.value(each) for each in operands]
        for each in operands[1:-1]:
            self.check_repeatable(each)
        parts = [
            self.comparison(node, operator, left, right)
            for operator, left, right in zip(node.ops, values, values[1:], strict=False)
        ]
        if len(parts) == 1:
            return parts[0]
        tree = self.at(ast.BoolOp(ast.And(), [part.tree for part in parts]), node)
        return Value(BOOL, " && ".join(part.inner for part in parts), tree, atom=False)

    def membership(self, node: ast.Compare) -> Value:
        """``x in (A, B)``, ``x not in LEVELS``."""
        right = node.comparators[0]
        given = self.static(right)
        if len(node.ops) > 1 or not (isinstance(right, ast.Tuple) or isinstance(given, tuple)):
            raise self.refuse(node, "'in' takes (1, 2), or a tuple of the module; of an array write a loop")
        self.check_repeatable(node)
        left = self.value(node.left)
        each = right.elts if isinstance(right, ast.Tuple) else ()
        others = [self.value(one) for one in each] or [self.of_object(one, right, ast.unparse(right)) for one in given]
        for value in (left, *others):
            if not isinstance(value.kind, Number) or value.kind.is_float:
                raise self.refuse(node, f"'in' compares integers, got {value.kind}")
        parts = [self.comparison(node, ast.Eq(), left, other) for other in others]
        if not parts:
            raise self.refuse(node, "this tuple is empty")
        text, tree = " || ".join(part.inner for part in parts), parts[0].tree
        if len(parts) > 1:
            tree = self.at(ast.BoolOp(ast.Or(), [part.tree for part in parts]), node)
        if isinstance(node.ops[0], ast.In):
            return Value(BOOL, text, tree, atom=False)
        return Value(BOOL, f"!({text})", self.python(node, "not _0", tree))

    def check_repeatable(self, node: ast.AST) -> None:
        """Refuse an expression that C++ computes twice, if that makes a difference."""
        for inner in ast.walk(node):
            effect = isinstance(inner, ast.Attribute) and inner.attr in _EFFECTS
            if effect or (isinstance(inner, ast.Call) and isinstance(self.static(inner.func), PythonFunction)):
                raise self.refuse(inner, "this would be called twice; assign it to a variable first")

    def comparison(self, node: ast.AST, operator: ast.cmpop, left: Value, right: Value) -> Value:
        if type(operator) not in _COMPARISONS:
            raise self.refuse(node, "'is' compares only what world.find returns with None; write ==")
        mark = _COMPARISONS[type(operator)]
        if isinstance(left.kind, Number) and isinstance(right.kind, Number):
            if not (left.kind == BOOL and right.kind == BOOL and mark in ("==", "!=")):
                left, right = self.joined(node, left, right)
        elif left.kind != right.kind or mark not in ("==", "!=") or isinstance(left.kind, (Record, Array, Rows)):
            raise self.refuse(node, f"{left.kind} and {right.kind} cannot be compared by {mark}")
        return Value(
            BOOL, f"{left.inner} {mark} {right.inner}", self.python(node, f"_0 {mark} _1", left, right), atom=False
        )

    def _IfExp(self, node: ast.IfExp) -> Value:
        condition, left, right = self.condition(node.test), self.value(node.body), self.value(node.orelse)
        if isinstance(left.kind, Number) and isinstance(right.kind, Number) and left.kind != right.kind:
            left, right = self.joined(node, left, right)
        if left.kind != right.kind or isinstance(left.kind, (Array, Rows, Opaque)):
            raise self.refuse(node, f"both sides must have one type, got {left.kind} and {right.kind}")
        if isinstance(left.kind, (Record, Maybe)):
            raise self.refuse(node, "a selection between two rows; select their index, or use if")
        tree = self.python(node, "_1 if _0 else _2", condition, left, right)
        return Value(left.kind, f"{condition.inner} ? {left.inner} : {right.inner}", tree, atom=False)


_ATTRIBUTES = {
    "Episode": ("step", "terminated", "truncated"), "Row": ("index", "count"),
    "WorldTable": ("first", "count", "number"), "Worlds": ("count", "parameters", "constants"),
}  # fmt: skip


def _is_library_of(module: ModuleType, given: Any) -> bool:
    own = isinstance(given, type) and issubclass(given, Library) and given is not Library
    return own and given.__module__.startswith(module.__name__)


def _single(value: float) -> str:
    """A number of f32 in C++."""
    return f"{ctypes.c_float(value).value.hex()}f"


def _whole(value: int, kind: Number) -> str:
    """An integer in C++; in brackets where it is negative. i64 is another type than that of 7ll."""
    if kind.bits == 64:
        number = f"{value}ull" if kind.is_unsigned else f"{value}ll" if value > -(1 << 63) else f"{value + 1}ll - 1"
        return f"{kind.cpp}({number})"
    if kind.is_unsigned:
        return f"{value}u"
    return str(value) if value >= 0 else f"({value})" if value > -(1 << 31) else f"({value + 1} - 1)"


def _as_stored(value: bool | int | float) -> bool | int | float:
    """A number as systems have it: floats are f32."""
    return ctypes.c_float(value).value if isinstance(value, float) else value


def option_kind(value: bool | int | float) -> Number:
    """The kind of a constant or a parameter."""
    return BOOL if isinstance(value, bool) else I32 if isinstance(value, int) else F32


def places_of(values: Sequence[Value], first: int = 0) -> str:
    return ", ".join(f"{{{number}}}" for number in range(first, first + len(values)))


def placed(tree: ast.expr, node: ast.AST) -> ast.expr:
    """The tree with the place of a node of the file, where it has none."""
    for inner in ast.walk(tree):
        if isinstance(inner, (ast.expr, ast.keyword)) and not hasattr(inner, "of_file"):
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                setattr(inner, name, getattr(node, name, None))
            inner.of_file = True  # type: ignore[union-attr]
    return tree


class _Filled(ast.NodeTransformer):
    """Puts parts in place of the names ``_0``, ``_1``."""

    def __init__(self, parts: Sequence[ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.parts[int(node.id[1:])] if re.fullmatch(r"_\d+", node.id) else node

    def visit(self, node: ast.AST) -> Any:
        return node if hasattr(node, "of_file") else super().visit(node)


def _grouped(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if len(shape) == 1:
        return tuple(flat)
    step = len(flat) // shape[0]
    return tuple(_grouped(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))


def _flattened(given: Any) -> tuple[tuple[int, ...] | None, list[Any]]:
    """The shape of nested tuples and their numbers; None for the shape of anything else."""
    if not isinstance(given, tuple):
        return ((), [given]) if isinstance(given, (bool, int, float)) else (None, [])
    parts = [_flattened(each) for each in given]
    shapes = {shape for shape, _ in parts}
    if len(shapes) != 1 or None in shapes:
        return None, []
    (inner,) = shapes
    assert inner is not None
    return (len(given), *inner), [one for _, flat in parts for one in flat]


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{{{', '.join(texts)}}}"
    step = len(texts) // shape[0]
    return f"{{{', '.join(_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}}}"


def _refused(node: ast.expr) -> str:
    """The message about a kind of expression that systems do not have."""
    instead = {
        "Lambda": "a lambda; write a @function",
        "ListComp": "a list; use an array field, or a loop",
        "GeneratorExp": "a generator; write a loop",
        "DictComp": "a dict; write if and elif, or an array",
        "SetComp": "a set; write an array of booleans",
        "List": "a list; a table is a tuple of the module",
        "Dict": "a dict; write if and elif, or an array",
        "Set": "a set; write an array of booleans",
        "Tuple": "a tuple here; write its parts (`x == 1 or x == 2`), or make it a constant of the module",
        "JoinedStr": "a text; world.fail takes a name and a number",
        "NamedExpr": "an assignment within an expression; assign before",
        "Await": "await",
        "Yield": "yield; write a loop",
        "Starred": "a starred expression",
    }.get(type(node).__name__, type(node).__name__)
    return f"systems cannot have {instead}"
