"""Hide and seek: options, levels, actions and states that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hideseek_levels import AGENTS, GIVEN, levels, make
from torch_batchsim.envs.hideseek import PRESETS, HideSeek, Level

from torch_batchsim import WorldFault


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hiders": 0}, "hiders must be at least 1, got 0"),
        ({"seekers": 0}, "seekers must be at least 1, got 0"),
        ({"hiders": 21}, "hiders must be at most 20, got 21"),
        ({"seekers": 21}, "seekers must be at most 20, got 21"),
        ({"hiders": 20, "seekers": 20, "half_size": 10.0}, "40 agents of 2 m do not fit a square of 20 m"),
        ({"min_boxes": 6, "max_boxes": 5}, "min_boxes must be at most max_boxes, which is 5, got 6"),
        ({"max_boxes": 10}, "max_boxes must be at most box_rows, which is 9, got 10"),
        ({"ramps": 3}, "ramps must be at most ramp_rows, which is 2, got 3"),
        ({"min_walls": 6}, "min_walls must be at most max_walls, which is 5, got 6"),
        ({"min_doors": 7}, "min_doors must be at most max_doors, which is 6, got 7"),
        ({"wide_door": 0.5, "half_size": 8.0, "narrow_door": 0.6}, "narrow_door must be at most 0.5"),
        ({"half_size": 8.0}, "narrow_door"),  # of 1.6 m: no agent passes
        ({"narrow_door": 0.05}, "narrow_door"),
        ({"max_episode_steps": 0}, "max_episode_steps must be at least 1"),
        ({"half_size": 3.0}, "half_size must be at least 8"),
        ({"preset": "hall"}, "preset must be one of 'full', 'empty-room', 'walls', got 'hall'"),
        ({"preset": "empty-room", "max_boxes": 2}, "max_boxes must be at most box_rows, which is 1, got 2"),
    ],
)
def test_options_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        HideSeek(**options)


def test_presets_give_what_is_not_given() -> None:
    full = HideSeek()
    assert all(HideSeek(preset="full").constants[name] == value for name, value in full.constants.items())
    for preset, options in PRESETS.items():
        made = HideSeek(preset=preset)
        values, usual = {**made.constants, **made.parameters}, {**full.constants, **full.parameters}
        assert {name for name in values if values[name] != usual[name]} >= options.keys() - {"flat", "see_all"}
        assert all(values[name] == value for name, value in options.items())
        assert preset == "full" or f"preset={preset}" in HideSeek.training
    given = HideSeek(preset="walls", half_size=12.0, hiders=2)
    assert (given.constants.half_size, given.constants.hiders, given.constants.seekers) == (12.0, 2, 1)
    with pytest.raises(TypeError, match="preset must be a string, got None"):
        HideSeek(preset=None)


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'hider'.*hiders"):
        HideSeek(hider=2)


def changed(**parts: Any) -> Level:
    return Level(**{**GIVEN.__dict__, **parts})


@pytest.mark.parametrize(
    ("level", "says"),
    [
        (changed(boxes=[(0.0, 5.0, 0.0, False)]), "level 1: box 0 and wall 1 overlap"),
        (changed(boxes=[(5.0, 5.0, 0.0, True), (5.0, 6.0, 0.5, False)]), "level 1: box 1 and box 0 overlap"),
        (changed(ramps=[(-9.0, -7.0, 0.0)]), "level 1: agent 0 and ramp 0 overlap"),
        (changed(agents=[*AGENTS[:4], (4.0, -8.0, 0.7)]), "level 1: agent 4 and agent 3 overlap"),
        (changed(agents=[*AGENTS[:4], (17.5, 0.0, 0.0)]), "level 1: agent 4 reaches out of the square of half size 18"),
        (changed(walls=[(0.0, 0.0, 18.0, 0.2)]), r"level 1: the room around \(.*\) cannot be reached"),
        (changed(walls=[(-8.9, 8.0, 9.1, 0.2), (0.0, 13.0, 0.2, 5.0)]), "level 1: the room around"),
        (changed(ramps=[(float("nan"), 0.0, 0.0)]), "ramps must be finite, got nan"),
        (changed(walls=[(5.0, 0.0, float("inf"), 0.2)]), "walls must be finite, got inf"),
        (changed(walls=[(5.0, 0.0, 1.0, 0.0)]), "half extents of walls must both be positive"),
    ],
    ids=["in a wall", "boxes", "on a ramp", "agents", "outside", "two rooms", "a closed room", "nan", "inf", "flat"],
)
def test_levels_that_cannot_be_are_refused(level: Level, says: str) -> None:
    env = make(2)
    env.reset(seed=0)
    before = levels(env)
    with pytest.raises(ValueError, match=says):
        env.reset(options=Level.options([GIVEN, level], env.environment))
    assert levels(env) == before


def test_levels_are_whole_and_fit_the_environment() -> None:
    env = make(1)
    given = Level.options([GIVEN], env.environment)
    with pytest.raises(ValueError, match="a level is all of walls, boxes, ramps, agents; ramps is missing"):
        env.reset(options={name: rows for name, rows in given.items() if name != "ramps"})
    with pytest.raises(ValueError, match=r"boxes must have shape \[9, 4\] for each world, got \[8, 4\]"):
        env.reset(options={**given, "boxes": given["boxes"][:, :8]})
    with pytest.raises(ValueError, match="level 0 has 4 agents, the environment has room for 5"):
        Level.options([changed(agents=AGENTS[:4])], env.environment)
    with pytest.raises(ValueError, match="level 0 has 3 ramps, the environment has room for 2"):
        Level.options([changed(ramps=[(0.0, 0.0, 0.0)] * 3)], env.environment)


@pytest.mark.parametrize(("table", "row"), [("Agent", 1), ("Box", 0)])
def test_a_pose_that_is_not_finite_stops_its_own_world(table: str, row: int) -> None:
    env, other = make(4), make(4, number=1)
    actions = torch.tensor([5, 8, 6, 0, 0]).repeat(20, 1)
    for one in (env, other):
        one.reset(seed=3)
        one.step(actions)
    name = f"{table}.physics.Pose.position"
    place = env.sim.tensor(name)[2] if table == "Agent" else env.sim.ragged(name).world(2)
    place[row, 1] = float("nan")
    says = rf"world 2: .*{table}\[{row}\]\.physics\.Pose\.position is not finite"
    with pytest.raises(WorldFault, match=says) as raised:
        env.step(actions)
    assert raised.value.mask.nonzero().flatten().tolist() == [2]
    env.reset(options={"reset_mask": raised.value.mask.repeat_interleave(5)})
    other.step(actions)
    for one in (env, other):
        one.step(actions)
    sound = [0, 1, 3]
    assert [levels(env)[i] for i in sound] == [levels(other)[i] for i in sound]
    assert torch.isfinite(env.sim.tensor("Agent.physics.Pose.position")).all()
