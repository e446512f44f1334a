"""Joints: their component, and the table of their kinds for Python and C++.

A new kind is a row of ``JointKind`` and a function in csrc/physics/make.h that makes its ``Joint``. The solver knows
axes only: those of the six that a joint holds, and the one on which motor and limits act.
"""

from __future__ import annotations

from enum import IntEnum

from ..declare.schema import Component
from ..types import Entity, f32, i32, quat, vec3

_AXES = ("x", "y", "z", "rx", "ry", "rz")
# Further bits of SolverJoint::axes in csrc/physics/workspace.h.
_DRIVEN = {"": 0, "rx": 1 << 6, "x": 1 << 7}


class JointKind(IntEnum):
    """The values of ``Joint.kind``: code, axes that the joint holds, axis of its motor and limits, function in C++.

    Axes are those of the joint's frame at body ``a``, or at ``b`` if ``a`` is the world, which the solver exchanges:
    ``x`` is the motion along x, ``rx`` the rotation about x.
    """

    maker: str
    axes: int

    def __new__(cls, code: int, held: str, driven: str, maker: str) -> JointKind:
        member = int.__new__(cls, code)
        member._value_ = code
        member.maker = maker
        member.axes = sum(1 << _AXES.index(axis) for axis in held.split()) | _DRIVEN[driven]
        return member

    FIXED = 0, "x y z rx ry rz", "", "weld"
    HINGE = 1, "x y z ry rz", "rx", "hinge"
    SLIDER = 2, "y z rx ry rz", "x", "slider"
    BALL = 3, "x y z", "", "ball"


class JointDrive(IntEnum):
    """The values of ``Joint.drive``: the motor of a joint with a driven axis."""

    FREE = 0
    TO_VELOCITY = 1  # Joint.target in rad/s or m/s
    TO_POSITION = 2  # in rad or m, as a spring of Joint.hertz and Joint.damping


_FRAME = "must be finite and not 0, which the frame of an axis of length 0 is"
_NOT_BELOW_0 = "must be finite and not below 0"
_OR_INFINITE = "must be a number that is not below 0"
_IMPULSE = "must be finite, 0 of a joint that is new"

SENTENCES = tuple(
    f"{{row}}.physics.Joint.{sentence}"
    for sentence in (  # in the order of their numbers in csrc/physics/links.h
        "kind is not a JointKind, 0 to 3: physics::hinge(...) and others make a Joint; got {Joint.kind}",
        "drive is not a JointDrive, 0 to 2; got {Joint.drive}",
        "a and b are the same body; a joint holds two, or one and the world, which is Entity{{}}; got {Joint.a}",
        "anchor_a must be finite (metres), got {Joint.anchor_a}",
        "anchor_b must be finite (metres), got {Joint.anchor_b}",
        f"frame_a {_FRAME}; got {{Joint.frame_a}}",
        f"frame_b {_FRAME}; got {{Joint.frame_b}}",
        "lower must be finite (radians, or metres of a slider), got {Joint.lower}",
        "upper must be finite (radians, or metres of a slider), got {Joint.upper}",
        "lower must not be above upper (radians, or metres of a slider), got {Joint.lower} and {Joint.upper}",
        "lower and upper of a hinge must be within -pi and pi (radians), got {Joint.lower} and {Joint.upper}",
        "target must be finite (rad or m, or per second), got {Joint.target}",
        "target of a hinge TO_POSITION must be within -pi and pi (radians), got {Joint.target}",
        f"greatest {_OR_INFINITE} (N m or N), got {{Joint.greatest}}",
        f"hertz {_NOT_BELOW_0} (1/s), got {{Joint.hertz}}",
        "hertz must be above 0 where drive is TO_POSITION (1/s, the frequency of its spring), got {Joint.hertz}",
        f"damping {_NOT_BELOW_0} (1 is critical), got {{Joint.damping}}",
        f"break_force {_OR_INFINITE} (N; 0: never), got {{Joint.break_force}}",
        f"break_torque {_OR_INFINITE} (N m; 0: never), got {{Joint.break_torque}}",
        f"linear {_IMPULSE} (N s), got {{Joint.linear}}",
        f"angular {_IMPULSE} (N m s), got {{Joint.angular}}",
        f"motor {_IMPULSE} (N s or N m s), got {{Joint.motor}}",
        f"low {_IMPULSE} (N s or N m s), got {{Joint.low}}",
        f"high {_IMPULSE} (N s or N m s), got {{Joint.high}}",
        "drive and limited need the axis of a HINGE or SLIDER; got drive {Joint.drive}, limited {Joint.limited}, "
        "kind {Joint.kind}",
        "anchor_a and anchor_b are more than {joint_gap} m (the option joint_gap) apart in the world when the joint is "
        "new; got {Joint.anchor_a} and {Joint.anchor_b}, each in the frame of its body",
    )
)


class Joint(Component):
    """Holds two bodies together, or a body and the world; made by ``physics::hinge(...)`` and such.

    A row with two empty entities is unused. Frames have their origin at the anchor, their x axis is the joint's axis.
    """

    a: Entity  # a body; empty: the world
    b: Entity
    kind: i32  # a JointKind
    drive: i32  # a JointDrive
    limited: i32  # 1: lower and upper hold
    collide: i32  # 1: the two bodies collide
    broken: i32  # 1 after more than break_force or break_torque: it holds nothing
    anchor_a: vec3  # in the frame of the body or the world, metres
    anchor_b: vec3
    frame_a: quat  # from the joint's frame to that of the body or the world
    frame_b: quat
    lower: f32  # limits of the motion of b relative to a: rad, within +-pi, or metres
    upper: f32
    target: f32  # of the drive: rad or m, or per second
    greatest: f32  # of the drive, N m or N
    hertz: f32  # spring of TO_POSITION, above 0
    damping: f32  # its ratio to critical damping
    break_force: f32  # N, with motor and limits; 0: never
    break_torque: f32  # N m; 0: never
    linear: vec3  # N s on b in the last substep; the solver starts from these five
    angular: vec3  # N m s
    motor: f32
    low: f32
    high: f32


def definitions() -> str:
    """C++ of the table: ``axes_of(kind)`` as ``SolverJoint::axes`` has them, 0 for an undefined kind."""
    cases = "".join(f"        case {kind.name}: return {kind.axes};\n" for kind in JointKind)
    return (
        "TBS_FUNCTION ::tbs::u32 axes_of(::tbs::i32 kind) {\n    switch (kind) {\n"
        f"{cases}        default: return 0;\n    }}\n}}"
    )
