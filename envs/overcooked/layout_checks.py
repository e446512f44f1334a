"""Checks of types and ranges in layouts: each returns a value of Python's types, or raises ``Problem``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Cell = tuple[int, int]  # x, y

GREATEST = float(np.finfo(np.float32).max)


class Problem(ValueError):
    """An error in a layout; ``read_layout`` adds the layout's name."""


def check_keys(given: Any, what: str, needed: Sequence[str], others: Sequence[str]) -> None:
    """``given`` is a dict with all of ``needed`` and nothing but these and ``others``."""
    if not isinstance(given, Mapping):
        raise Problem(f"{what} must be a dict, got {given!r}")
    known = (*needed, *others)
    for key in given:
        if key not in known:
            raise Problem(f"{key!r} is unknown in {what}{suggestion(str(key), known)}; known are {', '.join(known)}")
    missing = [key for key in needed if key not in given]
    if missing:
        raise Problem(f"{what} must have {', '.join(map(repr, missing))}")


def plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def finite(value: Any, what: str) -> int | float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= GREATEST:
        raise Problem(f"{what} must be a number that is finite as a 32-bit float, got {value!r}")
    return value


def integer(value: Any, what: str, low: int, high: int) -> int:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Problem(f"{what} must be a whole number from {low} to {high}, got {value!r}")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, list | tuple):
        raise Problem(f"{what} must be a list, got {value!r}")
    return list(value)


def pair(value: Any, what: str) -> tuple[int, int]:
    pair = [plain(number) for number in sequence(value, what)]
    if len(pair) != 2 or not all(type(number) is int for number in pair):
        raise Problem(f"{what} must be two whole numbers (x, y), got {value!r}")
    return pair[0], pair[1]


def where(x: int, y: int) -> str:
    return f"row {y + 1}, column {x + 1} (x={x}, y={y})"


def suggestion(name: str, known: Sequence[str]) -> str:
    """``" (did you mean 'cook_time'?)"``: the nearest of the known names, if one is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
