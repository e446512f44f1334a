"""Hide and seek: bodies, rewards and figures, in scenes that are set up by hand."""

from __future__ import annotations

from math import cos, pi, sin

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete
from gymnasium.vector import AutoresetMode
from hideseek_scene import (
    AHEAD,
    BACK,
    BY_HIDERS,
    BY_NOBODY,
    BY_SEEKERS,
    FORWARD,
    HIDER,
    LEFT,
    MIDDLE,
    OTHER_HIDER,
    OTHER_SEEKER,
    PARKED,
    RIGHT,
    ROOM,
    SEEKER,
    Scene,
)
from torch_batchsim.envs.hideseek import HideSeek

from torch_batchsim import TorchVectorEnv

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
    turning = float(scene.rows("Agent.physics.Velocity.angular")[HIDER, 2])
    assert speed > 1 and turning > 0.1
    scene.step()
    after = np.linalg.norm(scene.rows("Agent.physics.Velocity.linear")[HIDER].numpy())
    assert after == pytest.approx(speed * np.exp(-2), rel=0.1)
    assert float(scene.rows("Agent.physics.Velocity.angular")[HIDER, 2]) == pytest.approx(turning * np.exp(-2), rel=0.1)
    rotation = scene.rows("Agent.physics.Pose.rotation")[HIDER]
    assert rotation[1:3].tolist() == [0, 0] and abs(rotation[3]) > 0.01


def test_agents_fall_as_anything_does() -> None:
    scene = Scene(boxes=[(6.0, 0.0, 0.0, False)])
    scene.put("Agent", HIDER, 0.0, 0.0, 10.0)
    scene.put("Box", 0, 6.0, 0.0, 10.0)
    scene.step(times=15)
    fallen = 10 - scene.place("Agent")[2]
    assert fallen == pytest.approx(9.8 * 0.5**2 / 2, rel=0.1)
    assert fallen == pytest.approx(10 - scene.place("Box")[2], rel=0.01)


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


DIAGONAL = (10, 10, 5, 0, 0)  # of an agent that is turned by an eighth: a force of 679 N
ON_A_WALL = 3.7  # metres: an agent that stands on a wall has its centre at 3.5


def climbed(scene: Scene, act: tuple[int, ...] = FORWARD) -> float:
    """The greatest height of a seeker that does the same for 60 steps."""
    heights = []
    for _ in range(60):
        heights.append(scene.step({SEEKER: act}).place("Agent", SEEKER)[2])
    return max(heights)


@pytest.mark.parametrize("onto", ["wall", "box"])
def test_a_ramp_leads_up(onto: str) -> None:
    """A locked ramp before what is to be climbed: the seeker walks up and stands on it."""
    there = {"walls": [(0.0, 6.0, 2.0, 0.2)]} if onto == "wall" else {"boxes": [(0.0, 6.8, 0.0, False)]}
    for start in (0.0, -0.13, -0.27):  # it comes to the top at other times in a step
        scene = Scene({SEEKER: (0.0, start, 0.0)}, ramps=[(0.0, 4.25, 0.0)], **there)
        for table in ("Ramp", "Box") if onto == "box" else ("Ramp",):
            scene.lock(table, 0, BY_SEEKERS)
        assert (3.4 if onto == "wall" else 2.9) < climbed(scene) < ON_A_WALL
        assert scene.place("Agent", SEEKER)[1] > 7  # over it
        assert scene.figure("ramps_used") > 3
    # Without the ramp it is stopped.
    scene = Scene({SEEKER: (0.0, 0.0, 0.0)}, **there)
    for table in ("Box",) if onto == "box" else ():
        scene.lock(table, 0, BY_SEEKERS)
    assert climbed(scene) < 1.1
    assert scene.place("Agent", SEEKER)[1] < 5
    assert scene.figure("ramps_used") == 0


@pytest.mark.parametrize("act", [FORWARD, DIAGONAL])
def test_a_ramp_throws_nobody_over_a_wall_that_is_far_behind_it(act: tuple[int, ...]) -> None:
    for start in (0.0, -0.13, -0.27):
        agents = {SEEKER: (0.0, start, pi / 4 if act == DIAGONAL else 0.0)}
        scene = Scene(agents, ramps=[(0.0, 4.25, 0.0)], walls=[(0.0, 12.0, 3.0, 0.2)])
        scene.lock("Ramp", 0, BY_SEEKERS)
        assert 2.8 < climbed(scene, act) < 3.3
        assert 10 < scene.place("Agent", SEEKER)[1] < 11  # before the wall


def test_only_what_a_wall_stops_climbs() -> None:
    """In the air, with feet half a metre below the top of walls."""
    wall = (0.0, 1.3, 3.0, 0.2)
    for act, there, climbs in ((FORWARD, True, True), (BACK, True, False), (FORWARD, False, False)):
        for height, near in ((3.1, True), (2.8, False)):
            scene = Scene({SEEKER: MIDDLE}, walls=[wall] if there else [])
            scene.put("Agent", SEEKER, 0.0, 0.09, height)
            assert (climbed(scene, act) > 3.4) == (climbs and near)


