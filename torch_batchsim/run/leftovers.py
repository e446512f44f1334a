"""Runs steps of a checked build again into other leftovers: a result must not depend on what memory held before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from ..base.numbers import where
from ..base.shared import AUTORESET, NO_FAULT, Found, StepResult
from ..build.codegen import Target
from ..build.context import engine_columns
from ..declare.columns import Column
from ..declare.fields import Field
from ..declare.run_options import RunOptions
from ..memory.memory import Memory
from ..memory.outputs import OutputSet
from ..resolve.nodes import Node
from ..resolve.program import Program
from .execution import Execution
from .findings import takers
from .host_checks import ObservationBounds, note_fault, note_masks
from .step_call import StepCall, never

_FIRST = 16  # calls that are all run again

Call = Callable[[], int]
_Bytes = dict[str, torch.Tensor]  # by field of the context


@dataclass(frozen=True)
class _Part:
    """A field of a column that holds anything when a call begins."""

    column: Column
    field: Field

    @property
    def elements(self) -> int:
        """Of a world."""
        return self.column.rows_per_world * int(np.prod(self.field.type.tensor_shape, dtype=np.int64))


@dataclass(frozen=True)
class _Mistake:
    """A dependence of a call on leftovers.

    Attributes:
        worlds: bool ``[worlds]``. first: the first element in each of them, as ``_Part.elements`` counts.
        depends: the number of a column that differs; -1 if it is not one of the columns.
    """

    found: Found
    part: _Part
    worlds: torch.Tensor
    first: torch.Tensor
    depends: torch.Tensor


class _Stopped(Exception):
    """One of the runs was stopped: the others must not begin."""


class CheckedExecution(Execution):
    """On CPU: runs some calls twice more before they run: memory that may hold anything when the call begins is filled
    with zeros, and with ones. Results that differ are faults; then all memory is as without these runs."""

    def __init__(self, program: Program, memory: Memory, target: Target, options: RunOptions) -> None:
        checks = program.checks
        self._every = None if memory.cuda or checks is None else checks.leftovers
        self._calls = {"step": 0, "reset": 0}
        self._parts = list(_parts(program))
        self._bounds = ObservationBounds(program, memory)
        super().__init__(program, memory, target, options)

    def _step_call(self, library: Any) -> StepCall:
        return never if self._looks or self._looks_at_masks or self._bounds else super()._step_call(library)

    @property
    def _looks(self) -> bool:
        return self._every is not None and bool(self._parts)

    @property
    def _looks_at_masks(self) -> bool:
        return self.program.checks is not None and not self.memory.cuda and "action_mask" in self.program.info

    def step(self, to: OutputSet) -> int:
        return self._checked("step", lambda: super(CheckedExecution, self).step(to), to)

    def act_and_step(self, actions: torch.Tensor, to: OutputSet) -> int:
        return self._checked("step", lambda: super(CheckedExecution, self).act_and_step(actions, to), to)

    def reset(self, mask: torch.Tensor, to: OutputSet) -> int:
        return self._checked("reset", lambda: super(CheckedExecution, self).reset(mask, to), to, mask)

    def _checked(self, kind: str, call: Call, to: OutputSet, worlds: torch.Tensor | None = None) -> int:
        """A call, with those before it that look for leftovers, and with a look at the masks behind it."""
        mistake = None
        stood = self._standing(kind)
        if self._is_due(kind):
            look = _Look(self.program, self.memory, self._parts, call, to, worlds)
            try:
                mistake = look.mistake(self.watch.was_stopped)
            except _Stopped:
                return StepResult.stopped
        result = call()
        if not _has_run(result):
            return result
        if mistake is not None:
            _note(self.program, self.memory, mistake)
        # Rows without a legal action, and observations outside of their space, are faults too.
        found = mistake is not None
        if self._looks_at_masks:
            found |= note_masks(self.program, self.memory, to, worlds)
        if self._bounds:
            moved = worlds if stood is None else ~stood
            found |= self._bounds.note(to, moved, is_step=kind == "step")
        return StepResult.faults if found else result

    def _standing(self, kind: str) -> torch.Tensor | None:
        """Bool ``[worlds]``: those that a step leaves as they are, so that a fault is raised once."""
        if kind == "reset" or self.memory.context.autoreset != AUTORESET[AutoresetMode.DISABLED]:
            return None
        return self.memory.columns["ended"] != 0

    def _is_due(self, kind: str) -> bool:
        """Whether this call runs again."""
        number = self._calls[kind]
        self._calls[kind] += 1
        return self._looks and not self.target.traced and (number < _FIRST or number % self._every == 0)


class _Look:
    """Runs of one call.

    Args:
        worlds: bool ``[worlds]``, the worlds of the call; None for all.
    """

    def __init__(
        self,
        program: Program,
        memory: Memory,
        parts: list[_Part],
        call: Call,
        to: OutputSet,
        worlds: torch.Tensor | None,
    ) -> None:
        self.program, self.memory, self.parts = program, memory, parts
        self.call, self.worlds = call, worlds
        apart = memory.resource_fields()
        self.places = {name: place for name, place in memory.columns.items() if name not in apart} | to.tensors
        present = {f"present {name}": place for name, place in memory.outputs.present.tensors.items()}
        others = {f"other {name}": place for name, place in memory.others.items()}
        self._all = [*{t.data_ptr(): t for t in (*(self.places | present | others).values(), memory.flags)}.values()]
        self._columns = {}
        for column in program.columns.values():
            for kind in ("column", "output", "final"):
                self._columns[f"{kind}_{column.c_name}"] = column
        scratch = {f"column_{column.c_name}" for column in program.columns.values() if column.scratch}
        self._compared = [n for n in self.places if n not in scratch and not n.startswith(("table_", "held"))]
        self._engine = {name for name, *_ in engine_columns(program, False)}

    def mistake(self, was_stopped: Callable[[], bool]) -> _Mistake | None:
        """The first part whose leftovers the call depends on, in what worlds there is one.

        Restores all memory, but not where a run was stopped: its error reports what the worlds hold then.
        """
        before = [place.clone() for place in self._all]
        try:
            base = self._run(before, 0)
            if base is None or (last := self._run(before, len(self.parts))) is None:
                return None
            worlds = self._differing(base, last) & (base["fault"] == NO_FAULT)
            if not worlds.any() or (again := self._run(before, 0)) is None:
                return None
            worlds &= ~self._differing(base, again)  # which depend on what is not filled here
            return self._named(before, base, last, worlds) if worlds.any() else None
        finally:
            if not was_stopped():
                self._restore(before)

    def _named(
        self, before: list[torch.Tensor], base: _Bytes, last: _Bytes, worlds: torch.Tensor
    ) -> _Mistake | None:
        """``last``, in which all parts are ones, differs from ``base`` in ``worlds``."""

        def search(most: int, run: Callable[[int], _Bytes | None]) -> int | None:
            """The least change that makes a difference, given that the one behind it makes none."""
            nonlocal last, worlds
            low, high = 0, most
            while high - low > 1:
                middle = (low + high) // 2
                found = run(middle)
                if found is None:
                    return None
                differ = self._differing(base, found) & worlds
                if differ.any():
                    high, last, worlds = middle, found, differ
                else:
                    low = middle
            return high - 1

        number = search(len(self.parts), lambda count: self._run(before, count))
        if number is None:
            return None
        part = self.parts[number]
        if not part.column.scratch:
            ones, zeros = (self._elements(run, part) for run in (last, base))
            unwritten = (ones == 1) & (zeros == 0) & worlds[:, None]
            if unwritten.any():
                worlds = unwritten.any(1)
                first = unwritten.int().argmax(1)
                return _Mistake(Found.unwritten, part, worlds, first, torch.full_like(first, -1))
        element = search(part.elements, lambda count: self._run(before, number, count))
        if element is None:
            return None
        first = torch.full((len(worlds),), element, dtype=torch.int64)
        return _Mistake(Found.leftover, part, worlds, first, self._first_differing(base, last))

    # ---- runs --------------------------------------------------------------------------------------------------------

    def _restore(self, before: list[torch.Tensor]) -> None:
        for place, held in zip(self._all, before, strict=True):
            place.copy_(held)

    def _run(self, before: list[torch.Tensor], ones: int, elements: int = 0) -> _Bytes | None:
        """Copies of all after a call that begins with ones in so many parts, and elements of the next, else zeros.

        None if it did not run to its end.
        """
        self._restore(before)
        for number, part in enumerate(self.parts):
            values = self._elements(self.places, part)
            filled = torch.zeros_like(values)
            filled[:, : None if number < ones else elements if number == ones else 0] = 1
            if self.worlds is not None:
                filled = where(self.worlds[:, None], filled, values)
            self._view(self.places, part).copy_(filled.view(self._view(self.places, part).shape))
        result = self.call()
        if result == StepResult.stopped:
            raise _Stopped
        if not _has_run(result):
            return None
        return {name: self.places[name].clone() for name in self.places}

    def _view(self, places: _Bytes, part: _Part) -> torch.Tensor:
        return self.memory.view(places[f"column_{part.column.c_name}"], part.column, part.field)

    def _elements(self, places: _Bytes, part: _Part) -> torch.Tensor:
        """``[worlds, elements]``, a copy or a view."""
        return self._view(places, part).reshape(self.memory.num_worlds, -1)

    # ---- what differs ------------------------------------------------------------------------------------------------

    def _differing(self, one: _Bytes, other: _Bytes) -> torch.Tensor:
        """Worlds in which two runs differ outside of scratch: bool ``[worlds]``."""
        found = torch.zeros(self.memory.num_worlds, dtype=torch.bool)
        for _, worlds in self._differences(one, other):
            found |= worlds
        return found

    def _first_differing(self, one: _Bytes, other: _Bytes) -> torch.Tensor:
        """The number of the first column that differs in each world, -1 where none does."""
        found = torch.full((self.memory.num_worlds,), -1)
        for name, worlds in self._differences(one, other):
            if name in self._columns:
                found = torch.where(worlds & (found < 0), self._columns[name].number, found)
        return found

    def _differences(self, one: _Bytes, other: _Bytes) -> Iterator[tuple[str, torch.Tensor]]:
        worlds = self.memory.num_worlds
        for name in self._compared:
            a, b = (run[name].view(-1).view(torch.uint8) for run in (one, other))
            if torch.equal(a, b):
                continue
            column = self._columns.get(name)
            if column is None:
                if name in self._engine:
                    yield name, (a != b).view(worlds, -1).any(1)
                continue
            size = column.component.size
            different = a.view(-1, size) != b.view(-1, size)
            different[:, column.padding] = False
            yield name, self._worlds_of(column, different.any(1), one)
        for table in self.memory.tables:
            counts = one[f"table_{table}_count"] != other[f"table_{table}_count"]
            if counts.any():
                yield f"table_{table}_count", counts

    def _worlds_of(self, column: Column, rows: torch.Tensor, run: _Bytes) -> torch.Tensor:
        """Worlds with a row that is set in a bool ``[rows]``."""
        worlds = self.memory.num_worlds
        if not column.dynamic:
            return rows.view(worlds, -1).any(1)
        first, counts = (run[f"table_{column.table}_{part}"] for part in ("first", "count"))
        owner = run[f"table_{column.table}_world"].long()
        slots = torch.arange(len(rows))
        live = (slots >= first[owner]) & (slots < first[owner] + counts[owner])
        return torch.bincount(owner[rows & live], minlength=worlds) > 0


def _has_run(result: int) -> bool:
    """Whether a call has run to its end."""
    return result in (StepResult.done, StepResult.faults)


def _parts(program: Program) -> Iterator[_Part]:
    """Fields that may hold anything when a call begins: those that ``observe`` writes wholly, and scratch.

    Rows of dynamic tables have values from when they were created.
    """
    in_place = [program.columns[name] for name in sorted(program.observe_only)]
    in_place = [column for column in in_place if not column.scratch and not program.is_read_back(column)]
    scratch = [column for column in program.columns.values() if column.scratch]
    for column in (*in_place, *scratch):
        if not column.dynamic and not column.resource:
            yield from (_Part(column, field) for field in column.component.fields)


# ---- faults ----------------------------------------------------------------------------------------------------------


def _note(program: Program, memory: Memory, mistake: _Mistake) -> None:
    """Make it a fault of its worlds, unless they have one that comes before it."""
    part, column = mistake.part, mistake.part.column
    node = _node(program, column, mistake.found)
    shape = (column.rows_per_world, *part.field.type.tensor_shape)
    for world in mistake.worlds.nonzero().flatten().tolist():
        row, *index = np.unravel_index(int(mistake.first[world]), shape)
        offset = part.field.offset + sum(int(i) * s for i, s in zip(index, part.field.strides, strict=True))
        note_fault(memory, node, mistake.found, world, int(row), int(mistake.depends[world]), column.number, offset)


def _node(program: Program, column: Column, found: Found) -> Node:
    """The last that writes it, or the first that may read it."""
    if found is Found.unwritten:
        return [node for node in program.graphs["observe"] if column.name in node.writes][-1]
    return takers(program, column)[0]
