"""The environments of the checks: the bundled ones, and a garden of the features that these leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from gymnasium.spaces import Box, Dict

from ..bench.contenders import LEVELS
from ..bench.levels import AGENTS, level
from ..bench.physics_levels import levels_environment
from ..declare.environment import Environment
from ..declare.options import Constants, Option, Parameters
from ..declare.schema import AgentEnd, Archetype, Component, Reward, TaskGraph
from ..envs.ant import Ant
from ..envs.cartpole import CartPole
from ..envs.hanabi import Hanabi
from ..envs.hideseek import HideSeek
from ..envs.minatar import Seaquest
from ..envs.overcooked import Overcooked
from ..envs.swarm import Swarm
from ..envs.tag import TagContinuous
from ..types import Entity, boolean, f32, f64, i32, u8, u32, u64
from .console import Console


class Hand(Component):
    at: f32[2]
    skill: f32


class Water(Component):
    pour: f32[2]


class Senses(Component):
    values: f32[4]


class Plot(Component):
    cells: u8[2, 3]


class Tally(Component):
    plants: i32
    grains: i32


class Duty(Component):
    left: i32  # steps until the gardener goes home


class Present(Component):
    yes: boolean


class Shift(Component):
    number: u8


class Stem(Component):
    height: f32
    age: i32
    extra: i32  # more children in every step: a check writes it to fill the table


class Kin(Component):
    parent: Entity
    number: u32


class Grain(Component):
    plant: Entity
    drift: f32
    landed: i32


class Sky(Component):  # fields of several types, with padding
    days: u64
    warmth: f64
    tallest: f32
    odd: u32


class Edge(Component):  # what functions make of a number at the end of its range
    x: f32
    least: f32
    most: f32
    unit: f32
    unit_or_one: f32
    whole: i32
    natural: u32


class Garden(Environment):
    """Plants that sow and wither. Every row sows at once; pollen is found by 256 lanes and lasts for one step.

    Gardeners go home before the end, some of them; their water then is idle, and stops.
    """

    systems = "garden.h"
    singletons = [Sky, Edge]
    constants = Constants(
        room=Option(16, minimum=16, help="plants for which a world has room at first; a quarter may be sown in a step"),
        limit=Option(128, minimum=16, help="plants in a world at most"),
    )
    parameters = Parameters(lifetime=9, max_episode_steps=Option(24, minimum=1))
    start = TaskGraph("settle_in")
    step = TaskGraph(
        "shine", "tend", "go_home", "grow", "sow", "pollinate", "land", "tally", "wither", "try_edges", "judge"
    )
    observe = TaskGraph("look", "see_who_is_there")
    observation = {"senses": "Gardener.Senses", "plot": "Gardener.Plot"}
    action = "Gardener.Water"
    action_space = Box(-1.0, 1.0, (2,), np.float32)
    info = {"tally": "Gardener.Tally"}
    active, team = "Gardener.Present", "Gardener.Shift"
    faults = ("flood",)

    @property
    def archetypes(self) -> Sequence[Archetype]:
        room, limit = self.constants.room, self.constants.limit
        return [
            Archetype("Gardener", Hand, Water, Duty, Present, Shift, Senses, Plot, Tally, Reward, AgentEnd, count=2),
            Archetype("Plant", Stem, Kin, capacity=room, limit=limit),
            Archetype("Pollen", Grain, capacity=2 * limit, ephemeral=True),
        ]

    @property
    def observation_space(self) -> Dict:
        return Dict({"senses": Box(-np.inf, np.inf, (4,), np.float32), "plot": Box(0, 255, (2, 3), np.uint8)})


ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "cartpole": CartPole,
    "swarm": Swarm,
    # A swarm that is busy at once and soon over, with tables that grow.
    "skirmish": partial(
        Swarm, ships=2, drones=32, hull=2, reload=3, bullet_life=9, drone_reload=16, drone_speed=0.05, spawn_rate=2.0,
        max_episode_steps=30,
    ),
    "overcooked": Overcooked,
    # Kitchens of two sizes, soon closed, in which chefs start anywhere.
    "kitchens": partial(
        Overcooked, layout=["cramped_room", "forced_coordination"], random_start=True, horizon=25, cook_time=3,
        shaping_factor=1.0,
    ),
    "kitchens_floats": partial(
        Overcooked, layout="cramped_room", random_start=True, horizon=25, cook_time=3, obs_dtype="float32"
    ),
    "hanabi": Hanabi,
    "hanabi_floats": partial(Hanabi, obs_dtype="float32"),
    "hanabi_bits": partial(Hanabi, obs_dtype="bits"),
    # All players observe, as packed bits, and any player begins.
    "decks": partial(Hanabi, players=3, turns="all", obs_dtype="bits", random_start_player=True),
    "hideseek": HideSeek,
    # The same builds: rounds that are soon over, with any number of walls and boxes.
    "hunt": partial(HideSeek, preparation_steps=5, max_episode_steps=16, min_walls=0, min_boxes=0, min_long_boxes=0),
    "tag": TagContinuous,  # systems in Python
    "seaquest": Seaquest,
    "garden": Garden,  # a table of it grows
    "ant": Ant,  # joints
    "console": Console,
    "console_ram": partial(Console, obs="ram"),  # not drawn
    # Its tables never grow, so that it can be captured, and are so large that a block of threads settles them.
    "meadow": partial(Garden, room=640, limit=640),
}  # fmt: skip
BODIES = [level(seed) for seed in range(LEVELS)]  # scenes of rigid bodies
# What builds in the background make.
COMPILED: dict[str, Callable[[], Environment]] = {
    **ENVIRONMENTS,
    "bodies": partial(levels_environment, BODIES, AGENTS, sleep=False, rays=False),
}
CHECKED = ("cartpole", "kitchens", "decks", "skirmish", "garden", "meadow", "hunt")  # the longest build is last
GROWING = ("skirmish", "garden")  # the host may see late that a table is crowded: checks wait after each step
