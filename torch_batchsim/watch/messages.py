"""Messages of pages, which anyone may have written: each field is checked before anything is done."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

MOST_BYTES = 65_536

Check = Callable[[Any], Any]
"""Returns the value, or raises Refused with what is allowed."""


class Refused(ValueError):
    """The sentence that a client gets in place of what it asked for. Nothing has changed."""


def parsed(message: str | bytes) -> tuple[str, dict[str, Any]]:
    """Kind and fields of a message. Raises Refused."""
    if isinstance(message, bytes):
        raise Refused("a message must be text")
    if len(message) > MOST_BYTES:
        raise Refused(f"a message must be of {MOST_BYTES:,} characters at most, got {len(message):,}")
    try:
        contents = json.loads(message, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"a message must be JSON: {error}") from None
    if not isinstance(contents, dict) or not isinstance(contents.get("kind"), str):
        raise Refused('a message must be an object with its "kind"')
    return contents.pop("kind"), contents


def checked(kind: str, given: Mapping[str, Any], fields: Mapping[str, Check]) -> dict[str, Any]:
    """The fields of a message, each as its check returns it. Raises Refused."""
    if given.keys() != fields.keys():
        wanted = ", ".join(fields) or "no fields"
        raise Refused(f"{kind} takes {wanted}, got {', '.join(given) or 'none'}")
    checked = {}
    for name, check in fields.items():
        try:
            checked[name] = check(given[name])
        except Refused as error:
            raise Refused(f"{kind}: {name} must be {error}") from None
    return checked


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


# ---- checks ----------------------------------------------------------------------------------------------------------


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Refused(f"true or false, got {_shown(value)}")
    return value


def whole(low: int, high: int) -> Check:
    """An integer within both ends."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Refused(f"an integer from {low} to {high}, got {_shown(value)}")
        return value

    return check


def positive(most: float) -> Check:
    """A number above 0."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
            raise Refused(f"a number above 0, at most {most:g}, got {_shown(value)}")
        return float(value)

    return check


def within(low: float, high: float) -> Check:
    """A number within both ends."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise Refused(f"a number from {low:g} to {high:g}, got {_shown(value)}")
        return float(value)

    return check


def number(value: Any) -> bool | int | float:
    """Any finite number, or true or false."""
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
        raise Refused(f"a number, got {_shown(value)}")
    return value


def point(value: Any) -> list[float]:
    """Three finite numbers."""
    if not isinstance(value, list) or len(value) != 3:
        raise Refused(f"three numbers, got {_shown(value)}")
    return [float(number(part)) for part in value]


def direction(value: Any) -> list[float]:
    """Three finite numbers, not all 0."""
    if not any(found := point(value)):
        raise Refused(f"three numbers, not all 0, got {_shown(value)}")
    return found


def text(value: Any) -> str:
    """A short text."""
    if not isinstance(value, str) or len(value) > 200:
        raise Refused(f"a text, got {_shown(value)}")
    return value


def one_of(known: Mapping[str, Any]) -> Check:
    """A name of those that are known."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Refused(f"one of {', '.join(known)}, got {_shown(value)}")
        return value

    return check


def optional(check: Check) -> Check:
    """Or null."""
    return lambda value: None if value is None else check(value)


def several(check: Check, most: int) -> Check:
    """A list, without repetition."""

    def check_all(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise Refused(f"a list of {most} entries at most, got {_shown(value)}")
        return list(dict.fromkeys(check(each) for each in value))

    return check_all


def _shown(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 40 else f"{written[:37]}..."
