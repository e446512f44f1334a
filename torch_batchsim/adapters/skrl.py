"""skrl: its ``Wrapper`` over rows, and its ``MultiAgentEnvWrapper`` over worlds. All tensors stay on the device.

At the end of an episode skrl's next observation is the first of the next episode, as with its own wrappers of vector
environments: its trainers decide on it next. The last observation of the ended episode is in
``infos["final_obs"]``, whose rows are valid where ``infos["_final_obs"]``. An agent of skrl that bootstraps at time
limits (``time_limit_bootstrap=True``) takes the value of the first observation of the next episode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.spaces.utils import flatdim
from gymnasium.vector import VectorEnv

from ..declare.environment import Environment
from ..memory.inputs import number_tensor
from ..testing import random_actions
from ..vector.vector_env import TorchVectorEnv
from ..vector.vector_inputs import agent_names
from .episodes import stepped
from .records import ADAPTERS, Interface, Played
from .source import vector_env
from .stepping import Clipped, choices_from_zero, first_choice, flat, float_space

RECORD = ADAPTERS["skrl"]
RECORD.require()

from skrl import config  # noqa: E402
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper  # noqa: E402


class _Shared:
    """The parts that both environments have: how they are made, drawn and closed."""

    _env = _unwrapped = None  # while a copy is made: skrl looks up in them what an object does not have
    _interface: Interface

    def __init__(
        self,
        env: str | Environment | VectorEnv,
        num_envs: int | None = None,
        *,
        masked: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(vector_env(env, self._interface, options, num_envs))
        self._input = _Input(self._env, masked, self.num_envs)
        self._seed = config.torch.key if seed is None else seed
        self._last: tuple[Any, dict[str, Any]] | None = None

    @property
    def vector_env(self) -> TorchVectorEnv:
        """Without the wrappers that may be around it."""
        return self._unwrapped

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """The first observations; at later calls the present ones, because worlds begin anew by themselves."""
        self._unwrapped.check_open()
        if self._last is None:
            observations, infos = self._env.reset(seed=self._seed)
            self._last = self._given(observations, infos), infos
        return self._last

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """As the vector environment does; None without a ``render_mode``, because skrl's trainers ask in every step."""
        return None if self._env.render_mode is None else self._env.render()

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()


class SkrlEnv(_Shared, Wrapper):
    """A vector environment for skrl's agents, each row of it an environment.

    Args:
        env: an id, a declared environment, or a ``TorchVectorEnv`` with SAME_STEP, wrapped or not.
        num_envs: rows, where it is made here; ``num_worlds`` may be given instead.
        masked: put the action mask (of a MultiDiscrete its parts side by side) in front of the observation. The space
            is then ``Dict(action_mask=Box [n], observation=...)``, and a model takes the two apart by skrl's
            ``unflatten_tensorized_space(observation_space, inputs["observations"])``.
        seed: of the first reset; by default that of ``skrl.utils.set_seed``.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Attributes: ``vector_env``, the ``TorchVectorEnv``.

    Observations are float32 ``[rows, features]``, entries of a dict in the order of their keys; rewards float32, flags
    bool, all ``[rows, 1]``. They stay as they are until the step after the next one. Choices are counted from 0,
    whatever the ``start`` of the action space, and observations of choices or bits are numbers of a Box. Actions that
    are outside a Box are clipped. ``reset`` begins episodes at its first call only, as in skrl's own wrappers of vector
    environments.
    """

    _interface = RECORD.interface("SkrlEnv")

    @property
    def num_agents(self) -> int:
        """One: each row is an environment of its own."""
        return 1

    @property
    def observation_space(self) -> Space:
        """Of a row."""
        return self._input.observation_space

    @property
    def action_space(self) -> Space:
        """Of a row."""
        return self._input.action_space

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """``actions``: ``[rows, 1]`` integers, or ``[rows, k]``; tensors or arrays. Raises TypeError, ValueError."""
        return stepped(self._env, self._input.actions(self._input.tensor(actions, "actions")), self._delivered)

    def _delivered(
        self,
        observations: Any,
        rewards: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        infos: dict[str, Any],
    ) -> tuple[Any, ...]:
        seen = self._given(observations, infos)
        self._last = seen, infos
        return seen, rewards.view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), infos

    def state(self) -> None:
        """None: a row has no other state than its observation."""
        return

    def _given(self, observations: Any, infos: dict[str, Any]) -> torch.Tensor:
        return self._input.observations(observations, infos)


