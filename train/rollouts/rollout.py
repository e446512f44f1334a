"""Where a rollout lives: T steps of N rows (agents of all worlds together)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..policies.encoders import Observation


def map_leaves(function: Callable[[Tensor], Tensor], observation: Observation) -> Observation:
    """Applies a function to an observation tensor, or to every tensor of a dict observation."""
    if isinstance(observation, dict):
        return {name: function(leaf) for name, leaf in observation.items()}
    return function(observation)


class Storage:
    """One rollout, time first, on the environment's device.

    obs `[T+1, N, ...]` (slot T is where the next rollout begins), final_obs `[T, N, ...]` (valid where an
    episode ended), actions `[T, N, ...]`, rewards float32 and ends of episodes bool `[T, N]`. If the
    environment restricts actions, action_masks bool `[T+1, N, n]`, and if agents come and go, active bool
    `[T+1, N]`; else None. For a central critic, critic_obs and final_critic_obs, as obs and final_obs; else None.
    """

    def __init__(
        self,
        num_steps: int,
        obs: Observation,
        actions: Tensor,
        action_mask: Tensor | None = None,
        active: Tensor | None = None,
        critic_obs: dict[str, Tensor] | None = None,
    ) -> None:
        def slots(count: int, like: Tensor) -> Tensor:
            return like.new_zeros(count, *like.shape)

        rows = actions.shape[0]
        self.num_steps = num_steps
        self.obs = map_leaves(lambda leaf: slots(num_steps + 1, leaf), obs)
        self.final_obs = map_leaves(lambda leaf: slots(num_steps, leaf), obs)
        self.critic_obs = self.final_critic_obs = None
        if critic_obs is not None:
            self.critic_obs = map_leaves(lambda leaf: slots(num_steps + 1, leaf), critic_obs)
            self.final_critic_obs = map_leaves(lambda leaf: slots(num_steps, leaf), critic_obs)
        self.actions = slots(num_steps, actions)
        self.rewards = torch.zeros(num_steps, rows, device=actions.device)
        self.terminations = torch.zeros(num_steps, rows, dtype=torch.bool, device=actions.device)
        self.truncations = torch.zeros_like(self.terminations)
        self.action_masks = None
        if action_mask is not None:  # all is allowed in steps that a fault keeps from being taken
            self.action_masks = slots(num_steps + 1, action_mask).fill_(True)
        self.active = None if active is None else slots(num_steps + 1, active)
        # Observations before step t, sliced once: slicing takes longer than a small environment's step.
        self.seen = [map_leaves(lambda leaf, t=t: leaf[t], self.obs) for t in range(num_steps)]

    @property
    def slots(self) -> dict[str, Any]:
        """Where the results of step t go, at index t, under the names of `env.bind_slots`."""
        slots: dict[str, Any] = {
            "observations": map_leaves(lambda leaf: leaf[1:], self.obs),
            "rewards": self.rewards,
            "terminations": self.terminations,
            "truncations": self.truncations,
            "final_obs": self.final_obs,
        }
        if self.action_masks is not None:
            slots["action_mask"] = self.action_masks[1:]
        if self.active is not None:
            slots["active"] = self.active[1:]
        return slots | {name: leaf[1:] for name, leaf in (self.critic_obs or {}).items()}

    def begin(
        self, obs: Observation, action_mask: Tensor | None, active: Tensor | None, infos: Mapping[str, Any]
    ) -> None:
        """Begins a rollout with the present observation."""
        if isinstance(obs, dict):
            for name, leaf in obs.items():
                self.obs[name][0].copy_(leaf)
        else:
            self.obs[0].copy_(obs)
        for name, leaf in (self.critic_obs or {}).items():
            leaf[0].copy_(infos[name])
        if self.action_masks is not None:
            self.action_masks[0].copy_(action_mask)
        if self.active is not None:
            self.active[0].copy_(active)

    def note_ends(self, t: int, infos: Mapping[str, Any]) -> None:
        """Keeps the critic's part where step t ended episodes: the rest is written into the slots."""
        for name, leaf in (self.final_critic_obs or {}).items():
            leaf[t].copy_(infos["final_info"][name])

    def of(self, rows: Tensor | None) -> Rollout:
        """The part of some rows, int64 `[n]`, a copy; all of it, without one, where `rows` is None."""

        def part(tensor: Tensor) -> Tensor:
            return tensor if rows is None else tensor[:, rows]

        def optional(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else part(tensor)

        return Rollout(
            map_leaves(part, self.obs),
            map_leaves(part, self.final_obs),
            part(self.actions),
            part(self.rewards),
            part(self.terminations),
            part(self.truncations),
            optional(self.action_masks),
            optional(self.active),
            None if self.critic_obs is None else map_leaves(part, self.critic_obs),
            None if self.final_critic_obs is None else map_leaves(part, self.final_critic_obs),
        )


class Rollout(NamedTuple):
    """The part of a `Storage` that one policy learns from: the rows that it acted for."""

    obs: Observation
    final_obs: Observation
    actions: Tensor
    rewards: Tensor
    terminations: Tensor
    truncations: Tensor
    action_masks: Tensor | None
    active: Tensor | None
    critic_obs: Observation | None = None
    final_critic_obs: Observation | None = None

    @property
    def ends(self) -> Tensor:
        """Which steps ended an episode, bool `[T, N]`."""
        return self.terminations | self.truncations

    @property
    def acted(self) -> Tensor | None:
        """Which rows acted in each step, bool `[T, N]`; None for all."""
        return None if self.active is None else self.active[:-1]

    @property
    def masks(self) -> Tensor | None:
        """The action masks of the steps, bool `[T, N, n]`; all is allowed where a row does not act."""
        if self.action_masks is None or self.acted is None:
            return None if self.action_masks is None else self.action_masks[:-1]
        return self.action_masks[:-1] | ~self.acted.unsqueeze(-1)
