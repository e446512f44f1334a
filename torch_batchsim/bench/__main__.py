"""Command line of the benchmarks."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import gymnasium
import torch
import tyro

from ..registration import find_id
from ..text import table
from .ecs import ROWS, WORLDS, measure_ecs, printable
from .peers import measure_peers
from .report import machine_facts, made_folder
from .throughput import build_seconds, measure, random_action_batches

_BATCH_SIZES = (1, 1024, 16384, 131072, 1048576)


@dataclass
class Options:
    """Steps per second through the public ``env.step(actions)`` with observations, rewards and autoreset."""

    environment: tyro.conf.Positional[str]
    """An environment by its short name (cartpole), its id, or module:id; or 'peers': CartPole of others beside ours;
    or 'ecs': rows that come and go, beside C++ by hand; or 'paper': the paper's experiments ('paper --help')."""
    num_envs: list[int] | None = None
    """Batch sizes (rows); of 'ecs' worlds. By default from 1 to 1048576, of 'ecs' from 64 to 65536."""
    rows: list[int] = field(default_factory=lambda: list(ROWS))
    """Of 'ecs': rows in a world."""
    device: str = "cpu"
    num_threads: int | None = None
    """On CPU; all cores by default, of 'ecs' 1 and all cores."""
    executor: str | None = None
    """How the task graph is run: batch or per_world on CPU; graph, megakernel or per_world on CUDA. By default what was
    tuned before, else the first of these."""
    tune: bool = False
    """First measure how steps are run best here, and say what was gained; kept for later simulators."""
    trace: Path | None = None
    """Folder for a trace of a few steps of each batch size: a file for ui.perfetto.dev, a picture, a table."""
    seconds: float = 1.0
    """Length of one run; a figure is the median of the runs."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    build: bool = True
    """Also measure a cold build and a warm start."""
    json: Path | None = None
    """File for the figures; runs/bench-<environment>.json if not given."""


def main() -> None:
    """Measure, print a table, write JSON."""
    if sys.argv[1:2] == ["paper"]:  # which has options of its own
        from . import paper

        paper.main(sys.argv[2:])
        return
    options = tyro.cli(Options, prog="python -m torch_batchsim.bench")
    if options.num_envs is None:
        options.num_envs = list(WORLDS if options.environment == "ecs" else _BATCH_SIZES)
    if any(n < 1 for n in (*options.num_envs, *options.rows)) or options.seconds <= 0 or options.runs < 1:
        raise SystemExit("error: --num-envs, --rows, --seconds and --runs must be positive")
    given = [f"--{name}" for name in ("executor", "tune", "trace") if getattr(options, name)]
    if options.environment in ("peers", "ecs") and given:
        raise SystemExit(f"error: {' and '.join(given)} can be given for environments, not for {options.environment!r}")
    if options.executor and options.tune:
        raise SystemExit(f"error: --tune chooses the executor, but --executor {options.executor} was given too")
    name = options.environment.rpartition("/")[2].lower()
    path = options.json or Path("runs") / f"bench-{name}.json"
    made_folder(path.parent, "--json" if options.json else "the folder of the figures")
    if options.trace is not None:
        made_folder(options.trace, "--trace")
    if options.environment == "peers":
        rows = measure_peers(options.num_envs, options.seconds, options.runs)
        result: dict[str, object] = {"benchmark": "peers", "rows": rows}
    elif options.environment == "ecs":
        try:
            rows = _measure_ecs(options)
        except (ValueError, RuntimeError) as error:
            raise SystemExit(f"error: {error}") from None
        result = {"benchmark": "ecs", "rows": rows}
    else:
        try:
            figures = _measure_environment(find_id(options.environment), options)
        except (ValueError, TypeError, RuntimeError, OSError, gymnasium.error.Error) as error:
            raise SystemExit(f"error: {error}") from None
        result = {"benchmark": options.environment, **figures}
        rows = result["rows"]
    result["machine"] = machine_facts(options.device)
    print(table(printable(rows) if options.environment == "ecs" else rows))
    for name in ("cold_build_seconds", "warm_start_seconds"):
        if name in result:
            print(f"{name.replace('_', ' ')}: {result[name]:.2f}")
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")


def _measure_ecs(options: Options) -> list[dict[str, object]]:
    if options.device != "cpu":
        raise ValueError("'ecs' has a baseline for CPU only")
    return measure_ecs(options.num_envs, options.rows, options.num_threads, options.seconds, options.runs)


def _measure_environment(env_id: str, options: Options) -> dict[str, object]:
    rows = []
    for wanted in options.num_envs:
        env = gymnasium.make_vec(env_id, num_worlds=1, device=options.device)
        worlds = max(1, wanted // env.unwrapped.num_agents)  # whole worlds, where a world has several rows
        env = gymnasium.make_vec(
            env_id,
            num_worlds=worlds,
            device=options.device,
            num_threads=options.num_threads,
            executor=options.executor,
        )
        num_envs = env.num_envs
        env.reset(seed=0)
        if options.tune:
            print(f"{env.unwrapped.tune()}\n")
        actions = random_action_batches(env)
        rate = measure(env.step, actions, num_envs, options.seconds, options.runs, options.device)
        if options.trace is not None:
            _trace(env, actions, options.trace, f"{options.environment.rpartition('/')[2].lower()}-{num_envs}")
        rows.append(
            {
                "num_envs": num_envs,
                "executor": env.unwrapped.sim.executor,
                "steps_per_second": rate.median,
                "us_per_step": num_envs / rate.median * 1e6,
                "slowest_run": rate.slowest,
                "fastest_run": rate.fastest,
                "bytes_per_world": env.unwrapped.sim.bytes_per_world,
            }
        )
        env.close()
    result: dict[str, object] = {"device": options.device, "num_threads": options.num_threads, "rows": rows}
    if options.build:
        module = options.environment.rpartition(":")[0] or "torch_batchsim"
        cold, warm = build_seconds(env_id, options.device, module)
        result |= {"cold_build_seconds": cold, "warm_start_seconds": warm}
    return result


def _trace(env: gymnasium.vector.VectorEnv, actions: list[torch.Tensor], folder: Path, name: str) -> None:
    """Trace some steps: as many as give a picture in which one step can still be told from the next."""
    with env.unwrapped.tracing() as trace:
        for i in range(105):
            if i == 100:
                trace.restart()
            env.step(actions[i % len(actions)])
    trace.save(folder / f"{name}.json")
    trace.draw(folder / f"{name}.png")
    (folder / f"{name}.txt").write_text(f"{trace}\n")
    print(f"{trace}\nwritten to {folder / name}.json, .png and .txt\n")


if __name__ == "__main__":
    main()
