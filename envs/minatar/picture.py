"""The picture of a world: each cell has the colour of the last channel that is 1 there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torch_batchsim.draw import Scene

CELL, GAP = 16, 1  # pixels: a cell with its gap, the gap
DARK, LINES = (18, 20, 32), (28, 31, 46)
COLOURS = {
    "paddle": (90, 190, 255), "ball": (250, 250, 250), "trail": (96, 100, 124), "brick": (214, 110, 72),
    "chicken": (255, 220, 90), "car": (214, 76, 72), "speed1": (150, 60, 90), "speed2": (130, 64, 110),
    "speed3": (110, 68, 126), "speed4": (92, 72, 136), "speed5": (76, 78, 140), "player": (90, 190, 255),
    "enemy": (214, 76, 72), "gold": (255, 205, 70), "sub_front": (90, 190, 255), "sub_back": (52, 116, 170),
    "friendly_bullet": (190, 230, 255), "enemy_bullet": (255, 150, 90), "enemy_fish": (120, 200, 120),
    "enemy_sub": (214, 76, 72), "oxygen_gauge": (120, 170, 210), "diver_gauge": (255, 205, 70),
    "diver": (255, 205, 70), "cannon": (90, 190, 255), "alien": (120, 200, 120), "alien_left": (120, 200, 120),
    "alien_right": (170, 200, 110),
}  # fmt: skip


def draw(cells: np.ndarray, channels: Sequence[str]) -> Scene:
    """160 by 160 pixels. What stands in a cell belongs to the one row of a game.

    Args:
        cells: `[10, 10, channels]`.
        channels: their names.
    """
    scene = Scene(10 * CELL, 10 * CELL, DARK)
    for y in range(10):
        for x in range(10):
            shown = [name for channel, name in enumerate(channels) if cells[y, x, channel]]
            corner = CELL * x + GAP, CELL * y + GAP
            opposite = CELL * (x + 1), CELL * (y + 1)
            if shown:
                scene.row("Game")
            scene.rectangle(corner, opposite, COLOURS[shown[-1]] if shown else LINES)
            if shown:
                scene.row()
    return scene
