"""csrc/physics/solver.h against closed formulas, conservation laws, and itself in other orders and widths.

Tolerances: semi-implicit Euler with substeps of h = 1/120 s is off by one substep's worth of motion (v h / 2 of a way,
g t h / 2 of a fall); the rest is said where it is used.
"""

from copy import copy

import numpy as np
import pytest
from solver_scenes import (
    BALL,
    BOX,
    DYNAMIC,
    GRAVITY,
    HINGE,
    KINEMATIC,
    PLANE,
    SPHERE,
    STATIC,
    Scene,
    compiled,
    matrices,
    momenta,
    tilted,
)

from torch_batchsim.build import emulation

STEP = 1 / 30
SUBSTEP = STEP / 4


@pytest.fixture
def library(solver_library):
    return solver_library


# ---- free bodies ----------------------------------------------------------------------------------------------------


def test_free_fall_and_throw(library):
    scene = Scene(library)
    ball = scene.add(SPHERE, 0.5, (0, 0, 100), linear=(3, -2, 5))
    scene.run(60)
    t = 60 * STEP
    assert np.allclose(scene.bodies["linear"][ball], (3, -2, 5 - GRAVITY * t), atol=1e-4)
    exact = np.array((3 * t, -2 * t, 100 + 5 * t - GRAVITY * t * t / 2))
    euler = exact - (0, 0, GRAVITY * t * SUBSTEP / 2)
    assert np.allclose(scene.bodies["position"][ball], euler, atol=2e-4)


def test_force_and_torque(library):
    scene = Scene(library, gravity=0)
    box = scene.add(BOX, 0.5, (0, 0, 0), mass=2, force=(4, 0, 0), torque=(0, 0, 1))
    scene.run(30)
    assert np.allclose(scene.bodies["linear"][box], (2, 0, 0), atol=1e-5)
    assert np.allclose(scene.bodies["angular"][box], (0, 0, 1 / (2 / 6)), atol=1e-4)


@pytest.mark.parametrize(
    "size, angular",
    [
        ((0.5, 1, 0.25), (3, 1, 5)),
        ((0.5, 1, 0.25), (20, 20, 30)),
        ((0.6, 0.3, 0.6), (9, 2, -4)),
        ((2, 0.1, 0.1), (5, 5, 5)),
    ],
    ids=["tumbling", "fast", "disc", "rod"],
)
def test_a_spinning_body_keeps_energy_and_angular_momentum(library, size, angular):
    scene = Scene(library, gravity=0)
    scene.add(BOX, size, (0, 0, 0), angular=angular)
    _, spin, kinetic, _ = momenta(scene.run(10_000)[:, 0])
    assert np.abs(kinetic / kinetic[0] - 1).max() < 0.01
    assert np.linalg.norm(spin - spin[0], axis=-1).max() < 0.01 * np.linalg.norm(spin[0])


def test_a_thin_body_that_spins_fast_gains_no_energy(library):
    """Here the iterations for its rotation do not come to an end, and its rotation is to stay one."""
    scene = Scene(library, gravity=0)
    scene.add(BOX, (0.03, 0.03, 0.4), (0, 0, 0), angular=(150, 0, 90))
    run = scene.run(300)
    kinetic = momenta(run)[2].sum(-1)
    assert kinetic.max() < 1.01 * kinetic[0]
    assert np.abs(np.linalg.norm(run["rotation"], axis=-1) - 1).max() < 1e-3


def test_locked_axes_are_kept(library):
    scene = Scene(library)
    scene.ground(friction=(0.1, 0.1))
    locks = 0b011000  # turns about z only
    box = scene.add(BOX, (1, 0.5, 1), (0, 0, 1), locks=locks, force=(300, 0, 0), torque=(5, 5, 400), mass=50)
    bar = scene.add(BOX, 0.5, (0, 5, 3), locks=0b000100, linear=(1, 0, 0))  # stays at its height
    bodies = scene.run(30)
    assert np.all(bodies["angular"][:, box, :2] == 0) and abs(bodies["angular"][-1, box, 2]) > 0.1
    assert np.all(bodies["position"][:, bar, 2] == 3) and np.isclose(bodies["position"][-1, bar, 0], 1, atol=1e-5)


