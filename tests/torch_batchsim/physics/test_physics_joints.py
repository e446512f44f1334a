"""Joints of the library `physics` that are made, changed and removed while a world runs."""

from __future__ import annotations

from dataclasses import replace
from math import cos, sin

import numpy as np
import pytest
import torch
from physics_crowd import Crowd
from physics_formulas import inertia
from physics_scenes import NO_GRAVITY, G, floor

from torch_batchsim import WorldFault
from torch_batchsim.bench.ants import Ants
from torch_batchsim.bench.physics_worlds import joint_columns
from torch_batchsim.bench.scenes import Body, Joint, Motor, Scene, box, sphere, to_position, to_velocity
from torch_batchsim.physics import JointKind

pytestmark = pytest.mark.full
SPEED, ARM, DT = 3.0, 1.0, 1 / 60
LOG = Body("log", box(0.3, 0.2, 0.1), mass=2.0, linear=(0.0, SPEED, 0.0))


def flight(*more: Body, **options: object) -> Scene:
    """A body that flies along y without gravity."""
    return Scene("flight", (LOG, *more), gravity=NO_GRAVITY, sleep=True, **options)  # type: ignore[arg-type]


def post(scene: Scene, kind: str = "hinge") -> Scene:
    """With a joint at a post beside the log."""
    x, y, z = scene.bodies[0].position
    return replace(scene, joints=(Joint(kind, None, "log", (x - ARM, y, z), (0, 0, 1)),))


def step(crowd: Crowd, count: int) -> None:
    for _ in range(count):
        crowd.sim.step()
    crowd.sim.check_faults()


def still(crowd: Crowd, world: int = 0) -> list[float]:
    """Seconds for which the movers of a world have been at rest."""
    ragged = crowd.sim.ragged("Mover.physics.Motion.still")
    first = int(ragged.first[world])
    return ragged.values[first : first + int(ragged.counts[world])].tolist()


def remove(crowd: Crowd, joint: torch.Tensor, world: int = 0) -> None:
    crowd.sim.destroy(torch.tensor([world]), joint[None])


def test_a_hinge_made_in_mid_flight_turns_the_way_into_a_circle() -> None:
    crowd = Crowd([flight()])
    step(crowd, 20)
    before = crowd.now(0)
    assert before.bodies[0].position == pytest.approx((0, 20 * DT * SPEED, 0), abs=1e-5)
    crowd.join(0, post(before))
    run = crowd.run(120)[0]
    # The angular momentum about the post stays.
    spin = LOG.mass * SPEED * ARM / (inertia(LOG)[2, 2] + LOG.mass * ARM**2)
    np.testing.assert_allclose(run.angular[1:, 0], np.broadcast_to((0, 0, spin), (120, 3)), atol=1e-3 * spin)
    from_post = run.positions[:, 0] - (-ARM, 20 * DT * SPEED, 0)
    angle = spin * run.times
    expected = ARM * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    assert np.linalg.norm(from_post - expected, axis=1).max() < 0.005


def test_a_body_flies_on_along_the_tangent_without_its_joint() -> None:
    scene = flight()
    spin = 2.5
    on_circle = replace(LOG, linear=(0.0, spin * ARM, 0.0), angular=(0.0, 0.0, spin))
    crowd = Crowd([post(replace(scene, bodies=(on_circle,)))])
    joint = crowd.sim.entities("Link").values[0]
    step(crowd, 37)
    remove(crowd, joint)
    run = crowd.run(60)[0]
    angle = spin * 37 * DT
    start, way = np.array([cos(angle) - 1, sin(angle), 0]) * ARM, np.array([-sin(angle), cos(angle), 0]) * spin * ARM
    np.testing.assert_allclose(run.positions[:, 0], start + way * run.times[:, None], atol=0.005)
    np.testing.assert_array_equal(run.linear[:, 0], np.broadcast_to(run.linear[0, 0], (61, 3)))
    np.testing.assert_allclose(run.angular[:, 0], np.broadcast_to((0, 0, spin), (61, 3)), atol=1e-3)


