"""csrc/physics/meeting.h, in scenes for which planes fixed at the begin of a step are wrong: seams, corners, ends."""

import numpy as np
import pytest
from solver_scenes import BOX, SPHERE, STATIC, Scene

HALF = 0.25  # of what moves


@pytest.fixture
def library(solver_library):
    return solver_library


def turned(velocity):
    """Degrees by which a way along x has been turned upwards."""
    return np.degrees(np.arctan2(velocity[2], velocity[0]))


# ---- floors of tiles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [1 / 30, 1 / 60, 1 / 240])
@pytest.mark.parametrize("kind, speed", [(SPHERE, 0.5), (SPHERE, 5.0), (BOX, 0.05), (BOX, 0.5), (BOX, 5.0)])
def test_seams_of_a_level_floor_are_not_felt(library, kind, speed, dt):
    friction = (0.5, 0.5) if kind == SPHERE else (0, 0)
    scene = Scene(library, time=dt)
    for i in range(-2, 20):
        scene.add(BOX, (0.25, 2, 0.25), (0.5 * i, 0, -0.25), motion=STATIC, friction=friction)
    spin = {"angular": (0, speed / HALF, 0)} if kind == SPHERE else {}
    body = scene.add(kind, HALF, (-0.22, 0, HALF), linear=(speed, 0, 0), friction=friction, **spin)
    bodies = scene.run(min(round(8 / speed / dt), 480))
    assert np.abs(bodies["linear"][:, body, 0] / speed - 1).max() < 0.01
    assert bodies["position"][:, body, 2].max() < HALF + 0.001


@pytest.mark.parametrize("dt", [1 / 30, 1 / 240])
def test_a_concave_edge_takes_only_the_speed_into_it(library, dt):
    angle, speed = np.radians(5), 3
    scene = Scene(library, gravity=0, time=dt)
    scene.add(BOX, (3, 2, 0.25), (-3, 0, -0.25), motion=STATIC, friction=(0, 0))
    along, up = np.array((np.cos(angle), 0, np.sin(angle))), np.array((-np.sin(angle), 0, np.cos(angle)))
    rotation = (np.cos(angle / 2), 0, -np.sin(angle / 2), 0)
    scene.add(BOX, (3, 2, 0.25), 3 * along - 0.25 * up, motion=STATIC, rotation=rotation, friction=(0, 0))
    ball = scene.add(SPHERE, HALF, (-1.03, 0, HALF), linear=(speed, 0, 0), friction=(0, 0))
    scene.run(round(0.7 / dt))
    assert np.allclose(scene.bodies["linear"][ball], speed * np.cos(angle) * along, atol=1e-3 * speed)


def test_a_trough_of_plates_keeps_a_ball_swinging(library):
    radius, ball_radius = 2.0, 0.1
    scene = Scene(library)
    for angle in np.pi * (np.arange(32) + 0.5) / 32 - np.pi / 2:
        up = np.array((-np.sin(angle), 0, np.cos(angle)))
        rotation = (np.cos(angle / 2), 0, -np.sin(angle / 2), 0)
        place = -(radius + 0.1) * up
        scene.add(BOX, (0.1, 1, 0.1), place, motion=STATIC, rotation=rotation, friction=(0, 0))
    start = 0.995 * (radius - ball_radius) / np.sqrt(2)
    ball = scene.add(SPHERE, ball_radius, (start, 0, -start), friction=(0, 0))
    way = np.abs(scene.run(300)["position"][:, ball, 0])
    assert way[-60:].max() > 0.5 * way[:60].max()


# ---- past corners ----------------------------------------------------------------------------------------------------

GAPS = np.geomspace(0.002, 0.2, 17)
SPEEDS = np.geomspace(1, 60, 17)


def past_a_box(library, gap, speed):
    scene = Scene(library, gravity=0)
    scene.add(BOX, 0.5, (0, 0, 0), motion=STATIC)
    return scene, scene.add(SPHERE, HALF, (-1.3, 0, 0.5 + HALF + gap), linear=(speed, 0, 0))


def past_another(library, gap, speed):
    scene = Scene(library, gravity=0)
    scene.add(SPHERE, HALF, (1, 0, -2 * HALF - gap), linear=(-speed / 2, 0, 0))
    return scene, scene.add(SPHERE, HALF, (-1, 0, 0), linear=(speed / 2, 0, 0))


def past_the_end_of_a_wall(library, gap, speed):
    scene = Scene(library, gravity=0)
    scene.add(BOX, (0.05, 2, 1), (0, 0, -1), motion=STATIC)
    return scene, scene.add(BOX, HALF, (-1, 0, HALF + gap), linear=(speed, 0, 0))


def edge_past_edge(library, gap, speed):
    scene = Scene(library, gravity=0)
    eighth = (np.cos(np.pi / 8), 0, np.sin(np.pi / 8), 0)
    scene.add(BOX, 0.5, (0, 0, 0), motion=STATIC, rotation=eighth)
    place = (-1.5, 0, np.sqrt(2) * (0.5 + HALF) + gap)
    return scene, scene.add(BOX, HALF, place, linear=(speed, 0, 0), rotation=eighth)


@pytest.mark.parametrize("scene_of", [past_a_box, past_another, past_the_end_of_a_wall, edge_past_edge])
def test_what_misses_is_not_turned(library, scene_of):
    worst = 0.0
    for gap in GAPS:
        for speed in SPEEDS:
            scene, body = scene_of(library, gap, speed)
            before = scene.bodies["linear"][body].copy()
            scene.run(min(round(3 / speed * 30) + 2, 60))
            worst = max(worst, np.abs(scene.bodies["linear"][body] - before).max() / speed)
    assert worst < 1e-4


@pytest.mark.parametrize("depth", [0.02, 0.05, 0.15])
def test_what_hits_a_corner_is_turned_as_its_normal_says(library, depth):
    """A ball without restitution keeps the part of its velocity across the normal, from its centre to the corner."""
    cosine = (HALF - depth) / HALF
    expected = np.degrees(np.arccos(cosine))
    for dt, tolerance in ((1 / 30, 6), (1 / 240, 2)):
        for speed in (2, 5, 10):
            turns = []
            for late in np.arange(6) / 6:
                scene = Scene(library, gravity=0, time=dt)
                scene.add(BOX, 0.5, (0, 0, 0), motion=STATIC, friction=(0, 0))
                place = (-1.3 - late * speed * dt, 0, 0.5 + HALF - depth)
                ball = scene.add(SPHERE, HALF, place, linear=(speed, 0, 0), friction=(0, 0))
                scene.run(round(2.4 / speed / dt) + 2)
                turns.append(turned(scene.bodies["linear"][ball]))
            assert abs(np.mean(turns) - expected) < tolerance, (speed, turns, expected)


def test_walls_hold(library):
    """What goes on in the direction of the normal is stopped where it meets the wall, however fast it comes."""
    for speed in (1, 5, 20, 60):
        for kind in (SPHERE, BOX):
            scene = Scene(library, gravity=0)
            scene.add(BOX, (0.5, 2, 2), (0, 0, 0), motion=STATIC)
            body = scene.add(kind, HALF, (-2.0, 0.3, 0.2), linear=(speed, 0.1 * speed, 0))
            bodies = scene.run(90)
            assert bodies["position"][:, body, 0].max() < -0.5 - HALF + 0.02 * HALF
