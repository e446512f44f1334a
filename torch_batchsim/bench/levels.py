"""Levels of the physics benchmark: a walled square with rooms, boxes, ramps, and agents that are pushed about.

Sizes, masses and coefficients of friction are those of hide and seek (Baker et al. 2020, arXiv 1909.07528, as Shacklett
et al. 2023 simulate it): 16 bodies that move, 20 walls, a floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .scenes import PLANE, Body, Material, Scene, Shape, box, turned, wedge

HALF = 18.0  # of the square's side
WALL_THICKNESS, WALL_HEIGHT, DOOR, NARROWEST_ROOM = 0.4, 2.5, 3.6, 5.5
SPLITS = 8  # each gives two walls with a door between them
AGENTS, CUBES, LONG_BOXES, RAMPS = 5, 6, 3, 2
FORCE, TORQUE, DRAG = 30.0, 10.0, (3.0, 3.0)  # of agents: N, N m, and N s/m with N m s
HOLD = 8  # steps that a push lasts
FLOOR, WALL, BOX = Material(0.1, 0.1), Material(0.5, 2.0), Material(0.5, 4.0)
RAMP, AGENT = Material(0.5, 1.0), Material(0.01, 0.01)
_MOST_TRIES = 1000
_Rectangle = tuple[float, float, float, float]  # left, bottom, right, top


def level(seed: int, dt: float = 1 / 30, substeps: int = 4) -> Scene:
    """A level: agents, boxes, ramps, then walls and the floor; nothing overlaps.

    Raises RuntimeError where a body finds no room, which happens with no seed below 1,000.
    """
    generator = np.random.default_rng(seed)
    walls = [_outline(*rectangle) for rectangle in _walls(generator)]
    taken = list(walls)
    bodies: list[Body] = []
    for name, shape, half, mass, material, locks, drag in _movers():
        corners, x, y, yaw = _place(generator, half, taken)
        taken.append(corners)
        # A wedge's centroid lies at a third of its height, and off the middle of its length.
        points = shape.corners() if shape.vertices else np.array([shape.size]) * [(-1,), (1,)]
        low, off = float(points[:, 2].min()), float(points[:, 1].min() + points[:, 1].max()) / 2
        position = (x + math.sin(yaw) * off, y - math.cos(yaw) * off, -low)
        rotation = turned(yaw, (0, 0, 1))
        bodies.append(Body(name, shape, position, rotation, mass=mass, material=material, locks=locks, drag=drag))
    for i, corners in enumerate(walls):
        centre, half_extents = corners.mean(0), np.ptp(corners, axis=0) / 2
        shape = box(*map(float, half_extents), WALL_HEIGHT / 2)
        position = (*map(float, centre), WALL_HEIGHT / 2)
        bodies.append(Body(f"wall_{i}", shape, position, kind="static", material=WALL))
    bodies.append(Body("floor", PLANE, kind="static", material=FLOOR))
    return Scene(f"level_{seed}", tuple(bodies), gravity=(0.0, 0.0, -9.8), dt=dt, substeps=substeps)


def agents() -> tuple[str, ...]:
    """Names of the bodies that are pushed."""
    return tuple(f"agent_{i}" for i in range(AGENTS))


_Pair = tuple[float, float]


def _movers() -> Iterator[tuple[str, Shape, _Pair, float, Material, tuple[str, ...], _Pair]]:
    """Largest first, as they are placed: name, shape, half extents on the floor, mass, material, locks, drag."""
    still = (0.0, 0.0)
    for i in range(LONG_BOXES):
        yield f"long_{i}", box(4.0, 0.75, 1.0), (4.0, 0.75), 2.0, BOX, (), still
    for i in range(RAMPS):
        yield f"ramp_{i}", wedge(2.0, 3.0, 2.0), (1.0, 1.5), 2.0, RAMP, (), still
    for i in range(CUBES):
        yield f"cube_{i}", box(1.0, 1.0, 1.0), (1.0, 1.0), 2.0, BOX, (), still
    for name in agents():
        yield name, box(1.0, 1.0, 1.0), (1.0, 1.0), 1.0, AGENT, ("rx", "ry"), DRAG


def _walls(generator: np.random.Generator) -> list[_Rectangle]:
    """The square's four sides, and two walls of each split of the largest room; a door lies between them."""
    outside, half = HALF + WALL_THICKNESS, WALL_THICKNESS / 2
    found = [
        (-outside, -outside, outside, -HALF), (-outside, HALF, outside, outside),
        (-outside, -HALF, -HALF, HALF), (HALF, -HALF, outside, HALF),
    ]  # fmt: skip
    rooms: list[_Rectangle] = [(-HALF, -HALF, HALF, HALF)]
    for _ in range(SPLITS):
        rooms.sort(key=lambda r: (r[2] - r[0]) * (r[3] - r[1]))
        left, bottom, right, top = rooms.pop()
        upright = right - left > top - bottom
        low, high, start, end = (left, right, bottom, top) if upright else (bottom, top, left, right)
        at = generator.uniform(low + NARROWEST_ROOM, high - NARROWEST_ROOM)
        door = generator.uniform(start + 0.5, end - DOOR - 0.5)
        for first, last in ((start, door), (door + DOOR, end)):
            found.append((at - half, first, at + half, last) if upright else (first, at - half, last, at + half))
        rooms += (
            [(left, bottom, at - half, top), (at + half, bottom, right, top)] if upright
            else [(left, bottom, right, at - half), (left, at + half, right, top)]
        )  # fmt: skip
    return found


def _outline(left: float, bottom: float, right: float, top: float) -> np.ndarray:
    """Corners ``[4, 2]``."""
    return np.array([(left, bottom), (right, bottom), (right, top), (left, top)])


def _place(
    generator: np.random.Generator, half: tuple[float, float], taken: Sequence[np.ndarray]
) -> tuple[np.ndarray, float, float, float]:
    """Corners, centre and yaw of a rectangle that meets none of those that are there."""
    for _ in range(_MOST_TRIES):
        x, y = generator.uniform(-HALF, HALF, 2)
        yaw = generator.uniform(-math.pi, math.pi)
        c, s = math.cos(yaw), math.sin(yaw)
        corners = _outline(-half[0], -half[1], *half) @ np.array([(c, s), (-s, c)]) + (x, y)
        if np.abs(corners).max() < HALF and not any(_meet(corners, other) for other in taken):
            return corners, float(x), float(y), float(yaw)
    raise RuntimeError(f"a body of {half} found no room in {_MOST_TRIES} tries")


def _meet(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two rectangles overlap: none of their sides' directions separates them."""
    for corners in (a, b):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            along_a, along_b = a @ side, b @ side
            if along_a.max() < along_b.min() or along_b.max() < along_a.min():
                return False
    return True
