"""Tianshou: a ``BaseVectorEnv`` of NumPy arrays, whose worlds are reset and stepped by id.

>>> from tianshou.data import Collector, VectorReplayBuffer
>>> from torch_batchsim.adapters.tianshou import TianshouVectorEnv
>>> venv = TianshouVectorEnv("torch_batchsim/CartPole-v0", 64)
>>> collector = Collector(policy, venv, VectorReplayBuffer(64 * 128, 64))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from ..declare.environment import Environment
from ..declare.spaces import check_from_zero
from ..memory.inputs import number_tensor
from ..testing import random_actions
from ..vector.partial_step import step_some
from .records import ADAPTERS, Played
from .source import vector_env

RECORD = ADAPTERS["tianshou"]
RECORD.require()

from tianshou.data import Batch  # noqa: E402
from tianshou.env import BaseVectorEnv  # noqa: E402

_ORDINARY = {np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float32)}  # of actions that torch takes as they are
Ids = int | Sequence[int] | np.ndarray | None


class TianshouVectorEnv(BaseVectorEnv):
    """All rows of an environment behind Tianshou's interface, for its ``Collector``.

    ``reset`` and ``step`` return copies. Observations are arrays; where the environment has masks of legal
    actions or several parts of observations, a ``Batch``: ``obs`` (or the parts) and ``mask``, which Tianshou's
    policies look for. Infos are an object array with a dict for each row; where the environment has none, these are
    empty and the same each time.

    Args:
        env: an id, or a declared environment.
        num_envs: rows; or give ``num_worlds``.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Attributes: ``vector_env``, the ``TorchVectorEnv``.

    Raises ValueError for environments whose agents may end before their world, because Tianshou resets all rows that
    end; and for actions that are not counted from 0.
    """

    # Tianshou's own passes names of gymnasium on to workers, which slows every access; here they are properties.
    __getattribute__ = object.__getattribute__

    # No super().__init__(), which makes a worker for each row, as in Tianshou's own wrappers.
    def __init__(self, env: str | Environment, num_envs: int | None = None, **options: Any) -> None:
        env = self.vector_env = vector_env(env, RECORD.interface("TianshouVectorEnv"), options, num_envs)
        check_from_zero(env.single_action_space, "Tianshou")
        if env.sim.program.agent_end is not None:
            name = env.environment.name
            raise ValueError(f"agents of {name} may end before their world, and Tianshou cannot reset them one by one")
        self.env_num, self.is_async, self.is_closed = env.num_envs, False, False
        self._rows, self._every = np.arange(env.num_envs), np.ones(env.num_envs, dtype=bool)
        self._action_shape = env.single_action_space.shape
        self._nothing = np.array([{} for _ in range(env.num_envs)])

    @property
    def action_space(self) -> list[gymnasium.Space]:
        """The space of each row."""
        return self.get_env_attr("action_space")

    @property
    def observation_space(self) -> list[gymnasium.Space]:
        """The space of each row."""
        return self.get_env_attr("observation_space")

    @property
    def metadata(self) -> list[dict[str, Any]]:
        """The environment's, for each row."""
        return self.get_env_attr("metadata")

    @property
    def spec(self) -> list[Any]:
        """The environment's, for each row."""
        return self.get_env_attr("spec")

    def get_env_attr(self, key: str, id: Ids = None) -> list[Any]:
        """``TorchVectorEnv.get_attr`` for each id: spaces are those of a row."""
        self._assert_is_not_closed()
        values = self.vector_env.get_attr(key)
        return [values[row] for row in self._ids(id)[0]]

    def set_env_attr(self, key: str, value: Any, id: Ids = None) -> None:
        """Raises AttributeError, because the rows share one environment."""
        raise AttributeError(f"rows share one environment, and {key!r} cannot be set for them; set it in .vector_env")

    def reset(self, env_id: Ids = None, **kwargs: Any) -> tuple[Any, np.ndarray]:
        """Begin new episodes in the worlds of these rows, all agents of a world together.

        Args:
            env_id: rows, each once; all by default.
            kwargs: ``seed`` and ``options`` of ``TorchVectorEnv.reset``.

        Returns observations ``[ids, ...]`` and infos ``[ids]``.
        """
        self._assert_is_not_closed()
        ids, mask = self._ids(env_id)
        given = kwargs.get("options") or {}
        if "reset_mask" in given:
            raise ValueError("give env_id in place of the option reset_mask")
        if ids is self._rows:
            self.vector_env.reset(**kwargs)
        elif kwargs or not self.vector_env.has_begun:
            kwargs["options"] = {**given, "reset_mask": self._worlds_of(mask)}
            self.vector_env.reset(**kwargs)
        else:
            self.vector_env.sim.reset(self._worlds_of(mask))  # writes in place, without gathering results
        return self._observed(ids)

    def step(self, action: np.ndarray | torch.Tensor, id: Ids = None) -> tuple[Any, ...]:
        """Step the worlds of these rows by ``action [ids, ...]``, all agents of a world together; others do not change.

        Returns observations, rewards, terminations, truncations and infos of the rows, the first dimension ``[ids]``.
        Raises TypeError or ValueError for ids and actions that do not fit, before anything changes.
        """
        self._assert_is_not_closed()
        ids, mask = self._ids(id)
        actions = self._checked_actions(action, ids)
        if ids is self._rows:
            results = self.vector_env.step(actions)
        else:
            of_all = actions.new_zeros((self.env_num, *actions.shape[1:]))
            of_all[torch.from_numpy(ids)] = actions
            results = step_some(self.vector_env, of_all, self._worlds_of(mask))
        observations, infos = self._observed(ids)
        return observations, *(self._taken(part, ids) for part in results[1:4]), infos

    def seed(self, seed: int | Sequence[int] | np.ndarray | None = None) -> list[list[int] | None]:
        """Seed all worlds by one number, the first one of a list, and reset them: all begin new episodes.

        A ``Collector`` does not notice: seed before it is made, or reset it afterwards.
        """
        several = isinstance(seed, (list, tuple, np.ndarray)) and np.ndim(seed) == 1
        if several and len(seed) == 0:
            raise ValueError(f"seed must be a number or a list of numbers, got {seed!r}")
        first = seed[0] if several else seed
        self.reset(seed=first)
        return [None if first is None else [first]] * self.env_num

    def render(self, **kwargs: Any) -> list[Any]:
        """Of the first worlds, see ``TorchVectorEnv.render``."""
        self._assert_is_not_closed()
        return list(self.vector_env.render() or ())

    def close(self) -> None:
        """Close the environment."""
        self._assert_is_not_closed()
        self.vector_env.close()
        self.is_closed = True

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _ids(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        """As an array, ``self._rows`` itself where they are all in order, and as a mask; TypeError or ValueError."""
        if ids is None:
            return self._rows, self._every
        try:
            given = np.atleast_1d(ids)
        except ValueError:  # ragged
            given = np.empty(1, object)
        given = given if given.size else given.astype(np.intp)  # an empty list
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise TypeError(self._wanted(ids))
        if len(given) == self.env_num and np.array_equal(given, self._rows):
            return self._rows, self._every
        mask = np.zeros(self.env_num, dtype=bool)
        if len(given) and given.min() >= 0 and given.max() < self.env_num:
            mask[given] = True
        if np.count_nonzero(mask) != len(given):
            raise ValueError(self._wanted(ids))
        return np.ascontiguousarray(given, np.intp), mask

    def _wanted(self, ids: Any) -> str:
        return f"ids must be integers from 0 to {self.env_num - 1}, each once, or None for all, got {ids!r}"

    def _checked_actions(self, action: Any, ids: np.ndarray) -> torch.Tensor:
        """Actions of these rows. Raises TypeError or ValueError where they do not fit."""
        shape = (len(ids), *self._action_shape)
        if type(action) is np.ndarray and action.dtype in _ORDINARY and action.flags.carray:
            actions = torch.from_numpy(action)
        else:
            actions = number_tensor(action, "action", f"shape {list(shape)}")
        if actions.shape != shape:
            got = list(actions.shape)
            raise ValueError(f"step needs an action for each of {len(ids)} ids, shape {list(shape)}, got {got}")
        return actions

    def _worlds_of(self, rows: np.ndarray) -> torch.Tensor:
        """The mask of worlds, bool ``[worlds]``, from one of rows."""
        agents = self.vector_env.num_agents
        if agents > 1:
            by_world = rows.reshape(-1, agents)
            rows = by_world.any(1)
            if not np.array_equal(rows, by_world.all(1)):
                raise ValueError("ids must be those of all agents of a world, because they share it")
        return torch.from_numpy(rows)

    def _observed(self, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        """Observations and infos of these rows at present."""
        # In the environment's memory, which with copy=False does not move.
        observations, infos = self.vector_env.observations, self.vector_env.infos
        taken = {name: self._taken(part, ids) for name, part in infos.items()}
        masks = {"mask": taken.pop("action_mask")} if "action_mask" in taken else {}
        dicts = self._nothing if ids is self._rows else self._nothing[: len(ids)]
        if taken:
            rows = zip(*(part.tolist() for part in taken.values()), strict=True)
            dicts = np.array([dict(zip(taken, row, strict=True)) for row in rows])
        if isinstance(observations, dict):
            return Batch({name: self._taken(part, ids) for name, part in observations.items()} | masks), dicts
        rows = self._taken(observations, ids)
        return (Batch(obs=rows, **masks) if masks else rows), dicts

    def _taken(self, tensor: torch.Tensor, ids: np.ndarray) -> np.ndarray:
        """A copy of these rows."""
        array = tensor.numpy()
        return array.copy() if ids is self._rows else array[ids]


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions; those that have ended begin anew after the step."""
    venv = TianshouVectorEnv(environment, num_envs, **options)
    venv.seed(0)
    return Played(venv, _stepped, [actions.numpy() for actions in random_actions(venv.vector_env)])


def _stepped(venv: TianshouVectorEnv, actions: np.ndarray) -> tuple[Any, ...]:
    results = venv.step(actions)
    ended = (results[2] | results[3]).nonzero()[0]
    if len(ended):
        venv.reset(ended)
    return results
