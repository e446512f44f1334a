"""Stable-Baselines3's ``VecEnv``: NumPy arrays out, a dict of infos for each row, autoreset in the same step.

>>> from stable_baselines3 import PPO
>>> from torch_batchsim.adapters.stable_baselines3 import StableBaselinesVecEnv
>>> PPO("MlpPolicy", StableBaselinesVecEnv("torch_batchsim/CartPole-v0", 64)).learn(100_000)

``sb3_contrib.MaskablePPO`` finds the masks of environments that have them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from ..extras import needed
from ..vector_env import TorchVectorEnv

needed("stable_baselines3", extra="stable-baselines3")

from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

_MASKS = "action_masks"  # the method of a row that sb3_contrib asks for
_MOST_IMAGES = 16


class RowInfos(Sequence):
    """A dict for each row, made when one is first read: for thousands of rows that takes longer than a step.

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
        env: an id, or a ``TorchVectorEnv``, wrapped or not, whose ``autoreset_mode`` is SAME_STEP.
        num_envs: rows, for an id; with several agents in a world each is a row. ``num_worlds`` may be given instead.
        kwargs: for an id, of the vector environment (``device``, ``render_mode``, ...) and the environment's options.

    ``reset`` and ``step`` return arrays of their own, on the host: observations ``[rows, ...]`` or a dict of them,
    rewards float32 ``[rows]``, dones bool ``[rows]``. The dicts of rows that have ended hold ``terminal_observation``,
    ``TimeLimit.truncated``, the environment's last infos of the episode by name, and ``episode``: return ``r``, length
    ``l`` and seconds ``t`` since this was made, as those of SB3's ``Monitor``; the other dicts are empty. A row counts
    while it is active: one that has left has no episode until its world begins anew.

    Attributes: ``env``; ``infos``, those of the vector environment's last reset or step, tensors ``[rows, ...]``.

    Raises TypeError for another environment, ValueError for one without SAME_STEP or final observations.
    """

    def __init__(self, env: str | VectorEnv, num_envs: int | None = None, **kwargs: Any) -> None:
        self.env = _made(env, num_envs, kwargs)
        self._vector: TorchVectorEnv = self.env.unwrapped
        self.spec = self.env.spec
        self.infos: dict[str, Any] = {}
        self._actions: Any = None
        self._on_host = self._vector.device.type == "cpu"
        self._active: np.ndarray | None = None  # before the next step
        self._started = time.monotonic()
        super().__init__(self.env.num_envs, self.env.single_observation_space, self.env.single_action_space)
        self.metadata["render_fps"] = self._vector.metadata["render_fps"]
        self._returns = np.zeros(self.num_envs, np.float32)
        self._lengths = np.zeros(self.num_envs, np.int32)

    # ---- reset and step --------------------------------------------------------------------------------------------

    def reset(self) -> Any:
        """Begin new episodes in all rows, with the seed and the options that were set, and return observations."""
        options = self._options[0] or None
        observations, self.infos = self.env.reset(seed=self._seeds[0], options=options)
        self._reset_seeds()
        self._reset_options()
        self._returns.fill(0)
        self._lengths.fill(0)
        self._note_active()
        return _copies(observations)

    def set_options(self, options: dict[str, Any] | None = None) -> None:
        """Options of the next reset, as the vector environment takes them: ``[worlds, ...]`` for all worlds."""
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options are one dict for all worlds, got {type(options).__name__}")
        if "reset_mask" in (options or {}):
            raise ValueError("a VecEnv resets all rows: its options have no reset_mask")
        self._options = [options or {}] * self.num_envs

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions ``[rows]`` or ``[rows, k]`` for ``step_wait``."""
        ordinary = isinstance(actions, np.ndarray) and actions.flags.carray and actions.dtype.kind in "if"
        self._actions = torch.from_numpy(actions) if ordinary and self._on_host else actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, RowInfos]:
        """Step, and return ``(observations, rewards, dones, infos)``."""
        observations, rewards, terminations, truncations, self.infos = self.env.step(self._actions)
        rewards, truncated = _copies(rewards), _seen(truncations)
        dones = _seen(terminations) | truncated
        counted = self._active
        if counted is None:
            self._returns += rewards
            self._lengths += 1
        else:
            self._returns += np.where(counted, rewards, 0)
            self._lengths += counted
        self._note_active()
        ended = self._ended(dones.nonzero()[0], terminations, truncated)
        return _copies(observations), rewards, dones, ended

    def _ended(self, rows: np.ndarray, terminations: Any, truncated: np.ndarray) -> RowInfos:
        """The infos of a step in which these rows have ended; their episodes are over."""
        final = self.infos["final_info"]
        columns = {name: _taken(values, rows) for name, values in final.items() if not name.startswith("_")}
        columns["terminal_observation"] = _taken(self.infos["final_obs"], rows)
        columns["TimeLimit.truncated"] = (truncated.take(rows) & ~_seen(terminations).take(rows)).tolist()
        returns, lengths = self._returns.take(rows), self._lengths.take(rows)
        self._returns[rows] = 0
        self._lengths[rows] = 0
        seconds = round(time.monotonic() - self._started, 6)
        return RowInfos(self.num_envs, rows, columns, returns, lengths, seconds)

    def _note_active(self) -> None:
        active = self.infos.get("active")
        self._active = None if active is None else _copies(active)

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    # ---- what a row has --------------------------------------------------------------------------------------------

    def get_images(self) -> list[np.ndarray]:
        """Pictures ``uint8 [height, width, 3]`` of the first worlds, 16 at most."""
        return [self._vector.render_world(world) for world in range(min(self._vector.num_worlds, _MOST_IMAGES))]

    def has_attr(self, attr_name: str) -> bool:
        """Whether ``get_attr`` knows it; ``action_masks`` is there where the environment restricts actions."""
        if attr_name == _MASKS:
            return self._vector.action_mask is not None
        return hasattr(self._vector, attr_name)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector environment, the same for each of the rows. Raises AttributeError."""
        if not self.has_attr(attr_name):
            raise AttributeError(f"{self._vector.environment.name} has no {attr_name!r}")
        rows = self._get_indices(indices)
        if attr_name == _MASKS:
            return [partial(self._action_mask, row) for row in rows]
        return [getattr(self._vector, attr_name)] * len(list(rows))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the vector environment, which all rows share: ``indices`` must be None."""
        if indices is not None:
            raise ValueError(f"rows share {attr_name!r}: set_attr is for all of them, got indices={indices!r}")
        setattr(self._vector, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """``action_masks`` of the rows, a bool array each, or ``render`` of all worlds that ``get_images`` shows.

        Raises AttributeError for other methods: rows are no environments of their own.
        """
        if method_name == "render":
            return list(self.get_images())
        if method_name != _MASKS:
            raise AttributeError(f"rows have the methods 'action_masks' and 'render', not {method_name!r}; see .env")
        if not self.has_attr(_MASKS):
            raise AttributeError(f"{self._vector.environment.name} has no action masks")
        masks = list(_copies(self._vector.action_mask))
        return masks if indices is None else [masks[row] for row in self._get_indices(indices)]

    def _action_mask(self, row: int) -> np.ndarray:
        return self.env_method(_MASKS, indices=row)[0]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None) -> list[bool]:
        """True for SB3's ``Monitor``, since infos have its ``episode``; other wrappers of one row there are none."""
        return [issubclass(wrapper_class, Monitor)] * len(list(self._get_indices(indices)))


def _made(env: str | VectorEnv, num_envs: int | None, kwargs: dict[str, Any]) -> VectorEnv:
    """The environment, or the one of this id, after a look at what it does at the end of an episode."""
    if isinstance(env, str):
        rows = {} if num_envs is None else {"num_envs": num_envs}
        env = gymnasium.make_vec(env, **rows, **kwargs)
    elif num_envs is not None or kwargs:
        raise TypeError("num_envs and options are for an environment made here by its id; this one is made already")
    own = getattr(env, "unwrapped", None)
    if not isinstance(own, TorchVectorEnv):
        raise TypeError(f"env must be an id or a TorchVectorEnv, got {env!r}")
    mode = own.autoreset_mode
    if mode is not AutoresetMode.SAME_STEP:
        raise ValueError(f"a VecEnv resets in the step that ends: autoreset_mode must be SAME_STEP, got {mode}")
    if not own._delivers_final:
        raise ValueError("terminal_observation needs final_obs=True, got an environment with final_obs=False")
    return env


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
