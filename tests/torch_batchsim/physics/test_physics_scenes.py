"""The physics library in scenes whose outcome is known: by formulas, beside MuJoCo, at rest, and thrown at walls."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import physics_piles
import physics_scenes
import pytest
from physics_piles import PROJECTILES, RESTS, Rest, outside, room, throws
from physics_scenes import PROOFS, Proof, energy
from support import of_today

from torch_batchsim.bench.mujoco_scenes import MuJoCoRun
from torch_batchsim.bench.physics_worlds import SceneRun, simulate
from torch_batchsim.bench.scenes import Scene, Trajectory

pytestmark = pytest.mark.full  # tests/csrc has fast tests of what is below
PAGE = Path(__file__).resolve().parents[3] / "docs" / "physics_proof.md"
THROWS = 100_000


@cache
def ours(scene: Scene, steps: int) -> Trajectory:
    return simulate(scene, steps)


@cache
def theirs(scene: Scene, steps: int) -> Trajectory:
    return MuJoCoRun(scene).simulate(steps)


def sorted_out(cases: tuple[Proof, ...] | tuple[Rest, ...]) -> list[object]:
    """Parameters of which those that are ``full`` are left to the full run."""
    return [pytest.param(case, id=str(case), marks=pytest.mark.full if case.full else ()) for case in cases]


@pytest.mark.parametrize("proof", sorted_out(PROOFS))
def test_formulas_hold(proof: Proof) -> None:
    run = ours(proof.scene, proof.scene.steps(proof.seconds))
    np.testing.assert_allclose(proof.measure(proof.scene, run), proof.expected, rtol=0, atol=proof.tolerance)


@pytest.mark.parametrize("proof", sorted_out(tuple(proof for proof in PROOFS if proof.from_mujoco is not None)))
def test_bodies_go_where_mujoco_has_them(proof: Proof) -> None:
    steps = proof.scene.steps(proof.seconds)
    away = np.linalg.norm(ours(proof.scene, steps).positions - theirs(proof.scene, steps).positions, axis=2)
    assert away.max() <= proof.from_mujoco, f"{away.max()} m at step {away.max(1).argmax()}"


@pytest.mark.parametrize("proof", [proof for proof in PROOFS if proof.from_mujoco is not None], ids=str)
def test_mujoco_agrees_with_the_formulas(proof: Proof) -> None:
    """So that a scene, its formula and its model say the same thing."""
    run = theirs(proof.scene, proof.scene.steps(proof.seconds))
    np.testing.assert_allclose(proof.measure(proof.scene, run), proof.expected, rtol=0, atol=proof.tolerance)


@pytest.mark.parametrize("rest", sorted_out(RESTS))
def test_bodies_at_rest_stay(rest: Rest) -> None:
    worst, allowed = rest.worst(ours(rest.scene, rest.scene.steps(rest.seconds))), rest.allowed()
    assert all(worst[name] <= allowed[name] for name in allowed), f"{worst}, allowed {allowed}"


def assert_kept_in(projectile: str, throws_of_all: int) -> None:
    worlds = -(-throws_of_all // len(PROJECTILES))
    run = SceneRun(room(projectile), worlds)
    start = run.start()
    for name, values in throws(worlds, seed=[*PROJECTILES].index(projectile)).items():
        start[name][:, 0] = values
    run.write(start)
    for step in range(40):
        run.step()
        out = outside(run.read()["positions"][:, 0])
        assert not out.any(), f"{projectile}: {out.sum()} of {worlds} are out after {step + 1} steps"


@pytest.mark.parametrize("projectile", PROJECTILES)
def test_nothing_passes_through_a_wall(projectile: str) -> None:
    assert_kept_in(projectile, 1000)


# Without the last look at fast bodies sticks come through. All in two days.
@pytest.mark.parametrize("projectile", ["stick", *of_today(sorted({*PROJECTILES} - {"stick"}), 3)])
def test_none_of_many_throws_passes_through_a_wall(projectile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # An ordinary build takes longer to compile, and a fifth of the time to step.
    monkeypatch.delenv("TBS_DEBUG", raising=False)
    assert_kept_in(projectile, THROWS)


def test_with_more_substeps_the_energy_of_a_pendulum_moves_less() -> None:
    """Gravity is given at once in each substep: what the energy goes up and down by is of first order."""
    proof = next(proof for proof in PROOFS if proof.quantity == "share of energy lost")
    steps = proof.scene.steps(proof.seconds)
    fine = replace(proof.scene, substeps=2 * proof.scene.substeps)
    coarse_swing, fine_swing = (np.ptp(energy(scene, ours(scene, steps))) for scene in (proof.scene, fine))
    assert fine_swing == pytest.approx(coarse_swing / 2, rel=0.1)


def test_the_page_shows_the_tolerances() -> None:
    page = PAGE.read_text()
    assert physics_scenes.table() in page and physics_piles.table() in page