def test_kinematic_bodies_move_and_are_not_pushed(library):
    scene = Scene(library)
    scene.ground()
    pusher = scene.add(BOX, 0.5, (0, 0, 0.5), motion=KINEMATIC, linear=(1, 0, 0))
    box = scene.add(BOX, 0.5, (1.5, 0, 0.5), mass=1000)
    scene.run(60)
    assert np.allclose(scene.bodies["position"][pusher], (2, 0, 0.5), atol=1e-5)
    assert np.all(scene.bodies["linear"][pusher] == (1, 0, 0))
    assert np.allclose(scene.bodies["linear"][box], (1, 0, 0), atol=0.02)
    assert scene.bodies["position"][box, 0] > 2.99


# ---- friction -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed, radius", [(0.5, 2.0), (2.0, 1.0), (-1.0, 2.0)])
def test_what_rides_on_a_turntable_stays_on_its_circle(library, speed, radius):
    """Also on one that moves on and carries a second one. The velocity of a step's begin would lead outwards."""
    rough, way = (3.0, 3.0), np.array((0.3, -0.2, 0))
    scene = Scene(library)
    scene.add(BOX, (4, 4, 0.25), (0, 0, -0.25), motion=KINEMATIC, linear=way, angular=(0, 0, speed), friction=rough)
    start = way + (0, speed * radius, 0)
    below = scene.add(BOX, 0.3, (radius, 0, 0.3), linear=start, angular=(0, 0, speed), friction=rough)
    above = scene.add(BOX, 0.2, (radius, 0, 0.8), linear=start, angular=(0, 0, speed), friction=rough)
    run = scene.run(300)
    time = STEP * np.arange(1, 301)
    for rider in (below, above):
        place = run["position"][:, rider, :2] - time[:, None] * way[:2]
        circle = radius * np.stack([np.cos(speed * time), np.sin(speed * time)], 1)
        drift = speed**2 * radius * STEP / 2 * time[-1]  # of one that is led along the tangent through each step
        assert np.linalg.norm(place - circle, axis=1).max() < 0.05 * drift


@pytest.mark.parametrize("width, tolerance", [(1.0, 0.02), (0.5, 0.03), (0.2, 0.08)])
def test_a_lying_plate_stops_spinning_as_under_even_pressure(library, width, tolerance):
    """The lever of friction is the mean distance from the middle of the face: exact for a square, nearly for others."""
    scene = Scene(library)
    scene.ground()
    half = np.array((0.5, 0.5 * width))
    plate = scene.add(BOX, (*half, 0.05), (0, 0, 0.05), angular=(0, 0, 5))
    spins = scene.run(20)["angular"][:, plate, 2]
    slowing = -np.diff(spins)[2:8].mean() / STEP
    middles = (np.arange(200) + 0.5) / 200
    lever = np.hypot(*(half[:, None, None] * np.meshgrid(middles, middles))).mean()
    expected = 0.5 * GRAVITY * lever / ((half**2).sum() / 3)
    assert np.isclose(slowing, expected, rtol=tolerance)


@pytest.mark.parametrize("friction", [0.2, 0.5, 1.5])
def test_sliding_to_rest(library, friction):
    speed = 3
    scene = Scene(library)
    scene.ground(friction=(friction, friction))
    box = scene.add(BOX, (0.5, 0.5, 0.2), (0, 0, 0.2), friction=(friction, friction), linear=(speed, 0, 0))
    scene.run(90)
    way = speed**2 / (2 * friction * GRAVITY) - speed * SUBSTEP / 2
    assert np.isclose(scene.bodies["position"][box, 0], way, rtol=0.01)
    assert np.abs(scene.bodies["position"][box, 1]) < 1e-3 and np.abs(scene.bodies["linear"][box]).max() < 1e-3


