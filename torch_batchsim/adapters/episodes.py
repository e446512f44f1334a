"""State that adapters keep from step to step: returns and lengths of episodes; and steps that report faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from ..errors import WorldFault


class Episodes:
    """Returns and lengths of the episodes under way, as arrays; rows count while they are active.

    Attributes: ``returns`` (float32 ``[rows]``), ``lengths`` (int32 ``[rows]``).
    """

    def __init__(self, rows: int) -> None:
        self.returns, self.lengths = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
        self._active: np.ndarray | None = None  # before the next step

    def begin(self, active: np.ndarray | None) -> None:
        """After a reset of all rows. ``active``: bool ``[rows]``, which is copied; None if all rows always are."""
        self.returns.fill(0)
        self.lengths.fill(0)
        self._note(active)

    def count(self, rewards: np.ndarray, active: np.ndarray | None) -> None:
        """Add the ``rewards [rows]`` of a step, after which rows are ``active``, as in ``begin``."""
        if self._active is None:
            self.returns += rewards
            self.lengths += 1
        else:
            self.returns += np.where(self._active, rewards, 0)
            self.lengths += self._active
        self._note(active)

    def ended(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns and lengths of these rows (indices), which begin new episodes; length 0 for idle rows."""
        episodes = self.returns[rows], self.lengths[rows]
        self.returns[rows], self.lengths[rows] = 0, 0
        return episodes

    def _note(self, active: np.ndarray | None) -> None:
        self._active = None if active is None else active.copy()


def stepped(env: VectorEnv, actions: Any, delivered: Callable[..., Any]) -> Any:
    """``delivered`` of the results of a step.

    Where systems have reported faults the other worlds have stepped all the same: ``delivered`` is called then too, so
    that the adapter's state goes on, and the error's ``outputs`` are its result.
    """
    try:
        results = env.step(actions)
    except WorldFault as fault:
        if fault.outputs is not None:
            fault.outputs = delivered(*fault.outputs)
        raise
    return delivered(*results)
