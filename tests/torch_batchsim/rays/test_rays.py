"""The library `rays` in an environment: what systems and cameras see of a world's bodies.

tests/csrc/test_ray_casts.py and test_camera.py test the geometry; test_executors.py runs "gallery" on all executors.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from environments.gallery import Gallery, Step
from environments.stool import Stool
from gymnasium.spaces import Discrete
from support import assert_same_bits, emulated_cuda, random_actions, snapshot

from torch_batchsim import (
    Archetype,
    Environment,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
)
from torch_batchsim.physics import Physics
from torch_batchsim.rays import Rays
from torch_batchsim.resolve.program import Program

pytestmark = pytest.mark.full  # tests/csrc has fast tests of what is below
WORLDS = 24
ORDER = ("Visitor", "Stone", "Coin", "Wall")


def walked(**kwargs: object) -> TorchVectorEnv:
    env = TorchVectorEnv(Gallery(), num_worlds=WORLDS, **kwargs)
    env.reset(seed=3)
    generator = np.random.default_rng(3)
    for _ in range(34):
        env.step(random_actions(env, generator))
    return env


@pytest.fixture(scope="module")
def gallery() -> TorchVectorEnv:
    return walked(num_threads=1)


@cache
def table_numbers() -> dict[str, int]:
    return {a.name: a.number for a in Program(Gallery()).archetypes}


def bodies(sim: Simulator, world: int) -> dict[str, np.ndarray]:
    """Of a world, in the order of its archetypes: archetype, position, kind, size."""
    numbers = table_numbers()
    columns: dict[str, list[np.ndarray]] = {"archetype": [], "position": [], "kind": [], "size": []}
    for name in ORDER:
        names = ("physics.Pose.position", "physics.Shape.kind", "physics.Shape.size")
        if name == "Coin":
            rows = [np.asarray(sim.ragged(f"{name}.{field}").world(world)) for field in names]
        else:
            rows = [sim.tensor(f"{name}.{field}")[world].numpy() for field in names]
        for column, values in zip(("position", "kind", "size"), rows, strict=True):
            columns[column].append(values)
        columns["archetype"].append(np.full(len(rows[1]), numbers[name]))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def test_threads_and_executors_agree(gallery: TorchVectorEnv) -> None:
    """Warps that trace packets, threads of their own, and lanes that trace single rays."""
    assert_same_bits(snapshot(gallery.sim), snapshot(walked(num_threads=2, executor="per_world").sim))
    assert_same_bits(snapshot(gallery.sim), snapshot(walked(_library=emulated_cuda("gallery")).sim))
    assert gallery.sim.tensor("World.episode").float().mean() > 0.5


def test_lidar_returns_bodies_distances_and_normals(gallery: TorchVectorEnv) -> None:
    """Points that beams hit lie on the bodies that are named: here on spheres, whose normals are known."""
    sim = gallery.sim
    spheres = hits = 0
    for world in range(WORLDS):
        there = bodies(sim, world)
        names = ("distance", "body", "normal")
        sensors = {name: sim.tensor(f"Visitor.Sensors.{name}")[world].numpy() for name in names}
        position = sim.tensor("Visitor.physics.Pose.position")[world].numpy()
        w, _, _, z = sim.tensor("Visitor.physics.Pose.rotation")[world].numpy().T
        turn = 2 * np.arctan2(z, w)[:, None] + 2 * np.pi * np.arange(20) / 20
        beam = np.stack([-np.sin(turn), np.cos(turn), 0 * turn], 2)
        point = position[:, None] + beam * sensors["distance"][..., None]
        body = sensors["body"]
        assert (body < len(there["kind"])).all() and (body != np.arange(3)[:, None]).all()
        assert (sensors["distance"][body < 0] == 12).all() and (sensors["normal"][body < 0] == 0).all()
        ball = (body >= 0) & (there["kind"][body] == 0) & (sensors["distance"] > 0)
        out = point - there["position"][body]
        radius = there["size"][body][..., 0]
        assert np.allclose(np.linalg.norm(out, axis=2)[ball], radius[ball], atol=1e-4)
        assert np.allclose((out / radius[..., None])[ball], sensors["normal"][ball], atol=1e-3)
        spheres += ball.sum()
        hits += (body >= 0).sum()
    assert spheres > 20 and hits > 300


def test_eyes_side_by_side_see_what_each_sees(gallery: TorchVectorEnv) -> None:
    """`rays::look` of all visitors at once, `rays::lidar` and `rays::see_all` of one after the other."""
    for sim in (gallery.sim, walked(_library=emulated_cuda("gallery")).sim):
        for field in ("distance", "body", "normal", "clear"):
            both = (sim.tensor(f"Visitor.{name}.{field}").numpy() for name in ("Sensors", "Survey"))
            assert len({values.tobytes() for values in both}) == 1, field


def test_an_update_needs_a_scene_to_update() -> None:
    class Hasty(Gallery):
        step = TaskGraph("walk", "drop", Rays.update, "sweep", "survey", "point", Rays.draw, "close")

    with pytest.raises(SchemaError, match=r"'rays.update' reads rays.Gathered, which is scratch .* no system"):
        TorchVectorEnv(Hasty(), num_worlds=2)


def test_groups_and_entities(gallery: TorchVectorEnv) -> None:
    """A ray that looks for coins finds only these, and which one."""
    sim = gallery.sim
    found = sim.tensor("Visitor.Ahead.found")
    is_coin, distance = sim.tensor("Visitor.Ahead.is_coin"), sim.tensor("Visitor.Ahead.distance")
    assert is_coin.any() and not is_coin.all()
    assert (distance[is_coin] < 15).all() and (distance[~is_coin] == 15).all()
    assert (found[~is_coin] == 0).all()


def test_sight(gallery: TorchVectorEnv) -> None:
    """Each visitor sees itself, unless it stands in a stone; who sees whom is seen by them."""
    clear = gallery.sim.tensor("Visitor.Sensors.clear")
    assert clear.diagonal(dim1=1, dim2=2).float().mean() > 0.9
    assert (clear == clear.transpose(1, 2)).float().mean() > 0.98
    assert not clear.all()


def test_cameras(gallery: TorchVectorEnv) -> None:
    sim = gallery.sim
    depth, pixels = sim.tensor("Visitor.rays.Depth.metres"), sim.tensor("Visitor.rays.Picture.pixels")
    body, archetype = (sim.tensor(f"Visitor.rays.Segmentation.{name}") for name in ("body", "archetype"))
    assert depth.shape == (WORLDS, 3, 13, 20) and pixels.shape == (WORLDS, 3, 13, 20, 3)
    assert ((body < 0) == (depth == 40)).all() and ((body < 0) == (archetype < 0)).all()
    assert (body != torch.arange(3)[None, :, None, None]).all()  # not itself
    for world in range(WORLDS):
        there = bodies(sim, world)
        seen = body[world].numpy()
        assert (there["archetype"][seen] == archetype[world].numpy())[seen >= 0].all()
        golden = there["archetype"][seen] == table_numbers()["Coin"]
        colour = pixels[world].numpy().astype(int)[golden & (seen >= 0)]
        assert (colour[:, 0] > colour[:, 2]).all()  # gold
    assert len(archetype.unique()) == 5


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "rays.md").read_text()
    found = re.findall(r"```\w+ title=(\S+)\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in found] == ["hide.py", "hide.h", "seek.py"]
    for name, text in found:
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "seek.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("on_lanes", [False, True])
def test_an_update_gathers_what_has_moved(on_lanes: bool) -> None:
    """Bodies and parts: a ray meets them where it does in a scene that is gathered anew."""
    env = TorchVectorEnv(Stool(), num_worlds=4, **({"_library": emulated_cuda("stool")} if on_lanes else {}))
    env.reset(seed=0)
    found = []
    for _ in range(12):
        env.step(torch.zeros(4, dtype=torch.int64))
        assert (env.sim.tensor("Stool.Glance.distance") == env.sim.tensor("Stool.View.values")[..., 0]).all()
        found.append(env.sim.tensor("Stool.Glance.distance").clone())
    assert (found[0] != found[-1]).all()


class Bare(Environment):
    """Nothing but visitors, without what cameras fill; so the library's parts that nobody uses do no harm."""

    systems = ()
    libraries = (Physics, Rays)
    archetypes = [Archetype("Visitor", Step, Reward, count=1)]
    step = TaskGraph(Rays.gather, Rays.draw)
    observation, action = "Visitor.Step", "Visitor.Step"
    action_space = Discrete(3)


