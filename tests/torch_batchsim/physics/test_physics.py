"""The library `physics` in an environment: same bits, states, faults, events, sleep.

Where bodies go is the matter of test_physics_scenes.py, of the solver itself tests/csrc/test_solver.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from environments.heap import WEDGE, Heap
from environments.shelf import Shelf
from environments.stool import Stool
from support import emulated_cuda, of_today

from torch_batchsim import SchemaError, Simulator, TaskGraph, TorchVectorEnv, WorldFault
from torch_batchsim.build import emulation
from torch_batchsim.physics import Physics
from torch_batchsim.resolve import chip
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, first_worlds, random_actions, snapshot

WORLDS = 24


def played(
    steps: int = 30,
    worlds: int = WORLDS,
    most_worlds: int = 60,
    physics: dict[str, Any] | None = None,
    **kwargs: Any,
) -> TorchVectorEnv:
    env = TorchVectorEnv(Heap(physics=physics or {}), num_worlds=worlds, **kwargs)
    env.reset(seed=5)
    for actions in random_actions(env, steps, most_worlds=most_worlds):
        env.step(actions)
    return env


def body(env: TorchVectorEnv, field: str) -> torch.Tensor:
    return env.sim.tensor(f"Player.physics.{field}")


@cache
def undisturbed() -> dict[str, torch.Tensor]:
    """Where all are that nothing bad has been written into, six steps after six."""
    env = played(6)
    for _ in range(6):
        env.step(torch.zeros(env.num_envs, dtype=torch.int64))
    return {name: body(env, name).clone() for name in ("Pose.position", "Velocity.linear")}


def test_threads_and_the_number_of_worlds_change_no_bit() -> None:
    one = played(num_threads=1)
    assert_same_bits(snapshot(one.sim), snapshot(played(num_threads=2).sim))
    assert_same_bits(snapshot(one.sim), first_worlds(played(worlds=60).sim, WORLDS))


def thrown(worlds: int = WORLDS, **kwargs: Any) -> TorchVectorEnv:
    """Both players are sticks that are thrown about, at 50 m/s and spinning; or one is a wall that moves by itself."""
    env = TorchVectorEnv(Heap(), num_worlds=worlds, **kwargs)
    env.reset(seed=5)
    nothing = torch.zeros(env.num_envs, dtype=torch.int64)
    for _ in range(5):
        env.step(nothing)
    env.sim.ragged("Rope.physics.Joint.broken").values.fill_(1)
    random = torch.Generator().manual_seed(3)
    directions = torch.nn.functional.normalize(torch.randn(60, 2, 2, 3, generator=random), dim=-1)[:worlds]
    places = torch.rand(60, 2, 3, generator=random)[:worlds] * 4 + torch.tensor([-4.0, -2.0, 1.0])
    pushes = torch.arange(worlds) % 3 == 0
    values = {
        "Pose.position": places,
        "Velocity.linear": 50 * directions[:, :, 0],
        "Velocity.angular": 100 * directions[:, :, 1],
        "Shape.size": torch.tensor([0.03, 0.03, 0.4]).expand(worlds, 2, 3),
        "Mass.inverse_inertia": torch.tensor([18.6, 18.6, 1667, 0, 0, 0]).expand(worlds, 2, 6),
        "Motion.locks": torch.zeros(worlds, 2, 1),
        "Motion.kind": 2 - torch.stack([pushes, torch.zeros(worlds)], 1)[..., None],
    }
    values["Shape.size"] = torch.where(values["Motion.kind"] == 1, torch.tensor([0.1, 1.0, 2.0]), values["Shape.size"])
    for name, value in values.items():
        column = body(env, name)
        column.copy_(value.reshape(column.shape).to(column.dtype))
    for _ in range(8):
        env.step(nothing)
    return env


def test_fast_bodies_change_no_bit() -> None:
    one = thrown(num_threads=1)
    assert_same_bits(snapshot(one.sim), snapshot(thrown(num_threads=2).sim))
    assert_same_bits(snapshot(one.sim), first_worlds(thrown(60).sim, WORLDS))


@pytest.mark.full
@pytest.mark.parametrize("play", [played, thrown, partial(played, physics={"substeps": 3, "margin": 0.1})])
@pytest.mark.parametrize("executor", ["per_world", "megakernel"])
def test_executors_agree(executor: str, play: Callable[..., TorchVectorEnv]) -> None:
    own = {"executor": executor} if executor == "per_world" else {"_library": emulated_cuda("heap", executor)}
    # A warp takes eight worlds of a tile, and one of them four.
    assert_same_bits(snapshot(play(worlds=60).sim), snapshot(play(worlds=60, **own).sim))


@pytest.mark.full
@pytest.mark.parametrize("executor", of_today(["graph", "megakernel"], 1))
def test_a_fault_leaves_other_worlds_as_they_would_be(executor: str) -> None:
    """The systems behind the one that finds the fault pass the world over on CUDA: emulated, beside the CPU."""
    seen = []
    made = Shelf()
    for library in (None, emulation.load(Program(made), executor)):
        sim = Simulator(made, 7, _library=library)
        sim.reset(seed=3)
        for _ in range(4):
            sim.step()
        sim.tensor("Thing.physics.Pose.position")[[2, 5], 0, 0] = float("nan")
        with pytest.raises(WorldFault, match=r"Pose\.position is not finite") as caught:
            for _ in range(2):
                sim.step()
                sim.check_faults()
        assert caught.value.mask.nonzero().flatten().tolist() == [2, 5]
        seen.append(snapshot(sim))
    assert_same_bits(*seen)


def test_only_the_solver_has_memory_on_chip() -> None:
    """A step of another system lasts in rows until the solver's, however little it is."""
    program = Program(Stool(physics={"contacts": 1}))
    physics = program.environment.libraries.physics
    found = {node.system.name: [c.component for c in chip.place(node).offsets] for node in program.nodes}
    assert found.pop("physics.simulate_motion") == [physics.core_component]
    assert not any(physics.space_component in found[name] for name in found if name.startswith("physics.simulate"))
    spaces = [c for node in program.nodes for c in node.workspaces if c.component is physics.space_component]
    assert spaces and all(column.lasting for column in spaces)


