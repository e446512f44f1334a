"""What the commands of this package have in common."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from .options import RESERVED_OPTIONS


def parse_env_options(pairs: Iterable[str], elsewhere: Mapping[str, str]) -> dict[str, Any]:
    """``("force=10", "name=x")`` to ``{"force": 10, "name": "x"}``; values are Python literals, else strings.

    Options of libraries are named with a point: ``("grid.cell=0.2",)`` to ``{"grid": {"cell": 0.2}}``.

    Args:
        pairs: what was given with ``--env-option``, each ``key=value``.
        elsewhere: of what ``gymnasium.make_vec`` takes beside an environment's options, how this command is told it,
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
