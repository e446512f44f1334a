"""RLlib, new API stack: one environment for all rows of an ``EnvRunner``, or one world for a policy per agent.

>>> from ray.rllib.algorithms.ppo import PPOConfig
>>> from torch_batchsim.adapters.rllib import RLlibVectorEnv
>>> config = PPOConfig().environment(RLlibVectorEnv, env_config={"env_id": "torch_batchsim/CartPole-v0"})
>>> config.env_runners(num_envs_per_env_runner=64, gym_env_vectorize_mode="vector_entry_point")

Workers import the class by its name; no other registration is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..extras import needed
from ..vector_env import TorchVectorEnv

needed("ray", extra="rllib")
needed("ray.rllib", extra="rllib")

from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402

_FIXED = ("autoreset_mode", "copy", "device", "output")


class RLlibVectorEnv(VectorEnv):
    """All rows of a ``SingleAgentEnvRunner``: NumPy copies, autoreset with the next step.

    Observations are float32, for RLlib's networks take nothing else. Where the environment has masks of legal actions,
    they are dicts of ``observations`` and ``action_mask`` (float32 ``[rows, n]``, 0 or 1), which RLlib's example
    ``ActionMaskingTorchRLModule`` takes.

    Args:
        config: RLlib's ``env_config``: ``env_id``, arguments of ``gymnasium.make_vec``, options of the environment.
            RLlib adds ``num_envs``.

    Attributes: ``env``, the ``TorchVectorEnv``.

    Raises ValueError for environments whose rows come and go, or whose agents may end before their world: those take
    ``RLlibMultiAgentEnv``; and where RLlib has not been told that it is a vector environment.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.closed = True  # until it is whole
        if "num_envs" not in config:
            raise ValueError("RLlibVectorEnv needs env_runners(gym_env_vectorize_mode='vector_entry_point')")
        env = self.env = _made(config, autoreset_mode=AutoresetMode.NEXT_STEP, output="numpy", copy=True)
        if env.sim.program.agent_end is not None or env.active is not None:
            raise ValueError(f"agents of {config['env_id']} come and go, which needs RLlibMultiAgentEnv")
        self.num_envs, self.metadata, self.render_mode = env.num_envs, env.metadata, env.render_mode
        self.single_observation_space = _space(env)
        self.single_action_space = env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = env.action_space
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes: observations ``[rows, ...]`` and infos with gymnasium's masks."""
        super().reset(seed=seed)
        return self._delivered(*self.env.reset(seed=seed, options=options))

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Step all rows by ``actions [rows, ...]``; rows that ended with the last step begin anew instead."""
        observations, rewards, terminations, truncations, infos = self.env.step(np.asarray(actions))
        observations, infos = self._delivered(observations, infos)
        return observations, rewards, terminations, truncations, infos

    def render(self) -> Any:
        """See ``TorchVectorEnv.render``."""
        return self.env.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environment."""
        self.env.close()

    def _delivered(self, observations: Any, infos: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        infos = {name: part for name, part in infos.items() if not name.startswith("_")}
        observations = _seen(observations, infos.pop("action_mask", None))
        valid = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in infos}
        return observations, infos | valid


