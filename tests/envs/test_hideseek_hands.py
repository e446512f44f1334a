"""Hide and seek: locks, grips and the preparation, in scenes that are set up by hand."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
import torch
from hideseek_scene import (
    AHEAD,
    BACK,
    BY_HIDERS,
    BY_NOBODY,
    BY_SEEKERS,
    FIXED,
    FORWARD,
    FREE,
    GRAB,
    HIDER,
    LEFT,
    LOCK,
    MIDDLE,
    OTHER_HIDER,
    OTHER_SEEKER,
    SEEKER,
    Scene,
)


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
    scene.step({HIDER: LOCK}).step({HIDER: GRAB})
    assert scene.thing("Ramp") == (BY_NOBODY, HIDER + 1, FREE)


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
    seen = []
    for _ in range(4):
        seen.append(scene.figure("preparing"))
        scene.step({HIDER: LOCK, SEEKER: both(FORWARD, LOCK), OTHER_SEEKER: both(LEFT, GRAB)})
        assert scene.rewards == [0] * 5
        assert [scene.thing("Box", row) for row in (1, 2)] == [(BY_NOBODY, 0, FREE)] * 2
        assert [scene.place("Agent", i) for i in (SEEKER, OTHER_SEEKER)] == [pytest.approx(p, abs=1e-3) for p in places]
    assert (seen, scene.figure("preparing")) == ([True] * 4, False)
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
