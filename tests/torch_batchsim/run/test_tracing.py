"""Simulator.tracing: the records of real steps, on threads and on an emulated device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import assert_same_bits, emulated_simulator, full_but, snapshot
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import Simulator
from torch_batchsim.resolve.schedule import step_tasks

STEPS = 4
KINDS = ("cpu batch", "cpu per_world", "cuda graph", "cuda megakernel", "cuda per_world")


def make(kind: str, worlds: int = 300) -> Simulator:
    device, executor = kind.split()
    if device == "cuda":
        return emulated_simulator("cartpole", worlds, executor)
    return Simulator(CartPole(), worlds, executor=executor, num_threads=2)


@pytest.mark.parametrize("kind", full_but(["cpu batch"], KINDS))
def test_every_task_of_every_step_is_written_down(kind: str) -> None:
    sim, plain = make(kind), make(kind)
    for one in (sim, plain):
        one.reset(seed=3)
        one.tensor("Cart.CartState.x")[::50] = 5.0  # these end at once
    library = sim.execution.library
    with sim.tracing() as trace:
        for _ in range(STEPS):
            sim.step()
    for _ in range(STEPS):
        plain.step()
    assert sim.execution.library is library and sim.executor == kind.split()[1]
    assert_same_bits(snapshot(sim), snapshot(plain))

    assert trace.steps == STEPS and trace.dropped == 0
    tasks = {t.number: t for t in step_tasks(sim.program)}
    tiles = 300 if sim.executor == "per_world" else -(-300 // sim.memory.context.tile)
    calls = np.bincount(trace.records["task"], minlength=len(tasks))
    for number, task in tasks.items():
        if kind.startswith("cuda"):
            expected = task.when in ("always", "same_step", "keeps_final", "begins")
            assert (calls[number] > 0) == expected, task
            continue
        if task.when == "always" and task.segment not in ("choose_phase",):
            assert calls[number] == STEPS * tiles, task
        if task.segment == "start":
            assert 0 < calls[number] <= STEPS * tiles
        assert task.when != "apart" or calls[number] == 0
    if kind.startswith("cpu"):  # what a thread does, it does one after the other, in the order of the schedule
        for unit in np.unique(trace.records["unit"]):
            own = trace.records[trace.records["unit"] == unit]
            assert (own["end"][:-1] <= own["begin"][1:]).all()
        first = trace.records[trace.records["tile"] == trace.records["tile"][0]]["task"]
        assert (np.diff(first.astype(int)) < 0).sum() == STEPS - 1
    assert np.unique(trace.step).tolist() == list(range(STEPS)) and (np.diff(trace.step) >= 0).all()
    assert "push_cart" in str(trace)


def test_what_has_no_room_is_counted() -> None:
    sim = make("cpu batch")
    sim.reset(seed=0)
    with sim.tracing() as whole:
        sim.step()
    sim.reset(seed=0)
    with sim.tracing(capacity=5) as trace:
        sim.step()
    assert len(trace.records) == 5 and trace.dropped == len(whole.records) - 5


@pytest.mark.parametrize("kind", full_but(["cpu batch"], ["cpu batch", "cuda graph"]))
def test_steps_can_be_forgotten(kind: str) -> None:
    sim = make(kind)
    sim.reset(seed=0)
    counts = []
    for forgotten in (0, 3):
        with sim.tracing() as trace:
            for _ in range(forgotten):
                sim.step()
            trace.restart()
            sim.step()
        assert trace.steps == 1
        live = [t.phase != "begin" for t in trace.tasks]
        counts.append(sum(live[task] for task in trace.records["task"]))
    assert counts[0] == counts[1] > 0
    with pytest.raises(RuntimeError, match="not being written"):
        trace.restart()


def test_actions_are_traced_too() -> None:
    sim = Simulator(CartPole(), 64)
    sim.reset(seed=0)
    with sim.tracing() as trace:
        sim.act_and_step(torch.ones(64, 1, dtype=torch.int64))
        assert sim.act_and_step(torch.full((64, 1), 7)) == 0  # refused
    assert trace.steps == 1 and trace.tasks[trace.records["task"][0]].name == "WriteActions"


def test_refusals() -> None:
    sim = Simulator(CartPole(), 4)
    with pytest.raises(RuntimeError, match="call reset\\(\\) before tracing"), sim.tracing():
        pass
    sim.reset(seed=0)
    with pytest.raises(ValueError, match="capacity must be a positive integer, got 0"), sim.tracing(0):
        pass
    with sim.tracing() as trace:
        with pytest.raises(RuntimeError, match="traced already"), sim.tracing():
            pass
        with pytest.raises(RuntimeError, match="not complete yet"):
            str(trace)
    assert len(trace.records) == 0


def test_an_error_in_the_block_ends_the_tracing() -> None:
    sim = Simulator(CartPole(), 4)
    sim.reset(seed=0)
    library = sim.execution.library
    with pytest.raises(KeyError), sim.tracing() as trace:
        sim.step()
        raise KeyError("x")
    assert sim.execution.library is library
    assert trace.steps == 1 and len(trace.records) > 0  # what came before can be looked at
    sim.step()


@pytest.mark.parametrize("executor", ["graph", "megakernel", "all"])
def test_an_executor_of_another_device_is_refused(executor: str) -> None:
    known = "'batch', 'per_world', 'python'"
    with pytest.raises(ValueError, match=f"executor must be one of {known} on cpu, got '{executor}'"):
        Simulator(CartPole(), 4, executor=executor)
