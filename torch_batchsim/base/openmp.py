"""The OpenMP runtime that torch computes with, on whose threads simulators run too."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_START = "GOMP_parallel"  # begins work on several threads; the runtimes of GNU, LLVM and Intel have it

forked = False
"""Whether this process is the child of a fork. The team's threads stayed with the parent, and GNU's runtime would wait
for them for ever: one thread only. (A fork before this module was imported is not noticed.)"""


def _note_fork() -> None:
    global forked
    forked = True


os.register_at_fork(after_in_child=_note_fork)


def wait_briefly() -> None:
    """Let threads that have nothing to do sleep after less than 0.1 ms, if torch is not there yet: GNU's runtime reads
    this when it is loaded.

    It would let them wait busily for some 4 ms, longer than the operating system lets a thread run where others want
    its core: then a thread that waits keeps the one that it waits for from its work. What the user has set stays.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "4000")


class _Symbol(ctypes.Structure):
    """``Dl_info`` of <dlfcn.h>."""

    _fields_ = [
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


@cache
def share(user: str = "libtorch_cpu.so") -> None:
    """Let libraries that are loaded from now on use the OpenMP runtime of ``user``, a library that is loaded.

    They are linked with none: wheels of torch bring one under a name of their own, and beside it another would be
    loaded, with threads of its own. Most often torch has made its symbols known to all libraries. Where torch was
    built without OpenMP, GNU's runtime is loaded.

    Raises:
        OSError: there is no runtime.
    """
    process = ctypes.CDLL(None)
    if hasattr(process, _START):
        return
    path = "libgomp.so.1"
    try:
        own = getattr(ctypes.CDLL(user, mode=os.RTLD_NOLOAD | os.RTLD_NOW), _START)  # or of what it depends on
    except (OSError, AttributeError):
        pass
    else:
        symbol = _Symbol()
        process.dladdr(ctypes.cast(own, ctypes.c_void_p), ctypes.byref(symbol))
        path = os.fsdecode(symbol.path)
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
