"""The threads that run steps on CPU: torch's, or helpers of our own (``csrc/host/crew.cpp``)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache

from ..base import openmp
from ..build import jit
from ..errors import BuildError


class Which(IntEnum):
    """Which threads take part in a step."""

    BEST = 0
    TEAM = 1
    CREW = 2


def share_out() -> int:
    """The address of the function that shares a step out, for contexts.

    Raises BuildError where it does not compile, or OpenMP's runtime is missing.
    """
    library = _library()
    library.crew_share_out.restype = ctypes.c_void_p
    address: int = library.crew_share_out()
    return address


@contextmanager
def choose(which: Which) -> Iterator[None]:
    """Let these threads run all steps of the process within the block, to test or measure them."""
    _library().crew_choose(int(which))
    try:
        yield
    finally:
        _library().crew_choose(int(Which.BEST))


@cache
def _library() -> ctypes.CDLL:
    try:
        openmp.share()
    except OSError as error:
        raise BuildError(f"OpenMP's runtime is missing: {error}; install libgomp") from None
    return jit.load_plain("crew")
