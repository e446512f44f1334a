"""The facts of the machine, for reports of figures."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import gymnasium
import torch

from .._version import __version__
from ..command_line import UsageError


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
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    """``$TORCH_BATCHSIM_COMMIT``, else the checkout's commit; "unknown" outside of one, and where git is missing."""
    given = os.environ.get("TORCH_BATCHSIM_COMMIT")
    if given:
        return given
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def made_folder(path: Path, option: str) -> Path:
    """The folder, made where it is missing; ends the program with a sentence where that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if path.is_file() else error.strerror
        raise UsageError(f"{option} needs a folder that can be written, got {str(path)!r}: {reason}") from None
    return path
