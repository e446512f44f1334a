"""What a checked build looks for, as ``make_vec(checks=...)`` and ``TBS_CHECKS`` ask for it."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

VARIABLE = "TBS_CHECKS"
_MOST_ITERATIONS = 2**62
_ON, _OFF = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")


@dataclass(frozen=True)
class Checks:
    """What a checked build looks for, beside indices, divisions, shifts and overflows, which it always checks.

    On CUDA it looks for indices into ``Rows``, and for NaN and infinity in what systems take as parameters, and for
    nothing else (docs/debugging.md).

    Args:
        casts: must be False: g++ does not see conversions from integer to integer that lose. A float that does not fit
            into an integer is always a fault.
        nan: NaN and infinity that a system leaves in a component or an observation.
        loops: iterations that the loops of one system may make for one world, in all; None for any number.
    """

    casts: bool = False
    nan: bool = True
    loops: int | None = 100_000_000

    def __post_init__(self) -> None:
        for name in ("casts", "nan"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Checks: {name} must be True or False, got {getattr(self, name)!r}")
        if self.casts:
            raise ValueError(
                "Checks: casts=True is not available: g++ does not see conversions from integer to integer that lose; "
                "a float that does not fit into an integer is a fault in every checked build"
            )
        if self.loops is None:
            return
        if isinstance(self.loops, bool) or not isinstance(self.loops, int):
            raise TypeError(f"Checks: loops must be a number of iterations or None, got {self.loops!r}")
        if not 1 <= self.loops <= _MOST_ITERATIONS:
            raise ValueError(f"Checks: loops must be from 1 to {_MOST_ITERATIONS}, got {self.loops}")


def checked_checks(checks: Any) -> Checks | None:
    """What ``checks`` of a simulator means; None for an ordinary build.

    ``None`` asks the environment variable ``TBS_CHECKS``: 1 or 0, or options such as ``nan=0,loops=1000``.
    Raises TypeError or ValueError, with the values that are allowed.
    """
    if checks is None:
        return _from_variable(os.environ.get(VARIABLE, ""))
    if isinstance(checks, Checks):
        return checks
    if not isinstance(checks, bool):
        raise TypeError(f"checks must be True, False or torch_batchsim.Checks(...), got {checks!r}")
    return Checks() if checks else None


def _from_variable(text: str) -> Checks | None:
    word = text.strip().lower()
    if word in _OFF:
        return None
    if word in _ON:
        return Checks()
    options: dict[str, Any] = {}
    known = [field.name for field in fields(Checks)]
    for part in word.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name == "loops" and (value.isdigit() or value == "none"):
            options[name] = int(value) if value.isdigit() else None
        elif name in known and name != "loops" and value in _ON + _OFF[1:]:
            options[name] = value in _ON
        else:
            raise ValueError(
                f"{VARIABLE}={text}: write {VARIABLE}=1, {VARIABLE}=0, or options of Checks such as "
                f"{VARIABLE}=nan=0,loops=1000"
            )
    return Checks(**options)
