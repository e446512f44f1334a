"""Traces: one time axis from many clocks, the table, the file for Perfetto, and the picture, read back."""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import messages
import numpy as np
import pytest
from matplotlib.image import imread

from torch_batchsim.run import trace as module
from torch_batchsim.run.trace import RECORD, TaskInfo, Trace

PUSH, SWING, NOTE = TaskInfo("push", "live", False), TaskInfo("swing", "all", False), TaskInfo("NoteEnd", "rest", True)
TASKS = (PUSH, SWING, NOTE)


def records(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Of a CPU, from ``(task, unit, begin, end)``, numbered as tiles."""
    return np.array([(task, unit, i, begin, end, begin) for i, (task, unit, begin, end) in enumerate(rows)], RECORD)


def cpu(*rows: tuple[int, int, int, int], **options: Any) -> Trace:
    return Trace(records(*rows), TASKS, **{"unit": "thread", "title": "two threads", "steps": 1} | options)


def gpu(
    seed: int,
    per_unit: int,
    units: int = 132,
    step: int = 1024,
    gigahertz: float = 1.755,
    at_once: int = 4,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records of SMs whose clocks began at different times; true begin and end in us since the first record."""
    random = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), per_unit)
    lane = np.tile(np.arange(per_unit) % at_once, units)
    length = random.exponential(20_000, len(unit)) + 500.0  # nanoseconds
    begin = np.empty(len(unit))
    for u in range(units):
        for a in range(at_once):
            mine = (unit == u) & (lane == a)
            begin[mine] = (length[mine] + random.exponential(2_000, mine.sum())).cumsum() - length[mine]
    out = np.zeros(len(unit), RECORD)
    out["task"], out["unit"], out["tile"] = random.integers(0, len(TASKS), len(unit)), unit, np.arange(len(unit))
    switched_on = random.integers(0, 1 << 62, units).astype(np.uint64)[unit]
    out["begin"] = switched_on + (begin * gigahertz).astype(np.uint64)
    out["end"] = switched_on + ((begin + length) * gigahertz).astype(np.uint64)
    since_1970 = 1_790_000_000_123_456_789
    out["global_begin"] = (np.uint64(since_1970) + begin.astype(np.uint64)) // np.uint64(step) * np.uint64(step)
    order, first = random.permutation(len(out)), begin.min()
    return out[order], (begin[order] - first) / 1e3, (begin[order] + length[order] - first) / 1e3


# The time axis


def test_threads_have_one_clock_already() -> None:
    base = (1 << 60) + 1  # float64 knows only every 256th number here
    written = records((0, 0, base + 5, base + 1005), (1, 1, base, base + 7), (2, 1, base + 2**40, base + 2**40 + 1))
    written["global_begin"] -= np.arange(3, dtype=np.uint64) * 999  # whatever the other clock shows
    trace = Trace(written, TASKS, unit="thread", title="threads", steps=1)
    assert trace.begin.tolist() == [0.005, 0.0, 2**40 / 1e3]
    assert trace.end.tolist() == [1.005, 0.007, (2**40 + 1) / 1e3]
    assert trace.span == (2**40 + 1) / 1e3 and trace.clock_error == 0.0


@pytest.mark.parametrize("step", [1, 32, 1024])
def test_clocks_of_multiprocessors_come_onto_one_axis(step: int) -> None:
    written, begin, end = gpu(seed=step, per_unit=200, step=step)
    trace = Trace(written, TASKS, unit="SM", title="GPU", steps=1)
    # A shared clock in steps of q is late by up to q, with a deviation of q / sqrt(12); a mean over 200 records of one
    # SM has that / sqrt(200), and the first record, the zero of the axis, may be off by as much.
    expected = step / math.sqrt(12) / 1e3
    assert trace.clock_error == pytest.approx(expected, rel=0.1, abs=0.002)
    for ours, true in ((trace.begin, begin), (trace.end, end)):
        assert np.abs(ours - true).max() < 8 * expected / math.sqrt(200) + 0.002
    lengths = trace.end - trace.begin
    np.testing.assert_allclose(lengths, end - begin, rtol=1e-4, atol=0.002)
    assert trace.begin.min() == 0.0


