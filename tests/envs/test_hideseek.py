"""Hide and seek: each rule in a scene that is set up by hand."""

from __future__ import annotations

from math import cos, pi, radians, sin

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete
from hideseek_scene import (
    BACK,
    FORWARD,
    GRAB,
    HIDER,
    LOCK,
    NOTHING,
    OTHER_HIDER,
    OTHER_SEEKER,
    PARKED,
    ROOM,
    SEEKER,
    Scene,
)

FREE, FIXED = 2, 0  # kinds of motion
BY_NOBODY, BY_HIDERS, BY_SEEKERS = 0, 1, 2
LEFT, RIGHT = (5, 5, 10, 0, 0), (5, 5, 0, 0, 0)
# An agent in the middle with a cube ahead, half a metre away.
MIDDLE, AHEAD = (0.0, 0.0, 0.0), (0.0, 2.5, 0.0, False)


def both(*acts: tuple[int, ...]) -> tuple[int, ...]:
    """Grab and lock together, and such."""
    return tuple(max(choices) if i > 2 else choices[0] for i, choices in enumerate(zip(*acts, strict=True)))


# ---- locks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "side"), [(HIDER, BY_HIDERS), (SEEKER, BY_SEEKERS)])
def test_either_team_locks_and_unlocks(agent: int, side: int) -> None:
    scene = Scene({agent: MIDDLE}, boxes=[AHEAD])
    assert scene.thing() == (BY_NOBODY, 0, FREE)
    scene.step({agent: LOCK})
    assert scene.thing() == (side, 0, FIXED)
    at = scene.place("Box")
    scene.step({agent: FORWARD}, 20)
    assert (scene.place("Box") == at).all()  # nobody moves it
    assert scene.place("Agent", agent)[1] < 0.6
    scene.step({agent: LOCK})
    assert scene.thing() == (BY_NOBODY, 0, FREE)
    scene.step({agent: FORWARD}, 20)
    assert scene.place("Box")[1] > at[1] + 0.5


@pytest.mark.parametrize(("first", "second"), [(HIDER, SEEKER), (SEEKER, HIDER)])
def test_the_other_team_cannot_unlock_but_another_of_the_same_team_can(first: int, second: int) -> None:
    mate = first + 1
    scene = Scene({first: MIDDLE, second: (0.0, 5.0, pi), mate: (-2.5, 2.5, -pi / 2)}, boxes=[AHEAD])
    scene.step({first: LOCK})
    locked = scene.thing()
    assert locked[0] != BY_NOBODY
    scene.step({second: LOCK})
    assert scene.thing() == locked
    scene.step({mate: LOCK})
    assert scene.thing()[0] == BY_NOBODY


def test_ramps_are_locked_too_but_not_from_their_low_side() -> None:
    scene = Scene({HIDER: (0.0, 3.0, pi), OTHER_HIDER: (0.0, -3.0, 0.0)}, ramps=[(0.0, 0.0, 0.0)])
    scene.step({OTHER_HIDER: LOCK})  # the ray passes above it: it is half a metre below where a hand reaches
    assert scene.thing("Ramp")[0] == BY_NOBODY
    scene.step({HIDER: LOCK})
    assert scene.thing("Ramp") == (BY_HIDERS, 0, FIXED)
    assert scene.figure("ramps_locked") == 1


def test_a_lock_on_nothing_a_wall_or_an_agent_does_nothing() -> None:
    agents = {HIDER: MIDDLE, OTHER_HIDER: (6.0, 0.0, 0.0), SEEKER: (6.0, 2.5, 0.0), OTHER_SEEKER: (12.0, 0.0, 0.0)}
    scene = Scene(agents, walls=[(12.0, 2.0, 1.0, 0.2)], boxes=[(12.0, 4.0, 0.0, False), (-6.0, 0.0, 0.0, False)])
    scene.step({i: both(LOCK, GRAB) for i in agents})
    assert [scene.thing("Box", row) for row in (0, 1)] == [(BY_NOBODY, 0, FREE)] * 2  # the first is behind the wall
    assert not any(scene.holding())


@pytest.mark.parametrize(("distance", "reached"), [(2.499, True), (2.501, False)])
def test_hands_reach_two_and_a_half_metres_from_the_centre(distance: float, reached: bool) -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[(0.0, distance + 1.0, 0.0, False)])
    scene.step({HIDER: LOCK})
    assert (scene.thing()[0] == BY_HIDERS) == reached


