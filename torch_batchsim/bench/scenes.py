"""Scenes of rigid bodies as plain data, which our engine and MuJoCo both simulate.

Metres, kilograms, seconds, radians; z is up. Rotations are unit quaternions (w, x, y, z). A body's position is that of
its centre of mass, so the vertices of a hull are given from their centroid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
AXES = ("x", "y", "z", "rx", "ry", "rz")  # degrees of freedom, for locks: along the world's axes, and about them
_ZERO: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Shape:
    """The shape of a body.

    Attributes:
        size: a sphere's radius is the first; a capsule's radius the first, and half the length of its segment along z
            the last; a box's half extents; a hull's scale; unused for a plane (solid below its z = 0).
        vertices: of a hull only, before they are scaled; their hull's centroid is the origin.
    """

    kind: Literal["sphere", "capsule", "box", "hull", "plane"]
    size: Vector = (1.0, 1.0, 1.0)
    vertices: tuple[Vector, ...] = ()

    def corners(self) -> np.ndarray:
        """``[vertices, 3]`` of a hull."""
        return np.array(self.vertices, np.float64).reshape(-1, 3) * self.size


def sphere(radius: float) -> Shape:
    return Shape("sphere", (radius, radius, radius))


def capsule(radius: float, half_length: float) -> Shape:
    """Along z; from end to end it is ``2 * (half_length + radius)`` long."""
    return Shape("capsule", (radius, radius, half_length))


def box(x: float, y: float, z: float) -> Shape:
    """From its half extents."""
    return Shape("box", (x, y, z))


# A triangle times an interval of length 1 along x: its slope rises by 1 on a length of 1 along y.
WEDGE = tuple((x, y, z) for x in (-0.5, 0.5) for y, z in ((-2 / 3, -1 / 3), (1 / 3, -1 / 3), (1 / 3, 2 / 3)))


def wedge(width: float, length: float, height: float) -> Shape:
    """A ramp, ``width`` along x, whose slope rises along y from 0 to ``height``; the centroid lies at 2/3 and 1/3."""
    return Shape("hull", (width, length, height), WEDGE)


PLANE = Shape("plane")


@dataclass(frozen=True)
class Material:
    """Coefficients; touching bodies of these scenes have the same, so that no rule of combination matters."""

    static_friction: float = 0.5
    dynamic_friction: float = 0.5
    restitution: float = 0.0


def rough(friction: float, restitution: float = 0.0) -> Material:
    """Static and dynamic friction alike, as in MuJoCo."""
    return Material(friction, friction, restitution)


@dataclass(frozen=True)
class Body:
    """A body at the start.

    Attributes:
        name: of a letter and letters, digits, underscores.
        mass: kilograms; the inertia is that of a solid of uniform density.
        locks: names of AXES that it cannot move along or turn about.
        force, torque: newtons and newton metres in the world's frame, at the centre of mass, during the whole run.
        drag: forces against its motion: newtons for 1 m/s, and newton metres for 1 rad/s.
    """

    name: str
    shape: Shape
    position: Vector = _ZERO
    rotation: Quaternion = (1.0, 0.0, 0.0, 0.0)
    linear: Vector = _ZERO
    angular: Vector = _ZERO
    kind: Literal["static", "kinematic", "dynamic"] = "dynamic"
    mass: float = 1.0
    material: Material = field(default_factory=Material)
    locks: tuple[str, ...] = ()
    force: Vector = _ZERO
    torque: Vector = _ZERO
    drag: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Motor:
    """What acts on a hinge (N m, rad, kg m^2) or slider (N, m, kg): fields of ``physics.Joint``."""

    torque: float = 0.0
    damping: float = 0.0
    armature: float = 0.0
    friction: float = 0.0
    drive_stiffness: float = 0.0
    drive_damping: float = 0.0
    drive_target: float = 0.0
    drive_rate: float = 0.0
    drive_limit: float = 0.0  # 0: none


def to_position(target: float, limit: float = 0.0, stiffness: float = 1000.0, damping: float = 100.0) -> Motor:
    """Drives to a position."""
    return Motor(drive_stiffness=stiffness, drive_damping=damping, drive_target=target, drive_limit=limit)


def to_velocity(rate: float, limit: float = 0.0, damping: float = 1000.0) -> Motor:
    """Drives to a velocity."""
    return Motor(drive_damping=damping, drive_rate=rate, drive_limit=limit)


@dataclass(frozen=True)
class Joint:
    """Between body ``a`` (None is the world) and body ``b``.

    Attributes:
        kind: a name of ``physics.JointKind``, in small letters.
        anchor: its place at the start, in the world's frame.
        axis: of a hinge or slider at the start, in the world's frame.
        limits: of the angle or the way, which are 0 at the start.
    """

    kind: str
    a: str | None
    b: str
    anchor: Vector
    axis: Vector = (0.0, 0.0, 1.0)
    limits: tuple[float, float] | None = None
    motor: Motor | None = None


@dataclass(frozen=True)
class Scene:
    """Bodies, joints and gravity; a step has ``dt`` seconds and ``substeps`` substeps."""

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...] = ()
    gravity: Vector = (0.0, 0.0, -9.81)
    dt: float = 1 / 60
    substeps: int = 4
    sleep: bool = False
    restitution_speed: float = 1.0  # m/s

    def index(self, name: str) -> int:
        """The row of the body ``name`` in a trajectory. Raises KeyError for an unknown one."""
        for i, body in enumerate(self.bodies):
            if body.name == name:
                return i
        raise KeyError(f"scene {self.name} has no body {name!r}")

    def steps(self, seconds: float) -> int:
        return round(seconds / self.dt)

    def initial(self) -> Trajectory:
        """One instant: the start."""
        columns = (
            np.array([[getattr(body, name) for body in self.bodies]], np.float64)
            for name in ("position", "rotation", "linear", "angular")
        )
        return Trajectory(np.zeros(1), *columns)


@dataclass(frozen=True)
class Trajectory:
    """The results of a run, float64: the start, then one row for each step.

    Attributes:
        times: ``[steps + 1]``, seconds.
        positions: ``[steps + 1, bodies, 3]``, of the centres of mass.
        rotations: ``[steps + 1, bodies, 4]``.
        linear, angular: velocities ``[steps + 1, bodies, 3]`` in the world's frame.
    """

    times: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray
    linear: np.ndarray
    angular: np.ndarray


def turned(angle: float, axis: Sequence[float]) -> Quaternion:
    """The rotation by ``angle`` about ``axis``, of any length but 0."""
    x, y, z = np.asarray(axis, np.float64) / np.linalg.norm(axis) * math.sin(angle / 2)
    return (math.cos(angle / 2), float(x), float(y), float(z))


def conjugate(q: Sequence[float]) -> Quaternion:
    """The rotation back, of a unit quaternion."""
    return (q[0], -q[1], -q[2], -q[3])


def product(p: Sequence[float], q: Sequence[float]) -> Quaternion:
    """First ``q``, then ``p``."""
    vector = p[0] * np.array(q[1:]) + q[0] * np.array(p[1:]) + np.cross(p[1:], q[1:])
    return (p[0] * q[0] - float(np.dot(p[1:], q[1:])), *map(float, vector))


def rotated(vector: Sequence[float], q: Sequence[float]) -> np.ndarray:
    """``[3]``."""
    return matrices(np.array(q)) @ np.asarray(vector, np.float64)


def turning_x_to(axis: Sequence[float]) -> Quaternion:
    """A rotation after which the x axis points along ``axis``."""
    x, y, z = np.asarray(axis, np.float64) / np.linalg.norm(axis)
    return turned(math.atan2(math.hypot(y, z), x), (0.0, -z, y) if math.hypot(y, z) > 0 else (0.0, 0.0, 1.0))


def matrices(rotations: np.ndarray) -> np.ndarray:
    """Rotation matrices ``[..., 3, 3]`` of quaternions ``[..., 4]`` that need not have length 1."""
    q = np.asarray(rotations, np.float64)
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, -1) for row in rows], -2)
