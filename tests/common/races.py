"""Emulated CUDA units that report races: compiled for the detector of tests/emulation, and read out."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from os import environ
from pathlib import Path

import support
import torch

from torch_batchsim import Simulator
from torch_batchsim.build import emulation, jit
from torch_batchsim.build.codegen import Target

EMULATION = Path(__file__).parent.parent / "emulation"
_INCLUDED = (EMULATION / "race_detector.h", emulation.WORDS)
_WRAPPED = ("memcpy", "memmove", "memset")
_KERNEL = re.compile(r"\b(\w+_kernel)\b")


@dataclass(frozen=True)
class Mutation:
    """A text of csrc/ with something else in its place: ``old``, found once in ``file``, becomes ``new``."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Access:
    """One of the two of a race: ``frames`` are the functions and lines, innermost first."""

    kind: str
    block: int
    thread: int
    frames: tuple[str, ...]
    kernel: str

    def __str__(self) -> str:
        where = " < ".join(self.frames[:3])
        return f"{self.kind} by thread {self.thread} of block {self.block} in {self.kernel} at {where}"


@dataclass(frozen=True)
class Race:
    """Two accesses that nothing orders: the first occurrence in ``count`` bytes.

    ``launch``: of which kernel since the last report. ``memory``: the column, or other memory, and the byte in it.
    """

    memory: str
    launch: int
    count: int
    first: Access
    second: Access

    def __str__(self) -> str:
        return f"{self.memory}, launch {self.launch}, {self.count} bytes:\n  {self.first}\n  {self.second}"


def detector_arguments() -> list[str]:
    """What g++ needs to compile CUDA words with the detector in place of ThreadSanitizer's library."""
    words = [f"-include{path}" for path in _INCLUDED]
    hooks = ["-g1", "-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]
    libraries = ["-nodefaultlibs", "-lstdc++", "-lm", "-lc", "-lgcc_s", "-Wl,-z,defs"]  # not -ltsan
    return [*words, *hooks, str(_detector()), *(f"-Wl,--wrap={name}" for name in _WRAPPED), *libraries]


def detector_sources() -> tuple[str, ...]:
    """The texts that ``detector_arguments`` names."""
    return tuple(path.read_text() for path in (*_INCLUDED, EMULATION / "race_detector.cpp"))


@cache
def _detector() -> Path:
    """The detector's object file: not instrumented itself."""
    flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{EMULATION}", "-c"]
    source, header = (EMULATION / f"race_detector.{suffix}" for suffix in ("cpp", "h"))
    return support.compiled(source.read_text(), flags, [header.read_text()])


@cache
def watched(name: str, executor: str, *mutations: Mutation) -> jit.Library:
    """The emulated CUDA unit of an environment that reports races."""
    mutated = [f"-iquote{_mutated(mutations)}"] if mutations else []
    target = Target("cuda", executor)
    return support.library(name, target, *mutated, *detector_arguments(), depends_on=detector_sources())


def _mutated(mutations: Sequence[Mutation]) -> Path:
    """A copy of csrc/ with other texts."""
    texts = {path.relative_to(jit.CSRC).as_posix(): path.read_text() for path in sorted(jit.CSRC.rglob("*.*h"))}
    for mutation in mutations:
        assert texts[mutation.file].count(mutation.old) == 1, mutation
        texts[mutation.file] = texts[mutation.file].replace(mutation.old, mutation.new)
    digest = sha256(repr(texts).encode()).hexdigest()[:20]
    folder = Path(environ["TORCH_BATCHSIM_TEST_UNITS"]) / f"mutated-{digest}"
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for name, text in texts.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_text(text)
        part.replace(folder)
    return folder


class Detector:
    """The detector in a unit."""

    def __init__(self, unit: Path) -> None:
        self.unit = unit
        handle = ctypes.CDLL(str(unit))
        self._report, self._accesses = handle.tbs_race_report, handle.tbs_race_accesses
        self._report.restype, self._accesses.restype = ctypes.c_char_p, ctypes.c_uint64

    @property
    def accesses(self) -> int:
        """How many it has seen."""
        return self._accesses()

    def races(self, memory: Mapping[str, torch.Tensor] | None = None) -> list[Race]:
        """Those found since the last call; ``memory`` names addresses."""
        lines = [line.split("\t") for line in self._report().decode().splitlines()]
        frames = dict(self._frames({int(line[place]) for line in lines for place in (5, 9)}))
        found = []
        for address, launch, count, where, *accesses in lines:
            sides = []
            for kind, place, block, thread in (accesses[:4], accesses[4:]):
                stack = frames[int(place)]
                kernel = next((match[1] for frame in stack if (match := _KERNEL.search(frame))), "a kernel")
                sides.append(Access(kind, int(block), int(thread), tuple(map(_short, stack)), kernel))
            found.append(Race(where or _named(int(address), memory or {}), int(launch), int(count), *sides))
        return found

    def _frames(self, places: set[int]) -> Iterator[tuple[int, list[str]]]:
        """Functions and lines by address in the unit; what is inlined first."""
        if not places:
            return
        addresses = [f"{place - 1:#x}" for place in sorted(places)]  # of the call, not of what follows it
        command = ["addr2line", "-a", "-f", "-C", "-i", "-e", str(self.unit), *addresses]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for part in re.split(r"^(?=0x[0-9a-f]+$)", text, flags=re.MULTILINE)[1:]:
            address, *lines = part.splitlines()
            pairs = zip(lines[::2], lines[1::2], strict=True)
            own = [
                f"{function} ({re.sub(' .discriminator.*', '', line)})"
                for function, line in pairs
                if not line.startswith((str(EMULATION), str(emulation.WORDS)))
            ]
            yield int(address, 16) + 1, own


def memory_of(sim: Simulator) -> dict[str, torch.Tensor]:
    """All memory of a simulator by name."""
    return {**sim.memory.columns, **sim.memory.others, "flags": sim.memory.flags}


def _named(address: int, memory: Mapping[str, torch.Tensor]) -> str:
    for name, tensor in memory.items():
        offset = address - tensor.data_ptr()
        if 0 <= offset < tensor.numel() * tensor.element_size():
            return f"{name}, byte {offset}"
    return "memory that is not the engine's"


def _short(frame: str) -> str:
    """Without the arguments of templates and functions, and without folders."""
    function, _, line = frame.rpartition(" (")
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", function)) != function:
        function = shorter
    return f"{function.split('::', 1)[-1].strip()} ({'/'.join(line.split('/')[-2:])}"
