"""The parts of a training's time."""

from __future__ import annotations

import time

import torch
from torch import Tensor

PARTS = ("simulation", "policy", "update")


class Clock:
    """Sums the time of parts of an iteration; nothing waits for a device.

    On CUDA it is the time of the device, one iteration late: the one before has ended by then.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spent = dict.fromkeys(PARTS, 0.0)
        self._last = 0.0
        self._events: list[tuple[str, torch.cuda.Event]] = []
        self._before: list[tuple[str, torch.cuda.Event]] = []

    def begin(self) -> None:
        """At the beginning of an iteration."""
        self._spent = dict.fromkeys(PARTS, 0.0)
        if self._cuda:
            self._before, self._events = self._events, []
        self._last = time.perf_counter()
        self.lap("")

    def lap(self, part: str) -> None:
        """Adds the time since the last lap to this part."""
        if self._cuda:
            if torch.cuda.is_current_stream_capturing():
                return  # operations recorded in a graph have no time
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append((part, event))
            return
        now = time.perf_counter()
        if part:
            self._spent[part] += now - self._last
        self._last = now

    def shares(self) -> dict[str, Tensor]:
        """`time/<part>`: its share of an iteration, float32 `[]`; NaN where still undefined."""
        if self._cuda and self._before:
            self._before[-1][1].synchronize()
            for (_, last), (part, event) in zip(self._before, self._before[1:], strict=False):
                self._spent[part] += last.elapsed_time(event)
        total = sum(self._spent.values())
        shares = {part: spent / total if total else torch.nan for part, spent in self._spent.items()}
        return {f"time/{part}": torch.tensor(share) for part, share in shares.items()}
