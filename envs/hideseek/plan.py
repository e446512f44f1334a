"""A plan of hide and seek as text."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi, sin
from typing import Any

import numpy as np

from torch_batchsim.physics import rotated

_COLUMNS = 72  # characters across the square; half as many lines


def as_text(world: Mapping[str, np.ndarray], constants: Any) -> str:
    """A plan: walls ``#``, boxes ``b``, ramps ``r`` (capital where locked), hiders ``H``, seekers ``S``: an arrow."""
    half, lines = constants.half_size + 0.5, _COLUMNS // 2
    x = (np.arange(_COLUMNS) + 0.5) / _COLUMNS * 2 * half - half
    y = half - (np.arange(lines) + 0.5) / lines * 2 * half
    grid = np.full((lines, _COLUMNS), " ")

    def fill(position: np.ndarray, rotation: np.ndarray, size: tuple[float, float], mark: str) -> None:
        ahead = rotated(rotation, (1, 0, 0))[:2]
        ahead = ahead / max(float(np.hypot(*ahead)), 1e-6)
        dx, dy = x[None, :] - position[0], y[:, None] - position[1]
        slack = half / _COLUMNS
        along, aside = np.abs(dx * ahead[0] + dy * ahead[1]), np.abs(dy * ahead[0] - dx * ahead[1])
        grid[(along <= size[0] + slack) & (aside <= size[1] + slack)] = mark

    for place, rotation, size in _rows(world, "Wall"):
        fill(place, rotation, size[:2], "#")
    for i, (place, rotation, _) in enumerate(_rows(world, "Ramp")):
        mark = "R" if world["Ramp.Thing.locked"][i] else "r"
        fill(place, rotation, (constants.ramp_width / 2, constants.ramp_length / 2), mark)
    for i, (place, rotation, size) in enumerate(_rows(world, "Box")):
        fill(place, rotation, size[:2], "B" if world["Box.Thing.locked"][i] else "b")
    for i, (place, rotation, _) in enumerate(_rows(world, "Agent")):
        if not np.isfinite([*place, *rotation]).all():
            continue
        column = int(np.clip((place[0] + half) / (2 * half) * _COLUMNS, 0, _COLUMNS - 1))
        line = int(np.clip((half - place[1]) / (2 * half) * lines, 0, lines - 1))
        forward = rotated(rotation, (0, 1, 0))
        way = round(float(np.arctan2(forward[1], forward[0])) / (pi / 2)) % 4
        grid[line, column] = "H" if world["Agent.Team.side"][i] == 1 else "S"
        ahead = (line - round(sin(way * pi / 2)), column + round(cos(way * pi / 2)))
        if 0 <= ahead[0] < lines and 0 <= ahead[1] < _COLUMNS:
            grid[ahead] = ">^<v"[way]
    return "\n".join("".join(row).rstrip() for row in grid)


def _rows(world: Mapping[str, np.ndarray], name: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    parts = ("Pose.position", "Pose.rotation", "Shape.size")
    return list(zip(*(world[f"{name}.physics.{part}"] for part in parts), strict=True))
