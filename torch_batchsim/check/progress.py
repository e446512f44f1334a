"""A line on a terminal that names the check which runs: some take a minute, in which nothing else is printed."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TextIO

_EVERY = 1.0  # seconds


class Progress:
    """Writes ``executors (9 of 14), 12 s`` to a terminal, over and over; to anything else one line a check.

    Args:
        stream: stderr.
        verbose: write a line for each check, which stays, to any stream.
    """

    def __init__(self, stream: TextIO, verbose: bool = False) -> None:
        self._stream, self._terminal, self._verbose = stream, stream.isatty(), verbose
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, name: str, number: int, of: int) -> None:
        """A check begins."""
        text = f"{name} ({number} of {of})"
        if self._verbose:
            print(text, file=self._stream, flush=True)
        if self._terminal:
            self._end = threading.Event()
            self._thread = threading.Thread(target=self._show, args=(text, self._end), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """It has ended: its line vanishes."""
        if self._thread is not None:
            self._end.set()
            self._thread.join()
            self._thread = None

    def _show(self, text: str, end: threading.Event) -> None:
        start = perf_counter()
        while not end.wait(_EVERY):
            self._stream.write(f"\r\x1b[K{text}, {perf_counter() - start:.0f} s")
            self._stream.flush()
        self._stream.write("\r\x1b[K")
        self._stream.flush()
