"""The simulator's calls for debugging: one system at a time, the lines that systems log, and what has changed."""

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
from . import logs
from .actions import ActionInput
from .changes import Changes, Mark, compared, marked
from .execution import ANOTHER_THREAD, Execution
from .inside import Inside, InsideStep, SystemRun
from .logs import Logs
from .world_state import WorldState

_INSIDE_STEP = "a step is under way (inside_step): call this before it, or when its with-block has ended"


class Inspection:
    """Runs systems of one simulator one at a time, and compares what its worlds held before and after."""

    def __init__(self, program: Program, memory: Memory, execution: Execution, entities: Entities) -> None:
        self.program, self.memory, self.execution, self._entities = program, memory, execution, entities
        self._inside_step: InsideStep | None = None
        self._mark: Mark | None = None

    @cached_property
    def inside(self) -> Inside:
        """Runs systems one at a time."""
        return Inside(self.program, self.memory, self.execution)

    @contextmanager
    def _taken(self, what: str) -> Iterator[None]:
        """Keep other threads out, ready to run nodes; also within a step that is under way."""
        run = self.execution
        run.check_begun(what)
        if is_capturing(self.memory.device):
            raise RuntimeError(f"{what}() cannot be captured in a CUDA graph: call it outside")
        if self._inside_step is not None:
            yield
            return
        run.raise_faults()
        with run:
            if self.memory.crowded_flag[0]:
                self._entities.grow()
            self.memory.outputs.mend()
            yield

    def run(self, systems: Any, worlds: Any, graph: str | None, repetition: int | None) -> list[SystemRun]:
        """See ``Simulator.run``, and so below."""
        with self._taken("run"):
            if self._inside_step is not None:
                if graph not in (None, "step"):
                    raise ValueError(f"a step is under way, which has systems of 'step' only, got graph={graph!r}")
                return self._inside_step.run(systems, worlds, repetition)
            mask = self.inside.selected(worlds)
            runs = self.inside.chosen(systems, graph, repetition, lambda run: True)
            self.inside.run(runs, mask)
        self.execution.raise_faults()
        return runs

    def observe(self, worlds: Any) -> None:
        """See ``Simulator.observe``."""
        with self._taken("observe"):
            self.inside.observe(self.inside.selected(worlds))
        if self._inside_step is None:
            self.execution.raise_faults()

    @contextmanager
    def inside_step(self, actions: Any) -> Iterator[InsideStep]:
        """See ``Simulator.inside_step``."""
        if self._inside_step is not None:
            raise RuntimeError(_INSIDE_STEP)
        with self._taken("inside_step"):
            if actions is not None:
                actions = ActionInput(self.program, self.memory).for_column(actions)
            step = self._inside_step = InsideStep(self.inside, actions)
            self.execution.why_taken = _INSIDE_STEP
            try:
                yield step
                step.finish()
            finally:
                self._inside_step, self.execution.why_taken = None, ANOTHER_THREAD
        self.execution.raise_faults(stepped=True)

    def logs(self, worlds: Any, clear: bool) -> Logs:
        """See ``Simulator.logs``."""
        if not self.program.log:
            raise RuntimeError("this build keeps no logs: make the simulator with log=True, or set TBS_LOG=1 before")
        mask = self.inside.selected(worlds)
        self.execution.synchronize()
        noted = logs.read(self.program, self.memory, mask)
        if clear:
            logs.clear(self.memory, mask)
        return noted

    def mark(self) -> Mark:
        """See ``Simulator.mark``."""
        self.execution.synchronize()
        self._mark = marked(self.memory)
        return self._mark

    def diff(self, world: int, since: Mark | None) -> Changes:
        """See ``Simulator.diff``."""
        mark = self._mark if since is None else since
        if since is not None and not isinstance(since, Mark):
            raise TypeError(f"since must be what mark() has returned, got {since!r}")
        if mark is None:
            raise RuntimeError("call mark() before diff(): it compares with what worlds held then")
        world = self.checked_world(world)
        self.execution.synchronize()
        old, new = WorldState(self, world, mark.held), WorldState(self, world, self.memory.columns)
        return compared(self.program, world, old, new)

    def trace_world(self, world: int, actions: Any, file: TextIO | None) -> dict[str, Changes]:
        """See ``Simulator.trace_world``."""
        world, parts = self.checked_world(world), {}
        out = sys.stdout if file is None else file
        before = self._state(world)

        def note(part: str) -> None:
            nonlocal before
            after = self._state(world)
            changes = compared(self.program, world, before, after)
            before = after
            if changes or not part.startswith(("(", "start")):
                parts[part] = changes
                lines = list(changes.lines()) or ["(no change)"]
                width = max(20, len(part))
                for i, line in enumerate(lines):
                    print(f"  {(part if i == 0 else '').ljust(width)}  {line}", file=out)

        with self.inside_step(actions) as step:
            agents = self.program.agents
            rows = f" ({agents.name}[i]: agent i)" if agents.count > 1 else ""
            print(f"world {world}, step {int(self.memory.tensor('World.step')[world])}{rows}:", file=out)
            note("(begin of the step)")
            step.finish(note)
        return parts

    def _state(self, world: int) -> WorldState:
        """The values of a world at this moment."""
        self.execution.synchronize()
        return WorldState(self, world, self.memory.columns).keep()

    def checked_world(self, world: Any) -> int:
        """The number of one world. Raises TypeError or ValueError for anything else."""
        mask = self.inside.selected([world] if isinstance(world, int) and not isinstance(world, bool) else world)
        places = mask.nonzero().flatten()
        if world is None or len(places) != 1:
            raise ValueError(f"world must be the number of one world, got {world!r}")
        return int(places[0])