@pytest.mark.parametrize("name", ["simulate", "simulate_motion"])
def test_a_part_of_a_step_has_no_place_of_its_own(name: str) -> None:
    made = type("Shelf", (Shelf,), {"step": TaskGraph("push", f"physics.{name}", "judge")})
    says = rf"names system 'physics\.{name}', which works with .*: put Physics\.simulate in the task graph"
    with pytest.raises(SchemaError, match=says):
        Program(made())


def test_a_state_goes_on_to_the_bit_in_mid_contact() -> None:
    env = played(20)
    state = env.sim.state_dict()
    assert int(env.sim.tensor("physics.Contacts.count").sum()) > WORLDS
    actions = list(random_actions(env, 12))
    for batch in actions:
        env.step(batch)
    expected = snapshot(env.sim)
    env.sim.load_state_dict(state)
    for batch in actions:
        env.step(batch)
    assert_same_bits(snapshot(env.sim), expected)


@pytest.mark.parametrize(
    ("field", "value", "cause", "says"),
    [
        ("Pose.position", float("nan"), "not_finite", r"Pose.position is not finite \(metres\)"),
        ("Velocity.linear", float("nan"), "not_finite", r"Velocity.linear is not finite \(m/s\)"),
        ("Velocity.angular", float("inf"), "not_finite", r"Velocity.angular is not finite \(rad/s\)"),
        ("Shape.size", 0.0, "bad_shape", r"Shape.size is 0: nothing has written it"),
        ("Shape.size", -1.0, "bad_shape", r"Shape.size must be finite and above 0 \(metres\)"),
        ("Shape.kind", 7, "bad_shape", r"Shape.kind is not a ShapeKind"),
        ("Shape.kind", 3, "", ""),
        ("Pose.rotation", 0.0, "not_finite", r"Pose.rotation is 0: nothing has written it; .* quat\{1, 0, 0, 0\}"),
        ("Pose.rotation", 3.0, "not_finite", r"Pose.rotation is not about 1 long"),
        ("Pose.rotation", float("nan"), "not_finite", r"Pose.rotation is not about 1 long, or not finite"),
        ("Mass.inverse", 0.0, "bad_mass", r"Mass.inverse is 0 \(1/kg\)"),
        ("Mass.inverse", -1.0, "bad_mass", r"Mass.inverse must be finite and not below 0 \(1/kg\)"),
        ("Mass.inverse", float("inf"), "bad_mass", r"Mass.inverse must be finite"),
        ("Mass.inverse_inertia", -1.0, "bad_mass", r"Mass.inverse_inertia .* \(1/\(kg m\^2\)\)"),
        ("Motion.kind", 3, "bad_mass", r"Motion.kind is not a MotionKind, 0 to 2"),
        ("Motion.gravity", float("nan"), "not_finite", r"Motion.gravity is not finite \(times the world's\)"),
        ("Motion.gravity", 1e38, "not_finite", r"Motion.gravity is not finite"),
        ("Motion.still", float("inf"), "not_finite", r"Motion.still is not finite \(seconds\)"),
        ("Mass.inverse_inertia", float("nan"), "bad_mass", r"Mass.inverse_inertia .* \(1/\(kg m\^2\)\)"),
    ],
)
def test_a_bad_body_faults_its_world_only(field: str, value: float, cause: str, says: str) -> None:
    """The message names archetype, row, field and unit."""
    env = played(6)
    body(env, field)[3, 1] = value
    actions = torch.zeros(env.num_envs, dtype=torch.int64)
    if not cause:  # a hull of the environment's is a shape
        env.step(actions)
        return
    says = rf"world 3: .*'physics\.simulate' failed: Player\[1\]\.physics\.{says}.* \(physics\.{cause}\), in step 7"
    with pytest.raises(WorldFault, match=says) as raised:
        env.step(actions)
    fault = raised.value.faults[0]
    assert (fault.cause, fault.table, fault.value, fault.row) == (f"physics.{cause}", "Player", 1, 0)
    assert raised.value.mask.nonzero().flatten().tolist() == [3]
    env.reset(options={"reset_mask": raised.value.mask.repeat_interleave(2)})
    for _ in range(5):
        env.step(actions)
    sound = torch.arange(WORLDS) != 3
    for name, expected in undisturbed().items():
        assert torch.equal(body(env, name)[sound], expected[sound])
        assert torch.isfinite(body(env, name)).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [("restitution", 5.0), ("restitution", -0.5), ("dynamic_friction", -0.1), ("static_friction", float("nan"))],
)
def test_a_material_that_there_is_not(field: str, value: float) -> None:
    env = played(6)
    env.sim.ragged(f"Thing.physics.Material.{field}").world(3)[0] = value
    says = rf"world 3: .*Thing\[0\]\.physics\.Material\.{field} must be .*\.bad_material\)"
    with pytest.raises(WorldFault, match=says):
        env.step(torch.zeros(env.num_envs, dtype=torch.int64))


