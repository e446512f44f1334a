"""What acts on the axes of joints, in worlds beside MuJoCo's, and the columns of how joints stand."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
import torch
from environments.shelf import Shelf
from physics_crowd import Crowd
from physics_scenes import NO_GRAVITY
from support import emulated_cuda, of_today

from torch_batchsim import TorchVectorEnv
from torch_batchsim.bench.mujoco_scenes import MuJoCoRun
from torch_batchsim.bench.physics_worlds import SceneRun, simulate
from torch_batchsim.bench.scenes import Body, Joint, Motor, Scene, box, matrices, turned

ROD = box(0.25, 0.05, 0.05)


def arm(name: str, *motors: Motor) -> Scene:
    """Rods in a row along x, the first on the world, with joints about y, in steps of 1/60 s with 16 substeps."""
    count = len(motors)
    bodies = tuple(Body(f"rod{i}", ROD, (0.25 + 0.5 * i, 0, 0), mass=1.0 / (1 + i)) for i in range(count))
    joints = tuple(
        Joint("hinge", f"rod{i - 1}" if i else None, f"rod{i}", (0.5 * i, 0, 0), (0, 1, 0), motor=motor)
        for i, motor in enumerate(motors)
    )
    return Scene(name, bodies, joints, substeps=16)


PASSIVE = Motor(damping=0.1, armature=0.02)
ARMS = (
    (arm("torques", Motor(-5.0, damping=0.5), Motor(0.7, damping=0.2), Motor(-0.3, damping=0.1)), 0.02),
    (arm("damped", Motor(damping=1.0), Motor(damping=0.5), Motor(damping=0.1)), 0.01),
    (arm("armatures", Motor(armature=0.3), Motor(armature=0.1), Motor(armature=0.02)), 0.01),
    (arm("dry friction", Motor(friction=1.0), Motor(friction=0.3), Motor(friction=0.2)), 0.02),
    (
        arm("to positions", *(replace(PASSIVE, drive_stiffness=k, drive_damping=k / 20, drive_target=at)
                              for k, at in ((200.0, -0.5), (50.0, 0.7), (10.0, -0.3)))),
        0.01,
    ),
    (
        arm("to positions, weak", *(replace(PASSIVE, drive_stiffness=k, drive_damping=k / 20, drive_limit=k / 40)
                                    for k in (200.0, 50.0, 10.0))),
        0.02,
    ),
    (arm("to rates", *(replace(PASSIVE, drive_damping=5.0, drive_rate=r) for r in (-0.5, 1.0, -2.0))), 0.01),
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("scene", "tolerance"), ARMS, ids=[scene.name for scene, _ in ARMS])
def test_an_arm_moves_as_mujoco_has_it(scene: Scene, tolerance: float) -> None:
    steps = scene.steps(1.0)
    ours, theirs = simulate(scene, steps).positions, MuJoCoRun(scene).simulate(steps).positions
    away = np.linalg.norm(ours - theirs, axis=2)
    assert away.max() <= tolerance, f"{away.max(0)} m, at the end {away[-1]}"
    assert np.ptp(ours[:, -1], axis=0).max() > 0.05


def columns(run: SceneRun) -> dict[str, np.ndarray]:
    return {
        name: run.sim.ragged(f"Link.physics.Joint.{name}").packed()[0].numpy().astype(float)
        for name in ("angle", "rate", "separation", "along")
    }


@pytest.mark.parametrize("post", [None, "post"], ids=["world", "post"])
def test_angle_rate_and_separation_are_those_after_the_step(post: str | None) -> None:
    """Of joints that are made where the bodies stand turned, to the world or to a post that moves and turns."""
    axis, turn, at = np.array((0.6, 0.0, 0.8)), turned(0.7, (1, 2, 3)), turned(0.4, (0, 1, 0))
    moving = Body("post", ROD, (0, 0, -3), at, linear=(0.1, 0, 0), angular=(0, 0, 0.3), kind="kinematic")
    bodies = [Body(name, ROD, (3 * i, 0, 0), turn) for i, name in enumerate(("wheel", "sled", "bob"))]
    bodies[2] = replace(bodies[2], angular=(1, 2, 0.5))
    anchors = np.array(((0, 0, 0), (3.2, 0, 0), (6.2, 0, 0)))
    kinds, motors = ("hinge", "slider", "ball"), (Motor(0.02), Motor(-0.5), None)
    joints = [
        Joint(kind, post, body.name, tuple(anchor), tuple(axis), motor=motor)
        for kind, body, anchor, motor in zip(kinds, bodies, anchors, motors, strict=True)
    ]
    run = SceneRun(Scene("columns", (*bodies, moving), tuple(joints), gravity=NO_GRAVITY))
    assert not any(column.any() for column in columns(run).values())
    for _ in range(20):
        run.step()
        state, got = {name: values[0] for name, values in run.read().items()}, columns(run)
        rotation = np.stack([matrices(q) for q in state["rotations"]])
        carried = rotation[3] @ matrices(at).T if post else np.eye(3)  # since the start
        spin = state["angular"][3] if post else np.zeros(3)
        place = state["positions"][3] - carried @ (0, 0, -3) if post else np.zeros(3)
        speed = state["linear"][3] if post else np.zeros(3)
        now = carried @ axis
        for row, anchor in enumerate(anchors):
            turned_by = rotation[row] @ matrices(turn).T
            arm = turned_by @ (anchor - np.array(bodies[row].position))
            gap = state["positions"][row] + arm - (place + carried @ anchor)
            turning = state["angular"][row] - spin
            at_post = state["positions"][row] + arm - (state["positions"][3] if post else 0)
            going = state["linear"][row] + np.cross(state["angular"][row], arm) - speed - np.cross(spin, at_post)
            relative = carried.T @ turned_by
            about = np.array([relative[i, j] - relative[j, i] for i, j in ((2, 1), (0, 2), (1, 0))]) / 2
            swung = turned_by @ axis
            across = np.cross(now, swung) / np.linalg.norm(np.cross(now, swung)) if row == 2 else now
            angle = (np.arctan2(about @ axis, (np.trace(relative) - 1) / 2), gap @ now, np.arccos(swung @ now))[row]
            rate = (turning @ now, going @ now, turning @ across)[row]
            apart = np.linalg.norm(gap - now * (gap @ now) if row == 1 else gap)
            said = [got[name][row] for name in ("angle", "rate", "separation")]
            assert said == pytest.approx([angle, rate, apart], abs=2e-5)
    assert (np.abs(got["angle"]) > (0.02, 0.02, 0.1)).all()


@pytest.mark.full
def test_the_work_of_a_motor_is_angle_times_torque() -> None:
    """A wheel by its column: w^2 I / 2 = torque * angle."""
    wheel = Body("wheel", box(0.4, 0.1, 0.4), mass=2.0)
    scene = Scene("wheel", (wheel,), (Joint("hinge", None, "wheel", (0, 0, 0), (0, 1, 0), motor=Motor(0.3)),),
                  gravity=NO_GRAVITY)  # fmt: skip
    run, inertia = SceneRun(scene), 2 / 3 * 2 * 0.4**2
    for _ in range(60):
        run.step()
    got = columns(run)
    assert got["rate"][0] == pytest.approx(0.3 / inertia, rel=1e-4)
    assert got["angle"][0] == pytest.approx(0.5 * 0.3 / inertia, rel=0.01)
    for _ in range(300):
        run.step()
    assert abs(columns(run)["angle"][0]) <= pi


@pytest.mark.full
def test_a_changed_torque_wakes_a_sleeper() -> None:
    crate = Body("crate", box(0.3, 0.3, 0.3), (0, 0, 0))
    joint = Joint("hinge", None, "crate", (0, 0, 0), (0, 0, 1))
    crowd = Crowd([Scene("asleep", (crate,), (joint,), gravity=NO_GRAVITY, sleep=True)])
    for _ in range(60):
        crowd.sim.step()
    crowd.sim.ragged("Link.physics.Joint.torque").values[0] = 0.5
    crowd.sim.step()
    crowd.sim.check_faults()
    assert crowd.now(0).bodies[0].angular[2] == pytest.approx(0.5 / (2 / 3 * 0.09) / 60, rel=1e-3)


@pytest.mark.parametrize("executor", of_today(["graph", "megakernel"], 1))
def test_the_axes_of_joints_have_the_same_bits_on_an_emulated_device(executor: str) -> None:
    device = {"_library": emulated_cuda("shelf", executor)}
    envs = [TorchVectorEnv(Shelf(), num_worlds=3, **options) for options in ({}, device)]
    for env in envs:
        env.reset(seed=2)
    for step in range(12):
        for env in envs:
            env.step(torch.full((env.num_envs,), step % 3, dtype=torch.int64))
        for name in ("Thing.physics.Pose.position", "Thing.physics.Velocity.angular"):
            assert torch.equal(*(env.sim.tensor(name) for env in envs)), (step, name)
        for name in ("angle", "rate", "separation", "along"):
            ours, theirs = (env.sim.ragged(f"Link.physics.Joint.{name}").packed()[0] for env in envs)
            assert torch.equal(ours, theirs), (step, name)
