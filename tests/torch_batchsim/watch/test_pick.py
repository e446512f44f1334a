"""A click on a body finds its row."""

from __future__ import annotations

import pytest
import torch_batchsim.envs.ant as ant
import torch_batchsim.envs.hideseek as hideseek

from torch_batchsim import Simulator
from torch_batchsim.watch import messages, tables

pytestmark = pytest.mark.full


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
