"""Spaces as specs of ``dm_env``, which is imported only where one is made."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from ..declare.spaces import bounds


def spec_of(space: gymnasium.Space, name: str, rows: tuple[int, ...] = ()) -> Any:
    """A ``BoundedArray`` ``[*rows, ...]`` of a space that is not a dict.

    Indices from 0 on that are not of several rows have a ``DiscreteArray`` of int64.
    """
    specs = importlib.import_module("dm_env.specs")
    if isinstance(space, Discrete) and space.start == 0 and not rows:
        return specs.DiscreteArray(int(space.n), np.int64, name)
    return specs.BoundedArray((*rows, *space.shape), space.dtype, *bounds(space), name)
