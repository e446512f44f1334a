"""What nvcc makes of the kernels: none keeps anything in memory of its own, nor moves more than it has to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import sass
import sass_fetched
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim.bench.levels import level
from torch_batchsim.bench.physics_levels import CONTACTS, Levels, physics_options
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sass.nvcc() is None, reason="no nvcc"),
    pytest.mark.skipif(sass.cuobjdump() is None, reason="no cuobjdump with nvdisasm, nor their wheels"),
]

# By the last node that a kernel of a step runs: global loads and stores in its text, whatever their width. That is a
# tenth more than nvcc 13.0 makes of them, for other versions choose otherwise.
LIMITS = {
    CartPole: {"DeliverFlags": (30, 35)},
    Overcooked: {
        "aim": (131, 52), "walk": (27, 2), "ChooseBeginAfterStep": (29, 14), "deal_objects": (264, 181),
        "encode": (26, 28), "DeliverFlags": (8, 9),
    },
    Hanabi: {"deal": (351, 268), "show": (9, 6), "DeliverFlags": (4, 3)},
    Swarm: {
        "EmptyTables": (16, 21), "steer": (17, 17), "spawn_drones": (11, 7), "choose_target": (11, 3),
        "chase": (24, 13), "move": (10, 3), "expire": (25, 4), "sort_drones": (19, 5), "find_contacts": (53, 28),
        "resolve": (54, 2), "strike": (74, 9), "ram": (35, 5), "Settle": (278, 116), "DeliverFlags": (239, 266),
    },
}  # fmt: skip


@pytest.mark.parametrize("environment", LIMITS, ids=lambda e: e.__name__)
def test_no_hot_kernel_grows(environment: type) -> None:
    """The kernels of a step with `graph`: no stack, no more memory instructions than they need, and g++'s results."""
    found = [kernel for kernel in sass.kernels(environment(), "graph") if not kernel.resets]
    assert {kernel.nodes[-1] for kernel in found} == set(LIMITS[environment])
    for kernel in found:
        assert kernel.stack == kernel.count("LDL") == kernel.count("STL") == 0 and not kernel.unsafe, kernel
        loads, stores = LIMITS[environment][kernel.nodes[-1]]
        assert kernel.count("LDG") <= loads and kernel.count("STG") <= stores, kernel


@pytest.mark.parametrize("environment", LIMITS, ids=lambda e: e.__name__)
def test_no_megakernel_has_a_stack(environment: type) -> None:
    """Built for four blocks on a multiprocessor, as without tuning."""
    for kernel in sass.kernels(environment(), "megakernel"):
        assert kernel.registers <= 64 and kernel.stack == kernel.count("LDL") == kernel.count("STL") == 0, kernel


def test_rigid_bodies_leave_room_for_sixteen_warps() -> None:
    """As docs/gpu.md states for the benchmark's scene: registers, and memory on chip; and the solver moves vectors."""
    environment = Levels(physics={**physics_options(level(0)), "contacts": CONTACTS})
    found = {k.nodes[-1]: k for k in sass.kernels(environment, "graph") if "simulate" in k.nodes[-1] and not k.resets}
    assert len(found) == 5
    for kernel in found.values():
        assert kernel.registers <= 128 and not kernel.unsafe, kernel
        # Bytes are those of hulls, which are packed so. Nothing else is copied one by one.
        assert kernel.accesses["LD", 1] + kernel.accesses["LDG", 1] <= 110 and kernel.accesses["ST", 1] == 0, kernel
    assert found["physics_simulate_touches"].stack <= 6_600  # 500 of them for meetings, which all worlds have
    solver = found["physics_simulate_motion"]
    assert solver.shared <= 1024 + 16  # the barrier of lineup.h
    assert solver.count("LDS") > 600  # it knows that rows of bodies are on chip
    assert sum(solver.accesses[name, 16] for name in ("LD", "ST", "LDS", "STS")) > 250