def test_far_from_the_origin_and_tiny_bodies_stay_finite() -> None:
    env = played(6)
    body(env, "Pose.position")[0, 0] = torch.tensor([1e6, -1e6, 1e6])
    body(env, "Shape.size")[1, 0] = 1e-3
    for _ in range(5):
        env.step(torch.zeros(env.num_envs, dtype=torch.int64))
    assert torch.isfinite(body(env, "Pose.position")).all()
    assert body(env, "Pose.position")[0, 0, 0] == 1e6


def test_touches_are_events_of_the_step_in_which_they_happen() -> None:
    env = played(10)
    counted, rows = env.sim.tensor("Told.touches").flatten(), env.sim.ragged("physics.Touch.Contact.impulse")
    assert (counted > 0).float().mean() > 0.9
    assert torch.equal(rows.counts.cpu().to(counted.dtype), counted)
    assert (rows.packed()[0] > 0).all()


def test_hulls_and_options_that_are_none_are_refused() -> None:
    flat = np.array(WEDGE) * [1, 1, 0]
    for hulls, message in (
        ({"flat": flat}, "hull 'flat'"),
        ({"many": np.random.default_rng(0).normal(size=(40, 3))}, "hull 'many'.*4 to 32 points, got 40"),
    ):
        with pytest.raises(ValueError, match=message):
            Physics(hulls=hulls)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'substep'.*substeps"):
        Physics(substep=3)
    with pytest.raises(ValueError, match=r"substeps must be at least 1"):
        Physics(substeps=0)
    with pytest.raises(ValueError, match=r"substeps must be at most 64, got 65"):
        Physics(substeps=65)
    with pytest.raises(ValueError, match=r"time must be greater than 0.0, got 0.0"):
        Physics(time=0.0)
    with pytest.raises(ValueError, match=r"margin must be at least 0.0, got -0.5"):
        Physics(margin=-0.5)
    with pytest.raises(ValueError, match=r"restitution must be at most 1.0, got 2.0"):
        Physics(restitution=2.0)
    with pytest.raises(ValueError, match=r"restitution_speed must be at least 0.0, got -1.0"):
        Physics(restitution_speed=-1.0)
    with pytest.raises(ValueError, match=r"joint_gap must be greater than 0.0, got 0.0"):
        Physics(joint_gap=0.0)


