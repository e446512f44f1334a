"""A walk on a line that an option breaks in one way, so that each check has something to find in one build."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from gymnasium.spaces import Box, Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    f32,
    i32,
)  # fmt: skip


class Broken(IntEnum):
    NOWHERE = 0
    SEEDLESS = 1
    DEAD = 2
    ADDRESS = 3
    SCRATCH = 4
    WORKSPACE = 5
    FAILS = 6
    ENDLESS = 7
    SAME_REWARD = 8
    AT_ONCE = 9
    NO_REWARD = 10
    BOUNDS = 11
    NOT_A_NUMBER = 12
    HOLES = 13
    LOOKING = 14
    STILL = 15
    ILLEGAL = 16


class Place(Component):
    x: f32
    time: i32


class Move(Component):
    by: i32


class View(Component):
    values: f32[2]


class Legal(Component):
    choices: boolean[3]


class Total(Component):
    steps: i32


class Looks(Component):
    count: i32


class Sheet(Component):
    steps: i32


class Walk(Environment):
    systems = "walk.h"
    enums = (Broken,)
    parameters = Parameters(broken=Option(0, minimum=0, maximum=16), max_episode_steps=Option(20, minimum=1))
    archetypes = [Archetype("Walker", Place, Move, View, Legal, Total, Reward, count=1)]
    singletons = [Looks]
    kept = [Looks]
    scratch = [Total]
    workspace = [Sheet]
    start = TaskGraph("begin")
    step = TaskGraph("walk", "judge")
    observe = TaskGraph("count_looks", "look")
    observation, action, action_mask = "Walker.View", "Walker.Move", "Walker.Legal"
    observation_space = Box(-1.0, 2.0, (2,), np.float32)
    action_space = Discrete(3)
    faults = ("too_far",)
