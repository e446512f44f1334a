"""Actor and critic: the layers between an observation and an action, with a memory by option.

Without a memory everything here takes any leading shape, written `...`: `[N]` in a rollout, `[T, N]` over a whole one.
With one there are sequences `[T, N]`, and the hidden state `[N, state_size]` before their first step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ..base.active import zeroed
from ..base.config import Config
from ..base.kernels import can_compute
from ..base.ranks import ALONE, Ranks
from .distributions import make_policy
from .encoders import Encoder, Observation, Reading, Trunk, linear, readings
from .memory import Cell, Past
from .moments import Moments
from .perceptron import Perceptron

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Network(nn.Module):
    """One of the two networks: the trunk, if parts of the observation are `read` in ways of their own, hidden layers, a
    memory if there is one, and a linear layer at the end.

    `gain` is that of the last layer; layers are orthogonal at first.
    """

    def __init__(
        self,
        encoder: Encoder,
        read: Mapping[str, Reading],
        outputs: int,
        gain: float,
        config: Config,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.trunk = Trunk(encoder, read, generator) if read else None
        size = self.trunk.size if self.trunk else encoder.size
        layers: list[nn.Module] = []
        for width in config.hidden_sizes:
            layers += [linear(size, width, math.sqrt(2), generator), ACTIVATIONS[config.activation]()]
            size = width
        self.body = nn.Sequential(*layers)
        self.cell = None
        if config.memory != "none":
            self.cell = Cell(config.memory, size, config.memory_size, generator)
            size = config.memory_size
        self.head = linear(size, outputs, gain, generator)
        self.perceptron = Perceptron(self.body if self.cell else [*self.body, self.head])
        self.last = Perceptron([self.head])

    @property
    def is_perceptron(self) -> bool:
        """Whether it has layers only."""
        return self.trunk is None and self.cell is None

    @property
    def last_layers(self) -> Perceptron:
        """Those behind the memory, or all without one."""
        return self.perceptron if self.cell is None else self.last

    @property
    def is_layers_and_memory(self) -> bool:
        """Whether it has hidden layers, a memory and the last layer only."""
        return self.trunk is None and self.cell is not None and self.perceptron.count > 0

    def forward(self, inputs: Tensor) -> Tensor:
        """`[..., encoder.size]` to `[..., outputs]`; with a memory to the inputs of the memory."""
        return self.perceptron(inputs if self.trunk is None else self.trunk(inputs))

    def step(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step of rows `[..., encoder.size]` with states `[..., state_size]`: outputs, and the states behind it."""
        hidden = self.cell.step(self(inputs), hidden)
        return self.last(hidden[..., : self.cell.size]), hidden

    def sequence(self, inputs: Tensor, past: Past) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Steps `[T, N, encoder.size]`: outputs `[T, N, outputs]`, and the parts of the states behind each step, as
        they were before an end makes them zero."""
        parts = self.cell.sequence(self(inputs), past)
        return self.last(parts[0]), parts


class ActorCritic(nn.Module):
    """Two networks that share nothing, the encoder in front of them and the policy behind the actor.

    `encode` turns observations into float32 `[..., size]`. Of these `outputs` computes the parameters of the policy,
    and `value` the value of the state `[...]`. With a central critic, the parts of `critic_space` stand behind the
    observation in these vectors: the actor reads the first part only.

    First values are drawn on the CPU, so that a seed means the
    same networks on every device.

    Raises ValueError where the settings do not fit the spaces.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        config: Config,
        device: torch.device,
        critic_space: spaces.Dict | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.beside = Encoder(observation_space), None
        if config.central_critic:
            if critic_space is None:
                raise ValueError(
                    "central_critic is on, but the environment names nothing for a critic: its class attribute critic "
                    "is empty; HideSeek fills it with the option critic=True"
                )
            self.beside = Encoder(critic_space)
        whole = Encoder(observation_space, critic_space) if self.beside else self.encoder  # that the critic reads
        read = readings(config.encoders, whole)
        self.policy = make_policy(action_space, device)
        self.observations = None
        if config.norm_obs:
            self.observations = Moments(whole.size)
            # Entities, pictures, integers and masks stay unscaled.
            self.register_buffer("scaled", _taken_as_they_are(whole, read), persistent=False)
        generator = torch.Generator().manual_seed(config.seed)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the bits of orthogonal matrices depend on it
        try:
            self._draw(config, whole, read, generator)
        finally:
            torch.set_num_threads(threads)
        log_stds = self.policy.num_log_stds
        self.log_std = nn.Parameter(torch.zeros(log_stds)) if log_stds else None
        taken = self.beside is None and self.observations is None and self.encoder.is_bytes
        self.takes_bytes = taken and self.actor.trunk is None and self.critic.trunk is None
        self.to(device)

    def _draw(
        self, config: Config, whole: Encoder, read: Mapping[str, Reading], generator: torch.Generator
    ) -> None:
        """The two networks."""
        # A last gain of 0.01 makes the first policy nearly uniform, so that it explores.
        of_the_actor = (text for text in config.encoders if text.rpartition("=")[0] in self.encoder.boxes)
        own = readings(of_the_actor, self.encoder)
        self.actor = Network(self.encoder, own, self.policy.num_means, 0.01, config, generator)
        self.critic = Network(whole, read, 1, 1.0, config, generator)

    @property
    def state_size(self) -> int:
        """Numbers that each of the two networks remembers of a row; 0 without a memory."""
        return 0 if self.actor.cell is None else self.actor.cell.state_size

    def hidden(self, rows: int) -> Tensor:
        """States at the beginning of episodes, zeros float32 `[rows, state_size]`."""
        return torch.zeros(rows, self.state_size, device=self.actor.head.weight.device)

    def encode(self, observation: Observation, critic_obs: Observation | None = None) -> Tensor:
        """The input of the networks, float32 `[..., size]`; without `critic_obs` a central critic cannot read it.

        Where the first layers of both take bytes, it is uint8, a view: a quarter of the memory to go through.
        """
        if self.takes_bytes and self.actor.perceptron.count and can_compute(observation):
            return self.encoder.flat(observation)
        inputs = self._vector(observation, critic_obs)
        if self.observations is None:
            return inputs
        return torch.where(self.scaled[: inputs.shape[-1]], self.observations.normalised(inputs), inputs)

    def note(
        self, observation: Observation, critic_obs: Observation | None, active: Tensor | None, ranks: Ranks = ALONE
    ) -> None:
        """Adds observations of active rows, of all processes, to the moments that normalise the next ones."""
        if self.observations is not None:
            self.observations.add(self._vector(observation, critic_obs), active, ranks)

    def _vector(self, observation: Observation, critic_obs: Observation | None) -> Tensor:
        inputs = self.encoder(observation)
        return inputs if critic_obs is None else torch.cat([inputs, self.beside(critic_obs)], dim=-1)

    def seen(self, inputs: Tensor) -> Tensor:
        """The part of `[..., size]` that the actor reads."""
        return inputs if self.beside is None else inputs[..., : self.encoder.size]

    def outputs(self, inputs: Tensor, past: Past | None = None) -> Tensor:
        """For the policy; `past` where there is a memory, then `[T, N, size]` to `[T, N, outputs]`."""
        seen = self.seen(inputs)
        return self._with_std(self.actor(seen) if past is None else self.actor.sequence(seen, past)[0])

    def step(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """For the policy, in one step of rows with the actor's states before it; and the states behind it."""
        outputs, hidden = self.actor.step(self.seen(inputs), hidden)
        return self._with_std(outputs), hidden

    def value(self, inputs: Tensor, past: Past | None = None) -> Tensor:
        """`[..., size]` to `[...]`; `past` where there is a memory."""
        values = self.critic(inputs) if past is None else self.critic.sequence(inputs, past)[0]
        return values.squeeze(-1)

    def _with_std(self, outputs: Tensor) -> Tensor:
        if self.log_std is None:
            return outputs
        return torch.cat([outputs, self.log_std.expand_as(outputs)], dim=-1)


def _taken_as_they_are(encoder: Encoder, read: Mapping[str, Reading]) -> Tensor:
    """Which numbers of `[size]` belong to parts that are read in no way of their own."""
    special = {name for name, reading in read.items() if reading.kind != "flat"} | {each.mask for each in read.values()}
    return torch.cat([torch.full((size,), name not in special) for name, size in encoder.sizes.items()])


class Player:
    """An agent that acts for rows step after step, with its memory of their episodes."""

    def __init__(self, agent: ActorCritic, rows: int) -> None:
        self.agent, self.remembers = agent, agent.state_size > 0
        self.hidden = agent.hidden(rows)
        self.before: Tensor | None = None
        """Of a rollout: the states before its first step, float32 `[N, state_size]`; None without a memory."""

    def begin(self) -> None:
        """Before a rollout."""
        if self.remembers:
            self.before, self.hidden = self.hidden, self.hidden.clone()  # which steps may write

    def outputs(self, observation: Observation, active: Tensor | None) -> Tensor:
        """For the policy, `[N, outputs]`. `active` bool `[N]`: rows that do not act keep their state."""
        inputs = self.agent.encode(observation)
        if not self.remembers:
            return self.agent.outputs(inputs)
        outputs, behind = self.agent.step(zeroed(inputs, active), self.hidden)
        self.hidden = behind if active is None else torch.where(active.unsqueeze(-1), behind, self.hidden)
        return outputs

    def ended(self, ends: Tensor) -> None:
        """Behind a step: which rows have ended an episode, bool `[N]`."""
        if self.remembers:
            self.hidden.masked_fill_(ends.unsqueeze(-1), 0.0)

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.hidden = torch.zeros_like(self.hidden)
