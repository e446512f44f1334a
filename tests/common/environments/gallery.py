"""A test environment for rays: visitors with lidar, eyes and cameras walk among stones and coins that come and go."""

from __future__ import annotations

from functools import cached_property

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Entity, Environment, Reward, TaskGraph, boolean, f32, i32, vec3
from torch_batchsim.physics import Filter, Physics
from torch_batchsim.rays import Paint, Rays, View

WEDGE = [(x, y, z) for x in (-1, 1) for y, z in ((-1.5, -1), (1.5, -1), (1.5, 1))]


class Step(Component):
    turn: i32


class Sensors(Component):
    distance: f32[20]
    body: i32[20]
    normal: vec3[20]
    clear: boolean[3]


class Survey(Component):  # the same, of all visitors side by side
    distance: f32[20]
    body: i32[20]
    normal: vec3[20]
    clear: boolean[3]


class Ahead(Component):
    found: Entity
    distance: f32
    is_coin: boolean


class Seen(Component):
    distance: f32[20]


class Gallery(Environment):
    systems = "gallery.h"
    libraries = (Physics, Rays)
    library_options = {
        "physics": {"hulls": {"wedge": WEDGE}},
        "rays": {"width": 20, "height": 13, "shadows": True},
    }

    @cached_property
    def archetypes(self):
        eyes = self.libraries.rays
        sees = (Sensors, Survey, Ahead, Seen, View, eyes.depth, eyes.segmentation, eyes.picture)
        return [
            Archetype("Visitor", Physics.static, Step, *sees, Reward, count=3),
            Archetype("Stone", Physics.static, count=18),
            Archetype("Coin", Physics.static, Filter, Paint, capacity=6, limit=6),
            Archetype("Wall", Physics.static, count=3),
        ]

    start = TaskGraph("hang", "enter", Rays.gather, "sweep", "survey", "point", Rays.draw)
    step = TaskGraph("walk", "drop", Rays.gather, "sweep", "survey", "point", Rays.draw, "close")
    observe = TaskGraph("look")
    observation, action = "Visitor.Seen", "Visitor.Step"
    action_space = Discrete(3)
