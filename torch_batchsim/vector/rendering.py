"""Pictures and texts of worlds for the vector environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..declare.environment import Environment
from ..memory.inputs import checked_count
from ..run.simulator import Simulator
from ..run.world_state import WorldState

if TYPE_CHECKING:
    from ..draw import Scene

MOST_WORLDS = 64
"""Worlds that ``render`` draws at most by default: of more, pictures take minutes and gigabytes."""

METHODS = {"rgb_array": "render", "ansi": "render_text"}
"""The environment's method for each render mode."""


def render_modes(environment: Environment) -> list[str]:
    """Those whose method the environment defines; ``scene`` is as good as ``render``."""
    return [mode for mode, name in METHODS.items() if _defines(environment, name)
            or (name == "render" and _defines(environment, "scene"))]  # fmt: skip


def has_scene(environment: Environment) -> bool:
    """Whether ``scene`` describes its worlds as shapes; else there are at most pictures."""
    return _defines(environment, "scene") or hasattr(environment.render, "scene")


def scene_of(environment: Environment) -> Callable[[Mapping[str, np.ndarray]], Scene]:
    """What draws a world as shapes: ``Environment.scene``, or that of the ``rays.Picture`` that is its ``render``."""
    return environment.scene if _defines(environment, "scene") else environment.render.scene


def _defines(environment: Environment, name: str) -> bool:
    return getattr(type(environment), name) is not getattr(Environment, name)


def check_render_mode(environment: Environment, mode: Any) -> None:
    """Raise ValueError for a mode that the environment does not have."""
    modes = render_modes(environment)
    if mode is None or mode in modes:
        return
    allowed = " or ".join([", ".join(map(repr, modes)), "None"] if modes else ["None"])
    method = METHODS.get(mode) if isinstance(mode, str) else None
    reason = f": {environment.name} does not define {method}()" if method else ""
    raise ValueError(f"render_mode must be {allowed}, got {mode!r}{reason}")


def checked_render_worlds(count: Any) -> int | None:
    """How many worlds ``render`` draws; None: one picture for each row. Raises ValueError."""
    return None if count is None else checked_count(count, "render_worlds")


def draw_world(sim: Simulator, world: int, mode: str) -> np.ndarray | str:
    """A picture of one world as it is now, uint8 ``[height, width, 3]``, or a text: see ``drawn``."""
    return drawn(sim.environment, WorldState(sim, world), mode)


def drawn(environment: Environment, state: Mapping[str, np.ndarray], mode: str) -> np.ndarray | str:
    """A picture of a world, uint8 ``[height, width, 3]``, or a text.

    Raises TypeError or ValueError for anything else that the environment returns: wrappers, videos and trainers take
    these for granted, and fail far from here.
    """
    name = METHODS[mode]
    method = f"{environment.name}.{name}()"
    made = getattr(environment, name)(state)
    if mode == "ansi":
        if not isinstance(made, str):
            raise TypeError(f"{method} must return a text, got {_given(made)}")
        return made
    if not isinstance(made, np.ndarray) or made.dtype != np.uint8:
        raise TypeError(f"{method} must return an array of uint8 [height, width, 3], got {_given(made)}")
    if made.ndim != 3 or made.shape[2] != 3 or made.size == 0:
        raise ValueError(f"{method} must return an array of uint8 [height, width, 3], got {_given(made)}")
    return made


def _given(drawn: object) -> str:
    """The result of a method that draws, by type, dtype and shape, and the remedy where one is likely."""
    if drawn is None:
        return "None: end the method by `return picture`"
    if isinstance(drawn, torch.Tensor):
        return f"a tensor of {str(drawn.dtype).removeprefix('torch.')} {list(drawn.shape)}: return `picture.numpy()`"
    if not isinstance(drawn, np.ndarray):
        shown = repr(drawn)
        given = f"{type(drawn).__name__} {shown if len(shown) <= 60 else f'{shown[:57]}...'}"
        if hasattr(drawn, "pixels"):
            return f"{given}: return `canvas.pixels`"
        return f"{given}: return `np.asarray(picture)`" if hasattr(drawn, "__array_interface__") else given
    shape = list(drawn.shape)
    given = f"{drawn.dtype} {shape}"
    if drawn.dtype != np.uint8:
        unit = np.issubdtype(drawn.dtype, np.floating) and drawn.size and np.nanmax(drawn) <= 1.0
        scaled = "(255 * picture)" if unit or drawn.dtype == bool else "picture"
        return f"{given}: convert it by `{scaled}.astype(np.uint8)`"
    if len(shape) == 2:
        return f"{given}: repeat grey values for three colours, `np.repeat(picture[..., None], 3, axis=2)`"
    if len(shape) == 3 and shape[2] == 4:
        return f"{given}: leave out the alpha channel, `picture[..., :3]`"
    if len(shape) == 3 and shape[0] == 3:
        return f"{given}: colours come last, `picture.transpose(1, 2, 0)`"
    return given


def frames(sim: Simulator, agents: int, mode: str, worlds: int | None) -> tuple[Any, ...]:
    """The frames of ``render``: one of each row, or one of each of the first ``worlds``. Raises ValueError."""
    if worlds is not None:
        return tuple(draw_world(sim, world, mode) for world in range(min(worlds, sim.num_worlds)))
    if sim.num_worlds > MOST_WORLDS:
        raise ValueError(
            f"render() does not draw {sim.num_worlds} worlds, because more than {MOST_WORLDS} take long and much "
            "memory; make the environment with render_worlds=16 to draw the first 16 (any number, this one too), or "
            "call render_world(world) for one"
        )
    drawn = (draw_world(sim, world, mode) for world in range(sim.num_worlds))
    return tuple(frame for frame in drawn for _ in range(agents))  # agents of a world share its picture
