"""Constants that declarations name before their values are known: ``walls: u8[SIZE, SIZE]``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import SchemaError
from .names import check_identifier, suggestion


class Constant:
    """A constant of the environment (or library) that has the component: an extent of an array, a bound of a range.

    ::

        SIZE = Constant("size")

        class Cells(Component):
            walls: u8[SIZE, 2 * SIZE + 1]
            goal: i32 = between(0, SIZE - 1)

        class Maze(Environment):
            constants = Constants(size=Option(9, minimum=3))

    It is looked up in ``constants`` (those of ``add_constants`` too) when an environment is made, so each value of the
    option makes components of its own. ``+``, ``-``, ``*`` and ``//`` with integers and other constants make
    expressions.

    Raises SchemaError for a name that C++ or Python could not use.
    """

    def __init__(self, name: str) -> None:
        check_identifier(name, "a constant")
        self._text = name
        self._names: tuple[str, ...] = (name,)
        self._compute: Callable[[Mapping[str, Any]], Any] = lambda values: values[name]

    def __repr__(self) -> str:
        return self._text

    def __add__(self, other: int | Constant) -> Constant:
        return _joined(self, "+", operator.add, other)

    def __radd__(self, other: int | Constant) -> Constant:
        return _joined(other, "+", operator.add, self)

    def __sub__(self, other: int | Constant) -> Constant:
        return _joined(self, "-", operator.sub, other)

    def __rsub__(self, other: int | Constant) -> Constant:
        return _joined(other, "-", operator.sub, self)

    def __mul__(self, other: int | Constant) -> Constant:
        return _joined(self, "*", operator.mul, other)

    def __rmul__(self, other: int | Constant) -> Constant:
        return _joined(other, "*", operator.mul, self)

    def __floordiv__(self, other: int | Constant) -> Constant:
        return _joined(self, "//", operator.floordiv, other)

    def __rfloordiv__(self, other: int | Constant) -> Constant:
        return _joined(other, "//", operator.floordiv, self)

    def __neg__(self) -> Constant:
        return 0 - self


def _joined(left: Any, sign: str, function: Callable[[Any, Any], Any], right: Any) -> Any:
    for side in (left, right):
        if isinstance(side, bool) or not isinstance(side, (int, float, Constant)):
            return NotImplemented
    made = Constant.__new__(Constant)
    made._text = " ".join((_in_brackets(left), sign, _in_brackets(right)))
    made._names = tuple(dict.fromkeys((*names_in(left), *names_in(right))))
    made._compute = lambda values: function(_computed(left, values), _computed(right, values))
    return made


def _in_brackets(side: Any) -> str:
    return f"({side!r})" if isinstance(side, Constant) and " " in side._text else repr(side)


def _computed(value: Any, values: Mapping[str, Any]) -> Any:
    return value._compute(values) if isinstance(value, Constant) else value


def names_in(value: Any) -> tuple[str, ...]:
    """The constants that a bound or an extent names, within nested lists too."""
    if isinstance(value, Constant):
        return value._names
    if isinstance(value, (list, tuple)):
        return tuple(name for part in value for name in names_in(part))
    return ()


def resolved(value: Any, values: Mapping[str, Any], what: str) -> Any:
    """``value`` with numbers in place of constants. ``what`` names it in messages.

    Raises SchemaError for a constant that is not among ``values``, or that is not a number.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(resolved(part, values, what) for part in value)
    if not isinstance(value, Constant):
        return value
    for name in value._names:
        if name not in values:
            known = ", ".join(values) or "none"
            raise SchemaError(
                f"{what} names the constant {name!r}, which is missing{suggestion(name, values)}; constants: {known}"
            )
        if isinstance(values[name], (bool, str)):
            raise SchemaError(f"{what} names the constant {name!r}, whose value must be a number, got {values[name]!r}")
    try:
        return value._compute(values)
    except ZeroDivisionError:
        raise SchemaError(f"{what}: {value!r} divides by zero where {_values_named(value, values)}") from None


def _values_named(value: Constant, values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} is {values[name]}" for name in value._names)
