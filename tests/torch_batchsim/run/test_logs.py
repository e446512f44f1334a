"""What systems note by world.log: with world, system, row, step; nothing where it is off."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import (
    Archetype,
    BuildError,
    Component,
    Environment,
    Repeat,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    f32,
    i32,
    vec2,
)
from torch_batchsim.build import emulation
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program
from torch_batchsim.run import logs

WALK = """
TBS_SYSTEM void begin(World &world, Place &place, Row row) {
    place.at = vec2{0.5f, f32(row.index)};
    if (row.index == 0) world.log("begins", world.episode());
}
TBS_SYSTEM void move(World &world, Place &place, const Move &move) {
    place.at.x += 0.1f;
    world.log("at", place.at);
    if (world.repetition() == 1) world.log("action", move.to);
}
TBS_SYSTEM void sum(World &world, Total &total, Warp &warp) {
    const auto places = world.rows<Walker, const Place>();
    const f32 all = warp.sum(places.count, [&](u32 i) { return places[i].at.x; });
    warp.once([&] { total.x = all; });
    world.log("rows", places.count);
    warp.once([&] { world.log("double", f64(all)); });
}
TBS_SYSTEM void judge(World &world, const Total &total, Episode &episode) {
    episode.terminated = world.step() == 2;
    world.log("ends", episode.terminated);
    world.log("id", -i32(world.id));
}
"""


class Place(Component):
    at: vec2


class Move(Component):
    to: i32


class Total(Component):
    x: f32


WALK_DECLARATION = {
    "archetypes": [Archetype("Walker", Place, Move, Reward, count=2)],
    "singletons": [Total],
    "start": TaskGraph("begin"),
    "step": TaskGraph(Repeat(2, "move"), "sum", "judge"),
    "observe": TaskGraph(),
    "observation": "Walker.Place",
    "action": "Walker.Move.to",
    "action_space": Discrete(3),
}


def walk() -> Environment:
    return declare(WALK, **WALK_DECLARATION)()


def played(worlds: int = 3, steps: int = 3, log: Any = True, **arguments: Any) -> Simulator:
    sim = Simulator(walk(), worlds, log=log, **arguments)
    sim.reset(seed=0)
    for _ in range(steps):
        sim.step()
    return sim


def test_lines_have_world_system_row_and_step() -> None:
    sim = played(num_threads=1)
    logs = sim.logs()
    of_world = [line for line in logs if line.world == 1]
    assert [str(line) for line in of_world[:9]] == [
        "world 1, step 0, begin[0]: begins 0",
        "world 1, step 1, move[0]: at (0.6, 0.0)",
        "world 1, step 1, move[1]: at (0.6, 1.0)",
        "world 1, step 1, move[0], repetition 1: at (0.70000005, 0.0)",
        "world 1, step 1, move[0], repetition 1: action 0",
        "world 1, step 1, move[1], repetition 1: at (0.70000005, 1.0)",
        "world 1, step 1, move[1], repetition 1: action 0",
        "world 1, step 1, sum[0]: rows 2",
        "world 1, step 1, sum[0]: double 1.4000000953674316",
    ]
    assert [(line.label, line.value) for line in of_world[9:11]] == [("ends", False), ("id", -1)]
    assert type(of_world[1].value[0]) is np.float32 and type(of_world[0].value) is np.uint64
    assert [(line.episode, line.step) for line in of_world if line.system == "judge" and line.label == "id"] == [
        (0, 1), (0, 2), (1, 1),
    ]  # fmt: skip
    assert logs.dropped == {} and [line.world for line in logs] == sorted(line.world for line in logs)
    assert len(sim.logs()) == 0
    sim.step()
    assert {line.world for line in sim.logs(worlds=[2], clear=False)} == {2}
    assert {line.world for line in sim.logs()} == {0, 1, 2}


def test_threads_note_the_same_lines() -> None:
    assert list(played(worlds=40, num_threads=2).logs()) == list(played(worlds=40, num_threads=1).logs())


@pytest.mark.full
def test_executors_note_the_same_lines() -> None:
    expected = list(played(worlds=40, num_threads=1).logs())
    assert list(played(worlds=40, num_threads=2, executor="per_world").logs()) == expected
    sim = Simulator(walk(), 40, log=True)
    sim.reset(seed=0)
    for _ in range(3):
        with sim.inside_step():
            sim.run("move", worlds=3)
    assert list(sim.logs()) == expected


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "megakernel", "per_world"])
def test_an_emulated_device_notes_the_same_lines(executor: str) -> None:
    """Also where all lanes of a group note a line, of which one is left."""
    library = emulation.load(Program(walk(), log=400), executor)
    sim = played(worlds=5, log=400, _library=library)
    assert list(sim.logs()) == list(played(worlds=5).logs())


def test_what_finds_no_room_is_counted() -> None:
    sim = played(worlds=2, log=5)
    logs = sim.logs()
    assert [line.label for line in logs if line.world == 0] == ["begins", "at", "at", "at", "action"]
    assert logs.dropped == {0: 27, 1: 27}
    said = "world 1: 27 more lines dropped: there is room for 5 between two calls of logs(); log=10 has more"
    assert str(logs).splitlines()[-1] == said


def test_off_it_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in (Target(), Target("cuda")):
        off, on = (generate(Program(walk(), log=log), target) for log in (0, 64))
        assert "TBS_LOG" not in off and "log_" not in off.replace("world.log", "")
        added = [line for line in on.splitlines() if line not in off.splitlines()]
        assert added[0] == "#define TBS_LOG" and len(added) < 40
    with pytest.raises(RuntimeError, match="make the simulator with log=True, or set TBS_LOG=1"):
        Simulator(CartPole(), 1).logs()
    monkeypatch.setenv("TBS_LOG", "1")
    env = TorchVectorEnv(walk(), num_worlds=1)
    env.reset(seed=0)
    assert [line.label for line in env.sim.logs()] == ["begins"]
    assert TorchVectorEnv(CartPole(), num_worlds=1, log=False).sim.program.log == 0


def instructions(systems: str) -> str:
    """What a compiler makes of them without logs."""
    sim = Simulator(declare(systems, **WALK_DECLARATION)(), 1)
    library = str(sim.execution.library.path)
    done = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True)
    return done.stdout.partition("format")[2]  # behind the file's name


@pytest.mark.full
def test_off_the_instructions_are_those_without_the_calls() -> None:
    without = re.sub(r"world\.log\(.*?\);", ";", WALK)
    assert without != WALK
    assert instructions(WALK) == instructions(without) != ""


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for log, error in (("yes", TypeError), (0.5, TypeError), (-1, ValueError), (2**21, ValueError)):
        with pytest.raises(error, match="log must be"):
            Simulator(walk(), 1, log=log)
    monkeypatch.setenv("TBS_LOG", "loud")
    with pytest.raises(ValueError, match="TBS_LOG=loud: write TBS_LOG=1"):
        Simulator(walk(), 1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (f'world.log("{32 * "x"}", 1)', "at most 31 characters"),
        ('world.log("all", place)', "takes numbers, bools"),
    ],
)
def test_what_does_not_compile(call: str, text: str) -> None:
    changed = declare(WALK.replace('world.log("at", place.at)', call), **WALK_DECLARATION)
    with pytest.raises(BuildError, match=text):
        Simulator(changed(), 1)


def test_commands_show_the_first_lines_and_forget_all() -> None:
    sim = played(num_threads=1)
    expected = [f"  {line}" for line in sim.logs(clear=False)]
    shown = logs.first_lines(sim.program, sim.memory, 5).splitlines()
    assert shown == [*expected[:5], "  (more was noted, in 3 worlds in all)"]
    assert logs.first_lines(sim.program, sim.memory, 5) == "" and len(sim.logs()) == 0
    sim.step()
    assert "more" not in logs.first_lines(sim.program, sim.memory, 1000)
    few = played(worlds=2, log=1)
    assert "more was noted, in 2 worlds" in logs.first_lines(few.program, few.memory, 1000)


NOTING = """
import torch_batchsim
from gymnasium.spaces import Discrete
from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, f32, i32


