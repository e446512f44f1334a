"""One world with NumPy arrays in and out, for interfaces to a single environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode

from ..environment import Environment
from ..legal import legal_actions
from ..registration import find_id, option_names
from ..vector_env import TorchVectorEnv


class OneWorld:
    """A vector environment of one world, seen through NumPy arrays that stay where they are.

    Args:
        source: an id, see ``find_id``, or a declared environment (without ``options`` then).
        render_mode: one of the environment's, or None.
        options: of the environment, where ``source`` is an id.

    Attributes:
        vector: the vector environment; its rows are the agents.
        agents: how many there are.
        kinds: of the dtypes that an action may have, as numpy's ``dtype.kind``.
        actions: what ``step`` takes, ``[agents, ...]``: int64, or the dtype of a box. Write into it.
        observations: ``[agents, ...]`` or a dict of them; ``infos``: dict of arrays ``[agents, ...]``, without those
            that follow; ``action_mask``: bool ``[agents, n]``; ``active``: bool ``[agents]``; both None without such.
        rewards: float32 ``[agents]``; ``terminations``, ``truncations``: bool ``[agents]``; of the last step.

    All but ``actions`` are the simulator's memory: the next call writes over them.
    """

    def __init__(self, source: str | Environment, *, render_mode: str | None = None, **options: Any) -> None:
        one = {
            "num_worlds": 1,
            "autoreset_mode": AutoresetMode.DISABLED,
            "render_mode": render_mode,
            "num_threads": 1,
            "copy": False,
        }
        if isinstance(source, Environment):
            if options:
                raise TypeError(f"options go with an id; {source.name} has been declared with its own")
            self.vector = TorchVectorEnv(source, **one)
        else:
            name = find_id(source)
            if gymnasium.spec(name).vector_entry_point != "torch_batchsim.registration:make_vec":
                raise TypeError(f"{source!r} is not an environment of torch_batchsim")
            self.vector = gymnasium.make_vec(name, **one, **options)
        self.agents = self.vector.num_agents
        self.observation_space = self.vector.single_observation_space
        self.action_space: Box | Discrete | MultiDiscrete = self.vector.single_action_space
        self.observations: Any = None
        self.infos: dict[str, np.ndarray] = {}
        self.action_mask: np.ndarray | None = None
        self.active: np.ndarray | None = None
        self._seen: torch.Tensor | None = None  # the rewards whose places are known
        self.kinds = "iuf" if isinstance(self.action_space, Box) else "iu"
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
    def ended(self) -> bool:
        """Whether the last step has ended the world's episode."""
        return any(flag.item() for flag in self._world_ended)

    def any_actions(self) -> np.ndarray:
        """Actions that the environment accepts now, for agents without a will: legal ones, or those nearest to 0."""
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


def takes_turns(source: str | Environment) -> bool:
    """Whether an environment has the option ``turns``, by which its players are rows that take turns, or one row."""
    names = source.option_names() if isinstance(source, Environment) else option_names(find_id(source))
    return "turns" in names
