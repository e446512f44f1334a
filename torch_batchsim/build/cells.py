"""Which columns a CUDA thread keeps in registers while it does the tasks of a run for a row: read once, written once.

A compiler cannot prove that a store of one task leaves the next task's input alone, so through pointers it would load
again after each store. The names of columns here are those of fields of the context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..declare.columns import Column
from ..resolve.program import Node, Program
from ..resolve.schedule import Task, node_name, state_tables, zero_node_name
from .context import ENGINE_COLUMNS, PHASE
from .structs import cpp_name

_LARGEST = 64  # bytes of a row in registers

_FLAGS = ("terminated", "truncated")
_WRITE_THROUGH = ("step", "episode")  # World reads them from memory


@dataclass(frozen=True)
class Access:
    """The access of a task to a field of the context. One that only writes writes the whole field."""

    field: str
    reads: bool = False
    writes: bool = False
    by_world: bool = False  # its row is that of the world
    when: str = ""  # it reads in these runs only (tbs::When); by default whenever the task runs


def in_cells(column: Column) -> bool:
    """Whether rows of the column may be in registers: small ones, and no arrays, which are indexed at run time."""
    small = column.component.size <= _LARGEST and not any(field.type.shape for field in column.component.fields)
    return small and not column.dynamic and not column.resource


class Cells:
    """The cells of all runs of a program.

    The fields of the context that a run's tasks touch become members of a struct: cells, or where several threads or
    ``World`` may touch the same row at once, the pointers of the context.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._systems = {node_name(node): node for nodes in program.graphs.values() for node in nodes}
        self._zeroed = {zero_node_name(columns): columns for columns in state_tables(program).values()}
        self._types = {f"column_{c.c_name}": cpp_name(c.component) for c in program.columns.values()}
        self._types |= {name: c_type for name, c_type, *_ in (*ENGINE_COLUMNS, PHASE)}

    def struct(self, name: str, run: Sequence[Task]) -> Iterator[str]:
        """The C++ struct of a run."""
        accesses = [(task, access) for task in run for access in self._of_task(task)]
        rows = run[0].node.rows
        kept, pointers = [], []
        for field in dict.fromkeys(access.field for _, access in accesses):
            own = [access for _, access in accesses if access.field == field]
            shared = rows > 1 and any(a.by_world for a in own) and any(a.writes for a in own)
            reached = any(field in self._reached(task) for task in run)
            (pointers if shared or reached else kept).append(field)
        yield f"struct {name} {{"
        yield from (f"    Cell<{self._types[field]}> {field};" for field in kept)
        yield from (f"    {self._types[field]} *const {field};" for field in pointers)
        given = f" : {', '.join(f'{field}(context.{field})' for field in pointers)}" if pointers else ""
        yield f"    TBS_METHOD {name}([[maybe_unused]] const Context &context, [[maybe_unused]] i32 row){given} {{"
        for field in kept:
            condition = _read_before_written([(t, a) for t, a in accesses if a.field == field])
            if condition:
                by_world = next(access.by_world for _, access in accesses if access.field == field)
                place = f"row / {rows}" if by_world and rows > 1 else "row"
                guard = "" if condition == "true" else f"if ({condition}) "
                yield f"        {guard}{field}.value = context.{field}[{place}];"
        yield "    }"
        yield "    // Notes the fields that a task may have written, after it has run."
        yield "    template <u32 task>"
        yield "    TBS_METHOD void note([[maybe_unused]] const Context &context, [[maybe_unused]] i32 row) {"
        for task in run:
            written = [a.field for a in self._of_task(task) if a.writes and a.field in kept]
            now = [f"context.{field}[row] = {field}.value;" for field in written if field in _WRITE_THROUGH]
            later = [f"{field}.written = true;" for field in written if field not in _WRITE_THROUGH]
            if written:
                yield f"        if constexpr (task == {task.number}) {{ {' '.join([*now, *later])} }}"
        yield "    }"
        yield "    TBS_METHOD void store([[maybe_unused]] const Context &context, [[maybe_unused]] i32 row) const {"
        for field in kept:
            if field not in _WRITE_THROUGH and any(a.writes for _, a in accesses if a.field == field):
                yield f"        if ({field}.written) context.{field}[row] = {field}.value;"
        yield "    }"
        yield "};"

    def _of_task(self, task: Task) -> Iterator[Access]:
        """The accesses of a task through cells, its phase included."""
        if task.phase != "all":
            yield Access("phase", reads=True, by_world=True)
        system = self._systems.get(task.node.c_type)
        yield from self._of_engine(task.node.name, task.node.c_type) if system is None else _of_system(system)

    def _reached(self, task: Task) -> set[str]:
        """Fields that a task reads or writes in memory."""
        system = self._systems.get(task.node.c_type)
        if system is not None:
            names = system.reached | system.reached_writes
            return {f"column_{column.c_name}" for name, column in self.program.columns.items() if name in names}
        if task.node.name == "WriteActions" and self.program.active is not None:
            return {f"column_{self.program.active.c_name}"}
        return set()

    def _of_engine(self, name: str, c_type: str) -> Iterator[Access]:
        program = self.program
        match name:
            case "WriteActions":
                yield from _of_columns([program.action], writes=True)
            case "ChoosePhase":
                yield Access("ended", reads=True, by_world=True, when="apart")
                yield Access("phase", writes=True, by_world=True)
            case "ChooseBeginAfterStep":
                yield Access("ended", reads=True, by_world=True)
                yield Access("phase", writes=True, by_world=True)
            case "ChooseMasked":
                yield Access("phase", writes=True, by_world=True)
            case "CountStep":
                yield Access("step", reads=True, writes=True, by_world=True)
                yield from (Access(flag, writes=True, by_world=True) for flag in _FLAGS)
            case "NoteEnd":
                yield from (Access(flag, reads=True, by_world=True) for flag in _FLAGS)
                yield Access("ended", writes=True, by_world=True)
            case "RepeatFlags":
                yield Access("ended", reads=True, by_world=True)
                yield from (Access(flag, writes=True, by_world=True) for flag in _FLAGS)
            case "ClearFlags":
                yield from (Access(flag, writes=True, by_world=True) for flag in _FLAGS)
            case "BeginEpisode":
                yield Access("episode", reads=True, writes=True, by_world=True)
                yield from (Access(field, writes=True, by_world=True) for field in ("step", "ended"))
            case "ZeroReward":
                yield from _of_columns([program.reward], writes=True)
            case "ZeroAgentEnd":
                yield from _of_columns([program.agent_end], writes=True)
            case "ZeroState" if c_type in self._zeroed:
                yield from _of_columns(self._zeroed[c_type], writes=True)
            case "RestoreHeld":
                yield from _of_columns(program.held_columns, reads=True, writes=True)
            case "KeepFinal" | "DeliverOutputs":
                yield from _of_columns(program.outputs if name == "KeepFinal" else program.delivered, reads=True)
            case "KeepOwnFinal":
                yield from (Access(flag, reads=True, by_world=True) for flag in _FLAGS)
                yield from _of_columns([*program.outputs, program.agent_end], reads=True)
            case "DeliverFlags":
                yield from (Access(flag, reads=True, by_world=True) for flag in _FLAGS)
                yield from _of_columns([program.agent_end] if program.agent_end else [], reads=True)


