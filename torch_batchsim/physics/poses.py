"""Poses in Python, for pictures and clicks; systems have ``rotate`` of csrc/tbs/vector.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rotated(rotation: np.ndarray | Sequence[float], vector: np.ndarray | Sequence[float]) -> np.ndarray:
    """A vector turned by a quaternion (w, x, y, z): float64 ``[3]``."""
    w, x, y, z = (float(part) for part in rotation)  # plain floats take a tenth of NumPy's time
    a, b, c = (float(part) for part in vector)
    p, q, r = (y * c - z * b) + w * a, (z * a - x * c) + w * b, (x * b - y * a) + w * c
    return np.array([a + 2 * (y * r - z * q), b + 2 * (z * p - x * r), c + 2 * (x * q - y * p)])
