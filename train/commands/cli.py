"""The command line: `python -m torch_batchsim.train ENVIRONMENT [options]`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_batchsim
from torch_batchsim import command_line
from torch_batchsim.base.extras import MissingExtra

from ..algorithms import config_of
from ..base.config import Config
from ..base.errors import RunError, UsageError
from ..base.ranks import RankLost
from ..run_folder import checkpoint, disk, video
from ..run_folder.tracking import trackers
from . import evaluating, processes, seeds, training
from .arguments import PROGRAM, parse, path_behind, settled, value_behind
from .options import Options, default_threads, parse_env_options, tuned


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    A mistake of the user's is one line on stderr and status 2, a run that fails one line and status 1; a training
    stopped by a signal has status 130. Where the reader of the output has gone, it ends with status 141.
    """
    try:
        with processes.only_the_first_prints():
            return _run(list(sys.argv[1:] if arguments is None else arguments))
    except (UsageError, checkpoint.CheckpointError, MissingExtra) as error:
        return processes.report(error, 2, always=False)
    except (RunError, disk.NotWritten) as error:
        status = 130 if isinstance(error.__cause__, KeyboardInterrupt) else 1
        return processes.report(error, status, always=isinstance(error.__cause__, RankLost))
    except BrokenPipeError:  # of --help | head, which has seen enough
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # for the flush at the end
        return 141  # as of a command that SIGPIPE ends
    except KeyboardInterrupt as error:
        return processes.report(f"interrupted{': ' if str(error) else ''}{error}", 130, always=False)


def _run(arguments: list[str]) -> int:
    if not arguments:
        raise UsageError(f"name an environment: {PROGRAM} cartpole; {PROGRAM} --help lists all")
    name, *rest = arguments
    if name == "sweep":
        from . import sweep  # which needs optuna

        return sweep.main(rest)
    if name == "--version":
        print(command_line.VERSIONS)
        return 0
    if name in ("-h", "--help"):
        print(f"usage: {PROGRAM} ENVIRONMENT [options]")
        print(f"\nEnvironments: {', '.join(torch_batchsim.environment_ids())};")
        print("or one of your own: file.py, module:Class or module:id.")
        print(f"Options with their defaults: {PROGRAM} ENVIRONMENT --help")
        print(f"A search for good settings: {PROGRAM} sweep ENVIRONMENT --help")
        return 0
    if name.startswith("-"):
        raise UsageError(f"the environment comes first, before {name}: {PROGRAM} cartpole {name} ...")
    group = _group(rest)
    env_id, options, defaults, rest = settled(name, rest, PROGRAM, group and group / seeds.SETTINGS)
    if group:
        options = _of_group(options, defaults, group)
    _refuse_together(options)
    if options.video:
        video.check_needs(options.video)
    path = checkpoint.find(options.resume or options.eval or options.load, env_id)
    contents = checkpoint.load(path, env_id) if path else None
    if path and options.env_option and not options.load:
        _refuse_env_options(path, contents, options.env_option)
    trackers(options.track)  # to report mistakes at once
    if contents and options.load:
        options = dataclasses.replace(options, load=path)
    elif contents:
        config = config_of(contents["trainer"]["config"])
        defaults = tuned(env_id, [f"{name}={value}" for name, value in contents["env_options"].items()])
        if (given := value_behind("--algorithm", rest)) not in (None, config.algorithm):
            raise UsageError(f"the checkpoint was made with algorithm {config.algorithm} and keeps it, got {given}")
        options = parse(name, rest, dataclasses.replace(defaults, config=config))
        # An evaluation may start from other states than the one that followed the training.
        options = dataclasses.replace(options, **{"eval" if options.eval else "resume": path})
        _refuse_changes(config, options.config, except_for=("seed",) if options.eval else ("total_steps",))
    _refuse_idle(options, rest)
    if options.resume:
        checkpoint.require_same_version(path, contents)
    processes.refuse(options)
    if threads := options.threads or default_threads(options, processes.count()):
        torch.set_num_threads(threads)
    if options.seeds:
        return seeds.train(env_id, options, contents, group)
    if options.eval:
        evaluating.evaluate_checkpoint(env_id, options, contents)
        return 0
    return 0 if training.train(env_id, options, contents) else 130


