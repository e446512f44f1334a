"""The CUDA executors without a GPU: their units compiled by g++, where a header of ours stands in for CUDA."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ..errors import BuildError
from ..resolve.program import Program
from . import compiler, jit
from .codegen import Target, generate
from .compile_errors import explain

WORDS = jit.CSRC / "emulation" / "cuda_words.h"
"""CUDA's words for g++, to be included before everything else."""

# Results do not depend on the optimisation, and these units run for a few steps only.
_FLAGS = ["-Og", "-DTBS_FRAMES", "-fPIC", "-DTBS_SPOIL_WORKSPACE", f"-I{jit.CSRC}"]
_FIRST = ["-include", str(WORDS)]
_FEW = 5  # libraries of the same flags in a cache: precompiling CUDA's words takes the time that it saves in five
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
    flags = [*jit.cpp_arguments(), *flags, *_FLAGS]
    path = jit.cpp_compiler()
    texts = [source, path, *flags, *_FIRST, WORDS.read_text("utf-8"), jit.compiler_identity(path), jit.processor()]
    name = f"{program.environment.name}_cpu_{jit.digest([*texts, *jit.program_sources(program)])}"
    directory = jit.cache_directory()
    library = directory / f"{name}.so"
    if not library.is_file():
        with jit.build_lock(directory, name):
            if not library.is_file():  # another process was faster
                first = _precompiled(flags, directory) or _FIRST
                _compile(program, source, [path, *flags, "-shared"], first, library)
    jit.note_use(library)
    return jit.Library(library, target)


def _compile(program: Program, source: str, command: list[str], first: list[str], library: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{library.stem}.build.", dir=library.parent) as folder:
        unit, part = Path(folder) / "generated.cpp", Path(folder) / "part"
        unit.write_text(source, "utf-8")
        for included in (first, _FIRST):
            words = [*command, *included, str(unit), "-o", str(part)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode == 0 or "PCH" not in done.stderr:  # g++ found no room for the precompiled header
                break
        if done.returncode != 0:
            raise BuildError(explain(program, done.stdout + done.stderr))
        os.replace(part, library)


def _precompiled(flags: list[str], directory: Path) -> list[str]:
    """Arguments with which g++ includes CUDA's words first, precompiled; none for the first few units of these flags.

    They are for a folder within ``directory``.
    """
    path = jit.cpp_compiler()
    key = jit.digest([WORDS.read_text("utf-8"), *flags, jit.compiler_identity(path), jit.processor()])
    name = f"{WORDS.stem}_cpu_{key}"
    units = directory / f"{name}.units"  # a byte for each that was compiled without
    with jit.build_lock(directory, name):
        if (units.stat().st_size if units.is_file() else 0) < _FEW:
            with suppress(OSError), open(units, "ab") as count:
                count.write(b".")
            return []
        found = compiler.precompile(WORDS, path, flags, directory / name)
    for kept in (units, *directory.glob(f"{name}.h*")):
        jit.note_use(kept)
    return ["-include", f"../{name}.h"] if found else []
