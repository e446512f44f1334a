"""Command line of the benchmarks."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import torch
import tyro

from ..base.extras import needed
from ..base.text import table
from ..command_line import (
    RUN_FLAGS,
    VERSIONS,
    RunFlags,
    UsageError,
    flags_of,
    long_env_options,
    noted,
    option_help,
    parse_env_options,
    parsed,
    refuse_unknown,
    unheard,
)
from ..errors import StepInterrupted
from ..testing import random_actions
from ..vector.registration import find_id, option_names
from .ecs import ROWS, WORLDS, measure_ecs, printable
from .peers import PEERS, measure_peers
from .policy import UNITS, measure_with_policy
from .report import machine_facts, made_folder
from .throughput import build_seconds, measure, us_of_drawing

_BATCH_SIZES = (1, 1024, 16384, 131072, 1048576)
_OTHER_OPTIONS = {
    "id": "the first argument",
    "num_envs": "--num-envs",
    "num_worlds": "--num-envs",
    "device": "--device",
    "num_threads": "--num-threads",
    **RUN_FLAGS,
}


_PROGRAM = "python -m torch_batchsim.bench"
_NOT_ENVIRONMENTS = ("peers", "ecs")
_OF_THEIR_OWN = ("adapters", "contention", "groups", "physics")  # modules with options of their own
_OF_ENVIRONMENTS = (*RUN_FLAGS, "tune", "policy", "trace", "env_option")


@dataclass(frozen=True)
class Options(RunFlags):
    """Steps per second through the public ``env.step(actions)`` with observations, rewards and autoreset."""

    environment: tyro.conf.Positional[str]
    """An environment by its short name (cartpole), its id, module:id or file.py; or 'peers': other libraries beside
    ours; or 'ecs': rows that come and go, beside C++ by hand; or 'physics': rigid bodies ('physics --help'); or
    'adapters': through other libraries' interfaces; or 'groups': worlds in groups ('groups --help'); or
    'contention': beside busy processes ('contention --help')."""
    num_envs: list[int] | None = None
    """Batch sizes (rows, rounded to whole worlds); of 'ecs' and 'peers' worlds. By default from 1 to 1048576, of 'ecs'
    from 64 to 65536."""
    env_option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the environment as key=value, such as layout=coordination_ring; may be given several times. Where
    no other option has that name, --layout coordination_ring says the same."""
    peers_of: str = "cartpole"
    """Of 'peers': cartpole, overcooked or hanabi."""
    rows: list[int] = field(default_factory=lambda: list(ROWS))
    """Of 'ecs': rows in a world."""
    device: str = "cpu"
    """Where simulators run: cpu, cuda, cuda:1."""
    num_threads: int | None = None
    """On CPU; as many as torch uses by default, of 'ecs' 1 and all cores."""
    tune: bool = False
    """First choose the fastest way to run steps here, and print the gain; kept for later simulators."""
    policy: bool = False
    """Also measure env.step with a policy in torch between steps, as in a training: without it, and the whole loop."""
    trace: Path | None = None
    """Folder for a trace of a few steps of each batch size: a file for ui.perfetto.dev, a picture, a table."""
    seconds: float = 1.0
    """Length of one run; a figure is the median of the runs."""
    runs: Annotated[int, tyro.conf.arg(name="runs")] = 5
    """Runs of each figure."""
    build: bool = True
    """Also measure a cold build and a warm start."""
    json: Path | None = None
    """File for the figures; runs/bench-<environment>.json if not given."""


