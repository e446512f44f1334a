"""The simulator: all worlds of one environment in torch tensors, stepped in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TextIO, TypeVar

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from ..base import openmp
from ..base.modes import in_plain_torch, not_compiled, plain_torch
from ..base.names import suggestion
from ..base.shared import AUTORESET, StepResult
from ..build.codegen import Target
from ..declare.environment import Environment, FixedOptions, check_instance
from ..declare.run_options import RunKeywords, RunOptions
from ..errors import raised_briefly
from ..memory import holding, state
from ..memory.entities import Entities
from ..memory.inputs import (
    checked_autoreset,
    checked_count,
    checked_device,
    checked_mask,
    checked_seed,
    checked_worlds,
)
from ..memory.memory import Memory
from ..memory.reset_options import reset_options, reset_values, write_rows
from ..memory.streams import is_capturing
from ..memory.table_view import TableView
from ..memory.tables import Ragged
from ..resolve.graph import Graph
from ..resolve.program import Program
from . import tuning
from .changes import Changes, Mark
from .execution import Execution
from .inside import InsideStep, SystemRun
from .inspection import Inspection
from .leftovers import CheckedExecution
from .logs import Logs
from .trace import Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

_P, _R = ParamSpec("_P"), TypeVar("_R")
_DONE = int(StepResult.done)  # attributes of an enumeration take longer to read


def _alone(method: Callable[Concatenate[Simulator, _P], _R]) -> Callable[Concatenate[Simulator, _P], _R]:
    """Refuse the call while another thread is in one of these."""

    @wraps(method)
    def guarded(self: Simulator, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        openmp.check_team()
        with self.execution, plain_torch():
            return method(self, *args, **kwargs)

    return guarded


@not_compiled
class Simulator(FixedOptions):
    """``num_worlds`` worlds of ``environment`` on ``device``.

    Args:
        environment: the declaration, options included.
        num_worlds: at least 1.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        autoreset: what happens to worlds whose episode has ended (see ``step``).
        keep_final: keep observations and infos at the end of an episode (``SAME_STEP`` only) as ``final`` tensors.
        output_sets: 1, or 2 that take turns, so that outputs of a step stay until the step after the next one (see
            ``Outputs``): what ``observe`` writes then lies elsewhere after each step.
        **run: how it runs: ``executor``, ``num_threads``, ``checks`` and so on, see ``declare.run_options.RunOptions``.

    Raises:
        SchemaError: the environment contradicts itself.
        BuildError: its systems do not compile.
        ValueError, TypeError: a wrong argument.
        RuntimeError: the device is missing.

    Tensors from ``tensor`` alias the simulator's memory: read and write them between steps.

    Attributes:
        layout: goes up whenever ``step``, ``reset``, ``create``, ``load_state_dict`` or ``copy_worlds`` has moved
            dynamic tables to other memory: their tensors must then be asked for again. (Old ones stay as they were.)
    """

    @raised_briefly
    @in_plain_torch
    def __init__(
        self,
        environment: Environment,
        num_worlds: int,
        device: str | torch.device = "cpu",
        *,
        autoreset: AutoresetMode = AutoresetMode.SAME_STEP,
        keep_final: bool = True,
        output_sets: int = 1,
        **run: Unpack[RunKeywords],
    ) -> None:
        openmp.check_team()
        options = RunOptions.of(run, Simulator)
        check_instance(environment)
        self.device = checked_device(device)
        self.num_worlds = checked_count(num_worlds, "num_worlds")
        self.autoreset = checked_autoreset(autoreset)
        self.environment = environment
        self.run_options = options = options.closed(self.device, self.num_worlds)
        self.first_world, library = options.first_world, options._library
        self.program = Program(environment, options.checks or None, int(options.log or 0))
        reset_options(self.program)  # raises now what a reset would raise
        target = Target(self.device.type, options.executor) if library is None else library.target
        if target.in_python and options.checks:
            raise ValueError(
                "checks instruments C++, and executor='python' raises for wrong indices by itself: leave one out"
            )
        self.memory = Memory(
            self.program,
            self.num_worlds,
            self.device,
            cuda=target.cuda,
            keep_final=keep_final and self.autoreset is AutoresetMode.SAME_STEP,
            autoreset=AUTORESET[self.autoreset],
            output_sets=checked_count(output_sets, "output_sets", 2),
        )
        self.memory.context.first_world = self.first_world
        kind = CheckedExecution if options.checks else Execution
        self.execution = kind(self.program, self.memory, target, options)
        self._entities = Entities(self.program, self.memory)
        self._inspection = Inspection(self.program, self.memory, self.execution, self._entities)
        self._free = options.executor is None and library is None  # to take up a choice of ``tune``
        choice = tuning.stored(self.execution) if self._free else None
        self.execution.take(choice or self.execution.default_choice())
        self.reseed(None)
        self._fix_options(environment, readable=False)  # its names are those of tables

    @property
    def executor(self) -> str:
        """The name of the executor."""
        return self.execution.target.executor_name

    @property
    def layout(self) -> int:
        """Goes up whenever dynamic tables have moved, see ``Simulator``."""
        return self.memory.layout

    @property
    def may_grow(self) -> bool:
        """Whether a dynamic table may become larger than it is at first, and so move (``Archetype``'s ``limit``)."""
        return any(archetype.limit != archetype.capacity for archetype in self.program.dynamic)

    # ---- tensors -----------------------------------------------------------------------------------------------------

    @in_plain_torch
    def tensor(self, name: str) -> torch.Tensor:
        """A view of a column or field, without a copy.

        - ``"Cart.CartState.x"``: ``[worlds, rows, ...]``; ``"Cart.CartState"`` (all fields of one type):
          ``[worlds, rows, fields]``; a singleton's ``"Clock.time"``: ``[worlds, ...]``; a resource's
          ``"Levels.walls"``: ``[...]``, for all worlds; of a dynamic table: ``[slots, ...]``, rows of all worlds and
          free slots, see ``ragged``.
        - ``"final.Cart.CartState"``: an observation or info as it was when the row's last episode ended (with SAME_STEP
          and ``keep_final``).
        - ``"World.step"``, ``"World.episode"``, ``"World.terminated"``, ``"World.truncated"``: ``[worlds]``.
        - ``"Agents.terminated"``, ``"Agents.truncated"``, ``"Agents.done"`` (either): ``[worlds, agents]``.

        Raises KeyError for an unknown name and TypeError for a component whose fields have different types.
        After ``bind`` ask again: a view made before stays with the old memory. So it is with a dynamic table when it
        grows, which ``layout`` counts.
        """
        return self.memory.lend(name)

    @in_plain_torch
    def bind(self, name: str, tensor: torch.Tensor) -> None:
        """Let a whole column live in ``tensor``, or an output be written there.

        Args:
            name: as in ``tensor``: a component whose fields have one type (or its only field), ``"output...."``,
                ``"final...."``, ``"World.terminated"``, ``"World.truncated"``, or ``"Agents...."``.
            tensor: contiguous, on the simulator's device, of the column's dtype and its shape or ``[rows, ...]``.

        State moves to ``tensor`` at once. An output (reward, flags, final values, ``"output...."``) is written there by
        the next step or reset, and stays where it was until then: nothing is copied. The simulator keeps a reference.
        Raises KeyError, TypeError or ValueError before anything has changed.
        """
        self.memory.bind({name: tensor})

    @property
    def graph(self) -> Graph:
        """The task graphs and what systems read and write: ``print(sim.graph)``, ``sim.graph.draw("graph.svg")``."""
        return Graph(self.program)

    def __getattr__(self, name: str) -> TableView:
        program = self.__dict__.get("program")
        if program is not None and program.is_prefix(name):
            return TableView(self.memory, name)
        near = ""
        if program is not None and not name.startswith("_"):
            near = suggestion(name, [*(column.partition(".")[0] for column in program.columns), *dir(type(self))])
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{near}")

    # ---- dynamic tables ----------------------------------------------------------------------------------------------

    def ragged(self, name: str) -> Ragged:
        """The rows of every world in a column or field of a dynamic table, such as ``"Bullet.Place.x"``.

        Raises KeyError for an unknown name, TypeError as ``tensor`` does, ValueError if the table is not dynamic.
        """
        return self._entities.ragged(name)

    def entities(self, table: str) -> Ragged | torch.Tensor:
        """The handles of all rows of an archetype (a copy): what systems see as ``Entity``.

        Of a dynamic table int32 ``[slots, 4]`` as ``Ragged``, of a fixed one a tensor int32 ``[worlds, rows, 4]``.
        Raises ValueError for another name, and for a fixed table where no system uses handles.
        """
        return self._entities.handles(table)

    def find(self, worlds: Any, entities: torch.Tensor) -> torch.Tensor:
        """Where the rows that ``entities [k, 4]`` mean are among the rows of ``worlds [k]``: int64 ``[k]``.

        -1 for handles of rows that are no more, or of another world, episode or simulator of another seed. A handle
        names seed, world, episode and when in it the row was created: where an episode is run twice (another simulator
        of the same seed, the same seed again, a state loaded, a world copied), what was created at the same moment is
        the same entity.
        """
        return self._entities.find(worlds, entities)

    @_alone
    def create(self, table: str, worlds: Any, values: Mapping[str, Any] | None = None) -> torch.Tensor:
        """Create a row of a dynamic table in each of ``worlds [k]`` (one may come several times), between steps.

        Args:
            values: what to write, by name: ``{"Place.x": tensor [k], "Motion": tensor [k, fields]}`` or numbers; the
                rest is zero.

        Returns the handles, int32 ``[k, 4]``. The table grows if it must. Raises before anything has changed:
        RuntimeError before the first reset, KeyError, TypeError, ValueError (a world that has ended and awaits its
        reset, which would drop the row; more rows than the table's limit; a number that a field cannot hold).
        """
        self.execution.check_not_stopped()
        return self._entities.create(table, worlds, values, self.execution.has_begun)

    @_alone
    def destroy(self, worlds: Any, entities: torch.Tensor) -> None:
        """Destroy the rows of dynamic tables that ``entities [k, 4]`` mean in ``worlds [k]``, between steps.

        Raises ValueError, with nothing changed, if a handle means no row (see ``find``) or a row is named twice;
        RuntimeError after a step that was stopped.
        """
        self.execution.check_not_stopped()
        self._entities.destroy(worlds, entities)

    # ---- running -----------------------------------------------------------------------------------------------------

    @in_plain_torch
    def reseed(self, seed: int | None, mask: torch.Tensor | None = None) -> None:
        """Give worlds (all, or those of the bool ``mask [worlds]``) a new seed; ``None`` takes one from the system.

        Their next ``reset`` begins episode 0. A world's random numbers depend on (seed, world, episode) only, where
        worlds count from ``first_world``.
        """
        seed = checked_seed(seed)
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        bits = seed - 2**64 if seed >= 2**63 else seed
        engine = self.memory.columns
        first, end = self.first_world, self.first_world + self.num_worlds
        if mask is None:
            engine["seed"].fill_(bits)
            torch.arange(first, end, dtype=torch.int32, out=engine["stream"])
            engine["episode"].fill_(-1)
        else:
            mask = self._checked_mask(mask)
            engine["seed"].masked_fill_(mask, bits)
            worlds = torch.arange(first, end, dtype=torch.int32, device=self.device)
            engine["stream"].copy_(torch.where(mask, worlds, engine["stream"]))
            engine["episode"].masked_fill_(mask, -1)

    @_alone
    def reset(
        self,
        mask: torch.Tensor | np.ndarray | None = None,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Let worlds begin a new episode: all, or those of the bool ``mask [worlds]``. The others stay as they are.

        With ``seed`` those worlds are seeded first. The first reset must be of all worlds. ``options``: what the
        environment takes as ``reset_options``: tensors, arrays, lists or numbers, for all worlds alike or ``[worlds,
        ...]``; rows of other worlds do not count. They are for the episodes that begin now, and precede those that
        are held (see ``hold``). ValueError or TypeError is raised before anything has changed.
        """
        if mask is not None:
            mask = self._checked_mask(mask)
            if not self.execution.has_begun:
                self.execution.check_not_stopped()
                raise RuntimeError("the first reset must be of all worlds; call reset() without a mask")
        seed = checked_seed(seed)
        values = reset_values(self.program, self.memory, options, mask) if options else {}
        if self.memory.crowded_flag[0]:
            self._entities.grow()  # which a capture forbids, before anything has changed
        self.memory.outputs.mend()
        for name, (worlds, value) in values.items():
            write_rows(self.tensor(name), worlds, value)
        if seed is not None:
            self.reseed(seed, mask)
        whole = mask is None
        if whole:
            mask = torch.ones(self.num_worlds, dtype=torch.bool, device=self.device)
        to, run = self.memory.outputs.for_reset(whole), self.execution
        with holding.given_for_once(self.program, self.memory, values):
            result = run.reset(mask, to)
        if result == StepResult.stopped:
            run.raise_errors(result)
        self.memory.outputs.advance(to)
        run.was_stopped = False
        run.has_begun = True  # also where systems report faults, so that the faulty worlds can be reset alone
        run.raise_errors(result, stepped=False)

    @_alone
    def hold(
        self, options: Mapping[str, Any] | None, mask: torch.Tensor | np.ndarray | None = None
    ) -> None:
        """Let all later episodes of worlds (all, or those of the bool ``mask [worlds]``) begin with ``options``.

        Episodes under way go on as they are. The next ones find these values however they begin: by autoreset, or by a
        ``reset`` that gives no others. ``hold`` replaces what was held before; ``None`` or ``{}`` releases it. It is
        part of ``state_dict`` and copied by ``copy_worlds``.

        ``options`` are as for ``reset``. Raises ValueError or TypeError before anything has changed.
        """
        mask = None if mask is None else self._checked_mask(mask)
        values = reset_values(self.program, self.memory, options, mask)
        worlds = torch.arange(self.num_worlds, device=self.device)
        holding.hold(self.program, self.memory, values, worlds if mask is None else worlds[mask])

    def step(self, actions: None = None) -> None:
        """Advance every world by one step with the actions that its action column holds.

        To write actions, assign ``sim.tensor(name)[...] = actions``, or use ``step`` of a vector environment.

        Worlds that end are treated as ``autoreset`` says: SAME_STEP begins the next episode within this step (state and
        observations are then the new one's, flags and rewards the old one's, ``final`` tensors the last observation);
        NEXT_STEP does so in the next step, which ignores the world's action; with DISABLED the world stands still, its
        flags set and its reward 0, until it is reset.

        On CPU faults of systems raise ``WorldFault`` here; on CUDA nothing waits for the device, and a fault raises at
        a later ``step`` or at ``check_faults``. Unlike the vector environment, this does not check the actions.

        While a CUDA graph is captured, faults wait for a step outside of the capture, and RuntimeError is raised where
        a dynamic table has to grow.
        """
        if actions is not None:
            raise TypeError(
                "step() of a simulator takes no actions: write them before, "
                f"sim.tensor({self.environment.action!r})[...] = actions of shape [worlds, rows, ...], or make a "
                "vector environment, whose step(actions) takes them"
            )
        run, memory, outputs = self.execution, self.memory, self.memory.outputs
        if memory.fault_flag[0] or not run.has_begun:
            self._check_ready("step")
        with run:
            if memory.crowded_flag[0]:
                self._entities.grow()  # which a capture forbids
            if outputs.next.movable or outputs.next.packed:
                outputs.mend()
            to = outputs.next
            result = run.step(to)
            outputs.advance(to)
        if result != _DONE:
            run.raise_errors(result, stepped=True)

    def act_and_step(self, actions: torch.Tensor) -> int:
        """Check ``actions`` (contiguous, right device and shape), write them into the action column, and ``step``.

        Returns ``StepResult.done``, or on CPU the index, from 0 on, of the first element that is not in the action
        space; then no world has stepped.
        """
        run, memory, outputs = self.execution, self.memory, self.memory.outputs
        if memory.fault_flag[0] or not run.has_begun:
            self._check_ready("act_and_step")
        with run:
            if memory.crowded_flag[0]:
                self._entities.grow()  # which a capture forbids
            if outputs.next.movable or outputs.next.packed:
                outputs.mend()
            to = outputs.next
            result = run.act_and_step(actions, to)
            if result < 0:
                outputs.advance(to)
        if result < _DONE:
            run.raise_errors(result, stepped=True)
        return result

    def _check_ready(self, what: str) -> None:
        """Raise where there was no reset, and faults that wait, except while a CUDA graph is captured."""
        self.execution.check_begun(what)
        if self.memory.fault_flag[0] and not is_capturing(self.device):
            self.check_faults()

    def step_plainly(self, actions: Any) -> bool:
        """``act_and_step`` in one short call, if ``actions`` are an ordinary tensor and nothing else is to be seen to.

        Returns False where a closer look is needed; then nothing has changed.
        """
        run, outputs = self.execution, self.memory.outputs
        if not run.has_begun:
            return False
        to = outputs.next
        try:
            result = run.step_call(actions, to.address, to.movable, to.packed)
        except KeyboardInterrupt:
            run.raise_if_stopped()
            raise
        if result == _DONE:
            outputs.advance(to)
            return True
        if result >= 0 or result == StepResult.closer_look:
            return False
        outputs.advance(to)
        run.raise_errors(result, stepped=True)
        return True

    def check_faults(self) -> None:
        """Raise ``WorldFault`` if systems have reported faults since the last look.

        On CUDA it waits for the device, and raises RuntimeError while a CUDA graph is captured.
        """
        self.execution.raise_faults()

    # ---- one system at a time, its logs, its changes -----------------------------------------------------------------

    @in_plain_torch
    def run(
        self, systems: Any, worlds: Any = None, *, graph: str | None = None, repetition: int | None = None
    ) -> list[SystemRun]:
        """Run one system, or several one after the other, for all rows of some worlds, and nothing else.

        The worlds are taken as they are: no step is counted, no reward zeroed, no episode ended or begun, and no
        observation delivered (see ``observe``). Random numbers are those that the system draws in the present step of
        a world. The first call builds a library of its own. Within ``inside_step`` this is a part of the step.

        Args:
            systems: a name, a fragment (``TaskGraph``, ``Repeat``), or a list of these.
            worlds: a number, numbers ``[k]``, or a bool mask ``[worlds]``; all by default.
            graph: in which the systems are: ``"step"``, ``"start"`` or ``"observe"``; by default the first of these
                that has them.
            repetition: which of its runs in the graph, from 0, where a system runs several times: in a ``Repeat``, or
                named again. It decides about ``world.repetition()`` and random numbers. By default each naming is the
                next one, from the first; within ``inside_step`` the first that has not run in all of these worlds.

        Returns the runs in order.

        Raises WorldFault for faults of these systems (within ``inside_step`` at its end); RuntimeError before the first
        reset or while a CUDA graph is captured; TypeError and ValueError, before anything has run. Ctrl-C, a watchdog
        and crashes stop it as they stop a step.
        """
        return self._inspection.run(systems, worlds, graph, repetition)

    @in_plain_torch
    def observe(self, worlds: Any = None) -> None:
        """Run ``observe``, and deliver observations and infos as they are now: after state was written, say.

        They go where the last step or reset has put its own: what that returned shows them too. Flags and rewards stay.
        ``worlds`` and errors are as of ``run``.
        """
        self._inspection.observe(worlds)

    def inside_step(self, actions: Any = None) -> AbstractContextManager[InsideStep]:
        """A step of all worlds that runs system after system, as the with-block asks for them.

        It begins as every step does; then ``run`` runs systems of it, for all or some worlds. At its end what has not
        run yet runs in the graph's order, and the step ends as ``step`` does: episodes end and begin, observations are
        delivered, faults raise. Where systems ran in the order of the graph, the results are those of ``step``, to the
        bit::

            with sim.inside_step(actions) as step:
                sim.run("move_paddle")
                sim.mark()
                for system in step:  # the others, one after the other
                    print(system, sim.diff(world=3))
                    sim.mark()

        Args:
            actions: as for the vector environment's ``step``; by default the values of the action column.

        After an exception in the with-block the worlds are in the midst of a step: reset them, or load a state. Other
        calls that change worlds are refused until the block has ended. Raises RuntimeError within another one.
        """
        return self._inspection.inside_step(actions)

    def logs(self, worlds: Any = None, *, clear: bool = True) -> Logs:
        """The lines that systems noted by ``world.log(label, value)`` since the last call: a sequence of ``LogLine``.

        World after world, each in the order of steps, systems, rows and calls, whatever the executor and the number of
        threads. Of each world as many lines are kept as ``log=`` says; ``dropped`` of the result counts the others. (On
        CUDA, which lines of the system with which the room ended are kept may differ.)

        Args:
            worlds: as of ``run``; all by default.
            clear: forget them, so that there is room again.

        Raises RuntimeError where the simulator was made without ``log=True`` or ``TBS_LOG=1``, or while a CUDA graph is
        captured; TypeError and ValueError for anything but worlds.
        """
        return self._inspection.logs(worlds, clear)

    def mark(self) -> Mark:
        """Keep a copy of what all worlds hold now, with which ``diff`` compares. Returns it for ``diff(since=...)``."""
        return self._inspection.mark()

    def diff(self, world: int = 0, *, since: Mark | None = None) -> Changes:
        """The differences of a world from the last ``mark``, or from ``since``: a sequence of ``Change``.

        ``print`` shows it as a table. It has all columns, scratch included, and ``World.step``, ``World.episode``,
        ``World.terminated`` and ``World.truncated``. Values are compared to the bit. Rows of dynamic tables are
        followed by their identity: a row that only moved has not changed.

        Raises RuntimeError before the first ``mark``, ValueError or TypeError for anything but one world.
        """
        return self._inspection.diff(world, since)

    def trace_world(self, world: int = 0, actions: Any = None, *, file: TextIO | None = None) -> dict[str, Changes]:
        """Take the next step of all worlds, and print each system with what it changed in one of them.

        Args:
            world: its number here.
            actions: as of ``inside_step``.
            file: where to print; standard output by default.

        Returns the same by the name of each part of the step. Raises as ``inside_step``; faults after all is printed.
        """
        return self._inspection.trace_world(world, actions, file)

    @contextmanager
    def debug(self, world: int) -> Iterator[None]:
        """Run one world's systems in Python as Python, so that their breakpoints and prints are reached for it only.

        The other worlds go on compiled, on one thread, and all results are the same to the bit. An exception in a
        system leaves all worlds undefined::

            with env.sim.debug(world=3):
                env.step(actions)

        Raises ValueError or TypeError for anything but the number of a world, RuntimeError where the environment has no
        systems in Python, on CUDA, with ``checks``, in a trace or another ``debug``.
        """
        world = self._inspection.checked_world(world)
        if not self.program.python.texts:
            raise RuntimeError(f"{self.program.environment.name} has no systems in Python, which debug() runs as such")
        if self.memory.cuda:
            raise RuntimeError("debug() runs systems as Python, on CPU: make the simulator with device='cpu'")
        if self.program.checks is not None:
            raise RuntimeError("debug() raises for wrong indices by itself, and checks instruments C++: leave that out")
        if self.execution.target.traced:
            raise RuntimeError("this simulator is being traced; debug it before or after")
        if self.execution.python is not None and self.execution.python.world >= 0:
            raise RuntimeError("debug() is running already: end its with-block first")
        with self.execution.debugging(self.first_world + world):
            yield

    # ---- measuring ---------------------------------------------------------------------------------------------------

    @_alone
    def tune(self, seconds: float = 5.0) -> tuning.TuneReport:
        """Measure the fastest way to run steps here, use it from now on, and return what was gained.

        On CUDA each task is timed with several register limits, tasks are grouped into kernels so that the predicted
        step is shortest, and that is measured beside the other executors and groupings, with tiles of several sizes;
        on CPU the executor, the tile and the number of threads are chosen. The choice is kept with the builds: later
        simulators of this program, device, number of worlds and number of threads (``num_threads``, or torch's when it
        is made) take it up. Where fewer threads than all were fastest, no more are used when torch gets more. One that
        was made with ``executor`` neither takes up a choice nor keeps one. Results are the same to the bit, and all
        state is as before. Steps with random actions are run for about ``seconds``; builds come on top, of which CUDA
        needs up to a dozen. Dynamic tables do not grow meanwhile: where rows come and go, take some steps first.

        Raises RuntimeError before the first reset, or while it is being traced.
        """
        self.execution.check_begun("tune")
        if self.execution.target.traced:
            raise RuntimeError("this simulator is being traced; tune it before or after")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
            raise ValueError(f"seconds must be a positive number, got {seconds!r}")
        return tuning.tune(self.execution, float(seconds), keep=self._free)

    @contextmanager
    def tracing(self, capacity: int = 1 << 20) -> Iterator[Trace]:
        """Write down when each task of each step in the with-block ran, and on which thread or multiprocessor.

        A build of its own does it, so that it costs nothing otherwise; in it each task has a barrier of its own, and
        on CUDA a kernel's tasks are not joined. Results are the same. ``capacity`` is the number of records for which
        there is room, of 32 bytes each. The trace can be looked at when the block has ended::

            with sim.tracing() as trace:
                for _ in range(50):
                    sim.step()
                trace.restart()  # the first steps of a build are slow: its threads have to be made
                for _ in range(5):
                    sim.step()
            print(trace)
            trace.draw("trace.png")
            trace.save("trace.json")  # for ui.perfetto.dev

        Raises RuntimeError inside of another tracing of this simulator, or before the first reset.
        """
        checked_count(capacity, "capacity", 1 << 28)
        self.execution.check_begun("tracing")
        with self.execution.tracing(capacity) as trace:
            yield trace

    # ---- state -------------------------------------------------------------------------------------------------------

    @property
    def bytes_per_world(self) -> float:
        """Memory of all columns (scratch too) and bookkeeping, per world; without resources, which there are once."""
        return state.bytes_per_world(self.memory)

    @property
    def bytes_by_column(self) -> dict[str, float]:
        """Memory of what a world has from step to step, by column, and the bookkeeping as ``"engine"``, bytes a world.

        That is all of ``bytes_per_world`` but scratch, workspace and copies of outputs, such as final observations.
        """
        return state.bytes_by_column(self.program, self.memory)

    @_alone
    def state_dict(self) -> dict[str, Any]:
        """A copy of all but scratch and final values.

        ``load_state_dict`` restores it to the bit, random streams included. Raises RuntimeError after a step that was
        stopped.
        """
        self.execution.check_not_stopped()
        return state.save(self.program, self.memory, self.execution.has_begun)

    @_alone
    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned. Raises CheckpointError, with nothing changed, if it does not fit."""
        state.load(self.program, self.memory, saved, self.autoreset)
        self.execution.has_begun, self.execution.was_stopped = saved["started"], False

    def join_states(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The state of a batch from the ``states`` of its parts, in the order of their ``first_world``.

        Resources, of which there is one for all worlds, are those of the first. Raises CheckpointError for states that
        are not of one environment.
        """
        return state.join(self.memory, states)

    def part_of_state(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Of the state of a whole batch the part that belongs to the worlds of this simulator, from ``first_world`` on.

        Raises CheckpointError where the batch lacks them.
        """
        return state.part(self.memory, saved, self.first_world)

    @_alone
    def copy_worlds(self, source: torch.Tensor | list[int], target: torch.Tensor | list[int]) -> None:
        """Make worlds ``target[i]`` equal to ``source[i]`` in everything, the random numbers to come included.

        Both are world indices ``[k]``; the targets must be distinct. To let a copy draw other numbers, ``reseed`` it.
        Only ``world.id`` stays as it was: systems that use it may part the two. Raises RuntimeError after a step that
        was stopped, TypeError and ValueError for anything but worlds.
        """
        self.execution.check_not_stopped()
        source, target = self._checked_worlds(source, "source"), self._checked_worlds(target, "target")
        state.copy_worlds(self.program, self.memory, source, target)

    def _checked_worlds(self, worlds: Any, what: str) -> torch.Tensor:
        return checked_worlds(worlds, what, self.num_worlds, self.device)

    def _checked_mask(self, mask: Any) -> torch.Tensor:
        return checked_mask(mask, "mask", self.num_worlds, self.device)
