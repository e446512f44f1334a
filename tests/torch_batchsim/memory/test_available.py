"""More worlds than there is memory for are refused before anything is allocated."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest
import torch

from torch_batchsim.memory import available

MEMINFO = "MemTotal:       100 kB\nMemFree: 10 kB\nMemAvailable:    60 kB\nSwapFree:  4 kB\n"


def test_too_many_worlds_are_refused_with_the_number_that_fits() -> None:
    at_once = available.available_bytes(torch.device("cpu"))
    assert at_once is not None
    with pytest.raises(MemoryError, match=r"1000000000 worlds need \d+(\.\d+)? GiB, and cpu has .* left; about \d+ "):
        gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=10**9)


def test_files_of_the_machine_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    texts = {"meminfo": MEMINFO, "cgroup": "1:name=old:/\n0::/group\n", "statm": "3 2 1 1 0 1 0\n"}
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *_: texts[path.name] if path.parts[:2] == ("/", "proc") else read(path)
    )
    monkeypatch.setattr(available, "_CGROUP", tmp_path)
    cpu = torch.device("cpu")
    assert available.available_bytes(cpu) == 64 * 1024  # of the machine: this group has no limit
    for name, text in {"memory.max": "max\n", "memory.current": "1000\n", "memory.stat": "inactive_file 24\n"}.items():
        (folder / name).write_text(text)
    assert available.available_bytes(cpu) == 64 * 1024
    (folder / "memory.max").write_text("5000\n")
    assert available.available_bytes(cpu) == 4024
    available.check_available(4024, 4, cpu)
    with pytest.raises(MemoryError, match=r"8 worlds need 7\.86 KiB, and cpu has 3\.93 KiB left; about 4 worlds fit"):
        available.check_available(8048, 8, cpu)
    with monkeypatch.context() as limit:  # of ulimit -v
        limit.setattr(available.resource, "getrlimit", lambda kind: (3 * available.resource.getpagesize() + 700, -1))
        assert available.available_bytes(cpu) == 700
    texts["meminfo"] = "of another system"
    (folder / "memory.max").unlink()
    assert available.available_bytes(cpu) is None
    available.check_available(10**18, 8, cpu)
