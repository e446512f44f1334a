"""Estimates of how much better an action was than the policy's average."""

from __future__ import annotations

import torch
from torch import Tensor

from .updates import advantages_at_once


def generalised_advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminations: Tensor,
    truncations: Tensor,
    gamma: float,
    gae_lambda: float,
    active: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016), float32 `[T, N]`, as are the tensors given.

    `next_values[t]` is the value of the observation that step t led to: where an episode ended, of its final
    observation and not of the first one of the next episode. A termination has no future, so its next value
    does not count. A truncation has one that nobody saw, so its next value stands for it. Both end the sum.
    Where agents come and go `active` bool `[T+1, N]` says who acted, see `advantages_of_active`.
    """
    series = rewards, values, next_values, terminations, truncations
    if active is not None:
        return advantages_of_active(*series, gamma, gae_lambda, active)
    at_once = advantages_at_once(series, gamma, gae_lambda)
    if at_once is not None:
        return at_once
    deltas = rewards + gamma * torch.where(terminations, 0.0, next_values) - values
    decays = gamma * gae_lambda * ~(terminations | truncations)
    advantages = torch.empty_like(deltas)
    advantage = torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        advantage = torch.addcmul(deltas[t], decays[t], advantage, out=advantages[t])
    return advantages


def values_of_last_act(values: Tensor, active: Tensor) -> list[Tensor]:
    """For each step the values `[N]` of when the rows last acted, given those of all steps `[T, N]`."""
    last = [values[0]]
    for now, value in zip(active[1:-1], values[1:], strict=True):
        last.append(torch.where(now, value, last[-1]))
    return last


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

    After the end of an agent nothing leaks back from its row. Where a row becomes inactive
    without an end it waits: its future is that of when it is active again, discounted for each step between, of
    which rewards and observations do not count. If it still waits when the rollout or its world (cut short) ends,
    the value when it last acted stands for the future.
    """
    ends = terminations | truncations
    last_values = values_of_last_act(values, active)
    later = torch.where(active[-1], next_values[-1], last_values[-1])  # the value behind step t
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
