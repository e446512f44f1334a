"""Nothing gets into a wall because a force, a motor or another body has only begun to move it in that step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from physics_crowd import Crowd
from physics_scenes import NO_GRAVITY

from torch_batchsim.bench.scenes import Body, Joint, Motor, Scene, box, matrices, sphere

HALF = 0.5
DEPTH = 0.02 * 2 * HALF  # of the size of a cube
CORNERS = np.array(list(product((-0.1, 0.1), (-0.1, 0.1), (-1.0, 1.0))))  # of the arm


def before_a_wall(gap: float, *others: Body, joint: Joint | None = None, **cube: Any) -> Scene:
    """A cube so far from a wall, which fills x > 0."""
    body = Body("cube", box(HALF, HALF, HALF), (-HALF - gap, 0, 0), **{"mass": 10.0} | cube)
    wall = Body("wall", box(0.2, 3, 3), (0.2, 0, 0), kind="static")
    joints = () if joint is None else (joint,)
    return Scene("wall", (body, *others, wall), joints, gravity=NO_GRAVITY)


def pushed() -> Iterator[Scene]:
    for gap, (mass, force) in product((0.001, 0.05, 0.3), ((1.0, 500.0), (10.0, 500.0), (100.0, 20_000.0))):
        yield before_a_wall(gap, mass=mass, force=(force, 0.0, 0.0))
    for gap, apart, speed, mass in product((0.001, 0.03, 0.1, 0.25), (0.001, 0.05, 0.3), (2.0, 20.0), (1.0, 10.0)):
        place = (-3 * HALF - gap - apart, 0, 0)
        yield before_a_wall(gap, Body("by", box(HALF, HALF, HALF), place, linear=(speed, 0, 0), mass=mass))
    for gap, apart in product((0.03, 0.1), (0.001, 0.05)):  # by one that is pushed by one
        first = Body("first", sphere(HALF), (-5 * HALF - gap - 2 * apart, 0, 0), linear=(20, 0, 0), mass=10.0)
        second = Body("second", box(HALF, HALF, HALF), (-3 * HALF - gap - apart, 0, 0), mass=10.0)
        yield before_a_wall(gap, first, second)
    for gap, motor in product((0.01, 0.1, 0.3), (Motor(1e4, velocity=20.0), Motor(2e3, position=5.0))):
        yield before_a_wall(gap, joint=Joint("slider", None, "cube", (0, 0, 0), (1, 0, 0), motor=motor))


def test_what_is_pushed_stops_at_a_wall() -> None:
    scenes = list(pushed())
    for scene, run in zip(scenes, Crowd(scenes).run(60), strict=True):
        into = run.positions[:, 0, 0].max() + HALF
        assert into < DEPTH, f"{1000 * into:.0f} mm: {scene}"


def test_an_arm_on_a_motor_stops_at_a_wall() -> None:
    scenes = []
    for gap, motor in product((0.005, 0.05, 0.3), (Motor(300.0, velocity=30.0), Motor(100.0, velocity=5.0))):
        arm = Body("arm", box(0.1, 0.1, 1.0), (-0.1 - gap, 0, -1.0), mass=5.0)
        wall = Body("wall", box(0.2, 3, 3), (0.2, 0, -1.0), kind="static")
        hinge = Joint("hinge", None, "arm", (-0.1 - gap, 0, 0), (0, -1, 0), motor=motor)
        scenes.append(Scene("arm", (arm, wall), (hinge,), gravity=NO_GRAVITY))
    for scene, run in zip(scenes, Crowd(scenes).run(60), strict=True):
        corners = run.positions[:, 0, None] + np.einsum("tij,kj->tki", matrices(run.rotations[:, 0]), CORNERS)
        into = corners[..., 0].max()
        assert into < 0.02 * 0.2, f"{1000 * into:.1f} mm: {scene}"
