"""The common part of PPO and A2C: their settings, minibatches, the weight of the entropy, and shared metrics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..base.active import std_mean
from ..base.config import Config
from ..base.ranks import Samples, moments, std_mean_of
from .learner import Learner


@dataclass(frozen=True)
class ActorCriticConfig(Config):
    """Settings of an algorithm that learns a policy and a critic from minibatches of a rollout."""

    num_minibatches: int = 4
    """Minibatches of a rollout."""
    update_epochs: int = 4
    """Passes over a rollout."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate, and of V-trace."""
    norm_adv: bool = True
    """Normalise the advantages of each minibatch."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus, at first."""
    ent_coef_end: float | None = None
    """Weight of the entropy bonus at the end, which it approaches linearly; constant if omitted."""
    vf_coef: float = 0.5
    """Weight of the value loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(lambda n: n >= 1, "at least 1", "num_minibatches", "update_epochs")
        self.require(lambda x: 0 <= x <= 1, "between 0 and 1", "gae_lambda")
        self.require(lambda x: x is None or x >= 0, "0 or more", "ent_coef", "ent_coef_end", "vf_coef")


class ActorCriticLearner(Learner):
    """`Learner` with these settings. Minibatches consist of samples, or, `of_rows`, of rows with all their steps."""

    config: ActorCriticConfig
    ent_coef: float

    @classmethod
    def of_rows(cls, config: ActorCriticConfig) -> str:
        """The reason why minibatches consist of whole rows; empty where they consist of samples."""
        return f"memory is {config.memory!r}" if config.memory != "none" else ""

    @classmethod
    def require_fit(cls, config: ActorCriticConfig, rows: int, team: int | None = None) -> None:
        samples, of, why = config.num_steps * rows, "" if team is None else f" of team {team}", cls.of_rows(config)
        if not why and samples % config.num_minibatches:
            raise ValueError(
                f"num_minibatches is {config.num_minibatches}, but must divide the rollout{of}: "
                f"{config.num_steps} steps x {rows} rows = {samples}"
            )
        if why and rows % config.num_minibatches:
            raise ValueError(
                f"num_minibatches is {config.num_minibatches}, but must divide the {rows} rows{of} where {why}: each "
                "row is in one minibatch with all its steps"
            )
        if config.norm_adv and samples == config.num_minibatches:
            raise ValueError("minibatches have one sample, but norm_adv needs at least 2")

    def begin(self, remaining: float) -> None:
        super().begin(remaining)
        first, last = self.config.ent_coef, self.config.ent_coef_end
        self.ent_coef = first if last is None else remaining * first + (1 - remaining) * last

    def normalised(self, advantages: Tensor, samples: Samples) -> Tensor:
        """The advantages of a minibatch, whose mean and deviation `samples` have; unchanged without `norm_adv`."""
        if not self.config.norm_adv:
            return advantages
        std, average = samples.std_mean()
        return (advantages - average) / (std + 1e-8)

    def joined(
        self, policy_loss: Tensor, value_loss: Tensor, entropy: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a minibatch, and its parts as metrics."""
        loss = policy_loss - self.ent_coef * entropy + self.config.vf_coef * value_loss
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return loss, {f"losses/{name}": part.detach() for name, part in parts.items()}

    def of_all(
        self, parts: dict[str, Tensor], returns: Tensor, values: Tensor, active: Tensor | None
    ) -> dict[str, Tensor]:
        """Metrics of all processes, by one collective, given this one's parts of them; and the share of the variance of
        the returns that the critic explains."""
        unexplained = returns - values
        if self.ranks.count == 1:
            deviations = [std_mean(each, active)[0] for each in (unexplained, returns)]
        else:
            both = [moments(each, active) for each in (unexplained, returns)]
            sums = self.ranks.sum(torch.cat([torch.stack(list(parts.values())).double(), *both]))
            parts = dict(zip(parts, sums[:-6].float().unbind(), strict=True))
            deviations = [std_mean_of(each)[0] for each in sums[-6:].view(2, 3)]
        return parts | {"losses/explained_variance": 1 - torch.div(*deviations).square()}
