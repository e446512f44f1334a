"""The common part of all algorithms: one policy's networks, their optimiser, and the state between rollouts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..base.config import Config
from ..base.kernels import can_compute, prepare
from ..base.ranks import ALONE, Ranks
from ..policies.memory import Past, forgotten
from ..policies.moments import RewardScale
from ..policies.networks import ActorCritic
from .updates import Adam


def flatten_parameters(module: nn.Module) -> nn.Parameter:
    """Moves all parameters, and their gradients, into one vector each; the module keeps views of them.

    Clipping, zeroing and Adam then take a handful of operations instead of a handful for each layer, a good
    part of the time of an update where networks are small.
    """
    parameters = list(module.parameters())
    flat = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    pieces = zip(parameters, flat.detach().split(sizes), flat.grad.split(sizes), strict=True)
    for parameter, values, gradient in pieces:
        parameter.data = values.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return flat


class Learner:
    """The updates of one policy.

    An algorithm defines its `settings`, `estimate(rollout, actor_hidden)`, which makes a batch (with `inputs` and
    `returns`) of a rollout, and `update(batch)`, which learns from it and returns metrics: tensors `[]` by name.

    Nothing in it waits for the device, except, if set, for PPO's `target_kl`.
    """

    settings: ClassVar[type[Config]]
    estimate: Callable[..., Any]
    update: Callable[..., dict[str, Tensor]]

    @classmethod
    def require_fit(cls, config: Any, rows: int, team: int | None = None) -> None:
        """Raises ValueError where the rollout of so many rows, of one team or of all, does not suit the settings."""

    def __init__(
        self, agent: ActorCritic, rows: int, config: Config, generator: torch.Generator, ranks: Ranks = ALONE
    ) -> None:
        self.agent, self.rows, self.config, self.generator, self.ranks = agent, rows, config, generator, ranks
        self.parameters = flatten_parameters(agent)
        prepare(self.parameters.device)
        self.optimizer = torch.optim.Adam([self.parameters], lr=config.learning_rate, eps=1e-5, fused=True)
        self.critic_hidden = agent.hidden(rows)  # before the next rollout; the actor's is its player's
        device = self.parameters.device
        self.reward_scale = RewardScale(rows, config.gamma, device, ranks) if config.norm_reward else None
        self.begin(1.0)

    def begin(self, remaining: float) -> None:
        """Before an iteration; `remaining` is the part of the training that is left, 1 at first."""
        if self.config.anneal_lr:
            self.optimizer.param_groups[0]["lr"] = remaining * self.config.learning_rate

    def values(
        self, inputs: Tensor, ends: Tensor, active: Tensor | None, hidden: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Values `[T+1, N]` of `[T+1, N, size]`; with a memory, of which the states before the first step are given,
        also those behind each step `[T, N, state_size]`, as they were before an end makes them zero."""
        agent = self.agent
        if not agent.state_size:
            return agent.value(inputs), None
        values, parts = agent.critic.sequence(inputs[:-1], Past(hidden, ends, active))
        behind = torch.cat(parts, dim=-1)
        last, _ = agent.critic.step(inputs[-1], forgotten(behind[-1], ends[-1]))
        return torch.cat([values, last.unsqueeze(0)]).squeeze(-1), behind

    def final_values(self, final: Tensor, behind: Tensor | None) -> Tensor:
        """Values `[T, N]` of final observations `[T, N, size]`, given the critic's states behind each step."""
        if behind is None:
            return self.agent.value(final)
        return self.agent.critic.step(final, behind)[0].squeeze(-1)

    def rewards(self, rewards: Tensor, ends: Tensor, active: Tensor | None) -> Tensor:
        """Rewards `[T, N]` as they are learned from."""
        return rewards if self.reward_scale is None else self.reward_scale.scaled(rewards, ends, active)

    def differentiate(self, loss: Tensor) -> None:
        """Writes the gradient of a loss, of this process's part of it."""
        self.parameters.grad.zero_()
        loss.backward()

    def descend(self) -> Tensor:
        """One step of the optimiser; returns the length of the gradient before it was cut. The gradient is the sum of
        those of all processes, each of its part of the loss."""
        self.ranks.sum(self.parameters.grad)
        if can_compute(self.parameters):
            return Adam(self.optimizer, self.parameters, self.config.max_grad_norm).step()
        norm = self.parameters.grad.norm()
        self.parameters.grad.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1))
        self.optimizer.step()
        return norm

    # ---- stopping and going on ----

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.critic_hidden.zero_()
        if self.reward_scale is not None:
            self.reward_scale.forget()

    def state_dict(self) -> dict[str, Any]:
        """The state of the next updates, except for the generator."""
        return {
            "agent": self.agent.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "critic_hidden": self.critic_hidden,
            "reward_scale": {} if self.reward_scale is None else self.reward_scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.optimizer.load_state_dict(deepcopy(state["optimizer"]))  # torch would share the tensors
        self.critic_hidden = state["critic_hidden"].to(self.critic_hidden.device, copy=True)
        if self.reward_scale is not None:
            self.reward_scale.load_state_dict(state["reward_scale"])
