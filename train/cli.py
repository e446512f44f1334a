"""The command line: `python -m torch_batchsim.train ENVIRONMENT [options]`."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Sequence

import torch
import tyro

import torch_batchsim
from torch_batchsim import command_line

from . import checkpoint, runs, video
from .options import Options, UsageError, default_threads, find_environment, tuned
from .ppo import Config

PROGRAM = "python -m torch_batchsim.train"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    A mistake of the user's is one line on stderr and status 2, a run that fails one line and status 1; a training
    stopped by a signal has status 130.
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except (UsageError, checkpoint.CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except runs.RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: {PROGRAM} ENVIRONMENT [options]")
        print(f"\nEnvironments: {', '.join(torch_batchsim.environment_ids())}; or the id of one of your own.")
        print(f"Options with their defaults: {PROGRAM} ENVIRONMENT --help")
        return 0
    if name.startswith("-"):
        raise UsageError(f"the environment comes first, before {name}: {PROGRAM} cartpole {name} ...")
    env_id = find_environment(name)
    own = command_line.flags_of(Options, Config)
    names = _env_option_names(env_id, own)
    asks_for_help = {"-h", "--help"} & set(rest)
    rest = command_line.long_env_options(rest, names)
    command_line.refuse_unknown(rest, own, names, f"{PROGRAM} {name}")
    defaults = tuned(env_id, [value for name, value in itertools.pairwise(rest) if name == "--env-option"])
    if asks_for_help and (told := command_line.option_help(env_id, own)):
        print(told)
    options = _parse(name, rest, defaults)
    if options.resume and options.eval:
        raise UsageError("--resume and --eval exclude each other")
    if options.tune and options.executor:
        raise UsageError(f"--tune chooses the executor, but --executor {options.executor} was given too")
    if options.eval and not options.eval_episodes:
        raise UsageError("--eval-episodes is 0, but --eval needs at least 1")
    if options.video and not options.eval_episodes:
        raise UsageError("--eval-episodes is 0, but --video shows an episode of the evaluation")
    if options.video and options.video.suffix.lower() not in video.file_types():
        raise UsageError(f"--video writes {', '.join(video.file_types())}, but {options.video} was given")
    path = options.resume or options.eval
    contents = checkpoint.load(path, env_id) if path else None
    if path and options.env_option:
        raise UsageError("options of the environment cannot be given: they are in the checkpoint")
    if contents:
        config = Config(**contents["trainer"]["config"])
        defaults = tuned(env_id, [f"{name}={value}" for name, value in contents["env_options"].items()])
        options = _parse(name, rest, dataclasses.replace(defaults, config=config))
        # An evaluation may start from other states than the one that followed the training.
        _refuse_changes(config, options.config, except_for=("seed",) if options.eval else ())
    if options.resume:
        checkpoint.require_same_version(path, contents)
    if threads := options.threads or default_threads(options):
        torch.set_num_threads(threads)
    if options.eval:
        runs.evaluate_checkpoint(env_id, options, contents)
        return 0
    return 0 if runs.train(env_id, options, contents) else 130


def _parse(name: str, arguments: list[str], defaults: Options) -> Options:
    try:
        return tyro.cli(
            Options,
            prog=f"{PROGRAM} {name}",
            args=arguments,
            default=defaults,
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _env_option_names(env_id: str, own: Sequence[str]) -> list[str]:
    """The environment's options but for those whose name means something else here."""
    try:
        return [name for name in torch_batchsim.option_names(env_id) if name not in own]
    except ImportError as error:
        raise UsageError(f"{env_id} cannot be imported: {error}") from error


def _refuse_changes(config: Config, asked: Config, except_for: Sequence[str]) -> None:
    for name in (setting.name for setting in dataclasses.fields(Config)):
        has, wants = getattr(config, name), getattr(asked, name)
        if has != wants and name not in except_for:
            raise UsageError(f"the checkpoint was made with {name} {has} and keeps it, but {wants} was given")
