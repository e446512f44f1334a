"""Stable-Baselines3's ``VecEnv``: NumPy arrays out, a dict of infos for each row, autoreset in the same step.

>>> from stable_baselines3 import PPO
>>> from torch_batchsim.adapters.stable_baselines3 import StableBaselinesVecEnv
>>> PPO("MlpPolicy", StableBaselinesVecEnv("torch_batchsim/CartPole-v0", 64)).learn(100_000)

``sb3_contrib.MaskablePPO`` finds the masks of environments that have them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import VectorEnv

from ..declare.environment import Environment
from ..declare.spaces import bounds
from ..memory.inputs import checked_options, checked_seed
from ..testing import random_actions
from ..vector import rendering
from ..vector.vector_env import TorchVectorEnv
from .episodes import Episodes, stepped
from .records import ADAPTERS, Played
from .source import vector_env
from .stepping import choices_from_zero

RECORD = ADAPTERS["stable_baselines3"]
RECORD.require()

from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

_MASKS = "action_masks"  # the method of a row that sb3_contrib asks for


class RowInfos(Sequence):
    """A dict for each row, made when one is first read, because for thousands of rows that takes longer than a step.

    Dicts of rows that have not ended are empty. Those of ``rows``, which have, hold their entries of ``columns``, and
    ``episode`` from ``returns``, ``lengths`` and ``seconds`` unless its length is 0. The dicts are the reader's own,
    and are the same each time.
    """

    def __init__(
        self,
        num_envs: int,
        rows: np.ndarray,
        columns: dict[str, Sequence[Any]],
        returns: np.ndarray,
        lengths: np.ndarray,
        seconds: float,
    ) -> None:
        self._num_envs, self._rows, self._columns = num_envs, rows, columns
        self._returns, self._lengths, self._seconds = returns, lengths, seconds
        self._dicts: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return self._num_envs

    def __getitem__(self, index: Any) -> Any:
        return self._made()[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._made())

    def __repr__(self) -> str:
        return repr(self._made())

    def _made(self) -> list[dict[str, Any]]:
        if self._dicts is None:
            self._dicts = [{} for _ in range(self._num_envs)]
            names, values = [*self._columns], zip(*self._columns.values(), strict=True)
            rows, returns, lengths = self._rows.tolist(), self._returns.tolist(), self._lengths.tolist()
            for row, r, length, entries in zip(rows, returns, lengths, values, strict=True):
                ended = self._dicts[row] = dict(zip(names, entries, strict=True))
                if length:
                    ended["episode"] = {"r": r, "l": length, "t": self._seconds}
        return self._dicts


class StableBaselinesVecEnv(VecEnv):
    """All rows of a vector environment as a ``VecEnv``.

    Args:
        env: an id, a declared environment, or a ``TorchVectorEnv`` with SAME_STEP, wrapped or not.
        num_envs: rows, where it is made here; with several agents in a world each is a row. ``num_worlds`` may be given
            instead.
        options: arguments of ``TorchVectorEnv`` (``device``, ``render_mode``, ...), and with an id the environment's
            own.

    ``reset`` and ``step`` return arrays of their own, on the host: observations ``[rows, ...]`` or a dict of them,
    rewards float32 ``[rows]``, dones bool ``[rows]``. The dicts of rows that have ended hold ``terminal_observation``,
    ``TimeLimit.truncated``, the environment's last infos of the episode by name, and ``episode``: return ``r``, length
    ``l`` and seconds ``t`` since this was made, as those of SB3's ``Monitor``; the other dicts are empty. A row counts
    while it is active: one that has left has no episode until its world begins anew. Choices are counted from 0,
    whatever the ``start`` of the action space; observations of choices that begin at another number are in a Box,
    because SB3 makes one-hot vectors of the others.

    Attributes: ``vector_env``, the ``TorchVectorEnv``; ``env``, the same with its wrappers; ``infos``, those of the
    last reset or step, tensors ``[rows, ...]``.

    Raises TypeError for another environment, ValueError for one without SAME_STEP or final observations.
    """

    def __init__(self, env: str | Environment | VectorEnv, num_envs: int | None = None, **options: Any) -> None:
        self.env = vector_env(env, RECORD.interface("StableBaselinesVecEnv"), options, num_envs)
        self.vector_env: TorchVectorEnv = self.env.unwrapped
        self.spec = self.env.spec
        self.infos: dict[str, Any] = {}
        self._actions: Any = None
        self._on_host = self.vector_env.device.type == "cpu"
        self._started = time.monotonic()
        space = self.env.single_action_space
        actions = choices_from_zero(space)
        self._first = None if actions is space else np.asarray(space.start)
        space = self.env.single_observation_space
        seen = _observed(space)
        parts = [(key, space[key], seen[key]) for key in space] if isinstance(space, Dict) else [("", space, seen)]
        self._scalars = {key for key, given, shown in parts if given.shape != shown.shape}
        super().__init__(self.env.num_envs, seen, actions)
        self.metadata["render_fps"] = self.vector_env.metadata["render_fps"]
        self._episodes = Episodes(self.num_envs)

    # ---- reset and step --------------------------------------------------------------------------------------------

    def reset(self) -> Any:
        """Begin new episodes in all rows, with the seed and the options that were set, and return observations."""
        options = self._options[0] or None
        observations, self.infos = self.env.reset(seed=self._seeds[0], options=options)
        self._reset_seeds()
        self._reset_options()
        self._episodes.begin(self._active())
        return _copies(self._with_axes(observations))

    def set_options(self, options: dict[str, Any] | None = None) -> None:
        """Options of the next reset, as the vector environment takes them: ``[worlds, ...]`` for all worlds.

        Raises TypeError or ValueError for anything but a dict of the environment's options.
        """
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options are one dict for all worlds, got {type(options).__name__}")
        if "reset_mask" in (options or {}):
            raise ValueError("a VecEnv resets all rows, got the option reset_mask")
        self._options = [checked_options(options, (*self.vector_env.environment.reset_options,))] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed of the next reset, drawn where it is None; returns a number for each row. Raises ValueError."""
        return super().seed(checked_seed(seed))

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions ``[rows]`` or ``[rows, k]`` for ``step_wait``."""
        if self._first is not None:
            actions = np.reshape(actions, self.env.action_space.shape) + self._first
        ordinary = isinstance(actions, np.ndarray) and actions.flags.carray and actions.dtype.kind in "if"
        self._actions = torch.from_numpy(actions) if ordinary and self._on_host else actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, RowInfos]:
        """Step, and return ``(observations, rewards, dones, infos)``; once after each ``step_async``."""
        actions, self._actions = self._actions, None
        if actions is None:
            raise RuntimeError("step_wait() needs step_async(actions) before it, once for each step")
        return stepped(self.env, actions, self._delivered)

    def _delivered(
        self, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: dict[str, Any]
    ) -> tuple[Any, np.ndarray, np.ndarray, RowInfos]:
        self.infos = infos
        rewards, truncated = _copies(rewards), _seen(truncations)
        dones = _seen(terminations) | truncated
        self._episodes.count(rewards, self._active())
        ended = self._ended(dones.nonzero()[0], terminations, truncated)
        return _copies(self._with_axes(observations)), rewards, dones, ended

    def _ended(self, rows: np.ndarray, terminations: Any, truncated: np.ndarray) -> RowInfos:
        """The infos of a step in which these rows have ended; their episodes are over."""
        final = self.infos["final_info"]
        columns = {name: _taken(values, rows) for name, values in final.items() if not name.startswith("_")}
        columns["terminal_observation"] = _taken(self._with_axes(self.infos["final_obs"]), rows)
        columns["TimeLimit.truncated"] = (truncated.take(rows) & ~_seen(terminations).take(rows)).tolist()
        returns, lengths = self._episodes.ended(rows)
        seconds = round(time.monotonic() - self._started, 6)
        return RowInfos(self.num_envs, rows, columns, returns, lengths, seconds)

    def _with_axes(self, observations: Any) -> Any:
        """Single numbers as ``[rows, 1]``, where their space has that axis here."""
        if not self._scalars:
            return observations
        if not isinstance(observations, dict):
            return observations[:, None]
        return {key: part[:, None] if key in self._scalars else part for key, part in observations.items()}

    def _active(self) -> np.ndarray | None:
        active = self.infos.get("active")
        return None if active is None else _seen(active)

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    # ---- attributes of rows -----------------------------------------------------------------------------------------

    def get_images(self) -> list[np.ndarray]:
        """A picture ``uint8 [height, width, 3]`` of each world, or with ``render_worlds`` of the first so many.

        Without ``render_worlds`` raises ValueError for more than 64 worlds.
        """
        env = self.vector_env
        env.check_ready("get_images()")
        return list(rendering.frames(env.sim, 1, env.render_mode or "rgb_array", env.render_worlds))

    def has_attr(self, attr_name: str) -> bool:
        """Whether ``get_attr`` knows it; ``action_masks`` exists where the environment restricts actions."""
        if attr_name == _MASKS:
            return self.vector_env.action_mask is not None
        return self.vector_env.has_attr(attr_name)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """``TorchVectorEnv.get_attr`` of these rows; ``action_masks`` are methods.

        Raises AttributeError for an unknown name, TypeError or IndexError for other indices than those of rows.
        """
        rows = self._get_indices(indices)
        if attr_name == _MASKS and self.has_attr(_MASKS):
            return [partial(self._action_mask, row) for row in rows]
        values = self.vector_env.get_attr(attr_name)
        return [values[row] for row in rows]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Give these rows this value, see ``TorchVectorEnv.set_attr``. Raises its errors, and those of ``get_attr``."""
        if indices is None:
            values = [value] * self.num_envs
        else:
            rows = self._get_indices(indices)
            values = list(self.vector_env.get_attr(attr_name))
            for row in rows:
                values[row] = value
        self.vector_env.set_attr(attr_name, values)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """``action_masks`` of the rows, a bool array each, or ``render`` of all worlds that ``get_images`` shows.

        Raises AttributeError for other methods, because rows are no environments of their own.
        """
        if method_name == "render":
            return list(self.get_images())
        if method_name != _MASKS:
            raise AttributeError(f"rows have the methods 'action_masks' and 'render', got {method_name!r}")
        if not self.has_attr(_MASKS):
            raise AttributeError(f"{self.vector_env.environment.name} has no action masks")
        rows = self._get_indices(indices)
        masks = list(_copies(self.vector_env.action_mask))
        return masks if indices is None else [masks[row] for row in rows]

    def _action_mask(self, row: int) -> np.ndarray:
        return self.env_method(_MASKS, indices=row)[0]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None) -> list[bool]:
        """True for SB3's ``Monitor``, because infos have its ``episode``; False for all others."""
        return [issubclass(wrapper_class, Monitor)] * len(self._get_indices(indices))

    def _get_indices(self, indices: Any) -> Sequence[int]:
        """Row numbers: all for None, one for a number. Raises TypeError, IndexError."""
        if indices is None:
            return range(self.num_envs)
        rows = list(indices) if isinstance(indices, Iterable) else [indices]
        for row in rows:
            if isinstance(row, (bool, np.bool_)) or not isinstance(row, (int, np.integer)):
                raise TypeError(f"indices must be integers, the numbers of rows, got {row!r}")
            if not 0 <= row < self.num_envs:
                raise IndexError(f"indices must be numbers of rows, 0 to {self.num_envs - 1}, got {row}")
        return rows


