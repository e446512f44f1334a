"""What acts on the axes of joints (csrc/physics/joint_axis.h): beside closed formulas, and in chains beside MuJoCo's.

A wheel is a box on a hinge about z, without gravity, so nothing but its axis acts.
"""

import numpy as np
import pytest
from solver_scenes import BALL, BOX, GRAVITY, HINGE, NO_BODY, SLIDER, Scene, matrices, momenta
from test_joints import ABOUT_Y, ABOUT_Z, STEP, SUBSTEP, chain, rod

ABOUT = {"frame_a": ABOUT_Z, "frame_b": ABOUT_Z}
INERTIA = 2 / 3 * (0.3**2 + 0.2**2)  # of a wheel


@pytest.fixture
def library(solver_library):
    return solver_library


def wheel(library, speed=0.0, kind=HINGE, settings=None, **values):
    """A wheel of 2 kg on the world, as body b, or a sled on a rail along z; returns its scene."""
    scene = Scene(library, gravity=0, **(settings or {}))
    motion = {"angular": (0, 0, speed)} if kind == HINGE else {"linear": (0, 0, speed)}
    body = scene.add(BOX, (0.3, 0.2, 0.1), (0, 0, 0), mass=2, **motion)
    scene.join(body, NO_BODY, kind, **ABOUT, **turned(values))
    return scene


def turned(values):
    """Of the joint whose b is the world, values as of the one whose a is the world."""
    signs = dict.fromkeys(("torque", "drive_target", "drive_rate"), -1)
    values = {name: value * signs.get(name, 1) for name, value in values.items()}
    if "lower" in values:
        values["lower"], values["upper"] = -values["upper"], -values["lower"]
    return values


def about_z(bodies, body=0):
    turn = matrices(bodies["rotation"][:, body])
    return np.unwrap(np.arctan2(turn[:, 1, 0], turn[:, 0, 0]))


OWN = {HINGE: INERTIA, SLIDER: 2.0}


def states(scene, steps, kind=HINGE):
    """Angles and rates, or ways and speeds, after each step."""
    bodies = scene.run(steps)
    if kind == HINGE:
        return about_z(bodies), bodies["angular"][:, 0, 2].astype(float)
    return bodies["position"][:, 0, 2].astype(float), bodies["linear"][:, 0, 2].astype(float)


# ---- torque ---------------------------------------------------------------------------------------------------------

kinds = pytest.mark.parametrize("kind", [HINGE, SLIDER])


@kinds
def test_a_torque_turns_a_free_wheel_by_its_inertia(library, kind):
    torque = 0.7
    _, speeds = states(wheel(library, kind=kind, torque=torque), 60, kind)
    assert np.allclose(speeds, torque / OWN[kind] * STEP * np.arange(1, 61), rtol=1e-4)


def test_a_changed_torque_acts_at_once_and_a_removed_one_no_more(library):
    scene = wheel(library, torque=0.5)
    scene.run(10)
    before = scene.bodies["angular"][0, 2]
    scene.joints["torque"] = 1.0  # of b, which is the world
    scene.run(1)
    after = scene.bodies["angular"][0, 2]
    assert np.isclose(after - before, -1.0 / INERTIA * STEP, rtol=1e-4)
    scene.joints["torque"] = 0
    scene.run(10)
    assert np.isclose(scene.bodies["angular"][0, 2], after, rtol=1e-6)


@kinds
def test_a_motor_between_free_bodies_changes_no_momentum(library, kind):
    scene = Scene(library, gravity=0)
    scene.add(BOX, (0.3, 0.2, 0.1), (0, 0, 0), mass=2, angular=(0.5, 0, 0.3))
    scene.add(BOX, (0.1, 0.4, 0.2), (0.5, 0.1, 0.4), mass=0.5, world=1, linear=(0.2, 0, 0))
    scene.join(0, 1, kind, anchor_a=(0.2, 0, 0.2), anchor_b=(-0.3, -0.1, -0.2), **ABOUT, torque=0.4)
    start = momenta(scene.bodies)
    bodies = scene.run(60)
    linear, angular, kinetic, _ = (value.sum(1) for value in momenta(bodies))
    assert np.abs(linear - start[0].sum(0)).max() < 1e-5
    assert np.abs(angular - start[1].sum(0)).max() < 2e-3
    assert kinetic[-1] > 2 * start[2].sum()


