"""Shared by adapters whose tensors stay in torch: spaces for networks, and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ..declare.spaces import bounds
from ..vector.vector_env import TorchVectorEnv


def flat(observations: Any) -> torch.Tensor:
    """Float32 ``[rows, features]``, without a copy where they are; entries of a dict in the order of their keys."""
    if isinstance(observations, dict):
        return torch.cat([flat(observations[key]) for key in sorted(observations)], dim=1)
    return observations.reshape(len(observations), -1).float()


def float_space(space: Space, boxes_only: bool = False) -> Space:
    """The same values as a float32 Box, or a Dict of such ones: numbers, also where the space has choices or bits.

    With ``boxes_only`` spaces of choices and bits stay as they are.
    """
    if isinstance(space, Dict):
        return Dict({key: float_space(part, boxes_only) for key, part in space.items()})
    if (isinstance(space, Box) and space.dtype == np.float32) or (boxes_only and not isinstance(space, Box)):
        return space
    low, high = (bound.astype(np.float32) for bound in bounds(space))
    return Box(low, high, dtype=np.float32)


def choices_from_zero(space: Space) -> Space:
    """The space of actions as policies count them: choices from 0, and several numbers in one row."""
    if isinstance(space, Discrete):
        return space if space.start == 0 else Discrete(int(space.n))
    if isinstance(space, MultiDiscrete) and (space.nvec.ndim > 1 or space.start.any()):
        return MultiDiscrete(space.nvec.reshape(-1))
    return space


def first_choice(space: Space, device: torch.device) -> int | torch.Tensor | None:
    """The first choice of ``space``, a number or a tensor of its shape; None where that is 0."""
    first = np.asarray(getattr(space, "start", 0))
    if not first.any():
        return None
    return int(first) if isinstance(space, Discrete) else torch.as_tensor(first, device=device)


class Clipped:
    """Clips actions to the Box of an environment, because policies draw them from a normal distribution."""

    def __init__(self, env: TorchVectorEnv) -> None:
        space: Box = env.single_action_space
        self._needed = not env.environment.clips_actions
        bounds = [np.unique(bound) for bound in (space.low, space.high)]
        if all(len(bound) == 1 for bound in bounds):
            self._low, self._high = (float(bound[0]) for bound in bounds)
        else:
            self._low, self._high = (torch.as_tensor(bound, device=env.device) for bound in (space.low, space.high))

    def __call__(self, actions: torch.Tensor) -> torch.Tensor:
        """``[rows, ...]`` of the space's shape; NaN stays, and the environment rejects it."""
        return actions.clamp(self._low, self._high) if self._needed else actions
