"""Steps are run by torch's own threads: as many, the same ones, also in forked children and within parallel regions.

While these are late, by others that share the work.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gymnasium.vector import AutoresetMode
from support import full_but
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import BuildError, Simulator
from torch_batchsim.base import openmp
from torch_batchsim.run import crew
from torch_batchsim.run.crew import Which
from torch_batchsim.testing import assert_same_bits, snapshot

WORLDS = 3000  # enough for a second thread


@pytest.fixture(autouse=True)
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def simulator(worlds: int = WORLDS, **options: object) -> Simulator:
    sim = Simulator(CartPole(), worlds, autoreset=AutoresetMode.SAME_STEP, **options)
    sim.reset(seed=1)
    return sim


def threads_of_a_step(sim: Simulator) -> int:
    sim.step()
    return sim.memory.context.num_threads


def after_steps(sim: Simulator, steps: int = 30) -> dict[str, torch.Tensor]:
    for _ in range(steps):
        sim.step()
    return snapshot(sim)


# ---- how many --------------------------------------------------------------------------------------------------------


def test_a_step_follows_torch_unless_set_otherwise() -> None:
    sims = {None: simulator(16_384), 2: simulator(16_384, num_threads=2)}
    small = simulator(100)
    used = []
    for threads in (2, 1, 3):
        torch.set_num_threads(threads)
        used.append([threads_of_a_step(sim) for sim in (*sims.values(), small)])
        assert {sim.memory.context.team for sim in sims.values()} == {threads}
    assert used == [[2, 2, 1], [1, 2, 1], [3, 2, 1]]
    assert_same_bits(*map(snapshot, sims.values()))


def test_a_choice_of_fewer_threads_is_kept_and_one_of_all_follows_torch() -> None:
    sim = simulator(16_384)
    chosen = sim.execution.choice()
    assert chosen.threads == 2
    for choice, later in ((replace(chosen, threads=1), 1), (chosen, 3)):
        torch.set_num_threads(2)
        sim.execution.take(choice)
        assert threads_of_a_step(sim) == choice.threads == sim.execution.choice().threads
        torch.set_num_threads(3)
        assert threads_of_a_step(sim) == later


# ---- whose -----------------------------------------------------------------------------------------------------------

_SHARED = """
import os, re, sys
import torch
from gymnasium.vector import AutoresetMode
from torch_batchsim import Simulator
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.run.crew import Which, choose

def threads():
    return set(os.listdir("/proc/self/task"))

torch.set_num_threads(4)
Simulator(CartPole(), 1)  # from now on a thread watches over steps
before, large = threads(), torch.zeros(1 << 20)
sims = [Simulator(CartPole(), 16384), Simulator(CartPole(), 16384, num_threads=2)]
seen = []
with choose(Which.TEAM):  # as long as none is late
    for sim in sims:
        sim.reset(seed=0)
    for _ in range(3):
        for work in (lambda: large.add_(1), sims[0].step, sims[1].step):
            work()
            seen.append(threads())
assert all(team == seen[0] for team in seen) and len(seen[0] - before) == 3, (before, seen)
with open("/proc/self/maps") as maps:
    runtimes = {line.split()[-1] for line in maps if re.search(r"/lib(gomp|iomp|omp)[^/]*[.]so", line)}