def _of_columns(columns: Iterable[Column], reads: bool = False, writes: bool = False) -> Iterator[Access]:
    for column in columns:
        if in_cells(column):
            yield Access(f"column_{column.c_name}", reads, writes, column.singleton)


def _of_system(node: Node) -> Iterator[Access]:
    for parameter, column in zip(node.system.parameters, node.columns, strict=True):
        if column == "Episode":
            yield Access("step", reads=True, by_world=True)
            yield from (Access(flag, reads=True, writes=parameter.writes, by_world=True) for flag in _FLAGS)
        elif isinstance(column, Column) and in_cells(column):
            yield Access(f"column_{column.c_name}", True, parameter.writes, column.singleton)


def _read_before_written(accesses: Sequence[tuple[Task, Access]]) -> str:
    """C++ of the condition, equal for all worlds, under which a field is read from memory; empty: never."""
    conditions = []
    for place, (task, access) in enumerate(accesses):
        if not access.reads:
            continue
        when = access.when or task.when
        # Before any of them begins anew, all worlds of such a run are live.
        phases = {"all", task.phase} | ({"live"} if when == "same_step" else set())
        before = [t for t, a in accesses[:place] if a.writes and not a.reads and t.phase in phases]
        if any(writer.when in ("always", when) for writer in before):
            continue
        unwritten = [f"!is_active(context, When::{writer.when})" for writer in before]
        own = [] if when == "always" else [f"is_active(context, When::{when})"]
        conditions.append(" && ".join([*own, *unwritten]) or "true")
    distinct = list(dict.fromkeys(conditions))
    return "true" if "true" in distinct else " || ".join(f"({c})" if len(distinct) > 1 else c for c in distinct)
