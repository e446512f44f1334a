"""The command line: `python -m torch_batchsim.train ENVIRONMENT [options]`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import torch_batchsim
from torch_batchsim import command_line
from torch_batchsim.base.extras import MissingExtra, needed

from ..algorithms import config_of
from ..base import signals
from ..base.config import Config
from ..base.errors import RunError, UsageError
from ..base.ranks import RankLost
from ..run_folder import checkpoint, disk, video
from ..run_folder.lock import NotWritable, locked
from ..run_folder.tracking import trackers
from . import evaluating, processes, seeds, training
from .arguments import PROGRAM, parse, path_behind, settled, value_behind
from .idle import refuse_idle, refuse_together
from .options import AUTO, Options, default_threads, parse_env_options, tuned


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    A mistake of the user's is one line on stderr and status 2, a run that fails one line and status 1; a command
    ended by a signal has status 130. Where the reader of the output has gone, it ends with status 141.
    """
    with signals.raised():  # errors are reported within, where torchrun's SIGTERM cuts nothing short
        return _reported(list(sys.argv[1:] if arguments is None else arguments))


def _reported(arguments: list[str]) -> int:
    try:
        processes.end_with_the_launcher()
        with processes.only_the_first_prints():
            return _run(arguments)
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
        return processes.report(f"interrupted{signals.cause(error)}", 130, always=False)


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
    refuse_together(options)
    if options.video:
        video.check_needs(options.video)
    if options.view:
        needed("websockets", extra="view")
    trackers(options.track)  # to report mistakes at once
    with ExitStack() as held:
        again = options.resume == AUTO
        options, contents = _with_checkpoint(name, env_id, options, rest, held)
        refuse_idle(options, rest)
        if options.resume:
            checkpoint.require_same_version(options.resume, contents)
        processes.refuse(options)
        if threads := options.threads or default_threads(options, processes.count()):
            torch.set_num_threads(threads)
        if options.seeds:
            return seeds.train(env_id, options, contents, group)
        if options.eval:
            evaluating.evaluate_checkpoint(env_id, options, contents)
            return 0
        if again and options.resume and training.is_finished(contents, options):
            if processes.is_first():
                training.conclude_again(env_id, options, contents)
            return 0
        return training.train(env_id, options, contents).status


def _with_checkpoint(
    name: str, env_id: str, options: Options, arguments: list[str], held: ExitStack
) -> tuple[Options, dict[str, Any] | None]:
    """The options with the checkpoint that they name, if any, and its contents.

    Locks the folder in which a training is to go on: what is read there is the last that another one has written.
    """
    if options.resume == AUTO and not options.seeds:
        refused = None
        if options.run_dir.is_dir() and processes.is_first():
            try:
                held.enter_context(locked(options.run_dir))
            except NotWritable as error:  # of a finished run nothing is
                refused = error
        found = checkpoint.last_good(options.run_dir, env_id)
        wanted = _gone_on(env_id, options, *found) if found else options
        if refused and not (found and training.is_finished(found[1], wanted)):
            raise refused
        if found:
            return wanted, found[1]
    if options.resume == AUTO:
        options = dataclasses.replace(options, resume=None)
    path = checkpoint.find(options.resume or options.eval or options.load, env_id)
    if path is None:
        return options, None
    if options.resume and not options.run_dir and path.exists() and processes.is_first():
        held.enter_context(locked(path.parent))
    contents = checkpoint.load(path, env_id)
    if options.load:
        return dataclasses.replace(options, load=path), contents
    _refuse_env_options(path, contents["env_options"], parse_env_options(options.env_option))
    config = config_of(contents["trainer"]["config"])
    defaults = tuned(env_id, [f"{name}={value}" for name, value in contents["env_options"].items()], config.algorithm)
    _refuse_algorithm(config, value_behind("--algorithm", arguments))
    options = parse(name, arguments, dataclasses.replace(defaults, config=config))
    # An evaluation may start from other states than the one that followed the training.
    options = dataclasses.replace(options, **{"eval" if options.eval else "resume": path})
    _refuse_changes(config, options.config, except_for=("seed",) if options.eval else ("total_steps",))
    return options, contents


def _gone_on(env_id: str, options: Options, path: Path, contents: dict[str, Any]) -> Options:
    """The options of a command that is repeated: those of its checkpoint, which it gives again."""
    config, wants = config_of(contents["trainer"]["config"]), parse_env_options(options.env_option)
    lacking = dict.fromkeys(contents["env_options"].keys() - wants.keys(), "its default")
    _refuse_env_options(path, contents["env_options"], wants | lacking)
    _refuse_algorithm(config, options.config.algorithm)
    # Of the default of rows a training takes whole worlds.
    default = options.config.num_envs == tuned(env_id, options.env_option, config.algorithm).config.num_envs
    _refuse_changes(config, options.config, except_for=("total_steps", *(["num_envs"] if default else [])))
    config = dataclasses.replace(config, total_steps=options.config.total_steps)
    return dataclasses.replace(options, config=config, resume=path, load=None)


def _group(arguments: Sequence[str]) -> Path | None:
    """The folder of several seeds that `--resume` names, if it is one; its settings are those of the command."""
    group = path_behind("--resume", arguments)
    if group == AUTO:
        group = path_behind("--run-dir", arguments)
        return group if group is not None and seeds.is_folder(group) else None
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


def _refuse_changes(config: Config, asked: Config, except_for: Sequence[str]) -> None:
    names = [setting.name for setting in dataclasses.fields(config) if setting.name not in except_for]
    pairs = [(name, getattr(config, name), getattr(asked, name)) for name in names]
    changed = [f"{name} {has} and keeps it, but {wants} was given" for name, has, wants in pairs if has != wants]
    if changed:
        raise UsageError(f"the checkpoint was made with {'; with '.join(changed)}")


def _refuse_algorithm(config: Config, wanted: str | None) -> None:
    if wanted not in (None, config.algorithm):
        raise UsageError(f"the checkpoint was made with algorithm {config.algorithm} and keeps it, got {wanted}")


def _refuse_env_options(path: Path, has: dict[str, Any], wants: dict[str, Any]) -> None:
    changed = [name for name in wants if name not in has or has[name] != wants[name]]
    wrong = [f"{name} {has.get(name, 'as it is by default')}, and {wants[name]!r} was given" for name in changed]
    if wrong:
        raise UsageError(f"options of the environment are those of the checkpoint {path}: {'; '.join(wrong)}")
