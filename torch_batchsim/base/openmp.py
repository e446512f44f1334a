"""The OpenMP runtime that torch computes with, on whose threads simulators run too."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache

_START = "GOMP_parallel"  # begins work on several threads; the runtimes of GNU, LLVM and Intel have it
_END = "omp_pause_resource_all"  # ends the calling thread's team, which the next parallel work starts anew
_SOFTLY = 1  # with all settings kept
_LONGEST_END = 0.5  # seconds

forks = 0
"""Forks between the process that has imported this module and the present one."""
lone = False
"""Whether this is the child of a fork whose parent kept a team of threads: GNU's runtime would wait for these without
end, so only one thread runs."""
_keeps_team = False  # this process, at its last fork


def _before_fork() -> None:
    """End the team of the thread that forks, which goes on in the child: the child then starts a team of its own."""
    global _keeps_team
    _keeps_team = lone or ("torch" in sys.modules and not _end_team() and _has_threads())


def _end_team() -> bool:
    """Whether there is no team now. Without: an old runtime, or a fork within parallel work."""
    try:
        share()
        return getattr(ctypes.CDLL(None), _END)(_SOFTLY) == 0
    except (OSError, AttributeError):
        return False


def _has_threads() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return True


def _after_fork() -> None:
    global forks
    forks += 1
    _note_lone(_keeps_team)


def _note_lone(is_lone: bool) -> None:
    global lone
    lone = is_lone
    if lone:
        sys.modules["torch"].set_num_threads(1)  # for operations of torch itself


def _waits_for_a_team() -> bool:
    """Whether this process was forked before the import of this module, and lacks threads: a child of its own tries."""
    torch = sys.modules.get("torch")
    if not hasattr(torch, "get_num_threads") or torch.get_num_threads() == 1 or _has_threads():
        return False
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_END)  # ends the child
            _end_team()
        finally:
            os._exit(0)
    try:
        return os.waitpid(child, 0)[1] != 0
    except ChildProcessError:  # SIGCHLD is ignored, so that nobody learns how a child has ended
        return True


def check_team() -> None:
    """Raise RuntimeError where torch's operations would wait for threads that stayed with the parent of a fork."""
    if lone and sys.modules["torch"].get_num_threads() > 1:
        raise RuntimeError(
            "this process was forked from one that computed with several threads, which it lacks, so torch would wait "
            "for them without end: call torch.set_num_threads(1), or start it by spawn"
        )


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


_note_lone(_waits_for_a_team())
os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
