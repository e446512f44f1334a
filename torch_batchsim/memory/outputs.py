"""Where the outputs of steps go: sets of tensors that take turns, tensors that a user binds, slots of a rollout."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

_MOST_SETS_OF_RESETS = 64  # kept; with slots each has two


@dataclass(frozen=True)
class OutputSpec:
    """Memory of one output, by its field of the context."""

    size: int  # elements
    dtype: torch.dtype


class OutputSet:
    """A place for every output of a step or reset.

    Attributes:
        tensors: by field of the context.
        address: of the ``tbs::Outputs`` that points to them.
        takes_turn: whether it is one of the simulator's own that steps write to in turns.
        movable: the tensors in the order of the pointers, where torch can move them (on CPU, for another process), else
            None.
        results: what the vector environment returns from here, put together when it is first asked for.
        by_agent: views of them for each agent, likewise.
    """

    __slots__ = ("_block", "_placed", "address", "by_agent", "movable", "results", "takes_turn", "tensors")

    def __init__(
        self, tensors: dict[str, torch.Tensor], structure: type[ctypes.Structure], takes_turn: bool = True
    ) -> None:
        self.tensors, self.takes_turn = tensors, takes_turn
        self._block = structure(**{field: tensor.data_ptr() for field, tensor in tensors.items()})
        self.address = ctypes.addressof(self._block)
        on_cpu = {field: tensor for field, tensor in tensors.items() if tensor.device.type == "cpu"}
        self.movable = tuple(on_cpu.get(field) for field, _ in structure._fields_) if on_cpu else ()
        self._placed = self._places()
        self.results: Any = None
        self.by_agent: Any = None

    def has_moved(self) -> bool:
        """Whether torch has moved one of the tensors."""
        return self._places() != self._placed

    def _places(self) -> list[int]:
        return [tensor.data_ptr() for tensor in self.movable if tensor is not None]


class Outputs:
    """The places of outputs, and whose turn it is.

    With two sets of its own, steps take them in turns, and resets after the first two others: so what a step returned
    stays as it is until the step after the next one, and what a reset returned until the second reset after it. What is
    bound takes the place of its own in all of them, and what is in a slot in those of steps.

    Args:
        specs: by field of the context.
        structure: the ``ctypes`` twin of ``tbs::Outputs``.
        sets: 1, all calls write to the same place; or 2.
        moved: called when other tensors than before are written to.

    Attributes:
        present: where the outputs of the last call lie.
        next: where those of the next step go.
    """

    def __init__(
        self,
        specs: dict[str, OutputSpec],
        structure: type[ctypes.Structure],
        device: torch.device,
        sets: int,
        moved: Callable[[], None],
    ) -> None:
        self.specs, self._structure, self._device, self._moved = specs, structure, device, moved
        self._own = [self._made(specs) for _ in range(sets)]
        self._own_of_resets: list[dict[str, torch.Tensor]] = []
        self._bound: dict[str, torch.Tensor] = {}
        self._slots: dict[str, tuple[torch.Tensor, ...]] = {}
        self._slot: int | None = None
        self._turn = self._turn_of_resets = 0
        self._was_reset = False
        self._sets: dict[tuple[int | None, int], OutputSet] = {}
        self._sets_of_resets: dict[tuple[int, ...], OutputSet] = {}
        self.next = self.present = self._set()

    def _made(self, specs: Mapping[str, OutputSpec]) -> dict[str, torch.Tensor]:
        return {field: torch.zeros(spec.size, dtype=spec.dtype, device=self._device) for field, spec in specs.items()}

    def _set(self) -> OutputSet:
        """The place for a step whose turn and slot it is."""
        key = self._slot, self._turn
        found = self._sets.get(key)
        if found is None:
            slot = {} if self._slot is None else {field: slots[self._slot] for field, slots in self._slots.items()}
            found = self._sets[key] = OutputSet(self._own[self._turn] | self._bound | slot, self._structure)
        return found

    def _rearrange(self) -> None:
        """After something was bound."""
        self._moved()
        self._sets, self._sets_of_resets = {}, {}
        self.next = self._set()

    @property
    def num_bytes(self) -> int:
        """Of the memory that was allocated here."""
        return sum(tensor.numel() * tensor.element_size() for _, tensor in self._own_tensors())

    def tensors(self) -> list[torch.Tensor]:
        """One of each memory to which calls may write."""
        own = [tensor for _, tensor in self._own_tensors()]
        return [*own, *self.present.tensors.values(), *self._bound.values(), *(s[0] for s in self._slots.values())]

    def _own_tensors(self) -> list[tuple[str, torch.Tensor]]:
        return [item for made in (*self._own, *self._own_of_resets) for item in made.items()]

    def mend(self) -> None:
        """Look for tensors that torch has moved, as ``share_memory_`` does and a queue to another process.

        The simulator's own are left to whoever has them, and others take their place; what a user bound is followed.
        To be called before each step or reset; ``step_call`` does the same for its own.
        """
        if self.next.has_moved():
            _replace_moved(self._own)
            self._rearrange()

    # ---- turns -----------------------------------------------------------------------------------------------------

    def advance(self, to: OutputSet) -> None:
        """A call has written to ``to``."""
        self.present = to
        if to.takes_turn:
            self._turn = (self._turn + 1) % len(self._own)
            self.next = self._set()

    def for_reset(self, whole: bool) -> OutputSet:
        """Where a reset writes; unless it is ``whole``, with the rows of the worlds that it leaves alone.

        Never to a slot: what the last step has written there stays.
        """
        first, self._was_reset = not self._was_reset, True
        if first and whole and not self._slots:
            return self.next
        to = self._set_of_reset()
        if not whole:
            for field, tensor in self.present.tensors.items():
                target = to.tensors[field]
                if target.data_ptr() != tensor.data_ptr():
                    target.view(-1).view(torch.uint8).copy_(tensor.view(-1).view(torch.uint8))
        return to

    def _set_of_reset(self) -> OutputSet:
        """Final values, which a reset does not write, stay where they are."""
        final = {field: tensor for field, tensor in self.present.tensors.items() if field.startswith("final_")}
        own = self._own[0] if len(self._own) == 1 else self._next_of_resets(final)
        key = id(own), *map(id, final.values())
        found = self._sets_of_resets.get(key)
        if found is None:
            if len(self._sets_of_resets) >= _MOST_SETS_OF_RESETS:
                self._sets_of_resets.clear()
            found = OutputSet(own | self._bound | final, self._structure, takes_turn=False)
            self._sets_of_resets[key] = found
        return found

    def _next_of_resets(self, final: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if not self._own_of_resets:
            specs = {field: spec for field, spec in self.specs.items() if field not in final}
            self._own_of_resets = [self._made(specs), self._made(specs)]
            self._moved()
        if _replace_moved(self._own_of_resets):
            self._sets_of_resets.clear()
        self._turn_of_resets = 1 - self._turn_of_resets
        return self._own_of_resets[self._turn_of_resets]

    # ---- places that a user gives ----------------------------------------------------------------------------------

    def bind(self, given: Mapping[str, torch.Tensor]) -> None:
        """Let outputs go to these tensors, checked before, from the next call on. Raises ValueError."""
        if self._slots:
            raise ValueError("slots are bound: call unbind() before bind() of single outputs")
        self._bound |= given
        self._rearrange()

    def bind_slots(self, given: Mapping[str, torch.Tensor]) -> None:
        """Take tensors ``[T, ...]`` as ``T`` slots; slot 0 is next. Raises ValueError."""
        if self._slots:
            raise ValueError("slots are bound already: call unbind() before other slots take their place")
        self._slots = {field: tensor.unbind() for field, tensor in given.items()}
        self._slot = 0
        self._rearrange()

    def select(self, slot: int) -> None:
        """Let the next step write to a slot. Raises TypeError or IndexError."""
        if type(slot) is not int:
            if isinstance(slot, bool) or not hasattr(slot, "__index__"):
                raise TypeError(f"a slot is an integer, got {slot!r}")
            slot = slot.__index__()
        if not 0 <= slot < self.num_slots:
            if not self._slots:
                raise IndexError(f"there is no slot {slot}: call bind_slots() before")
            raise IndexError(f"there is no slot {slot}; slots are from 0 to {self.num_slots - 1}")
        self._slot = slot
        self.next = self._set()

    @property
    def num_slots(self) -> int:
        """Slots that are bound."""
        return len(next(iter(self._slots.values()), ()))

    def unbind(self) -> None:
        """Let all outputs go to memory of one's own again, from the next call on."""
        self._slots, self._slot, self._bound = {}, None, {}
        self._rearrange()

    def check_disjoint(
        self, given: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor], slots: bool = False
    ) -> None:
        """Raise ValueError if outputs would share memory with each other or with ``others``.

        Args:
            given: what is to be bound, by field; with ``slots`` tensors ``[T, ...]``.
            others: what is not an output: state and the engine's own.

        Where an output lies already, it may be bound again: at the same place, or at that of a slot.
        """
        ranges = sorted((*_range(tensor), field) for field, tensor in given.items())
        if any(end > start for (_, end, _), (start, _, _) in pairwise(ranges)):
            raise ValueError("bind needs different tensors for different outputs, got some that share memory")
        all_others = [*others.items(), *self._own_tensors(), *self.present.tensors.items(), *self._bound.items()]
        held = [(*_range(memory), other) for other, memory in all_others]
        for field, tensor in given.items():
            start, end = _range(tensor)
            step = (end - start) // len(tensor) if slots else end - start
            for first, last, other in held:
                in_place = field == other and last - first == step and start <= first and (first - start) % step == 0
                if start < last and first < end and not in_place:
                    raise ValueError(
                        f"bind needs memory that nothing else is in, got a tensor for {_shown(field)} that shares some "
                        f"with {_shown(other)}"
                    )


def _replace_moved(sets: list[dict[str, torch.Tensor]]) -> bool:
    """Whether there were any."""
    moved = [
        (made, field)
        for made in sets
        for field, tensor in made.items()
        if tensor.device.type == "cpu" and tensor.is_shared()
    ]
    for made, field in moved:
        made[field] = torch.zeros_like(made[field])
    return bool(moved)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()


def _shown(field: str) -> str:
    """A field of the context in words."""
    return field.removeprefix("column_").removeprefix("output_")
