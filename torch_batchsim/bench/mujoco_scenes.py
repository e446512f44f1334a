"""MuJoCo's models of scenes, and their simulation by MuJoCo as a reference.

A scene becomes a model in MJCF, MuJoCo's format (https://mujoco.readthedocs.io/en/stable/XMLreference.html). Each
scene's joints must form a forest whose roots are ``a``. MuJoCo has no restitution, one coefficient of friction (the
static one is taken) and soft contacts, which are made as stiff as the time step allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import MissingExtra
from .scenes import AXES, Body, Joint, Scene, Shape, Trajectory, conjugate, matrices, product

LONGEST_TIMESTEP = 2e-4  # of the reference


def mujoco() -> ModuleType:
    """The package. Raises MissingExtra where it is missing."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        sentence = "this needs mujoco, which is not installed: pip install mujoco brings it"
        raise MissingExtra(sentence, name="mujoco") from error
    return mujoco


def mjcf(scene: Scene, timestep: float, options: str = "", stiff: bool = True, pushed: Sequence[str] = ()) -> str:
    """The model's text.

    Args:
        scene: bodies, joints and gravity.
        timestep: seconds.
        options: further attributes of ``<option>``, such as ``iterations="10"``.
        stiff: contacts, limits and friction as hard as ``timestep`` allows, for a reference; else MuJoCo's defaults.
        pushed: bodies that get three actuators each, in this order: forces along own x and y, the torque about own z.

    Raises ValueError for locks that no joint of MuJoCo has.
    """
    children: dict[str | None, list[Joint]] = {}
    for joint in scene.joints:
        children.setdefault(joint.a, []).append(joint)
    jointed = {joint.b for joint in scene.joints}
    parts, meshes = [], {}
    for body in scene.bodies:
        if body.shape.kind == "hull":
            meshes.setdefault((body.shape.vertices, body.shape.size), f"mesh_{len(meshes)}")
    writer = _Writer(scene, children, meshes, pushed)
    for body in scene.bodies:
        if body.kind == "static":
            parts.append(writer.geom(body, _pose(body.position, body.rotation)))
        elif body.name not in jointed:
            parts.append(writer.body(body, None, None))
    parts += [writer.body(writer.named[joint.b], None, joint) for joint in children.get(None, ())]
    assets = "".join(
        f'<mesh name="{name}" inertia="exact" vertex="{_numbers(np.ravel(vertices))}" scale="{_numbers(size)}"/>'
        for (vertices, size), name in meshes.items()
    )
    hard = f'solref="{2 * float(timestep)} 1" solimp="0.99 0.999 0.0001 0.5 2"' if stiff else ""
    limits = hard.replace("solref", "solreflimit").replace("solimp", "solimplimit")
    cone = 'cone="elliptic" impratio="100"' if stiff else ""
    return (
        f'<mujoco model="{scene.name}"><compiler angle="radian"/>'
        f'<option timestep="{timestep}" gravity="{_numbers(scene.gravity)}" {cone} {options}/>'
        f"<default><geom {hard}/><joint {limits}/></default>"
        f"<asset>{assets}</asset><worldbody>{''.join(parts)}</worldbody>"
        f"<actuator>{''.join(writer.actuators)}</actuator></mujoco>"
    )


