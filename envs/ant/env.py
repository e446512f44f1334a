"""Ant: a body on four legs learns to run. Observation, action and reward are made as those of Gymnasium's Ant-v5.

Sources: Schulman et al. (2015), "High-Dimensional Continuous Control Using Generalized Advantage Estimation", arXiv
1506.02438; ``gymnasium.envs.mujoco.ant_v5`` and its ``ant.xml``. Units: metres, kilograms, seconds, radians; z is up,
the ant runs along x.

A torso, a ball, and four legs of two capsules: leg i is on a hip, which turns about the torso's vertical, and its foot
on an ankle, which bends. Legs 1 to 4 point to (1, 1), (-1, 1), (-1, -1), (1, -1). Only the ground touches them.

Action, float32 [8], -1 to 1: shares of the greatest torque ``gear``, in the order of Gymnasium's motors: hip and ankle
of leg 4, of leg 1, of leg 2, of leg 3.

| observation | float32 [27]                                                                              |
|-------------|-------------------------------------------------------------------------------------------|
| 0           | height of the torso's centre                                                              |
| 1 .. 4      | rotation of the torso, quaternion (w, x, y, z)                                            |
| 5 .. 12     | angles: hip and ankle of leg 1, of leg 2, of leg 3, of leg 4                              |
| 13 .. 15    | velocity of the torso in the world's frame                                                |
| 16 .. 18    | angular velocity of the torso in its own frame                                            |
| 19 .. 26    | rates of the angles                                                                       |

With ``contact_forces=True`` it is [39]: the contact forces on the four feet follow, x, y, z in the world's frame, N,
each clipped to +-``contact_force_range``. (Gymnasium has forces and torques on all 13 bodies there.)

Reward: ``forward_reward_weight`` * speed along x, the mean of the step, + ``healthy_reward`` if healthy
- ``ctrl_cost_weight`` * sum of squared actions; with contact forces - ``contact_cost_weight`` * sum of the squares that
the observation shows.
Healthy: the torso's height is within ``healthy_z_low`` .. ``healthy_z_high``, and everything is finite.
Start: at ``start_height``, hips at 0, ankles bent by ``start_bend``; noise uniform within +-``reset_noise_scale`` on
position, quaternion (then normalised) and angles, normal with this deviation on velocities and rates. An ant whose feet
would begin in the ground is lifted onto it.
End: terminated when not healthy, unless ``terminate_when_unhealthy=False``; truncated at ``max_episode_steps``.

``infos``: ``x_position``, ``y_position``, ``distance_from_origin``, ``x_velocity``, ``y_velocity`` (means of the step)
and the reward's parts ``reward_forward``, ``reward_survive``, ``reward_ctrl``, ``reward_contact``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    component,
    f32,
    vec3,
)
from torch_batchsim.draw import Scene
from torch_batchsim.physics import ContactForce, Filter, Joint, Physics

from .picture import draw
from .training import SWEEP, TRAINING


class Torques(Component):
    share: f32[8]  # of the greatest torque


class Before(Component):  # the step
    position: vec3


class Facts(Component):
    x_position: f32
    y_position: f32
    distance_from_origin: f32
    x_velocity: f32
    y_velocity: f32
    reward_forward: f32
    reward_survive: f32
    reward_ctrl: f32
    reward_contact: f32


class Ant(Environment):
    """Options are those of ``constants`` and ``parameters``; ``physics`` are those of the library."""

    libraries = (Physics,)
    library_options = {
        "physics": {
            "time": 0.05, "substeps": 5, "gravity_z": -9.81, "static_friction": 1.0, "dynamic_friction": 1.0,
        }
    }  # fmt: skip
    constants = Constants(contact_forces=Option(False, help="observation and reward have the feet's contact forces"))
    parameters = Parameters(
        density=Option(50.0, above=0.0, help="of all bodies, kg/m^3"),
        gear=Option(30.0, minimum=0.0, help="the greatest torque of a motor, N m"),
        damping=Option(2.0, minimum=0.0, help="of the hinges, N m s/rad"),
        armature=Option(0.02, minimum=0.0, help="inertia of a motor's rotor, kg m^2"),
        hip_range=Option(math.radians(30), above=0.0, maximum=1.5, help="to each side, rad"),
        ankle_lower=Option(math.radians(30), minimum=-1.5, maximum=1.5, help="least bend of an ankle, rad"),
        ankle_upper=Option(math.radians(70), minimum=-1.5, maximum=1.5, help="greatest bend of an ankle, rad"),
        forward_reward_weight=Option(1.0, help="reward for each m/s along x"),
        healthy_reward=Option(1.0, help="reward for each healthy step"),
        ctrl_cost_weight=Option(0.05, minimum=0.0, help="cost of squared actions"),
        contact_cost_weight=Option(5e-4, minimum=0.0, help="cost of squared contact forces"),
        contact_force_range=Option(1.0, above=0.0, help="to which each part of a contact force is clipped, N"),
        terminate_when_unhealthy=Option(True),
        healthy_z_low=Option(0.2, help="of the torso's centre, metres"),
        healthy_z_high=Option(1.0, help="metres"),
        start_height=Option(0.6, above=0.0, maximum=10.0, help="of the torso's centre, metres"),
        start_bend=Option(1.0, minimum=-1.5, maximum=1.5, help="of the ankles, rad"),
        reset_noise_scale=Option(0.1, minimum=0.0, maximum=0.5),
        max_episode_steps=Option(1000, minimum=1),
    )
    start = TaskGraph("dress", "stand")
    step = TaskGraph("drive", Physics.simulate, "judge")
    observe = TaskGraph("look")
    observation, action = "Ant.View", "Ant.Torques"
    action_space = Box(-1.0, 1.0, (8,), np.float32)
    info = {name: f"Ant.Facts.{name}" for name in Facts.__annotations__}
    scratch = [Before]
    metadata = {"render_fps": 20, "figures": ("x_position",)}
    training = TRAINING
    sweep = SWEEP

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        p = self.parameters
        for least, most in (("ankle_lower", "ankle_upper"), ("healthy_z_low", "healthy_z_high")):
            if getattr(p, least) >= getattr(p, most):
                raise ValueError(
                    f"{least} must be below {most}, which is {getattr(p, most):g}, got {getattr(p, least):g}"
                )
        self.add_constants(
            torso_radius=0.25, leg_radius=0.08, hip=0.2, knee=0.4, toe=0.8,  # metres; along x and along y
            ant_group=1, ground_group=2,
        )  # fmt: skip

    @property
    def systems(self) -> tuple[str, ...]:
        return ("contacts.h" if self.constants.contact_forces else "no_contacts.h", "systems.h")

    @property
    def archetypes(self) -> list[Archetype]:
        view = component("View", values=f32[39 if self.constants.contact_forces else 27])
        force = (ContactForce,) if self.constants.contact_forces else ()
        return [
            Archetype("Ant", Physics.body, Filter, Before, Torques, view, Facts, Reward, count=1),
            Archetype("Leg", Physics.body, Filter, Joint, count=4),  # the joint is the hip
            Archetype("Foot", Physics.body, Filter, Joint, *force, count=4),  # the joint is the ankle
            Archetype("Ground", Physics.static, Filter, count=1),
        ]

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        """400 by 300 pixels: from aside, with a camera that goes along."""
        return draw(world)
