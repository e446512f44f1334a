"""Scenes for csrc/physics/solver.h: bodies, shapes and joints as solver_library.cpp takes them."""

from __future__ import annotations

import ctypes

import numpy as np

from torch_batchsim.physics import JointKind
from torch_batchsim.physics.hulls import cube, pack

f32, u32 = np.float32, np.uint32
BODY = np.dtype(
    [("position", f32, 3), ("rotation", f32, 4)]
    + [(name, f32, 3) for name in ("linear", "angular", "acceleration", "force", "torque")]
    + [("inverse_mass", f32), ("inverse_inertia", f32, 6), ("kind", u32), ("locks", u32)]
    + [("still", f32), ("asleep", u32)]
)
SHAPE = np.dtype(
    [("kind", np.int32), ("world", np.int32), ("size", f32, 3), ("friction", f32, 2), ("restitution", f32)]
)
JOINT = np.dtype(
    [(name, u32) for name in ("a", "b", "axes", "limited", "broken")]
    + [(name, f32, 3) for name in ("anchor_a", "anchor_b")]
    + [(name, f32, 4) for name in ("frame_a", "frame_b")]
    + [(name, f32) for name in ("lower", "upper", "cone", "torque", "damping", "armature", "friction")]
    + [(f"drive_{name}", f32) for name in ("stiffness", "damping", "target", "rate", "limit")]
    + [("break_force", f32), ("break_torque", f32)]
    + [(name, f32, 3) for name in ("linear", "angular")]
    + [("along", f32)]
)
SETTINGS = np.dtype(
    [("time", f32), ("substeps", u32)]
    + [(name, f32) for name in ("contact_hertz", "contact_damping", "joint_hertz", "joint_damping", "push_out_speed")]
    + [("slop", f32), ("restitution_speed", f32), ("sleep", u32), ("time_to_sleep", f32)]
    + [("still_linear", f32), ("still_angular", f32)]
)
SPHERE, BOX, PLANE = 0, 2, 4
STATIC, KINEMATIC, DYNAMIC = range(3)
FIXED, HINGE, SLIDER, BALL = JointKind.FIXED, JointKind.HINGE, JointKind.SLIDER, JointKind.BALL
NO_BODY = 0xFFFFFFFF
GRAVITY = 9.8
HULLS = pack([cube()])


def pointer(array):
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


class Scene:
    """Bodies that are simulated together. Units: m, kg, s, rad."""

    def __init__(self, library, gravity=GRAVITY, **settings):
        self.library, self.gravity = library, gravity
        sizes = [library.sizes(i) for i in range(5)]
        assert sizes[:3] + sizes[4:] == [BODY.itemsize, SHAPE.itemsize, JOINT.itemsize, SETTINGS.itemsize]
        self.settings = np.zeros(1, SETTINGS)
        library.defaults(pointer(self.settings))
        for name, value in settings.items():
            self.settings[name] = value
        self.kept = np.zeros(sizes[3], np.uint8)  # contacts of the step before
        self.bodies, self.shapes, self.joints = np.zeros(0, BODY), np.zeros(0, SHAPE), np.zeros(0, JOINT)
        self.margin = 0.02

    def add(self, kind, size, position, mass=1.0, motion=DYNAMIC, friction=(0.5, 0.5), restitution=0, world=0, **more):
        """A body; ``size`` is a radius or half extents, ``more`` fields of BODY. Returns its index."""
        size = np.broadcast_to(np.asarray(size, float), 3)
        body, shape = np.zeros(1, BODY), np.zeros(1, SHAPE)
        body["position"], body["rotation"], body["kind"] = position, (1, 0, 0, 0), motion
        body["acceleration"] = (0, 0, -self.gravity)
        if motion == DYNAMIC:
            squares = size**2
            inertia = mass / 3 * (squares.sum() - squares) if kind == BOX else 0.4 * mass * squares
            body["inverse_mass"], body["inverse_inertia"][0, :3] = 1 / mass, 1 / inertia
        for name, value in more.items():
            body[name] = value
        shape["kind"], shape["world"], shape["size"] = kind, world, size
        shape["friction"], shape["restitution"] = friction, restitution
        self.bodies, self.shapes = np.append(self.bodies, body), np.append(self.shapes, shape)
        return len(self.bodies) - 1

    def ground(self, **options):
        return self.add(PLANE, 1, (0, 0, 0), motion=STATIC, **options)

    def join(self, a, b, kind, **values):
        """A joint; returns its index."""
        joint = np.zeros(1, JOINT)
        joint["a"], joint["b"], joint["axes"] = a, b, kind.axes
        joint["frame_a"] = joint["frame_b"] = (1, 0, 0, 0)
        joint["break_force"] = joint["break_torque"] = joint["drive_limit"] = np.inf
        for name, value in values.items():
            joint[name] = value
        self.joints = np.append(self.joints, joint)
        return len(self.joints) - 1

    def run(self, steps, shuffled=False):
        """Simulates; returns the bodies after each step, BODY [steps, bodies]."""
        record = np.zeros((steps, len(self.bodies)), BODY)
        self.library.simulate(
            pointer(self.bodies),
            pointer(self.shapes),
            u32(len(self.bodies)).item(),
            pointer(self.joints),
            len(self.joints),
            pointer(self.kept),
            pointer(HULLS),
            pointer(self.settings),
            ctypes.c_float(self.margin),
            steps,
            int(shuffled),
            pointer(record),
        )
        return record


def compiled(compiler, *flags):
    """solver_library.cpp, loaded."""
    loaded, said = compiler.library("solver_library.cpp", "-Og", "-DTBS_FRAMES", "-march=native", *flags)
    assert "warning" not in said, said
    loaded.sizes.restype = ctypes.c_uint32
    return loaded


def tilted(angle):
    """The quaternion that turns by an angle about y."""
    return (np.cos(angle / 2), 0, np.sin(angle / 2), 0)


def matrices(q):
    """Of unit quaternions [..., 4] (w first): [..., 3, 3] in f64."""
    w, x, y, z = np.moveaxis(q.astype(float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def momenta(bodies):
    """Linear momentum and angular momentum about the origin [..., 3], kinetic and potential energy [...].

    Of bodies [...] whose inertia is diagonal in their frame.
    """
    mass = _inverse(bodies["inverse_mass"])
    inertia = _inverse(bodies["inverse_inertia"][..., :3])
    turn = matrices(bodies["rotation"])
    own = np.einsum("...ji,...j->...i", turn, bodies["angular"].astype(float))
    spin = np.einsum("...ij,...j->...i", turn, inertia * own)
    position, velocity = bodies["position"].astype(float), bodies["linear"].astype(float)
    linear = mass[..., None] * velocity
    kinetic = 0.5 * (velocity * linear).sum(-1) + 0.5 * (inertia * own * own).sum(-1)
    potential = -mass * (bodies["acceleration"].astype(float) * position).sum(-1)
    return linear, spin + np.cross(position, linear), kinetic, potential


def _inverse(a):
    a = a.astype(float)
    return np.divide(1, a, out=np.zeros_like(a), where=a > 0)
