"""Where the outputs of steps go: sets of tensors that take turns, tensors that a user binds, slots of a rollout."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from ..base.modes import in_plain_torch
from .streams import is_capturing

_MOST_SETS_OF_RESETS = 64  # kept; with slots each has two
_MOST_SPARES = 64  # a rollout that is kept in a list takes a set for each step
_MOST_SPARE_BYTES = 1 << 28
owners_of_storage: Callable[[int], int] = torch._C._storage_Use_Count
"""How many tensors have a storage, given its address (``_cdata``), and one more: torch's object of the storage."""
_OBJECT_OF_STORAGE = 1

Owners = list[Any]
"""Of a storage: how many the engine knows of; the object of the storage in Python; and the references to that."""
Own = dict[str, tuple[torch.Tensor, Owners]]
"""Memory that was allocated here, by field of the context, with the owners of its storage."""
Watched = tuple[torch.Tensor, int, int, int, Owners]
"""A tensor that callers may hold: the references that the engine has to the object, its address in torch, that of its
storage, and the owners of that."""
_PACKED = struct.Struct("@PnPPP")
"""The same as ``struct Watched`` of ``csrc/host/step_call.cpp`` has it, objects by their addresses."""


@dataclass(frozen=True)
class OutputSpec:
    """Memory of one output, by its field of the context."""

    size: int  # elements
    dtype: torch.dtype


class OutputSet:
    """A place for every output of a step or reset.

    Args:
        own: memory that was allocated here.
        given: the caller's own, which takes its place.
        structure: the ``ctypes`` twin of ``tbs::Outputs``.
        takes_turn: whether it is one of the simulator's own that steps write to in turns.
        guarded: whether it is not written to while a caller holds what was returned from here.
        copied: whether callers get copies of what is written here.

    Attributes:
        tensors: by field of the context.
        own: ``own`` without what is given.
        address: of the ``tbs::Outputs`` that points to them.
        movable: the tensors in the order of the pointers, where torch can move them (on CPU, for another process), else
            empty.
        results: what the vector environment returns from here, put together when it is first asked for.
        originals: likewise, where it returns copies of them.
        by_agent: views of them for each agent, likewise.
        watched: the tensors in both.
        packed: the same for ``csrc/host/step_call.cpp``; empty if there are none.
    """

    __slots__ = (
        "_block", "_counted", "_guarded", "_placed", "address", "by_agent", "copied", "movable", "originals", "own",
        "packed", "results", "takes_turn", "tensors", "watched",
    )  # fmt: skip

    def __init__(
        self,
        own: Own,
        given: Mapping[str, torch.Tensor],
        structure: type[ctypes.Structure],
        takes_turn: bool = True,
        guarded: bool = False,
        copied: bool = False,
    ) -> None:
        self.own = {field: memory for field, memory in own.items() if field not in given}
        self.tensors = {field: tensor for field, (tensor, _) in own.items()} | dict(given)
        self.takes_turn, self._guarded, self.copied = takes_turn, guarded, copied
        self._block = structure(**{field: tensor.data_ptr() for field, tensor in self.tensors.items()})
        self.address = ctypes.addressof(self._block)
        on_cpu = {field: tensor for field, tensor in self.tensors.items() if tensor.device.type == "cpu"}
        self.movable = tuple(on_cpu.get(field) for field, _ in structure._fields_) if on_cpu else ()
        self._placed = self._places()
        self.results: Any = None
        self.originals: Any = None
        self.by_agent: Any = None
        self.watched: tuple[Watched, ...] = ()
        self.packed = b""
        self._counted: list[Owners] = []  # for each tensor that the engine has in a storage

    def has_moved(self) -> bool:
        """Whether torch has moved one of the tensors."""
        return self._places() != self._placed

    def _places(self) -> list[int]:
        return [tensor.data_ptr() for tensor in self.movable if tensor is not None]

    def watch(self) -> None:
        """Count the engine's own references to what ``results`` and ``by_agent`` hold.

        To be called when one of them was made. Does nothing where the set is not guarded.
        """
        self.unwatch()
        if not self._guarded:
            return
        owners = {_storage(tensor): owners for tensor, owners in self.own.values()}
        found = list(_tensors_in((self.results, self.by_agent), set()))
        references = Counter(map(id, found))
        handed_out = {id(tensor): tensor for tensor in found if _storage(tensor) in owners}
        self.watched = tuple(
            (tensor, references[at] + 1, tensor._cdata, _storage(tensor), owners[_storage(tensor)])
            for at, tensor in handed_out.items()
        )
        self.packed = b"".join(_PACKED.pack(id(entry[0]), *entry[1:4], id(entry[4])) for entry in self.watched)
        bases = {id(base): base for tensor in handed_out.values() if (base := tensor._base) is not None}
        own = {id(tensor) for tensor, _ in self.own.values()}
        counted = [tensor for at, tensor in (handed_out | bases).items() if at not in own]
        self._counted = [owners[_storage(tensor)] for tensor in counted]
        for count in self._counted:
            count[0] += 1

    def unwatch(self) -> None:
        """The set is about to be dropped, or watched anew."""
        for count in self._counted:
            count[0] -= 1
        self.watched, self.packed, self._counted = (), b"", []

    def is_held(self) -> bool:
        """Whether a caller holds one of the watched tensors, a view of it, or what torch derives gradients from."""
        return bool(self.packed) and held(self)


