"""Systems in Python under ``executor="python"``: exceptions, faults, logs, single systems, beside compiled ones."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
import torch
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Episode,
    Library,
    Parameters,
    Reward,
    TaskGraph,
    World,
    function,
    i32,
    system,
    u8,
    vec3,
)
from torch_batchsim.testing import assert_same_bits, snapshot


class Ring(Component):
    cells: u8[6]
    place: i32
    way: vec3[2]


class Turn(Component):
    by: i32


class Marks(Component):
    count: i32


@system
def mark(world: World, marks: Marks):
    marks.count += world.random.integer(1, 3)
    if marks.count > 1000:
        world.fail("too_many", marks.count)


class Marking(Library):
    name = "marking"
    singletons = (Marks,)
    parameters = Parameters(limit=1000)
    faults = ("too_many",)
    work = TaskGraph(mark)


@function
def next_place(place: int, by: int) -> int:
    return (place + by) % 7


@system
def turn(world: World, ring: Ring, turn: Turn):
    ring.place = next_place(ring.place, turn.by)
    world.log("place", ring.place)
    ring.cells[ring.place] += 1
    for way in ring.way:
        ring.way[0].x += 1.0
        ring.way[1].y += way.x


@system
def judge(world: World, ring: Ring, reward: Reward, episode: Episode):
    world.check(ring.place - 0.1 != 3.9, "on four", ring.place)
    if ring.place == 5:
        world.fail("five", ring.place)
    reward.value = 1.0 * ring.place
    episode.truncated = episode.step == 9
    print("judged", ring.place)


class Rings(Environment):
    libraries = (Marking,)
    archetypes = [Archetype("Runner", Ring, Turn, Reward, count=1)]
    faults = ("five",)
    step = TaskGraph(turn, Marking.work, judge)
    observation, action = "Runner.Turn", "Runner.Turn"
    action_space = Discrete(7)


def pair(worlds: int = 6, **options: object) -> list[torch_batchsim.TorchVectorEnv]:
    executors = ("batch", "python")
    return [torch_batchsim.make_vec(Rings, num_envs=worlds, executor=name, **options) for name in executors]


def actions(values: list[int]) -> torch.Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_the_same_bits_and_logs(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    envs = pair(4, log=True, autoreset_mode=mode)
    for env in envs:
        env.reset(seed=3)
        for number in range(12):
            ended = env.ended_worlds()
            if mode == "Disabled" and bool(ended.any()):
                env.reset(options={"reset_mask": ended})
            env.step(actions([number % 2, 0, 1, 0]) * (number % 3 == 0))
    assert_same_bits(snapshot(envs[0].sim), snapshot(envs[1].sim))
    lines = [[(line.world, line.step, line.system, line.value) for line in env.sim.logs()] for env in envs]
    assert lines[0] == lines[1] and len(lines[0]) > 30
    assert "judged 0" in capsys.readouterr().out


@pytest.mark.full
def test_faults_are_the_same() -> None:
    said = []
    for env in pair(3):
        env.reset(seed=0)
        with pytest.raises(torch_batchsim.WorldFault) as raised:
            env.step(actions([1, 5, 2]))
        said.append(str(raised.value))
        assert raised.value.mask.tolist() == [False, True, False]
    assert said[0] == said[1] and "five" in said[0]


def test_an_assertion_names_its_line_condition_and_message() -> None:
    said = []
    for env in pair(2):
        env.reset(seed=0)
        env.sim.tensor("Runner.Ring.place").fill_(3)
        with pytest.raises(torch_batchsim.WorldFault, match="world") as raised:
            env.step(actions([1, 0]))
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "check failed: `(f32(ring.place) - 0.1) != 3.9`: on four, `ring.place` is 4 (world 0" in said[0]


def test_an_exception_has_the_line_of_the_system_and_leaves_worlds_undefined() -> None:
    _, env = pair(2)
    env.reset(seed=0)
    with pytest.raises(IndexError, match="the index is 6; it must be from 0 to 5") as raised:
        env.step(actions([0, 6]))
    last = [frame for frame in traceback.extract_tb(raised.tb) if frame.filename == __file__][-1]
    assert last.name == "turn" and last.line == "ring.cells[ring.place] += 1"
    with pytest.raises(RuntimeError, match="the last step or reset was stopped"):
        env.step(actions([0, 0]))
    env.reset(seed=0)
    env.step(actions([1, 2]))
    assert env.sim.tensor("Runner.Ring.cells").sum() == 2


def test_simulators_of_one_environment_do_not_mix() -> None:
    (_, first), (_, second) = pair(2), pair(2)
    first.reset(seed=0)
    second.reset(seed=0)
    with pytest.raises(IndexError):
        first.step(actions([0, 6]))
    second.step(actions([1, 2]))
    assert second.sim.tensor("Runner.Ring.place").tolist() == [[1], [2]]


def test_single_systems_run_by_the_function() -> None:
    _, env = pair(2)
    env.reset(seed=0)
    env.sim.tensor("Runner.Turn.by").fill_(2)
    env.sim.run(turn)
    assert env.sim.tensor("Runner.Ring.place").tolist() == [[2], [2]]


def test_checks_are_refused() -> None:
    with pytest.raises(ValueError, match="executor='python' raises for wrong indices by itself"):
        torch_batchsim.make_vec(Rings, num_envs=1, executor="python", checks=True)


class Broken(Exception):
    pass


def test_interrupts_and_exits_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (KeyboardInterrupt, SystemExit, Broken):
        _, env = pair(1)
        env.reset(seed=0)

        def leave(*_: object, kind: type[BaseException] = kind) -> None:
            raise kind

        monkeypatch.setattr("builtins.print", leave)
        with pytest.raises(kind):
            env.step(actions([0]))
        monkeypatch.undo()


def test_systems_in_both_languages(tmp_path: Path) -> None:
    header = "TBS_SYSTEM void twice(World &world, Ring &ring) { ring.place *= 2; }\n"
    (tmp_path / "more.h").write_text(header)

    class Both(Rings):
        systems = str(tmp_path / "more.h")
        step = TaskGraph(turn, "twice", judge)

    envs = [torch_batchsim.make_vec(Both, num_envs=2, executor=name) for name in ("batch", "python")]
    for env in envs:
        env.reset(seed=0)
        env.step(actions([0, 1]))
        assert env.sim.tensor("Runner.Ring.place").flatten().tolist() == [0, 2]
    assert_same_bits(snapshot(envs[0].sim), snapshot(envs[1].sim))
