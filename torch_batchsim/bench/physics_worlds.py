"""Scenes in the physics library: an environment of many worlds that all begin as a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete

from ..declare.environment import Environment
from ..declare.options import Constants, Option
from ..declare.schema import Archetype, Component, Reward, TaskGraph
from ..physics import Force, Joint, JointKind, Material, MotionKind, Physics
from ..physics.hulls import convex_hull
from ..physics.shapes import ShapeKind, mass_properties
from ..run.simulator import Simulator
from ..types import i32
from . import scenes
from .scenes import AXES, WEDGE, Body, Scene, Shape, Trajectory, conjugate, product, rotated, turning_x_to

_COLUMNS = {
    "positions": "Pose.position", "rotations": "Pose.rotation", "linear": "Velocity.linear",
    "angular": "Velocity.angular",
}  # fmt: skip


class Knob(Component):
    position: i32  # without effect: an agent must have an action


class Stage(Environment):
    """Rows for bodies and joints that only physics changes; a scene is written into them after a reset."""

    systems = ()
    libraries = (Physics,)
    constants = Constants(
        movers=Option(16, minimum=1, help="room for bodies that are not static"),
        walls=Option(8, minimum=1, help="room for static bodies"),
        links=Option(4, minimum=1, help="room for joints"),
    )
    step = TaskGraph(Physics.simulate)
    observation, action = "Watcher.Knob", "Watcher.Knob"
    action_space = Discrete(1)

    @property
    def archetypes(self) -> list[Archetype]:
        physics, c = self.libraries.physics, self.constants
        return [
            Archetype("Watcher", Knob, Reward, count=1),
            Archetype("Mover", physics.body, Material, Force, capacity=c.movers),
            Archetype("Wall", physics.static, Material, capacity=c.walls),
            Archetype("Link", Joint, capacity=c.links),
        ]


def physics_options(scene: Scene) -> dict[str, Any]:
    """The library's options for a scene."""
    gravity = dict(zip(("gravity_x", "gravity_y", "gravity_z"), scene.gravity, strict=True))
    hulls = {name: vertices for vertices, name in hull_names([scene]).items()}
    names = ("substeps", "sleep", "restitution_speed")
    return {"time": scene.dt, "hulls": hulls, **{name: getattr(scene, name) for name in names}, **gravity}


def hull_names(scenes: Sequence[Scene]) -> dict[tuple[Any, ...], str]:
    """A name for each hull of the bodies, and for the wedge, so that scenes with and without one share a build."""
    vertices = (body.shape.vertices for scene in scenes for body in scene.bodies if body.shape.kind == "hull")
    return {points: f"hull_{i}" for i, points in enumerate(dict.fromkeys((WEDGE, *vertices)))}


def columns(bodies: Sequence[Body], hulls: Mapping[tuple[Any, ...], int]) -> dict[str, np.ndarray]:
    """Values ``[bodies, ...]`` of the library's columns; ``hulls`` are the numbers of the hulls, by their vertices."""
    masses = [_mass(body) for body in bodies]
    return {
        "Pose.position": np.array([body.position for body in bodies], np.float32),
        "Pose.rotation": np.array([body.rotation for body in bodies], np.float32),
        "Velocity.linear": np.array([body.linear for body in bodies], np.float32),
        "Velocity.angular": np.array([body.angular for body in bodies], np.float32),
        "Shape.kind": np.array([ShapeKind[body.shape.kind.upper()] for body in bodies], np.int32),
        "Shape.size": np.array([_size(body.shape) for body in bodies], np.float32),
        "Shape.hull": np.array([hulls.get(body.shape.vertices, 0) for body in bodies], np.int32),
        "Mass.inverse": np.array([mass for mass, _ in masses], np.float32),
        "Mass.inverse_inertia": np.array([inertia for _, inertia in masses], np.float32),
        "Motion.kind": np.array([MotionKind[body.kind.upper()] for body in bodies], np.int32),
        "Motion.locks": np.array([sum(1 << AXES.index(axis) for axis in body.locks) for body in bodies], np.int32),
        "Motion.gravity": np.ones(len(bodies), np.float32),
        "Material.static_friction": np.array([body.material.static_friction for body in bodies], np.float32),
        "Material.dynamic_friction": np.array([body.material.dynamic_friction for body in bodies], np.float32),
        "Material.restitution": np.array([body.material.restitution for body in bodies], np.float32),
        "Force.force": np.array([body.force for body in bodies], np.float32),
        "Force.torque": np.array([body.torque for body in bodies], np.float32),
    }


def component_of(field: str) -> str:
    """``Pose`` of ``Pose.position``."""
    return field.partition(".")[0]


