"""The arithmetic of updates in one call each: the gradient of PPO's loss of a minibatch, advantages, and Adam."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_batchsim.base.shared import StepResult

from ..base.kernels import ADDRESS, NUMBER, advantages_kernel, fields, library, threads
from ..base.neighbours import Neighbours, check
from ..policies.drawing import PolicyRecord
from ..policies.memory import Given, NetworkRecord
from ..policies.networks import ActorCritic, Network
from ..policies.perceptron import Perceptron

# ---- PPO's loss ------------------------------------------------------------------------------------------


SHOWN = tuple(f"losses/{name}" for name in "policy_loss value_loss entropy old_approx_kl approx_kl clipfrac".split())
SHOWN += ("losses/grad_norm",)
"""Metrics of a pass over a batch, as C++ has them."""


class LossSettings(ctypes.Structure):
    """The settings of PPO's loss."""

    _fields_ = [*fields(ctypes.c_float, "clip entropy_weight value_weight"), ("normalise", ctypes.c_int32)]


class Minibatches:
    """Those of a batch, `ppo.Batch`, for an agent whose networks are layers: of samples, or of rows where they have a
    memory. Of samples nothing is copied. Parameters must keep their places."""

    def __init__(self, batch: Any, agent: ActorCritic) -> None:
        self._batch, self._policy, networks = batch, PolicyRecord(agent), (agent.actor, agent.critic)
        inputs = batch.inputs.reshape(-1, batch.inputs.shape[-1])
        inputs = inputs if inputs.stride(1) == 1 else inputs.contiguous()
        of_samples = batch.actions, batch.log_probs, batch.advantages, batch.returns
        of_rows = batch.ends, batch.actor_hidden, batch.critic_hidden
        others = *of_samples, batch.action_masks, batch.active, *of_rows
        self._kept = [inputs, *(None if each is None else each.contiguous() for each in others)]
        places = [None if each is None else each.data_ptr() for each in self._kept]
        seen, of_each, of_rows = (places[0], inputs.stride(0), inputs.dtype == torch.uint8), places[1:7], places[7:]
        shape = (1, 0) if batch.ends is None else batch.ends.shape
        self._given = _Minibatch(None, 0, *seen, *of_each, *shape, *of_rows)
        self._networks = [_Learning(each) for each in networks]

    def samples(self, order: Tensor) -> Tensor:
        """The samples of a minibatch of the samples, or rows, `order`: int64 `[B]`, step after step."""
        if self._batch.ends is None:
            return order
        steps, rows = self._batch.ends.shape
        return (torch.arange(0, steps * rows, rows).unsqueeze(-1) + order).flatten()

    def active(self, order: Tensor) -> Tensor | None:
        """Which of these are active, bool `[B]`."""
        return None if self._batch.active is None else self._batch.active.flatten()[self.samples(order)]

    def descend(
        self,
        order: Tensor,
        sizes: Sequence[int],
        settings: LossSettings,
        adam: Adam,
        moments: Tensor | None,
        neighbours: Neighbours | None,
        passes: int,
    ) -> Tensor:
        """For each minibatch, so many samples, or rows, of the `order`, a gradient as by `gradient` and a step of the
        optimiser. Of several processes gradients are summed over all, and `moments` are the `ranks.moments`.

        Returns the numbers `SHOWN` of the last minibatch of each of `passes`, float32 `[passes, 7]`; but for the
        gradient's length this process's parts of them. Raises RuntimeError where a process has ended or timed out.
        """
        self._given.order = order.data_ptr()
        shown, of_each = torch.empty(passes, len(SHOWN)), (NUMBER * len(sizes))(*sizes)
        of_all = None if moments is None else moments.data_ptr(), None if neighbours is None else neighbours.address
        record = _Passes(passes, len(sizes) // passes, ctypes.addressof(of_each), *of_all, *adam.places)
        given = (ctypes.addressof(each) for each in (self._policy, self._given, settings, record, adam.settings))
        compute = library().ppo_passes  # type: ignore[union-attr]
        check(compute(*(each.address for each in self._networks), *given, shown.data_ptr(), threads()))
        return shown

    def gradient(
        self, order: Tensor, settings: LossSettings, moments: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """PPO's loss of the samples, or rows, `order`, as `PPO.losses` has it; of several processes this one's part,
        given the `ranks.moments` of all advantages of the minibatch.

        Writes the gradients of all parameters, over the present ones. Returns the mean losses of policy and values
        and the entropy, float32 `[3]`; and log(ratio) `[B]`. The actor reads the first of the inputs.
        """
        self._given.order, self._given.samples = order.data_ptr(), len(order)
        self._given.moments = None if moments is None else moments.data_ptr()
        log_ratios, means = torch.empty(len(order) * self._given.steps), torch.empty(3)
        given = (ctypes.addressof(each) for each in (self._policy, self._given, settings))
        places = log_ratios.data_ptr(), means.data_ptr()
        compute = library().ppo_gradient  # type: ignore[union-attr]
        compute(*(each.address for each in self._networks), *given, *places, threads())
        return means, log_ratios


def _with_gradients(perceptron: Perceptron) -> int:
    """The address of its record, gradients in those of the parameters."""
    return perceptron.found([part.grad for part in perceptron.parameters])


class _Learning:
    """A network as C++ takes it, gradients in those of the parameters."""

    def __init__(self, network: Network) -> None:
        layers: list[int | None] = [_with_gradients(network.perceptron)]
        if network.cell is not None:
            self._cell = Given(network.cell, [part.grad for part in network.cell.parts])
            layers += _with_gradients(network.last), self._cell.address
        self._record = NetworkRecord(*layers)
        self.address = ctypes.addressof(self._record)


class _Passes(ctypes.Structure):
    """The record of passes over a batch for C++."""

    _fields_ = [*fields(NUMBER, "passes minibatches"), *fields(ADDRESS, "sizes moments processes"), ("count", NUMBER)]
    _fields_ += fields(ADDRESS, "parameters gradients means squares steps")


class _Minibatch(ctypes.Structure):
    """The record of a minibatch for C++."""

    _fields_ = [("order", ADDRESS), ("samples", NUMBER), ("inputs", ADDRESS)]
    _fields_ += fields(NUMBER, "inputs_row inputs_are_bytes")
    _fields_ += fields(ADDRESS, "actions log_probs advantages returns mask active") + fields(NUMBER, "steps rows")
    _fields_ += fields(ADDRESS, "ends actor_state critic_state moments")


# ---- advantages --------------------------------------------------------------------------------------------


class _AdvantageSeries(ctypes.Structure):
    """The record of a rollout for C++."""

    _fields_ = fields(NUMBER, "steps rows")
    _fields_ += fields(ADDRESS, "rewards values next_values terminations truncations advantages")
    _fields_ += fields(ctypes.c_float, "gamma decay")


def advantages_at_once(series: Sequence[Tensor], gamma: float, gae_lambda: float) -> Tensor | None:
    """`generalised_advantages` of rewards, values, next values, terminations and truncations `[T, N]`, in one
    pass, or one kernel; None where it has to be computed by torch."""
    device = series[0].device
    floats, flags = series[:3], series[3:]
    plain = all(each.dtype == torch.float32 for each in floats) and all(each.dtype == torch.bool for each in flags)
    if not plain or any(each.device != device or each.requires_grad for each in series):
        return None
    compute = advantages_kernel(device.type) if device.type in ("cpu", "cuda") else None
    if compute is None or torch.compiler.is_compiling():
        return None
    found = torch.empty(series[0].shape, device=device)
    dense = [each.contiguous() for each in series]
    places = (each.data_ptr() for each in (*dense, found))
    given = _AdvantageSeries(*found.shape, *places, gamma, gamma * gae_lambda)
    if device.type == "cpu":
        compute(ctypes.addressof(given))
        return found
    with torch.cuda.device(device):
        result = compute(ctypes.addressof(given), torch.cuda.current_stream().cuda_stream)
    if result != 0:
        raise torch.cuda.CudaError(StepResult.cuda_error - result)
    return found


# ---- the optimiser ---------------------------------------------------------------------------------------


class _AdamSettings(ctypes.Structure):
    """The settings of a step of Adam."""

    _fields_ = fields(ctypes.c_float, "learning_rate beta1 beta2 epsilon longest")


class Adam:
    """What a step of an optimiser reads and writes: its settings and its state for a vector of parameters, whose
    gradient it cuts to a length."""

    def __init__(self, optimizer: torch.optim.Adam, parameters: Tensor, longest: float) -> None:
        state, (group,) = optimizer.state[parameters], optimizer.param_groups
        if not state:  # as torch's own first step makes it
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.settings = _AdamSettings(group["lr"], *group["betas"], group["eps"], longest)
        vectors = parameters, parameters.grad, state["exp_avg"], state["exp_avg_sq"], state["step"]
        self.places = parameters.numel(), *(each.data_ptr() for each in vectors)

    def step(self) -> Tensor:
        """A step; returns the length of the gradient before, float32 `[]`."""
        length = torch.empty(())
        behind = ctypes.addressof(self.settings), length.data_ptr()
        library().adam_step(*self.places, *behind)  # type: ignore[union-attr]
        return length
