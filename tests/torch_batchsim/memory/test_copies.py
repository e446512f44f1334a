"""Environments, errors and states that are pickled or copied, outputs that torch moves, and threads that meet."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from support import ENVIRONMENTS, declare, full_but, random_actions
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.overcooked import Overcooked

from torch_batchsim import (
    Archetype,
    Component,
    EpisodeStatistics,
    Parameters,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    between,
    errors,
    f32,
    testing,
    u8,
)
from torch_batchsim.errors import Fault
from torch_batchsim.run import step_call
from torch_batchsim.testing import assert_same_bits, snapshot

WAYS: dict[str, Callable[[Any], Any]] = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}


# ---- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", full_but(["cartpole", "swarm"], ENVIRONMENTS))
def test_a_copy_goes_on_as_the_original_does(name: str, way: str) -> None:
    env = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=3, output="numpy", num_threads=1)
    env.reset(seed=5)
    env.action_space.seed(7)
    generator = np.random.default_rng(0)
    for _ in range(5):
        env.step(random_actions(env, generator))
    twin = WAYS[way](env)
    assert np.array_equal(env.action_space.sample(), twin.action_space.sample())
    assert (twin.output, twin.num_worlds, twin.metadata) == ("numpy", 3, env.metadata)
    assert twin.environment is not env.environment and type(twin.environment) is type(env.environment)
    for _ in range(20):
        actions = random_actions(env, generator)
        results = [made.step(actions) for made in (env, twin)]
        assert np.array_equal(results[0][1], results[1][1])
        assert_same_bits(snapshot(env.sim), snapshot(twin.sim))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_one_world_with_gymnasiums_wrappers(way: str) -> None:
    env = gymnasium.make("torch_batchsim/CartPole-v0", max_episode_steps=30)
    env.reset(seed=2)
    for _ in range(4):
        env.step(1)
    twin = WAYS[way](env)
    for action in (0, 1, 0, 0):
        assert np.array_equal(env.step(action)[0], twin.step(action)[0])
    fresh = WAYS[way](gymnasium.make("torch_batchsim/CartPole-v0"))
    with pytest.raises(gymnasium.error.ResetNeeded):
        fresh.unwrapped.step(0)


def test_a_copy_has_memory_of_its_own() -> None:
    env = TorchVectorEnv(CartPole(), 4)
    env.bind(rewards=torch.zeros(4))
    env.reset(seed=0)
    before = snapshot(env.sim)
    copy.deepcopy(env).step(torch.ones(4, dtype=torch.int64))
    assert_same_bits(snapshot(env.sim), before)
    env.close()
    assert copy.deepcopy(env).closed


@pytest.mark.parametrize("way", WAYS)
def test_a_declaration_is_made_again_from_its_arguments(way: str) -> None:
    given = {"layout": ["cramped_room", "forced_coordination"], "horizon": 77}
    made, twin = Overcooked(**given), WAYS[way](Overcooked(**given))
    assert made.constants == twin.constants and made.parameters == twin.parameters
    assert [layout.name for layout in twin.layouts] == given["layout"]


def test_spaces_are_each_environments_own() -> None:
    one, other = (TorchVectorEnv(CartPole(), 2) for _ in range(2))
    for name in ("single_action_space", "single_observation_space", "action_space", "observation_space"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours == theirs and ours is not theirs
        ours.seed(1), theirs.seed(1)
        ours.sample()
        assert str(ours.np_random.bit_generator.state) != str(theirs.np_random.bit_generator.state)


@pytest.mark.parametrize("way", WAYS)
def test_errors_come_whole_out_of_another_process(way: str) -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert WorldFault in classes and len(classes) >= 5
    fault = WorldFault([Fault(1, "move", 0, "too_fast", 3)], torch.tensor([False, True]), stepped=True)
    fault.outputs = (torch.ones(2), {"x": torch.zeros(2)})
    fault.add_note("seen in a worker")
    of_group = errors.GroupFault(fault.faults, fault.mask, group=2)
    for error in [fault, of_group, *(cls("why") for cls in classes if not issubclass(cls, WorldFault))]:
        twin = WAYS[way](error)
        assert type(twin) is type(error) and str(twin) == str(error)
    twin = WAYS[way](fault)
    assert twin.faults == fault.faults and twin.stepped and torch.equal(twin.mask, fault.mask)
    assert torch.equal(twin.outputs[0], fault.outputs[0]) and twin.__notes__ == ["seen in a worker"]


# ---- outputs that torch moves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["plain", "array", "one set"])
def test_an_output_in_shared_memory_is_left_to_whoever_has_it(form: str) -> None:
    """As ``share_memory_`` makes it, or a queue to another process."""
    env, other = (TorchVectorEnv(CartPole(), 8, copy=False if form == "one set" else None) for _ in range(2))
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(results: tuple[Any, ...], part: int) -> None:
        moved = results[part]
        moved.share_memory_()
        kept.append((moved, moved.clone()))

    keep(env.reset(seed=3), 0)
    other.reset(seed=3)
    for step in range(24):
        actions = torch.full((8,), step // 3 % 2)
        given = actions.numpy() if form == "array" else actions
        ours, theirs = env.step(given), other.step(actions)
        for part in range(4):
            assert torch.equal(ours[part], theirs[part]), (step, part)
        ended = theirs[4]["_final_obs"]
        assert torch.equal(ours[4]["final_obs"][ended], theirs[4]["final_obs"][ended])
        if step % 4 == 0:
            keep(ours, step // 4 % 4)
        if step % 10 == 9:
            mask = torch.arange(8) < 4
            keep(env.reset(options={"reset_mask": mask}), 0)
            other.reset(options={"reset_mask": mask})
            assert torch.equal(env.observations, other.observations)
    for moved, value in kept:
        assert moved.is_shared() and torch.equal(moved, value)


def test_what_a_user_bound_is_written_to_where_torch_has_moved_it() -> None:
    env, other = TorchVectorEnv(CartPole(), 4), TorchVectorEnv(CartPole(), 4)
    rewards, observations = torch.zeros(4), torch.zeros(6, 4, 4)
    env.bind(rewards=rewards)
    for made in (env, other):
        made.reset(seed=1)
    actions = torch.ones(4, dtype=torch.int64)
    rewards.share_memory_()
    env.step(actions), env.step(actions)
    other.step(actions), other.step(actions)
    assert rewards.tolist() == [1.0] * 4
    env.unbind()
    env.bind_slots(observations=observations)
    observations.share_memory_()
    for slot in range(6):
        env.select_slot(slot)
        env.step(actions)
        assert torch.equal(observations[slot], other.step(actions)[0])


def state_of(sim: Simulator) -> list[torch.Tensor]:
    """Views of all columns, by one field where types are mixed."""
    found = [sim.tensor(f"World.{name}") for name in ("step", "episode", "terminated", "truncated")]
    for column in sim.program.columns.values():
        name = column.name if column.dtype else f"{column.name}.{column.component.fields[0].name}"
        if column.dynamic:
            ragged = sim.ragged(name)
            found += [ragged.values, ragged.counts, ragged.first]
        else:
            found.append(sim.tensor(name))
    return found


@pytest.mark.crossed
@pytest.mark.parametrize("name", full_but(["cartpole", "duel", "zoo"], ENVIRONMENTS))
@pytest.mark.parametrize("short", [True, False], ids=["short call", "general way"])
def test_state_that_torch_moves_is_followed(name: str, short: bool) -> None:
    """The other process sees the simulator's memory, with all that later steps write there."""
    env, other = (TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=4, num_threads=1) for _ in range(2))
    if not short:
        env.sim.execution.step_call = step_call.never
    env.reset(seed=5)
    other.reset(seed=5)
    for step, actions in enumerate(testing.random_actions(other, 24)):
        if step % 6 == 2:
            shared = state_of(env.sim)
            for tensor in shared:
                tensor.share_memory_()
        env.step(actions)
        other.step(actions)
        assert_same_bits(snapshot(env.sim), snapshot(other.sim))
        if step == 12:
            for made in (env, other):
                made.reset(options={"reset_mask": torch.arange(made.num_envs) < made.num_agents})
        if step == 15:
            env.load_state_dict(other.state_dict())
    steps = env.sim.tensor("World.step")
    assert shared[0].is_shared() and shared[0].data_ptr() == steps.data_ptr() and steps.any()


