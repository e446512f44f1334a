"""Small runs in processes of their own, without and with NVIDIA's tools: compute-sanitizer, Nsight Compute.

``python -m torch_batchsim.gpu_check.tools build NAME DEVICE EXECUTOR``, ``... compile NAME EXECUTOR``,
``... play EXECUTOR SET`` and ``... profile NAME EXECUTOR WORLDS`` are those runs.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from ..build import jit
from ..build.codegen import Target
from ..resolve.program import Program
from ..testing import random_actions
from . import builds
from .environments import COMPILED
from .findings import Findings, Skipped
from .playing import MODES, SEED, maker, play
from .processes import run_limited, tool

SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")  # the likeliest to find an error first
_ERRORS_FOUND = 87
_NICE = 5  # builds of minutes give way to measurements, and still come on beside a build for each core
_PLAYED = "played to the end"
_OUR_KERNEL = re.compile(r"\btbs(::|_step|_reset|_act)")
_REFUSED = ("not supported", "Unable to", "Failed to", "ERR_NVGPUCTRPERM", "insufficient driver", "LibraryNotLoaded")

# By ncu's name: the column of the report, and its factor.
METRICS = {
    "gpu__time_duration.sum": ("us", 1e-3),
    "dram__bytes_read.sum": ("MB read", 1e-6),
    "dram__bytes_write.sum": ("MB written", 1e-6),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("% of memory's peak", 1.0),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy %", 1.0),
    "launch__registers_per_thread": ("registers", 1.0),
    "smsp__inst_executed.sum": ("instructions", 1.0),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue active %", 1.0),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("warps at long scoreboard", 1.0),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("sectors written", 1.0),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": ("local sectors read", 1.0),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": ("local sectors written", 1.0),
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio": ("warps without instructions", 1.0),
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": ("warps at short scoreboard", 1.0),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": ("warps at fixed latency", 1.0),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("warps at barriers", 1.0),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("bank conflicts", 1.0),
}
_BASIC = 7  # of METRICS, which every ncu knows: read where it refuses one of the others

# Worlds and steps, in sets that are run one after the other: instrumented kernels are some hundred times slower.
PLAYED = {
    "small": {"cartpole": (64, 12), "decks": (8, 25), "skirmish": (3, 8), "garden": (3, 6), "meadow": (2, 4)},
    "bodies": {"hunt": (2, 4)},
}


class NoEnd(AssertionError):
    """A run did not end in its time."""


def run_apart(*arguments: str, seconds: float) -> str:
    """The last line of a run's output. Raises AssertionError with the whole output where it fails.

    Raises NoEnd where the run has not ended after ``seconds``.
    """
    status, said = run_limited(tool(*arguments), seconds)
    last = (["nothing printed"] + said.strip().splitlines())[-1]
    if status is None:
        raise NoEnd(f"no end after {seconds:.0f} s: {last}\n{said}")
    if status:
        raise AssertionError(f"exit status {status}: {last}\n{said}")
    return last


def build(name: str, device: str, executor: str) -> None:
    """Build an environment, take a step, and print the seconds of both."""
    started = time.perf_counter()
    env = maker(device, executor)(name, 1000)  # no size of the measurements: tuning would keep its choice for it
    env.reset(seed=SEED)
    env.step(random_actions(env, 1)[0])
    env.check_faults()
    compiled = env.sim.execution.library.build_seconds
    origin = f"{compiled:.1f} s to compile" if compiled else "from the build cache"
    print(f"{origin}, {time.perf_counter() - started:.1f} s in all")


def compile_only(name: str, executor: str) -> None:
    """Compile for CUDA at low priority, and print the seconds: the device has no work from it while others measure."""
    os.nice(_NICE)
    library = jit.load(Program(COMPILED[name]()), Target("cuda", executor))
    compiled = library.build_seconds
    print(f"{compiled:.1f} s to compile in the background" if compiled else "from the build cache")


def play_all(executor: str, games: str) -> None:
    """The run under the sanitizers: all environments of ``PLAYED[games]``, CartPole in all modes."""
    make = maker("cuda", executor)
    for name, (worlds, steps) in PLAYED[games].items():
        for mode in MODES if name == "cartpole" else MODES[:1]:
            play(make(name, worlds, autoreset_mode=mode), steps, wait=True)
    print(_PLAYED, flush=True)


def sanitize(path: str, check: str, executor: str, games: str, seconds: float) -> str:
    """Run one tool of compute-sanitizer (at ``path``) over ``play_all``."""
    for name in PLAYED[games]:
        builds.require(name, executor)
    command = [path, "--tool", check, "--error-exitcode", str(_ERRORS_FOUND), "--target-processes", "all"]
    command += tool("play", executor, games)
    # Each tensor in memory of its own, so that an access beyond its end is detected.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    status, said = run_limited(command, seconds, environment)
    if status is not None:
        return judge_sanitizer(status, said)
    if _OUR_KERNEL.search(said):
        raise AssertionError(_errors(said))
    raise Skipped(f"not at the end after {seconds:.0f} s; no error of ours until then")


def judge_sanitizer(status: int, said: str) -> str:
    """The result of a sanitizer's run. Raises AssertionError for errors, Skipped where the tool does not work."""
    summary = "; ".join(line.strip("= ") for line in said.splitlines() if "SUMMARY" in line)
    if status == 0 and _PLAYED in said:
        return summary or "no errors"
    if status == _ERRORS_FOUND and _PLAYED in said and not _OUR_KERNEL.search(said):
        return f"no error in the engine's kernels; elsewhere: {summary}"
    own = [line for line in said.splitlines() if line.startswith("=====")]
    refusals = [line.strip("= ") for line in own if any(text in line for text in _REFUSED)]
    if refusals and _PLAYED not in said and not _OUR_KERNEL.search(said):
        raise Skipped(f"it does not work here: {refusals[0]}")
    raise AssertionError(_errors(said))


