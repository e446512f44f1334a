"""How a simulator runs: one record of options, which constructors, ``make_vec`` and commands pass on whole.

It stands here because an environment's own options must not take these names.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

import numpy as np
import torch

from ..base.names import suggestion
from ..base.shared import MAX_THREADS
from .checks import Checks, checked_checks


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a simulator runs. Constructors take these as keyword arguments: ``Simulator(env, 64, watchdog=3)``.

    A record is a mapping too, so that ``Simulator(env, 64, **run)`` passes it on whole.
    """

    executor: str | None = None
    """How the task graph is run; the results are the same to the bit. CPU: ``"batch"`` (default), or ``"per_world"``,
    world after world. CUDA: ``"graph"`` (default), a kernel for each group of nodes; ``"megakernel"``, one persistent
    kernel; ``"per_world"``, a thread for each world."""
    num_threads: int | None = None
    """Greatest number of threads of a step on CPU. By default as many as torch uses, now and whenever that changes
    (``torch.set_num_threads``). They are torch's own threads, so that a policy and the simulator take turns on the
    cores. Only the calling thread steps small batches, and all batches in the child of a fork."""
    first_world: int = 0
    """For a part of a larger batch: these are its worlds from this number on, with their ``world.id`` and their random
    numbers."""
    checks: bool | Checks | None = None
    """True or a ``Checks`` for a checked build, in which an index out of its range, a division by zero and the like
    are faults with their place in the text; False for an ordinary one. None reads ``TBS_CHECKS``."""
    log: bool | int | None = None
    """True, or the lines to keep of each world, for a build in which ``world.log`` notes what ``logs`` returns; False
    for one in which it costs nothing. None reads ``TBS_LOG``."""
    watchdog: float | None = None
    """Seconds, on CPU: the watchdog stops a step or reset that takes longer, which then raises ``StepTimeout``."""
    _library: Any = None
    """A library that is built already; its target decides the executor."""
    _loader: Any = None
    """Builds the library of a target; ``jit.load`` by default."""

    @classmethod
    def of(cls, given: Mapping[str, Any], caller: Callable[..., Any]) -> RunOptions:
        """The record of the keyword arguments that ``caller`` has collected.

        Raises TypeError for an unknown name, with the nearest of those that ``caller`` takes.
        """
        unknown = next((name for name in given if name not in _NAMES), None)
        if unknown is not None:
            own = [each.name for each in inspect.signature(caller).parameters.values() if each.kind != each.VAR_KEYWORD]
            known = [name for name in (*own, *RUN_ARGUMENTS) if not name.startswith("_")]
            near = suggestion(unknown, known)
            raise TypeError(f"{caller.__name__} has no argument {unknown!r}{near}; it takes: {', '.join(known)}")
        return cls(**given)

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> RunOptions:
        """The record of those that stand among other options, which are taken out of ``options``."""
        return cls(**{name: options.pop(name) for name in RUN_ARGUMENTS if name in options})

    def keys(self) -> Iterator[str]:
        """The names of all options: with ``[]`` what ``**`` needs."""
        return iter(_NAMES)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def closed(self, device: torch.device, num_worlds: int) -> RunOptions:
        """The same with checked values, and with those that environment variables decide.

        ``checks`` is then a ``Checks`` or False, ``log`` a number of lines or False. Raises TypeError or ValueError
        that says what is allowed. (The executors of a device are known to ``Target``, which checks ``executor``.)
        """
        threads = self.num_threads
        return replace(
            self,
            num_threads=None if threads is None else _whole("num_threads", threads, 1, MAX_THREADS),
            first_world=_whole("first_world", self.first_world, 0, max(0, 2**31 - num_worlds)),
            checks=checked_checks(self.checks) or False,
            log=_lines(self.log) or False,
            watchdog=_seconds("watchdog", self.watchdog, device),
        )


class RunKeywords(TypedDict, total=False):
    """The fields of ``RunOptions``, for type checkers: of ``**run`` in a constructor."""

    executor: str | None
    num_threads: int | None
    first_world: int
    checks: bool | Checks | None
    log: bool | int | None
    watchdog: float | None
    _library: Any
    _loader: Any


_NAMES = tuple(field.name for field in fields(RunOptions))
RUN_ARGUMENTS = tuple(name for name in _NAMES if not name.startswith("_"))
"""The names that users write."""


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ValueError(f"{name} must be an integer from {least} to {most}, got {value!r}")
    return int(value)


def _seconds(name: str, seconds: Any, device: torch.device) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number of seconds or None, got {seconds!r}")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
    if device.type != "cpu":
        raise ValueError(f"{name} needs device='cpu': a kernel cannot be watched, got device={str(device)!r}")
    return float(seconds)


_LOG_VARIABLE = "TBS_LOG"
_LOG_DEFAULT, _LOG_MOST = 64, 1 << 20  # lines of a world
_ON, _OFF = ("true", "on", "yes"), ("", "false", "off", "no")


def _lines(log: Any) -> int:
    """Lines that the engine keeps of a world; 0 for a build without logs."""
    if log is None:
        text = os.environ.get(_LOG_VARIABLE, "").strip().lower()
        if text in _OFF or text in _ON:
            return _LOG_DEFAULT if text in _ON else 0
        if not text.isdecimal() or int(text) > _LOG_MOST:
            allowed = f"{_LOG_VARIABLE}=1, {_LOG_VARIABLE}=0, or the lines to keep of each world"
            raise ValueError(f"{_LOG_VARIABLE}={text}: write {allowed}")
        return _LOG_DEFAULT if text == "1" else int(text)
    if isinstance(log, bool):
        return _LOG_DEFAULT if log else 0
    if not isinstance(log, (int, np.integer)):
        raise TypeError(f"log must be True, False or the lines to keep of each world, got {log!r}")
    if not 1 <= log <= _LOG_MOST:
        raise ValueError(f"log must be from 1 to {_LOG_MOST} lines of each world, got {log}")
    return int(log)
