"""Checked builds: what ``observe`` leaves unwritten, and scratch that is read before it is written."""

import re

import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare, spoil

from torch_batchsim import (
    Archetype,
    Checks,
    Component,
    Parameters,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    boolean,
    f32,
    i32,
    u8,
)
from torch_batchsim.run.step_call import never
from torch_batchsim.testing import assert_same_bits, snapshot

WORLD = 2


class Cell(Component):
    x: i32
    speed: f32


class Push(Component):
    force: i32


class See(Component):
    speed: f32
    x: f32


class Notes(Component):
    cells: u8[2, 3]
    near: boolean


class Sums(Component):
    all: i32[4]
    mean: f32


TEXT = """\
TBS_SYSTEM void begin(World &world, Cell &cell) { cell.x = 3; }

TBS_SYSTEM void add(World &world, const Cell &cell, Sums &sums) {
    const bool wrong = world.id == 2 && world.step() == 3;
    for (i32 i = 0; i < (wrong && world.parameters.mistake == 1 ? 3 : 4); ++i) sums.all[i] = cell.x;
    if (wrong && world.parameters.mistake == 2) sums.mean += 1.0f;
    else sums.mean = 2.0f;
}

TBS_SYSTEM void move(World &world, Cell &cell, const Sums &sums, const Push &push, Reward &reward) {
    cell.x += push.force + sums.all[3];
    cell.speed = sums.mean + world.random().uniform();
    reward.value = 1.0f;
}

TBS_SYSTEM void look(World &world, Row row, const Cell &cell, See &see, Notes &notes) {
    const bool wrong = world.id == 2 && world.step() == 3 && row.index == 1;
    if (!(wrong && world.parameters.mistake == 3)) see.speed = cell.speed;
    const i32 most = wrong && world.parameters.mistake == 4 ? 5 : 6;
    for (i32 i = 0; i < most; ++i) notes.cells[i / 3][i % 3] = u8(i);
    if (!(wrong && world.parameters.mistake == 5)) notes.near = true;
    if (wrong && world.parameters.mistake == 6) see.x += 1.0f;
    else see.x = 7.0f;
}
"""
MISTAKES = {
    1: ("systems.h:10", "Walker.Sums.all[3] is scratch and is read before it is written, by one of 'move', 'add'; "
        "Walker.Cell depends on it", 0, "move"),
    2: ("systems.h:10", "Walker.Sums.mean is scratch and is read before it is written", 0, "move"),
    3: ("systems.h:16", "'observe' leaves Walker.See.speed unwritten", 1, "look"),
    4: ("systems.h:16", "'observe' leaves Walker.Notes.cells[1, 2] unwritten", 1, "look"),
    5: ("systems.h:16", "'observe' leaves Walker.Notes.near unwritten", 1, "look"),
    6: ("systems.h:16", "Walker.See.x holds anything before 'observe' and is read before it is written, by one of "
        "'look'; Walker.See depends on it", 1, "look"),
}  # fmt: skip


def made(mistake: int = 0, checks: object = True, **options: object) -> TorchVectorEnv:
    walkers = declare(
        TEXT,
        archetypes=[Archetype("Walker", Cell, Push, See, Notes, Sums, Reward, count=2)],
        scratch=[Sums],
        parameters=Parameters(mistake=0),
        start=TaskGraph("begin"),
        step=TaskGraph("add", "move"),
        observe=TaskGraph("look"),
        observation="Walker.See",
        action="Walker.Push.force",
        action_space=Discrete(3),
    )
    env = TorchVectorEnv(walkers(mistake=mistake), num_worlds=4, checks=checks, **options)
    env.reset(seed=0)
    return env


def steps(env: TorchVectorEnv, count: int) -> None:
    for _ in range(count):
        env.step(torch.ones(env.num_envs, dtype=torch.long))


@pytest.mark.parametrize(
    "mistake", [pytest.param(number, marks=[] if number in (1, 4) else pytest.mark.full) for number in MISTAKES]
)
def test_what_is_left_unwritten_is_named_with_field_world_and_row(mistake):
    place, text, row, system = MISTAKES[mistake]
    env, plain = made(mistake), made(mistake, checks=False)
    steps(env, 2)
    with pytest.raises(WorldFault, match=re.escape(text)) as caught:
        steps(env, 1)
    (fault,) = caught.value.faults
    assert str(fault).startswith(f"{place}: ")
    assert (fault.world, fault.row, fault.system, fault.finding.step) == (WORLD, row, system, 3)
    steps(plain, 3)
    if mistake != 1:  # there scratch of another simulator may hold something else
        others = [world for world in range(4) if world != WORLD]
        assert torch.equal(env.sim.tensor("Walker.Cell.speed")[others], plain.sim.tensor("Walker.Cell.speed")[others])
    steps(env, 2)  # goes on, as the mistake is made once


def spoiled(mistake: int) -> dict[str, torch.Tensor]:
    """After some steps of an ordinary build, each into random bytes."""
    env = made(mistake, checks=False)
    for _ in range(3):
        spoil(env.sim)
        steps(env, 1)
    return snapshot(env.sim)


def test_random_bytes_show_an_observe_that_leaves_some() -> None:
    """As ``torch_batchsim.check`` and the tests of executors use them, also where a build checks nothing."""
    assert_same_bits(spoiled(0), spoiled(0))
    for mistake, column in ((3, "See"), (4, "Notes")):
        with pytest.raises(AssertionError, match=rf"Walker_{column} differs in \d+ of \d+ bytes"):
            for _ in range(4):  # one byte may be the same by chance
                assert_same_bits(spoiled(mistake), spoiled(mistake))


@pytest.mark.full
def test_nothing_is_found_in_sound_systems_and_memory_is_that_of_an_ordinary_build():
    for mode in ("SameStep", "NextStep", "Disabled"):
        options = {"autoreset_mode": mode, "num_threads": 1}
        env, plain = (made(checks=checks, **options) for checks in (Checks(leftovers=1), False))
        for each in (env, plain):
            steps(each, 5)
            each.reset(options={"reset_mask": torch.tensor([True, False, True, False])})
            steps(each, 5)
        assert_same_bits(snapshot(env.sim), snapshot(plain.sim))
        for name, memory in env.sim.memory.columns.items():  # scratch too
            assert torch.equal(memory, plain.sim.memory.columns[name]), name


@pytest.mark.full
def test_illegal_actions_and_other_numbers_of_calls():
    env = made(checks=Checks(leftovers=1))
    with pytest.raises(ValueError, match="action"):
        env.step(torch.full((env.num_envs,), 5))
    steps(env, 2)
    late = made(3, checks=Checks(leftovers=None))
    assert late.sim.execution.step_call is not None
    steps(late, 5)  # not looked at
    assert made().sim.execution.step_call is never
    with pytest.raises(ValueError, match="leftovers must be from 1"):
        Checks(leftovers=0)
