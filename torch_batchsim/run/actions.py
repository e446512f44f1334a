"""The check of actions, for steps of the vector environment and for steps system by system."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch

from ..base.shared import INTEGER_DTYPES, action_dtypes
from ..build.context import action_width
from ..memory.inputs import is_transformed, number_tensor
from ..memory.memory import Memory, action_bounds
from ..resolve.program import Program
from .host_checks import forbidden, must_allow_actions

_SHOWN = 12  # allowed choices that an error lists


class ActionInput:
    """Checks the actions that a user gives, those of a checked build on CPU also by the ``action_mask`` in ``memory``.

    Attributes: ``shape`` ``[rows, ...]`` and ``dtypes`` that the library reads as they are; ``first_world``, from which
    on errors number worlds, where these are a group of more.

    Args:
        hint: what the error for the action of a single row says beside the shapes.
    """

    def __init__(self, program: Program, memory: Memory, hint: str = "") -> None:
        self.shape = torch.Size(program.action_shape(memory.num_worlds))
        self._floating = program.action.dtype.is_floating_point
        self.dtypes = action_dtypes(program.action.dtype)
        self._program, self._memory, self._device, self._hint = program, memory, memory.device, hint
        self._looks_at_masks = must_allow_actions(program, memory)
        self.first_world = 0

    def checked(self, actions: Any) -> torch.Tensor:
        """``actions`` as a contiguous tensor that the library can read, or TypeError, ValueError."""
        given = actions if self._ordinary(actions) else self._dense(actions)
        if self._looks_at_masks:
            self._check_masks(given)
        return given

    def _dense(self, actions: Any) -> torch.Tensor:
        actions = dense_tensor(actions, "actions", f"shape {list(self.shape)}", self._device)
        if actions.shape != self.shape:
            hint = self._hint if actions.shape == self.shape[1:] else ""
            raise ValueError(f"actions must have shape {list(self.shape)}, got {list(actions.shape)}{hint}")
        if self._floating and actions.dtype in (torch.float16, torch.bfloat16):
            actions = actions.float()
        if self._floating and not actions.dtype.is_floating_point and actions.dtype in INTEGER_DTYPES[:-1]:
            actions = actions.double()
        if actions.dtype not in self.dtypes:
            *others, last = (str(dtype).removeprefix("torch.") for dtype in self.dtypes)
            given = str(actions.dtype).removeprefix("torch.")
            raise TypeError(f"actions must have dtype {', '.join(others)} or {last}, got {given}")
        return actions.detach().resolve_neg().contiguous()

    def for_column(self, actions: Any) -> torch.Tensor:
        """``actions`` as their column holds them ``[rows, ...]``: inactive rows get the legal value nearest to 0.

        Raises TypeError or ValueError, also for a value outside the action space.
        """
        program, given = self._program, self.checked(actions)
        rows = given.reshape(self.shape[0], action_width(program))
        low, high = (torch.tensor(b, dtype=torch.float64, device=self._device) for b in action_bounds(program))
        if program.active is not None:
            idle = torch.where(low > 0, low, torch.where(high < 0, high, 0.0))
            active = self._memory.tensor(program.active.name).reshape(-1, 1).bool()
            rows = torch.where(active, rows, idle.to(program.action.dtype))
        legal = (rows.double() >= low) & (rows.double() <= high)  # false for NaN
        if not legal.all():
            self.refuse(given, int((~legal).flatten().nonzero()[0]))
        return rows.to(program.action.dtype).reshape(self.shape)

    def _ordinary(self, actions: Any) -> bool:
        """Whether they can be read as they are; in few lines, for where ``step_call`` cannot look."""
        return (
            type(actions) is torch.Tensor
            and not (actions.is_nested or actions.layout is not torch.strided)
            and actions.shape == self.shape
            and actions.dtype in self.dtypes
            and actions.device == self._device
            and actions.is_contiguous()
            and not (is_transformed(actions) or actions.is_neg() or actions.data_ptr() == 0)
        )

    def refuse(self, actions: torch.Tensor, element: int) -> NoReturn:
        """Raise ValueError for an element that is not in the action space."""
        action, space = self._named(actions, element), self._program.action_space
        raise ValueError(f"{action} is not in {space}; no world has stepped")

    def _check_masks(self, actions: torch.Tensor) -> None:
        """Raise ValueError for the first element that the action mask forbids."""
        found = forbidden(self._program, self._memory, actions)
        if found is not None:
            element, allowed = found
            some = ", ".join(map(str, allowed[:_SHOWN])) + (", ..." if len(allowed) > _SHOWN else "")
            raise ValueError(
                f"{self._named(actions, element)} is against the row's action_mask, which allows {some}; no world has "
                "stepped"
            )

    def _named(self, actions: torch.Tensor, element: int) -> str:
        """``action 3 of world 2, agent 1``."""
        width, agents = max(1, int(np.prod(self.shape[1:]))), self._program.agents.count
        row, value = element // width, actions.reshape(-1)[element].item()
        agent = f", agent {row % agents}" if agents > 1 else ""
        part = f", element {element % width}" if width > 1 else ""
        return f"action {value} of world {self.first_world + row // agents}{agent}{part}"


def dense_tensor(given: Any, what: str, shape: str, device: torch.device) -> torch.Tensor:
    """``given`` as a dense tensor on ``device``, without a copy where torch can view it.

    Arrays and lists are moved to the device, tensors are not. Raises TypeError or ValueError, see ``number_tensor``.
    """
    tensor = number_tensor(given, what, shape)
    if tensor.is_nested:
        raise TypeError(f"{what} must be a dense tensor, got a nested one")
    if tensor is not given:
        tensor = tensor.to(device)
    if tensor.device != device:
        raise ValueError(f"{what} must be on {device}, got a tensor on {tensor.device}")
    if tensor.layout is not torch.strided:
        raise TypeError(f"{what} must be a dense tensor, got layout {tensor.layout}")
    return tensor
