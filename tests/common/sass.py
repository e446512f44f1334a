"""What nvcc makes of CUDA units: registers, stack and memory instructions of each kernel, counted in the SASS.

`python tests/common/sass.py cartpole,hanabi graph,megakernel` prints a table. It needs nvcc, and cuobjdump with
nvdisasm: of the CUDA toolkit, or of the wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torch_batchsim import Environment
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import node_lists

ARCHITECTURE = "90"
MEMORY = ("LDG", "STG", "LDL", "STL", "LDS", "STS", "ATOM", "RED", "LD", "ST")
_ADDED_BY_TORCH = ["--expt-relaxed-constexpr", "-D__CUDA_NO_HALF_OPERATORS__", "--compiler-options", "-fPIC"]


@dataclass
class Kernel:
    """One kernel of a unit.

    Attributes:
        nodes: what it runs, each once, such as ``push_cart`` or ``KeepFinalRows``.
        registers, stack: of a thread, in registers and bytes.
        shared: bytes of a block on chip, with the 1,024 that CUDA has for itself.
        accesses: how many instructions there are by name and bytes, such as ``("LDG", 16)``.
        instructions: all of them.
        under_way: the most global loads of one width that follow each other, without a store or branch between.
        unsafe: those of ``unsafe``.
    """

    nodes: tuple[str, ...]
    resets: bool
    registers: int
    stack: int
    shared: int
    accesses: Counter[tuple[str, int]] = field(default_factory=Counter)
    instructions: int = 0
    under_way: int = 0
    unsafe: list[str] = field(default_factory=list)

    def count(self, name: str) -> int:
        """Instructions of one name, whatever their width."""
        return sum(count for (own, _), count in self.accesses.items() if own == name)


def nvcc() -> str | None:
    """The compiler, None if there is none."""
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def cuobjdump() -> str | None:
    """The disassembler, beside nvcc or from a wheel, None if there is none or it lacks nvdisasm."""
    folders = [*Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin"), Path("/usr/local/cuda/bin")]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    found = shutil.which("cuobjdump", path=path)
    return found if shutil.which("nvdisasm", path=path) else None


def kernels(environment: Environment, executor: str) -> list[Kernel]:
    """Compiles an environment's unit for sm_90, and counts."""
    with tempfile.TemporaryDirectory() as folder:
        unit, cubin = Path(folder) / "unit.cu", Path(folder) / "unit.cubin"
        program = Program(environment)
        unit.write_text(generate(program, Target("cuda", executor)))
        command = [nvcc(), *_ADDED_BY_TORCH, *jit.compiler_flags("cuda"), f"-I{jit.CSRC}"]
        command += [f"-arch=sm_{ARCHITECTURE}", "-cubin", str(unit), "-o", str(cubin)]
        subprocess.run(command, check=True)
        nodes = {node.c_type.partition("<")[0] for nodes in node_lists(program).values() for node in nodes}
        return counted(cubin, nodes)


def disassembled(path: Path) -> str:
    """The instructions of all kernels in a compiled unit."""
    return _listed("-sass", path)


def _listed(option: str, path: Path) -> str:
    tool = cuobjdump()
    assert tool is not None
    environment = {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", ""), str(Path(tool).parent)])}
    return subprocess.run([tool, option, str(path)], check=True, capture_output=True, text=True, env=environment).stdout


def unsafe(text: str) -> list[str]:
    """Instructions of a disassembly whose results for zeros or NaN are others than g++'s.

    nvcc makes minima of a zero of ``x < 0 ? x : 0``: they give -0 of -0; maxima of a -0 likewise. What is saturated
    gives 0 of a NaN.
    """
    found = []
    for line in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][^;]*?)\s*;", text):
        operation, _, operands = line.partition(" ")
        name, *modifiers = operation.split(".")
        if name.startswith("FMNMX") and "NAN" not in modifiers:
            *values, chosen = [operand.strip() for operand in operands.split(",")][1:]
            zeros = [value for value in values if re.fullmatch(r"-?(?:U?RZ|0)(?:\.reuse)?", value)]
            wrong = any(zero.startswith("-") == (chosen == "!PT") for zero in zeros)
        else:
            wrong = name[0] in "FDH" and "SAT" in modifiers
        if wrong:
            found.append(line)
    return found


def counted(cubin: Path, nodes: Iterable[str]) -> list[Kernel]:
    """The kernels of a compiled unit, those of steps first; their nodes by the names of their C++ types."""
    usage = _listed("-res-usage", cubin)
    found: dict[str, Kernel] = {}
    for name, *sizes in re.findall(r"Function (\S+?):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage):
        # A mangled name has each type once, with its length in front.
        first = {node: name.find(f"{len(node)}{node}") for node in nodes}
        own = sorted((place, re.sub(r"Node\d+_", "", node)) for node, place in first.items() if place >= 0)
        names = tuple(node for _, node in own)
        found[name] = Kernel(names, "ChooseMasked" in names, *map(int, sizes))
    for part in disassembled(cubin).split("Function : ")[1:]:
        kernel = found[part.split(None, 1)[0]]
        kernel.unsafe, loads = unsafe(part), Counter[int]()
        for operation in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", part):
            kernel.instructions += 1
            name, *modifiers = operation.split(".")
            if name in MEMORY:
                kernel.accesses[name, _width(modifiers)] += 1
            if name == "LDG":
                loads[_width(modifiers)] += 1
                kernel.under_way = max(kernel.under_way, *loads.values())
            elif name in ("STG", "BRA", "EXIT"):
                loads.clear()
    return sorted(found.values(), key=lambda kernel: kernel.resets)


def _width(modifiers: list[str]) -> int:
    """Bytes that a thread moves."""
    for modifier in modifiers:
        if modifier in ("U8", "S8"):
            return 1
        if modifier in ("U16", "S16"):
            return 2
        if modifier in ("64", "128"):
            return int(modifier) // 8
    return 4


def table(rows: list[Kernel]) -> str:
    """Markdown, a line for each kernel."""
    lines = ["| kernel | registers | stack | " + " | ".join(MEMORY[:6]) + " | instructions |", "|---" * 10 + "|"]
    for kernel in rows:
        cells = []
        for name in MEMORY[:6]:
            widths = sorted((width, n) for (own, width), n in kernel.accesses.items() if own == name)
            parts = ", ".join(f"{n} of {width}" for width, n in widths)
            cells.append(f"{kernel.count(name)}" + (f" ({parts})" if parts else ""))
        nodes = kernel.nodes if len(kernel.nodes) < 4 else (kernel.nodes[0], "..", kernel.nodes[-1])
        name = f"{'reset: ' if kernel.resets else ''}{', '.join(nodes)}"
        lines.append(f"| {name} | {kernel.registers} | {kernel.stack} | {' | '.join(cells)} | {kernel.instructions} |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    from torch_batchsim.envs.cartpole import CartPole
    from torch_batchsim.envs.hanabi import Hanabi
    from torch_batchsim.envs.hideseek import HideSeek
    from torch_batchsim.envs.overcooked import Overcooked
    from torch_batchsim.envs.swarm import Swarm

    known = {
        "cartpole": CartPole, "overcooked": Overcooked, "hanabi": Hanabi, "hideseek": HideSeek, "swarm": Swarm,
    }  # fmt: skip
    names, executors = (argument.split(",") for argument in sys.argv[1:3])
    for name in names:
        for executor in executors:
            print(f"\n{name}, {executor}\n", table(kernels(known[name](), executor)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
