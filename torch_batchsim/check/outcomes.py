"""Results of checks: outcomes, the exceptions that end a check, and the table of all outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

Status = Literal["passed", "warning", "skipped", "failed"]
_WIDTH = 118


class Failed(Exception):
    """The check found an error: a sentence, and a remedy."""

    def __init__(self, says: str, remedy: str = "") -> None:
        super().__init__(says)
        self.says, self.remedy = says, remedy


class Warned(Failed):
    """The check found something that may be intended."""


class Skipped(Exception):
    """The check does not apply, with the reason."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check: ``says`` is a sentence about it, ``remedy`` the repair of a failure."""

    name: str
    status: Status
    says: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.says}" + (f"\n  remedy: {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Report:
    """The results of all checks, in order. ``str`` gives the table."""

    title: str
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def warnings(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "warning")

    def outcome(self, name: str) -> Outcome:
        """The outcome of a check. Raises KeyError where it has not run."""
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def __str__(self) -> str:
        width = max((len(outcome.name) for outcome in self.outcomes), default=0)
        lines = [self.title, ""]
        for outcome in self.outcomes:
            lines += _rows(outcome, width)
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        """The number of checks by status."""
        counts = [(status, sum(o.status == status for o in self.outcomes)) for status in _ORDER]
        words = [f"{count} {_words(status, count)}" for status, count in counts if count]
        return ", ".join(words) or "no check has run"


_ORDER: Sequence[Status] = ("passed", "warning", "skipped", "failed")


def _words(status: str, count: int) -> str:
    return "warnings" if status == "warning" and count > 1 else status


def _rows(outcome: Outcome, width: int) -> list[str]:
    indent = " " * (width + 11)
    lines = []
    for paragraph in (*outcome.says.splitlines(), *([f"Remedy: {outcome.remedy}"] if outcome.remedy else [])):
        lines += wrap(paragraph, _WIDTH - len(indent), break_long_words=False) or [""]
    head = f"{outcome.status:8} {outcome.name:{width}}  "
    return [head + lines[0], *(indent + line for line in lines[1:])]


class CheckFailed(AssertionError):
    """Raised by ``check_env`` where checks have failed; ``report`` has all outcomes."""

    def __init__(self, report: Report) -> None:
        count = len(report.failed)
        head = f"{report.title}: {count} check{'s' * (count > 1)} failed"
        super().__init__("\n".join([head, *map(str, report.failed)]))
        self.report = report

    def __reduce__(self) -> tuple[type, tuple[Report]]:
        return type(self), (self.report,)
