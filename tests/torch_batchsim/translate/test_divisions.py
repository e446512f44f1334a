"""Quotients of integers in checked builds of systems in Python: a divisor of 0 is a fault, with its line."""

from __future__ import annotations

import pytest
import torch
from support import line_of

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Checks,
    Component,
    Environment,
    Reward,
    Simulator,
    TaskGraph,
    World,
    WorldFault,
    between,
    i32,
    i64,
    system,
    u32,
)
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program


class Act(Component):
    choice: i32 = between(0, 7)


class Numbers(Component):
    zero: i32
    wide: i64
    bare: u32
    least: i32
    out: i32


class Seen(Component):
    value: i32


@system
def divide(world: World, act: Act, numbers: Numbers, seen: Seen) -> None:
    minus = numbers.zero - 1
    numbers.least = -2147483648
    if act.choice == 1:
        numbers.out = 5 // numbers.zero
    elif act.choice == 2:
        numbers.out = 3 + 5 % numbers.zero
    elif act.choice == 3:
        numbers.wide = 5 // numbers.wide
    elif act.choice == 4:
        numbers.bare = u32(5) % numbers.bare
    elif act.choice == 5:
        numbers.out = numbers.least // minus
    else:
        numbers.out = 7 // minus + 7 % minus  # of choice 0
    seen.value = numbers.out


class Divisions(Environment):
    archetypes = [Archetype("Player", Act, Numbers, Seen, Reward, count=1)]
    step = TaskGraph(divide)
    observation, action = "Player.Seen", "Player.Act"


CASES = {
    1: ("numbers.out = 5 // numbers.zero", "division by zero in i32"),
    2: ("numbers.out = 3 + 5 % numbers.zero", "division by zero in i32"),
    3: ("numbers.wide = 5 // numbers.wide", "division by zero in i64"),
    4: ("numbers.bare = u32(5) % numbers.bare", "division by zero in u32"),
    5: ("numbers.out = numbers.least // minus", "-2147483648 / (-1) does not fit into i32"),
}


@pytest.mark.parametrize("choice", CASES)
def test_a_divisor_of_zero_is_a_fault_of_its_world(choice: int) -> None:
    env = torch_batchsim.make_vec(Divisions, num_envs=3, checks=True)
    env.reset(seed=0)
    env.step(torch.tensor([0, 0, 0]))
    text, says = CASES[choice]
    with pytest.raises(WorldFault) as raised:
        env.step(torch.tensor([0, choice, 0]))
    assert f"test_divisions.py:{line_of(__file__, text)}: {says}" in str(raised.value)
    assert raised.value.mask.tolist() == [False, True, False]
    assert env.sim.tensor("Player.Numbers.out")[2].item() == -7


@pytest.mark.full
@pytest.mark.parametrize("choice", CASES)
def test_on_emulated_cuda_too(choice: int) -> None:
    text, says = CASES[choice]
    program = Program(Divisions(), Checks())
    sim = Simulator(Divisions(), 3, checks=Checks(), _library=emulation.load(program, "graph"))
    sim.reset(seed=0)
    sim.tensor("Player.Act.choice")[1] = choice
    sim.step()
    with pytest.raises(WorldFault) as raised:
        sim.check_faults()
    assert f"test_divisions.py:{line_of(__file__, text)}: {says}" in str(raised.value)
    assert raised.value.mask.tolist() == [False, True, False]
