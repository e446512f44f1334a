"""The components of bodies, and of their contacts."""

from __future__ import annotations

from enum import IntEnum

from ..declare.schema import Component
from ..types import Entity, f32, i32, quat, u32, vec3


class MotionKind(IntEnum):
    """The values of ``Motion.kind``."""

    STATIC = 0  # stands, whatever pushes it
    KINEMATIC = 1  # goes on with its velocity, whatever pushes it
    DYNAMIC = 2


class Pose(Component):
    """Where a body is. A body needs one, and a ``Shape``."""

    position: vec3  # of the centre of mass, metres
    rotation: quat  # from the body's frame to the world's, a unit quaternion


class Shape(Component):
    """What a body is, in its own frame; made by ``physics::box(half_extents)`` and such."""

    kind: i32  # a ShapeKind
    hull: i32  # of a HULL: physics::Constants::name
    size: vec3  # metres, see csrc/physics/shapes.h


class Velocity(Component):
    """How a body moves, in the world's frame."""

    linear: vec3  # of the centre of mass, m/s
    angular: vec3  # rad/s


class Mass(Component):
    """Made by ``physics::mass_of(hulls, shape, kilograms)`` or ``physics::mass_of_density``."""

    inverse: f32  # 1/kg
    inverse_inertia: f32[6]  # of the symmetric matrix, in the body's frame: xx, yy, zz, xy, xz, yz; 1/(kg m^2)


class Motion(Component):
    """Whether and how a body may move."""

    kind: i32  # a MotionKind
    locks: i32  # bits 0, 1, 2: does not move along the world's x, y, z; bits 3, 4, 5: does not turn about them
    gravity: f32  # times the world's
    still: f32  # seconds for which it has been at rest: what sleeps is not computed


class Material(Component):
    """Optional for a body; without it the library's options hold. Of two bodies the geometric mean counts."""

    static_friction: f32  # greatest tangential per normal force at rest
    dynamic_friction: f32  # the same while it slides
    restitution: f32  # share of the speed with which it bounces, 0 to 1; of two bodies the greater one counts


class Force(Component):
    """Optional for a body: what acts on it in each step, until it is written again. World's frame."""

    force: vec3  # at the centre of mass, newtons
    torque: vec3  # newton metres


class Contact(Component):
    """What touched in this step; rows of ``physics.Touch`` where ``events`` is given and ``Physics.report`` runs."""

    a: Entity
    b: Entity
    position: vec3  # the middle of the points in which they touch, world's frame, metres
    normal: vec3  # unit, from a to b
    impulse: f32  # with which they pushed each other apart in the whole step, N s


class Filter(Component):
    """Optional for a body: two collide where each one's mask has a bit of the other one's group."""

    group: u32
    mask: u32
