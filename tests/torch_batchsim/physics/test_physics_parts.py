"""Bodies of several shapes: ``physics.Part``, beside MuJoCo, beside bodies of one shape, and by the laws of motion."""

from __future__ import annotations

from dataclasses import replace
from math import cos, pi, sin
from typing import Any

import numpy as np
import pytest
import torch
from environments.stool import Stool
from physics_parts import PLACES, Compound, MuJoCoParts, PartRun, Piece
from physics_scenes import NO_GRAVITY, G, floor
from support import emulated_cuda, first_worlds, of_today

from torch_batchsim import Archetype, Simulator, TorchVectorEnv, WorldFault
from torch_batchsim.bench.physics_worlds import Stage
from torch_batchsim.bench.scenes import Body, box, capsule, matrices, rough, sphere, turned, wedge
from torch_batchsim.physics import Part, Physics
from torch_batchsim.testing import assert_same_bits, snapshot

DT = 1 / 60
BALLS = (Piece(sphere(0.3), (-0.5, 0, 0)), Piece(sphere(0.3), (0.5, 0, 0)))
HALVES = (Piece(box(0.15, 0.3, 0.3), (-0.15, 0, 0)), Piece(box(0.15, 0.3, 0.3), (0.15, 0, 0)))
L_SHAPE = (Piece(box(0.5, 0.1, 0.1), (0.5, 0, 0), mass=2.0), Piece(box(0.1, 0.1, 0.3), (0.9, 0, 0.4)))
LEGS = tuple(Piece(box(0.04, 0.04, 0.35), (x, y, 0.35), mass=0.5) for x in (-0.5, 0.5) for y in (-0.3, 0.3))
TABLE = (*LEGS, Piece(box(0.6, 0.4, 0.03), (0, 0, 0.73), mass=6.0))


def table(name: str = "table", position: tuple[float, float] = (0.0, 0.0), kind: str = "dynamic") -> Compound:
    """On the floor."""
    made = Compound(name, TABLE, kind=kind)
    return replace(made, position=(*position, float(made.centre[2])))


# ---- beside MuJoCo, and beside bodies of one shape -----------------------------------------------------------------

