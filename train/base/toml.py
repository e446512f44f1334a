"""TOML files: read as the standard library does, and written, which it does not."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: Path) -> dict[str, Any]:
    """The contents of a file of settings. Raises UsageError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"settings {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"settings {path} are not TOML: {error}") from error


def lines(settings: Mapping[str, Any]) -> list[str]:
    """TOML lacks None: undefined settings are left out."""
    return [f"{name} = {_value(value)}" for name, value in settings.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, as TOML has it; JSON says Infinity
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    # JSON writes characters beyond 16 bits as two escapes, and DEL unescaped: TOML takes neither.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
