"""Sums of rewards and infos over all steps of the worlds that pages show, of which frames draw only some."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..vector.vector_env import TorchVectorEnv

REWARD = ""
"""The name under which rewards are summed up beside infos."""
_MOST_STEPS, _MOST_NUMBERS = 256, 1 << 20  # kept until they are summed up, few enough for a cache
_MOST_VIEWS = 4096


class Counts:
    """Adds each step's rewards and infos of some worlds; ``totals`` has their sums since a world was shown first.

    A step copies the rows of these worlds to a buffer, which takes about a microsecond, and ``totals`` sums them up. Of
    a row whose episode has ended the final infos count. Of a world's agents rewards are summed and infos averaged.
    Numbers that are not finite count as 0.
    """

    def __init__(self, env: TorchVectorEnv) -> None:
        infos = env.sim.program.info.items()
        self.infos = [
            key
            for key, column in infos
            if len(column.component.fields) == 1 and column.component.fields[0].type.size <= 8
            and math.prod(column.component.fields[0].type.tensor_shape) == 1 and key != "action_mask"
        ]  # fmt: skip
        self._env, self._on_cpu = env, env.device.type == "cpu"
        self._worlds: tuple[int, ...] = ()
        self._span: slice | None = None
        self._firsts: dict[int, int] = {}  # by world: how many steps had been taken when it was shown first
        self._sums: dict[str, np.ndarray] = {}  # float64 [worlds]
        self._buffers: dict[str, Any] = {}  # [steps, rows]
        self._count = np.zeros(0, np.int64)  # steps, by world
        self._kept = self._most = 0
        self._lines: list[np.ndarray] = []  # of the buffer of rewards, where there are no infos
        self._views: dict[int, np.ndarray] = {}  # by address

    def show(self, worlds: Sequence[int], step: int, anew: bool) -> None:
        """Count these worlds from here on, after ``step`` steps. Those that were counted before go on, unless ``anew``.

        Call it in the thread that steps, as all others.
        """
        worlds = tuple(worlds)
        if worlds == self._worlds and not anew:
            return
        self._sum_up()
        before = {} if anew else {world: i for i, world in enumerate(self._worlds)}
        places = np.array([before.get(world, -1) for world in worlds], np.int64)
        stays = places >= 0
        self._firsts = {world: self._firsts[world] if world in before else step for world in worlds}
        names, sums, count = (REWARD, *self.infos), self._sums, self._count
        self._sums = {name: np.zeros(len(worlds)) for name in names}
        self._count = np.zeros(len(worlds), np.int64)
        if stays.any():
            self._count[stays] = count[places[stays]]
            for name in names:
                self._sums[name][stays] = sums[name][places[stays]]
        self._worlds, agents = worlds, self._env.num_agents
        self._rows = (np.array(worlds, np.int64)[:, None] * agents + np.arange(agents)).ravel()
        self._places = torch.from_numpy(self._rows).to(self._env.device)
        self._most = max(1, min(_MOST_STEPS, _MOST_NUMBERS // max(len(self._rows), 1)))
        self._buffers, self._lines, self._views = {}, [], {}
        first, count = int(self._rows[0]), len(self._rows)
        in_a_row = not self.infos and bool((self._rows == np.arange(first, first + count)).all())
        self._span = slice(first, first + count) if in_a_row else None  # which are copied sooner

    def add(self) -> None:
        """Count the step whose results are the environment's last ones."""
        kept = self._kept
        if kept >= self._most:
            self._sum_up()
            kept = 0
        place = self._env._outputs.present
        results = (place.originals if place.copied else place.results) or self._env._results()
        rewards, self._kept = results.step[1], kept + 1
        if self._lines:  # the usual case, in few operations
            view = self._views.get(rewards.data_ptr())
            if view is not None:
                if self._span is not None:
                    self._lines[kept][...] = view
                else:
                    view.take(self._rows, 0, self._lines[kept], "clip")
                return
        self._keep(REWARD, rewards, kept)
        for name in self.infos:
            infos = results.step_infos
            final = infos["final_info"][name] if "final_info" in infos else None
            self._keep(name, infos[name], kept, final, infos.get("_final_info"))

    def totals(self) -> tuple[list[int], list[int], dict[str, np.ndarray]]:
        """Of each world: after how many steps counting began, how many steps it counted, and sums by name."""
        self._sum_up()
        sums = {name: values.copy() for name, values in self._sums.items()}
        return [self._firsts[world] for world in self._worlds], self._count.tolist(), sums

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _keep(self, name: str, values: torch.Tensor, step: int, final: Any = None, ended: Any = None) -> None:
        buffer = self._buffers.get(name)
        if buffer is None:
            shape, kind = (self._most, len(self._rows)), values.dtype
            buffer = torch.empty(shape, dtype=kind, device=values.device)
            buffer = self._buffers[name] = buffer.numpy() if self._on_cpu else buffer
            if self._on_cpu and not self.infos:
                self._lines = list(buffer)
        kept = buffer[step]
        if self._on_cpu and self._span is not None:
            kept[...] = self._view(values)
            return
        if self._on_cpu:
            self._view(values).take(self._rows, 0, kept, "clip")
            if ended is not None and (over := self._view(ended).take(self._rows)).any():
                kept[over] = self._view(final).take(self._rows)[over]
            return
        torch.index_select(values.view(-1), 0, self._places, out=kept)
        if ended is not None:
            last = final.view(-1).index_select(0, self._places)
            torch.where(ended.view(-1).index_select(0, self._places), last, kept, out=kept)

    def _view(self, tensor: torch.Tensor) -> np.ndarray:
        """The numbers of a contiguous tensor, or those of the span that is counted.

        It owns nothing: the engine gives other memory to steps where an array of a result is held, and ``Tensor.numpy``
        takes longer than the rest of ``add``.
        """
        if self.infos:  # of which memory that is used again may hold another one
            return tensor.view(-1).numpy()
        address = tensor.data_ptr()
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        memory = (ctypes.c_char * tensor.nbytes).from_address(address)
        view = np.frombuffer(memory, np.float32)
        view = self._views[address] = view if self._span is None else view[self._span]
        return view

    def _sum_up(self) -> None:
        """Add what the buffers hold to the sums."""
        if not self._kept:
            return
        for name, buffer in self._buffers.items():
            values = buffer[: self._kept]
            values = values if self._on_cpu else values.cpu().numpy()
            sums = values.sum(axis=0, dtype=np.float64)
            if not np.isfinite(sums).all():
                sums = np.where(np.isfinite(values), values, 0).sum(axis=0, dtype=np.float64)
            by_agent = sums.reshape(len(self._worlds), -1)
            self._sums[name] += by_agent.sum(axis=1) if name == REWARD else by_agent.mean(axis=1)
        self._count += self._kept
        self._kept = 0
