"""Field types of components: what an author writes after the colon (``x: f32``, ``cards: u8[5, 2]``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from .base.constant import Constant
from .base.numbers import NUMBERS


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


FIELD_TYPES = {
    **{number.name: FieldType(number.name, number.c_type, number.dtype) for number in NUMBERS.values()},
    "vec2": FieldType("vec2", "vec2", torch.float32, (2,)),
    "vec3": FieldType("vec3", "vec3", torch.float32, (3,)),
    "vec4": FieldType("vec4", "vec4", torch.float32, (4,)),
    "quat": FieldType("quat", "quat", torch.float32, (4,)),
    # The handle of a row, see csrc/tbs/table.h: tag of world and episode, table (0: no entity), tick, order of birth.
    "Entity": FieldType("Entity", "Entity", torch.int32, (4,)),
}
globals().update(FIELD_TYPES)  # type checkers read their names in types.pyi

__all__ = ["FIELD_TYPES", "FieldType", *FIELD_TYPES]
