"""The origin of a run: command, versions, commits, machine."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import gymnasium
import torch

import torch_batchsim


def versions() -> dict[str, str]:
    """Of Python and the packages that compute."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_batchsim": torch_batchsim.__version__,
        "gymnasium": gymnasium.__version__,
    }


def facts(device: torch.device) -> dict[str, Any]:
    """The facts of a run in `run.json`, except for its settings."""
    cuda = device.type == "cuda"
    return {
        "command": shlex.join([Path(sys.executable).name, "-m", "torch_batchsim.train", *sys.argv[1:]]),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": _commit(Path.cwd()),
        "commit_of_torch_batchsim": _commit(Path(torch_batchsim.__file__).parent),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": torch.cuda.get_device_name(device) if cuda else "cpu",
        "threads": torch.get_num_threads(),
    }


def _commit(folder: Path) -> str | None:
    """The commit of the repository that holds a folder, with "+" where files differ from it; None without one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
