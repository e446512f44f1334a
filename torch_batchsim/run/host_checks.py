"""The check that a checked build runs on the host, after each call: rows without a legal action."""

from __future__ import annotations

import numpy as np
import torch

from ..base.shared import CHECK_FAULT, CHECK_RECORD, CODE_BITS, ROW_BITS, VALUE_BITS, Found
from ..declare.roles import choices
from ..memory.memory import Memory
from ..memory.outputs import OutputSet
from ..resolve.nodes import Node
from ..resolve.program import Program


def note_fault(
    memory: Memory, node: Node, found: Found, world: int, row: int, value: int = 0, bound: int = 0, other: int = 0
) -> None:
    """Make it a fault of a world, unless it has one that comes before it: ``CHECK_RECORD`` has the three numbers."""
    words = memory.columns["fault"].numpy().view(np.uint64)
    word = node.word_number
    for bits, part in ((ROW_BITS, row), (CODE_BITS, CHECK_FAULT), (VALUE_BITS, int(found))):
        word = word << bits | part
    if word >= int(words[world]):
        return
    words[world] = word
    records = memory.others["check_records"].numpy().view(CHECK_RECORD)
    records[world] = np.zeros((), CHECK_RECORD)
    records["value"][world], records["bound"][world], records["other"][world] = value, bound, other
    records["step"][world] = int(memory.columns["step"][world])
    memory.fault_flag[0] = 1


def note_masks(program: Program, memory: Memory, to: OutputSet, worlds: torch.Tensor | None = None) -> bool:
    """Note rows that act but have no legal action, in the outputs of a call; returns whether it has found any.

    A world whose episode has ended, and a row that is not active, may have any mask.

    Args:
        worlds: bool ``[worlds]``, the worlds of the call; None for all.
    """
    column = program.info.get("action_mask")
    if column is None:
        return False
    rows = memory.num_worlds * column.rows_per_world
    written = {**memory.columns, **to.tensors}
    masks = written[f"column_{column.c_name}"].view(torch.bool).view(rows, -1)
    active = None
    if program.active is not None:
        active = written[f"column_{program.active.c_name}"].view(torch.bool).view(rows)
    found = False
    nodes = (node for graph in ("step", "start", "observe") for node in program.graphs[graph])
    writers = [node for node in nodes if column.name in node.writes]
    for part, row in without_choice(program, memory, masks, active, worlds):
        world, own = divmod(row, column.rows_per_world)
        note_fault(memory, writers[-1], Found.no_choice, world, own, part, column.number)
        found = True
    return found


def without_choice(
    program: Program,
    memory: Memory,
    masks: torch.Tensor,
    active: torch.Tensor | None,
    worlds: torch.Tensor | None = None,
) -> list[tuple[int, int]]:
    """Parts of an action in which a row that acts has nothing legal, as pairs of part and row.

    A world whose episode has ended, and a row that is not active, may have any mask.

    Args:
        masks: bool ``[rows, choices]``.
        active: bool ``[rows]``; None for all.
        worlds: bool ``[worlds]``, to look at; None for all.
    """
    agents = program.agents.count
    acts = (memory.columns["ended"] == 0).repeat_interleave(agents)
    if active is not None:
        acts &= active
    if worlds is not None:
        acts &= worlds.repeat_interleave(agents)
    parts = masks.split(choices(program.action_space).reshape(-1).tolist(), dim=1)
    bad = [(part, (acts & ~some.any(1)).nonzero().flatten().tolist()) for part, some in enumerate(parts)]
    return [(part, row) for part, rows in bad for row in rows]
