"""Recordings of an evaluation: what its first worlds took is given to worlds of their own, which are recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv
from torch import Tensor

from torch_batchsim import Recorder, TorchVectorEnv, TorchVectorWrapper

from ..rollouts.environment import num_agents

WORLDS = 16
"""The most that are recorded: the first ones."""


class Tape(TorchVectorWrapper):
    """Keeps the actions of the first worlds until their first episodes have ended.

    A recorder of the whole evaluation would write a thousand worlds, and copy their states in each step. No world
    depends on how many there are, so these few are the same in a smaller environment.
    """

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self.worlds = min(WORLDS, env.num_envs // num_agents(env))
        self._rows = self.worlds * num_agents(env)
        self._seed: int | None = None
        self._actions: list[Tensor] = []
        self._running: Tensor | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and begin anew."""
        self._seed, self._actions, self._running = seed, [], None
        return super().reset(seed=seed, options=options)

    def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Step the environment."""
        if self._running is None or bool(self._running.any()):
            self._actions.append(actions[: self._rows].clone())
        results = super().step(actions)
        going = ~(results[2] | results[3])[: self._rows]
        self._running = going if self._running is None else self._running & going
        return results

    def write(self, path: Path, make: Callable[[int], VectorEnv]) -> None:
        """Record these worlds, in an environment that ``make`` makes of so many. Raises OSError, RecordingError."""
        env = make(self.worlds)
        try:
            with Recorder(env, path) as recorder:
                recorder.reset(seed=self._seed)
                for actions in self._actions:
                    recorder.step(actions)
        finally:
            env.close()


def check_recordable(env: VectorEnv) -> None:
    """Raise TypeError for an environment that a Recorder does not take."""
    if not isinstance(env, TorchVectorEnv):
        raise TypeError(f"--record needs an environment of torch_batchsim without wrappers, got {env!r}")
