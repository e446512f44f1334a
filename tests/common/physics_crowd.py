"""Scenes side by side, each in a world of its own, and what may be done to a scene without changing how it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import cos, sin
from typing import Any

import numpy as np
import torch
from physics_scenes import NO_GRAVITY, WOOD, floor

from torch_batchsim import Simulator
from torch_batchsim.bench.physics_worlds import (
    Stage,
    columns,
    hull_names,
    joint_columns,
    physics_options,
    room_for,
)
from torch_batchsim.bench.scenes import (
    Body,
    Joint,
    Scene,
    Trajectory,
    Vector,
    box,
    capsule,
    product,
    sphere,
    turned,
    wedge,
)

_COLUMNS = {
    "positions": "Pose.position", "rotations": "Pose.rotation", "linear": "Velocity.linear",
    "angular": "Velocity.angular",
}  # fmt: skip


class Crowd:
    """One simulator, in whose world i the scene i happens. All scenes have the same gravity, time of a step, substeps.

    Args:
        scenes: of any numbers of bodies and joints.
        options: further ones of ``Simulator``.
    """

    def __init__(self, scenes: Sequence[Scene], **options: Any) -> None:
        self.scenes = scenes
        names = hull_names(scenes)
        counts = {
            "movers": max(len(_movers(scene)) for scene in scenes),
            "walls": max(len(scene.bodies) - len(_movers(scene)) for scene in scenes),
            "links": max(len(scene.joints) for scene in scenes),
        }
        room = {name: room_for(count, 4 if name == "links" else 8) for name, count in counts.items()}
        hulls = {name: vertices for vertices, name in names.items()}
        environment = Stage(**room, physics=physics_options(scenes[0]) | {"hulls": hulls})
        self.sim = Simulator(environment, len(scenes), **options)
        self.sim.reset(seed=0)
        self.hulls = {points: environment.libraries.physics.constants[name] for points, name in names.items()}
        self.handles: dict[tuple[int, str | None], torch.Tensor] = {}
        for table, moves in (("Mover", True), ("Wall", False)):
            rows = [(w, body) for w, s in enumerate(scenes) for body in s.bodies if (body.kind != "static") == moves]
            if rows:
                made = self._create(table, [w for w, _ in rows], columns([body for _, body in rows], self.hulls))
                self.handles |= {(w, body.name): handle for (w, body), handle in zip(rows, made, strict=True)}
        for w, s in enumerate(scenes):
            self.join(w, s)

    def join(self, world: int, scene: Scene) -> torch.Tensor:
        """Make the scene's joints in a world, bodies being where the scene has them; returns their handles."""
        if not scene.joints:
            return torch.zeros(0, 4, dtype=torch.int32)
        none = torch.zeros(4, dtype=torch.int32)
        ends = {
            f"Joint.{end}": torch.stack([self.handles.get((world, getattr(j, end)), none) for j in scene.joints])
            for end in ("a", "b")
        }
        return self._create("Link", [world] * len(scene.joints), joint_columns(scene), ends)

    def now(self, world: int) -> Scene:
        """The scene of a world as it is now, without joints."""
        state = self.read()[world]
        bodies = tuple(
            replace(
                body, position=_vector(state["positions"][i]), rotation=tuple(map(float, state["rotations"][i])),
                linear=_vector(state["linear"][i]), angular=_vector(state["angular"][i]),
            )
            for i, body in enumerate(self.scenes[world].bodies)
        )  # fmt: skip
        return replace(self.scenes[world], bodies=bodies, joints=())

    def _create(
        self, table: str, worlds: list[int], values: dict[str, np.ndarray], more: dict[str, torch.Tensor] | None = None
    ) -> torch.Tensor:
        there = self.sim.program.columns
        given = {
            f"physics.{name}": torch.from_numpy(array)
            for name, array in values.items()
            if f"{table}.physics.{name.partition('.')[0]}" in there
        }
        given |= {f"physics.{name}": tensor for name, tensor in (more or {}).items()}
        return self.sim.create(table, torch.tensor(worlds), given)

    def read(self) -> list[dict[str, np.ndarray]]:
        """Of each scene the poses and velocities of all bodies, ``[bodies, ...]`` in float64, in the scene's order."""
        states = [{name: array[0] for name, array in vars(scene.initial()).items()} for scene in self.scenes]
        for name, column in _COLUMNS.items():
            ragged = self.sim.ragged(f"Mover.physics.{column}")
            values, first = ragged.values.numpy(), ragged.first.tolist()
            for w, scene in enumerate(self.scenes):
                movers = _movers(scene)
                states[w][name][movers] = values[first[w] : first[w] + len(movers)]
        return states

    def run(self, steps: int) -> list[Trajectory]:
        """The start and ``steps`` steps of each scene. Raises WorldFault where a world has one."""
        states = [self.read()]
        for _ in range(steps):
            self.sim.step()
            states.append(self.read())
        self.sim.check_faults()
        times = np.arange(steps + 1) * self.scenes[0].dt
        return [
            Trajectory(times, **{name: np.stack([state[w][name] for state in states]) for name in _COLUMNS})
            for w in range(len(self.scenes))
        ]


def _movers(scene: Scene) -> list[int]:
    return [i for i, body in enumerate(scene.bodies) if body.kind != "static"]


# ---- what changes nothing ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Symmetry:
    """A change of a scene, and of what happens in the changed one back to what happens in the scene."""

    name: str
    change: Callable[[Scene], Scene]
    back: Callable[[Scene, Trajectory], Trajectory]

    def __str__(self) -> str:
        return self.name


