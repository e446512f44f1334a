"""Spaces of agents in the forms of other interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple


def bounds(space: gymnasium.Space) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest values ``[*space.shape]`` of a space that is not a dict."""
    if isinstance(space, Box):
        return space.low, space.high
    if isinstance(space, (Discrete, MultiDiscrete)):
        count = space.n if isinstance(space, Discrete) else space.nvec
        return np.asarray(space.start), np.asarray(space.start + count - 1)
    return np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)  # MultiBinary


def space_of_masks(space: gymnasium.Space) -> gymnasium.Space:
    """Of the masks that ``space.sample`` takes."""
    if isinstance(space, Discrete):
        return Box(0, 1, (int(space.n),), np.int8)
    return Tuple([space_of_masks(Discrete(n) if np.ndim(n) == 0 else MultiDiscrete(n)) for n in space.nvec])


def masks_of(rows: np.ndarray, space: gymnasium.Space) -> list[Any]:
    """Rows ``[agents, n]`` as ``space.sample`` takes them."""
    if isinstance(space, Discrete):
        return list(rows)
    ends = np.cumsum(space.nvec)
    return [_nested(np.split(row, ends[:-1]), space.nvec.shape) for row in rows]


def _nested(parts: list[np.ndarray], shape: tuple[int, ...]) -> tuple[Any, ...]:
    if len(shape) == 1:
        return tuple(parts)
    size = len(parts) // shape[0]
    return tuple(_nested(parts[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0]))


def one_after_another(space: gymnasium.Space, agents: int) -> Box:
    """The observations of all agents as one array."""
    parts = [space[key] for key in sorted(space.spaces)] if isinstance(space, Dict) else [space]
    dtypes = {part.dtype for part in parts}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
    low, high = (
        np.concatenate([end.reshape(-1) for end in ends]).astype(dtype)
        for ends in zip(*map(bounds, parts), strict=True)
    )
    return Box(np.tile(low, agents), np.tile(high, agents), dtype=dtype)


def for_each(agents: Iterable[str], space: gymnasium.Space) -> dict[str, gymnasium.Space]:
    """A copy for each of these agents, with a random stream of its own."""
    spaces = {agent: deepcopy(space) for agent in agents}
    for own in spaces.values():
        own.seed(None)
    return spaces


def choices(space: gymnasium.Space) -> int:
    """The length of a mask of actions."""
    if isinstance(space, Discrete):
        return int(space.n)
    return int(space.nvec.sum()) if isinstance(space, MultiDiscrete) else 0


def check_from_zero(space: gymnasium.Space, library: str, what: str = "action") -> None:
    """Raise ValueError where indices begin at another number: this library's networks count them from 0."""
    for part in space.values() if isinstance(space, Dict) else (space,):
        if isinstance(part, (Discrete, MultiDiscrete)) and np.any(part.start != 0):
            raise ValueError(f"{library} counts from 0; the {what} space must begin there too, got {part}")
