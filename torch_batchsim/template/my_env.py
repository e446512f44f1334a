"""MyEnv: a walker on a square of cells finds its goal.

| action      | Discrete(4)                                  |
|-------------|----------------------------------------------|
| 0, 1, 2, 3  | one cell to the left, right, up, down        |

Observation: float32 [4], the columns and rows of the walker and of the goal, all from 0 to 1.
Reward: 1 in the step that reaches the goal, else -step_cost.
End: terminated at the goal; truncated after max_episode_steps steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Constant,
    Constants,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    between,
    f32,
    i32,
)
from torch_batchsim.draw import Canvas

SIZE = Constant("size")


class Place(Component):
    column: i32 = between(0, SIZE - 1)
    row: i32 = between(0, SIZE - 1)  # 0 at the top


class Goal(Component):
    column: i32 = between(0, SIZE - 1)
    row: i32 = between(0, SIZE - 1)


class Move(Component):
    direction: i32 = between(0, 3)  # left, right, up, down


class View(Component):
    column: f32 = between(0, 1)
    row: f32 = between(0, 1)
    goal_column: f32 = between(0, 1)
    goal_row: f32 = between(0, 1)


class MyEnv(Environment):
    systems = "my_env.h"
    archetypes = [Archetype("Walker", Place, Goal, Move, View, Reward, count=1)]
    constants = Constants(size=Option(8, minimum=2, help="cells in a row and in a column"))
    parameters = Parameters(
        step_cost=Option(0.01, minimum=0.0, help="the cost of a step"),
        max_episode_steps=Option(64, minimum=1, help="steps after which an episode is truncated"),
    )
    start = TaskGraph("place")
    step = TaskGraph("move", "judge")
    observe = TaskGraph("look")
    observation, action = "Walker.View", "Walker.Move"
    metadata = {"render_fps": 8}
    training = {"": {"num_envs": 256, "total_steps": 1_000_000}}  # defaults of torch_batchsim.train

    def render(self, world: Mapping[str, np.ndarray]) -> np.ndarray:
        size, cell = self.constants.size, 24
        canvas = Canvas(size * cell, size * cell, background=(245, 245, 240))
        for line in range(1, size):
            canvas.line((line * cell, 0), (line * cell, size * cell), 1, (215, 215, 205))
            canvas.line((0, line * cell), (size * cell, line * cell), 1, (215, 215, 205))
        left, top = world["Walker.Goal.column"][0] * cell, world["Walker.Goal.row"][0] * cell
        canvas.rectangle((left + 4, top + 4), (left + cell - 4, top + cell - 4), (230, 160, 40))
        centre = [(float(world[f"Walker.Place.{name}"][0]) + 0.5) * cell for name in ("column", "row")]
        canvas.circle((centre[0], centre[1]), 0.3 * cell, (40, 90, 170))
        return canvas.pixels


torch_batchsim.register("my_env/MyEnv-v0", MyEnv, max_episode_steps=64)
