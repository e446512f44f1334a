"""Scenes of fast bodies for the physics library: rooms with thin walls, corridors, obstacles, pistons, paddles, pairs.

A case draws starts for any number of worlds of one scene, and says in which of them a body is where it cannot have
come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from physics_formulas import inertia
from physics_piles import PROJECTILES, ROOM, WALL, room, throws
from physics_scenes import NO_GRAVITY, scene

from torch_batchsim.bench.scenes import PLANE, Body, Joint, Scene, Shape, box, capsule, matrices, sphere, turned, wedge

State = dict[str, np.ndarray]
FASTEST = 50.0  # m/s
FAST: dict[str, Shape] = {**PROJECTILES, "bullet": sphere(0.005)}


@dataclass(frozen=True)
class Case:
    """A scene whose first body is thrown.

    Attributes:
        start: ``start(worlds, seed)`` gives positions, rotations and velocities ``[worlds, ...]`` of that body.
        lost: ``lost(before, after)``, states of all bodies ``[worlds, bodies, ...]`` of two steps, gives ``[worlds]``.
        conserved: nothing in it can give a body energy.
    """

    name: str
    scene: Scene
    start: Callable[[int, int], State]
    lost: Callable[[State, State], np.ndarray]
    conserved: bool = True

    def __str__(self) -> str:
        return self.name


def drawn(worlds: int, seed: int, low: tuple[float, ...], high: tuple[float, ...]) -> State:
    """Starts in a box, with throws to anywhere and any rotation."""
    start = throws(worlds, seed=seed)
    start["positions"] = np.random.default_rng([seed, 1]).uniform(low, high, (worlds, 3))
    return start


def energies(scene: Scene, state: State) -> np.ndarray:
    """``[worlds]``: of all dynamic bodies, joules."""
    total = np.zeros(len(state["positions"]))
    for i, body in enumerate(scene.bodies):
        if body.kind != "dynamic":
            continue
        own = np.einsum("wji,wj->wi", matrices(state["rotations"][:, i]), state["angular"][:, i])
        total += body.mass / 2 * (state["linear"][:, i] ** 2).sum(1)
        total += np.einsum("wi,ij,wj->w", own, inertia(body), own) / 2
        total -= body.mass * state["positions"][:, i] @ np.array(scene.gravity)
    return total


def in_frame(state: State, body: int) -> np.ndarray:
    """The first body's place ``[worlds, 3]`` in the frame of another."""
    away = state["positions"][:, 0] - state["positions"][:, body]
    return np.einsum("wji,wj->wi", matrices(state["rotations"][:, body]), away)


# ---- what stands ----------------------------------------------------------------------------------------------------


def thrown_in_a_room(projectile: str, wall: float) -> Case:
    """As ``physics_piles.room``, with other walls."""
    shared = room("ball")
    walls = []
    for body in shared.bodies[1:]:
        half = tuple(wall / 2 if size == WALL / 2 else ROOM + wall for size in body.shape.size)
        position = tuple(np.sign(body.position) * (ROOM + wall / 2))
        walls.append(replace(body, shape=box(*half), position=position))
    thrown = Body(projectile, FAST[projectile], material=shared.bodies[0].material)
    name = f"a {projectile} in a room with walls of {wall:g} m"

    def lost(before: State, after: State) -> np.ndarray:
        return ~(np.abs(after["positions"][:, 0]) < ROOM + wall / 2).all(-1)

    return Case(name, scene(name, thrown, *walls, dt=1 / 30), lambda worlds, seed: throws(worlds, seed=seed), lost)


def thrown_in_a_corridor(projectile: str, width: float = 0.3, wall: float = 0.1) -> Case:
    """Between two walls that are nearer to each other than the body is long; it begins along them."""
    along = turned(np.pi / 2, (0, 1, 0)) if projectile == "plate" else (1.0, 0.0, 0.0, 0.0)
    place, half = (width + wall) / 2, (wall / 2, 9, 9)
    walls = [Body(name, box(*half), (x, 0, 0), kind="static") for name, x in (("low", -place), ("high", place))]
    name = f"a {projectile} between two walls"

    def start(worlds: int, seed: int) -> State:
        state = drawn(worlds, seed, (-0.05,) * 3, (0.05,) * 3)
        state["rotations"] = np.tile(along, (worlds, 1))
        state["linear"] *= [1, 0.1, 0.1]
        return state

    def lost(before: State, after: State) -> np.ndarray:
        return ~(np.abs(after["positions"][:, 0, 0]) < place)

    thrown = Body(projectile, FAST[projectile])
    return Case(name, scene(name, thrown, *walls, dt=1 / 30, gravity=NO_GRAVITY), start, lost)


