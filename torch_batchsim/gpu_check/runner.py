"""Runs stages one after the other, each in a process of its own, which may crash or hang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .builds import Builds
from .findings import NO_TIME, SPOILED, Stage
from .processes import reap

_PACKAGE = Path(__file__).parents[1]
_TAIL = 6000  # characters of a process's output
_HANGS = 2  # checks of a stage that may hang before the rest is left out
_HUNG = "it had not ended after the time that a check has"
_KEPT = ("checks", "notes", "tables")  # of the findings of an earlier run


def run_stages(
    stages: Sequence[Stage],
    module: str,
    folder: Path,
    deadline: float,
    report: Callable[[dict[str, Any]], None],
    earlier: Mapping[str, Mapping[str, Any]] | None = None,
    builds: Builds | None = None,
) -> list[dict[str, Any]]:
    """Run all ``stages`` of ``module`` (an importable name) and return the findings of each, those of a stage that
    waits for builds where it has ended.

    Args:
        folder: for the files of the processes; they are removed when read.
        deadline: of ``time.monotonic``. Stages without enough time before it are skipped.
        report: called with each stage's result as it comes.
        earlier: by name, results of stages that ran out of time: they go on from there.
        builds: in the background. A stage that waits for some goes on when they have ended, or when no other is left.
    """
    builds = builds or Builds((), folder)
    queue, before = list(stages), dict(earlier or {})
    results: dict[str, dict[str, Any]] = {}
    waiting: dict[str, int] = {}  # by name, how many builds of a stage had ended when it last began
    while queue:
        ended = builds.all_ended()
        stage = _next(queue, waiting, builds)
        if stage is None:
            if builds.wait(ended, deadline):
                continue
            stage = queue[0]
        queue.remove(stage)
        began = builds.ended(stage.builds)
        left = deadline - time.monotonic()
        if left < stage.least:
            result = _result(stage, _kept(before.get(stage.name)), 0.0, skipped=NO_TIME)
        else:
            known, given = _kept(before.get(stage.name)), min(stage.limit, left)
            result = _run(stage, module, folder, min(stage.seconds, given), given < stage.seconds, known)
            if out_of_time(result) and began < len(stage.builds):
                waiting[stage.name], before[stage.name] = began, result
                queue.append(stage)
        results.pop(stage.name, None)
        results[stage.name] = result
        report(result)
        if stage.gate and result["status"] == "failed" and _shuts(stage.gate, result["checks"]):
            break
    return list(results.values())


def _shuts(gate: Sequence[str], checks: Sequence[Mapping[str, Any]]) -> bool:
    failed = {check["name"] for check in checks if check["status"] == "failed"}
    return not failed or not failed.isdisjoint(gate)


def _next(queue: Sequence[Stage], waiting: Mapping[str, int], builds: Builds) -> Stage | None:
    """A stage that has waited until all its builds have ended; else the first new one that has something to do; else
    one of whose builds another has ended."""
    for stage in queue:
        if stage.name in waiting and builds.ended(stage.builds) == len(stage.builds):
            return stage
    for stage in queue:
        if stage.name not in waiting and (not stage.after_builds or builds.ended(stage.builds)):
            return stage
    return next((stage for stage in queue if builds.ended(stage.builds) > waiting.get(stage.name, 0)), None)


def out_of_time(result: Mapping[str, Any]) -> bool:
    """Whether a stage must run again because it had too little time."""
    return result["reason"].startswith(NO_TIME)


def _kept(result: Mapping[str, Any] | None) -> dict[str, Any]:
    """The findings of an earlier run, without the checks that it had no time to finish."""
    found: dict[str, Any] = {"running": None, "traceback": "", **{key: (result or {}).get(key) for key in _KEPT}}
    found["checks"] = [check for check in found["checks"] or [] if not check["text"].startswith(NO_TIME)]
    return found | {"notes": found["notes"] or [], "tables": found["tables"] or {}}


def _run(
    stage: Stage, module: str, folder: Path, seconds: float, cut: bool, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Run one stage; ``cut``: with less time than it asks for; ``known``: the findings of an earlier run."""
    path, log = folder / f"{stage.name}.findings", folder / f"{stage.name}.log"
    path.write_text(json.dumps(known))
    started = time.monotonic()
    until = time.time() + seconds
    failure, hangs = "", 0
    while not failure:
        before = len(_read(path).get("checks", []))
        status = _process([module, stage.name, str(path), str(until)], log, until - time.time())
        found, printed = _read(path), log.read_text(errors="replace")[-_TAIL:] if log.is_file() else ""
        running, late = found.get("running"), status is None
        if running and late and cut:
            _settle(found, path, "skipped", f"{NO_TIME} to finish it", "")
        elif running:
            how = f"no end after {seconds:.0f} s" if late else _death(status, printed)
            hangs += how == _HUNG
            _settle(found, path, "failed", how, printed)
        if found.get("finished"):
            failure = f"after its last check {_death(status, printed)}\n{printed}" if status != 0 else ""
            break
        if late:
            failure = NO_TIME if cut else f"the stage had not ended after its {seconds:.0f} s"
        elif hangs == _HANGS:
            failure = f"{hangs} of its checks did not end, so the rest was left out"
        elif len(found.get("checks", [])) <= before and status != SPOILED:
            failure = f"its process ended outside of any check: {_death(status, printed)}\n{printed}"
        elif until - time.time() < 5:
            failure = NO_TIME
    for file in (path, log):
        file.unlink(missing_ok=True)
    seconds = time.monotonic() - started
    if failure == NO_TIME:
        return _result(stage, found, seconds, skipped=f"{NO_TIME} for the rest")
    return _result(stage, found, seconds, failure=failure)


def _process(arguments: list[str], log: Path, seconds: float) -> int | None:
    """The exit status of a process of ``findings``, None if it was ended. Leaves no process behind."""
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
        reap(process)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


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
    if "Timeout (" in printed and status == 1:  # as faulthandler prints it
        return _HUNG
    if status < 0:
        return f"the process ended with {signal.Signals(-status).name}"
    return f"the process ended with exit status {status}"


def _result(
    stage: Stage, found: dict[str, Any], seconds: float, failure: str = "", skipped: str = ""
) -> dict[str, Any]:
    checks = found.get("checks", [])
    skipped = skipped or found.get("skipped", "")
    if not skipped and any(check["text"].startswith(NO_TIME) for check in checks if check["status"] == "skipped"):
        skipped = f"{NO_TIME} for the rest"
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
