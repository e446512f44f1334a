"""Pictures and texts of worlds for the vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..declare.environment import Environment
from ..memory.inputs import checked_count
from ..run.simulator import Simulator
from ..run.world_state import WorldState

MOST_WORLDS = 64
"""Worlds that ``render`` draws at most by default: of more, pictures take minutes and gigabytes."""

_DRAWN = {"rgb_array": np.ndarray, "ansi": str}
METHODS = {"rgb_array": "render", "ansi": "render_text"}
"""The environment's method for each render mode."""


def render_modes(environment: Environment) -> list[str]:
    """Those whose method the environment defines."""
    cls = type(environment)
    return [mode for mode, name in METHODS.items() if getattr(cls, name) is not getattr(Environment, name)]


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
    """A picture of one world, uint8 ``[height, width, 3]``, or a text."""
    name = METHODS[mode]
    drawn = getattr(sim.environment, name)(WorldState(sim, world))
    if not isinstance(drawn, _DRAWN[mode]):
        what = "an array of uint8 [height, width, 3]" if mode == "rgb_array" else "a text"
        raise TypeError(f"{sim.environment.name}.{name}() must return {what}, got {drawn!r}")
    return drawn


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
