"""The step as a list of tasks, and their groups, the kernels. csrc/tbs/schedule.h defines the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ..declare.columns import Column
from .executors import Executor
from .nodes import Loop, Node
from .program import Program

BLOCKS = (1, 2, 3, 4, 6, 8)
"""Numbers of blocks that a plan may fit on a multiprocessor: at most 255, 128, 80, 64, 40, 32 registers a thread."""

_ROW_OF_A_THREAD = 64  # bytes that one thread copies at most
ACTION_NODE = 0  # in fault words, where nodes of systems count from 1

# Segments of a step in order: name, list of nodes, for which worlds (tbs::Phase), in which runs (tbs::When).
_STEP = (
    ("write_actions", "WriteActions", "all", "acts"),
    ("choose_phase", "ChoosePhase", "all", "always"),
    ("before_step", "BeforeStep", "live", "always"),
    ("step", "Step", "live", "always"),
    ("after_step", "AfterStep", "live", "always"),
    ("hold", "Hold", "rest", "apart"),
    ("choose_begin", "ChooseBegin", "all", "same_step"),
    ("observe_final", "Observe", "begin", "keeps_final"),
    ("keep_final", "KeepFinal", "begin", "keeps_final"),
    ("clear_outputs", "ClearOutputs", "begin", "apart"),
    ("begin", "Begin", "begin", "begins"),
    ("start", "Start", "begin", "begins"),
    ("observe", "Observe", "all", "always"),
    ("keep_own_final", "KeepOwnFinal", "live", "keeps_final"),
    ("deliver", "Deliver", "all", "always"),
)
_RESET = (
    ("choose_phase", "ChooseMasked", "all", "always"),
    ("clear_outputs", "ClearOutputs", "begin", "always"),
    ("begin", "Begin", "begin", "always"),
    ("start", "Start", "begin", "always"),
    ("observe", "Observe", "begin", "always"),
    ("deliver", "Deliver", "begin", "always"),
)


@dataclass(frozen=True)
class TaskNode:
    """A node of a list: an author's or one of the engine."""

    name: str  # for people
    c_type: str
    engine: bool = True
    rows: int | None = 1  # per world; None: the node is not flat (csrc/tbs/engine.h)
    local: bool = True  # reads and writes its own row, and only reads memory of its world
    loops: tuple[Loop, ...] = ()  # around it, the outermost first


@dataclass(frozen=True)
class Task:
    """A node in the schedule. ``number`` is its place in the step; a task of a reset has that of its twin."""

    number: int
    segment: str
    phase: str
    when: str
    node: TaskNode


@dataclass(frozen=True)
class Group:
    """Tasks ``[first, last)`` of the step in one kernel; ``blocks`` of its blocks fit on a multiprocessor."""

    first: int
    last: int
    blocks: int = 1


Plan = tuple[Group, ...]
"""Groups with all tasks of a step, in order."""


def node_lists(program: Program) -> dict[str, list[TaskNode]]:
    """The lists of nodes by their names in the generated ``Program``."""
    agents = program.agents.count
    zero = [
        TaskNode("ZeroState", zero_node_name(columns), rows=columns[0].rows_per_world)
        for columns in state_tables(program).values()
    ]
    if program.has_entities:
        zero.append(TaskNode("BeginEntities", "BeginEntities"))
    if program.dynamic:
        zero.append(_empty([archetype.number for archetype in program.dynamic]))
    if program.held_columns:
        zero.append(TaskNode("RestoreHeld", "RestoreHeld"))
    ephemeral = [archetype.number for archetype in program.dynamic if archetype.ephemeral or archetype.scratch]
    keep_rows = None if copied_by_warp(program.outputs) else agents
    deliver_rows = None if copied_by_warp(program.delivered) else agents
    reward = TaskNode("ZeroReward", "ZeroReward", rows=agents)
    ends = program.agent_end is not None
    outcome = [reward, *([TaskNode("ZeroAgentEnd", "ZeroAgentEnd", rows=agents)] if ends else [])]
    return {
        "WriteActions": [
            TaskNode("WriteActions", f"WriteActions<Context::ActionElement, {agents}, {ACTION_NODE}>", rows=agents)
        ],
        "ChoosePhase": [TaskNode("ChoosePhase", "ChoosePhase")],
        "ChooseBegin": [TaskNode("ChooseBeginAfterStep", "ChooseBeginAfterStep")],
        "ChooseMasked": [TaskNode("ChooseMasked", "ChooseMasked")],
        "BeforeStep": [TaskNode("CountStep", "CountStep"), *outcome, *([_empty(ephemeral)] if ephemeral else [])],
        "Step": list(with_settling(program, program.graphs["step"])),
        "AfterStep": [TaskNode("NoteEnd", "NoteEnd")],
        "Begin": [TaskNode("BeginEpisode", "BeginEpisode"), *zero],
        "Start": list(with_settling(program, program.graphs["start"])),
        "Observe": list(with_settling(program, program.graphs["observe"])),
        "KeepFinal": [TaskNode("KeepFinal", "KeepFinalRows", rows=keep_rows)],
        "Hold": [TaskNode("RepeatFlags", "RepeatFlags"), reward],
        "ClearOutputs": [TaskNode("ClearFlags", "ClearFlags"), *outcome],
        "KeepOwnFinal": [TaskNode("KeepOwnFinal", "KeepOwnFinalRows", rows=keep_rows)] if ends else [],
        "Deliver": [
            *([TaskNode("DeliverOutputs", "DeliverOutputs", rows=deliver_rows)] if program.delivered else []),
            TaskNode("DeliverFlags", f"DeliverFlags<{agents}, {str(ends).lower()}>", rows=agents),
        ],
    }


