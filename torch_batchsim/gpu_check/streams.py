"""Streams, threads and devices. ``make`` is CUDA's, ``reference`` the CPU's."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from ..declare.environment import Environment
from ..run import step_call
from ..testing import assert_same_bits, random_actions
from ..vector.grouped_env import GroupedEnv
from ..vector.vector_env import TorchVectorEnv
from .bits import same_as
from .environments import ENVIRONMENTS
from .findings import Skipped
from .playing import SEED, Make, Tensors, copied, expect, expect_same_steps, filled, flat, maker, play, snapshot

_WARM_UPS = 3
SLEEP = 0.3  # seconds that the device is kept busy: far more than any call takes


@cache
def cycles_of(seconds: float) -> int:
    """The argument of ``torch.cuda._sleep`` for about so long a sleep."""
    tried = 10_000_000
    torch.cuda._sleep(1000)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    torch.cuda._sleep(tried)
    end.record()
    torch.cuda.synchronize()
    return int(tried * seconds / (begin.elapsed_time(end) / 1e3))


def no_waiting(make: Make, name: str, worlds: int) -> str:
    """Calls return while the device is still asleep, and call no function of torch that waits."""
    env = make(name, worlds)
    observations, _ = env.reset(seed=SEED)
    actions = random_actions(env, 1)[0]
    slots = [filled(observations) for _ in range(5)]

    def bind_and_step() -> None:
        for slot in slots:
            env.bind(observations=slot)
            env.step(actions)

    for _ in range(_WARM_UPS):
        env.sim.step()
        env.step(actions)
    env.bind(observations=filled(observations))
    env.step(actions)
    env.check_faults()
    calls: dict[str, Callable[[], Any]] = {
        "sim.step()": env.sim.step,
        "env.step()": lambda: env.step(actions),
        "bind() and step() with new tensors": bind_and_step,
        "with the same again": bind_and_step,
        "and again": bind_and_step,
    }
    took = []
    for what, call in calls.items():
        asleep = torch.cuda.Event()
        torch.cuda._sleep(cycles_of(SLEEP))
        asleep.record()
        torch.cuda.set_sync_debug_mode("error")
        try:
            started = time.perf_counter()
            call()
            seconds = time.perf_counter() - started
        finally:
            torch.cuda.set_sync_debug_mode("default")
        waited = asleep.query()
        torch.cuda.synchronize()
        expect(not waited, f"{what} has waited for the device: it took {1e3 * seconds:.0f} ms")
        took.append(f"{what} {1e6 * seconds:.0f} us")
    env.check_faults()
    return ", ".join(took)


def no_allocation(make: Make, name: str, worlds: int) -> str:
    """Steps allocate no memory of torch, and the device has as much free memory afterwards."""
    env = make(name, worlds)
    env.reset(seed=SEED)
    batches = random_actions(env, 20)
    for batch in batches:
        env.step(batch)
    env.check_faults()
    count, free = torch.cuda.memory_stats()["allocation.all.allocated"], torch.cuda.mem_get_info()[0]
    for batch in batches * 10:
        env.step(batch)
    torch.cuda.synchronize()
    allocated = torch.cuda.memory_stats()["allocation.all.allocated"] - count
    expect(allocated == 0, f"{allocated} allocations in 200 steps")
    return f"{(free - torch.cuda.mem_get_info()[0]) / 2**20:.1f} MiB of the device's memory taken by 200 steps"


def side_stream(reference: Make, make: Make, name: str, worlds: int) -> str:
    """On the user's stream, where actions come late: a step on any other stream would not wait for them."""
    env, other = make(name, worlds), reference(name, worlds)
    env.reset(seed=SEED)
    batches = random_actions(env, 6)
    actions, returned = torch.zeros_like(batches[0]), []
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for batch in batches:
            torch.cuda._sleep(cycles_of(SLEEP) // 10)
            actions.copy_(batch)
            returned.append(copied(env.step(actions)))
    torch.cuda.current_stream().wait_stream(side)
    env.check_faults()
    expect_same_steps(play(other, 6), returned)
    assert_same_bits(snapshot(other.sim), snapshot(env.sim), "at the end: ")
    return f"{worlds} worlds, 6 steps"


def fast_step(reference: Make, make: Make, name: str, worlds: int) -> str:
    """The step in one call of C++ takes torch's current stream: the user's, and that of another thread.

    Actions come late: a step on any other stream would not wait for them.
    """
    env, other = make(name, worlds), reference(name, worlds)
    if env.sim.execution.step_call is step_call.never:
        raise Skipped("steps are not taken in one call of C++ here")
    env.reset(seed=SEED)
    other.reset(seed=SEED)
    batches = random_actions(env, 8)
    actions = torch.zeros_like(batches[0])
    streams: list[torch.cuda.Stream] = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()

    def run(stream: torch.cuda.Stream, batch: torch.Tensor) -> Tensors:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(cycles_of(SLEEP) // 10)
            actions.copy_(batch)
            env.sim.execution.stream()  # notes it: the first step on another stream than the last is left to Python
            expect(env.sim.step_plainly(actions), "the step was not taken in one call")
            found = {name: tensor.clone() for name, tensor in flat({"": env.observations})}
        stream.synchronize()
        return found

    with ThreadPoolExecutor(1) as pool:
        for step, batch in enumerate(batches):
            taken = partial(run, streams[step % 2], batch)
            found = pool.submit(taken).result() if step % 4 > 1 else taken()
            expected = dict(flat({"": other.step(batch.to(other.device))[0]}))
            assert_same_bits(expected, found, f"step {step + 1}: ")
    env.check_faults()
    assert_same_bits(snapshot(other.sim), snapshot(env.sim), "at the end: ")
    return f"{worlds} worlds, 8 steps on 2 streams by 2 threads"


def two_streams(make: Make, name: str, worlds: int) -> str:
    """Two simulators, each on a stream of its own, at the same time."""
    expected = play(make(name, worlds), 20)
    envs = [make(name, worlds) for _ in range(2)]
    for env in envs:
        env.reset(seed=SEED)
    batches = random_actions(envs[0], 20)
    streams: list[torch.cuda.Stream] = [torch.cuda.Stream() for _ in envs]
    returned: list[list[Tensors]] = [[], []]
    torch.cuda.synchronize()
    for batch in batches:
        for env, stream, results in zip(envs, streams, returned, strict=True):
            with torch.cuda.stream(stream):
                results.append(copied(env.step(batch)))
    torch.cuda.synchronize()
    for results in returned:
        expect_same_steps(expected, results)
    return f"2 x {worlds} worlds, 20 steps"


def groups(reference: Make, make: Make, name: str, worlds: int) -> str:
    """Worlds in groups, each on a stream of its own. Actions come late, and results are read when ``recv`` returns."""
    half = max(1, worlds // 2)
    other, device = reference(name, 2 * half), make(name, 1).device

    def made(environment: Environment, *, num_worlds: int, first_world: int, **_: Any) -> TorchVectorEnv:
        return make(name, num_worlds, first_world=first_world)

    env = GroupedEnv(ENVIRONMENTS[name](), num_worlds=2 * half, groups=2, device=device, _make=made)
    other.reset(seed=SEED)
    env.async_reset(seed=SEED)
    for _ in range(2):
        env.recv()
    places = [slice(group * env.group_envs, (group + 1) * env.group_envs) for group in range(2)]
    for step, batch in enumerate(random_actions(other, 8)):
        expected = copied(other.step(batch))
        torch.cuda._sleep(cycles_of(SLEEP) // 10)
        for group, rows in enumerate(places):
            env.send(group, batch[rows].to(device))
        for _ in range(2):
            group, *results = env.recv()
            found = copied(tuple(results))
            own = {name: tensor[places[group]] for name, tensor in expected.items()}
            assert_same_bits(own, found, f"step {step + 1}, group {group}: ")
    for part in env.environments:
        part.check_faults()
    env.close()
    return f"2 x {half} worlds, 8 steps"


def two_threads(make: Make, name: str, worlds: int) -> str:
    """Two simulators, each in a Python thread and on a stream of its own."""
    expected = play(make(name, worlds), 20)

    def run() -> list[Tensors]:
        with torch.cuda.stream(torch.cuda.Stream()):
            results = play(make(name, worlds), 20)
        torch.cuda.synchronize()
        return results

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(run) for _ in range(2)]:
            expect_same_steps(expected, future.result())
    return f"2 x {worlds} worlds, 20 steps"


def second_device(reference: Make, executor: str, name: str, worlds: int) -> str:
    """On ``cuda:1`` while ``cuda:0`` is and stays the current device."""
    if torch.cuda.device_count() < 2:
        raise Skipped("this machine has one GPU")
    result = same_as(reference, maker("cuda:1", executor), name, worlds, 20, AutoresetMode.SAME_STEP)
    expect(torch.cuda.current_device() == 0, f"the current device is now {torch.cuda.current_device()}")
    return result
