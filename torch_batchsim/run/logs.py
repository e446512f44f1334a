"""The lines that systems note by ``world.log``, in an order that does not depend on threads or executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch

from ..base.numbers import NUMBERS
from ..base.shared import LOG_RECORD, LogKind
from ..declare.columns import numpy_dtype
from ..memory.memory import Memory
from ..resolve.nodes import GRAPHS
from ..resolve.program import Program
from .inside import system_runs


@dataclass(frozen=True)
class LogLine:
    """A line that a system noted by ``world.log(label, value)``.

    Attributes:
        world, row: as in tensors; the row is that among the world's.
        step: of the episode, 0 in ``start``.
        episode: the number of episodes before it.
        repetition: what ``world.repetition()`` was.
        value: a number or bool with its type, of a vector a tuple.
    """

    world: int
    system: str
    row: int
    step: int
    episode: int
    repetition: int
    label: str
    value: Any

    def __str__(self) -> str:
        again = f", repetition {self.repetition}" if self.repetition else ""
        value = f"({', '.join(map(str, self.value))})" if isinstance(self.value, tuple) else str(self.value)
        return f"world {self.world}, step {self.step}, {self.system}[{self.row}]{again}: {self.label} {value}"


class Logs(Sequence[LogLine]):
    """Lines world after world, each world's as systems of a step follow each other, then rows; ``print`` shows them.

    ``dropped``: by world, the number of lines for which memory was too small; only worlds with such lines.
    """

    def __init__(self, lines: Sequence[LogLine], dropped: dict[int, int], room: int) -> None:
        self._lines, self.dropped, self._room = list(lines), dropped, room

    def __getitem__(self, place: Any) -> Any:
        return self._lines[place]

    def __len__(self) -> int:
        return len(self._lines)

    def __str__(self) -> str:
        lines = [str(line) for line in self._lines]
        for world, number in self.dropped.items():
            lines.append(
                f"world {world}: {number} more line{'s' * (number > 1)} dropped: there is room for {self._room} "
                f"between two calls of logs(); log={2 * self._room} has more"
            )
        return "\n".join(lines)

    __repr__ = __str__


def read(program: Program, memory: Memory, worlds: torch.Tensor) -> Logs:
    """The lines of the worlds of a bool mask since they were cleared."""
    counts = memory.others["log_counts"].cpu().numpy()
    records = memory.others["log_records"].cpu().numpy().view(LOG_RECORD).reshape(memory.num_worlds, program.log)
    order = _order(program)
    lines: list[LogLine] = []
    dropped = {}
    for world in worlds.nonzero().flatten().tolist():
        count = int(counts[world].view(np.uint32))
        if count > program.log:
            dropped[world] = count - program.log
        # Steps follow each other as they were; within one, threads of a device may have come in any order.
        arrived = records[world, : min(count, program.log)]
        for _, of_step in groupby(arrived, key=lambda record: (record["episode"], record["step"])):
            seen = set()
            for record in sorted(of_step, key=lambda record: _key(order, record)):
                node = program.nodes[record["node"] - 1]
                line = LogLine(
                    world,
                    node.system.name,
                    *(int(record[name]) for name in ("row", "step", "episode", "repetition")),
                    bytes(record["label"]).decode(errors="replace"),
                    _value(record),
                )
                # On a device all lanes of a group note what is outside of its operations; on CPU there is one.
                once = (*_key(order, record), line.label, bytes(record["values"]))
                if node.lanes == 1 or once not in seen:
                    lines.append(line)
                seen.add(once)
    return Logs(lines, dropped, program.log)


def first_lines(program: Program, memory: Memory, most: int) -> str:
    """At most ``most`` lines of those noted since the last call, from the worlds of lowest number, which forgets all.

    Says in how many worlds more was noted. Empty where nothing was.
    """
    counts = memory.others["log_counts"].cpu().numpy().view(np.uint32)
    worlds = counts.nonzero()[0]
    if len(worlds) == 0:
        return ""
    kept = np.minimum(counts[worlds], program.log).astype(np.int64).cumsum()
    chosen = torch.zeros(memory.num_worlds, dtype=torch.bool)
    chosen[torch.from_numpy(worlds[: int(np.searchsorted(kept, most)) + 1])] = True
    noted = read(program, memory, chosen)
    lines = [f"  {line}" for line in noted[:most]]
    if len(worlds) > int(chosen.sum()) or len(noted) > most or noted.dropped:
        lines.append(f"  (more was noted, in {len(worlds)} world{'s' * (len(worlds) > 1)} in all)")
    clear(memory, torch.ones_like(chosen).to(memory.device))
    return "\n".join(lines)


def clear(memory: Memory, worlds: torch.Tensor) -> None:
    """Forget the lines of the worlds of a bool mask."""
    memory.others["log_counts"][worlds] = 0


def _order(program: Program) -> dict[tuple[int, int], int]:
    """The place of each run of a node, ``(node, repetition)``, among all of a step."""
    runs = [run for graph in GRAPHS for run in system_runs(program, graph)]
    nodes = [(node.word_number, run.repetition) for run in runs for node in run.of]
    return {node: place for place, node in enumerate(nodes)}


def _key(order: dict[tuple[int, int], int], record: np.void) -> tuple[int, int, int]:
    return order[int(record["node"]), int(record["repetition"])], int(record["row"]), int(record["sequence"])


def _value(record: np.void) -> Any:
    kind, count = LogKind(int(record["kind"])), int(record["count"])
    values = np.frombuffer(record["values"][:count].tobytes(), np.uint64)
    dtype = numpy_dtype(NUMBERS[kind.name].dtype)
    parts = [np.frombuffer(value.tobytes()[: dtype.itemsize], dtype)[0] for value in values]
    return tuple(parts) if count > 1 else parts[0]
