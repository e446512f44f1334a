"""Compiles the CUDA units of every environment with nvcc, warnings as errors.

Zoo, which has all that a world can do, forge, which repeats systems, and herd, which sums by warps and blocks, are
compiled with each executor, another environment with one of them in turn: what it adds are systems, of which executors
see calls. Each executor is compiled for one architecture. The code for devices is compiled of each unit; that for the
host, two seconds of a core, once for each environment. (g++ compiles it of each unit in the tests, where CUDA is
emulated.) Large units are hardly optimised, where nvcc knows how: that would take a minute each, and
tests/torch_batchsim/build/test_kernels.py compiles a unit with rigid bodies as users do.

Where there is a disassembler, no other unit may have instructions whose results for zeros or NaN are others than g++'s.
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
FOLDERS = ("tests/common", "tests/envs/atari", "tests/torch_batchsim/translate", "examples/experiments")
sys.path[:0] = [str(ROOT / folder) for folder in FOLDERS]

from environments.vault import Vault  # noqa: E402
from micro import Micro  # noqa: E402
from own_roms import atari  # noqa: E402
from sass import cuobjdump, disassembled, unsafe  # noqa: E402
from support import COMPILED  # noqa: E402
from test_constructs import Cases  # noqa: E402
from torch_batchsim.envs.cartpole import CartPole  # noqa: E402
from torch_batchsim.envs.hanabi import Hanabi  # noqa: E402
from torch_batchsim.envs.hideseek import HideSeek  # noqa: E402

from torch_batchsim import Checks  # noqa: E402
from torch_batchsim.build import jit  # noqa: E402
from torch_batchsim.build.codegen import Target, generate  # noqa: E402
from torch_batchsim.gpu_check.environments import Garden  # noqa: E402
from torch_batchsim.resolve.executors import EXECUTORS  # noqa: E402
from torch_batchsim.resolve.program import Program  # noqa: E402

ARCHITECTURES = {"graph": "90", "megakernel": "80", "per_world": "90", "inside": "90"}  # by executor
LARGE = ("ant", "atari", "hideseek", "gallery", "shelf", "stool")  # with rigid bodies, processors, what lanes do
ENVIRONMENTS = {
    **COMPILED,
    "cases": Cases,
    "garden": Garden,
    "atari": atari,
    "vault": Vault,
    "micro": Micro,
    "hideseek": HideSeek,
    "cartpole_continuous": partial(CartPole, continuous=True),
    "hanabi_faults": Hanabi,
    "zoo_checked": COMPILED["zoo"],
    "hanabi_checked": Hanabi,
    "hanabi_bits": partial(Hanabi, turns="all", obs_dtype="bits", illegal_moves="penalty"),
}


def main() -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        print("no nvcc on this machine: CUDA units not compiled")
        return
    if cuobjdump() is None:
        print("no cuobjdump with nvdisasm, nor their wheels: instructions not read")
    added_by_torch = ["--expt-relaxed-constexpr", "-D__CUDA_NO_HALF_OPERATORS__", "--compiler-options", "-fPIC"]
    warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wno-unused-parameter,-Wno-unknown-pragmas"]
    flags = [flag for flag in jit.compiler_flags("cuda") if flag != "-O3"]  # which is for the host only
    command = [nvcc, *added_by_torch, *flags, *warnings, f"-I{jit.CSRC}"]
    options = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
    quickly = ["--Ofast-compile=max"] if "--Ofast-compile" in options else []

    def compile_unit(name: str, executor: str, host: bool) -> str:
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder) / f"{name}.cu"
            inside = executor == "inside"  # a unit of its own, of the words of "per_world"
            target = Target("cuda", "per_world" if inside else executor, inside=inside)
            checks = Checks() if name.endswith("_checked") else None
            unit.write_text(generate(Program(ENVIRONMENTS[name](), checks), target))
            number = ARCHITECTURES[executor]
            architecture = f"-gencode=arch=compute_{number},code=sm_{number}"
            kind = "-c" if host else "-cubin"
            how = quickly if name in LARGE else []
            subprocess.run([*command, *how, architecture, kind, str(unit), "-o", f"{folder}/unit"], check=True)
            if not how:  # which takes minutes to disassemble
                refuse_unsafe(f"{name} ({executor})", Path(folder) / "unit")
        return f"nvcc compiled {name} ({executor}) for sm_{number}{' and the host' if host else ''}"

    source, architecture = str(jit.CSRC / "host" / "advantages.cu"), "-gencode=arch=compute_90,code=sm_90"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, architecture, "-c", source, "-o", f"{folder}/unit"], check=True)
        refuse_unsafe("advantages.cu", Path(folder) / "unit")
    print("nvcc compiled advantages.cu for sm_90 and the host", flush=True)

    # One unit each, and first; shelf has of heap all that a compiler sees. Then what differs from another environment
    # by options only.
    executors = {"heap": [], "hideseek": ["graph"], "gallery": ["graph"], "shelf": ["megakernel"]}
    executors |= {"ant": ["per_world"], "atari": ["graph"], "stool": ["graph"]}
    executors |= {"cartpole_continuous": ["graph"], "hanabi_faults": ["graph"], "hanabi_bits": ["megakernel"]}
    executors |= {"micro": ["graph"], "zoo_checked": ["megakernel"], "zoo": [*EXECUTORS["cuda"], "inside"]}
    executors |= {"hanabi_checked": ["graph"], "cases": ["graph"]}
    executors |= {"forge": EXECUTORS["cuda"], "herd": EXECUTORS["cuda"]}
    units = []
    every = list(EXECUTORS["cuda"])
    for i, name in enumerate(sorted(ENVIRONMENTS, key=lambda name: name not in executors)):
        own = executors.get(name, [every[i % len(every)]])
        units += [(name, executor, k == i % len(own)) for k, executor in enumerate(own)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for line in pool.map(compile_unit, *zip(*units, strict=True)):
            print(line, flush=True)


def refuse_unsafe(name: str, path: Path) -> None:
    """End the run at instructions of a compiled unit that ``sass.unsafe`` names."""
    found = unsafe(disassembled(path)) if cuobjdump() else []
    if found:
        raise SystemExit(f"nvcc made of {name}, with other results than g++'s: {', '.join(sorted(set(found))[:8])}")


if __name__ == "__main__":
    main()
