"""Processes that are ended with their children, and waited for with a limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_DYING = 10.0  # seconds in which a killed process is gone, unless a driver holds it


def tool(*arguments: str) -> list[str]:
    """The command of a small run of ``tools``."""
    return [sys.executable, "-m", "torch_batchsim.gpu_check.tools", *arguments]


def run_limited(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    started: Callable[[subprocess.Popen], None] = lambda process: None,
) -> tuple[int | None, str]:
    """Run ``command``: its exit status, None if it was ended after ``seconds``, and its output.

    It stays in this process's group, so that a kill of that group ends it too. ``started`` gets it at once.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:  # a pipe would be held open by children
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        started(process)
        try:
            status: int | None = process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            status = None
            end([*descendants(process.pid), process.pid])
            reap(process)
        output.seek(0)
        return status, output.read()


def descendants(ancestor: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text("utf-8").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, new = [], [ancestor]
    while new:
        new = [child for parent in new for child in children.get(parent, ())]
        found += new
    return found


def end(processes: Sequence[int]) -> None:
    """Kill processes; ignores those that have ended."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def reap(process: subprocess.Popen) -> None:
    """Wait for a killed process for a limited time, because a driver may hold it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DYING)