LEAN = 0.2
BESIDE = {
    # What begins, for how many steps, and how far apart both may be in the end: metres.
    "it rolls": (Compound("it", BALLS, (0, 0, 0.3), linear=(0, 1, 0), angular=(-1 / 0.3, 0, 0)), 60, 0.01),
    "it topples": (Compound("it", BALLS, (0, 0, 0.3 + 0.5 * cos(LEAN)), turned(pi / 2 - LEAN, (0, 1, 0))), 50, 0.01),
    "it rocks": (
        Compound(
            "it", (Piece(sphere(0.5), (0, 0, 0), mass=0.2), Piece(sphere(0.15), (0, 0, -0.3), mass=2.0)),
            (0, 0, 0.5 - 0.3 * 2 / 2.2), angular=(0, 1, 0),
        ), 45, 0.003,
    ),
    "an L falls on its foot": (
        Compound("it", L_SHAPE, (0, 0, 0.45), turned(0.1, (0, 1, 0)), angular=(0, 0.5, 0)), 15, 0.01,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_bodies_of_several_shapes_go_where_mujoco_has_them(name: str) -> None:
    thing, steps, most = BESIDE[name]
    thing, ground = replace(thing, material=rough(0.9)), floor(rough(0.9))
    run, other = PartRun(thing, ground), MuJoCoParts(thing, ground)
    run.step(steps)
    other.step(steps * DT)
    position, rotation = other.pose("it")
    way = np.linalg.norm(position - thing.position)
    assert way > 3 * most
    np.testing.assert_allclose(run.of("Pose.position", "it"), position, atol=most)
    ours = matrices(run.of("Pose.rotation", "it"))
    np.testing.assert_allclose(ours, matrices(rotation), atol=3 * most)


def test_two_half_boxes_are_a_box() -> None:
    """They fall, lie, stand on each other and slide as boxes do."""
    halves = Compound("halves", HALVES, material=rough(0.4))
    things: list[Compound | Body] = [floor(rough(0.4))]
    whole = Body("whole", box(0.3, 0.3, 0.3), (5, 0, 0.31), linear=(1, 0, 0), mass=2.0, material=rough(0.4))
    things += [whole, replace(halves, position=(0, 0, 0.31), linear=(1, 0, 0))]
    things += [replace(halves, name=f"stacked_{i}", position=(0, 5, 0.301 + 0.601 * i)) for i in range(3)]
    run = PartRun(*things)
    for _ in range(12):
        run.step(5)
        apart = run.of("Pose.position", "whole") - run.of("Pose.position", "halves") - (5, 0, 0)
        assert np.abs(apart).max() < 5e-3
    assert run.of("Pose.position", "whole")[0] - 5 > 0.12
    run.step(60)
    for name, height in (("halves", 0.3), ("whole", 0.3), *((f"stacked_{i}", 0.3 + 0.6 * i) for i in range(3))):
        assert run.of("Pose.position", name)[2] == pytest.approx(height, abs=1e-3), name
        assert np.linalg.norm(run.of("Velocity.linear", name)) < 1e-3, name
    assert np.abs(run.of("Pose.position", "stacked_2")[:2] - (0, 5)).max() < 1e-3


# ---- the laws of motion --------------------------------------------------------------------------------------------


def kinetic(thing: Compound, run: PartRun) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy, momentum and angular momentum about the origin."""
    turn = matrices(run.of("Pose.rotation", thing.name))
    linear, angular = (run.of(f"Velocity.{part}", thing.name) for part in ("linear", "angular"))
    spin, momentum = turn @ thing.inertia @ turn.T @ angular, thing.mass * linear
    about = spin + np.cross(run.of("Pose.position", thing.name), momentum)
    return (momentum @ linear + spin @ angular) / 2, momentum, about


def test_an_l_that_spins_freely_keeps_energy_and_angular_momentum() -> None:
    """Its shapes overlap and do not touch each other."""
    thing = Compound("spins", L_SHAPE, (0, 0, 5), angular=(3.0, 2.0, -1.0))
    run = PartRun(thing, scene={"gravity": NO_GRAVITY})
    energy, _, about = kinetic(thing, run)
    first = run.of("Velocity.angular", "spins")
    changed = 0.0
    for _ in range(12):
        run.step(10)
        now, momentum, turning = kinetic(thing, run)
        assert now == pytest.approx(energy, rel=1e-3)
        np.testing.assert_allclose(turning, about, atol=1e-3 * np.linalg.norm(about))
        assert np.abs(momentum).max() < 1e-6 and not run.of("ContactForce.force", "spins").any()
        changed = max(changed, float(np.linalg.norm(run.of("Velocity.angular", "spins") - first)))
    assert changed > 1.0  # no axis of inertia: the velocity wanders


@pytest.mark.parametrize("bounce", [0.0, 1.0])
def test_the_end_of_an_arm_strikes_and_all_momentum_is_kept(bounce: float) -> None:
    rod = Compound(
        "rod", (Piece(sphere(0.1), (-1, 0, 0), mass=3.0), Piece(capsule(0.1, 0.1), (1, 0, 0), mass=0.5)),
        angular=(0, 0, 2.0), material=rough(0.3, bounce),
    )  # fmt: skip
    ball = Compound(
        "ball", (Piece(sphere(0.2), (0, 0, 0), mass=2.0),), (1.4, 1.0, 0.03), own=0, material=rough(0.3, bounce)
    )
    scene = {"gravity": NO_GRAVITY, "restitution_speed": 0.1}
    run = PartRun(rod, ball, scene=scene)
    before = [kinetic(thing, run) for thing in (rod, ball)]
    run.step(40)
    after = [kinetic(thing, run) for thing in (rod, ball)]
    assert np.linalg.norm(after[1][1]) > 0.5  # the ball was struck
    for i in (1, 2):
        scale = np.linalg.norm(before[0][2])
        np.testing.assert_allclose(sum(a[i] for a in after), sum(b[i] for b in before), atol=1e-5 * scale)
    kept = sum(a[0] for a in after) / sum(b[0] for b in before)
    assert 0.3 < kept < 0.95 if bounce == 0.0 else 0.9 < kept < 1.02


def test_an_end_that_hits_the_floor_gets_the_impulse_at_its_arm() -> None:
    """A leaning dumbbell lands on one ball without friction: J (1/m + r^2 / I) = v, at its arm r at that time."""
    lean, speed = 0.6, 3.0
    low = 0.3 + 0.5 * sin(lean)
    thing = Compound(
        "it", BALLS, (0, 0, low + 0.35 * speed * DT), turned(lean, (0, 1, 0)), (0, 0, -speed), material=rough(0.0)
    )
    ground = floor(rough(0.0))
    run = PartRun(thing, ground, scene={"gravity": NO_GRAVITY, "substeps": 8})
    run.step(1)
    inertia, arm = thing.inertia[1, 1], 0.5 * cos(lean)
    impulse = speed / (1 / thing.mass + arm**2 / inertia)
    assert run.of("Velocity.linear", "it")[2] == pytest.approx(-speed + impulse / thing.mass, rel=0.01)
    assert run.of("Velocity.angular", "it")[1] == pytest.approx(-impulse * arm / inertia, rel=0.01)
    pushed = run.of("ContactForce.force", "it")
    np.testing.assert_allclose(pushed, (0, 0, impulse / DT), rtol=0.01, atol=1e-3)
    np.testing.assert_array_equal(pushed, run.limb("ContactForce.force", 1))
    assert not run.limb("ContactForce.force", 0).any()


# ---- what stands ---------------------------------------------------------------------------------------------------


def test_a_table_stands_on_its_legs_and_feels_its_weight() -> None:
    run = PartRun(table(), Body("box", box(0.1, 0.1, 0.1), (0, 0, 0.87), mass=2.0), floor())
    run.step(60)
    for name in ("table", "box"):
        assert np.linalg.norm(run.of("Velocity.linear", name)) < 1e-3
        assert np.linalg.norm(run.of("Velocity.angular", name)) < 1e-3
    assert run.of("Pose.position", "box")[2] == pytest.approx(0.86, abs=1e-3)
    np.testing.assert_allclose(run.of("ContactForce.force", "table"), (0, 0, 8 * G), atol=0.05)
    forces = [run.limb("ContactForce.force", i)[2] for i in range(5)]
    # Of four legs no law gives each one's share.
    np.testing.assert_allclose(forces, [2.5 * G] * 4 + [-2 * G], atol=0.25)
    at, turn = run.of("Pose.position", "table"), matrices(run.of("Pose.rotation", "table"))
    for i, piece in enumerate(TABLE):
        place = at + turn @ (np.array(piece.position) - table().centre)
        np.testing.assert_allclose(run.limb("Pose.position", i), place, atol=1e-6)


@pytest.mark.parametrize("kind", ["static", "kinematic"])
def test_parts_of_bodies_that_do_not_give_way_stop_others(kind: str) -> None:
    """Slow ones and fast thin ones; a body that lies on a moving part goes with it."""
    gate = Compound("gate", (Piece(box(0.5, 0.5, 0.1), (0, 0, 0)), Piece(box(0.002, 1, 1), (3, 0, 0))), kind=kind)
    speed = 0.0 if kind == "static" else 0.5
    gate = replace(gate, position=tuple(gate.centre + (0, 0, 2.0)), linear=(speed, 0, 0))
    rests = Body("rests", box(0.1, 0.1, 0.1), (0, 0, 2.2), linear=(speed, 0, 0))
    dart = Body("dart", capsule(0.01, 0.05), (1.5, 0, 2.0), turned(pi / 2, (0, 1, 0)), (90, 0, 0))
    run = PartRun(gate, rests, dart)
    run.step(30)
    np.testing.assert_allclose(run.of("Pose.position", "rests"), (0.5 * speed, 0, 2.2), atol=2e-3)
    run = PartRun(gate, replace(dart, angular=(0, 0, 70)), scene={"gravity": NO_GRAVITY})
    run.step(10)
    assert run.of("Pose.position", "dart")[0] < 3.0 + 10 * DT * speed


def test_joined_bodies_do_not_touch_with_their_parts() -> None:
    """Two dumbbells that cross, held by a hinge where they do."""
    cross = [Compound(name, BALLS, (0, 0, z), turned(a, (0, 0, 1))) for name, z, a in (("a", 0, 0), ("b", 0.1, 0.3))]
    run = PartRun(*cross, scene={"gravity": NO_GRAVITY})
    joint = run.join(1, a=run.bodies["a"], b=run.bodies["b"], anchor_a=torch.tensor([[0, 0, 0.1]]))
    run.step(5)
    assert not run.of("ContactForce.force", "a").any()
    run.destroy(joint)
    run.step(5)
    assert run.of("ContactForce.force", "a").any()


def test_no_shape_of_a_fast_body_gets_through_a_thin_wall() -> None:
    """Two small balls with nothing between them, which fly at 5 to 60 m/s and spin at 20 to 120 rad/s."""
    count, random = 150, np.random.default_rng(1)
    bell = Compound("bell", (Piece(sphere(0.1), (0, 0, 0.3)), Piece(sphere(0.1), (0, 0, -0.3))))
    wall = Body("wall", box(0.01, 5, 5), kind="static")
    run = PartRun(bell, wall, worlds=count, scene={"gravity": NO_GRAVITY})
    turns, spins = random.normal(size=(count, 4)), random.normal(size=(count, 3))
    spins *= random.uniform(20, 120, (count, 1)) / np.linalg.norm(spins, axis=1, keepdims=True)
    values = {
        "Pose.position": random.uniform(-2, -0.6, (count, 1)) * (1, 0, 0),
        "Pose.rotation": turns / np.linalg.norm(turns, axis=1, keepdims=True),
        "Velocity.linear": random.uniform(5, 60, (count, 1)) * (1, 0, 0),
        "Velocity.angular": spins,
    }
    for name, value in values.items():
        rows = run.sim.ragged(f"Mover.physics.{name}")
        rows.values[rows.first.long()] = torch.tensor(value, dtype=torch.float32)
    run.step(40)
    limbs = run.sim.ragged("Limb.physics.Pose.position")
    assert limbs.packed()[0].shape == (2 * count, 3) and (limbs.packed()[0][:, 0] < 0).all()


@pytest.mark.parametrize("spin", [20.0, 25.0, 29.0])
def test_the_ends_of_long_arms_stop_at_a_thin_wall(spin: float) -> None:
    """Their body turns by less than 1 rad in a step, and its centre, at the heavy end, hardly moves."""
    count, random = 200, np.random.default_rng(2)
    arm = Compound("arm", (Piece(sphere(0.05), (0, 0, 1), mass=0.1), Piece(sphere(0.05), (0, 0, -0.02), mass=5.0)))
    wall = Body("wall", box(0.005, 5, 5), kind="static")
    run = PartRun(arm, wall, worlds=count, scene={"gravity": NO_GRAVITY, "dt": 1 / 30})
    away, zero = random.uniform(0.1, 0.5, count), np.zeros(count)
    half = (np.pi - np.arcsin(random.uniform(-1, 1, count) * (away - 0.07))) / 2  # the end is before the wall
    axes = random.normal(size=(count, 3))
    values = {
        "Pose.position": np.stack([-away, zero, zero], 1),
        "Pose.rotation": np.stack([np.cos(half), zero, np.sin(half), zero], 1),
        "Velocity.angular": spin * axes / np.linalg.norm(axes, axis=1, keepdims=True),
    }
    for name, value in values.items():
        rows = run.sim.ragged(f"Mover.physics.{name}")
        rows.values[rows.first.long()] = torch.tensor(np.array(value), dtype=torch.float32)
    for _ in range(20):
        run.step(1)
        ends = run.sim.ragged("Limb.physics.Pose.position").packed()[0]
        assert ends.shape == (2 * count, 3) and (ends[:, 0] < 0).all(), f"{(ends[:, 0] >= 0).sum()} are through"


def heap(seed: int, count: int = 6) -> list[Compound | Body]:
    """Compounds of three or four random shapes each, one above the other, over the floor."""
    random, things = np.random.default_rng(seed), []
    for i in range(count):
        pieces = []
        for k in range(int(random.integers(3, 5))):
            size = random.uniform(0.08, 0.2, 3)
            shape = (sphere(size[0]), capsule(size[0] / 2, size[1]), box(*size), wedge(*2 * size))[(i + k) % 4]
            turn = random.normal(size=4)
            place = tuple(random.uniform(-0.3, 0.3, 3))
            pieces.append(Piece(shape, place, tuple(turn / np.linalg.norm(turn)), float(random.uniform(0.3, 2))))
        at = (*random.uniform(-0.2, 0.2, 2), 0.7 + 1.2 * i)
        things.append(Compound(f"thing_{i}", tuple(pieces), at, angular=tuple(random.uniform(-3, 3, 3))))
    return [*things, floor()]


def test_a_heap_of_random_bodies_comes_to_rest_on_the_floor() -> None:
    """None goes below it."""
    run = PartRun(*heap(5))
    run.step(300)
    for thing in run.movers:
        assert np.linalg.norm(run.of("Velocity.linear", thing.name)) < 0.05, thing.name
    limbs = run.sim.ragged("Limb.physics.Pose.position").world(0)[:, 2]
    assert (limbs > 0.02).all() and limbs.max() < 3


@pytest.mark.full
def test_parts_sorted_into_cells_have_the_same_bits() -> None:
    """In room for few bodies all pairs are tried, in room for many those of neighbouring cells."""
    few, many = (PartRun(*heap(5), room=room) for room in (8, 256))
    for run in (few, many):
        run.step(300)
    for thing in few.movers:
        for name in ("Pose.position", "Pose.rotation", "Velocity.angular"):
            assert (few.of(name, thing.name) == many.of(name, thing.name)).all()


# ---- sleep, and changes while it runs ------------------------------------------------------------------------------


def asleep(run: PartRun, *names: str) -> None:
    run.step(90)
    for name in names:
        assert run.of("Motion.still", name) > 0.5, name
    before = [run.of("Pose.position", name) for name in names]
    run.step(5)
    assert all((run.of("Pose.position", name) == at).all() for name, at in zip(names, before, strict=True))


@pytest.mark.full
def test_bodies_sleep_and_wake_when_their_parts_change() -> None:
    for change in ("legs go", "legs are short", "the ledge of parts goes down", "a push"):
        ledge = replace(table("ledge", (3.0, 0.0), kind="static"), material=rough(0.5))
        lies = Body("lies", box(0.1, 0.1, 0.1), (3.0, 0, 0.86))
        run = PartRun(table(), ledge, lies, floor(), scene={"sleep": True})
        asleep(run, "table", "lies")
        woken = "lies" if change.startswith("the ledge") else "table"
        before = run.of("Pose.position", woken)
        if change == "legs go":
            run.destroy(run.limbs["table", 0])
            run.destroy(run.limbs["table", 1])
        elif change == "legs are short":
            for i in range(4):
                run.write("Shape.size", i, (0.04, 0.04, 0.3), "Limb")
        elif change == "a push":
            run.write("Velocity.linear", "table", (0.5, 0, 0))
        else:
            run.write("Part.position", 5 + 4, (0, 0, 0.2), "Limb")
        run.step(30)
        assert np.abs(run.of("Pose.position", woken) - before).max() > 0.01, change
        still = "table" if woken == "lies" else "lies"
        assert run.of("Motion.still", still) > 0.5, f"{change}: {still} wakes"


def test_parts_come_and_go() -> None:
    """A table tips whose legs on one side are gone; with new ones it stands."""
    run = PartRun(table(), floor())
    run.step(10)
    for i in (0, 1):
        run.destroy(run.limbs["table", i])
    run.step(1)
    for i in (0, 1):
        run.attach(table(), i)
    run.step(30)
    assert abs(run.of("Pose.rotation", "table")[0]) > 1 - 1e-4
    for i in (0, 1):
        run.destroy(run.limbs["table", i])
    run.step(30)
    assert abs(run.of("Pose.rotation", "table")[0]) < 1 - 1e-3
    for i in range(2, 5):
        run.destroy(run.limbs["table", i])
    run.step(60)
    assert run.of("Pose.position", "table")[2] < -1  # nothing holds it


# ---- faults and declarations ---------------------------------------------------------------------------------------


def test_wrong_parts_fault_their_world() -> None:
    def fault(message: str, change: Any) -> None:
        run = PartRun(table(), floor())
        run.step(1)
        change(run)
        with pytest.raises(WorldFault, match=message):
            run.step(1)

    nothing = r"Limb\[1\]\.physics\.Part\.body is not a body of this world: .*\(physics\.part_of_nothing\)"
    own = r"Limb\[1\]\.physics\.Part\."
    fault(nothing, lambda run: run.write("Part.body", 1, (0, 0, 0, 0), "Limb"))
    fault(nothing, lambda run: run.write("Part.body", 1, run.limbs["table", 0][0], "Limb"))
    fault(r"part_of_nothing", lambda run: run.destroy(run.bodies["table"]))
    unwritten = own + r"rotation is 0: .*\(physics\.not_finite\)"
    fault(unwritten, lambda run: run.write("Part.rotation", 1, (0, 0, 0, 0), "Limb"))
    fault(own + r"rotation is not about 1", lambda run: run.write("Part.rotation", 1, (3, 0, 0, 0), "Limb"))
    fault(own + r"position is not finite", lambda run: run.write("Part.position", 1, (0, 0, float("nan")), "Limb"))
    fault(r"Limb\[1\]\.physics\.Shape\.kind is not", lambda run: run.write("Shape.kind", 1, 6, "Limb"))

    held = r"Link\[0\]\.physics\.Joint\.b is not a body .* a part"
    fault(held, lambda run: run.join(0, b=run.limbs["table", 0]))


@pytest.mark.parametrize(
    ("components", "message"),
    [((Part,), "Part is on an archetype without Pose and Shape"), ((Physics.body, Part), "a part moves with its body")],
)
def test_archetypes_that_cannot_be_parts_are_refused(components: tuple[Any, ...], message: str) -> None:
    class Odd(Stage):
        @property
        def archetypes(self) -> list[Archetype]:
            return [*super().archetypes, Archetype("Odd", *components, count=1)]

    with pytest.raises(ValueError, match=message):
        Simulator(Odd(), 1)


# ---- in an environment ---------------------------------------------------------------------------------------------


def played(worlds: int = 6, steps: int = 12, **options: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(Stool(), num_worlds=worlds, **options)
    env.reset(seed=3)
    for step in range(steps):
        env.step(torch.full((env.num_envs,), step % 3, dtype=torch.int64))
    return env


@pytest.mark.full
def test_threads_and_worlds_change_no_bit() -> None:
    one = snapshot(played(num_threads=1).sim)
    assert_same_bits(one, snapshot(played(num_threads=2).sim))
    assert_same_bits(one, first_worlds(played(9).sim, 6))


@pytest.mark.full
@pytest.mark.parametrize("executor", ["per_world", *of_today(["graph", "megakernel"], 1)])
def test_executors_agree(executor: str) -> None:
    own = {"executor": executor} if executor == "per_world" else {"_library": emulated_cuda("stool", executor)}
    assert_same_bits(snapshot(played().sim), snapshot(played(**own).sim))


@pytest.mark.full
def test_a_stool_in_an_environment() -> None:
    """Its mass from C++, what rays and overlaps find, and whom touches name."""
    env = played(steps=0)
    legs = tuple(Piece(capsule(0.05, 0.25), (x, y, 0.3), mass=0.5) for x, y in ((0.3, 0), (-0.2, 0.25), (-0.2, -0.25)))
    seat = Piece(box(0.35, 0.3, 0.05), (0.05, 0, 0.6), turned(0.5, (0, 0, 1)), mass=2.0)
    expected = Compound("stool", (*legs, seat))
    inverse = np.linalg.inv(expected.inertia)
    found = env.sim.tensor("Stool.physics.Mass.inverse_inertia")[0, 0]
    np.testing.assert_allclose(found, [inverse[place] for place in PLACES], rtol=1e-5, atol=1e-6)
    assert env.sim.tensor("Stool.physics.Mass.inverse")[0, 0].item() == pytest.approx(1 / 3.5)
    place = env.sim.tensor("Stool.physics.Pose.position")[0, 0]
    np.testing.assert_allclose(place, expected.centre + (0, 0, 0.01), atol=1e-5)
    for _ in range(12):
        env.step(torch.ones(env.num_envs, dtype=torch.int64))
    seen = env.sim.tensor("Stool.View.values")[::2, 0]  # of worlds without the ball
    np.testing.assert_allclose(seen[:, 0], 2.0 - 0.35, atol=1e-3)  # a ray from x = 2 to the first leg
    assert (seen[:, 1] == 1).all()  # it says so
    assert (seen[:, 2] == 1).all()  # a sphere at the foot of a leg overlaps that leg only, beside the floor
    assert (seen[:, 3] == 3).all()  # three legs touch the floor: rows of Touch with the stool's entity
