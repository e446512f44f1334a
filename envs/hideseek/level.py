"""Levels of hide and seek for a reset, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, sin
from typing import Any

import numpy as np

from torch_batchsim import Environment

_CELL = 0.25  # metres, of the lattice in which the check looks for rooms


def level_shapes(constants: Any) -> dict[str, tuple[int, int]]:
    """Shapes of the arrays of a level, by the names of ``reset(options=...)``."""
    c = constants
    return {"walls": (c.pieces, 4), "boxes": (c.box_rows, 4), "ramps": (c.ramp_rows, 4), "agents": (c.agents, 3)}


@dataclass(frozen=True)
class Level:
    """The places of everything at the beginning of an episode.

    Args:
        walls: rectangles along the axes: x, y of the middle, half extents along x and y, metres.
        boxes: x, y, yaw (radians), and True for an elongated one.
        ramps: x, y of the middle of the rectangle below it, yaw; it rises along its own y.
        agents: x, y, yaw of all agents, hiders first.
    """

    walls: Sequence[tuple[float, float, float, float]] = ()
    boxes: Sequence[tuple[float, float, float, bool]] = ()
    ramps: Sequence[tuple[float, float, float]] = ()
    agents: Sequence[tuple[float, float, float]] = ()

    @staticmethod
    def options(levels: Sequence[Level], environment: Environment) -> dict[str, np.ndarray]:
        """The value of ``reset(options=...)``: a level for each world that begins.

        Raises ValueError for more walls, boxes or ramps than the environment has room for.
        """
        room = level_shapes(environment.constants)
        arrays = {name: np.zeros((len(levels), *shape), np.float32) for name, shape in room.items()}
        for number, level in enumerate(levels):
            for name, (most, _) in room.items():
                rows = getattr(level, name)
                if len(rows) > most or (name == "agents" and len(rows) < most):
                    raise ValueError(f"level {number} has {len(rows)} {name}, the environment has room for {most}")
            arrays["walls"][number, : len(level.walls)] = np.reshape(level.walls, (-1, 4))
            for i, (x, y, yaw, elongated) in enumerate(level.boxes):
                arrays["boxes"][number, i] = x, y, yaw, 2 if elongated else 1
            for i, (x, y, yaw) in enumerate(level.ramps):
                arrays["ramps"][number, i] = x, y, yaw, 1
            arrays["agents"][number] = level.agents
        return arrays


def check_levels(environment: Environment, levels: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for numbers that are not finite, things outside or on each other, and rooms that cannot be
    reached. ``levels``: arrays ``[worlds, ...]`` as ``Level.options`` makes them.
    """
    room = level_shapes(environment.constants)
    for name, shape in room.items():
        given = levels[name]
        if given.shape[1:] != shape:
            raise ValueError(f"{name} must be [worlds, {shape[0]}, {shape[1]}], got rows of {list(given.shape[1:])}")
        if not np.isfinite(given).all():
            raise ValueError(f"{name} must be finite, got {given[~np.isfinite(given)][0]}")
    for name, kinds in (("boxes", (0, 1, 2)), ("ramps", (0, 1))):
        given = levels[name][..., 3]
        if not np.isin(given, kinds).all():
            wrong = given[~np.isin(given, kinds)][0]
            raise ValueError(f"the last number of {name} must be one of {kinds}, got {wrong:g}")
    halves = levels["walls"][..., 2:]
    if ((halves > 0).any(-1) != (halves > 0).all(-1)).any() or (halves < 0).any():
        raise ValueError("the half extents of walls must both be positive, or both 0 for a missing wall")
    different: dict[bytes, int] = {}
    for number in range(len(levels["walls"])):
        different.setdefault(b"".join(levels[name][number].tobytes() for name in room), number)
    for number in different.values():
        _check_level(environment, number, {name: levels[name][number] for name in room})


def _check_level(environment: Environment, number: int, level: Mapping[str, np.ndarray]) -> None:
    c = environment.constants
    plots = [(f"wall {i}", *map(float, wall[:2]), 0.0, *map(float, wall[2:])) for i, wall in _there(level["walls"], 2)]
    walls = len(plots)
    for i, (x, y, yaw, kind) in _there(level["boxes"], 3):
        half = (c.long_x, c.long_y) if kind > 1.5 else (c.cube, c.cube)
        plots.append((f"box {i}", float(x), float(y), float(yaw), *half))
    plots += [
        (f"ramp {i}", float(x), float(y), float(yaw), c.ramp_width / 2, c.ramp_length / 2)
        for i, (x, y, yaw, _) in _there(level["ramps"], 3)
    ]
    plots += [(f"agent {i}", *map(float, agent), c.agent, c.agent) for i, agent in enumerate(level["agents"])]
    corners = [_corners(*plot[1:]) for plot in plots]
    for i, (name, *_) in enumerate(plots):
        if i >= walls and np.abs(corners[i]).max() > c.half_size:
            raise ValueError(f"level {number}: {name} reaches out of the square of half size {c.half_size:g}")
        for k in range(max(i + 1, walls)) if i >= walls else ():
            if k != i and _meet(corners[i], corners[k]):
                raise ValueError(f"level {number}: {name} and {plots[k][0]} overlap")
    _check_rooms(environment, number, [plot[1:] for plot in plots[:walls]])


def _there(rows: np.ndarray, column: int) -> list[tuple[int, np.ndarray]]:
    return [(i, row) for i, row in enumerate(rows) if row[column] > 0]


def _corners(x: float, y: float, yaw: float, half_x: float, half_y: float) -> np.ndarray:
    local = np.array([(-half_x, -half_y), (half_x, -half_y), (half_x, half_y), (-half_x, half_y)])
    return local @ np.array([(cos(yaw), sin(yaw)), (-sin(yaw), cos(yaw))]) + (x, y)


def _meet(a: np.ndarray, b: np.ndarray, slack: float = 1e-3) -> bool:
    """Whether two rectangles overlap: no direction of their sides separates them."""
    for corners in (a, b):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            direction = side / np.linalg.norm(side)
            along_a, along_b = a @ direction, b @ direction
            if along_a.max() < along_b.min() + slack or along_b.max() < along_a.min() + slack:
                return False
    return True


def _check_rooms(environment: Environment, number: int, walls: Sequence[tuple[float, ...]]) -> None:
    """All places where an agent can stand must be connected."""
    c = environment.constants
    axis = np.arange(-c.half_size + c.agent + _CELL / 2, c.half_size - c.agent, _CELL)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    free = np.ones_like(x, bool)
    slack = _CELL / 2
    for wall_x, wall_y, _, half_x, half_y in walls:
        free &= (np.abs(x - wall_x) >= half_x + c.agent - slack) | (np.abs(y - wall_y) >= half_y + c.agent - slack)
    reached = np.zeros_like(free)
    if free.any():
        reached[tuple(np.argwhere(free)[0])] = True
    while True:
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= free
        if (grown == reached).all():
            break
        reached = grown
    left = np.argwhere(free & ~reached)
    if len(left):
        at = axis[left[0]]
        raise ValueError(f"level {number}: the room around ({at[0]:.1f}, {at[1]:.1f}) cannot be reached")
