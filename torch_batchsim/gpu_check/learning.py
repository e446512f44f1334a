"""Policies learn on the device by PPO of ``torch_batchsim.train``, with ordinary and with captured rollouts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..train import Config, Trainer, evaluate
from ..train.commands.tuned import tuned_config
from .playing import Make, expect

CARTPOLE = replace(tuned_config("torch_batchsim/CartPole-v0"), total_steps=262_144)
KITCHEN = replace(
    tuned_config("torch_batchsim/Overcooked-v0"),
    total_steps=1_024_000,
    anneal_from=0.95,  # nothing else is learned in so few steps
    anneal_until=1.0,
)
WANTED = 475.0  # of CartPole's 500: solved
FACTOR = 2.0  # by which Overcooked's shaped returns must grow
_RETURN = "charts/episodic_return"
_WORLDS = 256  # of the evaluation


def cartpole(make: Make, captured: bool) -> str:
    """Train, and play greedily: the mean return must be ``WANTED`` with one of three seeds."""
    results = []
    for seed in (1, 2, 3):
        trainer, seconds = _trained(make, "cartpole", replace(CARTPOLE, seed=seed), captured)
        reached = float(evaluate(make("cartpole", _WORLDS), trainer.agents, seed=100 + seed).returns.mean())
        results.append(f"seed {seed}: {reached:.1f} after {trainer.global_step:,} steps and {seconds:.1f} s")
        if reached >= WANTED:
            return "; ".join(results)
    raise AssertionError(f"the mean return must reach {WANTED:g}; {'; '.join(results)}")


def kitchen(make: Make, captured: bool) -> str:
    """Train: the mean return of Overcooked's episodes at the end must be ``FACTOR`` times that at first."""
    curve: list[torch.Tensor] = []
    trainer, seconds = _trained(make, "overcooked", KITCHEN, captured, lambda metrics: curve.append(metrics[_RETURN]))
    returns = [value for value in torch.stack(curve).tolist() if value == value]  # NaN where none has ended
    quarter = max(1, len(returns) // 4)
    first, last = sum(returns[:quarter]) / quarter, sum(returns[-quarter:]) / quarter
    expect(last >= FACTOR * first, f"returns must grow by {FACTOR:g}, and went from {first:.3g} to {last:.3g}")
    return f"returns from {first:.3g} to {last:.3g} in {trainer.global_step:,} steps and {seconds:.1f} s"


def _trained(
    make: Make, name: str, config: Config, captured: bool, note: Callable[[dict[str, Any]], None] = lambda metrics: None
) -> tuple[Trainer, float]:
    """A trainer after all its iterations, and the seconds that they took."""
    env = make(name, None, num_envs=config.num_envs)
    trainer = Trainer(env, replace(config, capture_rollouts=captured))
    started = time.monotonic()
    for _ in range(trainer.num_iterations):
        note(trainer.iterate())
    trainer.check_finite()
    env.check_faults()
    return trainer, time.monotonic() - started
