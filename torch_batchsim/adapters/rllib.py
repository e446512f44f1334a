"""RLlib, new API stack: one environment for all rows of an ``EnvRunner``, or one world for a policy per agent.

>>> from ray.rllib.algorithms.ppo import PPOConfig
>>> from torch_batchsim.adapters.rllib import RLlibVectorEnv
>>> config = PPOConfig().environment(RLlibVectorEnv, env_config={"env": "torch_batchsim/CartPole-v0"})
>>> config.env_runners(num_envs_per_env_runner=64, gym_env_vectorize_mode="vector_entry_point")

Workers import the class by its name; no other registration is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from ..declare.environment import Environment
from ..declare.spaces import check_from_zero, choices, for_each
from ..testing import random_actions
from ..vector.vector_env import TorchVectorEnv
from ..vector.vector_inputs import agent_names
from .one_world import OneWorld, actions_of, mapped, takes_turns, with_turns
from .records import ADAPTERS, Interface, Played
from .source import vector_env
from .stepping import float_space

RECORD = ADAPTERS["rllib"]
RECORD.require()

from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402

_ROWS, _ONE_WORLD = RECORD.interfaces


class RLlibVectorEnv(VectorEnv):
    """All rows of a ``SingleAgentEnvRunner``: NumPy copies, autoreset with the next step.

    Observations are float32, because RLlib's networks take nothing else; those that are not in a Box stay integers, for
    RLlib's ``FlattenObservations``. Where the environment has masks of legal actions,
    they are dicts of ``observations`` and ``action_mask`` (float32 ``[rows, n]``, 0 or 1), which RLlib's example
    ``ActionMaskingTorchRLModule`` takes.

    Args:
        config: RLlib's ``env_config``: ``env`` (an id, or a declared environment), arguments of ``TorchVectorEnv``, and
            with an id the environment's own options. RLlib adds ``num_envs``.

    Attributes: ``vector_env``, the ``TorchVectorEnv``.

    Raises ValueError for environments whose rows come and go, or whose agents may end before their world: those take
    ``RLlibMultiAgentEnv``; for Discrete spaces that do not begin at 0; and without ``gym_env_vectorize_mode``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.closed = True  # until it is whole
        if "num_envs" not in config:
            raise ValueError("RLlibVectorEnv needs env_runners(gym_env_vectorize_mode='vector_entry_point')")
        of, options = _of(config, _ROWS)
        env = self.vector_env = vector_env(of, _ROWS, options)
        _check_spaces(env)
        if env.sim.program.agent_end is not None or env.active is not None:
            raise ValueError(f"agents of {env.environment.name} come and go: use RLlibMultiAgentEnv")
        self.num_envs, self.metadata, self.render_mode = env.num_envs, env.metadata, env.render_mode
        moves = 0 if env.action_mask is None else env.action_mask.shape[1]
        self.single_observation_space = _space(env.single_observation_space, moves)
        self.single_action_space = env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = env.action_space
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes: observations ``[rows, ...]`` and infos with gymnasium's masks."""
        super().reset(seed=seed)
        return self._delivered(*self.vector_env.reset(seed=seed, options=options))

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Step all rows by ``actions [rows, ...]``; rows that ended with the last step begin anew instead."""
        observations, rewards, terminations, truncations, infos = self.vector_env.step(np.asarray(actions))
        observations, infos = self._delivered(observations, infos)
        return observations, rewards, terminations, truncations, infos

    def render(self) -> Any:
        """See ``TorchVectorEnv.render``."""
        return self.vector_env.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environment."""
        self.vector_env.close()

    def _delivered(self, observations: Any, infos: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        infos = {name: part for name, part in infos.items() if not name.startswith("_")}
        observations = _seen(observations, infos.pop("action_mask", None), self.vector_env.single_observation_space)
        valid = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in infos}
        return observations, infos | valid


