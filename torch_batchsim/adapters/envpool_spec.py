"""Arguments of ``adapters.envpool``, its ids and spaces, and ``dm_env``'s specs and time steps."""

from __future__ import annotations

import importlib
import keyword
import math
import re
from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

from ..declare.columns import numpy_dtype
from ..declare.environment import Environment
from ..declare.run_options import RUN_ARGUMENTS, RunOptions
from ..declare.spaces import bounds
from ..memory.inputs import checked_count
from ..resolve.program import Program
from ..vector.registration import declared, find_id
from .records import ADAPTERS

_MOST_GROUPS = 64
_DEFAULTS = {name: RunOptions()[name] for name in RUN_ARGUMENTS} | {
    "num_envs": 1, "batch_size": None, "num_threads": 0, "thread_affinity_offset": -1, "seed": 42,
    "gym_reset_return_info": True, "device": "cpu", "output": "numpy", "render_mode": None, "render_env_id": 0,
}  # fmt: skip


def make_spec(task_id: str, **kwargs: Any) -> EnvSpec:
    """The spec of the pool that ``make`` makes of the same arguments."""
    chosen = {name: kwargs.pop(name, default) for name, default in _DEFAULTS.items()}
    if chosen["gym_reset_return_info"] is not True:
        raise ValueError("gym_reset_return_info must be True: resets return observations and an info")
    if chosen["thread_affinity_offset"] >= 0:
        gymnasium.logger.warn("thread_affinity_offset does nothing here: threads are not tied to cores")
    if isinstance(chosen["seed"], bool) or not isinstance(chosen["seed"], (int, np.integer)) or chosen["seed"] < 0:
        raise ValueError(
            f"seed must be one integer from 0 on, because worlds draw from streams of their own; got {chosen['seed']!r}"
        )
    env_id = find_id(task_id)
    worlds = checked_count(chosen["num_envs"], "num_envs")
    batch = checked_count(chosen["batch_size"] or worlds, "batch_size", worlds)
    groups = worlds // math.gcd(worlds, batch)
    if groups > _MOST_GROUPS:
        raise ValueError(
            f"num_envs={worlds} and batch_size={batch} would make {groups} groups of {worlds // groups}, at most "
            f"{_MOST_GROUPS} are allowed: the size of a group divides both; take num_envs={3 * batch}"
        )
    environment = declared(env_id, kwargs, tuple(_DEFAULTS))
    return EnvSpec(env_id, environment, chosen | {"num_envs": worlds, "batch_size": batch})


class ArraySpec(NamedTuple):
    """The spec of the arrays of one name, as EnvPool has it. A ``shape`` that begins with -1 has a row for each agent.

    ``minimum`` and ``maximum`` are numbers, or arrays of the rest of the shape.
    """

    shape: list[int]
    dtype: np.dtype
    minimum: Any
    maximum: Any
    is_discrete: bool = False


class EnvSpec:
    """The facts of a pool before it is made.

    Attributes: ``id``, ``environment`` (the declaration), ``config`` (a namedtuple of arguments and options, see
    ``field_names``), ``reward_threshold``, ``observation_space`` and ``action_space`` of one agent.
    """

    def __init__(self, env_id: str, environment: Environment, chosen: Mapping[str, Any]) -> None:
        program = self._program = Program(environment)
        self.id, self.environment = env_id, environment
        self.reward_threshold = gymnasium.spec(env_id).reward_threshold
        self.observation_space, self.action_space = program.observation_space, program.action_space
        self.gymnasium_observation_space, self.gymnasium_action_space = self.observation_space, self.action_space
        self.agents = program.agents.count
        own = {**chosen, "max_num_players": self.agents, "reward_threshold": self.reward_threshold}
        options = {**program.parameters, **program.constants}
        # The pool's own come first, so that no option takes their names.
        names = field_names([*own, *options])
        self.config = namedtuple("Config", names)(*own.values(), *options.values())

    @property
    def state_array_spec(self) -> dict[str, ArraySpec]:
        """Of a step's results, by EnvPool's keys: ``"obs"``, ``"reward"``, ``"info:env_id"``, ``"info:score"`` ...

        With several agents observations and infos of theirs are ``"obs:players.obs"``, ``"info:players.score"``.
        """
        program, players, one = self._program, "players." if self.agents > 1 else "", []
        rows = [-1] if players else one
        specs = {
            "info:env_id": _array_spec(np.int32, one),
            "info:players.env_id": _array_spec(np.int32, [-1]),
            "elapsed_step": _array_spec(np.int32, one),
            "done": _array_spec(np.bool_, one),
            "reward": _array_spec(numpy_dtype(program.reward.dtype), [-1]),
            "discount": ArraySpec([-1], np.dtype(np.float32), 0.0, 1.0),
            "step_type": ArraySpec(one, np.dtype(np.int32), 0, 2),
            "trunc": _array_spec(np.bool_, one),
        }
        for key, column in program.observations.items():
            space = self.observation_space[key] if key else self.observation_space
            name = f"obs:{players}{key or 'obs'}" if key or players else "obs"
            specs[name] = _spec_of(space, numpy_dtype(column.dtype), rows)
        for key, column in program.info.items():
            specs[f"info:{players}{key}"] = _array_spec(numpy_dtype(column.dtype), [*rows, *column.value_shape])
        if players:
            specs |= {f"info:players.{flag}": _array_spec(np.bool_, rows) for flag in ("terminated", "truncated")}
        return specs

    @property
    def action_array_spec(self) -> dict[str, ArraySpec]:
        """Of the dict that ``send`` takes: ``"env_id"``, ``"players.env_id"`` and ``"action"`` of all agents."""
        dtype = self.action_space.dtype if isinstance(self.action_space, gymnasium.spaces.Box) else np.dtype(np.int32)
        ids = {"env_id": _array_spec(np.int32, []), "players.env_id": _array_spec(np.int32, [-1])}
        name = "players.action" if self.agents > 1 else "action"
        return {**ids, name: _spec_of(self.action_space, dtype, [-1])}

    def observation_spec(self) -> Any:
        """A namedtuple of ``dm_env.specs``, of one row each, as in ``TimeStep.observation``."""
        state: dict[str, Any] = {}
        players: dict[str, Any] = {}
        for key, spec in self.state_array_spec.items():
            kind, _, name = key.partition(":")
            if kind in ("info", "obs"):
                own = (name or kind).removeprefix("players.")
                (state if own == (name or kind) else players)[own] = _dm_spec(own, spec)
                state.setdefault("players", None)  # behind env_id
        return made_namedtuple("State", {**state, "players": made_namedtuple("players", players)})

    def action_spec(self) -> Any:
        """Of one agent, from ``dm_env.specs``."""
        *_, spec = self.action_array_spec.values()
        return _dm_spec("action", spec)

    def __repr__(self) -> str:
        return f"{type(self.environment).__name__}EnvSpec({listed(self.config._asdict())})"


