"""The functions that systems call, on NumPy arrays and torch tensors, to the bit: for models, references and tests.

Every function here has the name and the meaning that it has in a system (docs/reference.md). Arguments are float32
arrays or tensors, and numbers, which become f32; they broadcast. The result is an array; a tensor where one was given,
on its device, though the CPU computes it; a NumPy scalar where only numbers were given. Anything else raises
``TypeError``: a float64 array would be rounded in a place that nobody sees. Functions of vectors take arrays whose last
axis has 2, 3 or 4 elements, and 4 for a quaternion (w, x, y, z); the axes before it broadcast. Sums, differences,
products and quotients need nothing from here: NumPy and torch compute them in float32 as systems do.

The first call compiles a library (some two seconds) and keeps it in the build cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from ..base.names import suggestion
from .array_calls import BITS, BOOL, FLOAT, each, vector_width
from .draws import Random as Random

Array: TypeAlias = "np.ndarray | np.float32 | torch.Tensor | float"

pi = float.fromhex("0x1.921fb6p+1")
half_pi = float.fromhex("0x1.921fb6p+0")
tau = float.fromhex("0x1.921fb6p+2")
infinity = float("inf")
largest = float.fromhex("0x1.fffffep+127")
epsilon = float.fromhex("0x1p-23")
largest_angle = float.fromhex("0x1p+20")


# ---- one number ------------------------------------------------------------------------------------------------------


def sin(x: Array) -> Any:
    """The sine of x in radians; NaN beyond ``largest_angle``."""
    return each("sin", [x])


def cos(x: Array) -> Any:
    """The cosine of x in radians; NaN beyond ``largest_angle``."""
    return each("cos", [x])


def sincos(x: Array) -> tuple[Any, Any]:
    """Sine and cosine of x in radians; NaN beyond ``largest_angle``."""
    return sin(x), cos(x)


def tan(x: Array) -> Any:
    """The tangent of x in radians; NaN beyond ``largest_angle``."""
    return each("tan", [x])


def asin(x: Array) -> Any:
    """The inverse sine, in [-pi/2, pi/2]; NaN if ``|x| > 1``."""
    return each("asin", [x])


def acos(x: Array) -> Any:
    """The inverse cosine, in [0, pi]; NaN if ``|x| > 1``."""
    return each("acos", [x])


def atan(x: Array) -> Any:
    """The inverse tangent, in [-pi/2, pi/2]."""
    return each("atan", [x])


def atan2(y: Array, x: Array) -> Any:
    """The angle of the point (x, y), in [-pi, pi]."""
    return each("atan2", [y, x])


def exp(x: Array) -> Any:
    """e to the power x."""
    return each("exp", [x])


def exp2(x: Array) -> Any:
    """2 to the power x."""
    return each("exp2", [x])


def log(x: Array) -> Any:
    """The natural logarithm; -infinity of 0, NaN of less."""
    return each("log", [x])


def log2(x: Array) -> Any:
    """The logarithm to base 2."""
    return each("log2", [x])


def pow(x: Array, y: Array) -> Any:
    """x to the power y, with the special cases of C's ``pow``."""
    return each("pow", [x, y])


def tanh(x: Array) -> Any:
    """The hyperbolic tangent."""
    return each("tanh", [x])


def sqrt(x: Array) -> Any:
    """The square root, correctly rounded."""
    return each("sqrt", [x])


def hypot(x: Array, y: Array) -> Any:
    """``sqrt(x^2 + y^2)`` without overflow on the way."""
    return each("hypot", [x, y])


def fmod(x: Array, y: Array) -> Any:
    """The remainder of x / y with the sign of x; NaN where ``|x / y| >= 2^28``."""
    return each("fmod", [x, y])


def fma(a: Array, b: Array, c: Array) -> Any:
    """``a * b + c``, rounded once."""
    return each("fma", [a, b, c])


def divide(a: Array, b: Array) -> Any:
    """``a / b``, correctly rounded."""
    return each("divide", [a, b])


def floor(x: Array) -> Any:
    """To an integer, down."""
    return each("floor", [x])


def ceil(x: Array) -> Any:
    """To an integer, up."""
    return each("ceil", [x])


def trunc(x: Array) -> Any:
    """To an integer, towards zero."""
    return each("trunc", [x])


def rint(x: Array) -> Any:
    """To the nearest integer, ties to even."""
    return each("rint", [x])


def round(x: Array) -> Any:
    """To the nearest integer, ties away from zero."""
    return each("round", [x])


def abs(x: Array) -> Any:
    """x without its sign."""
    return each("abs", [x])


def copysign(size: Array, sign: Array) -> Any:
    """The size of ``size`` with the sign of ``sign``."""
    return each("copysign", [size, sign])


