"""Writes the nodes that the engine adds around an author's, where they depend on the program."""

from __future__ import annotations

from collections.abc import Iterator

from ..base.shared import LANES
from ..declare.columns import Column
from ..resolve.program import Program
from ..resolve.schedule import copied_by_warp, state_tables, zero_node_name
from .cells import in_cells
from .context import final_columns
from .structs import cpp_name


def run_in_cells(more: str = "") -> Iterator[str]:
    """The head of a flat node's function, with ``more`` parameters."""
    yield "    static constexpr bool in_cells = true;"
    yield "    template <class Cells>"
    parameters = "[[maybe_unused]] const Context &context, [[maybe_unused]] const Cells &cells"
    yield f"    static TBS_METHOD void run({parameters}, i32 row{more}) {{"


def engine_nodes(program: Program) -> Iterator[str]:
    agents = program.agents.count
    reward = f"{place_in_node(program.reward)}[row]"
    yield from _engine_node("ZeroReward", agents, [f"{reward}.value = 0.0f;"])
    final = [(f"context.{name}", c) for name, c in final_columns(program).items()]
    yield from _copying_node("KeepFinalRows", agents, final)
    if program.agent_end is not None:
        zero = f"{place_in_node(program.agent_end)}[row] = {{}};"
        yield from _engine_node("ZeroAgentEnd", agents, [zero])
        own = f"if (!ends_of_its_own<{agents}>(context, {{cells}}, row)) return;"
        yield from _copying_node("KeepOwnFinalRows", agents, final, own)
    delivered = [(f"context.output_{c.c_name}", c) for c in program.delivered]
    yield from _copying_node("DeliverOutputs", agents, delivered)
    if program.held_columns:
        statements = [
            f"restore_held<{'false' if in_cells(c) else 'true'}>({place_in_node(c)}[row], "
            f"context.held_{c.c_name}, context.held_mask_{c.c_name}, row);"
            for c in program.held_columns
        ]
        yield from _engine_node("RestoreHeld", 1, statements)
    for columns in state_tables(program).values():
        statements = [f"{place_in_node(c)}[row] = {cpp_name(c.component)}{{}};" for c in columns]
        yield from _engine_node(zero_node_name(columns), columns[0].rows_per_world, statements)


def _copying_node(name: str, rows: int, copies: list[tuple[str, Column]], guard: str = "") -> Iterator[str]:
    """Copies a row of each column: one thread small ones, a warp large ones."""
    if not copied_by_warp([column for _, column in copies]):
        own = [guard.format(cells="cells")] if guard else []
        statements = [f"{to}[row] = {place_in_node(column)}[row];" for to, column in copies]
        yield from _engine_node(name, rows, [*own, *statements])
        return
    yield f"struct {name} {{"
    yield f"    static constexpr i32 rows_per_world = {rows}, table = -1;"
    yield f"    static constexpr u32 lanes = {LANES['Warp']};"
    yield "    static constexpr bool creates = false;"
    yield "    static TBS_METHOD void run(const Context &context, NodeRows rows, i32 index, Warp &group) {"
    yield "        const i32 row = rows.first + index;"
    if guard:
        yield f"        {guard.format(cells='context')}"
    for to, column in copies:
        if copied_by_warp([column]):
            yield f"        copy_row({to}[row], context.column_{column.c_name}[row], group);"
    yield "        group.once([&] {"
    for to, column in copies:
        if not copied_by_warp([column]):
            yield f"            {to}[row] = context.column_{column.c_name}[row];"
    yield "        });"
    yield "    }"
    yield "};"


def place_in_node(column: Column) -> str:
    """The column as flat nodes name it."""
    return f"{'cells' if in_cells(column) else 'context'}.column_{column.c_name}"


def _engine_node(name: str, rows: int, statements: list[str]) -> Iterator[str]:
    yield f"struct {name} {{"
    yield f"    static constexpr i32 rows_per_world = {rows};"
    yield from run_in_cells()
    for statement in statements:
        yield f"        {statement}"
    yield "    }"
    yield "};"
