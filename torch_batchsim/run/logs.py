"""What systems have noted by ``world.log``, in an order that does not depend on threads or executors."""

from __future__ import annotations

import os
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
from ..resolve.program import GRAPHS, Program
from .inside import system_runs

VARIABLE = "TBS_LOG"
_DEFAULT = 64  # lines a world
_MOST = 1 << 20
_ON, _OFF = ("true", "on", "yes"), ("", "false", "off", "no")


def checked_log(log: Any) -> int:
    """Lines that are kept of a world: what ``log`` of a simulator means; 0 for a build without logs.

    ``None`` asks the environment variable ``TBS_LOG``: 1 or 0, or a number of lines. Raises TypeError or ValueError.
    """
    if log is None:
        text = os.environ.get(VARIABLE, "").strip().lower()
        if text in _OFF or text in _ON:
            return _DEFAULT if text in _ON else 0
        if not text.isdigit() or int(text) > _MOST:
            raise ValueError(f"{VARIABLE}={text}: write {VARIABLE}=1, {VARIABLE}=0, or the lines to keep of each world")
        return _DEFAULT if text == "1" else int(text)
    if isinstance(log, bool):
        return _DEFAULT if log else 0
    if not isinstance(log, (int, np.integer)):
        raise TypeError(f"log must be True, False or the lines to keep of each world, got {log!r}")
    if not 1 <= log <= _MOST:
        raise ValueError(f"log must be from 1 to {_MOST} lines of each world, got {log}")
    return int(log)


@dataclass(frozen=True)
class LogLine:
    """What a system noted by ``world.log(label, value)``.

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

    ``dropped``: for each world of which more was noted than there was room for, how many lines are missing.
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
    """What the worlds of a bool mask have noted since they were cleared."""
    counts = memory.others["log_counts"].cpu().numpy()
    records = memory.others["log_records"].cpu().numpy().view(LOG_RECORD).reshape(memory.num_worlds, program.log)
    nodes = [node for graph in GRAPHS for node in program.graphs[graph]]
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
                node = nodes[record["node"] - 1]
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
    """Forget what the worlds of a bool mask have noted."""
    memory.others["log_counts"][worlds] = 0


def _order(program: Program) -> dict[tuple[int, int], int]:
    """The place of each run of a node, ``(node, repetition)``, among all of a step."""
    runs = [run for graph in GRAPHS for run in system_runs(program, graph)]
    nodes = [(node.index + 1, run.repetition) for run in runs for node in run.of]
    return {node: place for place, node in enumerate(nodes)}


def _key(order: dict[tuple[int, int], int], record: np.void) -> tuple[int, int, int]:
    return order[int(record["node"]), int(record["repetition"])], int(record["row"]), int(record["sequence"])


def _value(record: np.void) -> Any:
    kind, count = LogKind(int(record["kind"])), int(record["count"])
    values = np.frombuffer(record["values"][:count].tobytes(), np.uint64)
    dtype = numpy_dtype(NUMBERS[kind.name].dtype)
    parts = [np.frombuffer(value.tobytes()[: dtype.itemsize], dtype)[0] for value in values]
    return tuple(parts) if count > 1 else parts[0]
