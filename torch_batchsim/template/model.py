"""The rules of MyEnv in plain NumPy: the tests compare the systems with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

LIMIT = 64  # steps
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Model(gymnasium.Env):
    def __init__(self, size: int = 8, step_cost: float = 0.01) -> None:
        self.size, self.step_cost = size, step_cost
        self.observation_space = Box(0.0, 1.0, (4,), np.float32)
        self.action_space = Discrete(4)

    def put(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over the state of a world; names as in ``sim.tensor``, each ``[1]``."""
        self.place = np.array([int(values["Walker.Place.column"][0]), int(values["Walker.Place.row"][0])])
        self.goal = np.array([int(values["Walker.Goal.column"][0]), int(values["Walker.Goal.row"][0])])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        cells = self.size * self.size
        walker, distance = self.np_random.integers(cells), self.np_random.integers(1, cells)
        self.place = np.array([walker % self.size, walker // self.size])
        cell = (walker + distance) % cells
        self.goal = np.array([cell % self.size, cell // self.size])
        self.steps = 0
        return self._view(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place = np.clip(self.place + MOVES[int(action)], 0, self.size - 1)
        self.steps += 1
        found = bool((self.place == self.goal).all())
        return self._view(), 1.0 if found else -self.step_cost, found, self.steps >= LIMIT and not found, {}

    def _view(self) -> np.ndarray:
        return np.concatenate([self.place, self.goal]).astype(np.float32) / np.float32(self.size - 1)
