"""The options of a checked build, of ``make_vec(checks=...)`` and ``TBS_CHECKS``."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from ..base.names import suggestion

VARIABLE = "TBS_CHECKS"
_MOST = 2**62
_NUMBERS = {"loops": "iterations", "leftovers": "calls"}  # options that are numbers, with their units
_ON, _OFF = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")


@dataclass(frozen=True)
class Checks:
    """Options of a checked build, which always checks indices, divisions, shifts and overflows.

    On CUDA it checks indices, divisions by zero, null pointers, loops, and NaN and infinity in components that systems
    take as parameters (docs/debugging.md).

    Args:
        nan: NaN and infinity that a system leaves in a component or an observation.
        bounds: observations outside of ``observation_space``, and actions that ``action_mask`` forbids (on CPU).
        loops: iterations that the loops of one system may make for one world, in all; None for any number.
        leftovers: one of so many steps, and of so many resets, is run twice more into other leftovers of memory, to
            find outputs that ``observe`` leaves unwritten and reads of unwritten scratch; so are the first 16. None
            runs none.
    """

    nan: bool = True
    bounds: bool = True
    loops: int | None = 100_000_000
    leftovers: int | None = 64

    def __new__(cls, *values: Any, **named: Any) -> Checks:
        known = [setting.name for setting in fields(cls)]
        for name in named:
            if name not in known:
                near = suggestion(name, known)
                raise TypeError(f"Checks has no option {name!r}{near}; it has: {', '.join(known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in ("nan", "bounds"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Checks: {name} must be True or False, got {getattr(self, name)!r}")
        for name, unit in _NUMBERS.items():
            number = getattr(self, name)
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"Checks: {name} must be a number of {unit} or None, got {number!r}")
            if not 1 <= number <= _MOST:
                raise ValueError(f"Checks: {name} must be from 1 to {_MOST}, got {number}")


def checked_checks(checks: Any) -> Checks | None:
    """The options that ``checks`` of a simulator asks for; None for an ordinary build.

    ``None`` asks the environment variable ``TBS_CHECKS``: 1 or 0, or options such as ``nan=0,loops=1000``.
    Raises TypeError or ValueError, with the values that are allowed.
    """
    if checks is None:
        return checks_in(os.environ.get(VARIABLE, ""), f"{VARIABLE}=")
    if isinstance(checks, Checks):
        return checks
    if not isinstance(checks, bool):
        raise TypeError(f"checks must be True, False or torch_batchsim.Checks(...), got {checks!r}")
    return Checks() if checks else None


def checks_in(text: str, where: str) -> Checks | None:
    """The options in a text: 1 or 0 (or true, false, on, off, yes, no), or options such as ``nan=0,loops=1000``.

    Raises ValueError, with ``where`` in front of the text and the allowed values.
    """
    word = text.strip().lower()
    if word in _OFF:
        return None
    if word in _ON:
        return Checks()
    options: dict[str, Any] = {}
    known = [field.name for field in fields(Checks)]
    for part in word.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name in _NUMBERS and (value.isdecimal() or value == "none"):
            options[name] = int(value) if value.isdecimal() else None
        elif name in known and name not in _NUMBERS and value in _ON + _OFF[1:]:
            options[name] = value in _ON
        else:
            if name not in known:
                wrong = f"Checks has no option {name!r}{suggestion(name, known)}; it has: {', '.join(known)}"
            else:
                takes = "a number or none" if name in _NUMBERS else "0 or 1"
                wrong = f"{name} takes {takes}, got {value!r}"
            raise ValueError(f"{where}{text}: {wrong}; write {where}1, {where}0, or options such as nan=0,loops=1000")
    return Checks(**options)
