"""Runs systems in Python as Python: under a debugger, with tracebacks, on the memory of the simulator.

The compiled step calls back for each row. What a system computes by itself, sums and comparisons, Python computes, with
the roundings of f32 and the ends of integers written out in the tree (``translate/``). All that it asks the engine for,
``sin(x)`` or ``world.rows(...)``, the compiled library computes.
"""

from __future__ import annotations

import ast
import ctypes
import math
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.numbers import NUMBERS
from ..base.shared import StepResult
from ..build.jit import Library
from ..declare.python_systems import Bits, write_bits, write_packed_bits
from ..resolve.program import Program
from ..translate.kinds import ENTITY, STREAM, VOID, Array, Kind, Maybe, Number, Opaque, Record, Rows, Tables, Vector
from ..translate.thunks import STREAM_BYTES, Thunk

_one_at_a_time = threading.RLock()  # the simulators of one environment have one library, which calls one of them back
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
_NUMBERS: dict[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "bool": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16,
    "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
}  # fmt: skip
assert {number.c_type for number in NUMBERS.values()} == set(_NUMBERS)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _single(x: float) -> float:
    """Rounded to f32. Of an integer beyond 53 bits a double would round twice."""
    if isinstance(x, int) and abs(x) > 1 << 53:
        return float((np.uint64 if x > 0 else np.int64)(x).astype(np.float32))
    return ctypes.c_float(x).value


def _integer(c_type: Any) -> Callable[[int], int]:
    def wrapped(x: int) -> int:
        return int(c_type(int(x)).value)

    return wrapped


def _divided(a: float, b: float) -> float:
    """A quotient as floats have it: infinite, or NaN, where b is zero."""
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _within(index: int, extent: int | None) -> int:
    """An index; of rows, whose number the tree does not know, only its sign is looked at."""
    if index < 0 or (extent is not None and index >= extent):
        allowed = "counts from 0" if extent is None else f"must be from 0 to {extent - 1}"
        raise IndexError(f"the index is {index}; it {allowed}")
    return index


def _shift_of(count: int, bits: int) -> int:
    if not 0 <= count < bits:
        raise ValueError(f"a shift by {count} of a number with {bits} bits is undefined")
    return count


# ---- memory ----------------------------------------------------------------------------------------------------------