# Values other than the defaults, of all options that systems read at run time.
GIVEN: dict[str, float] = {
    "time": 1 / 50, "gravity_x": 1.0, "gravity_y": -1.0, "gravity_z": -5.0, "substeps": 3, "margin": 0.1,
    "restitution_speed": 5.0, "joint_gap": 2.0, "static_friction": 0.9, "dynamic_friction": 0.1, "restitution": 0.75,
}  # fmt: skip


@pytest.mark.full
def test_options_that_systems_read_at_run_time_need_no_build_of_their_own() -> None:
    """Each has its effect all the same, on worlds in which all kinds of bodies meet."""
    assert GIVEN.keys() == Physics.parameters.options.keys()
    usual = played(20)
    where, state = usual.sim.execution.library.path, snapshot(usual.sim)
    for name, value in GIVEN.items():
        env = played(20, physics={name: value})
        assert env.sim.execution.library.path == where, name
        same = all(torch.equal(values, state[key]) for key, values in snapshot(env.sim).items())
        assert same == (name == "joint_gap"), name  # whose effect is a fault


@pytest.mark.parametrize("substeps", [1, 7, 64])
def test_a_step_has_as_many_substeps_as_are_given(substeps: int) -> None:
    """A body in free fall is then g t h / 2 below the parabola."""
    time, gravity, steps = 1 / 30, 9.8, 4
    env = TorchVectorEnv(Heap(physics={"substeps": substeps, "time": time}), num_worlds=1)
    env.reset(seed=5)
    body(env, "Pose.position")[0, :, 2] = 20.0
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, dtype=torch.int64))
    t, h = steps * time, time / substeps
    fallen = 20.0 - body(env, "Pose.position")[0, :, 2]
    torch.testing.assert_close(fallen, torch.full((2,), gravity * t * (t + h) / 2), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("kept", [91, 89])  # more than there can be; less than events need
def test_keeping_too_many_contacts_or_too_few_for_events_is_rejected(kept: int) -> None:
    with pytest.raises(ValueError, match=f"kept_contacts is {kept}.* 90"):
        TorchVectorEnv(Heap(physics={"kept_contacts": kept}), num_worlds=1)
