"""One world with NumPy arrays in and out, for interfaces to a single environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ..declare.environment import Environment
from ..memory.inputs import checked_options
from ..run.legal import legal_actions
from ..vector.registration import find_id, option_names
from ..vector.vector_env import TorchVectorEnv
from .records import Interface
from .source import vector_env

_BOOLS = {bool, np.bool_}


class OneWorld:
    """A vector environment of one world, seen through NumPy arrays that stay where they are.

    Args:
        env: an id, see ``find_id``, or a declared environment.
        interface: the class whose world it is, which fixes what one world needs.
        options: arguments of ``TorchVectorEnv`` such as ``render_mode``, and with an id the environment's own.

    Attributes:
        vector: the vector environment; its rows are the agents.
        agents: how many there are.
        actions: of the next ``step``, ``[agents, ...]``: int64, or the dtype of a box. Write into it.
        observations: ``[agents, ...]`` or a dict of them; ``infos``: dict of arrays ``[agents, ...]``, without those
            that follow; ``action_mask``: bool ``[agents, n]``; ``active``: bool ``[agents]``; both None where missing.
        rewards: float32 ``[agents]``; ``terminations``, ``truncations``: bool ``[agents]``; of the last step.

    All but ``actions`` are the simulator's memory: the next call writes over them.
    """

    def __init__(self, env: str | Environment, interface: Interface, /, **options: Any) -> None:
        self.vector: TorchVectorEnv = vector_env(env, interface, options)
        self.agents = self.vector.num_agents
        self.observation_space = self.vector.single_observation_space
        self.action_space: Box | Discrete | MultiDiscrete = self.vector.single_action_space
        self.observations: Any = None
        self.infos: dict[str, np.ndarray] = {}
        self.action_mask: np.ndarray | None = None
        self.active: np.ndarray | None = None
        self._seen: torch.Tensor | None = None  # the rewards whose places are known
        self._make_actions()

    def _make_actions(self) -> None:
        dtype = torch.float32 if isinstance(self.action_space, Box) else torch.int64
        self._actions = torch.zeros((self.agents, *self.action_space.shape), dtype=dtype)
        self.actions = self._actions.numpy()

    def __getstate__(self) -> dict[str, Any]:
        """The arrays as they are now; the next step finds the simulator's memory again."""
        return self.__dict__ | {"_seen": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_actions()

    def reset(self, seed: int | None, options: dict[str, Any]) -> None:
        """Begin an episode. ``options``: the environment's ``reset_options``, without a dimension for worlds."""
        options = checked_options(options, tuple(self.vector.environment.reset_options), " here")
        given = {name: np.asarray(value)[None] for name, value in options.items()}
        observations, infos = self.vector.reset(seed=seed, options=given)
        self._look(observations, infos)

    def step(self) -> None:
        """Take one step with ``actions``."""
        observations, rewards, terminations, truncations, infos = self.vector.step(self._actions)
        if rewards is not self._seen:
            self._look(observations, infos)
            self.rewards = rewards.numpy()
            self.terminations, self.truncations = terminations.numpy(), truncations.numpy()
            sim = self.vector.sim
            self._world_ended = sim.tensor("World.terminated").numpy(), sim.tensor("World.truncated").numpy()
            self._seen = rewards

    def _look(self, observations: Any, infos: dict[str, torch.Tensor]) -> None:
        self.observations = mapped(torch.Tensor.numpy, observations)
        self.infos = {name: tensor.numpy() for name, tensor in infos.items()}
        self.action_mask, self.active = self.infos.pop("action_mask", None), self.infos.pop("active", None)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the last step has terminated and truncated the world's episode."""
        return self._world_ended[0].item(), self._world_ended[1].item()

    @property
    def ended(self) -> bool:
        """Whether the last step has ended the world's episode."""
        return any(self.ends)

    def any_actions(self) -> np.ndarray:
        """Actions that the environment accepts now, for agents without one: legal ones, or those nearest to 0."""
        space = self.action_space
        if self.action_mask is not None:
            mask = torch.from_numpy(self.action_mask)
            return legal_actions(space, mask, torch.ones(mask.shape)).numpy()
        one = np.clip(0, space.low, space.high) if isinstance(space, Box) else space.start
        return np.broadcast_to(one, self.actions.shape)

    def render(self) -> np.ndarray | str | None:
        """A picture ``uint8 [height, width, 3]`` with "rgb_array", a text with "ansi"."""
        frames = self.vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the world; everything but ``close`` raises from then on."""
        self.vector.close()


def mapped(function: Any, value: Any) -> Any:
    """``function`` of an observation, or of each part of one that is a dict."""
    if isinstance(value, dict):
        return {key: mapped(function, part) for key, part in value.items()}
    return function(value)


def fits(action: Any, space: gymnasium.Space, rows: tuple[int, ...] = ()) -> bool:
    """Whether it is a number, array or list ``[*rows, *space.shape]``, of integers unless the space is a Box; no bool.

    The vector environment checks the values, before a world steps.
    """
    try:
        given = np.asarray(action)
    except (TypeError, ValueError):  # ragged, or not in the host's memory
        return False
    return given.shape == (*rows, *space.shape) and given.dtype.kind in ("iuf" if isinstance(space, Box) else "iu")


def actions_of(agents: Sequence[str], actions: Any, space: gymnasium.Space, possible: Iterable[str]) -> np.ndarray:
    """``[agents, ...]`` of a dict with an action of each of ``agents``, and of others of the ``possible``.

    Raises TypeError for no dict; ValueError for unknown names, missing actions, and actions that do not fit, see
    ``fits``.
    """
    if not isinstance(actions, Mapping):
        raise TypeError(f"actions must be a dict with the name of each agent, got {type(actions).__name__}")
    if len(actions) > len(agents):
        for agent in actions.keys() - possible:
            raise unknown_agent(agent, possible)
    missing = [agent for agent in agents if agent not in actions]
    if missing:
        raise ValueError(f"step needs an action of each of {', '.join(agents)}; missing are {', '.join(missing)}")
    given = [actions[agent] for agent in agents]
    if not given:
        return np.empty((0, *space.shape), space.dtype)
    if _BOOLS.isdisjoint(map(type, given)) and fits(given, space, (len(agents),)):
        return np.asarray(given)
    wrong = next((agent for agent in agents if not fits(actions[agent], space)), agents[0])
    raise ValueError(f"the action of {wrong} must be in {space}, got {actions[wrong]!r}")


def unknown_agent(agent: Any, possible: Iterable[str]) -> ValueError:
    """The error for a name that is no agent's."""
    return ValueError(f"agents are {', '.join(possible)}, got {agent!r}")


def with_turns(env: str | Environment, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options``, by which all players of a game with turns are agents unless they give ``turns``."""
    return {**({"turns": "all"} if isinstance(env, str) and takes_turns(env) else {}), **options}


def takes_turns(env: str | Environment) -> bool:
    """Whether an environment has the option ``turns``, by which its players are rows that take turns, or one row."""
    if isinstance(env, str):
        return "turns" in option_names(find_id(env))
    return isinstance(env, Environment) and "turns" in env.option_names()
