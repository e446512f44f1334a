"""Two environments side by side by the same actions: finds the first difference of a bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..run.snapshots import assert_same_bits, of_worlds, snapshot
from ..run.world_state import WorldState
from ..vector.vector_env import TorchVectorEnv
from .outcomes import Failed
from .plays import named, where
from .policies import Policy

Results = dict[str, torch.Tensor]


def shown(results: tuple[Any, ...]) -> Results:
    """The results of ``reset`` or ``step`` by name, without final values."""
    observations, *outcome, infos = results
    found = named("observation", observations)
    for name, tensor in zip(("reward", "termination", "truncation"), outcome, strict=False):
        found[name] = tensor
    for name, tensor in infos.items():
        if isinstance(tensor, torch.Tensor) and not name.startswith(("_", "final")):
            found[f"info.{name}"] = tensor
    return {name: tensor.cpu() for name, tensor in found.items()}


def stepped(env: TorchVectorEnv, policy: Policy, worlds: torch.Tensor | None = None) -> Results:
    """Step, and then reset the worlds that have ended, where they do not reset themselves."""
    found = {name: tensor.clone() for name, tensor in shown(env.step(policy(env, worlds))).items()}
    if env.autoreset_mode.name == "DISABLED" and bool((ended := env.ended_worlds()).any()):
        env.reset(options={"reset_mask": ended})
    return found


def compared(
    first: TorchVectorEnv,
    second: TorchVectorEnv,
    policy: Policy,
    steps: int,
    *,
    seed: int | None = None,
    sides: tuple[str, str] = ("here", "there"),
    remedy: str = "",
    before_step: Callable[[], None] | None = None,
) -> None:
    """Step both; worlds of ``second`` are those of ``first`` from ``second``'s ``first_world`` on.

    With ``seed`` both are reset first; without it they go on. Raises Failed with the first difference.
    """
    offset = second.sim.first_world
    part = slice(offset * first.num_agents, offset * first.num_agents + second.num_envs)
    if seed is not None:
        if before_step is not None:
            before_step()
        results = [shown(env.reset(seed=seed)) for env in (first, second)]
        _check(*results, part, first.num_agents, "after the reset", sides, remedy)
    for step in range(1, steps + 1):
        if before_step is not None:
            before_step()
        results = [stepped(env, policy) for env in (first, second)]
        _check(*results, part, first.num_agents, f"in step {step}", sides, remedy)
    _check_states(first, second, offset, steps, sides, remedy)


def _check(
    one: Results, other: Results, part: slice, agents: int, when: str, sides: tuple[str, str], remedy: str
) -> None:
    for name, tensor in one.items():
        difference = first_difference(tensor[part], other[name])
        if difference is not None:
            (row, *element), a, b = difference
            row += part.start
            raise Failed(
                f"{name} differs {when}, {where(row, agents, tuple(element))}: {a} {sides[0]}, {b} {sides[1]}", remedy
            )


def _check_states(
    first: TorchVectorEnv, second: TorchVectorEnv, offset: int, steps: int, sides: tuple[str, str], remedy: str
) -> None:
    """Compare all state, after the last step."""
    chosen = torch.zeros(first.num_worlds, dtype=torch.bool)
    chosen[offset : offset + second.num_worlds] = True
    try:
        one, other = (snapshot(env.sim, final=False) for env in (first, second))
        assert_same_bits(of_worlds(one, chosen), other, "the state differs: ")
    except AssertionError as error:
        for world in range(second.num_worlds):
            found = state_difference(first, offset + world, second, world)
            if found is not None:
                name, index, a, b = found
                raise Failed(
                    f"the state differs after step {steps}: {name}{index or ''} of world {offset + world} is {a} "
                    f"{sides[0]}, {b} {sides[1]}",
                    remedy,
                ) from None
        raise Failed(f"after step {steps} {error}", remedy) from None


def state_difference(
    first: TorchVectorEnv, world: int, second: TorchVectorEnv, other: int
) -> tuple[str, list[int], Any, Any] | None:
    """The first field, by name, in which a world differs from another one; scratch and resources are left out."""
    columns = first.sim.program.columns.values()
    apart = tuple(f"{column.name}." for column in columns if column.scratch or column.resource)
    one, two = WorldState(first.sim, world), WorldState(second.sim, other)
    for name in one:
        if name.startswith(apart):
            continue
        a, b = one[name], two[name]
        if a.shape != b.shape:
            return name, [], f"{len(a)} rows", f"{len(b)} rows"
        difference = first_difference(*(torch.from_numpy(np.ascontiguousarray(array)) for array in (a, b)))
        if difference is not None:
            return name, *difference
    return None


def first_difference(one: torch.Tensor, other: torch.Tensor) -> tuple[list[int], Any, Any] | None:
    """Index and values of the first element that differs in a bit; None where no element differs. All NaN are alike."""
    if one.numel() == 0:
        return None
    bits = [tensor.contiguous().reshape(-1, 1).view(torch.uint8) for tensor in (one, other)]
    wrong = (bits[0] != bits[1]).any(1)
    if one.is_floating_point():
        wrong &= ~(one.isnan() & other.isnan()).reshape(-1)
    if not bool(wrong.any()):
        return None
    index = np.unravel_index(int(wrong.nonzero()[0]), tuple(one.shape))
    return [int(i) for i in index], one[index].item(), other[index].item()
