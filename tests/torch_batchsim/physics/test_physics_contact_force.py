"""``physics.ContactForce``: what contacts do to each body in a step, by Newton's laws."""

from __future__ import annotations

from dataclasses import replace
from math import cos, radians, sin
from typing import Any

import numpy as np
import pytest
from environments.heap import Heap
from physics_scenes import G, floor
from support import emulated_cuda, of_today

from torch_batchsim import Archetype, TorchVectorEnv
from torch_batchsim.bench.physics_worlds import SceneRun, Stage
from torch_batchsim.bench.scenes import Body, Joint, Scene, box, capsule, rough, sphere, turned, wedge
from torch_batchsim.physics import ContactForce
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, random_actions, snapshot


class Sensed(Stage):
    """All bodies feel their contacts."""

    @property
    def archetypes(self) -> list[Archetype]:
        felt = ("Mover", "Wall")
        return [a.of((*a.components, ContactForce)) if a.name in felt else a for a in super().archetypes]


class SensedRun(SceneRun):
    """A scene of which all bodies are sensed."""

    stage = Sensed

    def forces(self) -> dict[str, np.ndarray]:
        """``[3]`` by the body's name, N, float64."""
        tables: dict[str, list[str]] = {"Mover": [], "Wall": []}
        for each in self.scene.bodies:
            tables["Wall" if each.kind == "static" else "Mover"].append(each.name)
        return {
            name: self.sim.ragged(f"{table}.physics.ContactForce.force").world(0)[row].double().numpy()
            for table, names in tables.items()
            for row, name in enumerate(names)
        }


def after(seconds: float, *bodies: Body, **options: Any) -> SensedRun:
    run = SensedRun(Scene("felt", bodies, **options))
    for _ in range(run.scene.steps(seconds)):
        run.step()
    return run


@pytest.mark.full
def test_a_box_at_rest_feels_its_weight_and_the_floor_as_much() -> None:
    """One in the air feels nothing."""
    rest = Body("rest", box(0.3, 0.2, 0.1), (0, 0, 0.1), mass=3.0)
    apart = (Body("flies", sphere(0.2), (5, 0, 90)), Body("still", box(1, 1, 1), (20, 0, 5), kind="static"))
    run = after(1.0, rest, *apart, floor())
    forces = run.forces()
    np.testing.assert_allclose(forces["rest"], (0, 0, 3 * G), atol=1e-3)
    assert (forces["floor"] == -forces["rest"]).all()
    assert (forces["flies"] == 0).all() and (forces["still"] == 0).all()


def test_a_stack_passes_its_weight_down() -> None:
    """Of three boxes the forces between two are sums of those above; the net force on each holds its own weight."""
    masses = (3.0, 2.0, 1.0)
    stack = [Body(f"box_{i}", box(0.25, 0.25, 0.25), (0, 0, 0.25 + 0.5 * i), mass=m) for i, m in enumerate(masses)]
    forces = after(3.0, *stack, floor()).forces()
    for i, mass in enumerate(masses):
        np.testing.assert_allclose(forces[f"box_{i}"], (0, 0, mass * G), atol=2e-3 * mass * G)
        between = sum(forces[f"box_{k}"][2] for k in range(i, 3))
        assert between == pytest.approx(sum(masses[i:]) * G, rel=2e-3)
    assert forces["floor"][2] == pytest.approx(-sum(masses) * G, rel=2e-3)


@pytest.mark.parametrize("degrees", [15.0, 40.0])  # it stays, and it slides
def test_a_slope_pushes_along_its_normal_and_rubs_along_itself(degrees: float) -> None:
    friction, angle = 0.5, radians(degrees)
    turn, material = turned(angle, (1, 0, 0)), rough(friction)
    normal, down = np.array([0, -sin(angle), cos(angle)]), np.array([0, -cos(angle), -sin(angle)])
    ramp = Body("ramp", box(5, 20, 0.5), tuple(-0.5 * normal), turn, kind="static", material=material)
    slab = Body("slab", box(0.3, 0.3, 0.1), tuple(0.1 * normal), turn, mass=2.0, material=material)
    run = after(0.5, slab, ramp)
    force, weight = run.forces()["slab"], 2.0 * G
    assert force @ normal == pytest.approx(weight * cos(angle), rel=2e-3)
    rubbed = weight * min(sin(angle), friction * cos(angle))
    assert force @ down == pytest.approx(-rubbed, rel=2e-3) and abs(force[0]) < 1e-2
    assert (force == -run.forces()["ramp"]).all()


