"""Functions that the commands of this package share."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from functools import lru_cache
from io import StringIO
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import gymnasium
import torch

from ._version import __version__
from .base.names import suggestion
from .declare.options import RESERVED_OPTIONS, Option
from .run.logs import first_lines
from .vector.registration import declared, environment_class, is_ours

Kind = TypeVar("Kind")


VERSIONS = f"torch_batchsim {__version__} (torch {torch.__version__})"


class UsageError(SystemExit):
    """Ends a command that cannot be done as it was given: one sentence on stderr, and status 2."""

    def __init__(self, sentence: str) -> None:
        super().__init__(2)
        self.sentence = f"error: {sentence}"
        print(self.sentence, file=sys.stderr)

    def __str__(self) -> str:
        return self.sentence


class Parser(argparse.ArgumentParser):
    """Raises ``UsageError`` at a mistake: a line that names the help, without the usage before it."""

    def __init__(self, program: str, **keywords: Any) -> None:
        super().__init__(program, allow_abbrev=False, **keywords)
        text = "print the versions of torch_batchsim and torch"
        self.add_argument("--version", action="version", version=VERSIONS, help=text)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help lists all")


def parsed(kind: type[Kind], program: str, arguments: Sequence[str], **keywords: Any) -> Kind:
    """``tyro.cli``, whose boxes around mistakes become ``UsageError``."""
    import tyro

    for each in (kind, *map(type, getattr(keywords.get("default"), "__dict__", {}).values())):
        if dataclasses.is_dataclass(each):
            _describe(each)
    printed = StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(kind, prog=program, args=list(arguments), **keywords)
    except SystemExit as ended:
        if not ended.code:
            raise
        raise UsageError(f"{_of_box(printed.getvalue(), kind)}; {program} --help lists all") from None


@lru_cache(maxsize=64)
def _texts(kind: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields, those that it inherits too, as one line each."""
    texts: dict[str, str] = {}
    for one in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        [body] = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        for setting, text in pairwise(body.body):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(setting, ast.AnnAssign) and is_text:
                texts[setting.target.id] = " ".join(text.value.value.split())
    return texts


def _describe(kind: type) -> None:
    """Give tyro the docstrings of options as one line each: it keeps the ends of lines that are indented."""
    texts = _texts(kind)
    for setting in dataclasses.fields(kind):
        if setting.name in texts:
            setting.metadata = MappingProxyType({**setting.metadata, "help": texts[setting.name]})
        default = setting.default_factory
        if isinstance(default, type) and dataclasses.is_dataclass(default):
            _describe(default)


def _of_box(box: str, kind: type) -> str:
    """The sentence of a mistake in the options ``kind`` that tyro draws a box around."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]  # without the title; the frame may be ASCII
    parts = "\n".join("" if set(line) <= {"─", "-"} else line for line in lines).strip().split("\n\n")
    text = " ".join(parts[0].split()).rstrip(".")
    missing = re.match(r"Missing from .*?: (\S+) ([^;]*)", text)
    if missing:
        return f"an argument is missing, {_missing_name(kind, missing[1], missing[2])}: {missing[2]}"
    shown = next((part.splitlines()[1] for part in parts if part.startswith("Argument helptext")), "")
    option, _, takes = shown.partition(" ")
    if takes and text.startswith(f"Error parsing {option}: "):
        takes = re.sub(r"\{None\}\|\{?(.*?)\}?$", r"\1", takes)
        return f"{option} takes {takes}, {_given(text)}"
    text = re.sub(r"^Error parsing [\w.-]+: ", "", text)
    text = re.sub(r"^Unrecognized options: ", "there is no option or argument ", text)
    return text[0].lower() + text[1:]


def _missing_name(kind: type, shown: str, text: str) -> str:
    """The name of an argument that tyro shows by its type, ``STR``, where it stands without a name on the line."""
    for setting in dataclasses.fields(kind):
        help_text = setting.metadata.get("help", "").rstrip(".")
        if not shown.startswith("-") and help_text and text.startswith(help_text[: len(text)]):
            return setting.name.upper()
    return shown


def _given(text: str) -> str:
    quoted = re.search(r"(?:from \[|base 10: |: )((?:'[^']*'(?:, )?)+)\]?", text)
    return f"got {quoted[1]}" if quoted else text.partition(": ")[2]


# ---- options of simulators -------------------------------------------------------------------------------------------

LOG_LINES = 20  # that a command prints at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Options of a command that are ``RunOptions`` of its simulators; the options of commands inherit from it."""

    executor: str | None = None
    """How the simulator runs its task graph: batch, per_world or, for debuggers, python on CPU; graph, megakernel or
    per_world on CUDA. By default what was tuned before, else the first of these."""
    checks: bool = False
    """A checked build: an index out of its range, a division by zero and the like end the command with their place in
    the text. Slower by a few times."""
    log: int | None = None
    """Keep so many lines of each world that systems note by world.log, and print the first 20 of each batch size, or
    of iterations 1, 2, 4, 8 and so on of a training and of the one that a fault ends."""
    watchdog: float | None = None
    """Seconds that a step may take on CPU: one that takes longer ends the command, which names system and world."""

    def run_options(self) -> dict[str, Any]:
        """The arguments of ``gymnasium.make_vec`` that were given; environments of others need not know the rest."""
        given = {flag.name: getattr(self, flag.name) for flag in dataclasses.fields(RunFlags)}
        return {name: value for name, value in given.items() if value is not None and value is not False}


