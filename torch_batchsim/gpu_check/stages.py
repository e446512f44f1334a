"""The stages of the GPU check in the order in which they run: the most important first."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product

import torch

from ..base.shared import CHIP_OF_BLOCK
from ..resolve.chip import chip_bytes_of
from ..resolve.executors import EXECUTORS
from . import bits, choices, faults, graphs, large, learning, lifetimes, memory, speed_stages, streams, tools
from .environments import CHECKED, ENVIRONMENTS
from .findings import NO_TIME, Findings, Skipped, Stage
from .playing import MODES, Make, expect, maker

CUDA = EXECUTORS["cuda"]
CPU = maker("cpu")
_FIRST = ("cartpole", "overcooked", "hanabi")  # built first: the goals are about their speeds
_ONE_EXECUTOR = ("kitchens_floats", "hanabi_floats")  # checked only by one
_LONG_BUILDS = ("hideseek", "hunt", "ant", "console", "console_ram")  # made in the background, see builds.py
_GATE = ("a build", "the CPU's bits")  # of "smoke": without them no figure is worth its time
_TRACED = ("cartpole", "meadow")
_CAPTURED = ("cartpole", "meadow")  # their tables never grow
_SIZES = {
    "cartpole": 10_000,
    **dict.fromkeys(("kitchens", "kitchens_floats", "hanabi", "hanabi_floats", "decks", "skirmish"), 300),
    **dict.fromkeys(("garden", "meadow", "overcooked", "hideseek", "console", "tag", "seaquest"), 300),
    "hunt": 4_200, "ant": 14_400,  # where a warp takes three and eight worlds (csrc/tbs/team.cuh)
}
_LONG = 300  # steps: a game of Hanabi takes about 20 at random
_ROUND = 250  # steps: one of HideSeek takes 240
_FEW = 20  # worlds: fewer than a GPU has multiprocessors
_MANY = 1_048_576
_TILES = (1, 249, 1024)
_LIMITS = (2**31, 2**32)  # bytes of a column
_PLANS = {"cartpole": 2, "meadow": 2}  # numbers of plans; the first one cuts everywhere
_TUNE_SECONDS = 2.0  # of measuring
_BUILD_SECONDS = 90.0  # of one environment for one executor
_WHOLE_CHIP = (9, 0)  # from this capability on all workspace that the engine places on chip fits
_ENDING = 5.0  # seconds kept back at the end of a stage


# ---- stages ----------------------------------------------------------------------------------------------------------


def _smoke(found: Findings) -> None:
    """One environment by one executor."""
    make = maker("cuda", CUDA[0])
    found.check("memory on chip", _memory_on_chip)
    found.check_seconds = _BUILD_SECONDS + 30  # its own process is ended before
    found.check("a build", _built, found, "cartpole", "cuda", CUDA[0])
    found.check_seconds = Findings.check_seconds
    found.check("the CPU's bits", bits.same_as, CPU, make, "cartpole", _SIZES["cartpole"], 40, MODES[0])
    found.check("a fault", faults.bad_action, make, ("cartpole",))
    found.check("a capture", graphs.captured_step, CPU, make, "cartpole", _SIZES["cartpole"], MODES[0])


def _memory_on_chip() -> str:
    properties = torch.cuda.get_device_properties(0)
    allowed, capability = chip_bytes_of(torch.device("cuda", 0)), (properties.major, properties.minor)
    expect(allowed >= CHIP_OF_BLOCK or capability < _WHOLE_CHIP, f"{allowed} bytes a block, wanted {CHIP_OF_BLOCK}")
    return f"{allowed:,} bytes a block"


def _built(found: Findings, *job: str) -> str:
    """Build in a process of its own, within the build's time and the rest of the stage's."""
    seconds = min(_BUILD_SECONDS, found.time_left() - _ENDING)
    if seconds < _ENDING:
        raise Skipped(NO_TIME)
    try:
        return tools.run_apart("build", *job, seconds=seconds)
    except tools.NoEnd:
        if seconds < _BUILD_SECONDS:
            raise Skipped(f"{NO_TIME} to finish it") from None
        raise


def _build(found: Findings) -> None:
    others = [name for name in ENVIRONMENTS if name not in (*_FIRST, *_ONE_EXECUTOR, *_LONG_BUILDS)]
    jobs = [(name, "cuda", executor) for executor, name in product(CUDA, _FIRST)]
    jobs += [(name, "cuda", executor) for executor, name in product(CUDA, others)]
    jobs += [(name, "cuda", CUDA[0]) for name in _ONE_EXECUTOR]
    jobs += [(name, "cpu", EXECUTORS["cpu"][0]) for name in ENVIRONMENTS if name not in _LONG_BUILDS]
    found.check_seconds = found.time_left() + 60  # this process is ended before
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # each job in a process of its own; reported as they end
        left = [job for job in jobs if not found.has(", ".join(job))]
        running = {pool.submit(_built, found, *job): job for job in left}
        for future in as_completed(running):
            found.check(", ".join(running[future]), future.result)


def _bits(found: Findings) -> None:
    others = [*product(CUDA, ("tag", "seaquest"), MODES[:1]), *product(CUDA[:1], ("ant", "console"), MODES)]
    for executor, name, mode in [*product(CUDA, CHECKED, MODES), *others]:
        make = maker("cuda", executor)
        found.check(f"{executor}: {name}, {mode.name}", bits.same_as, CPU, make, name, _SIZES[name], 40, mode)
    for executor, name in product(CUDA, ("skirmish", "meadow", "hunt")):
        make = maker("cuda", executor)
        found.check(f"{executor}: {name}, few worlds", bits.same_as, CPU, make, name, _FEW, 40, MODES[0])
    for name in _ONE_EXECUTOR:
        make = maker("cuda", CUDA[0])
        found.check(f"{CUDA[0]}: {name}", bits.same_as, CPU, make, name, _SIZES[name], 30, MODES[0])
    for executor, name in product(CUDA, ("cartpole", "decks")):
        make, what = maker("cuda", executor), f"{executor}: {name}, no final observations"
        found.check(what, bits.same_as, CPU, make, name, _SIZES[name], 40, MODES[0], final_obs=False)
    for executor in EXECUTORS["cpu"][1:]:
        what = f"{executor} on CPU: skirmish"
        found.check(what, bits.same_as, CPU, maker("cpu", executor), "skirmish", _SIZES["skirmish"], 40, MODES[0])


def _long(found: Findings) -> None:
    """Whole episodes to their limits."""
    for executor, mode in product(CUDA, MODES[:2]):
        what = f"{executor}: cartpole to its 500 steps, {mode.name}"
        found.check(what, bits.balanced, CPU, maker("cuda", executor), _SIZES["cartpole"] // 10, 520, mode)
    for executor in CUDA:
        make, worlds = maker("cuda", executor), _SIZES["overcooked"] // 3
        found.check(f"{executor}: overcooked, 410 steps", bits.same_as, CPU, make, "overcooked", worlds, 410, MODES[0])
    for executor in CUDA:
        make, worlds = maker("cuda", executor), _SIZES["hanabi"]
        found.check(f"{executor}: hanabi, {_LONG} steps", bits.same_as, CPU, make, "hanabi", worlds, _LONG, MODES[0])
    for executor in CUDA:
        make, worlds, what = maker("cuda", executor), _SIZES["hideseek"] // 3, f"{executor}: hideseek, {_ROUND} steps"
        found.check(what, bits.same_as, CPU, make, "hideseek", worlds, _ROUND, MODES[0])


def _large(found: Findings) -> None:
    """Numbers of worlds, and sizes of columns, beyond small integers."""
    for executor in CUDA:
        make = maker("cuda", executor)
        found.check(f"{executor}: {_MANY:,} worlds", bits.same_as, CPU, make, "cartpole", _MANY, 8, MODES[0])
    for limit, executor in product(_LIMITS, CUDA):
        make, what = maker("cuda", executor), f"{executor}: a column of more than {limit:,} bytes"
        found.check(what, large.large_columns, CPU, make, "overcooked", limit, 3)


def _choices(found: Findings) -> None:
    """Tiles of several sizes, and steps cut into kernels."""
    for executor, name, size in product(CUDA, ("cartpole", "decks"), _TILES):
        make, worlds = maker("cuda", executor), _SIZES["cartpole"]
        found.check(f"{executor}: {name}, tiles of {size}", choices.tile, CPU, make, name, worlds, 20, size)
    for executor, size in product(CUDA, _TILES[:2]):
        make, what = maker("cuda", executor), f"{executor}: hunt, tiles of {size}"
        found.check(what, choices.tile, CPU, make, "hunt", _SIZES["hunt"], 20, size)
    found.check_seconds = 120.0  # each plan is built
    for name, count in _PLANS.items():
        for number in range(count):
            make = maker("cuda", CUDA[0])
            found.check(f"{name}, plan {number}", choices.plan, CPU, make, name, _SIZES[name], 20, number)


def _learn(found: Findings) -> None:
    """PPO, with rollouts step by step and captured."""
    _learned(found, "CartPole", learning.cartpole)


def _learn_overcooked(found: Findings) -> None:
    _learned(found, "Overcooked", learning.kitchen)


def _learned(found: Findings, name: str, learn: Callable[[Make, bool], str]) -> None:
    found.check_seconds = 90.0
    for how, captured in {"eager": False, "captured": True}.items():
        found.check(f"{name}, {how}", learn, maker("cuda", CUDA[0]), captured)


def _lifetimes(found: Findings) -> None:
    for executor, name in product(CUDA, _CAPTURED):
        make, worlds = maker("cuda", executor), _SIZES[name]
        found.check(f"{executor}: gone in a capture, {name}", lifetimes.gone_in_capture, make, name, worlds)
        found.check(f"{executor}: gone before replays, {name}", lifetimes.gone_before_replays, make, name, worlds)
        found.check(f"{executor}: gone while stepping, {name}", lifetimes.gone_while_stepping, make, name, worlds)
        found.check(f"{executor}: on a side stream, {name}", lifetimes.replaced, CPU, make, name, worlds)
    for executor in CUDA:
        make, worlds = maker("cuda", executor), _SIZES["cartpole"]
        found.check(f"{executor}: a fault before a capture", lifetimes.pending_fault, make, "cartpole", worlds)
        found.check(f"{executor}: another library's error", lifetimes.foreign_error, make, "cartpole", worlds)


def _capture(found: Findings) -> None:
    for executor, name in product(CUDA, _CAPTURED):
        make, worlds = maker("cuda", executor), _SIZES[name]
        for mode in MODES:
            what = f"{executor}: a step of {name}, {mode.name}"
            found.check(what, graphs.captured_step, CPU, make, name, worlds, mode)
        what = f"{executor}: a rollout of {name}"
        found.check(what, graphs.captured_rollout, CPU, make, name, worlds, 16)
    for executor in CUDA:
        make = maker("cuda", executor)
        found.check(f"{executor}: a step of hunt", graphs.captured_step, CPU, make, "hunt", _SIZES["hunt"], MODES[0])
    for executor in CUDA:
        found.check(f"{executor}: a table that has to grow", graphs.growth_in_capture, maker("cuda", executor))


def _streams(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        for name in _CAPTURED:
            worlds = _SIZES[name]
            found.check(f"{executor}: a step in one call, {name}", streams.fast_step, CPU, make, name, worlds)
            found.check(f"{executor}: no call waits, {name}", streams.no_waiting, make, name, worlds)
            found.check(f"{executor}: no step allocates, {name}", streams.no_allocation, make, name, worlds)
            found.check(f"{executor}: a side stream, {name}", streams.side_stream, CPU, make, name, worlds)
            found.check(f"{executor}: two streams, {name}", streams.two_streams, make, name, worlds)
            found.check(f"{executor}: groups, {name}", streams.groups, CPU, make, name, worlds)
        found.check(f"{executor}: two threads", streams.two_threads, make, "cartpole", 3000)
        found.check(f"{executor}: several simulators", bits.together, make)
        found.check(f"{executor}: cuda:1", streams.second_device, CPU, executor, "meadow", 50)


def _faults(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        found.check(f"{executor}: bad actions", faults.bad_action, make)
        found.check(f"{executor}: faults of systems", faults.system_fault, CPU, make)
        found.check(f"{executor}: a full table", faults.overflow, CPU, make)
        what, worlds = f"{executor}: a checked build of skirmish", _SIZES["skirmish"]
        found.check(what, bits.same_as, CPU, make, "skirmish", worlds, 20, MODES[0], checks=True)
        found.check(f"{executor}: a finding", faults.checked_build, CPU, make)


def _memory(found: Findings) -> None:
    for executor in CUDA:
        make = maker("cuda", executor)
        for name in ("cartpole", "skirmish", "meadow", "hunt"):
            found.check(f"{executor}: bind, {name}", memory.bound, make, name, _SIZES[name], 12)
        found.check(f"{executor}: growth", memory.growth, CPU, make, _SIZES["garden"], 24)
        found.check(f"{executor}: growth without waiting", memory.late_growth, make, _SIZES["garden"], 24)
        found.check(f"{executor}: changes from the host", memory.host_changes, CPU, make)
        for name in CHECKED:
            found.check(f"{executor}: state, {name}", memory.state_moves, CPU, make, name, _SIZES[name])
        found.check(f"{executor}: levels that are given", bits.given_levels, CPU, make)
        found.check(f"{executor}: copied worlds", memory.copies, make)
        found.check(f"{executor}: decks that are given", bits.given_decks, CPU, make)


def _repeat(found: Findings) -> None:
    for executor, name in product(CUDA, CHECKED):
        make, worlds = maker("cuda", executor), _SIZES[name]
        found.check(f"{executor}: twice, {name}", bits.repeatable, make, name, worlds, 30)
        found.check(f"{executor}: batch sizes, {name}", bits.batch_size, make, name, 1 + worlds // 3, 2 * worlds, 20)
    for executor in CUDA:
        found.check(f"{executor}: types of actions", bits.action_types, maker("cuda", executor))


def _tune(found: Findings) -> None:
    found.check_seconds = 120.0  # tuning builds
    for name in ("cartpole", "meadow"):
        found.check(f"chosen freely: {name}", choices.tuned, maker("cuda"), name, _SIZES[name], _TUNE_SECONDS)
    speed_stages.tuned(found)


def _trace(found: Findings) -> None:
    found.check_seconds = 120.0  # traced builds
    for executor, name in product(CUDA, _TRACED):
        found.check(f"{executor}: {name}", choices.traced, maker("cuda", executor), name, _SIZES[name])


_HIDESEEK = tuple(("hideseek", executor) for executor in CUDA)
_BODIES = ("bodies", CUDA[0]), ("ant", CUDA[0])
_CONSOLES = ("console", CUDA[0]), ("console_ram", CUDA[0])
STAGES = (
    Stage("smoke", "Memory on chip, one build, the CPU's bits, a fault, a capture.", _smoke, 100, 5, gate=_GATE),
    Stage("build", "Every environment but those of bodies is compiled for every executor, and steps.", _build, 150),
    Stage("cartpole", "CartPole from 1,024 to 1,048,576 worlds.", speed_stages.cartpole, 60),
    Stage("overcooked", "Overcooked, whose observations are large.", speed_stages.overcooked, 60),
    Stage("hanabi", "Hanabi, for two, with legal actions.", speed_stages.hanabi, 60),
    Stage(
        "hideseek",
        "HideSeek: rigid bodies, rays, observations of sets.",
        speed_stages.hideseek,
        60,
        builds=_HIDESEEK,
        after_builds=True,
    ),
    Stage(
        "bodies",
        "Rigid bodies in rooms, and Ant, which has joints.",
        speed_stages.bodies,
        60,
        builds=_BODIES,
        after_builds=True,
    ),
    Stage("atari", "Consoles, drawn and not.", speed_stages.atari, 60, builds=_CONSOLES, after_builds=True),
    Stage("games", "Tag and MinAtar, whose systems are in Python.", speed_stages.games, 60),
    Stage(
        "kernels",
        "The device's time for each kernel of a step.",
        speed_stages.kernels,
        90,
        builds=(_HIDESEEK[0], _BODIES[1], _CONSOLES[0]),
        after_builds=True,
    ),
    Stage(
        "bits",
        "Every executor gives the CPU's bits, in all autoreset modes.",
        _bits,
        180,
        builds=(*_HIDESEEK, ("ant", CUDA[0]), _CONSOLES[0]),
    ),
    Stage("capture", "Steps and whole rollouts in the user's own CUDA graph.", _capture, 90, builds=_HIDESEEK),
    Stage("streams", "No call waits for the device; streams, threads, devices, several simulators.", _streams, 90),
    Stage("faults", "Faults of one world are reported, and the others go on.", _faults, 60),
    Stage("lifetimes", "Simulators that are freed while captures and streams are at work.", _lifetimes, 90),
    Stage("sanitizers", "compute-sanitizer finds nothing in small runs.", speed_stages.sanitizers, 400, 20, _HIDESEEK),
    Stage("profile", "Figures of ncu for the kernels of a step.", speed_stages.profile, 240, 20, _HIDESEEK),
    Stage("long", "Whole episodes of CartPole, Overcooked, Hanabi and HideSeek.", _long, 120, builds=_HIDESEEK),
    Stage("large", "A million worlds; columns of more than 2^31 and 2^32 bytes.", _large, 90),
    Stage("learn", "PPO learns CartPole on the device, with rollouts step by step and captured.", _learn, 120),
    Stage("learn_overcooked", "The same of Overcooked.", _learn_overcooked, 180),
    Stage("memory", "Bound tensors, tables that grow, host changes, states that move.", _memory, 90, builds=_HIDESEEK),
    Stage("repeat", "The same bits in every run and for every number of worlds.", _repeat, 90, builds=_HIDESEEK),
    Stage("choices", "Tiles of any size and steps cut anywhere change no bit.", _choices, 200, builds=_HIDESEEK),
    Stage("trace", "Tracing changes no bit, and records all systems.", _trace, 150),
    Stage("swarm", "Swarm, whose rows come and go.", speed_stages.swarm, 60),
    Stage("peers", "CartPole beside CartPole in torch's operations, as rollouts.", speed_stages.peers, 75),
    Stage("tune", "Tuning changes no bit; measures its gain.", _tune, 1800),
)
