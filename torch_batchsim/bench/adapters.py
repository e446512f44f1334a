"""Steps per second through adapters, against the bare vector environment in the same run."""

from __future__ import annotations

import importlib.util
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

from ..base.text import table
from ..command_line import UsageError, parsed
from ..testing import random_actions
from .report import machine_facts, made_folder
from .throughput import measure

CARTPOLE, OVERCOOKED = "torch_batchsim/CartPole-v0", "torch_batchsim/Overcooked-v0"
SWARM = "torch_batchsim/Swarm-v0"
Stepper = tuple[Callable[[Any], Any], Sequence[Any]]  # steps all environments by one of the prepared actions


@dataclass(frozen=True)
class Adapter:
    """How to measure one.

    Attributes:
        module: of the library; where it cannot be imported, the adapter is left out.
        make: from the number of environments.
        bare: what it is compared with, made alike.
        num_envs: where it is fixed, for interfaces to one world; the number of its agents.
    """

    module: str
    make: Callable[[int], Stepper]
    bare: Callable[[int], Stepper]
    num_envs: int | None = None


def bare_torch(num_worlds: int, environment: str = CARTPOLE, **options: Any) -> Stepper:
    """The vector environment as it is."""
    env = gymnasium.make_vec(environment, num_worlds=num_worlds, **options)
    env.reset(seed=0)
    return env.step, random_actions(env)


def bare_numpy(num_envs: int, environment: str = CARTPOLE) -> Stepper:
    """The same with NumPy arrays out and in."""
    env = gymnasium.make_vec(environment, num_envs=num_envs, output="numpy")
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


def _by_agent(num_envs: int) -> Stepper:
    env = gymnasium.make_vec(OVERCOOKED, num_worlds=num_envs, by_agent=True)
    env.reset(seed=0)
    drawn = random_actions(env.vector_env)
    return env.step, [{agent: part.contiguous() for agent, part in env.split(actions).items()} for actions in drawn]


def _by_torchrl(num_envs: int, environment: str = CARTPOLE) -> Stepper:
    from tensordict import TensorDict

    from ..adapters.torchrl import TorchRLEnv

    env = TorchRLEnv(environment, num_envs, autoreset_mode="SameStep")  # as the vector environment it is compared with
    env.set_seed(0)
    env.reset()
    spec = env.full_action_spec
    key = next(iter(spec.keys(True, True)))
    shaped = [{key: actions.view(spec[key].shape)} for actions in random_actions(env.vector_env)]
    prepared = [TensorDict(actions, env.batch_size) for actions in shaped]
    return lambda tensordict: env.step(tensordict).pop("next"), prepared


def _by_pettingzoo(num_envs: int) -> Stepper:
    from ..adapters.pettingzoo import parallel_env

    env = parallel_env(OVERCOOKED)
    env.reset(seed=0)

    def step(actions: dict[str, int]) -> None:
        env.step(actions)
        if not env.agents:
            env.reset()

    return step, [{"agent_0": i % 6, "agent_1": 5 - i % 6} for i in range(16)]


def _by_dm_env(num_envs: int) -> Stepper:
    from ..adapters.dm_env import DmEnvironment

    env = DmEnvironment(CARTPOLE, seed=0)
    env.reset()
    return env.step, [0, 1] * 8


def _by_slots(num_envs: int) -> Stepper:
    """As the scripts in examples/ step: into the slots of a rollout."""
    env = gymnasium.make_vec(CARTPOLE, num_envs=num_envs)
    slots = 32
    observations, rewards = torch.zeros(slots, num_envs, 4), torch.zeros(slots, num_envs)
    env.reset(seed=0)
    env.bind_slots(observations=observations, rewards=rewards)
    turns = cycle(range(slots))

    def step(actions: torch.Tensor) -> None:
        env.select_slot(next(turns))
        env.step(actions)

    return step, random_actions(env)


def _by_stable_baselines3(num_envs: int) -> Stepper:
    from ..adapters.stable_baselines3 import StableBaselinesVecEnv

    env = StableBaselinesVecEnv(CARTPOLE, num_envs)
    env.reset()
    return env.step, [actions.numpy() for actions in random_actions(env.vector_env)]


def _by_rsl_rl(num_envs: int) -> Stepper:
    from ..adapters.rsl_rl import RslRlEnv

    env = RslRlEnv(CARTPOLE, num_envs=num_envs, continuous=True)
    return env.step, random_actions(env.vector_env)