def test_hands_reach_along_forward_whichever_way_an_agent_looks() -> None:
    for yaw in np.linspace(-3, 3, 7):
        scene = Scene({HIDER: (0.0, 0.0, yaw)}, boxes=[(-2.6 * sin(yaw), 2.6 * cos(yaw), 0.3, False)])
        assert scene.step({HIDER: LOCK}).thing()[0] == BY_HIDERS


# ---- grips -----------------------------------------------------------------------------------------------------------


def test_what_is_grabbed_moves_with_the_agent_until_it_lets_go() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.step({HIDER: GRAB})
    assert scene.thing() == (BY_NOBODY, HIDER + 1, FREE)
    assert scene.holding() == [True, False, False, False, False]
    scene.step({HIDER: BACK}, 30)
    between = scene.place("Box") - scene.place("Agent")
    assert scene.place("Agent")[1] < -1.5
    assert between == pytest.approx([0.0, 2.5, 0.0], abs=0.05)
    scene.step({HIDER: LEFT}, 12).step(times=5)
    turn = scene.views["self"][HIDER, 6:8].tolist()
    assert abs(turn[0]) > 0.05
    between = scene.place("Box") - scene.place("Agent")
    assert between == pytest.approx([-2.5 * turn[0], 2.5 * turn[1], 0.0], abs=0.08)
    scene.step({HIDER: GRAB})
    assert (scene.thing(), any(scene.holding())) == ((BY_NOBODY, 0, FREE), False)
    left = scene.place("Box")
    scene.step({HIDER: BACK}, 20)
    assert np.linalg.norm(scene.place("Box") - left) < 0.3
    assert np.linalg.norm(scene.place("Box") - scene.place("Agent")) > 3


def test_what_is_locked_cannot_be_grabbed() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.step({HIDER: LOCK}).step({HIDER: GRAB})
    assert (scene.thing(), any(scene.holding())) == ((BY_HIDERS, 0, FIXED), False)


def test_what_another_holds_cannot_be_grabbed_and_of_two_at_once_the_first_has_it() -> None:
    scene = Scene({SEEKER: MIDDLE, HIDER: (0.0, 5.0, pi)}, boxes=[AHEAD])
    scene.step({SEEKER: GRAB}).step({HIDER: GRAB})
    assert scene.holding() == [False, False, False, True, False]
    assert scene.thing()[1] == SEEKER + 1
    scene.step({SEEKER: GRAB})
    assert scene.thing()[1] == 0
    scene.step({SEEKER: GRAB, HIDER: GRAB})
    assert scene.thing()[1] == HIDER + 1


@pytest.mark.parametrize("who", [HIDER, SEEKER], ids=["the holder", "another"])
def test_locking_makes_the_holder_let_go(who: int) -> None:
    scene = Scene({HIDER: MIDDLE, SEEKER: (0.0, 5.0, pi)}, boxes=[AHEAD])
    scene.step({HIDER: GRAB}).step({who: LOCK})
    assert scene.thing()[1:] == (0, FIXED)
    assert not any(scene.holding())
    at = scene.place("Box")
    scene.step({HIDER: BACK}, 20)
    assert (scene.place("Box") == at).all()
    assert scene.place("Agent")[1] < -1.5


def test_the_key_comes_before_the_grip() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.step({HIDER: both(LOCK, GRAB)})
    assert (scene.thing(), any(scene.holding())) == ((BY_HIDERS, 0, FIXED), False)
    scene.step({HIDER: both(LOCK, GRAB)})
    assert scene.thing() == (BY_NOBODY, HIDER + 1, FREE)
    scene.step({HIDER: both(LOCK, GRAB)})
    assert (scene.thing(), any(scene.holding())) == ((BY_HIDERS, 0, FIXED), False)


def test_what_is_locked_in_flight_stands_and_does_not_go_on_when_it_is_unlocked() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.rows("Box.physics.Velocity.linear")[0] = torch.tensor([4.0, 0.0, 0.0])
    scene.step({HIDER: LOCK})
    at = scene.place("Box")
    assert scene.views["boxes"][HIDER, 0, 3:6].tolist() == [0, 0, 0]
    scene.step({HIDER: LOCK}).step(times=10)
    assert scene.place("Box") == pytest.approx(at, abs=0.02)


# ---- preparation -----------------------------------------------------------------------------------------------------