def _group(arguments: Sequence[str]) -> Path | None:
    """The folder of several seeds that `--resume` names, if it is one; its settings are those of the command."""
    group = path_behind("--resume", arguments)
    if group is None or not seeds.is_folder(group):
        return None
    for name in ("--config", "--load", "--eval", "--run-dir"):
        if any(argument.partition("=")[0] == name for argument in arguments):
            raise UsageError(f"{name} and --resume {group} exclude each other: settings are in that folder")
    return group


def _of_group(options: Options, before: Options, group: Path) -> Options:
    _refuse_changes(before.config, options.config, except_for=("total_steps",))
    if options.seeds < before.seeds:
        raise UsageError(f"{group} has {before.seeds} seeds, but --seeds {options.seeds} was given: more go on")
    return dataclasses.replace(options, resume=None)


def _refuse_together(options: Options) -> None:
    given = [name for name in ("resume", "load", "eval") if getattr(options, name)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in given)} exclude each other")
    for name in ("resume", "eval", "video"):
        if options.seeds and getattr(options, name):
            why = {
                "video": ": --eval of one of its folders shows it",
                "resume": f": {options.resume} is a single run, not the folder of several seeds",
                "eval": ", which names one run",
            }
            raise UsageError(f"--seeds and --{name} exclude each other{why[name]}")
    if options.settings and (options.resume or options.eval):
        raise UsageError(f"--config and --{given[0]} exclude each other: settings are in the checkpoint")
    types, episodes, every = video.file_types(), options.eval_episodes, options.video_every
    refusals = (
        (options.tune and options.executor, f"--tune chooses the executor: leave out --executor {options.executor}"),
        (options.eval and not episodes, "--eval-episodes is 0, but --eval needs at least 1"),
        (options.video and not episodes, "--eval-episodes is 0, but --video shows an episode of the evaluation"),
        (
            options.video and options.video.suffix.lower() not in types,
            f"--video writes {', '.join(types)}, but {options.video} was given",
        ),
        (every and not options.video, f"--video-every {every} needs --video, which names the files"),
        (every and options.eval, "--video-every and --eval exclude each other: an evaluation shows one episode"),
    )
    for refused, sentence in refusals:
        if refused:
            raise UsageError(sentence)


NEEDS = {"memory_size": "memory", "past_every": "past_share", "anneal_from": "anneal", "anneal_until": "anneal"}
"""Settings that change nothing unless another one is on."""
OF_TRAINING = ("run_dir", "track", "checkpoint_every", "show", "tune")
"""Options that change nothing in an evaluation."""


def _refuse_idle(options: Options, arguments: Sequence[str]) -> None:
    """Refuses an option among the arguments that changes nothing, so that nobody waits for its effect.

    A file of settings or an environment may declare it: these hold all settings.
    """
    given = [word.partition("=")[0].removeprefix("--").replace("-", "_") for word in arguments if word[:2] == "--"]
    for name in given:
        needed = NEEDS.get(name)
        if needed and getattr(options.config, needed) in ("none", 0, ()):
            raise UsageError(f"--{name.replace('_', '-')} changes nothing without --{needed.replace('_', '-')}")
        if options.eval and name in OF_TRAINING:
            raise UsageError(f"--{name.replace('_', '-')} changes nothing with --eval, which trains nothing")


def _refuse_changes(config: Config, asked: Config, except_for: Sequence[str]) -> None:
    names = [setting.name for setting in dataclasses.fields(config) if setting.name not in except_for]
    pairs = [(name, getattr(config, name), getattr(asked, name)) for name in names]
    changed = [f"{name} {has} and keeps it, but {wants} was given" for name, has, wants in pairs if has != wants]
    if changed:
        raise UsageError(f"the checkpoint was made with {'; with '.join(changed)}")


def _refuse_env_options(path: Path, contents: dict[str, Any], given: Sequence[str]) -> None:
    has, wants = contents["env_options"], parse_env_options(tuple(given))
    wrong = [f"{name} {has.get(name, 'as it is by default')}, and {wants[name]!r} was given" for name in wants]
    raise UsageError(f"options of the environment are those of the checkpoint {path}: {'; '.join(wrong)}")
