"""The compiled functions of the trainer: ``csrc/host/updates.cpp`` on the CPU, ``csrc/host/advantages.cu`` on CUDA too.

torch takes an operation, a pass over memory and a node of its graph for each layer, its bias and its activation, for
each term of the loss, and for the gradients of each. Networks that learn from a simulator are small: most of an
update's time goes there. Here linear layers with their activations, all steps of a memory, the gradient of PPO's loss,
advantages and a step of Adam are one call each.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from torch_batchsim.base import openmp
from torch_batchsim.build import jit
from torch_batchsim.errors import BuildError

ADDRESS, NUMBER = ctypes.c_void_p, ctypes.c_int64


def fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Fields of one type in a record for C++."""
    return [(name, kind) for name in names.split()]


# Contracted products depend on the optimisation, which TBS_DEBUG must not change. With -O2 g++ takes 6 s of a core for
# this file, not 20; but dense products of bytes, Hanabi's, take half as long again, and other trainings 7 % more.
PRODUCT_FLAGS = ("-O3", "-ffp-contract=fast", "-fopenmp")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None, with a warning, where they cannot be compiled."""
    try:
        openmp.share()
        lib = jit.load_shared(jit.CSRC / "host" / "updates.cpp", *PRODUCT_FLAGS)
    except (BuildError, OSError) as error:
        text = f"trainings on the CPU take longer, because products of their networks could not be compiled: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return None
    inputs = [ADDRESS, NUMBER, NUMBER, NUMBER]
    lib.mlp_kept.argtypes, lib.mlp_kept.restype = [ADDRESS], NUMBER
    lib.mlp_forward.argtypes = [ADDRESS, *inputs, ADDRESS, ADDRESS, NUMBER]
    lib.mlp_backward.argtypes = [ADDRESS, *inputs, *[ADDRESS] * 3, NUMBER]
    lib.weights_to_draw.argtypes, lib.weights_to_draw.restype = [ADDRESS], NUMBER
    lib.begin_drawing.argtypes, lib.begin_drawing.restype = [ADDRESS], None
    lib.draw_actions.argtypes, lib.draw_actions.restype = [ADDRESS, NUMBER, NUMBER], None
    lib.log_probs_of.argtypes, lib.log_probs_of.restype = [ADDRESS, NUMBER, ADDRESS, NUMBER, *[ADDRESS] * 3], None
    lib.follow_episodes.argtypes, lib.follow_episodes.restype = [ADDRESS], None
    lib.all_finite.argtypes, lib.all_finite.restype = [ADDRESS, NUMBER], ctypes.c_bool
    lib.ppo_passes.argtypes, lib.ppo_passes.restype = [*[ADDRESS] * 8, NUMBER], NUMBER
    lib.cell_kept.argtypes, lib.cell_kept.restype = [ADDRESS, ADDRESS], NUMBER
    lib.cell_forward.argtypes = [*[ADDRESS] * 4, NUMBER, ADDRESS, NUMBER]
    lib.cell_backward.argtypes = [*[ADDRESS] * 7, NUMBER]
    lib.mlp_forward.restype = lib.mlp_backward.restype = lib.cell_forward.restype = lib.cell_backward.restype = None
    lib.ppo_gradient.argtypes, lib.ppo_gradient.restype = [*[ADDRESS] * 7, NUMBER], None
    lib.sum_of_processes.argtypes, lib.sum_of_processes.restype = [ADDRESS, ADDRESS, NUMBER, NUMBER], NUMBER
    lib.part_of_order.argtypes, lib.part_of_order.restype = [ADDRESS, *[NUMBER] * 5, ADDRESS, ADDRESS], None
    lib.moments_of_parts.argtypes = [ADDRESS, ADDRESS, NUMBER, NUMBER, ADDRESS, NUMBER, ADDRESS, ADDRESS]
    lib.moments_of_parts.restype = None
    lib.adam_step.argtypes, lib.adam_step.restype = [NUMBER, *[ADDRESS] * 7], None
    return lib


@cache
def advantages_kernel(device_type: str) -> Any:
    """The compiled function of rollouts on such a device; None, with a warning, where it cannot be compiled."""
    cuda = device_type == "cuda"
    try:
        lib = jit.load_shared(jit.CSRC / "host" / f"advantages.{'cu' if cuda else 'cpp'}")
    except (BuildError, OSError) as error:
        text = f"trainings take longer, because advantages on {device_type} could not be compiled: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return None
    function = lib.advantages
    function.argtypes, function.restype = [ADDRESS] * (1 + cuda), NUMBER if cuda else None
    return function


def prepare(device: torch.device) -> None:
    """Compiles the functions for updates on `device`, unless they are cached: before a training's clock runs."""
    if device.type == "cpu":
        library()
    if device.type in ("cpu", "cuda"):
        advantages_kernel(device.type)


def can_compute(*tensors: Tensor) -> bool:
    """Whether these functions take the tensors in place of torch: float32 or uint8 on the CPU, while torch neither
    compiles nor exports."""
    plain = all(each.device.type == "cpu" and each.dtype in (torch.float32, torch.uint8) for each in tensors)
    return plain and not torch.compiler.is_compiling() and library() is not None


def threads() -> int:
    """Threads that take part: torch's, except for a child of a fork whose parent kept them."""
    return 1 if openmp.lone else torch.get_num_threads()


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets the precision of torch's products of float32 matrices within the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
