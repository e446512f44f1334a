"""Scenes with known outcomes, which prove the physics library: closed formulas, and MuJoCo beside it.

PROOFS is the table of what is compared and what is tolerated; docs/physics_proof.md shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import cos, pi, radians, sin, sqrt, tan
from typing import Any

import numpy as np
from physics_formulas import elliptic_quarter_turn, free_rotation, inertia, integrated, tilts

from torch_batchsim.bench.scenes import (
    PLANE,
    Body,
    Joint,
    Scene,
    Trajectory,
    box,
    capsule,
    matrices,
    rough,
    sphere,
    to_position,
    to_velocity,
    turned,
    wedge,
)

G = 9.81
NO_GRAVITY = (0.0, 0.0, 0.0)
Measure = Callable[[Scene, Trajectory], Any]


@dataclass(frozen=True)
class Proof:
    """One quantity of one scene.

    Attributes:
        scene, seconds: what is run, and for how long.
        quantity: what ``measure`` computes from the run.
        measure: a number, or an array of which each element counts.
        expected: what it is to be, by a formula.
        tolerance, unit: the greatest difference, absolute.
        from_mujoco: metres that a body may at most be away from where MuJoCo has it, at any step; None: not compared,
            since MuJoCo lacks what the scene is about, or since the outcome is decided by a hair's breadth. (MuJoCo
            lifts what slides, by 3 cm where it slides with 3 m/s.)
        full: left to the full run of the tests.
    """

    scene: Scene
    seconds: float
    quantity: str
    measure: Measure
    expected: Any
    tolerance: float
    unit: str
    from_mujoco: float | None = None
    full: bool = False

    def __str__(self) -> str:
        return f"{self.scene.name}: {self.quantity}"


# ---- measures ------------------------------------------------------------------------------------------------------


def way(name: str, axis: int | None = None) -> Measure:
    """How far the body is from its start, at the end: a vector, or one coordinate."""

    def measure(scene: Scene, run: Trajectory) -> Any:
        moved = run.positions[-1, scene.index(name)] - run.positions[0, scene.index(name)]
        return moved if axis is None else moved[axis]

    return measure


def distance(name: str) -> Measure:
    return lambda scene, run: np.linalg.norm(way(name)(scene, run))


def last(column: str, name: str, axis: int) -> Measure:
    return lambda scene, run: getattr(run, column)[-1, scene.index(name), axis]


def tilt(name: str) -> Measure:
    """Angle between the body's z axis at the end and the vertical."""
    return lambda scene, run: tilts(run.rotations[-1, scene.index(name)])


def period(name: str, axis: int) -> Measure:
    """Mean time between passages of the lowest place, doubled."""

    def measure(scene: Scene, run: Trajectory) -> float:
        return 2 * float(np.mean(np.diff(_passages(run.times, run.positions[:, scene.index(name), axis]))))

    return measure


