"""Two agents on a line: dict observations, MultiDiscrete actions, masks, infos, constants, singletons, faults."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, MultiDiscrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    f32,
    i16,
    i32,
    u8,
)


class Place(Component):
    cell: i16
    strength: f32
    marks: u8[2, 3]


class Choice(Component):
    move: i32
    strike: i32


class SeenSelf(Component):
    cell: f32
    strength: f32


class SeenCells(Component):
    cells: u8[7]


class Legal(Component):
    choices: boolean[5]  # three moves, then two ways to strike


class Sums(Component):
    hits: i32


class Weather(Component):
    wind: i32
    total: i32


class Duel(Environment):
    systems = "duel.h"
    singletons = (Weather,)
    constants = Constants(fighters=Option(2, minimum=1, maximum=5))
    parameters = Parameters(max_episode_steps=Option(12, minimum=1), bonus=0.5, gusts=True)
    start = TaskGraph("enter")
    step = TaskGraph("blow", "move", "strike", "finish")
    observe = TaskGraph("look", "look_around")
    observation = {"self": "Fighter.SeenSelf", "cells": "Fighter.SeenCells"}
    action = "Fighter.Choice"
    action_mask = "Fighter.Legal"
    info = {"hits": "Fighter.Sums.hits"}
    action_space = MultiDiscrete([3, 2])
    faults = ("too_strong",)

    @property
    def archetypes(self) -> list[Archetype]:
        parts = (Place, Choice, SeenSelf, SeenCells, Legal, Sums, Reward)
        return [Archetype("Fighter", *parts, count=self.constants.fighters), Archetype("Stone", Place, count=3)]

    @property
    def observation_space(self) -> Dict:
        cells = Box(0, 255, (7,), np.uint8)
        return Dict({"self": Box(-np.inf, np.inf, (2,), np.float32), "cells": cells})
