"""Compiles the small C++ sources beside this file; they include the engine's headers as "tbs/...h"."""

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import support
from solver_scenes import compiled

HERE = Path(__file__).parent
HEADERS = HERE.parents[1] / "csrc"
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
NVCC = ["-std=c++20", "-arch=sm_80", "-fmad=false", "-Werror", "all-warnings"]


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)


class Compiler:
    """g++ and, where there is one, nvcc."""

    def __init__(self, folder):
        self.folder = folder

    def library(self, source, *flags):
        """The source beside this file as a loaded shared library, and what g++ said. All workers have one build."""
        texts = [path.read_text() for path in (HERE / source, *sorted(HERE.glob("*.h")), *sorted(HEADERS.rglob("*.h")))]
        arguments = [*STRICT, *map(str, flags), "-shared", "-fPIC", f"-I{HEADERS}"]
        path = support.compiled(f'#include "{HERE / source}"\n', arguments, texts)
        return ctypes.CDLL(str(path)), path.with_suffix(".said").read_text()

    def gxx(self, text):
        """Compiles text only to see whether it is accepted."""
        path = self.folder / "text.cpp"
        path.write_text(text)
        return run("g++", *STRICT, "-fsyntax-only", "-I", HEADERS, path)

    def nvcc(self, text):
        if not shutil.which("nvcc"):
            pytest.skip("no nvcc")
        path = self.folder / "text.cu"
        path.write_text(text)
        return run("nvcc", *NVCC, "-I", HEADERS, "-c", path, "-o", self.folder / "text.o")

    def machine_code(self, text, *flags):
        """The code that nvcc makes of each kernel: the .text sections of the cubin, an ELF file."""
        if not shutil.which("nvcc"):
            pytest.skip("no nvcc")
        source, cubin = self.folder / "kernels.cu", self.folder / "kernels.cubin"
        source.write_text(text)
        result = run("nvcc", *NVCC[:2], "-cubin", *flags, "-I", HEADERS, source, "-o", cubin)
        assert result.returncode == 0, result.stderr
        data = cubin.read_bytes()
        table, count, names = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 0x3C)
        sections = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
        strings = data[sections[names][4] :]
        named = {
            strings[name : strings.index(b"\0", name)].decode(): data[start : start + size]
            for name, _, _, _, start, size in sections
        }
        return {name: code for name, code in named.items() if name.startswith(".text.")}


@pytest.fixture(scope="session")
def compiler(tmp_path_factory):
    return Compiler(tmp_path_factory.mktemp("csrc"))


@pytest.fixture(scope="session")
def solver_library(compiler):
    return compiled(compiler)


@pytest.fixture(scope="session")
def rays_library(compiler):
    built, said = compiler.library("rays_library.cpp", "-Og", "-DTBS_FRAMES", "-march=native")
    assert said == ""
    return built


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def call(function, *inputs, outputs=(np.float32,)):
    """Calls function(inputs..., outputs..., n) over arrays of one length and returns the outputs."""
    inputs = [np.ascontiguousarray(array) for array in inputs]
    results = [np.empty(len(inputs[0]), dtype) for dtype in outputs]
    function(*(pointer(array) for array in [*inputs, *results]), ctypes.c_int64(len(inputs[0])))
    return results[0] if len(results) == 1 else results