def test_state_that_torch_moves_before_tables_are_laid_out_anew_is_followed() -> None:
    env, other = (TorchVectorEnv(ENVIRONMENTS["zoo"](), num_worlds=4, num_threads=1) for _ in range(2))
    env.reset(seed=5)
    other.reset(seed=5)
    for step, actions in enumerate(testing.random_actions(other, 6)):
        if step == 3:
            for tensor in state_of(env.sim):
                tensor.share_memory_()
            env.load_state_dict(other.state_dict())
        env.step(actions)
        other.step(actions)
        assert_same_bits(snapshot(env.sim), snapshot(other.sim))


def test_columns_that_were_bound_before_are_forgotten() -> None:
    env = TorchVectorEnv(CartPole(), 4)
    for _ in range(3):
        env.sim.bind("Cart.CartState", env.sim.tensor("Cart.CartState").clone())
    assert len(env.sim.memory.lent) == 1


def test_bound_actions_that_torch_moves_are_followed() -> None:
    env, other = TorchVectorEnv(CartPole(), 4), TorchVectorEnv(CartPole(), 4)
    actions = torch.zeros(4, dtype=torch.int32)
    env.bind(actions=actions)
    env.reset(seed=1)
    other.reset(seed=1)
    actions.share_memory_()
    for step in range(6):
        actions.fill_(step % 2)  # as another process does
        assert torch.equal(env.step(actions)[0], other.step(actions.clone())[0])
        env.sim.step()
        other.sim.step()


