"""Sums in memory that processes of one machine share; threads stand for processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from typing import Any

import pytest
import torch
from torch_batchsim.train.base import neighbours
from torch_batchsim.train.base.neighbours import Neighbours

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")
COUNT = 3


class Group:
    """One of several threads that meet."""

    def __init__(self, rank: int, said: list[Any], barrier: Barrier) -> None:
        self.rank, self.count, self.said, self.barrier = rank, len(said), said, barrier

    def of_all(self, own: Any) -> list[Any]:
        self.said[self.rank] = own
        self.barrier.wait(20)
        found = list(self.said)
        self.barrier.wait(20)
        return found


def in_each(act: Callable[[int, Neighbours | None], Any], seconds: float = 20.0) -> list[Any]:
    said, barrier = [None] * COUNT, Barrier(COUNT)

    def begun(rank: int) -> Any:
        return act(rank, neighbours.neighbours(Group(rank, said, barrier), seconds))

    with ThreadPoolExecutor(COUNT) as threads:
        return list(threads.map(begun, range(COUNT)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_get_the_same_sums_again_and_again(dtype: torch.dtype) -> None:
    """The longest do not fit into the shared memory at once."""
    given = [[torch.randn(size, dtype=dtype) for _ in range(COUNT)] for size in (1, 70, 300_000, 3, 0, 5) * 5]

    def act(rank: int, them: Neighbours | None) -> list[torch.Tensor]:
        assert them is not None
        found = [of_all[rank].clone() for of_all in given]
        for each in found:
            them.sum(each)
        return found

    wanted = [a + b + c for a, b, c in given]
    for found in in_each(act):
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_who_does_not_answer_is_given_up() -> None:
    def act(rank: int, them: Neighbours | None) -> str:
        assert them is not None
        if rank == 1:
            return ""
        with pytest.raises(RuntimeError) as caught:
            them.sum(torch.ones(2))
        return str(caught.value)

    assert in_each(act, seconds=0.2) == ["a process timed out", "", "a process timed out"]


def test_who_has_ended_is_not_waited_for() -> None:
    other = subprocess.Popen([sys.executable, "-c", ""])
    processes = [os.pidfd_open(os.getpid()), os.pidfd_open(other.pid)]
    other.wait()
    with pytest.raises(RuntimeError, match="a process has ended"):
        Neighbours(mmap.mmap(-1, 2 * (64 + (2 << 20))), 0, processes, 60.0).sum(torch.ones(2))
    for each in processes:
        os.close(each)


def test_processes_of_two_machines_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own, numbers = local(), iter("aab")
    monkeypatch.setattr(neighbours, "_machine", lambda: own.__dict__.setdefault("name", next(numbers)))
    assert in_each(lambda rank, them: them) == [None] * COUNT
