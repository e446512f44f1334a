"""Checks that a checked build runs on the host: of actions before a step, of masks and observations after it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ..base.shared import CHECK_FAULT, CHECK_RECORD, CODE_BITS, ROW_BITS, VALUE_BITS, Found
from ..declare.columns import Column
from ..declare.roles import choices
from ..declare.spaces import bounds
from ..memory.memory import Memory
from ..memory.outputs import OutputSet
from ..resolve.nodes import Node
from ..resolve.program import Program

FINAL = 1 << 40  # in a record of bounds: added to the element where an episode's last observation has it


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
    found = False
    for part, row in without_choice(program, memory, _masks(program, memory, to), _active(program, memory, to), worlds):
        world, own = divmod(row, column.rows_per_world)
        note_fault(memory, _writer(program, column), Found.no_choice, world, own, part, column.number)
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


def _masks(program: Program, memory: Memory, places: OutputSet) -> torch.Tensor:
    """Bool ``[rows, choices]``."""
    return memory.rows_of(f"output.{program.info['action_mask'].name}", places).flatten(1)


def _active(program: Program, memory: Memory, places: OutputSet, of: str = "output") -> torch.Tensor | None:
    """Bool ``[rows]``."""
    return None if program.active is None else memory.rows_of(f"{of}.{program.active.name}", places)


def _writer(program: Program, column: Column) -> Node:
    """The last node that writes a column; of one that none writes, the last node of a step."""
    nodes = [node for graph in ("step", "start", "observe") for node in program.graphs[graph]]
    return [*nodes, *(node for node in nodes if column.name in node.writes)][-1]


# ---- actions against masks -------------------------------------------------------------------------------------------


def must_allow_actions(program: Program, memory: Memory) -> bool:
    """Whether actions that the mask forbids are mistakes that are looked for."""
    checks = program.checks
    looks = checks is not None and checks.bounds and not memory.cuda
    return looks and "action_mask" in program.info and not program.environment.judges_illegal_actions


def forbidden(program: Program, memory: Memory, actions: torch.Tensor) -> tuple[int, list[int]] | None:
    """The first element of ``actions`` that its mask forbids, and the choices that are allowed there.

    Rows whose actions nothing reads, parts without any legal choice, and values outside of the action space do not
    count.

    Args:
        actions: integers ``[rows]`` or ``[rows, ...]``.
    """
    places, space = memory.outputs.present, program.action_space
    acts = (memory.columns["ended"] == 0).repeat_interleave(program.agents.count)
    active = _active(program, memory, places)
    if active is not None:
        acts &= active
    counts = choices(space).reshape(-1)
    starts = np.broadcast_to(np.asarray(space.start).reshape(-1), counts.shape).tolist()
    given = actions.reshape(len(actions), -1).to(torch.int64)
    wrong = []
    for part, allowed in enumerate(_masks(program, memory, places).split(counts.tolist(), dim=1)):
        chosen = given[:, part] - starts[part]
        inside = (chosen >= 0) & (chosen < allowed.shape[1])
        takes = allowed.gather(1, chosen.clamp(0, allowed.shape[1] - 1)[:, None]).squeeze(1)
        rows = (acts & inside & ~takes & allowed.any(1)).nonzero()
        if len(rows):
            row = int(rows[0])
            wrong.append((row * given.shape[1] + part, (allowed[row].nonzero().flatten() + starts[part]).tolist()))
    return min(wrong, default=None)


# ---- observations out of their space ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bounds:
    """A column of the observation whose space is narrower than its dtype; ``low`` and ``high`` ``[numbers]``."""

    column: Column
    low: torch.Tensor
    high: torch.Tensor


class ObservationBounds:
    """Looks for observations of active rows that are not in ``observation_space``. NaN is not looked for."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program, self.memory = program, memory
        looks = program.checks is not None and program.checks.bounds and not memory.cuda
        self._bounds = list(_bounds(program)) if looks else []

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._bounds)

    def note(self, to: OutputSet, worlds: torch.Tensor | None, *, is_step: bool) -> bool:
        """Note faults in the outputs of a call; returns whether it has found any.

        Args:
            worlds: bool ``[worlds]``, to look at; None for all.
            is_step: the call has written last observations of episodes, too, if it keeps them.
        """
        rows = None if worlds is None else worlds.repeat_interleave(self.program.agents.count)
        found = self._look("output", to, rows)
        if is_step and any(name.startswith("final_") for name in to.tensors):
            found |= self._look("final", to, self.memory.rows_of("Agents.done", to))
        return found

    def _look(self, of: str, to: OutputSet, rows: torch.Tensor | None) -> bool:
        """``of``: ``"output"`` or ``"final"``."""
        memory, found = self.memory, False
        active = _active(self.program, memory, to, of)
        for bound in self._bounds:
            column = bound.column
            values = _comparable(memory.rows_of(f"{of}.{column.name}", to))
            values = values.reshape(len(values), -1)
            wrong = (values < bound.low) | (values > bound.high)
            for which in (rows, active):
                if which is not None:
                    wrong &= which[:, None]
            for row in wrong.any(1).nonzero().flatten().tolist():
                element = int(wrong[row].int().argmax())
                world, own = divmod(row, column.rows_per_world)
                (value,) = struct.unpack("<q", struct.pack("<d", float(values[row, element])))
                other = element + (FINAL if of == "final" else 0)
                note_fault(memory, _writer(self.program, column), Found.bounds, world, own, value, column.number, other)
                found = True
        return found


def _bounds(program: Program) -> Iterator[_Bounds]:
    for key, column in program.observations.items():
        space = program.observation_space[key] if key else program.observation_space
        shape = column.value_shape
        low, high = (
            _comparable(torch.from_numpy(np.broadcast_to(end, shape).reshape(-1).copy())) for end in bounds(space)
        )
        dtype = column.dtype
        if dtype is torch.bool:
            continue
        widest = (-np.inf, np.inf) if dtype.is_floating_point else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        if bool((low > widest[0]).any() or (high < widest[1]).any()):
            yield _Bounds(column, low, high)


def _comparable(values: torch.Tensor) -> torch.Tensor:
    """In a dtype that torch compares: it lacks unsigned ones."""
    if values.dtype is torch.bool or values.dtype.is_floating_point:
        return values
    return values.to(torch.float64 if values.dtype is torch.uint64 else torch.int64)
