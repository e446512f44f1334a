"""Environments of several agents for EPyMARL's ``gymma``: tuples of spaces, observations and rewards.

With this file's folder on ``PYTHONPATH``::

    python src/main.py --config=ippo --env-config=gymma with env_args.time_limit=100 \\
        env_args.key="epymarl_env:epymarl_env/Batchsim-v0" env_args.environment=overcooked env_args.shaping_factor=1.0

EPyMARL gives further ``env_args`` to the environment as options. It has no masks, so every action must be legal.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Tuple

import torch_batchsim


class TupleEnv(gymnasium.Env):
    """One world; entries of tuples are its agents'.

    Args:
        environment: a short name, ``"module:Class"`` or an id; actions must be Discrete.
        render_mode: as of ``torch_batchsim.make``.
        options: the environment's own.

    Attributes: ``n_agents``.
    """

    def __init__(self, environment: str = "overcooked", render_mode: str | None = None, **options: Any) -> None:
        self._env = torch_batchsim.make(environment, render_mode=render_mode, **options)
        self.render_mode, self.metadata = render_mode, self._env.metadata
        self._names = self._env.possible_agents
        self.n_agents = len(self._names)
        self.observation_space = Tuple([self._env.observation_space[name] for name in self._names])
        self.action_space = Tuple([self._env.action_space[name] for name in self._names])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
        """Begin an episode. Infos are empty, because EPyMARL adds them up as numbers."""
        super().reset(seed=seed)
        return self._tuple(self._env.reset(seed=seed, options=options)[0]), {}

    def step(self, action: Any) -> tuple[tuple[np.ndarray, ...], list[float], bool, bool, dict[str, Any]]:
        """Observations and rewards by agent; the flags are the world's."""
        by_name = dict(zip(self._names, action, strict=True))
        observations, _, terminated, truncated, infos = self._env.step(by_name)
        return self._tuple(observations), [infos[name]["reward"] for name in self._names], terminated, truncated, {}

    def render(self) -> Any:
        """The picture of the world."""
        return self._env.render()

    def close(self) -> None:
        """Close the world."""
        self._env.close()

    def _tuple(self, observations: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(observations[name] for name in self._names)


gymnasium.register("epymarl_env/Batchsim-v0", entry_point=TupleEnv)
