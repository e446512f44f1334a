"""Command line of the check."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import gymnasium

from ..command_line import (
    RUN_FLAGS,
    Parser,
    UsageError,
    add_run_flags,
    long_env_options,
    parse_env_options,
    refuse_unknown,
)
from ..declare.checks import checks_in
from ..declare.run_options import RunOptions
from ..errors import StepInterrupted
from . import CHECKS, run_checks
from .outcomes import Outcome
from .progress import Progress
from .subject import Subject, class_of, declaration

_PROGRAM = "python -m torch_batchsim.check"
_HELP = f"{_PROGRAM} --help lists all"
_DECIDED = ("executor", "log")  # by the checks themselves
_RUN = {name: flag for name, flag in RUN_FLAGS.items() if name not in _DECIDED}
_HOW = {"num_worlds": "--worlds", "num_envs": "--worlds", **_RUN}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check an environment and print the table. Returns 0, or 1 if checks have failed; usage errors exit with 2."""
    given, others = _parser().parse_known_args(arguments)
    if given.list:
        for check in CHECKS:
            print(f"{check.name:14}{check.about}")
        return 0
    if given.environment is None:
        raise UsageError(f"name an environment: an id, module:id, module:Class, file.py or file.py:Class; {_HELP}")
    try:
        pairs = [*(pair for pairs in given.env_option for pair in pairs), *_pairs(given.environment, others)]
        run = {name: getattr(given, name) for name in _RUN if getattr(given, name) is not None}
        if given.checks:
            run["checks"] = checks_in(given.checks, "--checks ") or False
        options = parse_env_options(pairs, _HOW)
        subject = Subject(
            declaration(given.environment, options),
            worlds=given.worlds,
            steps=given.steps,
            seed=given.seed,
            reference=_factory(given.reference),
            run=RunOptions(**run),
        )
        progress = Progress(sys.stderr, given.verbose)
        report = run_checks(subject, _names(given.only), _names(given.skip), _print, progress)
    except StepInterrupted as stopped:
        print(f"error: {stopped}", file=sys.stderr)
        return 130
    except (TypeError, ValueError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from None
    print(f"\n{report}")
    return 1 if report.failed else 0


def _parser() -> Parser:
    parser = Parser(
        _PROGRAM,
        description="Checks an environment: spaces, faults, episodes, and that the same seed gives the same bits.",
        epilog="Exit status: 0 where no check failed, 1 where one did, 2 for wrong arguments. See docs/checking.md.",
    )
    parser.add_argument(
        "environment",
        nargs="?",
        help="an id, a short name (cartpole), module:my/Env-v0, module:Class, file.py or file.py:Class",
    )
    parser.add_argument("--worlds", type=int, default=64, help="of the long run (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2000, help="of the long run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of worlds and actions (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="NAMES", help="run these checks, by name")
    parser.add_argument("--skip", action="append", default=[], metavar="NAMES", help="leave these checks out")
    parser.add_argument("--reference", metavar="MODULE:FACTORY", help="makes an object with reset(state), step(action)")
    parser.add_argument(
        "--checks",
        metavar="NAME=VALUE,...",
        help="findings of the checked build, such as nan=0,loops=1000 (torch_batchsim.Checks)",
    )
    add_run_flags(parser, (*_DECIDED, "checks"))
    parser.add_argument(
        "--env-option",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the environment; --KEY VALUE is short for it",
    )
    parser.add_argument("--verbose", action="store_true", help="name each check on stderr when it begins")
    parser.add_argument("--list", action="store_true", help="list the checks without running them")
    return parser


def _pairs(environment: str, others: Sequence[str]) -> list[str]:
    """``--gravity 9`` as ``"gravity=9"``, for options that are the environment's and not the command's.

    Raises UsageError for other options, and the errors of ``class_of``.
    """
    if not others:
        return []
    own = [option[2:].replace("-", "_") for action in _parser()._actions for option in action.option_strings]
    known = class_of(environment).option_names()
    long = long_env_options(others, known)
    refuse_unknown((word for word in long if word != "--env-option"), own, known, _PROGRAM)
    lost = [word for word in long[::2] if word != "--env-option"]
    if lost:
        raise UsageError(f"options follow the environment, got {lost[0]!r}; {_HELP}")
    return long[1::2]


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for part in given for name in part.split(",") if name)


def _factory(given: str | None) -> Callable[[], Any] | None:
    """The function that ``module:factory`` names. Raises ValueError where it is missing."""
    if given is None:
        return None
    module, _, name = given.partition(":")
    if not module or not name:
        raise ValueError(f"--reference takes module:factory, got {given!r}")
    try:
        return attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the reference {given!r} cannot be imported: {error}") from error


def _print(outcome: Outcome) -> None:
    print(f"{outcome.name}: {outcome.status}", flush=True)
