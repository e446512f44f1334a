"""What one world holds, as NumPy arrays by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..base.names import suggestion
from ..run.simulator import Simulator


class DrawnWorld(dict[str, np.ndarray]):
    """What ``Environment.render`` gets of a world: arrays by the names of fields. For another the nearest is told."""

    def __missing__(self, name: object) -> np.ndarray:
        near = suggestion(name, self) if isinstance(name, str) else ""
        raise KeyError(f"a world has no {name!r} for render(){near}; it has {', '.join(self)}")


class WorldState(Mapping[str, np.ndarray]):
    """The state of one world: names as in ``Simulator.tensor`` to copies ``[rows, ...]``, of a singleton ``[...]``.

    Iteration gives the names of all fields, as ``Environment.render`` gets them; ``"Cart.CartState"``, all fields of a
    component of one type, is ``[rows, fields]``.
    """

    def __init__(self, sim: Simulator, world: int) -> None:
        self._sim, self._world = sim, world
        columns = sim.program.columns.values()
        self._apart = {column.name: column for column in columns if column.dynamic or column.resource}
        self._names = [f"{column.name}.{part.name}" for column in columns for part in column.component.fields]

    def __getitem__(self, name: str) -> np.ndarray:
        parts = name.split(".") if isinstance(name, str) else []
        starts = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        column = next((self._apart[start] for start in starts if start in self._apart), None)
        if column is not None and column.dynamic:
            rows = self._sim.ragged(name).world(self._world)
        else:
            rows = self._sim.tensor(name) if column is not None else self._sim.tensor(name)[self._world]
        return rows.detach().cpu().numpy().copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