def test_seekers_do_nothing_while_hiders_prepare() -> None:
    agents = {HIDER: MIDDLE, SEEKER: (6.0, 0.0, 0.0), OTHER_SEEKER: (12.0, 0.0, 0.0)}
    scene = Scene(agents, boxes=[AHEAD, (6.0, 2.5, 0.0, False), (12.0, 2.5, 0.0, False)], preparation=4)
    places = [scene.place("Agent", i) for i in (SEEKER, OTHER_SEEKER)]
    told = []
    for _ in range(4):
        told.append(scene.figure("preparing"))
        scene.step({HIDER: LOCK, SEEKER: both(FORWARD, LOCK), OTHER_SEEKER: both(LEFT, GRAB)})
        assert scene.rewards == [0] * 5
        assert [scene.thing("Box", row) for row in (1, 2)] == [(BY_NOBODY, 0, FREE)] * 2
        assert [scene.place("Agent", i) for i in (SEEKER, OTHER_SEEKER)] == [pytest.approx(p, abs=1e-3) for p in places]
    assert (told, scene.figure("preparing")) == ([True] * 4, False)
    assert scene.thing("Box", 0)[0] == BY_NOBODY  # locked and unlocked twice
    scene.step({SEEKER: LOCK, OTHER_SEEKER: GRAB})
    assert scene.rewards != [0] * 5
    assert scene.thing("Box", 1)[0] == BY_SEEKERS
    assert scene.thing("Box", 2)[1] == OTHER_SEEKER + 1


def test_time_that_is_left_is_told() -> None:
    scene = Scene(preparation=4, max_episode_steps=8)
    for step in range(9):
        assert scene.views["self"][0, 10:].tolist() == pytest.approx([1 - step / 8, max(1 - step / 4, 0)])
        assert scene.truncated == (step == 8)
        if step < 8:
            scene.step()


def test_an_episode_is_truncated_at_step_240_and_lasts_96_steps_of_preparation() -> None:
    scene = Scene(preparation=96)
    scene.step(times=96)
    assert scene.rewards == [0] * 5
    scene.step()
    assert scene.rewards != [0] * 5
    scene.step(times=142)
    assert not scene.truncated
    scene.step()
    assert scene.truncated


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


def test_ramps_hide_behind_their_high_end_and_boxes_behind_boxes() -> None:
    scene = Scene({SEEKER: MIDDLE}, boxes=[(0.0, 5.0, 0.0, True), (0.0, 10.0, 0.0, False)], ramps=[(3.0, 9.0, 0.5)])
    assert scene.sees(SEEKER, "boxes", 0)
    assert not scene.sees(SEEKER, "boxes", 1)
    assert not scene.sees(SEEKER, "ramps", 0)
    scene.put("Box", 0, -9.0, 5.0, 1.0)
    scene.step()
    assert [scene.sees(SEEKER, "boxes", row) for row in (0, 1)] == [True, True]
    assert scene.sees(SEEKER, "ramps", 0)


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


def test_rows_of_what_is_not_in_sight_are_zero_unless_all_are_asked_for() -> None:
    boxes = [(0.0, 5.0, 0.5, True), (0.0, -5.0, 0.0, False)]
    for see_all in (False, True):
        scene = Scene({HIDER: MIDDLE, SEEKER: (3.0, -6.0, 1.0)}, boxes=boxes, ramps=[(4.0, -9.0, 0.5)], see_all=see_all)
        scene.step({HIDER: LEFT})
        assert scene.views["sees_boxes"][HIDER].tolist() == [1] + [0] * 8
        assert scene.views["box_exists"][HIDER].tolist() == [1, 1] + [0] * 7
        assert scene.views["ramp_exists"][HIDER].tolist() == [1, 0]
        for name, row in (("boxes", 1), ("ramps", 0), ("agents", SEEKER - 1)):
            assert not scene.views[f"sees_{name}"][HIDER, row]
            assert bool((scene.views[name][HIDER, row] == 0).all()) != see_all
            assert (scene.infos[f"all_{name}"][HIDER, row] != 0).any()
        assert (scene.views["boxes"][:, 2:] == 0).all() and (scene.views["ramps"][:, 1:] == 0).all()
        assert torch.equal(scene.views["boxes"][HIDER, 0], scene.infos["all_boxes"][HIDER, 0])


