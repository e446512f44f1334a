"""Writes the C++ that joins an author's systems to the executors: structs, context, nodes, C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from . import executors, shared
from .columns import Column
from .program import Node, Program
from .schedule import (
    Plan,
    Task,
    check_plan,
    cuts,
    default_plan,
    first_tasks,
    fused,
    is_flat,
    nested,
    node_lists,
    node_name,
    reset_tasks,
    state_tables,
    step_tasks,
    table_name,
    zero_node_name,
)
from .schema import Archetype
from .shared import LANES, ActionBounds, DynamicTable, TraceBuffer
from .structs import (
    AUTHOR_NAMESPACE,
    cpp_function,
    cpp_name,
    cpp_namespace,
    layout_checks,
    parameters_structure,
    scope_structs,
)

ABI_VERSION = 4

_ACTION_ELEMENTS = {torch.float32: "f32", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8"}


# The engine's own columns: name in the context, C type, dtype, and whether the column has a row per agent or per world.
ENGINE_COLUMNS: tuple[tuple[str, str, torch.dtype, bool], ...] = (
    ("seed", "u64", torch.int64, False),
    ("stream", "u32", torch.int32, False),
    ("episode", "u32", torch.int32, False),
    ("step", "u32", torch.int32, False),
    ("fault", "u64", torch.int64, False),
    ("ended", "u8", torch.uint8, False),
    ("terminated", "u8", torch.bool, False),
    ("truncated", "u8", torch.bool, False),
    ("agent_done", "u8", torch.bool, True),
)
AGENT_FLAGS = (  # only where agents have flags beside those of their world
    ("agent_terminated", "u8", torch.bool, True),
    ("agent_truncated", "u8", torch.bool, True),
)
ENTITY_COLUMNS = (
    ("tag", "u32", torch.int32, False),
    ("tick", "u32", torch.int32, False),
)  # only where there are handles
PHASE = ("phase", "u8", torch.uint8, False)  # scratch of the CUDA executors


@dataclass(frozen=True)
class Target:
    """What a library is for: one executor on one kind of device.

    ``plan``: how tasks are grouped into kernels (``"graph"`` and ``"megakernel"``; by default ``default_plan``).
    ``traced``: it writes down when each task ran (``Simulator.tracing``).
    """

    device: str = "cpu"
    executor: str | None = None  # the device's default
    plan: Plan | None = None
    traced: bool = False

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def record(self) -> executors.Executor:
        """The executor. Raises ValueError if the device has none of this name."""
        return executors.find(self.device, self.executor)

    @property
    def executor_name(self) -> str:
        return self.record.name


# Memory of a dynamic table beside its columns, by field of tbs::DynamicTable: dtype, values a world, values a slot.
TABLE_COLUMNS: dict[str, tuple[torch.dtype, int, int]] = {
    "first": (torch.int32, 1, 0),  # and one more for the end
    "count": (torch.int32, 1, 0),
    "added": (torch.int32, 1, 0),
    "crowded": (torch.int32, 1, 0),
    "world": (torch.int32, 0, 1),
    "birth": (torch.int32, 0, 2),
    "doomed": (torch.int32, 0, 1),
}


def engine_columns(program: Program, cuda: bool) -> tuple[tuple[str, str, torch.dtype, bool], ...]:
    """``(name, C type, dtype, per agent)`` of the engine's columns in the order of the context."""
    flags = AGENT_FLAGS if program.agent_flags else ()
    entities = ENTITY_COLUMNS if program.has_entities else ()
    return (*ENGINE_COLUMNS, *flags, *entities, *((PHASE,) if cuda else ()))


def final_columns(program: Program) -> dict[str, Column]:
    """Columns whose values at the end of an episode are kept, by their name in the context."""
    return {f"final_{column.c_name}": column for column in program.outputs}


def output_columns(program: Program) -> dict[str, Column]:
    """Columns of which each step writes all rows to a place that may be another than before, by name in the context.

    Observations and infos, as columns or delivered copies of them, the reward, and final values.
    """
    outputs = {program.output_field(column): column for column in program.outputs}
    return {**outputs, f"column_{program.reward.c_name}": program.reward, **final_columns(program)}


