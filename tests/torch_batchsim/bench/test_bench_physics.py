"""The benchmark of rigid bodies: its levels, and MuJoCo's models of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from support import of_today

from torch_batchsim.bench import ants, beside_mujoco, levels, physics
from torch_batchsim.bench.beside_mujoco import STEPS, MuJoCoRollout, drift, flown, pushes
from torch_batchsim.bench.contenders import Contender
from torch_batchsim.bench.mujoco_scenes import MuJoCoRun, mjcf, mujoco
from torch_batchsim.bench.scenes import matrices
from torch_batchsim.command_line import UsageError
from torch_batchsim.errors import MissingExtra

MORE = [range(first, first + 196) for first in range(20, 1000, 196)]


@pytest.mark.parametrize("seeds", [range(20), *of_today(MORE, 1)])
def test_levels_have_the_promised_bodies(seeds: range) -> None:
    first = [body.shape for body in levels.level(0).bodies][:16]
    for seed in seeds:
        scene = levels.level(seed)
        kinds = [body.kind for body in scene.bodies]
        assert kinds.count("dynamic") == 16 and kinds.count("static") == 21  # 20 walls and the floor
        assert len({body.name for body in scene.bodies}) == len(scene.bodies)
        shapes = [body.shape for body in scene.bodies]
        assert shapes[:16] == first  # only walls differ
        places = np.array([body.position for body in scene.bodies])
        assert (np.abs(places[:16, :2]) < levels.HALF).all()


def test_nothing_overlaps_in_a_level_and_all_stand_on_the_floor() -> None:
    for seed in range(10):
        scene = levels.level(seed)
        model = mujoco().MjModel.from_xml_string(mjcf(scene, 1 / 120, stiff=False, pushed=levels.agents()))
        model.geom_margin[:] = 1e-6
        data = mujoco().MjData(model)
        mujoco().mj_forward(model, data)
        planes = model.geom_type[data.contact.geom] == mujoco().mjtGeom.mjGEOM_PLANE
        assert (planes.sum(1) == 1).all() and np.abs(data.contact.dist).max() <= 1e-6
        touching = set(model.geom_bodyid[data.contact.geom[~planes]])
        assert len(touching) == 16


@pytest.mark.full
def test_agents_are_pushed_in_their_own_frame() -> None:
    scene = levels.level(3)
    model = mujoco().MjModel.from_xml_string(mjcf(scene, 1e-3, stiff=False, pushed=levels.agents()))
    data = mujoco().MjData(model)
    data.ctrl[:2] = 3.0, 1.0  # the first agent, along its x and y
    data.ctrl[2] = 0.5
    mujoco().mj_step(model, data)
    agent = next(body for body in scene.bodies if body.name == levels.agents()[0])
    half = np.arctan2(agent.rotation[3], agent.rotation[0])
    c, s = np.cos(2 * half), np.sin(2 * half)
    moved = [data.joint(f"{agent.name}_{axis}").qacc[0] for axis in ("x", "y", "rz")]
    direction = np.array(moved[:2]) / np.linalg.norm(moved[:2])
    np.testing.assert_allclose(direction, np.array([c * 3 - s, s * 3 + c]) / np.sqrt(10), atol=0.2)  # friction
    assert moved[2] > 0


def test_a_rollout_goes_on_from_call_to_call() -> None:
    texts = [mjcf(levels.level(seed), 1 / 120, stiff=False, pushed=levels.agents()) for seed in range(2)]
    run = MuJoCoRollout(texts, 4, 2, substeps=4)
    controls = pushes(np.random.default_rng(0), 4, pushed=5)
    assert controls.shape == (4, STEPS, 15) and np.ptp(controls[:, :8], axis=1).max() == 0
    before = run.states.copy()
    for _ in range(2):
        run.advance(controls)
    times = run.states[:, 0]
    np.testing.assert_allclose(times - before[:, 0], 2 * STEPS / 30)
    assert np.abs(run.states - before)[:, 1:].max() > 0.1 and np.isfinite(run.states).all()
    assert run.contacts() > 16
    run.close()


def test_pushes_leave_the_other_agents_alone() -> None:
    controls = pushes(np.random.default_rng(0), 3, pushed=2)
    assert (controls[..., :6] != 0).all() and not controls[..., 6:].any()


@pytest.mark.full
def test_bodies_in_levels_stay_above_the_floor() -> None:
    scene = levels.level(1)
    run = MuJoCoRun(scene, 1 / 240).simulate(30)
    assert np.abs(run.positions[-1, :16] - run.positions[0, :16]).max() < 0.01
    assert np.abs(run.linear[-1]).max() < 0.01


def test_a_missing_mujoco_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtra, match="needs mujoco, which is not installed: pip install mujoco"):
        mujoco()


@pytest.mark.full
@pytest.mark.parametrize("scene", ["levels", "ant"])
def test_the_command_writes_figures(tmp_path: Path, scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (physics, beside_mujoco):
        monkeypatch.setattr(module, "SETTLING", 15)  # of levels: after which bodies lie on the floor
    monkeypatch.setattr(beside_mujoco, "WORLDS", 8)
    monkeypatch.setattr(beside_mujoco, "STEPS", 10)
    path = tmp_path / "figures" / "physics.json"
    short = ("--num-worlds", "8", "--rays", "without", "--seconds", "0.01", "--runs", "1")
    physics.main([*short, "--scene", scene, "--beside", "mujoco", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    engines = {row["engine"].replace(":", " ").split()[0] for row in rows}
    assert engines == {"torch_batchsim", "mujoco"}
    assert all(row["world_steps_per_second"] > 0 for row in rows)
    if scene == "levels":
        assert all(row["contacts"] > 0 for row in rows)
        ours = [row for row in rows if row["engine"].startswith("torch_batchsim")]
        assert [(row["pushed"], row["rays"]) for row in ours] == [(5, "no"), (1, "no")]
    else:
        assert all(row["penetration_mm"] < 8 and row["separation_mm"] < 8 and row["drift_mm"] < 2 for row in rows)


@pytest.mark.full
def test_ants_fly_as_in_mujoco() -> None:
    """0.2 s with random torques at joints with limits."""
    run = ants.flown()
    scene = ants.ant(in_air=True)
    theirs = flown(mjcf(scene, scene.dt / scene.substeps, stiff=False), scene.substeps)
    assert drift(run.read()["positions"]) < min(1e-3, 1.5 * drift(theirs))
    assert run.separation() < 1e-4


def test_depths_are_those_of_the_lowest_points() -> None:
    scene = ants.ant()
    start = scene.initial()
    lowest = min(
        body.position[2] - body.shape.size[0] - body.shape.size[2] * abs(matrices(np.array(body.rotation))[2, 2])
        for body in scene.bodies[1:9]
    )
    sunk = start.positions - np.array((0.0, 0.0, lowest + 0.01))
    np.testing.assert_allclose(ants.depth_below_floor(sunk, start.rotations), 0.01, atol=1e-9)
    assert not ants.depth_below_floor(start.positions, start.rotations).any()


def test_figures_are_medians() -> None:
    contender = Contender({"engine": "none"}, lambda batch: None, [None], 10)
    contender.rates += [3.0, 1.0, 2.0]
    assert contender.result() == {
        "engine": "none", "world_steps_per_second": 2.0, "slowest_run": 1.0, "fastest_run": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--runs", "--num-worlds", "--num-threads"])
def test_numbers_must_be_positive(option: str) -> None:
    with pytest.raises(UsageError, match="must be positive"):
        physics.main([option, "0"])