def test_friction_is_against_the_slip_of_a_long_body(library):
    scene = Scene(library)
    scene.ground()
    box = scene.add(BOX, (2, 0.3, 0.3), (0, 0, 0.3), rotation=(np.cos(0.4), 0, 0, np.sin(0.4)), linear=(3, 0, 0))
    scene.run(60)
    assert abs(scene.bodies["position"][box, 1]) < 2e-3


@pytest.mark.parametrize("factor, slides", [(0.97, False), (1.03, True)])
def test_friction_angle(library, factor, slides):
    angle, friction = 0.35, np.tan(0.35)
    scene = Scene(library)
    ramp = scene.add(PLANE, 1, (0, 0, 0), motion=STATIC, rotation=tilted(factor * angle), friction=(friction, friction))
    normal = matrices(scene.bodies["rotation"][ramp])[:, 2]
    box = scene.add(BOX, (0.5, 0.5, 0.2), 0.2 * normal, rotation=tilted(factor * angle), friction=(friction, friction))
    scene.run(120)
    moved = np.linalg.norm(scene.bodies["position"][box] - 0.2 * normal)
    pull = GRAVITY * (np.sin(factor * angle) - friction * np.cos(factor * angle))
    assert np.isclose(moved, pull * 4**2 / 2, rtol=0.05) if slides else moved < 0.001


def test_static_friction_holds_more_than_dynamic(library):
    scene = Scene(library)
    scene.ground(friction=(0.6, 0.3))
    options = {"mass": 10, "friction": (0.6, 0.3)}
    still = scene.add(BOX, (0.5, 0.5, 0.2), (0, 0, 0.2), force=(0.5 * 98, 0, 0), **options)
    moved = scene.add(BOX, (0.5, 0.5, 0.2), (0, 3, 0.2), force=(0.5 * 98, 0, 0), linear=(1, 0, 0), **options)
    scene.run(60)
    assert scene.bodies["position"][still, 0] < 0.01
    assert np.isclose(scene.bodies["linear"][moved, 0], 1 + (0.5 - 0.3) * GRAVITY * 2, rtol=0.02)


def test_dynamic_friction_above_static(library):
    scene = Scene(library)
    scene.ground(friction=(0.5, 4))
    box = scene.add(BOX, (2, 2, 0.1), (0, 0, 0.1), friction=(0.5, 4), mass=2, linear=(2, 0, 0))
    scene.run(30)
    assert np.isclose(scene.bodies["position"][box, 0], 4 / (8 * GRAVITY), atol=0.01)
    assert np.abs(scene.bodies["linear"][box]).max() < 0.01


# ---- restitution, collisions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("substeps", [1, 4])
def test_a_ball_of_restitution_1_rises_to_where_it_was(library, substeps):
    scene = Scene(library, substeps=substeps)
    scene.ground(restitution=1)
    for i in range(8):  # impacts at any time within a step
        scene.add(SPHERE, 0.1, (i, 0, 1.1 + 0.037 * i), restitution=1)
    start = scene.bodies["position"][1:, 2].copy()
    height = scene.run(600)["position"][:, 1:, 2]
    h = STEP / substeps
    assert (height.max(0) <= start + GRAVITY * h * h / 8 + 1e-5).all()  # as exact as the integration is
    assert (height[-60:].max(0) > start - 0.02).all()


def room_of_tumbling_boxes(library, seed, count, substeps, speed, **surface):
    """Boxes that fly about in a closed room, and their number."""
    random = np.random.default_rng(seed)
    scene = Scene(library, gravity=0, substeps=substeps)
    for axis in range(3):
        for side in (-1, 1):
            half, place = np.full(3, 2.5), np.zeros(3)
            half[axis], place[axis] = 0.5, 2 * side
            scene.add(BOX, half, place, motion=STATIC, **surface)
    for i in range(count):
        q, corner = random.normal(size=4), (1 - 2 * (i & 1), 1 - (i & 2), 1 - 2 * ((i >> 1 ^ i) & 1))
        scene.add(
            BOX, random.uniform(0.15, 0.4, 3), 0.8 * np.array(corner), mass=random.uniform(0.5, 3),
            rotation=q / np.linalg.norm(q), linear=speed * random.normal(size=3), angular=speed * random.normal(size=3),
            **surface,
        )  # fmt: skip
    return scene


