"""Steps that are stopped in the midst of a system: Ctrl-C, the watchdog, crashes. Each in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import GroupedEnv, TorchVectorEnv

ROOT = Path(__file__).resolve().parents[3]

ENVIRONMENT = """
from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Environment, Reward, TaskGraph, f32, i32


class Spot(Component):
    x: f32


class Go(Component):
    how: i32


class Stray(Component):
    x: f32


class Trail(Component):
    x: f32


class Spin(Environment):
    systems = "spin.h"
    archetypes = [
        Archetype("Thing", Spot, Go, Trail, Reward, count=1),
        Archetype("Stone", Stray, capacity=4),
    ]
    scratch = [Trail]
    start = TaskGraph("make")
    step = TaskGraph("walk", "spin", "roll")
    observation, action = "Thing.Spot", "Thing.Go.how"
    action_space = Discrete(7)
"""

# The first line has all helpers: messages name the lines of systems.
SYSTEMS = """TBS_FUNCTION f32 endless(f32 x) { volatile f32 kept[64] = {}; kept[3] = x; return endless(x) + kept[3]; }

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
    if (go.how == 5) spot.x = world.find<Stone, const Stray>(Entity{})->x;
}

TBS_SYSTEM void roll(World &world, Stray &stray) {
    if (world.rows<Thing, const Go>()[0].how == 4) {
        while (stray.x > 0.0f) stray.x = stray.x > 100.0f ? 1.0f : stray.x * 1.5f;
    }
    if (world.rows<Thing, const Go>()[0].how == 6) stray.x = endless(stray.x);
}
"""

HEAD = """
import copy, faulthandler, os, signal, sys, threading, time
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

def press(seconds=0.5):
    def later():
        time.sleep(seconds)
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
    mask, sim = torch.zeros(WORLDS, dtype=torch.bool), env.sim
    for refused in (
        lambda: env.step(good), lambda: env.reset(options={"reset_mask": mask}), env.state_dict,
        lambda: copy.copy(env), lambda: sim.copy_worlds([0], [1]), lambda: sim.run("walk"), sim.observe, sim.tune,
        lambda: sim.inside_step().__enter__(), lambda: sim.tracing().__enter__(), lambda: sim.create("Stone", [0]),
        lambda: sim.destroy([0], torch.zeros(1, 4, dtype=torch.int32)),
    ):
        assert "was stopped" in error_of(refused, RuntimeError)
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


def test_ctrl_c_the_watchdog_and_crashes_name_the_system(folder: Path) -> None:
    printed = run(folder, """
faulthandler.enable()
env = made(2)
signal.signal(signal.SIGINT, signal.default_int_handler)  # takes the place of our handler
press(0.5)  # the monitor looks five times a second
said = error_of(lambda: env.step(bad(1)), KeyboardInterrupt)
assert "system 'spin' (spin.h:" in said and "one of worlds 32 to 39" in said and "step 6" in said, said
assert "executor='per_world'" in said, said
print(f"torch_batchsim.errors.StepInterrupted: {said}")
goes_on(env)
env = made(2, watchdog=0.3)
said = error_of(lambda: env.step(bad(4)), torch_batchsim.StepTimeout)
assert "watchdog=0.3 seconds" in said and "'roll'" in said and "world 37, step 6" in said, said
assert "per_world" not in said, said
goes_on(env)
said = error_of(lambda: env.step(bad(3)), torch_batchsim.SystemCrash)
assert "SIGFPE" in said and "spin.h:" in said and "worlds 32 to 39" in said and "checks=True" in said, said
print(f"torch_batchsim.errors.SystemCrash: {said}")
goes_on(env)
said = error_of(lambda: env.step(bad(5)), torch_batchsim.SystemCrash)
assert "null pointer (SIG" in said and "test the pointer that find() returned" in said, said
assert "'spin'" in said and "end this process" not in said, said
print("cause: " + said.partition("crashed: ")[2].partition(".")[0])
goes_on(env)
said = error_of(lambda: env.step(bad(2)), torch_batchsim.SystemCrash)
assert "SIGSEGV at address" in said and "end this process" in said and "find()" not in said, said
print("still here", flush=True)
""")
    assert "still here" in printed
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "debugging_tools.md").read_text())
    shown = [line for line in printed.splitlines() if line.startswith("torch_batchsim.errors.")]
    shown += [line.removeprefix("cause: ") for line in printed.splitlines() if line.startswith("cause: ")]
    assert len(shown) == 3
    for line in shown:
        assert re.sub(r"step \d+", "step 6", line) in page, line


