"""The options of a command, joined from arguments, a settings file and the environment's own settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import tyro

import torch_batchsim
from torch_batchsim import command_line

from ..algorithms import LEARNERS, names_of
from ..base.config import Config
from ..base.errors import UsageError
from . import settings_file
from .options import Options, find_environment, parse_env_options, tuned

PROGRAM = "python -m torch_batchsim.train"


def settled(
    name: str, arguments: Sequence[str], program: str, again: Path | None = None
) -> tuple[str, Options, Options, list[str]]:
    """The id of an environment, the options, their defaults, and the arguments in their long forms.

    Args:
        name: of the environment.
        again: settings of a command that continues; `--config` names others.
    """
    env_id = find_environment(name)
    every = [*command_line.flags_of(Options), *names_of()]
    names = _env_option_names(env_id, every)
    rest = command_line.long_env_options(arguments, names)
    file = again or path_behind("--config", rest)
    given, env_given = settings_file.read(file, names) if file else ({}, {})
    algorithm = value_behind("--algorithm", rest) or given.get("algorithm")
    pairs = [value for name, value in itertools.pairwise(rest) if name == "--env-option"]
    said = parse_env_options(tuple(pairs))
    _refuse_unknown_of_env(env_id, [*said, *env_given])
    if again and said.items() - env_given.items():
        raise UsageError(f"options of the environment cannot be changed: they are in {again}")
    of_file = [("--env-option", f"{name}={value}") for name, value in env_given.items() if name not in said]
    rest = [*itertools.chain.from_iterable(of_file), *rest]
    pairs = [value for name, value in itertools.pairwise(rest) if name == "--env-option"]
    if algorithm and algorithm not in LEARNERS:
        raise UsageError(f"--algorithm is one of {', '.join(LEARNERS)}, got {algorithm!r}")
    defaults = tuned(env_id, pairs, algorithm)
    defaults = settings_file.applied(given | {"algorithm": defaults.config.algorithm}, defaults)
    own = command_line.flags_of(Options, type(defaults.config))
    _refuse_others_settings(rest, own, defaults.config.algorithm)
    command_line.refuse_unknown(rest, own, names, f"{program} {name}")
    _refuse_values_of_switches(rest, type(defaults.config))
    if {"-h", "--help"} & set(rest):
        print(command_line.option_help(env_id, own))
        print(f"algorithms: {', '.join(LEARNERS)}; below are the options with --algorithm {defaults.config.algorithm}")
    return env_id, parse(name, rest, defaults), defaults, rest


def _refuse_others_settings(arguments: Sequence[str], own: Sequence[str], algorithm: str) -> None:
    """`--clip-coef` with A2C."""
    for argument in arguments:
        name = argument.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        if argument.startswith("--") and name not in own:
            owners = [each for each in LEARNERS if name in names_of(each)]
            if owners:
                raise UsageError(f"--{name.replace('_', '-')} is a setting of {owners[0]}, not of {algorithm}")


def _refuse_values_of_switches(arguments: Sequence[str], config: type[Config]) -> None:
    """`--anneal-lr false` is how options of environments are written, and not those of the trainer."""
    switches = [name for kind in (Options, config) for name, hint in get_type_hints(kind).items() if hint is bool]
    for argument, following in itertools.pairwise([*arguments, ""]):
        option, equals, value = argument.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        value = value if equals else following
        if option.startswith("--") and name in switches and value.lower() in ("true", "false"):
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} takes no value, but {value} was given: write --{flag} or --no-{flag}")


def value_behind(option: str, arguments: Sequence[str]) -> str | None:
    """The value of an option that has to be read before the others; None where it is missing, refused later."""
    for name, value in itertools.pairwise([*arguments, ""]):
        if name == option:
            return None if not value or value.startswith("--") else value
        if name.startswith(f"{option}="):
            return name.partition("=")[2]
    return None


def path_behind(option: str, arguments: Sequence[str]) -> Path | None:
    """The path that an option such as `--config` names."""
    value = value_behind(option, arguments)
    return None if value is None else Path(value)


def parse(name: str, arguments: list[str], defaults: Options) -> Options:
    try:
        return command_line.parsed(
            Options, f"{PROGRAM} {name}", arguments, default=defaults, config=(tyro.conf.OmitArgPrefixes,)
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _env_option_names(env_id: str, own: Sequence[str]) -> list[str]:
    """The environment's options but for those whose name means something else here."""
    try:
        return [name for name in torch_batchsim.option_names(env_id) if name not in own]
    except ImportError as error:
        raise UsageError(f"{env_id} cannot be imported: {error}") from error


def _refuse_unknown_of_env(env_id: str, given: Sequence[str]) -> None:
    known = torch_batchsim.option_names(env_id)
    for name in given:
        if name not in known:
            near = command_line.suggestion(name, known)
            raise UsageError(f"{env_id} has no option {name!r}{near}; it has: {', '.join(known) or 'none'}")