def main() -> None:
    """Measure, print a table, write JSON."""
    if sys.argv[1:2] and sys.argv[1] in _OF_THEIR_OWN:
        importlib.import_module(f".{sys.argv[1]}", __package__).main(sys.argv[2:])
        return
    try:
        arguments = _prepared(sys.argv[1:])
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
    options = parsed(Options, _PROGRAM, arguments)
    try:
        _check(options)
        if options.trace is not None:
            needed("matplotlib")  # rather than miss it when all has been measured
        name = options.environment.rpartition("/")[2].lower().removesuffix(".py").replace(":", "-")
        path = options.json or Path("runs") / f"bench-{name}.json"
        made_folder(path.parent, "--json" if options.json else "the folder of the figures")
        if options.trace is not None:
            made_folder(options.trace, "--trace")
        result = {"benchmark": options.environment, **_measured(options), "machine": machine_facts(options.device)}
    except StepInterrupted as stopped:
        print(f"error: {stopped}", file=sys.stderr)
        raise SystemExit(130) from None
    except (ValueError, TypeError, RuntimeError, MemoryError, OSError, ImportError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from None
    print(_text(result))
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")


def _prepared(arguments: list[str]) -> list[str]:
    """The arguments with options of the environment as ``--env-option``; with ``--help`` prints these options.

    Raises UsageError for an unknown option, ValueError for an unknown environment.
    """
    name, own = next(iter(arguments), ""), flags_of(Options)
    if not name:
        raise UsageError(f"name an environment: {_PROGRAM} cartpole; {_PROGRAM} --help lists all")
    if name == "--version":
        print(VERSIONS)
        raise SystemExit(0)
    if name.startswith("-"):
        return arguments
    env_id = None if name in _NOT_ENVIRONMENTS else find_id(name)
    names = [option for option in option_names(env_id) if option not in own] if env_id else []
    if env_id and {"-h", "--help"} & set(arguments):
        print(option_help(env_id, own))
    arguments = long_env_options(arguments, names)
    refuse_unknown(arguments, own, names, f"{_PROGRAM} {name}")
    return arguments


def _check(options: Options) -> None:
    """Raise ValueError for options that do not go together."""
    numbers = {"--num-envs": options.num_envs or (), "--rows": options.rows, "--runs": (options.runs,)}
    for name, given in {**numbers, "--seconds": (options.seconds,)}.items():
        wrong = next((number for number in given if number <= 0), None)
        if wrong is not None:
            raise ValueError(f"{name} must be positive, got {wrong}")
    given = [name for name in _OF_ENVIRONMENTS if getattr(options, name) not in (None, False, ())]
    if options.environment in ("peers", "ecs") and given:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"{names} can only be given for environments, got {options.environment!r}")
    if options.executor and options.tune:
        raise ValueError(f"--tune chooses the executor, but --executor {options.executor} was given too")
    if options.environment == "ecs" and options.device != "cpu":
        raise ValueError(f"'ecs' has a baseline for CPU only, got --device {options.device}")
    if options.peers_of != "cartpole" and options.environment != "peers":
        raise ValueError(f"--peers-of goes with 'peers', not with {options.environment!r}")
    if options.peers_of not in PEERS:
        raise ValueError(f"--peers-of is one of {', '.join(PEERS)}, got {options.peers_of!r}")


def _measured(options: Options) -> dict[str, Any]:
    sizes = options.num_envs or list(WORLDS if options.environment == "ecs" else _BATCH_SIZES)
    if options.environment == "peers":
        rows = measure_peers(options.peers_of, sizes, options.seconds, options.runs)
        return {"peers_of": options.peers_of, "rows": rows}
    if options.environment == "ecs":
        return {"rows": measure_ecs(sizes, options.rows, options.num_threads, options.seconds, options.runs)}
    return _measure_environment(find_id(options.environment), sizes, options)


def _text(result: dict[str, Any]) -> str:
    """The figures as text."""
    rows, lines = result["rows"], []
    if result.get("env_options"):
        given = (f"{key}={value!r}" for key, value in result["env_options"].items())
        lines.append(f"options of the environment: {', '.join(given)}")
    if result.get("num_agents", 1) > 1:
        lines.append(f"{result['num_agents']} agents in a world; steps_per_second counts agents (rows)")
    if any("us_of_drawing" in row for row in rows):
        lines.append("every step includes drawing actions that the masks allow, which takes us_of_drawing")
    if any("policy_steps_per_second" in row for row in rows):
        lines.append(
            f"policy_steps_per_second is env.step without the policy of {UNITS} tanh units between steps; "
            "loop_steps_per_second is both"
        )
    lines.append(table(printable(rows) if result["benchmark"] == "ecs" else rows))
    for name in ("cold_build_seconds", "warm_start_seconds"):
        if name in result:
            lines.append(f"{name.replace('_', ' ')}: {result[name]:.2f}")
    return "\n".join([*lines, "  ".join(f"{key} {value}" for key, value in result["machine"].items())])