class _Struct(ctypes.Structure):
    """A component or a struct in the simulator's memory."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name, *_ in self._fields_)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n, *_ in self._fields_)

    __hash__ = None  # type: ignore[assignment]


class _Vector(_Struct):
    """A vector: each result is rounded to f32, part by part."""

    def _with(self, parts: Iterator[float]) -> _Vector:
        return type(self)(*parts)

    def _parts(self) -> list[float]:
        return [getattr(self, name) for name, *_ in self._fields_]

    def __neg__(self) -> _Vector:
        return self._with(-a for a in self._parts())

    def __add__(self, other: _Vector) -> _Vector:
        return self._with(a + b for a, b in zip(self._parts(), other._parts(), strict=True))

    def __sub__(self, other: _Vector) -> _Vector:
        return self._with(a - b for a, b in zip(self._parts(), other._parts(), strict=True))

    def __mul__(self, other: _Vector | float) -> _Vector:
        others = other._parts() if isinstance(other, _Vector) else [other] * len(self._fields_)
        return self._with(a * b for a, b in zip(self._parts(), others, strict=True))

    def __rmul__(self, other: float) -> _Vector:
        return self * other

    def __truediv__(self, other: float) -> _Vector:
        return self._with(_divided(a, other) for a in self._parts())


def _vector(name: str, parts: str) -> type[_Vector]:
    return type(name, (_Vector,), {"_fields_": [(part, ctypes.c_float) for part in parts]})


_VECTORS = {name: _vector(name, Vector(name).parts) for name in ("vec2", "vec3", "vec4", "quat")}


class _Entity(_Struct):
    _fields_ = tuple((name, ctypes.c_int32) for name in ("tag", "table", "tick", "order"))


class _Episode(_Struct):
    _fields_ = (("step", ctypes.c_uint32), ("terminated", ctypes.c_bool), ("truncated", ctypes.c_bool))


class _Row(_Struct):
    _fields_ = (("index", ctypes.c_uint32), ("count", ctypes.c_uint32))


_ENGINE = {"Episode": _Episode, "Row": _Row}


class _Types:
    """The types of memory by kind, each made once."""

    def __init__(self) -> None:
        self._records: dict[str, type[_Struct]] = {}

    def of(self, kind: Kind) -> Any:
        if isinstance(kind, Number):
            return _NUMBERS[kind.cpp]
        if isinstance(kind, Vector):
            return _VECTORS[kind.cpp]
        if kind == ENTITY:
            return _Entity
        if isinstance(kind, Array):
            made = self.of(kind.element)
            for extent in reversed(kind.shape):
                made = made * extent
            return made
        assert isinstance(kind, Record), kind
        if kind.cpp not in self._records:
            fields = [(name, self.of(member)) for name, member in kind.members.items()]
            made = type(kind.of.__name__, (_Struct,), {"_fields_": fields})
            size = kind.of.layout.size
            assert ctypes.sizeof(made) == size, f"{kind.cpp} has {ctypes.sizeof(made)} bytes in Python, {size} in C++"
            self._records[kind.cpp] = made
        return self._records[kind.cpp]


class _Rows:
    """The world's rows in one column, as ``world.rows`` gives them."""

    def __init__(self, made: Any, address: int, count: int) -> None:
        self._type, self._address, self.count = made, address, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.count:
            raise IndexError(f"row {index} of {self.count} rows")
        return self._type.from_address(self._address + index * ctypes.sizeof(self._type))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.count))

    def __repr__(self) -> str:
        return f"Rows({list(self)!r})"


class _Running:
    """An object of the engine at an address: the world, or lanes."""

    def __init__(self, address: int, parameters: Any = None) -> None:
        self.address, self.parameters = address, parameters


class _Lanes(_Running):
    """Lanes, and the memory that they share, by type."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self._memory: dict[Any, Any] = {}

    def shared(self, made: Any) -> Any:
        return self._memory.setdefault(made, made())


class _World(_Running):
    """The world, as ``print`` and debuggers see it; the systems' own calls are thunks."""

    @property
    def id(self) -> int:
        return ctypes.c_uint32.from_address(self.address).value

    def __repr__(self) -> str:
        return f"World(id={self.id})"


class _Worlds:
    """Several worlds."""

    def __init__(self, worlds: list[_World]) -> None:
        self._worlds, self.count, self.parameters = worlds, len(worlds), worlds[0].parameters

    def __getitem__(self, index: int) -> _World:
        if not 0 <= index < self.count:
            raise IndexError(f"world {index} of {self.count} worlds")
        return self._worlds[index]

    def __repr__(self) -> str:
        return f"Worlds({self._worlds!r})"


class _Table:
    """An archetype that ``world.tables`` goes through."""

    def __init__(self, number: int, first: int, count: int) -> None:
        self.number, self.first, self.count = number, first, count


# ---- operations of lanes ---------------------------------------------------------------------------------------------


def _for_each(n: int, body: Callable[[int], Any]) -> None:
    for item in range(n):
        body(item)


def _any(n: int, condition: Callable[[int], bool]) -> bool:
    """Every item is looked at, as lanes do."""
    return sum(bool(condition(item)) for item in range(n)) > 0


def _scan(n: int, term: Callable[[int], int], take: Callable[[int, int], Any]) -> int:
    before = 0
    for item in range(n):
        own = term(item)
        take(item, before)
        before = ctypes.c_int32(before + own).value
    return before


def _write_bits(words: Any, out: Any) -> None:
    write_bits(words, out, None)  # type: ignore[arg-type]


def _write_packed_bits(words: Any, out: Any) -> None:
    write_packed_bits(words, out, None)  # type: ignore[arg-type]


def _copy_elements(to: Any, source: Any) -> None:
    ctypes.memmove(to, source, ctypes.sizeof(to))


