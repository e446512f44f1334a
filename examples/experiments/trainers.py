"""Our trainer beside other PPOs on CartPole: same networks, rollouts, epochs and minibatches, measured in one run.

- ``ours``: ``torch_batchsim.train``; ``ours_bfloat16``: the same with ``--matmul-precision medium``.
- ``torch``: a plain PPO in the manner of CleanRL on Gymnasium's own vector CartPole (``plain_ppo``).
- ``jax``: a PPO whose simulation and updates are one jitted function, as in PureJaxRL, on gymnax (``jax_ppo``).
- ``sb3``: Stable-Baselines3.

Each runs in a process of its own, on the same cores, and in turns with the others. Missing ones are left out with a
note: ``pip install gymnax jax six stable-baselines3`` brings them. Whole iterations are timed, rollout
and updates, without the compilation and the first of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch
from plain_ppo import PlainPPO
from torch_batchsim.train import Config, PPOConfig, Trainer

from torch_batchsim.base.text import table
from torch_batchsim.bench.report import machine_facts, made_folder
from torch_batchsim.command_line import UsageError, parsed

_MANY = 10**12  # steps, more than are ever taken
Iterate = Callable[[], Any]
"""One rollout and its updates; returns when they are done."""


@dataclass
class Options:
    """Our trainer beside other PPOs on CartPole, with the same networks, rollouts, epochs and minibatches."""

    num_envs: int = 256
    """CartPoles side by side."""
    num_steps: int = 128
    """Steps of each in a rollout."""
    num_minibatches: int = 8
    """Parts of a rollout, each for one step of the optimiser."""
    update_epochs: int = 4
    """Passes over a rollout."""
    hidden: int = 64
    """Units of each of two hidden layers of tanh, of the actor and of the critic."""
    threads: int = 1
    """CPU threads, and cores, that each may use."""
    trainers: tuple[str, ...] = ("ours", "ours_bfloat16", "torch", "jax", "sb3")
    """Which of them to measure."""
    seconds: float = 3.0
    """Length of one run, at least one iteration; a figure is the median of the runs."""
    runs: int = 3
    """Runs of each trainer."""
    json: Path = Path("runs/bench-trainers.json")
    """File for the figures."""


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python examples/experiments/trainers.py", arguments)
    unknown = [name for name in options.trainers if name not in TRAINERS]
    if unknown or not options.trainers:
        raise UsageError(f"--trainers takes {', '.join(TRAINERS)}, got {', '.join(unknown) or 'none'}")
    numbers = (options.num_envs, options.num_steps, options.num_minibatches, options.update_epochs, options.hidden)
    if min(*numbers, options.threads, options.runs) < 1 or options.seconds <= 0:
        raise UsageError("all numbers must be positive")
    if options.num_envs * options.num_steps % options.num_minibatches:
        raise UsageError("--num-minibatches must divide --num-envs times --num-steps")
    config = PPOConfig(
        total_steps=_MANY,
        num_envs=options.num_envs,
        num_steps=options.num_steps,
        num_minibatches=options.num_minibatches,
        update_epochs=options.update_epochs,
        hidden_sizes=(options.hidden, options.hidden),
    )
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    if len(cores) < options.threads:
        raise UsageError(f"--threads is {options.threads}, but this process may use {len(cores)} cores")
    made_folder(options.json.parent, "--json")
    rates: dict[str, list[float]] = {name: [] for name in options.trainers}
    left_out: dict[str, str] = {}
    for run in range(options.runs):  # in turns, so that a slow minute of the machine meets all of them
        for name in options.trainers:
            if name not in left_out:
                print(f"measuring {name}, run {run + 1} of {options.runs}", file=sys.stderr, flush=True)
                rate, why = _measured(name, config, options.seconds, cores)
                rates[name] += [rate] if rate else []
                if why:
                    left_out[name] = why
    result = {
        "benchmark": "trainers",
        "settings": asdict(config),
        "threads": options.threads,
        "rows": _rows(rates),
        "left_out": left_out,
        "machine": machine_facts("cpu"),
    }
    for name, why in left_out.items():
        print(f"{name}: left out ({why})")
    print(table(result["rows"]))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


def _rows(rates: dict[str, list[float]]) -> list[dict[str, Any]]:
    medians = {name: statistics.median(each) for name, each in rates.items() if each}
    ours = medians.get("ours")
    return [
        {
            "trainer": name,
            "steps_per_second": median,
            "slowest_run": min(rates[name]),
            "fastest_run": max(rates[name]),
            "ours_is_faster_by": f"{ours / median:.2f}" if ours else None,
        }
        for name, median in medians.items()
    ]


def _measured(name: str, config: Config, seconds: float, cores: list[int]) -> tuple[float, str]:
    """Steps per second in a process of its own; 0.0 and the reason where it cannot run."""
    given = json.dumps({"name": name, "settings": asdict(config), "seconds": seconds, "cores": cores})
    threads = str(len(cores))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--child", given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return 0.0, lines[-1] if lines else f"status {done.returncode}"
    return float(done.stdout.split()[-1]), ""


def _child(given: str) -> None:
    """Measure one trainer, and print its steps per second."""
    asked = json.loads(given)
    os.sched_setaffinity(0, asked["cores"])
    given = asked["settings"]
    config = PPOConfig(**{**given, "hidden_sizes": tuple(given["hidden_sizes"]), "encoders": tuple(given["encoders"])})
    iterate = TRAINERS[asked["name"]](config, len(asked["cores"]))
    iterate()
    started, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - started < asked["seconds"]:
        iterate()
        count += 1
    print(count * config.num_envs * config.num_steps / (time.perf_counter() - started))


# ---- the trainers ----------------------------------------------------------------------------------------------------


def _ours(config: Config, threads: int) -> Iterate:
    torch.set_num_threads(threads)
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=config.num_envs, num_threads=threads)
    return Trainer(env, config).iterate


def _ours_bfloat16(config: Config, threads: int) -> Iterate:
    return _ours(replace(config, matmul_precision="medium"), threads)


def _torch(config: Config, threads: int) -> Iterate:
    torch.set_num_threads(threads)
    return PlainPPO(config).iterate


def _jax(config: Config, threads: int) -> Iterate:
    from jax_ppo import JaxPPO

    return JaxPPO(config).iterate


def _sb3(config: Config, threads: int) -> Iterate:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(threads)
    sizes, rollout = list(config.hidden_sizes), config.num_envs * config.num_steps
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=config.num_envs, seed=0),
        learning_rate=config.learning_rate,
        n_steps=config.num_steps,
        batch_size=rollout // config.num_minibatches,
        n_epochs=config.update_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_coef,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"net_arch": {"pi": sizes, "vf": sizes}},
        device="cpu",
        seed=0,
    )
    return partial(model.learn, rollout, reset_num_timesteps=False)


TRAINERS: dict[str, Callable[[Config, int], Iterate]] = {
    "ours": _ours,
    "ours_bfloat16": _ours_bfloat16,
    "torch": _torch,
    "jax": _jax,
    "sb3": _sb3,
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2])
    else:
        main(sys.argv[1:])
