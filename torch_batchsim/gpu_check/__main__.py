"""Command line of the GPU check."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..bench.report import made_folder
from . import report as reports
from .runner import run_stages

_RESERVE = 5.0  # seconds for what comes after the stages


def main(arguments: Sequence[str] | None = None, module: str = "torch_batchsim.gpu_check.stages") -> int:
    """Run the stages of ``module`` and write the report. Returns 0 if nothing has failed, 1 if something has, 2 if
    there is no GPU, or no nvcc to compile for it."""
    stages = importlib.import_module(module).STAGES
    options = _options(arguments, [stage.name for stage in stages])
    if options.list:
        for stage in stages:
            print(f"{stage.name:12} {stage.about} (at most {stage.seconds:.0f} s)")
        return 0
    started = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    facts = _facts()
    report: dict[str, Any] = {
        "format": reports.FORMAT,
        "status": "no device" if facts["missing"] else "passed",
        "missing": facts["missing"],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "machine": facts["machine"],
        "stages": [],
    }

    def note(result: dict[str, Any]) -> None:
        """Keep the files up to date, so that a check that is cut short leaves a report."""
        report["stages"].append(result)
        if result["status"] == "failed":
            report["status"] = "failed"
        report["seconds"] = time.monotonic() - started
        reports.write(report, options.output)
        _print(result)

    if facts["missing"]:
        print("\n".join(facts["missing"]))
    else:
        chosen = [stage for stage in stages if options.stages is None or stage.name in options.stages]
        deadline = started + 60 * options.minutes - _RESERVE
        run_stages(chosen, module, options.output, deadline, note)
    report["seconds"] = time.monotonic() - started
    reports.write(report, options.output)
    print(f"{report['status']}; written to {options.output / 'report.md'} and {options.output / 'report.json'}")
    return {"passed": 0, "failed": 1, "no device": 2}[report["status"]]


def _options(arguments: Sequence[str] | None, known: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m torch_batchsim.gpu_check",
        description="Checks and measures on a GPU what no other machine can show, and writes a report.",
    )
    parser.add_argument("--list", action="store_true", help="print the stages and end")
    parser.add_argument("--stages", type=_names, help="only these, such as build,capture")
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything; what does not fit is skipped")
    parser.add_argument("--output", type=Path, default=Path("runs") / "gpu_check", help="folder of the report")
    options = parser.parse_args(arguments)
    for name in options.stages or ():
        if name not in known:
            raise SystemExit(f"error: there is no stage {name!r}; there are: {', '.join(known)}")
    if not 0 < options.minutes <= 1440:
        raise SystemExit(f"error: --minutes must be positive and at most 1440, got {options.minutes:g}")
    if not options.list:
        made_folder(options.output, "--output")
    return options


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _facts() -> dict[str, Any]:
    """The machine, and what it lacks: by another process, since asking for a GPU may crash or hang too."""
    command = [sys.executable, "-m", "torch_batchsim.gpu_check.machine"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", None) or "").strip()
        return {"machine": {}, "missing": [f"the machine could not be asked: {error} {said}"]}


def _print(result: dict[str, Any]) -> None:
    print(f"{result['status']:8} {result['name']} {result['seconds']:.1f} s  {result['reason']}", flush=True)
    for check in result["checks"]:
        if check["status"] == "failed":
            print(f"         {check['name']}: {check['text']}", flush=True)
    if result["traceback"]:
        print(f"         {result['traceback'].strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
