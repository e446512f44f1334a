"""Runs calls side by side: on threads, or each on a CUDA stream of its own."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import torch


class Outcome:
    """The result of a call, or its error.

    Args:
        caught: kinds of errors that are kept for the one who receives this. Others go on at once: Ctrl-C is for the
            caller, on the caller's own thread.

    Attributes:
        group: for which it was made.
        value: the result.
        error: the error, or None.
    """

    __slots__ = ("error", "group", "value")

    def __init__(self, group: int, call: Callable[[], Any], caught: type[BaseException] = Exception) -> None:
        self.group, self.value, self.error = group, None, None
        try:
            self.value = call()
        except caught as error:
            self.error = error


class Stopped(RuntimeError):
    """The threads that ran calls have ended."""


class Threads:
    """Calls run on ``count`` threads, first come, first served.

    The threads end with ``close``, when this is collected, and before the interpreter ends.
    """

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[tuple[int, Callable[[], Any]] | None] = SimpleQueue()
        self._finished: deque[Outcome | None] = deque()  # None: stopped
        self._wake = threading.Lock()
        self._wake.acquire()
        arguments = (self._calls, self._finished, self._wake)
        # Daemons: the interpreter waits for other threads before anybody can end them.
        names = (f"torch_batchsim group worker {i}" for i in range(count))
        threads = [threading.Thread(target=_work, args=arguments, daemon=True, name=name) for name in names]
        for thread in threads:
            thread.start()
        self.close = weakref.finalize(self, _stop, *arguments, threads)
        """Wait for the calls that run, drop those that do not yet, and end the threads."""

    def start(self, group: int, call: Callable[[], Any], tensors: Sequence[torch.Tensor] = ()) -> None:
        """Let a thread make the call; a group has one call at a time. ``tensors``: those that it reads."""
        self._calls.put((group, call))

    def next(self) -> Outcome:
        """Of the calls that have been started and not received, the one that is finished first; waits for it.

        It can be interrupted by Ctrl-C, and then called again. Raises Stopped after ``close``.
        """
        while True:
            try:
                outcome = self._finished.popleft()
            except IndexError:
                self._wake.acquire()
                continue
            if outcome is None:
                self._finished.append(None)
            if self._finished:
                _signal(self._wake)  # for others who wait
            if outcome is None:
                raise Stopped
            return outcome


def _signal(wake: threading.Lock) -> None:
    with suppress(RuntimeError):  # it is released already
        wake.release()


def _work(calls: SimpleQueue, finished: deque, wake: threading.Lock) -> None:
    while (item := calls.get()) is not None:
        finished.append(Outcome(*item, BaseException))  # this thread has no caller that could catch it
        item = None  # or the call's objects would live until the next one
        _signal(wake)


def _stop(calls: SimpleQueue, finished: deque, wake: threading.Lock, threads: Sequence[threading.Thread]) -> None:
    with suppress(Empty):
        while True:
            calls.get_nowait()
    for _ in threads:
        calls.put(None)
    for thread in threads:
        if thread is not threading.current_thread():  # which may be the one that collects garbage
            thread.join()
    finished.append(None)
    _signal(wake)


class Streams:
    """Calls give work to a CUDA device, each on the stream of its group, and return at once.

    The host never waits: where no group's work is done, ``next`` takes the group whose call was first, and lets the
    current stream wait for it.
    """

    def __init__(self, groups: int, device: torch.device) -> None:
        self._device = device
        self._streams = [torch.cuda.Stream(device) for _ in range(groups)]
        self._given: dict[int, tuple[torch.cuda.Event, Outcome]] = {}

    def start(self, group: int, call: Callable[[], Any], tensors: Sequence[torch.Tensor] = ()) -> None:
        """Make the call on the group's stream, after the work of the current one. ``tensors``: those that it reads."""
        stream = self._streams[group]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        for tensor in tensors:
            if tensor.device.type == "cuda":  # not those of an emulated one
                tensor.record_stream(stream)
        with torch.cuda.stream(stream):
            outcome, event = Outcome(group, call), torch.cuda.Event()
            event.record()
        self._given[group] = event, outcome

    def next(self) -> Outcome:
        """See ``Streams``. The call's work on the device ends before later work of the current stream begins."""
        if not self._given:
            raise Stopped
        done = (group for group, (event, _) in self._given.items() if event.query())
        event, outcome = self._given.pop(next(done, next(iter(self._given))))
        torch.cuda.current_stream(self._device).wait_event(event)
        return outcome

    def close(self) -> None:
        """Forget results that were not received."""
        self._given.clear()
