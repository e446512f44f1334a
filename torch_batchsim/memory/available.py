"""The memory that worlds need, compared with the memory that there is."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

import torch

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int | None:
    """Bytes that can be allocated on the device: free ones, and those that torch keeps for reuse. None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    found = [_free_in_machine(), _free_in_group(), _free_in_limit()]
    return min((each for each in found if each is not None), default=None)


def _free_in_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        sizes = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}
        return sizes["MemAvailable"] + sizes.get("SwapFree", 0)
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _free_in_group() -> int | None:
    """Of the control group of this process, as a container has one, of version 2 or 1."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    except OSError:
        return None
    for _, kinds, path in lines:
        if kinds and "memory" not in kinds.split(","):
            continue
        root = _CGROUP / "memory" if kinds else _CGROUP
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        for folder in (root / path.lstrip("/"), root):  # a container may see its own group as the root
            with suppress(OSError, ValueError):
                most, used = ((folder / name).read_text("utf-8").strip() for name in names)
                return None if most == "max" else int(most) - int(used) + _cache_of_files(folder)
    return None


def _free_in_limit() -> int | None:
    """Of the addresses that this process may have (``ulimit -v``)."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
    return None if most == resource.RLIM_INFINITY else max(0, most - used)


def _cache_of_files(folder: Path) -> int:
    """Bytes of the group that the kernel gives up when they are needed."""
    lines = (folder / "memory.stat").read_text("utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))


def check_available(needed: int, num_worlds: int, device: torch.device) -> None:
    """Raise MemoryError where ``num_worlds`` need more bytes than there are."""
    available = available_bytes(device)
    if available is not None and needed > available:
        need, left = _shown(needed), _shown(available)
        fit = int(num_worlds * available / needed)
        raise MemoryError(f"{num_worlds} worlds need {need}, and {device} has {left} left; about {fit} worlds fit")


def _shown(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