RUN_FLAGS = {flag.name: f"--{flag.name.replace('_', '-')}" for flag in dataclasses.fields(RunFlags)}
"""How commands take the options of a run, by their names as arguments."""


def add_run_flags(parser: argparse.ArgumentParser, left_out: Sequence[str]) -> None:
    """Let a command without tyro take the options of ``RunFlags``, but for some."""
    texts, kinds = _texts(RunFlags), {"str | None": str, "int | None": int, "float | None": float}
    for flag in dataclasses.fields(RunFlags):
        if flag.name not in left_out:
            how = {"action": "store_true"} if flag.type == "bool" else {"type": kinds[str(flag.type)]}
            parser.add_argument(RUN_FLAGS[flag.name], help=texts[flag.name], **how)


def noted(env: gymnasium.vector.VectorEnv) -> str:
    """The first lines that systems have noted by ``world.log`` since the last call; empty where nothing was."""
    sim = getattr(env.unwrapped, "sim", None)
    if sim is None or not sim.program.log:
        return ""
    sim.execution.synchronize()
    return first_lines(sim.program, sim.memory, LOG_LINES)


def unheard(env: gymnasium.vector.VectorEnv, log: int | None) -> str:
    """A sentence where ``--log`` was given and no system calls ``world.log``; else empty."""
    sim = getattr(env.unwrapped, "sim", None)
    if not log or sim is None or any(re.search(r"\.\s*log\s*\(", text) for text in sim.program.files.values()):
        return ""
    return f"--log {log} shows nothing: no system of {sim.environment.name} calls world.log(\"label\", value)"


# ---- options of an environment ---------------------------------------------------------------------------------------


def option_help(env_id: str, own: Iterable[str] = ()) -> str:
    """The options of an environment, a line for each: what it takes, its default, its help.

    Args:
        own: names of the command's own options, which those of the environment do not replace.

    Returns an empty text where the environment is not one of ``torch_batchsim.register``, or has no options.
    """
    spec = gymnasium.registry.get(env_id)
    if spec is None or not is_ours(spec):
        return ""
    cls, hidden = environment_class(env_id), set(own)
    lines = _lines(cls.described_options(), _defaults(env_id), hidden)
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in (0, 1)]
    shown = [f"  {first:{widths[0]}}  {second:{widths[1]}}  {third}".rstrip() for first, second, third in lines]
    return "\n".join([f"options of the environment {cls.__name__}, and what each takes:", *shown, ""])


def _lines(options: Mapping[str, Any], defaults: Mapping[str, Any], hidden: set[str]) -> list[tuple[str, str, str]]:
    lines = []
    for name, option in options.items():
        if isinstance(option, Mapping):  # of a library
            inner = {f"{name}.{key}": value for key, value in option.items()}
            lines += _lines(inner, {f"{name}.{key}": value for key, value in defaults.get(name, {}).items()}, {*inner})
            continue
        flag = f"--env-option {name}=" if name in hidden else f"--{name.replace('_', '-')} "
        if isinstance(option, Option):
            default = defaults.get(name, option.default)
            default = (
                str(default).lower()
                if isinstance(default, bool)
                else f"{default:.6g}"
                if isinstance(default, float)
                else str(default)
            )
            lines.append((f"{flag}{option.takes}", f"default {default}", option.help))
        else:
            lines.append((f"{flag}VALUE", "", str(option)))
    return lines


