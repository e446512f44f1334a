"""Checks of what a user gives to the vector environment: actions, masks of a reset, numbers of rows and worlds."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch

from ..base.shared import INTEGER_DTYPES, action_dtypes
from ..declare.environment import Environment, check_instance
from ..declare.schema import Archetype
from ..memory.inputs import bool_tensor, checked_count, checked_mask, number_tensor
from ..resolve.program import Program


class ActionInput:
    """Actions as users give them, of ``num_worlds`` worlds on ``device``.

    Attributes: ``shape`` ``[rows, ...]`` and ``dtypes`` that the library reads as they are; ``first_world``, from which
    on errors number worlds, where these are a group of more.
    """

    def __init__(self, program: Program, num_worlds: int, device: torch.device) -> None:
        self.shape = torch.Size(program.action_shape(num_worlds))
        self._floating = program.action.dtype.is_floating_point
        self.dtypes = action_dtypes(program.action.dtype)
        self._space, self._agents, self._device = program.action_space, program.agents.count, device
        self.first_world = 0

    def checked(self, actions: Any) -> torch.Tensor:
        """``actions`` as a contiguous tensor that the library can read, or TypeError, ValueError."""
        if self._ordinary(actions):
            return actions
        on_device = isinstance(actions, torch.Tensor)
        actions = number_tensor(actions, "actions", f"shape {list(self.shape)}")
        if not on_device:
            actions = actions.to(self._device)
        if actions.shape != self.shape:
            raise ValueError(f"actions must have shape {list(self.shape)}, got {list(actions.shape)}")
        if actions.device != self._device:
            raise ValueError(f"actions must be on {self._device}, got a tensor on {actions.device}")
        if actions.layout is not torch.strided:
            raise TypeError(f"actions must be a dense tensor, got layout {actions.layout}")
        if self._floating and actions.dtype in (torch.float16, torch.bfloat16):
            actions = actions.float()
        if self._floating and not actions.dtype.is_floating_point and actions.dtype in INTEGER_DTYPES[:-1]:
            actions = actions.double()
        if actions.dtype not in self.dtypes:
            *others, last = (str(dtype).removeprefix("torch.") for dtype in self.dtypes)
            given = str(actions.dtype).removeprefix("torch.")
            raise TypeError(f"actions must have dtype {', '.join(others)} or {last}, got {given}")
        return actions.detach().contiguous()

    def _ordinary(self, actions: Any) -> bool:
        """Whether they can be read as they are; in few lines, for where ``step_call`` cannot look."""
        return (
            type(actions) is torch.Tensor
            and actions.layout is torch.strided
            and actions.shape == self.shape
            and actions.dtype in self.dtypes
            and actions.device == self._device
            and actions.is_contiguous()
        )

    def refuse(self, actions: torch.Tensor, element: int) -> NoReturn:
        """Raise ValueError for an element that is not in the action space."""
        width = max(1, int(np.prod(self.shape[1:])))
        row, value = element // width, actions.reshape(-1)[element].item()
        agent = f", agent {row % self._agents}" if self._agents > 1 else ""
        part = f", element {element % width}" if width > 1 else ""
        world = self.first_world + row // self._agents
        raise ValueError(f"action {value} of world {world}{agent}{part} is not in {self._space}; no world has stepped")


def checked_reset_mask(
    mask: Any, worlds: int, agents: int, device: torch.device, what: str = "reset_mask"
) -> torch.Tensor | None:
    """A mask of worlds ``[worlds]`` from one of rows or worlds; None if there is none. TypeError or ValueError."""
    if mask is None:
        return None
    rows = worlds * agents
    shape = tuple(getattr(mask, "shape", ()))
    if agents > 1 and shape == (rows,) and shape != (worlds,):
        of_rows = bool_tensor(mask, what).reshape(worlds, agents)
        # On CUDA a look at it would wait for the device; there the first agents speak for their worlds.
        if of_rows.device.type == "cpu" and not torch.equal(of_rows.any(1), of_rows.all(1)):
            raise ValueError(f"{what} must be the same for all agents of a world, for they share it")
        mask = of_rows[:, 0]
    elif shape and shape != (worlds,):
        allowed = f"[{rows}]" + (f" or [{worlds}] (worlds)" if agents > 1 else "")
        raise ValueError(f"{what} must have shape {allowed}, got {list(shape)}")
    return checked_mask(mask, what, worlds, device)


def agents_per_world(environment: Environment) -> int:
    """Rows of the vector environment that a world has."""
    check_instance(environment)
    if not isinstance(environment.action, str) or not isinstance(environment.archetypes, (list, tuple)):
        return 1  # which is told where they are read
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