@pytest.mark.full
@pytest.mark.parametrize("worlds", [16, pytest.param(128, marks=pytest.mark.full)])
def test_nothing_flies(worlds: int) -> None:
    """Agents that do the same for 20 steps on average, so that they come up ramps, and push things on each other."""
    environment = HideSeek(critic=True, preparation_steps=0)
    env = TorchVectorEnv(environment, num_worlds=worlds, num_threads=1, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    generator = torch.Generator().manual_seed(7)
    acts = torch.full((env.num_agents * worlds, 5), 5)
    highest = dict.fromkeys(("Agent", "Box", "Ramp"), 0.0)
    for step in range(240):
        new = torch.rand(len(acts), generator=generator) < (0.05 if step else 1.0)
        acts[new, :3] = torch.randint(0, 11, (int(new.sum()), 3), generator=generator)
        acts[:, 3:] = torch.rand(len(acts), 2, generator=generator) < 0.03
        env.step(acts)
        for table in highest:
            name = f"{table}.physics.Pose.position"
            places = env.sim.tensor(name) if table == "Agent" else env.sim.ragged(name).values
            highest[table] = max(highest[table], float(places[..., 2].max()))
    assert 1.5 < highest["Agent"] < ON_A_WALL
    assert highest["Box"] < 3 and highest["Ramp"] < 2


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


@pytest.mark.parametrize("on_lanes", [False, pytest.param(True, marks=pytest.mark.full)])
def test_forts_are_hiders_whom_no_seeker_can_reach(on_lanes: bool) -> None:
    """A corner behind two elongated boxes, one locked by either team; what is not locked, or leaves a gap, is none."""
    boxes = [(-13.0, 9.0, 0.0, True), (-9.0, 13.9, pi / 2, True)]
    for locked, gap, share in ((True, 0.0, 1 / 3), (False, 0.0, 0.0), (True, 4.0, 0.0)):
        agents = {HIDER: (-14.0, 14.0, 0.0), SEEKER: MIDDLE}
        things = [boxes[0], (boxes[1][0] + gap, *boxes[1][1:])]
        scene = Scene(agents, boxes=things, walls=ROOM, max_episode_steps=2, on_lanes=on_lanes)
        for row in range(2):
            if locked:
                scene.lock("Box", row, (BY_HIDERS, BY_SEEKERS)[row])
        scene.step()
        assert scene.figure("forts") == 0
        scene.step()
        assert scene.truncated
        assert scene.figure("forts") == pytest.approx(share)
        assert scene.figure("boxes_locked") == 2 * locked


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("side", [BY_NOBODY, BY_HIDERS, BY_SEEKERS])
def test_a_locked_ramp_closes_what_it_covers(side: int, turned: bool) -> None:
    """A ramp in a door, along the wall. On its low side the gap is just too narrow for an agent; if the ramp counted as
    half a metre further up, where its centre of mass is, the middle of a cell of the floor would be free there."""
    cell = 2 * 20.25 / 62
    low = 0.5 * cell - 0.25 - 0.9  # where the wall below the gap ends: a cell's middle is 1.15 m further
    middle = low + 1.8 + 1.5
    high = middle + 1.5 + 1.0
    sign, yaw = (-1, pi) if turned else (1, 0.0)
    walls = [(0.0, sign * (low - 18) / 2, 0.2, (18 + low) / 2), (0.0, sign * (high + 18) / 2, 0.2, (18 - high) / 2)]
    agents = {HIDER: (9.0, 5.0, 0.0)}  # all others are parked on the other side
    ramps = [(0.0, sign * middle, yaw)]
    scene = Scene(agents, ramps=ramps, walls=[*ROOM, *walls], max_episode_steps=1)
    if side != BY_NOBODY:
        scene.lock("Ramp", 0, side)
    scene.step()
    assert scene.figure("forts") == pytest.approx(0 if side == BY_NOBODY else 1 / 3)
    assert scene.figure("ramps_locked") == (side == BY_HIDERS)


def test_steps_of_seekers_half_a_metre_up_count_as_uses_of_ramps() -> None:
    scene = Scene()
    for agent, height, steps in ((SEEKER, 1.48, 0), (HIDER, 1.6, 0), (SEEKER, 1.53, 1), (OTHER_SEEKER, 1.53, 2)):
        scene.put("Agent", agent, 3.0 * agent, 0.0, height)  # it falls 7 mm
        assert scene.step().figure("ramps_used") == steps
        scene.put("Agent", agent, 3.0 * agent, 0.0, 1.0)
        scene.rows("Agent.physics.Velocity.linear")[agent] = 0.0


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
