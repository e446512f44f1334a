"""Random actions that are legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector.utils import batch_space

_GREATEST_SCORE = 2**15 - 1


def legal_actions(space: Discrete | MultiDiscrete, mask: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """An action for each row: in each part of it the legal choice with the greatest score.

    Args:
        space: of the action of one row.
        mask: bool ``[rows, choices]``: the legal choices, part after part, as ``TorchVectorEnv.action_mask``.
        scores: positive numbers ``[rows, choices]``. Where they are drawn alike and independent of each other, every
            legal choice is equally likely, but for ties: there the first wins.

    Returns int64 ``[rows, *space.shape]``. Where nothing is legal, it is any action of the space.
    """
    choices = np.asarray(space.nvec if isinstance(space, MultiDiscrete) else space.n)
    first = np.broadcast_to(space.start, choices.shape).reshape(-1).tolist()
    weighed = (scores * mask).split(choices.reshape(-1).tolist(), dim=1)
    parts = [part.argmax(1) + least for part, least in zip(weighed, first, strict=True)]
    return torch.stack(parts, dim=1).view(-1, *space.shape) if space.shape else parts[0]


class LegalActions(Sequence[torch.Tensor]):
    """Random actions by masks: each is drawn when it is asked for, by the masks of that moment.

    A step that is timed with them includes drawing: ``scores * mask`` and an argmax of it, with prepared scores.
    """

    def __init__(
        self,
        space: Discrete | MultiDiscrete,
        mask: Callable[[], torch.Tensor],
        scores: torch.Tensor,
    ) -> None:
        """
        Args:
            space: of the action of one row.
            mask: gives the masks of the moment, bool ``[rows, choices]``.
            scores: see ``legal_actions``, ``[batches, rows, choices]``.
        """
        self._space, self._mask, self._scores = space, mask, scores

    def __len__(self) -> int:
        return len(self._scores)

    def __getitem__(self, index: int) -> torch.Tensor:
        """int64 ``[rows, ...]``, legal now."""
        return legal_actions(self._space, self._mask(), self._scores[index])


def batches_of_actions(
    space: Box | Discrete | MultiDiscrete,
    rows: int,
    batches: int,
    *,
    mask: Callable[[], torch.Tensor] | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    drawn_rows: int | None = None,
) -> Sequence[torch.Tensor]:
    """Random actions of ``rows`` rows: ``LegalActions`` where there are masks, else prepared draws from the space.

    ``drawn_rows``: draw numbers for so many rows and take the first ``rows``: a row's are then the same for each
    number of rows.
    """
    drawn_rows = drawn_rows or rows
    if mask is not None:
        generator = torch.Generator().manual_seed(seed)
        shape = (batches, drawn_rows, int(np.sum(space.nvec if isinstance(space, MultiDiscrete) else space.n)))
        scores = torch.randint(1, _GREATEST_SCORE + 1, shape, dtype=torch.int16, generator=generator)
        return LegalActions(space, mask, scores[:, :rows].to(device))
    together = batch_space(space, drawn_rows)
    together.seed(seed)
    draws = [torch.from_numpy(np.array(together.sample()))[:rows] for _ in range(batches)]
    return [draw.to(device) for draw in draws]
