"""The CUDA toolkit that torch's builder links: behind scripts, and without the name that the linker looks for."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sass

from torch_batchsim import BuildError
from torch_batchsim.build import jit, toolkit

LINES = "#$ _HERE_={home}/bin\n#$ TOP={home}/bin/..\n#$ LIBRARIES=  \"-L{home}/stubs\" \"-L{home}/my lib\""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nvcc(tmp_path: Path) -> Path:
    """A script in another folder than the toolkit, ``tmp_path / "toolkit"``."""
    (tmp_path / "toolkit" / "my lib").mkdir(parents=True)
    lines = LINES.format(home=tmp_path / "toolkit")
    return script(tmp_path / "scripts" / "bin" / "nvcc", f"cat >&2 <<'END'\n{lines}\nEND")


@pytest.fixture
def cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler whose own folders have no runtime, in a process that has loaded none."""
    monkeypatch.setattr(toolkit, "_loaded", lambda: None)
    return script(tmp_path / "cpp" / "g++", "echo libcudart.so")


def test_the_toolkit_is_behind_the_script(tmp_path: Path, nvcc: Path) -> None:
    assert toolkit.home(str(nvcc)) == tmp_path / "toolkit"
    silent = script(tmp_path / "silent" / "bin" / "nvcc", "exit 1")
    link = tmp_path / "links" / "nvcc"
    link.parent.mkdir()
    link.symlink_to(silent)
    assert toolkit.home(str(link)) == tmp_path / "silent"
    assert toolkit.home("/no/bin/nvcc") == Path("/no")


def test_the_runtime_is_the_toolkits_else_the_compilers_else_torchs(
    tmp_path: Path, nvcc: Path, cpp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BuildError, match=r"^no CUDA runtime .*toolkit of .*nvcc has no .*apt install cuda-cudart-dev"):
        toolkit.linker_flags(str(nvcc), str(cpp), tmp_path)
    loaded = tmp_path / "libcudart.so.13"
    loaded.touch()
    monkeypatch.setattr(toolkit, "_loaded", lambda: loaded)
    (tmp_path / "own").mkdir()
    (flag,) = toolkit.linker_flags(str(nvcc), str(cpp), tmp_path / "own")
    assert (Path(flag.removeprefix("-L")) / "libcudart.so").resolve() == loaded
    compilers = tmp_path / "libcudart.so"
    compilers.touch()
    script(cpp, f"echo {compilers}")
    assert toolkit.runtime(str(nvcc), str(cpp)) == compilers
    for folder in ("lib", "lib64", "my lib"):
        own = tmp_path / "toolkit" / folder / "libcudart.so"
        own.parent.mkdir(exist_ok=True)
        own.touch()
        assert toolkit.runtime(str(nvcc), str(cpp)) == own


def test_a_missing_runtime_is_a_missing_tool(nvcc: Path, cpp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cuda_compiler", lambda: str(nvcc))
    monkeypatch.setattr(jit, "cpp_compiler", lambda: str(cpp))
    (sentence,) = jit.missing_tools(cuda=True)
    assert sentence.startswith("no CUDA runtime to link")
    assert jit.missing_tools(cuda=False) == []


def test_one_missing_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise BuildError("no CUDA compiler")

    monkeypatch.setattr(jit, "cuda_compiler", fail)
    assert jit.missing_tools(cuda=True) == ["no CUDA compiler"]


# ---- links a unit with nvcc ------------------------------------------------------------------------------------------

PROGRAM = """
import ctypes, shutil, sys
from pathlib import Path
from torch.utils import cpp_extension
from torch_batchsim.build import jit, toolkit
cpp_extension.CUDA_HOME = str(Path(shutil.which("nvcc")).parent.parent)  # as torch with CUDA finds it
for library in sys.argv[1:]:
    ctypes.CDLL(library)  # as a build of torch with CUDA has loaded them
assert toolkit._loaded() is not None, "the runtime is not seen"
print(jit.missing_tools(cuda=True), toolkit.runtime(jit.cuda_compiler(), jit.cpp_compiler()))
library = jit.load_shared(jit.CSRC / "host" / "advantages.cu")
print(library.advantages is not None)
"""


@pytest.mark.full
@pytest.mark.skipif(sass.nvcc() is None, reason="no nvcc")
@pytest.mark.parametrize("kind", ["script", "wheels"])
def test_a_cuda_unit_is_linked_and_opened(kind: str, tmp_path: Path) -> None:
    """By torch's builder, whose libraries with CUDA are empty ones here."""
    found = sass.nvcc()
    assert found is not None
    home = toolkit.home(found)
    versioned = next(path for path in (home / "lib64").glob("libcudart.so.*") if path.suffix[1:].isdigit())
    if kind == "script":
        nvcc = script(tmp_path / "scripts" / "nvcc", f'exec {home}/bin/nvcc "$@"')
    else:  # a toolkit with no more libraries than pip's wheels
        nvcc = without_names_for_linkers(home, tmp_path / "wheels", versioned)
    stand_ins = [str(versioned)]
    for name in ("c10_cuda", "torch_cuda"):
        stand_ins.append(str(tmp_path / f"lib{name}.so"))
        empty = [jit.cpp_compiler(), "-shared", "-x", "c++", "/dev/null", f"-Wl,-soname,lib{name}.so"]
        subprocess.run([*empty, "-o", stand_ins[-1]], check=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("CUDA_HOME", "CUDA_PATH")}
    environment |= {
        "PATH": os.pathsep.join([str(nvcc.parent), os.environ["PATH"]]), "LIBRARY_PATH": str(tmp_path),
        "TORCH_BATCHSIM_CACHE": str(tmp_path / "cache"), "TORCH_CUDA_ARCH_LIST": "9.0",
    }  # fmt: skip
    command = [sys.executable, "-c", PROGRAM, *stand_ins]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = done.stdout.splitlines()
    lacks, linked = first.rsplit(maxsplit=1)
    assert (lacks, last) == ("[]", "True")
    assert Path(linked).name == ("libcudart.so" if kind == "script" else versioned.name)
    made = next((tmp_path / "cache").glob("advantages_cuda*.so"))
    assert ctypes.CDLL(str(versioned)) and versioned.name.encode() in made.read_bytes()


def without_names_for_linkers(home: Path, copy: Path, versioned: Path) -> Path:
    """The path of an nvcc that finds programs and headers as this one does, and of libraries only the runtime."""
    (copy / "bin").mkdir(parents=True)
    for path in (home / "bin").iterdir():
        (copy / "bin" / path.name).symlink_to(path)
    for name in ("nvcc", "nvcc.profile"):  # nvcc looks beside itself
        (copy / "bin" / name).unlink()
        shutil.copy(home / "bin" / name, copy / "bin" / name)
    (copy / "nvvm").symlink_to(home / "nvvm")
    (target,) = (path for path in (home / "targets").iterdir() if (path / "include").is_dir())
    (copy / "targets" / target.name / "lib").mkdir(parents=True)
    (copy / "targets" / target.name / "include").symlink_to(target / "include")
    (copy / "include").symlink_to(target / "include")
    (copy / "lib").mkdir()
    (copy / "lib" / versioned.name).symlink_to(versioned.resolve())
    return copy / "bin" / "nvcc"