def _by_skrl(num_envs: int) -> Stepper:
    from ..adapters.skrl import SkrlEnv

    env = SkrlEnv(CARTPOLE, num_envs=num_envs)
    env.reset()
    return env.step, [actions.view(-1, 1) for actions in random_actions(env.vector_env)]


def _by_rl_games(num_envs: int) -> Stepper:
    from ..adapters.rl_games import RlGamesEnv

    env = RlGamesEnv(num_actors=num_envs, env=CARTPOLE)
    env.reset()
    return env.step, random_actions(env.vector_env)


def _by_envpool(num_envs: int) -> Stepper:
    from ..adapters import envpool

    env = envpool.make(CARTPOLE, num_envs=num_envs, seed=0)
    env.reset()
    return env.step, [actions.numpy() for actions in random_actions(env.grouped.environments[0])]


def _bare_of_envpool(num_envs: int) -> Stepper:
    """With the mode of EnvPool, and arrays that stay for ever, as there."""
    env = gymnasium.make_vec(CARTPOLE, num_envs=num_envs, output="numpy", copy=True, autoreset_mode="NextStep")
    env.reset(seed=0)
    return env.step, [actions.numpy() for actions in random_actions(env)]


def _by_pufferlib(num_envs: int) -> Stepper:
    import pufferlib.vector

    from ..adapters.pufferlib import PufferLibEnv

    vecenv = pufferlib.vector.make(PufferLibEnv, env_args=[CARTPOLE], env_kwargs={"num_envs": num_envs})
    vecenv.reset(seed=0)
    return vecenv.step, [actions.numpy().astype("int32") for actions in random_actions(vecenv.vector_env)]


def _by_rllib(num_envs: int) -> Stepper:
    from ..adapters.rllib import RLlibVectorEnv

    env = RLlibVectorEnv({"env": CARTPOLE, "num_envs": num_envs})
    env.reset(seed=0)
    return env.step, [actions.numpy() for actions in random_actions(env.vector_env)]


def _by_tianshou(num_envs: int) -> Stepper:
    from ..adapters.tianshou import TianshouVectorEnv

    venv = TianshouVectorEnv(CARTPOLE, num_envs)
    venv.seed(0)

    def step(actions: Any) -> None:
        _, _, terminations, truncations, _ = venv.step(actions)
        ended = (terminations | truncations).nonzero()[0]
        if len(ended):
            venv.reset(ended)

    return step, [actions.numpy() for actions in random_actions(venv.vector_env)]


ADAPTERS: dict[str, Adapter] = {
    "TorchRL": Adapter("torchrl", _by_torchrl, bare_torch),
    "TorchRL, Swarm": Adapter(
        "torchrl", partial(_by_torchrl, environment=SWARM), partial(bare_torch, environment=SWARM)
    ),
    "Gymnasium": Adapter("gymnasium", _by_gymnasium, bare_numpy, num_envs=1),
    "by_agent": Adapter("gymnasium", _by_agent, partial(bare_torch, environment=OVERCOOKED)),
    "PettingZoo": Adapter("pettingzoo", _by_pettingzoo, partial(bare_numpy, environment=OVERCOOKED), num_envs=2),
    "dm_env": Adapter("dm_env", _by_dm_env, bare_numpy, num_envs=1),
    "CleanRL": Adapter("torch", _by_slots, bare_torch),
    "Stable-Baselines3": Adapter("stable_baselines3", _by_stable_baselines3, bare_numpy),
    "rl_games": Adapter("rl_games", _by_rl_games, bare_torch),
    "rsl_rl": Adapter("rsl_rl", _by_rsl_rl, partial(bare_torch, continuous=True)),
    "skrl": Adapter("skrl", _by_skrl, bare_torch),
    "EnvPool": Adapter("torch_batchsim", _by_envpool, _bare_of_envpool),
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
    options = parsed(Options, "python -m torch_batchsim.bench adapters", arguments)
    unknown = [name for name in options.libraries if name not in ADAPTERS]
    if unknown or options.num_envs < 1 or options.runs < 1 or options.seconds <= 0:
        wrong = f"there is no adapter {unknown[0]!r}" if unknown else "--num-envs, --runs and --seconds are positive"
        raise UsageError(f"{wrong}; adapters are {', '.join(ADAPTERS)}")
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
