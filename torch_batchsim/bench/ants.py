"""A body of nine on eight hinges, an ant, whose joints random torques move: speed, and what it keeps to.

Its shape is that of Gymnasium's Ant without the welded parts of the hips: a ball of 0.25 m, and four legs of two
capsules of 0.08 m. Density 100 kg/m^3, torques of up to 3 N m drawn anew for each step of 20 ms, 4 substeps, friction
1, joints with limits, a floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .contenders import SETTLING, Contender, Options, threads_of
from .physics_worlds import SceneRun
from .scenes import PLANE, Body, Joint, Motor, Scene, Vector, capsule, matrices, rough, sphere, turned

TORQUE = 3.0  # N m
FLIGHT = 10  # steps in the air, after which places are compared
_DENSITY, _RADIUS, _THICK, _HEIGHT = 100.0, 0.25, 0.08, 0.75
_LEGS = {"front_left": (1, 1), "front_right": (-1, 1), "back_left": (-1, -1), "back_right": (1, -1)}


def ant(in_air: bool = False) -> Scene:
    """Above the floor; or, without floor and gravity, in the air."""
    torso = Body("torso", sphere(_RADIUS), (0.0, 0.0, _HEIGHT), mass=_DENSITY * _ball(_RADIUS), material=rough(1.0))
    bodies, joints = [torso], []
    for name, (x, y) in _LEGS.items():
        hip, knee = (0.2 * x, 0.2 * y, _HEIGHT), (0.4 * x, 0.4 * y, _HEIGHT)
        length, bent = 0.4 * math.sqrt(2), 0.9  # m, rad below the horizontal
        out = 0.4 * math.cos(bent)
        end = (knee[0] + out * x, knee[1] + out * y, _HEIGHT - length * math.sin(bent))
        bodies += [_limb(f"{name}_leg", hip, knee), _limb(f"{name}_foot", knee, end)]
        across = (-y * math.sqrt(0.5), x * math.sqrt(0.5), 0.0)
        joints.append(Joint("hinge", "torso", f"{name}_leg", hip, (0.0, 0.0, 1.0), (-0.52, 0.52), Motor()))
        joints.append(Joint("hinge", f"{name}_leg", f"{name}_foot", knee, across, (-0.4, 0.4), Motor()))
    if not in_air:
        bodies.append(Body("floor", PLANE, kind="static", material=rough(1.0)))
    gravity = (0.0, 0.0, 0.0 if in_air else -9.81)
    return Scene("ant", tuple(bodies), tuple(joints), gravity, dt=0.02, substeps=4)


def _ball(radius: float) -> float:
    return 4 / 3 * math.pi * radius**3


def _limb(name: str, start: Vector, end: Vector) -> Body:
    way = np.subtract(end, start)
    length = float(np.linalg.norm(way))
    rotation = turned(math.acos(way[2] / length), np.cross((0.0, 0.0, 1.0), way))
    mass = _DENSITY * (math.pi * _THICK**2 * length + _ball(_THICK))
    x, y, z = map(float, np.add(start, end) / 2)
    return Body(name, capsule(_THICK, length / 2), (x, y, z), rotation, mass=mass, material=rough(1.0))


def depth_below_floor(positions: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """``[...]``: by how many metres the lowest point of an ant is below 0, of poses ``[..., 9 or more, 3 and 4]``."""
    halves = np.array([body.shape.size[2] if body.shape.kind == "capsule" else 0.0 for body in ant().bodies[:9]])
    radii = np.array([body.shape.size[0] for body in ant().bodies[:9]])
    ends = halves * np.abs(matrices(rotations[..., :9, :])[..., 2, 2])
    return np.maximum(0.0, -(positions[..., :9, 2] - ends - radii).min(-1))


def flights() -> np.ndarray:
    """Torques ``[ants, steps, 8]`` of flights in the air."""
    return np.random.default_rng(0).uniform(-TORQUE, TORQUE, (8, FLIGHT, 8))


class Ants(SceneRun):
    """Worlds of ants with random torques."""

    def __init__(self, worlds: int, in_air: bool = False, **options: Any) -> None:
        super().__init__(ant(in_air), worlds, **options)
        self._torque = self.rows("Link", "Joint.torque")

    def advance(self, torques: torch.Tensor) -> None:
        """A step with torques ``[worlds, 8]``, N m."""
        column, rows = self._torque
        column[rows] = torques.to(column.device)
        self.sim.step()

    def separation(self) -> float:
        """The greatest of all joints, m."""
        column, rows = self.rows("Link", "Joint.separation")
        return float(column[rows].max())

    def random(self, generator: torch.Generator) -> torch.Tensor:
        return (torch.rand(self.sim.num_worlds, 8, generator=generator) * 2 - 1) * TORQUE


def flown(**options: Any) -> Ants:
    """Behind the flights in the air."""
    torques = flights()
    run = Ants(len(torques), in_air=True, **options)
    for step in range(FLIGHT):
        run.advance(torch.from_numpy(torques[:, step]).float())
    return run


def our_ants(options: Options) -> Iterator[Contender]:
    """Ants in our physics, with what they keep to when the clock stops."""
    where = {"device": options.device, "num_threads": threads_of(options), "executor": options.executor}
    places = {"places": flown(**where).read()["positions"]} if options.beside == "mujoco" else {}
    for worlds in options.num_worlds:
        run, generator = Ants(worlds, **where), torch.Generator().manual_seed(0)
        for _ in range(SETTLING):
            run.advance(run.random(generator))
        run.sim.check_faults()
        figures = {"engine": f"torch_batchsim: {run.sim.executor}", "worlds": worlds}

        def kept(run: Ants = run) -> dict[str, Any]:
            run.sim.check_faults()
            now = run.read()
            depth = depth_below_floor(now["positions"], now["rotations"])
            return {
                "penetration_mm": float(depth.max()) * 1e3,
                "separation_mm": run.separation() * 1e3,
                **places,
            }

        batches = [run.random(generator) for _ in range(4)]
        yield Contender(figures, run.advance, batches, worlds, kept=kept)
