"""The record of how a simulator runs: one list of names, for every constructor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import Checks, Constants, SchemaError, Simulator, TorchVectorEnv
from torch_batchsim.command_line import RUN_FLAGS
from torch_batchsim.declare.options import SINGLE_ARGUMENTS, VECTOR_ARGUMENTS
from torch_batchsim.declare.run_options import RUN_ARGUMENTS, RunKeywords, RunOptions
from torch_batchsim.vector.grouped_env import GroupedEnv
from torch_batchsim.vector.single_env import SingleEnv

CPU = torch.device("cpu")


def test_all_lists_of_names_follow_the_record() -> None:
    assert list(RunKeywords.__annotations__) == list(RunOptions().keys())
    assert {name: RunKeywords.__annotations__[name].__forward_arg__ for name in RUN_ARGUMENTS} == {
        name: RunOptions.__annotations__[name] for name in RUN_ARGUMENTS
    }
    assert {*RUN_FLAGS} < {*RUN_ARGUMENTS} <= {*SINGLE_ARGUMENTS} & {*VECTOR_ARGUMENTS}
    for name in RUN_ARGUMENTS:
        with pytest.raises(SchemaError, match=f"an option cannot be named '{name}'"):
            Constants(**{name: 1})


@pytest.mark.parametrize("make", [Simulator, TorchVectorEnv, SingleEnv, GroupedEnv])
def test_an_unknown_name_raises_with_the_nearest(make: Any) -> None:
    near = rf"{make.__name__} has no argument 'watchdgo' \(did you mean 'watchdog'\?\); it takes: environment, "
    numbers = {"num_worlds": 2} if make in (Simulator, TorchVectorEnv) else {"groups": 1} if make is GroupedEnv else {}
    with pytest.raises(TypeError, match=near):
        make(CartPole(), **numbers, watchdgo=3)


def test_closing_fills_in_the_values_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBS_CHECKS", "nan=0")
    monkeypatch.setenv("TBS_LOG", "5")
    closed = RunOptions(watchdog=2).closed(CPU, 4)
    assert (closed.checks, closed.log, closed.watchdog) == (Checks(nan=False), 5, 2.0)
    plain = RunOptions(checks=False, log=False).closed(CPU, 4)
    assert (plain.checks, plain.log) == (False, False)
    assert closed.closed(CPU, 4) == closed and plain.closed(CPU, 4) == plain


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"num_threads": True}, "num_threads must be an integer from 1 to 1024, got True"),
        ({"first_world": -1}, "first_world must be an integer from 0 to 2147483644, got -1"),
        ({"checks": 1}, "checks must be True, False or"),
        ({"log": 0}, "log must be from 1 to"),
        ({"watchdog": 0}, "watchdog must be a positive number of seconds, got 0"),
    ],
)
def test_values_that_are_not_allowed_raise(option: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        RunOptions(**option).closed(CPU, 4)


def test_one_world_takes_them_too() -> None:
    sim = torch_batchsim.make("cartpole", executor="per_world", first_world=3).sim
    assert (sim.executor, sim.first_world, sim.run_options.num_threads) == ("per_world", 3, 1)
