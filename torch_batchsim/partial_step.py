"""A step of some worlds of a vector environment, while the others stand still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from gymnasium.vector import AutoresetMode

from .errors import WorldFault
from .memory import action_bounds
from .shared import Autoreset
from .simulator import Simulator
from .vector_env import TorchVectorEnv


def step_some(env: TorchVectorEnv, actions: torch.Tensor, worlds: torch.Tensor) -> None:
    """Advance ``worlds`` by one step, and leave the others as they are.

    Args:
        env: with ``NEXT_STEP`` or ``DISABLED``.
        actions: ``[rows, ...]`` of all worlds, checked by ``env``; those of the others do not count.
        worlds: bool ``[worlds]`` on the environment's device.

    Outputs are where a step's are; the rows of the other worlds are not worth reading. It takes longer than a step, and
    on CUDA it waits for the device. Raises as ``env.step`` does.
    """
    if env.autoreset_mode is AutoresetMode.SAME_STEP:
        raise ValueError("a step of some worlds needs autoreset_mode NEXT_STEP or DISABLED, got SAME_STEP")
    rows = worlds.repeat_interleave(env.num_agents)
    begin = worlds & (env.sim.memory.columns["ended"] != 0)
    if env.autoreset_mode is AutoresetMode.DISABLED:
        begin.zero_()
    fault = None
    with _standing_still(env.sim, ~worlds | begin), _kept_actions(env.sim, ~worlds):
        try:
            env.step(torch.where(_per_row(rows, actions), actions, _idle(env, actions)))
        except WorldFault as error:
            fault = error
    if begin.any():
        env.reset(options={"reset_mask": begin})
    if fault is not None:
        raise fault


@contextmanager
def _standing_still(sim: Simulator, worlds: torch.Tensor) -> Iterator[None]:
    """In steps within, these worlds are as worlds that have ended are with DISABLED."""
    ended, context = sim.memory.columns["ended"], sim.memory.context
    before, mode = ended.clone(), context.autoreset
    ended.masked_fill_(worlds, 1)
    context.autoreset = int(Autoreset.disabled)
    try:
        yield
    finally:
        context.autoreset = mode
        ended.copy_(torch.where(worlds, before, ended))


@contextmanager
def _kept_actions(sim: Simulator, worlds: torch.Tensor) -> Iterator[None]:
    """The action column of these worlds is afterwards as before: observations may show it."""
    column = sim.tensor(sim.program.action.name)
    before = column[worlds].clone()
    try:
        yield
    finally:
        column[worlds] = before


def _per_row(rows: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    return rows.view(-1, *[1] * (actions.dim() - 1))


def _idle(env: TorchVectorEnv, actions: torch.Tensor) -> torch.Tensor:
    """Of the legal actions that nearest to 0."""
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in action_bounds(env.sim.program))
    nearest = torch.zeros_like(low).clamp(low, high)
    return nearest.view(actions.shape[1:]).to(actions.dtype).to(actions.device)