@pytest.mark.parametrize("substeps", [1, 4])
@pytest.mark.parametrize("surface", [{"friction": (0, 0)}, {"friction": (0.5, 0.5)}], ids=["smooth", "rough"])
def test_tumbling_boxes_gain_no_energy(library, substeps, surface):
    """Impacts of edges and corners: points of a contact one after the other, and several contacts at once."""
    for seed, (count, speed) in enumerate([(1, 2), (1, 6), (4, 2), (4, 2), (6, 5)]):
        scene = room_of_tumbling_boxes(library, seed, count, substeps, speed, restitution=1, **surface)
        before = momenta(scene.bodies[6:])[2].sum()
        after = momenta(scene.run(150)[:, 6:])[2].sum(-1)
        assert after.max() < 1.03 * before, f"seed {seed}: {after.max() / before - 1:.1%}"
        assert surface["friction"][0] > 0 or after[-1] > (0.1 if substeps == 4 else 0.05) * before


def test_a_touch_reports_all_of_its_impulse(library):
    scene = Scene(library, gravity=0)
    scene.add(BOX, 1, (0, 0, -1), motion=STATIC)
    ball = scene.add(SPHERE, 0.5, (0, 0, 1), mass=3, linear=(0, 0, -4), restitution=0.5)
    total = 0
    while scene.bodies["linear"][ball, 2] < 0:
        scene.run(1)
        total += scene.kept[64:68].view(np.float32)[0] * scene.kept[:4].view(np.uint32)[0]  # SolverContact::total
    assert np.isclose(scene.bodies["linear"][ball, 2], 2, rtol=1e-4) and np.isclose(total, 3 * (4 + 2), rtol=1e-4)


def test_collisions_keep_momentum(library):
    """The linear one exactly; the angular one but for a share of 1.1 % at the median of 200 such scenes."""
    random = np.random.default_rng(0)
    lost = []
    for _ in range(40):
        places, speeds = random.normal(scale=0.03, size=(2, 3, 3))
        scene = Scene(library, gravity=0)
        scene.add(BOX, 0.5, places[0], mass=1000, linear=(2, 0, 0) + speeds[0], restitution=0.5)
        box = {"mass": 300, "angular": (1, 2, 3) + speeds[1], "restitution": 0.5}
        scene.add(BOX, (0.3, 0.4, 0.8), (2, 0.3, 0.2) + places[1], **box)
        scene.add(SPHERE, 0.4, (4, 0.1, 0) + places[2], mass=100, linear=(-3, 0, 0) + speeds[2], restitution=0.9)
        linear, angular, kinetic, _ = (value.sum(-1 if value.ndim == 2 else 1) for value in momenta(scene.run(60)))
        assert np.abs(linear - linear[0]).max() < 1e-5 * 2000
        assert kinetic.max() < kinetic[0] * 1.001 and kinetic[-1] < 0.95 * kinetic[0]
        lost.append(np.linalg.norm(angular - angular[0], axis=-1).max() / np.linalg.norm(angular[0]))
    assert np.median(lost) < 0.015 and max(lost) < 0.08


def test_deep_overlap_does_not_explode(library):
    scene = Scene(library)
    scene.ground()
    for i in range(5):
        scene.add(BOX, 0.5, (0.1 * i, 0.05 * i, 0.1 * i - 0.2))
    bodies = scene.run(300)
    assert np.linalg.norm(bodies["linear"], axis=-1).max() < 8
    assert np.linalg.norm(bodies["linear"][-1], axis=-1).max() < 0.1
    assert bodies["position"][-1, 1:, 2].min() > 0.49


