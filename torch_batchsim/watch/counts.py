"""Counts steps, and sums rewards and infos over all of them, of the worlds that pages show; frames draw only some."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cache
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch

from ..build import jit
from ..errors import BuildError
from ..run.step_call import obstacle_in_torch
from ..vector.vector_env import TorchVectorEnv

REWARD = ""
"""The name under which rewards are summed up beside infos."""
_MOST_STEPS, _MOST_NUMBERS = 256, 1 << 20  # kept until they are summed up

Part = tuple[str, str | None, str]
"""Fields of an output and of its final values, and the letter of its type in NumPy."""


class StepCounter(Protocol):
    """Called after each step: counts it, and returns whether the viewer has to do more.

    Attributes: ``steps``; ``added``, those that the sums have; ``due``, when a frame may be taken, in the seconds of
    ``perf_counter``; ``busy``, whether pages wait for something else; ``counting``, whether rows are summed;
    ``counted``, whether ``add`` has been called since the last step.
    """

    steps: int
    added: int
    due: float
    busy: bool
    counting: bool
    counted: bool

    def __call__(self) -> bool: ...

    def add(self, final: bool = True, /) -> None:
        """Add the outputs of the last step to the sums; with ``final`` the final ones of rows that have ended."""

    def show(self, rows: bytes, parts: tuple[Part, ...], done: str | None, sums: np.ndarray) -> None:
        """Sum up these rows, int64, from here on, into float64 ``[parts, worlds, agents]``.

        ``done``: the field that says of which rows final values count. Numbers that are not finite count as 0.
        """


class Counts:
    """Adds each step's rewards and infos of some worlds; ``totals`` has their sums since a world was shown first.

    Of a row whose episode has ended the final infos count. Of a world's agents rewards are summed and infos averaged.
    Call all methods in the thread that steps.

    Attributes: ``counter``, which is called after each step.
    """

    def __init__(self, env: TorchVectorEnv) -> None:
        infos = env.sim.program.info.items()
        self.infos = [
            key
            for key, column in infos
            if len(column.component.fields) == 1 and column.component.fields[0].type.size <= 8
            and math.prod(column.component.fields[0].type.tensor_shape) == 1 and key != "action_mask"
        ]  # fmt: skip
        self._env = env
        made = _module() if env.device.type == "cpu" else None
        outputs = env.sim.memory.outputs
        self.counter: StepCounter = PlainCounter(env) if made is None else made.StepCounter(torch.Tensor, outputs)
        self._worlds: tuple[int, ...] = ()
        self._firsts = np.zeros(0, np.int64)  # by world: how many steps had been taken when it was shown first
        self._before: dict[str, np.ndarray] = {}  # sums by name, float64 [worlds], without those of ``_sums``
        self._steps = np.zeros(0, np.int64)  # likewise
        self._sums = np.zeros((0, 0, 0))  # float64 [names, worlds, agents]

    def show(self, worlds: Sequence[int], anew: bool) -> None:
        """Count these worlds from here on. Those that were counted before go on, unless ``anew``."""
        worlds, step = tuple(worlds), self.counter.steps
        if worlds == self._worlds and not anew:
            return
        firsts, steps, sums = self.totals()
        before = {} if anew else {world: i for i, world in enumerate(self._worlds)}
        places = np.array([before.get(world, -1) for world in worlds], np.int64)
        stays, names = places >= 0, (REWARD, *self.infos)
        self._firsts, self._steps = np.full(len(worlds), step), np.zeros(len(worlds), np.int64)
        self._before = {name: np.zeros(len(worlds)) for name in names}
        if stays.any():
            olds = firsts, steps, *(sums[name] for name in names)
            for own, old in zip((self._firsts, self._steps, *self._before.values()), olds, strict=True):
                own[stays] = old[places[stays]]
        self._worlds, agents, memory = worlds, self._env.num_agents, self._env.sim.memory
        rows = (np.array(worlds, np.int64)[:, None] * agents + np.arange(agents)).ravel()
        self._sums = np.zeros((len(names), len(worlds), agents))
        program, final = self._env.sim.program, self._env.delivers_final
        parts: list[Part] = [(memory.field_of(program.reward.name), None, "f")]
        for column in (program.info[name] for name in self.infos):
            last = memory.field_of(f"final.{column.name}") if final else None
            kind = np.dtype(str(column.component.fields[0].type.dtype).removeprefix("torch.")).char
            parts.append((memory.field_of(f"output.{column.name}"), last, kind))
        done = memory.field_of("Agents.done") if final and self.infos else None
        self.counter.show(rows.tobytes(), tuple(parts), done, self._sums)

    def add_around(self, held: Collection[int]) -> None:
        """Count a step in which these worlds stood still, and which began no new episodes: no final values count."""
        at = [i for i, world in enumerate(self._worlds) if world in held]
        self.totals()
        before = self._sums[:, at].copy()
        self.counter.add(False)
        self.totals()
        self._sums[:, at] = before
        self._steps[at] -= 1

    def totals(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Of each world: after how many steps counting began, how many steps it counted, and sums by name."""
        if isinstance(self.counter, PlainCounter):
            self.counter.sum_up()
        sums = {}
        for name, before, own in zip(self._before, self._before.values(), self._sums, strict=True):
            by_world = np.add.reduce(own, axis=1)
            sums[name] = before + (by_world if name == REWARD else by_world / own.shape[1])
        return self._firsts, self._steps + self.counter.added, sums


