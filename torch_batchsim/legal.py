"""Random actions that are legal."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete


def legal_actions(space: Discrete | MultiDiscrete, mask: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """An action for each row: in each part of it the legal choice with the greatest score.

    Args:
        space: of the action of one row.
        mask: bool ``[rows, choices]``: what is legal, part after part, as ``TorchVectorEnv.action_mask``.
        scores: positive numbers ``[rows, choices]``. Where they are drawn alike and independent of each other, every
            legal choice is equally likely, but for ties, of which the first wins.

    Returns int64 ``[rows, *space.shape]``. Where nothing is legal, it is any action of the space.
    """
    choices = np.asarray(space.nvec if isinstance(space, MultiDiscrete) else space.n)
    first = np.broadcast_to(space.start, choices.shape).reshape(-1).tolist()
    weighed = (scores * mask).split(choices.reshape(-1).tolist(), dim=1)
    parts = [part.argmax(1) + least for part, least in zip(weighed, first, strict=True)]
    return torch.stack(parts, dim=1).view(-1, *space.shape) if space.shape else parts[0]
