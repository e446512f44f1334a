"""Worlds that step in groups: the same bits as in one environment, whatever the order; errors, threads, streams."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from support import ENVIRONMENTS, declare, emulated_cuda, full_but, of_worlds, random_actions, snapshot
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    GroupedEnv,
    GroupFault,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    f32,
    i32,
)
from torch_batchsim.testing import assert_same_bits
from torch_batchsim.vector import side_by_side
from torch_batchsim.vector.partial_step import step_some

GROUPS, WORLDS, STEPS = 3, 12, 40
CUDA = ("graph", "megakernel", "per_world")
_FEW = ["cartpole", "drift", "overcooked", "hanabi"]  # Drift's systems read world.id
NAMES = full_but(_FEW, (*_FEW, "swarm", "duel", "melee"))


def tensors(outputs: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    """Copies of those in tuples and dicts, by name."""
    found: dict[str, torch.Tensor] = {}
    for key, value in outputs.items() if isinstance(outputs, dict) else enumerate(outputs):
        name = f"{prefix}.{key}"
        found |= tensors(value, name) if isinstance(value, (dict, tuple)) else {name: value.clone()}
    return found


def flat(outputs: Any) -> dict[str, torch.Tensor]:
    """The same without final values of rows that have not ended."""
    found = tensors(outputs)
    for name, tensor in found.items():
        if "final" in name and "._" not in name:
            tensor[~found[".4._final_obs"]] = 0
    return found


def part(outputs: dict[str, torch.Tensor], rows: slice) -> dict[str, torch.Tensor]:
    return {name: tensor[rows] for name, tensor in outputs.items()}


# ---- the same worlds -------------------------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("name", NAMES)
def test_any_order_gives_the_bits_of_one_environment(name: str, mode: AutoresetMode) -> None:
    whole = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=WORLDS, autoreset_mode=mode, copy=True)
    generator = np.random.default_rng(1)
    batches = [random_actions(whole, generator) for _ in range(STEPS)]
    expected = [whole.reset(seed=5)]
    first = flat(expected[0])
    expected = [flat(whole.step(actions)) for actions in batches]
    with GroupedEnv(ENVIRONMENTS[name](), num_worlds=WORLDS, groups=GROUPS, autoreset_mode=mode, num_threads=2) as env:
        rows = [slice(group * env.group_envs, (group + 1) * env.group_envs) for group in range(GROUPS)]
        env.async_reset(seed=5)
        taken, waiting = Counter(), []
        while len(waiting) < GROUPS:
            batch = env.recv()
            found = flat((batch.observations, {k: v for k, v in batch.infos.items() if "final" not in k}))
            assert_same_bits(part(first, rows[batch.group]), found)
            waiting.append(batch.group)
        while sum(taken.values()) < GROUPS * STEPS:
            generator.shuffle(waiting)
            while waiting and generator.random() < 0.7:
                group = waiting.pop()
                if taken[group] < STEPS:
                    env.send(group, batches[taken[group]][rows[group]])
            if env.busy_groups:
                batch = env.recv()
                found = flat(batch[1:])
                assert_same_bits(part(expected[taken[batch.group]], rows[batch.group]), found, f"step {taken}: ")
                taken[batch.group] += 1
                waiting.append(batch.group)


def test_a_part_of_a_larger_batch_has_its_worlds() -> None:
    whole, second = TorchVectorEnv(CartPole(), 6), TorchVectorEnv(CartPole(), 4, first_world=2)
    assert torch.equal(whole.reset(seed=3)[0][2:], second.reset(seed=3)[0])
    mask = torch.tensor([False, True, True, False])
    of_all = torch.cat([torch.tensor([False, False]), mask])
    expected = whole.reset(seed=4, options={"reset_mask": of_all})[0][2:]
    assert torch.equal(expected, second.reset(seed=4, options={"reset_mask": mask})[0])
    twin = pickle.loads(pickle.dumps(second))
    assert torch.equal(second.reset(seed=9)[0], twin.reset(seed=9)[0])
    for first in (-1, True, 2.5, 2**31 - 3):
        with pytest.raises(ValueError, match=r"first_world must be an integer from 0 to 2147483644, got"):
            TorchVectorEnv(CartPole(), 4, first_world=first)


@pytest.mark.parametrize("executor", full_but(["per_world"], ["per_world", *(f"{e} on CUDA" for e in CUDA)]))
@pytest.mark.parametrize("name", full_but(["drift"], ["drift", "yard"]))
def test_every_executor_gives_systems_the_number_of_their_world(name: str, executor: str) -> None:
    """``world.id`` counts among all worlds; columns, rows that come and go, and faults are those of the part."""
    executor, _, device = executor.partition(" on ")
    how = {"_library": emulated_cuda(name, executor)} if device else {"executor": executor}
    whole = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=23)
    part = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=16, first_world=7, **how)
    rows = slice(7 * whole.num_agents, None)
    whole.reset(seed=3), part.reset(seed=3)
    generator = np.random.default_rng(4)
    for _ in range(25):
        actions = random_actions(whole, generator)
        whole.step(actions), part.step(actions[rows].contiguous())
    assert whole.sim.tensor("World.episode").float().mean() > 0.5  # or starts have been compared only once
    assert_same_bits(of_worlds(snapshot(whole.sim), torch.arange(23) >= 7), snapshot(part.sim))


@pytest.mark.crossed
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_some_worlds_leaves_the_others_alone(name: str, mode: AutoresetMode) -> None:
    worlds = 3
    some = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=worlds, autoreset_mode=mode)
    alone = [
        TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=1, autoreset_mode=mode, first_world=world)
        for world in range(worlds)
    ]
    agents = some.num_agents
    for env in (some, *alone):
        env.reset(seed=2)
    generator = np.random.default_rng(3)
    for step in range(STEPS):
        actions = random_actions(some, generator)
        mask = torch.from_numpy(generator.random(worlds) < 0.6)
        results = flat(step_some(some, actions, mask))
        for world in mask.nonzero().flatten().tolist():
            rows = slice(world * agents, (world + 1) * agents)
            expected = flat(alone[world].step(actions[rows]))
            assert_same_bits(expected, part(results, rows), f"step {step}, world {world}: ")
        acted = some.sim.tensor(some.sim.program.action.name)
        for world, env in enumerate(alone):
            assert torch.equal(acted[world], env.sim.tensor(env.sim.program.action.name)[0])
    observed = flat(some.step(actions)[:1])  # of all, after the last
    for world, env in enumerate(alone):
        rows = slice(world * agents, (world + 1) * agents)
        assert_same_bits(flat(env.step(actions[rows])[:1]), part(observed, rows))
    with pytest.raises(ValueError, match="needs autoreset_mode NEXT_STEP or DISABLED, got SAME_STEP"):
        step_some(TorchVectorEnv(CartPole(), 1), torch.zeros(1), torch.ones(1, dtype=torch.bool))


class Table(Component):
    entry: f32[WORLDS]  # of each world


class Choice(Component):
    to: i32


class Shown(Component):
    value: f32


LOOK = "TBS_SYSTEM void look(World &world, const Table &table, Shown &shown) { shown.value = table.entry[world.id]; }"


class Looked(Environment):
    """Systems look up their world's entry in a resource."""

    resources, archetypes = (Table,), (Archetype("Seer", Choice, Shown, Reward, count=1),)
    step, observe = TaskGraph(), TaskGraph("look")
    observation, action, action_space = "Seer.Shown", "Seer.Choice.to", Discrete(2)

    def resource_values(self) -> dict[str, Any]:
        return {"Table.entry": np.arange(WORLDS) + 0.5}