@pytest.mark.parametrize("call", full_but(["observe"], ["observe", "inside_step", "tune", "tracing"]))
def test_what_writes_results_once_more_finds_where_torch_has_moved_them(call: str) -> None:
    env, other = TorchVectorEnv(CartPole(), 4), TorchVectorEnv(CartPole(), 4)
    actions = torch.ones(4, dtype=torch.int64)
    for made in (env, other):
        made.reset(seed=1)
        observations, *_ = made.step(actions)
        if made is env:
            observations.share_memory_()
        made.sim.tensor("Cart.CartState").add_(0.125)
        if call == "observe":
            made.sim.observe()
            assert torch.equal(observations, made.sim.tensor("Cart.CartState").view(4, 4))
            assert made.observations.data_ptr() == observations.data_ptr()
        elif call == "inside_step":
            with made.sim.inside_step(actions) as step:
                next(iter(step))
                made.observations.share_memory_()
        elif call == "tune":
            made.tune(0.02)
        else:
            with made.sim.tracing(1000):
                made.step(actions)
    for _ in range(4):
        assert torch.equal(env.step(actions)[0], other.step(actions)[0])


# ---- threads that meet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["step", "array", "reset", "state_dict"])
def test_a_second_thread_is_refused_while_one_is_inside(call: str) -> None:
    env = TorchVectorEnv(CartPole(), 4)
    env.reset(seed=1)
    actions = torch.ones(4, dtype=torch.int64)
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: env.step(actions),
        "array": lambda: env.step(actions.numpy()),
        "reset": env.reset,
        "state_dict": env.state_dict,
    }
    before = snapshot(env.sim)
    token = env.sim.execution.token
    taken = token.pop()  # as a thread does that is inside
    with pytest.raises(RuntimeError, match=r"another thread is stepping.*an environment of its own"):
        calls[call]()
    assert_same_bits(snapshot(env.sim), before)
    token.append(taken)
    calls[call]()
    assert token == [None]


def test_threads_that_step_at_once() -> None:
    """Each call either steps all worlds or is refused, and what was refused can be asked for again."""
    env = TorchVectorEnv(CartPole(), 20_000)
    env.reset(seed=1)
    actions = torch.ones(20_000, dtype=torch.int64)
    stepped, refused = [], []

    def play() -> None:
        for _ in range(40):
            try:
                env.sim.act_and_step(actions)
                stepped.append(1)
            except RuntimeError:
                refused.append(1)

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stepped) + len(refused) == 120 and stepped
    count = TorchVectorEnv(CartPole(), 20_000)
    count.reset(seed=1)
    for _ in stepped:
        count.step(actions)
    assert_same_bits(snapshot(env.sim), snapshot(count.sim))


