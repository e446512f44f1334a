# The types of fields for mypy, see types.pyi.
from typing import Any

f32: Any
f64: Any
i8: Any
i16: Any
i32: Any
i64: Any
u8: Any
u16: Any
u32: Any
u64: Any
boolean: Any
vec2: Any
vec3: Any
vec4: Any
quat: Any
Entity: Any
Worlds: Any
