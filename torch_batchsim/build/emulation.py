"""The CUDA executors without a GPU: their units compiled by g++, where a header of ours stands in for CUDA."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from ..errors import BuildError
from ..resolve.program import Program
from . import jit
from .codegen import Target, generate
from .compile_errors import explain

WORDS = jit.CSRC / "emulation" / "cuda_words.h"
"""CUDA's words for g++, to be included before everything else."""

# Results do not depend on the optimisation, and these units run for a few steps only.
_FLAGS = ["-O1", "-fPIC", "-DTBS_SPOIL_WORKSPACE", f"-I{jit.CSRC}"]
_FIRST = ["-include", str(WORDS)]
_STANDARD = WORDS.parent / "standard.h"
_LEFT_OUT = ("-O3", "-march=native")


def load(program: Program, executor: str | None = None) -> jit.Library:
    """The library of a CUDA executor that runs on the CPU, compiled if the cache does not hold it.

    It gives the bits of a GPU, slowly: one thread of the device after the other. Before each system it fills workspace
    with other bytes. Give it to ``Simulator`` or ``TorchVectorEnv`` as ``_library``.

    Raises BuildError if it does not compile, ValueError for an unknown executor.
    """
    target = Target("cuda", executor)
    source = generate(program, target)
    flags = [flag for flag in jit.compiler_flags("cpu", program.environment.fast_math) if flag not in _LEFT_OUT]
    flags += _FLAGS
    compiler = jit.cpp_compiler()
    texts = [source, compiler, *flags, *_FIRST, WORDS.read_text(), jit._compiler_identity(compiler), jit.processor()]
    name = f"{program.environment.name}_cpu_{jit._digest([*texts, *jit.program_sources(program)])}"
    directory = jit.cache_directory()
    library = directory / f"{name}.so"
    if not library.is_file():
        with jit._build_lock(directory, name):
            if not library.is_file():  # another process was faster
                first = jit.precompiled_arguments(_STANDARD, flags, directory, [WORDS.read_text()]) or _FIRST
                _compile(program, source, [compiler, *flags, "-shared"], first, library)
    jit.note_use(library)
    return jit.Library(library, target)


def _compile(program: Program, source: str, command: list[str], first: list[str], library: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{library.stem}.build.", dir=library.parent) as folder:
        unit, part = Path(folder) / "generated.cpp", Path(folder) / "part"
        unit.write_text(source)
        for included in (first, _FIRST):
            words = [*command, *included, str(unit), "-o", str(part)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode == 0 or "PCH" not in done.stderr:  # g++ found no room for the precompiled header
                break
        if done.returncode != 0:
            raise BuildError(explain(program, done.stdout + done.stderr))
        os.replace(part, library)