OBSTACLES: dict[str, Shape] = {
    "ball": sphere(0.3), "pillar": capsule(0.2, 1.0), "ramp": wedge(4.0, 1.2, 1.2), "ground": PLANE,
}  # fmt: skip


def depth(obstacle: Shape, local: np.ndarray) -> np.ndarray:
    """How deep points ``[worlds, 3]`` in the frame of an obstacle are in it."""
    if obstacle.kind == "plane":
        return -local[:, 2]
    if obstacle.kind == "hull":
        x, length, height = obstacle.size
        slope = np.array([-height, length]) / np.hypot(length, height)  # from the centroid to the slope: height / 3
        faces = [np.abs(local[:, 0]) - x / 2, -local[:, 2] - height / 3, local[:, 1] - length / 3]
        faces.append(local[:, 1:] @ slope - np.dot(slope, [length / 3, 2 * height / 3]))
        return -np.max(faces, axis=0)
    core = local.copy()
    core[:, 2] -= np.clip(core[:, 2], -obstacle.size[2], obstacle.size[2]) if obstacle.kind == "capsule" else 0
    return obstacle.size[0] - np.linalg.norm(core, axis=1)


def thrown_at(projectile: str, obstacle: str) -> Case:
    """At what stands in the middle, from all around (at the ground from above), about straight."""
    shape = OBSTACLES[obstacle]
    name = f"a {projectile} thrown at a {obstacle}"

    def start(worlds: int, seed: int) -> State:
        state = drawn(worlds, seed, (-1.0,) * 3, (1.0,) * 3)
        away = state["positions"] - np.random.default_rng([seed, 2]).uniform(-0.2, 0.2, (worlds, 3))
        away[:, 2] = np.abs(away[:, 2]) + 0.3 if shape.kind == "plane" else away[:, 2]
        away /= np.linalg.norm(away, axis=1)[:, None]
        state["positions"] = 2.5 * away
        state["linear"] = -away * np.linalg.norm(state["linear"], axis=1)[:, None]
        return state

    def lost(before: State, after: State) -> np.ndarray:
        return ~(depth(shape, in_frame(after, 1)) < 0.05)

    bodies = Body(projectile, FAST[projectile]), Body(obstacle, shape, kind="static")
    return Case(name, scene(name, *bodies, dt=1 / 30, gravity=NO_GRAVITY), start, lost)


# ---- what moves by itself -------------------------------------------------------------------------------------------


def changed_sides(before: State, after: State, face: float) -> np.ndarray:
    """Whether the first body has gone through the second one, thin along its x, within ``face`` of its centre."""
    here, there = in_frame(before, 1), in_frame(after, 1)
    over = (np.abs(here[:, 1:]).max(1) < face) & (np.abs(there[:, 1:]).max(1) < face)
    return over & (here[:, 0] * there[:, 0] < 0) | ~np.isfinite(there).all(1)


def hit_by_a_piston(projectile: str, speed: float, wall: float) -> Case:
    """A wall that comes, with the speed of what it is, at a body that flies about in front of it."""
    name = f"a {projectile} hit by a wall of {wall:g} m at {speed:g} m/s"
    piston = Body("piston", box(wall / 2, 500, 500), (-1.5, 0, 0), linear=(speed, 0, 0), kind="kinematic")

    def start(worlds: int, seed: int) -> State:
        state = drawn(worlds, seed, (-0.4, -1, -1), (2, 1, 1))
        state["linear"] *= np.random.default_rng([seed, 2]).uniform(0, 1, (worlds, 1))
        return state

    thrown = Body(projectile, FAST[projectile])
    bodies = scene(name, thrown, piston, dt=1 / 30, gravity=NO_GRAVITY)
    return Case(name, bodies, start, partial(changed_sides, face=400), conserved=False)


