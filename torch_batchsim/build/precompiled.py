"""Headers that g++ has parsed once for all units: its precompiled headers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_GXX = re.compile(r"(.*-)?g\+\+(-[\d.]+)?")  # and not clang++, which handles them in another way


def make(header: Path, compiler: str, flags: Sequence[str], made: Path) -> bool:
    """Whether there is now a precompiled header, for ``-include <made>.h``; not with a compiler that is not g++.

    g++ takes up a precompiled header that the same binary has made with the same flags, and else reads the header
    itself: the code that it makes is the same.

    Args:
        header: all that it includes must be found from any folder, for it is copied.
        compiler: its path.
        flags: those of the units, without ``-include`` and without names that only a unit defines.
        made: where it is kept, without a suffix: ``<made>.h`` and ``<made>.h.gch``. The name must tell text, compiler
            and flags, and the caller hold a lock for it.
    """
    if not _GXX.fullmatch(Path(compiler).name):
        return False
    copy, done, part = (made.with_name(made.name + suffix) for suffix in (".h", ".h.gch", ".h.part"))
    if not done.is_file():
        copy.write_text(header.read_text())
        command = [compiler, *flags, "-x", "c++-header", str(copy), "-o", str(part)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            part.unlink(missing_ok=True)
            return False
        os.replace(part, done)
    return True
