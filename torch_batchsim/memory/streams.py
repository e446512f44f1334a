"""Streams of a CUDA device: on which ones the memory of a simulator is used, and whether one is captured."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

import torch

_NONE = 2**64 - 1  # not the handle of a stream; that of the default stream is 0
_current_handle: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)


class StreamUse:
    """Records in torch's allocator the streams on which steps use a simulator's memory.

    When the simulator goes away, what it held is given to others only after the work that these streams had by then. It
    costs a step one comparison, unless the stream is not that of the step before or memory has moved.
    """

    def __init__(self) -> None:
        self._noted: set[int] = set()  # streams of which the allocator knows for all tensors
        self._present = ctypes.c_uint64(_NONE)

    @property
    def address(self) -> int:
        """Of the handle (64 bits) with which a step need not call ``note``."""
        return ctypes.addressof(self._present)

    def memory_moved(self) -> None:
        """Other tensors are to be noted with the next step."""
        self._noted.clear()
        self._present.value = _NONE

    def note(self, handle: int, device: torch.device, tensors: Callable[[], Iterable[torch.Tensor]]) -> None:
        """A step is about to use all of these ``tensors`` on the present stream of ``device``, whose handle this is."""
        if handle == self._present.value:
            return
        if handle not in self._noted:
            stream = torch.cuda.current_stream(device)
            for tensor in tensors():
                tensor.record_stream(stream)
            self._noted.add(handle)
        self._present.value = handle


def current_handle(device: torch.device) -> int:
    """The handle of torch's current stream of a CUDA device.

    Asked for as torch's own compiler does, by one call: ``torch.cuda.current_stream`` makes an object.
    """
    if _current_handle is None:  # a torch that calls it otherwise
        return torch.cuda.current_stream(device).cuda_stream
    return _current_handle(device.index)


def is_capturing(device: torch.device) -> bool:
    """Whether work that is given to the device now goes into a CUDA graph."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()
