"""Where the outputs of steps go: sets of tensors that take turns, tensors that a user binds, slots of a rollout."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch


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
        results: what the vector environment returns from here, put together when it is first asked for.
    """

    __slots__ = ("_block", "address", "results", "tensors")

    def __init__(self, tensors: dict[str, torch.Tensor], structure: type[ctypes.Structure]) -> None:
        self.tensors = tensors
        self._block = structure(**{field: tensor.data_ptr() for field, tensor in tensors.items()})
        self.address = ctypes.addressof(self._block)
        self.results: Any = None


class Outputs:
    """The places of outputs, and whose turn it is.

    With two sets of its own, steps take them in turns, and resets of some worlds two others: so what a step returned
    stays as it is until the step after the next one. What is bound takes the place of its own in all of them. A user's
    slots come before all others.

    Args:
        specs: by field of the context.
        structure: the ``ctypes`` twin of ``tbs::Outputs``.
        sets: 1, all calls write to the same place; or 2.

    Attributes:
        present: where the outputs of the last call lie.
        next: where those of the next step go.
    """

    def __init__(
        self, specs: dict[str, OutputSpec], structure: type[ctypes.Structure], device: torch.device, sets: int
    ) -> None:
        self.specs, self._structure, self._device = specs, structure, device
        self._own = [self._made() for _ in range(sets)]
        self._own_of_resets: list[dict[str, torch.Tensor]] = []
        self._bound: dict[str, torch.Tensor] = {}
        self._slots: list[OutputSet] = []
        self._turn = self._turn_of_resets = 0
        self._arrange()
        self.present = self.next

    def _made(self) -> dict[str, torch.Tensor]:
        return {
            field: torch.zeros(spec.size, dtype=spec.dtype, device=self._device) for field, spec in self.specs.items()
        }

    def _arrange(self) -> None:
        """After something was bound."""
        self._of_steps = [OutputSet(own | self._bound, self._structure) for own in self._own]
        self._of_resets = [OutputSet(own | self._bound, self._structure) for own in self._own_of_resets]
        self.next = self._of_steps[self._turn]

    @property
    def num_bytes(self) -> int:
        """Of the memory that was allocated here."""
        own = [tensor for made in (*self._own, *self._own_of_resets) for tensor in made.values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in own)

    # ---- turns -----------------------------------------------------------------------------------------------------

    def advance(self, to: OutputSet) -> None:
        """A call has written to ``to``."""
        self.present = to
        if not self._slots:
            if to is self.next:
                self._turn = (self._turn + 1) % len(self._of_steps)
            self.next = self._of_steps[self._turn]

    def for_reset(self, whole: bool) -> OutputSet:
        """Where a reset writes; unless it is ``whole``, with the rows of the worlds that it leaves alone."""
        if whole or self._slots or len(self._own) == 1:
            to = self.next
        else:
            if not self._own_of_resets:
                self._own_of_resets = [self._made(), self._made()]
                self._of_resets = [OutputSet(own | self._bound, self._structure) for own in self._own_of_resets]
            self._turn_of_resets = 1 - self._turn_of_resets
            to = self._of_resets[self._turn_of_resets]
        if not whole:
            self._copy(self.present, to)
        return to

    def _copy(self, source: OutputSet, to: OutputSet) -> None:
        """All but final values, which mean something in the rows of a step only."""
        for field, tensor in source.tensors.items():
            target = to.tensors[field]
            if not field.startswith("final_") and target.data_ptr() != tensor.data_ptr():
                target.view(-1).view(torch.uint8).copy_(tensor.view(-1).view(torch.uint8))

    # ---- places that a user gives ----------------------------------------------------------------------------------

    def bind(self, given: Mapping[str, torch.Tensor]) -> None:
        """Let outputs go to these tensors, checked before, from the next call on. Raises ValueError."""
        if self._slots:
            raise ValueError("slots are bound: call unbind() before bind() of single outputs")
        self._check_disjoint(given.items())
        self._bound |= given
        self._arrange()

    def bind_slots(self, given: Mapping[str, torch.Tensor]) -> None:
        """Prepare a set for each slot ``t`` of tensors ``[T, ...]``; slot 0 is next. Raises ValueError."""
        if self._slots:
            raise ValueError("slots are bound already: call unbind() before other slots take their place")
        count = len(next(iter(given.values())))
        parts = {field: tensor.unbind() for field, tensor in given.items()}
        self._check_disjoint((field, part) for field, slots in parts.items() for part in slots)
        for t in range(count):
            others = self._own[t % len(self._own)] | self._bound
            own = {field: slots[t] for field, slots in parts.items()}
            self._slots.append(OutputSet(others | own, self._structure))
        self.next = self._slots[0]

    def select(self, slot: int) -> None:
        """Let the next call write to a slot. Raises IndexError."""
        if not 0 <= slot < len(self._slots):
            bound = f"from 0 to {len(self._slots) - 1}" if self._slots else "none: call bind_slots() before"
            raise IndexError(f"there is no slot {slot}; slots are {bound}")
        self.next = self._slots[slot]

    @property
    def num_slots(self) -> int:
        """Slots that are bound."""
        return len(self._slots)

    def unbind(self) -> None:
        """Let all outputs go to memory of one's own again, from the next call on."""
        self._slots, self._bound = [], {}
        self._arrange()

    def _check_disjoint(self, given: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Raise ValueError if outputs would share memory, or one lie across where the present ones are."""
        given = list(given)
        ranges = sorted(_range(tensor) for _, tensor in given)
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            raise ValueError("bind needs different tensors for different outputs, got some that share memory")
        for field, tensor in given:
            start, end = _range(tensor)
            for other, present in self.present.tensors.items():
                first, last = _range(present)
                if start < last and first < end and (field != other or start != first):
                    raise ValueError(
                        f"bind of {field} needs memory apart from the present outputs, got a tensor that shares some "
                        f"with that of {other}"
                    )


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
