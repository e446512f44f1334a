"""Signals with which a launcher or a system ends a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


def endings() -> list[signal.Signals]:
    """Those that end a command in an orderly way. SIGHUP stays ignored where it is, as under `nohup`."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGUSR1, *([] if ignored else [signal.SIGHUP])]


@contextmanager
def raised() -> Iterator[None]:
    """Lets them raise KeyboardInterrupt with their name, as Ctrl-C raises it without one.

    The first makes later ones ignored: a launcher and the system may both send one. Threads cannot handle signals, so
    in another one than the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        ignore(before)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, leave) for number in endings()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore(numbers: Iterable[int]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def cause(error: BaseException) -> str:
    """What stands behind the words that something was interrupted: the signal, or the step that Ctrl-C has stopped."""
    return f": {error}" if str(error) else ""
