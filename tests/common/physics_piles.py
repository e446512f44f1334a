"""Scenes that are to stay as they are, and a room that nothing is to leave: for the physics library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import pi
from typing import Any

import numpy as np
from physics_scenes import WOOD, energy, floor, scene

from torch_batchsim.bench.scenes import Body, Scene, Shape, Trajectory, box, capsule, matrices, sphere, turned, wedge


@dataclass(frozen=True)
class Rest:
    """A scene at rest, in which bodies touch and do not overlap at the start.

    Attributes:
        seconds: for which it is to stand.
        pairs: names of bodies of which the first one stands on the second, and the size of the smaller one in metres.
        moved, turned: how far a body may be from its start at any time, metres and radians.
        sunk: by how much the distance of a pair may shrink at any time, as a share of the size.
        sunk_after: the same from one second on, when springs have taken up what they bear.
        gained: by how much the energy may rise over that of the start, as a share of what a fall of the whole by one
            size of the smallest body would set free.
        full: left to the full run of the tests.
    """

    scene: Scene
    seconds: float
    pairs: tuple[tuple[str, str, float], ...]
    moved: float
    turned: float = 0.02
    sunk: float = 0.01
    sunk_after: float = 0.01
    gained: float = 1e-3
    full: bool = True

    def __str__(self) -> str:
        return self.scene.name

    def worst(self, run: Trajectory) -> dict[str, float]:
        """The greatest of each quantity over the whole run, by the names of the tolerances."""
        away = np.linalg.norm(run.positions - run.positions[0], axis=2).max()
        stood = matrices(run.rotations)
        trace = np.einsum("tbij,bij->tb", stood, stood[0])  # 1 + 2 cos of the angle between then and now
        angle = np.arccos(np.clip((trace - 1) / 2, -1, 1)).max()
        sunk, sunk_after, settled = 0.0, 0.0, self.scene.steps(1.0)
        for upper, lower, size in self.pairs:
            apart = run.positions[:, self.scene.index(upper), 2] - run.positions[:, self.scene.index(lower), 2]
            sunk = max(sunk, float((apart[0] - apart).max()) / size)
            sunk_after = max(sunk_after, float((apart[0] - apart[settled:]).max()) / size)
        weight = sum(body.mass for body in self.scene.bodies if body.kind == "dynamic") * -self.scene.gravity[2]
        total = energy(self.scene, run)
        gained = float((total - total[0]).max()) / (weight * min(size for _, _, size in self.pairs))
        return {
            "moved": float(away), "turned": float(angle), "sunk": sunk, "sunk_after": sunk_after, "gained": gained,
        }  # fmt: skip

    def allowed(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("moved", "turned", "sunk", "sunk_after", "gained")}


def tower(count: int, half: float = 0.5) -> Rest:
    """Cubes on each other."""
    crates = [Body(f"crate_{i}", box(half, half, half), (0, 0, half * (2 * i + 1))) for i in range(count)]
    names = ["floor", *(crate.name for crate in crates)]
    pairs = tuple((upper, lower, 2 * half) for lower, upper in pairwise(names))
    return Rest(scene(f"a stack of {count} boxes", *crates, floor()), 60, pairs, 0.004 * count * half)


def pyramid(rows: int, half: float = 0.5) -> Rest:
    """Cubes in a plane: one less in each row than in the row below, each on two."""
    crates, pairs, gap = [], [], 0.05
    for row in range(rows):
        for i in range(rows - row):
            x = (i - (rows - row - 1) / 2) * (2 * half + gap)
            crates.append(Body(f"crate_{row}_{i}", box(half, half, half), (x, 0, half * (2 * row + 1))))
            under = [f"crate_{row - 1}_{i}", f"crate_{row - 1}_{i + 1}"] if row else ["floor"]
            pairs += [(crates[-1].name, lower, 2 * half) for lower in under]
    return Rest(scene(f"a pyramid of {len(crates)} boxes", *crates, floor()), 60, tuple(pairs), 0.01)


def unequal(masses: tuple[float, ...], half: float = 0.25, **more: Any) -> Rest:
    """Cubes of these masses, the first one at the bottom; ``more``: fields of the scene."""
    rest = tower(len(masses), half)
    heavy = [replace(body, mass=mass) for body, mass in zip(rest.scene.bodies, masses, strict=False)]
    name = f"masses of {', '.join(f'{mass:g}' for mass in masses)} kg on each other"
    if len(masses) > 3:
        name = f"a mass of {masses[-1]:g} kg on a stack of {len(masses) - 1} boxes of {masses[0]:g} kg"
    heavy_scene = replace(rest.scene, name=name, bodies=(*heavy, rest.scene.bodies[-1]), **more)
    # At the start nothing bears the load yet, and a light body can only pass on little of it in a pass.
    return replace(rest, scene=heavy_scene, moved=0.03 if len(masses) <= 3 else 0.1, sunk=0.03)


def tiny() -> Rest:
    """Cubes and balls of 1 mm, on the floor and on each other, in steps of 1/480 s.

    Beside the time in which a body falls by its size that is as long as 1/15 s is for one of 1 m.
    """
    half = 0.0005
    bodies = (
        Body("ball", sphere(half), (-0.003, 0, half)), Body("cube", box(half, half, half), (0, 0, half)),
        Body("low", box(half, half, half), (0.003, 0, half)), Body("high", box(half, half, half), (0.003, 0, 3 * half)),
        Body("long", box(4 * half, half, half), (0.008, 0, half)),
        Body("top", box(half, half, half), (0.009, 0, 3 * half)),
    )  # fmt: skip
    light = [replace(body, mass=1e-6) for body in bodies]
    floored = [(name, "floor", 2 * half) for name in ("ball", "cube", "low", "long")]
    pairs = (*floored, ("high", "low", 2 * half), ("top", "long", 2 * half))
    return Rest(scene("bodies of 1 mm", *light, floor(), dt=1 / 480), 5, pairs, 2e-5)


def assorted() -> Rest:
    """One of each shape on the floor, two more on another box, and one that leans on nothing but friction."""
    lying = turned(pi / 2, (0, 1, 0))
    ramp = wedge(2, 3, 2)
    bodies = (
        Body("ball", sphere(0.5), (-4, 0, 0.5)), Body("pill", capsule(0.4, 0.6), (-2, 0, 0.4), lying),
        Body("crate", box(1, 1, 1), (1, 0, 1), turned(0.3, (0, 0, 1))), Body("ramp", ramp, (5, 0, 2 / 3)),
        Body("small", box(0.25, 0.25, 0.25), (0.5, 0.2, 2.25)), Body("plate", box(0.5, 0.4, 0.05), (1.3, -0.2, 2.05)),
    )  # fmt: skip
    sizes = {"ball": 1.0, "pill": 0.8, "crate": 2.0, "ramp": 2.0}
    pairs = tuple((name, "floor", size) for name, size in sizes.items())
    pairs += (("small", "crate", 0.5), ("plate", "crate", 0.1))
    return Rest(scene("shapes at rest", *bodies, floor()), 10_000 / 60, pairs, 0.002)


def rests() -> Iterable[Rest]:
    yield replace(tower(3), seconds=5, full=False)
    yield replace(assorted(), seconds=5, full=False)
    yield assorted()
    yield replace(tower(3), seconds=10_000 / 60)
    yield tower(10)
    yield pyramid(10)
    yield unequal((1, 100))
    yield unequal((100, 1, 100))
    yield unequal((*[1] * 10, 100), 0.5, substeps=8)
    yield tiny()


RESTS = tuple(rests())


def table() -> str:
    """RESTS as a table in Markdown, for docs/physics_proof.md; what a scene has twice is shown with its longer run.

    Below it stands what all have in common.
    """
    lines = ["| scene | moved | sunk |", "|---|---|---|"]
    for rest in RESTS:
        if rest.full:
            lines.append(f"| {rest}, {rest.seconds:.4g} s | {rest.moved:g} m | {rest.sunk:.1%} |")
    ((turned, sunk_after, gained),) = {(rest.turned, rest.sunk_after, rest.gained) for rest in RESTS}
    shared = f"All turn by at most {turned:g} rad, sink by at most {sunk_after:.1%} after one second, and gain at most"
    shared += f"\n{gained:.1%} of the energy of a fall by one size."
    return "\n".join([*lines, "", shared])


# ---- a room ---------------------------------------------------------------------------------------------------------

ROOM, WALL = 2.0, 0.4  # half of the side of a cube inside, and how thick its walls are
PROJECTILES: dict[str, Shape] = {
    "ball": sphere(0.2), "pea": sphere(0.05), "pill": capsule(0.1, 0.2), "cube": box(0.2, 0.2, 0.2),
    "plate": box(0.3, 0.3, 0.03), "stick": box(0.03, 0.03, 0.4), "ramp": wedge(0.4, 0.6, 0.4),
}  # fmt: skip


def room(projectile: str) -> Scene:
    """A closed cube with one body in it, which is thrown from anywhere to anywhere (``throws``)."""
    outer = ROOM + WALL / 2
    walls = []
    for axis, name in enumerate("xyz"):
        for side in (-1, 1):
            half, place = [ROOM + WALL] * 3, [0.0] * 3
            half[axis], place[axis] = WALL / 2, side * outer
            label = f"{name}_{'low' if side < 0 else 'high'}"
            walls.append(Body(label, box(*half), tuple(place), kind="static", material=WOOD))
    thrown = Body(projectile, PROJECTILES[projectile], material=WOOD)
    return scene(f"a {projectile} thrown about in a room", thrown, *walls, dt=1 / 30)


def throws(count: int, fastest: float = 50.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Starts of the projectile: positions, rotations and velocities ``[count, ...]``; none touches a wall."""
    generator = np.random.default_rng(seed)

    def directions(size: int) -> np.ndarray:
        drawn = generator.normal(size=(count, size))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    return {
        "positions": generator.uniform(-ROOM + 0.5, ROOM - 0.5, (count, 3)),
        "rotations": directions(4),
        "linear": directions(3) * generator.uniform(0.2 * fastest, fastest, (count, 1)),
        "angular": directions(3) * generator.uniform(0, 20, (count, 1)),
    }


def outside(positions: np.ndarray) -> np.ndarray:
    """Which of ``positions [..., 3]`` lie deeper in a wall than half of its thickness, or beyond it, or nowhere."""
    return ~(np.abs(positions) < ROOM + WALL / 2).all(-1)
