"""Running means and variances, by which observations, rewards and returns are brought to one scale."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..base.ranks import ALONE, Ranks

MOST = 10.0
"""Normalised observations lie within plus and minus this many standard deviations: a constant number may still jump."""
_LEAST = 1e-8  # that is added to variances


class Moments(nn.Module):
    """Mean and variance of each of `size` numbers over all samples so far, merged as by Chan, Golub and LeVeque (1983).

    mean and variance float64 `[size]`, count float64 `[]`; 0 and 1 before the first sample. They are buffers: saved
    with the networks, and not learned.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))

    @torch.no_grad()
    def add(self, values: Tensor, active: Tensor | None = None, ranks: Ranks = ALONE) -> None:
        """Takes samples float32 `[..., size]`, of which those count that are active, bool `[...]`, of all `ranks`."""
        values = values.reshape(-1, len(self.mean))
        if active is None:
            count = torch.full_like(self.count, len(values))
            variance, mean = (part.double() for part in torch.var_mean(values, 0, correction=0))
        else:
            counted = active.reshape(-1, 1)
            count = active.sum().double()
            mean = torch.where(counted, values, 0.0).sum(0).double() / count.clamp(min=1)
            squares = torch.where(counted, (values - mean.float()).square(), 0.0)
            variance = squares.sum(0).double() / count.clamp(min=1)
        if ranks.count > 1:
            sums = ranks.sum(torch.cat([count.view(1), count * mean, count * (variance + mean.square())]))
            count = sums[0]
            mean, squares = (sums[1:] / count.clamp(min=1)).chunk(2)
            variance = (squares - mean.square()).clamp(min=0)
        total = (self.count + count).clamp(min=1)
        delta, share = mean - self.mean, count / total
        spread = self.variance * (1 - share) + variance * share + delta.square() * share * (1 - share)
        self.variance.copy_(torch.where(count > 0, spread, self.variance))
        self.mean.add_(delta * share)
        self.count.add_(count)

    @property
    def scale(self) -> Tensor:
        """The standard deviation, float32 `[size]`, never 0."""
        return (self.variance + _LEAST).sqrt().float()

    def normalised(self, values: Tensor) -> Tensor:
        """`[..., n]`, the first n numbers, minus the mean, in standard deviations, within plus and minus `MOST`."""
        count = values.shape[-1]
        return ((values - self.mean[:count].float()) / self.scale[:count]).clamp(-MOST, MOST)


class RewardScale:
    """Rewards in standard deviations of the discounted sum of rewards so far (as OpenAI's baselines scale them, and
    Engstrom et al. 2020, "Implementation matters in deep policy gradients", describe it). The mean is left: a reward
    for staying alive stays one.
    """

    def __init__(self, rows: int, gamma: float, device: torch.device, ranks: Ranks = ALONE) -> None:
        self.gamma, self.ranks = gamma, ranks
        self.moments = Moments(1).to(device)
        self.sums = torch.zeros(rows, device=device)  # of each row in its running episode

    def scaled(self, rewards: Tensor, ends: Tensor, active: Tensor | None) -> Tensor:
        """Rewards `[T, N]` of a rollout, which count first. Rows wait where `active` bool `[T, N]` is false."""
        sums = []
        for t, reward in enumerate(rewards):
            behind = self.gamma * self.sums + reward
            self.sums = behind if active is None else torch.where(active[t], behind, self.sums)
            sums.append(self.sums)
            self.sums = torch.where(ends[t], 0.0, self.sums)
        self.moments.add(torch.stack(sums).unsqueeze(-1), active, self.ranks)
        return rewards / self.moments.scale

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.sums = torch.zeros_like(self.sums)

    def state_dict(self) -> dict[str, Tensor]:
        return {"sums": self.sums, **self.moments.state_dict()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.sums = state["sums"].to(self.sums.device, copy=True)
        self.moments.load_state_dict({name: value for name, value in state.items() if name != "sums"})
