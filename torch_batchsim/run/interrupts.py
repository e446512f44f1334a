"""Steps that are stopped: at Ctrl-C, by a watchdog, or where a system crashes.

``csrc/host/interrupts.cpp`` stops them.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from ..build import jit
from ..errors import BuildError, StepInterrupted, StepTimeout, SystemCrash
from ..resolve.program import Program
from ..resolve.schedule import TaskNode, inside_nodes, node_name, step_tasks

STOPPED = -500
"""What a step returns that was stopped: ``tbs::executors::step_stopped``."""

_AFTER = "all worlds are left in the midst of a step: call reset() of all, or load_state_dict(), before anything else"
_MOST = 4  # places that a message names
_FIRST_PAGES = 1 << 16  # bytes from address 0 on, in which there is nothing: a field behind a null pointer


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

    def error(self, steps: Any, *, alone: bool = False, after: str = _AFTER) -> BaseException:
        """The error for the step or reset that was stopped, which is then forgotten.

        Args:
            steps: ``[worlds]``, of their episodes.
            alone: it was a node that ran alone (``schedule.inside_nodes``).
            after: how worlds are left, and what to do.
        """
        cause, places = self._module.report(self.address)
        self._module.forget(self.address)
        if cause == 1:
            _heed_signals()
        crashed = [place for place in places if place[6]]
        numbered = inside_nodes(self._program) if alone else [task.node for task in step_tasks(self._program)]
        told = [self._place(place, steps, numbered) for place in (crashed or places)[:_MOST]]
        where = "; and ".join(told) or "no system was running"
        what = "run" if alone else "step"
        if crashed:
            *_, number, address = crashed[0]
            how = _crash(number, address)
            advice = _advice(number, address, self._program.checks is not None)
            return SystemCrash(f"{where} crashed: {how}. {_sentence(after)}.{advice}")
        if cause == 2:
            how = f"after watchdog={self._limit:g} seconds the {what} was stopped in {where}"
            return StepTimeout(f"{how}; {after}{self._advice_of_loops()}")
        return StepInterrupted(f"the {what} was stopped in {where}; {after}{self._advice_of_loops()}")

    def _advice_of_loops(self) -> str:
        """A system is known by its first line; a checked build that counts the turns of loops knows the loop's."""
        checks = self._program.checks
        if checks is not None and checks.loops is not None:
            return ""
        return ". Where a loop does not end, checks=torch_batchsim.Checks(loops=1000000) names its line"

    def _place(self, place: tuple[Any, ...], steps: Any, numbered: Sequence[TaskNode]) -> str:
        """The system, its file and line, and the worlds."""
        number, _, first, last, world, listed, *_ = place
        node = numbered[number]
        system = self._systems().get(node.c_type)
        what = f"the engine's {node.name}" if system is None else f"system '{system.name}' ({_short(system.place)})"
        worlds = [world] if world >= 0 else list(range(first, last)) if listed is None else listed
        if len(worlds) == 1:
            return f"{what}, world {worlds[0]}, step {int(steps[worlds[0]])}"
        in_a_row = f"{worlds[0]} to {worlds[-1]} (executor='per_world' tells which)"
        several = f"worlds {in_a_row if listed is None else ', '.join(map(str, worlds[:8]))}"
        more = f" and {len(worlds) - 8} more" if listed is not None and len(worlds) > 8 else ""
        return f"{what}, one of {several}{more}, step {int(steps[worlds[0]])}"

    def _systems(self) -> dict[str, Any]:
        return {node_name(node): node.system for nodes in self._program.graphs.values() for node in nodes}


def _short(place: str) -> str:
    path, _, line = place.rpartition(":")
    return f"{os.path.basename(path)}:{line}" if path else place


def _is_null(number: int, address: int) -> bool:
    """Whether it used a null pointer; SIGILL is how g++ ends what it sees to use one."""
    return number == signal.SIGILL or (number == signal.SIGSEGV and address < _FIRST_PAGES)


def _crash(number: int, address: int) -> str:
    name = signal.Signals(number).name
    if number == signal.SIGFPE:
        return f"a division of integers by zero ({name})"
    if _is_null(number, address):
        how = f"({name} at address {address:#x})"
        if number == signal.SIGILL:
            how = f"or divided by a constant zero, which the build's warnings name ({name})"
        return f"it used a null pointer {how}; test the pointer that find() returned before you use it"
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return f"{name} at address {address:#x}, by an index far out of its range or a recursion without end"
    return name


def _advice(number: int, address: int, is_checked: bool) -> str:
    """What to do next."""
    looks = "" if is_checked else " A checked build (checks=True, or TBS_CHECKS=1) names line, expression and index"
    if number == signal.SIGFPE or _is_null(number, address):
        return looks
    return f" It may have written elsewhere before: end this process.{looks}"


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
        return jit.load_module("interrupts")
    except (BuildError, ImportError, OSError) as error:
        warnings.warn(f"Ctrl-C does not stop a step here, for a module could not be made: {error}", RuntimeWarning, 3)
        return None