def _defaults(env_id: str) -> dict[str, Any]:
    """Values that differ from the defaults of the options: the registered limit of steps, and those of libraries."""
    values: dict[str, Any] = {}
    spec = gymnasium.spec(env_id)
    if spec.kwargs["time_limit"]:
        values["max_episode_steps"] = spec.max_episode_steps
    with suppress(Exception):  # an environment with an option that has no default: its libraries keep theirs
        made = declared(env_id, {})
        values |= {name: {**library.constants, **library.parameters} for name, library in made.libraries.items()}
    return values


def flags_of(*settings: type) -> list[str]:
    """The names of a command's own options, which are the fields of dataclasses."""
    return [setting.name for kind in settings for setting in dataclasses.fields(kind)]


def long_env_options(arguments: Sequence[str], known: Sequence[str]) -> list[str]:
    """``--layout ring`` is short for ``--env-option layout=ring`` where the environment has an option of that name."""
    long, rest = [], list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not argument.startswith("--") or name not in known:
            long.append(argument)
            continue
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        long += ["--env-option", f"{name}={value}"]
    return long


_MOST_LISTED = 40  # options that a message names
_COUNTS = ("num_envs", "worlds", "num_worlds", "envs", "batch_size", "batch")  # names of users for the size of a batch


def refuse_unknown(arguments: Iterable[str], own: Sequence[str], environments: Sequence[str], command: str) -> None:
    """End the command at an option that is neither its own nor the environment's, and name the nearest.

    Args:
        arguments: those of the command, with those of the environment taken out.
        own, environments: names of options, with underscores.
        command: what ``--help`` is behind.
    """
    for argument in arguments:
        name = argument.partition("=")[0].removeprefix("--").replace("-", "_")
        if not argument.startswith("--") or name in ("", "help") or name.startswith("tyro_"):
            continue
        if name not in own and name.removeprefix("no_") not in own:
            alike = next((other for other in _COUNTS if name in _COUNTS and other in own), None)
            near = f" (did you mean {alike!r}?)" if alike else suggestion(name, [*own, *environments])
            near = near.replace("_", "-").replace("'", "").replace("mean ", "mean --")
            others = "" if near else _listed(own, environments)
            raise UsageError(f"there is no option --{name.replace('_', '-')}{near}{others}; {command} --help lists all")


def _listed(own: Sequence[str], environments: Sequence[str]) -> str:
    """The options of a command and an environment; where these are many, only the environment's."""
    there, of = {*own, *environments} - {"", "h", "environment"}, "there are"
    if len(there) > _MOST_LISTED:
        there, of = {*environments}, "the environment has"
    return f"; {of} {', '.join(f'--{name}'.replace('_', '-') for name in sorted(there))}" if there else ""


def parse_env_options(pairs: Iterable[str], elsewhere: Mapping[str, str]) -> dict[str, Any]:
    """``("force=10", "name=x")`` to ``{"force": 10, "name": "x"}``; values are Python literals, else strings.

    Options of libraries are named with a point: ``("grid.cell=0.2",)`` to ``{"grid": {"cell": 0.2}}``.

    Args:
        pairs: the values of ``--env-option``, each ``key=value``.
        elsewhere: of what ``gymnasium.make_vec`` takes beside an environment's options, how this command takes it,
            such as ``{"num_envs": "--num-envs"}``. The rest of it cannot be chosen.

    Raises ValueError with a sentence for the user. Whether the environment has such options is not known here.
    """
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        library, point, name = key.rpartition(".")
        if not equals or not name.isidentifier() or bool(point) != library.isidentifier():
            raise ValueError(f"--env-option takes key=value, but {pair!r} was given")
        first = library or key
        if first in elsewhere:
            raise ValueError(f"{first} is not an option of the environment; use {elsewhere[first]}")
        if first in RESERVED_OPTIONS:
            raise ValueError(f"{first} is not an option of the environment, and cannot be chosen here")
        if point and not isinstance(parsed.get(library, {}), dict):
            raise ValueError(f"options of library {library} are given one by one, as {library}.name=value")
        options = parsed.setdefault(library, {}) if point else parsed
        if name in options:
            if isinstance(options[name], dict):
                raise ValueError(f"options of library {name} are given one by one, as {name}.name=value")
            raise ValueError(f"the option {key} of the environment was given twice")
        try:
            options[name] = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (ValueError, SyntaxError):
            options[name] = text
    return parsed
