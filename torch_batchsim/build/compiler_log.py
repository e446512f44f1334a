"""Keeps what a compiler says in a build, warnings too: torch's builder drops them where the build succeeds."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

_SCRIPT = """#!/bin/sh
# Calls the compiler, in English, and keeps the call and what it says.
said={log}.$$
printf '$ %s\\n' {compiler}" $*" >>{log}
LC_ALL=C {compiler} "$@" 2>"$said"
code=$?
cat "$said" >>{log}
cat "$said" >&2
rm -f "$said"
exit $code
"""


def logged(variable: str, compiler: str, folder: Path) -> dict[str, str]:
    """Changes of the environment with which torch's builder calls ``compiler`` and ``read_log`` knows what it said.

    ``variable``: which names the compiler to torch, by a name on PATH, for torch quotes no path. It is not the
    compiler's own, under which nvcc looks for g++.
    """
    called = folder / "called"
    called.mkdir(exist_ok=True)
    script = called / f"logged-{Path(compiler).name}"
    names = {"compiler": shlex.quote(compiler), "log": shlex.quote(str(folder / "log"))}
    script.write_text(_SCRIPT.format(**names))
    script.chmod(0o755)
    return {variable: script.name, "PATH": os.pathsep.join([str(called), os.environ.get("PATH", "")])}


def read_log(folder: Path) -> str:
    """The calls of the compiler in a build, each in a line that begins with ``$``, and what it said."""
    log = folder / "log"
    return log.read_text(errors="replace") if log.is_file() else ""


def words(log: str) -> str:
    """What the compiler said in all calls of a log, without the calls."""
    return "\n".join(line for line in log.splitlines() if not line.startswith("$ ")).strip("\n")
