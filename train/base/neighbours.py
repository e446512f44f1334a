"""Sums over processes of one machine, in memory that they share: ``csrc/host/neighbours.h``."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from .kernels import ADDRESS, NUMBER, fields, library

_SLOT = 1 << 20  # bytes; larger tensors are summed in parts
_SEAT = 64
_ENDED = 1


class Group(Protocol):
    """Processes that meet by other means."""

    @property
    def rank(self) -> int: ...

    @property
    def count(self) -> int: ...

    def of_all(self, own: Any) -> list[Any]:
        """The values of all processes, in their order."""


class _Given(ctypes.Structure):
    """The record of the processes for C++."""

    _fields_ = [("memory", ADDRESS), *fields(NUMBER, "rank count slot_size"), ("processes", ADDRESS)]
    _fields_ += [("seconds", ctypes.c_double)]


class Neighbours:
    """The processes of a group, all on one machine: see `neighbours`."""

    def __init__(self, memory: mmap.mmap, rank: int, processes: Sequence[int], seconds: float) -> None:
        self._memory = (ctypes.c_char * len(memory)).from_buffer(memory)  # which keeps it
        self._processes = (NUMBER * len(processes))(*processes)
        places = ctypes.addressof(self._memory), ctypes.addressof(self._processes)
        self._given = _Given(places[0], rank, len(processes), _SLOT, places[1], seconds)

    @property
    def address(self) -> int:
        """Of their record for C++."""
        return ctypes.addressof(self._given)

    def take(self, tensor: Tensor) -> bool:
        """Whether `sum` takes such a tensor."""
        return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)

    def sum(self, tensor: Tensor) -> None:
        """Writes the sum of the tensors of all processes into this one, which must be contiguous. Raises RuntimeError
        where another process has ended or timed out."""
        given = self.address, tensor.data_ptr(), tensor.numel(), tensor.dtype == torch.float64
        check(library().sum_of_processes(*given))  # type: ignore[union-attr]


def check(result: int) -> None:
    """Raises RuntimeError where the result of a function of C++ says that another process has ended or timed out."""
    if result:
        raise RuntimeError("a process has ended" if result == _ENDED else "a process timed out")


def neighbours(group: Group, seconds: float) -> Neighbours | None:
    """The processes of the group, where all are on one machine and can share memory; else None, in all of them. One
    that does not answer is given up after so many seconds."""
    size, able = group.count * (_SEAT + 2 * _SLOT), sys.platform == "linux" and library() is not None
    file = _memory(size) if able and group.rank == 0 else -1
    everyone = group.of_all((_machine() if able else "", os.getpid(), file))
    (machine, first, place), found = everyone[0], None
    if machine and place >= 0 and all(each[0] == machine for each in everyone):
        with suppress(OSError):
            processes = [os.pidfd_open(process) for _, process, _ in everyone]
            opened = os.open(f"/proc/{first}/fd/{place}", os.O_RDWR)
            found = Neighbours(mmap.mmap(opened, size), group.rank, processes, seconds)
            os.close(opened)
    everyone = group.of_all(found is not None)
    if file >= 0:
        os.close(file)
    return found if all(everyone) else None


def _memory(size: int) -> int:
    """The descriptor of memory that other processes can open; -1 where the system has none."""
    try:
        file = os.memfd_create("torch_batchsim")
    except OSError:
        return -1
    os.ftruncate(file, size)
    return file


def _machine() -> str:
    """The same in processes that see each other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