class Spot(Component):
    x: f32


class Go(Component):
    how: i32


class Noting(Environment):
    systems = "noting.h"
    archetypes = [Archetype("Thing", Spot, Go, Reward, count=1)]
    start, step = TaskGraph(), TaskGraph("move")
    observation, action, action_space = "Thing.Spot", "Thing.Go.how", Discrete(2)


torch_batchsim.register("test/Noting-v0", Noting)
"""
NOTING_SYSTEMS = """
TBS_SYSTEM void move(World &world, Spot &spot, const Go &go, Episode &episode) {
    spot.x = f32(go.how);
    world.log("speed", 0.5f);
    episode.terminated = world.step() == 5;
}
"""


@pytest.mark.full
def test_commands_print_what_is_noted(tmp_path: Path) -> None:
    (tmp_path / "noting.py").write_text(NOTING)
    (tmp_path / "noting.h").write_text(NOTING_SYSTEMS)
    bench = ("bench", "noting:test/Noting-v0", "--num-envs", "4", "--seconds", "0.01", "--runs", "1", "--no-build")
    small = ("--num-envs", "4", "--num-steps", "8", "--num-minibatches", "1", "--total-steps", "160")
    train = ("train", "noting:test/Noting-v0", *small, "--eval-episodes", "4", "--run-dir", "run")
    printed = []
    for command in (bench, train):
        arguments = [sys.executable, "-m", f"torch_batchsim.{command[0]}", *command[1:], "--log", "2"]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout + done.stderr)
    lines = [f"  world {world}, step {step}, move[0]: speed 0.5" for world in range(4) for step in (1, 2)]
    first = "\n".join([*lines, "  (more was noted, in 4 worlds in all)"])
    assert f"logs of 4 rows:\n{first}\n" in printed[0]
    iterations = re.findall(r"^logs of iteration (\d+):$", printed[1], re.MULTILINE)
    assert iterations == ["1", "2", "4"] and f"logs of iteration 1:\n{first}\n" in printed[1]
    assert f"logs of the evaluation:\n{first}\n" in printed[1]
    assert printed[1].count("speed") == 8 * 4


def test_worlds_are_those_of_tensors() -> None:
    sim = played(worlds=2, first_world=100)
    lines = [line for line in sim.logs() if line.label == "id"]
    assert {(line.world, int(line.value)) for line in lines} == {(0, -100), (1, -101)}
    assert torch.equal(sim.tensor("World.step"), torch.tensor([1, 1], dtype=torch.int32))


@pytest.mark.full
def test_the_page_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    part = (docs / "debugging.md").read_text().partition("## Notes from a system")[2].partition("\n## ")[0]
    system, use, shown = re.findall(r"```(?:cpp|python)?\n(.*?)```", part, re.DOTALL)
    tutorial = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", (docs / "tutorial.md").read_text(), re.DOTALL))
    before, _, behind = tutorial["walk.py"].partition("@system\ndef walk(")
    text = before + behind[behind.index("@system") :]
    (tmp_path / "walk.py").write_text(text.replace("TaskGraph(walk, pay)", 'TaskGraph("walk", pay)'))
    (tmp_path / "systems.h").write_text(system)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(use, {"torch_batchsim": torch_batchsim, "torch": torch})
    assert capsys.readouterr().out == shown