def joint_columns(scene: Scene) -> dict[str, np.ndarray]:
    """Values ``[joints, ...]`` of all columns of the scene's joints but the bodies."""
    rows = [_joint(scene, joint) for joint in scene.joints]
    return {f"Joint.{name}": np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _joint(scene: Scene, joint: scenes.Joint) -> dict[str, Any]:
    frame = turning_x_to(joint.axis)
    row: dict[str, Any] = {"kind": np.int32(JointKind[joint.kind.upper()])}
    for end, name in (("a", joint.a), ("b", joint.b)):
        body = None if name is None else scene.bodies[scene.index(name)]
        back = conjugate(body.rotation) if body else (1.0, 0.0, 0.0, 0.0)
        row[f"anchor_{end}"] = np.float32(rotated(np.subtract(joint.anchor, body.position if body else 0.0), back))
        row[f"frame_{end}"] = np.float32(product(back, frame))
    if joint.limits is not None:
        row |= {"limited": np.uint8(1), "lower": np.float32(joint.limits[0]), "upper": np.float32(joint.limits[1])}
    else:
        row |= {"limited": np.uint8(0), "lower": np.float32(0), "upper": np.float32(0)}
    cone = 0.0 if joint.kind != "ball" or joint.limits is None else joint.limits[1]
    motor = asdict(joint.motor or scenes.Motor())
    return row | {name: np.float32(value) for name, value in (*motor.items(), ("cone", cone))}


def _size(shape: Shape) -> tuple[float, float, float]:
    """The library's size: a capsule's half length is its second number."""
    return (shape.size[0], shape.size[2], 0.0) if shape.kind == "capsule" else shape.size


def _mass(body: Body) -> tuple[float, tuple[float, ...]]:
    """1/mass, and the inverse inertia as xx, yy, zz, xy, xz, yz; zeros unless the body is dynamic."""
    if body.kind != "dynamic":
        return 0.0, (0.0,) * 6
    shape = body.shape
    hull = convex_hull(shape.vertices) if shape.kind == "hull" else None
    mass, inertia = mass_properties(ShapeKind[shape.kind.upper()], _size(shape), 1.0, hull)
    inverse = np.linalg.inv(inertia * body.mass / mass)
    return 1 / body.mass, tuple(float(inverse[place]) for place in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))


class SceneRun:
    """Worlds that all begin as the scene, until ``write`` changes them.

    Args:
        scene: bodies, joints and gravity.
        worlds: their number.
        options: of ``Simulator``: threads, device, executor.
    """

    stage: type[Stage] = Stage

    def __init__(self, scene: Scene, worlds: int = 1, **options: Any) -> None:
        self.scene = scene
        self._movers = [i for i, body in enumerate(scene.bodies) if body.kind != "static"]
        walls = [i for i, body in enumerate(scene.bodies) if body.kind == "static"]
        # Scenes of about the same size share a build.
        counts = {"movers": len(self._movers), "walls": len(walls), "links": len(scene.joints)}
        room = {name: room_for(count, 4 if name == "links" else 8) for name, count in counts.items()}
        environment = self.stage(**room, physics=physics_options(scene))
        self.sim = Simulator(environment, worlds, **options)
        self.sim.reset(seed=0)
        names = hull_names([scene])
        numbers = {points: environment.libraries.physics.constants[name] for points, name in names.items()}
        handles = {}
        for table, rows in (("Mover", self._movers), ("Wall", walls)):
            for i in rows:
                values = {name: array[0] for name, array in columns([scene.bodies[i]], numbers).items()}
                handles[scene.bodies[i].name] = self._create(table, values)
        none = torch.zeros(worlds, 4, dtype=torch.int32)
        for row, joint in enumerate(scene.joints):
            values = {name: array[row] for name, array in joint_columns(scene).items()}
            ends = {"Joint.a": handles.get(joint.a, none), "Joint.b": handles[joint.b]}
            self._create("Link", values, ends)

    def _create(
        self, table: str, values: Mapping[str, np.ndarray], more: Mapping[str, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """One row in each world; returns its handles."""
        worlds, there = self.sim.num_worlds, self.sim.program.columns
        given = {
            f"physics.{name}": torch.from_numpy(np.repeat(np.asarray(array)[None], worlds, axis=0))
            for name, array in values.items()
            if f"{table}.physics.{component_of(name)}" in there
        }
        given |= {f"physics.{name}": tensor for name, tensor in (more or {}).items()}
        return self.sim.create(table, torch.arange(worlds), given)

    def rows(self, table: str, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """A column of Mover or Link, and the numbers ``[worlds, bodies or joints]`` of each world's rows."""
        ragged = self.sim.ragged(f"{table}.physics.{name}")
        count = len(self._movers if table == "Mover" else self.scene.joints)
        return ragged.values, ragged.first.long()[:, None] + torch.arange(count, device=ragged.first.device)

    def start(self) -> dict[str, np.ndarray]:
        """The start of the scene, for ``write``: names as in ``Trajectory``, arrays ``[worlds, bodies, ...]``."""
        initial = self.scene.initial()
        return {name: np.repeat(getattr(initial, name), self.sim.num_worlds, axis=0) for name in _COLUMNS}

    def write(self, state: Mapping[str, np.ndarray]) -> None:
        """Set poses and velocities of the bodies that are not static."""
        for name, values in state.items():
            column, rows = self.rows("Mover", _COLUMNS[name])
            column[rows] = torch.from_numpy(np.asarray(values[:, self._movers], np.float32)).to(column.device)

    def read(self) -> dict[str, np.ndarray]:
        """Poses and velocities of all bodies, ``[worlds, bodies, ...]`` in float64."""
        state = self.start()
        for name, values in state.items():
            column, rows = self.rows("Mover", _COLUMNS[name])
            values[:, self._movers] = column[rows].cpu().numpy()
        return state

    def step(self) -> None:
        """One step of the scene's ``dt``. Raises WorldFault."""
        self.sim.step()
        self.sim.check_faults()


def simulate(scene: Scene, steps: int, **options: Any) -> Trajectory:
    """The start and ``steps`` steps of one world."""
    run = SceneRun(scene, **options)
    states = [run.start()]
    for _ in range(steps):
        run.step()
        states.append(run.read())
    arrays = {name: np.concatenate([state[name] for state in states]) for name in _COLUMNS}
    return Trajectory(np.arange(steps + 1) * scene.dt, **arrays)


def room_for(rows: int, least: int) -> int:
    """``least``, or a power of two times it."""
    while least < rows:
        least *= 2
    return least
