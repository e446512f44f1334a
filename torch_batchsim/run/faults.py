"""What systems report by ``world.fail``: words in memory that become one ``WorldFault``."""

from __future__ import annotations

from ..base.shared import BUILTIN_FAULTS, CHECK_FAULT, CHECK_RECORD, NO_FAULT, Found, fault_parts
from ..errors import Fault, WorldFault
from ..memory.memory import Memory
from ..read.fault_sites import fault_place
from ..resolve.program import Program
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
    """The fault that a world's word tells, see csrc/tbs/fault.h.

    ``memory`` has the record of what a checked build has found.
    """
    node, row, code, value = fault_parts(word)
    system = program.nodes[node - 1].system.name if node else "check_actions"
    if code == CHECK_FAULT and memory is not None:
        records = memory.others["check_records"].cpu().numpy().view(CHECK_RECORD)
        found = finding(program, program.nodes[node - 1], Found(value), records[world])
        return Fault(world, system, row, found.kind, int(records[world]["value"]), finding=found)
    if code >= program.first_check_code:
        begun = 0 if memory is None else int(memory.others["check_steps"][world])
        failed = failed_check(program, program.nodes[node - 1], code - program.first_check_code, value, begun)
        return Fault(world, system, row, failed.kind, int(failed.value or 0), finding=failed)
    step = _step(program, world, node, memory)
    if code >= len(program.faults):
        table = program.dynamic[code - len(program.faults)].name
        place = _place(program, node, "table_full", table)
        return Fault(world, system, row, "table_full", value, table, place=place, step=step)
    cause = program.faults[code]
    place = _place(program, node, cause)
    return Fault(world, system, row, cause, value - 2**32 if value >= 2**31 else value, place=place, step=step)


def _step(program: Program, world: int, node: int, memory: Memory | None) -> int | None:
    """The step of its episode in which a world has failed; None where that is not known.

    On CPU a fault is told before the world's next step, so that its count is still that of the fault, unless the world
    has begun an episode since. On CUDA the count goes on.
    """
    if node and program.nodes[node - 1].graph == "start":
        return 0
    if memory is None or node == 0 or memory.cuda:
        return None
    step = int(memory.columns["step"][world])
    ended = bool(memory.columns["terminated"][world]) or bool(memory.columns["truncated"][world])
    return None if step == 0 and ended else step


def _place(program: Program, node: int, cause: str, table: str | None = None) -> str:
    """The place in a text of a fault that the system of a node has reported, of 0 of none."""
    if node == 0:
        return ""
    system = program.nodes[node - 1].system
    if cause in BUILTIN_FAULTS and cause != "stale_entity":
        return system.place
    return fault_place(program.sources, system, cause, table, [archetype.name for archetype in program.dynamic])