def _held(places: OutputSet) -> bool:
    return any(
        # of the entry, and of this expression
        sys.getrefcount(entry[0]) - 1 > entry[1]
        or entry[0]._use_count() > 1
        or owners_of_storage(entry[3]) > entry[4][0]
        or sys.getrefcount(entry[4][1]) - 1 > entry[4][2]
        for entry in places.watched
    )


held: Callable[[OutputSet], bool] = _held
"""Whether somebody else refers to a watched tensor. ``run/step_call.py`` puts the same in C++ in its place."""


def _owned(tensor: torch.Tensor) -> tuple[torch.Tensor, Owners]:
    """New memory, of which nobody else knows."""
    owners: Owners = [1 + _OBJECT_OF_STORAGE, tensor.untyped_storage()]
    owners.append(sys.getrefcount(owners[1]) - 1)
    return tensor, owners


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors_in(tree: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Each reference to a tensor in tuples and dicts, those of a container once."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, dict)) and id(tree) not in seen:
        seen.add(id(tree))
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _tensors_in(part, seen)


class Outputs:
    """The places of outputs, and whose turn it is.

    With two sets of its own, steps take them in turns, and resets after the first two others: so what a step returned
    stays as it is until the step after the next one, and what a reset returned until the second reset after it.

    It stays longer where a caller holds a result, a view of it, an array, or what torch saved for a gradient: a spare
    set then takes its place. Once ``_MOST_SPARES`` or ``_MOST_SPARE_BYTES`` of them are held, callers get copies.

    What is bound takes the place of its own in all sets, and what is in a slot in those of steps. With slots, outputs
    outside of them are written in turns whoever holds them.

    Args:
        specs: by field of the context.
        structure: the ``ctypes`` twin of ``tbs::Outputs``.
        sets: 1, all calls write to the same place; or 2.
        moved: called when other tensors than before are written to.

    Attributes:
        present: where the outputs of the last call lie.
        next: where those of the next step go, unless a caller holds them.
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
        self._own_of_resets: list[Own] = []
        self._bound: dict[str, torch.Tensor] = {}
        self._slots: dict[str, tuple[torch.Tensor, ...]] = {}
        self._slot: int | None = None
        self._turn = self._turn_of_resets = 0
        self._was_reset = self._captures_resets = False
        self._sets: dict[tuple[int | None, int], OutputSet] = {}
        self._sets_of_resets: dict[tuple[int, ...], OutputSet] = {}
        self._spares: list[OutputSet] = []
        self._spare = self._unused = 0  # the last one that was written to; steps since then
        self._copied: OutputSet | None = None  # where steps write when all spares are held
        self._captured: list[OutputSet] = []  # CUDA graphs may write there for ever
        self._left: list[Own] = []  # likewise
        self.next = self.present = self._set()

    def _made(self, specs: Mapping[str, OutputSpec]) -> Own:
        made = {field: torch.zeros(spec.size, dtype=spec.dtype, device=self._device) for field, spec in specs.items()}
        return {field: _owned(tensor) for field, tensor in made.items()}

    def _set(self) -> OutputSet:
        """The place for a step whose turn and slot it is."""
        key = self._slot, self._turn
        found = self._sets.get(key)
        if found is None:
            slot = {} if self._slot is None else {field: slots[self._slot] for field, slots in self._slots.items()}
            guarded = self._guards and self._slot is None
            found = OutputSet(self._own[self._turn], self._bound | slot, self._structure, guarded=guarded)
            self._sets[key] = found
        return found

    @property
    def _guards(self) -> bool:
        return len(self._own) > 1

    @in_plain_torch
    def _rearrange(self) -> None:
        """After something was bound, or torch has moved something."""
        self._moved()
        _replace_moved(self._own)
        for (_, turn), made in self._sets.items() if self._guards else ():
            if made.is_held() or made is self.present:  # whose results a caller may still ask for
                if self._device.type == "cuda":  # a graph may write there
                    self._left.append(made.own)
                self._own[turn] |= self._made({field: self.specs[field] for field in made.own})
        for made in (*self._sets.values(), *self._spares):
            made.unwatch()
        self._sets, self._spares, self._spare, self._copied = {}, [], 0, None
        self._forget_sets_of_resets()
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
        spares = [made.own for made in (*self._spares, *self._captured, self._copied) if made]
        every = (*self._own, *self._own_of_resets, *self._left, *spares)
        return [(field, memory[0]) for own in every for field, memory in own.items()]

    def mend(self) -> None:
        """Let the next step write where nobody else looks.

        Torch moves tensors, as ``share_memory_`` does and a queue to another process: the simulator's own are left to
        whoever has them, and others take their place; what a user bound is followed. And while a caller holds a result
        of the set whose turn it is, a spare one takes the turn.

        To be called before each step or reset; ``step_call`` does the same for its own.
        """
        if self.next.movable and self.next.has_moved():
            self._rearrange()
        if self.next.packed and held(self.next):
            self.next = self._spare_set()

    def here(self) -> OutputSet:
        """``present``, to write there once more: it points to where torch has moved its tensors."""
        old = self.present
        if old.movable and old.has_moved():
            self.present = OutputSet({}, old.tensors, self._structure, takes_turn=False, copied=old.copied)
            self.present.results, self.present.originals = old.results, old.originals
        return self.present

    # ---- turns -----------------------------------------------------------------------------------------------------

    def advance(self, to: OutputSet) -> None:
        """A call has written to ``to``."""
        self.present = to
        if to.takes_turn:
            self._turn = turn = (self._turn + 1) % len(self._own)
            self.next = self._sets.get((self._slot, turn)) or self._set()
            if self._spares:
                self._drop_unused_spares(to)

    @in_plain_torch
    def _spare_set(self) -> OutputSet:
        """One that nobody holds: the next of those that there are, or a new one, or the one that is copied from."""
        self._unused = 0
        if is_capturing(self._device):  # a graph writes there whenever it is replayed
            self._captured.append(self._made_set(guarded=True))
            return self._captured[-1]
        for place in (*range(self._spare + 1, len(self._spares)), *range(min(self._spare + 1, len(self._spares)))):
            found = self._spares[place]
            if found is not self.present and not found.is_held() and not found.has_moved():
                return self._given_turn(place)
        room = _MOST_SPARE_BYTES - sum(map(_bytes_of, self._spares))
        if len(self._spares) < _MOST_SPARES and room >= _bytes_of(self._sets[None, self._turn]):
            self._spares.append(self._made_set(guarded=True))
            return self._given_turn(len(self._spares) - 1)
        if self._copied is None:
            self._copied = self._made_set(copied=True)
        return self._copied

    def _given_turn(self, place: int) -> OutputSet:
        """The spare set there; it changes places with the held one, which is then looked at only when spares are short.

        On CUDA it only stands in, because the graphs that a user captured write to the sets of turns for ever.
        """
        found, self._spare = self._spares[place], place
        if self._device.type == "cpu":
            self._spares[place], self._sets[None, self._turn] = self._sets[None, self._turn], found
            self._own[self._turn] = self._own[self._turn] | found.own
        return found

    def _made_set(self, guarded: bool = False, copied: bool = False) -> OutputSet:
        self._moved()
        specs = {field: spec for field, spec in self.specs.items() if field not in self._bound}
        return OutputSet(self._made(specs), self._bound, self._structure, guarded=guarded, copied=copied)

    def _drop_unused_spares(self, to: OutputSet) -> None:
        """Give memory back when steps have done without spares for twice as many steps as there are spares."""
        if to is self._copied or any(to is made for made in self._spares):
            return
        self._unused += 1
        if self._unused > 2 * len(self._spares):
            for made in self._spares:
                made.unwatch()
            self._spares, self._spare, self._copied = [], 0, None
            self._forget_sets_of_resets()  # some have final values of those

    def for_reset(self, whole: bool) -> OutputSet:
        """Where a reset writes; unless it is ``whole``, with the rows of the worlds that it leaves alone.

        Never to a slot: what the last step has written there stays.
        """
        first, self._was_reset = not self._was_reset, True
        self._captures_resets |= is_capturing(self._device)
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
        own = self._next_of_resets(final) if self._guards else self._own[0]
        key = id(own), *map(id, final.values())
        found = self._sets_of_resets.get(key)
        if found is None:
            if len(self._sets_of_resets) >= _MOST_SETS_OF_RESETS:
                self._forget_sets_of_resets()
            shared = {field: memory for field, memory in self.present.own.items() if field in final}
            given = {field: tensor for field, tensor in final.items() if field not in shared}
            own, given = own | shared, self._bound | given
            found = OutputSet(own, given, self._structure, takes_turn=False, guarded=self._guards)
            self._sets_of_resets[key] = found
        return found

    def _next_of_resets(self, final: Mapping[str, torch.Tensor]) -> Own:
        specs = {field: spec for field, spec in self.specs.items() if field not in final}
        moved = any(_is_moved(tensor) for own in self._own_of_resets for tensor, _ in own.values())
        turn = 1 - self._turn_of_resets
        if moved or any(made.is_held() for made in self._made_of_resets(turn)):
            self._forget_sets_of_resets()
        if not self._own_of_resets:
            self._own_of_resets = [self._made(specs), self._made(specs)]
            self._moved()
        self._turn_of_resets = 1 - self._turn_of_resets
        return self._own_of_resets[self._turn_of_resets]

    def _made_of_resets(self, turn: int) -> list[OutputSet]:
        """The sets in memory whose turn it is."""
        own = self._own_of_resets[turn] if self._own_of_resets else None
        return [made for key, made in self._sets_of_resets.items() if key[0] == id(own)]

    def _forget_sets_of_resets(self) -> None:
        """Their memory is left to whoever holds it."""
        if self._captures_resets:
            self._captured += self._sets_of_resets.values()
            self._left += self._own_of_resets
        for made in self._sets_of_resets.values():
            made.unwatch()
        self._sets_of_resets, self._own_of_resets = {}, []

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


def _bytes_of(places: OutputSet) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor, _ in places.own.values())


def _replace_moved(sets: list[Own]) -> None:
    for made in sets:
        for field, (tensor, _) in made.items():
            if _is_moved(tensor):
                made[field] = _owned(torch.zeros_like(tensor))


def _is_moved(tensor: torch.Tensor) -> bool:
    """Whether torch has moved the tensor to memory that processes share."""
    return tensor.device.type == "cpu" and tensor.is_shared()


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()


def _shown(field: str) -> str:
    """A field of the context in words."""
    return field.removeprefix("column_").removeprefix("output_")
