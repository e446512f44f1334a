"""For adapters whose tensors stay in torch: the environment that they step, and views of its outputs made only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, VectorEnv

from ..vector_env import TorchVectorEnv

_KEPT_PLACES = 8  # outputs lie in two places in turn, and in two more after resets


def vector_env(environment: str | VectorEnv, adapter: str, options: dict[str, Any]) -> VectorEnv:
    """The environment of an id, made with these options, or the one that is given.

    Raises TypeError or ValueError unless it is a ``TorchVectorEnv`` (or wraps one) with torch outputs and SAME_STEP.
    """
    if isinstance(environment, str):
        environment = gymnasium.make_vec(environment, **options)
        options = {}
    own = getattr(environment, "unwrapped", None)
    if not isinstance(own, TorchVectorEnv):
        raise TypeError(f"{adapter} needs an id or a TorchVectorEnv, got {environment!r}")
    if options:
        raise TypeError(f"{adapter} got an environment that is made already, and options for it: {', '.join(options)}")
    if own.output != "torch":
        raise ValueError(f"{adapter} needs output='torch', got an environment with output={own.output!r}")
    if own.autoreset_mode is not AutoresetMode.SAME_STEP:
        mode = own.autoreset_mode.name
        raise ValueError(f"{adapter} needs autoreset_mode=SAME_STEP, got an environment with {mode}")
    return environment


class Places:
    """Keeps what ``make`` returns of the tensors of a step: the same tensors come again, for outputs take turns."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._kept: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def of(self, observations: Any, rewards: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor) -> Any:
        """From before if these very objects were seen lately, else made now."""
        key = id(observations), id(rewards), id(terminated), id(truncated)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) == _KEPT_PLACES:  # copies, which never come again
                self._kept.clear()
            results = observations, rewards, terminated, truncated
            kept = self._kept[key] = self._make(*results), results  # which live on, so that no other has their id
        return kept[0]


def flat(observations: Any) -> torch.Tensor:
    """Float32 ``[rows, features]``, without a copy where they are; entries of a dict in the order of their keys."""
    if isinstance(observations, dict):
        return torch.cat([flat(observations[key]) for key in sorted(observations)], dim=1)
    return observations.reshape(len(observations), -1).float()


def float_space(space: Space) -> Space:
    """The same with float32 boxes."""
    if isinstance(space, Dict):
        return Dict({key: float_space(part) for key, part in space.items()})
    if isinstance(space, Box) and space.dtype != np.float32:
        return Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space


def is_flat(observations: Any) -> bool:
    """Whether ``flat`` is without a copy."""
    return isinstance(observations, torch.Tensor) and observations.dtype == torch.float32


class Clipped:
    """Actions within the Box of an environment, of which policies that draw from a normal distribution know nothing."""

    def __init__(self, env: TorchVectorEnv) -> None:
        space: Box = env.single_action_space
        self._needed = not env.environment.clips_actions
        bounds = [np.unique(bound) for bound in (space.low, space.high)]
        if all(len(bound) == 1 for bound in bounds):
            self._low, self._high = (float(bound[0]) for bound in bounds)
        else:
            self._low, self._high = (torch.as_tensor(bound, device=env.device) for bound in (space.low, space.high))

    def __call__(self, actions: torch.Tensor) -> torch.Tensor:
        """``[rows, ...]`` of the space's shape; NaN stays, for the environment to refuse."""
        return actions.clamp(self._low, self._high) if self._needed else actions
