"""The kinds of shapes of rigid bodies, and mass and inertia from their density."""

from __future__ import annotations

from enum import IntEnum
from math import isfinite, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .hulls import ConvexHull


class ShapeKind(IntEnum):
    """The values of ``Shape.kind``, as in csrc/physics/shapes.h."""

    SPHERE = 0
    CAPSULE = 1
    BOX = 2
    HULL = 3
    PLANE = 4
    NOTHING = 5


_USED = {  # names of the numbers of a size that a shape uses
    ShapeKind.SPHERE: ("radius",),
    ShapeKind.CAPSULE: ("radius", "half length"),
    ShapeKind.BOX: ("half extent along x", "half extent along y", "half extent along z"),
    ShapeKind.HULL: ("scale along x", "scale along y", "scale along z"),
    ShapeKind.PLANE: (),
    ShapeKind.NOTHING: (),
}


def check_size(kind: ShapeKind, size: ArrayLike) -> NDArray[np.float64]:
    """The numbers of ``size`` [up to 3] that a shape uses, in metres.

    Raises ValueError for too few numbers, and unless all are positive and finite (a capsule's half length may be 0).
    """
    names = _USED[ShapeKind(kind)]
    numbers = np.atleast_1d(np.asarray(size, np.float64))
    if numbers.ndim != 1 or len(numbers) < len(names):
        raise ValueError(f"the size of a {ShapeKind(kind).name} is ({', '.join(names)}), got {numbers.tolist()}")
    for name, number in zip(names, numbers, strict=False):
        least_is_zero = name == "half length"
        if not (isfinite(number) and (number > 0 or (least_is_zero and number == 0))):
            allowed = "at least 0" if least_is_zero else "above 0"
            raise ValueError(f"the {name} of a {ShapeKind(kind).name} must be finite and {allowed}, got {number:g}")
    return numbers[: len(names)]


def mass_properties(
    kind: ShapeKind, size: ArrayLike, density: float, hull: ConvexHull | None = None
) -> tuple[float, NDArray[np.float64]]:
    """Mass in kg and inertia [3, 3] in kg m^2 about the centre of mass, in the shape's frame, of a solid shape.

    ``size`` is as in ``Shape.size``, in metres; ``density`` in kg/m^3; ``size`` scales the ``hull`` of a HULL.

    Raises:
        ValueError: unless size and density are positive and finite; for a PLANE and NOTHING; for a HULL without hull.
    """
    kind = ShapeKind(kind)
    numbers = check_size(kind, size)
    if not (isfinite(density) and density > 0):
        raise ValueError(f"the density of a body must be finite and above 0, got {density:g}")
    if kind == ShapeKind.PLANE:
        raise ValueError("a PLANE is always static, without a mass")
    if kind == ShapeKind.NOTHING:
        raise ValueError("NOTHING has no mass: sum that of the body's parts")
    if kind == ShapeKind.HULL:
        if hull is None:
            raise ValueError("the mass of a HULL needs its hull, got None")
        factor = float(np.prod(numbers))
        volume, moments = factor * hull.volume, factor * hull.moments * np.outer(numbers, numbers)
    elif kind == ShapeKind.BOX:
        volume = 8 * float(np.prod(numbers))
        moments = volume / 3 * np.diag(numbers**2)
    else:
        volume, moments = _round(float(numbers[0]), float(numbers[1]) if kind == ShapeKind.CAPSULE else 0.0)
    return density * volume, density * (np.trace(moments) * np.eye(3) - moments)


def _round(radius: float, half: float) -> tuple[float, NDArray[np.float64]]:
    """Volume and the integral of x x^T of a cylinder along z with half a ball at both ends."""
    cylinder, ball = 2 * half * pi * radius**2, 4 / 3 * pi * radius**3
    across = cylinder * radius**2 / 4 + ball * radius**2 / 5
    # Each half ball's centroid is 3/8 r beyond the end of the segment.
    along = cylinder * half**2 / 3 + ball * (radius**2 / 5 + half**2 + 2 * half * 3 / 8 * radius)
    return cylinder + ball, np.diag([across, across, along])