def test_a_motor_gives_the_work_of_its_torque(library):
    """In a chain, whose joints pass it on."""
    scene = chain(library, 3, gravity=0)
    scene.joints["torque"] = (0.0, 0.0, 0.3)
    bodies = scene.run(90)
    angles = 2 * np.unwrap(np.arctan2(bodies["rotation"][:, :, 2], bodies["rotation"][:, :, 0]).astype(float), axis=0)
    _, _, kinetic, _ = (value.sum(1) for value in momenta(bodies))
    work = -0.3 * (angles[:, 2] - angles[:, 1])
    assert kinetic[-1] > 0.3 and np.allclose(kinetic, work, atol=0.02 * kinetic[-1])


# ---- drives ---------------------------------------------------------------------------------------------------------


@pytest.mark.crossed
@kinds
@pytest.mark.parametrize("ratio", [0.0, 0.2, 1.5])
def test_a_spring_and_its_damping_oscillate(library, kind, ratio):
    """At a step of 1/1000 s: x'' + 2 r w x' + w^2 (x - target) = 0."""
    w, target, h, steps = 5.0, 0.6, 1e-4, 1000
    own = OWN[kind]
    scene = wheel(
        library, 0.0, kind, {"time": 10 * h, "substeps": 10},
        drive_stiffness=own * w**2, drive_damping=own * 2 * ratio * w, drive_target=target,
    )  # fmt: skip
    ways, _ = states(scene, steps, kind)
    t = 10 * h * np.arange(1, steps + 1)
    roots = w * (-ratio + np.sqrt(complex(ratio**2 - 1)) * np.array((1, -1)))
    first = -target * roots[1] / (roots[1] - roots[0])
    exact = target + (first * np.exp(roots[0] * t) + (-target - first) * np.exp(roots[1] * t)).real
    assert np.abs(ways - exact).max() < 3e-3 * target


@kinds
@pytest.mark.parametrize("stiffness", [1e2, 1e5, 1e9])
@pytest.mark.parametrize("time", [1 / 240, 1 / 10])
def test_a_drive_is_stable_at_any_stiffness_and_step(library, kind, stiffness, time):
    scene = wheel(library, 3.0, kind, {"time": time}, drive_stiffness=stiffness, drive_target=0.5)
    ways, speeds = states(scene, 240, kind)
    energy = 0.5 * OWN[kind] * speeds**2 + 0.5 * stiffness * (ways - 0.5) ** 2
    assert np.isfinite(energy).all() and energy.max() <= 0.5 * OWN[kind] * 9 + 0.5 * stiffness * 0.25
    if stiffness * time**2 > 10:
        assert np.allclose(ways[-1], 0.5, atol=1e-4) and abs(speeds[-1]) < 1e-3


def test_a_velocity_drive_approaches_its_rate(library):
    """w' = c / I (rate - w)."""
    damping, rate, time = 0.05, 4.0, 1 / 1000
    _, speeds = states(wheel(library, settings={"time": time}, drive_damping=damping, drive_rate=rate), 2000)
    t = time * np.arange(1, 2001)
    assert np.abs(speeds - rate * (1 - np.exp(-damping / INERTIA * t))).max() < 1e-3 * rate


@pytest.mark.parametrize("damping", [1e1, 1e4, 1e8])
def test_a_drive_gives_no_more_than_its_limit(library, damping):
    limit = 0.4
    _, speeds = states(wheel(library, drive_damping=damping, drive_rate=10.0, drive_limit=limit), 90)
    most = limit / INERTIA * STEP
    assert np.isclose(speeds[0], most, rtol=1e-4) and np.diff(speeds).max() < most * (1 + 1e-3)
    assert np.isclose(speeds[-1], 10.0, rtol=0.01) and speeds.max() < 10.0 * (1 + 1e-5)


def test_a_chain_is_held_by_stiff_drives(library):
    """Ten rods stay level but for what their springs give way."""
    count, stiffness = 10, 1e6
    scene = chain(library, count)
    scene.joints["drive_stiffness"], scene.joints["drive_damping"] = stiffness, 1e3
    bodies = scene.run(120)
    heights = bodies["position"][-1, :, 2]
    load = np.array([sum(k + 0.5 - i for k in range(i, count)) for i in range(count)]) * GRAVITY
    angles = np.cumsum(load / stiffness)
    ends = np.concatenate([[0], np.cumsum(angles)])[:-1]
    assert np.allclose(heights, -(ends + angles / 2), rtol=0.02, atol=1e-5)
    assert np.allclose(np.abs(scene.joints["along"]) / SUBSTEP, load, rtol=0.01)


