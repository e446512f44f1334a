"""Hide and seek: sight, observations and lidar, in scenes that are set up by hand."""

from __future__ import annotations

from math import cos, pi, radians, sin

import numpy as np
import pytest
from hideseek_scene import (
    AHEAD,
    BY_HIDERS,
    BY_SEEKERS,
    FORWARD,
    HIDER,
    MIDDLE,
    OTHER_SEEKER,
    ROOM,
    SEEKER,
    Scene,
)

# ---- sight -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nothing", "box", "ramp", "wall", "agent"])
def test_a_hider_is_seen_unless_something_stands_before_it(kind: str) -> None:
    there = {
        "box": {"boxes": [(0.0, 5.0, 0.4, False)]}, "ramp": {"ramps": [(0.0, 5.0, 0.0)]},
        "wall": {"walls": [(0.0, 5.0, 1.0, 0.2)]},
    }.get(kind, {})  # fmt: skip
    between = {OTHER_SEEKER: (0.0, 5.0, 0.0)} if kind == "agent" else {}
    scene = Scene({HIDER: (0.0, 10.0, 0.0), SEEKER: MIDDLE, **between}, **there)
    scene.step()
    assert scene.sees(SEEKER, "agents", HIDER) == (kind in ("nothing", "agent")) - (kind == "agent")
    if kind in ("box", "ramp"):
        assert scene.sees(SEEKER, {"box": "boxes", "ramp": "ramps"}[kind])
        assert not scene.sees(HIDER, {"box": "boxes", "ramp": "ramps"}[kind])  # it is behind


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("angle", "seen"), [(0.0, True), (67.4, True), (67.6, False), (180.0, False)])
def test_the_cone_is_67_and_a_half_degrees_to_each_side(angle: float, seen: bool, side: int) -> None:
    yaw = 0.7
    at = yaw + side * radians(angle)
    place = (-6 * sin(at), 6 * cos(at))
    scene = Scene({SEEKER: (0.0, 0.0, yaw), HIDER: (*place, 0.0)})
    assert scene.sees(SEEKER, "agents", HIDER) == seen
    scene = Scene({SEEKER: (0.0, 0.0, yaw)}, boxes=[(*place, 0.2, False)])
    assert scene.sees(SEEKER, "boxes") == seen


def test_rows_say_where_how_fast_how_turned_how_large_and_whose() -> None:
    agents = {HIDER: (2.0, 1.0, pi / 2), SEEKER: (-4.0, 1.0, 0.0)}  # the hider looks along -x
    scene = Scene(agents, boxes=[(0.0, 5.0, 0.3, True)], ramps=[(-2.0, -1.0, pi / 2)], max_episode_steps=10)
    scene.lock("Box", 0, BY_SEEKERS)
    scene.lock("Ramp", 0, BY_HIDERS)
    scene.step()
    close = pytest.approx
    box, ramp, seeker = (scene.views[name][HIDER, row] for name, row in (("boxes", 0), ("ramps", 0), ("agents", 2)))
    assert box.tolist() == close([4, 2, 0, 0, 0, 0, sin(0.3 - pi / 2), cos(0.3 - pi / 2), 8, 1.5, 2, 1, 0, 0], abs=2e-3)
    assert ramp.tolist() == close([-2, 4.5, 2 / 3 - 1, 0, 0, 0, 0, 1, 1, 1, 0], abs=2e-3)  # its centre of mass
    assert seeker.tolist() == close([0, 6, 0, 0, 0, 0, -1, 0, 1, 0], abs=2e-2)
    own = scene.views["self"][HIDER]
    assert own.tolist() == close([2 / 18, 1 / 18, 1 / 18, 0, 0, 0, 1, 0, 0, 0, 0.9, 0], abs=2e-2)
    scene.step({SEEKER: (10, 5, 5, 0, 0)})  # to its right, which is the hider's back
    assert scene.views["agents"][HIDER, 2, 3:6].tolist() == close([0, -10, 0], abs=0.3)
    assert scene.views["self"][SEEKER, 3:6].tolist() == close([10, 0, 0], abs=0.3)


def test_velocity_is_how_far_a_body_comes_in_a_step() -> None:
    """Also where the solver has another one: an agent with a box before it goes as that, one before a wall has none."""
    scene = Scene({HIDER: MIDDLE, SEEKER: (9.0, 0.0, 0.0)}, boxes=[AHEAD], walls=[(9.0, 1.5, 3.0, 0.2)])
    assert (scene.views["self"][:, 3:6] == 0).all()
    for _ in range(20):
        before = scene.place("Agent"), scene.place("Box")
        scene.step({HIDER: FORWARD, SEEKER: FORWARD})
        for there, (name, table) in zip(before, (("self", "Agent"), ("boxes", "Box")), strict=True):
            speed = np.linalg.norm(scene.views[name][HIDER].reshape(-1)[3:6])  # of the first box, in the agent's frame
            assert speed == pytest.approx(30 * np.linalg.norm(scene.place(table) - there), abs=1e-3)
    assert scene.views["self"][HIDER, 4] > 5
    assert scene.views["self"][SEEKER, 3:6].tolist() == pytest.approx([0, 0, 0], abs=0.1)
    scene = Scene({HIDER: MIDDLE})
    assert (scene.views["self"][:, 3:6] == 0).all()  # of a new episode


# ---- lidar -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "yaw"), [(0.0, 0.0, 0.0), (5.0, -3.0, 0.0), (-12.0, 9.0, 1.1), (16.9, 16.9, -pi / 2)]
)
def test_lidar_in_a_square_room(x: float, y: float, yaw: float) -> None:
    scene = Scene({HIDER: (x, y, yaw)}, walls=ROOM)
    for agent in range(5):
        away = np.roll(np.arange(5), 1)[agent]
        if agent != HIDER:
            scene.put("Agent", agent, 100.0 + 10 * away, 100.0, 1.0)
    scene.step()
    x, y = scene.place("Agent")[:2]
    for i, share in enumerate(scene.views["lidar"][HIDER].tolist()):
        angle = yaw + 2 * pi * i / 30
        along = (-sin(angle), cos(angle))
        walls = [(18 * np.sign(d) - p) / d for p, d in zip((x, y), along, strict=True) if abs(d) > 1e-9]
        assert share == pytest.approx(min(min(walls) / 18, 1), abs=2e-5), i
