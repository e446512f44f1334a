"""The picture of an ant: a camera that goes along beside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from torch_batchsim.draw import Scene
from torch_batchsim.rays import Picture

WIDTH, HEIGHT = 400, 300
TORSO, GROUND, TEXT = 0xD9862B, 0xC9D3C0, (48, 54, 60)
LEGS, FEET = (0x3F7CAC, 0x3F7CAC, 0x7A5C99, 0x7A5C99), (0x2B5A80, 0x2B5A80, 0x57406F, 0x57406F)


def draw(world: Mapping[str, np.ndarray]) -> Scene:
    """A world, as ``scene`` gets it."""
    x, y, _ = np.clip(np.nan_to_num(world["Ant.physics.Pose.position"][0]), -1e6, 1e6).tolist()
    camera = Picture(
        eye=(x + 1.3, y - 3.6, 1.7), target=(x + 0.15, y, 0.35), width=WIDTH, height=HEIGHT, field_of_view=0.62,
        tile=1.0, colours={"Ant": TORSO, "Leg": LEGS, "Foot": FEET, "Ground": GROUND},
    )  # fmt: skip
    scene = camera.scene(world)
    speed = float(world["Ant.Facts.x_velocity"][0])
    scene.text((10, 14), f"{x:.1f} m", TEXT, scale=2)
    scene.text((WIDTH - 10, 14), f"{speed:.1f} m/s", TEXT, scale=2, align=1.0)
    return scene
