"""Streams and captures without a device: memory that is recorded for the allocator, and calls that never wait."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from support import emulated_simulator
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import Simulator, WorldFault
from torch_batchsim.base.shared import StepResult, action_dtypes
from torch_batchsim.memory import entities, streams
from torch_batchsim.run import execution, simulator, step_call

HOST = {"fault_flag", "crowded_flag", "trace", "mask", "action_source", "parameters", "tables"}  # no memory of worlds


class Recorded:
    """Which memory has been recorded on which stream."""

    def __init__(self) -> None:
        self.ranges: dict[int, list[tuple[int, int]]] = {}

    def record(self, tensor: torch.Tensor, stream: SimpleNamespace) -> None:
        storage = tensor.untyped_storage()
        self.ranges.setdefault(stream.cuda_stream, []).append(
            (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        )

    def missing(self, sim: Simulator, handle: int) -> list[str]:
        """What a step is given that has not been recorded on a stream."""
        ranges = self.ranges.get(handle, [])
        return [
            name
            for name, address in pointers(sim)
            if address and not any(first <= address < last for first, last in ranges)
        ]


def pointers(sim: Simulator) -> Iterator[tuple[str, int | None]]:
    """All places in memory that a step is given."""
    context = sim.memory.context
    for cls in type(context).__mro__:
        for name, kind in getattr(cls, "_fields_", ()):
            if kind is ctypes.c_void_p and name not in HOST:
                yield name, getattr(context, name)
    for table in getattr(context, "tables", ()):
        yield from ((name, getattr(table, name)) for name, kind in table._fields_ if kind is ctypes.c_void_p)
    block = sim.memory.outputs.next._block
    yield from ((f"next {name}", getattr(block, name)) for name, _ in block._fields_)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: found.record(tensor, stream))
    return found


def note(sim: Simulator, handle: int) -> None:
    """As before a step on a stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=handle))
        sim.memory.streams.note(handle, sim.device, sim.memory.used)


def test_all_memory_is_recorded_on_the_streams_that_use_it(recorded: Recorded) -> None:
    sim = emulated_simulator("zoo", 6, "graph", output_sets=2)
    use = sim.memory.streams
    sim.reset(seed=1)
    sim.step()
    for handle in (0, 5):
        note(sim, handle)
        assert recorded.missing(sim, handle) == []
    recorded_once = len(recorded.ranges[5])
    for handle in (5, 0, 5, 0):
        note(sim, handle)
    assert len(recorded.ranges[5]) == recorded_once  # once is enough
    present = ctypes.c_uint64.from_address(use.address)
    assert present.value == 0

    def moved() -> None:
        assert present.value == 2**64 - 1
        recorded.ranges.clear()
        note(sim, 5)
        assert recorded.missing(sim, 5) == [] and present.value == 5

    table = next(iter(sim.memory.tables.values()))
    sim.memory.layout += 1  # as after a table has grown
    moved()
    table.lay_out(table.rooms * 2 if table.archetype.limit > table.archetype.capacity else table.rooms)
    sim.memory.layout += 1
    moved()
    sim.bind("World.terminated", torch.zeros(6, dtype=torch.bool))
    moved()
    sim.memory.bind_slots({"World.truncated": torch.zeros(3, 6, dtype=torch.bool)})
    moved()
    sim.memory.outputs.unbind()
    moved()
    sim.reset()
    sim.reset()
    moved()


@pytest.mark.parametrize("raw", [True, False])
def test_steps_and_resets_note_their_stream(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, raw: bool) -> None:
    """An object is made for a stream that has not been noted only, where torch gives the handle without one."""
    sim = emulated_simulator("cartpole", 4, "graph")
    sim.reset(seed=1)
    sim.execution.device = torch.device("cuda", 2)
    handle, made = 0, []

    def current_stream(device: torch.device) -> SimpleNamespace:
        made.append(device.index)
        return SimpleNamespace(cuda_stream=handle)

    monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
    monkeypatch.setattr(streams, "_current_handle", (lambda index: {2: handle}[index]) if raw else None)
    calls = [sim.reset, sim.step, lambda: sim.act_and_step(torch.zeros(4, dtype=torch.int64))]
    for handle, call in enumerate(calls, start=3):
        for again in range(2):
            made.clear()
            call()
            assert made == [2] * ((not raw) + (not again))
        assert recorded.missing(sim, handle) == [], handle


def test_a_step_on_another_stream_is_left_to_python() -> None:
    sim = Simulator(CartPole(), 4)
    sim.reset(seed=1)
    memory, library = sim.memory, sim.execution.library
    word = ctypes.c_uint64(0)  # the stream of a step on CPU, as C++ sees it
    addresses = ctypes.addressof(memory.context), memory.flags.data_ptr(), 0, ctypes.addressof(word)
    function, handle, dtypes = library.act_and_step_address, sim.execution._handle, action_dtypes(torch.int32)
    call = step_call.make(function, handle, *addresses, [None], memory.lent, (4,), dtypes, sim.device)
    actions, outputs = torch.zeros(4, dtype=torch.int64), memory.outputs.next.address
    assert call(actions, outputs, (), b"") == -1 and sim.tensor("World.step").tolist() == [1] * 4
    word.value = 7
    assert call(actions, outputs, (), b"") == StepResult.closer_look and sim.tensor("World.step").tolist() == [1] * 4


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    state = {"on": False}
    for module in (simulator, execution, entities):
        monkeypatch.setattr(module, "is_capturing", lambda device: state["on"])
    return state


def test_a_fault_waits_while_a_graph_is_captured(capture: dict[str, bool]) -> None:
    sim = emulated_simulator("cartpole", 4, "graph")
    sim.reset(seed=1)
    good, bad = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 9, 0, 0])
    sim.act_and_step(bad)
    capture["on"] = True
    for _ in range(2):
        sim.act_and_step(good)
        sim.step()
    with pytest.raises(RuntimeError, match="cannot be captured in a CUDA graph: do it outside"):
        sim.check_faults()
    capture["on"] = False
    assert sim.tensor("World.step").tolist() == [5] * 4
    with pytest.raises(WorldFault, match="bad_action"):
        sim.act_and_step(good)
    sim.act_and_step(good)


def test_a_table_does_not_grow_while_a_graph_is_captured(capture: dict[str, bool]) -> None:
    sim = emulated_simulator("zoo", 6, "graph")
    sim.reset(seed=1)
    sim.memory.crowded_flag[0] = 1
    capture["on"] = True
    for call in (sim.step, sim.reset):
        with pytest.raises(RuntimeError, match="has to grow, which cannot be captured"):
            call()
    capture["on"] = False
    sim.step()
