"""Advantage actor-critic with V-trace (Espeholt et al. 2018, "IMPALA"), to be read from top to bottom: the sequences
that a rollout becomes, V-trace, and the updates.

A rollout is learned from in several updates, each of some of the rows with all their steps, as Dalton et al. (2020,
"Accelerating reinforcement learning through GPU Atari emulation") do. From the second update on the policy is not the
one that acted: V-trace weighs what it did by how likely the present one would have.

T is the number of steps in a rollout, N the number of rows (agents of all worlds together).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..base.active import zeroed
from ..base.ranks import ALONE, Ranks, Samples, moments
from ..policies.memory import Past, forgotten
from ..rollouts.rollout import Rollout
from .actor_critic import ActorCriticConfig, ActorCriticLearner
from .advantages import values_of_last_act


class Sequences(NamedTuple):
    """A batch for the updates: inputs are encoded observations float32 or uint8 `[T+1, N, size]`, final those at
    the ends of episodes `[T, N, size]`, actions `[T, N, ...]`, action_masks bool `[T, N, n]`, ends and terminations
    bool `[T, N]`, active bool `[T+1, N]`, and the rest float32 `[T, N]`: log_probs of the policy that acted, values and
    returns as they were then. The states of a memory before the first step are float32 `[N, state_size]`.

    Of steps that are not active inputs and actions are zero, and all actions are allowed.
    """

    inputs: Tensor
    final: Tensor
    actions: Tensor
    rewards: Tensor
    terminations: Tensor
    ends: Tensor
    log_probs: Tensor
    values: Tensor
    returns: Tensor
    action_masks: Tensor | None
    active: Tensor | None
    actor_hidden: Tensor | None
    critic_hidden: Tensor

    @property
    def acted(self) -> Tensor | None:
        """Which rows acted in each step, bool `[T, N]`; None for all."""
        return None if self.active is None else self.active[:-1]

    def parts(self, count: int, generator: torch.Generator, ranks: Ranks = ALONE) -> Iterator[Sequences]:
        """Cuts the rows into `count` random parts; with several processes each is the part of this one."""
        rows = self.inputs.shape[1]
        order, sizes = ranks.order(rows, rows, count, generator)
        for some in order.split(sizes):
            yield Sequences(
                *(
                    None if field is None else field.index_select(0 if name.endswith("hidden") else 1, some)
                    for name, field in self._asdict().items()
                )
            )


def v_trace(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminations: Tensor,
    ends: Tensor,
    gamma: float,
    decay: float,
    ratios: Tensor,
    active: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Advantages for the policy's gradient, and targets of the critic, float32 `[T, N]` as are the tensors given.

    `ratios` are the probabilities of the actions under the present policy, by those under the one that acted, and
    `decay` is lambda: with `r = min(1, ratio)`, V-trace's rho is r and its c is decay·r (equation 1 and remark 2). The
    target of the critic is `v[t] = V[t] + r[t] d[t] + gamma c[t] (v[t+1] - V[t+1])`, `d[t] = reward[t] + gamma V[t+1] -
    V[t]`, and the advantage is `reward[t] + gamma v[t+1] - V[t]`, which the gradient weighs by r. With ratios of 1, `v`
    are the targets of generalised advantage estimation.

    `next_values`, ends, and rows that are inactive at times are as in `generalised_advantages`.
    """
    if active is None:
        active = torch.ones(len(values) + 1, *values.shape[1:], dtype=torch.bool, device=values.device)
    weights = ratios.clamp(max=1)
    last_values = values_of_last_act(values, active)
    later = torch.where(active[-1], next_values[-1], last_values[-1])  # V behind step t
    change = torch.zeros_like(later)  # v - V behind it
    advantages, changes = torch.empty_like(values), torch.empty_like(values)
    for t in reversed(range(len(rewards))):
        now = active[t]
        later = torch.where(ends[t], torch.where(now, next_values[t], last_values[t]), later)
        later = gamma * torch.where(terminations[t], 0.0, later)
        change = torch.where(ends[t], 0.0, gamma * change)
        difference = rewards[t] + later - values[t]
        advantages[t] = difference + change
        change = torch.where(now, weights[t] * (difference + decay * change), change)
        later = torch.where(now, values[t], later)
        changes[t] = change
    acted = active[:-1]
    return torch.where(acted, advantages, 0.0), torch.where(acted, values + changes, 0.0)


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """The settings of a training with A2C."""

    algorithm: Literal["a2c"] = "a2c"