def test_a_refused_call_of_a_system_gives_its_turn_back() -> None:
    env = TorchVectorEnv(CartPole(), 4)
    env.reset(seed=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="action 9"):
            env.step(torch.full((4,), 9))
        env.step(torch.ones(4, dtype=torch.int64))


# ---- padding -------------------------------------------------------------------------------------------------------


class Wheel(Component):  # three bytes of padding behind each u8
    worn: u8
    radius: f32
    flat: u8


class Pull(Component):
    force: f32 = between(-1, 1)


@pytest.mark.full
def test_states_are_equal_whatever_the_bytes_between_fields() -> None:
    """A system that assigns a component copies the padding of its stack; states and snapshots hold zeros there."""
    text = (
        "TBS_SYSTEM void fill(World &world) {\n"
        "    for (i32 i = 0; i < 3; ++i) world.create<Spare>(Wheel{u8(i), 0.5f, 0});\n"
        "}\n"
        "TBS_SYSTEM void roll(World &world, Wheel &wheel) { wheel.radius += 1.0f; }\n"
    )
    made = declare(
        text,
        action="Wagon.Pull",
        observation="Wagon.Pull",
        archetypes=[Archetype("Wagon", Wheel, Pull, Reward, count=2), Archetype("Spare", Wheel, capacity=8, limit=8)],
        start=TaskGraph("fill"),
        step=TaskGraph("roll"),
        parameters=Parameters(max_episode_steps=9),
    )
    saved, kept = [], []
    for filling in (0x00, 0xA5):
        sim = Simulator(made(), num_worlds=2, num_threads=1)
        sim.reset(seed=1)
        fixed, table = sim.memory.columns["column_Wagon_Wheel"], sim.memory.tables["Spare"]
        rows = [fixed.view(torch.uint8).view(-1, 12), table.column(sim.program.columns["Spare.Wheel"])]
        for held in rows:
            held[:, (1, 2, 3, 9, 10, 11)] = filling
        sim.step()
        saved.append(sim.state_dict())
        kept.append(snapshot(sim))
    assert_same_bits(*kept)
    one, other = saved
    assert all(torch.equal(tensor, other["tensors"][name]) for name, tensor in one["tensors"].items())
    assert torch.equal(one["tables"]["Spare"]["Spare.Wheel"], other["tables"]["Spare"]["Spare.Wheel"])
    assert one["tables"]["Spare"]["Spare.Wheel"].shape == (6, 12)


# ---- other processes -----------------------------------------------------------------------------------------------


def _stepped(env: Any, queue: Any) -> None:
    env.step(torch.zeros(4, dtype=torch.int64))
    queue.put(env.unwrapped.sim.tensor("World.step").tolist())


@pytest.mark.full
@pytest.mark.parametrize("way", ["spawn", pytest.param("forkserver", marks=pytest.mark.full)])
def test_an_environment_is_an_argument_of_a_process(way: str) -> None:
    """``torch.multiprocessing`` pickles by shared memory and file descriptors, which these pickles do without."""
    context = torch.multiprocessing.get_context(way)
    env = EpisodeStatistics(TorchVectorEnv(CartPole(), 4))
    env.reset(seed=0)
    env.step(torch.zeros(4, dtype=torch.int64))
    queue = context.SimpleQueue()
    process = context.Process(target=_stepped, args=(env, queue))
    process.start()
    found = queue.get()
    process.join()
    assert found == [2] * 4 and process.exitcode == 0


def test_environments_and_faults_pass_a_queue_of_torch_twice() -> None:
    env = EpisodeStatistics(TorchVectorEnv(CartPole(), 4, output="torch"))
    env.reset(seed=0)
    fault = WorldFault([Fault(0, "s", 0, "c", 1)], torch.tensor([True, False]))
    fault.outputs = (torch.ones(2), {"x": torch.zeros(2)})
    for given in (env, fault):
        text = bytes(ForkingPickler.dumps(given))
        twins = [pickle.loads(text) for _ in range(2)]  # a file descriptor could be opened once
        assert len({type(twin) for twin in (given, *twins)}) == 1
    assert torch.equal(twins[1].mask, fault.mask) and torch.equal(twins[0].outputs[1]["x"], torch.zeros(2))
