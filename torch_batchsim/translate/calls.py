"""Calls in systems in Python: functions of the engine and of the author, the world, operations of several lanes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..base.names import suggestion
from ..declare.fields import Struct
from ..declare.python_systems import PythonFunction, PythonSystem, zeros
from ..declare.schema import Archetype, Component
from ..types import FieldType
from .expressions import MISSING, SEVERAL, WORLD_METHODS, Expressions, Value, Variable, places_of
from .kinds import (
    BOOL,
    ENTITY,
    F32,
    F64,
    I32,
    STREAM,
    U32,
    VOID,
    Array,
    BitString,
    Kind,
    Maybe,
    Number,
    Opaque,
    Record,
    Rows,
    Vector,
    of_field,
)
from .thunks import Thunk

# Functions of the engine by the numbers of f32 that they take, all with a result of f32.
_OF_F32 = {
    **dict.fromkeys("sin cos tan asin acos atan exp exp2 log log2 tanh sqrt floor ceil trunc rint round".split(), 1),
    **dict.fromkeys("atan2 pow hypot fmod copysign".split(), 2),
    "fma": 3,
}
SHARED = "memory of lanes"  # first in its places
_SIZES = ("vec2", "vec3", "vec4")
_OF_VECTORS: dict[str, dict[tuple[str, ...], str]] = {
    "dot": {(name, name): "f32" for name in (*_SIZES, "quat")},
    "cross": {("vec2", "vec2"): "f32", ("vec3", "vec3"): "vec3"},
    "length": {(name,): "f32" for name in _SIZES},
    "length_squared": {(name,): "f32" for name in _SIZES},
    "distance": {(name, name): "f32" for name in _SIZES},
    "normalize": {(name,): name for name in (*_SIZES, "quat")},
    "conjugate": {("quat",): "quat"},
    "rotation_about": {("vec3", "f32"): "quat"},
    "rotate": {("vec2", "f32"): "vec2", ("vec2", "f32", "f32"): "vec2", ("vec3", "quat"): "vec3"},
}
_TESTS = {"isnan", "isinf", "isfinite", "signbit"}
_PYTHONS_MATH = {"fabs": "abs"}
_INSTEAD = {
    "random": "; draw from world.random",
    "round": "; take rint of torch_batchsim.math",
    "sum": "; write a loop",
    "enumerate": "; write for i in range(n)",
    "zip": "; write for i in range(n)",
    "sorted": "; write a loop",
    "list": "; zeros(i32, 5) makes an array",
    "isinstance": "; types are known: leave it out",
}


def items_of(names: Sequence[str]) -> str:
    """The parameters of a function of lanes in C++."""
    return ", ".join([*(f"u32 {name}" for name in names[:1]), *(f"i32 {name}" for name in names[1:])])


class Calls(Expressions):
    """Translates calls."""

    def _Call(self, node: ast.Call) -> Value:
        given = self.static(node.func)
        if given is not MISSING:
            return self.call_of_object(node, given)
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            return self.method(node, owner, node.func.attr)
        if isinstance(node.func, ast.Name) and node.func.id not in self.variables:
            made = self.around.named(node.func.id)
            if made is not None:
                return self.construction(node, made)
            hint = suggestion(node.func.id, [name for name in self.names if not name.startswith("__")])
            raise self.refuse(node, f"{node.func.id!r} is not defined{hint}")
        raise self.refuse(node, f"{ast.unparse(node.func)} cannot be called")

    def arguments(self, node: ast.Call, least: int, most: int | None, what: str) -> list[Value]:
        """Positional arguments only, so many."""
        most = least if most is None else most
        wrong = not least <= len(node.args) <= most
        if wrong or node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            count = f"{least}" if least == most else f"{least} to {most}"
            raise self.refuse(node, f"{what} takes {count} arguments without names, got {ast.unparse(node)}")
        return [self.value(each) for each in node.args]

    def call_of_object(self, node: ast.Call, given: Any) -> Value:
        if isinstance(given, PythonSystem):
            raise self.refuse(node, f"{given.name} is a system, which task graphs run; make it a @function to call it")
        if isinstance(given, PythonFunction):
            return self.call(node, given)
        if isinstance(given, FieldType):
            return self.conversion(node, given)
        if isinstance(given, type) and issubclass(given, (Component, Struct)):
            record = self.around.record(given)
            if record is None:
                raise self.refuse(node, f"the environment does not have the component {given.__name__}")
            return self.construction(node, record)
        name = getattr(given, "__name__", str(given))
        module = getattr(given, "__module__", "") or ""
        if given in (min, max, abs) or (
            module.startswith("torch_batchsim.math") and name in ("min", "max", "abs", "clamp")
        ):
            return self.extremum(node, name)
        if given is zeros:
            raise self.refuse(node, "give the array a name first: counts = zeros(i32, 5)")
        if given is len:
            (value,) = self.arguments(node, 1, 1, "len")
            if isinstance(value.kind, Array):
                return self.integer(value.kind.shape[0], node)
            if isinstance(value.kind, Rows):
                return Value(I32, f"i32({value.inner}.count)", self.python(node, "_0.count", value))
            raise self.refuse(node, f"len takes an array or rows, got {value.kind}")
        if given in (int, float, bool):
            (value,) = self.arguments(node, 1, 1, name)
            if given is bool:
                return self.condition(node.args[0])
            raise self.refuse(
                node, f"write {'i32' if given is int else 'f32'}(...), which names the type, for {name}(...)"
            )
        if module.startswith("torch_batchsim.math"):
            return self.of_engine_math(node, name)
        if module in ("math", "cmath", "numpy") or module.startswith(("numpy", "torch")):
            own = _PYTHONS_MATH.get(name, name)
            known = own in _OF_F32 or own in _OF_VECTORS or own in ("abs", "clamp")
            instead = f"; take {own} of torch_batchsim.math" if known else ""
            raise self.refuse(node, f"{ast.unparse(node.func)} is not in systems{instead}")
        if callable(given) and getattr(given, "__globals__", None) is not None:
            raise self.refuse(node, f"{name} is a function of Python: put @function in front of it, with types")
        instead = _INSTEAD.get("random" if module == "random" else name, "")
        raise self.refuse(node, f"{ast.unparse(node.func)} cannot be called in a system{instead}")

    def extremum(self, node: ast.Call, name: str) -> Value:
        count = {"abs": (1, 1), "clamp": (3, 3)}.get(name, (2, 8))
        values = self.arguments(node, *count, name)
        numbers = [self.promoted(value, node) for value in values]
        joined = numbers[0]
        for other in numbers[1:]:
            kind = self.common(node, joined, other)
            literal = joined.literal if joined.literal is not None and other.literal is not None else None
            joined = replace(joined, kind=kind, literal=literal)
        numbers = [self.to(joined.kind, each, node) for each in numbers]
        form = "{0}"
        if name in ("abs", "clamp"):
            form = f"{name}({', '.join(f'{{{number}}}' for number in range(len(numbers)))})"
        else:
            for number in range(1, len(numbers)):
                form = f"{name}({form}, {{{number}}})"
        return self.engine(node, form, numbers, joined.kind)

    def of_engine_math(self, node: ast.Call, name: str) -> Value:
        if name in _OF_F32 or name in _TESTS:
            values = [self.real_of(value, node) for value in self.arguments(node, _OF_F32.get(name, 1), None, name)]
            return self.engine(node, f"{name}({places_of(values)})", values, BOOL if name in _TESTS else F32)
        if name in ("to_i32", "to_u32", "to_bits", "from_bits"):
            (value,) = self.arguments(node, 1, 1, name)
            wanted, result = {"to_i32": (F32, I32), "to_u32": (F32, U32), "to_bits": (F32, U32)}.get(name, (U32, F32))
            if value.kind != wanted and value.literal is None:
                raise self.refuse(node, f"{name} takes {wanted}, got {value.kind}")
            return self.engine(node, f"{name}({{0}})", [self.to(wanted, value, node)], result)
        forms = _OF_VECTORS.get(name, {})
        if forms:
            values = [self.value(each) for each in node.args]
            values = [self.real_of(value, node) if value.is_number else value for value in values]
            given = tuple(value.kind.cpp for value in values)
            if given not in forms or node.keywords:
                known = " or ".join(f"({', '.join(form)})" for form in forms)
                raise self.refuse(node, f"{name} takes {known}, got ({', '.join(given)})")
            kind = F32 if forms[given] == "f32" else Vector(forms[given])
            return self.engine(node, f"{name}({places_of(values)})", values, kind)
        raise self.refuse(node, f"{name} is not in systems")

    def real_of(self, value: Value, node: ast.AST) -> Value:
        return self.to(F32, self.promoted(value, node), node)

    def conversion(self, node: ast.Call, given: FieldType) -> Value:
        kind = of_field(given)
        if isinstance(kind, Vector):
            values = self.arguments(node, len(kind.parts), None, given.name)
            values = [self.real_of(value, node) for value in values]
            names = ", ".join(f"_{number}" for number in range(len(values)))
            tree = self.python(node, f"{kind.cpp}({names})", *values)
            made = f"{kind.cpp}{{{', '.join(value.text for value in values)}}}"
            return Value(kind, made, tree, atom=False)  # its commas would count in a macro, as isnan is
        if kind == ENTITY:
            self.arguments(node, 0, 0, "Entity")  # no entity
            return Value(ENTITY, "Entity{}", self.python(node, f"record_{self.thunks.record(kind)}()"))
        if not isinstance(kind, Number):
            raise self.refuse(node, f"{given} cannot be made in a system")
        (value,) = self.arguments(node, 1, 1, given.name)
        if not isinstance(value.kind, Number):
            raise self.refuse(node, f"{given.name} takes a number, got {value.kind}")
        if value.kind == kind:
            return replace(value, literal=None)
        literal = value.literal if not isinstance(value.literal, bool) else None
        if literal is not None and (kind.is_float or (isinstance(literal, int) and kind.holds(literal))):
            return replace(self.to(kind, value, node), literal=None)
        if value.kind.is_float and kind.is_integer:
            wide = U32 if kind.is_unsigned else I32
            whole = self.engine(node, f"to_{wide.cpp}({{0}})", [self.to(F32, value, node)], wide)
            if value.kind == F64 or kind.bits > 32:
                raise self.refuse(node, f"{value.kind} cannot become {kind}; go by f32 and {wide}")
            return (
                whole if kind == wide else Value(kind, f"{kind.cpp}({whole.text})", self.fit(node, "_0", kind, whole))
            )
        if kind.is_bool:
            return Value(BOOL, f"{value.inner} != 0", self.python(node, "_0 != 0", value), atom=False)
        return Value(kind, f"{kind.cpp}({value.text})", self.fit(node, "_0", kind, value))

    def construction(self, node: ast.Call, kind: Record) -> Value:
        """``Place(x=1.0)``: a component or struct; fields that are not given are zero."""
        if node.args:
            raise self.refuse(node, f"give the fields of {kind} by name: {kind}({next(iter(kind.members))}=...)")
        values = {}
        for keyword in node.keywords:
            if keyword.arg not in kind.members:
                hint = suggestion(keyword.arg or "**", kind.members)
                raise self.refuse(node, f"{kind} has no field {keyword.arg!r}{hint}")
            values[keyword.arg] = self.stored_as(keyword.value, kind.members[keyword.arg], self.value(keyword.value))
        in_order = [name for name in kind.members if name in values]
        names = ", ".join(f"{name}=_{number}" for number, name in enumerate(in_order))
        tree = self.python(node, f"record_{self.thunks.record(kind)}({names})", *(values[name] for name in in_order))
        every = (f".{name} = {values[name].text if name in values else '{}'}" for name in kind.members)
        return Value(kind, f"{kind.cpp}{{{', '.join(every)}}}", tree)

    def stored_as(self, node: ast.AST, kind: Kind, value: Value) -> Value:
        """A value that is stored as ``kind``. Raises SchemaError where that would lose something silently."""
        if value.kind == kind and not isinstance(kind, (Array, Rows, Opaque)):
            if isinstance(kind, (Vector, Record)) or kind == ENTITY:
                return replace(value, tree=self.python(node, "copied(_0)", value))
            return value
        if isinstance(kind, Number) and isinstance(value.kind, Number):
            if value.literal is not None and not isinstance(value.literal, bool):
                if kind.is_integer and isinstance(value.literal, float):
                    raise self.refuse(node, f"{value.literal} is stored as {kind}; convert by {kind}(...)")
                if kind.is_integer and not kind.holds(value.literal):
                    raise self.refuse(node, f"{value.literal} does not fit into {kind}")
                if kind != BOOL:
                    return self.to(kind, value, node)
            if kind.is_bool:
                raise self.refuse(node, f"{value.kind} is stored as a boolean; write x != 0")
            if kind.is_integer and value.kind.is_float:
                raise self.refuse(node, f"{value.kind} is stored as {kind}; convert by {kind}(...)")
            if kind == F32 and value.kind.cpp == "f64":
                raise self.refuse(node, "f64 is stored as f32; convert by f32(...)")
            return Value(kind, f"{kind.cpp}({value.text})", self.fit(node, "_0", kind, value))
        raise self.refuse(node, f"{value.kind} cannot be stored as {kind}")

    def call(self, node: ast.Call, given: PythonFunction[Any, Any]) -> Value:
        """A call of another function in Python."""
        signature = self.functions(given)
        names = [name for name, _ in signature.parameters]
        if signature.writes & set(names) and node is not self.whole:
            raise self.refuse(node, f"{given.name} writes what it gets, so its place counts: name its value before")
        values: dict[str, Value] = {}
        given_nodes = [
            *zip(names, node.args, strict=False),
            *((keyword.arg, keyword.value) for keyword in node.keywords),
        ]
        if (
            len(node.args) > len(names)
            or {name for name, _ in given_nodes} != set(names)
            or len(given_nodes) != len(names)
        ):
            raise self.refuse(node, f"{given.name} takes {', '.join(names) or 'nothing'}, got {ast.unparse(node)}")
        for name, argument in given_nodes:
            assert name is not None
            kind = dict(signature.parameters)[name]
            value = self.value(argument)
            if isinstance(kind, (Record, Array, BitString, Opaque)):
                if value.kind != kind and not (isinstance(kind, BitString) and isinstance(value.kind, BitString)):
                    raise self.refuse(argument, f"{given.name} takes {kind} as {name}, got {value.kind}")
                if name in signature.writes:
                    self.note_write(argument, value)
                values[name] = value
            else:
                values[name] = self.stored_as(argument, kind, value)
        text = f"{given.name}({', '.join(values[name].text for name in names)})"
        places = ", ".join(f"_{number}" for number in range(len(names)))
        tree = self.python(node, f"function_{given.name}({places})", *(values[name] for name in names))
        return Value(signature.result or VOID, text, tree)

    def note_write(self, node: ast.AST, value: Value) -> None:
        """Remember that the memory of a value is written."""
        if value.place is None:
            raise self.refuse(node, f"{ast.unparse(node)} cannot be written")
        if value.place in self.outside and isinstance(value.place, tuple) and isinstance(value.place[0], str):
            if value.place[0] != SHARED:
                raise self.refuse(node, "all lanes run this at once: it writes components, not variables outside of it")
        elif isinstance(value.place, tuple) and value.place[0] == SHARED and not self.outside:
            raise self.refuse(node, "all lanes run this at once: write shared memory in a function of an operation")
        self.written.places.add(value.place)

    def method(self, node: ast.Call, owner: Value, name: str) -> Value:
        kind = owner.kind
        if kind.cpp == "Random" and isinstance(kind, Opaque):
            return self.draw(node, owner, name)
        if kind.cpp == "World" and isinstance(kind, Opaque):
            if name == "create" and kind.values == SEVERAL:
                raise self.refuse(node, "a world of several has no create: take create_at")
            return self.of_world(node, owner, name)
        if kind.cpp in ("Warp", "Block") and isinstance(kind, Opaque):
            return self.of_lanes(node, owner, name)
        raise self.refuse(node, f"{kind} has no {name!r} to call")

    def of_lanes(self, node: ast.Call, owner: Value, name: str) -> Value:
        """An operation of several lanes: its last argument is a function of an item."""
        forms = {"for_each": 2, "once": 1, "sum": 2, "min": 3, "max": 3, "count": 2, "any": 2, "all": 2}
        if name not in forms or len(node.args) != forms[name] or node.keywords:
            raise self.refuse(node, f"lanes have {', '.join(f'{each}({n} arguments)' for each, n in forms.items())}")
        body = self.operation_body(node.args[-1], () if name == "once" else ("item",))
        values = []
        if name != "once":
            values.append(self.stored_as(node.args[0], U32, self.value(node.args[0])))
        if name in ("min", "max"):
            values.append(self.stored_as(node.args[1], body.kind, self.value(node.args[1])))
        results: dict[str, Kind] = {"count": I32, "any": BOOL, "all": BOOL, "for_each": VOID, "once": VOID}
        kind = results.get(name, body.kind)
        text = f"{owner.text}.{name}({', '.join([*(value.text for value in values), body.text])})"
        text = f"i32({text})" if name == "count" else text
        if name == "sum" and isinstance(kind, Number) and kind.is_float:  # in the engine's order
            form = "{l}.sum({1}, [&](u32 i) { return {0}[i]; })"
            thunk = self.thunks.number(Thunk(self.around.namespace, form, (Array(kind.cpp, kind, (0,)), U32), kind))
            call = f"(lambda n_: engine_{thunk}(_0, [(_2)(i_) for i_ in range(n_)], n_))(_1)"
            tree = self.python(node, call, owner, values[0], body)
        else:
            names = ", ".join(f"_{number}" for number in range(len(values) + 1))
            tree = self.python(node, f"lanes_{name}({names})", *values, body)
            if name == "sum":
                tree = self.python(node, f"to_{kind.cpp}(_0)", tree)
        return Value(kind, text, tree)

    def operation_body(self, node: ast.expr, parameters: Sequence[str]) -> Value:
        """A lambda, or the name of a function in the system; its kind is that of its result."""
        if isinstance(node, ast.Name) and node.id in self.bodies:
            count, result = self.bodies[node.id]
            if count != len(parameters):
                raise self.refuse(node, f"{node.id} takes {count} arguments; here it gets {len(parameters)}")
            return Value(result, node.id, self.at(ast.Name(node.id, ast.Load()), node))
        if not isinstance(node, ast.Lambda) or len(node.args.args) != len(parameters):
            raise self.refuse(node, f"write a lambda with {len(parameters)} arguments, or a function in the system")
        names = [each.arg for each in node.args.args]
        self.declare_items(names)
        value = self.value(node.body)
        for name in names:
            del self.variables[name]
            self.assigned.discard(name)
        taken = f"({items_of(names)}) " if names else ""
        tree = self.at(ast.Lambda(node.args, value.tree), node)
        return Value(value.kind, f"[&]{taken or ' '}{{ return {value.text}; }}", tree)

    def declare_items(self, names: Sequence[str]) -> None:
        """The parameters of a function of lanes: the number of an item, and what ``scan`` has summed up before it."""
        for name, text in zip(names, (f"i32({name})" for name in names[:1]), strict=False):
            self.variables[name] = Variable(name, I32, text, fixed="an item's number")
        for name in names[1:]:
            self.variables[name] = Variable(name, I32, name, fixed="the sum before an item")
        self.assigned.update(names)

    def draw(self, node: ast.Call, owner: Value, name: str) -> Value:
        forms: dict[str, tuple[tuple[int, int], Number, Number]] = {
            "uniform": ((0, 2), F32, F32), "below": ((1, 1), U32, I32), "integer": ((2, 2), I32, I32),
            "chance": ((1, 1), F32, BOOL), "normal": ((0, 0), F32, F32), "bits": ((0, 0), U32, U32),
        }  # fmt: skip
        if name not in forms:
            raise self.refuse(node, f"world.random has no {name!r}{suggestion(name, forms)}; it has {', '.join(forms)}")
        count, taken, result = forms[name]
        values = self.arguments(node, *count, f"world.random.{name}")
        if name == "uniform" and len(values) == 1:
            raise self.refuse(node, "world.random.uniform takes no argument, or low and high")
        values = [self.stored_as(each, taken, value) for each, value in zip(node.args, values, strict=True)]
        if owner.kind == STREAM:
            shown = f"{{0}}.{name}({places_of(values, 1)})"
            shown = f"i32({shown})" if name == "below" else shown
            in_thunk = shown.replace("{0}", "const_cast<Random &>({0})")
            return self.engine(node, shown, [owner, *values], result, in_thunk=in_thunk)
        world, item = owner.kind.values  # type: ignore[attr-defined]
        form = f"{{w}}.random().{name}({places_of(values)})"
        if item is not None:
            form, values = f"{{w}}.random({{0}}).{name}({places_of(values, 1)})", [item, *values]
        return self.engine(node, f"i32({form})" if name == "below" else form, values, result, world)

    def of_world(self, node: ast.Call, owner: Value, name: str) -> Value:
        if name in ("step", "episode", "repetition"):
            self.arguments(node, 0, 0, f"world.{name}")
            return self.engine(node, f"i32({{w}}.{name}())", [], I32, owner)
        if name == "tables":
            raise self.refuse(node, "loop over it: for table, places in world.tables(Place):")
        if name in WORLD_METHODS:
            return getattr(self, f"of_{name}")(node, owner)  # type: ignore[no-any-return]
        known = ["id", "parameters", "constants", "random", *WORLD_METHODS]
        raise self.refuse(node, f"a world has no {name!r}{suggestion(name, known)}; it has {', '.join(known)}")

    def of_fail(self, node: ast.Call, owner: Value) -> Value:
        form = 'world.fail("name", value)'
        if not 1 <= len(node.args) <= 2 or node.keywords or not isinstance(node.args[0], ast.Constant):
            raise self.refuse(node, f"write {form}, with a name of faults")
        fault = node.args[0].value
        if fault not in self.around.faults:
            hint = suggestion(str(fault), self.around.faults)
            raise self.refuse(node, f"{fault!r} is not among faults = (...) of the environment{hint}")
        values = [self.stored_as(each, I32, self.value(each)) for each in node.args[1:]]
        more = ", {0}" if values else ""
        return self.engine(node, f"{{w}}.fail(Fault::{fault}{more})", values, VOID, owner)

    def archetype(self, node: ast.expr) -> str:
        given = node.value if isinstance(node, ast.Constant) else self.static(node)
        name = self.around.archetype(given) if isinstance(given, (str, Archetype)) else None
        if name is None:
            known = list(self.around.archetypes)
            hint = suggestion(given, known) if isinstance(given, str) else ""
            raise self.refuse(node, f"{ast.unparse(node)} is not an archetype{hint}; there are {', '.join(known)}")
        return name

    def component(self, node: ast.expr) -> Record:
        given = node.value if isinstance(node, ast.Constant) else self.static(node)
        kind = self.around.record(given) if isinstance(given, type) else None
        if given is MISSING and isinstance(node, ast.Name):
            given = node.id
        if isinstance(given, str):  # made by component(...)
            kind = self.around.named(given)
        if kind is None or not issubclass(kind.of, Component):
            raise self.refuse(node, f"{ast.unparse(node)} is not a component of the environment")
        return kind

    def access(self, node: ast.Call, kind: Record) -> tuple[tuple[int, int], str]:
        """The place of an access to other rows, and the type that it names: const, unless something is written."""
        place = (node.lineno, node.col_offset)
        return place, kind.cpp if place in self.written.places else f"const {kind.cpp}"

    def wanted(self, node: ast.Call, form: str, least: int, most: int | None = None) -> None:
        """Refuse a call with another number of arguments, or with names."""
        if node.keywords or not least <= len(node.args) <= (least if most is None else most):
            raise self.refuse(node, f"write {form}")

    def of_rows(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.rows("Archetype", Component)', 2)
        kind = self.component(node.args[1])
        place, taken = self.access(node, kind)
        form = f"{{w}}.rows<{self.archetype(node.args[0])}, {taken}>()"
        return self.engine(node, form, [], Rows(kind.cpp, kind), owner, place)

    def of_get(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, "world.get(Singleton)", 1)
        kind = self.component(node.args[0])
        place, taken = self.access(node, kind)
        return self.engine(node, f"{{w}}.get<{taken}>()", [], kind, owner, place)

    def entity(self, node: ast.expr) -> Value:
        value = self.value(node)
        if value.kind != ENTITY:
            raise self.refuse(node, f"an Entity is wanted, got {value.kind}")
        return value

    def of_find(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.find(Component, entity), or world.find("Archetype", Component, entity)', 2, 3)
        kind = self.component(node.args[-2])
        place, taken = self.access(node, kind)
        front = f"{self.archetype(node.args[0])}, " if len(node.args) == 3 else ""
        values = [self.entity(node.args[-1])]
        return self.engine(node, f"{{w}}.find<{front}{taken}>({{0}})", values, Maybe(kind.cpp, kind), owner, place)

    def of_count(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.count("Archetype")', 1)
        return self.engine(node, f"i32({{w}}.count<{self.archetype(node.args[0])}>())", [], I32, owner)

    def of_index_of(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.index_of("Archetype", entity)', 2)
        form = f"i32({{w}}.index_of<{self.archetype(node.args[0])}>({{0}}))"
        return self.engine(node, form, [self.entity(node.args[1])], I32, owner)

    def of_entity(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.entity("Archetype", index)', 2)
        index = self.stored_as(node.args[1], U32, self.value(node.args[1]))
        return self.engine(node, f"{{w}}.entity<{self.archetype(node.args[0])}>({{0}})", [index], ENTITY, owner)

    def of_random_of(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, "world.random_of(item)", 1)
        item = self.stored_as(node.args[0], U32, self.value(node.args[0]))
        return Value(Opaque("Random", (owner, item)), f"{owner.text}.random({item.text})", owner.tree)

    def of_check(self, node: ast.Call, owner: Value) -> Value:
        form = 'world.check(condition), and behind the condition a "message", a number, or both'
        self.wanted(node, form, 1, 3)
        condition, *rest = node.args
        message = _literal(rest.pop(0)) if rest and _is_text(rest[0]) else ""
        if len(rest) > 1 or any(map(_is_text, (condition, *rest))):
            raise self.refuse(node, f"write {form}")
        values = [self.condition(condition), *map(self.value, rest)]
        shown = "{1}" if rest else "i32(0)"
        in_thunk = f"{{w}}.check({{0}}, {shown}, {node.lineno}u)"  # whose own line is not the author's
        parts = ", ".join(filter(None, ("{0}", message, "{1}" if rest else "")))
        return self.engine(node, f"{{w}}.check({parts})", values, BOOL, owner, in_thunk=in_thunk)

    def of_log(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, 'world.log("label", value)', 2)
        if not _is_text(node.args[0]):
            raise self.refuse(node, 'write world.log("label", value)')
        form = f"{{w}}.log({_literal(node.args[0])}, {{0}})"
        return self.engine(node, form, [self.value(node.args[1])], VOID, owner)

    def of_create_at(self, node: ast.Call, owner: Value) -> Value:
        return self.of_create(node, owner, at=True)

    def of_create(self, node: ast.Call, owner: Value, at: bool = False) -> Value:
        name, order = ("create_at", "i, ") if at else ("create", "")
        if len(node.args) < 1 + at or node.keywords:
            raise self.refuse(node, f'write world.{name}("Archetype", {order}Component(field=...), ...)')
        values = [self.stored_as(node.args[1], U32, self.value(node.args[1]))] if at else []
        for each in node.args[1 + at :]:
            value = self.value(each)
            if not isinstance(value.kind, Record):
                raise self.refuse(each, f"{name} takes components, got {value.kind}")
            values.append(value)
        form = f"{{w}}.{name}<{self.archetype(node.args[0])}>({places_of(values)})"
        return self.engine(node, form, values, ENTITY, owner)

    def of_destroy(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, "world.destroy(entity)", 1)
        return self.engine(node, "{w}.destroy({0})", [self.entity(node.args[0])], VOID, owner)

    def of_alive(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, "world.alive(entity)", 1)
        return self.engine(node, "{w}.alive({0})", [self.entity(node.args[0])], BOOL, owner)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _literal(node: ast.expr) -> str:
    """A text of Python as one of C++, for ``str.format``."""
    text = ast.literal_eval(node).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + text.replace("{", "{{").replace("}", "}}") + '"'
