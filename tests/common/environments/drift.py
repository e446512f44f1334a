"""One agent with a Box action, a box of noise, and a NaN check."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from torch_batchsim import Archetype, Component, Environment, Parameters, Reward, TaskGraph, f32, f64, u64, vec3


class Body(Component):
    position: vec3


class Thrust(Component):
    force: vec3


class Trail(Component):  # fields of several types, with padding
    flips: u64
    length: f64
    last: f32


class Drift(Environment):
    systems = "drift.h"
    parameters = Parameters(max_episode_steps=9)
    start = TaskGraph("start_drift")
    step = TaskGraph("drift")
    action_space = Box(-1.0, np.array([1, 2, 3], np.float32), (3,), np.float32)

    archetypes = (Archetype("Particle", Body, Trail, Thrust, Reward, count=1),)
    observation, action = "Particle.Body", "Particle.Thrust.force"
