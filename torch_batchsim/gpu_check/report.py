"""The report: one JSON file, and the same as a page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FORMAT = 2
_SHOWN = 6  # checks of a stage whose whole text the page shows
_HEADLINES = {
    "passed": "**All checks have passed.**",
    "failed": "**Checks have failed.**",
    "no device": "**No check has run.**",
}


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Write ``report.json`` and ``report.md`` into ``folder``."""
    for name, text in (("report.json", json.dumps(report, indent=2) + "\n"), ("report.md", markdown(report))):
        half = folder / f"{name}.half"
        half.write_text(text, "utf-8")
        os.replace(half, folder / name)  # at once, because others copy the files at any time


def markdown(report: Mapping[str, Any]) -> str:
    """``report`` as a page: the result, the machine, and the findings of each stage."""
    lines = ["# GPU check", "", _HEADLINES[report["status"]], ""]
    lines += [f"- {reason}" for reason in report["missing"]] + [""] * bool(report["missing"])
    machine = [{"machine": key, "": value} for key, value in report["machine"].items()]
    lines += [table(machine), "", f"{report['seconds']:.0f} s in all.", ""]
    if report["next"]:
        lines += ["Time has run out. To go on:", "", *_code(report["next"])]
    if report["stages"]:
        lines += [table([_summary(stage) for stage in report["stages"]]), ""]
    for stage in report["stages"]:
        lines += _stage(stage)
    return "\n".join(lines).rstrip() + "\n"


def _summary(stage: Mapping[str, Any]) -> dict[str, Any]:
    statuses = [check["status"] for check in stage["checks"]]
    result = _status(stage["status"]) + (f": {stage['reason']}" if stage["reason"] else "")
    checks = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return {"stage": stage["name"], "result": result, "checks": checks, "seconds": f"{stage['seconds']:.1f}"}


def _status(status: str) -> str:
    return "**failed**" if status == "failed" else status


def _stage(stage: Mapping[str, Any]) -> list[str]:
    lines = [f"## {stage['name']}", "", stage["about"], ""]
    if stage["reason"]:
        lines += [f"Skipped: {stage['reason']}.", ""]
    for check in stage["checks"]:
        remark = check["text"].partition("\n")[0]
        text = f": {remark}" if remark else ""
        lines.append(f"- {_status(check['status'])} ({check['seconds']:.1f} s): {check['name']}{text}")
    lines += [""] * bool(stage["checks"])
    for title, rows in stage["tables"].items():
        lines += [f"### {title}", "", table(rows), ""]
    for note in stage["notes"]:
        lines += [note, ""]
    long = [(check["name"], check["traceback"] or check["text"].partition("\n")[2]) for check in stage["checks"]]
    long = [(name, text) for name, text in long if text]
    for name, text in long[:_SHOWN]:
        lines += [f"### {name}", "", *_code(text)]
    if len(long) > _SHOWN:
        lines += [f"report.json has the whole text of {len(long) - _SHOWN} more checks.", ""]
    return lines + (_code(stage["traceback"]) if stage["traceback"] else [])


def _code(text: str) -> list[str]:
    return ["```", text.strip().replace("```", "'''"), "```", ""]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a table of Markdown, numbers to the right."""
    if not rows:
        return "(nothing)"
    keys = list(rows[0])
    right = [all(isinstance(row[key], (int, float)) or row[key] is None for row in rows) for key in keys]
    lines = [keys, ["---:" if number else "---" for number in right]]
    lines += [[_cell(row[key]) for key in keys] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    """At least four digits of a number; empty for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")