# ---- an environment ------------------------------------------------------------------------------------------------


def _measure_environment(env_id: str, sizes: Sequence[int], options: Options) -> dict[str, Any]:
    env_options = parse_env_options(options.env_option, _OTHER_OPTIONS)
    make = partial(gymnasium.make_vec, env_id, device=options.device, **options.run_options(), **env_options)
    one = make(num_worlds=1)
    agents = one.unwrapped.num_agents
    if warning := unheard(one, options.log):
        print(warning)
    one.close()
    make = partial(make, num_threads=options.num_threads)
    result: dict[str, Any] = {
        "env_options": env_options,
        "num_agents": agents,
        "device": options.device,
        "num_threads": options.num_threads,
        "rows": [_measure_size(make(num_worlds=worlds), options) for worlds in _whole_worlds(sizes, agents)],
    }
    if options.build:
        print("measuring builds", file=sys.stderr, flush=True)
        cold, warm = build_seconds(options.environment, options.device, env_options)
        result |= {"cold_build_seconds": cold, "warm_start_seconds": warm}
    return result


def _whole_worlds(sizes: Sequence[int], agents: int) -> list[int]:
    """Numbers of worlds for numbers of rows; prints where rows are rounded."""
    worlds = [max(1, size // agents) for size in sizes]
    for size, count in zip(sizes, worlds, strict=True):
        if count * agents != size:
            whole = f"{count} world{'s' if count > 1 else ''} of {agents} agents"
            print(f"--num-envs {size}: rounded to {count * agents} rows, which are {whole}")
    return worlds


def _measure_size(env: gymnasium.vector.VectorEnv, options: Options) -> dict[str, Any]:
    num_envs, worlds = env.num_envs, env.unwrapped.num_worlds
    print(f"measuring {num_envs} rows", file=sys.stderr, flush=True)  # the table comes when all are measured
    env.reset(seed=0)
    if options.tune:
        print(f"{env.unwrapped.tune()}\n")
    actions = random_actions(env)
    rate = measure(env.step, actions, num_envs, options.seconds, options.runs, options.device)
    drawing = us_of_drawing(actions, options.seconds, options.device)
    with_policy, loop = None, None
    if options.policy:
        with_policy, loop = measure_with_policy(env, options.seconds, options.runs, options.device)
    if options.trace is not None:
        _trace(env, actions, options.trace, f"{options.environment.rpartition('/')[2].lower()}-{num_envs}")
    if lines := noted(env):
        print(f"logs of {num_envs} rows:\n{lines}\n")
    several = num_envs > worlds
    row = {
        "num_envs": num_envs,
        "num_worlds": worlds if several else None,
        "executor": env.unwrapped.sim.executor,
        "steps_per_second": rate.median,
        "world_steps_per_second": rate.median * worlds / num_envs if several else None,
        "us_per_step": num_envs / rate.median * 1e6,
        "us_of_drawing": drawing or None,
        "policy_steps_per_second": with_policy and with_policy.median,
        "loop_steps_per_second": loop and loop.median,
        "slowest_run": rate.slowest,
        "fastest_run": rate.fastest,
        "bytes_per_world": env.unwrapped.sim.bytes_per_world,
    }
    env.close()
    return {key: value for key, value in row.items() if value is not None}


def _trace(env: gymnasium.vector.VectorEnv, actions: Sequence[torch.Tensor], folder: Path, name: str) -> None:
    """Trace five steps: few enough to see each of them in the picture."""
    with env.unwrapped.tracing() as trace:
        for i in range(105):
            if i == 100:
                trace.restart()
            env.step(actions[i % len(actions)])
    trace.save(folder / f"{name}.json")
    trace.draw(folder / f"{name}.png")
    (folder / f"{name}.txt").write_text(f"{trace}\n")
    print(f"{trace}\nwritten to {folder / name}.json, .png and .txt\n")
