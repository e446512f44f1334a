"""Trainings in processes of their own that begin at once: torch is imported once, and each of them is forked.

A line of JSON is one of them: its `arguments`, the file for its `output`, and optionally `dies`, the number of the call
of the system in a save before which it kills itself, and `limit`, bytes beyond which a file cannot grow. Lines back are
its process, and at its end its status.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

CALLS = ("fsync", "link", "replace")
"""Of the system, in a save. Before and between them files are opened, written and removed."""


def die_before(number: int) -> None:
    """Kills this process before that one of these calls."""
    left = [number]

    def counted(call: Any) -> Any:
        def calls(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **keywords)

        return calls

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]


def main() -> None:
    from torch_batchsim.train.commands import cli

    for line in sys.stdin:
        given = json.loads(line)
        process = os.fork()
        if not process:
            with open(given["output"], "a") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.close(0)
            if "dies" in given:
                die_before(given["dies"])
            if "limit" in given:
                resource.setrlimit(resource.RLIMIT_FSIZE, (given["limit"], resource.RLIM_INFINITY))
            status = cli.main(given["arguments"])
            sys.stdout.flush()
            os._exit(status)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