def test_a_resource_with_an_entry_for_each_world() -> None:
    """Each group has a resource of its own, which holds those of all worlds: ``world.id`` finds the same as in one."""
    Looked.systems = declare(LOOK).systems
    with GroupedEnv(Looked(), WORLDS, groups=GROUPS) as env:
        env.async_reset(seed=0)
        batches = sorted((env.recv() for _ in range(GROUPS)), key=lambda batch: batch.group)
        assert torch.cat([batch.observations for batch in batches]).tolist() == [i + 0.5 for i in range(WORLDS)]
        env.environments[1].sim.tensor("Table.entry")[:] = 0
        env.async_reset()
        shown = {batch.group: batch.observations.sum() > 0 for batch in (env.recv() for _ in range(GROUPS))}
        assert shown == {0: True, 1: False, 2: True}


def test_resets_of_some_worlds_and_of_all() -> None:
    whole = TorchVectorEnv(CartPole(), 8, copy=True)
    expected = [whole.reset(seed=1)[0]]
    zeros, mask = torch.zeros(8, dtype=torch.int64), torch.tensor([0, 0, 0, 0, 0, 1, 0, 0], dtype=torch.bool)
    whole.step(zeros)
    expected.append(whole.reset(options={"reset_mask": mask})[0])
    expected.append(whole.reset()[0])
    with GroupedEnv(CartPole(), 8, groups=2, copy=True) as env:
        env.async_reset(seed=1)
        for batch in [env.recv(), env.recv()]:
            env.send(batch.group, zeros[:4])
        env.recv(), env.recv()
        env.async_reset(mask=mask)
        batch = env.recv()
        assert batch.group == 1 and not env.busy_groups
        assert torch.equal(batch.observations, expected[1][4:]) and not batch.terminations.any()
        env.send(0, zeros[:4])
        env.async_reset()  # drops the step
        batches = sorted((env.recv() for _ in range(2)), key=lambda batch: batch.group)
        assert torch.equal(torch.cat([batch.observations for batch in batches]), expected[2])


