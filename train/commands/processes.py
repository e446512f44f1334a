"""Several processes of one command, as torchrun starts them: their ranks, their parts of the worlds, and which of them
prints. Their common work is in `ranks`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, replace
from typing import Any

import torch
from torch import distributed

from ..base.errors import UsageError
from ..base.ranks import ALONE, Ranks, join
from .options import Options


def count() -> int:
    """How many processes torchrun, or another launcher with its environment variables, has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) if are_launched() else 1


def are_launched() -> bool:
    """Whether a launcher has started this process, be it a single one."""
    return "RANK" in os.environ


def is_first() -> bool:
    """Whether this process writes files and prints, before processes meet."""
    return _number("RANK") == 0


def _number(name: str) -> int:
    return int(os.environ.get(name, "0")) if count() > 1 else 0


PR_SET_PDEATHSIG = 1


def end_with_the_launcher() -> None:
    """Lets the kernel send SIGTERM to this process when torchrun ends, however that ends: nobody else would end it.

    Only to those of torchrun: a training in the background of a shell outlives that.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1 and not _runs_python(1):  # torchrun has ended before that
        os.kill(os.getpid(), signal.SIGTERM)


def _runs_python(process: int) -> bool:
    """Whether a process runs this interpreter: torchrun does, which in a container is often process 1."""
    try:
        return os.path.samefile(f"/proc/{process}/exe", "/proc/self/exe")
    except OSError:  # of another user
        return False


@contextmanager
def only_the_first_prints() -> Iterator[None]:
    if is_first():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def report(error: Exception | str, status: int, always: bool) -> int:
    """Prints an error; returns the exit status of this process.

    Of an error of all processes of a machine only the first prints it and ends with that status: torchrun ends the
    others when one fails, at times before they have printed. `always` is for errors of a single process.
    """
    if not always and _number("LOCAL_RANK"):
        return 0
    own = _number("RANK")
    print(f"{f'process {own}: ' if own else ''}error: {error}", file=sys.stderr, flush=True)
    return status


def require_one(work: str) -> None:
    """Raises UsageError where several processes were started for the work of one."""
    if count() > 1:
        raise UsageError(f"{work} takes one process, but {count()} were started: leave out torchrun")


def refuse(options: Options) -> None:
    """Raises UsageError for options that take one process."""
    if count() == 1:
        return
    for name in ("eval", "tune", "seeds"):
        if getattr(options, name):
            require_one(f"--{name}")
    device = torch.device(options.device)
    if device.index is not None:
        raise UsageError(
            f"--device is {options.device}, but each of {count()} processes takes a GPU of its own: give {device.type}"
        )
    local = int(os.environ.get("LOCAL_WORLD_SIZE", count()))
    if device.type == "cuda" and local > torch.cuda.device_count():
        raise UsageError(f"{local} processes on this machine need a GPU each, but it has {torch.cuda.device_count()}")


def meet(options: Options) -> tuple[Ranks, Options]:
    """The processes of this training, and the options with the device of this one."""
    if count() == 1:
        return ALONE, options
    if torch.device(options.device).type == "cuda":
        options = replace(options, device=f"cuda:{_number('LOCAL_RANK')}")
        torch.cuda.set_device(options.device)
    return join(torch.device(options.device), options.process_timeout), options


def require_same(ranks: Ranks, env_id: str, options: Options, steps: int | None) -> None:
    """Raises UsageError where a process was given another command than the first, or goes on from other `steps`."""
    own = {f"--{each.name.replace('_', '-')}": getattr(options, each.name) for each in fields(options)}
    own |= {f"--{name.replace('_', '-')}": value for name, value in vars(own.pop("--config")).items()}
    own |= {"--device": None, "the environment": env_id, "the checkpoint's number of steps": steps}
    first, *others = ranks.of_all(own)
    for rank, other in enumerate(others, 1):
        for name in (name for name in first if first[name] != other.get(name)):
            raise UsageError(
                f"all {ranks.count} processes must have the same command and files, but {name} is {first[name]} in "
                f"process 0 and {other.get(name)} in process {rank}"
            )


def part_of_worlds(ranks: Ranks, rows: int, agents: int) -> dict[str, Any]:
    """The arguments of the environment of one process. Raises UsageError where they cannot share equally."""
    if ranks.count == 1:
        return {"num_envs": rows}
    each = ranks.count * agents
    if rows % each:
        near = " or ".join(str(rows) for rows in (rows - rows % each, rows - rows % each + each) if rows)
        of = f" of {agents} rows" if agents > 1 else ""
        raise UsageError(
            f"num_envs is {rows}, of all processes together, but {ranks.count} must get as many worlds{of} each: "
            f"give {near}"
        )
    return {"num_envs": rows // ranks.count, "first_world": ranks.rank * (rows // each)}


def let_an_error_be_printed() -> None:
    """Where a process is lost torchrun sends SIGTERM to the others: those that know it end by themselves."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave(ranks: Ranks) -> None:
    """Behind all that is done together."""
    if ranks.count > 1:
        distributed.destroy_process_group()