def test_fast_thin_case(library):
    scene = Scene(library, gravity=0)
    scene.add(BOX, (0.2, 5, 5), (3, 0, 0), motion=STATIC)
    bullet = scene.add(SPHERE, 0.05, (0, 0, 0), linear=(50, 3, 0))
    assert scene.run(60)["position"][:, bullet, 0].max() < 2.8


# ---- rest -----------------------------------------------------------------------------------------------------------


def stack(library, masses, **settings):
    scene = Scene(library, **settings)
    scene.ground()
    for i, mass in enumerate(masses):
        scene.add(BOX, 0.5, (0, 0, 0.5 + i), mass=mass)
    return scene


def assert_stands(bodies, overlap):
    """Stacks of boxes of size 1 above body 0."""
    heights = bodies["position"][-1, :, 2]
    gaps = np.diff(heights[1:], prepend=-0.5) - 1
    assert -gaps.min() < overlap and gaps.max() < overlap
    assert np.abs(bodies["position"][-1, :, :2]).max() < 0.02
    assert np.abs(bodies["linear"][-30:]).max() < 0.02


def test_a_stack_stands(library):
    assert_stands(stack(library, [1] * 5).run(150), overlap=0.01)


@pytest.mark.full
@pytest.mark.parametrize(
    "masses, substeps",
    [([1] * 10, 4), ([1, 100], 4), ([100, 1, 100], 4), ([100, 1], 4), ([1] * 3 + [100], 8), ([1] * 10 + [100], 16)],
    ids=["ten", "heavy_above", "between", "below", "heavy_on_three", "heavy_on_ten"],
)
def test_stacks_stand_for_a_minute(library, masses, substeps):
    assert_stands(stack(library, masses, substeps=substeps).run(1800), overlap=0.01)


def test_a_heavy_body_does_not_press_a_light_one_in(library):
    assert_stands(stack(library, [1, 100]).run(300), overlap=0.01)


def test_bodies_of_a_millimetre_rest(library):
    half, step = 5e-4, 1 / 480
    scene = Scene(library, time=step)
    scene.ground()
    for i in range(3):
        scene.add(BOX, half, (0, 0, half * (2 * i + 1)), mass=1e-6)
    ball = scene.add(SPHERE, half, (0.01, 0, half), mass=1e-6)
    bodies = scene.run(480)
    heights = bodies["position"][:, 1:ball, 2]
    gaps = np.diff(heights, prepend=-half, axis=1) - 2 * half
    assert np.abs(gaps).max() < 0.01 * 2 * half
    assert (half - bodies["position"][:, ball, 2]).max() < 0.01 * 2 * half
    assert np.abs(bodies["position"][-1, 1:, :2] - bodies["position"][0, 1:, :2]).max() < 0.01 * 2 * half


@pytest.mark.parametrize("degrees", [5, 17, 30, 45])
def test_stacks_of_turned_boxes_come_to_rest(library, degrees):
    """Faces overlap in eight corners, of which four are points: the same ones in each step."""
    scene = Scene(library)
    scene.ground()
    for i in range(5):
        half = np.radians(degrees * i) / 2
        scene.add(BOX, 0.5, (0, 0, i + 0.5), rotation=(np.cos(half), 0, 0, np.sin(half)))
    bodies = scene.run(180)[150:]
    assert np.linalg.norm(bodies["linear"], axis=-1).max() < 1e-3
    assert np.linalg.norm(bodies["angular"], axis=-1).max() < 1e-3


@pytest.mark.full
def test_nothing_at_rest_gains_energy(library):
    scene = stack(library, [1, 2, 1])
    scene.add(SPHERE, 0.3, (5, 0, 0.3))
    at_start = momenta(scene.bodies)[3].sum()
    bodies = scene.run(10_300)
    _, _, kinetic, potential = (value.sum(-1) for value in momenta(bodies))
    energy = kinetic + potential
    # Springs lift by as much as bodies have sunk, within seconds: never above where they were, and then no more.
    assert energy.max() < at_start + 1e-3
    assert energy[300:].max() < energy[300] + 1e-3
    assert np.abs(bodies["position"][-1] - bodies["position"][0]).max() < 0.01


