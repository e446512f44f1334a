"""skrl: its ``Wrapper`` over rows, and its ``MultiAgentEnvWrapper`` over worlds. All tensors stay on the device.

What skrl calls the next observation is, at the end of an episode, the first of the next one, as with its own wrappers
of vector environments: its trainers decide on it next. The last observation of the ended episode is in
``infos["final_obs"]``, whose rows are valid where ``infos["_final_obs"]``. So an agent of skrl that bootstraps at time
limits (``time_limit_bootstrap=True``) takes the value of the first observation of the next episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.spaces.utils import flatdim
from gymnasium.vector import VectorEnv

from ..extras import needed
from .stepping import Clipped, Places, flat, float_space, is_flat, vector_env

needed("skrl", extra="skrl")

from skrl import config  # noqa: E402
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper  # noqa: E402


class SkrlEnv(Wrapper):
    """A vector environment for skrl's agents, each row of it an environment.

    Args:
        environment: an id, or a ``TorchVectorEnv`` with SAME_STEP.
        masked: put the action mask in front of the observation. The space is then
            ``Dict(action_mask=Box [n], observation=...)``, and a model takes the two apart by skrl's
            ``unflatten_tensorized_space(observation_space, inputs["observations"])``.
        seed: of the first reset; by default that of ``skrl.utils.set_seed``.
        options: for ``gymnasium.make_vec``, where an id is given.

    Observations are float32 ``[rows, features]``, entries of a dict in the order of their keys; rewards float32, flags
    bool, all ``[rows, 1]``. They stay as they are until the step after the next one. Actions that are outside a Box are
    clipped. ``reset`` begins episodes at its first call only, as in skrl's own wrappers of vector environments.
    """

    def __init__(
        self, environment: str | VectorEnv, *, masked: bool = False, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(vector_env(environment, "SkrlEnv", options))
        self._input = _Input(self._env, masked)
        self._places = Places(self._viewed)
        self._seed = config.torch.key if seed is None else seed
        self._last: tuple[torch.Tensor, dict[str, Any]] | None = None

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
        return self._env.single_action_space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """The first observations; at later calls the present ones, for worlds begin anew by themselves."""
        if self._last is None:
            observations, infos = self._env.reset(seed=self._seed)
            self._last = self._input.observations(observations, infos), infos
        return self._last

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """``actions``: ``[rows, 1]`` integers, or ``[rows, k]``."""
        results = self._env.step(self._input.actions(actions))
        infos = results[4]
        observations, *others = self._places.of(*results[:4])
        if observations is None:
            observations = self._input.observations(results[0], infos)
        self._last = observations, infos
        return observations, *others, infos

    def state(self) -> None:
        """None: a row has no other state than its observation."""
        return

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """As the vector environment does; None without a ``render_mode``, for skrl's trainers ask in every step."""
        return None if self._env.render_mode is None else self._env.render()

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()

    def _viewed(self, observations: Any, *others: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        kept = flat(observations) if is_flat(observations) and not self._input.masked else None
        return kept, *(tensor.view(-1, 1) for tensor in others)


class SkrlMultiAgentEnv(MultiAgentEnvWrapper):
    """A vector environment for skrl's multi-agents (IPPO, MAPPO), each world of it an environment.

    Arguments as those of ``SkrlEnv``. Agents are ``"agent_0"``, ``"agent_1"``, ...; all that is given and taken is a
    dict by agent: observations float32 ``[worlds, features]``, rewards float32 and flags bool ``[worlds, 1]``, views of
    the rows without a copy where the environment's observations are float32. ``state()`` is what all agents of a world
    observe, float32 ``[worlds, agents * features]``, the same for each.
    """

    def __init__(
        self, environment: str | VectorEnv, *, masked: bool = False, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(vector_env(environment, "SkrlMultiAgentEnv", options))
        self._input = _Input(self._env, masked)
        self._places = Places(self._viewed)
        self._seed = config.torch.key if seed is None else seed
        self._last: tuple[dict[str, torch.Tensor], dict[str, Any]] | None = None
        self._state: torch.Tensor | None = None
        own = self._unwrapped
        self._names = [f"agent_{agent}" for agent in range(own.num_agents)]
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
        """All, at any time: ``infos["active"]`` tells which of them take part, where some may not."""
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
        return dict.fromkeys(self._names, self._env.single_action_space)

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The first observations; at later calls the present ones, for worlds begin anew by themselves."""
        if self._last is None:
            observations, infos = self._env.reset(seed=self._seed)
            self._last = self._by_agent(self._input.observations(observations, infos)), infos
        return self._last

    def step(
        self, actions: dict[str, torch.Tensor]
    ) -> tuple[
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, torch.Tensor],
        dict[str, Any],
    ]:
        """``actions``: by agent, ``[worlds, 1]`` integers, or ``[worlds, k]``. Infos are those of the rows."""
        rows = torch.stack([actions[name] for name in self._names], dim=1)
        results = self._env.step(self._input.actions(rows.flatten(0, 1)))
        observations = self._by_agent(self._input.observations(results[0], results[4]))
        self._last = observations, results[4]
        return observations, *(dict(part) for part in self._places.of(*results[:4])), results[4]

    def state(self) -> dict[str, torch.Tensor | None]:
        """What all agents observe, after the last ``reset`` or ``step``; None before."""
        return dict.fromkeys(self._names, self._state)

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """As the vector environment does; None without a ``render_mode``, for skrl's trainers ask in every step."""
        return None if self._env.render_mode is None else self._env.render()

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()

    def _by_agent(self, observations: torch.Tensor) -> dict[str, torch.Tensor]:
        by_world = self._unwrapped.by_world(observations)
        self._state = by_world.flatten(1)
        return dict(zip(self._names, by_world.unbind(1), strict=True))

    def _viewed(self, observations: Any, *others: torch.Tensor) -> tuple[dict[str, torch.Tensor], ...]:
        columns = (self._unwrapped.by_world(tensor).split(1, dim=1) for tensor in others)
        return tuple(dict(zip(self._names, parts, strict=True)) for parts in columns)


class _Input:
    """Observations as skrl wants them, and actions as the environment does."""

    def __init__(self, env: VectorEnv, masked: bool) -> None:
        own, space = env.unwrapped, env.single_action_space
        if masked and own.sim.program.info.get("action_mask") is None:
            raise ValueError(f"masked=True needs an environment with action masks; {own.environment.name} has none")
        self.masked, self.observation_space = masked, float_space(env.single_observation_space)
        if masked:
            mask = Box(0.0, 1.0, (int(space.n),), np.float32)
            self.observation_space = Dict(action_mask=mask, observation=self.observation_space)
        self._one = isinstance(space, Discrete)
        self._clipped = Clipped(own) if isinstance(space, Box) else None

    def observations(self, observations: Any, infos: dict[str, Any]) -> torch.Tensor:
        if self.masked:
            observations = {"action_mask": infos["action_mask"], "observation": observations}
        return flat(observations)

    def actions(self, actions: torch.Tensor) -> torch.Tensor:
        if self._one:
            return actions.view(-1)
        return actions if self._clipped is None else self._clipped(actions)
