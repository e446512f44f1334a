"""The functions of systems on NumPy arrays and torch tensors, equal to the bit: for models, references and tests.

Every function has its name and meaning in a system (docs/reference.md). Arguments are float32
arrays or tensors, and numbers, which become f32; they broadcast. The result is an array; a tensor where one was given,
on its device, though the CPU computes it; a NumPy scalar of numbers. Anything else raises ``TypeError``: it would
round a float64 array silently. Functions of vectors take arrays whose last axis has 2, 3 or 4 elements, and 4 for a
quaternion (w, x, y, z); the axes before it broadcast. NumPy's and torch's own sums, differences, products and quotients
in float32 equal those of systems.

The first call compiles a library (some two seconds) and keeps it in the build cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.names import suggestion
from . import numbers, vectors
from .draws import Random as Random
from .numbers import *  # noqa: F403
from .vectors import *  # noqa: F403

pi = float.fromhex("0x1.921fb6p+1")
half_pi = float.fromhex("0x1.921fb6p+0")
tau = float.fromhex("0x1.921fb6p+2")
infinity = float("inf")
largest = float.fromhex("0x1.fffffep+127")
epsilon = float.fromhex("0x1p-23")
largest_angle = float.fromhex("0x1p+20")

if not TYPE_CHECKING:  # a type checker would take every name as defined

    def __getattr__(name: str) -> Any:
        known = ["Random", *numbers.__all__, *vectors.__all__]
        raise AttributeError(f"torch_batchsim.math has no {name!r}{suggestion(name, known)}")
