"""Arguments of ``adapters.envpool``, its ids and spaces, and ``dm_env``'s specs and time steps."""

from __future__ import annotations

import importlib
import math
from collections import namedtuple
from collections.abc import Mapping
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch

from ..environment import Environment
from ..extras import needed
from ..inputs import checked_count
from ..program import Program
from ..registration import declared, find_id
from ..vector_inputs import agents_per_world

_MOST_GROUPS = 64
_DEFAULTS = {
    "num_envs": 1, "batch_size": None, "num_threads": 0, "thread_affinity_offset": -1, "seed": 42,
    "gym_reset_return_info": True, "device": "cpu", "output": "numpy", "executor": None, "render_mode": None,
    "render_env_id": 0,
}  # fmt: skip


def make_spec(task_id: str, **kwargs: Any) -> EnvSpec:
    """What ``make`` would make of the same arguments: spaces and ``config``."""
    chosen = {name: kwargs.pop(name, default) for name, default in _DEFAULTS.items()}
    if chosen["gym_reset_return_info"] is not True:
        raise ValueError("gym_reset_return_info must be True: resets return observations and an info")
    if chosen["thread_affinity_offset"] >= 0:
        gymnasium.logger.warn("thread_affinity_offset does nothing here: threads are not tied to cores")
    if isinstance(chosen["seed"], bool) or not isinstance(chosen["seed"], (int, np.integer)) or chosen["seed"] < 0:
        raise ValueError(
            f"seed must be one integer from 0 on: worlds draw from streams of their own, got {chosen['seed']!r}"
        )
    env_id = find_id(task_id)
    worlds = checked_count(chosen["num_envs"], "num_envs")
    batch = checked_count(chosen["batch_size"] or worlds, "batch_size", worlds)
    groups = worlds // math.gcd(worlds, batch)
    if groups > _MOST_GROUPS:
        raise ValueError(
            f"num_envs={worlds} and batch_size={batch} would make {groups} groups of {worlds // groups}, at most "
            f"{_MOST_GROUPS} are allowed: worlds step in groups of a size that divides both; take num_envs={3 * batch}"
        )
    environment = declared(env_id, kwargs, tuple(_DEFAULTS))
    return EnvSpec(env_id, environment, chosen | {"num_envs": worlds, "batch_size": batch})


class EnvSpec:
    """What there is to know of a pool before it is made.

    Attributes: ``id``, ``environment`` (the declaration), ``config`` (a namedtuple), ``reward_threshold``,
    ``observation_space`` and ``action_space`` of one agent.
    """

    def __init__(self, env_id: str, environment: Environment, chosen: Mapping[str, Any]) -> None:
        program = Program(environment)
        self.id, self.environment = env_id, environment
        self.reward_threshold = gymnasium.spec(env_id).reward_threshold
        self.observation_space, self.action_space = program.observation_space, program.action_space
        self.gymnasium_observation_space, self.gymnasium_action_space = self.observation_space, self.action_space
        self._infos = tuple(program.info)
        values = {
            **chosen, "max_num_players": agents_per_world(environment), **program.parameters, **program.constants,
            "reward_threshold": self.reward_threshold,
        }  # fmt: skip
        self.config = namedtuple("Config", values)(**values)

    def observation_spec(self) -> Any:
        """A namedtuple of ``dm_env.specs``: what ``TimeStep.observation`` holds."""
        specs = dm_env().specs
        ids = specs.Array((), np.int32, "env_id")
        spaces = self.observation_space
        spaces = spaces.spaces if isinstance(spaces, gymnasium.spaces.Dict) else {"obs": spaces}
        fields = {name: _dm_spec(space, name) for name, space in spaces.items()}
        return made_namedtuple("State", env_id=ids, players=made_namedtuple("players", env_id=ids), **fields)

    def action_spec(self) -> Any:
        """Of one agent, from ``dm_env.specs``."""
        return _dm_spec(self.action_space, "action")

    def __repr__(self) -> str:
        return f"{type(self.environment).__name__}EnvSpec({listed(self.config._asdict())})"


def checked_ids(env_id: Any, num_envs: int) -> np.ndarray:
    """``env_id`` as int64 ``[envs]``; TypeError or ValueError unless it names some envs, each once."""
    ids = np.atleast_1d(env_id.cpu().numpy() if isinstance(env_id, torch.Tensor) else np.asarray(env_id))
    if not len(ids):
        raise ValueError("env_id must name at least one env, got none")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TypeError(f"env_id must be integers of shape [envs], got {ids.dtype} of shape {list(ids.shape)}")
    wrong = ids[(ids < 0) | (ids >= num_envs)]
    if len(wrong):
        raise ValueError(f"env_id must be from 0 to {num_envs - 1}, got {wrong[0]}")
    ids = ids.astype(np.int64)
    times = np.bincount(ids)
    if times.max() > 1:
        raise ValueError(f"env_id must name each env once, got {times.argmax()} twice")
    return ids


def time_step(part: dict[str, Any], info: dict[str, Any]) -> Any:
    """A ``dm_env.TimeStep`` of arrays or tensors, whose observation is a namedtuple of observations and infos."""
    players = made_namedtuple("players", **info["players"])
    observations = part["obs"] if isinstance(part["obs"], dict) else {"obs": part["obs"]}
    state = made_namedtuple("State", **{**info, "players": players}, **observations)
    begun, done = part["elapsed_step"] == 0, part["terminated"] | part["truncated"]
    if isinstance(done, torch.Tensor):
        step_type, discount = torch.where(begun, 0, torch.where(done, 2, 1)).int(), (~done).float()
    else:
        step_type = np.where(begun, 0, np.where(done, 2, 1)).astype(np.int32)
        discount = (~done).astype(np.float32)
    return dm_env().TimeStep(step_type=step_type, reward=part["reward"], discount=discount, observation=state)


def dm_env() -> Any:
    """The package. Raises MissingExtra."""
    needed("dm_env", extra="dm-env")
    return importlib.import_module("dm_env")


def _dm_spec(space: gymnasium.Space, name: str) -> Any:
    specs = dm_env().specs
    if isinstance(space, gymnasium.spaces.Discrete) and space.start == 0:
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if hasattr(space, "start"):  # Discrete or MultiDiscrete
        last = space.start + (space.nvec if hasattr(space, "nvec") else space.n) - 1
        return specs.BoundedArray(space.shape, space.dtype, space.start, last, name)
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)


def made_namedtuple(name: str, **fields: Any) -> Any:
    """One of such a type."""
    return _named(name, tuple(fields))(*fields.values())


@cache
def _named(name: str, fields: tuple[str, ...]) -> type:
    return namedtuple(name, fields)


def listed(values: Mapping[str, Any]) -> str:
    """As arguments are written."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