@pytest.mark.full
def test_a_checked_build_is_stopped_too_and_names_the_loop_where_it_counts_turns(folder: Path) -> None:
    run(folder, """
def checked(loops, **options):
    return made(checks=torch_batchsim.Checks(loops=loops), **options)

env = checked(10**12)
press()
said = error_of(lambda: env.step(bad(1)), KeyboardInterrupt)
place = "the step was stopped in system 'spin' (spin.h:7), one of worlds 32 to 39"
assert said.startswith(place) and "load_state_dict()" in said and "checks=" not in said, said
goes_on(env)
env = checked(None, watchdog=0.3)
said = error_of(lambda: env.step(bad(4)), torch_batchsim.StepTimeout)
assert said.startswith("after watchdog=0.3 seconds the step was stopped in system 'roll' (spin.h:24), one of wo"), said
assert said.endswith("checks=torch_batchsim.Checks(loops=1000000) names its line"), said
goes_on(env)
said = error_of(lambda: checked(1000).step(bad(1)), torch_batchsim.WorldFault)
assert said.startswith("spin.h:10: loops have taken more than 1000 turns in one system") and "world 37" in said, said
""")


@pytest.mark.full
def test_world_after_world_names_the_one(folder: Path) -> None:
    run(folder, """
env = made(watchdog=0.5, executor="per_world")
for how, kind in ((1, torch_batchsim.StepTimeout), (3, torch_batchsim.SystemCrash)):
    said = error_of(lambda: env.step(bad(how)), kind)
    assert "'spin'" in said and "world 37, step 6" in said and "executor" not in said, said
    env.reset(seed=0)
    for _ in range(5):
        env.step(good)
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
def test_others_go_on(folder: Path) -> None:
    run(folder, """
endless, fine = made(), made()
said, steps, ends = [], [], []
def step_on():
    while not ends:
        fine.step(good)
        steps.append(1)
threads = [threading.Thread(target=step_on)]
threads.append(threading.Thread(target=lambda: said.append(error_of(lambda: endless.step(bad(1)), KeyboardInterrupt))))
for thread in threads:
    thread.start()
press()
error_of(lambda: time.sleep(20), KeyboardInterrupt)
threads[1].join()
before = len(steps)
time.sleep(0.5)
ends.append(1)
threads[0].join()
assert "'spin'" in said[0] and len(steps) > before and int(fine.sim.tensor("World.step")[0]) == 5 + len(steps)
child = os.fork()
if child == 0:
    press()
    os._exit(0 if "'spin'" in error_of(lambda: fine.step(bad(1)), torch_batchsim.StepInterrupted) else 1)
assert os.waitpid(child, 0)[1] == 0
for i in range(50):  # Ctrl-C between steps and in ones that end
    timer = threading.Timer(0.001 * (i % 7), lambda: os.kill(os.getpid(), signal.SIGINT))
    def steps_until():
        timer.start()
        while True:
            fine.step(good)
    try:
        steps_until()
    except torch_batchsim.StepInterrupted:
        raise SystemExit("a step that ends was stopped")
    except KeyboardInterrupt:
        timer.join()
fine.step(good)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
""")


@pytest.mark.full
def test_ctrl_c_just_before_a_step_stops_it(folder: Path) -> None:
    run(folder, """
env = made(watchdog=2.0)
signal.signal(signal.SIGINT, lambda *_: None)  # as if Python had not looked
time.sleep(0.02)  # a tick
env.step(good)
os.kill(os.getpid(), signal.SIGINT)
assert "'spin'" in error_of(lambda: env.step(bad(1)), torch_batchsim.StepInterrupted)
env.reset(seed=0)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.3)
assert "watchdog=2 seconds" in error_of(lambda: env.step(bad(1)), torch_batchsim.StepTimeout)
""")


@pytest.mark.full
def test_the_time_of_a_process_that_was_stopped_does_not_count(folder: Path) -> None:
    script = HEAD + """
