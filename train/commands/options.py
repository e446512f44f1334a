"""Options of the command line, and their defaults for an environment."""

from __future__ import annotations

import math
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
class Options(command_line.RunFlags):
    """Train an environment, continue a training, or evaluate a trained policy."""

    config: Config = field(default_factory=PPOConfig)
    """Settings of the algorithm, with the defaults for this environment."""
    device: str = "cpu"
    """Device of simulator and networks: cpu, cuda, cuda:1."""
    threads: int | None = None
    """CPU threads, which simulator and networks share.
    By default one on the CPU with up to 1024 rows (--num-envs), else the number of torch."""
    tune: bool = False
    """First measure the fastest way to run the simulator's steps on this machine. Later runs use it too."""
    env_option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Option of the environment as key=value, such as force_mag=12.5; repeatable.
    --force-mag 12.5 means the same unless another option has that name."""
    settings: Annotated[Path | None, tyro.conf.arg(name="config")] = None
    """Read settings from this TOML file, or from the config.toml in this folder of a run.
    Options on the command line override it."""
    track: tuple[str, ...] = ("tensorboard",)
    """Trackers of metrics beside metrics.csv: tensorboard, wandb, mlflow, none, or module:Class of your own."""
    process_timeout: float = 600.0
    """Seconds that one of several processes (torchrun) waits for the others before it ends with an error.
    It detects the end of another one at once."""
    run_dir: Path | None = None
    """Folder of this run, of which no other training may run at the same time.
    By default runs/<environment>-seed<seed>-<time>."""
    seeds: int | None = None
    """Number of trainings, with seeds from --seed on, each in a folder within the run's.
    The run's folder gets one learning curve with a band and one summary. --resume of that folder continues."""
    checkpoint_every: int = 100
    """Iterations between two checkpoints. The end always writes one."""
    keep: int = 2
    """Number of checkpoints that are kept: the newest, and those before it in case it gets damaged."""
    evaluate_every: int | None = None
    """Iterations between two evaluations during the training, of --eval-episodes episodes, others than at the end."""
    keep_best: bool = False
    """Keep the checkpoint with the best of these evaluations too, as best.pt."""
    stop_at: float | None = None
    """End the training when one of these evaluations reaches this mean return (or score)."""
    max_hours: float | None = None
    """Save and leave after so many hours, with status 0 and without the evaluation at the end; --resume continues."""
    resume: Path | None = None
    """Continue from this checkpoint, with its settings and in its folder; latest is the newest in runs/.
    auto continues from the last whole checkpoint in --run-dir, or begins where there is none, for a command that a
    cluster or torchrun repeats. With more --total-steps a finished run continues too."""
    load: Path | None = None
    """Begin a new run with the networks of this checkpoint, or of the latest."""
    eval: Path | None = None
    """Evaluate this checkpoint, or the latest, instead of training."""
    eval_episodes: int = 1000
    """Worlds of the evaluation, one episode each. It also follows a training, unless 0."""
    eval_stochastic: bool = False
    """Draw the actions of the evaluation from the policy instead of the likeliest ones."""
    summary: Path | None = None
    """JSON file of the outcome. By default summary.json in the folder of the run, eval.json with --eval."""
    video: Path | None = None
    """Write the evaluation's episode of world 0 to this file: .gif, .webp, .png (animated) or .mp4."""
    video_every: int | None = None
    """Iterations between two videos during the training, beside --video: game-000128000.gif."""
    record: Path | None = None
    """Record the evaluation's first 16 worlds in this file, which python -m torch_batchsim.replay shows."""
    view: bool = False
    """Show the training's worlds on a page, whose address is printed; it may pause the training."""
    port: int | None = None
    """Port of the page of --view; by default the first free one from 8765 on."""
    show: bool = False
    """Open a window with the learning curve at the end."""

    def __post_init__(self) -> None:
        ones = ("threads", "seeds", "video_every", "checkpoint_every", "keep", "evaluate_every")
        for name, least in (*((name, 1) for name in ones), ("eval_episodes", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, but must be at least {least}")
        for name in ("process_timeout", "max_hours"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}, but must be greater than 0")
        if self.stop_at is not None and math.isnan(self.stop_at):
            raise ValueError("stop_at is nan, but must be a number")
        for name in ("keep_best", "stop_at"):
            if getattr(self, name) not in (None, False) and not self.evaluate_every:
                raise ValueError(f"--{name.replace('_', '-')} needs --evaluate-every, whose evaluations it goes by")


AUTO = Path("auto")
"""The value of `--resume` of a command that is repeated."""
MOST_ROWS_OF_ONE_THREAD = 1024


def default_threads(options: Options, processes: int = 1) -> int | None:
    """The default of CPU threads, in each of so many processes: one for few rows, else None, the number of torch.

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
    declared = tuned_settings(env_id, env_options, algorithm)
    others = {name: value for name, value in declared.items() if name not in known}
    if isinstance(others.get("threads"), int):
        others["threads"] = min(others["threads"], torch.get_num_threads())
    unknown = [name for name in others if name not in {setting.name for setting in fields(Options)}]
    if unknown:
        near = command_line.suggestion(unknown[0], [*known, *(setting.name for setting in fields(Options))])
        raise UsageError(
            f"{env_id} declares settings of its training that cannot be used: unknown setting {unknown[0]!r}{near}"
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
    **command_line.RUN_FLAGS,
}
"""The options here for arguments of `gymnasium.make_vec`."""


def parse_env_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Options of the environment, as `torch_batchsim.command_line.parse_env_options` reads them."""
    try:
        return command_line.parse_env_options(pairs, SAID_OTHERWISE)
    except ValueError as error:
        raise UsageError(str(error)) from error
