"""rl_games: an ``IVecEnv`` and an environment for its players, by the name ``torch_batchsim`` in its YAML files.

All tensors stay on the device but for action masks, which rl_games needs on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.spaces.utils import flatdim

from ..declare.environment import Environment
from ..testing import random_actions
from .records import ADAPTERS, Played
from .source import vector_env
from .stepping import choices_from_zero, first_choice, flat, float_space

RECORD = ADAPTERS["rl_games"]
RECORD.require()

from rl_games.common import env_configurations, vecenv  # noqa: E402
from rl_games.common.ivecenv import IVecEnv  # noqa: E402

_BRIGHTEST = 255  # of bytes that rl_games divides by it


def register(name: str = "torch_batchsim") -> None:
    """Let YAML files say ``env_name: torch_batchsim`` and ``env_config: {env: torch_batchsim/CartPole-v0}``."""
    kind = name.upper()
    vecenv.register(kind, RlGamesEnv)
    env_configurations.register(name, {"vecenv_type": kind, "env_creator": lambda **config: RlGamesEnv(name, **config)})


class RlGamesEnv(IVecEnv):
    """A vector environment as rl_games trains it, and as its players play it.

    Args:
        config_name: ignored; rl_games gives it.
        num_actors: worlds. A world has as many rows as agents; rl_games has one policy for all.
        env: an id such as ``"torch_batchsim/CartPole-v0"``, or a declared environment.
        central_value: deliver the observations of all agents of a world as its state, float32
            ``[worlds, agents * features]``, for a ``central_value_config``.
        seed: of the first reset. rl_games sets it to its own.
        options: arguments of ``TorchVectorEnv`` such as ``device``, and with an id the environment's own.

    ``step`` returns observations ``[rows, ...]`` (with ``central_value`` ``{"obs", "states"}``), rewards float32
    ``[rows]``, dones bool ``[rows]``, and infos with ``time_outs``, bool ``[rows]``: of rows whose episode was
    truncated and not terminated, for ``value_bootstrap: True``. Bytes other than pictures are float32 here,
    because rl_games takes bytes for pictures and divides by 255; so are observations of choices or bits. MultiDiscrete
    actions are a tuple of Discrete ones. Choices are counted from 0, whatever the ``start`` of the action space.

    Attributes: ``vector_env``, the ``TorchVectorEnv``.
    """

    def __init__(
        self,
        config_name: str = "",
        num_actors: int = 1,
        *,
        env: str | Environment,
        central_value: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.vector_env = vector_env(env, RECORD.interface("RlGamesEnv"), options, num_actors)
        self._central, self._seed = central_value, seed
        space = self.vector_env.single_observation_space
        self.observation_space = _inputs(space)
        self._as_it_is = isinstance(space, Box) and self.observation_space == space
        actions, self._action_shape = self.vector_env.single_action_space, self.vector_env.action_space.shape
        self.action_space = _tuple_of(choices_from_zero(actions))
        self._first = first_choice(actions, self.vector_env.device)
        size = self.vector_env.num_agents * flatdim(float_space(space))
        self.state_space = Box(-np.inf, np.inf, (size,), np.float32) if central_value else None

    # ---- IVecEnv ---------------------------------------------------------------------------------------------------

    def reset(self) -> Any:
        """Begin new episodes in all worlds; the observations."""
        observations, _ = self.vector_env.reset(seed=self._seed)
        self._seed = None
        return self._inputs(observations)

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """``actions``: integers ``[rows]``, or ``[rows, k]``; floats ``[rows, k]``."""
        if actions.ndim != len(self._action_shape):  # of a player with one row
            if actions.numel() != math.prod(self._action_shape):
                raise ValueError(f"actions must have shape {list(self._action_shape)}, got {list(actions.shape)}")
            actions = actions.view(self._action_shape)
        if self._first is not None:
            actions = actions + self._first
        observations, rewards, terminated, truncated, infos = self.vector_env.step(actions)
        infos["time_outs"] = torch.gt(truncated, terminated)
        dones = infos.get("_final_obs")
        if dones is None:
            dones = terminated | truncated
        return self._inputs(observations), rewards, dones, infos

    def get_env_info(self) -> dict[str, Any]:
        """Spaces, and the number of agents."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "state_space": self.state_space,
            "use_global_observations": self._central,
            "agents": self.get_number_of_agents(),
            "value_size": 1,
        }

    def get_number_of_agents(self) -> int:
        """Rows of a world."""
        return self.vector_env.num_agents

    def has_action_masks(self) -> bool:
        """Whether the environment has masks for ``use_action_masks: True``."""
        return self.vector_env.action_mask is not None

    def get_action_masks(self) -> np.ndarray:
        """Legal actions, bool ``[rows, n]``, on the CPU, because rl_games makes tensors of them there.

        Raises ValueError where the masks are missing, and where the parts of a MultiDiscrete action differ in size.
        """
        mask, space = self.vector_env.action_mask, self.vector_env.single_action_space
        if mask is None:
            name = self.vector_env.environment.name
            raise ValueError(f"use_action_masks needs action masks, which {name} lacks")
        if isinstance(space, MultiDiscrete) and len(set(space.nvec.flat)) > 1:
            raise ValueError(f"rl_games splits masks into parts of equal length, got {space}")
        return mask.cpu().numpy()

    # ---- a player's environment ------------------------------------------------------------------------------------

    has_action_mask, get_action_mask = has_action_masks, get_action_masks

    def render(self, mode: str | None = None) -> Any:
        """As the vector environment does."""
        return self.vector_env.render()

    def close(self) -> None:
        """Close the vector environment."""
        self.vector_env.close()

    def _inputs(self, observations: Any) -> Any:
        states = self.vector_env.by_world(flat(observations)).flatten(1) if self._central else None
        if not self._as_it_is:
            observations = _floats(observations, self.vector_env.single_observation_space)
        return {"obs": observations, "states": states} if self._central else observations


def _is_picture(space: Space) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8 and int(space.high.max()) == _BRIGHTEST


def _inputs(space: Space) -> Space:
    if isinstance(space, Dict):
        return Dict({key: _inputs(part) for key, part in space.items()})
    if _is_picture(space):
        return space
    floats = float_space(space)
    return floats if floats.shape else Box(floats.low.reshape(1), floats.high.reshape(1), dtype=np.float32)


def _floats(observations: Any, space: Space) -> Any:
    if isinstance(observations, dict):
        return {key: _floats(part, space[key]) for key, part in observations.items()}
    if _is_picture(space):
        return observations
    return observations.float() if space.shape else observations.float().unsqueeze(-1)


def _tuple_of(space: Space) -> Space:
    """MultiDiscrete as rl_games knows it. Raises TypeError for other spaces that rl_games lacks."""
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.Tuple([Discrete(int(n)) for n in space.nvec])
    if not isinstance(space, (Box, Discrete)):
        raise TypeError(f"rl_games has policies for Discrete, MultiDiscrete and Box actions, got {space}")
    return space


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Worlds with random actions."""
    env = RlGamesEnv(num_actors=num_envs, env=environment, seed=0, **options)
    env.reset()
    return Played(env, RlGamesEnv.step, random_actions(env.vector_env))
