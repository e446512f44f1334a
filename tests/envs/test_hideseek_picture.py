"""Hide and seek: pictures show what agents see, where their front is, and what is locked."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
import pytest
from hideseek_scene import BY_HIDERS, BY_NOBODY, HIDER, Scene
from torch_batchsim.envs.hideseek import HideSeek, picture

from torch_batchsim import TorchVectorEnv
from torch_batchsim.testing import random_actions
from torch_batchsim.vector.rendering import WorldState


def test_cones_are_cut_by_the_rays_of_sight() -> None:
    """Lidar is by the same rays, so its beams are as long."""
    env = TorchVectorEnv(HideSeek(critic=True), num_worlds=4, num_threads=1)
    env.reset(seed=4)
    c = env.environment.constants
    wrong = rays = 0
    for actions in random_actions(env, 5, seed=1):
        lidar = env.step(actions)[0]["lidar"].numpy().reshape(4, -1, c.beams)
        for number in range(4):
            world = WorldState(env.sim, number)
            solids = picture.solids_of(world, c)
            for i, place in enumerate(world["Agent.physics.Pose.position"]):
                forward = picture.rotated(world["Agent.physics.Pose.rotation"][i], (0, 1, 0))
                angles = np.arctan2(forward[1], forward[0]) + 2 * pi * np.arange(c.beams) / c.beams
                ways = np.minimum(picture.clear_ways(solids, place, angles, i) / c.lidar_range, 1)
                wrong += int((np.abs(ways - lidar[number, i]) > 1e-4).sum())  # those that graze an edge
                rays += c.beams
    assert wrong < 2e-3 * rays


@pytest.mark.parametrize("before", ["nothing", "wall", "box", "ramp", "agent"])
def test_a_cone_ends_at_the_first_body(before: str) -> None:
    there = {"wall": {"walls": [(0.0, 2.5, 2.0, 0.2)]}, "box": {"boxes": [(0.0, 3.0, 0.0, False)]},
             "ramp": {"ramps": [(0.0, 3.0, 0.0)]}}.get(before, {})  # fmt: skip
    others = {1: (0.0, 3.0, 0.0)} if before == "agent" else {}
    scene = Scene({HIDER: (0.0, 0.0, 0.0), **others}, **there)
    pixels = scene.env.render_world(0)

    def is_floor(x: float, y: float) -> bool:
        scale = picture.SIZE / (2 * (18 + picture.MARGIN))
        return tuple(pixels[round(picture.SIZE / 2 - y * scale), round(picture.SIZE / 2 + x * scale)]) == picture.FLOOR

    assert not is_floor(0, 1.5) and not is_floor(1, 1.5)
    assert is_floor(0, -3) and is_floor(-5, -1)  # behind the agent
    assert is_floor(0, 6) == (before not in ("nothing", "agent"))  # the other agent looks ahead too
    assert not is_floor(5, 3)  # past the body


def test_the_scene_has_what_agents_see() -> None:
    """Lines to the agents in sight and beams as long as the lidar's; cones do not reach behind bodies."""
    env = TorchVectorEnv(HideSeek(critic=True), num_worlds=8, num_threads=1)
    env.reset(seed=4)
    environment, lines = env.environment, 0
    c = environment.constants
    for actions in random_actions(env, 3, seed=1):
        observations = env.step(actions)[0]
        sees = observations["sees_agents"].numpy().reshape(8, c.agents, -1)
        lidar = observations["lidar"].numpy().reshape(8, c.agents, -1)
        for number in range(8):
            world = WorldState(env.sim, number)
            layers: dict[str, list[Any]] = {}
            name = ""
            for shape in environment.scene(world).shapes:
                if shape[0] == "layer":
                    name = shape[1]
                layers.setdefault(name, []).append(shape)
            places = world["Agent.physics.Pose.position"]
            teams = [picture.TEAMS[int(side)] for side in world["Agent.Team.side"]]
            seen = [(i, j if j < i else j + 1) for i in range(c.agents) for j in np.flatnonzero(sees[number, i])]
            seen = [(i, j) for i, j in seen if teams[i] != teams[j]]
            drawn = [shape for shape in layers["Sight"] if shape[0] == "path"]
            assert [np.array(points).tolist() for _, points, *_ in drawn] == [places[[i, j]].tolist() for i, j in seen]
            assert [colour for *_, colour in drawn] == [teams[i] for i, _ in seen]
            lines += len(drawn)
            beams = np.array([points for kind, points, *_ in layers["Lidar"] if kind == "beams"])
            lengths = np.linalg.norm(beams[:, 1:] - beams[:, :1], axis=-1)
            assert np.abs(lengths - c.lidar_range * lidar[number]).max() < 1e-4
            cones = np.array([points for kind, points, *_ in layers["Sight"] if kind == "area"])
            solids = picture.solids_of(world, c)
            for i, (eye, *rim) in enumerate(cones):
                ways = np.array(rim) - eye
                free = picture.clear_ways(solids, eye, np.arctan2(ways[:, 1], ways[:, 0]), i)
                assert (np.linalg.norm(ways, axis=-1) <= free + 1e-6).all()
            assert [text for _, _, text, *_ in layers["Names"][1:]] == ["H1", "H2", "H3", "S1", "S2"]
    assert lines > 10


@pytest.mark.full
def test_the_front_of_agents_and_what_is_locked_are_seen_from_aside() -> None:
    def drawn(yaw: float = 0.0, locked: int = BY_NOBODY) -> np.ndarray:
        scene = Scene({HIDER: (0.0, 0.0, yaw)}, boxes=[(6.0, 0.0, 0.0, True)], ramps=[(-6.0, 0.0, 0.0)], camera="aside")
        for table in ("Box", "Ramp"):
            if locked:
                scene.lock(table, 0, locked)
        return scene.env.render_world(0).astype(int)

    def blue(pixels: np.ndarray) -> int:
        return int((pixels[..., 2] > pixels[..., 0] + 60).sum())

    ways = [drawn(yaw) for yaw in (0.0, pi / 2, pi, -pi / 2)]
    for i, one in enumerate(ways):
        for other in ways[:i]:
            assert (np.abs(one - other).max(-1) > 60).sum() > 20
    free, locked = drawn(), drawn(locked=BY_HIDERS)
    assert (np.abs(free - locked).max(-1) > 25).sum() > 500  # all of the box and the ramp
    agents = blue(free) / 3
    assert 0.1 * agents < blue(locked) - blue(free) < 0.5 * agents  # two blocks, smaller than a hider
