"""How actions leave the networks: the distributions that a policy draws from, and their densities.

Everything here takes any leading shape, written `...`: `[N]` in a rollout, `[T, N]` over a whole one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional


class CategoricalPolicy:
    """Categorical choices, one for Discrete, several independent ones for MultiDiscrete.

    The network's outputs are the logits of all choices side by side, and an action mask (bool, same shape)
    says which are allowed. Actions are int64: `[...]` for Discrete, `[..., choices]` for MultiDiscrete.
    """

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete, device: torch.device) -> None:
        if torch.as_tensor(space.start).any():
            raise ValueError(f"action space is {space}, but the trainer takes only choices that start at 0")
        self.device = device
        self.single = isinstance(space, spaces.Discrete)
        self.sizes = [int(space.n)] if self.single else [int(n) for n in space.nvec.reshape(-1)]
        self.num_means = sum(self.sizes)
        self.num_log_stds = 0
        self.num_outputs = self.num_means

    def empty_actions(self, rows: int) -> Tensor:
        shape = (rows,) if self.single else (rows, len(self.sizes))
        return torch.zeros(shape, dtype=torch.int64, device=self.device)

    def noise(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Gumbel noise float32 `[*shape, logits]`: logits plus this noise are largest at a sample."""
        noise = torch.empty(*shape, self.num_means, device=self.device).exponential_(generator=generator)
        return noise.log_().neg_()

    def sample(self, outputs: Tensor, noise: Tensor, out: Tensor, mask: Tensor | None) -> None:
        """Writes actions drawn with `noise` into `out`."""
        self.mode(outputs + noise, out, mask)

    def mode(self, outputs: Tensor, out: Tensor, mask: Tensor | None) -> None:
        """Writes the likeliest actions into `out`."""
        if self.single:  # with one tensor less, in every step of a rollout
            torch.argmax(_allowed(outputs, mask), dim=-1, out=out)
        else:
            out.copy_(self.likeliest(outputs, mask))

    def likeliest(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """The likeliest actions, as a new tensor."""
        outputs = _allowed(outputs, mask)
        if self.single:
            return outputs.argmax(-1)
        return torch.stack([logits.argmax(-1) for logits in outputs.split(self.sizes, dim=-1)], dim=-1)

    def uniform(self, generator: torch.Generator, out: Tensor, mask: Tensor | None) -> None:
        """Writes actions into `out` `[N, ...]`, each of those that are allowed with the same probability."""
        noise = self.noise(out.shape[:1], generator)
        self.mode(noise, out, mask)

    def log_prob_and_entropy(self, outputs: Tensor, actions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-probability of `actions` and entropy of the policy, float32 `[...]` each."""
        if mask is not None:  # finite, because 0 · -inf would make the entropy NaN
            outputs = outputs.masked_fill(~mask, torch.finfo(outputs.dtype).min)
        if self.single:
            return _categorical(outputs, actions)
        choices = zip(outputs.split(self.sizes, dim=-1), actions.unbind(-1), strict=True)
        log_probs, entropies = zip(*(_categorical(logits, chosen) for logits, chosen in choices), strict=True)
        return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)

    def to_env(self, actions: Tensor) -> Tensor:
        """The actions as the environment takes them."""
        return actions


def _allowed(outputs: Tensor, mask: Tensor | None) -> Tensor:
    return outputs if mask is None else outputs.masked_fill(~mask, -math.inf)


def _categorical(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = functional.log_softmax(logits, dim=-1)
    log_prob = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return log_prob, -(log_probs.exp() * log_probs).sum(-1)


class GaussianPolicy:
    """A diagonal Gaussian for Box actions, whose standard deviation is learned but the same in all states.

    The network's outputs are means and log standard deviations side by side. Actions are float32
    `[..., *shape]`; they are stored as drawn, so that their density is exact, and clipped to the Box on their
    way to the environment. It has the methods of `CategoricalPolicy`, and no use for masks.
    """

    def __init__(self, space: spaces.Box, device: torch.device) -> None:
        self.shape = space.shape
        self.num_means = self.num_log_stds = math.prod(space.shape)
        self.num_outputs = 2 * self.num_means
        self.low = torch.as_tensor(space.low, dtype=torch.float32, device=device)
        self.high = torch.as_tensor(space.high, dtype=torch.float32, device=device)

    def empty_actions(self, rows: int) -> Tensor:
        return torch.zeros(rows, *self.shape, device=self.low.device)

    def noise(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.randn(*shape, self.num_means, device=self.low.device, generator=generator)

    def sample(self, outputs: Tensor, noise: Tensor, out: Tensor, mask: Tensor | None) -> None:
        mean, log_std = outputs.chunk(2, dim=-1)
        out.copy_((mean + log_std.exp() * noise).view(out.shape))

    def mode(self, outputs: Tensor, out: Tensor, mask: Tensor | None) -> None:
        out.copy_(self.likeliest(outputs, mask))

    def likeliest(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """The likeliest actions, as a new tensor."""
        return outputs.chunk(2, dim=-1)[0].unflatten(-1, self.shape)

    def uniform(self, generator: torch.Generator, out: Tensor, mask: Tensor | None) -> None:
        """Writes into `out` uniform numbers between the bounds, standard normal ones where a bound is missing."""
        shares = torch.rand(out.shape, device=out.device, generator=generator)
        normal = torch.randn(out.shape, device=out.device, generator=generator)
        bounded = self.low.isfinite() & self.high.isfinite()
        low, high = (torch.where(bounded, bound, 0.0) for bound in (self.low, self.high))
        out.copy_(torch.where(bounded, low + (high - low) * shares, normal))

    def log_prob_and_entropy(self, outputs: Tensor, actions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        mean, log_std = outputs.chunk(2, dim=-1)
        z = (actions.reshape(mean.shape) - mean) * (-log_std).exp()
        half_log_two_pi = 0.5 * math.log(2 * math.pi)
        log_prob = (-0.5 * z.square() - log_std - half_log_two_pi).sum(-1)
        return log_prob, (log_std + half_log_two_pi + 0.5).sum(-1)

    def to_env(self, actions: Tensor) -> Tensor:
        return actions.clamp(self.low, self.high)


Policy = CategoricalPolicy | GaussianPolicy


def make_policy(space: gymnasium.Space, device: torch.device) -> Policy:
    """The policy for an action space, working on `device`. Raises ValueError for other spaces."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return CategoricalPolicy(space, device)
    if isinstance(space, spaces.Box):
        return GaussianPolicy(space, device)
    raise ValueError(f"action space is {space}, but the trainer takes Discrete, MultiDiscrete or Box")
