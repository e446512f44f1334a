"""Several processes that train one policy together (`torchrun`): each simulates a part of the worlds, and all of them
learn from all.

Random numbers do not depend on the division of the worlds: every process draws the noise of all rows and the order of
all samples, and takes its own part. A mean over samples is the sum of the processes' parts of it.
So `count` processes learn as one with all the worlds does, except for the order of floating-point sums.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from .active import mean, std_mean
from .kernels import NUMBER, can_compute, library
from .neighbours import Neighbours, neighbours

Order = tuple[Tensor, list[int]]
"""Which samples a process takes, int64 `[n]`, and how many of them are in each minibatch."""


class RankLost(RuntimeError):
    """Another process has ended, or has not answered for too long."""


class RankFailed(RuntimeError):
    """Another process has failed; the text is its reason."""


@dataclass(frozen=True)
class Ranks:
    """Which of `count` processes this is. A single process, the default, waits for nobody, and its sums are its own.

    Methods that say "of all processes" have to be called by all of them, in the same order; each raises RankLost where
    another process has ended.
    """

    rank: int = 0
    count: int = 1
    host: Any = None
    """The process group of tensors on the CPU; None is that of all devices."""
    neighbours: Neighbours | None = None
    """The processes, where all are on one machine and can share memory: for tensors on the CPU."""

    # ---- division of the work ----

    @property
    def first(self) -> bool:
        """Whether this process writes files, prints, and evaluates."""
        return self.rank == 0

    def part(self, of_all: Tensor, dim: int) -> Tensor:
        """The rows of this process, of those of all."""
        if self.count == 1:
            return of_all
        rows = of_all.shape[dim] // self.count
        return of_all.narrow(dim, self.rank * rows, rows)

    def order(
        self, samples: int, rows: int, minibatches: int, generator: torch.Generator, passes: int = 1
    ) -> Order:
        """A random order of the samples of all processes, cut into minibatches: this process's part of each; of several
        passes one order behind the other.

        It has `samples` of them, of which sample i is of row i % rows.
        """
        total, minibatches = samples * self.count, minibatches * passes
        order = torch.empty(passes, total, dtype=torch.int64, device=generator.device)
        for each in order.unbind():
            torch.randperm(total, generator=generator, out=each)
        order, size = order.view(-1), order.numel() // minibatches
        if self.count == 1:
            return order, [size] * minibatches
        if order.device.type == "cpu" and (compute := library()):
            mine, of_each = torch.empty(passes * samples + 1, dtype=torch.int64), (NUMBER * minibatches)()
            who = minibatches, rows, self.rank, self.count
            compute.part_of_order(order.data_ptr(), len(order), *who, mine.data_ptr(), ctypes.addressof(of_each))
            return mine[:-1], list(of_each)
        row = order % (rows * self.count) - self.rank * rows
        own = (row >= 0) & (row < rows)
        sizes = own.view(minibatches, -1).sum(1).tolist()  # which waits for the device
        return (order // (rows * self.count) * rows + row)[own], sizes

    # ---- of all processes ----

    def moments(
        self, values: Tensor, active: Tensor | None, order: Tensor, sizes: Sequence[int]
    ) -> Tensor | None:
        """The `moments` of each minibatch, of the samples of all processes, float64 `[minibatches, 3]`, by one
        collective. A single process has all samples, and gets None.

        `values` and `active` `[..., n]` are this process's; `order` and `sizes` are those of `order`, of the last
        dimension.
        """
        if self.count == 1:
            return None
        if can_compute(values):
            found, of_each = torch.empty(len(sizes), 3, dtype=torch.float64), (NUMBER * len(sizes))(*sizes)
            given = [None if each is None else each.contiguous() for each in (values, active)]
            places = *(None if each is None else each.data_ptr() for each in given), values[..., 0].numel()
            parts = values.shape[-1], order.data_ptr(), len(sizes), ctypes.addressof(of_each), found.data_ptr()
            library().moments_of_parts(*places, *parts)  # type: ignore[union-attr]
            return self.sum(found)
        each = _counted(values, active).double()
        counts = torch.ones_like(each) if active is None else active.double()
        parts = torch.stack([counts, each, each.square()]).index_select(-1, order).split(list(sizes), -1)
        return self.sum(torch.stack([part.flatten(1).sum(1) for part in parts]))

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all processes, written into this one, which must be contiguous."""
        if self.count > 1:
            with self.reachable:
                if self.neighbours is not None and self.neighbours.take(tensor):
                    self.neighbours.sum(tensor)
                else:
                    distributed.all_reduce(tensor, group=self.host if tensor.device.type == "cpu" else None)
        return tensor

    def any(self, flag: bool) -> bool:
        """Whether the flag of any of all processes is set. Waits for them, but not for a device."""
        return bool(self.sum(torch.tensor(float(flag)))) if self.count > 1 else flag

    def gathered(self, own: Any) -> list[Any] | None:
        """The values of all processes, in their order; only the first gets them."""
        if self.count == 1:
            return [own]
        found = [None] * self.count if self.first else None
        with self.reachable:
            distributed.gather_object(own, found, dst=0, group=self.host)
        return found

    def same(self, own: Any) -> bool:
        """Whether all processes have equal values."""
        return all(each == own for each in self.of_all(own))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around work that may fail in one process: all processes then fail, the others with RankFailed."""
        failure = None
        try:
            yield
        except RankLost:
            raise
        except BaseException as error:  # also a step that Ctrl-C has stopped
            if self.count == 1:
                raise
            failure = error
        if self.count == 1 or not self.any(failure is not None):
            return
        reasons = self.of_all(None if failure is None else str(failure) or type(failure).__name__)
        if failure is not None:
            raise failure
        rank = next(rank for rank, text in enumerate(reasons) if text is not None)
        raise RankFailed(f"process {rank} of {self.count}: {reasons[rank]}")

    def of_all(self, own: Any) -> list[Any]:
        """The values of all processes, in their order."""
        if self.count == 1:
            return [own]
        found = [None] * self.count
        with self.reachable:
            distributed.all_gather_object(found, own, group=self.host)
        return found

    @property
    def in_shared_memory(self) -> bool:
        """Whether sums of tensors on the CPU need no other processes than this, or those that share memory with it."""
        return self.count == 1 or self.neighbours is not None

    @property
    def reachable(self) -> _Reachable:
        """Around what processes do together; raises RankLost."""
        return _Reachable(self.count)


class _Reachable(NamedTuple):
    """Around what processes do together; raises RankLost. A class, since contextlib's take longer than a small sum."""

    processes: int

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, RuntimeError):  # of a connection that has closed or is slow, or of neighbours
            late = "timed out" in str(error).lower()
            event = "does not answer any more (--process-timeout)" if late else "has ended"
            raise RankLost(f"another of the {self.processes} processes {event}") from error


