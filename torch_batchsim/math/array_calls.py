"""C++ functions of csrc/host/math.cpp over NumPy arrays and torch tensors, broadcast."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch

from ..build import jit
from ..declare.declaration import ENGINE_HEADERS

Array: TypeAlias = "np.ndarray | np.float32 | torch.Tensor | float"

FLOAT, BITS, BOOL, INT = (np.dtype(kind) for kind in (np.float32, np.uint32, np.bool_, np.int32))

VECTORS = (2, 3, 4)


@cache
def library() -> ctypes.CDLL:
    return jit.load_shared(ENGINE_HEADERS / "host" / "math.cpp")


def run(symbol: str, n: int, *arrays: np.ndarray, first: Sequence[ctypes.c_int64] = ()) -> None:
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    getattr(library(), symbol)(*pointers, *first, ctypes.c_int64(n))


def taken(function: str, value: Any, dtype: np.dtype = FLOAT) -> np.ndarray:
    """An argument as an array of this dtype.

    Raises TypeError for another dtype, and unless it is an array, tensor or number; ValueError for a tensor that
    requires a gradient.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        given = str(value.dtype)
    elif isinstance(value, torch.Tensor):
        given = str(value.dtype).removeprefix("torch.")
    elif isinstance(value, int if dtype == BITS else (int, float)) and not isinstance(value, bool):
        with np.errstate(over="ignore"):  # to infinity, as a literal that is too large for f32
            return np.asarray(value, dtype)
    else:
        raise TypeError(f"{function} takes arrays and tensors of {dtype}, and numbers; got {type(value).__name__}")
    if given != str(dtype):
        cast = "; cast it where you want it rounded: x.astype(np.float32), x.float()" if dtype == FLOAT else ""
        raise TypeError(f"{function} takes {dtype}, got {given}{cast}")
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            raise ValueError(f"{function} has no gradient, but got a tensor that requires one; pass x.detach()")
        return value.cpu().numpy()
    return np.asarray(value)


def _given_back(result: np.ndarray, arguments: Sequence[Any]) -> Any:
    """As a tensor where the arguments are; a scalar without axes."""
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    if not tensors:
        return result[()]
    return torch.from_numpy(result).to(tensors[0].device)


def _one_kind(function: str, arguments: Sequence[Any]) -> None:
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    if tensors and any(isinstance(value, np.ndarray) for value in arguments):
        raise TypeError(f"{function} got tensors and arrays; pass one kind")
    devices = {str(value.device) for value in tensors}
    if len(devices) > 1:
        raise ValueError(f"{function} got tensors on {' and '.join(sorted(devices))}; move them to one device")


def each(
    function: str,
    arguments: Sequence[Any],
    widths: Sequence[int] = (),
    result: int = 0,
    dtypes: Sequence[np.dtype] = (),
    kind: str = "",
) -> Any:
    """A C++ function over broadcast arguments.

    Args:
        widths: of each argument's last axis; 0 (the default) for one that has no axis of its own.
        result: the width of the result's last axis, or 0.
        dtypes: of the result and of each argument; float32 by default.
        kind: what the C interface appends to the function's name.
    """
    widths = widths or [0] * len(arguments)
    dtypes = dtypes or [FLOAT] * (1 + len(arguments))
    _one_kind(function, arguments)
    arrays = [taken(function, value, dtype) for value, dtype in zip(arguments, dtypes[1:], strict=True)]
    for array, width in zip(arrays, widths, strict=True):
        if width and (array.ndim == 0 or array.shape[-1] != width):
            raise ValueError(f"{function} takes arrays [..., {width}] here, got {list(array.shape)}")
    leading = [array.shape[:-1] if width else array.shape for array, width in zip(arrays, widths, strict=True)]
    try:
        shape = np.broadcast_shapes(*leading)
    except ValueError:
        given = " and ".join(str(list(array.shape)) for array in arrays)
        raise ValueError(f"{function} was given arrays {given}, which do not broadcast") from None
    full = [
        np.ascontiguousarray(np.broadcast_to(array, (*shape, width) if width else shape))
        for array, width in zip(arrays, widths, strict=True)
    ]
    out = np.empty((*shape, result) if result else shape, dtypes[0])
    run(f"each_{function}{kind}", int(np.prod(shape)), out, *full)
    return _given_back(out, arguments)


def vector_width(function: str, value: Any, allowed: Sequence[int] = VECTORS) -> int:
    """The number of elements of a vector. Raises ValueError for another number."""
    shape = list(getattr(value, "shape", ()))
    if not shape or shape[-1] not in allowed:
        wanted = " or ".join(f"[..., {width}]" for width in allowed)
        raise ValueError(f"{function} takes vectors {wanted}, got {shape or type(value).__name__}")
    return shape[-1]