def test_a_unit_with_one_record_is_placed_by_the_shared_clock() -> None:
    written, begin, end = gpu(seed=5, per_unit=100, units=3)
    keep = (written["unit"] != 1) | (np.cumsum(written["unit"] == 1) == 1)
    trace = Trace(written[keep], TASKS, unit="SM", title="GPU", steps=1)
    first = begin[keep].min()
    assert np.abs(trace.begin - (begin[keep] - first)).max() < 1.2  # a step of the shared clock, and the rest
    np.testing.assert_allclose(trace.end - trace.begin, (end - begin)[keep], rtol=1e-3, atol=0.01)


def test_too_few_records_to_measure_the_clocks() -> None:
    one = records((0, 3, 1000, 3000))
    one["global_begin"] = 7 << 50
    two = records((0, 3, 1000, 3000), (1, 3, 4000, 4500))  # the shared clock has not moved meanwhile
    two["global_begin"] = 7 << 50
    for written in (one, two):
        trace = Trace(written, TASKS, unit="SM", title="short", steps=1)
        assert trace.clock_error is None and trace.begin[0] == 0.0
        assert (trace.end - trace.begin)[0] == 2.0  # at 1 GHz
        assert "1 GHz is assumed" in str(trace)


def test_clocks_that_change_their_speed_are_reported() -> None:
    written, begin, _ = gpu(seed=2, per_unit=100, units=8)
    assert "uncertain" not in str(Trace(written, TASKS, unit="SM", title="GPU", steps=1))
    late = begin > begin.max() / 2
    written["global_begin"][late] += (begin[late] * 1000 - begin.max() * 500).astype(np.uint64)  # half as fast
    trace = Trace(written, TASKS, unit="SM", title="GPU", steps=1)
    assert trace.clock_error > 1 and f"times are uncertain by {trace.clock_error:.1f} us" in str(trace)


# The table


def test_the_table_by_hand() -> None:
    tasks = (*TASKS, TaskInfo("push", "live", False), TaskInfo("push", "begin", False), TaskInfo("never", "all", True))
    rows = records((0, 0, 0, 3000), (3, 1, 0, 2000), (1, 0, 3000, 4000), (4, 1, 2000, 2500), (2, 0, 9500, 10_000))
    trace = Trace(rows, tasks, unit="thread", title="by hand", steps=2)
    columns = ("task", "phase", "by", "us/step", "share %", "calls/step", "us/call", "units")
    values = [
        ("push", "live", "system", 2.5, 5 / 7 * 100, 1.0, 2.5, 2),  # two nodes of one system, in one phase
        ("swing", "all", "system", 0.5, 1 / 7 * 100, 0.5, 1.0, 1),
        ("NoteEnd", "rest", "engine", 0.25, 0.5 / 7 * 100, 0.5, 0.5, 1),
        ("push", "begin", "system", 0.25, 0.5 / 7 * 100, 0.5, 0.5, 1),
    ]
    table = trace.table()
    assert [tuple(row) for row in table] == [columns] * 4
    for row, expected in zip(table, values, strict=True):
        assert list(row.values()) == [pytest.approx(v) if isinstance(v, float) else v for v in expected]
    assert json.loads(json.dumps(table)) == table
    assert trace.span == 10.0 and trace.busy == pytest.approx((4.5 + 2.5) / 20) and trace.blocks == 1
    head, names, _, first, *_ = str(trace).splitlines()
    assert head == "by hand: 2 steps, 10.0 µs, 2 threads busy 35.0% of the time"
    assert names.split() == "task phase by us/step share % calls/step us/call units".split()
    assert first.split() == ["push", "live", "system", "2.50", "71.43", "1.00", "2.50", "2"]


