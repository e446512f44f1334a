"""Two walkers on a ring of places, who see what is not in a Box: an index, indices, bits, or all of them.

A walker goes on by 0, 1 or 2 places. A lap is a reward. In ``FromOne`` places and steps are counted from 1.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from torch_batchsim import Archetype, Component, Environment, Option, Parameters, Reward, TaskGraph, i8, i32

PLACES = 5


class Place(Component):
    number: i32  # from 1 to 5


class Pair(Component):
    values: i32[2]  # the place, from 0, and laps modulo 3


class Marks(Component):
    values: i8[3]  # bits of the number


class Choice(Component):
    places: i32


class Walkers(Environment):
    systems = "walkers.h"
    archetypes = (Archetype("Walker", Place, Pair, Marks, Choice, Reward, count=2),)
    parameters = Parameters(max_episode_steps=Option(9, minimum=1))
    start = TaskGraph("enter")
    step = TaskGraph("walk", "judge")
    observe = TaskGraph("look")
    action = "Walker.Choice.places"
    action_space = Discrete(3)
    observation = {"place": "Walker.Place.number", "pair": "Walker.Pair", "marks": "Walker.Marks"}
    observation_space = Dict(
        place=Discrete(PLACES + 1, dtype=np.int32),
        pair=MultiDiscrete([PLACES, 3], dtype=np.int32),
        marks=MultiBinary(3),
    )


class FromOne(Walkers):
    """They see the number of the place only."""

    action_space = Discrete(3, start=1)
    observation = "Walker.Place.number"
    observation_space = Discrete(PLACES, start=1, dtype=np.int32)


class FromOneInABox(FromOne):
    """The same in a Box."""

    observation_space = Box(1, PLACES, (), np.int32)


def seeing(part: str) -> Walkers:
    """Walkers who see one part of that only."""
    own = {"observation": Walkers.observation[part], "observation_space": Walkers.observation_space[part]}
    return type(part.title(), (Walkers,), own)()
