"""The simulator's calls for those who look for a mistake: one system at a time, and what it changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TextIO

from ..memory.entities import Entities
from ..memory.memory import Memory
from ..memory.streams import is_capturing
from ..resolve.program import Program
from . import faults, logs
from .changes import Changes, Mark, compared, marked, picture
from .execution import Execution
from .inside import Inside, InsideStep, SystemRun
from .logs import Logs

ANOTHER_THREAD = (
    "another thread is stepping, resetting, saving or loading these worlds: take turns, or give each thread an "
    "environment of its own"
)
_INSIDE_STEP = "a step is under way (inside_step): call this before it, or when its with-block has ended"


class Inspection:
    """What ``Simulator`` has of this module."""

    program: Program
    memory: Memory
    execution: Execution
    _entities: Entities
    _started: bool
    _was_stopped: bool
    _inside_step: InsideStep | None = None
    _mark: Mark | None = None

    @cached_property
    def _inside(self) -> Inside:
        return Inside(self.program, self.memory, self.execution, lambda: self._raise_if_stopped(alone=True))

    @property
    def _why_taken(self) -> str:
        """Why another call has to wait."""
        return ANOTHER_THREAD if self._inside_step is None else _INSIDE_STEP

    @contextmanager
    def _taken(self, what: str) -> Iterator[None]:
        """Alone with the worlds, ready to run nodes; also within a step that is under way."""
        self._check_started(what)
        if is_capturing(self.memory.device):
            raise RuntimeError(f"{what}() cannot be captured in a CUDA graph: call it outside")
        if self._inside_step is not None:
            yield
            return
        self._tell_faults()
        try:
            self.execution.token.pop()
        except IndexError:
            raise RuntimeError(self._why_taken) from None
        try:
            if self.memory.crowded_flag[0]:
                self._entities.grow()
            self.memory.outputs.mend()
            yield
        finally:
            self.execution.token.append(None)

    def _raise_if_stopped(self, *, alone: bool = False) -> None:
        """Raise the error that says where the last step or reset was stopped, if it was. Worlds are then undefined.

        ``alone``: it was a system that ran alone.
        """
        watch = self.execution.watch
        if watch is None or not watch.was_stopped():
            return
        self._started, self._was_stopped = False, True
        error = watch.error(self.memory.columns["step"], alone=alone)
        self.memory.drop_half_done()
        raise error from None

    def _check_not_stopped(self) -> None:
        if self._was_stopped:
            raise RuntimeError(
                "the last step or reset was stopped, and its worlds were left in the midst of it: call reset() of all "
                "worlds, or load_state_dict()"
            )

    def _check_started(self, what: str) -> None:
        self._check_not_stopped()
        if not self._started:
            raise RuntimeError(f"call reset() before {what}()")

    def _tell_faults(self, stepped: bool = False) -> None:
        self.execution.synchronize()
        faults.raise_faults(self.program, self.memory, stepped)

    # ---- one system at a time --------------------------------------------------------------------------------------

    def run(
        self, systems: Any, worlds: Any = None, *, graph: str | None = None, repetition: int | None = None
    ) -> list[SystemRun]:
        """Run one system, or several one after the other, for all rows of some worlds, and nothing else.

        The worlds are taken as they are: no step is counted, no reward zeroed, no episode ended or begun, and no
        observation delivered (see ``observe``). Random numbers are those that the system draws in the present step of
        a world. The first call builds a library of its own. Within ``inside_step`` this is a part of the step.

        Args:
            systems: a name, a fragment (``TaskGraph``, ``Repeat``), or a list of these.
            worlds: a number, numbers ``[k]``, or a bool mask ``[worlds]``; all by default.
            graph: in which the systems are: ``"step"``, ``"start"`` or ``"observe"``; by default the first of these
                that has them.
            repetition: which of its runs in the graph, from 0, where a system runs several times: in a ``Repeat``, or
                named again. It decides about ``world.repetition()`` and random numbers. By default each naming is the
                next one, from the first; within ``inside_step`` the first that has not run in all of these worlds.

        Returns what has run, in order.

        Raises WorldFault for faults of these systems (within ``inside_step`` at its end); RuntimeError before the first
        reset or while a CUDA graph is captured; TypeError and ValueError, before anything has run. Ctrl-C, a watchdog
        and crashes stop it as they stop a step.
        """
        with self._taken("run"):
            if self._inside_step is not None:
                if graph not in (None, "step"):
                    raise ValueError(f"a step is under way, which has systems of 'step' only, got graph={graph!r}")
                return self._inside_step.run(systems, worlds, repetition)
            mask = self._inside.selected(worlds)
            runs = self._inside.chosen(systems, graph, repetition, lambda run: True)
            self._inside.run(runs, mask)
        self._tell_faults()
        return runs

    def observe(self, worlds: Any = None) -> None:
        """Run ``observe``, and deliver observations and infos as they are now: after state was written, say.

        They go where the last step or reset has put its own: what that returned shows them too. Flags and rewards stay.
        ``worlds`` and errors are as of ``run``.
        """
        with self._taken("observe"):
            self._inside.observe(self._inside.selected(worlds))
        if self._inside_step is None:
            self._tell_faults()

    @contextmanager
    def inside_step(self, actions: Any = None) -> Iterator[InsideStep]:
        """A step of all worlds that runs system after system, as the with-block asks for them.

        It begins as every step does; then ``run`` runs systems of it, for all or some worlds. At its end what has not
        run yet runs in the graph's order, and the step ends as ``step`` does: episodes end and begin, observations are
        delivered, faults raise. Where systems ran in the order of the graph, the results are those of ``step``, to the
        bit::

            with sim.inside_step(actions) as step:
                sim.run("move_paddle")
                sim.mark()
                for system in step:  # the others, one after the other
                    print(system, sim.diff(world=3))
                    sim.mark()

        Args:
            actions: as those of the vector environment's ``step``; by default what the action column holds.

        After an exception in the with-block the worlds are in the midst of a step: reset them, or load a state. Other
        calls that change worlds are refused until the block has ended. Raises RuntimeError within another one.
        """
        if self._inside_step is not None:
            raise RuntimeError(_INSIDE_STEP)
        with self._taken("inside_step"):
            given = None if actions is None else self._inside.checked_actions(actions)
            step = self._inside_step = InsideStep(self._inside, given)
            try:
                yield step
                step.finish()
            finally:
                self._inside_step = None
        self._tell_faults(stepped=True)

    # ---- what systems note --------------------------------------------------------------------------------------

    def logs(self, worlds: Any = None, *, clear: bool = True) -> Logs:
        """What systems have noted by ``world.log(label, value)`` since the last call: a sequence of ``LogLine``.

        World after world, each in the order of steps, systems, rows and calls, whatever the executor and the number of
        threads. Of each world as many lines are kept as ``log=`` says; ``dropped`` of the result counts the others. (On
        CUDA, which lines of the system with which the room ended are kept may differ.)

        Args:
            worlds: as of ``run``; all by default.
            clear: forget them, so that there is room again.

        Raises RuntimeError where the simulator was made without ``log=True`` or ``TBS_LOG=1``, or while a CUDA graph is
        captured; TypeError and ValueError for what are not worlds.
        """
        if not self.program.log:
            raise RuntimeError("there are no logs: make the simulator with log=True, or set TBS_LOG=1 before")
        mask = self._inside.selected(worlds)
        self.execution.synchronize()
        noted = logs.read(self.program, self.memory, mask)
        if clear:
            logs.clear(self.memory, mask)
        return noted

    # ---- what changed ----------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Keep a copy of what all worlds hold now, with which ``diff`` compares. Returns it for ``diff(since=...)``."""
        self.execution.synchronize()
        self._mark = marked(self.memory)
        return self._mark

    def diff(self, world: int = 0, *, since: Mark | None = None) -> Changes:
        """What a world holds that it did not hold at the last ``mark``, or at ``since``: a sequence of ``Change``.

        ``print`` shows it as a table. It has all columns, scratch included, and ``World.step``, ``World.episode``,
        ``World.terminated`` and ``World.truncated``. Values are compared to the bit. Rows of dynamic tables are
        followed by what they are, not where: a row that only moved has not changed.

        Raises RuntimeError before the first ``mark``, ValueError or TypeError for what is not a world.
        """
        mark = self._mark if since is None else since
        if since is not None and not isinstance(since, Mark):
            raise TypeError(f"since must be what mark() has returned, got {since!r}")
        if mark is None:
            raise RuntimeError("call mark() before diff(): it compares with what worlds held then")
        world = self._checked_world(world)
        self.execution.synchronize()
        old = picture(self.program, self.memory, world, mark.held)
        return compared(self.program, world, old, self._picture(world))

    def trace_world(self, world: int = 0, actions: Any = None, *, file: TextIO | None = None) -> dict[str, Changes]:
        """Take the next step of all worlds, and print each system with what it changed in one of them.

        Args:
            world: its number here.
            actions: as of ``inside_step``.
            file: where to print; standard output by default.

        Returns the same by the name of each part of the step. Raises as ``inside_step``; faults after all is printed.
        """
        world, told = self._checked_world(world), {}
        out = sys.stdout if file is None else file
        before = self._picture(world)

        def tell(what: str) -> None:
            nonlocal before
            after = self._picture(world)
            changes = compared(self.program, world, before, after)
            before = after
            if changes or not what.startswith(("(", "start")):
                told[what] = changes
                lines = list(changes.lines()) or ["(no change)"]
                width = max(20, len(what))
                for i, line in enumerate(lines):
                    print(f"  {(what if i == 0 else '').ljust(width)}  {line}", file=out)

        with self.inside_step(actions) as step:
            agents = self.program.agents
            rows = f" ({agents.name}[i]: agent i)" if agents.count > 1 else ""
            print(f"world {world}, step {int(self.memory.tensor('World.step')[world])}{rows}:", file=out)
            tell("(begin of the step)")
            step.finish(tell)
        return told

    def _picture(self, world: int) -> Any:
        self.execution.synchronize()
        return picture(self.program, self.memory, world, self.memory.columns)

    def _checked_world(self, world: Any) -> int:
        mask = self._inside.selected([world] if isinstance(world, int) and not isinstance(world, bool) else world)
        places = mask.nonzero().flatten()
        if world is None or len(places) != 1:
            raise ValueError(f"world must be the number of one world, got {world!r}")
        return int(places[0])
