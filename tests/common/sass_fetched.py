"""How many different instructions a world's step executes in a CUDA kernel, estimated without a GPU.

The unit is compiled by nvcc with the lines of its source, and by g++ as emulated CUDA with gcov's counters. A world
steps on the emulated device; a basic block of the SASS counts as executed if most of its lines were. Lines of headers
that all use, as math.h, say nothing; inlined copies of a line are one to gcov. So a copy that never ran may count: the
estimate is high (28,600 where a profiler counted 21,000).

`python tests/common/sass_fetched.py` prints it for the systems of `Physics.simulate` in HideSeek.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import sass
import torch

from torch_batchsim import Environment, TorchVectorEnv
from torch_batchsim.build import emulation, jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program

# Of the lines that an instruction is of, from the innermost out, the first in none of these counts.
_USED_BY_ALL = {"wide.h", "lanes.h", "math.h", "vector.h", "platform.h", "colouring.h", "chip.h", "workspace.h"}
_COUNTERS = """
extern "C" void __gcov_reset(void); extern "C" void __gcov_dump(void);
#define TBS_SHOWN extern "C" __attribute__((visibility("default")))
TBS_SHOWN void counters_reset() { __gcov_reset(); }
TBS_SHOWN void counters_dump() { __gcov_dump(); }
"""

Place = tuple[str, int]  # a file's name, a line
Ran = dict[tuple[str, int, str], bool]  # with the function: whether g++'s code of a line ran
Play = Callable[[jit.Library, Callable[[], None], Callable[[], None]], None]


@dataclass
class Block:
    """A basic block: instructions that execute together.

    Attributes:
        function: as the linker knows it; "" for the kernel itself.
        places: of each instruction the lines that it is of, the innermost first.
    """

    function: str
    places: list[list[Place]] = field(default_factory=list)
    slow: bool = False


def blocks(cubin: Path, kernel: str) -> Iterator[Block]:
    """Of the kernel that begins with a system's node; compiled with -lineinfo."""
    tool = sass.cuobjdump()
    assert tool is not None
    command = [str(Path(tool).parent / "nvdisasm"), "-gi", "-c", str(cubin)]
    block, inside, lines, here = Block(""), False, [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("\t.section\t"):
                inside = line.startswith("\t.section\t.text.") and re.search(rf"_{kernel}E", line) is not None
            elif not inside:
                continue
            elif found := re.search(r'//## File "(?:[^"]*/)?([^"/]+)", line (\d+)', line):
                lines.append((found[1], int(found[2])))
            elif found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
                here, lines = lines or here, []
                if found[1] != "NOP":
                    block.places.append(here)
                block.slow |= "slowpath" in found[1] or "COLLECTIVE" in found[1]
                if re.search(r"\b(?:BRA|EXIT|RET|BRX|CALL|BSYNC|WARPSYNC)\b", found[1]):
                    yield block
                    block = Block(block.function)
            elif line[0] in ".$_" and line.rstrip().endswith(":"):
                yield block
                name = line.rstrip()[:-1]
                block = Block(block.function if line[0] == "." else name.rsplit("$", 1)[-1] if line[0] == "$" else "")
    yield block


def _share(places: list[list[Place]], function: str, ran: dict[Place, dict[str, float]]) -> float | None:
    """In how many steps the lines of a block ran, by the fifth of them that ran least; None if they say nothing."""
    shares = []
    for lines in places:
        own = next((line for line in lines if line[0] not in _USED_BY_ALL), None)
        if own in ran:
            shares.append(ran[own].get(function, ran[own].get("", 0.0)))
    return sorted(shares)[(len(shares) - 1) // 5] if shares else None


@dataclass
class Fetched:
    """Of a kernel: all instructions, those that a warp executes in a step, and those that 12 warps do."""

    all: int
    by_one: float
    by_twelve: float
    functions: Counter[str]


def fetched(cubin: Path, kernel: str, steps: list[Ran]) -> Fetched:
    """What a warp fetches, given which lines ran in steps of a world."""
    found = list(blocks(cubin, kernel))
    functions = {block.function for block in found} - {""}
    ran: dict[Place, dict[str, float]] = {}
    entered: set[str] = set()
    for step in steps:
        there: dict[tuple[Place, str], bool] = {}
        for (file, line, name), did in step.items():
            key = ((file, line), name if name in functions else "")
            there[key] = there.get(key, False) or did
        for (place, name), did in there.items():
            own = ran.setdefault(place, {})
            own[name] = own.get(name, 0.0) + did / len(steps)
            if did:
                entered.add(name)
    known = {name for own in ran.values() for name in own}
    result, before = Fetched(0, 0.0, 0.0, Counter()), 0.0
    for block in found:
        never = block.slow or "slowpath" in block.function or block.function in known - entered
        share = 0.0 if never else _share(block.places, block.function, ran)
        before = share = before if share is None else share
        result.all += len(block.places)
        result.by_one += share * len(block.places)
        result.by_twelve += (1 - (1 - share) ** 12) * len(block.places)
        result.functions[block.function] += round(share * len(block.places))
    return result


def compiled(environment: Environment, folder: Path) -> Path:
    """The unit of `graph` for sm_90, with its lines."""
    unit, cubin = folder / "unit.cu", folder / "unit.cubin"
    unit.write_text(generate(Program(environment), Target("cuda", "graph")))
    command = [sass.nvcc(), *sass._ADDED_BY_TORCH, *jit.compiler_flags("cuda"), f"-I{jit.CSRC}", "-lineinfo"]
    subprocess.run([*command, f"-arch=sm_{sass.ARCHITECTURE}", "-cubin", str(unit), "-o", str(cubin)], check=True)
    return cubin


def ran_lines(environment: Environment, folder: Path, play: Play) -> list[Ran]:
    """Lines that ran between the two calls that `play` makes in turns; it gets the emulated device's library."""
    target, unit, library = Target("cuda", "graph"), folder / "unit.cpp", folder / "unit.so"
    unit.write_text(generate(Program(environment), target) + _COUNTERS)
    flags = [flag for flag in jit.compiler_flags("cpu") if flag not in emulation._LEFT_OUT]
    flags += [flag for flag in emulation._FLAGS if flag != "-Og"]
    command = [jit.cpp_compiler(), *jit.cpp_arguments(), *flags, "-O0", "--coverage", "-w", "-shared"]
    subprocess.run([*command, *emulation._FIRST, str(unit), "-o", str(library)], check=True, cwd=folder)
    counters, found = ctypes.CDLL(str(library)), []

    def note() -> None:
        counters.counters_dump()
        (data,) = folder.glob("*.gcda")
        command = ["gcov", "--json-format", "--stdout", str(data)]
        text = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True).stdout
        data.unlink()
        ran: Ran = {}
        for file in json.loads(text)["files"]:
            for line in file["lines"]:
                key = (Path(file["file"]).name, line["line_number"], line.get("function_name", ""))
                ran[key] = ran.get(key, False) or line["count"] > 0
        found.append(ran)

    play(jit.Library(library, target), counters.counters_reset, note)
    return found


def play_hideseek(library: jit.Library, forget: Callable[[], None], note: Callable[[], None]) -> None:
    """48 steps of 12 worlds, one at a time, with random actions, after 60 to 180 steps of an episode."""
    from torch_batchsim.envs.hideseek import HideSeek

    env, generator = TorchVectorEnv(HideSeek(), num_worlds=1, _library=library), torch.Generator().manual_seed(1)
    sizes = torch.tensor(env.single_action_space.nvec)

    def step(times: int) -> None:
        for _ in range(times):
            env.step((torch.rand((env.num_envs, len(sizes)), generator=generator) * sizes).long())

    for seed in range(12):
        env.reset(seed=seed)
        step(60 + 10 * seed)
        for _ in range(4):
            step(4)
            forget()
            step(1)
            note()


def of_hideseek() -> dict[str, Fetched]:
    """Of the systems of `Physics.simulate`, by name."""
    from torch_batchsim.envs.hideseek import HideSeek

    from torch_batchsim.physics import Physics

    systems = [str(system) for system in Physics.simulate.items]
    with TemporaryDirectory() as name:
        steps = ran_lines(HideSeek(), Path(name), play_hideseek)
        cubin = compiled(HideSeek(), Path(name))
        return {system: fetched(cubin, f"physics_{system}", steps) for system in systems}


def main() -> None:
    """The command."""
    for system, found in of_hideseek().items():
        print(f"{system}: {found.all} instructions; in a step one warp executes {found.by_one:.0f}, 12 "
              f"{found.by_twelve:.0f}")  # fmt: skip
        for name, count in found.functions.most_common(8):
            print(f"{count:6} {name[:100]}")


if __name__ == "__main__":
    sys.exit(main())
