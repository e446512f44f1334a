"""A memory: an LSTM or a GRU over sequences, computed by ``csrc/host/memory.h`` on the CPU, else by torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..base.kernels import ADDRESS, NUMBER, can_compute, fields, library, threads
from .encoders import linear


class Past(NamedTuple):
    """The knowledge of a network with a memory about a sequence `[T, N]`, beside its inputs.

    hidden float32 `[N, state_size]` is the state before the first step. The state is zero again behind a step with
    `ends` (bool `[T, N]`, None: nowhere), where the next episode begins. Where `active` (bool `[T, N]`, None:
    everywhere) is false it waits, and the output is meaningless.
    """

    hidden: Tensor
    ends: Tensor | None
    active: Tensor | None


def forgotten(hidden: Tensor, ends: Tensor) -> Tensor:
    """States `[N, state_size]`, zero where an episode ends."""
    return torch.where(ends.unsqueeze(-1), 0.0, hidden)


class Cell(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) or a GRU (Cho et al. 2014), as torch's cells compute them.

    A state `[..., state_size]` is the output, `size` numbers, behind which an LSTM has as many of its cells. Each gate
    is orthogonal at first, and the gate that keeps what is remembered has a bias of 1, so that an untrained memory is
    long (Jozefowicz et al. 2015, "An empirical exploration of recurrent network architectures").

    On the CPU the results are torch's but for the last bits: they do not depend on the number of torch's threads, nor
    those of a row on other rows. Errors of sigmoid and tanh are below 2e-7.
    """

    def __init__(self, kind: str, inputs: int, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.kind, self.inputs, self.size = kind, inputs, size
        gates = {"lstm": 4, "gru": 3}[kind]
        self.state_size = 2 * size if kind == "lstm" else size
        self.of_input = linear(inputs, gates * size, 1.0, generator)
        self.of_hidden = linear(size, gates * size, 1.0, generator)
        for layer in (self.of_input, self.of_hidden):
            for gate in layer.weight.data.split(size):
                nn.init.orthogonal_(gate, generator=generator)
        nn.init.ones_(self.of_input.bias.data.split(size)[1])
        self.free = _Free()

    @property
    def parts(self) -> list[Tensor]:
        """The parameters, as C++ takes them."""
        # In torch's modules an attribute is looked up in three dicts, one after the other.
        layers: list[dict[str, Any]] = [self.of_input._parameters, self.of_hidden._parameters]
        return [each[name] for each in layers for name in ("weight", "bias")]

    def forward(self, gates: Tensor, state: Tensor) -> Tensor:
        """Gates of the input, `of_input(x)` `[..., gates * size]`, and a state to the next state, by torch."""
        if self.kind == "lstm":
            hidden, cell = state.chunk(2, dim=-1)
            take, keep, new, show = (gates + self.of_hidden(hidden)).chunk(4, dim=-1)
            cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
            return torch.cat([show.sigmoid() * cell.tanh(), cell], dim=-1)
        reset, keep, new = gates.chunk(3, dim=-1)
        reset_hidden, keep_hidden, new_hidden = self.of_hidden(state).chunk(3, dim=-1)
        keep = (keep + keep_hidden).sigmoid()
        new = (new + (reset + reset_hidden).sigmoid() * new_hidden).tanh()
        return torch.lerp(new, state, keep)

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """One step of rows `[..., inputs]` with states `[..., state_size]`: the states behind it."""
        if not can_compute(inputs, state):
            return self(self.of_input(inputs), state)
        rows, states = inputs.reshape(1, -1, self.inputs), state.reshape(-1, self.state_size)
        if torch.is_grad_enabled():
            return torch.cat(self.sequence(rows, Past(states, None, None)), dim=-1).view(state.shape)
        behind = torch.empty(states.shape)
        given, taken, outputs = Given(self), Taken(rows, Past(states, None, None)), behind.data_ptr()
        cells = outputs + 4 * self.size if self.kind == "lstm" else None
        places = outputs, cells, self.state_size, None
        library().cell_forward(given.address, taken.address, *places, threads())  # type: ignore[union-attr]
        return behind.view(state.shape)

    def sequence(self, inputs: Tensor, past: Past) -> tuple[Tensor, ...]:
        """Steps `[T, N, inputs]` to the states behind each, as they were before an end makes them zero: the outputs
        `[T, N, size]`, and of an LSTM the cells `[T, N, size]`."""
        if can_compute(inputs, past.hidden):
            found = _Steps.apply(inputs, past.hidden, self, past.ends, past.active, *self.parts)
            return found if self.kind == "lstm" else found[:1]
        state, states = past.hidden, []
        for t, gates in enumerate(self.of_input(inputs).unbind()):  # one product for all steps
            behind = self(gates, state)
            if past.active is not None:
                behind = torch.where(past.active[t].unsqueeze(-1), behind, state)
            states.append(behind)
            state = behind if past.ends is None else forgotten(behind, past.ends[t])
        return torch.stack(states).split(self.size, dim=-1)


class _Free(list[Tensor]):
    """Memory kept by a forward, read by its backward: new memory would be paged in. A copy of a cell has its own."""

    def room(self, size: int) -> Tensor:
        """Float32 `[n]`, n at least `size`."""
        return self.pop() if self and len(self[-1]) >= size else torch.empty(size)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Free:
        return _Free()


class _CellRecord(ctypes.Structure):
    """The record of a cell for C++."""

    _fields_ = fields(NUMBER, "is_lstm inputs size") + fields(ADDRESS, "addresses gradients")


class _SequenceRecord(ctypes.Structure):
    """The record of a sequence for C++."""

    _fields_ = fields(NUMBER, "steps rows") + fields(ADDRESS, "inputs state ends active")


class Given:
    """A cell as C++ takes it, with the places of gradients of its parameters."""

    def __init__(self, cell: Cell, gradients: Sequence[Tensor] = ()) -> None:
        both = cell.parts, gradients
        self._kept = [(NUMBER * len(some))(*(each.data_ptr() for each in some)) for some in both]
        places = map(ctypes.addressof, self._kept)
        self._record = _CellRecord(cell.kind == "lstm", cell.inputs, cell.size, *places)
        self.address = ctypes.addressof(self._record)


class Taken:
    """A sequence `[T, N]` as C++ takes it."""

    def __init__(self, inputs: Tensor, past: Past) -> None:
        self._kept = [None if each is None else each.contiguous() for each in (inputs, *past)]
        places = (None if each is None else each.data_ptr() for each in self._kept)
        self._record = _SequenceRecord(len(inputs), len(past.hidden), *places)
        self.address = ctypes.addressof(self._record)


class NetworkRecord(ctypes.Structure):
    """The record of a network for C++: hidden layers, last layer and `Given`; or, without a memory, its layers."""

    _fields_ = fields(ADDRESS, "body last cell")


class _Steps(torch.autograd.Function):
    """Inputs and first state, who computes, ends and activity, and the cell's parameters, to outputs and cells."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, state: Tensor, cell: Cell, ends: Tensor | None, active: Tensor | None, *_: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        given, taken = Given(cell), Taken(inputs, Past(state, ends, active))
        shape = *inputs.shape[:2], cell.size
        outputs, cells = torch.empty(shape), torch.empty(shape) if cell.kind == "lstm" else None
        kept = None
        if any(ctx.needs_input_grad):
            size = library().cell_kept(given.address, taken.address)  # type: ignore[union-attr]
            kept = cell.free.room(size)
            ctx.set_materialize_grads(False)
            ctx.cell, ctx.kept, ctx.taken = cell, kept, taken
            ctx.shapes = inputs.shape, state.shape
        places = (None if each is None else each.data_ptr() for each in (outputs, cells))
        behind = cell.size, None if kept is None else kept.data_ptr()
        library().cell_forward(given.address, taken.address, *places, *behind, threads())  # type: ignore[union-attr]
        return outputs, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor | None, of_cells: Tensor | None) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("gradients of a network of torch_batchsim.train can be taken once")
        cell: Cell = ctx.cell
        gradients = [torch.empty_like(part) for part in cell.parts]
        wanted = zip(ctx.needs_input_grad, ctx.shapes, strict=False)
        of_inputs, of_state = (torch.empty(shape) if needed else None for needed, shape in wanted)
        by = [None if each is None else each.contiguous() for each in (of_outputs, of_cells)]
        places = (None if each is None else each.data_ptr() for each in (ctx.kept, *by, of_inputs, of_state))
        given = Given(cell, gradients)
        library().cell_backward(given.address, ctx.taken.address, *places, threads())  # type: ignore[union-attr]
        cell.free[:] = [ctx.kept]
        ctx.kept = ctx.taken = None
        return of_inputs, of_state, None, None, None, *gradients
