"""Calls of g++ and nvcc: a log of their messages, and headers that g++ has parsed once for all units."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

_GXX = re.compile(r"(.*-)?g\+\+(-[\d.]+)?")  # and not clang++, which handles precompiled headers in another way
_SCRIPT = """#!/bin/sh
# Calls the compiler, in English, and keeps the call and its messages.
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
    """Changes of the environment with which torch's builder calls ``compiler`` and ``read_log`` finds its messages.

    torch's builder drops warnings of a build that succeeds.

    Args:
        variable: names the compiler to torch, by a name on PATH, because torch quotes no path. The name is not the
            compiler's own, under which nvcc looks for g++.
    """
    called = folder / "called"
    called.mkdir(exist_ok=True)
    script = called / f"logged-{Path(compiler).name}"
    names = {"compiler": shlex.quote(compiler), "log": shlex.quote(str(folder / "log"))}
    script.write_text(_SCRIPT.format(**names), "utf-8")
    script.chmod(0o755)
    return {variable: script.name, "PATH": os.pathsep.join([str(called), os.environ.get("PATH", "")])}


def read_log(folder: Path) -> str:
    """The calls of the compiler in a build, each in a line that begins with ``$``, and its messages."""
    log = folder / "log"
    return log.read_text(errors="replace") if log.is_file() else ""


def messages(log: str) -> str:
    """The messages of the compiler in all calls of a log, without the calls."""
    return "\n".join(line for line in log.splitlines() if not line.startswith("$ ")).strip("\n")


def precompile(header: Path, compiler: str, flags: Sequence[str], made: Path) -> bool:
    """Make a precompiled header for ``-include <made>.h``; False if the compiler is not g++, or fails.

    g++ uses a precompiled header of the same binary and the same flags, and otherwise reads the header itself: the
    code that it generates is the same.

    Args:
        header: all that it includes must be found from any folder, because it is copied.
        compiler: its path.
        flags: those of the units, without ``-include`` and without names that only a unit defines.
        made: path without a suffix: ``<made>.h`` and ``<made>.h.gch``. The name must identify text, compiler and flags,
            and the caller hold a lock for it.
    """
    if not _GXX.fullmatch(Path(compiler).name):
        return False
    copy, done, part = (made.with_name(made.name + suffix) for suffix in (".h", ".h.gch", ".h.part"))
    if not done.is_file():
        copy.write_text(header.read_text("utf-8"))
        command = [compiler, *flags, "-x", "c++-header", str(copy), "-o", str(part)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            part.unlink(missing_ok=True)
            return False
        os.replace(part, done)
    return True
