"""The values of a world's tables as a page shows them, and what it writes to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..declare.columns import Column
from ..declare.fields import Field
from ..physics.hulls import LAYOUT
from ..physics.poses import rotated
from ..physics.shapes import ShapeKind
from ..resolve.program import Program
from ..run.simulator import Simulator
from ..run.world_state import WorldStates
from .messages import Refused

SINGLETONS = "one per world"
_POSE = ".physics.Pose"
_MOST_ROWS, _MOST_ELEMENTS = 64, 16
_HALVES: dict[int, Callable[..., tuple[float, float, float]]] = {  # half extents, by kind, of a size
    ShapeKind.BOX: lambda x, y, z: (x, y, z),
    ShapeKind.SPHERE: lambda radius, *_: (radius, radius, radius),
    ShapeKind.CAPSULE: lambda radius, half, *_: (radius, radius, half + radius),
}


def tables(program: Program) -> dict[str, list[tuple[str, Column, Field]]]:
    """By table: names of fields, with their column; singletons together. Scratch and resources are left out."""
    found: dict[str, list[tuple[str, Column, Field]]] = {}
    for column in program.columns.values():
        if not column.scratch and not column.resource:
            own = found.setdefault(SINGLETONS if column.singleton else column.table, [])
            own += [(f"{column.name}.{field.name}", column, field) for field in column.component.fields]
    return found


def followed(program: Program) -> dict[str, int]:
    """Tables whose rows have a place in space, and how many rows of them a page may follow."""
    return {
        column.table: min(column.rows_per_world, _MOST_ROWS)
        for column in program.columns.values()
        if column.name == f"{column.table}{_POSE}"
    }


def place(states: WorldStates, index: int, table: str, row: int) -> list[float] | None:
    """Where a row is; None where there is no such row, or it is nowhere."""
    positions = states.part(f"{table}{_POSE}.position", index)
    if row >= len(positions) or not np.isfinite(positions[row]).all():
        return None
    return [round(float(part), 4) for part in positions[row]]


def hit(sim: Simulator, world: int, eye: list[float], way: list[float]) -> tuple[str, int] | None:
    """The row whose body a ray meets first; of a hull, of the box around it."""
    states, found = WorldStates(sim, (world,)), list[tuple[float, str, int]]()
    for table in followed(sim.program):
        if f"{table}.physics.Shape" not in sim.program.columns:
            continue
        names = ("Shape.kind", "Shape.size", "Shape.hull", "Pose.position", "Pose.rotation")
        columns = (states.part(f"{table}.physics.{name}", 0) for name in names)
        for row, (kind, size, hull, position, rotation) in enumerate(zip(*columns, strict=True)):
            if kind == ShapeKind.HULL:
                low, high = (size * end for end in _box_of(sim, int(hull)))
            elif kind in _HALVES:
                high = np.array(_HALVES[kind](*size.tolist()))
                low = -high
            else:
                continue
            away = rotation * (1, -1, -1, -1)
            start, along = rotated(away, np.array(eye) - position), rotated(away, way)
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.sort([(low - start) / along, (high - start) / along], axis=0)
            first, last = ends[0].max(), ends[1].min()
            if 0 < first <= last:
                found.append((float(first), table, row))
    return min(found)[1:] if found else None


def _box_of(sim: Simulator, hull: int) -> tuple[np.ndarray, np.ndarray]:
    record = sim.tensor("physics.Hulls.hull").numpy().view(LAYOUT).reshape(-1)[hull]
    points = np.stack([record[axis][: record["vertices"]] for axis in "xyz"])
    return points.min(axis=1), points.max(axis=1)


def values(states: WorldStates, index: int, fields: list[tuple[str, Column, Field]]) -> dict[str, Any]:
    """Of a world: the names of fields, their types, and for each row the texts of each field's elements.

    A page shows 64 rows, and 16 elements of a field.
    """
    columns = []
    for name, column, _ in fields:
        part = states.part(name, index)
        rows = part.reshape(1 if column.singleton else len(part), -1)
        columns.append(([[_written(v) for v in row[:_MOST_ELEMENTS].tolist()] for row in rows[:_MOST_ROWS]], len(rows)))
    count = columns[0][1] if columns else 0
    shown = [[column[row] for column, _ in columns] for row in range(min(count, _MOST_ROWS))]
    kinds = [str(field.type) for _, _, field in fields]
    return {"names": [name for name, _, _ in fields], "types": kinds, "rows": shown, "count": count}


def write(sim: Simulator, world: int, name: str, row: int, element: int, value: bool | int | float) -> None:
    """Write a number into a world's state. Raises Refused, with nothing changed, for one that does not fit."""
    try:
        column, field = sim.program.find(name, "state")
    except (KeyError, TypeError, AttributeError):
        raise Refused(f"there is no field {name}") from None
    if field is None or column.resource or column.scratch:
        raise Refused(f"{name} is no field of a world's state")
    first, count = 0, 1 if column.singleton else column.rows_per_world
    if column.dynamic:
        table = sim.memory.columns
        first, count = (int(table[f"table_{column.table}_{part}"][world]) for part in ("first", "count"))
    shape = field.type.tensor_shape
    if row >= count:
        raise Refused(f"{name} has {count} rows in world {world}, got row {row}")
    if element >= math.prod(shape):
        raise Refused(f"{name} has {math.prod(shape)} numbers a row, got number {element}")
    place = np.unravel_index(element, shape) if shape else ()
    fitting = _fitting(name, field, tuple(int(each) for each in place), value)
    rows = (first + row,) if column.dynamic else (world,) if column.singleton else (world, row)
    sim.memory.tensor(name)[(*rows, *(int(each) for each in place))] = fitting


def _fitting(name: str, field: Field, place: tuple[int, ...], value: bool | int | float) -> bool | int | float:
    """The value as the field's type has it. Raises Refused."""
    kind = np.dtype(str(field.type.dtype).removeprefix("torch."))
    if kind.kind == "b":
        if value not in (0, 1):
            raise Refused(f"{name} must be true or false, got {value}")
        return bool(value)
    if kind.kind == "f":
        least, most = float(np.finfo(kind).min), float(np.finfo(kind).max)
    else:
        least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        if value != int(value):
            raise Refused(f"{name} must be an integer, got {value}")
        value = int(value)
    if field.low is not None and field.high is not None:
        least, most = max(least, field.low[place].item()), min(most, field.high[place].item())
    if not least <= value <= most:
        raise Refused(f"{name} must be from {least:g} to {most:g}, got {value:g}")
    return value


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower()
