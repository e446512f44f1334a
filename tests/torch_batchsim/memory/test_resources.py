"""Resources: components that there are once for all worlds."""

from __future__ import annotations

from typing import Any

import messages
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import (
    Archetype,
    CheckpointError,
    Component,
    Environment,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    f32,
    i32,
)
from torch_batchsim.resolve.graph import Graph
from torch_batchsim.resolve.program import Program


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


class Levels(Component):
    height: f32[2, 3]
    number: i32


class Wind(Component):
    speed: f32


SYSTEMS = """
TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step, const Levels &levels, Row row) {
    spot.x += levels.height[step.towards][row.index] + f32(levels.number);
}
TBS_SYSTEM void blow(World &world, Reward &reward) { reward.value = world.get<const Wind>().speed; }
"""

PLAIN = "TBS_SYSTEM void walk(World &world, Spot &spot) {}"


def walkers(values: dict[str, Any] | None = None, **changes: Any) -> type[Environment]:
    attributes: dict[str, Any] = {
        "archetypes": (Archetype("Walker", Spot, Step, Reward, count=3),),
        "resources": (Levels, Wind),
        "resource_values": lambda self: values or {},
        "step": TaskGraph("walk", "blow"),
        "observation": "Walker.Spot",
        "action": "Walker.Step",
        "action_space": Discrete(2),
    }
    return declare(changes.pop("systems", SYSTEMS), **(attributes | changes))


HEIGHTS = np.array([[1, 2, 3], [10, 20, 30]], np.float32)


def test_all_worlds_read_one_value() -> None:
    environment = walkers({"Levels.height": HEIGHTS, "Wind": 7.0})
    env = TorchVectorEnv(environment(), num_worlds=5, copy=True)
    sim = env.sim
    env.reset(seed=0)
    assert sim.tensor("Levels.height").shape == (2, 3)
    assert sim.tensor("Wind.speed").shape == () == sim.Wind.speed.shape
    observations, rewards, *_ = env.step(torch.tensor([0, 1, 0] * 5))
    assert torch.equal(env.by_world(observations), torch.tensor([1.0, 20, 3]).expand(5, 3))
    assert torch.equal(rewards, torch.full((15,), 7.0))
    sim.Wind.speed.fill_(0.5)
    sim.tensor("Levels.number").fill_(100)
    observations, rewards, *_ = env.step(torch.tensor([0, 1, 0] * 5))
    assert torch.equal(env.by_world(observations), torch.tensor([102.0, 140, 106]).expand(5, 3))
    assert torch.equal(rewards, torch.full((15,), 0.5))
    env.reset()
    assert float(sim.Wind.speed) == 0.5, "a reset leaves resources as they are"


def test_a_bound_resource() -> None:
    sim = Simulator(walkers({"Wind.speed": 3.0})(), 2)
    mine = torch.empty(())
    sim.bind("Wind", mine)
    sim.reset(seed=0)
    sim.step()
    assert float(mine) == 3.0
    mine.fill_(4.0)
    sim.step()
    assert (sim.tensor("Walker.Reward.value") == 4.0).all()


@pytest.mark.full
def test_state_and_copies() -> None:
    environment = walkers({"Wind.speed": 3.0})
    sim, other = Simulator(environment(), 4), Simulator(environment(), 4)
    sim.reset(seed=0)
    sim.Wind.speed.fill_(9.0)
    sim.copy_worlds([0], [3])
    assert float(sim.Wind.speed) == 9.0
    other.load_state_dict(sim.state_dict())
    assert float(other.Wind.speed) == 9.0
    plain = Simulator(walkers(systems=PLAIN, resources=(), step=TaskGraph("walk"))(), 4)
    with pytest.raises(CheckpointError, match="another environment"):
        plain.load_state_dict(sim.state_dict())


@pytest.mark.full
def test_they_are_no_memory_of_a_world() -> None:
    with_resources = Simulator(walkers()(), 64).bytes_per_world
    plain = walkers(systems=PLAIN, resources=(), step=TaskGraph("walk"))
    assert with_resources == Simulator(plain(), 64).bytes_per_world


def test_pictures_see_them() -> None:
    seen = {}

    def render(self: Environment, world: dict[str, np.ndarray]) -> np.ndarray:
        seen.update(world)
        return np.zeros((2, 2, 3), np.uint8)

    environment = walkers({"Levels.height": HEIGHTS}, render=render)
    env = TorchVectorEnv(environment(), num_worlds=2, render_mode="rgb_array")
    env.reset(seed=0)
    env.render_world(1)
    assert np.array_equal(seen["Levels.height"], HEIGHTS)
    assert seen["Walker.Spot.x"].shape == (3,)


def test_the_graph_shows_that_they_are_read() -> None:
    walk, blow = Graph(Program(walkers()())).nodes
    assert "Levels" in walk.reads
    assert "Wind" in blow.reads


def test_refused_resources() -> None:
    messages.refused("resources", lambda line: Simulator(eval(f"walkers({line})")(), 1))
