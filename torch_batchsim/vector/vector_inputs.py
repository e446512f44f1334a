"""Checks of arguments of the vector environment: masks of a reset, numbers of rows and worlds."""

from __future__ import annotations

from typing import Any

import torch

from ..declare.environment import Environment, check_instance
from ..declare.schema import Archetype
from ..memory.inputs import bool_tensor, checked_count, checked_mask


def checked_reset_mask(
    mask: Any, worlds: int, agents: int, device: torch.device, what: str = "reset_mask"
) -> torch.Tensor | None:
    """A mask of worlds ``[worlds]`` from one of rows or worlds; None for None. Raises TypeError or ValueError."""
    if mask is None:
        return None
    rows = worlds * agents
    shape = tuple(getattr(mask, "shape", ()))
    if agents > 1 and shape == (rows,) and shape != (worlds,):
        of_rows = bool_tensor(mask, what).reshape(worlds, agents)
        # On CUDA a look at it would wait for the device; there the first agents speak for their worlds.
        if of_rows.device.type == "cpu" and not torch.equal(of_rows.any(1), of_rows.all(1)):
            raise ValueError(f"{what} must be the same for all agents of a world, because they share it")
        mask = of_rows[:, 0]
    elif shape and shape != (worlds,):
        allowed = f"[{rows}]" + (f" or [{worlds}] (worlds)" if agents > 1 else "")
        raise ValueError(f"{what} must have shape {allowed}, got {list(shape)}")
    return checked_mask(mask, what, worlds, device)


def agents_per_world(environment: Environment) -> int:
    """Rows of the vector environment that a world has."""
    check_instance(environment)
    if not isinstance(environment.action, str) or not isinstance(environment.archetypes, (list, tuple)):
        return 1  # the program raises the error of the declaration
    tables = [archetype for archetype in environment.archetypes if isinstance(archetype, Archetype)]
    tables += [a.within(name) for name, library in environment.libraries.items() for a in library.archetypes]
    return next((a.count or 1 for a in tables if environment.action.startswith(f"{a.name}.")), 1)


def agent_names(agents: int) -> list[str]:
    """The names of the agents of a world, in the order of its rows: ``["agent_0", "agent_1", ...]``."""
    return [f"agent_{agent}" for agent in range(agents)]


def number_of_worlds(num_envs: Any, num_worlds: Any, agents: int) -> int:
    """Number of worlds from either number; both are given by ``gymnasium.make_vec``, whose default is one row."""
    if num_worlds is not None:
        worlds = checked_count(num_worlds, "num_worlds")
        if num_envs not in (None, 1, worlds * agents):
            raise ValueError(f"num_envs={num_envs!r} and num_worlds={worlds} contradict each other; give one of them")
        return worlds
    rows = checked_count(agents if num_envs is None else num_envs, "num_envs")
    if rows % agents:
        below, above = rows // agents * agents, (rows // agents + 1) * agents
        nearest = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"num_envs must be a multiple of the {agents} agents of a world, such as {nearest}, got {rows}"
        )
    return rows // agents
