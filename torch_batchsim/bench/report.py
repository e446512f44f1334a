"""How figures are shown: a plain table, and the facts of the machine that they belong to."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import gymnasium
import torch

from .._version import __version__


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as aligned text columns."""
    if not rows:
        return "(nothing measured)"
    cells = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _text(value: Any) -> str:
    if isinstance(value, float):
        for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if abs(value) >= factor:
                return f"{value / factor:.1f} {unit}"
        return f"{value:.1f}"
    return str(value)


def machine_facts(device: str) -> dict[str, Any]:
    """Device, processor, versions, commit and date."""
    on_cuda = torch.device(device).type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_cuda else _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
        "torch_batchsim": __version__,
        "commit": _commit(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
