"""A test environment for bodies of several shapes: a stool of three legs and a seat, on which a ball falls."""

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, f32, i32
from torch_batchsim.physics import ContactForce, Force, Physics
from torch_batchsim.rays import Rays


class Push(Component):
    which: i32  # 0 to 2: along -x, not at all, along x


class View(Component):
    values: f32[4]


class Glance(Component):
    distance: f32


class Stool(Environment):
    systems = "stool.h"
    libraries = (Physics, Rays)
    library_options = {"physics": {"events": 32, "sleep": True}}
    archetypes = [
        Archetype("Stool", Physics.body, ContactForce, Force, Push, Glance, View, Reward, count=1),
        Archetype("Seat", Physics.part, count=1),
        Archetype("Leg", Physics.part, capacity=3),
        Archetype("Ball", Physics.body, capacity=1),
        Archetype("Ground", Physics.static, count=1),
    ]
    start = TaskGraph("put")
    step = TaskGraph("push", Rays.gather, Physics.simulate, Physics.report, Rays.update, "glance")
    observe = TaskGraph(Rays.gather, "look")
    observation, action = "Stool.View", "Stool.Push"
    action_space = Discrete(3)
