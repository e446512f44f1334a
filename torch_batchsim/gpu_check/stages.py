"""The stages of the GPU check, in the order in which they run: what matters most comes first."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

from ..executors import EXECUTORS
from . import checks, cuda_checks, speed, tools
from .checks import MODES, maker
from .environments import CHECKED, ENVIRONMENTS
from .findings import Findings, Skipped, Stage
from .machine import find_tool

CUDA = EXECUTORS["cuda"]
CPU = maker("cpu")
_TRACED = ("cartpole", "meadow")
_TUNED = ("cartpole", "meadow", "swarm")
_CAPTURED = ("cartpole", "meadow")  # their tables never grow
_SIZES = {"cartpole": 10_000, **dict.fromkeys(("kitchens", "hanabi", "decks", "skirmish", "garden", "meadow"), 300)}
_LONG = 300  # steps: a game of Hanabi takes about 20 at random
_FEW = 20  # worlds: fewer than a GPU has multiprocessors
_TUNE_SECONDS = 2.0  # of measuring
_ROLLOUTS = (16_384, 131_072, 1_048_576)


# ---- stages ----------------------------------------------------------------------------------------------------------


def _build(found: Findings) -> None:
    """All at once, each in a process of its own, since a compiler uses one core."""
    found.check_seconds = found.time_left() + 60  # this process is ended before
    jobs = [(name, "cuda", executor, "plain") for name, executor in product(ENVIRONMENTS, CUDA)]
    jobs += [(name, "cuda", executor, "traced") for name, executor in product(_TRACED, CUDA)]
    jobs += [(name, "cuda", CUDA[0], "tuned") for name in _TUNED]  # what is built on the way is kept
    jobs += [(name, "cpu", EXECUTORS["cpu"][0], "plain") for name in ENVIRONMENTS]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = [pool.submit(tools.run_apart, "build", *job) for job in jobs]
        for job, future in zip(jobs, running, strict=True):
            found.check(", ".join(job), future.result)


def _bits(found: Findings) -> None:
    for executor, name, mode in product(CUDA, CHECKED, MODES):
        make = maker("cuda", executor)
        found.check(f"{executor}: {name}, {mode.name}", checks.same_as, CPU, make, name, _SIZES[name], 40, mode)
    for executor, name in product(CUDA, ("skirmish", "meadow")):
        make = maker("cuda", executor)
        found.check(f"{executor}: {name}, few worlds", checks.same_as, CPU, make, name, _FEW, 40, MODES[0])
    for executor in CUDA:
        make, worlds = maker("cuda", executor), _SIZES["hanabi"]
        found.check(f"{executor}: hanabi, {_LONG} steps", checks.same_as, CPU, make, "hanabi", worlds, _LONG, MODES[0])
    for executor in EXECUTORS["cpu"][1:]:
        what = f"{executor} on CPU: skirmish"
        found.check(what, checks.same_as, CPU, maker("cpu", executor), "skirmish", _SIZES["skirmish"], 40, MODES[0])


def _capture(found: Findings) -> None:
    for executor, name in product(CUDA, _CAPTURED):
        make, worlds = maker("cuda", executor), _SIZES[name]
        for mode in MODES:
            what = f"{executor}: a step of {name}, {mode.name}"
            found.check(what, cuda_checks.captured_step, CPU, make, name, worlds, mode)
        what = f"{executor}: a rollout of {name}"
        found.check(what, cuda_checks.captured_rollout, CPU, make, name, worlds, 16)
    for executor in CUDA:
        found.check(f"{executor}: a table that has to grow", cuda_checks.growth_in_capture, maker("cuda", executor))


def _streams(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        for name in _CAPTURED:
            worlds = _SIZES[name]
            found.check(f"{executor}: no call waits, {name}", cuda_checks.no_waiting, make, name, worlds)
            found.check(f"{executor}: no step allocates, {name}", cuda_checks.no_allocation, make, name, worlds)
            found.check(f"{executor}: a side stream, {name}", cuda_checks.side_stream, CPU, make, name, worlds)
            found.check(f"{executor}: two streams, {name}", cuda_checks.two_streams, make, name, worlds)
        found.check(f"{executor}: two threads", cuda_checks.two_threads, make, "cartpole", 3000)
        found.check(f"{executor}: several simulators", checks.together, make)
        found.check(f"{executor}: cuda:1", cuda_checks.second_device, CPU, executor, "meadow", 50)


def _faults(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        found.check(f"{executor}: bad actions", checks.bad_action, make)
        found.check(f"{executor}: faults of systems", checks.system_fault, CPU, make)
        found.check(f"{executor}: a full table", checks.overflow, CPU, make)


def _memory(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        for name in ("cartpole", "skirmish", "meadow"):
            found.check(f"{executor}: bind, {name}", checks.bound, make, name, _SIZES[name], 12)
        found.check(f"{executor}: growth", checks.growth, CPU, make, _SIZES["garden"], 24)
        found.check(f"{executor}: growth without waiting", checks.late_growth, make, _SIZES["garden"], 24)
        found.check(f"{executor}: changes from the host", checks.host_changes, CPU, make)
        for name in CHECKED:
            found.check(f"{executor}: state, {name}", checks.state_moves, CPU, make, name, _SIZES[name])
        found.check(f"{executor}: copied worlds", checks.copies, make)
        found.check(f"{executor}: decks that are given", checks.given_decks, CPU, make)


def _repeat(found: Findings) -> None:
    for executor, name in product(CUDA, CHECKED):
        make, worlds = maker("cuda", executor), _SIZES[name]
        found.check(f"{executor}: twice, {name}", checks.repeatable, make, name, worlds, 30)
        found.check(f"{executor}: batch sizes, {name}", checks.batch_size, make, name, 1 + worlds // 3, 2 * worlds, 20)
    for executor in CUDA:
        found.check(f"{executor}: types of actions", checks.action_types, maker("cuda", executor))


def _tune(found: Findings) -> None:
    found.check_seconds = 120.0  # tuning builds
    for name in ("cartpole", "meadow"):
        found.check(f"chosen freely: {name}", checks.tuned, maker("cuda"), name, _SIZES[name], _TUNE_SECONDS)


def _trace(found: Findings) -> None:
    for executor, name in product(CUDA, _TRACED):
        found.check(f"{executor}: {name}", checks.traced, maker("cuda", executor), name, _SIZES[name])


def _speed_of_cartpole(found: Findings) -> None:
    _speed(found, "cartpole", (1024, 8192, 65_536, 262_144, 1_048_576), tuned=(1024, 65_536, 1_048_576))


def _speed_of_overcooked(found: Findings) -> None:
    _speed(found, "overcooked", (1024, 16_384, 65_536), tuned=(65_536,))


def _speed_of_hanabi(found: Findings) -> None:
    copied = speed.copy_bandwidth()
    for executor in CUDA:
        what = f"131,072 worlds, bits, {executor}"
        found.check(what, _measure, found, maker("cuda", executor), "hanabi_bits", 131_072, executor, copied)
    _speed(found, "hanabi", (1024, 16_384, 131_072), tuned=(131_072,))  # tuning may take the time that is left


def _speed_of_swarm(found: Findings) -> None:
    _speed(found, "swarm", (1024, 16_384, 131_072), tuned=(16_384,))


def _speed(found: Findings, name: str, sizes: Sequence[int], tuned: Sequence[int]) -> None:
    copied = speed.copy_bandwidth()
    found.note(f"A copy of 1 GiB in the device's memory: {copied / 1e9:,.0f} GB/s, read and written.")
    found.note(
        "`us/step`: `env.step(actions)` over and over, as a user sees it. `device us/step`, `host us/call`: the same "
        "call while the other side is not waited for. `bytes/world` is an estimate of what a step must move at "
        "least (`torch_batchsim/gpu_check/speed.py` says how), and `GB/s` that over the device's time; small batches "
        "stay in the second-level cache, whose bandwidth is not the memory's. `tuned` rows follow `sim.tune()`. Where "
        "actions are drawn by masks, `us/step` has that in it; `device us/step` and `host us/call` have not, and "
        "`drawing us` is the device's time for it."
    )
    for worlds in speed.sizes_that_fit(sizes, found, 10.0):
        for executor in CUDA:
            make = maker("cuda", executor)
            found.check(f"{worlds:,} worlds, {executor}", _measure, found, make, name, worlds, executor, copied)
    found.check_seconds = 120.0  # tuning builds
    for worlds in speed.sizes_that_fit(tuned, found, 15.0):
        found.check(f"{worlds:,} worlds, tuned", _measure_tuned, found, name, worlds, copied)


def _measure(found: Findings, make: checks.Make, name: str, worlds: int, label: str, copied: float) -> str:
    return speed.measure_steps(found, f"Steps of {name}", make(name, worlds), label, copied)


def _measure_tuned(found: Findings, name: str, worlds: int, copied: float) -> str:
    env = maker("cuda")(name, worlds)
    env.reset(seed=0)
    report = env.sim.tune(_TUNE_SECONDS)
    told = speed.measure_steps(found, f"Steps of {name}", env, f"tuned: {env.sim.executor}", copied)
    return f"{told}; gain {report.gain:.2f}"


def _peers(found: Findings) -> None:
    found.note(
        "Rollouts of 32 steps with given actions, each captured as one CUDA graph, which delivers observations, "
        "rewards and flags of all steps. In torch's operations CartPole is as one would write it without a simulator; "
        "by `torch.compile` the whole step is one kernel or two."
    )
    table = "Rollouts of CartPole"
    for worlds in _ROLLOUTS:
        for executor in CUDA:
            what = f"torch_batchsim, {executor}"
            found.check(f"{worlds:,} worlds: {what}", _measure_ours, found, table, what, worlds, executor)
        run = partial(_measure_peer, found, table, worlds)
        found.check(f"{worlds:,} worlds: torch", run, "torch's operations", lambda: speed.torch_cartpole)
    for worlds in speed.sizes_that_fit(_ROLLOUTS, found, 10.0):
        run = partial(_measure_peer, found, table, worlds)
        found.check(f"{worlds:,} worlds: torch.compile", run, "torch.compile", speed.compiled_cartpole)


def _measure_ours(found: Findings, table: str, label: str, worlds: int, executor: str) -> str:
    run = speed.our_rollout(maker("cuda", executor)("cartpole", worlds))
    return speed.measure_rollout(found, table, label, worlds, run)


def _measure_peer(found: Findings, table: str, worlds: int, label: str, step: Callable[[], Callable]) -> str:
    return speed.measure_rollout(found, table, label, worlds, speed.torch_rollout(worlds, step()))


def _sanitizers(found: Findings) -> None:
    """All at once: their time is the host's."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        raise Skipped("compute-sanitizer, of the CUDA toolkit, is not installed")
    found.check_seconds = found.time_left() + 60
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        seconds = found.time_left() - 5
        jobs = list(product(tools.SANITIZERS, CUDA))
        running = [pool.submit(tools.sanitize, tool, *job, seconds) for job in jobs]
        for job, future in zip(jobs, running, strict=True):
            found.check(", ".join(job), future.result)