def test_a_joint_to_a_destroyed_body_is_a_fault_until_it_is_let_go() -> None:
    bob = Body("bob", sphere(0.2), (1.0, 0.0, 0.0))
    scene = replace(flight(bob), joints=(Joint("ball", "log", "bob", (0.5, 0.0, 0.0)),))
    crowd, free, alone = Crowd([scene, scene, scene]), Crowd([scene, scene]), Crowd([scene])
    for run in (crowd, free, alone):
        step(run, 10)
    crowd.sim.destroy(torch.tensor([1]), crowd.handles[1, "bob"][None])
    with pytest.raises(WorldFault, match=r"world 1: .*simulate.*Link\[0\]\.physics\.Joint\.b is not a body") as raised:
        step(crowd, 1)
    assert raised.value.mask.tolist() == [False, True, False]
    step(alone, 1)
    for world in (0, 2):
        assert crowd.now(world).bodies == alone.now(0).bodies
    # Let go, the other body flies on.
    free.sim.destroy(torch.tensor([1]), free.handles[1, "bob"][None])
    joints = free.sim.entities("Link")
    remove(free, joints.values[int(joints.first[1])], world=1)
    log = free.sim.ragged("Mover.physics.Velocity.linear")
    velocity = log.values[int(log.first[1])].clone()
    step(free, 30)
    assert torch.equal(log.values[int(log.first[1])], velocity)


def test_a_joint_of_an_undefined_kind_is_a_fault() -> None:
    crowd = Crowd([post(flight(), kind.name.lower()) for kind in JointKind] + [post(flight())])
    kinds = crowd.sim.ragged("Link.physics.Joint.kind")
    kinds.values[int(kinds.first[len(JointKind)])] = len(JointKind)
    with pytest.raises(WorldFault, match=r"Link\[0\]\.physics\.Joint\.kind is not a JointKind.*bad_joint") as raised:
        step(crowd, 1)
    assert raised.value.mask.tolist() == [False] * len(JointKind) + [True]


@pytest.mark.parametrize("cleared", [True, False])
def test_a_row_is_used_again_for_another_body(cleared: bool) -> None:
    """Also where what the solver keeps in it, here of a heavy load, is left in it."""
    heavy = Body("heavy", box(0.5, 0.5, 0.5), (5.0, 0.0, 0.0), mass=100.0, force=(0.0, 0.0, -2000.0))
    scene = Scene("row", (replace(LOG, linear=(0.0, 0.0, 0.0)), heavy), gravity=NO_GRAVITY, sleep=True)
    crowd = Crowd([replace(scene, joints=(Joint("fixed", None, "heavy", (4.0, 0.0, 0.0)),))])
    step(crowd, 30)
    rows = {name: crowd.sim.ragged(f"Link.physics.Joint.{name}").values for name in ("b", "linear", "angular")}
    assert float(rows["linear"][0, 2]) / (DT / 4) == pytest.approx(2000.0, rel=1e-3)
    joint = replace(scene, joints=(Joint("fixed", None, "log", (0.0, 0.0, 0.0)),))
    for name, values in joint_columns(joint).items():
        crowd.sim.ragged(f"Link.physics.{name}").values[0] = torch.as_tensor(values[0])
    rows["b"][0] = crowd.handles[0, "log"]
    if cleared:
        for name in ("linear", "angular"):
            rows[name][0] = 0.0
    run = crowd.run(30)[0]
    assert np.abs(run.positions[:, 0]).max() < (1e-6 if cleared else 2e-3)
    assert run.linear[-1, 1, 2] == pytest.approx(-2000.0 / 100 * 30 * DT, rel=1e-4)  # let go, it falls


# ---- sleep ---------------------------------------------------------------------------------------------------------

BOB = Body("bob", sphere(0.2), (0.0, 0.0, 3.0))
CRATE = Body("crate", box(0.3, 0.3, 0.3), (4.0, 0.0, 0.3))
OTHER = Body("other", box(0.3, 0.3, 0.3), (8.0, 0.0, 0.3))


def asleep(*joints: Joint) -> tuple[Crowd, list[torch.Tensor]]:
    """A ball that hangs, and two crates on the floor, all asleep."""
    rope = Joint("ball", None, "bob", (0.0, 0.0, 4.0))
    crowd = Crowd([Scene("asleep", (BOB, CRATE, OTHER, floor()), (rope, *joints), sleep=True)])
    step(crowd, 60)
    assert min(still(crowd)) > 0.5 and all(body.linear == (0.0, 0.0, 0.0) for body in crowd.now(0).bodies)
    return crowd, list(crowd.sim.entities("Link").values)


