"""The simulator: all worlds of one environment in torch tensors, stepped in one call."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from . import jit, tuning
from .codegen import ActionBounds, Target, context_structure, engine_columns, entity_tables, final_columns
from .errors import CheckpointError, Fault, SchemaError, WorldFault
from .graph import Graph
from .program import Column, Program
from .schedule import step_tasks
from .schema import MAX_ROWS, Environment, Field
from .tables import Ragged, TableMemory
from .trace import RECORD, TaskInfo, Trace

STATE_FORMAT = 2
_NO_FAULT = -1  # all bits set
_MAX_REPORTED_FAULTS = 16
_MAX_THREADS = 1024
_TILE_BYTES = 24 * 1024  # of columns in one tile: what a first-level cache holds beside the code's own data
_THREAD_BYTES = 48 * 1024  # of columns for one thread at least: below, waking it costs more than it saves
_HOT = 256  # bytes of a world's column that is gone through in each step, mostly; larger ones are tables to look into
_LEAST_TILE = 8
_VECTOR = 16
_CLAIMED = 16  # worlds that a thread takes from the queue at a time, where it runs one after the other
_MAX_TILE = 4096  # tbs::executors::max_tile of the CPU
_BLOCK_THREADS = 256  # tbs::executors::block_threads

# Codes of tbs::ElementType.
_ELEMENT_TYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.bool: 5, torch.float32: 6,
    torch.float64: 7,
}  # fmt: skip

_BOOKKEEPING_BYTES = 16  # of a slot of a dynamic table

# Kept for ever: kernels under way when a simulator goes may still write to its flag, which is host memory.
_pinned_flags: list[torch.Tensor] = []

_WORLD_TENSORS = ("step", "episode", "terminated", "truncated")
_AGENT_TENSORS = ("terminated", "truncated", "done")

_AUTORESET_CODES = {AutoresetMode.DISABLED: 0, AutoresetMode.NEXT_STEP: 1, AutoresetMode.SAME_STEP: 2}


class Simulator:
    """``num_worlds`` worlds of ``environment`` on ``device``.

    Args:
        environment: the declaration, options included.
        num_worlds: at least 1.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        autoreset: what happens to worlds whose episode has ended (see ``step``).
        keep_final: keep observations and infos at the end of an episode (``SAME_STEP`` only) as ``final`` tensors.
        num_threads: on CPU; all cores of the process by default.
        executor: how the task graph is run; the results are the same to the bit. CPU: ``"batch"`` (default), or
            ``"per_world"``, world after world. CUDA: ``"graph"`` (default), a kernel for each group of nodes;
            ``"megakernel"``, one persistent kernel; ``"per_world"``, a thread for each world.

    Raises:
        SchemaError: the environment contradicts itself. BuildError: its systems do not compile.
        ValueError, TypeError: a wrong argument. RuntimeError: the device is not there.

    Tensors from ``tensor`` alias the simulator's memory: read and write them between steps.

    Attributes:
        layout: goes up whenever ``step``, ``reset``, ``create``, ``load_state_dict`` or ``copy_worlds`` has moved
            dynamic tables to other memory: their tensors must then be asked for again. (Old ones stay as they were.)
    """

    def __init__(
        self,
        environment: Environment,
        num_worlds: int,
        device: str | torch.device = "cpu",
        *,
        autoreset: AutoresetMode = AutoresetMode.SAME_STEP,
        keep_final: bool = True,
        num_threads: int | None = None,
        executor: str | None = None,
        _library: jit.Library | None = None,
    ) -> None:
        if not isinstance(environment, Environment):
            raise TypeError(f"environment must be an instance of Environment, got {environment!r}")
        self.device = checked_device(device)
        self.num_worlds = checked_count(num_worlds, "num_worlds")
        self.autoreset = checked_autoreset(autoreset)
        self.num_threads = _cores() if num_threads is None else checked_count(num_threads, "num_threads", _MAX_THREADS)
        self.environment = environment
        self.program = Program(environment)
        self._check_rows()
        self._free = executor is None and _library is None  # to take up what was tuned
        choice = tuning.stored(self) if self._free else None
        target = choice.target(self.device.type) if choice else Target(self.device.type, executor)
        library = _library or self._load(target)
        self._close: weakref.finalize | None = None
        self._allocate(library.target.cuda, keep_final and self.autoreset is AutoresetMode.SAME_STEP)
        self._use(library)
        self._libraries = {library.target: library}
        self._take(choice or self._default_choice())
        self._started = False
        self.reseed(None)

    @property
    def executor(self) -> str:
        """The name of the executor."""
        return self.library.target.executor_name

    def _load(self, target: Target) -> jit.Library:
        with torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext():
            return jit.load(self.program, target)

    def _use(self, library: jit.Library) -> None:
        """Step with ``library`` from now on: all of one kind of device share the layout of memory."""
        if ctypes.sizeof(self._context) != library.context_size:
            raise AssertionError("the context of Python and C++ differ in size")
        if self._close is not None:
            self._close()
        self.library = library
        self._handle = library.open()
        self._close = weakref.finalize(self, library.close, self._handle)

    def _choice(self) -> tuning.Choice:
        """How steps are run at present."""
        context, target = self._context, self.library.target
        together = target.cuda and bool(context.together)
        return tuning.Choice(target.executor_name, context.tile, context.num_threads, together, target.plan)

    def _default_choice(self) -> tuning.Choice:
        """Before anything has been measured."""
        target = self.library.target
        rows = max(archetype.capacity or archetype.count for archetype in self.program.archetypes)
        together = target.executor_name == "megakernel" and rows >= 2 * _BLOCK_THREADS
        together = together and self.num_worlds < self._multiprocessors()
        tile = self._tile(target.executor_name)
        return tuning.Choice(target.executor_name, tile, self._useful_threads(), together, target.plan)

    def _take(self, choice: tuning.Choice) -> None:
        """Run steps so from now on."""
        target = choice.target(self.library.target.device)
        if target != self.library.target:
            library = self._libraries.get(target)
            if library is None:
                library = self._libraries[target] = self._load(target)
            self._use(library)
        self._context.tile, self._context.num_threads = choice.tile, choice.threads
        if target.cuda:
            self._context.together = int(choice.together)

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _check_rows(self) -> None:
        for archetype in self.program.archetypes:
            rows = archetype.capacity or archetype.count
            if rows * self.num_worlds > MAX_ROWS:
                raise ValueError(
                    f"num_worlds={self.num_worlds} with {rows} rows of {archetype.name} each is more than "
                    f"{MAX_ROWS} rows; at most {MAX_ROWS // rows} worlds are allowed"
                )

    def _allocate(self, cuda: bool, keep_final: bool) -> None:
        """Make the memory, by the names of the context's fields, and the context that points to it."""
        program, worlds = self.program, self.num_worlds
        self._memory: dict[str, torch.Tensor] = {}
        for name, _, dtype, per_agent in engine_columns(program, cuda):
            rows = worlds * (program.agents.count if per_agent else 1)
            self._memory[name] = torch.zeros(rows, dtype=dtype, device=self.device)
        self._memory["fault"].fill_(_NO_FAULT)
        columns = {f"column_{column.c_name}": column for column in program.columns.values() if not column.dynamic}
        columns |= final_columns(program) if keep_final else {}
        for name, column in columns.items():
            size = (1 if column.resource else worlds * column.rows_per_world) * column.component.size
            self._memory[name] = torch.zeros(size, dtype=torch.uint8, device=self.device)
        self._flags = torch.zeros(2, dtype=torch.int32, pin_memory=self.device.type == "cuda")
        self._fault_flag, self._crowded_flag = self._flags.numpy()[:1], self._flags.numpy()[1:]  # cheap to look at
        if self.device.type == "cuda":
            _pinned_flags.append(self._flags)
        self._bindings: dict[str, _Binding] = {}
        self._watchers: dict[str, Callable[[torch.Tensor], None]] = {}

        context = self._context = context_structure(program, cuda)()
        context.num_worlds = worlds
        context.device = self.device.index or 0
        context.autoreset = _AUTORESET_CODES[self.autoreset]
        context.keep_final = int(keep_final)
        context.fault_flag = self._flags.data_ptr()
        if cuda:
            self._queue = torch.zeros(2, dtype=torch.int32, device=self.device)
            context.queue = self._queue.data_ptr()
        for name in self._memory:
            self._point(name)
        self._tables: dict[str, TableMemory] = {}
        self.layout = 0
        if program.dynamic:
            context.crowded_flag = self._flags[1:].data_ptr()
        for structure, archetype in zip(context.tables if program.dynamic else (), program.dynamic, strict=True):
            own = [column for column in program.columns.values() if column.table == archetype.name]
            number = entity_tables(program)[archetype.name]
            self._tables[archetype.name] = TableMemory(
                archetype, own, number, worlds, self.device, self._memory, structure, self._point
            )
        for name, value in self.environment.parameters.items():
            setattr(context.parameters, name, value)
        for name, value in self.environment.resource_values().items():
            self._fill_resource(name, value)
        low, high = action_bounds(program)
        context.action_width = len(low)
        for i, (least, most) in enumerate(zip(low, high, strict=True)):
            context.action_bounds[i] = ActionBounds(least, most)
        self._context_address = ctypes.addressof(context)

    def _fill_resource(self, name: str, value: Any) -> None:
        self._named_column("resource_values", name, "resource", lambda column: column.resource)
        tensor = self.tensor(name)
        tensor.copy_(self._fitting("resource_values", name, value, tensor))

    def _named_column(self, method: str, name: str, kind: str, allowed: Callable[[Column], bool]) -> None:
        """Raise SchemaError unless ``name``, which a method of the environment gives a value, is of such a kind."""
        try:
            column, _ = self.program.find(name, method)
        except (AttributeError, KeyError) as error:
            raise SchemaError(f"{self.environment.name}: {error.args[0]}") from None
        if not allowed(column):
            raise SchemaError(f"{self.environment.name}: {method} names {name!r}, which is no {kind}")

    def _fitting(self, method: str, name: str, value: Any, like: torch.Tensor) -> torch.Tensor:
        """``value`` with shape and dtype of ``like``, or SchemaError where that would change numbers."""
        try:
            given = torch.as_tensor(value, device=self.device).expand_as(like)
        except (RuntimeError, TypeError, ValueError):
            shape = f"shape {list(value.shape)}" if hasattr(value, "shape") else repr(value)
            raise SchemaError(
                f"{self.environment.name}: {method} of {name!r} needs shape {list(like.shape)}, got {shape}"
            ) from None
        fitting = given.to(like.dtype)
        lost = fitting.to(given.dtype) != given
        if not like.is_floating_point() and bool(lost.any()):
            dtype = str(like.dtype).removeprefix("torch.")
            raise SchemaError(
                f"{self.environment.name}: {method} of {name!r} has {given[lost][0]}, which {dtype} cannot hold"
            )
        return fitting

    def _point(self, name: str) -> None:
        """Let the context know where a column's memory is."""
        setattr(self._context, name, self._memory[name].data_ptr())

    def _bytes(self, most: int | None = None) -> int:
        """Bytes of a world's columns, a measure of a step's work; without columns of more than ``most`` bytes."""
        columns = [column for column in self.program.columns.values() if not column.resource]
        sizes = [c.component.size * c.rows_per_world for c in columns if not c.dynamic]
        dynamic = [c.component.size * c.rows_per_world for c in columns if c.dynamic]
        dynamic += [_BOOKKEEPING_BYTES * archetype.capacity for archetype in self.program.dynamic]
        return sum(size for size in sizes if most is None or size <= most) + sum(dynamic) + 16

    def _useful_threads(self) -> int:
        """Threads that have enough to do to be worth waking."""
        if self.library.target.cuda:
            return 1
        return max(1, min(self.num_threads, self.num_worlds * self._bytes() // _THREAD_BYTES))

    def _tile(self, executor: str) -> int:
        """Worlds in a tile, before anything has been measured."""
        if executor == "per_world":
            return 1 if self.library.target.cuda else _CLAIMED
        if self.library.target.cuda:
            # Two tiles for each multiprocessor, but at least a warp's worth of rows and at most a row for each thread.
            rows = max(archetype.capacity or archetype.count for archetype in self.program.archetypes)
            least, shared_out = -(-32 // rows), -(-self.num_worlds // (2 * self._multiprocessors()))
            return min(max(shared_out, least), _BLOCK_THREADS)
        # Several for each thread, but no more bytes than a first-level cache holds, or a few worlds where these are
        # large: fewer would not pay for the loops around them.
        most = max(_LEAST_TILE, _TILE_BYTES // self._bytes(_HOT))
        shared_out = -(-self.num_worlds // (4 * self._useful_threads()))
        whole_vectors = -(-_VECTOR // self.program.agents.count)  # rows of agents that one instruction works on
        tile = min(max(shared_out, whole_vectors), most, _MAX_TILE, self.num_worlds)
        return -(-tile // 64) * 64 if tile > 64 else tile  # so that threads share no cache line of flags

    def _multiprocessors(self) -> int:
        if self.device.type == "cpu":  # an emulated device
            return 4
        return torch.cuda.get_device_properties(self.device).multi_processor_count

    # ---- tensors ---------------------------------------------------------------------------------------------------

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
        field, column, selected = self._find(name)
        if column is not None:
            return self._view(self._memory[field], column, selected)
        memory = self._memory[field]
        return memory.view(self.num_worlds, -1) if name.startswith("Agents.") else memory

    def _find(self, name: str) -> tuple[str, Column | None, Field | None]:
        """The context's field that ``name`` means, with column and field of a component if it is of one."""
        if not isinstance(name, str):
            raise TypeError(f"tensors have names such as 'Cart.CartState.x', got {name!r}")
        table, _, rest = name.partition(".")
        if table == "World":
            if rest not in _WORLD_TENSORS:
                raise KeyError(f"tensor {name!r} does not exist; World has {', '.join(_WORLD_TENSORS)}")
            return rest, None, None
        if table == "Agents":
            if rest not in _AGENT_TENSORS:
                raise KeyError(f"tensor {name!r} does not exist; Agents has {', '.join(_AGENT_TENSORS)}")
            own = rest == "done" or self.program.agents.count > 1
            return f"agent_{rest}" if own else rest, None, None
        if table == "final":
            column, selected = self.program.find(rest)
            field = f"final_{column.c_name}"
            if field not in self._memory:
                raise KeyError(f"tensor {name!r} is not kept; kept with SAME_STEP: observations and infos")
            return field, column, selected
        column, selected = self.program.find(name)
        return f"column_{column.c_name}", column, selected

    def _view(self, memory: torch.Tensor, column: Column, selected: Field | None) -> torch.Tensor:
        lead = [self.num_worlds] if column.singleton else [self.num_worlds, column.rows_per_world]
        if column.dynamic:
            lead = [memory.numel() // column.component.size]
        if column.resource:
            lead = []
        if selected is None and len(column.component.fields) == 1:
            selected = column.component.fields[0]
        if selected is None:
            if column.dtype is None:
                fields = ", ".join(f"{column.name}.{f.name}" for f in column.component.fields)
                raise TypeError(
                    f"{column.name} has fields of different types and is no single tensor; ask for {fields}"
                )
            return memory.view(-1).view(column.dtype).view([*lead, *column.value_shape])
        itemsize = selected.type.dtype.itemsize
        elements = memory.view(-1).view(selected.type.dtype)
        row = column.component.size // itemsize
        strides = [row * column.rows_per_world, row][2 - len(lead) :]
        shape = selected.type.tensor_shape
        inner = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        offset = elements.storage_offset() + selected.offset // itemsize
        return elements.as_strided([*lead, *shape], [*strides, *inner], offset)

    def bind(self, name: str, tensor: torch.Tensor) -> None:
        """Let a whole column live in ``tensor`` from now on: the simulator then reads and writes it in place.

        Args:
            name: as in ``tensor``: a component whose fields have one type (or its only field), ``"final...."``,
                ``"World.terminated"``, ``"World.truncated"``, or ``"Agents...."``.
            tensor: contiguous, on the simulator's device, of the column's dtype and its shape or ``[rows, ...]``.

        Present contents are copied into ``tensor``, but for what the next step writes wholly: rewards, flags and final
        values. The simulator keeps a reference. Raises KeyError, TypeError or ValueError before anything has changed.
        """
        binding = self.check_bindable(name, tensor)
        if binding.carries:
            tensor.view(binding.shape).copy_(self.tensor(name))
        self._memory[binding.field] = tensor
        setattr(self._context, binding.field, tensor.data_ptr())
        watcher = self._watchers.get(binding.field)
        if watcher is not None:
            watcher(tensor)

    def watch(self, name: str, watcher: Callable[[torch.Tensor], None]) -> None:
        """Call ``watcher(tensor)`` whenever ``name`` is bound (one watcher a name)."""
        self._watchers[self._find(name)[0]] = watcher

    def check_bindable(self, name: str, tensor: Any) -> _Binding:
        """Raise what ``bind`` would raise."""
        binding = self._bindings.get(name)
        if binding is None:
            binding = self._bindings[name] = self._new_binding(name)
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"bind of {name} needs a torch tensor, got {type(tensor).__name__}")
        if tensor.shape != binding.rows and tensor.shape != binding.shape:
            shapes = " or ".join(str(list(shape)) for shape in dict.fromkeys((binding.shape, binding.rows)))
            raise ValueError(f"bind of {name} needs shape {shapes}, got {list(tensor.shape)}")
        if tensor.dtype != binding.dtype:
            raise TypeError(f"bind of {name} needs dtype {binding.dtype}, got {tensor.dtype}")
        if tensor.device != self.device:
            raise ValueError(f"bind of {name} needs a tensor on {self.device}, got one on {tensor.device}")
        if not tensor.is_contiguous():
            raise ValueError(f"bind of {name} needs a contiguous tensor, got strides {tensor.stride()}")
        if tensor.requires_grad:
            raise ValueError(f"bind of {name} needs a tensor without gradient")
        return binding

    def _new_binding(self, name: str) -> _Binding:
        field, column, selected = self._find(name)
        if column is not None and column.dynamic:
            raise ValueError(f"{name} cannot be bound: {column.table} is a dynamic table, whose memory may grow")
        whole = column is None or selected is None or len(column.component.fields) == 1
        if not whole or field in ("step", "episode"):
            raise ValueError(f"{name} cannot be bound; whole columns, final values and flags of worlds and agents can")
        current = self.tensor(name)
        rows = current.shape
        if column is None:
            rows = torch.Size([current.numel()])
        elif not column.singleton:
            rows = torch.Size([current.shape[0] * current.shape[1], *current.shape[2:]])
        state = field.startswith("column_") and column is not self.program.reward
        return _Binding(field, current.shape, rows, current.dtype, state)

    @property
    def graph(self) -> Graph:
        """The task graphs and what systems read and write: ``print(sim.graph)``, ``sim.graph.draw("graph.svg")``."""
        return Graph(self.program)

    def __getattr__(self, name: str) -> TableView:
        program = self.__dict__.get("program")
        if program is not None and any(column.table == name for column in program.columns.values()):
            return TableView(self, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    # ---- dynamic tables --------------------------------------------------------------------------------------------

    def ragged(self, name: str) -> Ragged:
        """The rows of every world in a column or field of a dynamic table, such as ``"Bullet.Place.x"``.

        Raises KeyError for an unknown name, TypeError as ``tensor`` does, ValueError if the table is not dynamic.
        """
        column, _ = self.program.find(name)
        return self._table(column.table).ragged(self.tensor(name))

    def entities(self, table: str) -> Ragged:
        """The handles of all rows of a dynamic table, int32 ``[slots, 4]`` (a copy): what systems see as ``Entity``."""
        memory = self._table(table)
        return memory.ragged(memory.entities(self._memory["tag"]))

    def find(self, worlds: Any, entities: torch.Tensor) -> torch.Tensor:
        """Where the rows that ``entities [k, 4]`` mean are among the rows of ``worlds [k]``: int64 ``[k]``.

        -1 for handles of rows that are no more, or of another world, episode or simulator of another seed. A handle
        names seed, world, episode and when in it the row was created: where an episode is run twice (another simulator
        of the same seed, the same seed again, a state loaded, a world copied), what was created at the same moment is
        the same entity.
        """
        worlds, entities = self._checked_entities(worlds, entities)
        found = torch.full_like(worlds, -1)
        own = entities[:, 0] == self._memory["tag"][worlds] if self.program.has_entities else worlds < 0
        numbers = entity_tables(self.program)
        for archetype in self.program.archetypes:
            mine = own & (entities[:, 1] == numbers[archetype.name])
            if archetype.dynamic:
                rows = self._tables[archetype.name].find(worlds, entities[:, 2:])
            else:
                order = entities[:, 3].long() & 0xFFFFFFFF
                rows = torch.where((entities[:, 2] == 0) & (order < archetype.count), order, -1)
            found = torch.where(mine, rows, found)
        return found

    def create(self, table: str, worlds: Any, values: Mapping[str, Any] | None = None) -> torch.Tensor:
        """Create a row of a dynamic table in each of ``worlds [k]`` (one may come several times), between steps.

        Args:
            values: what to write, by name: ``{"Place.x": tensor [k], "Motion": tensor [k, fields]}`` or numbers; the
                rest is zero.

        Returns the handles, int32 ``[k, 4]``. The table grows if it must. Raises before anything has changed:
        RuntimeError before the first reset, KeyError, TypeError, ValueError (a world that has ended and awaits its
        reset, which would drop the row; more rows than the table's limit).
        """
        memory = self._table(table)
        worlds = self._checked_worlds(worlds, "worlds")
        if not self._started:
            raise RuntimeError("call reset() before create()")
        ended = self._memory["ended"].bool()[worlds]
        if bool(ended.any()):
            raise ValueError(f"world {int(worlds[ended][0])} has ended and awaits its reset, which would drop new rows")
        limit = memory.archetype.limit
        needed = memory["count"].long() + torch.bincount(worlds, minlength=self.num_worlds)
        if bool((needed > limit).any()):
            world = int((needed > limit).nonzero()[0])
            raise ValueError(
                f"world {world} would have {int(needed[world])} rows of {table}, whose limit is {limit}; "
                "nothing was created"
            )
        columns = {column.name: column for column in memory.columns}
        rows = {
            name: worlds.new_zeros(len(worlds) * c.component.size, dtype=torch.uint8) for name, c in columns.items()
        }
        for name, value in (values or {}).items():
            column, selected = self.program.find(f"{table}.{name}")
            target = self._view(rows[column.name], column, selected)
            try:
                target.copy_(torch.as_tensor(value, device=self.device).expand_as(target))
            except (RuntimeError, TypeError, ValueError):
                raise ValueError(
                    f"{table}.{name} of new rows needs shape {list(target.shape)}, got {value!r}"
                ) from None
        if len(worlds) == 0:
            return torch.empty(0, 4, dtype=torch.int32, device=self.device)
        layout = memory.rooms
        shaped = {name: bytes_.view(len(worlds), -1) for name, bytes_ in rows.items()}
        births = memory.append(worlds, shaped, self._memory["tick"])
        self._memory["tick"][worlds.unique()] += 1
        self.layout += not torch.equal(layout, memory.rooms)
        self._crowded_flag[0] |= bool(memory["crowded"].any())
        head = torch.stack([self._memory["tag"][worlds], torch.full_like(births[:, 0], memory.number)], dim=1)
        return torch.cat([head, births], dim=1)

    def destroy(self, worlds: Any, entities: torch.Tensor) -> None:
        """Destroy the rows of dynamic tables that ``entities [k, 4]`` mean in ``worlds [k]``, between steps.

        Raises ValueError, with nothing changed, if a handle means no row (see ``find``) or a row is named twice.
        """
        worlds, entities = self._checked_entities(worlds, entities)
        rows = self.find(worlds, entities)
        numbers = torch.tensor([memory.number for memory in self._tables.values()], device=self.device)
        wrong = (rows < 0) | ~torch.isin(entities[:, 1], numbers.int())
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            raise ValueError(
                f"entity {entities[i].tolist()} is no row of a dynamic table in world {int(worlds[i])}: it was "
                "destroyed, or is of another world, episode or simulator; nothing was destroyed"
            )
        named = torch.stack([worlds, entities[:, 1].long(), rows], dim=1)
        if len(torch.unique(named, dim=0)) != len(named):
            raise ValueError("an entity is named twice; nothing was destroyed")
        for memory in self._tables.values():
            mine = entities[:, 1] == memory.number
            if bool(mine.any()):
                memory.remove(worlds[mine], rows[mine])

    def _table(self, name: str) -> TableMemory:
        if name not in self._tables:
            known = ", ".join(self._tables) or "none"
            raise ValueError(f"{name!r} is no dynamic table; those of {self.environment.name}: {known}")
        return self._tables[name]

    def _checked_entities(self, worlds: Any, entities: Any) -> tuple[torch.Tensor, torch.Tensor]:
        worlds = self._checked_worlds(worlds, "worlds")
        if (
            not isinstance(entities, torch.Tensor)
            or entities.dtype != torch.int32
            or entities.shape != (len(worlds), 4)
        ):
            given = f"{entities.dtype} {list(entities.shape)}" if isinstance(entities, torch.Tensor) else repr(entities)
            raise TypeError(f"entities must be an int32 tensor [{len(worlds)}, 4], got {given}")
        return worlds, entities.to(self.device)

    def _grow(self) -> None:
        """Make room where worlds have passed the high-water mark."""
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "a dynamic table has to grow, which cannot be captured in a CUDA graph: step once outside of the "
                "capture, or declare limit = capacity"
            )
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for memory in self._tables.values():
            self.layout += memory.grow()
        self._crowded_flag[0] = 0

    # ---- running ---------------------------------------------------------------------------------------------------

    def reseed(self, seed: int | None, mask: torch.Tensor | None = None) -> None:
        """Give worlds (all, or those of the bool ``mask [worlds]``) a new seed; ``None`` takes one from the system.

        Their next ``reset`` begins episode 0. A world's random numbers depend on (seed, world, episode) alone.
        """
        seed = checked_seed(seed)
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        bits = seed - 2**64 if seed >= 2**63 else seed
        engine = self._memory
        if mask is None:
            engine["seed"].fill_(bits)
            torch.arange(self.num_worlds, dtype=torch.int32, out=engine["stream"])
            engine["episode"].fill_(-1)
        else:
            mask = self.checked_mask(mask)
            engine["seed"].masked_fill_(mask, bits)
            worlds = torch.arange(self.num_worlds, dtype=torch.int32, device=self.device)
            engine["stream"].copy_(torch.where(mask, worlds, engine["stream"]))
            engine["episode"].masked_fill_(mask, -1)

    def reset(
        self,
        mask: torch.Tensor | np.ndarray | None = None,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Let worlds begin a new episode: all, or those of the bool ``mask [worlds]``. The others stay as they are.

        With ``seed`` those worlds are seeded first. The first reset must be of all worlds. ``options``: what the
        environment takes as ``reset_options``, tensors, arrays or lists ``[worlds, ...]``, of which the rows of other
        worlds do not count; it raises ValueError or TypeError before anything has changed.
        """
        if mask is not None:
            mask = self.checked_mask(mask)
            if not self._started:
                raise RuntimeError("the first reset must be of all worlds; call reset() without a mask")
        seed = checked_seed(seed)
        values = self._reset_values(options, mask) if options else {}
        for name, (worlds, value) in values.items():
            self.tensor(name)[worlds] = value
        if seed is not None:
            self.reseed(seed, mask)
        if self._crowded_flag[0]:
            self._grow()
        if mask is None:
            mask = torch.ones(self.num_worlds, dtype=torch.bool, device=self.device)
        result = self.library.reset(self._handle, self._context_address, mask.data_ptr(), self._stream())
        self._started = True  # also where systems report faults, so that the faulty worlds can be reset alone
        self._check_result(result, stepped=False)

    def _reset_values(
        self, options: Mapping[str, Any], mask: torch.Tensor | None
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """What to write before a reset, by name of the tensor: the worlds ``[k]`` and their values ``[k, ...]``."""
        options = checked_options(options, self.environment.reset_options)
        numbers = torch.arange(self.num_worlds, device=self.device)
        worlds = numbers if mask is None else numbers[mask]
        given = {}
        for name, value in options.items():
            tensor = number_tensor(value, name)
            if tensor.layout is not torch.strided or tensor.is_meta:
                raise TypeError(f"{name} must be a dense tensor, got layout {tensor.layout} on {tensor.device}")
            if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch hardly computes with them
                tensor = tensor.long()
            if tensor.shape[:1] != (self.num_worlds,):
                raise ValueError(
                    f"{name} must have a row for each of {self.num_worlds} worlds, got shape {list(tensor.shape)}"
                )
            given[name] = tensor.to(self.device)[worlds]
        values = {}
        named = self.environment.reset_values(given, worlds) if given else {}
        if not isinstance(named, Mapping):
            raise SchemaError(f"{self.environment.name}: reset_values must return a dict, got {named!r}")
        for name, value in named.items():
            self._named_column("reset_values", name, "kept singleton", lambda column: column.name in self.program.kept)
            values[name] = worlds, self._fitting("reset_values", name, value, self.tensor(name)[worlds])
        return values

    def step(self) -> None:
        """Advance every world by one step with the actions that its action column holds.

        Worlds that end are treated as ``autoreset`` says: SAME_STEP begins the next episode within this step (state and
        observations are then the new one's, flags and rewards the old one's, ``final`` tensors the last observation);
        NEXT_STEP does so in the next step, which ignores the world's action; with DISABLED the world stands still, its
        flags set and its reward 0, until it is reset.

        On CPU faults of systems raise ``WorldFault`` here; on CUDA nothing waits for the device, and a fault raises at
        a later ``step`` or at ``check_faults``. Unlike the vector environment, this does not check the actions.
        """
        if not self._started:
            raise RuntimeError("call reset() before step()")
        if self._fault_flag[0]:
            self.check_faults()
        if self._crowded_flag[0]:
            self._grow()
        self._check_result(self.library.step(self._handle, self._context_address, self._stream()))

    def act_and_step(self, actions: torch.Tensor) -> int:
        """Check ``actions`` (contiguous, right device and shape), write them into the action column, and ``step``.

        Returns -1, or on CPU the index of the first element that is not in the action space; then no world has stepped.
        """
        if not self._started:
            raise RuntimeError("call reset() before act_and_step()")
        if self._fault_flag[0]:
            self.check_faults()
        if self._crowded_flag[0]:
            self._grow()
        result = self.library.act_and_step(
            self._handle, self._context_address, actions.data_ptr(), _ELEMENT_TYPES[actions.dtype], self._stream()
        )
        if result < -1:
            self._check_result(1 if result == -2 else result)
        return result

    def _stream(self) -> int | None:
        return torch.cuda.current_stream(self.device).cuda_stream if self.device.type == "cuda" else None

    def _check_result(self, result: int, stepped: bool = True) -> None:
        if result <= -1000:
            raise torch.cuda.CudaError(-1000 - result)
        if result == 1:
            self._raise_faults(stepped)

    def check_faults(self) -> None:
        """Raise ``WorldFault`` if systems have reported faults since the last look. On CUDA waits for the device."""
        self._raise_faults(stepped=False)

    def _raise_faults(self, stepped: bool) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if not self._fault_flag[0]:
            return
        words = self._memory["fault"]
        mask = words != _NO_FAULT
        self._fault_flag[0] = 0
        worlds = mask.nonzero().flatten()[:_MAX_REPORTED_FAULTS]
        faults = [self._decode_fault(int(w), int(words[w])) for w in worlds]
        words.fill_(_NO_FAULT)
        if faults:
            raise WorldFault(faults, mask, stepped)

    def _decode_fault(self, world: int, word: int) -> Fault:
        word &= 2**64 - 1
        node, row, code, value = word >> 54, word >> 40 & 0x3FFF, word >> 32 & 0xFF, word & 0xFFFFFFFF
        nodes = [n for graph in self.program.graphs.values() for n in graph]
        system = nodes[node - 1].system.name if node else "check_actions"
        if code >= len(self.program.faults):
            table = self.program.dynamic[code - len(self.program.faults)].name
            return Fault(world, system, row, "table_full", value, table)
        return Fault(world, system, row, self.program.faults[code], value - 2**32 if value >= 2**31 else value)

    def checked_mask(self, mask: Any, what: str = "mask") -> torch.Tensor:
        """``mask`` as a contiguous bool tensor ``[worlds]`` on the device; TypeError or ValueError if it is none."""
        mask = bool_tensor(mask, what)
        if tuple(mask.shape) != (self.num_worlds,):
            raise ValueError(f"{what} must have shape [{self.num_worlds}], got {list(mask.shape)}")
        return mask.to(self.device).contiguous()

    # ---- measuring -------------------------------------------------------------------------------------------------

    def tune(self, seconds: float = 5.0) -> tuning.TuneReport:
        """Measure how steps are run best here, run them so from now on, and say what was gained.

        On CUDA each task is timed with several register limits, tasks are grouped into kernels so that the predicted
        step is shortest, and that is measured beside the other executors and groupings, with tiles of several sizes;
        on CPU the executor, the tile and the number of threads are chosen. The choice is kept with the builds: later
        simulators of this program, device, number of worlds and ``num_threads`` take it up. One that was made with
        ``executor`` neither takes up a choice nor keeps one. Results are the same to the bit, and all state is as
        before. Steps with random actions are run for about ``seconds``; builds come on top, of which CUDA needs up to
        a dozen. Dynamic tables do not grow meanwhile: where rows come and go, take some steps first.

        Raises RuntimeError before the first reset, or while it is being traced.
        """
        if not self._started:
            raise RuntimeError("call reset() before tune()")
        if self.library.target.traced:
            raise RuntimeError("this simulator is being traced; tune it before or after")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
            raise ValueError(f"seconds must be a positive number, got {seconds!r}")
        return tuning.tune(self, float(seconds))

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
        if not self._started:
            raise RuntimeError("call reset() before tracing()")
        untraced = self.library
        if untraced.target.traced:
            raise RuntimeError("this simulator is being traced already")
        traced = self._load(replace(untraced.target, traced=True))
        counter = _StepCounter(traced)
        on_cuda = self.device.type == "cuda"
        tasks = [TaskInfo(t.node.name, t.phase, t.node.engine) for t in step_tasks(self.program)]
        trace = Trace(
            None,
            tasks,
            unit="SM" if traced.target.cuda else "thread",
            title=f"{self.environment.name}, {self.num_worlds} worlds, {self.executor}",
            num_units=self._multiprocessors() if on_cuda else 0,
        )
        records = torch.zeros(capacity * RECORD.itemsize, dtype=torch.uint8, device=self.device)
        taken = torch.zeros(1, dtype=torch.int32, device=self.device)
        buffer = self._context.trace
        self._use(traced)
        buffer.records, buffer.taken, buffer.capacity = records.data_ptr(), taken.data_ptr(), capacity

        def restart() -> None:
            counter.steps = 0
            taken.zero_()

        trace.restart, ended = restart, trace.restart
        try:
            yield trace
        finally:
            trace.restart = ended
            if on_cuda:
                torch.cuda.synchronize(self.device)
            buffer.records = buffer.taken = None
            buffer.capacity = 0
            self._use(untraced)
            count = int(taken) & 0xFFFFFFFF
            kept = records[: min(count, capacity) * RECORD.itemsize].cpu().numpy().view(RECORD)
            trace.fill(kept, counter.steps, max(0, count - capacity))  # after an error too

    # ---- state -----------------------------------------------------------------------------------------------------

    @property
    def bytes_per_world(self) -> float:
        """Memory of all columns and bookkeeping, per world; without resources, which there are once."""
        shared = self._resource_fields()
        own = (tensor for name, tensor in self._memory.items() if name not in shared)
        return sum(t.numel() * t.element_size() for t in own) / self.num_worlds

    def _resource_fields(self) -> set[str]:
        return {f"column_{column.c_name}" for column in self.program.columns.values() if column.resource}

    def _state_tensors(self) -> dict[str, torch.Tensor]:
        """All memory but scratch, faults to be reported, and final values, which mean something in ended rows only."""
        dynamic = tuple(f"column_{c.c_name}" for c in self.program.columns.values() if c.dynamic)
        left_out = ("phase", "fault", *dynamic)
        apart = ("final_", "table_")  # dynamic tables have a state of their own
        return {n: t for n, t in self._memory.items() if n not in left_out and not n.startswith(apart)}

    def _signature(self) -> dict[str, Any]:
        columns = {
            name: [(f.name, str(f.type)) for f in c.component.fields] for name, c in self.program.columns.items()
        }
        counts = {a.name: a.count or f"at most {a.limit}" for a in self.program.archetypes}
        return {
            "environment": self.environment.name,
            "columns": columns,
            "counts": counts,
            "parameters": dict(self.environment.parameters),
            "constants": dict(self.environment.constants),
        }

    def state_dict(self) -> dict[str, Any]:
        """A copy of all but final values: ``load_state_dict`` restores it to the bit, random streams included."""
        tensors = {name: _bytes(tensor).clone() for name, tensor in self._state_tensors().items()}
        return {
            "format": STATE_FORMAT,
            "num_worlds": self.num_worlds,
            "started": self._started,
            "signature": self._signature(),
            "tensors": tensors,
            "tables": {name: memory.state() for name, memory in self._tables.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned. Raises CheckpointError, with nothing changed, if it does not fit."""
        if not isinstance(state, Mapping) or "format" not in state:
            raise CheckpointError(f"this is no state of a simulator: {type(state).__name__} without 'format'")
        if state["format"] != STATE_FORMAT:
            raise CheckpointError(f"the state has format {state['format']}, this version reads format {STATE_FORMAT}")
        for key, kind in (
            ("signature", Mapping), ("tensors", Mapping), ("tables", Mapping), ("num_worlds", int), ("started", bool)
        ):  # fmt: skip
            if not isinstance(state.get(key), kind):
                raise CheckpointError(f"the state is damaged: it has no {key!r}")
        ours, theirs = self._signature(), state["signature"]
        for key in ours:
            if theirs.get(key) != ours[key]:
                difference = _first_difference(key, theirs.get(key), ours[key])
                raise CheckpointError(f"the state is of another environment: {difference}")
        if state["num_worlds"] != self.num_worlds:
            raise CheckpointError(f"the state has {state['num_worlds']} worlds, this simulator {self.num_worlds}")
        own = {name: _bytes(tensor) for name, tensor in self._state_tensors().items()}
        for name, tensor in own.items():
            given = state["tensors"].get(name)
            if not isinstance(given, torch.Tensor) or given.shape != tensor.shape or given.dtype != tensor.dtype:
                raise CheckpointError(f"the state is damaged: it lacks {name} of {tensor.numel()} bytes")
        for name, memory in self._tables.items():
            if not memory.fits(state["tables"].get(name)):
                raise CheckpointError(f"the state is damaged: it lacks the rows of {name}")
        if self.autoreset is AutoresetMode.SAME_STEP and bool(state["tensors"]["ended"].any()):
            raise CheckpointError("the state holds ended worlds that await a reset, which with SAME_STEP never happens")
        for name, tensor in own.items():
            tensor.copy_(state["tensors"][name])
        for name, memory in self._tables.items():
            memory.load(state["tables"][name])
        self._crowded_flag[0] = any(bool(memory["crowded"].any()) for memory in self._tables.values())
        self.layout += bool(self._tables)
        self._started = state["started"]

    def copy_worlds(self, source: torch.Tensor | list[int], target: torch.Tensor | list[int]) -> None:
        """Make worlds ``target[i]`` equal to ``source[i]`` in everything, the random numbers to come included.

        Both are world indices ``[k]``; the targets must be distinct. To let a copy draw other numbers, ``reseed`` it.
        Only ``world.id`` stays what it was: systems that use it may part the two.
        """
        source, target = self._checked_worlds(source, "source"), self._checked_worlds(target, "target")
        if source.shape != target.shape:
            raise ValueError(f"source and target must be of one length, got {len(source)} and {len(target)}")
        if len(torch.unique(target)) != len(target):
            raise ValueError("target worlds must be distinct")
        if len(target) == 0:
            return
        sources = torch.arange(self.num_worlds, device=self.device)
        sources[target] = source
        for memory in self._tables.values():  # first: it may lack the memory
            memory.lay_out(memory.rooms[sources], sources)
        shared = self._resource_fields()
        for name, tensor in self._state_tensors().items():
            if name not in shared:
                worlds = _bytes(tensor).view(self.num_worlds, -1)
                worlds[target] = worlds[source]
        self.layout += bool(self._tables)

    def _checked_worlds(self, worlds: Any, what: str) -> torch.Tensor:
        try:
            worlds = torch.as_tensor(worlds, device=self.device)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{what} must be world indices of shape [k], got {worlds!r}") from None
        if worlds.shape == (0,):
            return worlds.long()
        if worlds.dim() != 1 or worlds.dtype not in (torch.int64, torch.int32):
            raise TypeError(
                f"{what} must be world indices of shape [k], got {worlds.dtype} of shape {list(worlds.shape)}"
            )
        if len(worlds) and not 0 <= int(worlds.min()) <= int(worlds.max()) < self.num_worlds:
            raise ValueError(
                f"{what} must be worlds from 0 to {self.num_worlds - 1}, got {int(worlds.min())} to {int(worlds.max())}"
            )
        return worlds.long()


@dataclass(frozen=True)
class _Binding:
    """What a tensor must be to be bound, and where it then goes."""

    field: str  # of the context
    shape: torch.Size  # [worlds, rows, ...]
    rows: torch.Size  # [worlds * rows, ...]
    dtype: torch.dtype
    carries: bool


class _StepCounter:
    """Counts the steps that a library takes from now on; one that is refused for its actions is none."""

    def __init__(self, library: jit.Library) -> None:
        self.steps = 0
        self._step, self._act_and_step = library.step, library.act_and_step
        library.step, library.act_and_step = self.step, self.act_and_step

    def step(self, *arguments: Any) -> int:
        self.steps += 1
        return self._step(*arguments)

    def act_and_step(self, *arguments: Any) -> int:
        result = self._act_and_step(*arguments)
        self.steps += result < 0
        return result


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1).view(torch.uint8)


class TableView:
    """``sim.Cart`` or ``sim.Cart.CartState``: attributes are components, then fields; ``tensor`` is the column.

    Assignment fills the field in place, as ``sim.tensor(name)[...] = value`` does.
    """

    def __init__(self, simulator: Simulator, name: str) -> None:
        self.__dict__.update(_simulator=simulator, _name=name)

    @property
    def tensor(self) -> torch.Tensor:
        return self._simulator.tensor(self._name)

    def __getattr__(self, attribute: str) -> TableView | torch.Tensor:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        name = f"{self._name}.{attribute}"
        if name in self._simulator.program.columns:
            return TableView(self._simulator, name)
        try:
            return self._simulator.tensor(name)
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, attribute: str, value: Any) -> None:
        found = getattr(self, attribute)
        (found.tensor if isinstance(found, TableView) else found)[...] = value


def _first_difference(name: str, theirs: Any, ours: Any) -> str:
    """``"its gravity is 9.0, here 9.8"``: of two mappings the first entry that differs."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        name = next(key for key in (*ours, *theirs) if theirs.get(key) != ours.get(key))
        theirs, ours = theirs.get(name), ours.get(name)
    return f"its {name} is {theirs}, here {ours}"


def action_bounds(program: Program) -> tuple[list[float], list[float]]:
    """Least and greatest allowed value of each element of one agent's action, both ends included."""
    space = program.action_space
    width = program.action.component.size // program.action.dtype.itemsize
    if hasattr(space, "nvec"):
        starts = np.broadcast_to(space.start, space.nvec.shape).reshape(-1)
        return starts.astype(float).tolist(), (starts + space.nvec.reshape(-1) - 1).astype(float).tolist()
    if hasattr(space, "n"):
        return [float(space.start)] * width, [float(space.start + space.n - 1)] * width
    return space.low.reshape(-1).astype(float).tolist(), space.high.reshape(-1).astype(float).tolist()


def checked_device(device: str | torch.device) -> torch.device:
    """``device`` as a torch device with an index on CUDA; ValueError or RuntimeError if it is not to be had."""
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}") from None
    if checked.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}")
    if checked.type == "cpu":
        return torch.device("cpu")
    if torch.version.cuda is None:
        raise RuntimeError(f"device {device!r} needs a build of torch with CUDA; torch {torch.__version__} has none")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device {device!r} needs an NVIDIA GPU with its driver; torch finds none")
    index = torch.cuda.current_device() if checked.index is None else checked.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} does not exist; there are {torch.cuda.device_count()} CUDA devices")
    return torch.device("cuda", index)


def bool_tensor(mask: Any, what: str) -> torch.Tensor:
    """A torch or numpy array of bools as a tensor, without a copy where torch can view it."""
    if not isinstance(mask, (torch.Tensor, np.ndarray)):
        raise TypeError(f"{what} must be a torch tensor or a numpy array of bools, got {type(mask).__name__}")
    if mask.dtype not in (torch.bool, np.bool_):
        raise TypeError(f"{what} must have dtype bool, got {str(mask.dtype).removeprefix('torch.')}")
    return mask if isinstance(mask, torch.Tensor) else torch.from_numpy(np.require(mask, requirements="CW"))


def checked_options(options: Any, known: tuple[str, ...], here: str = "") -> dict[str, Any]:
    """The options of a reset that are given; TypeError or ValueError unless ``options`` is a dict of known names."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict or None, got {type(options).__name__}")
    for name in options or {}:
        if name not in known:
            raise ValueError(f"reset has no option {name!r}{here}; it has: {', '.join(known) or 'none'}")
    return {name: value for name, value in (options or {}).items() if value is not None}


def number_tensor(values: Any, what: str, shape: str = "numbers in rows of one length") -> torch.Tensor:
    """A tensor, numpy array, number or list of these as a tensor; without a copy where torch can view it.

    Raises TypeError or ValueError; ``shape`` says in words what is wanted of lists.
    """
    if isinstance(values, (list, tuple, int, float, np.generic)):
        try:
            values = np.asarray(values)
        except ValueError:
            raise ValueError(f"{what} must have {shape}, got ragged lists") from None
    if isinstance(values, torch.Tensor):
        return values
    if not isinstance(values, np.ndarray):
        raise TypeError(f"{what} must be a torch tensor or a numpy array, got {type(values).__name__}")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise TypeError(f"{what} must be numbers, got a numpy array of dtype {values.dtype}")
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    elif values.dtype in (np.uint16, np.uint32, np.uint64):  # torch hardly computes with them
        if values.size and values.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{what} must be numbers of 64 bits with a sign, got {values.max()}")
        values = values.astype(np.int64)
    # What torch cannot view is copied: other byte orders, other strides, read-only memory.
    return torch.from_numpy(np.require(values, values.dtype.newbyteorder("="), "CW").reshape(values.shape))


def checked_seed(seed: Any) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= int(seed) < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1 or None, got {seed!r}")
    return int(seed)


def checked_count(count: Any, what: str, greatest: int | None = None) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise ValueError(f"{what} must be a positive integer, got {count!r}")
    if greatest is not None and count > greatest:
        raise ValueError(f"{what} must be at most {greatest}, got {count!r}")
    return int(count)


def checked_autoreset(mode: Any) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(repr(m.value) for m in AutoresetMode)
        raise ValueError(f"autoreset_mode must be an AutoresetMode or one of {allowed}, got {mode!r}") from None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
