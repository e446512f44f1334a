"""``Simulator.debug``: one world's systems run as Python, the others compiled, to the same bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Episode,
    Parameters,
    Reward,
    TaskGraph,
    World,
    f32,
    function,
    i32,
    system,
    u8,
)
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, snapshot


class Ball(Component):
    place: f32
    hits: u8[3]


class Kick(Component):
    force: i32


class Spark(Component):
    left: i32


@function
def pushed(x: float, by: int) -> float:
    return x + 0.1 * by


@system
def drop(world: World, ball: Ball) -> None:
    ball.place = world.random.uniform()
    print("dropped", world.id)


@system
def kick(world: World, ball: Ball, kick: Kick) -> None:
    ball.place = pushed(ball.place, kick.force) + world.parameters.wind * world.random.normal()
    ball.hits[kick.force] += 1
    if ball.place > 1:
        world.create("Sparks", Spark(left=3))
    print("kicked", world.id)


@system
def fade(world: World, spark: Spark) -> None:
    spark.left -= 1


@system
def judge(world: World, ball: Ball, reward: Reward, episode: Episode) -> None:
    reward.value = ball.place
    episode.terminated = ball.place > 1.2
    episode.truncated = episode.step >= 7


class Balls(Environment):
    archetypes = [Archetype("Player", Ball, Kick, Reward, count=1), Archetype("Sparks", Spark, capacity=8, limit=32)]
    parameters = Parameters(wind=0.2)
    start = TaskGraph(drop)
    step = TaskGraph(kick, fade, judge)
    observation, action = "Player.Kick", "Player.Kick"
    action_space = Discrete(4)


def made(worlds: int = 20, **options: Any) -> torch_batchsim.TorchVectorEnv:
    return torch_batchsim.make_vec(Balls, num_envs=worlds, **options)


def calls_of(name: str, action: Callable[[], object]) -> list[int]:
    """What ``hits[0]`` is where a system is called, as a debugger sees it."""
    found = []

    def trace(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == __file__ and frame.f_code.co_name == name:
            found.append(frame.f_locals["ball"].hits[0])

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.crossed
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
@pytest.mark.parametrize("executor", [None, "per_world", "python"])
def test_the_same_bits_and_only_this_world_is_reached(
    mode: str, executor: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    envs = [made(autoreset_mode=mode, executor=executor if k else None) for k in range(2)]
    for env in envs:
        env.reset(seed=4)
    capsys.readouterr()
    steps = 0
    for number in range(25):
        actions = torch.randint(0, 3, (20,), generator=torch.Generator().manual_seed(number))
        envs[0].step(actions)
        if number % 3 == 0:
            envs[1].step(actions)
            capsys.readouterr()
        else:
            with envs[1].sim.debug(world=13):
                ended = bool(envs[1].ended_worlds()[13])
                envs[1].step(actions)
            printed = capsys.readouterr().out.split("\n")[:-1]
            assert set(printed) <= {"kicked 13", "dropped 13"}
            assert printed.count("kicked 13") == (0 if mode == "NextStep" and ended else 1)
            steps += len(printed)
        assert_same_bits(snapshot(envs[0].sim), snapshot(envs[1].sim))
        assert torch.equal(envs[0].sim.tensor("World.step"), envs[1].sim.tensor("World.step"))
    assert steps > 12
    assert envs[1].sim.executor == (executor or envs[0].sim.executor)


def test_a_debugger_stops_in_this_world_only() -> None:
    env = made()
    env.reset(seed=0)
    env.sim.tensor("Player.Ball.hits")[:, 0, 0] = torch.arange(20, dtype=torch.uint8)
    with env.sim.debug(world=13):
        assert calls_of("kick", lambda: env.step(torch.ones(20, dtype=torch.long))) == [13]
    assert calls_of("kick", lambda: env.step(torch.ones(20, dtype=torch.long))) == []


def test_a_world_of_a_part_and_a_reset(capsys: pytest.CaptureFixture[str]) -> None:
    sim = torch_batchsim.Simulator(Balls(), 6, first_world=100)
    with sim.debug(world=2):
        sim.reset(seed=0)
        sim.step()
    assert capsys.readouterr().out == "dropped 102\nkicked 102\n"


def test_an_exception_has_its_line_and_the_simulator_goes_on_after_a_reset() -> None:
    env = made(4)
    env.reset(seed=0)
    with pytest.raises(IndexError, match="the index is 3; it must be from 0 to 2"), env.sim.debug(world=1):
        env.step(torch.tensor([0, 3, 0, 0]))
    with pytest.raises(RuntimeError, match="was stopped"):
        env.step(torch.zeros(4, dtype=torch.long))
    env.reset(seed=0)
    env.step(torch.zeros(4, dtype=torch.long))
    assert env.sim.executor != "python"


def refused(sim: torch_batchsim.Simulator, world: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message), sim.debug(world):
        pass


@pytest.mark.full
def test_wrong_calls() -> None:
    sim = made(4).sim
    refused(sim, 4, ValueError, "world")
    refused(sim, -1, ValueError, "world")
    refused(sim, [0, 1], ValueError, "world must be the number of one world")
    refused(sim, None, ValueError, "world must be the number of one world")
    refused(sim, "a", TypeError, "world")
    refused(torch_batchsim.make_vec("cartpole", 2).sim, 0, RuntimeError, "CartPole has no systems in Python")
    refused(made(2, checks=True).sim, 0, RuntimeError, "checks instruments C")
    with sim.debug(1):
        refused(sim, 2, RuntimeError, "debug.. is running already")
    sim.reset(seed=0)
    with sim.inside_step():
        refused(sim, 2, RuntimeError, "a step is under way")


@pytest.mark.full
def test_wrong_calls_of_simulators_that_take_longer_to_build() -> None:
    library = emulation.load(Program(Balls()), "graph")
    refused(torch_batchsim.Simulator(Balls(), 2, _library=library), 0, RuntimeError, "on CPU: make the simulator")
    sim = made(4).sim
    sim.reset(seed=0)
    with sim.tracing():
        refused(sim, 2, RuntimeError, "being traced")
