"""Scripted policies that an environment offers: what plays it without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

ScriptedPolicy = Callable[[Any, Mapping[str, Any]], Any]
"""From the observations and infos of all rows, as ``reset`` and ``step`` return them, to the actions of all rows."""

TAKEN = ("random", "checkpoint")
"""Names of policies that every environment has."""


class Offering(Protocol):
    """An environment, as far as its policies are concerned."""

    @property
    def name(self) -> str: ...

    @property
    def policies(self) -> Mapping[str, ScriptedPolicy]: ...


def policies_of(environment: Offering) -> dict[str, ScriptedPolicy]:
    """``Environment.policies``, checked: names to functions. Raises ValueError."""
    given, name = environment.policies, environment.name
    if not isinstance(given, Mapping):
        raise ValueError(f"{name}.policies must be a dict of functions by name, got {given!r}")
    for key, policy in given.items():
        if not isinstance(key, str) or not key or key in TAKEN:
            raise ValueError(f"{name}.policies needs texts other than {', '.join(TAKEN)} and '' as names, got {key!r}")
        if not callable(policy):
            raise ValueError(f"{name}.policies[{key!r}] must be a function of observations and infos, got {policy!r}")
    return dict(given)