def test_the_drives_of_a_chain_give_no_more_than_their_limit(library):
    """An arm with a weak shoulder falls, but not its elbow."""
    scene = chain(library, 3)
    scene.joints["drive_stiffness"], scene.joints["drive_damping"] = 1e5, 1e3
    scene.joints["drive_limit"] = (20.0, 200.0, 200.0)
    angles = []
    for _ in range(90):
        bodies = scene.run(1)
        assert (np.abs(scene.joints["along"]) <= SUBSTEP * scene.joints["drive_limit"] * (1 + 1e-4)).all()
        angles.append(2 * np.arctan2(bodies["rotation"][-1, :, 2], bodies["rotation"][-1, :, 0]))
    assert np.max(angles) > 1.9 and np.abs(np.diff(angles, axis=1)).max() < 0.01


# ---- damping, armature, friction ------------------------------------------------------------------------------------


@kinds
def test_damping_slows_by_its_rate(library, kind):
    damping, time = 0.08, 1 / 1000
    _, speeds = states(wheel(library, 5.0, kind, {"time": time}, damping=damping), 1000, kind)
    t = time * np.arange(1, 1001)
    assert np.allclose(speeds, 5 * np.exp(-damping / OWN[kind] * t), rtol=1e-3)


@kinds
def test_an_armature_is_inertia_about_the_axis(library, kind):
    torque, armature = 0.7, 0.3
    _, speeds = states(wheel(library, kind=kind, torque=torque, armature=armature), 60, kind)
    assert np.allclose(speeds, torque / (OWN[kind] + armature) * STEP * np.arange(1, 61), rtol=1e-4)


def test_an_armature_slows_a_pendulum_and_keeps_its_energy(library):
    armature, angle = 0.5, 0.1
    scene = Scene(library)
    body = rod(scene, (0, 0, -0.5), rotation=(np.cos(np.pi / 4), 0, np.sin(np.pi / 4), 0))
    scene.join(body, NO_BODY, HINGE, anchor_a=(-0.5, 0, 0), frame_a=ABOUT_Y, frame_b=ABOUT_Y, armature=armature)
    inertia = (1 + 0.05**2 * 4) / 12 + 0.25
    w = np.sqrt(GRAVITY * 0.5 / (inertia + armature))
    scene.bodies["angular"][body, 1] = angle * w
    scene.bodies["linear"][body, 0] = -angle * w * 0.5
    speeds = scene.run(3000)["angular"][:, body, 1].astype(float)
    crossings = np.nonzero(np.diff(np.sign(speeds)))[0]
    where = crossings + speeds[crossings] / (speeds[crossings] - speeds[crossings + 1])
    period = 2 * np.diff(where).mean() * STEP
    assert np.isclose(period, 2 * np.pi / w * (1 + angle**2 / 16), rtol=2e-3)
    assert np.isclose(np.abs(speeds[-100:]).max(), np.abs(speeds[:100]).max(), rtol=0.02)


@kinds
def test_dry_friction_holds_below_and_slides_above_its_greatest(library, kind):
    friction = 0.5
    ways, speeds = states(wheel(library, kind=kind, torque=0.99 * friction, friction=friction), 120, kind)
    assert np.abs(ways).max() < 1e-6 and np.abs(speeds).max() < 1e-6
    _, speeds = states(wheel(library, kind=kind, torque=3 * friction, friction=friction), 60, kind)
    assert np.allclose(speeds, 2 * friction / OWN[kind] * STEP * np.arange(1, 61), rtol=1e-3)


@kinds
def test_dry_friction_stops_at_a_steady_rate(library, kind):
    friction, start = 0.4 * OWN[kind], 2.0
    ways, speeds = states(wheel(library, start, kind, friction=friction), 200, kind)
    slowed = start - friction / OWN[kind] * STEP * np.arange(1, 201)
    assert np.allclose(speeds, np.maximum(slowed, 0), atol=1e-4)
    moving = speeds > 1e-3
    assert 2 < moving.sum() < 199 and np.ptp(ways[~moving]) < 1e-5


def test_dry_friction_holds_a_chain_of_which_each_joint_bears_another_load(library):
    scene = chain(library, 3)
    load = np.array([4.5, 2.0, 0.5]) * GRAVITY
    scene.joints["friction"] = 1.05 * load
    bodies = scene.run(300)
    assert np.abs(bodies["position"][-1] - bodies["position"][0]).max() < 0.01  # in 10 s
    assert np.allclose(np.abs(scene.joints["along"]) / SUBSTEP, load, rtol=1e-3)
    scene.joints["friction"][0] = 0.9 * load[0]  # only the shoulder gives way
    bodies = scene.run(20)
    angles = 2 * np.arctan2(bodies["rotation"][-1, :, 2], bodies["rotation"][-1, :, 0])
    assert abs(angles[0]) > 0.02 and np.abs(np.diff(angles)).max() < 0.01


