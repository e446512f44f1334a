"""TagGrid: taggers hunt one runner on a grid. Equal to WarpDrive's ``TagGridWorld``.

Cells have integer places from 0 to ``grid_length``, both included. The agents of a world are ``num_taggers`` taggers
and, last, the runner.

| action | Discrete(5)                                          |
|--------|------------------------------------------------------|
| 0 .. 4 | stay, x + 1, x - 1, y + 1, y - 1; walls stop a move  |

| observation                  | float32 [4 N + 1], N agents                             | range  |
|------------------------------|---------------------------------------------------------|--------|
| 0 .. N - 1                   | x of all, in grid lengths                               | 0 .. 1 |
| N .. 2 N - 1                 | y of all                                                | 0 .. 1 |
| 2 N .. 3 N - 1               | 1 for the runner                                        | 0, 1   |
| 3 N .. 4 N - 1               | 1 for oneself                                           | 0, 1   |
| 4 N                          | share of ``episode_length`` that has passed             | 0 .. 1 |

With ``use_full_observation=False`` float32 [6]: own x and y; x and y of the runner, or for the runner those of the
nearest tagger (of equally near ones the first); 1 for the runner; share of the episode.

Reward: all move at once. When a tagger then stands on the runner's cell, taggers get ``tag_reward_for_tagger`` and the
runner loses ``tag_penalty_for_runner``; else taggers lose ``step_cost_for_tagger``, which the runner gets. Who is
stopped by a wall loses ``wall_hit_penalty``. Who swap cells do not meet.
Start: taggers in the middle, the runner at (0, 0); with ``uniform_start`` all anywhere; or where
``reset(options={"x": ..., "y": ...})`` puts them, integers [N] each.
End: terminated by a tag, truncated at ``episode_length`` steps. ``infos["team"]``: 0 taggers, 1 the runner;
``infos["tagged"]``: whether this step's end was a tag.

Source: Lan, Srinivasa, Wang and Zheng (2021), "WarpDrive: Extremely Fast End-to-End Deep Multi-Agent Reinforcement
Learning on a GPU", and the NumPy class of its version 2.7.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

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
    Row,
    TaskGraph,
    World,
    between,
    boolean,
    f32,
    i32,
    system,
)
from torch_batchsim.draw import Scene
from torch_batchsim.math import clamp

from .picture import draw
from .training import GRID

AGENTS, FEATURES = Constant("agents"), Constant("features")


class Cell(Component):
    x: i32
    y: i32


class Choice(Component):
    move: i32 = between(0, 4)


class View(Component):
    values: f32[FEATURES] = between(0, 1)


class Team(Component):
    number: i32


class Game(Component):
    tagged: boolean


class Start(Component):  # of the next episode
    x: i32[AGENTS]
    y: i32[AGENTS]
    given: boolean


@system
def place(world: World, row: Row, cell: Cell, team: Team) -> None:
    start = world.get(Start)
    taggers = world.constants.num_taggers
    i, length = row.index, world.constants.grid_length
    team.number = 1 if i == taggers else 0
    if start.given:
        cell.x, cell.y = start.x[i], start.y[i]
    elif world.parameters.uniform_start:
        cell.x, cell.y = world.random.integer(0, length), world.random.integer(0, length)
    elif i < taggers:
        cell.x, cell.y = length // 2, length // 2


@system
def begin(world: World, start: Start) -> None:
    start.given = False


@system
def move(world: World, cell: Cell, choice: Choice, reward: Reward) -> None:
    length = world.constants.grid_length
    x, y = cell.x, cell.y
    if choice.move == 1:
        x += 1
    elif choice.move == 2:
        x -= 1
    elif choice.move == 3:
        y += 1
    elif choice.move == 4:
        y -= 1
    cell.x, cell.y = clamp(x, 0, length), clamp(y, 0, length)
    if cell.x != x or cell.y != y:
        reward.value = -world.parameters.wall_hit_penalty


@system
def judge(world: World, game: Game, episode: Episode) -> None:
    cells = world.rows("Agent", Cell)
    taggers = world.constants.num_taggers
    x, y = cells[taggers].x, cells[taggers].y
    game.tagged = False
    for i in range(taggers):
        if cells[i].x == x and cells[i].y == y:
            game.tagged = True
    episode.terminated = game.tagged
    episode.truncated = episode.step >= world.parameters.episode_length


@system
def pay(world: World, team: Team, reward: Reward) -> None:
    of_tagger, of_runner = -world.parameters.step_cost_for_tagger, world.parameters.step_cost_for_tagger
    if world.get(Game).tagged:
        of_tagger, of_runner = world.parameters.tag_reward_for_tagger, -world.parameters.tag_penalty_for_runner
    reward.value += of_runner if team.number == 1 else of_tagger


@system
def look_at_all(world: World, row: Row, episode: Episode, view: View) -> None:
    cells = world.rows("Agent", Cell)
    agents = world.constants.agents
    length = f32(world.constants.grid_length)
    for i in range(agents):
        view.values[i] = cells[i].x / length
        view.values[agents + i] = cells[i].y / length
        view.values[2 * agents + i] = 0.0
        view.values[3 * agents + i] = 0.0
    view.values[3 * agents - 1] = 1.0
    view.values[3 * agents + row.index] = 1.0
    view.values[4 * agents] = f32(episode.step) / world.parameters.episode_length


@system
def look_at_one(world: World, cell: Cell, team: Team, episode: Episode, view: View) -> None:
    cells = world.rows("Agent", Cell)
    taggers = world.constants.num_taggers
    length = f32(world.constants.grid_length)
    seen = taggers
    if team.number == 1:
        seen = 0
        least = 2147483647
        for i in range(taggers):
            x, y = cells[i].x - cell.x, cells[i].y - cell.y
            if x * x + y * y < least:
                seen, least = i, x * x + y * y
    view.values[0], view.values[1] = cell.x / length, cell.y / length
    view.values[2], view.values[3] = cells[seen].x / length, cells[seen].y / length
    view.values[4] = f32(team.number)
    view.values[5] = f32(episode.step) / world.parameters.episode_length


class TagGrid(Environment):
    constants = Constants(
        num_taggers=Option(10, minimum=1, maximum=999),
        grid_length=Option(10, minimum=1, maximum=30_000, help="greatest x and y of a cell"),
        use_full_observation=Option(True, help="all agents in place of one"),
    )
    parameters = Parameters(
        episode_length=Option(100, minimum=1),
        uniform_start=Option(False, help="all begin anywhere"),
        wall_hit_penalty=Option(0.1, minimum=0.0),
        tag_reward_for_tagger=Option(10.0, minimum=0.0),
        tag_penalty_for_runner=Option(2.0, minimum=0.0),
        step_cost_for_tagger=Option(0.01, minimum=0.0),
    )
    singletons = [Game, Start]
    kept = [Start]
    start = TaskGraph(place, begin)
    step = TaskGraph(move, judge, pay)
    observation, action, team = "Agent.View", "Agent.Choice.move", "Agent.Team"
    info = {"tagged": "Game.tagged"}
    reset_options = {"x": "Start.x", "y": "Start.y"}
    metadata = {"render_fps": 10}
    training = GRID

    def __init__(self, **options: Any):
        super().__init__(**options)
        agents = self.constants.num_taggers + 1
        self.add_constants(agents=agents, features=4 * agents + 1 if self.constants.use_full_observation else 6)

    @property
    def archetypes(self) -> list[Archetype]:
        return [Archetype("Agent", Cell, Choice, View, Team, Reward, count=self.constants.agents)]

    @property
    def observe(self) -> TaskGraph:
        return TaskGraph(look_at_all if self.constants.use_full_observation else look_at_one)

    def reset_values(self, options: Mapping[str, Any], worlds: torch.Tensor) -> dict[str, Any]:
        if not options:
            return {}
        if len(options) == 1:
            raise ValueError(f"give both x and y of the agents, not only {next(iter(options))}")
        for name, values in options.items():
            cells = torch.as_tensor(values)
            if bool(((cells < 0) | (cells > self.constants.grid_length)).any()):
                raise ValueError(f"{name} of a start must be within 0 and {self.constants.grid_length}")
        return {"Start.given": True}

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        length = self.constants.grid_length
        x, y = (world[f"Agent.Cell.{axis}"] + 0.5 for axis in "xy")
        return draw(
            world, np.stack([x, y], 1), length + 1, world["Agent.Team.number"] == 0, 0.35,
            episode_length=self.parameters.episode_length, cells=length + 1,
        )  # fmt: skip
