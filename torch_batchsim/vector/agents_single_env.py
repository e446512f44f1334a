"""One world with several agents as a plain gymnasium environment: all of them together, or one with its partners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box

from ..declare.environment import Environment
from ..memory.inputs import number_tensor
from ..run.legal import legal_actions
from .agents_env import AgentsVectorEnv
from .single_env import SingleEnv, checked_action, first
from .vector_inputs import agent_names

Partner = Callable[[Any, dict[str, Any]], Any]
"""A policy of the other agents, ``partner(observations, infos) -> actions``.

It gets numpy arrays ``[partners, ...]`` (or dicts of them) of the others in their order, as last returned, and
returns their actions ``[partners, ...]``, a tensor, array or list.
"""
_GREATEST_SCORE = 2**15 - 1


class JointEnv(SingleEnv):
    """One world whose agents are played together: dicts of observations and of actions by agent.

    The spaces are ``Dict`` with an entry for each of ``possible_agents`` (``"agent_0"``, ...). The reward is the sum of
    the agents' rewards, and the flags are the world's. ``info[agent]`` has the infos of the agent, ``action_mask`` for
    instance, and its own ``reward``, ``terminated`` and ``truncated``.
    """

    def __init__(self, environment: Environment, **options: Any) -> None:
        super().__init__(environment, **options)
        self._by_agent = AgentsVectorEnv(self._vector)
        self.possible_agents = self._by_agent.possible_agents
        self.action_space = gymnasium.spaces.Dict(self._by_agent.action_spaces)
        self.observation_space = gymnasium.spaces.Dict(self._by_agent.observation_spaces)

    def _check_agents(self, name: str, agents: int) -> None:
        """Any number will do."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode. ``options``: the environment's ``reset_options``, without a dimension for worlds."""
        observations, infos = self._begin(seed, options)
        return first(self._by_agent.split(observations)), first(self._by_agent.split(infos))

    def _masks(self) -> dict[str, np.ndarray]:
        return first(self._by_agent.split(self._vector.action_masks()))

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one step. After the end of an episode the world stands still until ``reset``.

        Args:
            action: an action for each agent by name. An agent whose own episode has ended may be left out.
        """
        observations, *results, infos = self._by_agent.step(action)
        by_agent = first(infos)
        for agent, info in by_agent.items():
            info["reward"], info["terminated"], info["truncated"] = (part[agent].item() for part in results)
        ended = (bool(self.sim.tensor(f"World.{flag}")[0]) for flag in ("terminated", "truncated"))
        return first(observations), sum(info["reward"] for info in by_agent.values()), *ended, by_agent


class OneAgentEnv(SingleEnv):
    """One world as one of its agents plays it; a given policy plays the others.

    Observation, reward, flags and ``info`` are those of the agent, as of an environment with one agent.

    Args:
        environment: the declaration.
        as_agent: which one, as a number or by name: 1 or ``"agent_1"``.
        partner: the policy of the others, see ``Partner``; by default each draws an action that is legal, every choice
            equally likely, from ``np_random``, so that the seed of a reset decides which.
        options: as of ``SingleEnv``.
    """

    def __init__(
        self,
        environment: Environment,
        as_agent: int | str = 0,
        partner: Partner | None = None,
        **options: Any,
    ) -> None:
        if partner is not None and not callable(partner):
            raise TypeError(f"partner must be a function of (observations, infos) or None, got {partner!r}")
        self._agent: Any = as_agent
        super().__init__(environment, **options)
        self.partner = partner
        self._drawn_from = deepcopy(self.action_space)
        self._others: tuple[Any, dict[str, Any]] = None, {}

    @property
    def agent(self) -> str:
        """The name of the agent that this is."""
        return agent_names(self._vector.num_agents)[self._agent]

    def _check_agents(self, name: str, agents: int) -> None:
        names = agent_names(agents)
        if isinstance(self._agent, str) and self._agent in names:
            self._agent = names.index(self._agent)
        is_number = isinstance(self._agent, (int, np.integer)) and not isinstance(self._agent, bool)
        if not is_number or not 0 <= self._agent < agents:
            raise ValueError(
                f"as_agent must be a number from 0 to {agents - 1} or one of {', '.join(names)} of {name}, got "
                f"{self._agent!r}"
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode. ``options``: the environment's ``reset_options``, without a dimension for worlds."""
        results = self._begin(seed, options)
        self._drawn_from.seed(int(self.np_random.integers(2**31)))
        return self._own_part(*results)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step, in which the partner acts too. After the end of an episode the world stands still.

        The flags are those of the agent: after its own end (``AgentEnd``) its world goes on, if it is stepped. Raises
        what the partner raises, and TypeError or ValueError for actions that do not fit, before the world has stepped.
        """
        if self._others[0] is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        shape = self.action_space.shape
        own = checked_action(action, self.action_space).cpu()
        partners = self._vector.num_agents - 1
        if partners:
            drawn = (self.partner or self._legal_actions)(*self._others)
            others = number_tensor(drawn, "actions of the partner").cpu()
            if others.shape != (partners, *shape):
                wanted = [partners, *shape]
                raise ValueError(f"actions of the partner must have shape {wanted}, got {list(others.shape)}")
            actions = torch.cat([others[: self._agent], own[None], others[self._agent :]])
        else:
            actions = own[None]
        observations, *results, infos = self._vector.step(actions.to(self._vector.device))
        observation, info = self._own_part(observations, infos)
        return observation, *(part[self._agent].item() for part in results), info

    def _masks(self) -> np.ndarray:
        return first(self._vector.action_masks()[self._agent :])

    def _own_part(self, observations: Any, infos: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The agent's part of all rows; the partner gets the others when it acts."""
        self._others = _rows_without(observations, self._agent), _rows_without(infos, self._agent)
        return _row(observations, self._agent), _row(infos, self._agent)

    def _legal_actions(self, observations: Any, infos: dict[str, Any]) -> np.ndarray:
        """Random actions of the others ``[partners, ...]``, legal where there are masks."""
        partners, space = self._vector.num_agents - 1, self._drawn_from
        if isinstance(space, Box):
            return np.stack([space.sample() for _ in range(partners)])
        choices = int(np.sum(space.nvec if isinstance(space, gymnasium.spaces.MultiDiscrete) else space.n))
        scores = torch.from_numpy(self.np_random.integers(1, _GREATEST_SCORE, (partners, choices)))
        mask = infos.get("action_mask")
        legal = torch.ones(scores.shape, dtype=torch.bool) if mask is None else torch.from_numpy(mask)
        return legal_actions(space, legal, scores).numpy()


def _row(value: Any, row: int) -> Any:
    """One row of tensors, also in dicts, as arrays of their own."""
    return {key: _row(part, row) for key, part in value.items()} if isinstance(value, dict) else first(value[row:])


def _rows_without(value: Any, row: int) -> Any:
    """All other rows of tensors, also in dicts, as arrays of their own."""
    if isinstance(value, dict):
        return {key: _rows_without(part, row) for key, part in value.items()}
    return np.delete(value.cpu().numpy(), row, axis=0)
