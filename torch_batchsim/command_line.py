"""What the commands of this package have in common."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from .schema import RESERVED_OPTIONS


def parse_env_options(pairs: Iterable[str], elsewhere: Mapping[str, str]) -> dict[str, Any]:
    """``("force=10", "name=x")`` to ``{"force": 10, "name": "x"}``; values are Python literals, else strings.

    Args:
        pairs: what was given with ``--env-option``, each ``key=value``.
        elsewhere: of what ``gymnasium.make_vec`` takes beside an environment's options, how this command is told it,
            such as ``{"num_envs": "--num-envs"}``. The rest of it cannot be chosen.

    Raises ValueError with a sentence for the user. Whether the environment has such options is not known here.
    """
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--env-option takes key=value, but {pair!r} was given")
        if key in elsewhere:
            raise ValueError(f"{key} is not an option of the environment; use {elsewhere[key]}")
        if key in RESERVED_OPTIONS:
            raise ValueError(f"{key} is not an option of the environment, and cannot be chosen here")
        if key in parsed:
            raise ValueError(f"the option {key} of the environment was given twice")
        try:
            parsed[key] = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (ValueError, SyntaxError):
            parsed[key] = text
    return parsed
