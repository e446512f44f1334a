"""One agent, who observes what it has done: spaces of all kinds, whose choices begin at other numbers than 0."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from torch_batchsim import Archetype, Component, Environment, Parameters, Reward, TaskGraph, f32, i8, i32, i64

SIGN = Discrete(3, start=-1)


class Choice(Component):
    dials: i32[2, 2]


class Single(Component):
    sign: i32


class Push(Component):
    force: f32[1]


class SeenSign(Component):
    value: i64


class SeenDigits(Component):
    values: i32[2]


class SeenBits(Component):
    values: i8[3]


class SeenLevel(Component):
    value: f32


SEEN = {"sign": SeenSign, "digits": SeenDigits, "bits": SeenBits, "level": SeenLevel}


class Signs(Environment):
    """Several choices in two rows, and a dict of observations. The reward shows which choices arrived."""

    systems = "signs.h"
    parameters = Parameters(max_episode_steps=9)
    archetypes = (Archetype("Teller", Choice, Single, Push, *SEEN.values(), Reward, count=1),)
    start = TaskGraph("begin")
    step = TaskGraph("act")
    observation = {name: f"Teller.{seen.__name__}" for name, seen in SEEN.items()}
    observation_space = Dict(
        sign=SIGN,
        digits=MultiDiscrete([2, 2], np.int32, start=[1, 0]),
        bits=MultiBinary(3),
        level=Box(-1.0, 1.0, (), np.float32),
    )
    action = "Teller.Choice"
    action_space = MultiDiscrete([[3, 2], [2, 2]], start=[[-1, 5], [0, 0]])


class Sign(Signs):
    """One choice, and one number to see."""

    action, action_space = "Teller.Single", SIGN
    observation, observation_space = "Teller.SeenSign", SIGN


class Pushed(Signs):
    """A Box of actions."""

    action, action_space = "Teller.Push", Box(-1.0, 1.0, (1,), np.float32)
