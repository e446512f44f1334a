"""TagContinuous: taggers hunt runners in a square. Equal to WarpDrive's ``TagContinuous``.

Lengths are in the unit of ``grid_length``, the side L of the square; times are in steps. The agents of a world are
``num_taggers`` taggers and, behind them, ``num_runners`` runners.

| action          | MultiDiscrete([num_acceleration_levels + 1, num_turn_levels + 1])                             |
|-----------------|-----------------------------------------------------------------------------------------------|
| 0: acceleration | 0 no change; the others are added to the acceleration: min_acceleration .. max_acceleration   |
| 1: turn         | 0 none; the others are added to the heading: min_turn .. max_turn (rad), evenly spaced        |

Then speed += acceleration, within 0 and ``max_speed`` times the skill level; the acceleration becomes 0 unless the
speed is strictly within. The agent moves by its speed in the direction of its heading. Edges stop it, and cost
``edge_hit_penalty``.

| observation, by m others  | float32 [7 m + 1]                                   | range            |
|---------------------------|-----------------------------------------------------|------------------|
| 0 .. m - 1                | x, relative to one's own, in diagonals of the square | about -0.71 .. + |
| m .. 2 m - 1              | y, the same                                         | about -0.71 .. + |
| 2 m .. 3 m - 1            | relative speed / max_speed                          | skill levels     |
| 3 m .. 4 m - 1            | relative acceleration / max_speed                   | any              |
| 4 m .. 5 m - 1            | relative heading in turns, not wrapped              | -1 .. 1          |
| 5 m .. 6 m - 1            | 1 for a tagger                                      | 0, 1             |
| 6 m .. 7 m - 1            | 1 for an agent in the game                          | 0, 1             |
| 7 m                       | share of ``episode_length`` that has passed         | 0 .. 1           |

The others are all, by number; with ``use_full_observation=False`` the ``num_other_agents_observed`` nearest that are in
the game, nearest first (of equally near ones the first), and zeros where there are fewer. An agent out of the game sees
zeros, except for the last two rows of a full observation.

A runner whose nearest tagger (of equally near ones the first) is closer than ``tagging_distance`` times L is tagged:
``tag_penalty_for_runner`` for it, ``tag_reward_for_tagger`` for the tagger. With ``runner_exits_game_after_tagged`` it
leaves the game: it stays where it is, and its row ends and is inactive. Observations are of the moment before tags, so
others see it leave in the next step. Each step in the game also pays ``step_penalty_for_tagger`` or
``step_reward_for_runner``; the last of an episode ``end_of_game_reward_for_runner`` to runners in the game.

Start: uniform in the square, with one of four headings, at rest; or where
``reset(options={"x": ..., "y": ..., "heading": ...})`` puts the agents, numbers [N] each.
End: terminated when no runner is left, truncated at ``episode_length`` steps.
``infos``: ``team``, 0 taggers, 1 runners; ``runners``, how many are in the game.

Source: Lan, Srinivasa, Wang and Zheng (2021), "WarpDrive: Extremely Fast End-to-End Deep Multi-Agent Reinforcement
Learning on a GPU", and the NumPy class of its version 2.7.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete

from torch_batchsim import (
    AgentEnd,
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
    Warp,
    World,
    boolean,
    f32,
    function,
    i32,
    i64,
    system,
    u32,
)
from torch_batchsim.draw import Scene
from torch_batchsim.math import clamp, cos, fmod, from_bits, sin, sqrt, to_bits

from .picture import draw
from .training import CONTINUOUS

AGENTS, FEATURES, PADDED = Constant("agents"), Constant("features"), Constant("padded")
OBSERVED = Constant("num_other_agents_observed")
ACCELERATIONS, TURNS = Constant("accelerations"), Constant("turns")
BLOCK = 16  # agents whose distances the processor compares at once
FAR, NONE = 1e30, 3e38  # a place whose distance is infinite; a distance beyond all
NOBODY = 0x7F000000 << 32  # a key beyond all, of a distance whose square is infinite
HEADINGS = (0.0, math.pi / 2, math.pi, 3 * math.pi / 2)
TURN = 2 * math.pi


class Place(Component):
    x: f32
    y: f32


class Motion(Component):
    speed: f32
    heading: f32  # rad, 0 .. 2 pi
    acceleration: f32


class Status(Component):
    playing: boolean
    shown: boolean  # whether it was playing when the step began


class Caught(Component):
    by: i32  # the tagger of this step; -1 nobody


class Act(Component):
    acceleration: i32
    turn: i32


class View(Component):
    values: f32[FEATURES]


class Present(Component):
    yes: boolean


class Team(Component):
    number: i32


class Game(Component):
    runners: i32  # in the game


class Start(Component):  # of the next episode
    x: f32[AGENTS]
    y: f32[AGENTS]
    heading: f32[AGENTS]
    given: boolean


class Levels(Component):  # what the actions add
    acceleration: f32[ACCELERATIONS]
    turn: f32[TURNS]


class Spots(Component):  # where the agents in the game are; the others are FAR
    x: f32[PADDED]
    y: f32[PADDED]


class Near(Component):  # the nearest agents, nearest first
    key: i64[OBSERVED]  # bits of the distance, which are ordered as the distances are, and the number


@system
def place(world: World, row: Row, place: Place, motion: Motion, status: Status, team: Team) -> None:
    start = world.get(Start)
    i = row.index
    length = world.parameters.grid_length
    if start.given:
        place.x, place.y, motion.heading = start.x[i], start.y[i], start.heading[i]
    else:
        place.x = length * world.random.uniform()
        place.y = length * world.random.uniform()
        motion.heading = HEADINGS[world.random.integer(0, 3)]
    status.playing = True
    status.shown = True
    team.number = 1 if i >= world.constants.num_taggers else 0


@system
def begin(world: World, start: Start, game: Game) -> None:
    start.given = False
    game.runners = world.constants.num_runners


@function
def wrapped(angle: float) -> float:
    rest = fmod(angle, TURN)
    return rest + TURN if rest < 0.0 else rest


@system
def move(world: World, act: Act, place: Place, motion: Motion, status: Status, team: Team, reward: Reward) -> None:
    status.shown = status.playing
    if not status.playing:
        motion.speed = 0.0
        motion.heading = 0.0
        motion.acceleration = 0.0
        return
    levels = world.get(Levels)
    skill = world.parameters.skill_level_tagger
    if team.number == 1:
        skill = world.parameters.skill_level_runner
    limit = world.parameters.max_speed * skill
    heading = wrapped(motion.heading + levels.turn[act.turn])
    acceleration = motion.acceleration + levels.acceleration[act.acceleration]
    speed = clamp(motion.speed + acceleration, 0.0, limit)
    x, y = place.x + speed * cos(heading), place.y + speed * sin(heading)
    place.x, place.y = clamp(x, 0.0, world.parameters.grid_length), clamp(y, 0.0, world.parameters.grid_length)
    motion.heading, motion.speed = heading, speed
    motion.acceleration = acceleration if speed > 0.0 and speed < limit else 0.0
    if place.x != x or place.y != y:
        reward.value = world.parameters.edge_hit_penalty
    if team.number == 1:
        reward.value += world.parameters.step_reward_for_runner
    else:
        reward.value += world.parameters.step_penalty_for_tagger


@system
def tag(world: World, place: Place, status: Status, team: Team, caught: Caught) -> None:
    caught.by = -1
    if team.number == 0 or not status.playing:
        return
    places = world.rows("Agent", Place)
    least, nearest = NONE, 0
    for i in range(world.constants.num_taggers):
        x, y = place.x - places[i].x, place.y - places[i].y
        distance = sqrt(x * x + y * y)
        if distance < least:
            least, nearest = distance, i
    if least < world.parameters.tagging_distance * world.parameters.grid_length:
        caught.by = nearest


@system
def pay(
    world: World, row: Row, episode: Episode, status: Status, team: Team, caught: Caught, reward: Reward, end: AgentEnd
) -> None:
    taggers = world.constants.num_taggers
    if team.number == 0:
        runners = world.rows("Agent", Caught)
        count = 0
        for i in range(taggers, world.constants.agents):
            count += 1 if runners[i].by == row.index else 0
        for _ in range(count):  # each on its own: sums of floats depend on the order
            reward.value += world.parameters.tag_reward_for_tagger
        return
    if caught.by >= 0:
        reward.value += world.parameters.tag_penalty_for_runner
        if world.parameters.runner_exits_game_after_tagged:
            status.playing = False
            end.terminated = True
    if status.playing and episode.step == world.parameters.episode_length:
        reward.value += world.parameters.end_of_game_reward_for_runner


@system
def judge(world: World, game: Game, episode: Episode) -> None:
    game.runners = 0
    statuses = world.rows("Agent", Status)
    for i in range(world.constants.num_taggers, world.constants.agents):
        game.runners += 1 if statuses[i].playing else 0
    episode.terminated = game.runners == 0
    episode.truncated = episode.step >= world.parameters.episode_length


@system
def show(world: World, spots: Spots, warp: Warp) -> None:
    places = world.rows("Agent", Place)
    statuses = world.rows("Agent", Status)

    def put(i: int) -> None:
        row = min(i, world.constants.agents - 1)
        shown = i == row and statuses[row].shown
        spots.x[i] = places[row].x if shown else FAR
        spots.y[i] = places[row].y if shown else FAR

    warp.for_each(world.constants.padded, put)


@function
def add(near: Near, last: int, agent: int, square: float) -> None:
    """Put an agent into the list behind those that are nearer, or as near with a lower number; drop the last one."""
    key, s = (i64(to_bits(sqrt(square))) << 32) | i64(agent), last
    if key < near.key[last]:
        while s > 0 and near.key[s - 1] > key:
            near.key[s] = near.key[s - 1]
            s -= 1
        near.key[s] = key


@function
def reach(key: i64) -> float:
    """A square that is at least that of every distance less than the one in the key, whatever the root rounds."""
    distance = from_bits(u32(key >> 32))
    return distance * distance * 1.000001 + 1e-37


@system
def find_nearest(world: World, row: Row, place: Place, status: Status, near: Near) -> None:
    """Keep the nearest so far while going through all; most blocks of a crowd have none that is nearer."""
    spots = world.get(Spots)
    own, last = row.index, world.constants.num_other_agents_observed - 1
    for s in range(last + 1):
        near.key[s] = NOBODY
    if not status.shown:
        return
    limit = NONE
    for first in range(0, world.constants.padded, BLOCK):
        nearer = 0
        for j in range(BLOCK):
            x, y = spots.x[first + j] - place.x, spots.y[first + j] - place.y
            nearer += 1 if x * x + y * y < limit else 0
        if nearer == 0:
            continue
        for j in range(first, first + BLOCK):
            x, y = spots.x[j] - place.x, spots.y[j] - place.y
            square = x * x + y * y
            if square < limit and j != own:
                add(near, last, j, square)
                limit = reach(near.key[last])


@function
def see(
    view: View, m: int, at: int, place: Place, motion: Motion, other: Place, moves: Motion, length: float, speed: float
) -> None:
    """The relative features of another agent, which is number ``at`` of ``m``."""
    diagonal = length * 1.4142135623730951
    view.values[at] = (other.x - place.x) / diagonal
    view.values[m + at] = (other.y - place.y) / diagonal
    view.values[2 * m + at] = (moves.speed - motion.speed) / speed
    view.values[3 * m + at] = (moves.acceleration - motion.acceleration) / speed
    view.values[4 * m + at] = (moves.heading - motion.heading) / TURN


@function
def see_nothing(view: View, m: int, at: int) -> None:
    for feature in range(5):
        view.values[feature * m + at] = 0.0


@system
def look_at_near(
    world: World, episode: Episode, place: Place, motion: Motion, status: Status, near: Near, view: View,
    present: Present,
) -> None:  # fmt: skip
    m = world.constants.num_other_agents_observed
    places = world.rows("Agent", Place)
    motions = world.rows("Agent", Motion)
    length, speed = world.parameters.grid_length, world.parameters.max_speed
    for s in range(m):
        i = i32(near.key[s] & 0xFFFF) if near.key[s] < NOBODY else -1
        if i >= 0:
            see(view, m, s, place, motion, places[i], motions[i], length, speed)
        else:
            see_nothing(view, m, s)
        view.values[5 * m + s] = 1.0 if i >= 0 and i < world.constants.num_taggers else 0.0
        view.values[6 * m + s] = 1.0 if i >= 0 else 0.0
    view.values[7 * m] = f32(episode.step) / world.parameters.episode_length if status.shown else 0.0
    present.yes = status.playing


@system
def look_at_all(
    world: World, row: Row, episode: Episode, place: Place, motion: Motion, status: Status, view: View,
    present: Present,
) -> None:  # fmt: skip
    m, own = world.constants.agents - 1, row.index
    places = world.rows("Agent", Place)
    motions = world.rows("Agent", Motion)
    statuses = world.rows("Agent", Status)
    length, speed = world.parameters.grid_length, world.parameters.max_speed
    for s in range(m):
        i = s + 1 if s >= own else s
        if status.shown:
            see(view, m, s, place, motion, places[i], motions[i], length, speed)
        else:
            see_nothing(view, m, s)
        view.values[5 * m + s] = 1.0 if i < world.constants.num_taggers else 0.0
        view.values[6 * m + s] = 1.0 if statuses[i].shown else 0.0
    view.values[7 * m] = f32(episode.step) / world.parameters.episode_length if status.shown else 0.0
    present.yes = status.playing


class TagContinuous(Environment):
    constants = Constants(
        num_taggers=Option(1, minimum=1, maximum=999),
        num_runners=Option(10, minimum=1, maximum=999),
        num_acceleration_levels=Option(10, minimum=0, help="actions beside the one that changes nothing"),
        num_turn_levels=Option(10, minimum=0, help="actions beside the one that changes nothing"),
        use_full_observation=Option(True, help="all other agents in place of the nearest"),
        num_other_agents_observed=Option(2, minimum=1, help="of a partial observation"),
    )
    parameters = Parameters(
        grid_length=Option(10.0, above=0.0, maximum=1e6, help="side of the square"),
        episode_length=Option(100, minimum=1),
        max_speed=Option(1.0, above=0.0, help="lengths per step"),
        skill_level_runner=Option(1.0, minimum=0.0, help="factor of max_speed"),
        skill_level_tagger=Option(1.0, minimum=0.0, help="factor of max_speed"),
        min_acceleration=Option(-1.0),
        max_acceleration=Option(1.0),
        min_turn=Option(-math.pi / 2, help="rad"),
        max_turn=Option(math.pi / 2, help="rad"),
        edge_hit_penalty=Option(0.0, maximum=0.0),
        tagging_distance=Option(0.01, minimum=0.0, maximum=1.0, help="in grid lengths"),
        tag_reward_for_tagger=Option(1.0, minimum=0.0),
        tag_penalty_for_runner=Option(-1.0, maximum=0.0),
        step_penalty_for_tagger=Option(0.0, maximum=0.0),
        step_reward_for_runner=Option(0.0, minimum=0.0),
        end_of_game_reward_for_runner=Option(1.0, minimum=0.0),
        runner_exits_game_after_tagged=Option(True),
    )
    kept = [Start]
    resources = [Levels]
    start = TaskGraph(place, begin)
    step = TaskGraph(move, tag, pay, judge)
    observation, action = "Agent.View", "Agent.Act"
    active, team = "Agent.Present", "Agent.Team"
    info = {"runners": "Game.runners"}
    reset_options = {"x": "Start.x", "y": "Start.y", "heading": "Start.heading"}
    metadata = {"render_fps": 10, "score": "runners"}
    training = CONTINUOUS

    def __init__(self, **options: Any):
        super().__init__(**options)
        c = self.constants
        agents = c.num_taggers + c.num_runners
        if agents > 1000:
            raise ValueError(f"num_taggers + num_runners are {agents}; a world has at most 1000 agents")
        if c.num_other_agents_observed > agents:
            raise ValueError(f"num_other_agents_observed is {c.num_other_agents_observed}; there are {agents} agents")
        seen = agents - 1 if c.use_full_observation else c.num_other_agents_observed
        self.add_constants(
            agents=agents, features=7 * seen + 1, padded=-(-agents // BLOCK) * BLOCK,
            accelerations=c.num_acceleration_levels + 1, turns=c.num_turn_levels + 1,
        )  # fmt: skip

    @property
    def archetypes(self) -> list[Archetype]:
        near = () if self.constants.use_full_observation else (Near,)
        columns = Place, Motion, Status, Caught, Act, View, Present, Team, *near, Reward, AgentEnd
        return [Archetype("Agent", *columns, count=self.constants.agents)]

    @property
    def singletons(self) -> list[type[Component]]:
        return [Game, Start] if self.constants.use_full_observation else [Game, Start, Spots]

    @property
    def scratch(self) -> list[type[Component]]:
        return [Caught] if self.constants.use_full_observation else [Caught, Near, Spots]

    @property
    def observe(self) -> TaskGraph:
        return (
            TaskGraph(look_at_all)
            if self.constants.use_full_observation
            else TaskGraph(show, find_nearest, look_at_near)
        )

    @property
    def action_space(self) -> MultiDiscrete:
        return MultiDiscrete([self.constants.accelerations, self.constants.turns])

    @property
    def observation_space(self) -> Box:
        p, seen = self.parameters, (self.constants.features - 1) // 7
        speed = max(p.skill_level_runner, p.skill_level_tagger, 1.0)
        high = np.repeat(np.array([1, 1, speed, np.inf, 1, 1, 1], np.float32), seen)
        low = np.where(np.arange(7 * seen) < 5 * seen, -high, np.float32(0))
        return Box(np.append(low, np.float32(0)), np.append(high, np.float32(1)), dtype=np.float32)

    def resource_values(self) -> dict[str, Any]:
        p, c = self.parameters, self.constants
        return {
            "Levels.acceleration": _levels(p.min_acceleration, p.max_acceleration, c.num_acceleration_levels),
            "Levels.turn": _levels(p.min_turn, p.max_turn, c.num_turn_levels),
        }

    def reset_values(self, options: Mapping[str, Any], worlds: torch.Tensor) -> dict[str, Any]:
        if not options:
            return {}
        missing = self.reset_options.keys() - options.keys()
        if missing:
            raise ValueError(f"a start needs x, y and heading of all agents; {', '.join(sorted(missing))} is missing")
        for name, greatest in (
            ("x", self.parameters.grid_length),
            ("y", self.parameters.grid_length),
            ("heading", TURN),
        ):
            values = torch.as_tensor(options[name])
            if not bool(((values >= 0) & (values <= np.float32(greatest))).all()):
                raise ValueError(f"{name} of a start must be within 0 and {greatest:g}")
        return {"Start.given": True}

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        p = self.parameters
        places = np.stack([world["Agent.Place.x"], world["Agent.Place.y"]], 1)
        return draw(
            world, places, p.grid_length, world["Agent.Team.number"] == 0, 0.01 * p.grid_length,
            episode_length=p.episode_length, playing=world["Agent.Status.playing"],
            headings=world["Agent.Motion.heading"],
        )  # fmt: skip


def _levels(low: float, high: float, count: int) -> np.ndarray:
    """0, then ``count`` numbers from ``low`` to ``high``, in WarpDrive's precision."""
    return np.insert(np.linspace(np.float32(low), np.float32(high), count), 0, 0).astype(np.float32)
