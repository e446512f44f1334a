"""Steps per second through adapters, against the bare vector environment in the same run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import torch
import tyro

from ..adapters.records import ADAPTERS, CARTPOLE, OVERCOOKED, Adapter, Played
from ..base.text import table
from ..command_line import UsageError, parsed
from ..testing import random_actions
from .report import machine_facts, made_folder
from .throughput import measure

SWARM = "torch_batchsim/Swarm-v0"
SLOTS = 32  # of a rollout
Make = Callable[[int], Played]


@dataclass(frozen=True)
class Contender:
    """An interface and the vector environment that it is compared with.

    Attributes:
        make: from the number of rows.
        bare: likewise.
        rows: where their number is fixed, for interfaces to one world.
        installed: whether the library is.
    """

    make: Make
    bare: Make
    rows: int | None = None
    installed: Callable[[], bool] = lambda: True


def bare(num_envs: int, environment: str, **arguments: Any) -> Played:
    """The vector environment as it is."""
    env = gymnasium.make_vec(environment, num_envs=num_envs, **arguments)
    env.reset(seed=0)
    actions: Sequence[Any] = random_actions(env)
    if arguments.get("output") == "numpy":
        actions = [batch.numpy() for batch in actions]
    return Played(env, type(env).step, actions)


def _of(record: Adapter, environment: str = "") -> Contender:
    environment = environment or record.environment
    return Contender(
        lambda num_envs: record.load().play(environment, num_envs, **record.options),
        partial(bare, environment=environment, **record.options, **record.bare),
        record.rows,
        record.installed,
    )


def _by_gymnasium(num_envs: int) -> Played:
    def step(env: gymnasium.Env, action: int) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    env = gymnasium.make(CARTPOLE)
    env.reset(seed=0)
    return Played(env, step, [0, 1] * 8)


def _by_agent(num_envs: int) -> Played:
    env = gymnasium.make_vec(OVERCOOKED, num_envs=num_envs, by_agent=True)
    env.reset(seed=0)
    drawn = random_actions(env.vector_env)
    actions = [{agent: part.contiguous() for agent, part in env.split(batch).items()} for batch in drawn]
    return Played(env, type(env).step, actions)


def _by_slots(num_envs: int) -> Played:
    """As the scripts in examples/ step: into the slots of a rollout."""
    env = gymnasium.make_vec(CARTPOLE, num_envs=num_envs)
    env.reset(seed=0)
    env.bind_slots(observations=torch.zeros(SLOTS, num_envs, 4), rewards=torch.zeros(SLOTS, num_envs))
    turns = cycle(range(SLOTS))

    def step(env: gymnasium.vector.VectorEnv, actions: torch.Tensor) -> None:
        env.select_slot(next(turns))
        env.step(actions)

    return Played(env, step, random_actions(env))


CONTENDERS: dict[str, Contender] = {
    **{record.library: _of(record) for record in ADAPTERS.values()},
    "TorchRL, Swarm": _of(ADAPTERS["torchrl"], SWARM),
    "Gymnasium": Contender(_by_gymnasium, partial(bare, environment=CARTPOLE, output="numpy"), rows=1),
    "by_agent": Contender(_by_agent, partial(bare, environment=OVERCOOKED)),
    "CleanRL": Contender(_by_slots, partial(bare, environment=CARTPOLE)),
}


@dataclass
class Options:
    """Steps per second through adapters of those libraries that are installed."""

    libraries: tyro.conf.Positional[tuple[str, ...]] = ()
    """By the names of the table in docs/ecosystem.md; all that are installed by default."""
    num_envs: int = 4096
    seconds: float = 0.5
    """Length of one run; a figure is the median of the runs."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    json: Path = Path("runs/bench-adapters.json")
    """File for the figures."""


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python -m torch_batchsim.bench adapters", arguments)
    unknown = [name for name in options.libraries if name not in CONTENDERS]
    if unknown:
        raise UsageError(f"libraries are {', '.join(CONTENDERS)}, got {unknown[0]!r}")
    if options.num_envs < 1 or options.runs < 1 or options.seconds <= 0:
        raise UsageError("--num-envs, --runs and --seconds must be positive")
    made_folder(options.json.parent, "--json")
    chosen = {name: CONTENDERS[name] for name in options.libraries or CONTENDERS}
    rows = [measured(name, contender, options) for name, contender in chosen.items() if contender.installed()]
    print(table(rows))
    result = {"benchmark": "adapters", "rows": rows, "machine": machine_facts("cpu")}
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


def measured(name: str, contender: Contender, options: Options) -> dict[str, Any]:
    """A row of the table."""
    rows, rates = contender.rows or options.num_envs, []
    with torch.no_grad():
        for make in (contender.bare, contender.make):
            env, step, actions = make(rows)
            rates.append(measure(partial(step, env), actions, rows, options.seconds, options.runs).median)
    return {"library": name, "envs": rows, "bare": rates[0], "adapter": rates[1], "share": rates[1] / rates[0]}
