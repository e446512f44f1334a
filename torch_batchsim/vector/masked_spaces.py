"""Action spaces whose ``sample`` takes the masks of ``infos`` as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Discrete, MultiDiscrete


class _Sample:
    """``space.sample``; of the instance, because libraries ask whether a space is of gymnasium's very class."""

    def __init__(self, space: Discrete | MultiDiscrete) -> None:
        self._space = space

    def __call__(self, mask: Any = None, probability: Any = None) -> Any:
        mask = _converted(mask)
        if isinstance(mask, np.ndarray) and isinstance(self._space, MultiDiscrete):
            mask = _parts(mask, self._space.nvec)
        return type(self._space).sample(self._space, mask, probability)


def masked(space: Space) -> Space:
    """The same space, whose ``sample(mask)`` also takes ``infos["action_mask"]``: bools, a tensor or an array.

    Gymnasium's own takes an int8 array for a choice, and a tuple of such for several. Here the mask of a batch of
    choices is ``[rows, n]``, that of several numbers has the choices of one after those of the other. A batch of the
    latter is a Box, which takes no mask: ``env.sample_actions()`` draws these.
    """
    if isinstance(space, (Discrete, MultiDiscrete)):
        space.sample = _Sample(space)  # type: ignore[method-assign]
    return space


def _parts(mask: np.ndarray, nvec: np.ndarray) -> Any:
    """As a tuple in the order of ``nvec``; as it is where it does not fit, so that gymnasium's error is raised."""
    if mask.ndim == 2:
        return tuple(mask)
    return tuple(np.split(mask, np.cumsum(nvec)[:-1])) if mask.shape == (nvec.sum(),) else mask


def _converted(mask: Any) -> Any:
    if isinstance(mask, tuple):
        return tuple(_converted(part) for part in mask)
    if isinstance(mask, torch.Tensor):
        mask = mask.detach().cpu().numpy()
    return mask.astype(np.int8) if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ else mask
