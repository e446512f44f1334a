"""The lock of a run's folder: one training at a time writes into it."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import UsageError


class NotWritable(UsageError):
    """Nothing can be written into a folder."""


NAME = ".lock"
SECONDS_TO_WAIT = 10.0
"""So long may a training that is ending, whose launcher is gone, take to save and leave."""
_held: set[Path] = set()
"""Folders that this process has locked."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from training in a folder that exists. The kernel ends the lock with the process, however
    that ends. Within itself it changes nothing.

    Raises UsageError where another process keeps the lock, and NotWritable.
    """
    own = folder.resolve()
    if own in _held:
        yield
        return
    try:
        file = open(own / NAME, "a+")  # noqa: SIM115
    except OSError as error:
        raise NotWritable(f"folder {folder} cannot be written: {error.strerror}") from error
    with file:
        _take(file.fileno(), folder)
        _held.add(own)
        try:
            yield
        finally:
            _held.remove(own)


def _take(file: int, folder: Path) -> None:
    end, has_said = time.monotonic() + SECONDS_TO_WAIT, False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 200, 0).decode(errors="replace") or "an unknown process"
            if time.monotonic() < end:
                if not has_said:
                    print(f"Another training runs in folder {folder}: {owner}; waiting {SECONDS_TO_WAIT:g} s for it.",
                          flush=True)  # fmt: skip
                has_said = True
                time.sleep(0.1)
                continue
            raise UsageError(f"another training runs in folder {folder}: {owner}") from None
        except OSError as error:  # of a file system without locks
            print(f"Folder {folder} cannot be locked ({error.strerror}): start no other training in it.")
            return
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {platform.node()}".encode(), 0)
        return
