"""What the tests fill with random bytes before each step shows an ``observe`` that does not write its columns wholly.

``run`` of test_executors.py does so for every environment of the tests.
"""

from __future__ import annotations

import pytest
import torch
from gymnasium.spaces import Discrete
from support import assert_same_bits, declare, snapshot, spoil

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Parameters,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    f32,
    i32,
    i64,
    u8,
)


class Clock(Component):
    time: i32


class Choice(Component):
    move: i32


class View(Component):
    values: f32[2]


class Hint(Component):
    totals: i64[2]


class Sketch(Component):  # with padding, which nobody writes
    color: u8
    lines: i32[3]


SYSTEMS = """
// Bit i: what is left out in every second step.
TBS_FUNCTION bool leaves_out(const World &world, i32 bit) { return world.parameters.holes >> bit & (world.step() & 1); }

TBS_SYSTEM void tick(World &world, Clock &clock, const Choice &choice, Reward &reward) {
    clock.time += choice.move;
    reward.value = f32(clock.time);
}
TBS_SYSTEM void sketch(World &world, const Clock &clock, Sketch &sketch) {
    sketch.color = 7;
    for (i32 i = 0; i < 3 - leaves_out(world, 0); ++i) sketch.lines[i] = clock.time + i;
}
TBS_SYSTEM void look(World &world, const Sketch &sketch, View &view) {
    view.values[0] = f32(sketch.lines[0]);
    if (!leaves_out(world, 1)) view.values[1] = f32(sketch.lines[1]);
}
TBS_SYSTEM void hint(World &world, const Clock &clock, Hint &hint) {
    for (i32 i = 0; i < 2 - leaves_out(world, 2); ++i) hint.totals[i] = clock.time - i;
}
"""
LEFT_OUT = {"column_Player_Sketch": 1, "column_Player_View": 2, "column_Player_Hint": 4}


@pytest.fixture(scope="module")
def watchers(tmp_path_factory: pytest.TempPathFactory) -> type[Environment]:
    return declare(
        SYSTEMS,
        tmp_path_factory.mktemp("watchers"),
        parameters=Parameters(holes=0),
        archetypes=(Archetype("Player", Clock, Choice, View, Hint, Sketch, Reward, count=2),),
        step=TaskGraph("tick"),
        observe=TaskGraph("sketch", "look", "hint"),
        observation="Player.View",
        info={"hint": "Player.Hint"},
        action="Player.Choice",
        action_space=Discrete(3),
    )


def played(environment: Environment) -> Simulator:
    """Some steps, each into random bytes."""
    env = TorchVectorEnv(environment, num_worlds=5)
    env.reset(seed=1)
    for _ in range(7):
        spoil(env.sim)
        env.step(torch.arange(10) % 3)
    return env.sim


def test_what_is_written_wholly_does_not_differ(watchers: type[Environment]) -> None:
    first, second = (played(watchers()) for _ in range(2))
    assert_same_bits(snapshot(first), snapshot(second))


@pytest.mark.parametrize("column", LEFT_OUT)
def test_what_is_not_written_wholly_differs(watchers: type[Environment], column: str) -> None:
    first, second = (played(watchers(holes=LEFT_OUT[column])) for _ in range(2))
    with pytest.raises(AssertionError, match=rf"^{column} differs in \d+ of \d+ bytes, first at [^;]*$"):
        assert_same_bits(snapshot(first), snapshot(second))
