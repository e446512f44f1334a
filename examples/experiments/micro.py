"""Micro: pendulums that have nothing to do with each other, after the paper's synthetic environment of that name.

Each of the ``agents`` of a world swings a pendulum of its own. A step is ``work`` small steps of integration: a world's
work is proportional to the number of its agents, and nearly all of a step is computing.

| action      | Discrete(3)                      |          |
|-------------|----------------------------------|----------|
| 0, 1, 2     | torque of -0.5, 0 or 0.5         | 1/s^2    |

| observation | float32 [3]                      | unit     |
|-------------|----------------------------------|----------|
| 0, 1        | sine and cosine of the angle     | 1        |
| 2           | angular velocity                 | rad/s    |

Motion: angle'' = sin(angle) + torque - 0.1 angle', where the angle of an upright pendulum is 0. A step is 0.05 s.
Reward: the cosine of the angle. Start: at rest, within half a radian of hanging straight down.
End: truncated at ``max_episode_steps`` steps.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from torch_batchsim.declare.environment import Environment
from torch_batchsim.declare.options import Constants, Option, Parameters
from torch_batchsim.declare.schema import Archetype, Component, Reward, TaskGraph
from torch_batchsim.types import f32, i32


class Pendulum(Component):
    angle: f32  # rad
    speed: f32  # rad/s


class Push(Component):
    direction: i32  # 0, 1 none, 2


class View(Component):
    sine: f32
    cosine: f32
    speed: f32


class Micro(Environment):
    systems = "micro.h"
    constants = Constants(
        agents=Option(16, minimum=1, maximum=1024, help="pendulums in a world"),
        work=Option(512, minimum=1, help="small steps of integration in a step"),
    )
    parameters = Parameters(max_episode_steps=Option(256, minimum=1))
    start = TaskGraph("hang")
    step = TaskGraph("swing", "judge", "end_episode")
    observe = TaskGraph("look")
    observation, action = "Agent.View", "Agent.Push.direction"
    action_space = Discrete(3)

    @property
    def archetypes(self) -> list[Archetype]:
        return [Archetype("Agent", Pendulum, Push, View, Reward, count=self.constants.agents)]

    @property
    def observation_space(self) -> Box:
        high = np.array([1, 1, np.inf], np.float32)
        return Box(-high, high, dtype=np.float32)