def inside_nodes(program: Program) -> list[TaskNode]:
    """The nodes that the engine can run one at a time, each C++ type once, by their numbers in csrc/tbs/inside.h."""
    lists = node_lists(program)
    apart = ("WriteActions", "ChoosePhase", "ChooseBegin", "ChooseMasked")  # the host does these
    nodes = [node for name, listed in lists.items() if name not in apart for node in listed]
    return list({node.c_type: node for node in nodes}.values())


def copied_by_warp(columns: Iterable[Column]) -> bool:
    """Whether rows of these are so large together that one thread would take long to copy them."""
    return sum(column.component.size for column in columns) > _ROW_OF_A_THREAD


def _empty(tables: Iterable[int]) -> TaskNode:
    return TaskNode("EmptyTables", f"EmptyTables<{', '.join(map(table_name, tables))}>")


def table_name(number: int) -> str:
    """The generated description of an archetype's table, by its number in handles (``Archetype.number``)."""
    return f"Table{number}"


def with_settling(program: Program, nodes: list[Node]) -> Iterator[TaskNode]:
    """Nodes of a task graph, each followed by nodes that settle the dynamic tables that it changes."""
    for node in nodes:
        # Reads of singletons, resources and random numbers touch no rows of others.
        own = ("random", "random_item")
        local = all(r.kind in own or (r.kind == "get" and not r.writes) for r in node.system.reaches)
        rows = node.rows if node.flat else None
        yield TaskNode(node.system.name, node.c_name, False, rows, local, node.loops)
        for name in node.changes:
            number = program.tables.by_name[name].number
            code = program.full_code(number)
            flags = [name in node.creates, name in node.destroys, node.lanes == 1]
            arguments = [table_name(number), node.word_number, code, *(str(flag).lower() for flag in flags)]
            yield TaskNode(f"settle {name}", f"Settle<{', '.join(map(str, arguments))}>", rows=None, loops=node.loops)


def zero_node_name(columns: list[Column]) -> str:
    """The name of the generated struct that zeroes these columns of one table."""
    return f"ZeroState_{columns[0].c_name}"


def state_tables(program: Program) -> dict[str, list[Column]]:
    """Columns that a new episode zeroes, by table.

    All but actions, reward, ends of agents, resources, ``kept`` and scratch columns, and those that only ``observe``
    writes.
    """
    of_step = {column.name for column in (program.action, program.reward, program.agent_end) if column}
    kept = of_step | program.observe_only | program.kept
    tables: dict[str, list[Column]] = {}
    for column in program.columns.values():
        if column.name not in kept and not column.dynamic and not column.resource and not column.scratch:
            tables.setdefault(column.table, []).append(column)
    return tables


def step_tasks(program: Program) -> list[Task]:
    """All tasks of a step, also those that only some runs need."""
    lists = node_lists(program)
    entries = [(segment, phase, when, node) for segment, name, phase, when in _STEP for node in lists[name]]
    return [Task(number, *entry) for number, entry in enumerate(entries)]


