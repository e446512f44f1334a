"""Where workspace is on a CUDA device: on chip (in shared memory) where it is small enough, else in rows, one a world.

``place`` decides when a unit is written, from what is declared. Whether a device has that much on chip is decided when
a kernel is launched, by ``Context.chip_bytes``: where it has not, all is in rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ..base.shared import BLOCK_THREADS, CHIP_OF_WARP, LANES
from ..declare.columns import Column
from .nodes import Node
from .program import Program

VARIABLE_BYTES = 48 * 1024
"""``__shared__`` variables of a kernel at most, which CUDA allows; they are on chip too."""

BLOCK_BYTES = 227 * 1024
"""What a block may have on chip on a device of compute capability 9.0, and on an emulated one."""


@dataclass(frozen=True)
class Place:
    """Where the workspace of a node is on chip: ``offsets`` by column, in ``bytes`` of each group of lanes."""

    offsets: dict[Column, int]
    bytes: int


def place(node: Node) -> Place:
    """The workspace of a node that is on chip: of a group of lanes, in order, what has room. The rest is in rows."""
    offsets, end = {}, 0
    if node.lanes > 1:
        most = CHIP_OF_WARP * (node.lanes // LANES["Warp"])
        for column in node.workspaces:
            size = -(-column.component.size // 16) * 16
            if end + size <= most:
                offsets[column], end = end, end + size
    return Place(offsets, end)


def in_rows(program: Program, executor: str, chip_bytes: int) -> set[Column]:
    """The workspace that a row for each world is needed for, where a block may have ``chip_bytes`` of it on chip."""
    needed: set[Column] = set()
    for node in program.nodes:
        own = place(node)
        groups = BLOCK_THREADS // node.lanes if node.lanes > 1 else 1
        fits = executor != "per_world" and groups * own.bytes <= chip_bytes
        needed.update(column for column in node.workspaces if not fits or column not in own.offsets)
    return needed


def blocks_that_fit(nodes: Iterable[Node]) -> int:
    """How many blocks of a kernel of these nodes have room for their workspace on a multiprocessor; at least 1."""
    most = max((BLOCK_THREADS // node.lanes * place(node).bytes for node in nodes if node.lanes > 1), default=0)
    return max(1, BLOCK_BYTES // most) if most else BLOCK_THREADS


def chip_bytes_of(device: torch.device) -> int:
    """Workspace that a block may have on chip."""
    if device.type == "cpu":
        return BLOCK_BYTES - VARIABLE_BYTES
    properties = torch.cuda.get_device_properties(device)
    return max(0, getattr(properties, "shared_memory_per_block_optin", 0) - VARIABLE_BYTES)
