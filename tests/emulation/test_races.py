"""No two threads of an emulated CUDA kernel touch a byte unordered; barriers that are taken out are found."""

from __future__ import annotations

import ctypes
import re
import shutil
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from races import EMULATION, Detector, Mutation, Race, detector_arguments, detector_sources, memory_of, watched
from support import COMPILED, compiled, ended_worlds, of_today, random_actions, spoil

from torch_batchsim import TorchVectorEnv, WorldFault

ACTIONS = {"herd": 150, "dust": 1}  # the lowest only: others fill a table, or are a fault that is meant
SIZES = {  # of large tables, and rigid bodies
    "herd": {"worlds": 3, "steps": 4}, "shelf": {"worlds": 5, "steps": 5}, "dust": {"worlds": 7, "steps": 6},
    "gallery": {"worlds": 7, "steps": 6}, "stool": {"worlds": 5, "steps": 5}, "ant": {"worlds": 7, "steps": 6},
}  # fmt: skip
EXECUTORS = {"graph": None, "megakernel, tiles": False, "megakernel, together": True, "per_world": None}


# ---- the detector, on small launches ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scenarios() -> tuple[ctypes.CDLL, Detector]:
    text = '#line 1 "race_scenarios.cpp"\n' + (EMULATION / "race_scenarios.cpp").read_text()
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    unit = compiled(text, [*flags, *detector_arguments()], detector_sources())
    return ctypes.CDLL(str(unit)), Detector(unit)


@pytest.mark.full
def test_what_is_ordered_and_what_is_not(scenarios: tuple[ctypes.CDLL, Detector]) -> None:
    library, detector = scenarios
    library.scenario_names.restype = ctypes.c_char_p
    names = library.scenario_names().decode().splitlines()
    assert len(names) > 20
    for name in names:
        for sound in (True, False):
            library.scenario(name.encode(), sound)
            found = detector.races()
            assert (found == []) == sound, (name, sound, *map(str, found))


@pytest.mark.full
def test_a_report_names_both_accesses_and_is_the_same_each_time(
    scenarios: tuple[ctypes.CDLL, Detector], tmp_path: Path
) -> None:
    reports = []
    for name in ("one.so", "two.so"):  # each with an emulation of its own, which draws the same order
        unit = Path(shutil.copy(scenarios[1].unit, tmp_path / name))
        ctypes.CDLL(str(unit)).scenario(b"shared memory", False)
        reports.append(list(map(str, Detector(unit).races())))
    assert reports[0] == reports[1]
    kinds = [r"read by(.*)write by", r"write by(.*)read by"]
    assert reports[0]
    for report in reports[0]:
        access = r"thread \d+ of block \d in a kernel at .*\(.*race_scenarios.cpp:\d+\)"
        memory = r"shared memory of block \d, byte \d+ of 256, launch 1, \d+ bytes"
        assert re.match(rf"{memory}:\n  \w+ by {access}\n", report)
        assert any(re.search(kind, report, re.DOTALL) for kind in kinds)


# ---- the engine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """Some steps and resets. ``illegal``: with actions that are faults."""

    name: str
    executor: str  # a key of EXECUTORS
    worlds: int = 13
    steps: int = 12
    illegal: bool = False

    def races(self, mode: AutoresetMode, *mutations: Mutation) -> list[Race]:
        """What the detector has found."""
        library = watched(self.name, self.executor.partition(",")[0], *mutations)
        detector = Detector(library.path)
        detector.races()
        env = TorchVectorEnv(COMPILED[self.name](), num_worlds=self.worlds, autoreset_mode=mode, _library=library)
        context = env.sim.memory.context
        context.tile, context.together = 5, int(EXECUTORS[self.executor] or 0)  # several tiles, the last incomplete
        generator, seen = np.random.default_rng(1), detector.accesses
        env.reset(seed=7)
        found = detector.races(memory_of(env.sim))
        for step in range(self.steps):
            spoil(env.sim)
            with suppress(WorldFault) if self.illegal else nullcontext():
                env.step(self.actions(env, generator))
            found += detector.races(memory_of(env.sim))
            if mode is AutoresetMode.DISABLED and step % 3 == 2:
                mask = ended_worlds(env) | (torch.arange(self.worlds) % 4 == step % 4)
                env.reset(options={"reset_mask": mask})
                found += detector.races(memory_of(env.sim))
        assert detector.accesses - seen > 100 * self.worlds * self.steps  # or nothing has been shown
        return found

    def actions(self, env: TorchVectorEnv, generator: np.random.Generator) -> torch.Tensor:
        """Random ones."""
        actions = random_actions(env, generator)
        if self.name in ACTIONS:
            actions %= ACTIONS[self.name]
        return actions + 1000 if self.illegal else actions

    def all_races(self) -> list[Race]:
        """With each autoreset mode."""
        return [race for mode in AutoresetMode for race in self.races(mode)]


def listing(races: list[Race]) -> str:
    return "\n".join(map(str, races[:20]))


@pytest.mark.full
def test_cartpole_has_no_race() -> None:
    found = Play("cartpole", "graph").all_races()
    assert found == [], listing(found)


