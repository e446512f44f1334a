"""Steps that are stopped in the midst of a system: Ctrl-C, the watchdog, crashes. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import TorchVectorEnv

ENVIRONMENT = """
from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, f32, i32


class Spot(Component):
    x: f32


class Go(Component):
    how: i32


class Stray(Component):
    x: f32


class Spin(Environment):
    systems = "spin.h"
    archetypes = [
        Archetype("Thing", Spot, Go, Reward, count=1),
        Archetype("Stone", Stray, capacity=4),
    ]
    start = TaskGraph("make")
    step = TaskGraph("walk", "spin", "roll")
    observation, action = "Thing.Spot", "Thing.Go.how"
    action_space = Discrete(6)
"""

SYSTEMS = """struct Deep { i32 values[64]; };

TBS_SYSTEM void make(World &world, Spot &spot) { world.create<Stone>(Stray{1.0f}); }

TBS_SYSTEM void walk(World &world, Spot &spot) { spot.x += 1.0f; }

TBS_SYSTEM void spin(World &world, Spot &spot, const Go &go, Reward &reward) {
    if (go.how == 1) {
        f32 x = 1.0f;
        while (x > 0.0f) x = x > 100.0f ? 1.0f : x * 1.5f;
        spot.x = x;
    }
    if (go.how == 2) {
        const volatile f32 *far = &spot.x;
        spot.x = far[i64(1) << 40];
    }
    if (go.how == 3) {
        volatile i32 zero = 0;
        reward.value = f32(7 / zero);
    }
}

TBS_SYSTEM void roll(World &world, Stray &stray) {
    if (world.rows<Thing, const Go>()[0].how == 4) {
        while (stray.x > 0.0f) stray.x = stray.x > 100.0f ? 1.0f : stray.x * 1.5f;
    }
}
"""

HEAD = """
import faulthandler, os, signal, sys, threading, time
import torch
import torch_batchsim
from spin import Spin

WORLDS = 64
good = torch.zeros(WORLDS, dtype=torch.int64)

def bad(how):
    actions = good.clone()
    actions[37] = how
    return actions

def made(threads=1, **options):
    torch.set_num_threads(threads)
    env = torch_batchsim.TorchVectorEnv(Spin(), num_envs=WORLDS, num_threads=threads, **options)
    execution = env.sim.execution
    execution._most_threads, env.sim.memory.context.tile = threads, 8
    execution._use_threads(threads)
    env.reset(seed=0)
    for _ in range(5):
        env.step(good)
    return env

def press():
    def later():
        time.sleep(1)
        pressed.append(time.time())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=later, daemon=True).start()

def error_of(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise SystemExit(f"no {kind.__name__}")

def goes_on(env):
    assert "was stopped" in error_of(lambda: env.step(good), RuntimeError)
    mask = torch.zeros(WORLDS, dtype=torch.bool)
    assert "was stopped" in error_of(lambda: env.reset(options={"reset_mask": mask}), RuntimeError)
    env.reset(seed=1)
    for _ in range(3):
        observations, *_ = env.step(good)
    assert (observations == 3).all()
    assert (env.sim.ragged("Stone.Stray.x").padded()[0] == 1).all()
    assert torch.ones(1 << 20).sum() == 1 << 20  # torch's threads are there

pressed = []
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spin")
    (folder / "spin.py").write_text(ENVIRONMENT)
    (folder / "spin.h").write_text(SYSTEMS)
    return folder


def run(folder: Path, script: str) -> str:
    command = [sys.executable, "-c", HEAD + script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_ctrl_c_stops_an_endless_system_in_the_process_that_compiled_it(folder: Path) -> None:
    run(folder, """
for threads, how, place in ((1, 1, "one of worlds 32 to 39, step 6"), (2, 4, "world 37, step 6")):
    env = made(threads)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # takes the place of our handler
    press()
    said = error_of(lambda: env.step(bad(how)), KeyboardInterrupt)
    assert time.time() - pressed[-1] < 30
    assert "spin.h:" in said and place in said, said
    assert ("'spin'" if how == 1 else "'roll'") in said, said
    goes_on(env)
""")


@pytest.mark.full
def test_a_handler_of_the_user_is_called_and_the_step_is_stopped(folder: Path) -> None:
    run(folder, """
env, called = made(), []
signal.signal(signal.SIGINT, lambda *_: called.append(1))
press()
assert "'spin'" in error_of(lambda: env.step(bad(1)), KeyboardInterrupt)
assert called == [1]
goes_on(env)
press()
time.sleep(1.5)  # not in a step
assert called == [1, 1]
env.step(good)
env.sim.tensor("Thing.Go.how").view(-1).copy_(bad(1))
press()
assert "'spin'" in error_of(env.sim.step, torch_batchsim.StepInterrupted)
""")


@pytest.mark.full
def test_a_step_on_another_thread_is_stopped_too(folder: Path) -> None:
    run(folder, """
env, said = made(), []
worker = threading.Thread(target=lambda: said.append(error_of(lambda: env.step(bad(1)), KeyboardInterrupt)))
worker.start()
press()
error_of(lambda: time.sleep(20), KeyboardInterrupt)
worker.join()
assert "'spin'" in said[0]
groups = torch_batchsim.GroupedEnv(Spin(), num_envs=2 * WORLDS, groups=2)
groups.async_reset(seed=0)
groups.recv(), groups.recv()
groups.send(0, bad(1))
press()
error_of(groups.recv, KeyboardInterrupt)
groups.close()
""")


@pytest.mark.full
def test_an_ignored_ctrl_c_stays_ignored_until_the_watchdog_bites(folder: Path) -> None:
    run(folder, """
env = made(watchdog=3.0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
press()
said = error_of(lambda: env.step(bad(1)), TimeoutError)
assert "watchdog=3 seconds" in said and "'spin'" in said, said
goes_on(env)
""")


def test_the_watchdog_and_crashes_name_the_system(folder: Path) -> None:
    told = run(folder, """
faulthandler.enable()
env = made(2, watchdog=1.0)
assert "'spin'" in error_of(lambda: env.step(bad(1)), torch_batchsim.StepTimeout)
goes_on(env)
said = error_of(lambda: env.step(bad(3)), torch_batchsim.SystemCrash)
assert "SIGFPE" in said and "spin.h:" in said and "worlds 32 to 39" in said and "checks=True" in said, said
goes_on(env)
said = error_of(lambda: made().step(bad(2)), torch_batchsim.SystemCrash)
assert "SIGSEGV at address" in said and "end this process" in said, said
print("still here", flush=True)
""")
    assert "still here" in told


@pytest.mark.full
def test_a_crash_elsewhere_is_told_by_faulthandler(folder: Path) -> None:
    script = HEAD + "faulthandler.enable()\nmade()\nimport ctypes\nctypes.string_at(8)\n"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -11 and "Fatal Python error: Segmentation fault" in done.stderr


@pytest.mark.parametrize(
    ("watchdog", "error", "said"),
    [(0, ValueError, "positive number of seconds, got 0"), (True, TypeError, "or None, got True")],
)
def test_a_wrong_watchdog_is_refused(watchdog: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        TorchVectorEnv(CartPole(), 2, watchdog=watchdog)


def test_a_watched_step_is_as_any_other() -> None:
    plain, watched = TorchVectorEnv(CartPole(), 8), TorchVectorEnv(CartPole(), 8, watchdog=100.0)
    for env in (plain, watched):
        env.reset(seed=0)
        for _ in range(3):
            env.step(torch.ones(8, dtype=torch.int64))
    assert torch.equal(plain.observations, watched.observations)