def test_busy_counts_time_and_not_blocks() -> None:
    rows = records((0, 0, 0, 6000), (1, 0, 2000, 4000), (1, 0, 5000, 8000), (1, 0, 10_000, 10_000), (0, 7, 0, 10_000))
    trace = Trace(rows, TASKS, unit="SM", title="GPU", steps=1, blocks_per_unit=2)
    assert (trace.busy, trace.blocks, trace.units.tolist()) == (pytest.approx(0.9), 2, [0, 7])
    assert "GPU: 1 step, 10.0 µs, 2 SMs busy 90.0% of the time (52.5% of their blocks)" in str(trace)
    # Idle units count where it is known that they are there; more blocks than promised are believed.
    rows = records((0, 0, 0, 10_000), (0, 0, 0, 10_000), (0, 2, 5000, 10_000))
    trace = Trace(rows, TASKS, unit="SM", title="GPU", steps=1, num_units=4)
    assert (trace.busy, trace.blocks, trace.units.tolist()) == (pytest.approx(1.5 / 4), 2, [0, 1, 2, 3])


def test_the_numbers_of_threads_need_not_begin_at_0() -> None:
    trace = cpu((0, 5, 0, 10), (0, 9, 0, 10), num_units=3)
    assert trace.units.tolist() == [0, 5, 9] and trace.busy == pytest.approx(2 / 3)
    assert cpu((0, 5, 0, 10), (0, 9, 0, 10), num_units=1).units.tolist() == [5, 9]


def test_dropped_records_are_reported_with_a_remedy(tmp_path: Path) -> None:
    trace = cpu((0, 0, 0, 10), (1, 0, 10, 20), dropped=1500)
    assert "1,500 more records had no room" in str(trace) and "tracing(capacity=1502)" in str(trace)
    assert "no room" not in str(cpu((0, 0, 0, 10)))
    trace.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["dropped"] == 1500


def test_without_a_step_figures_are_totals() -> None:
    [row] = cpu((0, 0, 0, 1500), (0, 0, 2000, 2500), steps=0).table()
    assert (row["us/step"], row["calls/step"], row["us/call"], row["units"]) == (2.0, 2.0, 1.0, 1)


# The file


