"""Friction of faces that slide and spin, beside the same under even pressure, and where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import atan, cos, pi, sin, tan

import numpy as np
import pytest
from physics_formulas import slowed_by_friction
from physics_scenes import G, floor

from torch_batchsim.bench.physics_worlds import simulate
from torch_batchsim.bench.scenes import PLANE, Body, Scene, Shape, Trajectory, box, matrices, rough, turned

FRICTION, HALF_HEIGHT, STEP = 0.3, 0.05, 1 / 60


def polygon(corners: int, radius: float = 0.5) -> np.ndarray:
    angles = np.arange(corners) * 2 * pi / corners
    return radius * np.stack([np.cos(angles), np.sin(angles)], 1)


def prism(corners: np.ndarray) -> Shape:
    return Shape("hull", (1.0, 1.0, 1.0), tuple((x, y, z) for x, y in corners for z in (-HALF_HEIGHT, HALF_HEIGHT)))


def rectangle(x: float, y: float) -> np.ndarray:
    return np.array([(-x, -y), (x, -y), (x, y), (-x, y)])


FACES = {
    "disc": polygon(16), "octagon": polygon(8), "hexagon": polygon(6), "triangle": polygon(3),
    "square": rectangle(0.5, 0.5), "rectangle": rectangle(0.5, 0.25), "stick": rectangle(0.5, 0.1),
}  # fmt: skip


def lying(face: str, speed: float, spin: float, place: int) -> Body:
    """On the floor, as a box where the face is a rectangle; places are apart by 4 m."""
    corners = FACES[face]
    shape = box(*corners.max(0).tolist(), HALF_HEIGHT) if len(corners) == 4 else prism(corners)
    start = {"linear": (speed, 0, 0), "angular": (0, 0, spin)}
    return Body(f"{face}{place}", shape, (0, 4.0 * place, HALF_HEIGHT), material=rough(FRICTION), **start)


def rests_from(speeds: np.ndarray, most: float, step: float) -> float:
    """The time from which on ``speeds`` after steps stay at or below ``most``."""
    return step * float(np.flatnonzero(np.abs(speeds) > most)[-1] + 1)


@pytest.mark.full
def test_a_lying_disc_spins_on_almost_as_under_even_pressure() -> None:
    """The torque of friction is then 2/3 of that of a load at the rim. Its points, at the rim, change as it turns."""
    radius, spin = 0.5, 8.0
    run = simulate(Scene("disc", (lying("disc", 0.0, spin, 0), replace(floor(), material=rough(FRICTION)))), 90)
    moment = radius**2 / 2 * (1 - 2 / 3 * sin(pi / 16) ** 2)  # of a prism with 16 sides, of 1 kg
    even = spin / (FRICTION * G * 2 / 3 * radius / moment)
    stops = run.times[int(np.argmax(run.angular[:, 0, 2] < 0.01))]
    assert stops == pytest.approx(even, rel=0.1)
    assert np.linalg.norm(run.positions[:, 0, :2], axis=1).max() < 0.02


@pytest.mark.full
def test_spinning_faces_stop_as_under_even_pressure() -> None:
    """The lever of friction follows the corners of the face, though only four points of it are kept."""
    below = replace(floor(), material=rough(FRICTION))
    bodies = [lying(face, 0.0, 8.0, i) for i, face in enumerate(FACES)]
    run = simulate(Scene("faces", (*bodies, below)), 90)
    for i, (face, corners) in enumerate(FACES.items()):
        even = slowed_by_friction(corners, FRICTION * G, (0, 0), 8.0)
        expected = rests_from(even[:, 5], 0.02, 1e-3)
        assert rests_from(run.angular[:, i, 2], 0.02, STEP) == pytest.approx(expected, rel=0.06), face
        assert np.linalg.norm(run.positions[:, i, :2] - run.positions[0, i, :2], axis=1).max() < 0.02, face


def slid_and_spun(run: Trajectory, cases: Sequence[tuple[str, float, float]], floor_speed: float) -> None:
    """Each stops sliding and spinning on the floor at the same time, when and nearly where even pressure stops it."""
    for i, (face, speed, spin) in enumerate(cases):
        even = slowed_by_friction(FACES[face], FRICTION * G, (speed - floor_speed, 0), spin)
        slides = rests_from(np.linalg.norm(run.linear[:, i, :2] - (floor_speed, 0), axis=1), 0.01, STEP)
        spins = rests_from(run.angular[:, i, 2], 0.02, STEP)
        assert slides == pytest.approx(spins, rel=0.08), (face, speed, spin)
        assert slides == pytest.approx(rests_from(np.hypot(*even[:, 3:5].T), 0.01, 1e-3), rel=0.08), (face, speed, spin)
        assert spins == pytest.approx(rests_from(even[:, 5], 0.02, 1e-3), rel=0.08), (face, speed, spin)
        way = run.positions[-1, i, 0] - run.positions[0, i, 0] - floor_speed * run.times[-1]
        assert way == pytest.approx(even[-1, 0], rel=0.25), (face, speed, spin)


@pytest.mark.full
def test_sliding_and_spinning_stop_at_the_same_time() -> None:
    """Friction and twist share one limit: a fast spin leaves little against sliding, and the other way round."""
    cases = [(face, *start) for face in ("disc", "square") for start in ((1.0, 8.0), (2.0, 4.0), (0.3, 8.0))]
    below = replace(floor(), material=rough(FRICTION))
    run = simulate(Scene("coupled", (*(lying(*case, i) for i, case in enumerate(cases)), below)), 100)
    slid_and_spun(run, cases, 0.0)


@pytest.mark.full
def test_spinning_on_a_body_that_moves_on() -> None:
    """The corners are those of the face in which the two touch: of the plates, not of the box below."""
    speed, cases = 1.0, [("disc", 0.0, 8.0), ("square", 0.0, 8.0)]
    moving = {"linear": (speed, 0, 0), "kind": "kinematic"}
    below = Body("below", box(5, 9, 0.5), (0, 2, -0.5), material=rough(FRICTION), **moving)
    run = simulate(Scene("moving", (*(lying(*case, i) for i, case in enumerate(cases)), below)), 100)
    slid_and_spun(run, cases, speed)


@pytest.mark.full
def test_boxes_slide_straight() -> None:
    bodies = [
        Body(f"box{i}", shape, (0, 3.0 * i, 0.2), turned(angle, (0, 0, 1)), linear=(3, 0, 0), material=rough(0.4))
        for i, (shape, angle) in enumerate((s, a) for s in (box(0.5, 0.5, 0.2), box(0.5, 0.1, 0.2)) for a in (0.0, 0.4))
    ]
    run = simulate(Scene("straight", (*bodies, replace(floor(), material=rough(0.4)))), 60)
    slowing = (run.linear[5, :4, 0] - run.linear[35, :4, 0]) / (run.times[35] - run.times[5])
    np.testing.assert_allclose(slowing, 0.4 * G, rtol=0.01)
    np.testing.assert_allclose(run.positions[-1, :4, 1], [0, 3, 6, 9], atol=1e-3)
    assert np.abs(run.angular[:, :4]).max() < 0.02


@pytest.mark.full
@pytest.mark.parametrize("factor", [0.98, 1.02])
@pytest.mark.parametrize("angle", [0.2, 0.35, 0.5])
def test_a_box_holds_up_to_the_edge_of_the_cone(angle: float, factor: float) -> None:
    friction = tan(angle)
    steep = atan(factor * friction)
    rotation = turned(-steep, (0, 1, 0))
    normal = matrices(np.array(rotation))[:, 2]
    start = tuple((0.1 * normal).tolist())
    bodies = (
        Body("box", box(0.5, 0.5, 0.1), start, rotation, material=rough(friction)),
        Body("slope", PLANE, rotation=rotation, kind="static", material=rough(friction)),
    )
    run = simulate(Scene("slope", bodies), 240)
    moved = np.linalg.norm(run.positions[-1, 0] - start)
    if factor < 1:
        assert moved < 1e-3
    else:
        assert moved == pytest.approx(G * (sin(steep) - friction * cos(steep)) * 4.0**2 / 2, rel=0.02)


@pytest.mark.parametrize("speed", [0.5, 5.0])
@pytest.mark.parametrize("step", [1 / 30, 1 / 60])
def test_a_box_without_friction_keeps_its_speed_over_level_tiles(speed: float, step: float) -> None:
    tiles = [
        Body(f"tile_{i}", box(0.25, 1, 0.25), (0.5 * i, 0, -0.25), kind="static", material=rough(0.0)) for i in range(8)
    ]
    slides = Body("slides", box(0.2, 0.2, 0.2), (0.1, 0, 0.2), linear=(speed, 0, 0), material=rough(0.0))
    run = simulate(Scene("tiles", (*tiles, slides), dt=step), round(min(3.0, 3.0 / speed) / step))
    assert np.abs(run.linear[:, -1, 0] / speed - 1).max() < 1e-3
    assert np.ptp(run.positions[:, -1, 2]) < 1e-3
