"""How many steps the episodes under way have, read and written from outside."""

from __future__ import annotations

from typing import Any

import torch

from ..base.shared import INTEGER_DTYPES
from ..errors import SchemaError
from ..memory.inputs import number_tensor
from ..resolve.program import Program
from ..run.simulator import Simulator

_GREATEST = 2**31 - 1


def check_counters(program: Program) -> None:
    """Raise SchemaError where ``Environment.step_counters`` names what is not an integer of each world."""
    environment = program.environment
    given = environment.step_counters
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        write = f"; write ({given!r},)" if isinstance(given, str) else ""
        raise SchemaError(f"{environment.name}: step_counters must be a tuple of names, got {given!r}{write}")
    for name in given:
        try:
            column, selected = program.find(name, "step_counters")
        except (AttributeError, KeyError) as error:
            raise SchemaError(f"{environment.name}: {error.args[0]}") from None
        fields = column.component.fields
        counter = fields[0] if selected is None and len(fields) == 1 else selected
        integer = counter is not None and counter.type.dtype in INTEGER_DTYPES[:-1] and not counter.type.tensor_shape
        if not column.singleton or column.resource or not integer:
            raise SchemaError(
                f"{environment.name}: step_counters names {name!r}, but a counter is an integer field of a singleton"
            )


def read(sim: Simulator, agents: int) -> torch.Tensor:
    """A copy, int32 ``[rows]``: the agents of a world alike."""
    return sim.tensor("World.step").repeat_interleave(agents)


def write(sim: Simulator, agents: int, given: Any) -> None:
    """Set the counts of all worlds, and move the environment's own counters by as much.

    Args:
        given: integers ``[rows]``, the agents of a world alike, or ``[worlds]``.

    Raises TypeError or ValueError before anything has changed. On CUDA it waits for the device.
    """
    steps = number_tensor(given, "episode_steps", f"shape [{sim.num_worlds * agents}]")
    if steps.dtype not in INTEGER_DTYPES[:-1]:
        raise TypeError(f"episode_steps must be integers, got {str(steps.dtype).removeprefix('torch.')}")
    shape, worlds = tuple(steps.shape), sim.num_worlds
    if shape not in ((worlds * agents,), (worlds,)):
        allowed = f"[{worlds * agents}]" + (f" or [{worlds}] (worlds)" if agents > 1 else "")
        raise ValueError(f"episode_steps must have shape {allowed}, got {list(shape)}")
    steps = steps.to(sim.device).long()
    if shape != (worlds,):
        of_rows = steps.view(worlds, agents)
        steps = of_rows[:, 0]
        if bool((of_rows != steps[:, None]).any()):
            raise ValueError("episode_steps must be the same for all agents of a world, for they share its episode")
    least, greatest = int(steps.min()), int(steps.max())
    if least < 0 or greatest > _GREATEST:
        raise ValueError(f"episode_steps must be from 0 to {_GREATEST}, got {least if least < 0 else greatest}")
    present = sim.tensor("World.step")
    for name in sim.program.environment.step_counters:
        sim.tensor(name).add_(steps - present)
    present.copy_(steps)
