"""Simulators that are freed, or meet leftovers of others, while streams and captures of the user are at work.

``make`` is CUDA's, ``reference`` the CPU's.
"""

from __future__ import annotations

import gc
from contextlib import suppress

import torch

from ..errors import WorldFault
from ..testing import assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .graphs import capture
from .playing import SEED, Make, copied, expect, expect_same_steps, fault_of, play, snapshot
from .streams import SLEEP, cycles_of

_STAMP = 0x5A  # the byte that fills memory which no step may write
_REPLAYED = 6  # steps with the same tensors: by then the engine has a CUDA graph of its own


def _stepped(make: Make, name: str, worlds: int, steps: int = _REPLAYED) -> tuple[TorchVectorEnv, torch.Tensor]:
    """An environment that has been stepped with one tensor of actions over and over."""
    env = make(name, worlds)
    env.reset(seed=SEED)
    actions = random_actions(env, 1)[0].clone()
    for _ in range(steps):
        env.step(actions)
    env.check_faults()
    return env, actions


def gone_in_capture(make: Make, name: str, worlds: int) -> str:
    """A simulator with graphs and a stream of its own is freed while the user captures something else."""
    counted = torch.zeros(4, device=make(name, 2).device)
    gone, _ = _stepped(make, name, worlds)
    held = [gone]
    del gone

    def run() -> None:
        counted.add_(1)
        held.clear()
        gc.collect()

    graph, _ = capture(run, warm_ups=0)
    before = counted.clone()
    graph.replay()
    torch.cuda.synchronize()
    expect(bool((counted == before + 1).all()), f"the graph counts from {before.tolist()} to {counted.tolist()}")
    return f"{worlds} worlds gone, and the capture holds"


def gone_before_replays(make: Make, name: str, worlds: int) -> str:
    """A captured step of one simulator outlives another of the same library, which is freed before the replays."""
    env, actions = _stepped(make, name, worlds)
    other, _ = _stepped(make, name, worlds)
    graph, _ = capture(lambda: env.step(actions))
    alike = make(name, worlds)
    alike.load_state_dict(env.state_dict())
    del other
    gc.collect()
    for _ in range(4):
        graph.replay()
        alike.step(actions)
    env.check_faults()
    assert_same_bits(snapshot(alike.sim), snapshot(env.sim), "after four replays: ")
    return f"{worlds} worlds, 4 replays"


def gone_while_stepping(make: Make, name: str, worlds: int) -> str:
    """A simulator is freed while its steps wait on another stream: its memory has no new owner before they are done.

    Otherwise the steps would change bytes that the new owner of the memory has written.
    """
    env, actions = _stepped(make, name, worlds)
    memory = env.sim.memory
    sizes = sorted((tensor.numel() * tensor.element_size() for tensor in memory.columns.values()), reverse=True)[:8]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(cycles_of(SLEEP))
        for _ in range(4):
            env.step(actions)
        done = torch.cuda.Event()
        done.record()
    device = env.device
    del env, memory
    gc.collect()
    waited = done.query()
    taken = [torch.full((size,), _STAMP, dtype=torch.uint8, device=device) for size in sizes for _ in range(3)]
    torch.cuda.synchronize()
    spoiled = sum(int((tensor != _STAMP).sum()) for tensor in taken)
    expect(spoiled == 0, f"{spoiled} bytes of other tensors were written by steps of a simulator that was gone")
    return f"{worlds} worlds, " + ("which were waited for" if waited else "gone before their steps were done")


def pending_fault(make: Make, name: str, worlds: int) -> str:
    """A fault that is still unreported when the user's capture begins: no step waits for the device inside the capture.

    The step is captured or refused; the rest of the capture stays whole in both cases, and the fault is reported.
    """
    env, actions = _stepped(make, name, worlds)
    wrong = actions.clone()
    wrong.view(worlds, -1)[worlds // 2, 0] = 99
    env.step(wrong)
    torch.cuda.synchronize()
    counted = torch.zeros(4, device=env.device)
    refused: list[Exception] = []

    def run() -> None:
        try:
            env.step(actions)
        except (RuntimeError, WorldFault) as error:
            expect("CUDA error" not in str(error), f"the step has spoiled the capture: {error}")
            refused.append(error)
        counted.add_(1)

    graph, _ = capture(run, warm_ups=0)
    before = counted.clone()
    graph.replay()
    torch.cuda.synchronize()
    expect(bool((counted == before + 1).all()), "the capture has lost the operation after the step")
    reported = [error for error in refused if isinstance(error, WorldFault)] or [fault_of(env)]
    expect("bad_action" in str(reported[0].faults), f"the fault is {reported[0]}")
    return f"refused: {refused[0]}" if refused else "captured, and the fault reported afterwards"


def foreign_error(make: Make, name: str, worlds: int) -> str:
    """No step reports the error that another library's call has left behind."""
    env, actions = _stepped(make, name, worlds, steps=1)
    status = torch.cuda.cudart().cudaHostUnregister(0)
    try:
        for _ in range(_REPLAYED):
            env.step(actions)
    finally:
        with suppress(RuntimeError):  # torch clears the error when it looks
            torch.zeros(1, device=env.device).add_(1)
    env.check_faults()
    return f"status {status} was left behind, and the steps went on"


def replaced(reference: Make, make: Make, name: str, worlds: int) -> str:
    """Simulators that come and go on a side stream, each with the memory of the one before."""
    expected = play(reference(name, worlds), 6)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(4):
        with torch.cuda.stream(side):
            env = make(name, worlds)
            env.reset(seed=SEED)
            returned = [copied(env.step(batch)) for batch in random_actions(env, 6)]
            del env
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        expect_same_steps(expected, returned)
    return f"4 x {worlds} worlds, 6 steps"
