"""Times of tasks by thread or multiprocessor: a table, a picture, and a file for Perfetto."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..base.extras import needed
from ..base.shared import TRACE_RECORD as RECORD
from ..base.text import table

_CHUNK = 1 << 16  # records that are made into text at a time
_SLOPES = (0.2, 10.0)  # nanoseconds per tick of an SM's clock that can be true: 5 GHz to 100 MHz

# The picture, in pixels.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _LINE = 1400, 1200, 70, 290, 64, 56, 17
_BARS, _BARS_BOTTOM, _FEWEST_BARS, _MOST_BARS = 150, 48, 16, 350  # places for bars, one a step
_SHOWN, _SHOWN_ENGINE = 14, 5  # names that have a colour of their own
_SYSTEMS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#17becf", "#e377c2", "#bcbd22", "#8c564b"),
    *("#7fb8e6", "#ffc07a", "#8fdc86", "#ff9d9a", "#c9b1e4"),
)
_ENGINE = ("#8a94a3", "#bab3a7", "#5d6673", "#a9bdb2", "#7d766b")
_OTHER, _IDLE, _GAP = "#101010", "#ffffff", "#ececec"


@dataclass(frozen=True)
class TaskInfo:
    """The meaning of a record's ``task``."""

    name: str  # of the system, or of the engine's own work
    phase: str  # which worlds it ran for: "all", "live", "begin" or "rest"
    engine: bool  # the engine's own work, and no system


def _nothing_to_restart() -> None:
    raise RuntimeError("restart() is for the with-block of tracing(): this trace is not being written")


