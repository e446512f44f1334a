"""The OpenMP runtime that torch computes with, on whose threads simulators run too."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_START = "GOMP_parallel"  # begins work on several threads; the runtimes of GNU, LLVM and Intel have it

forked = False
"""Whether this process is the child of a fork: then it runs one thread only. The team's threads stayed with the parent,
and GNU's runtime would wait for them without end. (A fork before the import of this module stays unnoticed.)"""


def _note_fork() -> None:
    global forked
    forked = True


os.register_at_fork(after_in_child=_note_fork)


def wait_briefly() -> None:
    """Let idle threads sleep after less than 0.1 ms. Call it before torch is imported: GNU's runtime reads this then.

    By default idle threads spin for some 4 ms. On a busy core that is longer than the operating system lets a thread
    run, so a waiting thread would keep the core from the thread for which it waits. Values that the user sets stay.
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

    The engine links them without a runtime: wheels of torch bring one under a name of their own, and a second one would
    have threads of its own. Most often torch has made its symbols known to all libraries already. If torch was built
    without OpenMP, this loads GNU's runtime.

    Raises:
        OSError: the runtime is missing.
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