def _passages(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """When values change their sign, interpolated."""
    i = np.flatnonzero(values[:-1] * values[1:] < 0)
    share = values[i] / (values[i] - values[i + 1])
    return times[i] + share * (times[i + 1] - times[i])


def own_spin(scene: Scene, run: Trajectory) -> np.ndarray:
    """Angular velocity ``[steps + 1, 3]`` of the first body in its own frame."""
    return np.einsum("tji,tj->ti", matrices(run.rotations[:, 0]), run.angular[:, 0])


def momentum(scene: Scene, run: Trajectory) -> np.ndarray:
    """``[steps + 1, 6]``: of all dynamic bodies, linear and about the origin."""
    total = np.zeros((len(run.times), 6))
    for i, body in enumerate(scene.bodies):
        if body.kind == "dynamic":
            m, turn = body.mass * run.linear[:, i], matrices(run.rotations[:, i])
            world = turn @ inertia(body) @ np.swapaxes(turn, 1, 2)
            spin = np.einsum("tij,tj->ti", world, run.angular[:, i])
            total += np.concatenate([m, spin + np.cross(run.positions[:, i], m)], axis=1)
    return total


def energy(scene: Scene, run: Trajectory) -> np.ndarray:
    """``[steps + 1]``: kinetic and potential, of all dynamic bodies."""
    total = np.zeros(len(run.times))
    for i, body in enumerate(scene.bodies):
        if body.kind == "dynamic":
            own = np.einsum("tji,tj->ti", matrices(run.rotations[:, i]), run.angular[:, i])
            total += body.mass / 2 * np.sum(run.linear[:, i] ** 2, axis=1)
            total += np.einsum("ti,ij,tj->t", own, inertia(body), own) / 2
            total -= body.mass * run.positions[:, i] @ np.array(scene.gravity)
    return total


# ---- scenes that move ----------------------------------------------------------------------------------------------

ICE, WOOD, RUBBER = rough(0.3), rough(0.5), rough(1.0)


def floor(material: Any = WOOD) -> Body:
    return Body("floor", PLANE, kind="static", material=material)


def scene(name: str, *bodies: Body, **more: Any) -> Scene:
    return Scene(name, bodies, **more)


def _flight() -> Iterable[Proof]:
    fall = scene("free fall", Body("ball", sphere(0.1), (0, 0, 30)))
    yield Proof(fall, 2, "way", way("ball", 2), -G / 2 * 4, 0.05, "m", 0.05)
    thrown = scene("projectile", Body("stone", box(0.1, 0.2, 0.3), (0, 0, 1), linear=(4, 1, 9), angular=(0, 0, 3)))
    t = 1.8
    yield Proof(thrown, t, "way", way("stone"), (4 * t, t, 9 * t - G / 2 * t * t), 0.05, "m", 0.05)
    yield Proof(thrown, t, "energy lost", lambda s, r: np.ptp(energy(s, r)) / energy(s, r)[0], 0, 0.01, "1")


def _friction() -> Iterable[Proof]:
    v, mu = 3.0, 0.3
    slab = Body("slab", box(0.3, 0.3, 0.1), (0, 0, 0.1), linear=(v, 0, 0), material=ICE)
    sliding = scene("sliding to rest", slab, floor(ICE))
    yield Proof(sliding, 2, "way", way("slab", 0), v * v / (2 * mu * G), 0.02, "m", 0.05)
    still = lambda s, r: r.times[np.argmax(np.abs(r.linear[:, 0, 0]) < 0.005)]  # noqa: E731
    yield Proof(sliding, 2, "time", still, v / (mu * G), 0.02, "s")
    ball = Body("ball", sphere(0.2), (0, 0, 0.2), linear=(v, 0, 0), material=ICE)
    rolling = scene("a sliding ball rolls", ball, floor(ICE))
    yield Proof(rolling, 2, "velocity", last("linear", "ball", 0), 5 / 7 * v, 0.03, "m/s", 0.03)
    for name, degrees, material, seconds in (
        ("wedge below the friction angle", 25, WOOD, 5), ("wedge above the friction angle", 30, ICE, 1),
    ):  # fmt: skip
        angle, mu = radians(degrees), material.static_friction
        ramp = scene(name, *_on_ramp(angle, material))
        rate = max(0.0, G * (sin(angle) - mu * cos(angle)))
        yield Proof(ramp, seconds, "way", distance("slab"), rate / 2 * seconds**2, 0.02 if rate else 0.005, "m", 0.03)
    belt = scene(
        "a moving floor takes a box along",
        Body("crate", box(0.2, 0.2, 0.2), (0, 0, 0.2), material=ICE),
        Body("belt", box(20, 2, 0.5), (0, 0, -0.5), linear=(1.5, 0, 0), kind="kinematic", material=ICE),
    )
    t = 1.5 / (ICE.static_friction * G)
    yield Proof(belt, 1.5, "way", way("crate", 0), 1.5 * t / 2 + 1.5 * (1.5 - t), 0.03, "m")


def _on_ramp(angle: float, material: Any) -> tuple[Body, Body]:
    """A slab on the slope of a static wedge, which rises along y."""
    length, thick = 8.0, 0.1
    place = np.array([0, cos(angle), sin(angle)]) * 0.3 * length + np.array([0, -sin(angle), cos(angle)]) * thick
    slab = Body("slab", box(0.3, 0.3, thick), tuple(map(float, place)), turned(angle, (1, 0, 0)), material=material)
    ramp = wedge(3.0, length, length * tan(angle))
    _, y, z = map(float, ramp.corners()[0])  # of the foot, which is to go through the origin
    return slab, Body("ramp", ramp, (0.0, -y, -z), kind="static", material=material)


def _tipping() -> Iterable[Proof]:
    half, beyond = 0.2, 0.03
    for name, x in (("a box within an edge", -beyond), ("a box over an edge", beyond)):
        table = Body("table", box(1, 1, 0.5), (-1, 0, -0.5), kind="static", material=RUBBER)
        crate = Body("crate", box(half, half, half), (x, 0, half), material=RUBBER)
        on_edge = scene(name, crate, table)
        if x < 0:
            yield Proof(on_edge, 3, "way", distance("crate"), 0, 0.002, "m", 0.005)
            continue
        arm = 2 / 3 * half**2 + beyond**2 + half**2  # moment of inertia about the edge, of a mass of 1
        rate = lambda s, arm=arm: np.array([s[1], G * (beyond * cos(s[0]) + half * sin(s[0])) / arm])  # noqa: E731
        yield Proof(on_edge, 0.4, "tilt", tilt("crate"), integrated(rate, (0, 0), 0.4)[0], 0.04, "rad", 0.03)
    a, high = 0.2, 0.4
    reach = sqrt(a * a + high * high)
    enough = sqrt(1.5 * G * (reach - high)) / reach  # all of the energy is needed to stand on the edge
    for name, share, angle in (("a push too weak to tip a box", 0.95, 0.0), ("a push that tips a box", 1.05, pi / 2)):
        w = share * enough
        crate = Body(
            "crate", box(a, a, high), (0, 0, high), linear=(w * high, 0, w * a), angular=(0, w, 0), material=RUBBER
        )
        yield Proof(scene(name, crate, floor(RUBBER)), 5, "tilt", tilt("crate"), angle, 0.02, "rad")


def _pushed_stack() -> Iterable[Proof]:
    for name, force in (("a stack pushed too weakly", 10.0), ("a pushed stack", 20.0)):
        crates = [Body(f"crate_{i}", box(0.25, 0.25, 0.25), (0, 0, 0.25 + 0.5 * i)) for i in range(3)]
        crates[0] = replace(crates[0], force=(force, 0, 0))
        rate = max(0.0, (force - 0.5 * 3 * G) / 3)
        pile = scene(name, *crates, floor())
        # MuJoCo's contacts lift while they slide, so that its crates come apart by 0.1 m where the stack moves.
        beside = 0.03 if not rate else None
        yield Proof(pile, 1, "way of the lowest", way("crate_0", 0), rate / 2, 0.02, "m", beside)
        yield Proof(pile, 1, "way of the highest", way("crate_2", 0), rate / 2, 0.02, "m", beside)


def _pendulums() -> Iterable[Proof]:
    length, start = 1.0, radians(60)
    rod = Body(
        "rod", box(0.05, 0.05, length / 2), (length / 2 * sin(start), 0, -length / 2 * cos(start)),
        turned(-start, (0, 1, 0)),
    )  # fmt: skip
    hinge = Joint("hinge", None, "rod", (0, 0, 0), (0, 1, 0))
    swing = scene("pendulum on a hinge", rod, joints=(hinge,))
    about = inertia(rod)[1, 1] + length**2 / 4
    exact = 4 * elliptic_quarter_turn(start) * sqrt(about / (G * length / 2))
    yield Proof(swing, 10, "period", period("rod", 0), exact, 0.001 * exact, "s", 0.01)
    whole = G * length / 2 * (1 - cos(start))
    lost = lambda s, r: (energy(s, r)[0] - energy(s, r)[-1]) / whole  # noqa: E731
    # Gravity is given at once in each substep h, so the energy goes up and down by h / 2 of its power.
    yield Proof(swing, 10, "share of energy lost", lost, 0, 0.01, "1")
    arm, angle, radius = 1.0, radians(30), 0.1
    bob = Body(
        "bob", sphere(radius), (arm * sin(angle), 0, -arm * cos(angle)),
        linear=(0, sqrt(G / (arm * cos(angle))) * arm * sin(angle), 0),
        angular=(0, 0, sqrt(G / (arm * cos(angle)))),
    )  # fmt: skip
    cone = scene("conical pendulum on a ball joint", bob, joints=(Joint("ball", None, "bob", (0, 0, 0)),))
    turn = 2 * pi / sqrt(G / (arm * cos(angle)))
    yield Proof(cone, 10, "period", period("bob", 1), turn, 0.0005 * turn, "s", 0.01)
    yield Proof(cone, 10, "rise and fall", lambda s, r: np.ptp(r.positions[:, 0, 2]), 0, 0.004, "m")
    upper = Body("upper", box(0.05, 0.05, 0.25), (0.25, 0, 0), turned(-pi / 2, (0, 1, 0)))
    lower = Body("lower", box(0.05, 0.05, 0.25), (0.75, 0, 0), turned(-pi / 2, (0, 1, 0)))
    joints = (
        Joint("hinge", None, "upper", (0, 0, 0), (0, 1, 0)),
        Joint("hinge", "upper", "lower", (0.5, 0, 0), (0, 1, 0)),
    )
    double = scene("double pendulum", upper, lower, joints=joints)
    lost = lambda s, r: np.ptp(energy(s, r)) / (0.5 * 2 * G)  # noqa: E731
    yield Proof(double, 2, "rise and fall of energy, a share", lost, 0, 0.02, "1", 0.02)


def _spinning() -> Iterable[Proof]:
    stone = Body("stone", box(0.1, 0.2, 0.3), angular=(0.5, 5.0, 0.5))
    spin = scene("intermediate axis", stone, gravity=NO_GRAVITY)
    seconds = 20.0
    exact = free_rotation(inertia(stone), stone.angular, seconds)
    flips = np.mean(np.diff(_passages(np.linspace(0, seconds, len(exact)), exact[:, 1])))
    ours = lambda s, r: np.mean(np.diff(_passages(r.times, own_spin(s, r)[:, 1])))  # noqa: E731
    yield Proof(spin, seconds, "time from flip to flip", ours, flips, 0.03 * flips, "s")
    seconds = 10_000 * spin.dt
    lost = lambda s, r: np.abs(energy(s, r) / energy(s, r)[0] - 1).max()  # noqa: E731
    yield Proof(spin, seconds, "energy lost in 10,000 steps", lost, 0, 0.01, "1", full=True)

    def turned_away(s: Scene, r: Trajectory) -> float:
        spins = momentum(s, r)[:, 3:]
        return float(np.linalg.norm(spins - spins[0], axis=1).max() / np.linalg.norm(spins[0]))

    yield Proof(spin, seconds, "angular momentum lost in 10,000 steps", turned_away, 0, 0.01, "1", full=True)


def _machines() -> Iterable[Proof]:
    cart = Body("cart", box(0.2, 0.2, 0.2), mass=2.0)

    def on_rail(name: str, **options: Any) -> Scene:
        rail = Joint("slider", None, "cart", (0, 0, 0), (1, 0, 0), **options)
        return scene(name, cart, joints=(rail,))

    motor = on_rail("slider with a motor", motor=to_velocity(2.0, 5.0))
    yield Proof(motor, 1.5, "way", way("cart", 0), 2.5 / 2 * 0.64 + 2 * 0.7, 0.01, "m", 0.01)
    yield Proof(motor, 1.5, "velocity", last("linear", "cart", 0), 2, 0.001, "m/s")
    ends = on_rail("slider with limits", motor=to_velocity(2.0, 5.0), limits=(-0.5, 0.5))
    yield Proof(ends, 2, "way", way("cart", 0), 0.5, 0.005, "m", 0.04)
    servo = on_rail("slider with a target", motor=to_position(0.7, 50.0))
    yield Proof(servo, 3, "way", way("cart", 0), 0.7, 0.0005, "m")
    wheel = Body("wheel", box(0.4, 0.1, 0.4))
    about = inertia(wheel)[1, 1]
    axle = Joint("hinge", None, "wheel", (0, 0, 0), (0, 1, 0), motor=to_velocity(3.0, about * 4))
    turning = scene("hinge with a motor", wheel, joints=(axle,))
    speed = lambda at: lambda s, r: r.angular[s.steps(at), 0, 1]  # noqa: E731
    yield Proof(turning, 2, "speed on the way", speed(0.5), 2, 0.001, "rad/s", 0.001)
    yield Proof(turning, 2, "speed at the end", speed(2.0), 3, 0.001, "rad/s")
    half = box(0.5, 0.1, 0.1)
    pair = (Body("left", half, (-0.5, 0, 0), angular=(0, 0, 3)), Body("right", half, (0.5, 0, 0), linear=(0, 3, 0)))
    rigid = scene("two bodies in one", *pair, joints=(Joint("fixed", "left", "right", (0, 0, 0)),), gravity=NO_GRAVITY)
    apart = lambda s, r: np.abs(np.linalg.norm(r.positions[:, 0] - r.positions[:, 1], axis=1) - 1).max()  # noqa: E731
    yield Proof(rigid, 3, "distance lost", apart, 0, 1e-5, "m")
    smooth = rough(0)
    agent = Body(
        "agent", box(1, 1, 1), (0, 0, 1), force=(3, 0, 0), torque=(1, 1, 2 / 3), locks=("rx", "ry"), material=smooth
    )
    upright = scene("a body that turns about z only", agent, floor(smooth))
    yield Proof(upright, 2, "way", way("agent", 0), 6, 0.06, "m", 0.06)
    yield Proof(upright, 2, "spin", lambda s, r: r.angular[-1, 0], (0, 0, 2), 0.01, "rad/s")


def _collisions() -> Iterable[Proof]:
    half = rough(0.0, 0.5)
    balls = (
        Body("light", sphere(0.2), (-1, 0, 0), linear=(2, 0, 0), material=half),
        Body("heavy", sphere(0.3), (0, 0, 0), mass=3.0, material=half),
    )
    hit = scene("two balls", *balls, gravity=NO_GRAVITY)
    yield Proof(hit, 1, "velocities", lambda s, r: r.linear[-1, :, 0], (-0.25, 0.75), 0.01, "m/s")
    bouncing = rough(0.0, 0.8)
    ball = Body("ball", sphere(0.2), (0, 0, 1.2), material=bouncing)
    drop = scene("bouncing ball", ball, floor(bouncing))
    after = lambda s, r: r.positions[s.steps(0.5) :, 0, 2].max() - 0.2  # noqa: E731
    yield Proof(drop, 1.2, "height of the first bounce", after, 0.64, 0.01, "m")
    cloud = scene("a cloud of bodies", *_cloud(), gravity=NO_GRAVITY)
    drift = lambda s, r: np.abs(momentum(s, r) - momentum(s, r)[0]).max(0) / _scale(s)  # noqa: E731
    yield Proof(cloud, 4, "momentum lost", lambda s, r: drift(s, r)[:3], 0, 1e-5, "1", full=True)
    yield Proof(cloud, 4, "angular momentum lost, 1/m", lambda s, r: drift(s, r)[3:], 0, 5e-3, "1", full=True)
    gained = lambda s, r: np.maximum(np.diff(energy(s, r)), 0).max() / energy(s, r)[0]  # noqa: E731
    yield Proof(cloud, 4, "energy gained in a step", gained, 0, 1e-4, "1", full=True)


def _scale(s: Scene) -> float:
    """Sum of the magnitudes of all momenta."""
    return sum(body.mass * float(np.linalg.norm(body.linear)) for body in s.bodies)


def _cloud() -> list[Body]:
    """Twelve bodies of all shapes that fly to the middle."""
    generator, bodies = np.random.default_rng(4), []
    shapes = (sphere(0.3), box(0.2, 0.3, 0.4), capsule(0.2, 0.3), wedge(0.5, 0.6, 0.5))
    for i in range(12):
        direction = generator.normal(size=3)
        place = direction / np.linalg.norm(direction) * (1.5 + 0.25 * i)
        spin, rotation = generator.normal(size=3), turned(generator.uniform(0, pi), generator.normal(size=3))
        towards = tuple(map(float, -1.5 * place / np.linalg.norm(place)))
        bodies.append(
            Body(
                f"body_{i}", shapes[i % 4], tuple(map(float, place)), rotation, towards, tuple(map(float, spin)),
                mass=float(generator.uniform(0.5, 3)), material=rough(0.4, 0.3),
            )
        )  # fmt: skip
    return bodies


PROOFS: tuple[Proof, ...] = tuple(
    proof
    for family in (_flight, _friction, _tipping, _pushed_stack, _pendulums, _spinning, _machines, _collisions)
    for proof in family()
)


def table() -> str:
    """PROOFS as a table in Markdown, for docs/physics_proof.md; a scene is named in its first row."""
    lines, last = ["| scene | quantity | expected | beside MuJoCo |", "|---|---|---|---|"], ""
    for proof in PROOFS:
        scene = f"{proof.scene.name}, {proof.seconds:.4g} s"
        expected = ", ".join(f"{value:.4g}" for value in np.atleast_1d(np.asarray(proof.expected, np.float64)))
        unit = "" if proof.unit == "1" else f" {proof.unit}"
        beside = "" if proof.from_mujoco is None else f"{proof.from_mujoco:g} m"
        cells = ("" if scene == last else scene, proof.quantity, f"{expected} ± {proof.tolerance:.2g}{unit}", beside)
        lines.append(f"| {' | '.join(cells)} |")
        last = scene
    return "\n".join(lines)
