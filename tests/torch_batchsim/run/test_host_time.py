"""The work of Python in a step, counted; docs/gpu.md has its time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import pytest
import torch
from support import emulated_cuda
from torch.overrides import TorchFunctionMode
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import TorchVectorEnv
from torch_batchsim.memory import streams
from torch_batchsim.run import step_call

WORLDS = 8


class Count(NamedTuple):
    """What a call does in Python; instructions are those of the running version."""

    functions: int
    lines: int
    instructions: int


def count(call: Callable[[], Any]) -> Count:
    functions, lines, instructions = 0, 0, 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal functions, lines, instructions
        frame.f_trace_opcodes = True
        functions += event == "call"
        lines += event == "line"
        instructions += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return Count(functions - 1, lines - 1, instructions)  # without the lambda's


class Operations(TorchFunctionMode):
    """Notes what torch is asked for: operations, and methods of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        self.names.append(getattr(function, "__name__", str(function)))
        return function(*arguments, **(options or {}))


def operations(call: Callable[[], Any]) -> list[str]:
    with Operations() as noted:
        call()
    return noted.names


@pytest.fixture
def env() -> TorchVectorEnv:
    """On an emulated GPU."""
    env = TorchVectorEnv(CartPole(), num_worlds=WORLDS, _library=emulated_cuda("cartpole"))
    env.reset(seed=0)
    return env


def test_an_ordinary_step(env: TorchVectorEnv) -> None:
    """One call of C++, and what returns its results."""
    actions = torch.ones(WORLDS, dtype=torch.int64)
    for _ in range(4):  # both places of outputs, and what they return
        env.step(actions)
    found = count(lambda: env.step(actions))
    assert found.functions <= 5 and found.lines <= 27, found
    assert operations(lambda: env.step(actions)) == []


def test_a_step_into_a_slot(env: TorchVectorEnv) -> None:
    actions = torch.ones(WORLDS, dtype=torch.int64)
    env.bind_slots(rewards=torch.zeros(2, WORLDS))
    for slot in (0, 0, 1, 1):  # each in both turns
        env.select_slot(slot)
        env.step(actions)
    found = count(lambda: (env.select_slot(0), env.step(actions)))
    assert found.functions <= 9 and found.lines <= 37, found
    assert operations(lambda: (env.select_slot(0), env.step(actions))) == []


def test_the_general_way(env: TorchVectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is too old for that call: the stream is asked for by its handle, and nothing waits."""
    execution = env.sim.execution
    monkeypatch.setattr(execution, "step_call", step_call.never)
    monkeypatch.setattr(execution, "device", torch.device("cuda", 0))
    monkeypatch.setattr(streams, "_current_handle", int)  # the default stream
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    actions = torch.ones(WORLDS, dtype=torch.int64)
    for _ in range(4):
        env.step(actions)
        env.sim.memory.outputs.next.movable = ()  # as on a GPU
    monkeypatch.setattr(torch.cuda, "current_stream", None)  # it is known
    found = count(lambda: env.step(actions))
    # Two of the functions let one thread in at a time; one looks for results that a caller holds.
    assert found.functions <= 17 and found.lines <= 85, found
    assert set(operations(lambda: env.step(actions))) <= {"__get__", "is_contiguous", "is_neg", "data_ptr"}  # questions