class Trace:
    """The records of some steps on one time axis. ``str`` gives a table, ``draw`` a picture, ``save`` a file to zoom.

    A unit is a thread on CPU and a streaming multiprocessor (SM) on CUDA. An SM is at work on several blocks at once;
    sums of time count each of them.

    Attributes:
        records: a copy of the records, ``RECORD [records]``, in the order in which they came.
        begin, end: float64 ``[records]``, microseconds since the first record began.
        steps, dropped: steps taken, and records for which there was no room.
        step: int64 ``[records]``: the step, from 0, that wrote a record; -1 for a reset, or where it is not known.
        units: the numbers of the units, ascending; with ``num_units`` those without a record too.
        blocks: how many blocks a unit can be at work on at once; 1 for a thread.
        span: microseconds from the beginning of the first record to the end of the last.
        busy: the share of that time in which a unit is at work on something, mean of all units, 0 to 1.
        clock_error: how far, in microseconds (root mean square), the units' clocks on the one axis are from the clock
            that all share; below 1 that is the step of the shared clock. None where the records are too few or too
            close to each other to measure the speed of the SMs' clocks: 1 GHz is then assumed.
        restart: ``restart()`` forgets the steps so far, within the with-block: the first of a traced build are slow.
    """

    records: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    steps: int
    dropped: int
    step: np.ndarray
    units: np.ndarray
    blocks: int
    span: float
    busy: float
    clock_error: float | None

    def __init__(
        self,
        records: np.ndarray | None,
        tasks: Sequence[TaskInfo],
        *,
        unit: str,
        title: str,
        steps: int = 0,
        dropped: int = 0,
        blocks_per_unit: int = 1,
        num_units: int = 0,
    ) -> None:
        """Make a trace of records, or, where they are None, one that waits for ``fill``.

        Args:
            records, steps, dropped: see ``fill``.
            tasks: a record's ``task`` is an index into them.
            unit: "SM" or "thread".
            title: names the trace, in a few words.
            blocks_per_unit: how many blocks an SM can hold; where more are seen at once, it is taken for that many.
            num_units: how many units there are, so that those without a record count as idle; 0 leaves them out.
        """
        if unit not in ("SM", "thread"):
            raise ValueError(f"unit must be 'SM' or 'thread', got {unit!r}")
        if blocks_per_unit < 1 or num_units < 0:
            given = f"{blocks_per_unit} and {num_units}"
            raise ValueError(f"blocks_per_unit must be positive and num_units not negative, got {given}")
        self.tasks, self.unit, self.title = tuple(tasks), unit, title
        self._blocks_per_unit, self._num_units = blocks_per_unit, num_units
        self.restart: Callable[[], None] = _nothing_to_restart
        if records is not None:
            self.fill(records, steps, dropped)

    def __getattr__(self, name: str) -> Any:
        if name in Trace.__annotations__:
            raise RuntimeError("the trace is not complete yet: read it when the with-block of tracing() has ended")
        raise AttributeError(f"'Trace' object has no attribute {name!r}")

    def fill(
        self, records: np.ndarray, steps: int, dropped: int, marks: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Take the records of so many steps, once; for ``dropped`` more there was no room.

        ``marks`` are for each step how many records there were before it and after it; none where this is not known.

        Raises ``RuntimeError`` if it has records already, ``TypeError`` if these are none, ``ValueError`` if one is
        damaged; the trace is then as before.
        """
        if "records" in self.__dict__:
            raise RuntimeError("the trace has its records already")
        if not isinstance(records, np.ndarray) or records.dtype != RECORD or records.ndim != 1:
            given = f"{records.dtype} {list(records.shape)}" if isinstance(records, np.ndarray) else type(records)
            raise TypeError(f"records must be a numpy array [records] of dtype RECORD, got {given}")
        if steps < 0 or dropped < 0:
            raise ValueError(f"steps and dropped must not be negative, got {steps} and {dropped}")
        records = records.copy()  # the engine may use the memory again
        if (bad := np.flatnonzero(records["task"] >= len(self.tasks))).size:
            task, count = records["task"][bad[0]], len(self.tasks)
            raise ValueError(f"record {bad[0]} is damaged: it is of task {task}, and there are {count} tasks, from 0")
        if (bad := np.flatnonzero((records["end"] < records["begin"]) | (records["end"] == 0))).size:
            task, unit, _, begin, end, _ = records[bad[0]].tolist()
            where = f"'{self.tasks[task].name}' on {self.unit} {unit}"
            raise ValueError(f"record {bad[0]} ({where}) is damaged: it begins at {begin} and ends at {end}")
        units, row = np.unique(records["unit"], return_inverse=True)
        self.clock_error = 0.0
        if len(records) == 0:
            self.begin = self.end = np.zeros(0)
        elif self.unit == "thread":  # all threads have one clock, in nanoseconds
            base = records["begin"].min()
            self.begin, self.end = ((records[name] - base) / 1e3 for name in ("begin", "end"))
        else:
            self.begin, self.end, self.clock_error = _common_axis(records, row)
        idle = np.setdiff1d(np.arange(self._num_units, dtype=units.dtype), units)
        self.units = np.sort(np.concatenate([units, idle[: max(0, self._num_units - len(units))]]))
        self.span = float(self.end.max(initial=0.0))
        most, working = _at_once(row, self.begin, self.end)
        self.blocks = max(self._blocks_per_unit, most)
        self.busy = working / (self.span * len(self.units)) if self.span else 0.0
        self.step = _steps_of(len(records), marks)
        self.steps, self.dropped, self.records = int(steps), int(dropped), records

    def table(self) -> list[dict[str, Any]]:
        """A row for each task that ran, the most expensive first.

        ``us/step``: time per step, summed over units and blocks; ``share %``: its share of all such time;
        ``calls/step``: records; ``us/call``: their mean time; ``units``: how many it ran on. Without a step ("per
        step" has no meaning then) the first and the third are totals.
        """
        keys = list(dict.fromkeys((task.name, task.phase, task.engine) for task in self.tasks))
        place = np.array([keys.index((task.name, task.phase, task.engine)) for task in self.tasks], np.int64)
        key = place[self.records["task"]]
        calls = np.bincount(key, minlength=len(keys))
        time = np.bincount(key, self.end - self.begin, minlength=len(keys))
        used = np.bincount(np.unique(key * 65536 + self.records["unit"]) // 65536, minlength=len(keys))
        steps, whole = max(self.steps, 1), max(time.sum(initial=0.0), 1e-30)
        return [
            {
                "task": keys[i][0],
                "phase": keys[i][1],
                "by": "engine" if keys[i][2] else "system",
                "us/step": float(time[i] / steps),
                "share %": float(100 * time[i] / whole),
                "calls/step": float(calls[i] / steps),
                "us/call": float(time[i] / calls[i]),
                "units": int(used[i]),
            }
            for i in sorted(np.flatnonzero(calls), key=lambda i: -time[i])
        ]

    def __str__(self) -> str:

        rows = [{k: f"{v:,.2f}" if isinstance(v, float) else v for k, v in row.items()} for row in self.table()]
        lines = [f"{self.title}: {self._facts()}", table(rows)]
        if self.dropped:
            lines.append(
                f"{self.dropped:,} more records had no room, and their time is missing here: use "
                f"tracing(capacity={len(self.records) + self.dropped}) or more, or trace fewer steps"
            )
        if self.clock_error is None:
            lines.append("too short to measure the speed of the SMs' clocks: 1 GHz is assumed, and no time is certain")
        elif self.clock_error > 1:
            lines.append(
                f"times are uncertain by {self.clock_error:.1f} us: the SMs' clocks did not keep one speed (take some "
                "steps before the traced ones, or trace fewer)"
            )
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write the trace as trace events (``.json``), for ui.perfetto.dev or chrome://tracing.

        A unit is a track; where several blocks are at work on it at once, it has more ("SM 12", "SM 12 +1", ...).
        """
        other = {"title": self.title, "steps": self.steps, "records": len(self.records), "dropped": self.dropped}
        other |= {"span_us": self.span, "busy": self.busy, "clock_error_us": self.clock_error}
        with _checked(path, ".json").open("w", encoding="utf-8") as file:
            file.write('{"traceEvents": [\n')
            self._write_events(file)
            file.write(f'\n], "displayTimeUnit": "ns", "otherData": {json.dumps(other, ensure_ascii=False)}}}\n')

    def _write_events(self, file: TextIO) -> None:
        # Whole nanoseconds, so that what ends where the next begins still does after a reader has rounded.
        begin, end = (np.rint(times * 1e3).astype(np.int64) for times in (self.begin, self.end))
        order = np.lexsort((end, begin, self.records["unit"]))
        records, begin, end = self.records[order], begin[order], end[order]
        lane = np.array(_lanes(records["unit"].tolist(), begin.tolist(), end.tolist()), np.int64)
        tracks, track = np.unique((records["unit"].astype(np.int64) << 32) + lane, return_inverse=True)
        named: list[tuple[str, int, Any]] = [("process_name", 1, {"name": self.title})]
        for i, (unit, more) in enumerate(divmod(int(number), 1 << 32) for number in tracks):
            # From 2: the thread with the number of its process would count as its main thread.
            named.append(("thread_name", 2 + i, {"name": f"{self.unit} {unit}" + (f" +{more}" if more else "")}))
            named.append(("thread_sort_index", 2 + i, {"sort_index": i}))
        events = ({"name": name, "ph": "M", "pid": 1, "tid": tid, "args": args} for name, tid, args in named)
        file.write(",\n".join(json.dumps(event, ensure_ascii=False) for event in events))
        heads, tails = [], []
        for task in self.tasks:
            name, phase = (json.dumps(text, ensure_ascii=False) for text in (task.name, task.phase))
            heads.append(f',\n{{"name":{name},"cat":"{"engine" if task.engine else "system"}","ph":"X","pid":1,"tid":')
            tails.append(f'"args":{{"phase":{phase},"tile":')
        columns = (records["task"], track + 2, begin, end - begin, records["tile"])
        for start in range(0, len(records), _CHUNK):
            chunk = (column[start : start + _CHUNK].tolist() for column in columns)
            file.writelines(
                f'{heads[task]}{tid},"ts":{at // 1000}.{at % 1000:03},'
                f'"dur":{took // 1000}.{took % 1000:03},{tails[task]}{tile}}}}}'
                for task, tid, at, took, tile in zip(*chunk, strict=True)
            )

    def draw(self, path: str | Path) -> None:
        """Write a picture (``.png``): a bar for each step, and below it a row for each unit.

        A bar shows how the tasks share the time of a step, that of all units together; of more than 350 steps the first
        350 are shown. In a row, time goes to the right; it is filled from below to the share of the unit's ``blocks``
        that are at work, each colour to that of its task. The names that took most time have a colour, systems a bright
        one and the engine's work a grey; all others share one. Raises MissingExtra without matplotlib.
        """
        needed("matplotlib")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        path = _checked(path, ".png")
        legend, layer = self._colours()
        pixels = self._pixels(layer, np.array([_rgb(colour) for _, colour in legend]))
        bars = self._bars(layer, len(legend) - 1)
        above = _BARS + _BARS_BOTTOM if len(bars) else 0
        height, room = len(pixels), max(len(pixels), _LINE * (len(legend) + 1) - above)
        size = np.array([_LEFT + _WIDTH + _RIGHT, _TOP + above + room + _BOTTOM])
        figure = Figure(figsize=tuple(size / 100), dpi=100)
        FigureCanvasAgg(figure)

        def area(top: int, height: int) -> Any:
            return figure.add_axes((_LEFT / size[0], 1 - (top + height) / size[1], _WIDTH / size[0], height / size[1]))

        if above:
            _draw_bars(area(_TOP, _BARS), bars, [colour for _, colour in legend], self.unit)
        axes = area(_TOP + above, height)
        extent = (0.0, self.span or 1.0, max(len(self.units), 1), 0.0)
        axes.imshow(pixels, extent=extent, aspect="auto", interpolation="none")
        apart = 1 if len(self.units) < 60 else 1 << (len(self.units) // 30).bit_length() - 1
        ticks = np.arange(0, len(self.units), apart)
        axes.set_yticks(ticks + 0.5, [str(unit) for unit in self.units[ticks]], fontsize=8)
        axes.tick_params(axis="y", length=0)
        if self.span > 10:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        filled = f" (a row is full when all {self.blocks} blocks of an SM are at work)" if self.blocks > 1 else ""
        axes.set(ylabel=self.unit, xlabel="µs" + filled)
        x, top = _LEFT / size[0], size[1]
        figure.text(x, 1 - 24 / top, _shortened(self.title, 150), fontsize=12, fontweight="bold", parse_math=False)
        lost = f", {self.dropped:,} records dropped" if self.dropped else ""
        figure.text(x, 1 - 46 / top, self._facts() + lost, fontsize=10)
        patches = [Patch(facecolor=colour, edgecolor="#888888", linewidth=0.5, label=name) for name, colour in legend]
        corner = ((_LEFT + _WIDTH + 8) / size[0], 1 - (_TOP - 6) / top)
        figure.legend(handles=patches, loc="upper left", bbox_to_anchor=corner, frameon=False, fontsize=9)
        figure.savefig(path)

    def _facts(self) -> str:
        steps = f"{self.steps:,} step{'s' * (self.steps != 1)}"
        of = f"{len(self.units)} {self.unit}{'s' * (len(self.units) != 1)}"
        slots = self.span * len(self.units) * self.blocks
        filled = f" ({(self.end - self.begin).sum() / slots:.1%} of their blocks)" if slots and self.blocks > 1 else ""
        return f"{steps}, {self.span:,.1f} µs, {of} busy {self.busy:.1%} of the time{filled}"

    def _colours(self) -> tuple[list[tuple[str, str]], np.ndarray]:
        """Names with their colours, the most expensive first, "idle" last; for each task which of them it has."""
        names = list(dict.fromkeys((task.engine, task.name) for task in self.tasks))  # in the order of the graph
        name = np.array([names.index((task.engine, task.name)) for task in self.tasks], np.int64)
        time = np.bincount(name[self.records["task"]], self.end - self.begin, minlength=len(names))
        seen = np.bincount(name[self.records["task"]], minlength=len(names)) > 0
        shown: list[int] = []
        for i in sorted(np.flatnonzero(seen).tolist(), key=lambda i: -time[i]):
            if len(shown) < _SHOWN and (not names[i][0] or sum(names[j][0] for j in shown) < _SHOWN_ENGINE):
                shown.append(i)
        colours = {kind: iter(_ENGINE if kind else _SYSTEMS) for kind in (False, True)}
        colour = {i: next(colours[names[i][0]]) for i in sorted(shown)}
        share = 100 * time / max(time.sum(), 1e-30)
        legend = [(f"{_shortened(names[i][1], 26)}  {share[i]:.1f} %", colour[i]) for i in shown]
        others = int(seen.sum()) - len(shown)
        if others:
            legend.append((f"other ({others} tasks)  {max(0.0, 100 - share[shown].sum()):.1f} %", _OTHER))
        place = np.full(len(names), len(shown))
        place[shown] = np.arange(len(shown))
        return [*legend, ("idle", _IDLE)], place[name]

    def _bars(self, layer: np.ndarray, layers: int) -> np.ndarray:
        """float64 ``[steps, layers]``, microseconds of all units together; no step where that is not known."""
        known = self.step >= 0
        if not known.any() or not layers:
            return np.zeros((0, layers))
        place = self.step[known] * layers + layer[self.records["task"][known]]
        count = int(self.step.max()) + 1
        time = np.bincount(place, (self.end - self.begin)[known], minlength=count * layers)
        return time.reshape(count, layers)[:_MOST_BARS]

    def _pixels(self, layer: np.ndarray, colours: np.ndarray) -> np.ndarray:
        """``uint8 [units * height, _WIDTH, 3]``: exact shares, so that what is thinner than a pixel still counts."""
        rows, layers = len(self.units), len(colours) - 1
        height = int(np.clip(_HEIGHT // max(rows, 1), 3, 120))
        if layers == 0:
            return np.full((max(rows, 1) * height, _WIDTH, 3), 255, np.uint8)
        # Sums over time of a unit's blocks in a layer: each record adds a step up and a step down to a running sum; a
        # step within a pixel counts in it for what is left of the pixel.
        line = np.searchsorted(self.units, self.records["unit"]) * layers + layer[self.records["task"]]
        change = np.zeros(rows * layers * (_WIDTH + 2))
        for times, sign in ((self.begin, 1.0), (self.end, -1.0)):
            at = np.clip(times / (self.span or 1.0), 0.0, 1.0) * _WIDTH
            pixel = at.astype(np.int64)
            cell, late = line * (_WIDTH + 2) + pixel, at - pixel
            change += np.bincount(cell, sign * (1 - late), minlength=len(change))
            change += np.bincount(cell + 1, sign * late, minlength=len(change))
        share = change.reshape(rows, layers, _WIDTH + 2).cumsum(axis=2)[:, :, :_WIDTH] / self.blocks
        tops = np.concatenate([np.zeros((rows, 1, _WIDTH)), share.cumsum(axis=1), np.ones((rows, 1, _WIDTH))], axis=1)
        gap = int(height >= 6)
        pixels = np.empty((rows, height, _WIDTH, 3))
        pixels[:] = _rgb(_GAP)
        for y in range(height - gap):
            within = np.clip(tops * (height - gap), y, y + 1)
            pixels[:, height - 1 - y] = np.tensordot(np.diff(within, axis=1), colours, (1, 0))
        return np.rint(pixels).clip(0, 255).astype(np.uint8).reshape(rows * height, _WIDTH, 3)


def _steps_of(count: int, marks: Sequence[tuple[int, int]]) -> np.ndarray:
    """Which step wrote each of so many records, see ``Trace.step``."""
    step = np.full(count, -1, np.int64)
    before = 0
    for number, (first, last) in enumerate(marks):
        if not before <= first <= last:  # counted while a CUDA graph was captured, which ran later
            return np.full(count, -1, np.int64)
        step[first:last] = number
        before = last
    return step


def _draw_bars(axes: Any, bars: np.ndarray, colours: Sequence[str], unit: str) -> None:
    """A stacked bar for each step, ``bars [steps, layers]``."""
    numbers, bottom = np.arange(len(bars)), np.zeros(len(bars))
    for time, colour in zip(bars.T, colours, strict=False):  # the last colour is for what is idle
        axes.bar(numbers, time, 0.8, bottom, color=colour, linewidth=0)
        bottom = bottom + time
    axes.set_xlim(-0.5, max(len(bars), _FEWEST_BARS) - 0.5)
    axes.set(xlabel="step", ylabel=f"µs of all {unit}s")
    axes.set_xticks(numbers[:: 1 + len(bars) // 40])
    axes.spines[["top", "right"]].set_visible(False)


def _common_axis(records: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Begin and end in microseconds since the first record, and how well the clocks fit (None: speed unknown).

    global = offset of the unit + slope * clock, with one slope for all units, by least squares. ``row`` numbers the
    units from 0.
    """
    count = np.bincount(row)
    base = np.full(len(count), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(base, row, records["begin"])  # first exactly, in integers: ticks and nanoseconds do not fit a float64
    begin, end = ((records[name] - base[row]).astype(np.float64) for name in ("begin", "end"))
    common = (records["global_begin"] - records["global_begin"].min()).astype(np.float64)
    begin_mean, common_mean = ((np.bincount(row, values) / count)[row] for values in (begin, common))
    slope = ((begin - begin_mean) @ common) / max((begin - begin_mean) @ begin, 1e-30)
    known = _SLOPES[0] <= slope <= _SLOPES[1]
    slope = slope if known else 1.0
    offset = common_mean - slope * begin_mean
    begin, end = offset + slope * begin, offset + slope * end
    error = float(np.sqrt(np.mean((begin - common) ** 2))) / 1e3
    first = begin.min()
    return (begin - first) / 1e3, (end - first) / 1e3, error if known else None


def _at_once(row: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[int, float]:
    """The most records that one unit is at work on at once; the time for which a unit has any, summed over units."""
    times = np.concatenate([end, begin])
    change = np.repeat([-1, 1], len(row))
    order = np.lexsort((change, times, np.tile(row, 2)))  # at the same moment ends come first
    running = change[order].cumsum()  # is 0 again behind each unit
    lengths = np.diff(times[order], append=0.0)
    return int(running.max(initial=0)), float(lengths[running > 0].sum())


def _lanes(unit: list[int], begin: list[int], end: list[int]) -> list[int]:
    """For records sorted by unit and begin: the least number from 0 that no earlier record of the unit still holds."""
    lanes, working, free, of = [], [], [], None  # working: (end, lane), a heap; so is free
    for u, start, stop in zip(unit, begin, end, strict=True):
        if u != of:
            of, working, free = u, [], []
        while working and working[0][0] <= start:
            heapq.heappush(free, heapq.heappop(working)[1])
        lane = heapq.heappop(free) if free else len(working)
        heapq.heappush(working, (stop, lane))
        lanes.append(lane)
    return lanes


def _checked(path: str | Path, suffix: str) -> Path:
    path = Path(path)
    if path.suffix != suffix:
        raise ValueError(f"the file's name must end in {suffix}, got {str(path)!r}")
    return path


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
