"""How many instructions a warp executes in CUDA kernels, estimated: `python tests/common/sass_executed.py`.

The unit runs on the emulated device, compiled so that each basic block calls a counter. Of a block that a warp runs the
count is that of the lane that ran it most: lanes that differ go through code one after the other. A line of the source
costs what nvcc makes of one of its copies. Lines of headers that all use cost nothing by themselves, but where they are
used. Loops that nvcc has unrolled count as if they were not, so the estimate is high.
"""

from __future__ import annotations

import bisect
import ctypes
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import sass_fetched
import torch
from sass_fetched import Place

from torch_batchsim import Environment, TorchVectorEnv
from torch_batchsim.build import emulation, jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program

WORLDS, STEPS = 64, 2
_COUNTER = """
#define PLAIN __attribute__((no_sanitize_coverage))
namespace counting {
constexpr unsigned room = 1 << 16, warps = 32;
std::uintptr_t place[room];
unsigned count[room][warps][32], block = 0;  // of the block that runs
unsigned long sum[room];                     // of the launch
bool busy = true;  // until a step is counted; and while counting, for threadIdx has code of its own
std::FILE *file = nullptr;
PLAIN void end_block() {
    for (unsigned i = 0; i < room; ++i) {
        for (unsigned w = 0; place[i] != 0 && w < warps; ++w) {
            unsigned most = 0;
            for (unsigned &of_lane : count[i][w]) most = of_lane > most ? of_lane : most, of_lane = 0;
            sum[i] += most;
        }
    }
}
PLAIN void end_launch() {
    end_block();
    for (unsigned i = 0; i < room; ++i) {
        if (sum[i] > 0) std::fprintf(file, "%lx %lu\\n", place[i] - std::uintptr_t(counting_base), sum[i]);
        sum[i] = 0;
    }
    std::fprintf(file, "launch\\n");
}
}  // namespace counting
extern "C" PLAIN void __sanitizer_cov_trace_pc() {
    using namespace counting;
    if (busy) return;
    busy = true;
    if (blockIdx.x != block) {
        end_block();
        block = blockIdx.x;
    }
    const std::uintptr_t here = std::uintptr_t(__builtin_return_address(0)) - 1;
    unsigned i = unsigned(here * 0x9E3779B97F4A7C15ull >> 48);
    while (place[i] != 0 && place[i] != here) i = (i + 1) % room;
    place[i] = here;
    ++count[i][threadIdx.x / 32][threadIdx.x % 32];
    busy = false;
}
#define SHOWN extern "C" PLAIN __attribute__((visibility("default")))
SHOWN void counting_begins(const char *path) {
    counting::file = std::fopen(path, "w");
    counting::busy = false;
}
SHOWN void counting_ends() {
    counting::busy = true;
    counting::end_launch();
    std::fclose(counting::file);
    counting::file = nullptr;
}
"""
_BEFORE = """
#include <cstdint>
#include <cstdio>
extern "C" char __ehdr_start;  // where the library begins
#define counting_base (&__ehdr_start)
namespace counting { void launch_begins(); }
"""
_LAUNCH = "inline void begin_launch(unsigned blocks, unsigned threads) {"
_HOOK = """
namespace counting {
__attribute__((no_sanitize_coverage)) void launch_begins() { if (file != nullptr && !busy) end_launch(); }
}
"""
_SWITCH = "__attribute__((naked, noipa,"


def counted_library(environment: Environment, folder: Path) -> Path:
    """The emulated unit of `graph` whose basic blocks are counted."""
    words, unit, library = folder / "words.h", folder / "counted.cpp", folder / "counted.so"
    text = emulation.WORDS.read_text()
    last = text.rindex(_LAUNCH) + len(_LAUNCH)
    text = f"{_BEFORE}{text[:last]} ::counting::launch_begins();{text[last:]}"
    words.write_text(text.replace(_SWITCH, f"__attribute__((no_sanitize_coverage)) {_SWITCH}"))
    unit.write_text(generate(Program(environment), Target("cuda", "graph")) + _COUNTER + _HOOK)
    flags = [flag for flag in jit.compiler_flags("cpu") if flag not in emulation._LEFT_OUT]
    flags += [flag for flag in emulation._FLAGS if flag != "-Og"]
    command = [jit.cpp_compiler(), *jit.cpp_arguments(), *flags, "-O0", "-g", "-fsanitize-coverage=trace-pc", "-w"]
    subprocess.run([*command, "-shared", "-include", str(words), str(unit), "-o", str(library)], check=True)
    return library


