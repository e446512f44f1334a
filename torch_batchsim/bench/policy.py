"""Steps between the decisions of a policy, as in a training, where torch's threads are busy in between."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

from ..run.legal import legal_actions
from .throughput import Rate, wait_for

UNITS = 64  # of the one hidden layer
_LEAST = 1e-9


class Policy:
    """An untrained network of 64 tanh units. Draws actions, with masks legal ones."""

    def __init__(self, env: Any) -> None:
        """``env``: a ``TorchVectorEnv``, or wrappers around one."""
        self._env = env.unwrapped
        space = self._space = self._env.single_action_space
        if isinstance(space, Box):
            outputs = int(np.prod(space.shape))
            low, high = (torch.as_tensor(bound, dtype=torch.float32).reshape(-1) for bound in (space.low, space.high))
            self._low, self._high = low.to(self._env.device), high.to(self._env.device)
        else:
            outputs = int(np.sum(getattr(space, "nvec", getattr(space, "n", None))))
        generator = torch.Generator().manual_seed(0)
        sizes = [(_flat(env.reset(seed=0)[0]).shape[1], UNITS), (UNITS, outputs)]
        weights = [torch.randn(size, generator=generator) / size[0] ** 0.5 for size in sizes]
        self._first, self._second = (weight.to(self._env.device) for weight in weights)

    def __call__(self, observations: Any) -> torch.Tensor:
        """Actions ``[rows, ...]`` for the observations of ``reset`` or ``step``: int64, or float32 for a Box."""
        outputs = torch.tanh(_flat(observations) @ self._first) @ self._second
        if isinstance(self._space, Box):
            actions = (outputs + torch.randn_like(outputs)).clamp(self._low, self._high)
            return actions.view(-1, *self._space.shape)
        # The greatest of probability / exponential draw is a draw by the probabilities.
        scores = outputs.exp() / -torch.rand_like(outputs).clamp(_LEAST, 1 - 1e-7).log()
        mask = self._env.action_mask
        return legal_actions(self._space, torch.ones_like(scores) if mask is None else mask, scores)


def _flat(observations: Any) -> torch.Tensor:
    """float32 ``[rows, numbers]`` of a tensor or a dict of them."""
    parts = observations.values() if isinstance(observations, dict) else [observations]
    return torch.cat([part.reshape(len(part), -1).float() for part in parts], dim=1)


def measure_with_policy(env: Any, seconds: float, runs: int, device: str = "cpu") -> tuple[Rate, Rate]:
    """Rows per second of ``env.step`` without and with a policy, in runs of about ``seconds``."""
    policy = Policy(env)
    observations = env.reset(seed=0)[0]

    def timed(count: int) -> tuple[float, float]:
        nonlocal observations
        within, started = 0.0, time.perf_counter()
        for _ in range(count):
            actions = policy(observations)
            wait_for(device)
            begun = time.perf_counter()
            observations = env.step(actions)[0]
            wait_for(device)
            within += time.perf_counter() - begun
        return within, time.perf_counter() - started

    count = 4
    while (elapsed := timed(count)[1]) < 0.1:
        count *= 2
    count = max(1, int(count * seconds / elapsed))
    times = [timed(count) for _ in range(runs)]
    step, loop = ([count * env.num_envs / spent for spent in part] for part in zip(*times, strict=True))
    return tuple(Rate(statistics.median(rates), min(rates), max(rates)) for rates in (step, loop))
