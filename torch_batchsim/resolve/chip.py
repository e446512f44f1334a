"""The place of workspace on a CUDA device: on chip (shared memory) if small enough, else in a row for each world.

``place`` decides from the declaration when a unit is written. ``Context.chip_bytes`` decides when a kernel is launched:
if the device has less on chip, all workspace is in rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ..base.shared import (
    BLOCK_THREADS,
    CHIP_OF_BLOCK,
    CHIP_OF_MULTIPROCESSOR,
    CHIP_OF_WARP,
    LANES,
    MAX_TILE,
    VARIABLE_BYTES,
)
from ..declare.columns import Column
from .nodes import Node
from .program import Program


@dataclass(frozen=True)
class Place:
    """Workspace of a node on chip: ``offsets`` by column, within the ``bytes`` of each group of lanes."""

    offsets: dict[Column, int]
    bytes: int


def place(node: Node) -> Place:
    """The columns of workspace that fit on chip, in order, for one group of lanes. The rest is in rows."""
    offsets, end = {}, 0
    if node.lanes > 1:
        most = CHIP_OF_WARP * (node.lanes // LANES["Warp"])
        for column in (column for column in node.workspaces if not column.lasting):
            size = -(-column.component.size // 16) * 16
            if end + size <= most:
                offsets[column], end = end, end + size
    return Place(offsets, end)


def in_rows(program: Program, executor: str, chip_bytes: int) -> set[Column]:
    """The workspace that needs a row for each world if a block may use ``chip_bytes`` on chip."""
    needed: set[Column] = set()
    for node in program.nodes:
        own = place(node)
        groups = BLOCK_THREADS // node.lanes if node.lanes > 1 else 1
        fits = executor != "per_world" and groups * own.bytes <= chip_bytes
        needed.update(column for column in node.workspaces if not fits or column not in own.offsets)
    return needed


def blocks_that_fit(nodes: Iterable[Node]) -> int:
    """The number of blocks whose workspace fits on a multiprocessor, for a kernel of these nodes; at least 1."""
    most = max((BLOCK_THREADS // node.lanes * place(node).bytes for node in nodes if node.lanes > 1), default=0)
    beside = 1024 + 4 * (MAX_TILE["cuda"] + 2)  # what a block takes for itself, and the list of its tile's worlds
    return max(1, CHIP_OF_MULTIPROCESSOR // (most + beside)) if most else BLOCK_THREADS


def chip_bytes_of(device: torch.device) -> int:
    """Bytes of workspace that a block may use on chip."""
    if device.type == "cpu":
        return CHIP_OF_BLOCK
    allowed = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return min(CHIP_OF_BLOCK, max(0, allowed - VARIABLE_BYTES))
