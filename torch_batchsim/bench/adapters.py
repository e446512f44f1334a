"""Steps per second through adapters, against the bare vector environment in the same run."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import torch
import tyro

from ..testing import random_actions
from ..text import table
from .report import machine_facts, made_folder
from .throughput import measure

CARTPOLE = "torch_batchsim/CartPole-v0"
Stepper = tuple[Callable[[Any], Any], Sequence[Any]]  # steps all environments by one of the prepared actions


@dataclass(frozen=True)
class Adapter:
    """How to measure one.

    Attributes:
        module: of the library; where it cannot be imported, the adapter is left out.
        make: from the number of environments.
        bare: what it is compared with, made alike.
        num_envs: where it is fixed, for interfaces to one world.
    """

    module: str
    make: Callable[[int], Stepper]
    bare: Callable[[int], Stepper]
    num_envs: int | None = None


def bare_torch(num_envs: int) -> Stepper:
    """The vector environment as it is, CartPole."""
    env = gymnasium.make_vec(CARTPOLE, num_envs=num_envs)
    env.reset(seed=0)
    return env.step, random_actions(env)


def bare_numpy(num_envs: int) -> Stepper:
    """The same with NumPy arrays out and in."""
    env = gymnasium.make_vec(CARTPOLE, num_envs=num_envs, output="numpy")
    env.reset(seed=0)
    return env.step, [actions.numpy() for actions in random_actions(env)]


def _by_gymnasium(num_envs: int) -> Stepper:
    env = gymnasium.make(CARTPOLE)
    env.reset(seed=0)

    def step(action: int) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return step, [0, 1] * 8


def _by_pufferlib(num_envs: int) -> Stepper:
    import pufferlib.vector

    from ..adapters.pufferlib import PufferLibEnv

    vecenv = pufferlib.vector.make(PufferLibEnv, env_args=[CARTPOLE], env_kwargs={"num_envs": num_envs})
    vecenv.reset(seed=0)
    return vecenv.step, [actions.numpy().astype("int32") for actions in random_actions(vecenv.env)]


def _by_rllib(num_envs: int) -> Stepper:
    from ..adapters.rllib import RLlibVectorEnv

    env = RLlibVectorEnv({"env_id": CARTPOLE, "num_envs": num_envs})
    env.reset(seed=0)
    return env.step, [actions.numpy() for actions in random_actions(env.env)]


def _by_tianshou(num_envs: int) -> Stepper:
    from ..adapters.tianshou import TianshouVectorEnv

    venv = TianshouVectorEnv(CARTPOLE, num_envs)
    venv.seed(0)

    def step(actions: Any) -> None:
        _, _, terminations, truncations, _ = venv.step(actions)
        ended = (terminations | truncations).nonzero()[0]
        if len(ended):
            venv.reset(ended)

    return step, [actions.numpy() for actions in random_actions(venv.env)]


ADAPTERS: dict[str, Adapter] = {
    "Gymnasium": Adapter("gymnasium", _by_gymnasium, bare_numpy, num_envs=1),
    "RLlib": Adapter("ray", _by_rllib, bare_numpy),
    "Tianshou": Adapter("tianshou", _by_tianshou, bare_numpy),
    "PufferLib": Adapter("pufferlib", _by_pufferlib, bare_numpy),
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
    options = tyro.cli(Options, prog="python -m torch_batchsim.bench adapters", args=arguments)
    unknown = [name for name in options.libraries if name not in ADAPTERS]
    if unknown or options.num_envs < 1 or options.runs < 1 or options.seconds <= 0:
        wrong = f"there is no adapter {unknown[0]!r}" if unknown else "--num-envs, --runs and --seconds are positive"
        raise SystemExit(f"error: {wrong}; adapters are {', '.join(ADAPTERS)}")
    made_folder(options.json.parent, "--json")
    rows = [measured(name, options) for name in options.libraries or ADAPTERS if installed(name)]
    print(table(rows))
    result = {"benchmark": "adapters", "rows": rows, "machine": machine_facts("cpu")}
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


def installed(name: str) -> bool:
    """Whether the library of an adapter is."""
    return importlib.util.find_spec(ADAPTERS[name].module) is not None


def measured(name: str, options: Options) -> dict[str, Any]:
    """A row of the table."""
    adapter = ADAPTERS[name]
    num_envs = adapter.num_envs or options.num_envs
    with torch.no_grad():
        rates = [
            measure(*make(num_envs), num_envs, options.seconds, options.runs).median
            for make in (adapter.bare, adapter.make)
        ]
    return {"library": name, "envs": num_envs, "bare": rates[0], "adapter": rates[1], "share": rates[1] / rates[0]}
