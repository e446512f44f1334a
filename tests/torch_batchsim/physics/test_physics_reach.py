"""Nothing gets into a wall because a force has only begun to move it in that step."""

from __future__ import annotations

from itertools import product

from physics_crowd import Crowd
from physics_scenes import NO_GRAVITY

from torch_batchsim.bench.scenes import Body, Scene, box

HALF = 0.5
DEPTH = 0.02 * 2 * HALF  # of the size of a cube


def test_what_a_force_pushes_stops_at_a_wall() -> None:
    """From rest, before a wall that fills x > 0."""
    scenes = []
    for gap, (mass, force) in product((0.001, 0.05, 0.3), ((1.0, 500.0), (10.0, 500.0), (100.0, 20_000.0))):
        for sideways in (0.0, 0.5):
            push = (force, sideways * force, 0.0)
            cube = Body("cube", box(HALF, HALF, HALF), (-HALF - gap, 0, 0), mass=mass, force=push)
            wall = Body("wall", box(0.2, 9, 3), (0.2, 0, 0), kind="static")
            scenes.append(Scene("wall", (cube, wall), gravity=NO_GRAVITY))
    for scene, run in zip(scenes, Crowd(scenes).run(20), strict=True):
        into = run.positions[:, 0, 0].max() + HALF
        assert into < DEPTH, f"{1000 * into:.0f} mm: {scene}"