class _Writer:
    """Writes bodies; collects the actuators on the way."""

    def __init__(
        self, scene: Scene, children: dict[str | None, list[Joint]], meshes: dict[Any, str], pushed: Sequence[str]
    ) -> None:
        self.named = {body.name: body for body in scene.bodies}
        self.children, self.meshes, self.pushed = children, meshes, pushed
        self.actuators: list[str] = []
        for name in pushed:
            for gear in ("1 0 0 0 0 0", "0 1 0 0 0 0", "0 0 0 0 0 1"):
                self.actuators.append(f'<motor site="push_{name}" gear="{gear}"/>')

    def body(self, body: Body, parent: Body | None, joint: Joint | None) -> str:
        """A body with its children; ``joint`` connects it with ``parent``, or with the world."""
        position, rotation = body.position, body.rotation
        if parent is not None:
            back = matrices(parent.rotation).T
            position = tuple(back @ np.subtract(body.position, parent.position))
            rotation = product(conjugate(parent.rotation), body.rotation)
        inner = [self.geom(body), self._joint(body, joint) if joint else self._freedom(body)]
        if body.name in self.pushed:
            inner.append(f'<site name="push_{body.name}"/>')
        inner += [self.body(self.named[next_one.b], body, next_one) for next_one in self.children.get(body.name, ())]
        mocap = 'mocap="true"' if body.kind == "kinematic" else ""
        return f'<body name="{body.name}" {mocap} {_pose(position, rotation)}>{"".join(inner)}</body>'

    def geom(self, body: Body, pose: str = "") -> str:
        sizes = {
            "sphere": lambda s: _numbers(s[:1]), "capsule": lambda s: _numbers((s[0], s[2])), "box": _numbers,
            "plane": lambda s: "0 0 1",
        }  # fmt: skip
        shape: Shape = body.shape
        if shape.kind == "hull":
            what = f'type="mesh" mesh="{self.meshes[shape.vertices, shape.size]}"'
        else:
            what = f'type="{shape.kind}" size="{sizes[shape.kind](shape.size)}"'
        mass = f'mass="{body.mass}"' if body.kind == "dynamic" else ""
        return f'<geom {what} {mass} friction="{body.material.static_friction} 0 0" {pose}/>'

    @staticmethod
    def _freedom(body: Body) -> str:
        """Joints that let a body without any move."""
        if body.kind != "dynamic":
            return ""
        if not body.locks:
            damping = f'damping="{body.drag[0]}"' if any(body.drag) else ""
            return f'<joint name="{body.name}" type="free" {damping}/>'
        free = [axis for axis in AXES if axis not in body.locks]
        turns = [axis for axis in free if axis.startswith("r")]
        if len(turns) == 2:
            raise ValueError(f"{body.name} turns about two axes of the world, which no joint of MuJoCo lets it")
        joints = []
        for axis in free:
            if axis in turns and len(turns) == 3:
                continue
            kind, damping = ("hinge", body.drag[1]) if axis in turns else ("slide", body.drag[0])
            direction = _numbers(float(axis[-1] == letter) for letter in "xyz")
            joints.append(f'<joint name="{body.name}_{axis}" type="{kind}" axis="{direction}" damping="{damping}"/>')
        if len(turns) == 3:
            joints.append(f'<joint name="{body.name}_r" type="ball" damping="{body.drag[1]}"/>')
        return "".join(joints)

    def _joint(self, body: Body, joint: Joint) -> str:
        if joint.kind == "fixed":
            return ""
        back = matrices(body.rotation).T
        kind = {"hinge": "hinge", "slider": "slide", "ball": "ball"}[joint.kind]
        pos, axis = back @ np.subtract(joint.anchor, body.position), back @ np.array(joint.axis)
        limits = "" if joint.limits is None else f'limited="true" range="{_numbers(joint.limits)}"'
        name = f"{body.name}_{joint.kind}"
        passive = ""
        if (motor := joint.motor) is not None:
            passive = f'damping="{motor.damping}" armature="{motor.armature}" frictionloss="{motor.friction}"'
            most = motor.drive_limit
            limited = f'forcelimited="true" forcerange="{_numbers((-most, most))}"' if most > 0 else ""
            law = f'gainprm="1" biastype="affine" biasprm="0 {-motor.drive_stiffness} {-motor.drive_damping}"'
            self.actuators.append(f'<motor name="{name}_torque" joint="{name}"/>')
            if motor.drive_stiffness > 0 or motor.drive_damping > 0:
                self.actuators.append(f'<general name="{name}" joint="{name}" {law} {limited}/>')
        along = "" if joint.kind == "ball" else f'axis="{_numbers(axis)}"'
        return f'<joint name="{name}" type="{kind}" pos="{_numbers(pos)}" {along} {limits} {passive}/>'


