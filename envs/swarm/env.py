"""Swarm: ships in a square arena shoot drones that come from its border in ever greater numbers.

Lengths are in half widths of the arena, which reaches from -1 to 1 in x and y; times are in steps. Each of the
``ships`` of a world is an agent, a row of the vector environment.

| action  | MultiDiscrete([5, 9])                                                                          |
|---------|------------------------------------------------------------------------------------------------|
| 0: move | 0 stay, 1 left, 2 right, 3 down, 4 up                                                          |
| 1: fire | 0 no, 1 to the right, then counter-clockwise in eighths of a turn (3 up, 5 left, 7 down, ...)  |

| observation | float32 [56]                                             | unit         | range    |
|-------------|----------------------------------------------------------|--------------|----------|
| 0, 1        | own place x, y                                           | half width   | -1 .. 1  |
| 2, 3        | own velocity x, y                                        | ship_speed   | -1 .. 1  |
| 4           | steps until the gun is loaded                            | reload       | 0 .. 1   |
| 5           | hull left                                                | hull         | 0 .. 1   |
| 6 .. 30     | the five nearest drones, nearest first, five values each |              |          |
|             | 0: 1 for a drone; 0 without one, as the other four       |              | 0 or 1   |
|             | 1, 2: place x, y, seen from the ship                     | half width   | -2 .. 2  |
|             | 3, 4: velocity x, y                                      | drone_speed  | -1 .. 1  |
| 31 .. 55    | the five nearest bullets of drones, in the same way      | bullet_speed |          |

Reward of a ship: 1 for each drone that its bullets destroy, -1 for each bullet of a drone and each drone that hits it.
Every such hit costs a point of hull. A ship without hull does nothing, is not hit, and gets no reward.
Bullets of ships pass through ships, bullets of drones through drones. In a crowd a bullet is compared with eight
targets, the oldest of those in reach. ``infos["score"]``, int32 [2]: drones that the ship destroyed in this step, hits
that it took.
Start: ships with full hull and a loaded gun, uniform in [-0.5, 0.5)^2; no drones.
End: terminated when no ship has hull left; truncated at ``max_episode_steps`` steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Entity,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    f32,
    i32,
)
from torch_batchsim.draw import Scene
from torch_batchsim.grid import Grid

from .picture import draw
from .training import SWEEP, TRAINING


class Place(Component):
    x: f32
    y: f32


class Motion(Component):  # of this step
    x: f32
    y: f32


class Hull(Component):
    left: i32  # hits that it can still take


class Gun(Component):
    wait: i32  # steps until it is loaded


class Score(Component):  # of this step
    kills: i32
    hits: i32


class Tally(Component):  # of this episode, for pictures
    kills: i32
    hits: i32


class Choice(Component):
    move: i32
    fire: i32


class View(Component):  # the module's docstring says what is where
    place: f32[2]
    velocity: f32[2]
    wait: f32
    hull: f32
    drones: f32[5, 5]
    bullets: f32[5, 5]


class Mind(Component):
    target: Entity  # the ship that the drone chases


class Shot(Component):
    owner: Entity  # who has fired: a ship, or a drone that may be no more
    left: i32  # steps to live


class Pair(Component):
    bullet: Entity
    target: Entity
    hit: i32


class Swarm(Environment):
    libraries = (Grid,)  # of drones, for the bullets
    constants = Constants(
        ships=Option(1, minimum=1, maximum=8, help="agents"),
        drones=Option(128, minimum=16, maximum=128, help="that may live in a world at once; others do not come"),
    )
    parameters = Parameters(
        hull=Option(5, minimum=1, help="hits that end a ship"),
        reload=Option(5, minimum=1, help="steps from one shot of a ship to the next"),
        ship_speed=Option(0.03, above=0.0, maximum=0.5, help="half widths per step"),
        drone_speed=Option(0.015, above=0.0, maximum=0.1, help="half widths per step"),
        bullet_speed=Option(0.06, above=0.0, maximum=0.5, help="half widths per step"),
        bullet_life=Option(30, minimum=1, maximum=32, help="steps"),
        radius=Option(0.05, above=0.0, maximum=0.5, help="half widths; of ships and drones (bullets are points)"),
        drone_reload=Option(40, minimum=16, help="steps in which each drone fires about once"),
        spawn_rate=Option(0.1, minimum=0.0, help="drones per step in the first step (at most 4 come in one)"),
        spawn_growth=Option(0.0015, minimum=0.0, help="what is added to it with each step"),
        max_episode_steps=Option(300, minimum=1),
    )
    start = TaskGraph("place_ships")
    step = TaskGraph(
        "steer", "spawn_drones", "choose_target", "chase", "move", "expire",
        "sort_drones", "find_contacts", "resolve", "strike", "ram", "pay", "judge",
    )  # fmt: skip
    observe = TaskGraph("look")
    observation, action = "Ship.View", "Ship.Choice"
    action_space = MultiDiscrete([5, 9])
    info = {"score": "Ship.Score"}
    metadata = {"render_fps": 20}
    training = TRAINING
    sweep = SWEEP

    @property
    def library_options(self) -> dict[str, dict[str, int]]:
        return {"grid": {"rows": self.constants.drones}}

    @property
    def archetypes(self) -> list[Archetype]:
        # Room grows between steps, to twice as much when three quarters are used. So it is enough where a step adds no
        # more than a quarter: at most 4 drones; and bullets of 8 ships and of every 16th drone of 128, 16. These live
        # for 32 steps at most, so the limit holds all that there can be.
        of_ship = Place, Motion, Hull, Gun, Score, Tally, Choice, View, Reward
        ships = Archetype("Ship", *of_ship, count=self.constants.ships)
        drones = Archetype("Drone", Place, Motion, Hull, Mind, capacity=16, limit=self.constants.drones)
        bullets = Archetype("Bullet", Place, Motion, Shot, capacity=64, limit=512)
        contacts = Archetype("Contact", Pair, capacity=self._most_contacts(), ephemeral=True)
        return [ships, drones, bullets, contacts]

    def _most_contacts(self) -> int:
        """Pairs come in bursts, which growth would be late for. A bullet is in 8 of them at most."""
        p, ships = self.parameters, self.constants.ships
        of_ships = ships * -(-p.bullet_life // p.reload)
        of_drones = -(-self.constants.drones // p.drone_reload) * p.bullet_life
        return 8 * of_ships + ships * of_drones

    @property
    def observation_space(self) -> Box:
        own, seen = [1, 1, 1, 1, 1, 1], [1, 2, 2, 1, 1]
        high = np.array(own + 10 * seen, np.float32)
        low = -high
        low[[4, 5]] = low[6::5] = 0
        return Box(low, high, dtype=np.float32)

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        p = self.parameters
        return draw(world, p.radius, p.hull, p.max_episode_steps)
