"""Folders and files of a run: their names, and whether they can be written."""

from __future__ import annotations

import os
from pathlib import Path

from ..base.errors import UsageError


def short_name(env_id: str) -> str:
    """Of an environment, for names of folders."""
    return env_id.rpartition("/")[2].rpartition("-v")[0].lower()


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
