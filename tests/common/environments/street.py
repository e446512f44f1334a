"""A test environment of one library, with other archetypes than the hall's."""

from gymnasium.spaces import Discrete
from libraries.buckets import Buckets

from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, i32


class Stride(Component):
    direction: i32


class Street(Environment):
    systems = "street.h"
    libraries = (Buckets,)
    library_options = {"buckets": {"cells": 8}}
    archetypes = [Archetype("Walker", Stride, Buckets.body, Reward, count=2)]
    step = TaskGraph("walk", Buckets.build)
    observation, action = "Walker.buckets.Near", "Walker.Stride"
    action_space = Discrete(3)
