"""Compiles the CUDA units of every environment with nvcc, warnings as errors.

Each executor is compiled for one architecture, so that all see both, and CI is not twice as long.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "common"))

from environments.vault import Vault  # noqa: E402
from support import COMPILED  # noqa: E402
from torch_batchsim.envs.hanabi import Hanabi  # noqa: E402
from torch_batchsim.envs.hideseek import HideSeek  # noqa: E402

from torch_batchsim import jit  # noqa: E402
from torch_batchsim.bench.micro import Micro  # noqa: E402
from torch_batchsim.codegen import Target, generate  # noqa: E402
from torch_batchsim.executors import EXECUTORS  # noqa: E402
from torch_batchsim.gpu_check.environments import Garden  # noqa: E402
from torch_batchsim.program import Program  # noqa: E402

ARCHITECTURES = {"graph": "90", "megakernel": "80", "per_world": "90"}  # by executor: compute capability 8.0 or 9.0
ENVIRONMENTS = {
    **COMPILED,
    "garden": Garden,
    "vault": Vault,
    "micro": Micro,
    "hideseek": HideSeek,
    "hanabi_faults": Hanabi,
    "hanabi_bits": partial(Hanabi, turns="all", obs_dtype="bits", illegal_moves="penalty"),
}


def main() -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        print("no nvcc on this machine: CUDA units not compiled")
        return
    added_by_torch = ["--expt-relaxed-constexpr", "-D__CUDA_NO_HALF_OPERATORS__", "--compiler-options", "-fPIC"]
    warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wno-unused-parameter,-Wno-unknown-pragmas"]
    command = [nvcc, *added_by_torch, *jit.compiler_flags("cuda"), *warnings, f"-I{jit.CSRC}", "-c"]

    def compile_unit(name: str, executor: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder) / f"{name}.cu"
            unit.write_text(generate(Program(ENVIRONMENTS[name]()), Target("cuda", executor)))
            number = ARCHITECTURES[executor]
            target = f"-gencode=arch=compute_{number},code=sm_{number}"
            subprocess.run([*command, target, str(unit), "-o", f"{folder}/unit.o"], check=True)
        return f"nvcc compiled {name} ({executor}) for sm_{number}"

    # One unit each, which takes a minute; shelf has of heap all that a compiler sees.
    executors = {"heap": [], "shelf": ["megakernel"], "hideseek": ["graph"], "gallery": ["graph"]}
    pairs = [(name, executor) for name in ENVIRONMENTS for executor in executors.get(name, EXECUTORS["cuda"])]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for line in pool.map(compile_unit, *zip(*pairs, strict=True)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