def test_a_locked_axis_and_a_kinematic_body_feel_what_pushes_them() -> None:
    """Though it does not move them."""
    lift = Body("lift", box(1, 1, 0.5), (0, 0, -0.5), linear=(0, 0, 0.5), kind="kinematic")
    held = Body("held", box(0.3, 0.3, 0.3), (5, 0, 1), locks=("z", "rx", "ry"))
    crates = [Body("crate", box(0.2, 0.2, 0.2), (0, 0, 0.2), mass=4.0), Body("load", box(0.2, 0.2, 0.2), (5, 0, 1.5))]
    forces = after(1.0, *crates, lift, held).forces()
    np.testing.assert_allclose(forces["lift"], (0, 0, -4 * G), atol=0.05)
    np.testing.assert_allclose(forces["held"], (0, 0, -G), atol=0.05)


def moving(generator: np.random.Generator, count: int) -> list[Body]:
    """Bodies of all shapes, which hit each other about the origin, rub and bounce."""
    shapes = (sphere(0.3), box(0.2, 0.3, 0.4), capsule(0.2, 0.3), wedge(0.5, 0.6, 0.5))
    bodies = []
    for i in range(count):
        away = generator.normal(size=3)
        away *= (1.0 + 0.2 * i) / np.linalg.norm(away)
        spin, turn = generator.normal(size=3), turned(generator.uniform(0, 3), generator.normal(size=3))
        values = {"angular": tuple(spin), "mass": float(generator.uniform(0.5, 3)), "material": rough(0.4, 0.6)}
        bodies.append(Body(f"body_{i}", shapes[i % 4], tuple(away), turn, tuple(-3 * away), **values))
    return bodies


@pytest.mark.parametrize("substeps", [1, 4])
@pytest.mark.parametrize("gravity", [0.0, G])
def test_forces_are_the_changes_of_momentum_and_cancel_in_pairs(substeps: int, gravity: float) -> None:
    """In each step, of each body, through impacts, friction and bounces; bodies with a floor, or without."""
    bodies = moving(np.random.default_rng(6), 8)
    if gravity:
        bodies = [replace(body, position=(*body.position[:2], body.position[2] + 3)) for body in bodies]
        bodies.append(floor(rough(0.4, 0.6)))
    scene = Scene("cloud", tuple(bodies), gravity=(0, 0, -gravity), substeps=substeps)
    run, masses = SensedRun(scene), np.array([body.mass for body in bodies if body.kind == "dynamic"])
    most, before, touched = 0.0, run.read()["linear"][0], np.zeros(len(masses), bool)
    for _ in range(60):
        run.step()
        linear, forces = run.read()["linear"][0], np.array(list(run.forces().values()))
        gained = (linear - before)[: len(masses)] / scene.dt + (0, 0, gravity)
        most = max(most, float(np.abs(forces).max()))
        np.testing.assert_allclose(forces[: len(masses)], masses[:, None] * gained, atol=2e-5 * most + 2e-3)
        np.testing.assert_allclose(forces.sum(0), 0, atol=1e-6 * most)
        touched |= forces[: len(masses)].any(axis=1)
        before = linear
    assert touched.all() and most > 50


def test_joints_are_no_contacts() -> None:
    bob = Body("bob", sphere(0.2), (0, 0, -1))
    run = after(1.0, bob, joints=(Joint("ball", None, "bob", (0, 0, 0)),))
    assert (run.forces()["bob"] == 0).all()


