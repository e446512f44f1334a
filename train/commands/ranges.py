"""The ranges of a sweep's settings: those that an environment declares, and those of the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

import torch_batchsim
from torch_batchsim.command_line import suggestion

from ..algorithms import LEARNERS, names_of
from ..base.config import Config
from ..base.errors import UsageError
from .idle import lacking
from .settings_file import checked

USUAL = {
    "learning_rate": (3e-4, 1e-2, "log"),
    "gamma": [0.95, 0.98, 0.99, 0.995],
    "gae_lambda": (0.8, 0.99),
    "ent_coef": (1e-4, 0.05, "log"),
    "update_epochs": (1, 8),
}
"""For environments that declare no ranges."""
SAME = ("seed", "algorithm", "total_steps")
"""Settings without a range."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, evenly spread in their logarithms if `log`; or choices, each as JSON."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[str, ...] = ()

    def suggest(self, trial: Any, name: str) -> None:
        """Let Optuna's trial choose."""
        if self.choices:
            trial.suggest_categorical(name, list(self.choices))
        elif isinstance(self.low, int):
            trial.suggest_int(name, self.low, self.high, log=self.log)
        else:
            trial.suggest_float(name, self.low, self.high, log=self.log)

    def written(self, value: Any) -> Any:
        """A setting as Optuna keeps it."""
        return json.dumps(value) if self.choices else value

    def read(self, value: Any) -> Any:
        """A value of Optuna's, as a setting."""
        value = json.loads(value) if self.choices else value
        return tuple(value) if isinstance(value, list) else value

    def holds(self, value: Any) -> bool:
        """Whether a setting, as Optuna keeps it, is among these."""
        return value in self.choices if self.choices else self.low <= value <= self.high

    def ends(self) -> list[Any]:
        """All choices, or the least and the greatest."""
        return [self.read(each) for each in self.choices] or [self.low, self.high]

    def __str__(self) -> str:
        if self.choices:
            return ", ".join(self.choices)
        return f"{self.low:g} to {self.high:g}{', logarithmic' if self.log else ''}"


def ranges_for(env_id: str, given: Sequence[str], arguments: Sequence[str], config: Config) -> dict[str, Range]:
    """Those that the environment declares, or the usual ones, and in place of them those given as NAME=VALUES.

    A setting among the arguments of the trainings stays fixed. Declared ranges that change nothing with this algorithm
    and these settings are left out. Raises UsageError for a given one that changes nothing.
    """
    declared = torch_batchsim.sweep_ranges(env_id) or USUAL
    foreign = set(names_of()) - {each.name for each in fields(config)}  # another algorithm's
    said = {each.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_") for each in arguments}
    found = {name: _declared(env_id, name, values) for name, values in declared.items() if name not in said | foreign}
    asked: set[str] = set()
    for text in given:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values:
            raise UsageError(f"--range takes NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C, but {text!r} was given")
        if name in said:
            raise UsageError(f"--range {name} and --{name.replace('_', '-')} exclude each other")
        if name in asked:
            raise UsageError(f"--range {name} was given twice")
        if name in foreign:
            owner = next(each for each in LEARNERS if name in names_of(each))
            raise UsageError(f"range of {name}: it is a setting of {owner}, not of {config.algorithm}")
        asked.add(name)
        found[name] = _of_text(name, values)
    found = {name: _checked(name, each, config) for name, each in found.items()}
    values_of = {name: each.ends() for name, each in found.items()}
    for name in list(found):
        needed = lacking(name, config, values_of)
        if needed and name in asked:
            flag = needed.replace("_", "-")
            raise UsageError(f"--range {name} changes nothing without --{flag} or a --range of it")
        if needed:
            del found[name]
        elif name in asked and len(values_of[name]) == 1:
            raise UsageError(f"--range {name} has one value: give --{name.replace('_', '-')} in its place")
    if not found:
        raise UsageError("nothing is left to search for: all settings with ranges were given")
    return found


def _declared(env_id: str, name: str, values: Any) -> Range:
    """`(low, high)`, `(low, high, "log")` or a list of choices."""
    if isinstance(values, list) and values:
        return Range(choices=tuple(json.dumps(each) for each in values))
    if isinstance(values, tuple) and len(values) in (2, 3) and values[2:] in ((), ("log",)):
        return Range(*values[:2], log=len(values) == 3)
    raise UsageError(
        f"{env_id} declares the range {values!r} for {name}, which is not (low, high), (low, high, 'log') or a list"
    )


def _of_text(name: str, text: str) -> Range:
    low, colon, rest = text.partition(":")
    if colon and not text.startswith(("[", '"')):
        high, _, how = rest.partition(":")
        try:
            if how not in ("", "log"):
                raise ValueError
            return Range(json.loads(low), json.loads(high), how == "log")
        except ValueError:
            raise UsageError(f"--range {name} takes LOW:HIGH or LOW:HIGH:log, but {text!r} was given") from None
    try:
        choices = json.loads(f"[{text}]")
    except ValueError:
        choices = [{"true": True, "false": False}.get(each, each) for each in text.split(",")]
    return Range(choices=tuple(json.dumps(each) for each in choices))


def _checked(name: str, found: Range, config: Config) -> Range:
    """With numbers of the setting's type. Raises UsageError for an unknown setting and for refused values."""
    hints, where = get_type_hints(type(config)), f"range of {name}"
    known = [each.name for each in fields(config) if each.name not in SAME]
    if name in SAME:
        raise UsageError(f"{where}: it is the same in all trials, which are compared")
    if name not in known:
        raise UsageError(f"{where}: unknown setting {name!r}{suggestion(name, known)}")
    values = [checked(where, name, each, hints[name]) for each in map(_listed, found.ends())]
    for value in values:
        try:
            replace(config, **{name: value})
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from error
    if found.choices:
        choices = [json.dumps(each) for each in values]
        if twice := [each for each in choices if choices.count(each) > 1]:
            raise UsageError(f"{where}: {twice[0]} is there twice")
        return Range(choices=tuple(choices))
    low, high = values
    if not (isinstance(low, (int, float)) and low < high and type(low) is type(high)) or isinstance(low, bool):
        raise UsageError(f"{where}: {low} to {high} is empty")
    if found.log and low <= 0:
        raise UsageError(f"{where}: a logarithmic one is greater than 0, but {low} was given")
    return Range(low, high, found.log)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
