"""Properties of any scene of rigid bodies: in a mirror, with bodies in another order, elsewhere, it goes the same way.

Flying and joined bodies differ by rounding only, which grows as fast as a chain of bodies is chaotic. Where
bodies touch, more differs: the impulses of a contact are found one after the other, in an order that depends on how
bodies are numbered and in which corner of a face a point lies, and of more than four points those that are kept are
chosen by fixed directions. So a heap goes the same way until its first touches; and after 3 s, when a body may lie on
its other side, what it has lost of its energy and where its middle is are still the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from physics_crowd import SYMMETRIES, Crowd, Symmetry, random_scene
from physics_scenes import energy, floor, rough, scene

from torch_batchsim.bench.scenes import Body, Joint, Scene, Trajectory, box, sphere

pytestmark = pytest.mark.full
SCENES = 40


def both(scenes: list[Scene], symmetry: Symmetry, steps: int) -> list[tuple[Scene, Trajectory, Trajectory]]:
    """Runs of each scene, and of the changed one, changed back."""
    runs = Crowd([*scenes, *map(symmetry.change, scenes)]).run(steps)
    plain, changed = runs[: len(scenes)], runs[len(scenes) :]
    return [(s, run, symmetry.back(s, other)) for s, run, other in zip(scenes, plain, changed, strict=True)]


def apart(run: Trajectory, other: Trajectory) -> np.ndarray:
    """``[steps + 1]``: the greatest distance of a body from where the other run has it."""
    return np.linalg.norm(run.positions - other.positions, axis=2).max(axis=1)


def centre(s: Scene, run: Trajectory) -> np.ndarray:
    """``[steps + 1, 3]``: the centre of mass of what moves."""
    mass = np.array([body.mass * (body.kind == "dynamic") for body in s.bodies])
    return np.einsum("tbi,b->ti", run.positions, mass / mass.sum())


@pytest.mark.parametrize("symmetry", SYMMETRIES, ids=str)
def test_flying_and_joined_bodies_go_the_same_way(symmetry: Symmetry) -> None:
    for s, run, other in both([random_scene(seed, flying=True) for seed in range(SCENES)], symmetry, 60):
        way = apart(run, other)
        assert way[1] < 5e-6 and way[10] < 5e-5, f"{s.name}: {way[[1, 10]]} m after 1 and 10 steps"
        assert way[60] < 0.02, f"{s.name}: {way[60]} m after 60 steps"


@pytest.mark.parametrize("symmetry", SYMMETRIES, ids=str)
def test_heaps_go_the_same_way(symmetry: Symmetry) -> None:
    middles, losses, apart_early = [], [], []
    for s, run, other in both([random_scene(seed) for seed in range(SCENES)], symmetry, 90):
        early = apart(run, other)
        assert early[5] < 1e-5, f"{s.name}: {early[5]} m after 5 steps, before anything has touched"
        apart_early.append(early[20])
        e, f = energy(s, run), energy(s, other)
        losses.append(np.abs(f - e)[-1] / np.ptp(e))
        middles.append(np.linalg.norm(centre(s, run) - centre(s, other), axis=1)[-1])
    assert np.median(apart_early) < 1e-4
    assert np.median(losses) < 0.005 and max(losses) < 0.05, f"of the energy that a heap loses: {max(losses)}"
    assert np.median(middles) < 0.05, f"the middle of heaps: {np.median(middles)} m"


def test_a_symmetric_scene_stays_symmetric() -> None:
    """Two balls come at a crate from both sides, along with two that hang on it: nothing is to lean or to drift."""
    crate = Body("crate", box(0.4, 0.3, 0.3), (0, 0, 0.3), mass=2.0, material=rough(0.5))
    sides = [
        Body(f"{kind}_{end}", sphere(0.2), (side * x, 0, z), linear=(-side * v, 0, 0), mass=0.5)
        for end, side in (("left", -1), ("right", 1))
        for kind, x, z, v in (("thrown", 2.0, 0.4, 4.0), ("hung", 0.8, 1.2, 0.0))
    ]
    joints = tuple(Joint("ball", "crate", f"hung_{end}", (x, 0, 0.6)) for end, x in (("left", -0.4), ("right", 0.4)))
    s = scene("two sides", crate, *sides, floor(), joints=joints, dt=1 / 30)
    run = Crowd([s]).run(60)[0]
    assert np.abs(centre(s, run)[:, :2]).max() < 2e-3
    assert np.abs(run.positions[:, 0, :2]).max() < 2e-3
