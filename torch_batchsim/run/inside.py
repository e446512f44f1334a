"""Runs systems one at a time: the runs of a task graph by name, and a step that runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, TypeVar

import numpy as np
import torch

from ..base.names import suggestion
from ..base.shared import Autoreset
from ..declare.python_systems import PythonSystem
from ..declare.schema import Repeat, TaskGraph
from ..memory.inputs import checked_mask, checked_worlds
from ..memory.memory import Memory
from ..resolve.nodes import GRAPHS, Loop, Node
from ..resolve.program import Program
from ..resolve.schedule import inside_nodes, node_lists, with_settling
from .execution import Execution

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, eq=False)
class SystemRun:
    """One run of a system in a task graph: over all tables that it matches, and what settles them.

    Attributes:
        graph: ``"start"``, ``"step"`` or ``"observe"``.
        system: its name.
        number: how often the graph has run it before.
        repetition: what ``world.repetition()`` returns there.
    """

    graph: str
    system: str
    number: int
    repetition: int
    of: tuple[Node, ...]  # one for each table that it matches

    def __str__(self) -> str:
        return f"{self.system}[{self.number}]" if self.number else self.system


def system_runs(program: Program, graph: str) -> Iterator[SystemRun]:
    """All runs of a graph in their order."""
    nodes = program.graphs[graph]
    entries = [tuple(own) for _, own in groupby(nodes, key=lambda node: (node.system.name, node.occurrence))]
    before: dict[str, int] = {}
    for entry, repetition in _expanded(entries, lambda entry: entry[0].loops):
        name = entry[0].system.name
        number = before[name] = before.get(name, -1) + 1
        yield SystemRun(graph, name, number, repetition, entry)


class Inside:
    """Runs systems of the worlds in ``memory`` one at a time."""

    def __init__(self, program: Program, memory: Memory, execution: Execution) -> None:
        self.program, self.memory, self.execution = program, memory, execution
        self._numbers = {node.c_type: number for number, node in enumerate(inside_nodes(program))}
        self._lists = node_lists(program)
        self.runs = {graph: list(system_runs(program, graph)) for graph in GRAPHS}

    # ---- names -------------------------------------------------------------------------------------------------------

    def selected(self, worlds: Any) -> torch.Tensor:
        """Worlds that a user names, as a bool mask ``[worlds]``. Raises TypeError or ValueError for anything else."""
        number, device = self.memory.num_worlds, self.memory.device
        if worlds is None:
            return torch.ones(number, dtype=torch.bool, device=device)
        if getattr(worlds, "dtype", None) in (torch.bool, np.bool_):
            return checked_mask(worlds, "worlds", number, device)
        if isinstance(worlds, (int, np.integer)) and not isinstance(worlds, bool):
            worlds = [int(worlds)]
        mask = torch.zeros(number, dtype=torch.bool, device=device)
        mask[checked_worlds(worlds, "worlds", number, device)] = True
        return mask

    def runs_named(self, system: str, graph: str | None) -> list[SystemRun]:
        """All runs of a system in a graph: the given one, or the first of step, start and observe that has it.

        Raises TypeError or ValueError for a system that no graph runs.
        """
        if not isinstance(system, str):
            raise TypeError(f"systems are named by strings, lists of them, TaskGraph and Repeat, got {system!r}")
        if graph is not None and graph not in GRAPHS:
            raise ValueError(f"graph must be one of {', '.join(map(repr, GRAPHS))}, got {graph!r}")
        graphs = ("step", "start", "observe") if graph is None else (graph,)
        for one in graphs:
            found = [run for run in self.runs[one] if run.system == system]
            if found:
                return found
        known = dict.fromkeys(run.system for one in graphs for run in self.runs[one])
        where = f"graph {graph!r}" if graph else "task graph"
        raise ValueError(f"no {where} runs a system {system!r}{suggestion(system, known)}; it runs {', '.join(known)}")

    def _names(self, systems: Any) -> Iterator[str]:
        """Names of systems in order: of one, of several, of a fragment with its repetitions."""
        if isinstance(systems, (list, tuple)):
            yield from (name for item in systems for name in self._names(item))
        elif isinstance(systems, (TaskGraph, Repeat)):
            entries = list(self.program.task_graphs.flattened(systems, "step", count()))
            yield from (name for (name, _), _ in _expanded(entries, lambda entry: entry[1]))
        elif isinstance(systems, PythonSystem):
            yield systems.name
        else:
            yield systems

    def chosen(
        self, systems: Any, graph: str | None, repetition: int | None, wanted: Callable[[SystemRun], bool]
    ) -> list[SystemRun]:
        """The runs that a user names: of each system in turn the next that is ``wanted``, or run ``repetition``.

        Raises TypeError or ValueError, also where a system has no such run left.
        """
        taken: list[SystemRun] = []
        for name in self._names(systems):
            runs = self.runs_named(name, graph)
            if repetition is not None:
                if isinstance(repetition, bool) or not isinstance(repetition, (int, np.integer)):
                    raise TypeError(f"repetition must be an integer, got {repetition!r}")
                if not 0 <= repetition < len(runs):
                    allowed = f"be from 0 to {len(runs) - 1}" if len(runs) > 1 else "be 0"
                    raise ValueError(
                        f"system {name!r} runs {_times(len(runs))} in {runs[0].graph!r}: repetition must {allowed}, "
                        f"got {repetition}"
                    )
                taken.append(runs[repetition])
                continue
            left = next((run for run in runs if run not in taken and wanted(run)), None)
            if left is None:
                raise ValueError(
                    f"system {name!r} runs {_times(len(runs))} in {runs[0].graph!r}, and has done so: give "
                    "repetition=0 (or another number) to run it again"
                )
            taken.append(left)
        return taken

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, runs: Iterable[SystemRun], worlds: torch.Tensor) -> None:
        """Run systems for the worlds of a bool mask."""
        nodes = (
            (self._numbers[node.c_type], run.repetition)
            for run in runs
            for node in with_settling(self.program, list(run.of))
        )
        self._run_nodes(nodes, worlds)

    def run_engine(self, name: str, worlds: torch.Tensor) -> None:
        """Run a list of the engine's own nodes (``schedule.node_lists``)."""
        nodes = ((self._numbers[node.c_type], 0) for node in self._lists[name])
        self._run_nodes(nodes, worlds)

    def observe(self, worlds: torch.Tensor) -> None:
        """Run ``observe`` and deliver observations and infos, without flags."""
        self.run(self.runs["observe"], worlds)
        nodes = [(self._numbers[n.c_type], 0) for n in self._lists["Deliver"] if n.name == "DeliverOutputs"]
        self._run_nodes(nodes, worlds)

    def _run_nodes(self, nodes: Iterable[tuple[int, int]], worlds: torch.Tensor) -> None:
        self.execution.run_nodes(nodes, worlds, self.memory.outputs.here())


