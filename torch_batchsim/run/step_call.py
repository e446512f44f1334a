"""Steps with ordinary actions in one call from Python: ``csrc/host/step_call.cpp``, a module compiled just in time."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from ..base.shared import ELEMENT_TYPES, StepResult
from ..build import jit
from ..errors import BuildError
from ..memory import outputs
from ..memory.outputs import OutputSet, owners_of_storage

StepCall = Callable[[Any, int, tuple[torch.Tensor | None, ...], bytes], int]
"""Takes actions, the address of the outputs, the tensors where these should lie and those that callers may hold; steps.

Returns a ``StepResult``, or from 0 on the first illegal element. ``closer_look`` says that nothing has happened: the
actions are not a plain contiguous tensor of the right shape, dtype and device; a fault waits to be raised; a table is
about to overflow; torch's number of threads, the process (a fork) or the CUDA stream differs from that of the step
before; torch has moved an output, or what was lent; a caller holds an output that the step would write to; another
thread is in a step.
"""

_DEVICES = {"cpu": 1, "cuda": 2}  # of DLPack


def never(actions: Any, places: int, tensors: tuple[torch.Tensor | None, ...], watched: bytes) -> int:
    """A ``StepCall`` that leaves every step to others."""
    return StepResult.closer_look


def make(
    function: int,
    executor: int,
    context: int,
    flags: int,
    team: int,
    stream: int,
    token: list[None],
    lent: list[tuple[torch.Tensor, int]],
    shape: Sequence[int],
    dtypes: Sequence[torch.dtype],
    device: torch.device,
) -> StepCall:
    """The call for one simulator.

    Args:
        function: address of ``tbs_act_and_step`` of its library.
        executor, context: arguments of the function.
        flags: address of the two flags that a step looks at before: pending faults, crowded tables.
        team: address of the context's ``team``, 0 if threads do not matter.
        stream: address of the stream for which nothing is to be noted (``StreamUse``), 0 if streams do not matter.
        token: see ``Execution``.
        lent: see ``Memory``.
        shape, dtypes, device: of ordinary actions.
    """
    made = _module()
    if made is None:
        return never
    types = tuple((_dlpack_code(dtype), 8 * dtype.itemsize, int(ELEMENT_TYPES[dtype])) for dtype in dtypes)
    place = _DEVICES[device.type], device.index or 0
    try:
        addresses = function, executor, context, flags, team, _get_num_threads(), stream
        closer_look = int(StepResult.closer_look)
        return made.StepCall(torch.Tensor, *addresses, token, lent, tuple(shape), types, *place, closer_look)
    except (AttributeError, ImportError, OSError, ValueError) as error:  # another version of torch
        _warn(error)
        return never


def obstacle_in_torch() -> str | None:
    """Why C++ cannot read tensors of this torch, None where it can: then steps run in C++ if the module compiles."""
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        return f"torch {torch.__version__} is too old"
    return None if _counts_can_be_read() else f"torch {torch.__version__} counts references elsewhere"


def _warn(error: Exception) -> None:
    text = f"steps take some microseconds longer, because their call could not be made: {error}"
    warnings.warn(text, RuntimeWarning, stacklevel=3)


@cache
def _get_num_threads() -> int:
    """The address of torch's ``at::get_num_threads``, which the libraries of its Python module have."""
    return ctypes.cast(ctypes.CDLL(torch._C.__file__)["_ZN2at15get_num_threadsEv"], ctypes.c_void_p).value or 0


def _counts_can_be_read() -> bool:
    """Whether torch's counts of references lie where ``csrc/host/step_call.cpp`` reads them."""
    tensor = torch.zeros(1)
    storage = tensor.untyped_storage()._cdata

    def read() -> tuple[int, int]:
        return tuple(ctypes.c_uint32.from_address(address + 8).value for address in (tensor._cdata, storage))

    def same() -> bool:
        return read() == (tensor._use_count(), owners_of_storage(storage))

    first, was_same = read(), same()
    view = tensor.detach()  # another owner of the storage
    second, was_same = read(), was_same and same()
    capsule = tensor.__dlpack__()  # another owner of the tensor
    third, was_same = read(), was_same and same()
    del view, capsule
    return was_same and first[0] == second[0] == 1 and third[0] == 2 and second[1] == first[1] + 1


def _dlpack_code(dtype: torch.dtype) -> int:
    if dtype is torch.bool:
        return 6
    if dtype.is_floating_point:
        return 2
    return 0 if dtype.is_signed else 1


def _held(is_held: Callable[[bytes], bool], places: OutputSet) -> bool:
    return is_held(places.packed)


@cache
def _module() -> Any:
    """The compiled module; None, with a warning, where it cannot be compiled."""
    try:
        if (obstacle := obstacle_in_torch()) is not None:
            raise ImportError(obstacle)
        made = jit.load_module("step_call")
        outputs.held = partial(_held, made.is_held)
        return made
    except (BuildError, ImportError) as error:
        _warn(error)
        return None
