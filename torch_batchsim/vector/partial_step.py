"""A step of some worlds of a vector environment, while the others stand still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from ..base.numbers import where
from ..base.shared import Autoreset
from ..errors import WorldFault
from ..memory.memory import action_bounds
from ..run.simulator import Simulator
from .vector_env import TorchVectorEnv

_FINAL = {"final_obs", "_final_obs", "final_info", "_final_info"}  # infos of episodes that have ended
_MOST_BEGINNINGS = 1000


def step_some(env: TorchVectorEnv, actions: torch.Tensor, worlds: torch.Tensor) -> tuple[Any, ...]:
    """Advance ``worlds`` by one step, leave the others as they are, and return what ``env.step`` does.

    Args:
        env: with ``NEXT_STEP`` or ``DISABLED``.
        actions: ``[rows, ...]`` of all worlds, as ``env.step`` takes them; those of other worlds do not count.
        worlds: bool ``[worlds]`` on the environment's device.

    Rows of the other worlds are not worth reading. It takes longer than a step, and on CUDA it waits for the device.
    Raises as ``env.step`` does.
    """
    check_mode(env.autoreset_mode)
    actions = env.checked_actions(actions)
    rows = _rows(env, worlds)
    begin = worlds & (env.sim.memory.columns["ended"] != 0)
    if env.autoreset_mode is AutoresetMode.DISABLED:
        begin.zero_()
    fault = None
    with _standing_still(env.sim, ~worlds | begin), _kept_actions(env.sim, ~worlds):
        try:
            results = env.step(torch.where(_along(rows, actions), actions, _idle(env, actions)))
        except WorldFault as error:
            fault = error
    if fault is not None and not fault.stepped:
        raise fault
    if begin.any():
        results = reset_as_step(env, None, {"reset_mask": begin})
    if fault is not None:
        fault.outputs = env.step_results()
        raise fault
    return results


def step_around(
    env: TorchVectorEnv, actions: torch.Tensor, held: torch.Tensor, behind: Callable[[WorldFault | None], None]
) -> tuple[Any, dict[str, Any]]:
    """Advance all worlds but those that are ``held``; worlds that end begin anew, as with ``SAME_STEP``.

    Args:
        env: with ``SAME_STEP``.
        actions: as of ``step_some``.
        held: bool ``[worlds]`` on the environment's device.
        behind: called when the step is done, while the outputs are still those of the episodes that have ended; with
            the fault that it had. If that is an earlier one (CUDA), nothing has stepped. Faulty worlds begin anew too;
            it is also called for each fault as they begin.

    Returns observations and infos as of a reset, with ``_final_obs``, bool ``[rows]``: which rows have ended an
    episode. Those of worlds that are held are as they were.
    """
    actions, fault = env.checked_actions(actions), None
    rows = _rows(env, held)
    with _standing_still(env.sim, held), _kept_actions(env.sim, held):
        try:
            env.step(torch.where(_along(rows, actions), _idle(env, actions), actions))
        except WorldFault as error:
            fault = error
    behind(fault)
    begin = ~held & (env.sim.memory.columns["ended"] != 0)
    if fault is not None:
        begin |= fault.mask
    if begin.any():
        begin_anew(env, begin, behind)
    observations, *_, infos = env.step_results()
    present = {name: value for name, value in dict(infos).items() if name not in _FINAL}
    return observations, {**present, "_final_obs": _rows(env, begin)}


def begin_anew(
    env: TorchVectorEnv, worlds: torch.Tensor, note: Callable[[WorldFault], None]
) -> tuple[Any, dict[str, Any]]:
    """``env.reset`` of these worlds; those with a fault as they begin are noted, and begin again.

    Raises the WorldFault of worlds that have one so many times in a row that they will always.
    """
    for _ in range(_MOST_BEGINNINGS):
        try:
            return env.reset(options={"reset_mask": worlds})
        except WorldFault as fault:
            note(fault)
            worlds = fault.mask
    return env.reset(options={"reset_mask": worlds})


def _rows(env: TorchVectorEnv, worlds: torch.Tensor) -> torch.Tensor:
    return worlds if env.num_agents == 1 else worlds.repeat_interleave(env.num_agents)


def check_mode(mode: AutoresetMode) -> None:
    """Raise ValueError unless some worlds can be stepped with it."""
    if mode is AutoresetMode.SAME_STEP:
        raise ValueError("a step of some worlds needs autoreset_mode NEXT_STEP or DISABLED, got SAME_STEP")


def reset_as_step(env: TorchVectorEnv, seed: int | None, options: dict[str, Any]) -> tuple[Any, ...]:
    """``env.reset`` with the results of a step, which are ``outputs`` of a ``WorldFault`` too."""
    try:
        env.reset(seed=seed, options=options)
    except WorldFault as fault:  # the other worlds have begun
        fault.outputs = env.step_results()
        raise
    return env.step_results()


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
    before = column.clone()
    try:
        yield
    finally:
        column.copy_(where(_along(worlds, column), before, column))


def _along(mask: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The mask over the first dimension of the tensor."""
    return mask.view(-1, *[1] * (tensor.dim() - 1))


def _idle(env: TorchVectorEnv, actions: torch.Tensor) -> torch.Tensor:
    """Of the legal actions that nearest to 0."""
    nearest = [min(max(0.0, low), high) for low, high in zip(*action_bounds(env.sim.program), strict=True)]
    return torch.tensor(nearest, dtype=actions.dtype, device=actions.device).view(actions.shape[1:])