def test_a_reset_of_some_while_others_are_within_their_first() -> None:
    with GroupedEnv(CartPole(), 4, groups=2, num_threads=2) as env:
        gate, reset = threading.Event(), env.environments[1].reset
        env.environments[1].reset = lambda **arguments: gate.wait(20) and reset(**arguments)
        env.async_reset(seed=0)
        assert env.recv().group == 0
        env.async_reset(mask=torch.tensor([True, False, False, False]))
        assert env.recv().group == 0 and env.busy_groups == [1]
        gate.set()
        assert env.recv().group == 1


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_refusals() -> None:
    for worlds, such_as in ((8, "6 or 9"), (2, "3")):
        with pytest.raises(ValueError, match=f"num_worlds.* 3 groups.* {such_as},? .*{worlds}"):
            GroupedEnv(CartPole(), worlds, groups=3)
    env = GroupedEnv(CartPole(), 8, groups=2)
    zeros = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"recv\(\) would wait for ever: no group steps"):
        env.recv()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call async_reset\(\) before actions are sent to group 1"):
        env.send(1, zeros)
    with pytest.raises(gymnasium.error.ResetNeeded, match="the first reset must be of all worlds"):
        env.async_reset(mask=torch.ones(8, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"reset has no option 'wind'"):
        env.async_reset(options={"wind": zeros})
    env.async_reset(seed=0)
    with pytest.raises(RuntimeError, match=r"group 0 has been sent already: recv\(\) must return it"):
        env.send(0, zeros)
    for _ in range(2):
        env.recv()
    for group in (2, -1, True, "0"):
        with pytest.raises(ValueError, match=r"group must be an integer from 0 to 1, got"):
            env.send(group, zeros)
    with pytest.raises(ValueError, match=r"actions must have shape \[4\], got \[8\]"):
        env.send(0, zeros.repeat(2))
    env.send(1, zeros + 7)
    with pytest.raises(ValueError, match=r"group 1 \(worlds 4 to 7\): action 7 of world 4 is not in Discrete"):
        env.recv()
    env.send(1, zeros)  # nothing has happened to it
    assert env.recv().group == 1
    env.close()
    env.close()
    for call in (env.recv, env.async_reset, lambda: env.send(0, zeros)):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="this environment is closed"):
            call()