def hit_by_a_paddle(projectile: str, spin: float = 8.0) -> Case:
    """A wide wall that turns about its middle, and a body that rests or flies beside it."""
    name = f"a {projectile} hit by a paddle"
    paddle = Body("paddle", box(0.1, 4, 4), angular=(0, 0, spin), kind="kinematic")

    def start(worlds: int, seed: int) -> State:
        state = drawn(worlds, seed, (0.6, -2, -2), (2, 2, 2))
        state["linear"] *= np.random.default_rng([seed, 2]).uniform(0, 0.3, (worlds, 1))
        return state

    thrown = Body(projectile, FAST[projectile])
    bodies = scene(name, thrown, paddle, dt=1 / 30, gravity=NO_GRAVITY)
    return Case(name, bodies, start, partial(changed_sides, face=3), conserved=False)


# ---- what lets through, and pairs -----------------------------------------------------------------------------------


def bead_on_a_wire() -> Scene:
    """A fast body on a slider whose axis goes through the wall that holds it: bodies of a joint do not collide."""
    bead = Body("bead", FAST["stick"], (-1, 0, 0), linear=(30, 0, 0))
    wall = Body("wall", box(0.2, 2, 2), kind="kinematic")
    wire = Joint("slider", "wall", "bead", (-1, 0, 0), (1, 0, 0))
    return scene("a bead on a wire through a wall", bead, wall, joints=(wire,), dt=1 / 30, gravity=NO_GRAVITY)


PAIRS = (
    ("stick", "stick"), ("stick", "cube"), ("stick", "pill"), ("plate", "plate"), ("cube", "cube"), ("ball", "ball"),
    ("pea", "stick"), ("ramp", "ramp"),
)  # fmt: skip


def two(one: str, other: str) -> Scene:
    bodies = Body("one", FAST[one]), Body("other", FAST[other])
    return scene(f"a {one} and a {other}", *bodies, dt=1 / 30, gravity=NO_GRAVITY)


def towards_each_other(run_start: State, seed: int, spin: float, off: float = 0.2) -> State:
    """Two bodies that fly at each other, about straight: by up to ``off`` metres aside; ``spin`` at most, rad/s."""
    state, generator = run_start, np.random.default_rng(seed)
    worlds = len(state["positions"])

    def directions(size: int) -> np.ndarray:
        drawn = generator.normal(size=(worlds, size))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    line = directions(3)
    for body, side in ((0, 1), (1, -1)):
        aside = generator.uniform(-off, off, (worlds, 3))
        state["positions"][:, body] = side * line * generator.uniform(1, 2, (worlds, 1)) + aside
        state["linear"][:, body] = -side * line * generator.uniform(0.2 * FASTEST, FASTEST, (worlds, 1))
        state["rotations"][:, body] = directions(4)
        state["angular"][:, body] = directions(3) * generator.uniform(0, spin, (worlds, 1))
    return state


THIN = [(one, "plate") for one in FAST if one != "plate"] + [("plate", "plate")]


def gone_through(before: State, after: State) -> np.ndarray:
    """Whether the first body's centre has gone through the plate that is the second one, well within its edges."""
    (x, _, z), here, there = FAST["plate"].size, in_frame(before, 1), in_frame(after, 1)
    share = here[:, 2] / np.where(here[:, 2] == there[:, 2], 1.0, here[:, 2] - there[:, 2])
    middle = here + (there - here) * share[:, None]
    over = np.abs(middle[:, :2]).max(1) < x - z
    gaps, speeds = (values[:, 0] - values[:, 1] for values in (before["positions"], before["linear"]))
    comes = ((gaps * speeds).sum(1) < 0) & (np.minimum(np.abs(here[:, 2]), np.abs(there[:, 2])) > z / 2)
    return over & comes & (here[:, 2] * there[:, 2] < 0)


def cases() -> Iterable[Case]:
    for projectile in FAST:
        for wall in (0.4, 0.1):
            if wall < 0.4 or projectile not in PROJECTILES:  # the others are the matter of test_physics_scenes.py
                yield thrown_in_a_room(projectile, wall)
    for projectile in ("stick", "plate", "pill"):
        yield thrown_in_a_corridor(projectile)
    for obstacle in OBSTACLES:
        for projectile in ("stick", "bullet", "cube"):
            yield thrown_at(projectile, obstacle)
    for projectile in ("stick", "bullet", "cube", "ramp"):
        for speed, wall in ((10.0, 0.4), (50.0, 0.4), (50.0, 0.1)):
            yield hit_by_a_piston(projectile, speed, wall)
        yield hit_by_a_paddle(projectile)


CASES = tuple(cases())
