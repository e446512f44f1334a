"""Levels of hide and seek, generated and given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from hideseek_levels import AGENTS, GIVEN, levels, make
from hideseek_state import Array, Bodies, State, matrices, read, sine_and_cosine
from support import all_tests, of_today
from torch_batchsim.envs.hideseek import Level

from torch_batchsim import TorchVectorEnv

CELLS = 64  # of the lattice on which rooms are looked for, a bit each


# ---- what a level must be --------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """Levels seen from above: turned rectangles ``[W, n]`` of walls, boxes, ramps and agents, in this order."""

    there: Array
    corners: Array  # [W, n, 4, 2]
    walls: int  # rows


def plan_of(state: State) -> Plan:
    c = state.environment.constants
    parts = []
    for name in ("walls", "boxes", "ramps", "agents"):
        bodies: Bodies = getattr(state, name)
        turn, place, half = matrices(bodies.rotation), bodies.position, bodies.size[..., :2]
        if name == "ramps":
            place = place - turn @ np.array((0, c.ramp_length / 6, 0))
            half = np.broadcast_to((c.ramp_width / 2, c.ramp_length / 2), place[..., :2].shape)
        sine, cosine = np.moveaxis(sine_and_cosine(turn), -1, 0)
        x, y = np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)
        signs = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
        corners = [place[..., :2] + u * half[..., :1] * x + v * half[..., 1:] * y for u, v in signs]
        parts.append((bodies.there, np.stack(corners, -2)))
    there, corners = (np.concatenate(columns, 1) for columns in zip(*parts, strict=True))
    return Plan(there, corners, parts[0][0].shape[1])


def gaps(plan: Plan, up_to: float) -> Array:
    """Between pairs but those of walls, all as near as ``up_to``: the width of the widest strip that parts them.

    Strips lie along the sides of one of them. Negative where they overlap.
    """
    n = plan.there.shape[1]
    a, b = (rows for rows in np.triu_indices(n, 1))
    a, b = a[b >= plan.walls], b[b >= plan.walls]
    middle = plan.corners.mean(2)
    radius = np.linalg.norm(plan.corners[:, :, 0] - middle, axis=-1)
    # Of two sides at a right angle one has at most half a right angle with the way between the middles.
    sure = np.linalg.norm(middle[:, a] - middle[:, b], axis=-1) / np.sqrt(2) - radius[:, a] - radius[:, b]
    # The sides of walls lie along the axes.
    low, high = plan.corners.min(2), plan.corners.max(2)
    along_axes = np.maximum(low[:, a] - high[:, b], low[:, b] - high[:, a]).max(-1)
    sure = np.where(a < plan.walls, np.maximum(sure, along_axes), sure)
    world, pair = np.nonzero(plan.there[:, a] & plan.there[:, b] & (sure <= up_to))
    first, second = plan.corners[world, a[pair]], plan.corners[world, b[pair]]
    widest = np.full(len(world), -np.inf)
    for corners in (first, second):
        for side in (0, 1):
            axis = corners[:, side + 1] - corners[:, side]
            axis = axis / np.maximum(np.linalg.norm(axis, axis=-1, keepdims=True), 1e-9)
            one, other = ((shape @ axis[..., None])[..., 0] for shape in (first, second))
            apart = np.maximum(one.min(-1) - other.max(-1), other.min(-1) - one.max(-1))
            widest = np.maximum(widest, apart)
    return widest


def all_connected(state: State, plan: Plan) -> Array:
    """``[W]``: whether an agent gets from each place where it can stand to each other one, walls alone in its way."""
    c = state.environment.constants
    size = 2 * (c.half_size - c.agent) / CELLS
    middle = -c.half_size + c.agent + size * (np.arange(CELLS) + 0.5)
    low, high = plan.corners[:, : plan.walls].min(2) - c.agent, plan.corners[:, : plan.walls].max(2) + c.agent
    bits = np.uint64(1) << np.arange(CELLS, dtype=np.uint64)
    within = [(low[..., k, None] < middle) & (middle < high[..., k, None]) for k in (0, 1)]
    within[0] &= plan.there[:, : plan.walls, None]
    blocked = np.zeros((state.worlds, CELLS), np.uint64)  # a row of cells along x for each y
    for wall in range(plan.walls):
        row = (within[0][:, wall] * bits).sum(-1, dtype=np.uint64)
        blocked |= np.where(within[1][:, wall], row[:, None], np.uint64(0))
    free = ~blocked
    reached = np.zeros_like(free)
    first = (free != 0).argmax(1)
    worlds = np.arange(state.worlds)
    start = free[worlds, first]
    reached[worlds, first] = start & (~start + np.uint64(1))  # the lowest bit
    while True:
        grown = reached | reached << np.uint64(1) | reached >> np.uint64(1)
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= free
        if (grown == reached).all():
            return (reached == free).all(1) & (free != 0).any(1)
        reached = grown


def lines_of(state: State, world: int) -> list[tuple[list[float], Array]]:
    """Of each wall along a line: the widths of its doors, and the rectangles (low, high corner) that these are."""
    walls = state.walls
    rows = [(*walls.position[world, i, :2], *walls.size[world, i, :2]) for i in np.flatnonzero(walls.there[world])]
    thin = state.environment.constants.wall_thickness / 2
    lines: dict[tuple[bool, float], list[tuple[float, float]]] = {}
    rows.sort(key=lambda row: max(row[2:]), reverse=True)  # what is as long as thick is of a line that is there already
    for x, y, half_x, half_y in rows:
        upright = abs(half_x - thin) < 1e-5 and (half_y - thin > 1e-5 or (False, y) not in lines)
        at, middle, half = (x, y, half_y) if upright else (y, x, half_x)
        lines.setdefault((upright, at), []).append((middle - half, middle + half))
    found = []
    for (upright, at), pieces in lines.items():
        doors = [(before[1], after[0]) for before, after in pairwise(sorted(pieces))]
        corners = [((at - thin, low), (at + thin, high)) for low, high in doors]
        if not upright:
            corners = [(low[::-1], high[::-1]) for low, high in corners]
        found.append(([high - low for low, high in doors], np.array(corners).reshape(-1, 2, 2)))
    return found


def check_levels(state: State, left_out: Array) -> None:
    c, p = state.environment.constants, state.environment.parameters
    plan = plan_of(state)
    assert gaps(plan, 2 * c.clearance).min() > c.clearance - 1e-4
    things = plan.corners[:, plan.walls :][plan.there[:, plan.walls :]]
    assert np.abs(things).max() <= c.half_size
    assert all_connected(state, plan).all()
    boxes, ramps = state.boxes.there.sum(1), state.ramps.there.sum(1)
    elongated = (np.abs(state.boxes.size[..., 0] - c.long_x) < 1e-5) & state.boxes.there
    cubes = (np.abs(state.boxes.size - c.cube) < 1e-5).all(-1) & state.boxes.there
    assert ((elongated.sum(1) + cubes.sum(1)) == boxes).all()
    assert (elongated.sum(1) >= np.minimum(p.min_long_boxes, boxes) - left_out).all()
    assert ((boxes >= p.min_boxes - left_out) & (boxes <= p.max_boxes)).all()
    assert ((ramps >= p.ramps - left_out) & (ramps <= p.ramps)).all()
    height = np.where(state.boxes.there, state.boxes.position[..., 2], 1)
    assert np.allclose(height, 1) and np.allclose(state.agents.position[..., 2], c.agent)
    assert (state.locked == 0).all() and (state.holder == 0).all()


def check_doors(state: State, left_out: Array) -> tuple[Array, Array]:
    """Returns how many walls part rooms in each world, and how many doors there are beside one for each of these."""
    c, p = state.environment.constants, state.environment.parameters
    widths = {round(2 * c.half_size * share, 3) for share in (c.narrow_door, c.wide_door)}
    inner, doors = np.zeros(state.worlds, int), np.zeros(state.worlds, int)
    for world in range(state.worlds):
        walls = state.walls.position[world, :, :2][state.walls.there[world]]
        half = state.walls.size[world, :, :2][state.walls.there[world]]
        lines = lines_of(state, world)
        assert {round(width, 3) for found, _ in lines for width in found} <= widths
        for _, corners in lines:
            for low, high in corners:  # nothing of a wall reaches into a door
                assert not ((low + 1e-3 < walls + half) & (walls - half < high - 1e-3)).all(-1).any()
        inner[world] = len(lines) - 4
        doors[world] = sum(len(found) for found, _ in lines) - inner[world]
    assert ((inner >= p.min_walls - left_out) & (inner <= c.max_walls)).all()
    assert ((doors >= p.min_doors - left_out) & (doors <= c.max_doors)).all()
    return inner, doors


def level_of(env: TorchVectorEnv) -> tuple[State, Array]:
    return read(env.sim), env.sim.tensor("Tally.left_out").numpy().reshape(-1).copy()


# ---- generated -------------------------------------------------------------------------------------------------------


def test_levels_are_clean() -> None:
    env = make(300)
    env.reset(seed=1)
    state, left_out = level_of(env)
    check_levels(state, left_out)
    inner, doors = check_doors(state, left_out)
    assert (left_out > 0).mean() < 0.2
    assert {*inner} >= {1, 2, 3, 4, 5} and {*doors} >= {4, 5, 6}
    assert {*state.boxes.there.sum(1)} >= {3, 4, 5, 6, 7, 8}
    assert (np.histogram(state.agents.position[..., :2], 6, (-18, 18))[0] > 200).all()  # all over the square


@pytest.mark.parametrize("seed", of_today(range(20), 2))  # all in ten days
def test_a_hundred_thousand_levels_are_clean(seed: int) -> None:
    env = make(1000, AutoresetMode.SAME_STEP, max_episode_steps=1)
    env.reset(seed=100 + seed)
    for _ in range(5):
        check_levels(*level_of(env))
        env.step(torch.tensor([5, 5, 5, 0, 0]).repeat(env.num_envs, 1))
    check_doors(*level_of(env))


def test_what_has_no_room_is_counted() -> None:
    """With numbers that leave nothing to chance, what there is and what is left out are together what was asked for."""
    env = make(100, min_walls=5, min_doors=6, min_boxes=9, max_boxes=9, min_long_boxes=9)
    env.reset(seed=2)
    state, left_out = level_of(env)
    check_levels(state, left_out)
    inner, doors = check_doors(state, left_out)
    there = inner + doors + state.boxes.there.sum(1) + state.ramps.there.sum(1)
    assert (there + left_out == 5 + 6 + 9 + 2).all()
    assert (left_out > 0).any()
    counted = env.step(torch.tensor([5, 5, 5, 0, 0]).repeat(env.num_envs, 1))[4]["left_out"]
    assert (counted.reshape(-1, 5) == torch.from_numpy(left_out)[:, None]).all()


@pytest.mark.full
@pytest.mark.parametrize("options", [{"hiders": 20, "seekers": 20}, {"tries": 1}, {"half_size": 12.5, "max_walls": 2}])
def test_crowded_squares(options: dict[str, Any]) -> None:
    env = make(500, **options)
    env.reset(seed=3)
    state, left_out = level_of(env)
    check_levels(state, left_out)
    check_doors(state, left_out)
    assert (left_out > 0).any()
    agents = env.num_agents
    for _ in range(10 if all_tests() else 2):
        env.step(torch.tensor([5, 9, 6, 1, 0]).repeat(500 * agents, 1))


def test_a_level_is_a_function_of_seed_world_and_episode() -> None:
    few, many = (make(worlds, AutoresetMode.SAME_STEP, max_episode_steps=3) for worlds in (8, 20))
    generator = np.random.default_rng(0)
    found = []
    for seed in (5, 6):
        few.reset(seed=seed)
        many.reset(seed=seed)
        for _ in range(3):
            assert levels(few) == levels(many)[:8]
            found += levels(many)
            for _ in range(3):
                few.step(torch.from_numpy(generator.integers(0, (11, 11, 11, 2, 2), (few.num_envs, 5))))
                many.step(torch.from_numpy(generator.integers(0, (11, 11, 11, 2, 2), (many.num_envs, 5))))
    assert len({*found}) == 2 * 3 * 20
    many.reset(seed=5)
    assert levels(many) == found[:20]


# ---- given -----------------------------------------------------------------------------------------------------------

def test_a_given_level_is_for_one_episode_as_it_is_given() -> None:
    env, other = (make(3, AutoresetMode.SAME_STEP, number, max_episode_steps=2) for number in (0, 1))
    env.reset(seed=5, options=Level.options([GIVEN] * 3, env.environment))
    other.reset(seed=5)
    state = read(env.sim)
    turn = {name: matrices(getattr(state, name).rotation) for name in ("boxes", "ramps", "agents")}
    yaw = {name: np.arctan2(*np.moveaxis(sine_and_cosine(values), -1, 0)) for name, values in turn.items()}
    for world in range(3):
        assert state.walls.there[world].sum() == 2
        assert state.walls.position[world, :2] == pytest.approx(np.array([(0, 0, 1.25), (0, 9.1, 1.25)]))
        assert state.walls.size[world, :2] == pytest.approx(np.array([(10, 0.2, 1.25), (0.2, 8.9, 1.25)]))
        assert state.boxes.there[world].sum() == 2 and state.ramps.there[world].sum() == 1
        assert state.boxes.position[world, :2] == pytest.approx(np.array([(-5, 4, 1), (5, 4, 1)]))
        assert state.boxes.size[world, :2] == pytest.approx(np.array([(4, 0.75, 1), (1, 1, 1)]))
        assert yaw["boxes"][world, :2] == pytest.approx([0.7, -0.7], abs=1e-6)
        assert state.ramps.position[world, 0] == pytest.approx([9.5, 10, 2 / 3])  # it rises to the left
        assert yaw["ramps"][world, 0] == pytest.approx(pi / 2)
        assert state.agents.position[world, :, :2] == pytest.approx(np.array(AGENTS)[:, :2])
        assert yaw["agents"][world] == pytest.approx(np.array(AGENTS)[:, 2])
    assert (env.sim.tensor("Tally.left_out") == 0).all()
    for _ in range(2):
        for one in (env, other):
            one.step(torch.tensor([5, 5, 5, 0, 0]).repeat(15, 1))
    assert levels(env) == levels(other)


def test_levels_are_given_to_the_worlds_that_begin() -> None:
    env = make(3)
    env.reset(seed=5)
    before = levels(env)
    mask = torch.tensor([False, True, False])
    env.reset(options={**Level.options([GIVEN] * 3, env.environment), "reset_mask": mask.repeat_interleave(5)})
    after = levels(env)
    assert [after[i] == before[i] for i in range(3)] == [True, False, True]
    assert env.sim.tensor("Agent.physics.Pose.position")[1, :, :2].numpy() == pytest.approx(np.array(AGENTS)[:, :2])


@pytest.mark.full
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "hideseek.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    assert "[5120, 9, 14]" in capsys.readouterr().out