def min(a: Array, b: Array) -> Any:
    """The smaller of two numbers; the first one if they are equal, or one is a NaN."""
    return each("min", [a, b])


def max(a: Array, b: Array) -> Any:
    """The larger of two numbers; the first one if they are equal, or one is a NaN."""
    return each("max", [a, b])


def clamp(x: Array, low: Array, high: Array) -> Any:
    """x, but no less than ``low`` and no more than ``high``. A NaN stays a NaN."""
    return each("clamp", [x, low, high])


def isnan(x: Array) -> Any:
    """Is x not a number? (bool)"""
    return each("isnan", [x], dtypes=[BOOL, FLOAT])


def isinf(x: Array) -> Any:
    """Is x infinite? (bool)"""
    return each("isinf", [x], dtypes=[BOOL, FLOAT])


def isfinite(x: Array) -> Any:
    """Is x neither infinite nor NaN? (bool)"""
    return each("isfinite", [x], dtypes=[BOOL, FLOAT])


def signbit(x: Array) -> Any:
    """Is the sign bit set? True for -0 too. (bool)"""
    return each("signbit", [x], dtypes=[BOOL, FLOAT])


def to_bits(x: Array) -> Any:
    """The bits of a float32, as uint32."""
    return each("to_bits", [x], dtypes=[BITS, FLOAT])


def from_bits(bits: Array) -> Any:
    """The float32 of these bits, which are uint32."""
    return each("from_bits", [bits], dtypes=[FLOAT, BITS])


# ---- vectors [..., 2], [..., 3], [..., 4] and quaternions [..., 4] ---------------------------------------------------


def dot(a: Array, b: Array) -> Any:
    """The scalar product of vectors."""
    n = vector_width("dot", a)
    return each("dot", [a, b], [n, n], kind=f"_{n}")


def cross(a: Array, b: Array) -> Any:
    """The vector product; of vectors [..., 2] its z component."""
    n = vector_width("cross", a, (2, 3))
    return each("cross", [a, b], [n, n], result=0 if n == 2 else 3, kind=f"_{n}")


def length(a: Array) -> Any:
    """The Euclidean length of vectors."""
    n = vector_width("length", a)
    return each("length", [a], [n], kind=f"_{n}")


def length_squared(a: Array) -> Any:
    """``dot(a, a)``."""
    n = vector_width("length_squared", a)
    return each("length_squared", [a], [n], kind=f"_{n}")


def distance(a: Array, b: Array) -> Any:
    """The length of ``a - b``."""
    n = vector_width("distance", a)
    return each("distance", [a, b], [n, n], kind=f"_{n}")


def normalize(a: Array) -> Any:
    """The direction of vectors: ``a / length(a)``. Zero stays zero. (Of quaternions: ``normalize_quat``.)"""
    n = vector_width("normalize", a)
    return each("normalize", [a], [n], result=n, kind=f"_{n}")


def rotate(a: Array, *by: Array) -> Any:
    """Vectors turned: [..., 2] by an angle in radians, or by its sine and cosine; [..., 3] by unit quaternions."""
    n = vector_width("rotate", a, (2, 3))
    if n == 2 and len(by) == 2:
        return each("rotate", [a, *by], [2, 0, 0], result=2, kind="_by_sine")
    if len(by) != 1:
        raise TypeError("rotate takes (a [..., 2], angle), (a [..., 2], sine, cosine) or (a [..., 3], q [..., 4])")
    return each("rotate", [a, by[0]], [n, 0 if n == 2 else 4], result=n, kind=f"_{n}")


def dot_quat(a: Array, b: Array) -> Any:
    """``dot`` of quaternions, which adds up in another order than that of vectors [..., 4]."""
    return each("dot_quat", [a, b], [4, 4])


def multiply_quat(a: Array, b: Array) -> Any:
    """``a * b`` of quaternions, the Hamilton product: the rotation b followed by the rotation a."""
    return each("multiply_quat", [a, b], [4, 4], result=4)


def conjugate(q: Array) -> Any:
    """The opposite rotation of unit quaternions."""
    return each("conjugate", [q], [4], result=4)


def normalize_quat(q: Array) -> Any:
    """``normalize`` of quaternions: zero becomes no rotation."""
    return each("normalize_quat", [q], [4], result=4)


def rotation_about(axis: Array, angle: Array) -> Any:
    """The quaternions [..., 4] of rotations by an angle in radians about unit axes [..., 3]."""
    return each("rotation_about", [axis, angle], [3, 0], result=4)


if not TYPE_CHECKING:  # to a type checker it would say that any name is there

    def __getattr__(name: str) -> Any:
        known = [name for name, value in globals().items() if getattr(value, "__module__", "") == __name__]
        raise AttributeError(f"torch_batchsim.math has no {name!r}{suggestion(name, known)}")