_LANES: dict[str, Callable[..., Any]] = {
    "lanes_for_each": _for_each,
    "lanes_once": lambda body: body(),
    "lanes_sum": lambda n, term: sum(term(item) for item in range(n)),
    "lanes_min": lambda n, start, term: min([start, *(term(item) for item in range(n))]),
    "lanes_max": lambda n, start, term: max([start, *(term(item) for item in range(n))]),
    "lanes_count": lambda n, condition: sum(bool(condition(item)) for item in range(n)),
    "lanes_any": lambda n, condition: _any(n, condition),
    "lanes_ballot": lambda n, condition: sum(condition(item) << item for item in range(min(n, 32))),
    "lanes_broadcast": lambda item, value: value(item),
    "lanes_scan": _scan,
    "lanes_write_bits": _write_bits,
    "lanes_write_packed_bits": _write_packed_bits,
    "lanes_copy_elements": _copy_elements,
    "lanes_all": lambda n, condition: not _any(n, lambda item: not condition(item)),
}


class PythonExecutor:
    """The systems in Python of one program, and the library that calls them.

    A step or reset of the library is stopped where a system raises; ``raise_error`` raises it again.

    Args:
        library: built with ``executor="python"``, of one simulator.

    Attributes:
        world: the only one whose systems run as Python, among all worlds of a larger batch; -1 for all.
    """

    def __init__(self, program: Program, library: Library) -> None:
        handle = library.handle
        self.library, self.world = library, -1
        self._types = _Types()
        self._raised: BaseException | None = None
        self._thunk = handle.tbs_python_thunk
        self._thunk.argtypes = [ctypes.c_uint32, *[ctypes.c_void_p] * 3]
        self._thunk.restype = None
        python = program.python
        shared: dict[str, Any] = {**_LANES, **self._helpers()}
        shared |= {f"engine_{number}": self._engine(number, thunk) for thunk, number in python.thunks.numbers.items()}
        shared |= {f"record_{number}": self._types.of(kind) for number, kind in enumerate(python.thunks.kinds)}
        self._parameters = _namespace(program)
        self._archetypes = len(program.archetypes)
        self._systems: list[tuple[Callable[..., None], list[tuple[str, Kind]]]] = []
        for text in python.texts:
            names: dict[str, Any] = {}
            translation = text.with_trees()
            for function, tree in translation.trees.items():
                own = {**function.names, **shared, **names, **translation.constants[function]}
                module = ast.Module([tree], [])
                exec(compile(module, str(function.source.path), "exec"), own)
                names[f"function_{function.name}"] = own[function.name]
            for function in text.systems:
                signature = translation.signatures[function]
                self._systems.append((names[f"function_{function.name}"], list(signature.parameters)))
        self._callback = _Callback(self._run)  # which must live as long as the library may call it
        self._take = handle.tbs_python_systems
        self._take.argtypes, self._take.restype = [_Callback, ctypes.c_int64], None
        for name in ("step", "reset", "act_and_step"):
            setattr(library, name, self._stopping(getattr(library, name)))

    def _stopping(self, call: Callable[..., int]) -> Callable[..., int]:
        """A call of the library that calls this executor back, and is stopped by what a system raises."""

        def called(*arguments: Any) -> int:
            with _one_at_a_time:
                self._take(self._callback, self.world)
                result = call(*arguments)
            return StepResult.stopped if self._raised is not None else result

        return called

    def raise_error(self) -> None:
        """Raise what a system raised in the step, if it did."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    @property
    def has_raised(self) -> bool:
        return self._raised is not None

    def _run(self, number: int, world: int, addresses: Any) -> None:
        if self._raised is not None:  # the rest of the step does nothing
            return
        system, parameters = self._systems[number]
        try:
            (_, first), *others = parameters
            worlds: Any = _World(world, self._parameters)
            most = first.values if isinstance(first, Opaque) and first.cpp == "Worlds" else 0
            if most:
                count = ctypes.c_uint32.from_address(addresses[most]).value
                worlds = _Worlds([_World(addresses[k], self._parameters) for k in range(count)])
                most += 1  # addresses in front of the others'
            system(worlds, *(self._argument(kind, addresses[most + place]) for place, (_, kind) in enumerate(others)))
        except BaseException as error:
            self._raised = error

    def _argument(self, kind: Kind, address: int) -> Any:
        if isinstance(kind, Opaque):
            made: Any = _ENGINE.get(kind.cpp)
            return made.from_address(address) if made else _Lanes(address)
        found = self._types.of(kind).from_address(address)
        return _copied(found) if kind == ENTITY else found

    def _helpers(self) -> dict[str, Any]:
        wrapped = {f"to_{name}": _integer(c_type) for name, c_type in _NUMBERS.items() if name[0] in "iu"}
        return {
            **wrapped, **_VECTORS, "to_f32": _single, "to_f64": float, "to_bool": bool, "divided": _divided,
            "within": _within, "shift_of": _shift_of, "copied": _copied, "made_bits": Bits,
        }  # fmt: skip

    def _engine(self, number: int, thunk: Thunk) -> Callable[..., Any]:
        """The function that a tree calls for a thunk."""
        whole = (ENTITY, STREAM)
        takes = [None if isinstance(kind, (Vector, Record)) or kind in whole else kind for kind in thunk.takes]
        gives, call = thunk.gives, self._thunk

        def engine(world: _Running | None, *arguments: Any) -> Any:
            given = []
            for kind, argument in zip(takes, arguments, strict=True):
                if kind is None or isinstance(argument, ctypes.Array):
                    given.append(argument)
                elif isinstance(kind, Array):
                    given.append((_NUMBERS[kind.element.cpp] * max(len(argument), 1))(*argument))
                else:
                    given.append(_NUMBERS[kind.cpp](argument))
            addresses = (ctypes.c_void_p * max(len(given), 1))(*map(ctypes.addressof, given))
            result: Any = None
            if isinstance(gives, (Rows, Maybe, Record)):
                result = (ctypes.c_uint64 * 2)()
            elif isinstance(gives, Tables):
                result = (ctypes.c_uint64 * (1 + self._archetypes * (3 + len(gives.elements))))()
            elif gives == STREAM:
                result = (ctypes.c_ubyte * STREAM_BYTES)()
            elif gives != VOID:
                result = self._types.of(gives)()
            to = None if result is None else ctypes.byref(result)
            call(number, world.address if world else None, addresses, to)
            if isinstance(gives, Tables):
                return list(self._tables(gives, result))
            if isinstance(gives, Rows):
                return _Rows(self._types.of(gives.element), result[0], result[1])
            if isinstance(gives, (Maybe, Record)):
                element = gives.element if isinstance(gives, Maybe) else gives
                return self._types.of(element).from_address(result[0]) if result[0] else None
            return result.value if isinstance(gives, Number) else result

        return engine


    def _tables(self, kind: Tables, numbers: Any) -> Iterator[tuple[Any, ...]]:
        """What a loop over ``world.tables`` takes."""
        step = 3 + len(kind.elements)
        for begin in range(1, 1 + numbers[0], step):
            number, first, count, *places = numbers[begin : begin + step]
            rows = (
                _Rows(self._types.of(each.element), place, count) if place or isinstance(each, Rows) else None
                for each, place in zip(kind.elements, places, strict=True)
            )
            yield _Table(number, first, count), *rows


def _copied(value: Any) -> Any:
    """A copy of a value that has parts."""
    return type(value).from_buffer_copy(value)


def _namespace(program: Program) -> SimpleNamespace:
    """``world.parameters``."""

    def stored(values: Any) -> dict[str, Any]:
        return {name: _single(value) if isinstance(value, float) else value for name, value in values.items()}

    own = stored(program.scopes.author.parameters)
    libraries = {name: SimpleNamespace(**stored(scope.parameters)) for name, scope in program.scopes.libraries.items()}
    return SimpleNamespace(**libraries, **own)