def test_masks_of_a_step_of_some_worlds() -> None:
    some, none = torch.tensor([False, True]), torch.zeros(2, dtype=torch.bool)
    zeros = torch.zeros(2, dtype=torch.int64)
    with GroupedEnv(CartPole(), 4, groups=2) as env:
        env.async_reset(seed=0)
        env.recv(), env.recv()
        with pytest.raises(
            ValueError, match="a step of some worlds needs autoreset_mode NEXT_STEP or DISABLED, got SAME"
        ):
            env.send(0, zeros, some)
        assert not env.busy_groups
    with GroupedEnv(CartPole(), 4, groups=2, autoreset_mode="NextStep") as env:
        env.async_reset(seed=0)
        env.recv(), env.recv()
        before = env.environments[1].sim.tensor("World.step").clone()
        refused = [
            (none, ValueError, "worlds must name at least one world of group 1, got a mask that is false everywhere"),
            (torch.ones(4, dtype=torch.bool), ValueError, r"worlds must have shape \[2\], got \[4\]"),
            (torch.tensor([1]), TypeError, "worlds must have dtype bool, got int64"),
        ]
        for worlds, error, says in refused:
            for call in (env.send, env.step):
                with pytest.raises(error, match=says):
                    call(1, zeros, worlds)
        assert not env.busy_groups and torch.equal(env.environments[1].sim.tensor("World.step"), before)
        env.step(1, zeros, some.numpy())
        assert env.environments[1].sim.tensor("World.step").tolist() == [0, 1]
        env.async_reset(mask=torch.zeros(4, dtype=torch.bool))
        assert not env.busy_groups
        with pytest.raises(RuntimeError, match=r"recv\(\) would wait for ever"):
            env.recv()


def test_it_is_not_copied() -> None:
    with GroupedEnv(CartPole(), 4, groups=2) as env:
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="GroupedEnv cannot be pickled or copied, because its groups step"):
                copied(env)


def test_which_errors_of_groups_stay_as_they_are() -> None:
    raised: list[BaseException] = [gymnasium.error.ResetNeeded("first"), SystemExit(3), KeyboardInterrupt()]

    def step(actions: torch.Tensor) -> None:
        raise raised[-1]

    zeros = torch.zeros(2, dtype=torch.int64)
    with GroupedEnv(CartPole(), 4, groups=2) as env:
        env.async_reset(seed=0)
        env.recv(), env.recv()
        steps, env.environments[0].step = env.environments[0].step, step
        while raised:
            env.send(0, zeros)
            for call in (env.recv, lambda: env.step(0, zeros)):
                with pytest.raises(type(raised[-1])) as caught:
                    call()
                assert caught.value is raised[-1] and not env.busy_groups
            raised.pop()
        raised.append(OSError("no room"))
        with pytest.raises(RuntimeError, match=r"group 0 \(worlds 0 to 1\): no room"):
            env.step(0, zeros)
        env.environments[0].step = steps
        assert env.step(0, zeros).group == 0


def test_a_fault_names_its_group_and_others_go_on() -> None:
    actions = torch.zeros(3, 3)
    with GroupedEnv(Drift(), 9, groups=3) as env:
        env.async_reset(seed=0)
        for _ in range(3):
            env.recv()
        env.environments[1].sim.Particle.Body.position[2] = float("nan")
        for group in range(3):
            env.send(group, actions)
        received, fault = [], None
        for _ in range(3):
            try:
                received.append(env.recv().group)
            except GroupFault as error:
                fault = error
        assert sorted(received) == [0, 2] and fault is not None
        assert re.match(r"group 1: [\w.]+:\d+: world 5: system", str(fault)) and fault.mask.nonzero().tolist() == [[5]]
        assert fault.outputs.group == 1 and fault.outputs.rewards.shape == (3,) and fault.stepped
        twin = pickle.loads(pickle.dumps(fault))
        assert (str(twin), twin.group) == (str(fault), 1)
        env.async_reset(mask=fault.mask)
        assert env.recv().group == 1
        env.send(1, actions)
        assert env.recv().group == 1


# ---- threads and streams ---------------------------------------------------------------------------------------------


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("torch_batchsim group worker")]


@pytest.mark.full
def test_threads_end_with_the_environment() -> None:
    gc.collect()
    before = len(workers())
    env = GroupedEnv(CartPole(), 8, groups=4, num_threads=3)
    assert len(workers()) == before + 3
    assert {made.sim.execution.num_threads for made in env.environments} == {1}
    env.async_reset()
    del env  # with calls under way
    gc.collect()
    assert len(workers()) == before
    with GroupedEnv(CartPole(), 8, groups=2, num_threads=5) as env:
        assert len(workers()) == before + 2 and env.environments[0].sim.execution.num_threads == 2
    assert len(workers()) == before