# Shelf has all of heap, and is small; shelf and gallery have what lanes do in hide and seek, whose unit takes long, as
# ant's does.
SMALL = sorted({*COMPILED} - {"ant", "heap", "hideseek"})


TODAY = [parameter.values[0] for parameter in of_today([*SMALL, "ant"], 11)]  # all in two days


# Each with an executor, and each executor with some environments: others each day.
@pytest.mark.full
@pytest.mark.crossed
@pytest.mark.parametrize(
    ("name", "executor"), [(name, each) for name in TODAY for each in EXECUTORS if name != "ant" or each == "graph"]
)
def test_no_environment_has_a_race(name: str, executor: str) -> None:
    found = Play(name, executor, **SIZES.get(name, {})).all_races()
    assert found == [], listing(found)


@pytest.mark.full
@pytest.mark.parametrize("executor", EXECUTORS)
def test_faults_are_no_race(executor: str) -> None:
    found = Play("duel", executor, illegal=True).all_races()
    assert found == [], listing(found)


# ---- what must be found ----------------------------------------------------------------------------------------------

KERNELS, LANES, TABLE, FAULT = "tbs/executor_cuda.cuh", "tbs/lanes.h", "tbs/table.h", "tbs/fault.h"
TILES, TOGETHER = "megakernel, tiles", "megakernel, together"
HERD, SHELF = (Play(name, "graph", **SIZES[name]) for name in ("herd", "shelf"))
UNORDERED = "emulated_cuda::meet(emulated_cuda::unordered);"
UNORDERED_WARP = "__ballot_sync(0xffffffff, 1);"  # lanes meet, and CUDA promises nothing of memory
# The change, the run, and words of the report. Where a barrier that is taken out lets threads take what is in
# memory by chance for indices, they still meet, but without order.
MUTANTS = {
    "no barrier between the tasks of a block": (
        Mutation(KERNELS, "    } else {\n        __syncthreads();\n    }\n}", "    }\n}"),
        Play("cartpole", "graph"), "terminated, byte",
    ),
    "no barrier of the grid": (
        Mutation(KERNELS, "        sync_grid();", "        __syncthreads();"),
        Play("duel", TOGETHER, worlds=300, steps=3), "phase, byte",
    ),
    "a list is read before it is complete": (
        Mutation(KERNELS, "    __syncthreads();\n}\n\n// Barrier of", f"    {UNORDERED}\n}}\n\n// Barrier of"),
        Play("cartpole", "graph"), "shared memory of block",
    ),
    "a claim is read before it is made": (
        Mutation(KERNELS, "            __syncthreads();\n            const u32 tile", f"{UNORDERED}\n const u32 tile"),
        Play("cartpole", TILES), "shared memory of block",
    ),
    "a list that grows without an atomic": (
        Mutation(KERNELS, "atomicAdd(&memory.beginning_count, 1u)", "memory.beginning_count++"),
        Play("cartpole", "graph"), "shared memory of block",
    ),
    "tiles claimed without an atomic": (
        Mutation(KERNELS, "atomicAdd(&context.queue[0], 1u)", "context.queue[0]++"),
        Play("cartpole", TILES), "queue, byte 0",
    ),
    "blocks counted without an atomic": (
        Mutation(KERNELS, "atomicAdd(&context.queue[1], 1u)", "context.queue[1]++"),
        Play("cartpole", TILES), "queue, byte 4",
    ),
    "rows added without an atomic": (
        Mutation(TABLE, "return atomicAdd(counter, 1u);", "return (*counter)++;"), HERD, "table_Sheep_added",
    ),
    "no barrier of a warp": (
        Mutation(LANES, "            __syncwarp();", UNORDERED_WARP), HERD, "column_Sheep_Wool",
    ),
    "no barrier of a warp, workspace on chip": (
        Mutation(LANES, "            __syncwarp();", UNORDERED_WARP), SHELF, "shared memory of block",
    ),
    "no barrier of a warp, workspace in rows": (
        Mutation(LANES, "            __syncwarp();", UNORDERED_WARP), SHELF, "workspace_physics_Space",
    ),
    "no barrier of a block's lanes": (
        Mutation(LANES, "            __syncthreads();", UNORDERED), HERD, "shared memory of block",
    ),
    "rows move up before all are read": (
        Mutation("tbs/settle.h", "            group.sync();\n            if (target", f"""
            if constexpr (Group::lanes == 32) {{ {UNORDERED_WARP} }} else {{ {UNORDERED} }}
            if (target"""),
        HERD, "table_Sheep_birth",
    ),
    "a plain fault word": (
        Mutation(FAULT, "    atomicMin(", "    [](auto *old, auto now) { if (now < *old) *old = now; }("),
        Play("duel", "graph", illegal=True), "fault, byte",
    ),
    "a plain flag": (
        Mutation(FAULT, "*static_cast<volatile i32 *>(flag) = 1", "*flag = 1"),
        Play("duel", "graph", illegal=True), "flags, byte",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", of_today(MUTANTS, 8))  # all in two days
def test_mutants_are_found(mutant: str) -> None:
    mutation, play, words = MUTANTS[mutant]
    found = []
    for mode in AutoresetMode:
        found += play.races(mode, mutation)
        if any(words in str(race) for race in found):
            return
    pytest.fail(listing(found))
