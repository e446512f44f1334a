"""Measures the speed of steps, beside the memory's and beside CartPole in torch's operations."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..bench.contenders import SETTLING
from ..bench.levels import AGENTS
from ..bench.physics_levels import make_levels
from ..bench.throughput import measure
from ..build.context import engine_columns
from ..errors import WorldFault
from ..run.legal import LegalActions
from ..run.simulator import Simulator
from ..testing import random_actions
from ..vector.vector_env import TorchVectorEnv
from .environments import BODIES
from .findings import NO_TIME, Findings, Skipped
from .graphs import capture
from .streams import cycles_of

DEVICE = "cuda"
RATE = "M world steps/s"
_SLOT_BYTES = 16  # bookkeeping of a slot of a dynamic table, see docs/design.md
_SLEEP = 0.05  # seconds in which the host can enqueue the timed calls
_GROWING = 25  # times four steps, in which tables find their size
_ENQUEUED = 8  # steps: fewer kernels than the device's queue holds, which is about a thousand
_ROLLOUT = 32  # steps
_SHOWN = 25  # kernels of a step at most


def bytes_of_step(sim: Simulator) -> int:
    """An estimate of the bytes that a step must move, if each is read once and written once.

    Counted are the columns that the systems of ``step`` and ``observe`` read, and those that they write (of dynamic
    tables for the rows that there are now), the copies of state that are delivered, 16 bytes for each slot of a dynamic
    table, and of the engine's own columns all that are not seeds, streams or faults, read and written. Not counted
    are the extra work of worlds that end, and copies of actions into their column.
    """
    program = sim.program
    nodes = [node for graph in ("step", "observe") for node in program.graphs[graph]]
    moved = 0
    for column in program.columns.values():
        rows = 1 if column.resource else sim.num_worlds * column.rows_per_world
        if column.dynamic:
            rows = int(sim.ragged(f"{column.name}.{column.component.fields[0].name}").counts.sum())
        uses = any(column.name in node.reads for node in nodes) + any(column.name in node.writes for node in nodes)
        moved += uses * rows * column.component.size
    moved += sum(sim.num_worlds * column.rows_per_world * column.component.size for column in program.delivered)
    for archetype in program.dynamic:
        moved += _SLOT_BYTES * sim.entities(archetype.name).values.shape[0]
    for name, _, dtype, per_agent in engine_columns(program, cuda=True):
        if name in ("step", "phase", "ended", "terminated", "truncated") or per_agent:
            moved += 2 * dtype.itemsize * sim.num_worlds * (program.agents.count if per_agent else 1)
    return moved


def copy_bandwidth() -> float:
    """Bytes per second, read and written, that a copy of 1 GiB in the device's memory reaches."""
    source = torch.zeros(2**30, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    seconds = device_seconds(lambda: target.copy_(source), 10)[0]
    return 2 * source.numel() / seconds


def device_seconds(call: Callable[[], Any], calls: int, repeats: int = 5) -> tuple[float, float]:
    """Medians of the device's and of the host's time for a call.

    The device sleeps while the host enqueues the calls, so neither waits for the other.
    """
    device, host = [], []
    for _ in range(repeats + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles_of(_SLEEP))
        begin.record()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        host.append((time.perf_counter() - started) / calls)
        end.record()
        torch.cuda.synchronize()
        device.append(begin.elapsed_time(end) / 1e3 / calls)
    return statistics.median(device[1:]), statistics.median(host[1:])  # the first was the warm-up


def measure_steps(
    found: Findings, table: str, env: TorchVectorEnv, executor: str, copied: float, seconds: float = 0.2
) -> str:
    """A row of figures for ``env.step`` and its parts. ``copied``: the result of ``copy_bandwidth``."""
    env.reset(seed=0)
    spread_episodes(env)
    batches = random_actions(env, 4)
    for _ in range(_GROWING):
        for batch in batches:
            env.step(batch)
            env.check_faults()
    full = 0

    def step(actions: torch.Tensor) -> None:
        """The host may see too late that a table is crowded: the world then loses rows, and the others go on."""
        nonlocal full
        try:
            env.step(actions)
        except WorldFault as fault:
            full += int(fault.mask.sum())
            env.step(actions)

    rate = measure(step, batches, env.num_worlds, seconds, 3, DEVICE)
    on_device, on_host = device_seconds(lambda: step(batches[0]), _ENQUEUED)
    drawing = {}
    if isinstance(batches, LegalActions):
        drawing_on_device, drawing_on_host = device_seconds(lambda: batches[0], _ENQUEUED)
        on_device, on_host = on_device - drawing_on_device, on_host - drawing_on_host
        drawing["drawing us"] = 1e6 * drawing_on_device
    moved = bytes_of_step(env.sim)
    found.row(
        table,
        worlds=env.num_worlds,
        executor=executor,
        **{
            RATE: rate.median / 1e6,
            "us/step": 1e6 * env.num_worlds / rate.median,
            "device us/step": 1e6 * on_device,
            "host us/call": 1e6 * on_host,
            **drawing,
            "bytes/world": moved / env.num_worlds,
            "GB/s": moved / on_device / 1e9,
            "% of a copy": 100 * moved / on_device / copied,
        },
    )
    return f"{rate.median / 1e6:,.0f} {RATE}" + (f", {full} worlds out of room on the way" if full else "")


def measure_kernels(found: Findings, table: str, env: TorchVectorEnv, steps: int = 8) -> str:
    """A row for each kernel of ``env.step``: the device's time, as CUPTI records it, also of replayed graphs.

    Raises Skipped where it records none.
    """
    env.reset(seed=0)
    spread_episodes(env)
    batches = random_actions(env, 4)
    for batch in 10 * batches:
        env.step(batch)
        env.check_faults()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        for t in range(steps):
            env.step(batches[t % len(batches)])
        torch.cuda.synchronize()
    taken, launches = Counter[str](), Counter[str]()
    for event in recorded.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            name = kernel_name(event.name)
            taken[name] += event.time_range.elapsed_us() / steps
            launches[name] += 1
    total = sum(taken.values())
    if not total:
        raise Skipped("torch.profiler has recorded no kernel here")
    for name, spent in taken.most_common(_SHOWN):
        share = 100 * spent / total
        found.row(table, kernel=name, **{"us/step": spent, "% of all": share, "launches/step": launches[name] / steps})
    (first, spent), *_ = taken.most_common(1)
    return f"{total:,.0f} us a step in {len(taken)} kernels, {100 * spent / total:.0f} % of it in {first}"


def kernel_name(name: str) -> str:
    """What a kernel runs, the first and the last of it; of another library's kernel the beginning of its name."""
    nodes = [re.sub(r"^Node\d+_", "", node) for node in re.findall(r"Task<(?:tbs::)*(\w+)", name)]
    if nodes:
        return nodes[0] if len(nodes) == 1 else f"{nodes[0]} .. {nodes[-1]} ({len(nodes)})"
    return name.removeprefix("void ")[:40]


def measure_bodies(found: Findings, table: str, worlds: int, executor: str, seconds: float = 0.2) -> str:
    """A row of figures for rigid bodies in rooms, which agents push about: without rays, observations and episodes."""
    sim = make_levels(BODIES, worlds, AGENTS, sleep=False, rays=False, device=DEVICE, executor=executor)
    for _ in range(SETTLING):
        sim.step()
    sim.check_faults()
    rate = measure(lambda _: sim.step(), [None], worlds, seconds, 3, DEVICE)
    on_device, on_host = device_seconds(sim.step, _ENQUEUED)
    times = {"us/step": worlds / rate.median, "device us/step": on_device, "host us/call": on_host}
    figures = {name: 1e6 * value for name, value in times.items()}
    found.row(table, worlds=worlds, executor=executor, **{RATE: rate.median / 1e6}, **figures)
    return f"{rate.median / 1e6:,.2f} {RATE}"


def spread_episodes(env: TorchVectorEnv) -> None:
    """Set the worlds of a limited episode to steps drawn at random, so that as many end in each step.

    They would all end in one step otherwise, which a measurement holds or misses.
    """
    parameters = env.sim.program.environment.parameters
    limit = parameters.get("max_episode_steps", parameters.get("horizon", 0))
    if limit > 1:
        generator = torch.Generator().manual_seed(0)
        env.episode_steps = torch.randint(0, int(limit), (env.sim.num_worlds,), generator=generator)


# ---- beside others ---------------------------------------------------------------------------------------------------


def torch_cartpole(
    state: torch.Tensor, steps: torch.Tensor, actions: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A step of CartPole for all worlds in operations of torch.

    ``state [worlds, 4]``, ``steps [worlds]``, ``actions [worlds]``. Returns the state and steps to go on with (of new
    episodes where worlds have ended), rewards, terminations, truncations, and the observations before those began.
    """
    x, x_dot, theta, theta_dot = state.unbind(1)
    force = torch.where(actions == 1, 10.0, -10.0)
    sine, cosine = theta.sin(), theta.cos()
    swing = (force + 0.05 * theta_dot * theta_dot * sine) / 1.1
    turn = (9.8 * sine - cosine * swing) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
    push = swing - 0.05 * turn * cosine / 1.1
    moved = torch.stack([x + 0.02 * x_dot, x_dot + 0.02 * push, theta + 0.02 * theta_dot, theta_dot + 0.02 * turn], 1)
    terminated = (moved[:, 0].abs() > 2.4) | (moved[:, 2].abs() > 0.20943951)
    steps = steps + 1
    truncated = steps >= 500
    ended = terminated | truncated
    begun = torch.rand_like(moved) * 0.1 - 0.05
    state = torch.where(ended[:, None], begun, moved)
    return state, torch.where(ended, 0, steps), torch.ones_like(x), terminated, truncated, moved


class _Slots:
    """The outputs of a rollout of CartPole, and its actions."""

    def __init__(self, worlds: int) -> None:
        self.observations = torch.zeros(_ROLLOUT, worlds, 4, device=DEVICE)
        self.rewards = torch.zeros(_ROLLOUT, worlds, device=DEVICE)
        self.flags = torch.zeros(2, _ROLLOUT, worlds, dtype=torch.bool, device=DEVICE)
        self.actions = torch.randint(0, 2, (_ROLLOUT, worlds), device=DEVICE)


def our_rollout(env: TorchVectorEnv) -> Callable[[], None]:
    """A rollout of ``env`` with given actions into slots."""
    slots = _Slots(env.num_worlds)
    env.reset(seed=0)
    env.bind_slots(
        observations=slots.observations,
        rewards=slots.rewards,
        terminations=slots.flags[0],
        truncations=slots.flags[1],
    )

    def run() -> None:
        for t in range(_ROLLOUT):
            env.select_slot(t)
            env.step(slots.actions[t])

    return run


def torch_rollout(worlds: int, step: Callable[..., Any]) -> Callable[[], None]:
    """The same by ``step``, which is ``torch_cartpole`` or made of it."""
    slots = _Slots(worlds)
    state, steps = torch.zeros(worlds, 4, device=DEVICE), torch.zeros(worlds, dtype=torch.int32, device=DEVICE)
    final = torch.zeros(worlds, 4, device=DEVICE)

    def run() -> None:
        now, count = state, steps
        for t in range(_ROLLOUT):
            now, count, reward, terminated, truncated, last = step(now, count, slots.actions[t])
            slots.observations[t].copy_(now)
            slots.rewards[t].copy_(reward)
            slots.flags[0, t].copy_(terminated)
            slots.flags[1, t].copy_(truncated)
            final.copy_(last)
        state.copy_(now)
        steps.copy_(count)

    return run


def measure_rollout(found: Findings, table: str, label: str, worlds: int, run: Callable[[], None]) -> str:
    """A row for ``run`` as one CUDA graph."""
    graph, _ = capture(run)
    seconds = device_seconds(graph.replay, 3)[0] / _ROLLOUT
    found.row(table, CartPole=label, worlds=worlds, **{"us/step": 1e6 * seconds, RATE: worlds / seconds / 1e6})
    return f"{worlds / seconds / 1e6:,.0f} {RATE}"


def compiled_cartpole() -> Callable[..., Any]:
    """``torch_cartpole`` by ``torch.compile``. Raises Skipped where that fails."""
    step = torch.compile(torch_cartpole, fullgraph=True, dynamic=False)
    worlds = torch.zeros(64, 4, device=DEVICE), torch.zeros(64, dtype=torch.int32, device=DEVICE)
    try:
        step(*worlds, torch.zeros(64, dtype=torch.int64, device=DEVICE))
    except Exception as error:
        raise Skipped(f"torch.compile fails here: {str(error).strip().partition(chr(10))[0]}") from None
    return step


def sizes_that_fit(sizes: Iterable[int], found: Findings, seconds: float) -> Iterable[int]:
    """``sizes`` as long as ``seconds`` are left for each; the others are skipped together."""

    def no_time() -> None:
        raise Skipped(NO_TIME)

    for size in sizes:
        if found.time_left() < seconds:
            found.check(f"from {size:,} worlds on", no_time)
            return
        yield size
