"""A test environment of the grid: grains of dust that count who is near, and whose rows may go too early."""

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Option, Parameters, Reward, TaskGraph, f32, i32
from torch_batchsim.grid import Grid


class Place(Component):
    x: f32
    y: f32


class Search(Component):
    reach: f32


class Company(Component):
    neighbours: i32  # within reach
    last: i32  # of these, a row
    looked: i32  # at so many rows


class Third(Component):
    row: i32  # of the grains in the square, itself included
    found: i32


class Choice(Component):
    early: i32  # whether to take out a grain between sorting and asking


class Dust(Environment):
    libraries = (Grid,)
    library_options = {"grid": {"left": 0.0, "right": 3.0, "bottom": 1.0, "top": 2.0, "cell": 0.3, "rows": 90}}
    systems = "dust.h"
    archetypes = [
        Archetype("Cloth", Choice, Reward, count=1),
        Archetype("Grain", Place, Search, Company, Third, capacity=200),
    ]
    parameters = Parameters(grains=Option(80, minimum=0, maximum=200), reach=0.25, drift=0.1)
    start = TaskGraph("scatter")
    step = TaskGraph("drift", "sort", "sweep", "count", "choose")
    observation, action = "Cloth.Choice", "Cloth.Choice"
    action_space = Discrete(2)
