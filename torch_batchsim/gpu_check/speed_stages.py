"""The measuring stages of the GPU check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from ..resolve.executors import EXECUTORS
from . import builds, speed, tools
from .findings import NO_TIME, Findings, Skipped
from .machine import find_tool
from .playing import Make, maker

CUDA = EXECUTORS["cuda"]
# M world steps/s on one H100, at one of the sizes.
GOALS = {"cartpole": 34_000, "overcooked": 400, "hanabi": 210, "hideseek": 19, "bodies": 20}
_BODIES = (32_768, 8192)  # worlds
_CONSOLES = (32_768, 4096)  # worlds
_ROLLOUTS = (1_048_576, 131_072, 16_384)
# Those of which least is known come first.
_PROFILED = {"hideseek": 8192, "cartpole": 1_048_576, "hanabi": 131_072, "overcooked": 65_536, "swarm": 16_384}
_TIMED = {
    "hideseek": 8192, "console": 4096, "ant": 8192, "overcooked": 65_536, "hanabi": 131_072, "tag": 65_536,
    "seaquest": 65_536, "swarm": 16_384,
}  # fmt: skip
_TUNED = {"cartpole": 1_048_576, "overcooked": 65_536, "hanabi": 131_072, "swarm": 16_384, "hideseek": 32_768}
_LONG_TUNING = {"hideseek": 1500.0}  # seconds: it makes some six builds, of minutes each
_TUNE_SECONDS = 2.0  # of measuring
_FEW_SECONDS = 8.0  # in which a size is measured
_SANITIZED_SECONDS = 60.0  # of one tool over one executor and one set of environments
_PROFILED_SECONDS = 45.0
_LEAST_SECONDS = 20.0  # below which a tool does not begin
_ENDING = 5.0  # kept back at the end of a stage


def cartpole(found: Findings) -> None:
    whole_waves = 337_920  # 10 blocks of 256 threads for each of 132 multiprocessors
    _speed(found, "cartpole", (1_048_576, 524_288, whole_waves, 262_144, 65_536, 8192, 1024))


def overcooked(found: Findings) -> None:
    _speed(found, "overcooked", (65_536, 16_384, 1024))


def hanabi(found: Findings) -> None:
    copied = _speed(found, "hanabi", (131_072, 16_384, 1024))
    for executor in CUDA:
        what = f"131,072 worlds, bits, {executor}"
        found.check(what, _measure, found, maker("cuda", executor), "hanabi_bits", 131_072, executor, copied)


def hideseek(found: Findings) -> None:
    for executor in CUDA:
        found.check(f"the build, {executor}", builds.require, "hideseek", executor)
    _speed(found, "hideseek", (32_768, 8192, 1024))


def bodies(found: Findings) -> None:
    """Rigid bodies without and with joints, by the executor that is fastest for them."""
    executor, copied = CUDA[0], speed.copy_bandwidth()
    for name in ("bodies", "ant"):
        found.check(f"the build of {name}, {executor}", builds.require, name, executor)
    for worlds in _BODIES:
        what = f"{worlds:,} worlds"
        found.check(f"{what}, bodies", _measure_bodies, found, worlds, executor)
        found.check(f"{what}, ant", _measure, found, maker("cuda", executor), "ant", worlds, executor, copied)
    _note_goal(found, "bodies")


def atari(found: Findings) -> None:
    """Consoles, whose steps have four frames: two are drawn, or none."""
    executor, copied = CUDA[0], speed.copy_bandwidth()
    for name in ("console_ram", "console"):
        found.check(f"the build of {name}, {executor}", builds.require, name, executor)
    for worlds, name in product(_CONSOLES, ("console_ram", "console")):
        what = f"{worlds:,} worlds, {name}"
        found.check(what, _measure, found, maker("cuda", executor), name, worlds, executor, copied)


def games(found: Findings) -> None:
    """Tag at the size of WarpDrive's paper and larger, and Seaquest of MinAtar."""
    _speed(found, "tag", (2000, 65_536))
    _speed(found, "seaquest", (65_536, 4096))


def kernels(found: Findings) -> None:
    """The figures by which the next effort is chosen."""
    found.check_seconds = 60.0  # torch.profiler begins with seconds of its own
    for name, worlds in _TIMED.items():
        found.check(f"{worlds:,} worlds, {name}", _measure_kernels, found, name, worlds)


def _measure_kernels(found: Findings, name: str, worlds: int) -> str:
    env = maker("cuda", CUDA[0])(name, worlds)
    return speed.measure_kernels(found, f"Kernels of {name}, {worlds:,} worlds, {CUDA[0]}", env)


def _measure_bodies(found: Findings, worlds: int, executor: str) -> str:
    builds.require("bodies", executor)
    return speed.measure_bodies(found, _title("bodies"), worlds, executor)