print(len(runtimes), *runtimes)
"""


def _run(script: str, *arguments: object, **variables: str) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
def test_torch_and_simulators_share_one_team() -> None:
    """No thread comes or goes when they take turns, whatever their numbers, and there is one OpenMP runtime."""
    assert _run(_SHARED).startswith("1 ")


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "variables", "count"),
    [
        ("import torch_batchsim", {}, "4000"),
        ("import torch_batchsim", {"GOMP_SPINCOUNT": "70"}, "70"),
        ("import torch_batchsim", {"OMP_WAIT_POLICY": "passive"}, "0"),
        ("import torch, torch_batchsim", {}, "300000"),  # too late
    ],
)
def test_threads_wait_briefly_unless_set_otherwise(script: str, variables: dict[str, str], count: str) -> None:
    """As GNU's runtime prints when it is loaded."""
    left = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = {**left, **variables, "OMP_DISPLAY_ENV": "verbose"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert f"GOMP_SPINCOUNT = '{count}'" in done.stderr


_RENAMED = """
import ctypes, importlib.util, os, sys
module, folder = sys.argv[1:]
spec = importlib.util.spec_from_file_location("openmp", module)
openmp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(openmp)
ctypes.CDLL(os.path.join(folder, "libuser.so"))  # as libtorch_cpu.so, in a process in which nothing else is known
openmp.share("libuser.so")
client = ctypes.CDLL(os.path.join(folder, "client.so"))
assert client.threads(3) == 3
with open("/proc/self/maps") as maps:
    print(sorted({line.split("/")[-1].strip() for line in maps if "/libg" in line and "mp" in line}))
"""
_CLIENT = """
extern "C" void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
static void count(void *threads) { __atomic_fetch_add(static_cast<int *>(threads), 1, __ATOMIC_RELAXED); }
extern "C" int threads(int wanted) {
    int counted = 0;
    GOMP_parallel(count, &counted, unsigned(wanted), 0);
    return counted;
}
"""


def test_a_runtime_under_another_name_is_found(tmp_path: Path) -> None:
    """Wheels of torch may bring libgomp-<hash>.so.1, which no library that was linked here would ask for."""
    own = subprocess.run(["g++", "-print-file-name=libgomp.so.1"], capture_output=True, text=True, check=True)
    runtime = Path(own.stdout.strip()).read_bytes().replace(b"libgomp.so.1", b"libgxmp.so.1")
    (tmp_path / "libgxmp.so.1").write_bytes(runtime)
    (tmp_path / "client.cpp").write_text(_CLIENT)
    build = ["g++", "-fPIC", "-shared", "client.cpp", "-o"]
    subprocess.run([*build, "client.so"], cwd=tmp_path, check=True)
    links = ["-Wl,--no-as-needed", "libgxmp.so.1", "-Wl,-rpath,$ORIGIN", "-Wl,-soname,libuser.so"]
    subprocess.run([*build, "libuser.so", *links], cwd=tmp_path, check=True)
    assert _run(_RENAMED, openmp.__file__, tmp_path) == "['libgxmp.so.1']\n"


def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(openmp, "share", missing)
    crew._library.cache_clear()
    with pytest.raises(BuildError, match=r"OpenMP's runtime is missing: libgomp.so.1: cannot open"):
        simulator()


# ---- others, while these are late ------------------------------------------------------------------------------------


def test_all_threads_give_the_same_bits() -> None:
    states = []
    for which in Which:
        with crew.choose(which):
            states.append(after_steps(simulator(num_threads=3)))
    assert_same_bits(*states)


def test_a_crew_lives_as_long_as_its_caller() -> None:
    """Its helpers are threads of the process that end with the thread that steps."""

    def step() -> int:
        with crew.choose(Which.CREW):
            simulator(16_384, num_threads=5).step()
        return len(threads()) - len(before)

    before = threads()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(step).result() >= 4
    for _ in range(1000):  # Python does not wait for the end of a thread
        if len(threads()) <= len(before) + 1:  # the one that watches over steps
            return
        time.sleep(0.01)
    assert threads() == before


def threads() -> list[str]:
    return os.listdir("/proc/self/task")


# ---- where -----------------------------------------------------------------------------------------------------------


def test_simulators_of_several_python_threads_at_once() -> None:
    expected = after_steps(simulator())

    def make_and_step(_: int) -> dict[str, torch.Tensor]:
        sim = simulator(num_threads=2)
        return after_steps(sim)

    for which in Which:
        with crew.choose(which), ThreadPoolExecutor(3) as pool:
            for state in pool.map(make_and_step, range(6)):
                assert_same_bits(expected, state)


def test_a_step_within_a_parallel_region() -> None:
    """On the region's first thread and on another, at once."""
    expected, sims = after_steps(simulator()), [simulator(num_threads=2) for _ in range(2)]
    runtime, states = ctypes.CDLL(None), {}

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def region(_: object) -> None:
        number = runtime.omp_get_thread_num()
        states[number] = after_steps(sims[number])

    runtime.GOMP_parallel(region, None, 2, 0)
    assert sorted(states) == [0, 1]
    for state in states.values():
        assert_same_bits(expected, state)


_FORKED = """
import os, signal, sys
import torch
from torch_batchsim import Simulator
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.run.crew import Which, choose

def made():
    sim = Simulator(CartPole(), 3000, num_threads=2)
    sim.reset(seed=1)
    return sim

def after(sim):
    for _ in range(10):
        sim.step()
    return sim.tensor("Cart.CartState").clone()

torch.set_num_threads(2)
torch.zeros(1 << 20).add_(1)
choosing = choose(Which(int(sys.argv[2])))
choosing.__enter__()
expected, before, stepped = after(made()), made(), made()
torch.set_num_threads(int(sys.argv[1]))
stepped.step()  # of two threads, whatever torch has
stepped.reset(seed=1)
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it
same = all(torch.equal(expected, after(sim)) for sim in (before, stepped))
if child == 0:
    same = same and torch.equal(expected, after(made())) and torch.get_num_threads() == int(sys.argv[1])
    used = {sim.memory.context.num_threads for sim in (before, stepped)}
    torch.zeros(1 << 20).add_(1)
    grandchild = os.fork()
    if grandchild == 0:
        signal.alarm(60)
        os._exit(0 if after(stepped).any() else 4)
    same = same and os.waitpid(grandchild, 0)[1] == 0
    os._exit(0 if same and used == {2} else 3)
assert os.waitpid(child, 0)[1] == 0
assert same and before.memory.context.num_threads == 2
"""


@pytest.mark.full
@pytest.mark.parametrize("which", [Which.TEAM, Which.CREW])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_steps_on(threads: int, which: Which) -> None:
    """With a team or helpers of its own; also where torch had one thread at the fork."""
    _run(_FORKED, threads, int(which))


_ALL_WORK = """
import os, signal, sys
import torch

def work(env=None):
    import gymnasium
    import torch_batchsim
    env = env or gymnasium.make_vec("torch_batchsim/Hanabi-v0", num_envs=20_000)
    env.reset(seed=0)
    for _ in range(3):
        *_, infos = env.step(env.unwrapped.sample_actions())
        infos["final_obs"]
        env.reset(options={"reset_mask": torch.arange(20_000) % 4 < 2})
    env.unwrapped.load_state_dict(env.unwrapped.state_dict())
    env.unwrapped.sim.copy_worlds([0], [1])
    return torch.stack([env.unwrapped.observations] * 2)

torch.set_num_threads(2)
torch.zeros(1 << 20).add_(1)
way = sys.argv[1]
if way != "imported later":
    work()
    import torch_batchsim.base.openmp as openmp
if way == "old runtime":
    openmp._END = "omp_of_later_versions"
child = os.fork()
if child == 0:
    signal.alarm(100)
    work()
    torch.zeros(1 << 20).add_(1)
    if way != "new runtime":
        assert torch.get_num_threads() == 1
        torch.set_num_threads(2)
        try:
            work()
        except RuntimeError as error:
            assert "call torch.set_num_threads(1), or start it by spawn" in str(error)
        else:
            os._exit(3)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.full
@pytest.mark.parametrize("way", full_but(["new runtime"], ["new runtime", "old runtime", "imported later"]))
def test_nothing_hangs_in_a_forked_child(way: str) -> None:
    """Resets, samples, copies and torch's own work, with a runtime that cannot end its team too, and where torch was
    used before the fork and this package is imported behind it."""
    _run(_ALL_WORK, way)
