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
    Episode,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    World,
    between,
    f32,
    i32,
    system,
)
from torch_batchsim.draw import Scene
from torch_batchsim.math import clamp

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


@system
def place(world: World, place: Place, goal: Goal) -> None:
    size = world.constants.size
    place.column = world.random.integer(0, size - 1)
    place.row = world.random.integer(0, size - 1)
    # Another cell than the walker's: 1 to size * size - 1 cells further on.
    cell = (place.row * size + place.column + world.random.integer(1, size * size - 1)) % (size * size)
    goal.column = cell % size
    goal.row = cell // size


@system
def move(world: World, place: Place, move: Move) -> None:
    last = world.constants.size - 1
    if move.direction < 2:
        place.column = clamp(place.column + 2 * move.direction - 1, 0, last)
    else:
        place.row = clamp(place.row + 2 * move.direction - 5, 0, last)


@system
def judge(world: World, place: Place, goal: Goal, reward: Reward, episode: Episode) -> None:
    episode.terminated = place.column == goal.column and place.row == goal.row
    episode.truncated = not episode.terminated and episode.step >= world.parameters.max_episode_steps
    reward.value = 1.0 if episode.terminated else -world.parameters.step_cost


@system
def look(world: World, place: Place, goal: Goal, view: View) -> None:
    last = f32(world.constants.size - 1)
    view.column = f32(place.column) / last
    view.row = f32(place.row) / last
    view.goal_column = f32(goal.column) / last
    view.goal_row = f32(goal.row) / last


class MyEnv(Environment):
    archetypes = [Archetype("Walker", Place, Goal, Move, View, Reward, count=1)]
    constants = Constants(size=Option(8, minimum=2, help="cells in a row and in a column"))
    parameters = Parameters(
        step_cost=Option(0.01, minimum=0.0, help="the cost of a step"),
        max_episode_steps=Option(64, minimum=1, help="steps after which an episode is truncated"),
    )
    start = TaskGraph(place)
    step = TaskGraph(move, judge)
    observe = TaskGraph(look)
    observation, action = "Walker.View", "Walker.Move"
    metadata = {"render_fps": 8}
    training = {"": {"num_envs": 256, "total_steps": 1_000_000}}  # defaults of torch_batchsim.train

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        size, cell = self.constants.size, 24
        scene = Scene(size * cell, size * cell, background=(245, 245, 240))
        for line in range(1, size):
            scene.line((line * cell, 0), (line * cell, size * cell), 1, (215, 215, 205))
            scene.line((0, line * cell), (size * cell, line * cell), 1, (215, 215, 205))
        left, top = world["Walker.Goal.column"][0] * cell, world["Walker.Goal.row"][0] * cell
        scene.rectangle((left + 4, top + 4), (left + cell - 4, top + cell - 4), (230, 160, 40))
        centre = [(float(world[f"Walker.Place.{name}"][0]) + 0.5) * cell for name in ("column", "row")]
        scene.circle((centre[0], centre[1]), 0.3 * cell, (40, 90, 170))
        return scene


torch_batchsim.register("my_env/MyEnv-v0", MyEnv, max_episode_steps=64)