def field_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names as fields of a namedtuple, in order: ``"grid.cell"`` is ``grid_cell``, ``"lambda"`` is ``lambda_``.

    Underscores at the front are dropped, and of equal names later ones have an underscore more at the end.
    """
    found: dict[str, None] = {}
    for name in names:
        field = re.sub(r"\W", "_", name).lstrip("_")
        if not field or field[0].isdigit():
            field = f"field_{field}"
        while keyword.iskeyword(field) or field in found:
            field += "_"
        found[field] = None
    return tuple(found)


def _array_spec(dtype: Any, shape: list[int]) -> ArraySpec:
    """Of any values of the dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return ArraySpec(shape, dtype, False, True)
    if dtype.kind in "iu":
        return ArraySpec(shape, dtype, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return ArraySpec(shape, dtype, -np.inf, np.inf)


def _spec_of(space: gymnasium.Space, dtype: np.dtype, rows: list[int]) -> ArraySpec:
    """Of values of a space that is not a dict."""
    low, high = (bound.item() if bound.ndim == 0 else bound for bound in bounds(space))
    return ArraySpec([*rows, *space.shape], dtype, low, high, isinstance(space, gymnasium.spaces.Discrete))


def _dm_spec(name: str, spec: ArraySpec) -> Any:
    """Of one row, from ``dm_env.specs``. Indices from 0 on have a ``DiscreteArray``."""
    specs, shape = dm_env().specs, [size for size in spec.shape if size != -1]
    if spec.is_discrete and spec.minimum == 0 and not shape:
        return specs.DiscreteArray(spec.maximum + 1, spec.dtype, name)
    return specs.BoundedArray(shape, spec.dtype, spec.minimum, spec.maximum, name)


def checked_ids(env_id: Any, num_envs: int) -> np.ndarray:
    """``env_id`` as int64 ``[envs]``. Raises TypeError or ValueError unless it names envs, each once."""
    ids = np.atleast_1d(env_id.cpu().numpy() if isinstance(env_id, torch.Tensor) else np.asarray(env_id))
    if not len(ids):
        raise ValueError("env_id must name at least one env, got an empty one")
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
    """A ``dm_env.TimeStep`` of arrays or tensors, whose observation is a namedtuple of observations and infos.

    With several agents theirs are within ``observation.players``, and ``reward`` and ``discount`` have their rows.
    """
    observations = part["obs"] if isinstance(part["obs"], dict) else {"obs": part["obs"]}
    several = "players" in part
    own, players = ({}, observations) if several else (observations, {})
    players = {"env_id": info["players"]["env_id"], **players, **info["players"]}
    state = {"env_id": info["env_id"], "players": made_namedtuple("players", players), **own}
    state |= {name: value for name, value in info.items() if name not in (*state, "elapsed_step")}
    flags = part["players"] if several else part
    begun, done, ended = part["elapsed_step"] == 0, _either(part), _either(flags)
    if isinstance(done, torch.Tensor):
        step_type, discount = torch.where(begun, 0, torch.where(done, 2, 1)).int(), (~ended).float()
    else:
        step_type = np.where(begun, 0, np.where(done, 2, 1)).astype(np.int32)
        discount = (~ended).astype(np.float32)
    observation = made_namedtuple("State", state)
    return dm_env().TimeStep(step_type=step_type, reward=part["reward"], discount=discount, observation=observation)


def _either(flags: Mapping[str, Any]) -> Any:
    return flags["terminated"] | flags["truncated"]


def dm_env() -> Any:
    """The package. Raises MissingExtra."""
    ADAPTERS["dm_env"].require()
    return importlib.import_module("dm_env")


def made_namedtuple(name: str, values: Mapping[str, Any]) -> Any:
    """A namedtuple with these fields, see ``field_names``."""
    return _named(name, tuple(values))(*values.values())


@cache
def _named(name: str, names: tuple[str, ...]) -> type:
    return namedtuple(name, field_names(names))


def listed(values: Mapping[str, Any]) -> str:
    """``name=value, ...``."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
