"""Outputs by the names under which the vector environment returns them, and takes tensors for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..base.names import suggestion
from ..memory.outputs import OutputSet
from ..resolve.program import Program
from ..run.simulator import Simulator

Observation = Any  # torch.Tensor, or dict of them


class Results(NamedTuple):
    """The results that lie in one place of outputs."""

    observations: Observation
    infos: dict[str, Any]  # of a reset
    step: tuple[Observation, torch.Tensor, torch.Tensor, torch.Tensor]
    step_infos: dict[str, Any]
    has_keys: bool  # whether observations are a dict


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
    return Results(observations, infos, step, step_infos, isinstance(observations, dict))


def copied(results: Results) -> Results:
    """The same in other memory."""
    step_infos = _copied(results.step_infos)
    observations, infos, step = (_copied(part) for part in results[:3])
    return Results(observations, infos, step, step_infos, results.has_keys)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_copied(part) for part in value)
    return value.clone() if isinstance(value, torch.Tensor) else value


def _unkeyed(values: dict[str, torch.Tensor]) -> Observation:
    return values.get("", values)


def named_outputs(
    program: Program,
    observations: Any,
    final_obs: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    infos: Mapping[str, Any],
    final: bool,
) -> dict[str, Any]:
    """Those tensors that are given (not None), by the simulator's names of the outputs.

    Raises ValueError for an output that the environment does not have, or does not deliver.
    """
    if final_obs is not None and not final:
        raise ValueError("final_obs cannot be bound: it is delivered with SAME_STEP and final_obs=True only")
    given_infos = {name: tensor for name, tensor in infos.items() if tensor is not None}
    for name in given_infos:
        if name not in program.info:
            known = ["observations", "final_obs", "rewards", "terminations", "truncations", *program.info]
            raise ValueError(
                f"{name} cannot be bound: this environment has none{suggestion(name, known)}; what can be is "
                f"{', '.join(known)}"
            )
    given = _keyed(observations, {key: f"output.{column.name}" for key, column in program.observations.items()})
    given |= _keyed(final_obs, {key: f"final.{column.name}" for key, column in program.observations.items()})
    single = {
        program.reward.name: rewards,
        "Agents.terminated": terminations,
        "Agents.truncated": truncations,
        **{f"output.{program.info[name].name}": tensor for name, tensor in given_infos.items()},
    }
    return given | {name: tensor for name, tensor in single.items() if tensor is not None}


def _keyed(given: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Tensors by name of their column, from one tensor (or None) or a dict of them by key of the observation space."""
    if given is None:
        return {}
    keyed = dict(given) if isinstance(given, Mapping) else {"": given}
    for key in keyed:
        if key not in names:
            keys = ", ".join(repr(name) for name in names if name)
            expected = f"a dict with keys of {keys}" if keys else "one tensor"
            raise ValueError(f"bind of observations needs {expected}, got {repr(key) if key else 'one tensor'}")
    return {names[key]: tensor for key, tensor in keyed.items()}
