"""Proximal policy optimisation (Schulman et al. 2017), to be read from top to bottom: the batch that a rollout becomes,
values and advantages, and the updates.

A rollout only acts: values and log-probabilities come from one batched forward over the whole rollout afterwards.

T is the number of steps in a rollout, N the number of rows (agents of all worlds together), B = T·N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..base.active import zeroed
from ..base.kernels import can_compute
from ..base.ranks import Samples
from ..policies.drawing import log_probs
from ..policies.memory import Past, forgotten
from ..rollouts.rollout import Rollout, map_leaves
from .actor_critic import ActorCriticConfig, ActorCriticLearner
from .advantages import generalised_advantages
from .updates import SHOWN, Adam, LossSettings, Minibatches

MOST_LOG_RATIO = 88.0
"""Whose exp is finite. A sample with more has no gradient: else a clipped one, 0 times infinity, would have NaN."""


class Batch(NamedTuple):
    """A batch for the updates: inputs are encoded observations float32 or uint8 `[B, size]`, actions `[B, ...]`,
    action_masks bool `[B, n]`, active bool `[B]`, and the rest float32 `[B]`. Of samples that are not active inputs,
    actions and advantages are zero, and all actions are allowed.

    Where networks have a memory, `[T, N, ...]` stands in place of `[B, ...]`, ends of episodes are bool `[T, N]`, and
    both states before the first step float32 `[N, state_size]`; else these three are None.
    """

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    action_masks: Tensor | None
    active: Tensor | None
    ends: Tensor | None = None
    actor_hidden: Tensor | None = None
    critic_hidden: Tensor | None = None

    @property
    def actor_past(self) -> Past | None:
        return None if self.ends is None else Past(self.actor_hidden, self.ends, self.active)

    @property
    def critic_past(self) -> Past | None:
        return None if self.ends is None else Past(self.critic_hidden, self.ends, self.active)

    def cut(self, order: Tensor, sizes: list[int]) -> Iterator[Batch]:
        """Parts of so many samples, or rows, of the `order`: shuffled at once, because one large gather is cheaper."""
        parts = []
        for name, field in self._asdict().items():
            along = 0 if self.ends is None or name.endswith("hidden") else 1
            parts.append(repeat(None) if field is None else field.index_select(along, order).split(sizes, along))
        return (Batch(*fields) for fields in zip(*parts, strict=False))


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """The settings of a training with PPO."""

    algorithm: Literal["ppo"] = "ppo"
    clip_coef: float = 0.2
    """Greatest distance of the probability ratio from 1 before the objective is clipped."""
    target_kl: float | None = None
    """End the updates of a rollout after an epoch with a larger approximate KL divergence than this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(lambda x: x is None or x > 0, "greater than 0", "clip_coef", "target_kl")


