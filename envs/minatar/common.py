"""What the five games share: actions that may stick, the view, the limit of steps, options and pictures.

A game is a grid of 10 x 10 cells. ``x`` counts columns from the left, ``y`` rows from the top.

| action of the six | minimal actions of a game are those that it uses, in this order |
|-------------------|------------------------------------------------------------------|
| 0 .. 5            | nothing, left, up, right, down, fire                             |

Observation: uint8 ``[10, 10, channels]``, 0 or 1 by row, column and channel (``channels`` of each game); with
``obs_dtype="float32"`` the same in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Constant,
    Constants,
    Control,
    Environment,
    Episode,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    World,
    between,
    f32,
    function,
    i32,
    system,
    u8,
)
from torch_batchsim.draw import Scene

from .picture import draw

CHANNELS = Constant("channels")


class Action(IntEnum):
    NOTHING = 0
    LEFT = 1
    UP = 2
    RIGHT = 3
    DOWN = 4
    FIRE = 5


# How a player moves by an Action.
STEP_X = (0, -1, 0, 1, 0, 0)
STEP_Y = (0, 0, -1, 0, 1, 0)


class Choice(Component):
    action: i32  # a place in the game's action set


class Move(Component):
    action: i32  # an Action: what is done in this step, and perhaps once more in the next one


class View(Component):
    cells: u8[10, 10, CHANNELS] = between(0, 1)


class FloatView(Component):
    cells: f32[10, 10, CHANNELS] = between(0, 1)


def moves(used: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The Action of each action of an agent: of all six, and of the minimal ones."""
    return tuple(Action), (*used, *[Action.NOTHING] * (len(Action) - len(used)))


@function
def stick(world: World, move: Move, wanted: int):
    """Do what is wanted, or by chance what was done in the step before; in the first step of an episode, nothing."""
    if not world.random.chance(world.parameters.sticky_action_prob):
        move.action = wanted


@function
def clear(world: World, view: View):
    for y in range(10):
        for x in range(10):
            for channel in range(world.constants.channels):
                view.cells[y, x, channel] = 0


@system
def look_in_floats(world: World, view: View, floats: FloatView):
    for y in range(10):
        for x in range(10):
            for channel in range(world.constants.channels):
                floats.cells[y, x, channel] = view.cells[y, x, channel]


@system
def limit(world: World, episode: Episode):
    episode.truncated = not episode.terminated and episode.step >= world.parameters.max_episode_steps


_SHARED = {
    "minimal_actions": Option(True, help="those that the game uses, not all six"),
    "sticky_action_prob": Option(0.1, minimum=0.0, maximum=1.0, help="chance that the last action is done again"),
    "max_episode_steps": Option(5000, minimum=1),
}
PARAMETERS = Parameters(**_SHARED)
RAMPING = Parameters(**_SHARED, difficulty_ramping=Option(True, help="the longer it lasts, the harder it gets"))


class MinAtar(Environment):
    """A game: subclasses give its channels, the actions that it uses, its components, and its systems."""

    channels: ClassVar[tuple[str, ...]]
    used: ClassVar[tuple[int, ...]]  # the minimal actions
    parts: ClassVar[tuple[type[Component], ...]]
    look: ClassVar[Any]  # the system that writes View
    constants = Constants(obs_dtype=Option("uint8", choices=("uint8", "float32")))
    parameters = PARAMETERS
    action = "Game.Choice.action"
    metadata = {"render_fps": 10}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_constants(channels=len(self.channels))

    @property
    def in_floats(self) -> bool:
        return bool(self.constants.obs_dtype == "float32")

    @property
    def archetypes(self) -> list[Archetype]:
        floats = (FloatView,) if self.in_floats else ()
        return [Archetype("Game", *self.parts, Choice, Move, View, *floats, Reward, count=1)]

    @property
    def observe(self) -> TaskGraph:
        return TaskGraph(self.look, look_in_floats) if self.in_floats else TaskGraph(self.look)

    @property
    def observation(self) -> str:
        return "Game.FloatView" if self.in_floats else "Game.View"

    @property
    def controls(self) -> list[Control]:
        actions = self.used if self.parameters.minimal_actions else tuple(Action)
        keys = {"LEFT": "ArrowLeft", "UP": "ArrowUp", "RIGHT": "ArrowRight", "DOWN": "ArrowDown", "FIRE": " "}
        named = [(i, Action(action).name) for i, action in enumerate(actions) if action != Action.NOTHING]
        return [Control(name.capitalize(), i, keys[name]) for i, name in named]

    @property
    def idle_action(self) -> int:
        return self.used.index(Action.NOTHING) if self.parameters.minimal_actions else int(Action.NOTHING)

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(self.used) if self.parameters.minimal_actions else len(Action))

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        return draw(world["Game.View.cells"][0], self.channels)