ALONE = Ranks()


def moments(values: Tensor, active: Tensor | None) -> Tensor:
    """How many values are active, their sum, and the sum of their squares: float64 `[3]`."""
    each = _counted(values, active).double()
    count = torch.full_like(each.sum(), values.numel()) if active is None else active.sum().double()
    return torch.stack([count, each.sum(), each.square().sum()])


def std_mean_of(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation, as of a sample, and mean, given the `moments` of all processes."""
    count, total, squares = moments
    average = total / count.clamp(min=1)
    variance = (squares - total * average).clamp(min=0) / (count - 1).clamp(min=1)
    return variance.sqrt().float(), average.float()


def _counted(values: Tensor, active: Tensor | None) -> Tensor:
    return values if active is None else torch.where(active, values, 0.0)


class Samples:
    """The part of a minibatch that this process has, and how much of all it is.

    `values` float32 are one number of each sample; those count that are `active`, all if None. The `moments` are those
    of all processes; None for one, which has all samples.
    """

    def __init__(self, values: Tensor, active: Tensor | None, moments: Tensor | None) -> None:
        self.values, self.active, self.moments = values, active, moments

    def mean(self, values: Tensor) -> Tensor:
        """This process's part of the mean of other values of the samples: the mean is the sum of all parts."""
        if self.moments is None:
            return mean(values, self.active)
        return _counted(values, self.active).sum() / self.moments[0].clamp(min=1).float()

    def std_mean(self) -> tuple[Tensor, Tensor]:
        """Standard deviation, as of a sample, and mean of `values`, of all processes."""
        return std_mean(self.values, self.active) if self.moments is None else std_mean_of(self.moments)


def join(device: torch.device, seconds: float) -> Ranks:
    """Meets the other processes: by gloo on the CPU, on CUDA by NCCL too; those of one machine share memory. Waits at
    most `seconds`, as all that they later do together does."""
    timeout = timedelta(seconds=seconds)
    store, rank, count = next(distributed.rendezvous("env://", timeout=timeout))
    # torchrun keeps its store when it restarts processes: under the same names they would find addresses of dead ones.
    store = distributed.PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    backend = "gloo" if device.type == "cpu" else "nccl"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=timeout)
    host = None if device.type == "cpu" else distributed.new_group(backend="gloo", timeout=timeout)
    ranks = Ranks(distributed.get_rank(), distributed.get_world_size(), host)
    return replace(ranks, neighbours=neighbours(ranks, seconds))


# ---- states ----


def joined_state(env: Any, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The state of a trainer of all worlds, given those of trainers of the parts, in order."""
    groups = []
    for parts in zip(*(state["groups"] for state in states), strict=True):
        rows = {name: torch.cat([part[name] for part in parts]) for name in ("hidden", "critic_hidden")}
        scale = dict(parts[0]["reward_scale"])
        if scale:
            scale["sums"] = torch.cat([part["reward_scale"]["sums"] for part in parts])
        groups.append({**parts[0], **rows, "reward_scale": scale})
    rows = {name: torch.cat([state[name] for state in states], dim=1) for name in ("running", "latest")}
    worlds = env.unwrapped.sim.join_states([state["env"] for state in states])
    return {**states[0], **rows, "groups": groups, "env": worlds}


def part_of_state(env: Any, ranks: Ranks, state: dict[str, Any]) -> dict[str, Any]:
    """The part of one of several trainers, of the state of a trainer of all worlds."""
    groups = []
    for group in state["groups"]:
        rows = {name: ranks.part(group[name], 0) for name in ("hidden", "critic_hidden")}
        scale = dict(group["reward_scale"])
        if scale:
            scale["sums"] = ranks.part(scale["sums"], 0)
        groups.append({**group, **rows, "reward_scale": scale})
    rows = {name: ranks.part(state[name], 1) for name in ("running", "latest")}
    return {**state, **rows, "groups": groups, "env": env.unwrapped.sim.part_of_state(state["env"])}


def to_cpu(state: Any) -> Any:
    """Tensors in dicts and lists, on the CPU, where they can be sent."""
    if isinstance(state, Tensor):
        return state.cpu()
    if isinstance(state, dict):
        return {name: to_cpu(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(to_cpu(value) for value in state)
    return state
