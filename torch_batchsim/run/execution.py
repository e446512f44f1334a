"""Runs the steps of a simulator: its libraries, the executor in use with its tile and threads, errors, traces."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

import torch

from ..base import openmp
from ..base.shared import BLOCK_THREADS, ELEMENT_TYPES, StepResult, action_dtypes
from ..build import jit
from ..build.codegen import Target
from ..declare.run_options import RunOptions
from ..memory.memory import Memory
from ..memory.outputs import OutputSet
from ..memory.streams import current_handle, is_capturing
from ..resolve.executors import EXECUTORS, Executor, Workload
from ..resolve.program import Program
from ..resolve.schedule import BLOCKS, Plan, step_tasks
from . import crew, faults, interrupts, step_call
from .python_executor import PythonExecutor
from .step_call import StepCall
from .trace import RECORD, TaskInfo, Trace

REGISTERS = {blocks: min(255, 65536 // (BLOCK_THREADS * blocks)) for blocks in BLOCKS}  # of a thread
_THREAD_BYTES = 48 * 1024  # of columns for one thread at least: below, waking it costs more than it saves
_HOT = 256  # bytes of a world's column that is gone through in each step, mostly; larger ones are tables to look into

ANOTHER_THREAD = (
    "another thread is stepping, resetting, saving or loading these worlds: take turns, or give each thread an "
    "environment of its own"
)

Loader = Callable[[Target], Any]  # jit.Library, or jit.InsideLibrary


@dataclass(frozen=True)
class Choice:
    """How a step is run."""

    executor: str
    tile: int  # worlds
    threads: int = 1  # on CPU; 1 on CUDA
    together: bool = False  # megakernel: all blocks go through the tasks together
    plan: Plan | None = None

    def target(self, device: str) -> Target:
        """The library that runs it on a kind of device."""
        return Target(device, self.executor, self.plan)

    def __str__(self) -> str:
        parts = [self.executor]
        if self.plan is not None:
            limits = sorted({REGISTERS[group.blocks] for group in self.plan})
            kernels = f"{len(self.plan)} kernel{'s' if len(self.plan) > 1 else ''}"
            parts.append(f"{kernels} of at most {'/'.join(map(str, limits))} registers")
        tiles = f"tiles of {self.tile} world{'s' if self.tile > 1 else ''}"
        parts.append("all blocks together" if self.together else tiles)
        if self.executor in EXECUTORS["cpu"] and self.plan is None:
            parts.append(f"{self.threads} thread{'s' if self.threads > 1 else ''}")
        return ", ".join(parts)


class Execution:
    """Runs the steps of the worlds in ``memory``.

    Args:
        memory: of the worlds; laid out for ``target``'s kind of device.
        target: of the library that runs until another is chosen.
        options: how the simulator runs, closed for the device.

    ``with execution:`` keeps other threads out, which get a RuntimeError, and raises the error of a step that Ctrl-C
    has stopped.

    Attributes:
        token: a list of one item, which the thread that uses the worlds has taken: to take it is one operation of the
            interpreter. ``csrc/host/step_call.cpp`` takes it too.
        why_taken: why another call has to wait.
        has_begun: whether all worlds are in an episode.
        was_stopped: whether the last step or reset was stopped, which has left worlds undefined.
    """

    def __init__(self, program: Program, memory: Memory, target: Target, options: RunOptions) -> None:
        self.program, self.memory, self.num_threads = program, memory, options.num_threads
        self.device, self.num_worlds = memory.device, memory.num_worlds
        self._first_target = target
        self._load: Loader = options._loader or partial(_build, program, memory.device)
        built = options._library
        self._libraries: dict[Target, Any] = {} if built is None else {built.target: built}
        self._context_address = ctypes.addressof(memory.context)
        self._close: weakref.finalize | None = None
        self._most_threads = 1
        self._team = -1  # torch's threads, as they were last seen
        self._forks = openmp.forks  # of this process, likewise
        self.library: jit.Library | None = None
        self.step_call: StepCall = step_call.never
        self.token, self.why_taken = [None], ANOTHER_THREAD
        self.has_begun = self.was_stopped = False
        self.watch: interrupts.Watch | None = None
        self.python: PythonExecutor | None = None
        self._last_python: PythonExecutor | None = None
        self._watchdog = options.watchdog

    # ---- library and executor ----------------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """Of the present library."""
        return self._first_target if self.library is None else self.library.target

    def choice(self) -> Choice:
        """How steps are run at present."""
        context, target = self.memory.context, self.target
        together = target.cuda and bool(context.together)
        return Choice(target.executor_name, context.tile, context.num_threads, together, target.plan)

    def default_choice(self) -> Choice:
        """Before anything has been measured."""
        target = self._first_target
        record, load = target.record, self.workload()
        tile, together = record.default_tile(load), record.joined_by_default(load)
        return Choice(record.name, tile, self.useful_threads(), together, target.plan)

    def take(self, choice: Choice) -> None:
        """Run steps so from now on. Raises BuildError, with nothing changed, if its library does not compile."""
        target = choice.target(self._first_target.device)
        target = replace(target, executor=target.executor_name)
        if self.library is None or target != self.library.target:
            self._use(self._library_of(target))
        context = self.memory.context
        context.tile = choice.tile
        if target.cuda:
            context.together, context.num_threads = int(choice.together), choice.threads
            return
        # A choice of all present threads stands for all later ones too.
        self._most_threads = choice.threads
        if choice.threads >= self.threads:
            self._most_threads = max(choice.threads, self._worthwhile_threads())
        self._use_threads(torch.get_num_threads())

    @property
    def threads(self) -> int:
        """Those that a step may use at present: ``num_threads``, or as many as torch does; 1 where a fork left them."""
        if self.memory.cuda or openmp.lone or self.target.in_python:
            return 1
        return self.num_threads or torch.get_num_threads()

    def _follow_torch(self) -> None:
        """Before each step: its threads may be others, this process forked, or memory moved."""
        if self.memory.lent:
            self.memory.follow_lent()
        if not self.memory.cuda and (torch.get_num_threads() != self._team or openmp.forks != self._forks):
            openmp.check_team()
            self._use_threads(torch.get_num_threads())
            self._forks = openmp.forks
            if self.watch is not None:
                self.watch.refresh()

    def _use_threads(self, team: int) -> None:
        """Let steps begin with a team of so many threads, and work with those that are allowed and useful."""
        self._team = self.memory.context.team = 1 if openmp.lone else team
        self.memory.context.num_threads = min(self._most_threads, self.threads)

    def _library_of(self, target: Target) -> Any:
        library = self._libraries.get(target)
        if library is None:
            library = self._libraries[target] = self._load(target)
        return library

    def _use(self, library: jit.Library) -> None:
        """Step with ``library`` from now on: all of one kind of device share the layout of memory."""
        if ctypes.sizeof(self.memory.context) != library.context_size:
            raise AssertionError("the context of Python and C++ differ in size")
        if library.target.in_python and (self._last_python is None or self._last_python.library is not library):
            self._last_python = PythonExecutor(self.program, library)  # once: it stands around the library's calls
        self.python = self._last_python if library.target.in_python else None
        if self.python is not None:  # Ctrl-C raises in the system
            self.watch, self.memory.context.watch = None, None
            self.memory.context.share_out = crew.share_out()
        elif self.watch is None and not self.memory.cuda:  # its module compiles beside the first library
            self.watch = interrupts.Watch(self.program, self._watchdog)
            self.memory.context.watch = self.watch.address
            self.memory.context.share_out = crew.share_out()
        self.memory.make_room_for(library.target.executor_name)
        if self._close is not None:
            self._close()
        self.library = library
        self._handle = library.open()
        self._close = weakref.finalize(self, library.close, self._handle)
        self.step_call = self._step_call(library)

    def _step_call(self, library: jit.Library) -> StepCall:
        memory, address = self.memory, self._context_address
        team = 0 if memory.cuda else address + type(memory.context).team.offset
        function = library.act_and_step_address
        if function is None or self.python is not None:
            return step_call.never
        shape = self.program.action_shape(self.num_worlds)
        flags, stream = memory.flags.data_ptr(), memory.streams.address if self.device.type == "cuda" else 0
        dtypes = action_dtypes(self.program.action.dtype)
        addresses = self._handle, address, flags, team, stream
        return step_call.make(function, *addresses, self.token, memory.lent, shape, dtypes, self.device)

    def useful_threads(self) -> int:
        """Those of the threads that there are which have enough to do to be worth waking."""
        return min(self.threads, self._worthwhile_threads())

    def _worthwhile_threads(self) -> int:
        return max(1, self.num_worlds * self.memory.bytes_of_world() // _THREAD_BYTES)

    def workload(self) -> Workload:
        """What an executor chooses its tile by."""
        rows = max(archetype.capacity or archetype.count for archetype in self.program.archetypes)
        workers = self.multiprocessors() if self.memory.cuda else self.useful_threads()
        hot = self.memory.bytes_of_world(_HOT)
        return Workload(self.num_worlds, self.program.agents.count, rows, hot, workers)

    def default_tile(self, record: Executor) -> int:
        """Worlds in a tile, before anything has been measured."""
        return record.default_tile(self.workload())

    def multiprocessors(self) -> int:
        """Of the device; of an emulated one, a few."""
        if self.device.type == "cpu":
            return 4
        return torch.cuda.get_device_properties(self.device).multi_processor_count

    def registers(self) -> int:
        """Registers of a thread in the largest kernel of a step; 0 on CPU."""
        return self.library.registers(self._context_address)

    # ---- running -----------------------------------------------------------------------------------------------------

    def step(self, to: OutputSet) -> int:
        """A step whose outputs go to ``to``: a ``StepResult``."""
        self._follow_torch()
        return self.library.step(self._handle, self._context_address, to.address, self.stream())

    def act_and_step(self, actions: torch.Tensor, to: OutputSet) -> int:
        """A step with actions: a ``StepResult``, or from 0 on the first illegal element; nothing has changed then."""
        self._follow_torch()
        return self.library.act_and_step(
            self._handle,
            self._context_address,
            to.address,
            actions.data_ptr(),
            ELEMENT_TYPES[actions.dtype],
            self.stream(),
        )

    def reset(self, mask: torch.Tensor, to: OutputSet) -> int:
        """Begin episodes where the bool ``mask [worlds]`` is set: as ``step`` returns."""
        self._follow_torch()
        return self.library.reset(self._handle, self._context_address, to.address, mask.data_ptr(), self.stream())

    def run_nodes(self, nodes: Iterable[tuple[int, int]], worlds: torch.Tensor, to: OutputSet) -> None:
        """Run nodes one after the other, in a library of its own, which is built at the first call.

        Args:
            nodes: numbers (``schedule.inside_nodes``), each with that of its repetition.
            worlds: bool ``[worlds]``, those for which they run.

        Raises BuildError, torch.cuda.CudaError, and the error of a node that was stopped; later ones have not run then.
        """
        self._follow_torch()
        library = self._library_of(Target(self._first_target.device, "per_world", inside=True))
        self.memory.make_room_for("per_world")
        for number, repetition in nodes:
            given = (self._context_address, to.address, number, repetition, worlds.data_ptr(), self.stream())
            try:
                result = library.run_node(*given)
            except KeyboardInterrupt:
                self.raise_if_stopped(alone=True)
                raise
            self.raise_errors(result, alone=True)

    # ---- errors ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        try:
            self.token.pop()
        except IndexError:
            raise RuntimeError(self.why_taken) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is KeyboardInterrupt:
                self.raise_if_stopped()
        finally:
            self.token.append(None)

    def raise_errors(
        self, result: int, *, stepped: bool | None = None, alone: bool = False, after: str | None = None
    ) -> None:
        """Raise the error that a ``StepResult`` stands for: a stop, a CUDA error, or faults.

        Args:
            stepped: whether the worlds without faults have taken a step; None leaves faults to a later call.
            alone, after: see ``raise_if_stopped``.
        """
        if self.python is not None and self.python.has_raised:
            self.has_begun, self.was_stopped = False, True
            self.memory.drop_half_done()
            self.python.raise_error()
        if result == StepResult.stopped:
            self.raise_if_stopped(alone=alone, after=after)
        if result <= StepResult.cuda_error:
            raise torch.cuda.CudaError(StepResult.cuda_error - result)
        if result == StepResult.faults and stepped is not None:
            self.raise_faults(stepped)

    def check_not_stopped(self) -> None:
        """Raise RuntimeError where worlds are undefined."""
        if self.was_stopped:
            raise RuntimeError(
                "the last step or reset was stopped, and its worlds were left in the midst of it: call reset() of all "
                "worlds, or load_state_dict()"
            )

    def check_begun(self, what: str) -> None:
        """Raise RuntimeError where ``what`` has to wait for a reset."""
        self.check_not_stopped()
        if not self.has_begun:
            raise RuntimeError(f"call reset() before {what}()")

    def raise_faults(self, stepped: bool = False) -> None:
        """Raise ``WorldFault`` if systems have reported faults since the last look. Waits for the device."""
        self.synchronize()
        faults.raise_faults(self.program, self.memory, stepped)

    def raise_if_stopped(self, *, alone: bool = False, after: str | None = None) -> None:
        """Raise the error that says where the last step or reset was stopped, if it was.

        Args:
            alone: it was a system that ran alone.
            after: how the caller leaves the worlds; without, they are undefined from now on.
        """
        if self.watch is None or not self.watch.was_stopped():
            return
        error = self.watch.error(self.memory.columns["step"], alone=alone, after=after)
        if after is None:
            self.has_begun, self.was_stopped = False, True
            self.memory.drop_half_done()
        raise error from None

    def synchronize(self) -> None:
        """Wait for the device. Raises RuntimeError while a CUDA graph is captured."""
        if is_capturing(self.device):
            raise RuntimeError("this waits for the device, which cannot be captured in a CUDA graph: do it outside")
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def stream(self) -> int | None:
        """The handle of torch's current stream, on which the memory of all worlds is used from now on; None on CPU."""
        if self.device.type != "cuda":
            return None
        handle = current_handle(self.device)
        self.memory.streams.note(handle, self.device, self.memory.used)
        return handle

    # ---- one world in Python ----------------------------------------------------------------------------------------

    @contextmanager
    def debugging(self, world: int) -> Iterator[None]:
        """See ``Simulator.debug``."""
        with self:
            before = self.choice()
            self.take(Choice("python", Target("cpu", "python").record.default_tile(self.workload())))
        assert self.python is not None
        self.python.world = world
        try:
            yield
        finally:
            with self:
                self.python.world = -1
                self.take(before)

    # ---- traces ------------------------------------------------------------------------------------------------------

    @contextmanager
    def tracing(self, capacity: int) -> Iterator[Trace]:
        """See ``Simulator.tracing``."""
        untraced = self.library
        if untraced.target.traced:
            raise RuntimeError("this simulator is being traced already")
        traced = self._load(replace(untraced.target, traced=True))
        on_cuda = self.device.type == "cuda"
        tasks = [TaskInfo(t.node.name, t.phase, t.node.engine) for t in step_tasks(self.program)]
        trace = Trace(
            None,
            tasks,
            unit="SM" if traced.target.cuda else "thread",
            title=f"{self.program.environment.name}, {self.num_worlds} worlds, {traced.target.executor_name}",
            num_units=self.multiprocessors() if on_cuda else 0,
        )
        records = torch.zeros(capacity * RECORD.itemsize, dtype=torch.uint8, device=self.device)
        taken = torch.zeros(1, dtype=torch.int32, device=self.device)
        counter = _StepCounter(traced, taken)
        buffer = self.memory.context.trace
        self._use(traced)
        buffer.records, buffer.taken, buffer.capacity = records.data_ptr(), taken.data_ptr(), capacity

        def restart() -> None:
            counter.steps = 0
            counter.marks.clear()
            taken.zero_()

        trace.restart, ended = restart, trace.restart
        try:
            yield trace
        finally:
            trace.restart = ended
            try:
                self.synchronize()
            finally:  # also where a capture forbids to wait
                buffer.records = buffer.taken = None
                buffer.capacity = 0
                self._use(untraced)
            count = int(taken) & 0xFFFFFFFF
            kept = records[: min(count, capacity) * RECORD.itemsize].cpu().numpy().view(RECORD)
            trace.fill(kept, counter.steps, max(0, count - capacity), counter.read())  # after an error too


class _StepCounter:
    """Counts the steps that a library takes from now on, without steps whose actions it refuses."""

    def __init__(self, library: jit.Library, taken: torch.Tensor) -> None:
        self.steps, self.taken = 0, taken
        self.marks: list[torch.Tensor] = []  # records so far, before and after each step; on CUDA not read yet
        library.act_and_step_address = None  # no way round this counter
        library.step = partial(self._counted, library.step)
        library.act_and_step = partial(self._counted, library.act_and_step)

    def _counted(self, call: Callable[..., int], *arguments: Any) -> int:
        before = self.taken.clone()
        result = call(*arguments)
        if result < 0:
            self.steps += 1
            self.marks += [before, self.taken.clone()]
        return result

    def read(self) -> list[tuple[int, int]]:
        """How many records there were before and after each step."""
        counts = [mark & 0xFFFFFFFF for mark in torch.cat(self.marks).tolist()] if self.marks else []
        return list(zip(counts[::2], counts[1::2], strict=True))


def _build(program: Program, device: torch.device, target: Target) -> Any:
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        return jit.load_inside(program, target) if target.inside else jit.load(program, target)
