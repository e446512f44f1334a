"""Joints of csrc/physics/solver.h: what they hold, with which force, and that they keep the energy.

In a substep h gravity is given all at once, so the energy of what swings goes up and down by h / 2 of the power of
gravity: 1 % of what a fall from the horizontal sets free, with h = 1/120 s. At turning points it stays.
"""

import numpy as np
import pytest
from solver_scenes import (
    BALL,
    BOX,
    FIXED,
    GRAVITY,
    HINGE,
    NO_BODY,
    SLIDER,
    Scene,
    matrices,
    momenta,
)
from support import full_but

STEP = 1 / 30
SUBSTEP = STEP / 4
ABOUT_Y = (np.sqrt(0.5), 0, 0, np.sqrt(0.5))  # turns x into y
ABOUT_Z = (np.sqrt(0.5), 0, -np.sqrt(0.5), 0)  # turns x into z


@pytest.fixture
def library(solver_library):
    return solver_library


def energies(bodies):
    """Of all bodies together after each step."""
    return sum(value.sum(-1) for value in momenta(bodies)[2:])


def rod(scene, place, half=0.5, thick=0.05, **options):
    """A box along x of a length of twice ``half``, which meets nothing."""
    return scene.add(BOX, (half, thick, thick), place, world=len(scene.bodies), **options)


def chain(library, count, kind=HINGE, mass=lambda i: 1.0, **settings):
    """Rods along x, each at the end of the one before, the first at the origin."""
    scene = Scene(library, **settings)
    for i in range(count):
        link = rod(scene, (i + 0.5, 0, 0), mass=mass(i))
        before, end = (link - 1, (0.5, 0, 0)) if i else (NO_BODY, (0, 0, 0))
        scene.join(link, before, kind, anchor_a=(-0.5, 0, 0), anchor_b=end, frame_a=ABOUT_Y, frame_b=ABOUT_Y)
    return scene


def gaps(scene, bodies):
    """[steps, joints]: how far the anchors of hinges, balls, welds are from each other."""
    turn, ends = matrices(bodies["rotation"]), []
    for joint in scene.joints:
        a, b = joint["a"], joint["b"]
        at_a = bodies["position"][:, a] + turn[:, a] @ joint["anchor_a"].astype(float)
        at_b = joint["anchor_b"].astype(float)
        if b != NO_BODY:
            at_b = bodies["position"][:, b] + turn[:, b] @ at_b
        ends.append(np.linalg.norm(at_a - at_b, axis=-1))
    return np.stack(ends, 1)


# ---- energy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BALL, HINGE])
def test_a_pendulum_keeps_its_energy(library, kind):
    scene = chain(library, 1, kind)
    bodies = scene.run(10_000)
    energy = energies(bodies)
    whole = GRAVITY * 0.5  # set free by falling from where it begins to the lowest place
    assert np.abs(energy).max() < 0.02 * whole
    still = np.abs(bodies["angular"][:, 0, 1]) < 0.5  # at the turning points
    assert still.sum() > 100 and np.abs(energy[still]).max() < 0.01 * whole
    assert gaps(scene, bodies).max() < 1e-4


@pytest.mark.parametrize("count", [3, 10, 20])
def test_chains_gain_no_energy(library, count):
    """Their ends crack like whips: what turns by more than 0.2 rad in a substep loses energy."""
    scene = chain(library, count, BALL)
    energy = energies(scene.run(600))
    assert energy.max() < 0.01 * GRAVITY * count**2 / 2


@pytest.mark.parametrize("kind", full_but([HINGE], [BALL, HINGE]))
@pytest.mark.parametrize("speed, loss", [(20, 1e-3), (60, 0.35)])
def test_a_fast_spinner_gains_no_energy(library, kind, speed, loss):
    scene = Scene(library, gravity=0)
    body = scene.add(BOX, (0.5, 0.1, 0.05), (0.5, 0, 0), angular=(0, 0, speed), linear=(0, 0.5 * speed, 0))
    scene.join(body, NO_BODY, kind, anchor_a=(-0.5, 0, 0), frame_a=ABOUT_Z, frame_b=ABOUT_Z)
    start = energies(scene.bodies[None])[0]
    energy = energies(scene.run(10_000))
    assert energy.max() < 1.001 * start and energy.min() > (1 - loss) * start


@pytest.mark.parametrize("kind", [FIXED, HINGE, BALL])
def test_two_bodies_that_tumble_keep_energy_and_momentum(library, kind):
    scene = Scene(library, gravity=0)
    spin, apart = np.array((3.0, 5.0, 8.0)), np.array((1.2, 0, 0))
    scene.add(BOX, (0.5, 0.1, 0.2), (0, 0, 0), angular=spin, mass=2)
    scene.add(BOX, (0.5, 0.3, 0.1), apart, angular=spin, linear=np.cross(spin, apart), world=1)
    scene.join(0, 1, kind, anchor_a=(0.6, 0, 0), anchor_b=(-0.6, 0, 0))
    linear, angular, kinetic, _ = (value.sum(1) for value in momenta(scene.run(1000)))
    assert np.ptp(kinetic) < 0.005 * kinetic[0]
    assert np.abs(linear - linear[0]).max() < 1e-3 * np.linalg.norm(linear[0])
    assert np.linalg.norm(angular - angular[0], axis=-1).max() < 0.005 * np.linalg.norm(angular[0])


