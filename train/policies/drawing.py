"""Actions of a rollout, drawn by one call of ``csrc/host/acting.h`` a step, and their log-probabilities.

For small networks torch's operations of a step, some ten of them, take several times as long as their arithmetic.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from ..base.kernels import ADDRESS, NUMBER, can_compute, fields, library, threads
from .distributions import CategoricalPolicy
from .encoders import Observation
from .memory import Given, NetworkRecord
from .networks import ActorCritic


class PolicyRecord(ctypes.Structure):
    """The record of an agent's policy for C++."""

    _fields_ = [("count", NUMBER), *fields(ADDRESS, "sizes log_stds of_log_stds")]

    def __init__(self, agent: ActorCritic) -> None:
        policy, log_std = agent.policy, agent.log_std
        if isinstance(policy, CategoricalPolicy):
            self._sizes = (NUMBER * len(policy.sizes))(*policy.sizes)
            super().__init__(len(policy.sizes), ctypes.addressof(self._sizes))
        else:
            gradient = None if log_std.grad is None else log_std.grad.data_ptr()  # type: ignore[union-attr]
            super().__init__(policy.num_means, None, log_std.data_ptr(), gradient)  # type: ignore[union-attr]


class _Drawing(ctypes.Structure):
    """The record of a rollout for C++."""

    _fields_ = [*fields(ADDRESS, "actor policy"), ("rows", NUMBER), ("inputs", ADDRESS)]
    _fields_ += fields(NUMBER, "inputs_step inputs_row inputs_are_bytes")
    _fields_ += [("noise", ADDRESS), ("noise_step", NUMBER), *fields(ADDRESS, "masks actions weights")]
    _fields_ += fields(ADDRESS, "remembering state active")


class Drawing:
    """The actions of an agent for all rows of a rollout, step after step; parameters must not change meanwhile.

    obs `[T+1, N, ...]`, noise `[T, N, outputs]` of its policy, masks bool `[T+1, N, outputs]` or None; writes actions
    `[T, N, ...]`. With a memory each step also replaces the states `hidden` float32 `[N, state_size]` by those behind
    it, except where `active` (bool `[T+1, N]`, None: everywhere) is false. All keep their places.
    """

    def __init__(
        self,
        agent: ActorCritic,
        obs: Tensor,
        noise: Tensor,
        masks: Tensor | None,
        actions: Tensor,
        hidden: Tensor,
        active: Tensor | None,
    ) -> None:
        actor, inputs = agent.actor, agent.encoder.flat(obs)
        record = actor.last_layers.found()
        remembering: tuple[int | None, ...] = ()
        if actor.cell is not None:
            self._cell = Given(actor.cell)
            self._network = NetworkRecord(actor.perceptron.found(), record, self._cell.address)
            self._states = hidden, active
            places = (None if each is None else each.data_ptr() for each in self._states)
            remembering = ctypes.addressof(self._network), *places
        self._policy = PolicyRecord(agent)
        weights = torch.empty(library().weights_to_draw(record))  # type: ignore[union-attr]
        self._kept = inputs, noise, masks, actions, weights
        given, of_actions = (record, ctypes.addressof(self._policy)), (actions.data_ptr(), weights.data_ptr())
        seen = inputs.data_ptr(), inputs.stride(0), inputs.stride(1), inputs.dtype == torch.uint8
        noises, allowed = (noise.data_ptr(), noise.stride(0)), None if masks is None else masks.data_ptr()
        self._given = _Drawing(*given, inputs.shape[1], *seen, *noises, allowed, *of_actions, *remembering)
        self._address, self._threads = ctypes.addressof(self._given), threads()
        self._draw: Any = library().draw_actions  # type: ignore[union-attr]
        library().begin_drawing(self._address)  # type: ignore[union-attr]

    def draw(self, t: int) -> None:
        """Writes the actions of step t, which sees `obs[t]`."""
        self._draw(self._address, t, self._threads)


def drawing(
    agent: ActorCritic,
    obs: Observation,
    noise: Tensor,
    masks: Tensor | None,
    actions: Tensor,
    hidden: Tensor,
    active: Tensor | None,
) -> Drawing | None:
    """A `Drawing`, where C++ can take such an agent and such observations: on the CPU, for layers, also with a memory,
    that read one Box as it is; else None."""
    as_it_is = not isinstance(obs, dict) and agent.observations is None and agent.encoder.takes_as_it_is(obs.dtype)
    layers = agent.actor.is_perceptron or agent.actor.is_layers_and_memory
    if not as_it_is or not layers or not agent.actor.perceptron.count or not can_compute(obs):
        return None
    return Drawing(agent, obs, noise, masks, actions, hidden, active)


def log_probs(agent: ActorCritic, outputs: Tensor, actions: Tensor, masks: Tensor | None) -> Tensor:
    """Log-probabilities `[...]` of actions under the policy of an agent, whose outputs are `[..., n]`; no gradient."""
    if not can_compute(outputs):
        return agent.policy.log_prob_and_entropy(outputs, actions, masks)[0]
    kept = [None if each is None else each.contiguous() for each in (outputs, actions, masks)]
    of_outputs, *others = (None if each is None else each.data_ptr() for each in kept)
    found, policy = torch.empty(outputs.shape[:-1]), PolicyRecord(agent)
    given = ctypes.addressof(policy), found.numel(), of_outputs, outputs.shape[-1], *others, found.data_ptr()
    library().log_probs_of(*given)  # type: ignore[union-attr]
    return found
