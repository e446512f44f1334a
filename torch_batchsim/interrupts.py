"""Steps that are stopped: at Ctrl-C, by a watchdog, or where a system crashes.

``csrc/host/interrupts.cpp`` stops them.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
import weakref
from contextlib import suppress
from functools import cache
from typing import Any

from . import jit
from .errors import BuildError, StepInterrupted, StepTimeout, SystemCrash
from .program import Program
from .schedule import node_name, step_tasks

STOPPED = -500
"""What a step returns that was stopped: ``tbs::executors::step_stopped``."""

_AFTER = "all worlds are left in the midst of a step: call reset() of all, or load_state_dict(), before anything else"
_MOST = 4  # places that a message names


class Watch:
    """Looks after the steps of one simulator on CPU.

    Args:
        program: whose systems are named.
        limit: seconds that a step or reset may take; None for any.

    Attributes:
        address: of its memory, for the context; None where there can be no watch.
    """

    def __init__(self, program: Program, limit: float | None) -> None:
        self._program, self._limit, self._module = program, limit, _module()
        self.address: int | None = None
        if self._module is None:
            if limit is not None:
                raise RuntimeError("there is no watchdog here: its module could not be made, as a warning says")
            return
        self.address = self._module.take()
        if limit is not None:
            self._module.set_limit(self.address, limit)
        weakref.finalize(self, self._module.give_back, self.address)

    def refresh(self) -> None:
        """After a fork, which has no monitor: start one, and take the signals of crashes again."""
        if self._module is not None:
            self._module.again()

    def was_stopped(self) -> bool:
        """Whether the last step or reset was stopped."""
        return self._module is not None and self._module.report(self.address)[0] != 0

    def error(self, steps: Any) -> BaseException:
        """The error for the step or reset that was stopped. ``steps [worlds]``: of their episodes."""
        cause, places = self._module.report(self.address)
        if cause == 1:
            _heed_signals()
        crashed = [place for place in places if place[6]]
        told = [self._place(place, steps) for place in (crashed or places)[:_MOST]]
        where = "; and ".join(told) or "no system was running"
        if crashed:
            *_, number, address = crashed[0]
            return SystemCrash(f"{where} crashed: {_crash(number, address)}. {_sentence(_AFTER)}{_damage(number)}")
        if cause == 2:
            return StepTimeout(f"after watchdog={self._limit:g} seconds the step was stopped in {where}; {_AFTER}")
        return StepInterrupted(f"the step was stopped in {where}; {_AFTER}")

    def _place(self, place: tuple[Any, ...], steps: Any) -> str:
        """The system, its file and line, and the worlds."""
        number, _, first, last, world, listed, *_ = place
        node = step_tasks(self._program)[number].node
        system = self._systems().get(node.c_type)
        what = f"the engine's {node.name}" if system is None else f"system '{system.name}' ({_short(system.place)})"
        worlds = [world] if world >= 0 else list(range(first, last)) if listed is None else listed
        if len(worlds) == 1:
            return f"{what}, world {worlds[0]}, step {int(steps[worlds[0]])}"
        in_a_row = f"{worlds[0]} to {worlds[-1]}"
        several = f"worlds {in_a_row if listed is None else ', '.join(map(str, worlds[:8]))}"
        more = f" and {len(worlds) - 8} more" if listed is not None and len(worlds) > 8 else ""
        return f"{what}, one of {several}{more}, step {int(steps[worlds[0]])}"

    def _systems(self) -> dict[str, Any]:
        return {node_name(node): node.system for nodes in self._program.graphs.values() for node in nodes}


def _short(place: str) -> str:
    path, _, line = place.rpartition(":")
    return f"{os.path.basename(path)}:{line}" if path else place


def _crash(number: int, address: int) -> str:
    if number == signal.SIGFPE:
        return "a division of integers by zero (SIGFPE)"
    if number in (signal.SIGSEGV, signal.SIGBUS):
        name = signal.Signals(number).name
        return f"{name} at address {address:#x}, by an index far out of its range or a recursion without end"
    return signal.Signals(number).name


def _damage(number: int) -> str:
    """What to do next."""
    looks = " A checked build (checks=True, or TBS_CHECKS=1) names line, expression and index"
    if number == signal.SIGFPE:
        return f".{looks}"
    return f". It may have written elsewhere before: end this process.{looks}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _heed_signals() -> None:
    """Let Python's handler of the signal run now, so that its KeyboardInterrupt does not come on top of ours."""
    with suppress(KeyboardInterrupt):
        for _ in range(3):
            time.sleep(0)


@cache
def _module() -> Any:
    """The compiled module; None where there cannot be one, or ``TORCH_BATCHSIM_SIGNALS=0`` forbids it."""
    if os.environ.get("TORCH_BATCHSIM_SIGNALS") == "0" or os.uname().sysname != "Linux":
        return None
    try:
        return jit.load_module(jit.CSRC / "host" / "interrupts.cpp", jit.CSRC / "tbs" / "watch.h")
    except (BuildError, ImportError, OSError) as error:
        warnings.warn(f"Ctrl-C does not stop a step here, for a module could not be made: {error}", RuntimeWarning, 3)
        return None
