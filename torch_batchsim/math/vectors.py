"""Functions of vectors ``[..., 2]``, ``[..., 3]``, ``[..., 4]`` and of quaternions ``[..., 4]`` (w, x, y, z)."""

from __future__ import annotations

from typing import Any

from .array_calls import Array, each, vector_width

__all__ = [
    "conjugate", "cross", "distance", "dot", "dot_quat", "length", "length_squared", "multiply_quat", "normalize",
    "normalize_quat", "rotate", "rotation_about",
]  # fmt: skip


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
