"""Action spaces whose ``sample`` takes the masks of ``infos`` as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Discrete, MultiDiscrete


class MaskedDiscrete(Discrete):
    """``sample(mask)`` also takes a mask of bools, and a tensor; gymnasium's class takes int8 arrays only."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """A choice of which the mask ``[n]`` is true."""
        return super().sample(_converted(mask), probability)


class MaskedMultiDiscrete(MultiDiscrete):
    """``sample(mask)`` also takes ``infos["action_mask"]``; gymnasium's class takes tuples of int8 arrays.

    The mask of a batch of choices is ``[rows, n]``. That of several numbers has the choices of one after those of the
    other; gymnasium's batch of such is a Box, which takes no masks: ``env.sample_actions()`` does it.
    """

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """A choice of which the mask is true, for each number."""
        mask = _converted(mask)
        if isinstance(mask, np.ndarray):
            mask = self._parts(mask)
        return super().sample(mask, probability)

    def _parts(self, mask: np.ndarray) -> Any:
        """As nested tuples in the order of ``nvec``; as it is where it does not fit, so that gymnasium's error is."""
        if mask.ndim == 2:
            return tuple(mask)
        if mask.shape == (self.nvec.sum(),):
            return tuple(np.split(mask, np.cumsum(self.nvec)[:-1]))
        return mask


def _converted(mask: Any) -> Any:
    if isinstance(mask, tuple):
        return tuple(_converted(part) for part in mask)
    if isinstance(mask, torch.Tensor):
        mask = mask.detach().cpu().numpy()
    return mask.astype(np.int8) if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ else mask


_MASKED = {Discrete: MaskedDiscrete, MultiDiscrete: MaskedMultiDiscrete}


def masked(space: Space) -> Space:
    """The same space, with its random stream, made one whose ``sample`` takes masks of bools."""
    space.__class__ = _MASKED.get(type(space), type(space))
    return space
