"""Folders and files of a run: their names, and errors where they cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ..base.errors import UsageError
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


def short_name(env_id: str) -> str:
    """Of an environment, for names of folders."""
    return env_id.rpartition("/")[2].rpartition("-v")[0].lower()


def new_folder(name: str) -> Path:
    """A folder that no other command has, in runs/; its name ends with the time, and a number where that is taken."""
    folder = first = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    made(first.parent)
    number = 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            folder = first.with_name(f"{first.name}-{number}")
        except OSError as error:
            raise UsageError(f"folder {folder} cannot be made: {error.strerror}") from error
        else:
            return folder


def made(folder: Path) -> Path:
    """The folder, which is made if it is missing. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"folder {folder} cannot be made: {error.strerror}") from error
    return folder


def check_writable(*paths: Path | None) -> None:
    """Raises UsageError, before a training, for a file that it could not write. Missing folders are made later."""
    for path in filter(None, paths):
        if path.is_dir():
            raise UsageError(f"{path} cannot be written: it is a folder")
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        if not nearest.is_dir():
            raise UsageError(f"{path} cannot be written: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK):
            raise UsageError(f"{path} cannot be written: folder {nearest} is read-only")


def write_text(path: Path, text: str) -> None:
    """Writes a file so that it is never a part of one, whenever the process ends."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_bytes(text.encode())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
