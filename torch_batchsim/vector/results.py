"""What the vector environment returns from a place of outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..memory.outputs import OutputSet
from ..run.simulator import Simulator

Observation = Any  # torch.Tensor, or dict of them


class Results(NamedTuple):
    """What is returned from one place of outputs."""

    observations: Observation
    infos: dict[str, Any]  # of a reset
    step: tuple[Observation, torch.Tensor, torch.Tensor, torch.Tensor]
    step_infos: dict[str, Any]


def collected(sim: Simulator, places: OutputSet, final: bool) -> Results:
    """The outputs that lie in ``places`` as ``reset`` and ``step`` return them; ``final``: with final values."""
    program, rows_of = sim.program, sim.memory.rows_of
    observations = _unkeyed({key: rows_of(f"output.{c.name}", places) for key, c in program.observations.items()})
    infos = {key: rows_of(f"output.{column.name}", places) for key, column in program.info.items()}
    step_infos = dict(infos)
    if final:
        done = rows_of("Agents.done", places)
        finals = {key: rows_of(f"final.{column.name}", places) for key, column in program.observations.items()}
        step_infos["final_obs"], step_infos["_final_obs"] = _unkeyed(finals), done
        kept = {key: rows_of(f"final.{column.name}", places) for key, column in program.info.items()}
        step_infos["final_info"] = {**kept, **{f"_{key}": done for key in kept}}
        step_infos["_final_info"] = done
    flags = rows_of("Agents.terminated", places), rows_of("Agents.truncated", places)
    step = (observations, rows_of(program.reward.name, places), *flags)
    return Results(observations, infos, step, step_infos)


def _unkeyed(values: dict[str, torch.Tensor]) -> Observation:
    return values.get("", values)
