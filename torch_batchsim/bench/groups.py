"""Worlds in groups (``GroupedEnv``) beside the same worlds in one batch, with policies that wait here or elsewhere."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import torch
import tyro
from gymnasium.spaces import Box, Discrete

from ..base.text import table
from ..command_line import UsageError, parsed
from ..declare.environment import Environment
from ..declare.options import Option, Parameters
from ..declare.schema import Archetype, Component, Reward, TaskGraph
from ..testing import random_actions
from ..types import f32, i32, u32
from ..vector.grouped_env import GroupedEnv
from ..vector.registration import declared, find_id
from ..vector.vector_env import TorchVectorEnv
from .policy import Policy
from .report import machine_facts, made_folder
from .throughput import wait_for

ABOUT = """\
Groups gain where threads wait: for a policy on another device, or for the few worlds whose episodes begin with long
work. They gain nothing where policy and worlds take turns on the same cores, and cost where a step is short, because
a group's hand-over takes some tens of microseconds. A loop that takes the first ready group sees slow worlds less
often. Figures are rows per second; the ratio is to one batch."""


class Ground(Component):
    heights: f32[1024]


class Place(Component):
    cell: u32


class Move(Component):
    to: i32  # 0 back, 1 stay, 2 on


class View(Component):
    around: f32


class Terrain(Environment):
    """A walk over a terrain. Each episode begins with a new one, which takes some thousand times as long as a step."""

    systems = "terrain.h"
    parameters = Parameters(
        detail=Option(1000, minimum=0, help="draws for each of 1,024 heights of a new terrain"),
        sight=Option(8, minimum=0, help="times that a step looks at all heights"),
        steps=Option(1000.0, minimum=1.0, help="of an episode, on average"),
    )
    archetypes = [Archetype("Walker", Ground, Place, Move, View, Reward, count=1)]
    start, step, observe = TaskGraph("raise"), TaskGraph("walk", "fall"), TaskGraph("look")
    observation, action = "Walker.View", "Walker.Move.to"
    action_space, observation_space = Discrete(3), Box(-float("inf"), float("inf"), ())


@dataclass
class Options:
    """Worlds in groups beside the same worlds in one batch."""

    environment: tyro.conf.Positional[str] = "overcooked"
    """By its short name, its id, or module:id."""
    num_envs: int = 65_536
    """Rows (of whole worlds); a multiple of the groups."""
    terrains: int = 64
    """Worlds of the environment with rare expensive resets."""
    groups: list[int] = field(default_factory=lambda: [2, 4, 8])
    device: str = "cpu"
    num_threads: int | None = None
    wait_ms: float | None = None
    """Time of a decision for all rows by a policy elsewhere, simulated by a sleep; that of a group is in proportion to
    its rows. By default as long as a step, at least 5 ms: a sleep is late by some tenths of a millisecond."""
    seconds: float = 1.0
    """Length of one run; a figure is the median of the runs."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    json: Path = Path("runs/bench-groups.json")
    """File for the figures."""


Decide = Callable[[Any], torch.Tensor]  # from observations
Decider = Callable[[Any], Decide]  # from a vector environment


def prepared(env: Any) -> Decide:
    """No policy: prepared actions, with masks legal ones."""
    actions, count = random_actions(env), 0

    def decide(observations: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        return actions[count % len(actions)]

    return decide


def waiting(seconds_per_row: float) -> Decider:
    """A policy that computes elsewhere: this thread sleeps."""

    def make(env: Any) -> Decide:
        decide, seconds = prepared(env), seconds_per_row * env.num_envs

        def wait(observations: Any) -> torch.Tensor:
            time.sleep(seconds)
            return decide(observations)

        return wait

    return make


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python -m torch_batchsim.bench groups", arguments)
    made_folder(options.json.parent, "--json")
    try:
        result = {"benchmark": "groups", **measured(options), "machine": machine_facts(options.device)}
    except (ValueError, TypeError, RuntimeError, MemoryError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from None
    print(ABOUT)
    print(f"a decision elsewhere takes {result['wait_ms']:.2f} ms for all rows (simulated)")
    print(table([{**row, "ratio": f"{row['ratio']:.2f}"} for row in result["rows"]]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


def measured(options: Options) -> dict[str, Any]:
    """All figures."""
    numbers = (options.num_envs, options.terrains, options.runs, *options.groups)
    if min(numbers) < 1 or options.seconds <= 0 or (options.wait_ms or 1) <= 0:
        raise ValueError("--num-envs, --terrains, --groups, --seconds, --runs and --wait-ms must be positive")
    declaration = declared(find_id(options.environment), {})
    rate = _one_batch(declaration, options, prepared, num_envs=options.num_envs)
    wait_ms = options.wait_ms or max(5.0, 1e3 * options.num_envs / rate)
    deciders: dict[str, Decider] = {
        "none": prepared,
        "same threads": Policy,
        "elsewhere": waiting(wait_ms / 1e3 / options.num_envs),
    }
    rows = []
    for name, decider in deciders.items():
        size = {"num_envs": options.num_envs}
        rows += _compared(declaration, options, name, decider, **size)
    rows += _compared(Terrain(), options, "none", prepared, num_worlds=options.terrains)
    return {"wait_ms": wait_ms, "rows": rows}


def _compared(
    environment: Environment, options: Options, policy: str, decider: Decider, **size: int
) -> list[dict[str, Any]]:
    what = {"environment": environment.name, "rows": next(iter(size.values())), "policy": policy}
    one = _one_batch(environment, options, decider, **size)
    rows = [{**what, "groups": 1, "rows_per_second": one, "ratio": 1.0}]
    for groups in options.groups:
        rate = _in_groups(environment, options, decider, groups, **size)
        rows.append({**what, "groups": groups, "rows_per_second": rate, "ratio": rate / one})
    return rows


def _one_batch(environment: Environment, options: Options, decider: Decider, **size: int) -> float:
    env = TorchVectorEnv(environment, device=options.device, num_threads=options.num_threads, **size)
    decide = decider(env)
    observations = env.reset(seed=0)[0]

    def step() -> int:
        nonlocal observations
        observations = env.step(decide(observations))[0]
        return env.num_envs

    return _rate(step, options)


def _in_groups(environment: Environment, options: Options, decider: Decider, groups: int, **size: int) -> float:
    arguments = {"device": options.device, "num_threads": options.num_threads, **size}
    with GroupedEnv(environment, groups=groups, **arguments) as env:
        for part in env.environments:
            part.reset(seed=0)
        deciders = [decider(part) for part in env.environments]
        env.async_reset(seed=0)

        def step() -> int:
            batch = env.recv()
            env.send(batch.group, deciders[batch.group](batch.observations))
            return env.group_envs

        return _rate(step, options)


def _rate(step: Callable[[], int], options: Options) -> float:
    """Rows per second, the median of the runs."""
    rates = []
    for seconds in (0.2 * options.seconds, *[options.seconds] * options.runs):  # the first is to warm up
        wait_for(options.device)
        started, rows = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - started) < seconds:
            rows += step()
        wait_for(options.device)
        rates.append(rows / (elapsed if options.device == "cpu" else time.perf_counter() - started))
    return statistics.median(rates[1:])