class RLlibMultiAgentEnv(MultiAgentEnv):
    """One world with an entry for each of its agents, ``agent_0`` and so on, for policies of their own.

    Agents that are not there, or have left, are in no dict. Observations are as those of ``RLlibVectorEnv``.

    Args:
        config: RLlib's ``env_config``: ``env_id`` and options of the environment.

    Attributes: ``env``, the ``TorchVectorEnv``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        config = {name: value for name, value in config.items() if name != "num_envs"}
        kept = {"autoreset_mode": AutoresetMode.DISABLED, "output": "numpy", "copy": True}
        env = self.env = _made(config, num_worlds=1, num_threads=1, **kept)
        self.possible_agents = [f"agent_{i}" for i in range(env.num_agents)]
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict.fromkeys(self.possible_agents, _space(env))
        self.action_spaces = dict.fromkeys(self.possible_agents, env.single_action_space)
        self.metadata, self.render_mode = dict(env.metadata), env.render_mode
        super().__init__()
        self._actions = np.zeros(env.action_space.shape, dtype=env.action_space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Begin a new episode: observations and infos by agent."""
        observations, infos = self.env.reset(seed=seed, options=options)
        there = infos.get("active", np.ones(len(self.possible_agents), dtype=bool))
        self.agents = self._names(there)
        return self._by_agent(observations, infos, there)

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Take one step; agents without an action take what was their last one.

        Returns observations, rewards, terminations, truncations (both with ``__all__``, of the world) and infos.
        """
        for i, name in enumerate(self.possible_agents):
            if name in action_dict:
                self._actions[i] = action_dict[name]
        observations, rewards, terminations, truncations, infos = self.env.step(self._actions)
        done = terminations | truncations
        there = np.isin(self.possible_agents, self.agents)
        stay = infos.get("active", there) & ~done
        told = there | stay
        self.agents = self._names(stay)
        world = {name: bool(self.env.sim.tensor(f"World.{name}")) for name in ("terminated", "truncated")}
        terminated = self._entries(terminations, told) | {"__all__": world["terminated"]}
        truncated = self._entries(truncations, told) | {"__all__": world["truncated"]}
        seen, own_infos = self._by_agent(observations, infos, told)
        return seen, self._entries(rewards, told), terminated, truncated, own_infos

    def render(self) -> Any:
        """A picture or text of the world, see ``TorchVectorEnv.render``."""
        frames = self.env.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _names(self, mask: np.ndarray) -> list[str]:
        return [name for name, has in zip(self.possible_agents, mask, strict=True) if has]

    def _entries(self, array: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        return {self.possible_agents[i]: array[i].item() for i in np.flatnonzero(mask)}

    def _by_agent(self, observations: Any, infos: dict[str, Any], mask: np.ndarray) -> tuple[dict, dict]:
        names = [name for name in infos if name not in ("action_mask", "active") and not name.startswith("_")]
        seen = _seen(observations, infos.get("action_mask"))
        rows = {self.possible_agents[i]: i for i in np.flatnonzero(mask)}
        told = {agent: {name: infos[name][i] for name in names} for agent, i in rows.items()}
        return {agent: _row(seen, i) for agent, i in rows.items()}, told


def _made(config: Mapping[str, Any], **kept: Any) -> TorchVectorEnv:
    """The environment that an ``env_config`` means."""
    arguments = dict(config)
    for name in _FIXED:
        if name in arguments:
            raise TypeError(f"env_config takes no {name}: RLlib decides it; got {arguments[name]!r}")
    if "env_id" not in arguments:
        raise TypeError(f"env_config needs 'env_id', such as 'torch_batchsim/CartPole-v0'; got {arguments}")
    return gymnasium.make_vec(arguments.pop("env_id"), **arguments, **kept).unwrapped


def _space(env: TorchVectorEnv) -> gymnasium.Space:
    """The space of what a row observes here."""
    space = _floats_space(env.single_observation_space)
    if env.action_mask is None:
        return space
    return Dict({"observations": space, "action_mask": Box(0.0, 1.0, env.action_mask.shape[1:], np.float32)})


def _floats_space(space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, Dict):
        return Dict({name: _floats_space(part) for name, part in space.items()})
    return Box(space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32)


def _seen(observations: Any, action_mask: np.ndarray | None) -> Any:
    """Observations of all rows as RLlib gets them."""
    if action_mask is not None:
        return {"observations": _seen(observations, None), "action_mask": action_mask.astype(np.float32)}
    if isinstance(observations, dict):
        return {name: _seen(part, None) for name, part in observations.items()}
    return observations.astype(np.float32, copy=False)


def _row(seen: Any, row: int) -> Any:
    return {name: _row(part, row) for name, part in seen.items()} if isinstance(seen, dict) else seen[row]
