"""Words of faults in memory, decoded to ``Fault``, which has their text, and raised as one ``WorldFault``."""

from __future__ import annotations

from functools import partial

from ..base.shared import BUILTIN_FAULTS, CHECK_FAULT, CHECK_RECORD, NO_FAULT, Found, fault_parts, place_parts
from ..errors import Fault, WorldFault
from ..memory.memory import Memory
from ..resolve.nodes import Node
from ..resolve.program import Program
from ..resolve.schedule import ACTION_NODE
from .findings import failed_check, finding

_MAX_REPORTED = 16


def raise_faults(program: Program, memory: Memory, stepped: bool) -> None:
    """Raise ``WorldFault`` if systems have reported faults since the last look, and forget them."""
    if not memory.fault_flag[0]:
        return
    words = memory.columns["fault"]
    mask = words != NO_FAULT
    memory.fault_flag[0] = 0
    worlds = mask.nonzero().flatten()[:_MAX_REPORTED]
    faults = [decoded(program, int(world), int(words[world]), memory) for world in worlds]
    words.fill_(NO_FAULT)
    if faults:
        raise WorldFault(faults, mask, stepped)


def decoded(program: Program, world: int, word: int, memory: Memory | None = None) -> Fault:
    """The fault in a world's word, see csrc/tbs/fault.h.

    Args:
        memory: has the record of a checked build's finding.
    """
    number, row, code, value = fault_parts(word)
    if number == ACTION_NODE:
        return Fault(world, "check_actions", row, program.faults[code], _signed(value))
    node = program.nodes[number - 1]
    system = node.system.name
    if code == CHECK_FAULT and memory is not None:
        records = memory.others["check_records"].cpu().numpy().view(CHECK_RECORD)
        found = finding(program, node, Found(value), records[world])
        return Fault(world, system, row, found.kind, int(records[world]["value"]), finding=found)
    if code >= program.first_check_code:
        begun = 0 if memory is None else int(memory.others["check_steps"][world])
        failed = failed_check(program, node, code - program.first_check_code, value, begun)
        return Fault(world, system, row, failed.kind, int(failed.value or 0), finding=failed)
    step = _step(world, node, memory)
    if code >= len(program.faults):
        table = program.dynamic[code - program.full_code(1)].name
        place = program.fault_place(node, "table_full", table)
        return Fault(world, system, row, "table_full", value, table, place=place, step=step)
    cause = program.faults[code]
    place = program.fault_place(node, cause)
    texts = program.fault_texts(cause) if code >= len(BUILTIN_FAULTS) else ()
    if not texts:
        return Fault(world, system, row, cause, _signed(value), place=place, step=step)
    if not any("{row}" in text for text in texts):
        text = program.fault_text(cause, 0, "", _signed(value))
        return Fault(world, system, row, cause, _signed(value), place=place, step=step, text=text)
    if node.table is not None:  # the row is that on which the system runs
        held = partial(_held, memory, node.table.name, world, row)
        text = program.fault_text(cause, 0, f"{node.table.name}[{row}]", _signed(value), held)
        return Fault(world, system, row, cause, _signed(value), node.table.name, place=place, step=step, text=text)
    number, at, part = place_parts(value)
    table = next((archetype.name for archetype in program.archetypes if archetype.number == number), "?")
    text = program.fault_text(cause, part, f"{table}[{at}]", at, partial(_held, memory, table, world, at))
    return Fault(world, system, row, cause, at, table, place=place, step=step, text=text)


def _held(memory: Memory | None, table: str, world: int, row: int, name: str) -> str:
    """What a field of a row holds now, which later systems may have changed; ``"?"`` without the row."""
    if memory is None:
        return "?"
    column = memory.tensor(f"{table}.{name}")
    rows = memory.tables[table].ragged(column).world(world) if table in memory.tables else column[world]
    if row >= len(rows):
        return "?"
    values = [f"{number:.7g}" if isinstance(number, float) else str(number) for number in rows[row].flatten().tolist()]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def _step(world: int, node: Node, memory: Memory | None) -> int | None:
    """The step of its episode in which a world has failed; None if unknown.

    On CPU the engine reports a fault before the world's next step, so the world's count is still that of the fault,
    unless the world has begun an episode since. On CUDA the count goes on.
    """
    if node.graph == "start":
        return 0
    if memory is None or memory.cuda:
        return None
    step = int(memory.columns["step"][world])
    ended = bool(memory.columns["terminated"][world]) or bool(memory.columns["truncated"][world])
    return None if step == 0 and ended else step
