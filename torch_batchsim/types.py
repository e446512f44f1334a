"""Field types of components: what an author writes after the colon (``x: f32``, ``cards: u8[5, 2]``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from .base.constant import Constant


@dataclass(frozen=True)
class FieldType:
    """The type of one field of a component: an element type and a shape.

    ``f32[3]`` gives an array; the C++ struct then has ``f32 name[3]`` and the field's tensor ends in ``3``.
    """

    name: str
    c_type: str
    dtype: torch.dtype
    element_shape: tuple[int, ...] = ()  # of the C type itself: (3,) for vec3
    shape: tuple[int, ...] = ()  # of the array of such elements

    def __getitem__(self, shape: int | Constant | tuple[int | Constant, ...]) -> FieldType:
        if self.shape:
            raise TypeError(f"{self} is an array already; give all its extents at once, as in {self.name}[2, 3]")
        return replace(self, shape=checked_extents(shape, self.name))

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(map(str, self.shape))}]" if self.shape else "")

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        return self.shape + self.element_shape

    @property
    def alignment(self) -> int:
        """Bytes; every element type here is aligned as its scalar is."""
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        """Bytes."""
        count = 1
        for extent in self.tensor_shape:
            count *= extent
        return count * self.dtype.itemsize


def checked_extents(shape: Any, name: str) -> tuple[Any, ...]:
    """The extents of an array of ``name``. Raises TypeError for what is neither a positive integer nor a constant."""
    extents = shape if isinstance(shape, tuple) else (shape,)
    for extent in extents:
        number = isinstance(extent, int) and not isinstance(extent, bool) and extent >= 1
        if not number and not isinstance(extent, Constant):
            hint = f"; a constant is written Constant({extent!r})" if isinstance(extent, str) else ""
            raise TypeError(f"extents of {name}[...] must be positive integers, got {extent!r}{hint}")
    return extents


# Declared as of any type: mypy and pyright then take them as annotations, of arrays too (x: f32, walls: u8[5, 2]).
f32: Any = FieldType("f32", "f32", torch.float32)
f64: Any = FieldType("f64", "f64", torch.float64)
i8: Any = FieldType("i8", "i8", torch.int8)
i16: Any = FieldType("i16", "i16", torch.int16)
i32: Any = FieldType("i32", "i32", torch.int32)
i64: Any = FieldType("i64", "i64", torch.int64)
u8: Any = FieldType("u8", "u8", torch.uint8)
u16: Any = FieldType("u16", "u16", torch.uint16)
u32: Any = FieldType("u32", "u32", torch.uint32)
u64: Any = FieldType("u64", "u64", torch.uint64)
boolean: Any = FieldType("boolean", "bool", torch.bool)
vec2: Any = FieldType("vec2", "vec2", torch.float32, (2,))
vec3: Any = FieldType("vec3", "vec3", torch.float32, (3,))
vec4: Any = FieldType("vec4", "vec4", torch.float32, (4,))
quat: Any = FieldType("quat", "quat", torch.float32, (4,))
# The handle of a row, see csrc/tbs/table.h: tag of world and episode, table (0: no entity), tick and order of birth.
Entity: Any = FieldType("Entity", "Entity", torch.int32, (4,))

_ALL = (f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, vec2, vec3, vec4, quat, Entity)
FIELD_TYPES = {t.name: t for t in _ALL}

__all__ = ["FIELD_TYPES", "FieldType", *FIELD_TYPES]