def _errors(said: str) -> str:
    """Forty lines from the first error on."""
    lines = said.splitlines()
    first = next((i for i, line in enumerate(lines) if _OUR_KERNEL.search(line)), None)
    start = max(0, len(lines) - 40) if first is None else max(0, first - 2)
    return "\n".join(lines[start : start + 40])


def _last_lines(said: str) -> str:
    return " ".join(line.strip("= ") for line in said.strip().splitlines()[-3:])


def profile_step(name: str, executor: str, worlds: int) -> None:
    """The run under ncu: one ``env.step`` with a new tensor of actions, after steps that ncu does not record."""
    env = maker("cuda", executor)(name, worlds)
    env.reset(seed=SEED)
    batches = random_actions(env, 20)
    for actions in batches:
        env.step(actions)
        env.check_faults()
    fresh = batches[0].clone()
    torch.cuda.synchronize()
    with torch.cuda.profiler.profile():
        env.step(fresh)
        torch.cuda.synchronize()


def profile(found: Findings, path: str, name: str, executor: str, worlds: int, seconds: float) -> str:
    """Run ncu (at ``path``) over ``profile_step``: a table of the kernels of a step."""
    builds.require(name, executor)
    command = [path, "--csv", "--print-units", "base", "--clock-control", "none", "--target-processes", "all"]
    run = tool("profile", name, executor, str(worlds))
    until, rows, said = time.monotonic() + seconds, [], ""
    for metrics in (list(METRICS), list(METRICS)[:_BASIC]):
        chosen = ["--profile-from-start", "off", "--metrics", ",".join(metrics)]
        status, said = run_limited([*command, *chosen, *run], until - time.monotonic())
        if status is None:
            raise Skipped("ncu did not end in its time; occupancy and traffic are not available")
        rows = kernels(said)
        if rows or "metric" not in said.lower():
            break
    if not rows:
        reason = "ERR_NVGPUCTRPERM" if "ERR_NVGPUCTRPERM" in said else _last_lines(said)
        raise Skipped(f"ncu cannot read the counters here, so occupancy and traffic are not available: {reason}")
    for row in rows:
        found.row(f"{name}, {worlds:,} worlds, {executor}: kernels of a step", **row)
    return f"{len(rows)} kernels"


def kernels(said: str) -> list[dict[str, Any]]:
    """The kernels in ncu's CSV, in order of launch, with the figures of ``METRICS`` (None where missing)."""
    lines = said.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        return []
    found: dict[str, dict[str, Any]] = {}
    columns = [column for column, _ in METRICS.values()]
    for line in csv.DictReader(line for line in lines[header:] if line.startswith('"')):
        row = found.setdefault(
            line["ID"],
            {"kernel": _short(line["Kernel Name"]), "blocks": line["Grid Size"], **dict.fromkeys(columns)},
        )
        key, factor = METRICS.get(line["Metric Name"], (None, 1.0))
        if key is not None:
            try:
                row[key] = float(line["Metric Value"].replace(",", "")) * factor
            except ValueError:  # "n/a"
                row[key] = None
    return list(found.values())


def _short(name: str) -> str:
    """A kernel's name without the engine's namespace and its parameters."""
    plain = name.removeprefix("void ").replace("tbs::", "").partition("(")[0]
    return plain if len(plain) <= 80 else plain[:77] + "..."


_RUNS: dict[str, Callable[..., None]] = {
    "build": build,
    "compile": compile_only,
    "play": play_all,
    "profile": lambda name, executor, worlds: profile_step(name, executor, int(worlds)),
}

if __name__ == "__main__":
    _RUNS[sys.argv[1]](*sys.argv[2:])
