"""The memory of all worlds: a tensor for each column, the context that points to them, and views of them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base.shared import CHECK_RECORD, LOG_RECORD, NO_BUDGET, NO_FAULT, ActionBounds
from ..build.context import (
    TABLE_COLUMNS,
    action_width,
    bounds_in_context,
    check_spare_bytes,
    context_structure,
    engine_columns,
    final_columns,
    output_columns,
    output_flags,
    outputs_structure,
    workspace_fields,
)
from ..declare.columns import Column
from ..declare.fields import Field
from ..declare.schema import MAX_ROWS
from ..errors import SchemaError, UnalignedMemory
from ..resolve import chip
from ..resolve.program import Program
from .available import check_available
from .inputs import changed_numbers, check_has_memory
from .outputs import Outputs, OutputSet, OutputSpec
from .streams import StreamUse
from .tables import TableMemory

_BOOKKEEPING_BYTES = 16  # of a slot of a dynamic table
_WORLD_TENSORS = ("step", "episode", "terminated", "truncated")
_AGENT_TENSORS = ("terminated", "truncated", "done")

# Kept for ever: kernels under way when a simulator goes may still write to its flag, which is host memory.
_pinned_flags: list[torch.Tensor] = []


@dataclass(frozen=True)
class Binding:
    """What a tensor must be to be bound, and where it then goes."""

    field: str  # of the context
    shape: torch.Size  # [worlds, rows, ...]
    rows: torch.Size  # [worlds * rows, ...]
    dtype: torch.dtype
    alignment: int  # bytes


class Memory:
    """The columns of ``num_worlds`` worlds of ``program`` on ``device``.

    Args:
        cuda: lay it out for the CUDA executors (which the tests also emulate on a CPU).
        keep_final: have memory for what observations and infos were at the end of an episode.
        autoreset: the code of ``tbs::Autoreset``.
        output_sets: see ``Outputs``.

    Attributes:
        outputs: the places of what steps return.
        context: the ``ctypes`` structure that the library reads.
        tables: the dynamic tables by name.
        others: what else the context points to, by its field.
        lent: what callers may let torch move, to share it with another process: each with its address.
        streams: on which streams all of it is used.
    """

    def __init__(
        self,
        program: Program,
        num_worlds: int,
        device: torch.device,
        *,
        cuda: bool,
        keep_final: bool,
        autoreset: int,
        output_sets: int = 1,
    ) -> None:
        self.program, self.num_worlds, self.device, self.cuda = program, num_worlds, device, cuda
        self._check_rows()
        self._bindings: dict[str, Binding] = {}
        structure = outputs_structure(program)
        self.streams = StreamUse()
        specs = self._output_specs(keep_final)
        outputs = sum(spec.size * spec.dtype.itemsize for spec in specs.values())
        fixed = sum(size * dtype.itemsize for size, dtype in self._fixed_sizes(specs).values())
        check_available(fixed + self._bytes_of_tables() + output_sets * outputs, num_worlds, device)
        self.outputs = Outputs(specs, structure, device, output_sets, self.streams.memory_moved)
        self._fixed = self._allocate()
        self.lent: list[tuple[torch.Tensor, int]] = []
        self.others: dict[str, torch.Tensor] = {}
        self.flags = torch.zeros(2, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.fault_flag, self.crowded_flag = self.flags.numpy()[:1], self.flags.numpy()[1:]  # cheap to look at
        if device.type == "cuda":
            _pinned_flags.append(self.flags)
        context = self.context = context_structure(program, cuda)()
        context.num_worlds = num_worlds
        context.device = device.index or 0
        context.autoreset = autoreset
        context.keep_final = int(keep_final)
        context.fault_flag = self.flags.data_ptr()
        if cuda:
            self.others["queue"] = torch.zeros(2, dtype=torch.int32, device=device)
            context.queue = self.others["queue"].data_ptr()
            context.chip_bytes = chip.chip_bytes_of(device)
        if program.checks is not None:
            words = num_worlds * (CHECK_RECORD.itemsize // 8)
            self.others["check_records"] = torch.zeros(words, dtype=torch.int64, device=device)
            context.check_records = self.others["check_records"].data_ptr()
            context.loop_budget = program.checks.loops or NO_BUDGET
            if cuda:
                words = num_worlds * (check_spare_bytes(program) // 8)
                self.others["check_spare"] = torch.zeros(words, dtype=torch.int64, device=device)
                context.check_spare = self.others["check_spare"].data_ptr()
        if program.check_sites:
            self.others["check_steps"] = torch.zeros(num_worlds, dtype=torch.int32, device=device)
            context.check_steps = self.others["check_steps"].data_ptr()
        if program.log:
            words = num_worlds * program.log * (LOG_RECORD.itemsize // 8)
            self.others["log_records"] = torch.zeros(words, dtype=torch.int64, device=device)
            self.others["log_counts"] = torch.zeros(num_worlds, dtype=torch.int32, device=device)
            for name in ("log_records", "log_counts"):
                setattr(context, name, self.others[name].data_ptr())
            context.log_room = program.log
        for name, column in self._fixed.items():
            setattr(context, name, column.data_ptr())
        self._layout = 0
        self.tables = self._dynamic_tables()
        self._fill()

    def _check_rows(self) -> None:
        for archetype in self.program.archetypes:
            rows = archetype.capacity or archetype.count
            if rows * self.num_worlds > MAX_ROWS:
                raise ValueError(
                    f"num_worlds={self.num_worlds} with {rows} rows of {archetype.name} each is more than "
                    f"{MAX_ROWS} rows; at most {MAX_ROWS // rows} worlds are allowed"
                )

    # ---- allocation ------------------------------------------------------------------------------------------------

    def _output_specs(self, keep_final: bool) -> dict[str, OutputSpec]:
        program, worlds = self.program, self.num_worlds
        final = final_columns(program)
        specs = {
            name: OutputSpec(worlds * column.rows_per_world * column.component.size, torch.uint8)
            for name, column in output_columns(program).items()
            if keep_final or name not in final
        }
        for name, _, dtype, per_agent in output_flags(program):
            specs[name] = OutputSpec(worlds * (program.agents.count if per_agent else 1), dtype)
        return specs

    def _fixed_sizes(self, outputs: Mapping[str, OutputSpec]) -> dict[str, tuple[int, torch.dtype]]:
        """Elements and dtype of what stays where it is, by name in the context."""
        program, worlds = self.program, self.num_worlds
        sizes: dict[str, tuple[int, torch.dtype]] = {}
        for name, _, dtype, per_agent in engine_columns(program, self.cuda):
            if name not in outputs:
                sizes[name] = worlds * (program.agents.count if per_agent else 1), dtype
        for column in program.columns.values():
            name = f"column_{column.c_name}"
            if not column.dynamic and name not in outputs:
                rows = 1 if column.resource else worlds * column.rows_per_world
                sizes[name] = rows * column.component.size, torch.uint8
        return sizes

    def _allocate(self) -> dict[str, torch.Tensor]:
        made = {
            name: torch.zeros(size, dtype=dtype, device=self.device)
            for name, (size, dtype) in self._fixed_sizes(self.outputs.specs).items()
        }
        made["fault"].fill_(NO_FAULT)
        return made

    def _bytes_of_tables(self) -> int:
        """Of dynamic tables, as they begin."""
        columns = [column for column in self.program.columns.values() if column.dynamic]
        rows = sum(column.component.size * column.rows_per_world for column in columns)
        return self.num_worlds * (rows + sum(_BOOKKEEPING_BYTES * a.capacity for a in self.program.dynamic))

    def make_room_for(self, executor: str) -> None:
        """Have rows for the workspace that a CUDA executor does not have on chip."""
        if not self.cuda:
            return
        needed = chip.in_rows(self.program, executor, self.context.chip_bytes)
        for name, column in workspace_fields(self.program).items():
            if column in needed and name not in self.others:
                size = self.num_worlds * column.component.size
                self.others[name] = torch.empty(size, dtype=torch.uint8, device=self.device)
                setattr(self.context, name, self.others[name].data_ptr())

    @property
    def layout(self) -> int:
        """Goes up whenever a dynamic table has moved to other memory."""
        return self._layout

    @layout.setter
    def layout(self, layout: int) -> None:
        if layout != self._layout:
            self.streams.memory_moved()
            self._forget_lent()
        self._layout = layout

    def used(self) -> list[torch.Tensor]:
        """All memory of the device that steps use."""
        return [*self._fixed.values(), *self.others.values(), *self.outputs.tensors()]

    @property
    def columns(self) -> dict[str, torch.Tensor]:
        """Each column's memory by its name in the context, outputs where they lie at present."""
        return self._fixed | self.outputs.present.tensors

    @property
    def num_bytes(self) -> int:
        """Of all memory, what is allocated for outputs included; without what a user has bound."""
        fixed = sum(tensor.numel() * tensor.element_size() for tensor in self._fixed.values())
        others = sum(t.numel() for name, t in self.others.items() if name.startswith(("workspace_", "held_")))
        return fixed + others + self.outputs.num_bytes

    def _memory_of(self, field: str) -> torch.Tensor | None:
        """The tensor of a field of the context at present, None if there is none."""
        placed = self.outputs.present.tensors.get(field)
        return self._fixed.get(field) if placed is None else placed

    def _dynamic_tables(self) -> dict[str, TableMemory]:
        program, tables = self.program, {}
        if program.dynamic:
            self.context.crowded_flag = self.flags[1:].data_ptr()
        for archetype in program.dynamic:
            own = [column for column in program.columns.values() if column.table == archetype.name]
            tables[archetype.name] = TableMemory(
                archetype, own, self.num_worlds, self.device, self._fixed, self.context
            )
        return tables

    def _fill(self) -> None:
        """Write what options and resources say."""
        context = self.context
        for scope in self.program.scopes:
            parameters = getattr(context.parameters, scope.name, None) if scope.name else context.parameters
            for name, value in scope.parameters.items():
                setattr(parameters, name, value)
            given = scope.declaration.resource_values()
            if not isinstance(given, Mapping):
                raise SchemaError(
                    f"{scope.title}: resource_values must return a dict of values by name, got {given!r}"
                )
            for own_name, value in given.items():
                name = f"{scope.prefix}{own_name}"
                self.check_named("resource_values", name, "resource", lambda column: column.resource)
                tensor = self.tensor(name)
                tensor.copy_(self.fitting("resource_values", name, value, tensor))
        low, high = action_bounds(self.program)
        if bounds_in_context(self.program):
            for i, (least, most) in enumerate(zip(low, high, strict=True)):
                context.action_bounds[i] = ActionBounds(least, most)
        else:
            bounds = torch.tensor([low, high], dtype=torch.float64).T.contiguous().to(self.device)
            self.others["action_bounds"] = bounds
            context.action_bounds = bounds.data_ptr()

    def bytes_of_world(self, most: int | None = None) -> int:
        """Bytes of a world's columns, a measure of a step's work; without columns of more than ``most`` bytes."""
        columns = [column for column in self.program.columns.values() if not column.resource]
        sizes = [c.component.size * c.rows_per_world for c in columns if not c.dynamic]
        dynamic = [c.component.size * c.rows_per_world for c in columns if c.dynamic]
        dynamic += [_BOOKKEEPING_BYTES * archetype.capacity for archetype in self.program.dynamic]
        return sum(size for size in sizes if most is None or size <= most) + sum(dynamic) + 16

    def resource_fields(self) -> set[str]:
        """Names in the context of the columns that there are once for all worlds."""
        return {f"column_{column.c_name}" for column in self.program.columns.values() if column.resource}

    # ---- values that an environment gives --------------------------------------------------------------------------

    def check_named(self, method: str, name: str, kind: str, allowed: Callable[[Column], bool]) -> None:
        """Raise SchemaError unless ``name``, which a method of the environment gives a value, is of such a kind."""
        try:
            column, _ = self.program.find(name, method)
        except (AttributeError, KeyError, TypeError) as error:
            raise SchemaError(f"{self.program.environment.name}: {error.args[0]}") from None
        if not allowed(column):
            raise SchemaError(f"{self.program.environment.name}: {method} names {name!r}, which is not a {kind}")

    def fitting(self, method: str, name: str, value: Any, like: torch.Tensor) -> torch.Tensor:
        """``value`` with shape and dtype of ``like``, or SchemaError where that would change numbers."""
        what = f"{self.program.environment.name}: {method} of {name!r}"
        try:
            given = torch.as_tensor(value, device=self.device).expand_as(like)
        except (RuntimeError, TypeError, ValueError):
            shape = f"shape {list(value.shape)}" if hasattr(value, "shape") else repr(value)
            raise SchemaError(f"{what} needs shape {list(like.shape)}, got {shape}") from None
        fitting = given.to(like.dtype)
        lost = changed_numbers(given, fitting)
        if bool(lost.any()):
            dtype = str(like.dtype).removeprefix("torch.")
            raise SchemaError(f"{what} has {given[lost][0]}, which {dtype} cannot hold")
        return fitting

    # ---- tensors by name -------------------------------------------------------------------------------------------

    def drop_half_done(self) -> None:
        """After a step that was stopped: no rows, no marks, no requests and no faults of it are left."""
        for table in self.tables.values():
            table.empty()
            for field in ("added", "crowded", "doomed"):
                table[field].zero_()
        self.columns["fault"].fill_(NO_FAULT)
        self.flags.zero_()

    def tensor(self, name: str) -> torch.Tensor:
        """See ``Simulator.tensor``."""
        field, column, selected = self._find(name)
        return self._shaped(name, self._memory_of(field), column, selected)

    def lend(self, name: str) -> torch.Tensor:
        """``tensor``, for a caller."""
        field, column, _ = self._find(name)
        self._lend(field)
        for part in TABLE_COLUMNS if column is not None and column.dynamic else ():
            self._lend(f"table_{column.table}_{part}")
        return self.tensor(name)

    def _lend(self, field: str) -> None:
        tensor = self._fixed.get(field)  # outputs are watched by themselves
        if tensor is not None and self.device.type == "cpu" and all(tensor is not lent for lent, _ in self.lent):
            self.lent.append((tensor, tensor.data_ptr()))

    def follow_lent(self) -> None:
        """Let steps use what was lent where torch has moved it. To be called before each; ``step_call`` looks too."""
        if all(tensor.data_ptr() == address for tensor, address in self.lent):
            return
        for field, tensor in self._fixed.items():
            if not field.startswith("table_"):
                setattr(self.context, field, tensor.data_ptr())
        for table in self.tables.values():
            table.point()
        self.lent[:] = [(tensor, tensor.data_ptr()) for tensor, _ in self.lent]

    def _forget_lent(self) -> None:
        """Forget what the engine no longer uses, such as the former memory of a table."""
        used = {id(tensor) for tensor in self._fixed.values()}
        self.lent[:] = [entry for entry in self.lent if id(entry[0]) in used]

    def rows_of(self, name: str, places: OutputSet) -> torch.Tensor:
        """An output in a set, as the vector environment returns it: ``[rows, ...]``."""
        field, column, selected = self._find(name)
        tensor = self._shaped(name, places.tensors[field], column, selected)
        return tensor.view(-1, *tensor.shape[2:])

    def _shaped(self, name: str, memory: torch.Tensor, column: Column | None, selected: Field | None) -> torch.Tensor:
        if column is not None:
            return self.view(memory, column, selected)
        return memory.view(self.num_worlds, -1) if name.startswith("Agents.") else memory.view(-1)

    def field_of(self, name: str) -> str:
        """The context's field that an output's name means: a key of ``OutputSet.tensors``."""
        return self._find(name)[0]

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
            own = f"agent_{rest}" in self.outputs.specs
            return f"agent_{rest}" if own else rest, None, None
        if table == "final":
            column, selected = self.program.find(rest)
            field = f"final_{column.c_name}"
            if field not in self.outputs.specs:
                raise KeyError(f"tensor {name!r} is not kept; kept with SAME_STEP: observations and infos")
            return field, column, selected
        if table == "output":
            column, selected = self.program.find(rest)
            if column not in self.program.outputs:
                known = ", ".join(f"output.{column.name}" for column in self.program.outputs)
                raise KeyError(f"tensor {name!r} does not exist: {rest} is not an output; there are {known}")
            return self.program.output_field(column), column, selected
        column, selected = self.program.find(name)
        return f"column_{column.c_name}", column, selected

    def view(
        self, memory: torch.Tensor, column: Column, selected: Field | None, worlds: int | None = None
    ) -> torch.Tensor:
        """A column's bytes as a tensor of all its fields, or of one; ``worlds``: of a copy that holds so many."""
        worlds = self.num_worlds if worlds is None else worlds
        lead = [worlds] if column.singleton else [worlds, column.rows_per_world]
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
        inner = [stride // itemsize for stride in selected.strides]
        offset = elements.storage_offset() + selected.offset // itemsize
        return elements.as_strided([*lead, *shape], [*strides, *inner], offset)

    # ---- bind ------------------------------------------------------------------------------------------------------

    def bind(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """See ``Simulator.bind``, of several at once."""
        bindings = {name: self.check_bindable(name, tensor) for name, tensor in tensors.items()}
        by_field = {binding.field: tensors[name] for name, binding in bindings.items()}
        own = {field: tensor for field, tensor in self._fixed.items() if field not in by_field}
        self.outputs.check_disjoint(by_field, own)
        placed = {field: tensor for field, tensor in by_field.items() if field in self.outputs.specs}
        if placed:
            self.outputs.bind(placed)
        for name, binding in bindings.items():
            if binding.field not in placed:
                tensors[name].view(binding.shape).copy_(self.tensor(name))
                self.streams.memory_moved()
                self._fixed[binding.field] = tensors[name]
                setattr(self.context, binding.field, tensors[name].data_ptr())
                self._forget_lent()
                self._lend(binding.field)

    def move_outputs(self) -> None:
        """Before outputs are written from outside: let them lie where a reset would put them."""
        to = self.outputs.for_reset(whole=False)
        self.outputs.advance(to)

    def bind_slots(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """See ``TorchVectorEnv.bind_slots``; by the names of outputs."""
        if not tensors:
            raise ValueError("bind_slots needs at least one output")
        fields, counts = {}, {}
        for name, tensor in tensors.items():
            what = self._shown(name)
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"bind_slots of {what} needs a torch tensor, got {type(tensor).__name__}")
            if tensor.ndim < 1 or len(tensor) < 1:
                raise ValueError(f"bind_slots of {what} needs a tensor [slots, ...], got shape {list(tensor.shape)}")
            if not tensor.is_contiguous():
                raise ValueError(f"bind_slots of {what} needs a contiguous tensor, got strides {tensor.stride()}")
            fields[name] = self.check_bindable(name, tensor[0], "a slot of ").field
            if fields[name] not in self.outputs.specs:
                raise ValueError(f"bind_slots takes outputs of a step, and {name} is not one")
            counts[name] = len(tensor)
        if len(set(counts.values())) > 1:
            given = ", ".join(f"{count} of {self._shown(name)}" for name, count in counts.items())
            raise ValueError(f"bind_slots needs as many slots of each output, got {given}")
        by_field = {fields[name]: tensor for name, tensor in tensors.items()}
        self.outputs.check_disjoint(by_field, self._fixed, slots=True)
        self.outputs.bind_slots(by_field)

    def check_bindable(self, name: str, tensor: Any, part: str = "") -> Binding:
        """Raise what ``bind`` would raise, of ``part`` of what was given."""
        binding = self._bindings.get(name)
        if binding is None:
            binding = self._bindings[name] = self._new_binding(name)
        what = part + self._shown(name)
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"bind of {what} needs a torch tensor, got {type(tensor).__name__}")
        check_has_memory(tensor, f"bind of {what}")
        if tensor.shape != binding.rows and tensor.shape != binding.shape:
            shapes = " or ".join(str(list(shape)) for shape in dict.fromkeys((binding.shape, binding.rows)))
            raise ValueError(f"bind of {what} needs shape {shapes}, got {list(tensor.shape)}")
        if tensor.dtype != binding.dtype:
            raise TypeError(f"bind of {what} needs dtype {binding.dtype}, got {tensor.dtype}")
        if tensor.device != self.device:
            raise ValueError(f"bind of {what} needs a tensor on {self.device}, got one on {tensor.device}")
        if not tensor.is_contiguous():
            raise ValueError(f"bind of {what} needs a contiguous tensor, got strides {tensor.stride()}")
        if tensor.requires_grad:
            raise ValueError(f"bind of {what} needs a tensor without gradient")
        past = tensor.data_ptr() % binding.alignment
        if past:
            raise UnalignedMemory(
                f"bind of {what} needs memory at a multiple of {binding.alignment} bytes, for rows move as vectors; "
                f"got an address {past} bytes past one"
            )
        return binding

    def _shown(self, name: str) -> str:
        """The name of an output in the words of ``env.bind``."""
        kind, _, rest = name.partition(".")
        words = {
            "Agents.terminated": "terminations",
            "Agents.truncated": "truncations",
            self.program.reward.name: "rewards",
        }
        return words.get(name, {"output": f"the output {rest}", "final": f"the final value of {rest}"}.get(kind, name))

    def _new_binding(self, name: str) -> Binding:
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
        alignment = current.dtype.itemsize if column is None else column.component.alignment
        return Binding(field, current.shape, rows, current.dtype, alignment)


def action_bounds(program: Program) -> tuple[list[float], list[float]]:
    """Least and greatest value that a step takes in each element of one agent's action, both ends included."""
    space, width = program.action_space, action_width(program)
    if hasattr(space, "nvec"):
        starts = np.broadcast_to(space.start, space.nvec.shape).reshape(-1)
        return starts.astype(float).tolist(), (starts + space.nvec.reshape(-1) - 1).astype(float).tolist()
    if hasattr(space, "n"):
        return [float(space.start)] * width, [float(space.start + space.n - 1)] * width
    if program.environment.clips_actions:
        most = float(np.finfo(np.float64).max)  # less than infinity, which is not a number to clip
        return [-most] * width, [most] * width
    return space.low.reshape(-1).astype(float).tolist(), space.high.reshape(-1).astype(float).tolist()
