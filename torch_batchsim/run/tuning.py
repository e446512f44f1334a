"""Profile-guided choice of how a step is run: executor and tile, kernels and register limits on CUDA, threads on CPU.

After section 5.4 of the paper: a few steps are run with each register limit, each task is timed, and the groups of
tasks are chosen that minimise the predicted time of a step. What was predicted is then measured beside the
alternatives, and the fastest is taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from ..base.shared import MAX_TILE, NO_FAULT, Autoreset
from ..base.text import table
from ..build import jit
from ..build.codegen import Target, generate
from ..errors import BuildError
from ..resolve import executors
from ..resolve.executors import EXECUTORS
from ..resolve.schedule import Group, Plan, check_plan, default_plan, finest_plan, possible_cuts, step_tasks
from .execution import REGISTERS, Choice, Execution
from .legal import batches_of_actions

_FORMAT = 1
_RESTORED = "all worlds are as they were before tune()"
_PROFILED = (1, 2, 4, 8)  # of BLOCKS: 255, 128, 64 and 32 registers
_ROUNDS = 5
_BATCHES = 8  # of actions
_NOTICEABLE = 1.02  # a choice that is faster by less is noise


@dataclass(frozen=True)
class Candidate:
    """A choice and what it took. ``predicted`` is None where there was nothing to predict from."""

    choice: Choice
    us_per_step: float
    predicted: float | None = None


@dataclass(frozen=True)
class TuneReport:
    """The measurements and the choice of ``Simulator.tune``. ``str`` is a text for people.

    Attributes:
        chosen: how the simulator steps from now on.
        before, after: microseconds a step with what was in use and with what was chosen, measured in turns.
        gain: steps per second after, divided by those before; 1.0 where nothing was changed.
        candidates: all that were measured, the fastest first.
        tasks: microseconds of each task of a step by register limit (CUDA).
        faulty_worlds: worlds that reported a fault while they were measured: if more than half, nothing is kept.
    """

    title: str
    chosen: Choice
    before: float
    after: float
    candidates: tuple[Candidate, ...]
    tasks: tuple[tuple[str, dict[int, float]], ...] = ()
    faulty_worlds: int = 0

    @property
    def gain(self) -> float:
        return self.before / self.after

    def as_dict(self) -> dict[str, Any]:
        """The same as plain lists and dicts."""
        return {**asdict(self), "gain": self.gain}

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.chosen}"]
        lines.append(f"{self.before:.1f} us a step before, {self.after:.1f} after: {self.gain:.2f} times the speed")
        if self.faulty_worlds:
            lines.append(f"{self.faulty_worlds} worlds had a fault while they were measured: the figures may mislead")
        rows = []
        for candidate in self.candidates:
            predicted = "" if candidate.predicted is None else f"{candidate.predicted:.1f}"
            rows.append({"us/step": candidate.us_per_step, "predicted": predicted, "choice": str(candidate.choice)})
        lines += ["", table(rows)]
        if self.tasks:
            rows = [{"task, us/step": n, **{f"{r} registers": us for r, us in t.items()}} for n, t in self.tasks]
            lines += ["", table(rows)]
        return "\n".join(lines)


def choose_groups(
    times: dict[int, Sequence[float]], launch: float, cuts: Sequence[int] | None = None
) -> tuple[Plan, float]:
    """The groups that minimise the sum of all tasks' times and of ``launch`` for each kernel, and that sum.

    Args:
        times: by blocks per multiprocessor, the time of each task with that limit.
        launch: the cost of a kernel beside its tasks, in the same unit.
        cuts: where groups may begin and end, ascending from 0 to the number of tasks; by default before each task.
    """
    count = len(next(iter(times.values())))
    sums = {blocks: np.concatenate([[0.0], np.cumsum(values)]) for blocks, values in times.items()}
    best = [0.0] + [float("inf")] * count
    last: list[Group] = [Group(0, 0)] * (count + 1)
    places = range(count + 1) if cuts is None else cuts
    for i, end in enumerate(places):
        for begin in places[:i]:
            for blocks, total in sums.items():
                cost = best[begin] + launch + float(total[end] - total[begin])
                if cost < best[end]:
                    best[end], last[end] = cost, Group(begin, end, blocks)
    plan: list[Group] = []
    while not plan or plan[-1].first > 0:
        plan.append(last[plan[-1].first if plan else count])
    return tuple(reversed(plan)), best[count]


def tune(run: Execution, seconds: float, keep: bool) -> TuneReport:
    """See ``Simulator.tune``. ``keep``: store the choice with the builds, for simulators that come later."""
    with _undisturbed(run):
        clock = _Clock(run, seconds)
        report = (_tune_cuda if run.memory.cuda else _tune_cpu)(run, clock)
        run.synchronize()
        faulty = int((run.memory.columns["fault"] != NO_FAULT).sum())
    report = replace(report, faulty_worlds=faulty)
    run.take(report.chosen)
    if keep and 2 * faulty <= run.num_worlds:
        _store(run, report.chosen)
    return report


# ---- measuring -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _undisturbed(run: Execution) -> Any:
    """Give the simulator back as it was; faults of the steps between are dropped."""
    run.synchronize()  # or a fault of the steps before could be among them
    kept = {name: tensor.clone() for name, tensor in run.memory.columns.items()}
    context = run.memory.context
    flags, present, autoreset = run.memory.flags.clone(), run.choice(), context.autoreset
    if autoreset == Autoreset.disabled:
        context.autoreset = Autoreset.next_step  # or soon all worlds would stand still
    try:
        yield
    finally:
        run.synchronize()
        context.autoreset = autoreset
        run.take(present)
        for name, tensor in kept.items():
            run.memory.columns[name].copy_(tensor)
        run.memory.flags.copy_(flags)


class _Clock:
    """Times steps with random actions that are legal."""

    def __init__(self, run: Execution, seconds: float) -> None:
        self.run, self.seconds = run, seconds
        rows = run.num_worlds * run.program.agents.count
        self.mask = run.program.info.get("action_mask")
        masks = None if self.mask is None else lambda: run.memory.tensor(self.mask.name).reshape(rows, -1)
        self.actions = batches_of_actions(run.program.action_space, rows, _BATCHES, mask=masks, device=run.device)

    def _act(self, i: int) -> None:
        column = self.run.memory.tensor(self.run.program.action.name)
        column.copy_(self.actions[i % _BATCHES].view(column.shape))

    def steps(self, count: int) -> float:
        """Microseconds a step, without the choice of actions."""
        run, elapsed = self.run, 0.0
        each = 1 if self.mask is not None else min(8, count)
        for i in range(-(-count // each)):
            self._act(i)
            run.synchronize()
            if run.device.type == "cuda":
                began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                began.record(torch.cuda.current_stream(run.device))
                self._step(each)
                ended.record(torch.cuda.current_stream(run.device))
                ended.synchronize()
                elapsed += began.elapsed_time(ended) * 1e3
            else:
                started = time.perf_counter()
                self._step(each)
                elapsed += (time.perf_counter() - started) * 1e6
        return elapsed / (-(-count // each) * each)

    def _step(self, count: int) -> None:
        run = self.run
        for _ in range(count):
            try:
                result = run.step(run.memory.outputs.here())
            except KeyboardInterrupt:
                run.raise_if_stopped(after=_RESTORED)
                raise
            run.raise_errors(result, after=_RESTORED)

    def compare(self, choices: Sequence[Choice], share: float = 1.0) -> list[float]:
        """Microseconds a step of each choice: medians of several rounds, in each of which all have a turn.

        It takes about that share of the time.
        """
        counts, times = [], [[] for _ in choices]
        budget = share * self.seconds * 1e6 / (_ROUNDS * len(choices))
        for choice in choices:
            self.run.take(choice)
            self.steps(2)
            counts.append(max(1, int(budget / self.steps(4))))
        for _ in range(_ROUNDS):
            for i, choice in enumerate(choices):
                self.run.take(choice)
                self.steps(min(8, counts[i]))  # warm
                times[i].append(self.steps(counts[i]))
        return [statistics.median(values) for values in times]


def _report(
    run: Execution,
    clock: _Clock,
    present: Choice,
    choices: dict[Choice, float | None],
    tasks: Any = (),
    share: float = 1.0,
) -> TuneReport:
    """Measure all choices, and take the fastest if it is noticeably faster than the present one."""
    choices = {present: choices.pop(present, None), **choices}
    measured = dict(zip(choices, clock.compare(list(choices), share), strict=True))
    best = min(measured, key=lambda choice: measured[choice])
    if measured[present] < _NOTICEABLE * measured[best]:
        best = present
    candidates = [Candidate(choice, measured[choice], predicted) for choice, predicted in choices.items()]
    candidates.sort(key=lambda candidate: candidate.us_per_step)
    title = f"{run.program.environment.name}, {run.num_worlds} worlds"
    return TuneReport(title, best, measured[present], measured[best], tuple(candidates), tuple(tasks))


# ---- CPU -------------------------------------------------------------------------------------------------------------


def _tune_cpu(run: Execution, clock: _Clock) -> TuneReport:
    """Tiles of other sizes, other numbers of threads, and world after world."""
    present = run.choice()
    threads = sorted({1, present.threads, run.threads})
    choices = []
    for name in EXECUTORS["cpu"]:  # not what runs as Python: with systems in C++ it is as fast as per_world
        record = executors.find("cpu", name)
        tile = present.tile if present.executor == record.name else run.default_tile(record)
        for size in record.candidate_tiles(tile, run.num_worlds):
            choices += [Choice(record.name, size, n) for n in threads if size * n < run.num_worlds + size]
    return _report(run, clock, present, dict.fromkeys(choices))


# ---- CUDA ------------------------------------------------------------------------------------------------------------


def _tune_cuda(run: Execution, clock: _Clock) -> TuneReport:
    present = run.choice()
    tasks = step_tasks(run.program)
    everything = Group(0, len(tasks))
    graph, megakernel = (next(r for r in executors.of_device("cuda") if r.kernels == k) for k in ("many", "one"))
    tile = run.default_tile(graph)
    base = Choice(megakernel.name, tile, plan=(everything,))

    # How long each task takes with each register limit. Limits that the largest task does not need change nothing.
    times: dict[int, list[float]] = {}
    registers = 0
    for blocks in _PROFILED:
        choice = replace(base, plan=(replace(everything, blocks=blocks),))
        if times and 0 < registers <= REGISTERS[blocks]:
            times[blocks] = times[_PROFILED[0]]
        elif _builds(run, choice):
            whole = clock.steps(32)
            registers = run.registers()
            times[blocks] = [part * whole for part in _shares(run, clock, len(tasks))]

    singles = finest_plan(tasks)
    choices: dict[Choice, float | None] = {
        Choice(graph.name, tile, plan=singles): None,
        Choice(graph.name, tile, plan=default_plan(run.program, graph)): None,
        **{Choice(r.name, run.default_tile(r)): None for r in executors.of_device("cuda") if r.kernels is None},
    }
    if times:  # else all tasks together are too large for one kernel
        run.take(Choice(graph.name, tile, plan=singles))
        clock.steps(8)
        first = next(iter(times))
        launch = (clock.steps(32) - sum(times[first])) / max(1, len(singles) - 1)
        launch = min(max(launch, 0.5), 10.0)  # microseconds
        plan, predicted = choose_groups(times, launch, possible_cuts(tasks))
        best = min(times, key=lambda blocks: sum(times[blocks]))
        mega = replace(base, plan=(replace(everything, blocks=best),))
        choices[mega] = sum(times[best]) + launch
        if megakernel.joins:
            choices[replace(mega, together=True)] = None
        choices[Choice(graph.name, tile, plan=plan)] = predicted
    choices = {choice: predicted for choice, predicted in choices.items() if _builds(run, choice)}
    spent = clock.compare(list(choices), 0.5)
    fastest = min(zip(spent, choices, strict=True), key=lambda pair: pair[0])[1]
    if not fastest.together:
        for size in executors.find("cuda", fastest.executor).candidate_tiles(fastest.tile, run.num_worlds):
            choices.setdefault(replace(fastest, tile=size), None)
    profile = [
        (f"{task.node.name} ({task.phase})", {REGISTERS[blocks]: times[blocks][i] for blocks in times})
        for i, task in enumerate(tasks)
    ]
    return _report(run, clock, present, choices, profile, 0.5)


def _builds(run: Execution, choice: Choice) -> bool:
    """Take up a choice; False if it does not compile, as where a kernel needs more shared memory than there is."""
    try:
        run.take(choice)
    except BuildError:
        return False
    return True


def _shares(run: Execution, clock: _Clock, count: int) -> list[float]:
    """Each task's share of the time that blocks are at work."""
    with run.tracing(1 << 22) as trace:
        clock.steps(8)
    spent = np.bincount(trace.records["task"], weights=trace.end - trace.begin, minlength=count)
    return (spent / max(spent.sum(), 1e-9)).tolist()


