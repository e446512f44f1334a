"""The examples of docs/physics.md run, or compile, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare, folder_of, write

from torch_batchsim import Archetype, Component, Environment, Reward, Simulator, TaskGraph, i32
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.physics import Physics
from torch_batchsim.resolve.program import Program

PAGE = Path(__file__).resolve().parents[3] / "docs" / "physics.md"


# What the page's parts of systems use, and does not show.
AROUND_A_TABLE = """
TBS_SYSTEM void put_table(World &world, const physics::Hulls &hulls) {
    const physics::Shape top = physics::box({0.5f, 0.5f, 0.05f}), leg = physics::box({0.05f, 0.05f, 0.325f});
    const vec3 feet[4] = {{0.4f, 0.4f, 0.325f}, {-0.4f, 0.4f, 0.325f}, {0.4f, -0.4f, 0.325f}, {-0.4f, -0.4f, 0.325f}};
    %s
    const physics::Part plate = physics::part(body, vec3{0.0f, 0.0f, 0.7f} - table.centre);
    world.create<Leg>(plate, physics::pose_of(plate, at), top);
    for (physics::Shape &shape : world.rows<Ground, physics::Shape>()) shape = physics::plane();
    for (physics::Pose &pose : world.rows<Ground, physics::Pose>()) pose = physics::pose({0.0f, 0.0f, 0.0f});
}
"""
AROUND_AN_ANKLE = """
struct Knee { physics::Pose leg, foot; vec3 knee, ankle_axis; };
TBS_FUNCTION physics::Joint ankle_of(Entity leg, Entity foot, const Knee &at) {
    %s
    return ankle;
}
"""


class Wish(Component):
    nothing: i32


def table() -> Environment:
    """An environment of the page's parts of systems."""
    parts = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(parts) == 2
    text = "".join(around % part for around, part in zip((AROUND_A_TABLE, AROUND_AN_ANKLE), parts, strict=True))
    archetypes = (
        Archetype("Sitter", Wish, Reward, count=1),
        Archetype("Table", Physics.body, capacity=1),
        Archetype("Leg", Physics.part, capacity=5),
        Archetype("Ground", Physics.static, count=1),
    )
    return declare(
        text,
        libraries=(Physics,),
        archetypes=archetypes,
        start=TaskGraph("put_table"),
        step=TaskGraph(Physics.simulate),
        observation="Sitter.Wish",
        action="Sitter.Wish",
        action_space=Discrete(2),
    )()


def test_its_parts_of_systems_compile(tmp_path: Path) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text(generate(Program(table()), Target()))
    command = [jit.cpp_compiler(), *jit.compiler_flags("cpu"), "-fsyntax-only", f"-I{jit.CSRC}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_table_of_the_page_stands() -> None:
    sim = Simulator(table(), 1)
    sim.reset(seed=0)
    for _ in range(120):
        sim.step()
    assert sim.ragged("Table.physics.Mass.inverse").world(0).item() == pytest.approx(1 / 8)  # 6 kg and 4 times 0.5 kg
    height = (6 * 0.7 + 2 * 0.325) / 8  # of the centre of mass
    pose = sim.ragged("Table.physics.Pose.position").world(0)[0]
    assert torch.allclose(pose, torch.tensor([0.0, 0.0, height]), atol=2e-3), pose


@pytest.mark.full
def test_the_tower_of_the_page_falls() -> None:
    found = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert set(found) == {"tower.py", "tower.h", "play_tower.py"}
    folder = folder_of(found["tower.h"])  # test_picture.py builds it too
    for name, text in found.items():
        write(folder / name, text)
    done = subprocess.run([sys.executable, "play_tower.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