# ---- sleep ----------------------------------------------------------------------------------------------------------


def test_islands_sleep_and_wake(library):
    scene = stack(library, [1, 1, 1], sleep=1)
    other = scene.add(BOX, 0.5, (10, 0, 0.5))
    scene.run(60)
    assert np.all(scene.bodies["asleep"][1:] == 1) and np.all(scene.bodies["linear"][1:] == 0)
    before = scene.bodies["position"].copy()
    scene.run(30)
    assert np.array_equal(before, scene.bodies["position"])
    scene.add(SPHERE, 0.2, (-4, 0, 2.5), linear=(12, 0, 1), mass=3)
    scene.run(15)
    assert np.all(scene.bodies["asleep"][1:4] == 0) and scene.bodies["asleep"][other] == 1
    assert scene.bodies["position"][3, 0] > 0.05  # the top box was hit
    scene.bodies["force"][other] = (0, 0, 20)
    scene.run(30)
    assert scene.bodies["asleep"][other] == 0 and scene.bodies["position"][other, 2] > 1


def test_what_sleeps_wakes_when_it_is_given_a_velocity(library):
    scene = stack(library, [1], sleep=1)
    scene.run(60)
    assert scene.bodies["asleep"][1] == 1
    scene.bodies["linear"][1] = (0, 0, 3)
    scene.run(1)
    assert scene.bodies["asleep"][1] == 0 and scene.bodies["position"][1, 2] > 0.55


ROWS = {  # what hits a row of sleepers that lie apart by such gaps, in m
    "a heavy box": (3, (8, 0, 0), (0.0001, 0.0001, 0.0001)),
    "a light one": (0.2, (8, 0, 0), (0.001, 0.01, 0.0001)),
    "a cradle of ten": (1, (4, 0, 0), (0.0005,) * 10),
    "a slow one": (1, (0.3, 0, 0), (0.0001,) * 4),
}


@pytest.mark.parametrize("hit", ROWS)
@pytest.mark.parametrize("pushed", ["speed", "force", "kinematic"])
def test_what_hits_sleepers_finds_no_wall(library, hit, pushed):
    """Momentum is that of the same scene without sleep, whatever lies behind the body that is hit."""
    mass, velocity, gaps = ROWS[hit]
    scene = Scene(library, sleep=1)
    scene.ground(friction=(0, 0))
    x, moving = 0.0, []
    for gap in gaps:
        moving.append(scene.add(BOX, 0.5, (x, 0, 0.5), friction=(0, 0), restitution=0.5))
        x -= 1 + gap
    scene.run(60)
    assert np.all(scene.bodies["asleep"][moving] == 1)
    motion = KINEMATIC if pushed == "kinematic" else DYNAMIC
    by = scene.add(BOX, 0.5, (x, 0, 0.5), mass=mass, motion=motion, friction=(0, 0), restitution=0.5)
    scene.bodies["linear"][by] = velocity if pushed != "force" else 0
    scene.bodies["force"][by] = np.multiply(velocity, 50 * mass if pushed == "force" else 0)
    moving += [by] if motion == DYNAMIC else []
    awake = copy(scene)
    awake.bodies, awake.kept, awake.settings = (a.copy() for a in (scene.bodies, scene.kept, scene.settings))
    awake.settings["sleep"] = 0
    momentum = []
    for one in (scene, awake):
        bodies = one.run(5)
        momentum.append((bodies["linear"][:, moving] / bodies["inverse_mass"][:, moving, None]).sum(1))
    if pushed == "speed":
        assert np.allclose(momentum[0][:, 0], mass * velocity[0], rtol=1e-4)
    assert np.abs(momentum[0] - momentum[1]).max() < 1e-4 * np.abs(momentum[1]).max()


