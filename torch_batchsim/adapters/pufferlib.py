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

from ..declare.environment import Environment
from ..declare.spaces import check_from_zero
from ..errors import UnalignedMemory
from ..memory.inputs import number_tensor
from ..testing import random_actions
from .episodes import Episodes, stepped
from .records import ADAPTERS, Played
from .source import vector_env

RECORD = ADAPTERS["pufferlib"]
RECORD.require()

import pufferlib  # noqa: E402

_BUFFERS = {"rewards": "rewards", "terminations": "terminals", "truncations": "truncations"}  # to PufferLib's names


class PufferLibEnv(pufferlib.PufferEnv):
    """All worlds of an environment as one native ``pufferlib.PufferEnv``, whose agents are the rows.

    PufferLib's buffers are bound as outputs, so that a step writes there. A buffer at an unaligned address, as in the
    shared memory of ``Multiprocessing``, gets copies. Episodes begin anew in the step that ends them. Where rows can
    be inactive, ``masks`` holds the active ones.

    Args:
        env: an id, or a declared environment. Its observations are in a Box, and its actions are counted from 0.
        num_envs: rows; or give ``num_worlds``.
        buf: PufferLib's buffers; its backends give them.
        seed: of the first ``reset``, unless that has its own.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Attributes: ``vector_env`` (the ``TorchVectorEnv``), ``num_agents`` (rows), ``render_mode``, and ``action_mask``,
    bool ``[rows, n]``, which every step rewrites, or None; PufferLib itself has no such masks.
    """

    def __init__(
        self,
        env: str | Environment,
        num_envs: int | None = None,
        *,
        buf: dict[str, np.ndarray] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        env = self.vector_env = vector_env(env, RECORD.interface("PufferLibEnv"), options, num_envs)
        space = env.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise TypeError(
                f"PufferLib needs observations in a Box, and those of {env.environment.name} are in {space}"
            )
        self.single_observation_space, self.single_action_space = space, env.single_action_space
        check_from_zero(env.single_action_space, "PufferLib")
        self.num_agents, self.metadata, self._seed = env.num_envs, env.metadata, seed
        self.render_mode = env.render_mode
        super().__init__(buf)
        self.action_mask = None if env.action_mask is None else np.ones(env.action_mask.shape, dtype=bool)
        self._bind_all()
        self._episodes = Episodes(self.num_agents)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin new episodes in all worlds: observations ``[rows, ...]`` and no infos."""
        observations, infos = self.vector_env.reset(seed=self._seed if seed is None else seed)
        self._seed = None
        self._copy({"observations": observations, **infos})
        for of_pufferlib in _BUFFERS.values():
            getattr(self, of_pufferlib).fill(0)
        self._episodes.begin(self._active)
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Step all worlds by ``actions [rows, ...]``; return PufferLib's buffers and a list of infos.

        The list has ``{"episode_return": [...], "episode_length": [...]}`` of episodes that have ended, or is empty.
        """
        return stepped(self.vector_env, number_tensor(actions, "actions"), self._delivered)

    def render(self) -> np.ndarray | str | None:
        """The first world: a picture ``uint8 [height, width, 3]``, or a text with ``render_mode="ansi"``.

        Returns None and warns without a ``render_mode``.
        """
        return self.vector_env.render() if self.render_mode is None else self.vector_env.render_world(0)

    def _delivered(self, observations: torch.Tensor, *others: Any) -> tuple[Any, ...]:
        if self._copied:
            self._copy({"observations": observations, **dict(zip(_BUFFERS, others[:3], strict=True)), **others[3]})
        self._episodes.count(self.rewards, self._active)
        returns, lengths = self._episodes.ended((self.terminals | self.truncations).nonzero()[0])
        been = lengths > 0
        infos = []
        if been.any():
            infos.append({"episode_return": returns[been].tolist(), "episode_length": lengths[been].tolist()})
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    @property
    def _active(self) -> np.ndarray | None:
        return None if self.vector_env.active is None else self.masks

    def close(self) -> None:
        """Close the environment; everything but ``close`` raises from then on."""
        self.vector_env.close()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Binds the outputs of a copy to its own buffers."""
        self.__dict__.update(state)
        self._bind_all()

    def _bind_all(self) -> None:
        self._copied: dict[str, torch.Tensor] = {}
        self._bind("observations", self.observations)
        for name, of_pufferlib in _BUFFERS.items():
            self._bind(name, getattr(self, of_pufferlib))
        if self.vector_env.active is not None:
            self._bind("active", self.masks)
        if self.action_mask is not None:
            self._bind("action_mask", self.action_mask)

    def _bind(self, name: str, buffer: np.ndarray) -> None:
        tensor = torch.from_numpy(buffer)
        try:
            self.vector_env.bind(**{name: tensor})
        except UnalignedMemory:
            self._copied[name] = tensor

    def _copy(self, outputs: dict[str, Any]) -> None:
        for name, tensor in self._copied.items():
            if name in outputs:
                tensor.copy_(outputs[name])


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions, by PufferLib's own maker."""
    import pufferlib.vector

    vecenv = pufferlib.vector.make(PufferLibEnv, env_args=[environment], env_kwargs={"num_envs": num_envs, **options})
    vecenv.reset(seed=0)
    actions = [actions.numpy().astype("int32") for actions in random_actions(vecenv.vector_env)]
    return Played(vecenv, type(vecenv).step, actions)
