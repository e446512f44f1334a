"""Hide and seek: locks, grips and the preparation, in scenes that are set up by hand."""

from __future__ import annotations

from math import pi

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


# ---- grips -----------------------------------------------------------------------------------------------------------


def test_what_is_grabbed_moves_with_the_agent_until_it_lets_go() -> None:
    scene = Scene({HIDER: MIDDLE}, boxes=[AHEAD])
    scene.step({HIDER: GRAB})
    assert scene.thing() == (BY_NOBODY, HIDER + 1, FREE)
    assert scene.holding() == [True, False, False, False, False]
    scene.step({HIDER: BACK}, 30)
    between = scene.place("Box") - scene.place("Agent")
    assert scene.place("Agent")[1] < -1.5
    turn = scene.views["self"][HIDER, 6:8].tolist()  # at this speed the pair sways
    assert between == pytest.approx([-2.5 * turn[0], 2.5 * turn[1], 0.0], abs=0.005)
    assert abs(turn[0]) < 0.1
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