def test_a_row_that_is_not_touched_sleeps_on(library):
    scene = Scene(library, sleep=1)
    scene.ground()
    row = [scene.add(BOX, 0.5, (1.01 * i, 0, 0.5)) for i in range(4)]
    scene.run(60)
    scene.add(SPHERE, 0.2, (1.5, 1.5, 0.2), linear=(3, 0, 0))  # rolls by, a metre away
    scene.run(10)
    assert np.all(scene.bodies["asleep"][row] == 1)


# ---- the same bits --------------------------------------------------------------------------------------------------


def pile(library, worlds=(0,)):
    """Bodies in contact, of several worlds beside each other in one workspace."""
    scene = Scene(library, sleep=1)
    for world in worlds:
        random = np.random.default_rng(world)
        scene.ground(world=world)
        bodies = []
        for i in range(12):
            q = random.normal(size=4)
            kind, size = (BOX, random.uniform(0.2, 0.5, 3)) if i % 3 else (SPHERE, random.uniform(0.2, 0.5))
            place = (random.uniform(-0.6, 0.6), random.uniform(-0.6, 0.6), 0.6 + 0.7 * i)
            values = {"rotation": q / np.linalg.norm(q), "angular": random.normal(size=3), "restitution": 0.3}
            bodies.append(scene.add(kind, size, place, mass=random.uniform(1, 5), world=world, **values))
        anchors = {"anchor_a": (0.4, 0, 0), "anchor_b": (-0.4, 0, 0)}
        scene.join(bodies[0], bodies[1], BALL, **anchors)
        scene.join(bodies[5], bodies[7], HINGE, drive_damping=100, drive_rate=2, drive_limit=5, **anchors)
        scene.join(bodies[7], bodies[9], BALL, **anchors)  # a tree of three
        for a, b in ((2, 3), (3, 4), (4, 2)):  # a ring
            scene.join(bodies[a], bodies[b], BALL, **anchors)
        scene.add(BOX, (0.6, 0.6, 0.1), (0.7, 0, 0.1), motion=KINEMATIC, angular=(0, 0, 2), world=world)
    return scene


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def test_lanes_in_another_order_change_nothing(library):
    expected = pile(library).run(90)
    assert np.array_equal(bits(expected), bits(pile(library).run(90, shuffled=True)))
    assert np.isfinite(expected["position"]).all()


@pytest.mark.full
@pytest.mark.parametrize("width", [1, 8])
def test_other_widths_of_vectors_change_nothing(library, compiler, width):
    if library.sizes(6) <= width:
        pytest.skip("the processor has no wider vectors")
    other = compiled(compiler, f"-DTBS_WIDTH={width}")
    assert other.sizes(6) == width != library.sizes(6)
    assert np.array_equal(bits(pile(library).run(60)), bits(pile(other).run(60)))


@pytest.mark.full
def test_a_warp_gives_the_same_bits(library, compiler):
    emulated = compiled(compiler, "-include", emulation.WORDS)
    assert emulated.sizes(6) == 1
    assert np.array_equal(bits(pile(library).run(30)), bits(pile(emulated).run(30)))


def test_a_world_does_not_depend_on_others_beside_it(library):
    together = pile(library, worlds=(1, 2, 3)).run(60)
    for i, world in enumerate((1, 2, 3)):
        assert np.array_equal(bits(pile(library, worlds=(world,)).run(60)), bits(together[:, 14 * i : 14 * i + 14]))


def test_more_contacts_at_a_body_than_there_are_colours(library):
    scene = Scene(library)
    scene.ground()
    plate = scene.add(BOX, (5, 5, 0.2), (0, 0, 0.2), mass=10)
    boxes = [scene.add(BOX, 0.3, (x, y, 0.7)) for x in np.linspace(-4, 4, 6) for y in np.linspace(-4, 4, 5)]
    scene.run(60)
    assert np.allclose(scene.bodies["position"][boxes, 2], 0.7, atol=0.01)
    assert np.abs(scene.bodies["linear"][boxes + [plate]]).max() < 0.02
    assert scene.bodies["kind"][plate] == DYNAMIC
