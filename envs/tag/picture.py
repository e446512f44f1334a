"""The picture of a world of tag: places, headings, who is in the game, and the step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from torch_batchsim.draw import Scene

SIZE, HEADER, MARGIN = 400, 28, 10  # pixels: the arena with its margins, the line of text above it
FLOOR, HEADER_COLOUR, WALL, TEXT = (244, 241, 234), (48, 52, 64), (130, 130, 140), (235, 236, 240)
TAGGER, RUNNER, CAUGHT, GRID = (206, 62, 56), (48, 112, 190), (196, 196, 200), (222, 218, 208)


def draw(
    world: Mapping[str, np.ndarray],
    places: np.ndarray,
    length: float,
    taggers: np.ndarray,
    radius: float,
    *,
    episode_length: int,
    playing: np.ndarray | None = None,
    headings: np.ndarray | None = None,
    cells: int = 0,
) -> Scene:
    """`SIZE` by `HEADER + SIZE` pixels.

    Args:
        world: as `scene` gets it.
        places: [agents, 2], from 0 to `length`.
        taggers: which agents are.
        radius: of an agent, in the unit of `places`.
        playing: which agents are in the game.
        headings: rad.
        cells: by which lines divide a side, if they are not too many.
    """
    scene, scale = Scene(SIZE, HEADER + SIZE, background=FLOOR), (SIZE - 2 * MARGIN) / length
    low, high = MARGIN, SIZE - MARGIN
    for i in range(1, cells if cells <= 40 else 0):
        at = MARGIN + i * scale
        scene.line((at, HEADER + low), (at, HEADER + high), 1, GRID)
        scene.line((low, HEADER + at), (high, HEADER + at), 1, GRID)
    corners = [(low, HEADER + low), (high, HEADER + low), (high, HEADER + high), (low, HEADER + high)]
    for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
        scene.line(start, end, 2, WALL)
    playing = np.ones(len(places), bool) if playing is None else playing.astype(bool)
    size = max(radius * scale, 3.0)
    for i in np.lexsort((taggers, playing)).tolist():  # those in the game, and of them taggers, lie on top
        scene.row("Agent", i)
        x, y = (float(v) if math.isfinite(v) else 0.0 for v in places[i])  # of a state that somebody has written
        centre = (MARGIN + x * scale, HEADER + SIZE - MARGIN - y * scale)
        colour = CAUGHT if not playing[i] else TAGGER if taggers[i] else RUNNER
        if headings is not None and playing[i] and math.isfinite(headings[i]):
            angle = float(headings[i])
            tip = (centre[0] + 2 * size * math.cos(angle), centre[1] - 2 * size * math.sin(angle))
            scene.line(centre, tip, max(size / 2, 1.5), colour)
        scene.circle(centre, size, colour)
    scene.row()
    scene.rectangle((0, 0), (SIZE, HEADER), HEADER_COLOUR)
    left = int((playing & ~taggers).sum())
    scene.text((10, HEADER / 2), f"runners {left}", TEXT, scale=2)
    scene.text((SIZE - 10, HEADER / 2), f"step {int(world['World.step'])}/{episode_length}", TEXT, scale=2, align=1.0)
    return scene