def reset_tasks(program: Program) -> list[Task]:
    """All tasks of a reset."""
    lists, first = node_lists(program), first_tasks(program)
    return [
        Task(first[segment] + i, segment, phase, when, node)
        for segment, name, phase, when in _RESET
        for i, node in enumerate(lists[name])
    ]


def first_tasks(program: Program) -> dict[str, int]:
    """The number of the first task of each segment of a step."""
    lists, first, number = node_lists(program), {}, 0
    for segment, name, *_ in _STEP:
        first[segment] = number
        number += len(lists[name])
    return first


def default_plan(program: Program, executor: Executor) -> Plan:
    """The plan before a measurement.

    If the executor takes many kernels, neighbours whose rows may run in any order share one, others have one each.
    """
    tasks = step_tasks(program)
    blocks = blocks_by_default(executor)
    return tuple(Group(first, last, blocks) for first, last in pairwise(cuts(tasks, executor)))


def blocks_by_default(executor: Executor) -> int:
    """The least number of blocks of a kernel that fit on a multiprocessor.

    One kernel of all tasks needs as many registers as the greediest task, which would leave room for one block.
    """
    return 4 if executor.kernels == "one" else 1


def cuts(tasks: list[Task], executor: Executor) -> list[int]:
    """The places at which the default plan cuts the tasks into kernels, both ends included."""
    if executor.kernels != "many":
        return [0, len(tasks)]
    places = possible_cuts(tasks)

    def needs_more_threads(before: Task, after: Task) -> bool:
        few = before.phase == after.phase == "begin"  # few worlds: a kernel of its own would take longer to launch
        return not few and (before.node.rows is None or after.node.rows is None)

    inner = [i for i in places[1:-1] if needs_more_threads(tasks[i - 1], tasks[i])]
    return [0, *inner, len(tasks)]


def possible_cuts(tasks: list[Task]) -> list[int]:
    """The places at which a plan may cut the tasks into kernels, both ends included: anywhere but inside of a loop."""
    outermost = [task.node.loops[:1] for task in tasks]
    return [0, *(i for i in range(1, len(tasks)) if outermost[i] != outermost[i - 1] or not outermost[i]), len(tasks)]


def finest_plan(tasks: list[Task]) -> Plan:
    """A kernel for each task, or loop of tasks."""
    return tuple(Group(first, last) for first, last in pairwise(possible_cuts(tasks)))


def nested(parts: Sequence[tuple[tuple[Loop, ...], str]], depth: int = 0) -> Iterator[str]:
    """C++ types of nodes or runs, those of a loop as ``Loop<times, ...>``."""
    for loop, inside in groupby(parts, key=lambda part: part[0][depth] if depth < len(part[0]) else None):
        if loop is None:
            yield from (text for _, text in inside)
        else:
            yield f"Loop<{loop.times}u, {', '.join(nested(list(inside), depth + 1))}>"


def check_plan(program: Program, plan: Plan) -> None:
    """Raise ValueError unless the groups have every task once and in order, and each loop in one group."""
    tasks = step_tasks(program)
    count = len(tasks)
    ends = [0, *(group.last for group in plan)]
    starts = [*(group.first for group in plan), count]
    if ends != starts or any(group.first >= group.last for group in plan):
        raise ValueError(f"a plan's groups must follow each other from task 0 to {count}, got {plan}")
    for first in sorted(set(starts) - set(possible_cuts(tasks))):
        raise ValueError(
            f"a plan's groups must not cut a Repeat: task {first}, {tasks[first].node.name!r}, must be in the group "
            f"of task {first - 1}"
        )
    for group in plan:
        if group.blocks not in BLOCKS:
            raise ValueError(f"blocks of a group must be one of {', '.join(map(str, BLOCKS))}, got {group.blocks}")


def fused(tasks: list[Task]) -> list[list[Task]]:
    """Runs of tasks that one thread can do for its row, one after another, without waiting for other threads.

    All tasks of a run have the same number of rows, so a thread has the same row of the same world in each. They touch
    no other rows, or they have one row per world, and then the same thread has all rows of that world.
    """
    runs = [tasks[:1]]
    for before, task in pairwise(tasks):
        rows = task.node.rows
        alike = rows is not None and rows == before.node.rows and (task.phase == "begin") == (before.phase == "begin")
        alike = alike and task.node.loops == before.node.loops
        if alike and (rows == 1 or (task.node.local and all(t.node.local for t in runs[-1]))):
            runs[-1].append(task)
        else:
            runs.append([task])
    return runs