def swarm(found: Findings) -> None:
    _speed(found, "swarm", (131_072, 16_384, 1024))


def _speed(found: Findings, name: str, sizes: Sequence[int]) -> float:
    """Steps of an environment at several sizes. Returns the memory's bandwidth, which is measured once."""
    copied = speed.copy_bandwidth()
    found.note(f"A copy of 1 GiB in the device's memory: {copied / 1e9:,.0f} GB/s, read and written.")
    found.note(
        "`us/step`: `env.step(actions)` over and over, as a user sees it. `device us/step`, `host us/call`: the same "
        "call without waiting for the other side. `bytes/world` is an estimate of the bytes that a step must move "
        "(`torch_batchsim/gpu_check/speed.py` explains it), and `GB/s` that over the device's time; small batches "
        "stay in the second-level cache, whose bandwidth is not the memory's. Where actions are drawn by masks, "
        "`us/step` includes that; `device us/step` and `host us/call` do not, and `drawing us` is the device's time "
        "for it."
    )
    for worlds in speed.sizes_that_fit(sizes, found, _FEW_SECONDS):
        for executor in CUDA:
            make = maker("cuda", executor)
            found.check(f"{worlds:,} worlds, {executor}", _measure, found, make, name, worlds, executor, copied)
    _note_goal(found, name)
    return copied


def _note_goal(found: Findings, name: str) -> None:
    """Note the best rate as a share of the goal, where both exist."""
    rows = found.found["tables"].get(_title(name), [])
    if name in GOALS and rows:
        best = max(rows, key=lambda row: row[speed.RATE])
        rate, wanted = best[speed.RATE], GOALS[name]
        how = f"{best['worlds']:,} worlds by {best['executor']}: {rate:,.0f} {speed.RATE}"
        found.note(f"Goal: {wanted:,} {speed.RATE} on an H100. Best: {how}, {100 * rate / wanted:.0f} % of it.")


def _title(name: str) -> str:
    return f"Steps of {name}"


def _measure(found: Findings, make: Make, name: str, worlds: int, label: str, copied: float) -> str:
    return speed.measure_steps(found, _title(name), make(name, worlds), label, copied)


def tuned(found: Findings) -> None:
    """The gain of tuning at the sizes of the goals."""
    copied = speed.copy_bandwidth()
    usual = found.check_seconds
    for name, worlds in _TUNED.items():
        found.check_seconds = _LONG_TUNING.get(name, usual)
        found.check(f"{worlds:,} worlds, {name}", _measure_tuned, found, name, worlds, copied)


def _measure_tuned(found: Findings, name: str, worlds: int, copied: float) -> str:
    env = maker("cuda")(name, worlds)
    env.reset(seed=0)
    report = env.sim.tune(_TUNE_SECONDS)
    rate = speed.measure_steps(found, _title(name), env, f"tuned: {env.sim.executor}", copied)
    return f"{rate}; gain {report.gain:.2f}"


def peers(found: Findings) -> None:
    found.note(
        "Rollouts of 32 steps with given actions, each captured as one CUDA graph, which delivers observations, "
        "rewards and flags of all steps. CartPole in torch's operations is the ordinary way without a simulator; "
        "`torch.compile` makes one or two kernels of its step."
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


def sanitizers(found: Findings) -> None:
    """One tool at a time, so that those within the time finish."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        raise Skipped("compute-sanitizer, of the CUDA toolkit, is not installed")
    found.check_seconds = _SANITIZED_SECONDS + 30
    for games, check, executor in product(tools.PLAYED, tools.SANITIZERS, CUDA):
        run = partial(tools.sanitize, tool, check, executor, games)
        found.check(f"{check}, {executor}: {games}", _in_time, found, run, _SANITIZED_SECONDS)


def profile(found: Findings) -> None:
    tool = find_tool("ncu")
    if tool is None:
        raise Skipped("ncu (Nsight Compute) is not installed, so occupancy and traffic are not available")
    found.note(
        "One `env.step` with a new tensor of actions, by ncu, which runs each kernel by itself, with cold caches. "
        "A sector has 32 bytes; local sectors hold spilled registers, and should be 0. `warps at long scoreboard`: "
        "warps of a scheduler that wait for memory whenever it issues."
    )
    found.check_seconds = _PROFILED_SECONDS + 30
    for executor, (name, worlds) in product(CUDA, _PROFILED.items()):
        run = partial(tools.profile, found, tool, name, executor, worlds)
        found.check(f"{executor}: {name}", _in_time, found, run, _PROFILED_SECONDS)


def _in_time(found: Findings, run: Callable[[float], str], seconds: float) -> str:
    """``run`` with ``seconds``, or with the rest of the stage's, so that it ends within them."""
    left = found.time_left() - _ENDING
    if left < min(seconds, _LEAST_SECONDS):
        raise Skipped(NO_TIME)
    return run(min(seconds, left))
