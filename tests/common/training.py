"""What tests of trainings share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from environments.melee import Melee
from torch_batchsim.train import Trainer
from torch_batchsim.train.algorithms import config_of

from torch_batchsim import TorchVectorEnv


def assert_same(a: Any, b: Any) -> None:
    """Equal to the bit, through dicts and lists."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


def assert_close(a: Any, b: Any, place: str = "") -> None:
    """Equal but for the order of floating-point sums, through dicts and lists."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), place
        for key in a:
            assert_close(a[key], b[key], f"{place}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), place
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_close(x, y, f"{place}/{i}")
    elif isinstance(a, torch.Tensor) and a.is_floating_point():
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5, equal_nan=True, msg=lambda m: f"{place}: {m}")
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0, msg=lambda m: f"{place}: {m}")
    elif isinstance(a, float):
        assert math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5), place
    else:
        assert a == b, place


def melee_trainer(worlds: int = 4, **settings: Any) -> Trainer:
    """Of two teams whose fighters leave before their world ends."""
    env = TorchVectorEnv(Melee(), num_worlds=worlds)
    sizes = {"num_envs": env.num_envs, "num_steps": 8, "num_minibatches": 2, "hidden_sizes": (8,)}
    return Trainer(env, config_of(sizes | {"total_steps": 1_000_000} | settings))


def assert_goes_on_to_the_bit(make: Callable[[], Trainer]) -> Trainer:
    """Five iterations, and three with two more after a load, end in the same state; returns the one that was loaded."""
    whole, first, second = make(), make(), make()
    for _ in range(5):
        metrics = whole.iterate()
    assert all(value.isfinite() for name, value in metrics.items() if name.startswith("losses/"))
    for _ in range(3):
        first.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.iterate()
    assert_same(whole.state_dict(), second.state_dict())
    assert all(group.learner.parameters.isfinite().all() for group in whole.groups)
    return second
