"""Steps beside other processes that keep cores busy, by each choice of threads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import torch
import tyro

from ..base.text import table
from ..command_line import UsageError, parsed
from ..run.crew import Which, choose
from ..testing import random_actions
from ..vector.registration import declared, find_id
from ..vector.vector_env import TorchVectorEnv
from .policy import Policy
from .report import machine_facts, made_folder

ABOUT = """\
A tight loop steps with prepared actions; in the other one a policy in torch (64 tanh units) decides before each step.
Times are microseconds: the mean over a run, and of the runs the median. Threads: `all` as the engine runs steps,
`team` waits for torch's threads at each step's end, `one` steps on the calling thread; torch's own operations have all
threads. Each process that measures imports torch first, so that its idle threads spin as long as they do by default."""

_THREADS = {"all": Which.BEST, "team": Which.TEAM, "one": Which.BEST}
_BUSY = "while True: pass"
_MEASURE = """\
import json, sys, torch
from torch_batchsim.bench.contention import measure
print(json.dumps(measure(**json.loads(sys.argv[1]))))
"""
_LEFT_OUT = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # of the environment: the commands of this package set the first


@dataclass
class Options:
    """Steps beside other processes that keep cores busy."""

    environment: tyro.conf.Positional[str] = "cartpole"
    """By its short name, its id, or module:id."""
    num_envs: list[int] = field(default_factory=lambda: [16_384])
    """Rows (of whole worlds)."""
    busy: list[int] = field(default_factory=lambda: [0, 1])
    """Processes beside it that only count."""
    seconds: float = 1.0
    """Length of one run of each loop."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 3
    """In turns; a figure is the median of the runs."""
    json: Path = Path("runs/bench-contention.json")
    """File for the figures."""


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python -m torch_batchsim.bench contention", arguments)
    made_folder(options.json.parent, "--json")
    try:
        result = {"benchmark": "contention", "rows": measured(options), "machine": machine_facts("cpu")}
    except (ValueError, TypeError, RuntimeError, MemoryError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from None
    print(ABOUT)
    print(table(result["rows"]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


@dataclass(frozen=True)
class Times:
    """Means over a run, in microseconds."""

    tight_step: float
    policy_step: float
    policy_loop: float


def measured(options: Options) -> list[dict[str, Any]]:
    """A row for each number of worlds, of busy processes, and choice of threads."""
    if min([*options.num_envs, options.runs]) < 1 or options.seconds <= 0 or min(options.busy) < 0:
        raise ValueError("--num-envs, --seconds and --runs must be positive, --busy at least 0")
    declared(find_id(options.environment), {})  # an error here is clearer than one of each process
    rows = []
    for num_envs in options.num_envs:
        for busy in options.busy:
            runs: dict[str, list[Times]] = {threads: [] for threads in _THREADS}
            for _ in range(options.runs):
                for threads, times in runs.items():
                    times.append(_in_a_process(options, num_envs, busy, threads))
            for threads, times in runs.items():
                median = {name: statistics.median(getattr(each, name) for each in times) for name in asdict(times[0])}
                facts = {"environment": options.environment, "envs": num_envs, "busy": busy, "threads": threads}
                rows.append({**facts, **{name: round(value, 1) for name, value in median.items()}})
    return rows


def _in_a_process(options: Options, num_envs: int, busy: int, threads: str) -> Times:
    given = {"environment": options.environment, "num_envs": num_envs, "threads": threads, "seconds": options.seconds}
    variables = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    with _busy_processes(busy):
        command = [sys.executable, "-c", _MEASURE, json.dumps(given)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a process that measures has failed: {done.stderr.strip()}")
    return Times(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def measure(environment: str, num_envs: int, threads: str, seconds: float) -> dict[str, float]:
    """The times of one run in this process, see ``Times``."""
    declaration = declared(find_id(environment), {})
    env = TorchVectorEnv(declaration, num_envs=num_envs, num_threads=1 if threads == "one" else None)
    observations = env.reset(seed=0)[0]
    actions, policy = random_actions(env), Policy(env)
    with choose(_THREADS[threads]):
        for _ in range(3):
            observations = env.step(policy(observations))[0]
        tight, _ = _loop(env, lambda _, count: actions[count % len(actions)], observations, seconds)
        step, loop = _loop(env, lambda seen, _: policy(seen), observations, seconds)
    return asdict(Times(tight, step, loop))


def _loop(
    env: TorchVectorEnv, decide: Callable[[Any, int], torch.Tensor], observations: Any, seconds: float
) -> tuple[float, float]:
    """The mean microseconds of a step, and of a decision and a step."""
    within, count, started = 0.0, 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        actions = decide(observations, count)
        begun = time.perf_counter()
        observations = env.step(actions)[0]
        within += time.perf_counter() - begun
        count += 1
    return 1e6 * within / count, 1e6 * elapsed / count
