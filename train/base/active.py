"""Sums over rows that take no part for a while (`infos["active"]`): their steps have no weight.

`active` is bool, one for each sample; None means that all are active, and changes not a bit. Inactive samples
stay in their tensors, so that shapes are fixed and nothing waits for the device: they have weight 0, and their
values, infinity and NaN too, are kept out of every sum and every gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mean(values: Tensor, active: Tensor | None) -> Tensor:
    """The mean of the active values, `[]`; 0 if none is active."""
    if active is None:
        return values.mean()
    return torch.where(active, values, 0.0).sum() / active.sum().clamp(min=1)


def std_mean(values: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    """Standard deviation, as of a sample, and mean of the active values, `[]` each."""
    if active is None:
        return torch.std_mean(values)
    average = mean(values, active)
    squares = torch.where(active, (values - average).square(), 0.0).sum()
    return (squares / (active.sum() - 1).clamp(min=1)).sqrt(), average


def zeroed(values: Tensor, active: Tensor | None) -> Tensor:
    """The values `[T, N, ...]`, zero where `active` `[T, N]` is false: no gradient meets NaN."""
    if active is None:
        return values
    return torch.where(active.view(*active.shape, *[1] * (values.dim() - active.dim())), values, 0)


def counted_ends(ends: Tensor, active: Tensor, before: Tensor) -> Tensor:
    """Which `ends` bool `[T, N]` end an episode in which the row has been active: bool `[T, N]`.

    An agent that has left meets the end of its world as well, which is not another episode. `before` float32
    `[N]` are the active steps since the last end before these.
    """
    steps = before + active.cumsum(0)
    until = torch.where(ends, steps, 0.0).cummax(0).values  # up to the latest end, this one included
    return ends & (steps > torch.cat([torch.zeros_like(until[:1]), until[:-1]]))