def test_a_hanging_sleeper_falls_when_its_joint_is_removed() -> None:
    crowd, (rope, *_) = asleep()
    before = crowd.now(0)
    remove(crowd, rope)
    run = crowd.run(30)[0]
    fall = G / 2 * run.times * (run.times + DT / 4)  # semi-implicit Euler
    np.testing.assert_allclose(before.bodies[0].position[2] - run.positions[:, 0, 2], fall, atol=1e-3)
    assert min(still(crowd)[1:]) > 0.5 and crowd.now(0).bodies[1:] == before.bodies[1:]


def test_a_lying_sleeper_wakes_when_a_joint_is_made() -> None:
    crowd, _ = asleep()
    before = crowd.now(0)
    motor = to_velocity(2.0, 100.0)
    crowd.join(0, replace(before, joints=(Joint("hinge", None, "crate", (4.0, 0.0, 0.0), (0, 0, 1), motor=motor),)))
    step(crowd, 30)
    after = crowd.now(0)
    assert after.bodies[1].angular == pytest.approx((0, 0, 2.0), abs=0.02)
    assert after.bodies[0] == before.bodies[0] and after.bodies[2] == before.bodies[2]


def test_a_joint_wakes_both_of_its_bodies_and_their_islands() -> None:
    crowd, _ = asleep()
    crowd.join(0, replace(crowd.now(0), joints=(Joint("ball", "crate", "other", (6.0, 0.0, 0.3)),)))
    step(crowd, 1)
    hanging, *others = still(crowd)
    assert hanging > 0.5 and max(others) < 2 * DT
    step(crowd, 60)
    assert min(still(crowd)) > 0.5


@pytest.mark.parametrize("field", ["break_force", "break_torque", "drive_rate", "drive_limit"])
def test_a_sleeper_wakes_when_its_joint_gets_weaker(field: str) -> None:
    crowd, _ = asleep()
    crowd.sim.ragged(f"Link.physics.Joint.{field}").values[0] = 2.0
    step(crowd, 1)
    hanging, *others = still(crowd)
    assert hanging < 2 * DT and min(others) > 0.5
    assert int(crowd.sim.ragged("Link.physics.Joint.broken").values[0]) == (field == "break_force")


def test_a_sleeper_wakes_when_its_joint_changes() -> None:
    servo = Joint("slider", None, "crate", (4.0, 0.0, 0.3), (0, 1, 0), motor=to_position(0.0, 100.0))
    crowd, _ = asleep(servo)
    crowd.sim.ragged("Link.physics.Joint.drive_target").values[1] = 0.5
    step(crowd, 120)
    assert crowd.now(0).bodies[1].position[1] == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("motor", [to_velocity(0.03, 1e4), Motor(0.02)], ids=["rate", "torque"])
def test_a_motor_slower_than_rest_does_not_fall_asleep(motor: Motor) -> None:
    """It moves less than 0.05 m/s for longer than a body has to be at rest before it sleeps."""
    joint = Joint("slider", None, "crate", (4.0, 0.0, 0.3), (0, 1, 0), motor=motor)
    crowd = Crowd([Scene("slow", (CRATE,), (joint,), gravity=NO_GRAVITY, sleep=True)])
    step(crowd, 120)
    way = 0.03 * 2 if motor.torque == 0 else 0.5 * 0.02 / CRATE.mass * 2**2
    assert crowd.now(0).bodies[0].position[1] == pytest.approx(way, rel=0.02)
    crowd.sim.ragged("Link.physics.Joint.drive_rate").values[:] = 0.0
    crowd.sim.ragged("Link.physics.Joint.torque").values[:] = 0.0
    step(crowd, 60)
    assert min(still(crowd)) > 0.5


def test_a_body_on_legs_stands_without_creeping() -> None:
    """Joints know what contacts push before a step begins. Ankles are at their limits, which bear the torso."""
    run = Ants(4)
    for _ in range(200):
        run.advance(torch.zeros(4, 8))
    before = run.read()["positions"]
    for _ in range(200):
        run.advance(torch.zeros(4, 8))
    after = run.read()
    assert np.abs(after["positions"] - before)[:, :9].max() < 5e-5
    assert max(np.abs(after[name])[:, :9].max() for name in ("linear", "angular")) < 1e-3
    assert run.separation() < 1e-4