class MuJoCoRun:
    """A scene in MuJoCo with small time steps."""

    def __init__(self, scene: Scene, longest_timestep: float = LONGEST_TIMESTEP, options: str = "") -> None:
        self._mujoco = mujoco()
        self.scene, self.substeps = scene, int(np.ceil(scene.dt / longest_timestep))
        text = mjcf(scene, scene.dt / self.substeps, f'integrator="implicitfast" {options}')
        self.model = self._mujoco.MjModel.from_xml_string(text)
        self.data = self._mujoco.MjData(self.model)
        set_start(self._mujoco, self.model, self.data, scene)

    def simulate(self, steps: int) -> Trajectory:
        """The start and ``steps`` steps of the scene's ``dt``."""
        scene, start = self.scene, self.scene.initial()
        rows = [(start.positions[0], start.rotations[0], start.linear[0], start.angular[0])]
        for _ in range(steps):
            for _ in range(self.substeps):
                self._mujoco.mj_step(self.model, self.data)
            rows.append(self._state(start))
        return Trajectory(np.arange(steps + 1) * scene.dt, *map(np.stack, zip(*rows, strict=True)))

    def _state(self, start: Trajectory) -> tuple[np.ndarray, ...]:
        self._mujoco.mj_kinematics(self.model, self.data)
        self._mujoco.mj_comPos(self.model, self.data)
        self._mujoco.mj_comVel(self.model, self.data)
        columns = [column[0].copy() for column in (start.positions, start.rotations, start.linear, start.angular)]
        both = np.empty(6)
        for row, body in enumerate(self.scene.bodies):
            if body.kind == "static":
                continue
            i = self.model.body(body.name).id
            self._mujoco.mj_objectVelocity(self.model, self.data, self._mujoco.mjtObj.mjOBJ_BODY, i, both, 0)
            values = (self.data.xipos[i], self.data.xquat[i], both[3:], both[:3])
            for column, value in zip(columns, values, strict=True):
                column[row] = value
        return tuple(columns)


def set_start(module: ModuleType, model: Any, data: Any, scene: Scene) -> None:
    """Write the scene's velocities, forces and targets of motors."""
    named = {body.name: body for body in scene.bodies}
    jointed = {joint.b: joint for joint in scene.joints}
    for body in scene.bodies:
        if body.kind != "dynamic":
            continue
        data.xfrc_applied[model.body(body.name).id] = (*body.force, *body.torque)
        to_own = matrices(body.rotation).T
        if body.name not in jointed and not body.locks:
            data.joint(body.name).qvel[:] = (*body.linear, *(to_own @ np.array(body.angular)))
        elif body.name not in jointed:
            for axis, velocity in zip(AXES, (*body.linear, *body.angular), strict=True):
                if axis not in body.locks:
                    data.joint(f"{body.name}_{axis}").qvel[:] = velocity
        elif (joint := jointed[body.name]).kind != "fixed":
            parent = named.get(joint.a)
            name = f"{body.name}_{joint.kind}"
            turning = np.subtract(body.angular, parent.angular if parent else 0.0)
            moving = np.subtract(body.linear, parent.linear if parent else 0.0)
            axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
            start = {"hinge": axis @ turning, "slider": axis @ moving, "ball": to_own @ turning}
            data.joint(name).qvel[:] = start[joint.kind]
            if joint.motor is not None:
                motor = joint.motor
                data.actuator(f"{name}_torque").ctrl[:] = motor.torque
                if motor.drive_stiffness > 0 or motor.drive_damping > 0:
                    push = motor.drive_stiffness * motor.drive_target + motor.drive_damping * motor.drive_rate
                    data.actuator(name).ctrl[:] = push
    module.mj_forward(model, data)


def _numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)


def _pose(position: Any, rotation: Any) -> str:
    return f'pos="{_numbers(position)}" quat="{_numbers(rotation)}"'
