"""Checks of arguments: each returns the checked value or raises TypeError, ValueError or RuntimeError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

is_transformed: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether a tensor stands for one within ``torch.vmap`` or a transform of ``torch.func``."""


def checked_device(device: str | torch.device) -> torch.device:
    """``device`` as a torch device with an index on CUDA; ValueError or RuntimeError if it is not to be had."""
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}") from None
    if checked.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}")
    if checked.type == "cpu":
        return torch.device("cpu")
    if torch.version.cuda is None:
        raise RuntimeError(f"device {device!r} needs a build of torch with CUDA; torch {torch.__version__} has none")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device {device!r} needs an NVIDIA GPU with its driver; torch finds none")
    index = torch.cuda.current_device() if checked.index is None else checked.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} does not exist; there are {torch.cuda.device_count()} CUDA devices")
    return torch.device("cuda", index)


def checked_count(count: Any, what: str, greatest: int | None = None) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise ValueError(f"{what} must be a positive integer, got {count!r}")
    if greatest is not None and count > greatest:
        raise ValueError(f"{what} must be at most {greatest}, got {count!r}")
    return int(count)


def checked_seed(seed: Any) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= int(seed) < 2**64:
        one = "; one seed serves all worlds" if isinstance(seed, (list, tuple, np.ndarray)) else ""
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1 or None, got {seed!r}{one}")
    return int(seed)


def checked_autoreset(mode: Any) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(repr(m.value) for m in AutoresetMode)
        raise ValueError(f"autoreset_mode must be an AutoresetMode or one of {allowed}, got {mode!r}") from None


def bool_tensor(mask: Any, what: str) -> torch.Tensor:
    """A torch or numpy array of bools as a tensor, without a copy where torch can view it."""
    if not isinstance(mask, (torch.Tensor, np.ndarray)):
        raise TypeError(f"{what} must be a torch tensor or a numpy array of bools, got {type(mask).__name__}")
    if mask.dtype not in (torch.bool, np.bool_):
        raise TypeError(f"{what} must have dtype bool, got {str(mask.dtype).removeprefix('torch.')}")
    if isinstance(mask, torch.Tensor):
        check_has_memory(mask, what)
        if mask.is_meta or mask.is_nested or mask.layout is not torch.strided:
            kind = "nested tensor" if mask.is_nested else f"tensor on {mask.device} of layout {mask.layout}"
            raise TypeError(f"{what} must be a dense tensor with memory, got a {kind}")
        return mask
    return torch.from_numpy(np.require(mask, requirements="CW"))


def number_tensor(values: Any, what: str, shape: str = "numbers in rows of one length") -> torch.Tensor:
    """A tensor, numpy array, number or list of these as a tensor; without a copy where torch can view it.

    Raises TypeError or ValueError; ``shape`` describes the lists that are allowed.
    """
    if isinstance(values, (list, tuple, int, float, np.generic)):
        try:
            values = np.asarray(values)
        except ValueError:
            raise ValueError(f"{what} must have {shape}, got ragged lists") from None
    if isinstance(values, torch.Tensor):
        check_has_memory(values, what)
        return values
    if not isinstance(values, np.ndarray):
        raise TypeError(f"{what} must be a torch tensor or a numpy array, got {type(values).__name__}")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise TypeError(f"{what} must be numbers, got a numpy array of dtype {values.dtype}")
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    elif values.dtype in (np.uint16, np.uint32, np.uint64):  # torch hardly computes with them
        if values.size and values.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{what} must be numbers of 64 bits with a sign, got {values.max()}")
        values = values.astype(np.int64)
    # What torch cannot view is copied: other byte orders, other strides, read-only memory.
    return torch.from_numpy(np.require(values, values.dtype.newbyteorder("="), "CW").reshape(values.shape))


def changed_numbers(given: torch.Tensor, fitting: torch.Tensor) -> torch.Tensor:
    """Where ``fitting``, which is ``given`` in another dtype, has lost something: bool; rounding of floats is none."""
    if fitting.is_floating_point() or given.dtype == fitting.dtype:
        return torch.zeros_like(given, dtype=torch.bool)
    changed = fitting.to(given.dtype) != given
    if given.is_floating_point() and fitting.dtype != torch.bool:  # a device may clamp, and come back to the same float
        limits = torch.iinfo(fitting.dtype)
        changed |= (given < float(limits.min)) | (given >= float(limits.max + 1))
    elif fitting.dtype != torch.bool:  # all bits may come back as they were
        changed |= _is_negative(given) != _is_negative(fitting)
    return changed


def _is_negative(numbers: torch.Tensor) -> torch.Tensor:
    return numbers < 0 if numbers.dtype.is_signed else torch.zeros_like(numbers, dtype=torch.bool)


def check_has_memory(tensor: torch.Tensor, what: str) -> None:
    """Raise TypeError unless numbers can be read from it and written to it."""
    if not has_memory(tensor):
        raise TypeError(
            f"{what} must be a tensor with memory, got a {type(tensor).__name__} that only stands for one: leave "
            "FakeTensorMode, torch.vmap and the transforms of torch.func before"
        )


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor has numbers in memory of its own.

    Those of ``FakeTensorMode`` and ``torch.func``, of some subclasses and of a storage resized to nothing have none.
    """
    if is_transformed(tensor):
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
        return True  # refused by their layout or device
    return tensor.untyped_storage().device.type != "meta" and (tensor.numel() == 0 or tensor.data_ptr() != 0)


def checked_options(options: Any, known: tuple[str, ...], here: str = "") -> dict[str, Any]:
    """The options of a reset that are given; TypeError or ValueError unless ``options`` is a dict of known names."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict or None, got {type(options).__name__}")
    for name in options or {}:
        if name not in known:
            raise ValueError(f"reset has no option {name!r}{here}; it has: {', '.join(known) or 'none'}")
    return {name: value for name, value in (options or {}).items() if value is not None}


def checked_worlds(worlds: Any, what: str, num_worlds: int, device: torch.device) -> torch.Tensor:
    """World indices as int64 ``[k]`` on ``device``; Raises TypeError or ValueError for anything else."""
    try:
        worlds = torch.as_tensor(worlds, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be world indices of shape [k], got {worlds!r}") from None
    if worlds.shape == (0,):
        return worlds.long()
    if worlds.dim() != 1 or worlds.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{what} must be world indices of shape [k], got {worlds.dtype} of shape {list(worlds.shape)}")
    if len(worlds) and not 0 <= int(worlds.min()) <= int(worlds.max()) < num_worlds:
        least, most = int(worlds.min()), int(worlds.max())
        got = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{what} must be indices of worlds, from 0 to {num_worlds - 1}, got {got}")
    return worlds.long()


def checked_mask(mask: Any, what: str, num_worlds: int, device: torch.device) -> torch.Tensor:
    """``mask`` as a contiguous bool tensor ``[worlds]`` on ``device``; TypeError or ValueError if it is not one."""
    mask = bool_tensor(mask, what)
    if tuple(mask.shape) != (num_worlds,):
        raise ValueError(f"{what} must have shape [{num_worlds}], got {list(mask.shape)}")
    return mask.to(device).contiguous()
