"""Functions of numbers, element by element."""

from __future__ import annotations

from typing import Any

from .array_calls import BITS, BOOL, FLOAT, INT, Array, each

__all__ = [
    "abs", "acos", "asin", "atan", "atan2", "ceil", "clamp", "copysign", "cos", "divide", "exp", "exp2", "floor", "fma",
    "fmod", "from_bits", "hypot", "isfinite", "isinf", "isnan", "log", "log2", "max", "min", "pow", "rint", "round",
    "signbit", "sin", "sincos", "sqrt", "tan", "tanh", "to_bits", "to_i32", "to_u32", "trunc",
]  # fmt: skip


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


def to_i32(x: Array) -> Any:
    """The integer towards zero, as int32: the nearest one of a number out of range, 0 of a NaN."""
    return each("to_i32", [x], dtypes=[INT, FLOAT])


def to_u32(x: Array) -> Any:
    """The integer towards zero, as uint32: the nearest one of a number out of range, 0 of a NaN."""
    return each("to_u32", [x], dtypes=[BITS, FLOAT])


def to_bits(x: Array) -> Any:
    """The bits of a float32, as uint32."""
    return each("to_bits", [x], dtypes=[BITS, FLOAT])


def from_bits(bits: Array) -> Any:
    """The float32 of these bits, which are uint32."""
    return each("from_bits", [bits], dtypes=[FLOAT, BITS])
