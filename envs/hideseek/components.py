"""The components of hide and seek, and the figures of an episode that ``infos`` has."""

from __future__ import annotations

from enum import IntEnum

from torch_batchsim import Component, boolean, f32, i32, u8, vec3


class Side(IntEnum):
    """Of agents, and of who has locked something."""

    NOBODY = 0
    HIDERS = 1
    SEEKERS = 2


class Act(Component):
    choice: u8[5]


class Team(Component):
    side: i32  # HIDERS or SEEKERS


class TeamNumber(Component):
    number: i32  # 0 hiders, 1 seekers


class Origin(Component):
    position: vec3  # where a body was when the step's physics began


class Travel(Component):
    velocity: vec3  # how far a body has come in the step over its time, m/s


class Thing(Component):  # a box or ramp
    locked: u8  # by which Side
    holder: u8  # 1 + the row of the agent that holds it, or 0
    start: f32[2]  # where the episode began with it


class Tally(Component):  # of the episode
    left_out: i32
    climbs: i32
    seen: i32  # steps
    boxes_moved: f32
    boxes_locked: f32
    ramps_locked: f32
    forts: f32


class BoxesMoved(Component):
    count: f32


class BoxesLocked(Component):
    count: f32


class RampsLocked(Component):
    count: f32


class RampsUsed(Component):
    steps: f32


class HidersSeen(Component):
    share: f32


class Forts(Component):
    share: f32


class LeftOut(Component):
    count: f32


class Preparing(Component):
    yes: boolean


FIGURES = {
    "boxes_moved": BoxesMoved, "boxes_locked": BoxesLocked, "ramps_locked": RampsLocked, "ramps_used": RampsUsed,
    "hiders_seen": HidersSeen, "forts": Forts, "left_out": LeftOut, "preparing": Preparing,
}  # fmt: skip
