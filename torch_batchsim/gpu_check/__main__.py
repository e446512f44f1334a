"""Command line of the GPU check."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..bench.report import made_folder
from ..command_line import Parser, UsageError
from . import report as reports
from .builds import Builds
from .findings import Stage
from .processes import run_limited
from .runner import out_of_time, run_stages

_PROGRAM = "python -m torch_batchsim.gpu_check"
_OUTPUT = Path("runs") / "gpu_check"
_RESERVE = 5.0  # seconds for the report after the stages


def main(arguments: Sequence[str] | None = None, module: str = "torch_batchsim.gpu_check.stages") -> int:
    """Run the stages of ``module`` and write the report. Returns 0, 1 if a stage has failed, or 2 where the GPU or nvcc
    is missing."""
    stages = importlib.import_module(module).STAGES
    options = _options(arguments, {stage.name: stage for stage in stages})
    if options.list:
        for stage in stages:
            print(f"{stage.name:12} {stage.about} (at most {stage.seconds:.0f} s)")
        return 0
    started = time.monotonic()
    if options.cache is not None:
        _use_cache(options.cache)
    facts = _facts(options.budget / 2)
    if facts["missing"] and options.go_on:  # the earlier report stays
        print("\n".join(facts["missing"]))
        return 2
    done, earlier = _before(options.output, facts["machine"]) if options.go_on else ([], {})
    report: dict[str, Any] = {
        "format": reports.FORMAT,
        "status": "no device" if facts["missing"] else "passed",
        "missing": facts["missing"],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "machine": facts["machine"],
        "stages": done,
        "next": "",
    }

    def judge() -> None:
        failed = any(stage["status"] == "failed" for stage in report["stages"])
        report["status"] = "failed" if failed else "passed"

    def note(result: dict[str, Any]) -> None:
        """Update the files after each stage, so that a check that is cut short leaves a report."""
        report["stages"] = [stage for stage in report["stages"] if stage["name"] != result["name"]] + [result]
        judge()
        report["seconds"] = time.monotonic() - started
        reports.write(report, options.output)
        _print(result)

    if facts["missing"]:
        print("\n".join(facts["missing"]))
    else:
        print(f"step in C++: {facts['machine']['step in C++']}", flush=True)
        known = {stage["name"] for stage in done}
        report["stages"] = [*done, *earlier.values()]  # those that ran out of time stay until they run again
        judge()
        left = [stage for stage in options.stages or stages if stage.name not in known]
        builds = Builds([job for stage in left for job in stage.builds], options.output)
        try:
            run_stages(left, module, options.output, started + options.budget - _RESERVE, note, earlier, builds)
        finally:
            builds.close()
        report["next"] = _next(report["stages"], options)
    report["seconds"] = time.monotonic() - started
    reports.write(report, options.output)
    print(f"{report['status']}; written to {options.output / 'report.md'} and {options.output / 'report.json'}")
    if report["next"]:
        print(f"time has run out; go on with:\n{report['next']}")
    return {"passed": 0, "failed": 1, "no device": 2}[report["status"]]


def _options(arguments: Sequence[str] | None, known: Mapping[str, Stage]) -> argparse.Namespace:
    parser = Parser(
        _PROGRAM,
        description="Checks and measures on a GPU, and writes a report.",
    )
    parser.add_argument("--list", action="store_true", help="print the stages and end")
    parser.add_argument(
        "--stages", type=_names, help="only these, in this order, such as build,bits:40 (for 40 s at most)"
    )
    parser.add_argument("--budget", type=float, default=270.0, help="seconds for everything; the report names the rest")
    parser.add_argument("--output", type=Path, default=_OUTPUT, help=f"folder of the report (default: {_OUTPUT})")
    parser.add_argument("--cache", type=Path, help="folder of builds (default: $TORCH_BATCHSIM_CACHE, or the user's)")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="go on with the report in --output")
    options = parser.parse_args(arguments)
    if options.stages is not None:
        options.stages = [_stage(text, known) for text in options.stages]
    if not 0 < options.budget <= 86_400:
        raise UsageError(f"--budget must be positive and at most 86400 seconds, got {options.budget:g}")
    if not options.list:
        made_folder(options.output, "--output")
        if options.cache is not None:
            made_folder(options.cache, "--cache")
    return options


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _stage(text: str, known: Mapping[str, Stage]) -> Stage:
    """The stage that ``name`` or ``name:seconds`` asks for."""
    name, _, seconds = text.partition(":")
    if name not in known:
        raise UsageError(f"stages are {', '.join(known)}, got {name!r}")
    if seconds and not seconds.isdecimal():
        raise UsageError(f"behind a stage's name goes a number of seconds, got {text!r}")
    return replace(known[name], limit=float(seconds)) if seconds else known[name]


def _use_cache(folder: Path) -> None:
    """Let all later processes keep their builds there: the engine's, and torch.compile's."""
    os.environ["TORCH_BATCHSIM_CACHE"] = str(folder.resolve())
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder.resolve() / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(folder.resolve() / "triton")


def _facts(seconds: float) -> dict[str, Any]:
    """The machine and its missing parts, from another process, because a look at a GPU may crash or hang."""
    status, said = run_limited([sys.executable, "-m", "torch_batchsim.gpu_check.machine"], seconds)
    try:
        if status == 0:
            return json.loads(next(line for line in said.splitlines()[::-1] if line.startswith("{")))
    except (ValueError, StopIteration):
        pass
    how = f"no answer after {seconds:.0f} s" if status is None else f"exit status {status}"
    return {"machine": {}, "missing": [f"the look at the machine failed: {how} {said.strip()}"]}


def _before(folder: Path, machine: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The finished stages of the report in ``folder``, and by name those that ran out of time.

    Ends the program if that report is of another commit or GPU, because its figures would not belong together.
    """
    path = folder / "report.json"
    if not path.is_file():
        return [], {}
    old = json.loads(path.read_text("utf-8"))
    for what in ("commit", "GPU"):
        if old["format"] != reports.FORMAT or old["machine"].get(what) != machine.get(what):
            here, there = machine.get(what), old["machine"].get(what)
            raise UsageError(
                f"--continue: {path} is of another {what} or version ({there}, here {here}); take another --output"
            )
    done = [stage for stage in old["stages"] if not out_of_time(stage)]
    return done, {stage["name"]: stage for stage in old["stages"] if out_of_time(stage)}


def _next(results: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    """The command that goes on where time ran out; empty if all stages are finished."""
    left = [result["name"] for result in results if out_of_time(result)]
    if not left:
        return ""
    command = f"{_PROGRAM} --continue --budget {options.budget:g} --output {shlex.quote(str(options.output))}"
    command += f" --cache {shlex.quote(str(options.cache))}" if options.cache is not None else ""
    return command + (f" --stages {','.join(left)}" if options.stages is not None else "")


def _print(result: dict[str, Any]) -> None:
    print(f"{result['status']:8} {result['name']} {result['seconds']:.1f} s  {result['reason']}", flush=True)
    for check in result["checks"]:
        if check["status"] == "failed":
            print(f"         {check['name']}: {check['text']}", flush=True)
    if result["traceback"]:
        print(f"         {result['traceback'].strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