class SkrlMultiAgentEnv(_Shared, MultiAgentEnvWrapper):
    """A vector environment for skrl's multi-agents (IPPO, MAPPO), each world of it an environment.

    Arguments as those of ``SkrlEnv``. Agents are ``"agent_0"``, ``"agent_1"``, ...; actions, observations (float32
    ``[worlds, features]``), rewards (float32) and flags (bool, ``[worlds, 1]``) are dicts by agent, views of the rows
    without a copy where the environment's observations are float32. Infos are those of the rows: agent ``i`` is row
    ``world * num_agents + i``. ``state()`` has the observations of all agents of a
    world, float32 ``[worlds, agents * features]``, the same for each agent.
    """

    _interface = RECORD.interface("SkrlMultiAgentEnv")

    def __init__(
        self, env: str | Environment | VectorEnv, num_envs: int | None = None, *, masked: bool = False, **options: Any
    ) -> None:
        super().__init__(env, num_envs, masked=masked, **options)
        own = self._unwrapped
        self._state: torch.Tensor | None = None
        self._names = agent_names(own.num_agents)
        self._expected = frozenset(self._names)
        size = own.num_agents * flatdim(self._input.observation_space)
        self._state_space = Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def num_envs(self) -> int:
        """Worlds."""
        return self._unwrapped.num_worlds

    @property
    def num_agents(self) -> int:
        """Of a world."""
        return len(self._names)

    @property
    def agents(self) -> list[str]:
        """All, at any time; ``infos["active"]`` has those that take part, where some may not."""
        return self._names

    @property
    def possible_agents(self) -> list[str]:
        """All."""
        return self._names

    @property
    def state_spaces(self) -> dict[str, Space]:
        """By agent."""
        return dict.fromkeys(self._names, self._state_space)

    @property
    def observation_spaces(self) -> dict[str, Space]:
        """By agent."""
        return dict.fromkeys(self._names, self._input.observation_space)

    @property
    def action_spaces(self) -> dict[str, Space]:
        """By agent."""
        return dict.fromkeys(self._names, self._input.action_space)

    def step(
        self, actions: dict[str, torch.Tensor]
    ) -> tuple[
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, Any],
    ]:
        """``actions``: by agent, ``[worlds, 1]`` integers, or ``[worlds, k]``; tensors or arrays.

        Infos are those of the rows. Raises TypeError or ValueError for other actions, and for agents that are missing
        or unknown, before anything steps.
        """
        if not isinstance(actions, Mapping):
            raise TypeError(f"actions must be a dict with an entry for each agent, got {type(actions).__name__}")
        if actions.keys() != self._expected:
            given = ", ".join(map(str, actions)) or "no agent"
            raise ValueError(f"actions must be of {', '.join(self._names)}, got those of {given}")
        rows = torch.stack([self._input.tensor(actions[name], f"actions of {name}") for name in self._names], dim=1)
        return stepped(self._env, self._input.actions(rows.flatten(0, 1)), self._delivered)

    def _delivered(self, *results: Any) -> tuple[Any, ...]:
        observations = self._given(results[0], results[4])
        self._last = observations, results[4]
        return observations, *map(self._by_name, results[1:4]), results[4]

    def state(self) -> dict[str, torch.Tensor | None]:
        """The observations of all agents after the last ``reset`` or ``step``; None before."""
        self._unwrapped.check_open()
        return dict.fromkeys(self._names, self._state)

    def _given(self, observations: Any, infos: dict[str, Any]) -> dict[str, torch.Tensor]:
        by_world = self._unwrapped.by_world(self._input.observations(observations, infos))
        self._state = by_world.flatten(1)
        return dict(zip(self._names, by_world.unbind(1), strict=True))

    def _by_name(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        return dict(zip(self._names, self._unwrapped.by_world(rows).split(1, dim=1), strict=True))


class _Input:
    """Observations as skrl takes them, and actions as the environment does; skrl gives ``batch`` actions at once."""

    def __init__(self, env: VectorEnv, masked: bool, batch: int) -> None:
        own, space = env.unwrapped, env.single_action_space
        if masked and own.sim.program.info.get("action_mask") is None:
            raise ValueError(f"masked=True needs action masks, which {own.environment.name} lacks")
        self.masked, self.observation_space = masked, float_space(env.single_observation_space)
        if masked:
            mask = Box(0.0, 1.0, own.action_mask.shape[1:], np.float32)
            self.observation_space = Dict(action_mask=mask, observation=self.observation_space)
        self.action_space = choices_from_zero(space)
        self._first, self._device = first_choice(space, own.device), own.device
        own_shape = () if isinstance(space, Discrete) else space.shape
        self._given, self._also = torch.Size((batch, math.prod(own_shape))), torch.Size((batch, *own_shape))
        self._shape = env.action_space.shape
        self._in_a_row = len(self._shape) == 1  # torch flattens in half the time that it takes for another shape
        self._clipped = Clipped(own) if isinstance(space, Box) else None

    def observations(self, observations: Any, infos: dict[str, Any]) -> torch.Tensor:
        if self.masked:
            observations = {"action_mask": infos["action_mask"], "observation": observations}
        return flat(observations)

    def tensor(self, actions: Any, what: str) -> torch.Tensor:
        """``[batch, k]`` on the device. Raises TypeError, ValueError."""
        if not isinstance(actions, torch.Tensor):
            actions = number_tensor(actions, what, f"shape {list(self._given)}").to(self._device)
        if actions.shape == self._given:
            return actions
        if actions.shape != self._also:
            raise ValueError(f"{what} must have shape {list(self._given)}, got {list(actions.shape)}")
        return actions.reshape(self._given)

    def actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Of all rows, as the environment takes them."""
        actions = actions.flatten() if self._in_a_row else actions.reshape(self._shape)
        if self._first is not None:
            return actions + self._first
        return actions if self._clipped is None else self._clipped(actions)


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions."""
    env = SkrlEnv(environment, num_envs, seed=0, **options)
    env.reset()
    return Played(env, SkrlEnv.step, [actions.view(num_envs, -1) for actions in random_actions(env.vector_env)])
