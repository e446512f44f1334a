"""A click on a body finds its row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch_batchsim.envs.ant as ant
import torch_batchsim.envs.hideseek as hideseek
from live_page import Page, running
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.minatar.picture import draw

import torch_batchsim
from torch_batchsim import Archetype, Component, Simulator, TorchVectorEnv, i32
from torch_batchsim.draw import Scene
from torch_batchsim.run.world_state import WorldState
from torch_batchsim.watch import messages, tables
from torch_batchsim.watch.tables import tables as tables_of


@pytest.mark.full
def test_rays_from_above_find_what_lies_there() -> None:
    sim = Simulator(hideseek.HideSeek(), 4)
    sim.reset(seed=1)
    for world in range(4):
        for row, (x, y, z) in enumerate(sim.tensor("Agent.physics.Pose.position")[world].tolist()):
            assert tables.hit(sim, world, [x + 0.9, y, z + 9.0], [0.0, 0.0, -0.1]) in (("Agent", row), None)  # a corner
            assert tables.hit(sim, world, [x, y, z + 9.0], [0.0, 0.0, -3.0]) == ("Agent", row)
            assert tables.hit(sim, world, [x, y, z + 9.0], [0.0, 0.0, 1.0]) is None
        ramps = sim.tensor("Ramp.physics.Pose.position").reshape(-1, 3)
        assert len(ramps)  # hulls, of all worlds
    (x, y, z), *_ = ramps.tolist()
    assert tables.hit(sim, 0, [x, y, z + 9.0], [0.0, 0.0, -1.0]) == ("Ramp", 0)


@pytest.mark.full
def test_round_bodies_too() -> None:
    sim = Simulator(ant.Ant(), 2)
    sim.reset(seed=1)
    found = set()
    for table in tables.followed(sim.program):
        for x, y, z in sim.tensor(f"{table}.physics.Pose.position").reshape(2, -1, 3)[1].tolist():
            found.add(tables.hit(sim, 1, [x, y - 6.0, z + 6.0], [0.0, 1.0, -1.0]))
    assert len(found - {None}) >= 9  # of torso and legs


@pytest.mark.parametrize("value", [[0, 0, 0], [1, 2], "up", [1, 2, "3"], [1, 2, float("inf")]])
def test_a_direction_is_three_numbers(value: object) -> None:
    with pytest.raises(messages.Refused):
        messages.direction(value)
    assert messages.direction([0, 1, 2]) == [0.0, 1.0, 2.0]


def test_a_click_on_a_flat_picture_finds_the_row() -> None:
    with running(TorchVectorEnv(CartPole(), 3)) as viewer:
        page = Page(viewer.url)
        x = float(viewer.env.sim.tensor("Cart.CartState.x")[2])
        page.send("point", world=2, x=300 + x * 600 / 4.8, y=305.0)
        assert page.text("picked") == {"kind": "picked", "world": 2, "table": "Cart", "row": 0}
        for place, text in (({"y": 100.0}, "no shape of a row is there"), ({"y": -1.0}, "y must be a number from 0")):
            given = {"kind": "point", "world": 2, "x": 10.0, **place}
            assert text in page.refused(json.dumps(given))

    class Plain(CartPole):
        def scene(self, world: Any) -> Scene:
            return Scene(10, 10)

    with running(TorchVectorEnv(Plain(), 1)) as viewer:
        message = Page(viewer.url).refused('{"kind": "point", "world": 0, "x": 1, "y": 1}')
        assert message == "Plain.scene() does not say to which rows its shapes belong: see Scene.row"


class Drawn(CartPole):
    """A picture without shapes."""

    scene = torch_batchsim.Environment.scene

    def render(self, world: Any) -> np.ndarray:
        return np.zeros((8, 8, 3), np.uint8)


class Two(Drawn):
    @property
    def archetypes(self) -> list[Archetype]:
        return [*super().archetypes, Archetype("Light", Lamp, count=1)]


class Lamp(Component):
    on: i32


def test_a_picture_without_shapes_belongs_to_the_only_row() -> None:
    with running(TorchVectorEnv(Drawn(), 2)) as viewer:
        page = Page(viewer.url)
        page.send("point", world=1, x=3.0, y=4.0)
        assert page.text("picked") == {"kind": "picked", "world": 1, "table": "Cart", "row": 0}
    with running(TorchVectorEnv(Two(), 2)) as viewer:
        message = Page(viewer.url).refused('{"kind": "point", "world": 0, "x": 1, "y": 1}')
        assert message == "Two has pictures without shapes, which belong to no row: see Scene.row"


@pytest.mark.full
@pytest.mark.parametrize("obs", ["ram", "84x84"])
def test_a_picture_of_atari_is_its_console(obs: str) -> None:
    options = {"game": "pong", "obs": obs, **({"pictures": True} if obs == "ram" else {})}
    with running(torch_batchsim.make_vec("atari", num_worlds=2, **options)) as viewer:
        page = Page(viewer.url)
        page.send("point", world=1, x=80.0, y=100.0)
        assert page.text("picked") == {"kind": "picked", "world": 1, "table": "Console", "row": 0}


def test_what_stands_in_a_cell_of_minatar_is_found() -> None:
    cells = np.zeros((10, 10, 4), np.uint8)
    cells[9, 4, 0] = cells[2, 7, 1] = 1
    scene = draw(cells, ("paddle", "ball", "trail", "brick"))
    found = {(x, y) for y in range(10) for x in range(10) if scene.hit(16 * x + 8, 16 * y + 8) == ("Game", 0)}
    assert found == {(4, 9), (7, 2)}


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["cartpole", "hanabi", "overcooked", "minatarseaquest", "swarm", "taggrid", "tagcontinuous"]
)
def test_flat_scenes_name_rows_that_exist(name: str) -> None:
    ids = {each.lower().replace("-", ""): each for each in torch_batchsim.environment_ids()}
    env = torch_batchsim.make_vec(ids[name], num_worlds=2)
    env.reset(seed=1)
    for _ in range(10):
        env.step(env.sample_actions())
    sim = env.unwrapped.sim
    state = WorldState(sim, 1)
    scene = sim.environment.scene(state)
    tables, found = set(tables_of(sim.program)), set()
    for y in range(0, scene.height, 4):
        found |= {scene.hit(x, y) for x in range(0, scene.width, 4)}
    found.discard(None)
    assert found and {table for table, _ in found} <= tables
    for table, row in found:
        field = next(each for each in state if each.startswith(f"{table}."))
        assert row < len(state[field])
