"""The parts of a C++ unit that only a checked build has."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from ..base import shared
from ..base.numbers import BY_DTYPE, Number
from ..declare.columns import Column
from ..declare.declaration import ENGINE_HEADERS
from ..declare.fields import Field
from ..read.cpp_text import Source
from ..read.systems import Unit
from ..resolve.nodes import Node
from ..resolve.program import Program
from .device_checks import with_looks
from .inlining import Put

_SANITIZERS = (
    "bounds-strict", "shift", "integer-divide-by-zero", "signed-integer-overflow", "float-cast-overflow", "return",
)  # fmt: skip
_POINTERS = ("->", "find")
_LOOP = " TBS_LOOP "


def flags(program: Program) -> list[str]:
    """Options by which g++ checks the texts of a checked build: it calls the functions of ``csrc/tbs/sanitizers.h``.

    ``null`` tests each reference, which keeps loops from becoming vectors: only for texts that have pointers.
    """
    if program.checks is None:
        return []
    texts = [source for _, source in program.sources if _is_checked_file(source.path)]
    has_pointers = any(token.text in _POINTERS for source in texts for token in source.tokens)
    checks = [*_SANITIZERS, *(["null"] if has_pointers else [])]
    return [f"-fsanitize={','.join(checks)}", "-fsanitize-recover=all", "-Wno-dangling-else", "-Wno-empty-body"]


def opening(program: Program) -> Iterator[str]:
    """Lines in front of all others."""
    yield "#define TBS_CHECKS"


def definitions() -> Iterator[str]:
    """Lines in front of the engine's headers."""
    yield "#include <cstddef>"
    yield f'#define TBS_CHECKS_ENGINE "{_literal(ENGINE_HEADERS)}/"'
    yield from shared.checked_definitions()


def _literal(path: Path) -> str:
    return str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')


def is_checked_text(unit: Unit) -> bool:
    """Whether g++ checks the text: the author's, and that of a library that does not come with the engine."""
    return _is_checked_file(unit.source)


def _is_checked_file(path: Path) -> bool:
    return not path.resolve().is_relative_to(ENGINE_HEADERS.resolve())


def before_text(program: Program, unit: Unit) -> Iterator[str]:
    """Lines in front of a text."""
    if program.checks is not None and is_checked_text(unit):
        yield '#pragma push_macro("TBS_UNCHECKED")'
        yield "#undef TBS_UNCHECKED"
        yield "#define TBS_UNCHECKED"
        yield '#pragma GCC diagnostic ignored "-Wdangling-else"'


def put_into(program: Program, unit: Unit, cuda: bool = False) -> tuple[Put, ...]:
    """Insertions into the text, an argument of ``inlined``."""
    return (_puts(program, cuda),) if is_checked_text(unit) and _put_by(program, cuda) else ()


def _put_by(program: Program, cuda: bool) -> list[Put]:
    if program.checks is None:
        return []
    budget = [with_budget] if program.checks.loops is not None else []
    return [*budget, *([with_looks] if cuda else [])]


def _puts(program: Program, cuda: bool = False) -> Put:
    each = _put_by(program, cuda)
    return lambda source: sorted((put for own in each for put in own(source)), key=lambda put: put[0])


def behind_text(program: Program, unit: Unit) -> Iterator[str]:
    """Lines behind it."""
    if program.checks is not None and is_checked_text(unit):
        yield '#pragma pop_macro("TBS_UNCHECKED")'


def with_budget(source: Source) -> list[tuple[int, str]]:
    """Insertions that count the iterations of a text's loops: ascending places, and the text in front of each."""
    put, tokens = [], source.tokens
    for i, token in enumerate(tokens):
        if token.text == "do":
            put.append(token.start + len("do"))
        elif token.text in ("for", "while") and i + 1 in source.partner and not _ends_do(source, i):
            close = tokens[source.partner[i + 1]]
            put.append(close.start + len(close.text))
    return [(place, _LOOP) for place in sorted(put)]


def _ends_do(source: Source, i: int) -> bool:
    """Whether the ``while`` that is token ``i`` is the end of a ``do``."""
    tokens = source.tokens
    if i == 0 or tokens[i - 1].text != "}":
        close = source.partner[i + 1]
        bare = close + 1 < len(tokens) and tokens[close + 1].text == ";"
        return bare and any(token.text == "do" for token in tokens[max(0, i - 64) : i])
    opened = source.partner[i - 1]
    return opened > 0 and tokens[opened - 1].text == "do"


def column_as_written(program: Program, source: Source, line: int, column: int) -> int:
    """The column in the author's text of a column in the text with the insertions of ``put_into``."""
    begins = [0]
    for text in source.whole.split("\n"):
        begins.append(begins[-1] + len(text) + 1)
    if not 1 <= line < len(begins):
        return column
    moved = 0
    for place, text in _puts(program)(source):
        first = place - begins[line - 1] + 1 + moved  # the column of the insertion
        if begins[line - 1] <= place < begins[line] and first < column:
            moved += min(len(text), column - first)
    return column - moved