def test_the_code_of_a_part_of_a_step_fits_the_cache_of_instructions() -> None:
    """HideSeek's, as docs/gpu.md states: 8,192 instructions of 16 bytes are 128 KB."""
    found = sass_fetched.of_hideseek()
    assert found["simulate_motion"].by_one > 3_000  # it counts: bodies collide, and are solved for
    assert all(each.by_one < each.by_twelve + 1 <= 7_600 for each in found.values()), found


def test_rows_move_as_vectors() -> None:
    """CartPole's state, 16 bytes: one load and one store, and one of each for what is delivered."""
    (kernel,) = (kernel for kernel in sass.kernels(CartPole(), "graph") if not kernel.resets)
    assert kernel.accesses["LDG", 16] > 1 and kernel.accesses["STG", 16] > 1
    # What is left: actions of each type, flags, reward, counters, seeds of worlds that begin.
    assert kernel.accesses["LDG", 4] <= 12 and kernel.accesses["STG", 4] <= 16


def test_loads_of_lanes_are_under_way_together() -> None:
    """Of drones that touch a ship, and of the background that is copied: four, before one is waited for. Where warps
    line up to fetch code, loops of lanes are not unrolled."""
    for environment, node in ((Swarm(), "ram"), (Overcooked(), "encode")):
        found = [kernel for kernel in sass.kernels(environment, "graph") if kernel.nodes == (node,)]
        assert [kernel.under_way >= 4 for kernel in found] == [True], found
    bodies = Levels(physics={**physics_options(level(0)), "contacts": CONTACTS})
    rolled = [generate(Program(one), Target("cuda", "graph")).count("TBS_ROLLS_LANES") for one in (bodies, Swarm())]
    assert rolled == [1, 0]


TEXTS = """
#include "tbs/math.h"
#define KERNEL(name, text) \
    extern "C" __global__ void name(const float *in, float *out) { float x = in[threadIdx.x]; out[threadIdx.x] = text; }
"""
UNSAFE = {  # and the instruction that is found
    "x < 0.0f ? x : 0.0f": "FMNMX", "-0.0f < x ? x : -0.0f": "FMNMX", "__saturatef(x)": "FADD.SAT",
    "fmaxf(0.0f, fminf(1.0f, x))": "FADD.SAT",
}  # fmt: skip
SAFE = [
    "tbs::min(0.0f, x)", "tbs::min(x, 0.0f)", "tbs::max(0.0f, x)", "tbs::max(x, 0.0f)", "tbs::min(-0.0f, x)",
    "tbs::max(-0.0f, x)", "tbs::max(0.0f, tbs::min(1.0f, x))", "tbs::min(1.0f, tbs::max(0.0f, x))",
    "tbs::clamp(x, 0.0f, 1.0f)", "tbs::clamp(1.0f, 0.0f, x)", "tbs::min(tbs::f64(x), 0.0)", "0.0f < x ? x : 0.0f",
]  # fmt: skip


def test_results_for_zeros_and_nan_are_those_of_gxx(tmp_path: Path) -> None:
    """`min`, `max` and `clamp` become instructions with one meaning; others are found."""
    texts = [*UNSAFE, *SAFE]
    unit, cubin = tmp_path / "unit.cu", tmp_path / "unit.cubin"
    unit.write_text(TEXTS + "".join(f"KERNEL(k{i:02}, {text})\n" for i, text in enumerate(texts)))
    command = [sass.nvcc(), *jit.compiler_flags("cuda"), f"-I{jit.CSRC}", "-arch=sm_90", "-cubin", str(unit)]
    subprocess.run([*command, "-o", str(cubin)], check=True)
    parts = sass.disassembled(cubin).split("Function : ")[1:]
    found = {texts[int(part[1:3])]: [line.partition(" ")[0] for line in sass.unsafe(part)] for part in parts}
    assert found == {text: [UNSAFE[text]] if text in UNSAFE else [] for text in texts}