class RLlibMultiAgentEnv(MultiAgentEnv):
    """One world with an entry for each of its agents, ``agent_0`` and so on, for policies of their own.

    Dicts hold only agents that are present. An agent that ends, or becomes inactive (terminated then), leaves, and
    comes back only with the next episode. Observations are as those of ``RLlibVectorEnv``.

    The observed agents act next, as everywhere in RLlib, and only they. Where agents take turns (``turns="all"``, with
    an id the default) that is one player, without the no-op of those that wait; all get rewards.

    Args:
        config: RLlib's ``env_config``: ``env`` (an id, or a declared environment) and, with an id, options of the
            environment.

    Attributes: ``vector_env``, the ``TorchVectorEnv``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        env, options = _of(config, _ONE_WORLD)
        options.pop("num_envs", None)
        self._world = world = OneWorld(env, _ONE_WORLD, **with_turns(env, options))
        vector = world.vector
        _check_spaces(vector)
        self._turns = takes_turns(vector.environment) and vector.environment.constants["turns"] == "all"
        self.possible_agents = agent_names(world.agents)
        self.agents = list(self.possible_agents)
        moves = choices(world.action_space) - self._turns
        space = _space(world.observation_space, moves if vector.action_mask is not None else 0)
        self.observation_spaces = for_each(self.possible_agents, space)
        self.action_spaces = for_each(self.possible_agents, Discrete(moves) if self._turns else world.action_space)
        self.metadata, self.render_mode = dict(vector.metadata), vector.render_mode
        super().__init__()

    @property
    def vector_env(self) -> TorchVectorEnv:
        """The vector environment of one world."""
        return self._world.vector

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Begin a new episode: observations and infos by agent."""
        world = self._world
        world.reset(seed, dict(options or {}))
        there = np.ones(world.agents, dtype=bool) if world.active is None else world.active.copy()
        self.agents, self._been = self._names(there), there
        return self._observed(self._act_next(there))

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Take one step by an action of each agent that has been observed and has not ended.

        Returns observations, rewards, terminations, truncations (both with ``__all__``, of the world) and infos.
        Raises TypeError or ValueError for actions that do not fit, are missing, or are of other agents, before anything
        changes.
        """
        world = self._world
        if world.observations is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        self._act(action_dict)
        world.step()
        present = np.isin(self.possible_agents, self.agents)
        terminations, truncations, active = world.terminations, world.truncations, world.active
        if active is not None:
            come = active & ~(self._been | terminations | truncations)
            self._been |= come
            present |= come
            terminations = terminations | present & ~(active | truncations)
        remaining = present & ~(terminations | truncations)
        self.agents = self._names(remaining)
        over = dict(zip(("terminated", "truncated"), world.ends, strict=True))
        terminated = self._entries(terminations, present) | {"__all__": over["terminated"]}
        truncated = self._entries(truncations, present) | {"__all__": over["truncated"]}
        observations, infos = self._observed(self._act_next(remaining) | present & ~remaining)
        return observations, self._entries(world.rewards, present), terminated, truncated, infos

    def render(self) -> Any:
        """A picture or text of the world, see ``TorchVectorEnv.render``."""
        return self._world.render()

    def close(self) -> None:
        """Close the environment."""
        self._world.close()

    def _act(self, actions: Mapping[str, Any]) -> None:
        """Write them where the world reads them."""
        world, acting = self._world, self._acting
        given = actions_of(acting, actions, world.action_space, self.possible_agents)
        if len(actions) > len(acting):
            others = [agent for agent in actions if agent not in acting]
            wanted = ", ".join(acting) or "no agent"
            raise ValueError(f"actions must be of {wanted} now, got those of {', '.join(others)} too")
        if self._turns and acting and given[0] == self.action_spaces[acting[0]].n:
            raise ValueError(f"the action of {acting[0]} must be in {self.action_spaces[acting[0]]}, got {given[0]}")
        world.actions[:] = world.any_actions()
        world.actions[np.isin(self.possible_agents, acting)] = given

    def _act_next(self, remaining: np.ndarray) -> np.ndarray:
        """The mask of those of these rows that act next; keeps their names."""
        if self._turns:
            remaining = remaining & ~self._world.action_mask[:, -1]
        self._acting = self._names(remaining)
        return remaining

    def _names(self, mask: np.ndarray) -> list[str]:
        return [name for name, has in zip(self.possible_agents, mask, strict=True) if has]

    def _entries(self, array: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        return {self.possible_agents[i]: array[i].item() for i in np.flatnonzero(mask)}

    def _observed(self, mask: np.ndarray) -> tuple[dict, dict]:
        """Observations and infos of these rows, copied."""
        world = self._world
        rows = {self.possible_agents[i]: i for i in np.flatnonzero(mask)}
        infos = {name: array.copy() for name, array in world.infos.items()}
        legal = world.action_mask[:, :-1] if self._turns else world.action_mask
        seen = _seen(mapped(np.copy, world.observations), legal, world.observation_space)
        by_agent = {agent: {name: array[i] for name, array in infos.items()} for agent, i in rows.items()}
        return {agent: mapped(itemgetter(i), seen) for agent, i in rows.items()}, by_agent


def _of(config: Mapping[str, Any], interface: Interface) -> tuple[str | Environment, dict[str, Any]]:
    """The environment of an ``env_config``, and the other entries."""
    options = dict(config)
    if "env" not in options:
        raise TypeError(f"env_config of {interface.name} needs 'env', such as 'cartpole'; got {options}")
    return options.pop("env"), options


def _check_spaces(env: TorchVectorEnv) -> None:
    check_from_zero(env.single_action_space, "RLlib")
    check_from_zero(env.single_observation_space, "RLlib", "observation")


def _space(space: gymnasium.Space, moves: int) -> gymnasium.Space:
    """The space of a row's observations here, with masks of ``moves`` choices unless 0."""
    space = float_space(space, boxes_only=True)
    return Dict({"observations": space, "action_mask": Box(0.0, 1.0, (moves,), np.float32)}) if moves else space


def _seen(observations: Any, action_mask: np.ndarray | None, space: gymnasium.Space) -> Any:
    """Observations of all rows as RLlib gets them: boxes are float32."""
    if action_mask is not None:
        return {"observations": _seen(observations, None, space), "action_mask": action_mask.astype(np.float32)}
    if isinstance(observations, dict):
        return {name: _seen(part, None, space[name]) for name, part in observations.items()}
    return observations.astype(np.float32, copy=False) if isinstance(space, Box) else observations


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions."""
    env = RLlibVectorEnv({"env": environment, "num_envs": num_envs, **options})
    env.reset(seed=0)
    return Played(env, RLlibVectorEnv.step, [actions.numpy() for actions in random_actions(env.vector_env)])
