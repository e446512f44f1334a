"""A world of many bodies in the library `physics`: a thousand of them in a pit."""

from __future__ import annotations

import numpy as np
import pytest

from torch_batchsim.bench.physics_worlds import SceneRun
from torch_batchsim.bench.scenes import PLANE, Body, Scene, box, sphere

pytestmark = pytest.mark.full
WALL = 6.0  # half the height


def pit(across: int, layers: int) -> tuple[Scene, float]:
    """Boxes and spheres in turns, in layers above each other over a pit; and half the width of that."""
    random = np.random.default_rng(0)
    half, bodies = 0.35 * across + 0.4, []
    for i in range(across * across * layers):
        x, y, layer = i % across, i // across % across, i // across**2
        size, turn = random.uniform(0.1, 0.2, 3), random.normal(size=4)
        at = 0.7 * (np.array((x, y)) - (across - 1) / 2) + random.uniform(-0.05, 0.05, 2)
        bodies.append(
            Body(
                f"body_{i}", box(*size) if i % 2 else sphere(size[0] + 0.05), (*map(float, at), 0.5 + 0.7 * layer),
                tuple(map(float, turn / np.linalg.norm(turn))), mass=float(random.uniform(0.5, 2)),  # type: ignore[arg-type]
            )
        )  # fmt: skip
    bodies.append(Body("floor", PLANE, kind="static"))
    for i, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        size = (0.5, half + 1, WALL) if x else (half + 1, 0.5, WALL)
        bodies.append(Body(f"wall_{i}", box(*size), ((half + 0.5) * x, (half + 0.5) * y, WALL), kind="static"))
    return Scene("pit", tuple(bodies), dt=1 / 30, sleep=True), half


def test_a_thousand_bodies_come_to_rest_in_a_pit() -> None:
    scene, half = pit(10, 10)
    run = SceneRun(scene)
    movers = [i for i, body in enumerate(scene.bodies) if body.kind != "static"]
    assert len(movers) == 1000
    for step in range(900):
        run.step()
        if step % 10 == 9 or step > 890:
            places = run.read()["positions"][0, movers]
            assert np.abs(places[:, :2]).max() < half and places[:, 2].min() > 0.05 and places[:, 2].max() < 2 * WALL
    speed = np.linalg.norm(run.read()["linear"][0, movers], axis=1)
    assert np.median(speed) < 0.005 and np.quantile(speed, 0.99) < 0.1
    assert places[:, 2].max() < 2.0  # they have fallen on each other, not into each other
    assert np.mean(places[:, 2] < 0.45) < 0.7
