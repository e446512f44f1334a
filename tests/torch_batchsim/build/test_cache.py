"""The cache of builds wherever people put it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import full_but
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import BuildError, Simulator
from torch_batchsim.build import cache, jit

STEP = """
import os
import torch
import torch_batchsim
env = torch_batchsim.make_vec("cartpole", num_envs=2)
env.reset(seed=0)
env.step(torch.zeros(2, dtype=torch.int64))
print("stepped")
"""
OTHER = STEP.replace("num_envs=2", "num_envs=2, continuous=True").replace("zeros(2, dtype=torch.int64)", "zeros(2, 1)")


def stepped(folder: Path, program: str = STEP, **variables: str) -> str:
    """What a process says that steps CartPole in ``folder``."""
    own = {"TBS_DEBUG": "quick", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **variables}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **own}, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


ALL_AT_ONCE = "a:b $HOME 'c\nd\" ä"


@pytest.mark.parametrize("name", full_but([ALL_AT_ONCE], [ALL_AT_ONCE, "a b", "a:b", "$x", "a\nb", "ä"]))
def test_a_path_of_any_characters_and_a_machine_without_a_compiler(tmp_path: Path, name: str) -> None:
    place = str(tmp_path / name)
    assert "stepped" in stepped(tmp_path, TORCH_BATCHSIM_CACHE=place)
    left = [path.name for path in Path(place).iterdir() if ".build." in path.name or path.suffix in (".log", ".part")]
    assert left == []
    bare = tmp_path / "bin"
    bare.mkdir()
    assert "stepped" in stepped(tmp_path, TORCH_BATCHSIM_CACHE=place, PATH=str(bare))
    said = stepped(tmp_path, OTHER, TORCH_BATCHSIM_CACHE=place, PATH=str(bare))
    assert "BuildError: no C++ compiler: 'g++' is not on PATH" in said


def test_a_relative_path_counts_from_where_the_process_began(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    program = f"{STEP}os.chdir('elsewhere')\n{OTHER}"
    assert stepped(tmp_path, program, TORCH_BATCHSIM_CACHE="kept").count("stepped") == 2
    assert list((tmp_path / "elsewhere").iterdir()) == [] and list((tmp_path / "kept").glob("CartPole*.so"))


@pytest.mark.full
def test_a_compiler_of_c_stands_for_the_one_of_cpp(tmp_path: Path) -> None:
    assert "stepped" in stepped(tmp_path, TORCH_BATCHSIM_CACHE=str(tmp_path / "cache"), CXX="gcc")


def test_a_compiler_with_arguments_and_an_odd_status_of_ninja(tmp_path: Path) -> None:
    variables = {"CXX": "ccache g++ -m64 -DNAME='a b'", "NINJA_STATUS": "%q"}
    assert "stepped" in stepped(tmp_path, TORCH_BATCHSIM_CACHE=str(tmp_path / "cache"), **variables)


def test_compilers_of_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("gcc", "x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu-g++-12", "clang-17", "clang++-17", "g++"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for given, taken in {
        "gcc": "g++",
        "x86_64-linux-gnu-gcc-12": "x86_64-linux-gnu-g++-12",
        "clang-17": "clang++-17",
        "clang++-17": "clang++-17",
        "": "g++",
        " g++ ": "g++",
        "ccache g++": "g++",
        "/usr/bin/ccache clang++-17 -m64": "clang++-17",
        "gcc -DNAME='a b'": "g++",
    }.items():
        monkeypatch.setenv("CXX", given)
        assert jit.cpp_compiler() == str(tmp_path / taken)
    assert jit.cpp_arguments() == ["-DNAME=a b"]
    (tmp_path / "g++").unlink()
    monkeypatch.setenv("CXX", "gcc")
    with pytest.raises(BuildError, match=r"CXX='gcc' compiles C, and g\+\+ is not on PATH"):
        jit.cpp_compiler()


def test_a_cache_where_nobody_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Path.is_file

    def refuse(path: Path) -> bool:
        if tmp_path in path.parents:
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / ("x" * 300)))
    for _ in range(2):
        with pytest.raises(BuildError, match=r"cannot write to the build cache .*: (File name too long|Permission)"):
            Simulator(CartPole(), 1)
        monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / "closed"))
        monkeypatch.setattr(Path, "is_file", refuse)


def test_a_lock_of_another_user_and_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.build_lock(tmp_path, "unit") as locked:
        assert locked
    assert (tmp_path / "unit.lock").stat().st_mode & 0o777 == 0o666
    opened: list[int] = []
    real = os.open

    def foreign(path: Any, flags: int, *mode: int) -> int:
        opened.append(flags)
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "of another user")
        return real(path, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", foreign)
        with cache.build_lock(tmp_path, "unit") as locked:
            assert locked and opened == [os.O_RDWR, os.O_RDONLY]

    def without(lock: Any, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with cache.build_lock(tmp_path, "unit") as locked:
        assert not locked
    (tmp_path / "unit.build.other").mkdir()  # of a builder beside us
    with cache.build_folder(tmp_path, "unit", locked=False) as folder:
        assert folder.parent == tmp_path
    assert [path.name for path in tmp_path.glob("unit.build.*")] == ["unit.build.other"]


def test_a_full_disk_and_one_that_forbids_code_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path))

    def full(self: Path, *_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(BuildError, match=r"cannot write to the build cache .*: No space left on device"):
            jit.load_shared(jit.CSRC / "host" / "math.cpp")
    monkeypatch.setattr(jit, "_compile", lambda *_: "x")
    monkeypatch.setattr(jit.compiler, "read_log", lambda folder: "$ g++\nas: /tmp/x.o: No space left on device\n")
    with pytest.raises(BuildError, match=r"the disk is full, of the build cache .*: as: /tmp/x.o: No space left"):
        jit.load_shared(jit.CSRC / "host" / "math.cpp")
    error = OSError("x.so: failed to map segment from shared object")
    assert "noexec" in str(cache.cannot_load(tmp_path / "x.so", error))
    assert "delete it" in str(cache.cannot_load(tmp_path / "x.so", OSError("file too short")))
