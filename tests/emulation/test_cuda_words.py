"""The CUDA words that stand in for a GPU give what CUDA gives, and end the process where hardware would hang."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torch_batchsim.build.emulation import WORDS

pytestmark = pytest.mark.full  # emulated executors, which consist of these words, are in the fast run

HERE = Path(__file__).parent
LOADER = """
import ctypes, sys, threading
libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
mappings = []
for library in libraries * 2:
    library.run_results()
    thread = threading.Thread(target=library.run_results)
    thread.start()
    thread.join()
    mappings.append(sum(1 for _ in open("/proc/self/maps")))
# Stacks are two mappings each: libraries share them.
print("sound" if mappings[0] > 200 and max(mappings) < mappings[0] + 50 else mappings)
"""


def build(output: Path, *flags: str) -> Path:
    words, program = str(WORDS), str(HERE / "cuda_words_program.cpp")
    command = ["g++", "-Wall", "-Wextra", "-Werror", *flags, "-include", words, program, "-o", str(output)]
    subprocess.run(command, check=True)
    return output


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("cuda_words") / "program", "-std=c++17", "-O1")


def run(*command: str | Path, seed: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "TBS_EMULATION_SEED"}
    if seed is not None:
        environment["TBS_EMULATION_SEED"] = str(seed)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


@pytest.mark.parametrize("seed", [None, *range(10)])
def test_results(program: Path, seed: int | None) -> None:
    done = run(program, "results", seed=seed)
    assert done.returncode == 0 and done.stdout == "sound\n", done.stdout + done.stderr


@pytest.mark.full
def test_results_with_the_switch_for_other_processors(tmp_path: Path) -> None:
    done = run(build(tmp_path / "program", "-std=c++17", "-O1", "-DTBS_EMULATION_UCONTEXT"), "results")
    assert done.returncode == 0 and done.stdout == "sound\n", done.stdout + done.stderr


@pytest.mark.full
def test_several_libraries_and_threads_in_one_process(tmp_path: Path) -> None:
    first = build(tmp_path / "first.so", "-std=c++20", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
    second = shutil.copy(first, tmp_path / "second.so")
    done = run(sys.executable, "-c", LOADER, first, second)
    assert done.returncode == 0 and done.stdout == "sound\n", done.stdout + done.stderr


def test_a_seed_gives_an_order(program: Path) -> None:
    orders = [run(program, "order", seed=seed).stdout for seed in (1, 2, 3, 4)]
    assert all(sorted(map(int, order.split())) == list(range(0, 400, 3)) for order in orders)
    assert len(set(orders)) == len(orders)
    assert run(program, "order").stdout == orders[0]
    assert run(program, "order", seed=3).stdout == orders[2]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            "divergent barrier",
            r"deadlock.* 2 blocks of 64 threads(?s:.*)"
            r"block [01], threads 40-63: at __ballot_sync with mask 0xffffffff in divergent_barrier \(.*:\d+\)(?s:.*)"
            r"threads 0-39: at __syncthreads in divergent_barrier \(.*cuda_words_program.cpp:\d+\)",
        ),
        (
            "different barriers",
            r"wait at different barriers(?s:.*)threads 0-39: at __syncthreads in(?s:.*)"
            r"threads 40-63: at __syncthreads_or in different_barriers",
        ),
        (
            "exited lane",
            r"(deadlock|lanes that have returned)(?s:.*)at __shfl_down_sync with mask 0xffffffff in exited_lane(?s:.*)"
            r"threads 5: returned",
        ),
        ("missing lanes", r"lanes that have returned or do not exist.* blocks of 48 threads(?s:.*)at __syncwarp"),
        ("foreign mask", "mask that does not name its own lane"),
        ("grid", r"deadlock(?s:.*)block 2, threads 0-31: at grid_sync in grid_without_all"),
        ("outside", "__syncthreads outside a launch with fibers"),
        ("nested", "a launch inside a kernel"),
    ],
)
def test_what_hardware_would_hang_at_ends_the_process(program: Path, what: str, words: str, seed: int) -> None:
    done = run(program, what, seed=seed)
    assert done.returncode == -signal.SIGABRT and done.stdout == "", done
    assert re.match("emulated CUDA: .*", done.stderr) and re.search(words, done.stderr), done.stderr


def test_a_thread_that_leaves_its_stack_ends_the_process(program: Path) -> None:
    assert run(program, "overflow").returncode == -signal.SIGSEGV
