"""What changes where rows take no part for a while (`infos["active"]`): their steps count for nothing.

`active` is bool, one for each sample; None means that all are active, and changes not a bit. Inactive samples
stay in their tensors, so that shapes are fixed and nothing waits for the device: they have weight 0, and what
they hold, infinity and NaN too, is kept out of every sum and every gradient.
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
    """The values `[T, N, ...]`, zero where `active` `[T, N]` is false: no gradient meets what is not a number."""
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


def advantages_of_active(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminations: Tensor,
    truncations: Tensor,
    gamma: float,
    gae_lambda: float,
    active: Tensor,
) -> Tensor:
    """`generalised_advantages` where rows are active `[T+1, N]` at times; zero where they are not.

    After the end of an agent nothing leaks back from what its row shows then. Where a row becomes inactive
    without an end it waits: its future is that of when it is active again, discounted for each step between, of
    which rewards and observations do not count. If it still waits when the rollout or its world (cut short) ends,
    the value when it last acted stands for what is to come.
    """
    ends = terminations | truncations
    last_values = [values[0]]  # of when the row last acted
    for now, value in zip(active[1:-1], values[1:], strict=True):
        last_values.append(torch.where(now, value, last_values[-1]))
    later = torch.where(active[-1], next_values[-1], last_values[-1])  # the value of what follows step t
    advantage, advantages = torch.zeros_like(later), torch.empty_like(values)
    for t in reversed(range(len(rewards))):
        now = active[t]
        later = torch.where(ends[t], torch.where(now, next_values[t], last_values[t]), later)
        later = gamma * torch.where(terminations[t], 0.0, later)
        advantage = torch.where(ends[t], 0.0, gamma * advantage)
        advantage = torch.where(now, rewards[t] + later - values[t] + gae_lambda * advantage, advantage)
        later = torch.where(now, values[t], later)
        advantages[t] = advantage
    return torch.where(active[:-1], advantages, 0.0)