class A2C(ActorCriticLearner):
    """`Learner` by A2C with V-trace: `update(estimate(rollout))` follows a rollout."""

    settings = A2CConfig
    config: A2CConfig

    @classmethod
    def of_rows(cls, config: ActorCriticConfig) -> str:
        return super().of_rows(config) or f"algorithm is {config.algorithm!r}"

    @torch.no_grad()
    def estimate(self, rollout: Rollout, actor_hidden: Tensor | None = None) -> Sequences:
        """Log-probabilities of the policy that acted, and values and returns before it learns.

        With a memory, `actor_hidden` is the actor's state before the first step, and the critic's moves on to the one
        behind the last step.
        """
        agent, hidden = self.agent, self.critic_hidden
        ends, active = rollout.ends, rollout.acted
        unknown = torch.zeros_like(rollout.rewards)
        sequences = Sequences(
            inputs=zeroed(agent.encode(rollout.obs, rollout.critic_obs), rollout.active),
            # Where no episode ended they may hold anything.
            final=zeroed(agent.encode(rollout.final_obs, rollout.final_critic_obs), ends),
            actions=zeroed(rollout.actions, active),
            rewards=self.rewards(rollout.rewards, ends, active),
            terminations=rollout.terminations,
            ends=ends,
            log_probs=unknown,
            values=unknown,
            returns=unknown,
            action_masks=rollout.masks,
            active=rollout.active,
            actor_hidden=actor_hidden,
            critic_hidden=hidden,
        )
        log_probs, _ = self.log_probs_and_entropy(sequences)
        values, next_values, behind = self.present_values(sequences)
        _, returns = self.traced(sequences, values, next_values, torch.ones_like(values))
        if behind is not None:
            self.critic_hidden = forgotten(behind[-1], ends[-1])
        return sequences._replace(log_probs=log_probs, values=values, returns=returns)

    def log_probs_and_entropy(self, part: Sequences) -> tuple[Tensor, Tensor]:
        """Of the present policy, float32 `[T, N]` each."""
        past = None if part.actor_hidden is None else Past(part.actor_hidden, part.ends, part.acted)
        outputs = self.agent.outputs(part.inputs[:-1], past)
        return self.agent.policy.log_prob_and_entropy(outputs, part.actions, part.action_masks)

    def present_values(self, part: Sequences) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, values of the next states `[T, N]`, without a gradient, and the critic's states."""
        values, behind = self.values(part.inputs, part.ends, part.acted, part.critic_hidden)
        with torch.no_grad():
            next_values = torch.where(part.ends, self.final_values(part.final, behind), values[1:])
        return values[:-1], next_values, behind

    def traced(self, part: Sequences, values: Tensor, next_values: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor]:
        series = part.rewards, values, next_values, part.terminations, part.ends
        return v_trace(*series, self.config.gamma, self.config.gae_lambda, ratios, part.active)

    def update(self, batch: Sequences) -> dict[str, Tensor]:
        """Updates from parts of the rows. Metrics of losses are those of the last."""
        config = self.config
        for _ in range(config.update_epochs):
            for part in batch.parts(config.num_minibatches, self.generator, self.ranks):
                loss, metrics = self.losses(part)
                self.differentiate(loss)
                norm = self.descend()
        return self.of_all(metrics, batch.returns, batch.values, batch.acted) | {"losses/grad_norm": norm}

    def losses(self, part: Sequences) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of some rows, and its parts as metrics; with several processes they sum up to those of all."""
        log_probs, entropy = self.log_probs_and_entropy(part)
        values, next_values, _ = self.present_values(part)
        with torch.no_grad():
            log_ratio = zeroed(log_probs - part.log_probs, part.acted)  # before exp, which may be infinite
            ratios = log_ratio.exp()
            advantages, targets = self.traced(part, values, next_values, ratios)
            of_all = None if self.ranks.count == 1 else self.ranks.sum(moments(advantages, part.acted))
            samples = Samples(advantages, part.acted, of_all)
            weights = ratios.clamp(max=1) * self.normalised(advantages, samples)
        policy_loss = -samples.mean(weights * zeroed(log_probs, part.acted))
        value_loss = 0.5 * samples.mean((values - targets).square())
        loss, metrics = self.joined(policy_loss, value_loss, samples.mean(entropy))
        return loss, metrics | {
            "losses/approx_kl": samples.mean(ratios - 1 - log_ratio),
            "losses/clipfrac": samples.mean((ratios > 1).float()),
        }
