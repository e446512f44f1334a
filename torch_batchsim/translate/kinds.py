"""The static types of values in a system: numbers, vectors, components, arrays, rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..base.numbers import NUMBERS
from ..declare.fields import Struct
from ..declare.schema import Component
from ..types import FieldType


@dataclass(frozen=True)
class Kind:
    """The type of a value; ``cpp`` is its name in C++."""

    cpp: str

    def __str__(self) -> str:
        return "boolean" if self.cpp == "bool" else self.cpp


@dataclass(frozen=True)
class Number(Kind):
    """``f32``, ``i32`` and so on; ``bool`` is a boolean."""

    @property
    def is_float(self) -> bool:
        return self.cpp[0] == "f"

    @property
    def is_bool(self) -> bool:
        return self.cpp == "bool"

    @property
    def is_integer(self) -> bool:
        return self.cpp[0] in "iu"

    @property
    def is_unsigned(self) -> bool:
        return self.cpp[0] == "u"

    @property
    def bits(self) -> int:
        return 1 if self.is_bool else int(self.cpp[1:])

    def holds(self, value: float) -> bool:
        """Whether an integer can be stored without a loss."""
        if self.is_float:
            return abs(value) <= (1 << 24 if self.bits == 32 else 1 << 53)
        low = 0 if self.is_unsigned else -(1 << self.bits - 1)
        return low <= value < low + (1 << self.bits)


F32, F64, I32, U32, I64, U64, BOOL = map(Number, ("f32", "f64", "i32", "u32", "i64", "u64", "bool"))


@dataclass(frozen=True)
class Vector(Kind):
    """``vec2``, ``vec3``, ``vec4``, ``quat``: values, not places."""

    @property
    def parts(self) -> str:
        return {"vec2": "xy", "vec3": "xyz", "vec4": "xyzw", "quat": "wxyz"}[self.cpp]


ENTITY = Kind("Entity")
STREAM = Kind("Random")  # of an item: a value that changes
VOID = Kind("void")


@dataclass(frozen=True)
class Record(Kind):
    """A component or a struct."""

    of: type[Component] | type[Struct] = field(compare=False)
    members: dict[str, Kind] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Array(Kind):
    """An array in memory; ``cpp`` names its elements."""

    element: Kind
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]"

    @property
    def extents(self) -> str:
        """As C++ writes them."""
        return "".join(f"[{extent}]" for extent in self.shape)


@dataclass(frozen=True)
class Rows(Kind):
    """The world's rows in one column."""

    element: Record


@dataclass(frozen=True)
class Maybe(Kind):
    """A place that may be missing: the result of ``world.find``."""

    element: Record


@dataclass(frozen=True)
class RowsOfSome(Kind):
    """The rows of ``world.tables(..., Wind | None)``: None where an archetype lacks the component."""

    element: Record


@dataclass(frozen=True)
class Tables(Kind):
    """What ``world.tables`` goes through: for each archetype its rows of these components."""

    elements: tuple[Rows | RowsOfSome, ...]


@dataclass(frozen=True)
class BitString(Kind):
    """``Bits``. A function takes any size; then it is 0."""

    size: int

    def __str__(self) -> str:
        return f"Bits({self.size})" if self.size else "Bits"


@dataclass(frozen=True)
class Opaque(Kind):
    """An object of the engine: ``World``, ``Random``, ``parameters`` of a library. ``values`` are numbers by name."""

    values: Any = field(default=None, compare=False, repr=False)


def of_field(kind: FieldType, shape: tuple[int, ...] = ()) -> Kind:
    """The kind of a field."""
    element: Kind
    if kind.name in NUMBERS:
        element = Number(kind.c_type)
    elif kind.name == "Entity":
        element = ENTITY
    else:
        element = Vector(kind.name)
    extents = shape or kind.shape
    return Array(element.cpp, element, tuple(extents)) if extents else element


OF_PYTHON = {bool: BOOL, int: I32, float: F32}
"""Python's own types in signatures and in front of variables."""
