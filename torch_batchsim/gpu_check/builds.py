"""Builds that take minutes. They run in the background from the start of a check, at low priority, so that the GPU is
measured meanwhile; processes of stages see in files which of them have ended."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen

from .findings import NO_TIME, Job, Skipped
from .processes import descendants, end, run_limited, tool

SECONDS = 420.0  # of one build
FOLDER = "TORCH_BATCHSIM_GPU_CHECK_BUILDS"  # variable: the folder of the files
_SAME = {"hunt": "hideseek"}  # environments that differ in parameters only have one build


class Builds:
    """Compiles ``jobs``, each in a process of its own. ``close`` ends those that are still at work.

    Args:
        folder: for a file of each job. They are removed at the end.
    """

    def __init__(self, jobs: Sequence[Job], folder: Path) -> None:
        self._jobs = list(dict.fromkeys(jobs))
        self._folder, self._changed = folder, threading.Condition()
        self._ended: set[Job] = set()
        self._processes: list[Popen] = []
        self._closed = False
        if self._jobs:
            os.environ[FOLDER] = str(folder.resolve())
            for job in self._jobs:
                _write(_file(folder, *job), {"status": "running", "text": ""})
            self._pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3))
            for job in self._jobs:
                self._pool.submit(self._build, job)

    def ended(self, jobs: Sequence[Job]) -> int:
        """How many of ``jobs`` are not at work; all of those that are not built here."""
        with self._changed:
            return sum(job in self._ended or job not in self._jobs for job in jobs)

    def wait(self, ended: int, deadline: float) -> bool:
        """Wait until more than ``ended`` of all jobs have ended: False where that does not happen before ``deadline``
        of ``time.monotonic``."""
        with self._changed:
            left = deadline - time.monotonic()
            return ended < len(self._jobs) and self._changed.wait_for(lambda: len(self._ended) > ended, max(0.0, left))

    def all_ended(self) -> int:
        """How many of all jobs have ended."""
        return self.ended(self._jobs)

    def close(self) -> None:
        """End what is still at work, with its children, and remove the files."""
        with self._changed:
            self._closed = True
            for process in self._processes:
                if process.poll() is None:
                    end([*descendants(process.pid), process.pid])
        if self._jobs:
            self._pool.shutdown(cancel_futures=True)
            os.environ.pop(FOLDER, None)
            for job in self._jobs:
                _file(self._folder, *job).unlink(missing_ok=True)

    def _build(self, job: Job) -> None:
        status, said = run_limited(tool("compile", *job), SECONDS, started=self._started)
        last = (["nothing printed"] + said.strip().splitlines())[-1]
        if status == 0:
            found = {"status": "passed", "text": last}
        else:
            how = f"no end after {SECONDS:.0f} s" if status is None else f"exit status {status}"
            found = {"status": "failed", "text": f"its build in the background: {how}: {last}\n{said}"}
        with self._changed:
            if not self._closed:
                _write(_file(self._folder, *job), found)
            self._ended.add(job)
            self._changed.notify_all()

    def _started(self, process: Popen) -> None:
        with self._changed:
            self._processes.append(process)
            if self._closed:
                process.kill()


def require(name: str, executor: str | None) -> str:
    """What the build in the background has said; empty where there is none of this environment and executor.

    Raises Skipped while it is under way, and AssertionError where it has failed. Without ``executor``: Skipped while
    none of the environment's has ended, since the first thing that they all make is the CPU's library.
    """
    folder = os.environ.get(FOLDER)
    paths = sorted(Path(folder).glob(f"{_SAME.get(name, name)}_{executor or '*'}.build")) if folder else []
    found = [json.loads(path.read_text("utf-8")) for path in paths]
    if found and all(one["status"] == "running" for one in found):
        raise Skipped(f"{NO_TIME}: its build is under way")
    if executor is None or not found:
        return ""
    if found[0]["status"] == "failed":
        raise AssertionError(found[0]["text"])
    return found[0]["text"]


def _file(folder: Path, name: str, executor: str) -> Path:
    return folder / f"{name}_{executor}.build"


def _write(path: Path, found: dict[str, str]) -> None:
    """Write at once, so that no reader finds half of it."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(found))
    os.replace(half, path)
