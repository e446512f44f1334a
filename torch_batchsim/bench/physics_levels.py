"""The levels of levels.py in the physics library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete

from ..declare.environment import Environment
from ..declare.options import Constants, Option, Parameters
from ..declare.schema import Archetype, Component, Reward, TaskGraph
from ..physics import Force, Material, Physics
from ..rays import Rays
from ..run.simulator import Simulator
from ..types import boolean, f32, i32
from .levels import AGENTS, CUBES, DRAG, FORCE, HALF, HOLD, LONG_BOXES, RAMPS, TORQUE
from .physics_worlds import columns, component_of, hull_names, physics_options
from .scenes import Scene

BEAMS = 30  # of an agent's lidar
MOVERS = AGENTS + CUBES + LONG_BOXES + RAMPS
CONTACTS = 192  # pairs that a world has room for: fast bodies have contacts ahead of time


class Push(Component):
    x: f32  # N, in the agent's frame
    y: f32
    turn: f32  # N m
    steps: i32  # that it still lasts


class Knob(Component):
    position: i32  # without effect: an agent must have an action


class View(Component):
    height: f32


class Levels(Environment):
    """Agents that are pushed, things that they push, walls and a floor; a level is written into them after a reset."""

    systems = "physics_levels.h"
    libraries = (Physics,)
    parameters = Parameters(pushed=Option(AGENTS, minimum=0, help="of the agents; the others stand"))
    constants = Constants(
        agents=AGENTS, things=MOVERS - AGENTS, walls=21,
        force=FORCE, torque=TORQUE, hold=HOLD, drag=DRAG[0], turning_drag=DRAG[1], beams=BEAMS, reach=HALF,
    )  # fmt: skip
    step = TaskGraph("push", Physics.simulate)
    senses: tuple[type[Component], ...] = ()
    observe = TaskGraph("look")
    observation, action = "Agent.View", "Agent.Knob"
    action_space = Discrete(1)

    @property
    def archetypes(self) -> list[Archetype]:
        physics, c = self.libraries.physics, self.constants
        return [
            Archetype("Agent", Knob, Push, View, *self.senses, physics.body, Material, Force, Reward, count=c.agents),
            Archetype("Thing", physics.body, Material, count=c.things),
            Archetype("Wall", physics.static, Material, count=c.walls),
        ]


class Senses(Component):
    distance: f32[BEAMS]  # metres to the first hit of each beam of a lidar
    sees: boolean[MOVERS]  # whether the line to each agent and thing is free


class SeeingLevels(Levels):
    """The same, and each agent casts ``BEAMS`` rays and tests the line to all that moves: 150 rays, 80 lines."""

    systems = ("physics_levels.h", "physics_senses.h")
    libraries = (Physics, Rays)
    step = TaskGraph("push", Physics.simulate, Rays.gather, "sense")
    senses = (Senses,)


def make_levels(
    levels: Sequence[Scene], worlds: int, pushed: int, sleep: bool, rays: bool, **options: Any
) -> Simulator:
    """Worlds, where ``w`` has level ``w % len(levels)``; ``options`` are those of ``Simulator``."""
    environment = levels_environment(levels, pushed, sleep, rays)
    sim = Simulator(environment, worlds, **options)
    sim.reset(seed=0)
    numbers = {points: environment.libraries.physics.constants[name] for points, name in hull_names(levels).items()}
    which = torch.arange(worlds) % len(levels)
    for archetype, chosen in _ROWS.items():
        each = [columns([body for body in scene.bodies if chosen(body)], numbers) for scene in levels]
        for name in each[0]:
            if f"{archetype}.physics.{component_of(name)}" in sim.program.columns:
                values = torch.from_numpy(np.stack([one[name] for one in each]))
                sim.tensor(f"{archetype}.physics.{name}").copy_(values[which])
    return sim


def levels_environment(levels: Sequence[Scene], pushed: int, sleep: bool, rays: bool) -> Levels:
    """The environment of ``make_levels``."""
    given = physics_options(levels[0]) | {"sleep": sleep, "contacts": CONTACTS}
    return (SeeingLevels if rays else Levels)(pushed=pushed, physics=given)


_ROWS = {
    "Agent": lambda body: body.name.startswith("agent"),
    "Thing": lambda body: body.kind == "dynamic" and not body.name.startswith("agent"),
    "Wall": lambda body: body.kind == "static",
}