def _observed(space: gymnasium.Space) -> gymnasium.Space:
    """The same values in a space that SB3 takes: its choices begin at 0, and boxes of its networks have an axis."""
    if isinstance(space, Dict):
        return Dict({key: _observed(part) for key, part in space.items()})
    shifted = isinstance(space, (Discrete, MultiDiscrete)) and choices_from_zero(space) is not space
    if not shifted and (space.shape or not isinstance(space, Box)):
        return space
    low, high = (np.atleast_1d(bound) for bound in bounds(space))
    return Box(low, high, dtype=space.dtype.type)


def _seen(values: torch.Tensor | np.ndarray) -> np.ndarray:
    """As an array, without a copy where it lies on the host."""
    return values if isinstance(values, np.ndarray) else values.numpy(force=True)


def _copies(values: Any) -> Any:
    """Arrays of their own, from a tensor, an array, or a dict of them."""
    if isinstance(values, dict):
        return {key: _copies(part) for key, part in values.items()}
    on_host = isinstance(values, np.ndarray) or values.device.type == "cpu"
    return _seen(values).copy() if on_host else _seen(values)


def _taken(values: Any, rows: np.ndarray) -> Sequence[Any]:
    """Some rows of a tensor or an array, or of a dict of them: an entry each, copied."""
    if isinstance(values, dict):
        parts = {key: _taken(part, rows) for key, part in values.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    if isinstance(values, torch.Tensor) and values.device.type != "cpu":
        return _seen(values[torch.from_numpy(rows).to(values.device)])
    return _seen(values).take(rows, 0)


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions."""
    env = StableBaselinesVecEnv(environment, num_envs, **options)
    env.seed(0)
    env.reset()
    return Played(env, StableBaselinesVecEnv.step, [actions.numpy() for actions in random_actions(env.vector_env)])