def node_members(program: Program, node: Node) -> Iterator[str]:
    """Members of a node that ``csrc/tbs/run_checked.h`` reads."""
    yield f"    static constexpr u32 checked_number = {node.word_number};"
    columns = _looked_at(program, node)
    yield f"    static constexpr bool verifies = {str(bool(columns)).lower()};"
    yield f"    static constexpr bool has_loops = {str(_has_loops(program, node)).lower()};"
    if columns:
        yield "    template <class World>"
        parameters = "const Context &context, i32 count, const World &world, checks::Guard &guard"
        yield f"    static void verify({parameters}) {{"
        for column in columns:
            number = column.number
            pieces = ", ".join(f"{{{piece}}}" for piece in _floats(column))
            yield f"        static constexpr checks::Floats floats{number}[] = {{{pieces}}};"
            per_world = 0 if column.dynamic else column.rows_per_world
            place = f"context.column_{column.c_name}, {_rows(program, column)}"
            yield f"        checks::verify<{per_world}>(guard, count, world, {place}, {number}, floats{number});"
        yield "    }"


def running(node: Node) -> str:
    """A statement in front of a system on CUDA that gives the insertions in its text the row for which it runs."""
    world, row = ("pack.ids[0]", "0") if node.system.worlds > 1 else ("world_index", "its_row.index")
    site = f"checks::site_of(context, node.index, {row}, u32({world}))"
    # Lanes have to leave a loop together, because a barrier may be in it.
    most = "context.loop_budget" if node.lanes == 1 else f"i64{{{shared.NO_BUDGET}}}"
    return f"const checks::Running running({site}, {most});"


def looks_behind(program: Program, node: Node, arguments: list[str]) -> list[str]:
    """Statements behind a system on CUDA that look for NaN in the components of its row that it may write."""
    if not program.checks.nan or node.system.worlds > 1:
        return []
    looked, statements = _looked_at(program, node), []
    for (column, writes), argument in zip(node.arguments, arguments[1:], strict=True):
        if not isinstance(column, Column) or not writes or column not in looked:
            continue
        place = f"world.check_site(), {argument}, {column.number}"
        statements += [f"checks::verify_floats({place}, {{{piece}}});" for piece in _floats(column)]
    return statements


def _has_loops(program: Program, node: Node) -> bool:
    """Whether the text of its system has loops, whose iterations are counted."""
    scope = node.system.namespace
    if program.checks.loops is None:
        return False
    units = [unit for unit in program.units if unit.namespace == scope and is_checked_text(unit)]
    return bool(units) and any(with_budget(source) for owner, source in program.sources if owner == scope)


def _looked_at(program: Program, node: Node) -> list[Column]:
    """Columns with floats that the node writes, without scratch."""
    if not program.checks.nan:
        return []
    names = {column.name for column, writes in node.arguments if isinstance(column, Column) and writes}
    names |= node.reached_writes | {
        column.name for column in program.columns.values() if column.table in node.creates
    }
    columns = [column for column in program.columns.values() if column.name in names]
    return [c for c in columns if not c.scratch and not c.resource and not c.workspace and _floats(c)]


def _rows(program: Program, column: Column) -> str:
    """A C++ function: the rows of a world in a column of a dynamic table, new ones included."""
    if not column.dynamic:
        return "0"
    table = f"context.tables[{program.tables.by_name[column.table].number - 1}]"
    count = f"::tbs::min(u32({table}.count[world]) + {table}.added[world], {table}.room(u32(world)))"
    return f"[&](i32 world, i64 &first, i32 &rows) {{ first = {table}.first[world]; rows = i32({count}); }}"


def _floats(column: Column) -> list[str]:
    """The values of a ``tbs::checks::Floats`` for each run of floats in a component, of several fields too."""
    found: list[tuple[int, int, Number]] = []
    for field in column.component.fields:
        if not field.type.dtype.is_floating_point:
            continue
        number = BY_DTYPE[field.type.dtype]
        for offset, count in _pieces(field):
            first, before, kind = found[-1] if found else (0, 0, None)
            if kind is number and first + before * number.dtype.itemsize == offset:
                found[-1] = (first, before + count, number)
            else:
                found.append((offset, count, number))
    return [f"{first}, {count}, {number.dtype.itemsize}, {number.infinity}" for first, count, number in found]


def _pieces(field: Field) -> Iterator[tuple[int, int]]:
    """Numbers of a field that lie side by side: offset and how many."""
    shape = field.type.tensor_shape
    if field.is_dense or not shape:
        yield field.offset, prod(shape)
        return
    for index in np.ndindex(shape):
        yield field.offset + sum(i * step for i, step in zip(index, field.strides, strict=True)), 1
