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
from gymnasium.vector import AutoresetMode

from ..extras import needed

needed("tianshou", extra="tianshou")

from tianshou.data import Batch  # noqa: E402
from tianshou.env import BaseVectorEnv  # noqa: E402

_FIXED = ("autoreset_mode", "copy", "device", "output")
_SPACES = {"action_space": "single_action_space", "observation_space": "single_observation_space"}
Ids = int | Sequence[int] | np.ndarray | None


class TianshouVectorEnv(BaseVectorEnv):
    """All rows of an environment behind Tianshou's interface, for its ``Collector``.

    What ``reset`` and ``step`` return are copies. Observations are arrays; where the environment has masks of legal
    actions or several parts of observations, a ``Batch``: ``obs`` (or the parts) and ``mask``, which Tianshou's
    policies look for. Infos are an object array with a dict for each row; where the environment has none, these are
    empty and the same each time.

    Args:
        env_id: of a registered environment.
        num_envs: rows, as ``gymnasium.make_vec`` takes them; or give ``num_worlds``.
        kwargs: for ``gymnasium.make_vec``, such as options of the environment.

    Attributes: ``env``, the ``TorchVectorEnv``.

    Raises ValueError for environments whose agents may end before their world, for Tianshou resets all rows that end.
    """

    # Tianshou's own passes names of gymnasium on to workers, at a price for every access. Here they are below.
    __getattribute__ = object.__getattribute__

    # No super().__init__(), which makes a worker for each row, as in Tianshou's own wrappers.
    def __init__(self, env_id: str, num_envs: int | None = None, **kwargs: Any) -> None:
        for name in _FIXED:
            if name in kwargs:
                raise TypeError(f"TianshouVectorEnv takes no {name}: Tianshou decides it; got {kwargs[name]!r}")
        if num_envs is not None:
            kwargs["num_envs"] = num_envs
        # With one set of outputs they stay where they are, and are copied here, only the rows that are asked for.
        made = gymnasium.make_vec(env_id, autoreset_mode=AutoresetMode.DISABLED, copy=False, **kwargs)
        env = self.env = made.unwrapped
        if env.sim.program.agent_end is not None:
            raise ValueError(f"agents of {env_id} may end before their world, which Tianshou cannot reset one by one")
        self.env_num, self.is_async, self.is_closed = env.num_envs, False, False
        self._rows = np.arange(env.num_envs)
        self._nothing = np.array([{} for _ in range(env.num_envs)])
        self._present: tuple[Any, dict[str, Any]] | None = None  # observations and infos, in the environment's memory
        # The engine's note of worlds that stand still, which also keeps those still that are not to be stepped.
        self._ended = env.sim.memory.columns["ended"]

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
        """An attribute of the environment for each id; spaces are those of a row."""
        self._assert_is_not_closed()
        return [getattr(self.env, _SPACES.get(key, key))] * len(self._ids(id))

    def set_env_attr(self, key: str, value: Any, id: Ids = None) -> None:
        """Refused: the rows share one environment."""
        raise AttributeError(f"rows share one environment, and {key!r} cannot be set for them; set it in .env")

    def reset(self, env_id: Ids = None, **kwargs: Any) -> tuple[Any, np.ndarray]:
        """Begin new episodes in the worlds of these rows, all agents of a world together.

        Args:
            env_id: rows; all by default.
            kwargs: ``seed`` and ``options`` of ``TorchVectorEnv.reset``.

        Returns observations ``[ids, ...]`` and infos ``[ids]``.
        """
        self._assert_is_not_closed()
        ids = self._ids(env_id)
        if ids is self._rows:
            self._present = self.env.reset(**kwargs)
        elif kwargs:
            options = {**(kwargs.pop("options", None) or {}), "reset_mask": self._worlds_of(ids)}
            self._present = self.env.reset(options=options, **kwargs)
        else:
            if self._present is None:
                raise gymnasium.error.ResetNeeded("the first reset must be of all rows; call reset() without ids")
            self.env.sim.reset(self._worlds_of(ids))  # writes where they lie, and puts no results together
        return self._observed(ids)

    def step(self, action: np.ndarray | torch.Tensor, id: Ids = None) -> tuple[Any, ...]:
        """Step the worlds of these rows by ``action [ids, ...]``, all agents of a world together; others stand still.

        Returns observations, rewards, terminations, truncations and infos of the rows, the first dimension ``[ids]``.
        """
        self._assert_is_not_closed()
        ids, actions = self._ids(id), np.ascontiguousarray(action)
        if len(actions) != len(ids):
            raise ValueError(f"step needs an action for each of {len(ids)} ids, got {len(actions)}")
        results = self._step_all(actions) if ids is self._rows else self._step_some(actions, ids)
        self._present = results[0], results[4]
        observations, infos = self._observed(ids)
        return observations, *(self._taken(part, ids) for part in results[1:4]), infos

    def seed(self, seed: int | list[int] | None = None) -> list[list[int] | None]:
        """Seed all worlds by one number, the first one of a list, and begin new episodes in them."""
        first = seed[0] if isinstance(seed, (list, tuple)) else seed
        self.reset(seed=first)
        return [None if first is None else [first]] * self.env_num

    def render(self, **kwargs: Any) -> list[Any]:
        """Of the first worlds, see ``TorchVectorEnv.render``."""
        self._assert_is_not_closed()
        return list(self.env.render() or ())

    def close(self) -> None:
        """Close the environment."""
        self._assert_is_not_closed()
        self.env.close()
        self.is_closed = True

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _ids(self, ids: Ids) -> np.ndarray:
        """As an array, ``self._rows`` itself where they are all in order."""
        if ids is None:
            return self._rows
        given = np.atleast_1d(np.asarray(ids))
        return self._rows if np.array_equal(given, self._rows) else given

    def _worlds_of(self, ids: np.ndarray) -> torch.Tensor:
        """The mask of their worlds, bool ``[worlds]``."""
        mask = np.zeros((self.env.num_worlds, self.env.num_agents), dtype=bool)
        mask.reshape(-1)[ids] = True
        worlds = mask.any(1)
        if self.env.num_agents > 1 and not np.array_equal(worlds, mask.all(1)):
            raise ValueError("ids must be those of all agents of a world, for they share it")
        return torch.from_numpy(worlds)

    def _step_all(self, actions: np.ndarray) -> tuple[Any, ...]:
        return self.env.step(torch.from_numpy(actions))

    def _step_some(self, actions: np.ndarray, ids: np.ndarray) -> tuple[Any, ...]:
        still = ~self._worlds_of(ids)
        everybodys = actions[:1].repeat(self.env_num, axis=0)  # anything legal for the others
        everybodys[ids] = actions
        had_ended = self._ended[still]
        self._ended[still] = 1
        try:
            return self._step_all(everybodys)
        finally:
            self._ended[still] = had_ended

    def _observed(self, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        """Observations and infos of these rows at present."""
        observations, infos = self._present
        told = {name: self._taken(part, ids) for name, part in infos.items()}
        masks = {"mask": told.pop("action_mask")} if "action_mask" in told else {}
        dicts = self._nothing if ids is self._rows else self._nothing[: len(ids)]
        if told:
            rows = zip(*(part.tolist() for part in told.values()), strict=True)
            dicts = np.array([dict(zip(told, row, strict=True)) for row in rows])
        if isinstance(observations, dict):
            return Batch({name: self._taken(part, ids) for name, part in observations.items()} | masks), dicts
        taken = self._taken(observations, ids)
        return (Batch(obs=taken, **masks) if masks else taken), dicts

    def _taken(self, tensor: torch.Tensor, ids: np.ndarray) -> np.ndarray:
        """A copy of these rows."""
        array = tensor.numpy()
        return array.copy() if ids is self._rows else array[ids]