@pytest.mark.full
@pytest.mark.parametrize("awake", [(), (Body("ball", sphere(0.2), (0, 0, 30.0)),)], ids=["all", "two"])
def test_sleeping_bodies_go_on_to_feel_what_holds_them(awake: tuple[Body, ...]) -> None:
    """Until a touch wakes them."""
    stack = [Body(f"box_{i}", box(0.25, 0.25, 0.25), (0, 0, 0.25 + 0.5 * i), mass=2.0 - i) for i in range(2)]
    run = after(2.0, *stack, *awake, floor(), sleep=True)
    asleep, before = run.forces(), run.read()["positions"][0]
    np.testing.assert_allclose(asleep["box_0"], (0, 0, 2 * G), atol=0.02 * G)
    np.testing.assert_allclose(asleep["box_1"], (0, 0, G), atol=0.02 * G)
    run.step()
    assert (run.read()["positions"][0, :2] == before[:2]).all(), "they do not sleep"
    assert all((run.forces()[name] == asleep[name]).all() for name in ("box_0", "box_1", "floor"))
    if not awake:
        return
    places = run.read()["positions"]
    places[0, 2] = (0, 0, 1.3)
    run.write({"positions": places})
    pushed = []
    for _ in range(5):
        run.step()
        pushed.append(run.forces()["floor"][2])
    assert min(pushed) < 5 * asleep["floor"][2]


def test_a_body_feels_no_neighbour_that_is_gone() -> None:
    cube = box(0.2, 0.2, 0.2)
    run = after(1.0, Body("top", cube, (0, 0, 0.6)), Body("below", cube, (0, 0, 0.2), mass=2.0), floor())
    assert run.forces()["floor"][2] == pytest.approx(-3 * G, rel=2e-3)
    run.sim.destroy([0], run.sim.entities("Mover").world(0)[:1])
    for _ in range(10):
        run.step()
    mover, wall = (run.sim.ragged(f"{table}.physics.ContactForce.force").world(0) for table in ("Mover", "Wall"))
    assert mover.shape == (1, 3) and float(mover[0, 2]) == pytest.approx(2 * G, rel=2e-3)
    assert (wall == -mover).all()


@pytest.mark.full
@pytest.mark.parametrize("executor", ["per_world", *of_today(["graph", "megakernel"], 1)])
def test_executors_agree_on_forces(executor: str) -> None:
    def played(**own: Any) -> TorchVectorEnv:
        env = TorchVectorEnv(Heap(), num_worlds=9, **own)
        env.reset(seed=5)
        for actions in random_actions(env, 20):
            env.step(actions)
        return env

    usual = played()
    own = {"executor": executor} if executor == "per_world" else {"_library": emulated_cuda("heap", executor)}
    assert_same_bits(snapshot(usual.sim), snapshot(played(**own).sim))
    for table in ("Player", "Wall"):
        assert (usual.sim.tensor(f"{table}.physics.ContactForce.force") != 0).any(dim=-1).float().mean() > 0.3


def test_what_no_archetype_asks_for_takes_no_memory() -> None:
    plain, sensed = (Program(each()).environment for each in (Stage, Sensed))
    sizes = [each.libraries.physics.space_component.size for each in (plain, sensed)]
    assert sizes[1] - sizes[0] == 12 * sensed.libraries.physics.constants.bodies


def test_forces_of_what_is_no_body_or_is_not_kept_are_rejected() -> None:
    class NoBody(Heap):
        archetypes = (*Heap.archetypes, Archetype("Sign", ContactForce, count=1))

    with pytest.raises(ValueError, match=r"ContactForce is on an archetype without Pose and Shape.* Physics\.static"):
        TorchVectorEnv(NoBody(), num_worlds=1)
    options = {"events": 0, "kept_contacts": 20, "sleep": True}
    with pytest.raises(ValueError, match=r"kept_contacts is 20, but physics\.ContactForce of sleeping .* 90 contacts"):
        TorchVectorEnv(Heap(physics=options), num_worlds=1)
