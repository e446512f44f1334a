"""The library ``physics``: its options, its tables and the memory that its systems take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.shared import CHIP_OF_WARP
from ..declare.library import Library
from ..declare.options import Constants, Option, Parameters
from ..declare.schema import Archetype, Bundle, Component, TaskGraph, component
from ..types import Entity, f32, i32, u8, u16, u32, u64, vec3
from . import joints
from .components import (
    Contact,
    ContactForce,
    Filter,
    Force,
    Mass,
    Material,
    Motion,
    MotionKind,
    Part,
    Pose,
    Shape,
    Velocity,
)
from .hulls import LAYOUT, ConvexHull, convex_hull, cube, pack
from .joints import Joint, JointKind

# The most bytes that the solver has of each on a device (csrc/physics/solver.h).
_ROWS_BYTES, _BODY_BYTES, _CONTACT_BYTES, _JOINT_BYTES = 272, 208, 480, 640
_SYMMETRIC = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # places in a matrix: xx, yy, zz, xy, xz, yz


def _room(least: int, rows: int) -> int:
    """The room that a solver on a CPU has for rows: one of a few, so that environments share the compiled solver."""
    return least if rows <= least else _room(4 * least, rows)


class Physics(Library):
    """Rigid bodies: the fragment ``Physics.simulate`` moves all rows with the components of ``Physics.body``.

    An environment lists the library in ``libraries``, has ``Physics.body`` (bodies that move) and ``Physics.static``
    (bodies that stand) in archetypes, perhaps ``Physics.part`` (further shapes of bodies), and ``Physics.simulate`` in
    its task graph ``step``. With ``events``, ``Physics.report`` behind it creates a row of ``physics.Touch`` for each
    pair of shapes that has touched. See docs/physics.md.

    Args:
        hulls: convex hulls by name, each an array ``[points, 3]`` of 4 to 32 points in metres: with
            ``hulls={"wedge": points}`` the shape is ``physics::hull(physics::Constants::wedge)`` in C++. The origin
            of its frame is the hull's centroid.
        **options: the parameters and constants below.

    Raises ValueError for flat hulls and for too many vertices, TypeError for unknown options.
    """

    name = "physics"

    @property
    def systems(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("physics/simulate.h", *(("physics/report.h",) if self.constants.events else ()))

    components = (Pose, Shape, Velocity, Mass, Motion, Material, Force, Filter, Part, Joint, ContactForce, Contact)
    enums = (MotionKind, JointKind)
    definitions = joints.definitions()
    faults = {  # sentences in the order of their numbers in csrc/physics/sound.h, parts.h and links.h
        "not_finite": (
            "{row}.physics.Pose.position is not finite (metres)",
            "{row}.physics.Pose.rotation is 0: nothing has written it; that of no turn is quat{{1, 0, 0, 0}}",
            "{row}.physics.Pose.rotation is not about 1 long, or not finite: write normalize(rotation)",
            "{row}.physics.Velocity.linear is not finite (m/s)",
            "{row}.physics.Velocity.angular is not finite (rad/s)",
            "{row}.physics.Force.force is not finite (newtons)",
            "{row}.physics.Force.torque is not finite (newton metres)",
            "{row}.physics.Motion.gravity is not finite (times the world's)",
            "{row}.physics.Motion.still is not finite (seconds)",
            "{row}.physics.Part.position is not finite (metres)",
            "{row}.physics.Part.rotation is 0: nothing has written it; physics::part(body, position) makes a Part",
            "{row}.physics.Part.rotation is not about 1 long, or not finite: write normalize(rotation)",
        ),
        "bad_shape": (
            "{row}.physics.Shape.size is 0: nothing has written it; physics::box(...) and others make a Shape",
            "{row}.physics.Shape.kind is not a ShapeKind, 0 to 5",
            "{row}.physics.Shape.size must be finite and above 0 (metres)",
            "{row}.physics.Shape.hull is not the number of a hull, physics::Constants::<name>",
        ),
        "bad_mass": (
            "{row}.physics.Mass.inverse is 0 (1/kg), which a dynamic body cannot have: where nothing has written it, "
            "take physics::mass_of(hulls, shape, kilograms)",
            "{row}.physics.Mass.inverse must be finite and not below 0 (1/kg)",
            "{row}.physics.Mass.inverse_inertia must be finite and positive semidefinite (1/(kg m^2))",
            "{row}.physics.Motion.kind is not a MotionKind, 0 to 2",
        ),
        "bad_material": (
            "{row}.physics.Material.static_friction must be finite and not below 0",
            "{row}.physics.Material.dynamic_friction must be finite and not below 0",
            "{row}.physics.Material.restitution must be from 0 to 1",
        ),
        "pairs": "{value} pairs of bodies are near each other, {pairs} have room: raise the option physics.contacts",
        "contacts": "{value} pairs of bodies may touch, {contacts} have room: raise the option physics.contacts",
        "part_of_nothing": (
            "{row}.physics.Part.body is not a body of this world: empty, destroyed, a part itself, or without Pose and "
            "Shape; got {Part.body}",
        ),
        "joint_to_nothing": (
            "{row}.physics.Joint.a is not a body of this world: destroyed, a part, or without Pose and Shape; let go "
            "first",
            "{row}.physics.Joint.b is not a body of this world: destroyed, a part, or without Pose and Shape; let go "
            "first",
        ),
        "bad_joint": joints.SENTENCES,
    }
    precompiled = {  # two thirds of the time of compilers
        "physics/collide.h": (),
        "physics/solve_world.h": ("contact_forces", "room_of_movers", "room_of_contacts", "room_of_joints"),
    }
    body = Bundle(Pose, Shape, Velocity, Mass, Motion)
    static = Bundle(Pose, Shape)
    part = Bundle(Pose, Shape, Part)
    simulate = TaskGraph("simulate", "simulate_touches", "simulate_contacts", "simulate_motion", "simulate_results")
    report = TaskGraph("report")
    parameters = Parameters(
        time=Option(1.0 / 30.0, above=0.0, help="seconds of a step"),
        gravity_x=Option(0.0, help="m/s^2"),
        gravity_y=Option(0.0, help="m/s^2"),
        gravity_z=Option(-9.8, help="m/s^2"),
        substeps=Option(4, minimum=1, maximum=64, help="of a step; contacts are found once a step"),
        margin=Option(0.02, minimum=0.0, help="metres; nearer surfaces are contacts"),
        restitution_speed=Option(1.0, minimum=0.0, help="m/s; slower impacts do not bounce"),
        joint_gap=Option(1.0, above=0.0, help="metres; the most between the anchors of a new joint"),
        static_friction=Option(0.5, minimum=0.0, help="of bodies without Material"),
        dynamic_friction=Option(0.5, minimum=0.0, help="of bodies without Material"),
        restitution=Option(0.0, minimum=0.0, maximum=1.0, help="of bodies without Material"),
    )
    constants = Constants(
        contacts=Option(
            0, minimum=0, maximum=65535, help="the most pairs that touch; 0: eight for each mover, four for each part"
        ),
        kept_contacts=Option(0, minimum=0, maximum=65535, help="the most whose impulses a world keeps; 0: all"),
        events=Option(0, minimum=0, maximum=65535, help="a world's room for rows of physics.Touch"),
        sleep=Option(False, help="skips bodies at rest until something wakes them"),
    )

    def __init__(self, hulls: Mapping[str, ArrayLike] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.hulls: dict[str, ConvexHull] = {}
        for name, points in (hulls or {}).items():
            try:
                self.hulls[name] = convex_hull(points)
            except ValueError as error:
                raise ValueError(f"physics: hull {name!r}: {error}") from None
        self.add_constants(hulls=1 + len(self.hulls))
        self.add_constants(**{name: 1 + number for number, name in enumerate(self.hulls)})

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        return {**super().described_options(), "hulls": "points of convex hulls by name; in Python only"}

    def prepare(self) -> None:
        bodies, movers = self.most_rows(Pose, Shape), self.most_rows(Pose, Shape, Velocity, Mass, Motion)
        parts = self.most_rows(Part)
        if parts > self.most_rows(Pose, Shape, Part):
            raise ValueError("physics.Part is on an archetype without Pose and Shape: a part has Physics.part")
        if any(self.most_rows(Part, other) for other in (Velocity, Mass, Motion, Force)):
            raise ValueError(
                "physics.Part is on an archetype with Velocity, Mass, Motion or Force: a part moves with its body, "
                "which has them"
            )
        contacts = self.constants.contacts or max(32, 8 * movers + 4 * parts)
        kept = self.constants.kept_contacts or contacts
        if kept > contacts:
            raise ValueError(f"physics.kept_contacts is {kept}, more than the {contacts} contacts of a world")
        if kept < contacts and self.constants.events:
            raise ValueError(
                f"physics.kept_contacts is {kept}, but physics.events needs all {contacts} contacts kept"
            )
        felt = self.most_rows(ContactForce)
        if felt > self.most_rows(Pose, Shape, ContactForce):
            raise ValueError(
                "physics.ContactForce is on an archetype without Pose and Shape, where nothing would write it: "
                "bodies have Physics.body or Physics.static"
            )
        if kept < contacts and felt and self.constants.sleep:
            raise ValueError(
                f"physics.kept_contacts is {kept}, but physics.ContactForce of sleeping bodies needs all {contacts} "
                "contacts kept"
            )
        self.constants = type(self.constants)({**self.constants, "contacts": contacts, "kept_contacts": kept})
        self.add_constants(contact_forces=int(felt > 0), parts=int(parts > 0))
        joints = self.most_rows(Joint)
        self.add_constants(bodies=max(bodies, 1), movers=max(movers, 1), pairs=4 * contacts, joints=max(joints, 1))
        self.add_constants(
            room_of_movers=_room(64, movers), room_of_contacts=_room(512, contacts), room_of_joints=_room(64, joints)
        )

    @cached_property
    def contacts_component(self) -> type[Component]:
        """The contacts that a world keeps from step to step: impulses, from which the solver starts.

        ``rows`` of ``count`` contacts had an impulse and are kept. ``mark`` identifies bodies by the numbers in
        ``pair``; with ``sleep``, ``held`` and ``given`` are marks of their joints and of an author's other values.
        """
        c = self.constants
        rows, number = c.kept_contacts, u8 if c.bodies <= 256 else u16
        events = {"body": Entity[c.bodies], "total": f32[rows], "normal": vec3[rows], "position": vec3[rows]}
        return component(
            "Contacts",
            count=i32,
            rows=i32,
            bodies=i32,
            joints=i32,
            impulse=f32[rows, 4],
            friction=f32[rows, 4],
            preload=f32[rows],
            feature=u16[rows, 4],
            pair=number[rows, 2],
            mark=u64[c.bodies],
            held=u32[c.bodies if c.sleep else 1],
            given=u32[c.bodies if c.sleep else 1],
            **(events if c.events else {}),
        )

    @cached_property
    def hulls_component(self) -> type[Component]:
        n = self.constants.hulls
        return component("Hulls", hull=u32[n, LAYOUT.itemsize // 4], moments=f32[n, 7])

    @cached_property
    def core_component(self) -> type[Component]:
        """Room for the ``Solver`` of csrc/physics/solve_world.h on a device, which asserts that all rows of bodies fit.

        If rows take at most three quarters of the memory on chip, the room is that memory, and contacts and joints that
        do not fit are in ``Space``. Else there is room for all.
        """
        c = self.constants
        rows = 1024 + _ROWS_BYTES * c.movers
        size = rows + _CONTACT_BYTES * c.contacts + _JOINT_BYTES * c.joints
        if 4 * rows <= 3 * CHIP_OF_WARP:
            size = min(size, CHIP_OF_WARP)
        return component("Core", memory=u32[size // 16 * 4])

    @cached_property
    def space_component(self) -> type[Component]:
        """Room for a ``Step`` of csrc/physics/gather.h on a device, which asserts that it fits."""
        c = self.constants
        words = -(-c.bodies // 32)
        size = 3584 + c.bodies * (144 + 4 * words) + 32 * words * 24 + c.pairs * 108 + (304 + _BODY_BYTES) * c.movers
        size += (32 * (words + 1) * 28 + 28 * (words + 64) + 4 * c.bodies + 1088) if c.bodies > 256 else 2048
        size += 12 * c.bodies if c.contact_forces else 0
        size += 36 * c.bodies if c.parts else 0
        size += (_CONTACT_BYTES + 192) * c.contacts + (_JOINT_BYTES + 512) * c.joints
        return component("Space", memory=u32[size // 16 * 4])

    @property
    def archetypes(self) -> list[Archetype]:
        events = self.constants.events
        return [Archetype("Touch", Contact, capacity=events, ephemeral=True)] if events else []

    @property
    def singletons(self) -> list[type[Component]]:
        return [self.contacts_component]

    @property
    def resources(self) -> list[type[Component]]:
        return [self.hulls_component]

    @property
    def workspace(self) -> list[type[Component]]:
        return [self.space_component, self.core_component]

    @property
    def lasting(self) -> list[type[Component]]:
        return [self.space_component]

    def resource_values(self) -> dict[str, np.ndarray]:
        moments = [
            [hull.volume, *(hull.moments[row, column] for row, column in _SYMMETRIC)]
            for hull in (cube(), *self.hulls.values())
        ]
        packed = pack(self.hulls.values())
        return {
            "Hulls.hull": packed.view(np.uint32).reshape(len(packed), -1),
            "Hulls.moments": np.array(moments, np.float32),
        }
