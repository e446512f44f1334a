"""Measures steps per second and build times."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_BATCHES = 16  # of prepared actions: the policy's cost is none of ours


@dataclass(frozen=True)
class Rate:
    """Environment steps per second over several runs."""

    median: float
    slowest: float
    fastest: float


def measure(
    step: Callable[[Any], Any], actions: Sequence[Any], num_envs: int, seconds: float, runs: int, device: str = "cpu"
) -> Rate:
    """Time ``step(actions[i])`` over and over, ``runs`` times for about ``seconds`` each, after a warm-up."""

    def timed(count: int) -> float:
        _wait(device)
        started = time.perf_counter()
        for i in range(count):
            step(actions[i % len(actions)])
        _wait(device)
        return time.perf_counter() - started

    count = 1
    while (elapsed := timed(count)) < 0.1:
        count *= 2
    count = max(1, int(count * seconds / elapsed))
    rates = [count * num_envs / timed(count) for _ in range(runs)]
    return Rate(statistics.median(rates), min(rates), max(rates))


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def random_action_batches(env: Any) -> list[torch.Tensor]:
    """Actions drawn from the action space, as a policy would deliver them: int64 or float32 tensors on the device."""
    env.action_space.seed(0)
    draws = [torch.from_numpy(np.asarray(env.action_space.sample())) for _ in range(_BATCHES)]
    return [draw.to(env.unwrapped.device) for draw in draws]


_FIRST_STEP = """
import torch_batchsim, gymnasium, time, {module}
started = time.perf_counter()
env = gymnasium.make_vec({env_id!r}, num_worlds=1024, device={device!r})
env.reset(seed=0)
env.step(env.action_space.sample())
print(time.perf_counter() - started)
"""


def build_seconds(env_id: str, device: str, module: str, runs: int = 3) -> tuple[float, float]:
    """Medians of the time from ``import`` done to the first step with an empty cache, and with a filled one.

    ``module`` is what must be imported for ``env_id`` to be known.
    """
    cold, warm = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for times in (cold, warm):
                script = _FIRST_STEP.format(env_id=env_id, device=device, module=module)
                environment = {**os.environ, "TORCH_BATCHSIM_CACHE": cache}
                done = subprocess.run(
                    [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
                )
                times.append(float(done.stdout.split()[-1]))
    return statistics.median(cold), statistics.median(warm)
