"""A test environment for a library's loops over tables, and workspace: loads that stand, carts that come and go."""

from gymnasium.spaces import Discrete
from libraries.depot import Depot, Mark, Place

from torch_batchsim import Archetype, Component, Environment, Parameters, Reward, TaskGraph, f32, i32


class Order(Component):
    carts: i32


class View(Component):
    values: f32[4]


class Yard(Environment):
    systems = "yard.h"
    libraries = (Depot,)
    parameters = Parameters(max_episode_steps=17)
    archetypes = [
        Archetype("Porter", Order, View, Reward, count=1),
        Archetype("Cart", Depot.load, Mark, capacity=8, limit=40),
        Archetype("Crate", Depot.load, count=3),
        Archetype("Rail", Place, capacity=3),
        Archetype("Barrel", Mark, Depot.load, count=35),  # more than a warp has lanes
    ]
    start = TaskGraph("stack", "fill_barrels", Depot.begin)
    step = TaskGraph("order", "roll", "leave", Depot.take_stock, "judge")
    observe = TaskGraph("look")
    observation, action = "Porter.View", "Porter.Order"
    action_space = Discrete(4)
