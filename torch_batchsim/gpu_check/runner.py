"""Runs stages one after the other, each in a process of its own, whatever becomes of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .findings import SPOILED, Stage

_PACKAGE = Path(__file__).parents[1]
_TAIL = 6000  # characters of what a process has printed
_NO_TIME = "no time left"


def run_stages(
    stages: Sequence[Stage], module: str, folder: Path, deadline: float, report: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Run all ``stages`` of ``module`` (an importable name) and return what each has found.

    Args:
        folder: for the files of the processes; they are removed when read.
        deadline: of ``time.monotonic``. Stages that do not fit any more are skipped.
        report: called with each stage's result as it comes.
    """
    results = []
    for stage in stages:
        left = deadline - time.monotonic()
        if left < stage.least:
            result = _result(stage, {}, 0.0, skipped=_NO_TIME)
        else:
            result = _run(stage, module, folder, min(stage.seconds, left), left < stage.seconds)
        results.append(result)
        report(result)
    return results


def _run(stage: Stage, module: str, folder: Path, seconds: float, cut: bool) -> dict[str, Any]:
    """Run one stage; ``cut`` says that it has less time than it asked for."""
    path, log = folder / f"{stage.name}.findings", folder / f"{stage.name}.log"
    path.unlink(missing_ok=True)
    started = time.monotonic()
    until = time.time() + seconds
    failure = ""
    while not failure:
        before = len(_read(path).get("checks", []))
        status = _process([module, stage.name, str(path), str(until)], log, until - time.time())
        found, printed = _read(path), log.read_text(errors="replace")[-_TAIL:] if log.is_file() else ""
        running, late = found.get("running"), status is None
        if running and late and cut:
            _settle(found, path, "skipped", f"{_NO_TIME} to finish it", "")
        elif running:
            how = f"no end after {seconds:.0f} s" if late else _death(status, printed)
            _settle(found, path, "failed", how, printed)
        if found.get("finished"):
            failure = f"after its last check {_death(status, printed)}\n{printed}" if status != 0 else ""
            break
        if late:
            failure = _NO_TIME if cut else f"the stage had not ended after its {seconds:.0f} s"
        elif len(found.get("checks", [])) <= before and status != SPOILED:
            failure = f"its process ended outside of any check: {_death(status, printed)}\n{printed}"
        elif until - time.time() < 5:
            failure = _NO_TIME
    for file in (path, log):
        file.unlink(missing_ok=True)
    seconds = time.monotonic() - started
    if failure == _NO_TIME:
        return _result(stage, found, seconds, skipped=f"{_NO_TIME} for the rest")
    return _result(stage, found, seconds, failure=failure)


def _process(arguments: list[str], log: Path, seconds: float) -> int | None:
    """The exit status of a process of ``findings``, None if it had to be ended. Leaves no process of it behind."""
    command = [sys.executable, "-m", "torch_batchsim.gpu_check.findings", *arguments]
    search = os.pathsep.join([str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open(log, "w") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": search},
        )
    try:
        return process.wait(max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the whole group: a profiler's children too
        process.wait()


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def _settle(found: dict[str, Any], path: Path, status: str, text: str, printed: str) -> None:
    """Close the check in which the process ended, so that the next process goes on behind it."""
    found["checks"].append(
        {"name": found["running"], "status": status, "text": text, "traceback": printed, "seconds": 0.0}
    )
    found["running"] = None
    path.write_text(json.dumps(found))


def _death(status: int | None, printed: str) -> str:
    if status is None:
        return "the process did not end"
    if "Timeout (" in printed and status == 1:  # as faulthandler says it
        return "it had not ended after the time that a check has"
    if status < 0:
        return f"the process ended with {signal.Signals(-status).name}"
    return f"the process ended with exit status {status}"


def _result(
    stage: Stage, found: dict[str, Any], seconds: float, failure: str = "", skipped: str = ""
) -> dict[str, Any]:
    checks = found.get("checks", [])
    skipped = skipped or found.get("skipped", "")
    failure = failure or found.get("traceback", "")
    statuses = {check["status"] for check in checks}
    if failure or "failed" in statuses:
        status = "failed"
    elif "passed" in statuses:
        status = "passed"
    else:
        status = "skipped" if skipped or statuses else "passed"
    return {
        "name": stage.name,
        "about": stage.about,
        "status": status,
        "reason": skipped,
        "seconds": seconds,
        "checks": checks,
        "notes": found.get("notes", []),
        "tables": found.get("tables", {}),
        "traceback": failure,
    }