class PlainCounter:
    """A ``StepCounter`` on a GPU, or where that of ``csrc/host/step_counter.cpp`` cannot be compiled.

    A step copies rows to buffers on the device, whose numbers are summed up when they are asked for.
    """

    def __init__(self, env: TorchVectorEnv) -> None:
        self.steps = self.added = 0
        self.due, self.busy, self.counting, self.counted = math.inf, False, False, False
        self._outputs, self._device = env.sim.memory.outputs, env.device
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._parts: tuple[Part, ...] = ()
        self._done: str | None = None
        self._sums = np.zeros((0, 0, 0))
        self._buffers: list[torch.Tensor] = []  # [steps, rows], the bits of numbers
        self._kept = 0

    def __call__(self) -> bool:
        """See ``StepCounter``, as of all methods."""
        self.steps += 1
        if self.counting and not self.counted:
            self.add()
        self.counted = False
        return self.busy or perf_counter() >= self.due

    def show(self, rows: bytes, parts: tuple[Part, ...], done: str | None, sums: np.ndarray) -> None:
        self._rows = torch.from_numpy(np.frombuffer(rows, np.int64).copy()).to(self._device)
        self._parts, self._done, self._sums, self.added = parts, done, sums, 0
        most = max(1, min(_MOST_STEPS, _MOST_NUMBERS // max(len(self._rows), 1)))
        shape = most, len(self._rows)
        kinds = (_INTEGERS[np.dtype(kind).itemsize] for *_, kind in parts)
        self._buffers = [torch.empty(shape, dtype=kind, device=self._device) for kind in kinds]
        self._kept = 0

    def add(self, final: bool = True, /) -> None:
        if not self._parts:
            return
        if self._kept == len(self._buffers[0]):
            self.sum_up()
        tensors = self._outputs.present.tensors
        for (field, final_field, _), buffer in zip(self._parts, self._buffers, strict=True):
            kept = buffer[self._kept]
            torch.index_select(tensors[field].view(-1).view(buffer.dtype), 0, self._rows, out=kept)
            if final and final_field is not None and self._done is not None:
                last = tensors[final_field].view(-1).view(buffer.dtype).index_select(0, self._rows)
                ended = tensors[self._done].view(-1).view(torch.bool).index_select(0, self._rows)
                torch.where(ended, last, kept, out=kept)
        self._kept += 1

    def sum_up(self) -> None:
        """Add what the buffers hold to the sums."""
        for buffer, sums, (*_, kind) in zip(self._buffers, self._sums, self._parts, strict=True):
            values = buffer[: self._kept].cpu().numpy().view(kind)
            sums += np.where(np.isfinite(values), values, 0).sum(axis=0, dtype=np.float64).reshape(sums.shape)
        self.added, self._kept = self.added + self._kept, 0


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # of which torch selects rows


@cache
def _module() -> Any:
    """The compiled module; None where there cannot be one: then a step takes a few microseconds longer."""
    try:
        return None if obstacle_in_torch() else jit.load_module("step_counter")
    except (BuildError, ImportError):
        return None
