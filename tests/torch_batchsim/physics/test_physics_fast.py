"""Fast bodies: nothing gets through what does not give way, and nothing gains energy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from physics_fast import CASES, PAIRS, THIN, Case, bead_on_a_wire, energies, gone_through, towards_each_other, two
from support import of_today

from torch_batchsim.bench.physics_worlds import SceneRun, simulate

full = pytest.mark.full  # tests/csrc/test_crossing.py has fast tests of what is below
WORLDS, STEPS = 1000, 40


@pytest.mark.parametrize("case", of_today(CASES, 14), ids=str)
def test_nothing_gets_through(case: Case) -> None:
    run = SceneRun(case.scene, WORLDS)
    state = run.start()
    for name, values in case.start(WORLDS, 1).items():
        state[name][:, 0] = values
    run.write(state)
    before = run.read()
    start = energies(case.scene, before)
    for step in range(STEPS):
        run.step()
        after = run.read()
        lost = case.lost(before, after)
        assert not lost.any(), f"{lost.sum()} of {WORLDS} are through after {step + 1} steps"
        if case.conserved:
            gained = (energies(case.scene, after) - start) / np.abs(start)
            assert gained.max() < 0.001, f"{gained.max():.2%} of the energy gained after {step + 1} steps"
        before = after


@pytest.mark.crossed
@full
@pytest.mark.parametrize("spin", [20.0, 150.0])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_that_fly_past_each_other_gain_no_energy(pair: tuple[str, str], spin: float) -> None:
    run = SceneRun(two(*pair), WORLDS)
    run.write(towards_each_other(run.start(), 1, spin))
    before = run.read()
    start, momentum = energies(run.scene, before), before["linear"].sum(1)
    for step in range(STEPS):
        run.step()
        after = run.read()
        gained = energies(run.scene, after) / start - 1
        assert gained.max() < 0.01, f"{gained.max():.2%} of the energy gained after {step + 1} steps"
        np.testing.assert_allclose(after["linear"].sum(1), momentum, atol=1e-3)


@full
@pytest.mark.parametrize("pair", [("ball", "ball"), ("cube", "cube"), ("ball", "plate")], ids="-".join)
def test_two_that_fly_at_each_other_meet(pair: tuple[str, str]) -> None:
    run = SceneRun(two(*pair), WORLDS)
    start = towards_each_other(run.start(), 2, spin=20, off=0.0)
    run.write(start)
    line = start["positions"][:, 0] - start["positions"][:, 1]
    line /= np.linalg.norm(line, axis=1)[:, None]
    for _ in range(STEPS):
        run.step()
    state = run.read()
    closing = [((one["linear"][:, 0] - one["linear"][:, 1]) * line).sum(1) for one in (start, state)]
    assert (closing[1] > 0.9 * closing[0]).all(), "some have flown through each other"
    if pair == ("ball", "ball"):  # others may be turned aside, and go past
        assert (((state["positions"][:, 0] - state["positions"][:, 1]) * line).sum(1) > 0.0).all()


@pytest.mark.crossed
@full
@pytest.mark.parametrize("dt", [1 / 30, 1 / 60])
@pytest.mark.parametrize("pair", THIN, ids="-".join)
def test_no_centre_gets_through_a_thin_plate_that_gives_way(pair: tuple[str, str], dt: float) -> None:
    run = SceneRun(replace(two(*pair), dt=dt), WORLDS)
    run.write(towards_each_other(run.start(), 3, spin=20, off=0.0))
    before = run.read()
    start, momentum = energies(run.scene, before), before["linear"].sum(1)
    through = np.zeros(WORLDS, bool)
    for step in range(STEPS):
        run.step()
        after = run.read()
        through |= gone_through(before, after)
        allowed = int(pair[0] in ("ramp", "plate"))
        assert through.sum() <= allowed, f"{through.sum()} of {WORLDS} are through after {step + 1} steps"
        gained = energies(run.scene, after) / start - 1 > 0.01
        assert gained.mean() <= (0.02 if pair[0] == "bullet" else 0), f"{gained.sum()} gained energy"
        np.testing.assert_allclose(after["linear"].sum(1), momentum, atol=1e-3)
        before = after


@pytest.mark.full
def test_two_that_give_way_stop_at_each_other() -> None:
    """Bullets at free plates that turn, of which contacts let some through."""
    run = SceneRun(two("bullet", "plate"), 100)
    run.write(towards_each_other(run.start(), 3, spin=20, off=0.0))
    before = run.read()
    momentum = before["linear"].sum(1)
    for _ in range(6):
        run.step()
        after = run.read()
        assert not gone_through(before, after).any()
        np.testing.assert_allclose(after["linear"].sum(1), momentum, atol=1e-3)
        before = after


@full
def test_bodies_of_one_joint_pass_through_each_other() -> None:
    run = simulate(bead_on_a_wire(), 4)
    np.testing.assert_allclose(run.positions[-1, 0], (3, 0, 0), atol=0.01)


@full
def test_a_wall_that_moves_takes_nothing_along_a_locked_axis() -> None:
    case = next(case for case in CASES if case.name == "a stick hit by a wall of 0.4 m at 50 m/s")
    stick, wall = case.scene.bodies
    held = replace(stick, position=(1, 0, 0), angular=(0, 0, 30), locks=("x",))
    run = simulate(replace(case.scene, bodies=(held, wall)), 10)
    assert (run.positions[:, 0, 0] == 1).all()