class PPO(ActorCriticLearner):
    """`Learner` by PPO: `update(estimate(rollout))` follows a rollout."""

    settings = PPOConfig
    config: PPOConfig

    @torch.no_grad()
    def estimate(self, rollout: Rollout, actor_hidden: Tensor | None = None) -> Batch:
        """Values, log-probabilities, advantages and returns of the rollout, T and N made one dimension.

        With a memory, `actor_hidden` is the actor's state before the first step, the critic's moves on to the one
        behind the last step, and the two dimensions stay.
        """
        config, agent, remembers = self.config, self.agent, self.agent.state_size > 0
        ends, active, masks = rollout.ends, rollout.acted, rollout.masks
        inputs = zeroed(agent.encode(rollout.obs, rollout.critic_obs), rollout.active)
        hidden = self.critic_hidden
        values, behind = self.values(inputs, ends, active, hidden)
        if behind is not None:
            self.critic_hidden = forgotten(behind[-1], ends[-1])
        next_values = values[1:]
        both = rollout.final_obs, rollout.final_critic_obs
        if values.device.type != "cpu":  # there, to ask would be to wait
            next_values = torch.where(ends, self.final_values(agent.encode(*both), behind), next_values)
        elif rollout.truncations.any():  # of terminations the next value does not count
            cut = rollout.truncations
            some = (None if each is None else map_leaves(lambda leaf: leaf[cut], each) for each in both)
            final = self.final_values(agent.encode(*some), None if behind is None else behind[cut])
            next_values = next_values.masked_scatter(cut, final)
        inputs, values = inputs[:-1], values[:-1]
        advantages = generalised_advantages(
            self.rewards(rollout.rewards, ends, active),
            values,
            next_values,
            rollout.terminations,
            rollout.truncations,
            config.gamma,
            config.gae_lambda,
            rollout.active,
        )
        actions = zeroed(rollout.actions, active)
        past = Past(actor_hidden, ends, active) if remembers else None
        chances = log_probs(agent, agent.outputs(inputs, past), actions, masks)
        batch = Batch(inputs, actions, chances, values, advantages, advantages + values, masks, active)
        if remembers:
            return batch._replace(ends=ends, actor_hidden=actor_hidden, critic_hidden=hidden)
        return Batch(*(None if field is None else field.flatten(0, 1) for field in batch))

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Epochs of minibatch updates. KL and clip fraction are those of each epoch's last minibatch."""
        config, ranks = self.config, self.ranks
        clip_fractions = []
        at_once = self.at_once(batch)
        together = at_once is not None and ranks.in_shared_memory
        passes = config.update_epochs if together and config.target_kl is None else 1
        for _ in range(config.update_epochs // passes):
            of_what = batch.advantages.shape[-1]  # samples, or rows
            order, sizes = ranks.order(of_what, self.rows, config.num_minibatches, self.generator, passes)
            of_all = ranks.moments(batch.advantages, batch.active, order, sizes)
            if together:
                of_each = self.passes_at_once(at_once, order, sizes, of_all, passes)
            else:
                of_each = [self.pass_over(batch, at_once, order, sizes, of_all)]
            clip_fractions += (shown["losses/clipfrac"] for shown in of_each)
            metrics = of_each[-1]
            approx_kl = metrics["losses/approx_kl"]
            if config.target_kl is not None and ranks.sum(approx_kl.clone()) > config.target_kl:
                break
        metrics["losses/clipfrac"] = torch.stack(clip_fractions).mean()
        norm = metrics.pop("losses/grad_norm")  # the same in all processes
        return self.of_all(metrics, batch.returns, batch.values, batch.active) | {"losses/grad_norm": norm}

    def pass_over(
        self, batch: Batch, at_once: Minibatches | None, order: Tensor, sizes: list[int], of_all: Tensor | None
    ) -> dict[str, Tensor]:
        """An update for each minibatch; returns metrics of the last."""
        of_each = repeat(None) if of_all is None else of_all.unbind()
        if at_once is None:
            for minibatch, moments in zip(batch.cut(order, sizes), of_each, strict=False):
                loss, metrics, log_ratio = self.losses(minibatch, moments)
                self.differentiate(loss)
                norm = self.descend()
            active = minibatch.active
        else:
            for some, moments in zip(order.split(sizes), of_each, strict=False):
                metrics, log_ratio = self.differentiate_at_once(at_once, some, moments)
                norm = self.descend()
            active = at_once.active(some)
        # The KL estimators of Schulman, "Approximating KL divergence": k1 (old) and k3.
        log_ratio = log_ratio.detach()
        ratio = log_ratio.exp()
        samples = Samples(log_ratio, active, moments)
        return metrics | {
            "losses/old_approx_kl": -samples.mean(log_ratio),
            "losses/approx_kl": samples.mean(ratio - 1 - log_ratio),
            "losses/clipfrac": samples.mean(((ratio - 1).abs() > self.config.clip_coef).float()),
            "losses/grad_norm": norm,
        }

    def losses(self, batch: Batch, moments: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The loss of a minibatch, its parts as metrics, and the log of the probability ratio. With several processes
        they sum up to those of the minibatch of all, of whose advantages `moments` are given."""
        config, agent = self.config, self.agent
        outputs = agent.outputs(batch.inputs, batch.actor_past)
        log_probs, entropy = agent.policy.log_prob_and_entropy(outputs, batch.actions, batch.action_masks)
        log_ratio = zeroed(log_probs - batch.log_probs, batch.active)  # before exp, whose gradient may be infinite
        ratio = log_ratio.clamp(max=MOST_LOG_RATIO).exp()

        samples = Samples(batch.advantages, batch.active, moments)
        advantages = self.normalised(batch.advantages, samples)
        clipped_ratio = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
        policy_loss = -samples.mean(torch.min(advantages * ratio, advantages * clipped_ratio))

        values = agent.value(batch.inputs, batch.critic_past)
        value_error = (values - batch.returns).square()
        value_loss = 0.5 * samples.mean(value_error)

        return *self.joined(policy_loss, value_loss, samples.mean(entropy)), log_ratio

    # ---- the same in one pass over a minibatch instead of some hundred ----

    def at_once(self, batch: Batch) -> Minibatches | None:
        """For `differentiate_at_once`, where it may take the place of `losses` and `differentiate`: for perceptrons,
        also with a memory, on the CPU."""
        networks = self.agent.actor, self.agent.critic
        fits = all(each.is_perceptron or each.is_layers_and_memory for each in networks)
        return Minibatches(batch, self.agent) if fits and can_compute(batch.inputs) else None

    def passes_at_once(
        self, batch: Minibatches, order: Tensor, sizes: list[int], of_all: Tensor | None, passes: int
    ) -> list[dict[str, Tensor]]:
        """What `pass_over` returns of each of the passes, in one call."""
        adam = Adam(self.optimizer, self.parameters, self.config.max_grad_norm)
        with self.ranks.reachable:
            shown = batch.descend(order, sizes, self.loss_settings, adam, of_all, self.ranks.neighbours, passes)
        return [dict(zip(SHOWN, each.unbind(), strict=True)) for each in shown.unbind()]

    def differentiate_at_once(
        self, batch: Minibatches, order: Tensor, moments: Tensor | None = None
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Writes the gradient of the loss of the samples, or rows, `order`; returns the parts of the loss, and the log
        of the probability ratio: those of `losses` except for the last bits."""
        means, log_ratio = batch.gradient(order, self.loss_settings, moments)
        names = "losses/policy_loss", "losses/value_loss", "losses/entropy"
        return dict(zip(names, means.unbind(), strict=True)), log_ratio

    @property
    def loss_settings(self) -> LossSettings:
        config = self.config
        return LossSettings(config.clip_coef, self.ent_coef, config.vf_coef, config.norm_adv)
