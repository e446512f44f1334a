"""Figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as aligned text columns."""
    if not rows:
        return "(nothing measured)"
    cells = [list(rows[0]), *([figure(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def figure(value: Any) -> str:
    """A number with three or four digits and a unit, such as ``580.1 M``; anything else as it is."""
    if isinstance(value, float):
        for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if abs(value) >= factor:
                return f"{value / factor:.1f} {unit}"
        return f"{value:.1f}"
    return str(value)
