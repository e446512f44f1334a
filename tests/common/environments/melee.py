"""Fighters in two teams on a ring, who leave one after another: ``active``, ``team``, and ends of agents' own.

A fighter rests (0) or strikes the one that stands 1, 2 or 3 places further on (1, 2, 3), whom that costs a point.
Without points it falls (terminated), after three rests in a row it walks away (truncated). The world ends when a team
has nobody left. In some episodes the last fighter is missing from the start. After the step in which it leaves, a
fighter sees infinities, from which nobody must learn.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from torch_batchsim import (
    AgentEnd,
    Archetype,
    Component,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    f32,
    i8,
    i32,
)

FIGHTERS = 4


class Body(Component):
    points: i32
    rests: i32
    wounds: i32  # of this step
    absent: i32  # steps since it left, that one included


class Choice(Component):
    strike: i32


class View(Component):
    values: f32[4]


class Standing(Component):
    here: boolean


class Side(Component):
    team: i8


class Melee(Environment):
    systems = "melee.h"
    archetypes = (Archetype("Fighter", Body, Choice, View, Standing, Side, Reward, AgentEnd, count=FIGHTERS),)
    parameters = Parameters(max_episode_steps=Option(12, minimum=1))
    start = TaskGraph("enter")
    step = TaskGraph("strike", "leave", "judge")
    observe = TaskGraph("look")
    observation, action = "Fighter.View", "Fighter.Choice"
    active, team = "Fighter.Standing", "Fighter.Side.team"
    action_space = Discrete(FIGHTERS)
    observation_space = Box(-np.inf, np.inf, (4,), np.float32)
