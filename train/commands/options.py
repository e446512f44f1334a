"""What a user can ask for: environments by name, settings tuned for them, options of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

import torch_batchsim
from torch_batchsim import command_line

from ..algorithms import names_of
from ..algorithms.ppo import PPOConfig
from ..base.config import Config
from ..base.errors import UsageError
from .tuned import tuned_config, tuned_settings


@dataclass(frozen=True)
class Options:
    """Train an environment, continue a training, or evaluate a trained policy."""

    config: Config = field(default_factory=PPOConfig)
    """Settings of the algorithm, with the defaults for this environment."""
    device: str = "cpu"
    """Where simulator and networks run: cpu, cuda, cuda:1."""
    threads: int | None = None
    """CPU threads, which simulator and networks share. None stands for one up to 1024 rows (--num-envs) on the CPU, and
    for as many as torch takes with more."""
    executor: str | None = None
    """How the simulator runs its task graph: batch or per_world on CPU; graph, megakernel or per_world on CUDA. By
    default what was tuned before, else the first of these."""
    checks: bool = False
    """A checked build: an index out of its range, a division by zero and the like end the training with their place in
    the text. Slower by a few times."""
    log: int | None = None
    """Keep so many lines of each world that systems note by world.log in an iteration. The first 20 are printed of
    iterations 1, 2, 4, 8 and so on, and of the one that a fault ends."""
    watchdog: float | None = None
    """Seconds that a step may take on the CPU: one that takes longer ends the training, and names system and world."""
    tune: bool = False
    """First measure how the simulator's steps are run best here; kept for later runs."""
    env_option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the environment as key=value, such as force_mag=12.5; may be given several times. Where no other
    option has that name, --force-mag 12.5 says the same."""
    settings: Annotated[Path | None, tyro.conf.arg(name="config")] = None
    """Settings from this TOML file, or from the config.toml of this run's folder; options on the command line override
    it."""
    track: tuple[str, ...] = ("tensorboard",)
    """Where numbers go, beside metrics.csv: tensorboard, wandb, none, or module:Class of your own."""
    process_timeout: float = 600.0
    """Seconds that one of several processes (torchrun) waits for the others before it ends with an error. One that has
    ended is noticed at once."""
    run_dir: Path | None = None
    """Folder for the files of this run; runs/<environment>-seed<seed>-<time> if not given."""
    seeds: int | None = None
    """Train so many times, with this and the following seeds (--seed), each in a folder of its own within the run's,
    which has one learning curve with a band and one summary. With --resume of that folder, it goes on."""
    checkpoint_every: int = 100
    """Iterations from one checkpoint to the next; there is always one at the end."""
    resume: Path | None = None
    """Go on from this checkpoint, with its settings and in its folder; latest is the newest in runs/. With more
    --total-steps a run that has ended goes on too."""
    load: Path | None = None
    """Begin a run of its own with the networks of this checkpoint, or of the latest."""
    eval: Path | None = None
    """Evaluate this checkpoint, or the latest, instead of training."""
    eval_episodes: int = 1000
    """Worlds of the evaluation, one episode each, which also follows a training; 0 does without."""
    eval_stochastic: bool = False
    """Draw the actions of the evaluation from the policy, rather than take the likeliest."""
    summary: Path | None = None
    """Write the outcome to this JSON file."""
    video: Path | None = None
    """Write one episode of the evaluation, that of world 0, to this file: .gif, .webp, .png (animated) or .mp4."""
    video_every: int | None = None
    """During the training too, write an episode after every so many iterations, beside --video: game-000128000.gif."""
    show: bool = False
    """Open a window with the learning curve at the end, if there is a display."""

    def __post_init__(self) -> None:
        ones = ("threads", "seeds", "video_every", "checkpoint_every")
        for name, least in (*((name, 1) for name in ones), ("eval_episodes", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, but must be at least {least}")
        if not 0 < self.process_timeout < float("inf"):
            raise ValueError(f"process_timeout is {self.process_timeout}, but must be greater than 0")


MOST_ROWS_OF_ONE_THREAD = 1024


def default_threads(options: Options, processes: int = 1) -> int | None:
    """The CPU threads of a run, in each of so many processes, that was not told how many: one for few rows; None stands
    for as many as torch takes.

    Torch's operations on few rows take some microseconds. Threads save little of that, and wait for each other at the
    end of each operation: where other processes keep the cores busy, each of these waits takes a time slice.
    """
    few = options.config.num_envs // processes <= MOST_ROWS_OF_ONE_THREAD
    return 1 if few and torch.device(options.device).type == "cpu" else None


def find_environment(name: str) -> str:
    """The id of an environment, as `torch_batchsim.find_id` reads names."""
    try:
        return torch_batchsim.find_id(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def tuned(env_id: str, env_options: Iterable[str] = (), algorithm: str | None = None) -> Options:
    """The defaults for an environment, with `env_options` as key=value, and an algorithm, by default its own.

    No more threads than torch takes by default: it knows the cores, and OMP_NUM_THREADS.
    """
    known = names_of()
    others = {name: value for name, value in tuned_settings(env_id, env_options).items() if name not in known}
    if isinstance(others.get("threads"), int):
        others["threads"] = min(others["threads"], torch.get_num_threads())
    unknown = [name for name in others if name not in {setting.name for setting in fields(Options)}]
    if unknown:
        near = command_line.suggestion(unknown[0], [*known, *(setting.name for setting in fields(Options))])
        raise UsageError(
            f"{env_id} declares settings of its training that cannot be used: there is no {unknown[0]!r}{near}"
        )
    try:
        return Options(tuned_config(env_id, env_options, algorithm), **others)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{env_id} declares settings of its training that cannot be used: {error}") from error


SAID_OTHERWISE = {
    "id": "the first argument",
    "num_envs": "--num-envs",
    "num_worlds": "--num-envs",
    "device": "--device",
    "num_threads": "--threads",
    "executor": "--executor",
    "checks": "--checks",
    "log": "--log",
    "watchdog": "--watchdog",
}
"""What says here what `gymnasium.make_vec` takes under these names."""


def parse_env_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Options of the environment, as `torch_batchsim.command_line.parse_env_options` reads them."""
    try:
        return command_line.parse_env_options(pairs, SAID_OTHERWISE)
    except ValueError as error:
        raise UsageError(str(error)) from error
