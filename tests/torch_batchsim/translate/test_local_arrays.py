"""Indices out of range of local arrays in systems in Python: reported with their line, compiled and as Python."""

from __future__ import annotations

import traceback

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from support import line_of

import torch_batchsim
from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, World, function, i32, system, zeros


class Act(Component):
    choice: i32


class Place(Component):
    at: i32


@function
def put(counts: i32[5], at: int) -> int:
    counts[at] += 1  # in a function
    return counts[0]


@system
def count(world: World, act: Act, place: Place) -> None:
    counts = zeros(i32, 5)
    grid = zeros(i32, 2, 5)
    first = put(counts, act.choice - 10 * (act.choice > 9))
    grid[1, act.choice] = first  # in a system
    place.at = grid[1, act.choice]


class Counts(Environment):
    archetypes = [Archetype("Player", Act, Place, Reward, count=1)]
    step = TaskGraph(count)
    observation, action = "Player.Place", "Player.Act"
    action_space = Discrete(20)


CASES = {4: None, 5: "counts[at] += 1  # in a function", 13: "grid[1, act.choice] = first  # in a system"}


@pytest.mark.parametrize(("choice", "text"), CASES.items())
def test_python_raises_where_the_index_stands(choice: int, text: str | None) -> None:
    env = torch_batchsim.make_vec(Counts, num_envs=2, executor="python")
    env.reset(seed=0)
    if text is None:
        env.step(torch.tensor([0, choice]))
        assert env.sim.tensor("Player.Place.at").flatten().tolist() == [1, 0]
        return
    with pytest.raises(IndexError, match=f"the index is {choice}; it must be from 0 to 4") as raised:
        env.step(torch.tensor([0, choice]))
    last = [frame for frame in traceback.extract_tb(raised.tb) if frame.filename == __file__][-1]
    assert last.line == text


@pytest.mark.parametrize(("choice", "text"), CASES.items())
def test_checked_builds_report_where_the_index_stands(choice: int, text: str | None) -> None:
    env = torch_batchsim.make_vec(Counts, num_envs=2, checks=True)
    env.reset(seed=0)
    if text is None:
        env.step(torch.tensor([0, choice]))
        return
    with pytest.raises(torch_batchsim.WorldFault) as raised:
        env.step(torch.tensor([0, choice]))
    assert f"test_local_arrays.py:{line_of(__file__, text)}: " in str(raised.value)
    assert f"[{choice}]" in str(raised.value) and "it has 0 to 4" in str(raised.value)
    assert raised.value.mask.tolist() == [False, True]


def test_a_function_called_directly_takes_arrays_of_numpy() -> None:
    counts = zeros(i32, 5)
    assert put(counts, 0) == 1 and counts.dtype == np.int32
