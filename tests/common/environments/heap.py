"""A test environment for rigid bodies: all shapes fall on a floor between walls, come and go, and hang on joints."""

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Option, Parameters, Reward, TaskGraph, boolean, f32, i32
from torch_batchsim.physics import Contact, ContactForce, Force, Joint, Material, Physics

WEDGE = [(x, y, z) for x in (-1, 1) for y, z in ((-1.5, -1), (1.5, -1), (1.5, 1))]


class Push(Component):
    which: i32


class View(Component):
    values: f32[6]


class Told(Component):
    touches: i32
    impulse: f32
    held: boolean


class Heap(Environment):
    systems = "heap.h"
    libraries = (Physics,)
    library_options = {"physics": {"hulls": {"wedge": WEDGE}, "events": 64, "contacts": 90}}
    parameters = Parameters(max_episode_steps=14, axis=Option(1.0, help="the hinge's along x"))
    archetypes = [
        Archetype("Player", Physics.body, Force, ContactForce, Push, View, Reward, count=2),
        Archetype("Thing", Physics.body, Material, capacity=8, limit=8),
        Archetype("Wall", Physics.static, ContactForce, count=3),
        Archetype("Grip", Joint, count=2),
        Archetype("Rope", Joint, capacity=2, limit=2),
    ]
    singletons = [Told]
    start = TaskGraph("place_players", "build")
    step = TaskGraph("throw_things", "push", Physics.simulate, Physics.report, "count_touches", "judge")
    observe = TaskGraph("look")
    observation, action = "Player.View", "Player.Push"
    action_space = Discrete(5)


__all__ = ["Contact", "Heap"]
