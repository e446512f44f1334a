"""A test environment of two libraries, with names of its own that are theirs too."""

from gymnasium.spaces import Discrete
from libraries.buckets import Buckets
from libraries.pushes import Pushes

from torch_batchsim import Archetype, Component, Environment, Parameters, Reward, TaskGraph, f32, i32


class Cell(Component):  # as the library has one
    visits: i32


class Choice(Component):
    side: i32


class View(Component):
    values: f32[4]


class Hall(Environment):
    systems = "hall.h"
    libraries = (Pushes,)  # and with it Buckets
    archetypes = [
        Archetype("Guest", Choice, Pushes.pushed, View, Reward, count=3),
        Archetype("Cart", Buckets.body, capacity=8),
        Archetype("Cells", Cell, count=2),
    ]
    parameters = Parameters(max_episode_steps=20)
    faults = ("crowded",)
    reset_options = {"wind": "pushes.Wind.strength"}
    start = TaskGraph("enter", Pushes.begin)
    step = TaskGraph("choose", "roll_in", Pushes.advance, "visit", "judge", "end")
    observe = TaskGraph("look")
    observation, action = "Guest.View", "Guest.Choice.side"
    action_space = Discrete(2)
