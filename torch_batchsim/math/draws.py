"""The random numbers that systems draw, outside of them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..base.shared import random_key
from ..memory.inputs import checked_seed
from .array_calls import library, run, taken

_STREAM = np.dtype(
    [("seed", "u8"), ("node", "u4"), ("row", "u4"), ("stream", "u4"), ("episode", "u4"), ("step", "u4"), ("", "u4")]
)
_ITEM = 0xD1B54A32D192ED03  # between the seeds of items: csrc/tbs/world.h


class Random:
    """The random numbers that a system draws, of one world or of many at a time.

    ``Random(seed, "step", "fall", table="Game", world=np.arange(8), episode=0, step=3)`` has the streams of the first
    row of worlds 0 to 7 in the third step, as ``world.random()`` of system ``fall`` has them. Every method draws once
    for each stream, as the method of that name does in a system, and gives an array of the streams' shape.

    Args:
        seed: what ``reset(seed=)`` was given.
        graph: ``"start"``, ``"step"`` or ``"observe"``.
        system: its name, without that of its library.
        table: the archetype over whose rows it runs; ``""`` for a system that runs once per world.
        world: its number, which is the row in tensors plus ``first_world``; an integer or an array, as are the next.
        episode: how many the world has begun before since it was seeded.
        step: 0 in ``start``, 1 in the first step.
        row: of the table within the world.
        repetition: how often the system has run before within its ``Repeat`` in this step.
        item: of ``world.random(item)``; None for ``world.random()``.
        occurrence: how often the system stands before in the graph's text.
    """

    def __init__(
        self,
        seed: int,
        graph: str,
        system: str,
        table: str = "",
        *,
        world: int | np.ndarray = 0,
        episode: int | np.ndarray = 0,
        step: int | np.ndarray = 0,
        row: int | np.ndarray = 0,
        repetition: int | np.ndarray = 0,
        item: int | np.ndarray | None = None,
        occurrence: int = 0,
    ) -> None:
        checked_seed(seed)
        if graph not in ("start", "step", "observe"):
            raise ValueError(f"graph is 'start', 'step' or 'observe', got {graph!r}")
        key = np.uint64(random_key(graph, system, table, occurrence))
        given = {"world": world, "episode": episode, "step": step, "row": row, "repetition": repetition}
        given["item"] = 0 if item is None else item
        counts = [_count(name, value) for name, value in given.items()]
        stream, episodes, steps, rows, repetitions, items = np.broadcast_arrays(*counts)
        names = np.zeros(stream.shape, _STREAM)
        names["seed"] = np.uint64(seed)
        if item is not None:
            names["seed"] += (items + np.uint64(1)) * np.uint64(_ITEM)
        names["node"] = (key + repetitions * np.uint64(0x9E3779B9)) & np.uint64(0xFFFFFFFF)
        names["row"], names["stream"], names["episode"], names["step"] = rows, stream, episodes, steps
        self.shape = stream.shape
        size = ctypes.c_int64(library().random_size()).value
        self._streams = np.zeros((names.size, size // 4), np.uint32)
        run("random_begin", names.size, self._streams, names)

    def _draw(self, symbol: str, dtype: Any, *arguments: tuple[Any, Any], width: int = 0) -> np.ndarray:
        out = np.empty((*self.shape, width) if width else self.shape, dtype)
        arrays = []
        for value, kind in arguments:
            array = taken(symbol, value, np.dtype(kind)) if kind == np.float32 else _integers(symbol, value, kind)
            arrays.append(np.ascontiguousarray(np.broadcast_to(array, self.shape)))
        run(f"random_{symbol}", len(self._streams), out, self._streams, *arrays)
        return out[()]

    def bits(self) -> Any:
        """32 random bits, uint32."""
        return self._draw("bits", np.uint32)

    def uniform(self, low: float | np.ndarray | None = None, high: float | np.ndarray | None = None) -> Any:
        """Uniform in [0, 1), or in [low, high)."""
        if low is None and high is None:
            return self._draw("uniform", np.float32)
        if low is None or high is None:
            raise TypeError("uniform takes no argument, or both low and high")
        return self._draw("uniform_between", np.float32, (low, np.float32), (high, np.float32))

    def below(self, n: int | np.ndarray) -> Any:
        """Uniform in 0 .. n - 1, uint32."""
        return self._draw("below", np.uint32, (n, np.uint32))

    def integer(self, low: int | np.ndarray, high: int | np.ndarray) -> Any:
        """Uniform in low .. high, both included, int32."""
        return self._draw("integer", np.int32, (low, np.int32), (high, np.int32))

    def chance(self, p: float | np.ndarray) -> Any:
        """True with probability p."""
        return self._draw("chance", np.bool_, (p, np.float32))

    def normal(self) -> Any:
        """A standard normal."""
        return self._draw("normal", np.float32)

    def normal_pair(self) -> tuple[Any, Any]:
        """Two independent standard normals."""
        both = self._draw("normal_pair", np.float32, width=2)
        return both[..., 0][()], both[..., 1][()]

    def shuffle(self, items: np.ndarray) -> np.ndarray:
        """A copy of ``items`` (an array whose first axes are the streams', the next one the items) in random order."""
        items = np.asarray(items)
        axis = len(self.shape)
        if items.ndim <= axis or items.shape[:axis] != self.shape:
            wanted = ", ".join([*map(str, self.shape), "items", "..."])
            raise ValueError(f"shuffle takes an array [{wanted}], got {list(items.shape)}")
        count = items.shape[axis]
        places = np.empty((len(self._streams), count), np.int64)
        places[:] = np.arange(count)
        run("random_shuffle", len(places), places, self._streams, first=[ctypes.c_int64(count)])
        order = places.reshape(*self.shape, count, *[1] * (items.ndim - axis - 1))
        return np.take_along_axis(items, order, axis)


def _count(name: str, value: Any) -> np.ndarray:
    """Numbers of worlds, rows, ...: u64 of which 32 bits count."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() >= 2**32)):
        raise ValueError(f"{name} is an integer from 0 to 2**32 - 1, or an array of them, got {value!r}")
    return array.astype(np.uint64)


def _integers(function: str, value: Any, dtype: Any) -> np.ndarray:
    array, limits = np.asarray(value), np.iinfo(dtype)
    if array.dtype.kind not in "iu" or (array.size and (array.min() < limits.min or array.max() > limits.max)):
        raise ValueError(f"{function} takes integers that fit {np.dtype(dtype)}, got {value!r}")
    return array.astype(dtype)