env = made(watchdog=3.0)
print("begins", flush=True)
began = time.time()
error_of(lambda: env.step(bad(1)), torch_batchsim.StepTimeout)
print(time.time() - began, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert float(process.stdout.readline()) > 6
    assert process.wait() == 0


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
def test_an_endless_recursion_on_any_thread_is_reported(folder: Path) -> None:
    """Also on a thread that has the id of one that has ended, in whose place it is."""
    run(folder, """
from torch_batchsim.run.crew import Which, choose
env, said = made(4), []
def step():
    env.reset(seed=1)
    said.append(error_of(lambda: env.step(bad(6)), torch_batchsim.SystemCrash))
with choose(Which.CREW):
    for _ in range(20):
        worker = threading.Thread(target=step)
        worker.start()
        worker.join()
assert len(said) == 20 and all("'roll'" in each for each in said), said
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


@pytest.mark.full
def test_a_system_that_runs_alone_is_stopped_too(folder: Path) -> None:
    run(folder, """
env = made(2)
env.sim.tensor("Thing.Go.how")[37] = 1
env.sim.run("walk")
press()
said = error_of(lambda: env.sim.run("spin"), torch_batchsim.StepInterrupted)
assert "the run was stopped in system 'spin' (spin.h:" in said and "world 37, step 5" in said, said
goes_on(env)
env.sim.tensor("Thing.Go.how")[37] = 3
said = error_of(lambda: env.sim.run("spin"), torch_batchsim.SystemCrash)
assert "SIGFPE" in said and "world 37" in said, said
goes_on(env)
def stepped():
    with env.sim.inside_step(actions=bad(1)):
        env.sim.run("walk")
press()
said = error_of(stepped, torch_batchsim.StepInterrupted)
assert "system 'spin'" in said and "world 37" in said, said
goes_on(env)
env.sim.tensor("Thing.Go.how").view(-1).copy_(bad(4))
with env.sim.inside_step() as step:
    env.sim.run("walk")
    press()
    assert "'roll'" in error_of(lambda: list(step), torch_batchsim.StepInterrupted)
    assert "was stopped" in error_of(lambda: env.sim.run("walk"), RuntimeError)
goes_on(env)
said = error_of(lambda: env.sim.trace_world(37, bad(3)), torch_batchsim.SystemCrash)
assert "world 37, step 4" in said and "SIGFPE" in said, said
goes_on(env)
watched = made(watchdog=0.5)
watched.sim.tensor("Thing.Go.how")[37] = 1
said = error_of(lambda: watched.sim.run("spin", 37), torch_batchsim.StepTimeout)
assert "after watchdog=0.5 seconds the run was stopped in system 'spin'" in said, said
""")


@pytest.mark.full
def test_what_was_stopped_in_tune_is_as_before(folder: Path) -> None:
    run(folder, """
from torch_batchsim.testing import assert_same_bits, snapshot
env = made(watchdog=0.5)
torch_batchsim.run.tuning.batches_of_actions = lambda *_, **__: [bad(1)] * 8
before = snapshot(env.sim)
said = error_of(env.sim.tune, torch_batchsim.StepTimeout)
assert "'spin'" in said and "all worlds are as they were before tune()" in said, said
assert_same_bits(before, snapshot(env.sim))
env.step(good)
""")


@pytest.mark.full
def test_a_checked_step_is_stopped_once(folder: Path) -> None:
    run(folder, """
env = made(watchdog=0.5, checks=torch_batchsim.Checks(loops=None))
library, calls = env.sim.execution.library, []
step = library.act_and_step
library.act_and_step = lambda *given: calls.append(1) or step(*given)
said = error_of(lambda: env.step(bad(1)), torch_batchsim.StepTimeout)
assert "'spin'" in said and "step 6" in said and len(calls) == 1, said
library.act_and_step = step
goes_on(env)
""")


@pytest.mark.full
def test_a_stop_in_a_group_names_the_group(folder: Path) -> None:
    run(folder, """
groups = torch_batchsim.GroupedEnv(Spin(), num_envs=2 * WORLDS, groups=2, watchdog=0.5)
groups.async_reset(seed=0)
groups.recv(), groups.recv()
for how, kind in ((1, torch_batchsim.StepTimeout), (3, torch_batchsim.SystemCrash)):
    groups.send(1, bad(how))
    said = error_of(groups.recv, kind)
    assert said.startswith("group 1 (worlds 64 to 127, which count from 0 here): ") and "'spin'" in said, said
    groups.async_reset(seed=0)
    groups.recv(), groups.recv()
groups.close()
""")


@pytest.mark.full
def test_faulthandler_reports_a_crash_elsewhere(folder: Path) -> None:
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


def test_single_and_grouped_environments_take_a_watchdog() -> None:
    assert gymnasium.make("torch_batchsim/CartPole-v0", watchdog=5.0).unwrapped.sim.execution.watch._limit == 5.0
    grouped = GroupedEnv(CartPole(), num_worlds=4, groups=2, watchdog=5.0)
    assert [env.sim.execution.watch._limit for env in grouped.environments] == [5.0, 5.0]


@pytest.mark.full
def test_commands_take_a_watchdog(folder: Path) -> None:
    (folder / "stuck.py").write_text(
        "import spin, torch_batchsim\n"
        "from gymnasium.spaces import Discrete\n"
        "class Stuck(spin.Spin):\n"
        "    action_space = Discrete(2)\n"
        "torch_batchsim.register('test/Stuck-v0', Stuck)\n"
    )
    name = "stuck:test/Stuck-v0"
    for command, status in (
        (("bench", name, "--num-envs", "64", "--no-build"), 2),
        (("check", "stuck:Stuck", "--only", "build,seeds", "--worlds", "4", "--steps", "20"), 1),
    ):
        arguments = [sys.executable, "-m", f"torch_batchsim.{command[0]}", *command[1:], "--watchdog", "0.5"]
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == status and "watchdog=0.5 seconds the step was stopped in system 'spin'" in said, said


def test_a_watched_step_is_as_any_other() -> None:
    plain, watched = TorchVectorEnv(CartPole(), 8), TorchVectorEnv(CartPole(), 8, watchdog=100.0)
    for env in (plain, watched):
        env.reset(seed=0)
        for _ in range(3):
            env.step(torch.ones(8, dtype=torch.int64))
    assert torch.equal(plain.observations, watched.observations)