def test_rows_say_where_how_fast_how_turned_how_large_and_whose() -> None:
    agents = {HIDER: (2.0, 1.0, pi / 2), SEEKER: (-4.0, 1.0, 0.0)}  # the hider looks along -x
    scene = Scene(agents, boxes=[(0.0, 5.0, 0.3, True)], ramps=[(-2.0, -1.0, pi / 2)], max_episode_steps=10)
    scene.rows("Box.Thing.locked")[0], scene.rows("Box.physics.Motion.kind")[0] = BY_SEEKERS, FIXED
    scene.rows("Ramp.Thing.locked")[0], scene.rows("Ramp.physics.Motion.kind")[0] = BY_HIDERS, FIXED
    scene.step()
    close = pytest.approx
    box, ramp, seeker = (scene.views[name][HIDER, row] for name, row in (("boxes", 0), ("ramps", 0), ("agents", 2)))
    assert box.tolist() == close([4, 2, 0, 0, 0, 0, sin(0.3 - pi / 2), cos(0.3 - pi / 2), 8, 1.5, 2, 1, 0, 0], abs=2e-3)
    assert ramp.tolist() == close([-2, 4.5, 2 / 3 - 1, 0, 0, 0, 0, 1, 1, 1, 0], abs=2e-3)  # its centre of mass
    assert seeker.tolist() == close([0, 6, 0, 0, 0, 0, -1, 0, 1, 0], abs=2e-2)
    own = scene.views["self"][HIDER]
    assert own.tolist() == close([2 / 18, 1 / 18, 1 / 18, 0, 0, 0, 1, 0, 0, 0, 0.9, 0], abs=2e-2)
    scene.step({SEEKER: (10, 5, 5, 0, 0)})  # to its right, which is the hider's back
    assert scene.views["agents"][HIDER, 2, 3:6].tolist() == close([0, -2.2, 0], abs=0.3)
    assert scene.views["self"][SEEKER, 3:6].tolist() == close([2.2, 0, 0], abs=0.3)


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


def test_lidar_of_a_box_an_agent_and_an_empty_plain() -> None:
    scene = Scene({HIDER: MIDDLE, SEEKER: (0.0, -9.0, 0.0)}, boxes=[(-6.0, 0.0, 0.0, False)])
    for agent in (1, 2, 4):
        scene.put("Agent", agent, 100.0 + 10 * agent, 100.0, 1.0)
    scene.step({OTHER_HIDER: NOTHING})
    lidar = scene.views["lidar"][HIDER].numpy() * 18
    assert lidar[0] == 18  # ahead, nothing
    assert lidar[15] == pytest.approx(8, abs=1e-3)
    assert lidar[14] == pytest.approx(18, abs=1e-3)  # passes the seeker: 9 tan 12 = 1.9
    side = [lidar[i] for i in (7, 8)]  # at 84 and 96 degrees, to the left
    assert side == pytest.approx([5 / cos(radians(6))] * 2, abs=1e-3)


# ---- bodies ----------------------------------------------------------------------------------------------------------


def test_a_box_is_pushed() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.step({HIDER: FORWARD}, 40)
    assert scene.place("Box")[1] > 5
    assert scene.place("Box")[2] == pytest.approx(1, abs=0.05)
    assert scene.figure("boxes_moved") == 1
    assert scene.place("Agent")[1] < scene.place("Box")[1] - 1.9


def test_agents_do_not_glide_and_do_not_fall_over() -> None:
    scene = Scene({HIDER: MIDDLE})
    scene.step({HIDER: (10, 10, 10, 0, 0)}, 5)
    speed = np.linalg.norm(scene.rows("Agent.physics.Velocity.linear")[HIDER].numpy())
    assert speed > 1
    scene.step()
    after = np.linalg.norm(scene.rows("Agent.physics.Velocity.linear")[HIDER].numpy())
    assert after == pytest.approx(speed * np.exp(-2), rel=0.1)
    rotation = scene.rows("Agent.physics.Pose.rotation")[HIDER]
    assert rotation[1:3].tolist() == [0, 0] and abs(rotation[3]) > 0.01