def output_flags(program: Program) -> tuple[tuple[str, str, torch.dtype, bool], ...]:
    """Those of ``engine_columns`` that go with them."""
    return tuple(c for c in engine_columns(program, False) if c[0].endswith(("terminated", "truncated", "done")))


def outputs_structure(program: Program) -> type[ctypes.Structure]:
    """The ``ctypes`` twin of the generated ``Outputs``."""
    names = [*output_columns(program), *(name for name, *_ in output_flags(program))]
    return type("Outputs", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_void_p) for name in names]})


def context_structure(program: Program, cuda: bool) -> type[ctypes.Structure]:
    """The ``ctypes`` twin of the generated ``Context``, which begins with an ``Outputs``."""
    outputs = outputs_structure(program)
    placed = {name for name, _ in outputs._fields_}
    width = program.action.component.size // program.action.dtype.itemsize
    fields: list[tuple[str, type]] = [
        ("device", ctypes.c_int32),
        ("num_worlds", ctypes.c_int32),
        ("tile", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("team", ctypes.c_int32),
        ("autoreset", ctypes.c_int32),
        ("keep_final", ctypes.c_int32),
        ("action_width", ctypes.c_int32),
        ("action_bounds", ActionBounds * width),
        ("fault_flag", ctypes.c_void_p),
        ("trace", TraceBuffer),
    ]
    if cuda:
        fields += [("together", ctypes.c_int32), ("action_type", ctypes.c_int32)]
        fields += [(name, ctypes.c_void_p) for name in ("queue", "mask", "action_source")]
    if program.dynamic:
        fields += [("crowded_flag", ctypes.c_void_p), ("tables", DynamicTable * len(program.dynamic))]
    names = [name for name, *_ in engine_columns(program, cuda)]
    names += [f"column_{column.c_name}" for column in program.columns.values()]
    fields += [(name, ctypes.c_void_p) for name in names if name not in placed]
    fields.append(("parameters", parameters_structure(program)))
    return type("Context", (outputs,), {"_fields_": fields})


def generate(program: Program, target: Target) -> str:
    """The one translation unit of an environment's library."""
    return "\n".join(_lines(program, target)) + "\n"


def _lines(program: Program, target: Target) -> Iterator[str]:
    cuda = target.cuda
    yield f"// Generated by torch_batchsim from {program.environment.name}; every change here is lost."
    if target.traced:
        yield "#define TBS_TRACE"
    yield from (f"#define {name}" for name in target.record.defines)
    yield from shared.definitions(target.device)
    yield '#include "tbs/tbs.h"'
    yield f'#include "tbs/{target.record.header}"'
    yield "#include <cstddef>"
    for scope in program.scopes:
        yield from scope_structs(program, scope)
    yield "namespace tbs {"
    yield from shared.checks()
    for component in program.components:
        yield from layout_checks(component)
    yield from _context(program, cuda)
    yield from shared.layout_checks("Outputs", outputs_structure(program))
    # Of a derived struct offsetof is not portable; its fields follow in the same order.
    yield f"static_assert(sizeof(Context) == {ctypes.sizeof(context_structure(program, cuda))});"
    yield "using World = BasicWorld<Context>;"
    for archetype in program.archetypes:
        yield from _table(program, archetype)
    yield from _column_accessors(program)
    yield from _holders(program)
    yield "}  // namespace tbs"
    yield '#include "tbs/poison.h"'
    for unit in program.units:
        yield f"TBS_BEGIN_SYSTEMS({unit.namespace or AUTHOR_NAMESPACE})"
        yield f'#include "{unit.source.resolve()}"'
        yield "TBS_END_SYSTEMS"
    yield "namespace tbs {"
    for nodes in program.graphs.values():
        for node in nodes:
            yield from _node(program, node)
    yield from _engine_nodes(program)
    yield "namespace executors {"
    yield from _program(program, target)
    yield "}  // namespace executors"
    yield "}  // namespace tbs"
    yield from _c_interface(target)


def _table(program: Program, archetype: Archetype) -> Iterator[str]:
    """What the engine knows of an archetype, of which the author's text has a tag only."""
    number = entity_tables(program)[archetype.name]
    columns = [
        (cpp_name(c), f"context.column_{program.queries.columns_of[archetype.name, c].c_name}")
        for c in archetype.components
    ]
    is_its = " || ".join(f"std::is_same_v<Component, {name}>" for name, _ in columns)
    yield f"struct {table_name(number)} {{  // {archetype.name}"
    yield f"    static constexpr bool dynamic = {str(archetype.dynamic).lower()};"
    if archetype.dynamic:
        yield f"    static constexpr u32 table = {program.dynamic.index(archetype)};"
    else:
        yield f"    static constexpr u32 rows_per_world = {archetype.count};"
    yield f"    static constexpr u32 entity_table = {number};"
    yield f"    template <class Component> static constexpr bool has = {is_its};"
    if archetype.dynamic:  # what World::create and settling do with each component
        yield "    template <class Visitor>"
        yield "    static TBS_METHOD void for_each_column(const Context &context, Visitor &&visitor) {"
        yield from (f"        visitor({column});" for _, column in columns)
        yield "    }"
        yield "    template <class... Given>"
        yield "    static TBS_METHOD void write_row(const Context &context, i32 slot, const Given &...given) {"
        yield from (f"        {column}[slot] = given_or_zero<{name}>(given...);" for name, column in columns)
        yield "    }"
    yield "};"
    yield f"template <> struct TableOf<{cpp_name(archetype)}> : {table_name(number)} {{}};"


def entity_tables(program: Program) -> dict[str, int]:
    """Numbers of the archetypes in handles, from 1: the dynamic ones first, see ``World::index_of``."""
    fixed = [archetype for archetype in program.archetypes if not archetype.dynamic]
    return {archetype.name: i for i, archetype in enumerate([*program.dynamic, *fixed], start=1)}


def _context(program: Program, cuda: bool) -> Iterator[str]:
    width = program.action.component.size // program.action.dtype.itemsize
    outputs, flags = output_columns(program), {name for name, *_ in output_flags(program)}
    yield "// Where a step writes what it returns: another place in each, if need be."
    yield "struct Outputs {"
    yield from (f"    {cpp_name(column.component)} *{name};" for name, column in outputs.items())
    yield from (f"    {c_type} *{name};" for name, c_type, *_ in output_flags(program))
    yield "};"
    yield "struct Context : Outputs {"
    yield "    i32 device, num_worlds, tile, num_threads, team;"
    yield "    Autoreset autoreset;"
    yield "    i32 keep_final, action_width;"
    yield f"    ActionBounds action_bounds[{width}];"
    yield "    i32 *fault_flag;"
    yield "    executors::TraceBuffer trace;"
    if cuda:
        yield "    i32 together, action_type;"
        yield "    u32 *queue;"
        yield "    const u8 *mask;"
        yield "    const void *action_source;"
    if program.dynamic:
        yield f"    i32 *crowded_flag;\n    DynamicTable tables[{len(program.dynamic)}];"
    yield f"    static constexpr u32 dynamic_tables = {len(program.dynamic)};"
    yield f"    using Node = NodeKey<{len(program.columns)}>;"
    for name, c_type, *_ in engine_columns(program, cuda):
        if name not in flags:
            yield f"    {c_type} *{name};"
    for column in program.columns.values():
        if f"column_{column.c_name}" not in outputs:
            yield f"    {cpp_name(column.component)} *column_{column.c_name};"
    yield f"    {cpp_namespace('')}::Parameters parameters;"
    yield f"    using ActionElement = {_ACTION_ELEMENTS[program.action.dtype]};"
    yield "    static TBS_METHOD ActionElement *action_column(const Context &context) {"
    yield f"        return reinterpret_cast<ActionElement *>(context.column_{program.action.c_name});"
    yield "    }"
    yield from _agent_accessors(program)
    counts = "".join(
        f" entity_table == {number} ? {archetype.count}u :"
        for archetype, number in ((a, entity_tables(program)[a.name]) for a in program.archetypes)
        if not archetype.dynamic
    )
    yield "    // Rows per world of a fixed archetype by its number in handles."
    yield f"    static TBS_METHOD u32 fixed_rows([[maybe_unused]] u32 entity_table) {{ return{counts} 0u; }}"
    yield "};"


def _agent_accessors(program: Program) -> Iterator[str]:
    """Members of Context: what roles say of the agent of a row."""
    yield f"    static constexpr bool agents_may_be_inactive = {str(program.active is not None).lower()};"
    if program.active is not None:
        value = f"{program.active.c_name}[row].{program.active.component.fields[0].name}"
        yield "    // Whether it takes part, as delivered with the observation on which its action was chosen."
        yield "    static TBS_METHOD bool agent_is_active(const Context &context, i32 row) {"
        yield f"        return context.column_{value};"
        yield "    }"
    if program.agent_end is not None:
        yield "    static TBS_METHOD auto agent_end(const Context &context, i32 row) {"
        yield f"        return context.column_{program.agent_end.c_name}[row];"
        yield "    }"


def _column_accessors(program: Program) -> Iterator[str]:
    tags = {archetype.name: cpp_name(archetype) for archetype in program.archetypes}
    for number, column in enumerate(program.columns.values()):
        component = cpp_name(column.component)
        if column.singleton:
            world, row = ("u32", "0") if column.resource else ("u32 world", "world")
            yield f"template <> struct OnlyRow<{component}> {{"
            yield f"    static constexpr u32 number = {number};"
            yield f"    static TBS_METHOD {component} &get(const Context &context, {world}) {{"
            yield f"        return context.column_{column.c_name}[{row}];"
        else:
            yield f"template <> struct ColumnOf<{tags[column.table]}, {component}> {{"
            yield f"    static constexpr u32 number = {number};"
            yield f"    static TBS_METHOD {component} *get(const Context &context) {{"
            yield f"        return context.column_{column.c_name};"
        yield "    }"
        yield "};"


def _holders(program: Program) -> Iterator[str]:
    """Which archetypes have a component."""
    for component in program.components:
        tags = (cpp_name(archetype) for archetype in program.archetypes if component in archetype.components)
        yield f"template <> struct ArchetypesWith<{cpp_name(component)}> : Archetypes<{', '.join(tags)}> {{}};"


def _node(program: Program, node: Node) -> Iterator[str]:
    table = node.table
    where = f"the rows of {table.name}" if table else "each world"
    flat = is_flat(node)
    fixed_rows = 1 if table is None else table.count or 0
    yield f"struct {node_name(node)} {{  // {node.graph}: {node.system.name} over {where}"
    yield f"    static constexpr i32 rows_per_world = {fixed_rows};"
    if node.loops:
        yield "    static constexpr bool is_repeated = true;"
    repetition = ", u32 repetition" if node.loops else ""
    if flat:
        yield f"    static TBS_METHOD void run(const Context &context, i32 row{repetition}) {{"
        yield f"        const i32 world_index = row / {fixed_rows};"
        index = f"u32(row - world_index * {fixed_rows})" if fixed_rows > 1 else "0u"
        yield f"        const Row its_row{{{index}, {fixed_rows}u}};"
    else:
        dynamic = table is not None and table.dynamic
        yield f"    static constexpr i32 table = {program.dynamic.index(table) if dynamic else -1};"
        yield f"    static constexpr u32 lanes = {node.lanes};"
        yield f"    static constexpr bool creates = {str(bool(node.creates)).lower()};"
        group = f", Lanes<{node.lanes}> &group" if node.lanes > 1 else ""
        yield f"    static TBS_METHOD void run(const Context &context, NodeRows rows, i32 index{group}{repetition}) {{"
        yield "        const i32 world_index = rows.world;"
        yield "        [[maybe_unused]] const i32 row = rows.first + index;"
        yield "        const Row its_row{u32(index), u32(rows.count)};"
    yield f"        TBS_CONSTANT Context::Node node{{{_node_key(program, node)}}};"
    slot = "row" if table is not None and table.dynamic else "0"
    place = f"{slot}, repetition" if node.loops else slot
    yield f"        World world(context, u32(world_index), node, its_row, {place});"
    arguments, before, after = ["world"], [], []
    for parameter, column in zip(node.system.parameters, node.columns, strict=True):
        if column == "Row":
            arguments.append("its_row")
        elif column == "Entity":
            arguments.append("world.self()" if table.dynamic else f"world.entity<{cpp_name(table)}>(its_row.index)")
        elif column in LANES:
            arguments.append("group")
        elif column == "Episode":
            flags = "context.terminated[world_index] != 0, context.truncated[world_index] != 0"
            value = f"Episode{{context.step[world_index], {flags}}}"
            if node.lanes > 1:
                before.append("        Episode &episode = group.shared<Episode>();")
                before.append(f"        group.once([&] {{ episode = {value}; }});")
            else:
                before.append(f"        Episode episode = {value};")
            arguments.append("episode")
            if parameter.writes:
                after += [
                    "context.terminated[world_index] = episode.terminated;",
                    "context.truncated[world_index] = episode.truncated;",
                ]
        else:
            index = "0" if column.resource else "world_index" if column.singleton else "row"
            argument = f"context.column_{column.c_name}[{index}]"
            constant = f"static_cast<const {cpp_name(column.component)} &>({argument})"  # whatever the text says
            arguments.append(argument if parameter.writes else constant)
    yield from before
    yield f"        {cpp_function(node.system)}({', '.join(arguments)});"
    if node.lanes > 1 and after:
        yield f"        group.once([&] {{ {' '.join(after)} }});"
    else:
        yield from (f"        {statement}" for statement in after)
    yield "    }"
    yield "};"


def _node_key(program: Program, node: Node) -> str:
    """The initialiser of the node's ``tbs::NodeKey``."""

    def tables(names: Iterable[str]) -> str:
        return f"{sum(1 << i for i, archetype in enumerate(program.dynamic) if archetype.name in names)}u"

    def columns(names: Iterable[str]) -> str:
        bits = sum(1 << i for i, name in enumerate(program.columns) if name in names)
        words = [f"{bits >> first & 0xFFFFFFFFFFFFFFFF}u" for first in range(0, len(program.columns), 64)]
        return f"{{{', '.join(words)}}}"

    own = entity_tables(program)[node.table.name] if node.table else 0
    draws = [str(bool(node.system.kinds(kind))).lower() for kind in ("random", "random_item")]
    created = [tables(node.creates if once else ()) for once in (node.lanes == 1, node.lanes > 1)]
    parts = [f"{node.index + 1}u", f"{_random_key(node)}u", f"{own}u", *draws]
    parts += [tables(node.looks), *created, tables(node.destroys), columns(node.reached), columns(node.reached_writes)]
    return ", ".join(parts)


def _random_key(node: Node) -> int:
    """32 bits (FNV-1a) from what a node is, not from where it stands: other nodes may come and go."""
    text = f"{node.graph} {node.system.name} {node.table.name if node.table else ''} {node.occurrence}"
    key = 0x811C9DC5
    for byte in text.encode():
        key = (key ^ byte) * 0x01000193 & 0xFFFFFFFF
    return key


def _engine_nodes(program: Program) -> Iterator[str]:
    reward = f"context.column_{program.reward.c_name}[row]"
    yield from _engine_node("ZeroReward", program.agents.count, [f"{reward}.value = 0.0f;"])
    keep = [f"context.{name}[row] = context.column_{c.c_name}[row];" for name, c in final_columns(program).items()]
    yield from _engine_node("KeepFinalRows", program.agents.count, keep)
    if program.agent_end is not None:
        zero = f"context.column_{program.agent_end.c_name}[row] = {{}};"
        yield from _engine_node("ZeroAgentEnd", program.agents.count, [zero])
        own = f"if (!ends_of_its_own<{program.agents.count}>(context, row)) return;"
        yield from _engine_node("KeepOwnFinalRows", program.agents.count, [own, *keep])
    copies = [f"context.output_{c.c_name}[row] = context.column_{c.c_name}[row];" for c in program.delivered]
    yield from _engine_node("DeliverOutputs", program.agents.count, copies)
    for columns in state_tables(program).values():
        statements = [f"context.column_{c.c_name}[row] = {cpp_name(c.component)}{{}};" for c in columns]
        yield from _engine_node(zero_node_name(columns), columns[0].rows_per_world, statements)


def _engine_node(name: str, rows: int, statements: list[str]) -> Iterator[str]:
    yield f"struct {name} {{"
    yield f"    static constexpr i32 rows_per_world = {rows};"
    yield "    static TBS_METHOD void run(const Context &context, i32 row) {"
    for statement in statements:
        yield f"        {statement}"
    yield "    }"
    yield "};"


_CPU_LISTS = (
    "BeforeStep", "Step", "AfterStep", "Begin", "Start", "Observe", "KeepFinal", "KeepOwnFinal", "Hold", "ClearOutputs",
    "Deliver",
)  # fmt: skip


def _program(program: Program, target: Target) -> Iterator[str]:
    lists = node_lists(program)
    yield "struct Program {"
    yield "    using Context = tbs::Context;"
    yield f"    static constexpr i32 agents_per_world = {program.agents.count};"
    yield "    // The numbers of the first task of each segment of a step."
    yield "    struct Number {"
    numbers = ", ".join(f"{name} = {number}" for name, number in first_tasks(program).items())
    yield f"        enum : u32 {{ {numbers} }};"
    yield "    };"
    if not target.cuda:
        for name in _CPU_LISTS:
            nodes = nested([(node.loops, node.c_type) for node in lists[name]])
            yield f"    using {name} = Nodes<{', '.join(nodes)}>;"
    else:
        plan = target.plan or default_plan(program, target.record)
        check_plan(program, plan)
        tasks = step_tasks(program)
        groups = [_group(tasks[group.first : group.last], group.blocks, target.traced) for group in plan]
        yield f"    using StepGroups = Groups<{', '.join(groups)}>;"
        again = reset_tasks(program)
        ends = pairwise(cuts(again, target.record))
        resets = [_group(again[first:last], 1, target.traced) for first, last in ends]
        yield f"    using ResetGroups = Groups<{', '.join(resets)}>;"
    yield "};"


def _group(tasks: list[Task], blocks: int, traced: bool) -> str:
    """A kernel. A traced one has a barrier after each task, so that each has a time of its own."""
    runs = [[task] for task in tasks] if traced else fused(tasks)
    shape = "tile" if len(runs) > 1 or tasks[0].node.loops else "spread"
    parts = nested([(run[0].node.loops, _run(run)) for run in runs])
    return f"\n        Group<{blocks}, Shape::{shape}, {', '.join(parts)}>"


def _run(tasks: Sequence[Task]) -> str:
    types = [f"Task<{t.node.c_type}, Phase::{t.phase}, When::{t.when}, {t.number}>" for t in tasks]
    return f"\n            Run<{', '.join(types)}>"


def _c_interface(target: Target) -> Iterator[str]:
    parameters = "void *executor, tbs::Context *context, const tbs::Outputs *outputs"
    stream = ", tbs::executors::Stream(stream)" if target.cuda else ""
    preparation = "*static_cast<tbs::Outputs *>(context) = *outputs; "
    preparation += "const tbs::executors::DeviceGuard guard(context->device); " if target.cuda else "(void)stream; "
    call = f"{preparation}return static_cast<Executor *>(executor)->"
    yield "namespace tbs::executors {"
    yield f"using Executor = {target.record.c_type};"
    yield "}  // namespace tbs::executors"
    yield "using tbs::executors::Executor;"
    yield '#define TBS_EXPORT extern "C" __attribute__((visibility("default")))'
    yield f"TBS_EXPORT int tbs_abi_version() {{ return {ABI_VERSION}; }}"
    yield "TBS_EXPORT size_t tbs_context_size() { return sizeof(tbs::Context); }"
    yield "// An executor belongs to one simulator: it may keep what depends on its memory."
    yield "TBS_EXPORT void *tbs_open() { return new Executor; }"
    yield "TBS_EXPORT void tbs_close(void *executor) { delete static_cast<Executor *>(executor); }"
    yield "// Registers of a thread in the largest kernel of a step; 0 on CPU."
    yield "TBS_EXPORT tbs::i64 tbs_registers([[maybe_unused]] const tbs::Context *context) {"
    if target.cuda:
        yield "    const tbs::executors::DeviceGuard guard(context->device); return Executor::registers();"
    else:
        yield "    return 0;"
    yield "}"
    yield f"TBS_EXPORT tbs::i64 tbs_step({parameters}, void *stream) {{"
    yield f"    {call}step(*context{stream});"
    yield "}"
    yield f"TBS_EXPORT tbs::i64 tbs_reset({parameters}, const tbs::u8 *mask, void *stream) {{"
    yield f"    {call}reset(*context, mask{stream});"
    yield "}"
    yield "// Step with actions: >= 0 the first illegal element (nothing has changed), -1 done, -2 done with faults,"
    yield "// <= -1000 a CUDA error."
    yield f"TBS_EXPORT tbs::i64 tbs_act_and_step({parameters}, const void *source, int type, void *stream) {{"
    yield f"    {call}act_and_step(*context, source, type{stream});"
    yield "}"