def load(trace: Trace, tmp_path: Path) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Complete events and the names of tracks, checked by the rules of the Trace Event Format.

    The rules that Perfetto has for complete events: times are microseconds that it rounds to whole nanoseconds, and
    two events of one track lie apart or within each other.
    """
    trace.save(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text(encoding="utf-8")
    file = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert file.keys() == {"traceEvents", "displayTimeUnit", "otherData"} and file["displayTimeUnit"] == "ns"
    events = [event for event in file["traceEvents"] if event["ph"] == "X"]
    names, order, tracks = {}, {}, defaultdict(list)
    for event in file["traceEvents"]:
        assert isinstance(event["name"], str) and event["pid"] == 1 and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event.keys() == {"name", "ph", "pid", "tid", "args"}
            if event["name"] == "process_name":
                assert event["args"] == {"name": trace.title}
            else:
                kind, into = {"thread_name": ("name", names), "thread_sort_index": ("sort_index", order)}[event["name"]]
                assert event["tid"] not in into and event["tid"] != event["pid"]
                into[event["tid"]] = event["args"][kind]
        else:
            assert event.keys() == {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"}
            assert event["cat"] in ("system", "engine") and event["args"].keys() == {"phase", "tile"}
            begin, length = (round(event[key] * 1000) for key in ("ts", "dur"))
            assert begin >= 0 and length >= 0 and event["tid"] in names
            tracks[event["tid"]].append((begin, begin + length))
    assert len(set(names.values())) == len(names) and sorted(order.values()) == list(range(len(names)))
    assert tracks.keys() == names.keys() == order.keys()
    for spans in tracks.values():
        around: list[tuple[int, int]] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1][1] <= begin:
                around.pop()
            assert not around or end <= around[-1][1], f"{around[-1]} and {(begin, end)} overlap and do not nest"
            around.append((begin, end))
    return events, names


def test_events_of_threads(tmp_path: Path) -> None:
    trace = cpu((0, 0, 100, 1229), (2, 0, 1229, 1229), (1, 0, 1229, 5000), (1, 4, 150, 2000))
    events, names = load(trace, tmp_path)
    assert list(names.values()) == ["thread 0", "thread 4"]
    by_tile = sorted(events, key=lambda event: event["args"]["tile"])
    assert [(event["name"], event["cat"], event["args"]["phase"]) for event in by_tile] == [
        ("push", "system", "live"),
        ("NoteEnd", "engine", "rest"),
        ("swing", "system", "all"),
        ("swing", "system", "all"),
    ]
    assert [(event["ts"], event["dur"]) for event in by_tile] == [(0, 1.129), (1.129, 0), (1.129, 3.771), (0.05, 1.85)]
    assert [names[event["tid"]] for event in by_tile] == ["thread 0"] * 3 + ["thread 4"]


def test_nanoseconds_are_written_exactly(tmp_path: Path) -> None:
    trace = cpu(*((0, 0, 7 * i, 7 * i + i % 7) for i in range(1, 3000)))
    events, names = load(trace, tmp_path)
    assert len(names) == 1
    for event in events:
        i = event["args"]["tile"] + 1
        assert (event["ts"], event["dur"]) == (float(f"{7 * (i - 1)}e-3"), float(f"{i % 7}e-3"))


def test_blocks_at_work_at_once_have_tracks_of_their_own(tmp_path: Path) -> None:
    written, begin, end = gpu(seed=1, per_unit=300, units=5)
    trace = Trace(written, TASKS, unit="SM", title="GPU", steps=1)
    events, names = load(trace, tmp_path)
    assert trace.blocks == 4 and len(events) == len(written)
    assert list(names.values()) == [f"SM {sm}{more}" for sm in range(5) for more in ("", " +1", " +2", " +3")]
    for event in events:
        tile = np.flatnonzero(written["tile"] == event["args"]["tile"])[0]
        assert names[event["tid"]].split(" +")[0] == f"SM {written['unit'][tile]}"
        assert event["name"] == TASKS[written["task"][tile]].name
        assert abs(event["ts"] - begin[tile]) < 0.2 and abs(event["dur"] - (end - begin)[tile]) < 0.01


def test_names_are_written_as_they_are(tmp_path: Path) -> None:
    tasks = (TaskInfo('a "quoted" \\ {name} ü', "all", False),)
    trace = Trace(records((0, 0, 0, 10)), tasks, unit="thread", title='10 µs of "it"', steps=1)
    [event], _ = load(trace, tmp_path)
    assert event["name"] == tasks[0].name
    assert "ü" in (tmp_path / "trace.json").read_text(encoding="utf-8")  # not every reader knows the escape


# The picture


def plot(trace: Trace, tmp_path: Path) -> np.ndarray:
    """The pixels of all rows as they stand in the file, ``[units, height, width, 3]``, 0 to 255."""
    trace.draw(tmp_path / "trace.png")
    pixels = np.rint(imread(tmp_path / "trace.png")[:, :, :3] * 255).astype(int)
    height = min(max(module._HEIGHT // len(trace.units), 3), 120)
    inner = pixels[module._TOP : module._TOP + height * len(trace.units), module._LEFT : module._LEFT + module._WIDTH]
    return inner.reshape(len(trace.units), height, module._WIDTH, 3)


def colour(name: str) -> list[int]:
    return [int(name[i : i + 2], 16) for i in (1, 3, 5)]


def test_colours_stand_where_tasks_ran(tmp_path: Path) -> None:
    whole = module._WIDTH
    rows = [(0, 3, 0, whole // 2), (1, 3, whole // 2, whole), (2, 8, whole // 4, whole // 2), (0, 8, whole - 10, whole)]
    pixels = plot(cpu(*rows), tmp_path)
    # Away from frame and gap every pixel is one colour: full rows, as one record is all that a thread works on.
    inner = pixels[:, 3:-3, 3:-3]
    blue, orange, grey, white = (colour(c) for c in (*module._SYSTEMS[:2], module._ENGINE[0], "#ffffff"))
    middle, quarter = whole // 2 - 3, whole // 4 - 3
    assert (inner[0, :, :middle] == blue).all() and (inner[0, :, middle:] == orange).all()
    assert (inner[1, :, :quarter] == white).all() and (inner[1, :, quarter:middle] == grey).all()
    assert (inner[1, :, middle : whole - 13] == white).all() and (inner[1, :, whole - 13 :] == blue).all()


def test_a_row_is_filled_to_the_share_of_its_blocks(tmp_path: Path) -> None:
    time = 1_000_000
    rows = [(0, 0, 0, time), (1, 0, 0, time), (0, 1, 0, time)]
    trace = cpu(*rows, unit="SM", blocks_per_unit=4)
    pixels = plot(trace, tmp_path)
    inner = pixels[:, 1:, 5:-5][:, ::-1]  # from below, without the gap
    quarter = inner.shape[1] / 4
    blue, orange, white = (colour(c) for c in (*module._SYSTEMS[:2], "#ffffff"))
    for row, expected in ((0, (blue, orange, white, white)), (1, (blue, white, white, white))):
        for part, of in enumerate(expected):
            within = inner[row, math.ceil(part * quarter) + 1 : math.floor((part + 1) * quarter) - 1]
            assert len(within) > 20 and (within == of).all()


def marked(steps: int = 3) -> Trace:
    """Each step: 3 us of push on thread 0 and 1 us of swing on thread 1, the last one twice as much."""
    rows, marks = [(0, 0, 0, 500)], []  # of a reset
    for step in range(steps):
        start, times = 10_000 * step + 1000, 1 + (step == steps - 1)
        marks.append((len(rows), len(rows) + 2))
        rows += [(0, 0, start, start + 3000 * times), (1, 1, start, start + 1000 * times)]
    trace = Trace(None, TASKS, unit="thread", title="steps")
    trace.fill(records(*rows), steps, 0, marks)
    return trace


def test_records_know_their_step() -> None:
    assert marked().step.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert (cpu((0, 0, 0, 1000)).step == -1).all()
    captured = Trace(None, TASKS, unit="SM", title="replayed")
    captured.fill(records((0, 0, 0, 1000), (0, 0, 1000, 2000)), 2, 0, [(0, 2), (1, 2)])
    assert (captured.step == -1).all()


def test_a_bar_shows_the_time_of_a_step_by_task(tmp_path: Path) -> None:
    trace = marked()
    legend, layer = trace._colours()
    assert trace._bars(layer, len(legend) - 1).tolist() == [[3, 1], [3, 1], [6, 2]]
    trace.draw(tmp_path / "trace.png")
    plain = cpu(*((task, unit, begin, end) for task, unit, _, begin, end, _ in trace.records.tolist()))
    plain.draw(tmp_path / "plain.png")
    with_bars, without = (np.rint(imread(tmp_path / f"{name}.png")[:, :, :3] * 255) for name in ("trace", "plain"))
    assert len(with_bars) == len(without) + module._BARS + module._BARS_BOTTOM
    area = with_bars[module._TOP : module._TOP + module._BARS, module._LEFT : module._LEFT + module._WIDTH]
    push, swing = ((area == colour(name)).all(-1).sum(0) for _, name in legend[:2])  # pixels of each column
    places = (np.arange(module._FEWEST_BARS) + 0.4) / module._FEWEST_BARS * module._WIDTH
    heights = [(push[int(x)], swing[int(x)]) for x in places]
    assert heights[3:] == [(0, 0)] * (module._FEWEST_BARS - 3)
    unit = heights[0][1]
    for height, times in zip(heights, (1, 1, 2), strict=False):
        assert height == (pytest.approx(3 * times * unit, rel=0.1), pytest.approx(times * unit, rel=0.1))
    assert unit > 10


def test_what_is_thinner_than_a_pixel_counts_with_its_share(tmp_path: Path) -> None:
    # 100 times as many records as pixels: 2 ns of push, 1 ns of swing, 1 ns of nothing, over and over.
    count = 100 * module._WIDTH
    rows = np.zeros(2 * count, RECORD)
    rows["task"][count:] = 1
    rows["begin"][:count] = 1000 + 4 * np.arange(count)
    rows["begin"][count:] = rows["begin"][:count] + 2
    rows["end"] = rows["begin"] + np.repeat([2, 1], count).astype(np.uint64)
    pixels = plot(Trace(rows, TASKS, unit="thread", title="fine", steps=1), tmp_path)
    inner = pixels[0, 3:-3, 3:-3]
    blue, orange, white = (colour(c) for c in (*module._SYSTEMS[:2], "#ffffff"))
    share = [float((inner == of).all(axis=-1).mean()) for of in (blue, orange, white)]
    assert share == pytest.approx([0.5, 0.25, 0.25], abs=0.03)
    assert (inner[-50:] == blue).all() and (inner[:20] == white).all()


@pytest.mark.parametrize(
    "units, height",
    [(1, 120), pytest.param(132, 9, marks=pytest.mark.full), pytest.param(300, 4, marks=pytest.mark.full)],
)
def test_coloured_area_is_time(units: int, height: int) -> None:
    written, *_ = gpu(seed=units, per_unit=40, units=units)
    trace = Trace(written, (SWING, SWING, SWING), unit="SM", title="GPU", steps=1, blocks_per_unit=8)
    legend, layer = trace._colours()
    assert [name.split()[0] for name, _ in legend] == ["swing", "idle"] and layer.tolist() == [0, 0, 0]
    black_on_white = np.array([[0, 0, 0], [255, 255, 255]])
    pixels = trace._pixels(layer, black_on_white).reshape(units, height, module._WIDTH, 3)[:, height >= 6 :]
    filled = (trace.end - trace.begin).sum() / (trace.span * units * 8)
    assert (1 - pixels / 255).mean() == pytest.approx(filled, rel=0.01)
    per_unit = np.bincount(written["unit"], trace.end - trace.begin) / (trace.span * 8)
    np.testing.assert_allclose((1 - pixels / 255).mean(axis=(1, 2, 3)), per_unit, atol=0.003)


def test_what_took_little_time_shares_a_colour() -> None:
    tasks = [TaskInfo(f"s{i}", "all", False) for i in range(20)] + [TaskInfo(f"e{i}", "all", True) for i in range(9)]
    tasks.append(TaskInfo("never", "all", False))
    ends = [1000 - i for i in range(20)] + [5000 - i for i in range(9)]
    trace = Trace(records(*((i, i, 0, end) for i, end in enumerate(ends))), tasks, unit="thread", title="t", steps=1)
    legend, layer = trace._colours()
    names = [name.split()[0] for name, _ in legend]
    assert names == [*(f"e{i}" for i in range(5)), *(f"s{i}" for i in range(9)), "other", "idle"]
    assert legend[-2][0].startswith("other (15 tasks)")
    assert len({shade for _, shade in legend}) == len(legend)
    assert {shade for name, shade in legend if name[0] == "e"} == set(module._ENGINE)
    others = layer == names.index("other")
    assert others[:-1].sum() == 15 and layer[25] == names.index("other") and layer[20] == 0
    shares = [float(name.split()[-2]) for name, _ in legend[:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_one_name_has_one_colour_in_all_phases_and_traces() -> None:
    tasks = (PUSH, TaskInfo("push", "begin", False), SWING)
    for ends in ((10, 20, 300), (300, 20, 10)):
        trace = Trace(records(*((i, 0, 0, end) for i, end in enumerate(ends))), tasks, unit="SM", title="t", steps=1)
        legend, layer = trace._colours()
        assert layer[0] == layer[1] and dict(legend)[legend[layer[0]][0]] == module._SYSTEMS[0]
        assert legend[layer[2]][1] == module._SYSTEMS[1]


# Empty, late and wrong


@pytest.mark.parametrize("unit", ["thread", "SM"])
def test_a_trace_of_nothing(unit: str, tmp_path: Path) -> None:
    for num_units in (0, 2):
        trace = Trace(np.zeros(0, RECORD), (), unit=unit, title="nothing", num_units=num_units)
        assert trace.table() == [] and trace.span == 0 and trace.busy == 0 and trace.blocks == 1
        assert "0 steps" in str(trace) and "(nothing measured)" in str(trace)
        assert load(trace, tmp_path) == ([], {})
        trace.draw(tmp_path / "nothing.png")
        assert imread(tmp_path / "nothing.png").shape[1] > module._WIDTH


def test_records_that_took_no_time(tmp_path: Path) -> None:
    trace = cpu((0, 0, 5, 5), (1, 0, 5, 5))
    assert trace.span == 0 and trace.busy == 0 and [row["share %"] for row in trace.table()] == [0, 0]
    assert len(load(trace, tmp_path)[0]) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace.draw(tmp_path / "trace.png")


def test_a_trace_is_filled_once_and_says_nothing_before(tmp_path: Path) -> None:
    trace = Trace(None, TASKS, unit="thread", title="later")
    questions = [
        lambda: trace.table(),
        lambda: str(trace),
        lambda: trace.save(tmp_path / "trace.json"),
        lambda: trace.draw(tmp_path / "trace.png"),
        *((lambda name=name: getattr(trace, name)) for name in Trace.__annotations__),
    ]
    for ask in questions:
        with pytest.raises(RuntimeError, match=r"not complete yet.*with-block of tracing\(\) has ended"):
            ask()
    assert list(tmp_path.iterdir()) == [] and not hasattr(Trace(None, TASKS, unit="SM", title="t"), "nonsense")
    buffer = records((0, 0, 0, 4000), (1, 0, 4000, 6000))
    damaged = records((0, 0, 0, 4000), (9, 0, 4000, 6000))
    with pytest.raises(ValueError, match="damaged"):
        trace.fill(damaged, steps=3, dropped=0)
    trace.fill(buffer, steps=3, dropped=1)
    buffer[:] = damaged  # the engine goes on with its buffer
    assert (trace.steps, trace.dropped, trace.records["task"].tolist()) == (3, 1, [0, 1])
    assert [row["us/step"] for row in trace.table()] == pytest.approx([4 / 3, 2 / 3])
    with pytest.raises(RuntimeError, match="has its records already"):
        trace.fill(buffer, steps=3, dropped=0)


def test_refused_records_and_options() -> None:
    messages.refused("traces", lambda line: eval(line))


def test_wrong_paths(tmp_path: Path) -> None:
    trace = cpu((0, 0, 0, 10))
    with pytest.raises(ValueError, match=r"must end in \.png, got '.*trace\.jpg'"):
        trace.draw(tmp_path / "trace.jpg")
    with pytest.raises(ValueError, match=r"must end in \.json, got '.*trace'"):
        trace.save(str(tmp_path / "trace"))
    with pytest.raises(FileNotFoundError):
        trace.save(tmp_path / "missing" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_the_record_has_the_layout_of_the_engine() -> None:
    fields = {name: (RECORD[name].str, RECORD.fields[name][1]) for name in RECORD.names}
    small = {"task": ("<u2", 0), "unit": ("<u2", 2), "tile": ("<u4", 4)}
    assert fields == small | {"begin": ("<u8", 8), "end": ("<u8", 16), "global_begin": ("<u8", 24)}
    assert RECORD.itemsize == 32
