"""Joints: their component, and the table of their kinds for Python and C++.

A new kind is a row of ``JointKind`` and a function in csrc/physics/make.h that makes its ``Joint``. The solver knows
axes only: those of the six that a joint holds, and the one that is driven and limited.
"""

from __future__ import annotations

from enum import IntEnum

from ..declare.schema import Component
from ..types import Entity, f32, i32, quat, u8, vec3

_AXES = ("x", "y", "z", "rx", "ry", "rz")
# Further bits of SolverJoint::axes in csrc/physics/workspace.h.
_DRIVEN = {"": 0, "rx": 1 << 6, "x": 1 << 7, "swing": 1 << 8}


class JointKind(IntEnum):
    """The values of ``Joint.kind``: code, axes that the joint holds, the one that acts, function in C++.

    Axes are those of the joint's frame at body ``a``, or at ``b`` if ``a`` is the world, which the solver exchanges:
    ``x`` is the motion along x, ``rx`` the rotation about x, ``swing`` that of x, which has limits only.
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
    BALL = 3, "x y z", "swing", "ball"


_FRAME = "must be finite and not 0, which the frame of an axis of length 0 is"
_NOT_BELOW_0 = "must be finite and not below 0"
_OR_INFINITE = "must be a number that is not below 0"
_IMPULSE = "must be finite, 0 of a joint that is new"

SENTENCES = tuple(
    f"{{row}}.physics.Joint.{sentence}"
    for sentence in (  # in the order of their numbers in csrc/physics/links.h
        "kind is not a JointKind, 0 to 3: physics::hinge(...) and others make a Joint; got {Joint.kind}",
        "a and b are the same body; a joint holds two, or one and the world, which is Entity{{}}; got {Joint.a}",
        "anchor_a must be finite (metres), got {Joint.anchor_a}",
        "anchor_b must be finite (metres), got {Joint.anchor_b}",
        f"frame_a {_FRAME}; got {{Joint.frame_a}}",
        f"frame_b {_FRAME}; got {{Joint.frame_b}}",
        "lower must be finite (radians, or metres of a slider), got {Joint.lower}",
        "upper must be finite (radians, or metres of a slider), got {Joint.upper}",
        "lower must not be above upper (radians, or metres of a slider), got {Joint.lower} and {Joint.upper}",
        "lower and upper of a hinge must be within -pi and pi (radians), got {Joint.lower} and {Joint.upper}",
        "cone must be finite, and within 0 and pi (radians) where a ball is limited; got {Joint.cone}",
        "torque must be finite (N m, or N of a slider), got {Joint.torque}",
        f"damping {_NOT_BELOW_0} (N m s/rad, or N s/m of a slider), got {{Joint.damping}}",
        f"armature {_NOT_BELOW_0} (kg m^2, or kg of a slider), got {{Joint.armature}}",
        f"friction {_NOT_BELOW_0} (N m, or N of a slider), got {{Joint.friction}}",
        f"drive_stiffness {_NOT_BELOW_0} (N m/rad, or N/m of a slider), got {{Joint.drive_stiffness}}",
        f"drive_damping {_NOT_BELOW_0} (N m s/rad, or N s/m of a slider), got {{Joint.drive_damping}}",
        "drive_target must be finite (radians, or metres of a slider), got {Joint.drive_target}",
        "drive_target of a hinge with drive_stiffness must be within -pi and pi (radians), got {Joint.drive_target}",
        "drive_rate must be finite (rad/s, or m/s of a slider), got {Joint.drive_rate}",
        f"drive_limit {_OR_INFINITE} (N m, or N of a slider; 0: none), got {{Joint.drive_limit}}",
        f"break_force {_OR_INFINITE} (N; 0: never), got {{Joint.break_force}}",
        f"break_torque {_OR_INFINITE} (N m; 0: never), got {{Joint.break_torque}}",
        f"linear {_IMPULSE} (N s), got {{Joint.linear}}",
        f"angular {_IMPULSE} (N m s), got {{Joint.angular}}",
        f"along {_IMPULSE} (N s or N m s), got {{Joint.along}}",
        "limited needs the axis of a HINGE or SLIDER, or a BALL; got limited {Joint.limited}, kind {Joint.kind}",
        "torque, damping, armature, friction and drives need the axis of a HINGE or SLIDER; got {Joint.torque}, "
        "{Joint.damping}, {Joint.armature}, {Joint.friction}, stiffness {Joint.drive_stiffness}, damping "
        "{Joint.drive_damping}, kind {Joint.kind}",
        "anchor_a and anchor_b are more than {joint_gap} m (the option joint_gap) apart in the world when the joint is "
        "new; got {Joint.anchor_a} and {Joint.anchor_b}, each in the frame of its body",
    )
)


class Joint(Component):
    """Holds two bodies together, or a body and the world; made by ``physics::hinge(...)`` and such.

    A row with two empty entities is unused. Frames have their origin at the anchor, their x axis is the joint's axis.
    Units are those of a hinge; of a slider N, m, kg. Motion is that of b relative to a, torques act on b.
    """

    a: Entity  # a body; empty: the world
    b: Entity
    kind: i32  # a JointKind
    limited: u8  # 1: lower and upper hold; of a ball: cone
    collide: u8  # 1: the two bodies collide
    broken: u8  # 1 after more than break_force or break_torque: it holds nothing
    anchor_a: vec3  # in the frame of the body or the world, metres
    anchor_b: vec3
    frame_a: quat  # from the joint's frame to that of the body or the world
    frame_b: quat
    lower: f32  # limits of the angle, within +-pi, or way
    upper: f32
    cone: f32  # rad, between the x axes of a ball's frames
    torque: f32  # of a motor, N m
    damping: f32  # N m s/rad
    armature: f32  # a rotor's inertia, kg m^2
    friction: f32  # dry, N m
    drive_stiffness: f32  # N m/rad, towards drive_target
    drive_damping: f32  # N m s/rad, towards drive_rate
    drive_target: f32  # rad
    drive_rate: f32  # rad/s
    drive_limit: f32  # N m; 0: none
    break_force: f32  # N, with all along the axis; 0: never
    break_torque: f32  # N m; 0: never
    angle: f32  # after the step, rad within +-pi; of a slider its way, of a ball its swing
    rate: f32  # rad/s
    separation: f32  # m between the anchors, in directions that are held
    linear: vec3  # N s on b in the last substep; the solver starts from these three
    angular: vec3  # N m s
    along: f32  # along or about the axis


def definitions() -> str:
    """C++ of the table: ``axes_of(kind)`` as ``SolverJoint::axes`` has them, 0 for an undefined kind."""
    cases = "".join(f"        case {kind.name}: return {kind.axes};\n" for kind in JointKind)
    return (
        "TBS_FUNCTION ::tbs::u32 axes_of(::tbs::i32 kind) {\n    switch (kind) {\n"
        f"{cases}        default: return 0;\n    }}\n}}"
    )