def test_a_force_is_along_the_agents_own_axes() -> None:
    yaw = 0.8
    ways = {(10, 5): (cos(yaw), sin(yaw)), (5, 10): (-sin(yaw), cos(yaw)), (0, 5): (-cos(yaw), -sin(yaw))}
    for (x, y), way in ways.items():
        scene = Scene({HIDER: (0.0, 0.0, yaw)})
        scene.step({HIDER: (x, y, 5, 0, 0)})
        moved = scene.place("Agent")[:2]
        assert moved / np.linalg.norm(moved) == pytest.approx(way, abs=1e-3)
    turned = [Scene({HIDER: MIDDLE}).step({HIDER: act}).views["self"][HIDER, 6].item() for act in (LEFT, RIGHT)]
    assert turned[0] > 0.05 and turned[1] == pytest.approx(-turned[0], abs=1e-4)


@pytest.mark.parametrize("onto", ["wall", "box"])
def test_a_ramp_leads_up(onto: str) -> None:
    """A locked ramp before what is to be climbed: the seeker walks up and stands on it."""
    there = {"walls": [(0.0, 6.0, 2.0, 0.2)]} if onto == "wall" else {"boxes": [(0.0, 6.8, 0.0, False)]}
    scene = Scene({SEEKER: (0.0, 0.0, 0.0)}, ramps=[(0.0, 4.25, 0.0)], **there)
    for table in ("Ramp", "Box") if onto == "box" else ("Ramp",):
        scene.rows(f"{table}.Thing.locked")[0], scene.rows(f"{table}.physics.Motion.kind")[0] = BY_SEEKERS, FIXED
    highest = 0.0
    for _ in range(60):
        scene.step({SEEKER: FORWARD})
        highest = max(highest, scene.place("Agent", SEEKER)[2])
    assert highest > (3.4 if onto == "wall" else 2.9)
    assert scene.place("Agent", SEEKER)[1] > 7  # over it
    assert scene.figure("ramps_used") > 3
    # Without the ramp it is stopped.
    scene = Scene({SEEKER: (0.0, 0.0, 0.0)}, **there)
    for table in ("Box",) if onto == "box" else ():
        scene.rows(f"{table}.Thing.locked")[0], scene.rows(f"{table}.physics.Motion.kind")[0] = BY_SEEKERS, FIXED
    scene.step({SEEKER: FORWARD}, 60)
    assert scene.place("Agent", SEEKER)[1] < 5
    assert scene.figure("ramps_used") == 0


def test_heaps_have_room_for_all_their_contacts() -> None:
    """All things and agents in a corner, side by side; else it would be a WorldFault."""
    cells = [(-16.99 + 2.01 * i, -16.99 + 2.01 * j) for i in range(4) for j in range(4)]
    cubes = [(x, y, 0.0, False) for x, y in cells[:9]]
    ramps = [(-10.96, -12.37, 0.0), (-10.96, -9.27, 0.0)]
    scene = Scene({i: (*cells[9 + i], 0.0) for i in range(5)}, boxes=cubes, ramps=ramps, walls=ROOM)
    scene.step(dict.fromkeys(range(5), (0, 0, 5, 0, 0)), 40)
    planks = [(-13.9, -17.2 + 1.52 * i, 0.0, True) for i in range(9)]
    ramps = [(-8.8, -16.4, 0.0), (-8.8, -13.3, 0.0)]
    scene = Scene({i: (-8.7, -10.5 + 2.03 * i, 0.0) for i in range(5)}, boxes=planks, ramps=ramps, walls=ROOM)
    scene.step(dict.fromkeys(range(5), (0, 0, 5, 0, 0)), 100)
    assert all(scene.place("Agent", i)[2] < 1.2 for i in range(5))


# ---- rewards ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [False, True])
def test_hiders_and_seekers_have_opposite_rewards(seen: bool) -> None:
    scene = Scene({SEEKER: MIDDLE, OTHER_HIDER: (0.0, 5.0 if seen else -5.0, 0.0)})
    scene.step()
    assert scene.sees(SEEKER, "agents", OTHER_HIDER) == seen
    sign = -1 if seen else 1
    assert scene.rewards == [sign] * 3 + [-sign] * 2
    assert scene.figure("hiders_seen") == float(seen)


def test_that_hiders_see_each_other_or_a_seeker_costs_nothing() -> None:
    scene = Scene({HIDER: MIDDLE, OTHER_HIDER: (0.0, 5.0, pi), SEEKER: (1.0, 9.0, 0.0)})
    scene.step()
    assert scene.sees(HIDER, "agents", OTHER_HIDER) and scene.sees(OTHER_HIDER, "agents", HIDER)
    assert scene.rewards == [1, 1, 1, -1, -1]