_MIRROR = np.array([-1.0, 1.0, 1.0])  # of vectors; of turns it is the opposite


def _mirrored(scene: Scene) -> Scene:
    """x becomes -x. All shapes here are the same in a mirror across their own x."""

    def vector(v: Vector) -> Vector:
        return (-v[0], v[1], v[2])

    def turn(v: Vector) -> Vector:
        return (v[0], -v[1], -v[2])

    bodies = tuple(
        replace(
            body, position=vector(body.position), rotation=(body.rotation[0], *turn(body.rotation[1:])),
            linear=vector(body.linear), angular=turn(body.angular), force=vector(body.force), torque=turn(body.torque),
        )
        for body in scene.bodies
    )  # fmt: skip
    joints = tuple(
        replace(joint, anchor=vector(joint.anchor), axis=(vector if joint.kind == "slider" else turn)(joint.axis))
        for joint in scene.joints
    )
    return replace(scene, bodies=bodies, joints=joints)


def _mirrored_back(scene: Scene, run: Trajectory) -> Trajectory:
    rotations = run.rotations * (1.0, *-_MIRROR)
    return Trajectory(run.times, run.positions * _MIRROR, rotations, run.linear * _MIRROR, run.angular * -_MIRROR)


def _relabelled(scene: Scene) -> Scene:
    """All bodies and joints in the other order."""
    return replace(scene, bodies=scene.bodies[::-1], joints=scene.joints[::-1])


def _relabelled_back(scene: Scene, run: Trajectory) -> Trajectory:
    return Trajectory(run.times, *(getattr(run, name)[:, ::-1] for name in _COLUMNS))


def placed(angle: float, way: Vector) -> Symmetry:
    """Turned about z, then moved."""
    q, back = turned(angle, (0, 0, 1)), turned(-angle, (0, 0, 1))
    matrix = np.array([[cos(angle), -sin(angle), 0], [sin(angle), cos(angle), 0], [0, 0, 1]])

    def vector(v: Vector) -> Vector:
        x, y, z = map(float, matrix @ np.array(v))
        return (x, y, z)

    def point(v: Vector) -> Vector:
        x, y, z = map(float, matrix @ np.array(v) + way)
        return (x, y, z)

    def change(scene: Scene) -> Scene:
        bodies = tuple(
            replace(
                body, position=point(body.position), rotation=product(q, body.rotation), linear=vector(body.linear),
                angular=vector(body.angular), force=vector(body.force), torque=vector(body.torque),
            )
            for body in scene.bodies
        )  # fmt: skip
        joints = tuple(replace(joint, anchor=point(joint.anchor), axis=vector(joint.axis)) for joint in scene.joints)
        return replace(scene, bodies=bodies, joints=joints)

    def undo(scene: Scene, run: Trajectory) -> Trajectory:
        rotations = np.apply_along_axis(lambda r: product(back, r), -1, run.rotations)
        positions = (run.positions - way) @ matrix
        return Trajectory(run.times, positions, rotations, run.linear @ matrix, run.angular @ matrix)

    return Symmetry("moved" if angle == 0 else "turned", change, undo)


SYMMETRIES = (
    Symmetry("mirrored", _mirrored, _mirrored_back),
    Symmetry("relabelled", _relabelled, _relabelled_back),
    placed(0.0, (3.3, -7.1, 0.0)),
    placed(0.7, (0.0, 0.0, 0.0)),
)


# ---- random scenes -------------------------------------------------------------------------------------------------


def random_scene(seed: int, flying: bool = False) -> Scene:
    """4 to 10 bodies of all shapes, up to 3 joints between neighbours; they do not overlap at the start.

    Args:
        flying: without floor and gravity, and so far apart that only what is joined meets; else they fall on a heap.
    """
    random = np.random.default_rng(seed)
    count = int(random.integers(4, 11))
    bodies: list[Body] = []
    for i in range(count):
        size = random.uniform(0.15, 0.35, 3)
        shape = (sphere(size[0]), capsule(size[0] / 2, size[1]), box(*size), wedge(*2 * size))[int(random.integers(4))]
        q = random.normal(size=4)
        place = (3.0 * i, 0, 0) if flying else (*random.uniform(-0.5, 0.5, 2), 0.7 + 1.2 * i)
        bodies.append(
            Body(
                f"body_{i}", shape, _vector(place), tuple(map(float, q / np.linalg.norm(q))),  # type: ignore[arg-type]
                _vector(random.uniform(-1, 1, 3)), _vector(random.uniform(-3, 3, 3)),
                mass=float(random.uniform(0.5, 3)), material=WOOD,
            )
        )  # fmt: skip
    joints = []
    for first in random.permutation(count - 1)[: int(random.integers(0, 4))]:
        kind = ("ball", "hinge", "slider", "fixed")[int(random.integers(4))]
        a, b = bodies[first], bodies[first + 1]
        anchor = _vector(np.add(a.position, b.position) / 2)
        limits = (-0.3, 0.3) if kind == "slider" else None
        joints.append(Joint(kind, a.name, b.name, anchor, _vector(random.normal(size=3)), limits))
    if flying:
        return Scene(f"flying {seed}", tuple(bodies), tuple(joints), gravity=NO_GRAVITY, dt=1 / 30)
    return Scene(f"heap {seed}", (*bodies, floor()), tuple(joints), dt=1 / 30)


def _vector(v: Any) -> Vector:
    x, y, z = map(float, v)
    return (x, y, z)