# ---- many joints, unequal masses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count, last", [(6, 1.0), (6, 100.0), (30, 1.0)])
def test_a_beam_of_welds_stays_where_it_is(library, count, last):
    scene = chain(library, count, FIXED, mass=lambda i: last if i == count - 1 else 1.0)
    bodies = scene.run(150)
    assert np.abs(bodies["position"][-1] - bodies["position"][0]).max() < 1e-4
    carried = np.cumsum([1.0] * (count - 1) + [last])[-1] - np.arange(count)
    force = np.linalg.norm(scene.joints["linear"], axis=-1) / SUBSTEP
    assert np.allclose(force, carried * GRAVITY, rtol=1e-3)
    arms = np.array([sum((1.0, last)[k == count - 1] * (k + 0.5 - i) for k in range(i, count)) for i in range(count)])
    assert np.allclose(np.linalg.norm(scene.joints["angular"], axis=-1) / SUBSTEP, arms * GRAVITY, rtol=1e-3)


@pytest.mark.crossed
@pytest.mark.parametrize("substeps", [4, pytest.param(8, marks=pytest.mark.full)])
@pytest.mark.parametrize("mass", [100.0, *(pytest.param(m, marks=pytest.mark.full) for m in range(80, 120, 2))])
def test_a_hundred_times_the_mass_hangs_on_a_chain(library, mass, substeps):
    """Each mass takes another way, on which the light rods whip at other moments."""
    scene = chain(library, 5, BALL, mass=lambda i: mass if i == 4 else 1.0, substeps=substeps)
    bodies = scene.run(600)
    assert energies(bodies).max() < 0.03 * 1.1 * mass * GRAVITY and np.isfinite(bodies["position"]).all()
    assert gaps(scene, bodies).max() < 0.15


def test_an_arm_is_driven_at_all_of_its_joints(library):
    scene = chain(library, 3)
    scene.joints["drive_damping"], scene.joints["drive_rate"], scene.joints["drive_limit"] = 1e4, -1.0, 1e4
    speeds = np.diff(scene.run(60)["angular"][-30:, :, 1], axis=1, prepend=0)
    assert np.allclose(speeds, 1.0, atol=0.05)


def test_an_arm_hangs_at_its_limits(library):
    scene = chain(library, 3)
    scene.joints["limited"], scene.joints["lower"], scene.joints["upper"] = 1, -0.3, 0.3
    angles = 2 * np.arcsin(scene.run(300)["rotation"][:, :, 2].astype(float))
    assert np.abs(np.diff(angles, axis=1, prepend=0)).max() < 0.35
    assert np.allclose(np.diff(angles[-1], prepend=0), 0.3, atol=0.01)


def test_joints_in_a_ring(library):
    """Four bars: what closes the ring gives way a little, and loses energy."""
    scene = Scene(library)
    down = (np.sqrt(0.5), 0, np.sqrt(0.5), 0)  # turns x into -z
    left, low, right = (
        rod(scene, place, mass=mass, rotation=turn)
        for place, mass, turn in (((0, 0, -0.5), 1, down), ((0.5, 0, -1), 2, (1, 0, 0, 0)), ((1, 0, -0.5), 1, down))
    )
    for body, speed in ((left, 1.5), (low, 3), (right, 1.5)):
        scene.bodies["linear"][body] = (speed, 0, 0)
    scene.bodies["angular"][[left, right], 1] = -3
    axes = {"frame_a": ABOUT_Y, "frame_b": ABOUT_Y}
    scene.join(left, NO_BODY, HINGE, anchor_a=(-0.5, 0, 0), **axes)
    scene.join(low, left, HINGE, anchor_a=(-0.5, 0, 0), anchor_b=(0.5, 0, 0), **axes)
    scene.join(right, low, HINGE, anchor_a=(0.5, 0, 0), anchor_b=(0.5, 0, 0), **axes)
    scene.join(right, NO_BODY, HINGE, anchor_a=(-0.5, 0, 0), anchor_b=(1, 0, 0), **axes)
    start = energies(scene.bodies[None])[0]
    bodies = scene.run(300)
    assert np.abs(energies(bodies) - start).max() < 0.02 * 4 * GRAVITY
    assert gaps(scene, bodies).max() < 2e-3


def test_a_triangle_of_welds_tumbles(library):
    scene = Scene(library, gravity=0)
    places, spin = np.array(((0, 0, 0), (1, 0, 0), (0, 1, 0)), float), np.array((1.0, 2.0, 3.0))
    bodies = [scene.add(BOX, 0.2, place, angular=spin, linear=np.cross(spin, place)) for place in places]
    for a, b in ((0, 1), (1, 2), (2, 0)):
        scene.join(bodies[a], bodies[b], FIXED, anchor_a=places[b] - places[a])
    energy = energies(scene.run(600))
    assert energy.max() < 1.001 * energy[0] and energy[-1] > 0.98 * energy[0]