def _profile(found: Findings) -> None:
    tool = find_tool("ncu")
    if tool is None:
        raise Skipped("ncu (Nsight Compute) is not installed, so occupancy and traffic are not available")
    found.note("By ncu, which runs each kernel alone, with cold caches.")
    for (name, worlds), executor in product((("cartpole", 1_048_576), ("swarm", 16_384)), CUDA):
        found.check(f"{executor}: {name}", tools.profile, found, tool, name, executor, worlds)


STAGES = (
    Stage("build", "Every environment is compiled for every executor and takes a step.", _build, 180),
    Stage("bits", "Every executor gives the CPU's bits, in all autoreset modes.", _bits, 120),
    Stage("capture", "Steps and whole rollouts in the user's own CUDA graph.", _capture, 90),
    Stage("streams", "No call waits for the device; streams, threads, devices, several simulators.", _streams, 90),
    Stage("faults", "What fails in one world is told, and the others go on.", _faults, 60),
    Stage("memory", "Bound tensors, tables that grow, changes from the host, states that move.", _memory, 90),
    Stage("repeat", "The same bits in every run and for every number of worlds.", _repeat, 90),
    Stage("tune", "Tuning changes no bit.", _tune, 120),
    Stage("trace", "Tracing changes no bit, and tells what has run.", _trace, 60),
    Stage("speed", "CartPole from 1,024 to 1,048,576 worlds.", _speed_of_cartpole, 120),
    Stage("overcooked", "Overcooked, whose observations are large.", _speed_of_overcooked, 90),
    Stage("hanabi", "Hanabi, for two, with legal actions.", _speed_of_hanabi, 120),
    Stage("swarm", "Swarm, whose rows come and go.", _speed_of_swarm, 90),
    Stage("peers", "CartPole beside CartPole in torch's operations, as rollouts.", _peers, 75),
    Stage("sanitizers", "compute-sanitizer finds nothing in small runs.", _sanitizers, 150, 40),
    Stage("profile", "What ncu sees of the kernels of a step.", _profile, 120, 30),
)