# ---- keeping the choice ----------------------------------------------------------------------------------------------


def stored(run: Execution) -> Choice | None:
    """The choice that was made before for the same program, device and number of worlds; None if it is not whole."""
    pattern, found = f"{run.program.environment.name}_{run.device.type}_*.json", False
    with contextlib.suppress(OSError):  # nobody may look there: the build says so
        found = any(jit.cache_directory().glob(pattern))
    if not found:
        return None  # the path takes some milliseconds to find
    try:
        path = _path(run)
        entry = json.loads(path.read_text("utf-8"))
        if entry["format"] != _FORMAT:
            return None
        plan = entry["choice"].pop("plan")
        groups = None if plan is None else tuple(Group(**group) for group in plan)
        choice = Choice(**entry["choice"], plan=groups)
        _check(run, choice)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    jit.note_use(path)
    return choice


def _check(run: Execution, choice: Choice) -> None:
    """Raise ValueError or TypeError unless the choice can be taken up."""
    device = run.device.type
    if choice.executor not in EXECUTORS[device]:
        raise ValueError(f"{device} has no executor {choice.executor!r}")
    limits = ((choice.tile, MAX_TILE[device]), (choice.threads, run.threads))
    if any(type(value) is not int or not 1 <= value <= most for value, most in limits):
        raise ValueError(f"tile and threads are {choice.tile} and {choice.threads}")
    if type(choice.together) is not bool:
        raise TypeError(f"together is {choice.together!r}")
    if choice.plan is not None:
        check_plan(run.program, choice.plan)


def _store(run: Execution, choice: Choice) -> None:
    """Keep it with the builds. A cache that is read-only is no reason to fail."""
    with contextlib.suppress(OSError):
        path = _path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"format": _FORMAT, "choice": asdict(choice)}))
        part.replace(path)


def _path(run: Execution) -> Any:
    """Of the file for this program on this device with this number of worlds."""
    device = run.device.type
    parts = [generate(run.program, Target(device)), str(run.num_worlds), torch.__version__]
    parts += [*jit.compiler_flags(device, run.program.environment.fast_math), *jit.program_sources(run.program)]
    if device == "cuda":
        parts.append(torch.cuda.get_device_name(run.device))
    else:
        parts += [jit.processor(), str(run.threads)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    return jit.cache_directory() / f"{run.program.environment.name}_{device}_{digest}.json"
