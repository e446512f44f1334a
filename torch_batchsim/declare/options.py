"""Options: the keyword arguments that an environment or a library takes, with what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ..base.names import check_identifier, suggestion, told_arguments
from ..errors import SchemaError
from .run_options import RUN_ARGUMENTS


@dataclass(frozen=True)
class Option:
    """A default together with what is allowed, for ``Parameters`` and ``Constants``.

    Args:
        default: its type (bool, int, float or str) is the option's type.
        minimum, maximum: both allowed themselves.
        above: values must be greater than this.
        choices: the allowed values.
        help: one line with the unit.
    """

    default: bool | int | float | str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    choices: tuple[Any, ...] | None = None
    help: str = ""

    def __post_init__(self) -> None:
        """Raises SchemaError where no value is allowed. The default is checked where the option has its name."""
        for name in ("minimum", "maximum", "above"):
            bound = getattr(self, name)
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float))):
                raise SchemaError(f"Option: {name} must be a number, got {bound!r}")
        if self.choices is not None and not (isinstance(self.choices, (list, tuple)) and self.choices):
            raise SchemaError(f"Option: choices must be a tuple of values, got {self.choices!r}")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise SchemaError(f"Option: minimum {self.minimum} is greater than maximum {self.maximum}")

    def checked(self, name: str, value: Any) -> Any:
        """Return ``value`` as the option's type, or raise ``TypeError`` or ``ValueError``."""
        kind = type(self.default)
        if isinstance(value, np.generic):
            value = value.item()
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise TypeError(f"option {name} must be {_article(kind)}, got {value!r}")
        if kind is float and not abs(value) <= float(np.finfo(np.float32).max):
            raise ValueError(f"option {name} must be finite as a 32-bit float, got {value!r}")
        if kind is int and not -(2**31) <= value < 2**31:
            raise ValueError(f"option {name} must fit 32 bits, got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"option {name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"option {name} must be at least {self.minimum}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"option {name} must be at most {self.maximum}, got {value!r}")
        if self.above is not None and np.float32(value) <= self.above:
            raise ValueError(f"option {name} must be greater than {self.above}, got {value!r}")
        return value

    @property
    def takes(self) -> str:
        """What values are allowed, for lists of options: ``FLOAT > 0``, ``{a,b}``."""
        if self.choices is not None:
            return f"{{{','.join(map(str, self.choices))}}}"
        kind = {bool: "{true,false}", int: "INT", float: "FLOAT", str: "TEXT"}[type(self.default)]
        lowest, highest = self.minimum, self.maximum
        if lowest is not None and highest is not None and self.above is None:
            return f"{kind} {lowest:g}..{highest:g}"
        limits = ((">", self.above), (">=", lowest), ("<=", highest))
        return " ".join([kind, *(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)])


Option.__init__ = told_arguments("Option")(Option.__init__)


def _article(kind: type) -> str:
    return {bool: "True or False", int: "an integer", float: "a number", str: "a string"}[kind]


# Keyword arguments of gymnasium.make_vec and gymnasium.make, and of the vector environment.
VECTOR_ARGUMENTS = (
    "num_worlds", "device", "autoreset_mode", "final_obs", "output", "copy", "render_mode", "render_worlds",
    *RUN_ARGUMENTS,
)  # fmt: skip
FIXED_ARGUMENTS = (
    "num_envs", "num_worlds", "device", "autoreset_mode", "final_obs", "output", "copy", *RUN_ARGUMENTS,
)  # fmt: skip
"""Arguments of which a later change would do nothing."""
SINGLE_ARGUMENTS = ("render_mode", "device", "as_agent", "partner", *RUN_ARGUMENTS)
RESERVED_OPTIONS = (
    *VECTOR_ARGUMENTS, "id", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "disable_env_checker",
    "environment", "time_limit", "by_agent", "as_agent", "partner",
)  # fmt: skip


class _Options:
    if TYPE_CHECKING:  # of an environment, self.constants.rows are values

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *unnamed: NoReturn, **options: bool | int | float | str | Option) -> None:
        if unnamed:
            what = type(self).__name__
            raise SchemaError(f"{what} are given by name, as {what}(size=9), got {unnamed[0]!r}")
        self.options = {}
        for name, value in options.items():
            check_identifier(name, "an option")
            if name in RESERVED_OPTIONS:
                raise SchemaError(
                    f"an option cannot be named {name!r}, which gymnasium or the vector environment takes"
                )
            option = value if isinstance(value, Option) else Option(value)
            if type(option.default) not in self.kinds:
                kinds = ", ".join(kind.__name__ for kind in self.kinds)
                of_text = "; a string may be one of Constants" if isinstance(option.default, str) else ""
                given = f"option {name} has default {option.default!r}"
                raise SchemaError(f"{given}; its type must be one of {kinds}{of_text}")
            option.checked(name, option.default)
            self.options[name] = option

    kinds: ClassVar[tuple[type, ...]] = (bool, int, float)


class Parameters(_Options):
    """Keyword options that systems read at run time as ``world.parameters.name`` (bool, i32 or f32)."""


class Constants(_Options):
    """Keyword options that are fixed when the systems are compiled: ``Constants::name`` in C++.

    Use them for what shapes the data (players, cells); each combination is compiled once. A ``str`` is for Python only.
    """

    kinds: ClassVar[tuple[type, ...]] = (bool, int, float, str)


class Values(dict):
    """The checked values of options, as attributes too. They do not change: compiled systems have their own copy."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        vars(self).update({name: value for name, value in values.items() if not hasattr(type(self), name)})

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("options are given when the environment is made and do not change")

    __setitem__ = __setattr__ = __delitem__ = update = clear = pop = popitem = setdefault = _refuse

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            there = f"there are {', '.join(self)}" if self else "there are none"
            raise AttributeError(f"nothing is named {name!r} here{suggestion(name, self)}; {there}") from None
