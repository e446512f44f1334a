"""What a human who plays for an agent may press, and the actions that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ..errors import SchemaError

REPEAT = "repeat"
"""The ``idle_action`` that goes on with what was pressed last."""

MOST = 400


class Control(NamedTuple):
    """A button of the live page and a key, for ``Environment.controls``.

    - ``label``: what the button says.
    - ``action``: of a Discrete space the action; of others ``{part: value}``, the places in an action that it sets.
    - ``key``: as browsers name it: ``"a"``, ``" "``, ``"ArrowLeft"``; ``""``: only the button.
    - ``once``: it acts in one step, however long it is held.
    """

    label: str
    action: int | Mapping[int, float]
    key: str = ""
    once: bool = False


class Controls(NamedTuple):
    """Those of an environment, checked; ``idle`` is an action, REPEAT, or None: its world waits."""

    each: tuple[Control, ...]
    idle: Any


class Playable(Protocol):
    """An environment, as far as controls know it."""

    @property
    def name(self) -> str: ...

    @property
    def controls(self) -> Sequence[Control]: ...

    @property
    def idle_action(self) -> Any: ...


def controls_of(environment: Playable, space: gymnasium.Space) -> Controls:
    """The environment's, or a button for each choice of a discrete space; none for others.

    Raises SchemaError where they do not go with the action space of an agent.
    """
    each, name = tuple(environment.controls) or _choices(space), environment.name
    first = environment.idle_action
    idle = first if first is None or first == REPEAT else _checked(f"{name}.idle_action", first, space)
    for control in each:
        _checked(f"{name}.controls, {control.label!r}", control.action, space)
    keys = [control.key for control in each if control.key]
    for key in keys:
        if keys.count(key) > 1:
            raise SchemaError(f"{name}.controls has the key {key!r} more than once")
    return Controls(each, idle)


def _choices(space: gymnasium.Space) -> tuple[Control, ...]:
    if isinstance(space, Discrete) and space.n <= MOST:
        first = int(space.start)
        return tuple(Control(str(first + i), first + i, str(i) if i < 10 else "") for i in range(int(space.n)))
    if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1 and space.nvec.sum() <= MOST:
        places = [(part, value) for part, count in enumerate(space.nvec) for value in range(count)]
        return tuple(Control(f"{part}: {value}", {part: value}) for part, value in places)
    return ()


def _checked(what: str, action: Any, space: gymnasium.Space) -> Any:
    """Raises SchemaError unless it is an action, or parts of one."""
    if isinstance(space, Discrete):
        if isinstance(action, (int, np.integer)) and space.contains(int(action)):
            return int(action)
        raise SchemaError(f"{what} must be an action of {space}, got {action!r}")
    if isinstance(action, Mapping):
        made = nothing(space)
        if all(isinstance(part, int) and 0 <= part < made.size for part in action):
            for part, value in action.items():
                made.flat[part] = value
            if space.contains(made):
                return action
    elif space.contains(np.asarray(action, space.dtype)):
        return action
    raise SchemaError(f"{what} must be parts and values of an action of {space}, got {action!r}")


def nothing(space: gymnasium.Space) -> np.ndarray:
    """An action of a space of several parts: zeros, or what is nearest."""
    if isinstance(space, Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    return np.array(getattr(space, "start", np.zeros(space.shape or ())), space.dtype)


def composed(pressed: Sequence[Control], idle: Any, space: gymnasium.Space) -> np.ndarray:
    """An action of several parts: that of idle hands, with what is pressed, the last on top."""
    action = nothing(space) if idle is None or isinstance(idle, str) else np.array(idle, space.dtype)
    for control in pressed:
        assert isinstance(control.action, Mapping)
        for part, value in control.action.items():
            action.flat[part] = value
    return action
