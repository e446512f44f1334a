"""Nothing gets into a wall because a force or a motor has only begun to move it in that step."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from physics_crowd import Crowd
from physics_scenes import NO_GRAVITY

from torch_batchsim.bench.scenes import Body, Joint, Motor, Scene, box, sphere, to_position

HALF = 0.5
DEPTH = 0.02 * 2 * HALF  # of the size of a cube


@pytest.mark.full
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


REACH = 1.0  # from the world's hinge to the end of the arm
TIP = 0.1


def arm(links: int, gap: float, motor: Motor, dt: float) -> Scene:
    """An arm along x that hangs on the world by a hinge, of links with hinges between them, above a floor."""
    bodies, joints = [Body("floor", box(5, 5, 0.2), (0, 0, -TIP - gap - 0.2), kind="static")], []
    length = REACH / links
    for i in range(links):
        bodies.append(Body(f"link_{i}", sphere(TIP), ((i + 1) * length, 0, 0), mass=1.0 / (1 + 9 * i)))
        a = f"link_{i - 1}" if i else None
        joints.append(Joint("hinge", a, f"link_{i}", (i * length, 0, 0), (0, 1, 0), motor=motor))
    return Scene("arm", tuple(bodies), tuple(joints), gravity=NO_GRAVITY, dt=dt)


MOTORS = {
    1: (Motor(torque=20.0), Motor(torque=100.0), Motor(torque=300.0), to_position(0.5, 200.0)),
    2: (Motor(torque=5.0), Motor(torque=20.0), to_position(0.5, 20.0)),
}


@pytest.mark.parametrize("links", MOTORS)
def test_what_a_motor_moves_stops_at_the_floor(links: int) -> None:
    """From rest, in the step in which the arm comes to the floor."""
    cases = product((0.02, 0.1, 0.3), (1 / 30, 1 / 60), MOTORS[links])
    scenes = [arm(links, gap, motor, dt) for gap, dt, motor in cases]
    for scene, run in zip(scenes, Crowd(scenes).run(20), strict=True):
        top = scene.bodies[0].position[2] + 0.2
        depths = (top - (run.positions[:, 1:, 2] - TIP)).max(1)
        entry = depths[np.argmax(depths > -0.001)]
        assert entry < 0.02 * 2 * TIP, f"{1000 * entry:.1f} mm, {scene.joints[0].motor}, {scene.dt} s"


def test_what_another_body_pushes_stops_at_a_wall() -> None:
    """Two cubes in a row before a wall, of which a force pushes the one behind."""
    scenes = []
    for gap, (mass, force) in product((0.001, 0.05, 0.3), ((1.0, 500.0), (10.0, 500.0), (100.0, 20_000.0))):
        cubes = [Body(f"cube_{i}", box(HALF, HALF, HALF), (-HALF * (1 + 2 * i) - gap, 0, 0), mass=mass) for i in (0, 1)]
        wall = Body("wall", box(0.2, 9, 3), (0.2, 0, 0), kind="static")
        scenes.append(Scene("row", (cubes[0], replace(cubes[1], force=(force, 0, 0)), wall), gravity=NO_GRAVITY))
    for scene, run in zip(scenes, Crowd(scenes).run(20), strict=True):
        into = run.positions[:, 0, 0].max() + HALF
        assert into < DEPTH, f"{1000 * into:.0f} mm: {scene}"


DRIVES = (to_position(0.5, 5.0, 100.0, 20.0), to_position(0.5, 20.0, 100.0, 20.0), to_position(0.5, 0.0, 100.0, 20.0))


@pytest.mark.parametrize("far", [2.0, pytest.param(3.0, marks=pytest.mark.full)])
def test_a_drive_reaches_only_where_it_may_come(far: float) -> None:
    """A stick on a hinge among more stones than a world has room for contacts; it touches none."""
    turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    stones = [
        Body(f"stone_{i}", sphere(0.1), (far * np.cos(turn), far * np.sin(turn), 0), kind="static")
        for i, turn in enumerate(turns)
    ]
    stick = Body("stick", box(HALF, 0.04, 0.04), (HALF, 0, 0))
    hinges = [Joint("hinge", None, "stick", (0, 0, 0), (0, 0, 1), motor=drive) for drive in DRIVES]
    scenes = [Scene("stones", (*stones, stick), (hinge,), NO_GRAVITY) for hinge in hinges]
    assert all(abs(run.angular[-1, -1, 2]) < 2 for run in Crowd(scenes).run(60))  # no fault of contacts