def launches(environment: Environment, library: Path, folder: Path) -> Iterator[dict[str, int]]:
    """Of each launch of a few steps with random actions: counts by hexadecimal addresses."""
    linked = jit.Library(library, Target("cuda", "graph"))
    env = TorchVectorEnv(environment, num_worlds=WORLDS, _library=linked)
    counter, generator = ctypes.CDLL(str(library)), torch.Generator().manual_seed(1)
    sizes = torch.tensor(env.single_action_space.nvec)

    def step() -> None:
        env.step((torch.rand((env.num_envs, len(sizes)), generator=generator) * sizes).long())

    env.reset(seed=1)
    for number in range(50 + STEPS):
        if number < 50:
            step()
            continue
        path = folder / f"step{number}"
        counter.counting_begins(str(path).encode())
        step()
        counter.counting_ends()
        for launch in path.read_text().split("launch\n"):
            if launch:
                yield {row.split()[0]: int(row.split()[1]) for row in launch.splitlines()}


def lines_of(library: Path, addresses: list[str]) -> dict[str, tuple[str, Place]]:
    """Function and line of each address."""
    given = "\n".join(addresses)
    command = ["addr2line", "-f", "-e", str(library)]
    rows = subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout.split("\n")
    found = {}
    for i, address in enumerate(addresses):
        file, _, number = rows[2 * i + 1].partition(" ")[0].rpartition(":")
        found[address] = rows[2 * i], (Path(file).name, int(number) if number.isdigit() else 0)
    return found


def executed(cubin: Path, kernel: str, counts: dict[Place, float]) -> float:
    """The instructions of a warp, given how often it came to lines."""
    size: Counter[Place] = Counter()
    copies: defaultdict[Place, set[tuple[str, tuple[Place, ...]]]] = defaultdict(set)
    for block in sass_fetched.blocks(cubin, kernel):
        if block.slow or "slowpath" in block.function:
            continue
        for lines in block.places:
            own = next((i for i, line in enumerate(lines) if line[0] not in sass_fetched._USED_BY_ALL), None)
            if own is not None:
                size[lines[own]] += 1
                copies[lines[own]].add((block.function, tuple(lines[own + 1 :])))
    known: defaultdict[str, list[int]] = defaultdict(list)
    for file, line in sorted(counts):
        known[file].append(line)

    def times(place: Place) -> float:
        """That of the line, or the lesser of its neighbours': a statement of several lines has one count."""
        lines = known[place[0]]
        after = bisect.bisect_left(lines, place[1])
        if after < len(lines) and lines[after] == place[1]:
            return counts[place]
        near = [lines[i] for i in (after - 1, after) if 0 <= i < len(lines) and abs(lines[i] - place[1]) < 12]
        return min((counts[place[0], line] for line in near), default=0.0)

    return sum(times(place) * number / len(copies[place]) for place, number in size.items())


def of_systems(environment: Environment, systems: dict[str, str]) -> dict[str, float]:
    """Instructions of a warp for a world's step, by kernel; `systems` says by which function to know its launches."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        library = counted_library(environment, folder)
        runs = list(launches(environment, library, folder))
        where = lines_of(library, sorted({address for run in runs for address in run}))
        counts: dict[str, Counter[Place]] = {system: Counter() for system in systems}
        for run in runs:
            functions = {where[address][0] for address in run}
            system = next((s for s, mark in systems.items() if any(mark in f for f in functions)), None)
            if system is None:
                continue
            most: Counter[tuple[str, Place]] = Counter()
            for address, count in run.items():
                most[where[address]] = max(most[where[address]], count)
            for (_, place), count in most.items():
                counts[system][place] += count
        cubin, share = sass_fetched.compiled(environment, folder), WORLDS * STEPS
        return {
            system: executed(cubin, f"physics_{system}", {place: n / share for place, n in counts[system].items()})
            for system in systems
        }


def main() -> None:
    """The command, for HideSeek."""
    from torch_batchsim.envs.hideseek import HideSeek

    marks = {  # functions that only these call
        "simulate_touches": "find_touches", "simulate_motion": "solve_world", "simulate_results": "keep_contacts",
        "simulate_contacts": "list_contacts", "simulate": "find_pairs",
    }  # fmt: skip
    for system, count in of_systems(HideSeek(), marks).items():
        print(f"{system}: {count:,.0f} instructions")


if __name__ == "__main__":
    sys.exit(main())