# ---- limits ---------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("more", [{}, {"armature": 0.2, "friction": 0.05, "damping": 0.1}])
def test_a_strong_drive_stops_at_a_limit(library, kind, more):
    values = {"drive_stiffness": 1e6, "drive_damping": 1e3, "drive_target": 1.0}
    ways, speeds = states(wheel(library, kind=kind, limited=1, lower=-0.5, upper=0.3, **values, **more), 60, kind)
    assert ways.max() < 0.3 + 1e-3 and np.isclose(ways[-1], 0.3, atol=1e-3) and abs(speeds[-1]) < 1e-3


def test_strong_drives_of_a_chain_stop_at_its_limits(library):
    scene = chain(library, 3)
    scene.joints["drive_stiffness"], scene.joints["drive_damping"] = 1e5, 1e3
    scene.joints["drive_target"] = (1.0, -1.0, 1.0)
    scene.joints["limited"], scene.joints["lower"], scene.joints["upper"] = 1, -0.3, 0.3
    angles = 2 * np.arcsin(scene.run(120)["rotation"][:, :, 2].astype(float))
    assert np.abs(np.diff(angles, axis=1, prepend=0)).max() < 0.31
    assert np.allclose(np.abs(np.diff(angles[-1], prepend=0)), 0.3, atol=2e-3)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("cone", [0.1, 0.4, 2.0])
def test_balls_hang_within_their_cones(library, count, cone):
    """About the line on which they begin, thrown to the side; the rods may twist."""
    scene = chain(library, count, BALL)
    scene.joints["limited"], scene.joints["cone"] = 1, cone
    scene.joints["frame_a"] = scene.joints["frame_b"] = (1, 0, 0, 0)
    scene.bodies["angular"][:, 0] = 2.0
    scene.bodies["linear"][:, 1] = 3.0 * np.arange(1, count + 1)
    bodies = scene.run(240)
    axes = np.concatenate([np.zeros((240, 1, 3)) + (1, 0, 0), matrices(bodies["rotation"])[..., 0]], 1)
    swings = np.arccos(np.clip((axes[:, 1:] * axes[:, :-1]).sum(-1), -1, 1))
    assert swings.max() < cone + 0.06
    if cone < 1.5:
        assert np.isclose(swings[-1, 0], cone, atol=0.01)


def test_a_ball_inside_of_its_cone_is_free(library):
    free, limited = (chain(library, 2, BALL) for _ in range(2))
    limited.joints["limited"], limited.joints["cone"] = 1, 3.1
    for scene in (free, limited):
        scene.bodies["angular"][:] = (0.3, 0, 0.2)
    assert np.abs(free.run(20)["position"] - limited.run(20)["position"]).max() < 1e-4


# ---- orders of lanes ------------------------------------------------------------------------------------------------


def busy_chain(library, beside=()):
    """Six rods of whose joints each does something else, and as many for each number of ``beside``."""
    scene = chain(library, 6)
    for seed in beside:
        other, first = busy_chain(library), len(scene.bodies)
        other.shapes["world"] += first
        other.joints["torque"] = np.random.default_rng(seed).uniform(-5, 5, 6)
        for end in ("a", "b"):
            other.joints[end] = np.where(other.joints[end] == NO_BODY, NO_BODY, other.joints[end] + first)
        for name in ("bodies", "shapes", "joints"):
            setattr(scene, name, np.append(getattr(scene, name), getattr(other, name)))
    joints = scene.joints[:6]
    joints["drive_stiffness"], joints["drive_damping"] = (1e3, 0, 1e5, 10, 0, 0), (10, 5, 0, 1, 0, 0)
    joints["drive_limit"], joints["friction"] = (30, 40, 5, 60, 70, 80), (0, 1, 2, 0, 0.1, 3)
    joints["armature"], joints["torque"] = 0.05, (0, 3, 0, -2, 0, 1)
    joints["limited"], joints["lower"], joints["upper"] = (0, 1, 0, 0, 1, 0), -0.4, 0.4
    return scene


def bits(bodies):
    return np.ascontiguousarray(bodies[:, :6]).view(np.uint8)


def test_neither_the_order_of_lanes_nor_chains_beside_it_change_a_bit(library):
    expected = bits(busy_chain(library).run(60))
    assert np.array_equal(expected, bits(busy_chain(library).run(60, shuffled=True)))
    assert np.array_equal(expected, bits(busy_chain(library, beside=(1, 2)).run(60)))
