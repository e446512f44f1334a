"""A test environment for rigid bodies that is small: each shape and each joint once, in contact from the first step."""

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Parameters, Reward, TaskGraph, f32, i32
from torch_batchsim.physics import Force, Joint, Physics

from .heap import WEDGE


class Push(Component):
    which: i32


class View(Component):
    values: f32[4]


class Shelf(Environment):
    systems = "shelf.h"
    libraries = (Physics,)
    library_options = {"physics": {"hulls": {"wedge": WEDGE}, "events": 16, "substeps": 2, "sleep": True}}
    parameters = Parameters(max_episode_steps=5)
    archetypes = [
        Archetype("Thing", Physics.body, Force, Push, View, Reward, count=5),
        Archetype("Board", Physics.static, count=2),
        Archetype("Link", Joint, capacity=4, limit=4),
    ]
    start = TaskGraph("put")
    step = TaskGraph("push", Physics.simulate, Physics.report, "judge")
    observe = TaskGraph("look")
    observation, action = "Thing.View", "Thing.Push"
    action_space = Discrete(3)
