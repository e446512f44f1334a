# What type checkers read in place of types.py: there the types of fields are values, which no checker takes as
# annotations (`x: f32`, `marks: u8[2, 3]`).
#
# mypy takes a name of type Any as an annotation, with any index behind it; it refuses numbers in the index of a class.
# pyright takes a class that has __class_getitem__, with any index behind it; it refuses a variable. MYPY is true for
# mypy, by its own convention, and means nothing to others: these take the second declaration.
from typing import Any, Final

import torch

MYPY: bool

class FieldType:
    name: str
    c_type: str
    dtype: torch.dtype
    element_shape: tuple[int, ...]
    shape: tuple[Any, ...]
    def __init__(
        self,
        name: str,
        c_type: str,
        dtype: torch.dtype,
        element_shape: tuple[int, ...] = ...,
        shape: tuple[Any, ...] = ...,
    ) -> None: ...
    def __getitem__(self, shape: Any) -> FieldType: ...
    @property
    def tensor_shape(self) -> tuple[int, ...]: ...
    @property
    def alignment(self) -> int: ...
    @property
    def size(self) -> int: ...

def checked_extents(shape: Any, name: str) -> tuple[Any, ...]: ...

class _Field:
    name: str
    c_type: str
    dtype: torch.dtype
    shape: tuple[Any, ...]
    tensor_shape: tuple[int, ...]
    size: int
    def __class_getitem__(cls, shape: Any) -> Any: ...
    def __new__(cls, *values: Any) -> Any: ...  # f32(x), in a system
    def __get__(self, instance: Any, owner: Any) -> Any: ...  # ball.column, of one number or of an array
    def __set__(self, instance: Any, value: Any) -> None: ...

if MYPY:
    from .field_names import Entity as Entity
    from .field_names import boolean as boolean
    from .field_names import f32 as f32
    from .field_names import f64 as f64
    from .field_names import i8 as i8
    from .field_names import i16 as i16
    from .field_names import i32 as i32
    from .field_names import i64 as i64
    from .field_names import quat as quat
    from .field_names import u8 as u8
    from .field_names import u16 as u16
    from .field_names import u32 as u32
    from .field_names import u64 as u64
    from .field_names import vec2 as vec2
    from .field_names import vec3 as vec3
    from .field_names import vec4 as vec4
else:
    class f32(_Field): ...
    class f64(_Field): ...
    class i8(_Field): ...
    class i16(_Field): ...
    class i32(_Field): ...
    class i64(_Field): ...
    class u8(_Field): ...
    class u16(_Field): ...
    class u32(_Field): ...
    class u64(_Field): ...
    class boolean(_Field): ...
    class vec2(_Field): ...
    class vec3(_Field): ...
    class vec4(_Field): ...
    class quat(_Field): ...
    class Entity(_Field): ...

FIELD_TYPES: Final[dict[str, FieldType]]