def test_a_world_without_bodies() -> None:
    env = TorchVectorEnv(Bare(), num_worlds=2)
    env.reset(seed=0)
    env.step(torch.ones(2, dtype=torch.int64))


def test_more_faces_than_there_is_room_for_is_a_fault() -> None:
    env = TorchVectorEnv(Gallery(rays={"faces": 19}), num_worlds=2)  # four wedges have 20
    with pytest.raises(WorldFault, match=r"20 faces, and 19 have room.*rays\.faces"):
        env.reset(seed=0)
        env.step(torch.ones(6, dtype=torch.int64))


@pytest.mark.parametrize("field,value", [("field_of_view", 0.0), ("field_of_view", 3.2), ("near", -1.0), ("far", 0.01)])
def test_a_camera_that_cannot_be_is_a_fault(field: str, value: float) -> None:
    env = TorchVectorEnv(Gallery(), num_worlds=2)
    env.reset(seed=0)
    env.sim.tensor(f"Visitor.rays.View.{field}")[1, 2] = value
    with pytest.raises(WorldFault, match=r"rays\.view"):
        env.step(torch.ones(6, dtype=torch.int64))


@pytest.mark.parametrize("option,value", [("width", 0), ("height", 5000), ("faces", -1), ("heigth", 3)])
def test_options_are_checked(option: str, value: int) -> None:
    with pytest.raises((ValueError, TypeError), match=option):
        Gallery(rays={option: value})
