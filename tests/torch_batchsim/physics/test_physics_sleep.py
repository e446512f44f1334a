"""Bodies that sleep wake when an author takes away, changes or moves what they rest on, or themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from physics_crowd import Crowd
from physics_scenes import G, floor

from torch_batchsim.bench.scenes import Body, Scene, box
from torch_batchsim.physics import MotionKind

pytestmark = pytest.mark.full
DT, TIME = 1 / 60, 0.5
LEDGE = Body("ledge", box(0.5, 0.5, 0.5), (8.0, 0.0, 0.5), kind="static")
BODIES = ("table", "on_table", "on_ledge", "beside")
SCENE = Scene(
    "asleep",
    (
        Body("table", box(0.5, 0.5, 0.5), (0.0, 0.0, 0.5), mass=5.0),
        Body("on_table", box(0.3, 0.3, 0.3), (0.0, 0.0, 1.3)),
        Body("on_ledge", box(0.3, 0.3, 0.3), (8.0, 0.0, 1.3)),
        Body("beside", box(0.3, 0.3, 0.3), (4.0, 0.0, 0.3)),
        LEDGE,
        floor(),
    ),
    sleep=True,
)
Value = Callable[[torch.Tensor], torch.Tensor]


def put(field: str, body: str, change: Value) -> Callable[[Crowd, int], None]:
    """Writes a field of a body, as a trainer's code does."""

    def write(crowd: Crowd, world: int) -> None:
        table, rows = ("Wall", ("ledge", "floor")) if body == "ledge" else ("Mover", BODIES)
        ragged = crowd.sim.ragged(f"{table}.physics.{field}")
        row = ragged.values[int(ragged.first[world]) + rows.index(body)]
        row.copy_(change(row))

    return write


def destroy(body: str) -> Callable[[Crowd, int], None]:
    return lambda crowd, world: crowd.sim.destroy(torch.tensor([world]), crowd.handles[world, body][None])


def along(z: float, y: float = 0.0) -> Value:
    return lambda vector: vector + torch.tensor([0.0, y, z])


def flat(size: torch.Tensor) -> torch.Tensor:
    return size * torch.tensor([1.0, 1.0, 0.8])


FALL = G / 2 * TIME**2
# What is done, which body is to wake by it, and where that is half a second later. What falls by 1 m lies by then.
CASES: dict[str, tuple[Callable[[Crowd, int], None], str, float]] = {
    "the table is destroyed": (destroy("table"), "on_table", 0.3),
    "the ledge is destroyed": (destroy("ledge"), "on_ledge", 0.3),
    "the table is moved away": (put("Pose.position", "table", along(0.0, y=2.0)), "on_table", 0.3),
    "the ledge is lowered": (put("Pose.position", "ledge", along(-0.1)), "on_ledge", 1.2),
    "the ledge is lowered a little": (put("Pose.position", "ledge", along(-0.01)), "on_ledge", 1.29),
    "the ledge becomes flat": (put("Shape.size", "ledge", flat), "on_ledge", 1.2),
    "what lies is pushed up": (put("Velocity.linear", "on_table", along(4.0)), "on_table", 1.3 + 4 * TIME - FALL),
    "what lies is lifted": (put("Pose.position", "on_table", along(0.1)), "on_table", 1.3),
    "gravity is turned round": (put("Motion.gravity", "on_table", lambda g: -g), "on_table", 1.3 + FALL),
    "what lies becomes smooth": (put("Material.static_friction", "on_table", lambda f: f * 0), "on_table", 1.3),
    "the ledge becomes smooth": (put("Material.dynamic_friction", "ledge", lambda f: f * 0), "on_ledge", 1.3),
    "what lies may bounce": (put("Material.restitution", "on_table", lambda r: r + 0.5), "on_table", 1.3),
    "what lies becomes heavy": (put("Mass.inverse", "on_table", lambda m: m / 2), "on_table", 1.3),
    "what lies turns with less effort": (put("Mass.inverse_inertia", "on_table", lambda m: m * 2), "on_table", 1.3),
    "it is fixed": (put("Motion.kind", "table", lambda kind: kind * 0 + int(MotionKind.STATIC)), "on_table", 1.3),
}  # fmt: skip


def test_bodies_wake_when_their_support_changes() -> None:
    crowd = Crowd([SCENE] * (len(CASES) + 1))
    sim = crowd.sim

    def state(world: int, body: str) -> tuple[float, float]:
        """Seconds at rest, height."""
        still, position = (sim.ragged(f"Mover.physics.{name}") for name in ("Motion.still", "Pose.position"))
        row = int(still.first[world] + still.counts[world]) - len(BODIES) + BODIES.index(body)  # the table may be gone
        return float(still.values[row]), float(position.values[row, 2])

    for _ in range(60):
        sim.step()
    sim.check_faults()
    last = len(CASES)
    asleep = [(world, body) for world in range(last + 1) for body in BODIES]
    assert all(state(*which)[0] > 0.5 for which in asleep)
    at_rest = {which: state(*which)[1] for which in asleep}
    for world, (change, _, _) in enumerate(CASES.values()):
        change(crowd, world)
    sim.step()
    for world, (name, (_, body, _)) in enumerate(CASES.items()):
        assert state(world, body)[0] < 2 * DT, f"{name}: it sleeps on"
    for _ in range(round(TIME / DT) - 1):
        sim.step()
    sim.check_faults()
    for world, (name, (_, body, height)) in enumerate(CASES.items()):
        assert state(world, body)[1] == pytest.approx(height, abs=0.02), name
    untouched = [(world, "beside") for world in range(last)] + [(last, body) for body in BODIES]
    for which in untouched:
        assert state(*which)[0] > 0.5 and state(*which)[1] == at_rest[which]