class InsideStep:
    """A step that has begun: systems run when they are asked for (``Simulator.inside_step``).

    Iteration runs the systems that have not run yet, in the graph's order, and yields a ``SystemRun`` for each when it
    has run.
    """

    def __init__(self, inside: Inside, actions: torch.Tensor | None) -> None:
        self._inside, memory = inside, inside.memory
        self._mode = Autoreset(memory.context.autoreset)
        outputs = memory.outputs
        if actions is not None:
            column = memory.tensor(inside.program.action.name)
            column.copy_(actions.reshape(column.shape))
        before = dict(outputs.present.tensors)
        outputs.advance(outputs.next)
        for field, tensor in outputs.present.tensors.items():  # so that until systems write there, it is as it was
            if not field.startswith("final_") and tensor.data_ptr() != before[field].data_ptr():
                tensor.view(-1).view(torch.uint8).copy_(before[field].view(-1).view(torch.uint8))
        self.every = inside.selected(None)
        apart = self._mode is not Autoreset.same_step
        self.live = memory.columns["ended"] == 0 if apart else self.every
        self._is_finished = False
        self._left = {run: self.live.clone() for run in inside.runs["step"]}
        inside.run_engine("BeforeStep", self.live)

    @property
    def left(self) -> list[SystemRun]:
        """Runs of systems that are still to come for some world, in the graph's order."""
        return [run for run, worlds in self._left.items() if bool(worlds.any())]

    def run(self, systems: Any, worlds: Any = None, repetition: int | None = None) -> list[SystemRun]:
        """See ``Simulator.run``. Nothing runs in worlds that do not step, as their episode has ended."""
        mask = self._inside.selected(worlds) & self.live
        still = not bool(mask.any())
        runs = self._inside.chosen(systems, "step", repetition, lambda r: still or bool((self._left[r] & mask).any()))
        for run in runs:
            self._inside.run([run], mask)
            self._left[run] &= ~mask
        return runs

    def __iter__(self) -> Iterator[SystemRun]:
        for run, worlds in self._left.items():
            if bool(worlds.any()):
                self._inside.run([run], worlds)
                worlds.zero_()
                yield run

    def finish(self, note: Callable[[str], None] = lambda part: None) -> None:
        """Run what has not run yet, and what follows a graph's systems; ``note`` gets each part's name behind it."""
        if self._is_finished:
            return
        self._is_finished = True
        inside, memory = self._inside, self._inside.memory
        same, context = self._mode is Autoreset.same_step, memory.context
        for run in self:
            note(str(run))
        inside.run_engine("AfterStep", self.live)
        if same:
            beginning = memory.columns["ended"] != 0
            if context.keep_final:
                inside.run(inside.runs["observe"], beginning)
                inside.run_engine("KeepFinal", beginning)
        else:
            inside.run_engine("Hold", ~self.live)
            beginning = torch.zeros_like(self.live) if self._mode is Autoreset.disabled else ~self.live
            inside.run_engine("ClearOutputs", beginning)
        note("(end of the step)")
        inside.run_engine("Begin", beginning)
        note("(a new episode begins)")
        for run in inside.runs["start"]:
            inside.run([run], beginning)
            note(f"start: {run}")
        for run in inside.runs["observe"]:
            inside.run([run], self.every)
            note(f"observe: {run}")
        if same and context.keep_final:
            inside.run_engine("KeepOwnFinal", self.every)
        inside.run_engine("Deliver", self.every)


def _expanded(
    entries: Sequence[_Entry], loops: Callable[[_Entry], Sequence[Loop]], depth: int = 0, before: int = 0
) -> Iterator[tuple[_Entry, int]]:
    """Entries of a graph in the order in which they run, with their repetition in ``loops``."""
    for loop, own in groupby(entries, key=lambda e: loops(e)[depth] if depth < len(loops(e)) else None):
        inside = list(own)
        if loop is None:
            yield from ((entry, before) for entry in inside)
        else:
            for i in range(loop.times):
                yield from _expanded(inside, loops, depth + 1, before * loop.times + i)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
