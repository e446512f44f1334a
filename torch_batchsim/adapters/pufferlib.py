"""PufferLib: a native environment whose outputs are written into PufferLib's own buffers.

import pufferlib.vector
from torch_batchsim.adapters.pufferlib import PufferLibEnv

vecenv = pufferlib.vector.make(
    PufferLibEnv, env_args=["torch_batchsim/CartPole-v0"], env_kwargs={"num_envs": 4096}
)
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from ..extras import needed

needed("pufferlib", extra="pufferlib")

import pufferlib  # noqa: E402

_FIXED = ("autoreset_mode", "copy", "device", "final_obs", "output")
_BUFFERS = {"rewards": "rewards", "terminations": "terminals", "truncations": "truncations"}  # to PufferLib's names


class PufferLibEnv(pufferlib.PufferEnv):
    """All worlds of an environment as one native ``pufferlib.PufferEnv``, whose agents are the rows.

    PufferLib's buffers are bound as outputs, so that a step writes there. A buffer whose address does not allow that
    (rows are written as vectors, and shared memory of ``Multiprocessing`` may lie in between) gets copies. Episodes
    begin anew in the step that ends them. Where the environment tells which rows are active, ``masks`` says so.

    Args:
        env_id: of a registered environment whose observations are arrays.
        buf: PufferLib's buffers; its backends give them.
        seed: of the first ``reset``, if that is not given one.
        kwargs: for ``gymnasium.make_vec``: ``num_envs`` or ``num_worlds``, and options of the environment.

    Attributes: ``env`` (the ``TorchVectorEnv``), ``num_agents`` (rows), and ``action_mask``, bool ``[rows, n]``, which
    every step rewrites, or None; PufferLib itself has no such masks.
    """

    def __init__(
        self, env_id: str, *, buf: dict[str, np.ndarray] | None = None, seed: int | None = None, **kwargs: Any
    ) -> None:
        for name in _FIXED:
            if name in kwargs:
                raise TypeError(f"PufferLibEnv takes no {name}: PufferLib's buffers decide it; got {kwargs[name]!r}")
        env = self.env = gymnasium.make_vec(env_id, copy=False, final_obs=False, **kwargs).unwrapped
        space = env.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise TypeError(f"PufferLib needs observations in a Box, and those of {env_id} are in {space}")
        self.single_observation_space, self.single_action_space = space, env.single_action_space
        self.num_agents, self.metadata, self._seed = env.num_envs, env.metadata, seed
        super().__init__(buf)
        self._copied: dict[str, torch.Tensor] = {}
        self._bind("observations", self.observations)
        for name, of_pufferlib in _BUFFERS.items():
            self._bind(name, getattr(self, of_pufferlib))
        if env.active is not None:
            self._bind("active", self.masks)
        self.action_mask = None if env.action_mask is None else np.ones(env.action_mask.shape, dtype=bool)
        if self.action_mask is not None:
            self._bind("action_mask", self.action_mask)
        self._episodes = _Episodes(self.num_agents)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin new episodes in all worlds: observations ``[rows, ...]`` and no infos."""
        observations, infos = self.env.reset(seed=self._seed if seed is None else seed)
        self._seed = None
        self._copy({"observations": observations, **infos})
        for of_pufferlib in _BUFFERS.values():
            getattr(self, of_pufferlib).fill(0)
        self._episodes.begin(None if self.env.active is None else self.masks)
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Step all worlds by ``actions [rows, ...]``; return PufferLib's buffers and a list of infos.

        The list has ``{"episode_return": [...], "episode_length": [...]}`` of the episodes that have ended, if any has.
        """
        results = self.env.step(torch.from_numpy(np.ascontiguousarray(actions)))
        if self._copied:
            self._copy({"observations": results[0], **dict(zip(_BUFFERS, results[1:4], strict=True)), **results[4]})
        infos = self._episodes.ended(self.rewards, self.terminals | self.truncations)
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        """Close the environment; everything but ``close`` raises from then on."""
        self.env.close()

    def _bind(self, name: str, buffer: np.ndarray) -> None:
        tensor = torch.from_numpy(buffer)
        try:
            self.env.bind(**{name: tensor})
        except ValueError:  # the address: shapes are those of the spaces, and a wrong dtype is a TypeError
            self._copied[name] = tensor

    def _copy(self, outputs: dict[str, Any]) -> None:
        for name, tensor in self._copied.items():
            if name in outputs:
                tensor.copy_(outputs[name])


class _Episodes:
    """Returns and lengths; rows count while they are active."""

    def __init__(self, rows: int) -> None:
        self._returns, self._lengths = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
        self._masks: np.ndarray | None = None  # of PufferLib, which the next step rewrites
        self._active: np.ndarray | None = None  # before that step

    def begin(self, masks: np.ndarray | None) -> None:
        self._returns.fill(0)
        self._lengths.fill(0)
        self._masks, self._active = masks, None if masks is None else masks.copy()

    def ended(self, rewards: np.ndarray, done: np.ndarray) -> list[dict[str, list[float]]]:
        if self._masks is None:
            self._returns += rewards
            self._lengths += 1
        else:
            self._returns += np.where(self._active, rewards, 0)
            self._lengths += self._active
            done &= self._lengths > 0
            self._active = self._masks.copy()
        rows = done.nonzero()[0]
        if not rows.size:
            return []
        told = {"episode_return": self._returns[rows].tolist(), "episode_length": self._lengths[rows].tolist()}
        self._returns[rows], self._lengths[rows] = 0, 0
        return [told]
