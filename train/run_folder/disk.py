"""Files that cannot be written: a full disk, a folder without permission."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import checkpoint


class NotWritten(Exception):
    """A file of a run could not be written; names the file, the cause, and the checkpoint to continue from."""


@contextmanager
def errors(folder: Path | None = None) -> Iterator[None]:
    """Raises NotWritten for errors of the system with files of a run, in its `folder` if given. Also a decorator."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # of a step that took too long, say: not of the system
            raise
        some = f"a file in {folder}" if folder else "a file of the run"
        file = "the output" if error.errno == errno.EPIPE else error.filename or some  # head has seen enough
        hint = _last(folder / checkpoint.NAME) if folder else ""
        raise NotWritten(f"{file} cannot be written: {error.strerror}{hint}") from error


def _last(path: Path) -> str:
    try:
        steps = checkpoint.load(path, None)["steps"]
    except checkpoint.CheckpointError:
        return ""
    return f"; --resume {path} continues from {steps:,} steps"
