"""Measures steps per second and build times."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..run.legal import LegalActions


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
        wait_for(device)
        started = time.perf_counter()
        for i in range(count):
            step(actions[i % len(actions)])
        wait_for(device)
        return time.perf_counter() - started

    timed(2)  # jax may compile twice: for the state after a reset, and for that after a step
    count = 1
    while (elapsed := timed(count)) < 0.1:
        count *= 2
    count = max(1, int(count * seconds / elapsed))
    rates = [count * num_envs / timed(count) for _ in range(runs)]
    return Rate(statistics.median(rates), min(rates), max(rates))


def wait_for(device: str) -> None:
    """Wait until the device has finished its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def us_of_drawing(actions: Sequence[torch.Tensor], seconds: float, device: str) -> float:
    """Microseconds of drawing actions in each step; 0.0 for prepared actions."""
    if not isinstance(actions, LegalActions):
        return 0.0
    return 1e6 / measure(lambda batch: None, actions, 1, seconds, 1, device).median


_FIRST_STEP = """
import torch_batchsim, gymnasium, time
from math import inf
from torch_batchsim.testing import random_actions
env_id = torch_batchsim.find_id({name!r})
started = time.perf_counter()
env = gymnasium.make_vec(env_id, num_worlds=1024, device={device!r}, **{env_options!r})
env.reset(seed=0)
ready = time.perf_counter()
actions = random_actions(env)[0]
drawn = time.perf_counter()
env.step(actions)
print(time.perf_counter() - drawn + ready - started)
"""


def build_seconds(
    name: str, device: str, env_options: Mapping[str, Any] | None = None, runs: int = 3
) -> tuple[float, float]:
    """Medians of the time from ``import`` done to the first step with an empty cache, and with a filled one.

    ``name`` is an argument of ``find_id``; ``env_options`` are Python literals.
    """
    script = _FIRST_STEP.format(name=name, device=device, env_options=dict(env_options or {}))
    cold, warm = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for times in (cold, warm):
                environment = {**os.environ, "TORCH_BATCHSIM_CACHE": cache}
                done = subprocess.run(
                    [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
                )
                times.append(float(done.stdout.split()[-1]))
    return statistics.median(cold), statistics.median(warm)
