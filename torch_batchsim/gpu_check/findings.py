"""The findings of a stage, and the process that it runs in: ``python -m torch_batchsim.gpu_check.findings``.

The findings are a JSON file that is written anew before and after every check, so that a process that crashes or hangs
leaves its findings so far and the name of its last check.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NO_TIME = "no time left"  # the beginning of the reason, where a check or a stage is skipped because time ran out
Job = tuple[str, str]  # an environment and an executor of CUDA, to be compiled
SPOILED = 86  # exit status: an error has spoiled the process, and another one must go on


class Skipped(Exception):
    """Raised by a check or a stage that this machine does not allow; the text is the reason."""


@dataclass(frozen=True)
class Stage:
    """Checks that run in a process of their own.

    Attributes:
        about: its claim, in one line.
        run: makes the checks, by calls of ``Findings.check``.
        seconds: after which its process is ended.
        least: seconds that must be left for it to begin.
        builds: those of its checks that take minutes. A check is skipped while its build is under way, and the stage
            goes on when that has ended.
        after_builds: it has nothing to do before one of ``builds`` has ended.
        gate: names of checks without which no further stage runs; nor where the stage fails outside of its checks.
        limit: seconds after which it goes on another time, if that is before its end.
    """

    name: str
    about: str
    run: Callable[[Findings], None]
    seconds: float
    least: float = 15.0
    builds: tuple[Job, ...] = ()
    after_builds: bool = False
    gate: tuple[str, ...] = ()
    limit: float = math.inf


class Findings:
    """The findings of one stage.

    Args:
        path: of the file, which may hold the findings of an earlier process.
        until: the time (of ``time.time``) at which this process is ended.
        watched: end this process, with a traceback, when a check takes longer than ``check_seconds``: only for one
            that does nothing else.
    """

    check_seconds = 45.0  # after which a check counts as hanging; a stage may set it

    def __init__(self, path: Path, until: float, *, watched: bool = False) -> None:
        self._path, self._until, self._watched = path, until, watched
        self.found: dict[str, Any] = {"checks": [], "notes": [], "tables": {}, "running": None, "traceback": ""}
        if path.is_file():  # an earlier process has not finished
            self.found = json.loads(path.read_text("utf-8"))
        self._before = {check["name"] for check in self.found["checks"]}
        self._done: set[str] = set()

    def check(self, name: str, function: Callable[..., str | None], *arguments: Any, **keywords: Any) -> None:
        """Call ``function``: it fails by an exception, else it has passed.

        The report has the text that it returns: a remark of one line, and further lines. A check that an earlier
        process of this stage has reached is left out.
        """
        if name in self._done:
            raise ValueError(f"names of checks must differ, got {name!r} twice")
        self._done.add(name)
        if self.has(name):
            return
        self.found["running"] = name
        self.save()
        started = time.monotonic()
        if self._watched:
            faulthandler.dump_traceback_later(self.check_seconds, exit=True)
        result = {"name": name, "status": "passed", "text": "", "traceback": ""}
        spoiled = False
        try:
            result["text"] = self._tried(function, *arguments, **keywords) or ""
        except Skipped as reason:
            result |= {"status": "skipped", "text": str(reason)}
        except Exception as error:
            result |= {"status": "failed", "text": _headline(error), "traceback": traceback.format_exc()}
            spoiled = _spoils(error)
        if self._watched:
            faulthandler.cancel_dump_traceback_later()
        self.found["checks"].append(result | {"seconds": time.monotonic() - started})
        self.found["running"] = None
        self.save()
        if spoiled:
            os._exit(SPOILED)  # an ordinary exit would touch the device

    def _tried(self, function: Callable[..., str | None], *arguments: Any, **keywords: Any) -> str | None:
        """Call ``function``; a second time, by tiles, where the device has refused a cooperative launch."""
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            playing = sys.modules.get(f"{__package__}.playing")
            if playing is None or not playing.goes_on_by_tiles(error):
                raise
            refused = _headline(error)
        self.note(f"A cooperative launch was refused, so blocks took tiles in turns: {refused}.")
        return f"by tiles, because a cooperative launch was refused: {function(*arguments, **keywords) or ''}"

    def has(self, name: str) -> bool:
        """Whether an earlier process of this stage has reached a check."""
        return name in self._before

    def note(self, text: str) -> None:
        """Add a paragraph to the report, once."""
        if text not in self.found["notes"]:
            self.found["notes"].append(text)

    def row(self, table: str, **cells: Any) -> None:
        """Add a row to a table of figures, once; all rows of a table have the same cells."""
        rows = self.found["tables"].setdefault(table, [])
        if cells not in rows:
            rows.append(cells)

    def time_left(self) -> float:
        """Seconds until this process is ended."""
        return self._until - time.time()

    def save(self) -> None:
        """Write the file at once, so that no reader finds half of it."""
        half = self._path.with_suffix(".half")
        half.write_text(json.dumps(self.found))
        os.replace(half, self._path)


def _headline(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]


def _spoils(error: Exception) -> bool:
    """Whether later checks are worthless: an error stays in the CUDA context, or may have left a capture unfinished. A
    difference of bits spoils nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return not isinstance(error, AssertionError)


def main(module: str, name: str, path: str, until: str) -> None:
    """Run one stage of ``module.STAGES``."""
    faulthandler.enable()
    findings = Findings(Path(path), float(until), watched=True)
    try:
        stage = next(stage for stage in importlib.import_module(module).STAGES if stage.name == name)
        stage.run(findings)
    except Skipped as reason:
        findings.found["skipped"] = str(reason)
    except Exception:
        findings.found["traceback"] = traceback.format_exc()
    findings.found["finished"] = True
    findings.save()


if __name__ == "__main__":
    from torch_batchsim.gpu_check import findings as this  # whose Skipped stages raise, not that of __main__

    this.main(*sys.argv[1:])
