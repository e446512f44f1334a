"""The components of bodies, and of their contacts."""

from __future__ import annotations

from enum import IntEnum

from ..declare.schema import Component
from ..types import Entity, f32, i32, quat, u32, vec3


class MotionKind(IntEnum):
    """The values of ``Motion.kind``."""

    STATIC = 0  # never moves
    KINEMATIC = 1  # keeps its velocity, whatever pushes it
    DYNAMIC = 2


class Pose(Component):
    """Needed by every body, as is ``Shape``."""

    position: vec3  # of the centre of mass, metres
    rotation: quat  # from the body's frame to the world's, unit


class Shape(Component):
    """In the body's frame; made by ``physics::box(half_extents)`` and such."""

    kind: i32  # a ShapeKind
    hull: i32  # of a HULL: physics::Constants::<name>
    size: vec3  # metres, see csrc/physics/shapes.h


class Velocity(Component):
    """In the world's frame."""

    linear: vec3  # of the centre of mass, m/s
    angular: vec3  # rad/s


class Mass(Component):
    """Made by ``physics::mass_of(hulls, shape, kilograms)`` or ``physics::mass_of_density``."""

    inverse: f32  # 1/kg
    inverse_inertia: f32[6]  # in the body's frame: xx, yy, zz, xy, xz, yz; 1/(kg m^2)


class Part(Component):
    """A further shape of a body, on a row of its own with ``Physics.part``; the step writes its ``Pose``."""

    body: Entity  # one with Physics.body or Physics.static
    position: vec3  # in the body's frame, metres
    rotation: quat  # from the part's frame to the body's, unit


class Motion(Component):
    """How a body may move."""

    kind: i32  # a MotionKind
    locks: i32  # bits 0, 1, 2: no motion along the world's x, y, z; 3, 4, 5: no rotation about them
    gravity: f32  # times the world's
    still: f32  # seconds at rest


class Material(Component):
    """Optional; the default is the library's options. Two bodies touch with the geometric mean."""

    static_friction: f32  # greatest tangential per normal force, at rest
    dynamic_friction: f32  # the same while sliding
    restitution: f32  # share of the speed of a bounce, 0 to 1; the greater one of two bodies


class Force(Component):
    """Optional: acts in each step until it is written again, in the world's frame."""

    force: vec3  # at the centre of mass, newtons
    torque: vec3  # newton metres


class ContactForce(Component):
    """Optional: written in each step."""

    force: vec3  # of all contacts on the body or part, with friction, mean of the step, world's frame, newtons


class Contact(Component):
    """A contact of this step: rows of ``physics.Touch``, where ``events`` is given and ``Physics.report`` runs."""

    a: Entity  # a body, also where a part of it touches
    b: Entity
    position: vec3  # the mean of its points, world's frame, metres
    normal: vec3  # unit, from a to b
    impulse: f32  # along the normal in the whole step, N s


class Filter(Component):
    """Optional: two bodies collide if each one's mask has a bit of the other's group."""

    group: u32
    mask: u32