@pytest.mark.parametrize(("x", "y", "outside"), [(17.9, 0.0, 0), (18.1, 0.0, 1), (0.0, -18.1, 1), (-25.0, 30.0, 1)])
def test_outside_of_the_square_costs_ten_and_removes_nobody(x: float, y: float, outside: int) -> None:
    scene = Scene({SEEKER: MIDDLE}, preparation=1)
    for agent in (HIDER, SEEKER):
        scene.put("Agent", agent, x + agent, y, 1.0) if agent == HIDER else None
    scene.step()
    assert scene.rewards == [0] * 5  # of the preparation
    seen = scene.step().sees(SEEKER, "agents", HIDER)
    sign = -1 if seen else 1
    assert scene.rewards == [sign - 10 * outside, sign, sign, -sign, -sign]
    assert scene.place("Agent", HIDER)[0] == pytest.approx(x, abs=0.1)
    scene.put("Agent", SEEKER, -20.0, 0.0, 1.0)
    scene.step()
    assert scene.rewards[SEEKER] in (-9, -11)


def test_forts_are_hiders_whom_no_seeker_can_reach() -> None:
    """A corner behind two elongated boxes; what is not locked, or leaves a gap, is none."""
    boxes = [(-13.0, 9.0, 0.0, True), (-9.0, 13.9, pi / 2, True)]
    for locked, gap, share in ((True, 0.0, 1 / 3), (False, 0.0, 0.0), (True, 4.0, 0.0)):
        agents = {HIDER: (-14.0, 14.0, 0.0), SEEKER: MIDDLE}
        scene = Scene(agents, boxes=[boxes[0], (boxes[1][0] + gap, *boxes[1][1:])], walls=ROOM, max_episode_steps=2)
        for row in range(2):
            if locked:
                scene.rows("Box.Thing.locked")[row], scene.rows("Box.physics.Motion.kind")[row] = BY_HIDERS, FIXED
        scene.step()
        assert scene.figure("forts") == 0
        scene.step()
        assert scene.truncated
        assert scene.figure("forts") == pytest.approx(share)
        assert scene.figure("boxes_locked") == 2 * locked


def test_figures_of_an_episode() -> None:
    scene = Scene({SEEKER: MIDDLE, HIDER: (0.0, 5.0, 0.0)}, boxes=[(9.0, 9.0, 0.0, False)], preparation=2)
    shares = []
    for step in range(6):
        if step == 4:
            scene.put("Agent", HIDER, 0.0, -5.0, 1.0)
        shares.append(scene.step().figure("hiders_seen"))
    assert shares == pytest.approx([0, 0, 1, 1, 2 / 3, 2 / 4])
    for x, moved in ((9.9, 0), (10.1, 1), (9.0, 0)):
        scene.put("Box", 0, x, 9.0, 1.0)
        assert scene.step().figure("boxes_moved") == moved


# ---- registration ----------------------------------------------------------------------------------------------------


def test_it_is_registered_and_rows_are_agents() -> None:
    assert gymnasium.spec("torch_batchsim/HideSeek-v0").max_episode_steps == 240
    env = gymnasium.make_vec("torch_batchsim/HideSeek-v0", num_envs=10, critic=True, max_episode_steps=2)
    observations, infos = env.reset(seed=0)
    assert env.single_action_space == MultiDiscrete([11, 11, 11, 2, 2])
    assert isinstance(env.single_observation_space, Dict)
    assert all(isinstance(space, Box) for space in env.single_observation_space.values())
    shapes = {name: tuple(values.shape[1:]) for name, values in observations.items()}
    assert shapes == {
        "self": (12,), "agents": (4, 10), "boxes": (9, 14), "ramps": (2, 11), "sees_agents": (4,), "sees_boxes": (9,),
        "sees_ramps": (2,), "box_exists": (9,), "ramp_exists": (2,), "lidar": (30,),
    }  # fmt: skip
    assert infos["team"].tolist() == [0, 0, 0, 1, 1] * 2
    assert observations["self"][:, 8].tolist() == [0, 0, 0, 1, 1] * 2
    actions = torch.full((10, 5), 5)
    actions[:, 3:] = 0
    assert not env.step(actions)[3].any()
    assert env.step(actions)[3].all()
    arrays = {name: values.numpy() for name, values in env.step(actions)[0].items()}
    assert env.observation_space.contains(arrays)
    assert len(PARKED) == env.unwrapped.num_agents