def test_a_close_ends_the_wait_of_other_threads() -> None:
    calls, stopped = side_by_side.Threads(1), []

    def wait() -> None:
        try:
            calls.next()
        except side_by_side.Stopped:
            stopped.append(True)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    calls.close()
    for thread in threads:
        thread.join(20)
    assert stopped == [True, True]


_ALONE = """
import os, signal, threading, time
import torch
from torch_batchsim import GroupedEnv
from torch_batchsim.envs.cartpole import CartPole

env = GroupedEnv(CartPole(), 4, groups=2, num_threads=2)
env.async_reset(seed=0)
groups = [env.recv().group for _ in range(2)]
step, gate = env.environments[1].step, threading.Event()
env.environments[1].step = lambda actions: gate.wait() and step(actions)
env.send(1, torch.zeros(2, dtype=torch.int64))
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    env.recv()
    raise SystemExit("not interrupted")
except KeyboardInterrupt:
    pass
gate.set()
assert env.recv().group == 1  # nothing is lost
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        env.send(0, torch.zeros(2, dtype=torch.int64))
    except RuntimeError as error:
        os._exit(0 if "stayed with the parent" in str(error) else 3)
    os._exit(4)
assert os.waitpid(child, 0)[1] == 0
env.send(0, torch.zeros(2, dtype=torch.int64))
print("end")  # with a group that was not received
"""


@pytest.mark.full
def test_interrupt_fork_and_the_end_of_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, timeout=120, env=os.environ)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stdout + done.stderr


def test_streams_order_the_work_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins: the group's stream waits for the caller's, and the caller's for the event of the group."""
    done, log = set(), []

    class Stream:
        def __init__(self, name: Any = None) -> None:
            self.name = f"group {sum(entry[0] == 'made' for entry in log)}" if name != "caller's" else name
            log.append(("made", self.name))

        def wait_stream(self, other: Stream) -> None:
            log.append((self.name, "waits for", other.name))

        def wait_event(self, event: Event) -> None:
            log.append((self.name, "waits for event of", event.of))

        def __enter__(self) -> None:
            current.append(self)

        def __exit__(self, *_: Any) -> None:
            current.pop()

    class Event:
        def record(self) -> None:
            self.of = current[-1].name

        def query(self) -> bool:
            return self.of in done

    current: list[Stream] = []
    stand_ins = {"Stream": Stream, "Event": Event, "stream": lambda stream: stream}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: current[-1])
    calls = side_by_side.Streams(3, torch.device("cuda", 0))
    current.append(Stream("caller's"))
    log.clear()
    noted = lambda stream: log.append(("actions are read on", stream.name))  # noqa: E731
    actions = SimpleNamespace(device=torch.device("cuda"), record_stream=noted)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calls.start(1, interrupted)
    log.clear()
    for group in (2, 0, 1):
        calls.start(group, lambda: current[-1].name, [actions])
    assert log[:2] == [("group 2", "waits for", "caller's"), ("actions are read on", "group 2")]
    done.add("group 1")
    received = [calls.next() for _ in range(3)]
    assert [(outcome.group, outcome.value) for outcome in received] == [(1, "group 1"), (2, "group 2"), (0, "group 0")]
    assert log[-3:] == [("caller's", "waits for event of", f"group {group}") for group in (1, 2, 0)]
    with pytest.raises(side_by_side.Stopped):
        calls.next()


def test_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "executors.md").read_text().partition("## Worlds in groups")[2]
    names: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)
    assert names["env"].closed and names["batch"].rewards.shape == (2048,)


def test_a_policy_works_while_a_group_steps() -> None:
    """A group that takes long holds up neither the caller nor the others."""
    with GroupedEnv(CartPole(), 4, groups=2, num_threads=2) as env:
        env.async_reset(seed=0)
        for _ in range(2):
            env.recv()
        gate, step = threading.Event(), env.environments[0].step
        env.environments[0].step = lambda actions: gate.wait(20) and step(actions)
        zeros = torch.zeros(2, dtype=torch.int64)
        env.send(0, zeros)
        for _ in range(5):
            env.send(1, zeros)
            assert env.recv().group == 1
        assert env.busy_groups == [0]
        gate.set()
        assert env.recv().group == 0