# ---- made and removed -----------------------------------------------------------------------------------------------


def test_a_joint_is_made_and_removed_in_flight(library):
    """What the angular momentum about the post was, it stays; then the body flies on along the tangent."""
    scene = Scene(library, gravity=0)
    body = scene.add(BOX, (0.3, 0.2, 0.1), (0, 0, 0), mass=2, linear=(0, 3, 0))
    scene.run(30)
    assert np.allclose(scene.bodies["position"][body], (0, 3, 0), atol=1e-5)
    scene.join(body, NO_BODY, HINGE, anchor_a=(-1, 0, 0), anchor_b=(-1, 3, 0), frame_a=ABOUT_Z, frame_b=ABOUT_Z)
    spin = 2 * 3 / (1 / scene.bodies["inverse_inertia"][body, 2] + 2)
    run = scene.run(60)[:, body]
    assert np.allclose(run["angular"], (0, 0, spin), atol=2e-3 * spin)
    angle = spin * STEP * np.arange(1, 61)
    circle = np.stack([np.cos(angle) - 1, np.sin(angle) + 3, 0 * angle], 1)
    assert np.abs(run["position"] - circle).max() < 0.01
    before = scene.bodies[body].copy()
    scene.joints = scene.joints[:0]
    after = scene.run(30)[:, body]
    assert np.array_equal(after["linear"], np.broadcast_to(before["linear"], (30, 3)))
    tangent = spin * np.array((-np.sin(angle[-1]), np.cos(angle[-1]), 0))
    assert np.allclose(before["linear"], tangent, atol=0.02)
    assert np.allclose(after["position"][-1], before["position"] + before["linear"], atol=1e-4)


# ---- motors, limits, breaking ---------------------------------------------------------------------------------------


def test_limits_of_a_hinge(library):
    scene = Scene(library)
    door = scene.add(BOX, (0.5, 0.05, 1), (0.5, 0, 0), mass=5, acceleration=(0, 0, 0), angular=(0, 0, 3))
    up = (np.sqrt(0.5), 0, -np.sqrt(0.5), 0)  # turns x into z
    scene.join(door, NO_BODY, HINGE, anchor_a=(-0.5, 0, 0), frame_a=up, frame_b=up, limited=1, lower=-1, upper=0.5)
    bodies = scene.run(90)[:, door]
    angle = np.arctan2(matrices(bodies["rotation"])[:, 1, 0], matrices(bodies["rotation"])[:, 0, 0])
    assert 0.97 < angle.max() < 1.02 and np.isclose(angle[-1], 1, atol=0.02)


def test_a_fixed_joint_holds_and_breaks(library):
    scene = Scene(library)
    first = scene.add(BOX, 0.5, (0, 0, 5))
    second = scene.add(BOX, 0.5, (1.2, 0, 5), mass=2)
    scene.join(first, NO_BODY, FIXED, anchor_b=(0, 0, 5))
    joint = scene.join(second, first, FIXED, anchor_a=(-1.2, 0, 0), break_force=100)
    scene.run(150)
    assert np.allclose(scene.bodies["position"][second], (1.2, 0, 5), atol=0.01)
    assert np.isclose(np.linalg.norm(scene.joints["linear"][joint]) / SUBSTEP, 2 * GRAVITY, rtol=0.02)
    scene.bodies["force"][second] = (0, 0, -90)
    scene.run(30)
    assert scene.joints["broken"][joint] == 1 and scene.bodies["position"][second, 2] < 4
    assert np.allclose(scene.bodies["position"][first], (0, 0, 5), atol=0.01)


HELD = {"a limit": {"limited": 1}, "a drive": {"drive_damping": 1e5}}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("kind", [SLIDER, HINGE])
def test_what_drives_and_limits_bear_breaks_a_joint(library, kind, held):
    """A body whose weight only they hold: along a vertical slider, or as a torque about a horizontal hinge."""
    mass, arm = 2.0, 0.5
    load = mass * GRAVITY * (1.0 if kind == SLIDER else arm)
    name = "break_force" if kind == SLIDER else "break_torque"
    for strength, broken in ((0.9, 1), (1.1, 0)):
        scene = Scene(library)
        body = rod(scene, (arm, 0, 0), mass=mass)
        axis = {"frame_a": ABOUT_Z, "frame_b": ABOUT_Z} if kind == SLIDER else {"frame_a": ABOUT_Y, "frame_b": ABOUT_Y}
        scene.join(body, NO_BODY, kind, anchor_a=(-arm, 0, 0), **axis, **HELD[held], **{name: strength * load})
        bodies = scene.run(60)
        assert scene.joints["broken"][0] == broken
        assert (bodies["position"][-1, body, 2] < -1) == (broken == 1)
