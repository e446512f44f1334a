"""What ``reset(options=...)`` takes for the episodes that it begins: ``kept``, ``reset_options``, ``reset_values``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import messages
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from support import COMPILED, assert_same_bits, declare, emulated_simulator, of_worlds, snapshot

from torch_batchsim import (
    Archetype,
    CheckpointError,
    Component,
    Environment,
    GroupedEnv,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    between,
    component,
    f32,
    i32,
    u8,
    u16,
    u32,
    u64,
)
from torch_batchsim.vector.single_env import SingleEnv

Walkers = Callable[..., type[Environment]]


class Spot(Component):
    x: f32
    noise: f32


class Step(Component):
    towards: i32


class Goal(Component):  # kept
    x: f32 = between(-1000, 1000)
    begun: i32  # episodes
    given: u8


class Pair(Component):  # kept
    values: i32[2]


class Count(Component):
    begun: i32


SYSTEMS = """
TBS_SYSTEM void begin(World &world, Spot &spot, Goal &goal, const Pair &pair, Count &count) {
    if (goal.x < 0.0f) world.fail(Fault::below_zero, 1);
    spot.x = goal.x + 10.0f * f32(pair.values[0]) + 100.0f * f32(pair.values[1]);
    spot.noise = world.random().uniform();
    goal.begun += 1;
    count.begun += 1;
    goal.given = 0;
}
TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step, Episode &episode) {
    spot.x += f32(step.towards);
    episode.terminated = step.towards == 2;
}
"""


def values_of(self: Environment, options: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> dict[str, Any]:
    self.asked = {**options}, worlds
    values: dict[str, Any] = {}
    if "x" in options:
        if bool((options["x"] == 13).any()):
            raise ValueError(f"x of world {int(worlds[options['x'] == 13][0])} must not be 13")
        values |= {"Goal.x": options["x"], "Goal.given": 1}
    if "pair" in options:
        values["Pair"] = options["pair"]
    return values


@pytest.fixture(scope="module")
def walkers(tmp_path_factory: pytest.TempPathFactory) -> Walkers:
    folder = tmp_path_factory.mktemp("walkers")  # one for all, so that there is one build

    def make(**changes: Any) -> type[Environment]:
        attributes: dict[str, Any] = {
            "archetypes": (Archetype("Walker", Spot, Step, Reward, count=1),),
            "singletons": (Goal, Count, Pair),
            "kept": (Goal, Pair),
            "reset_options": {"x": f32, "pair": i32[2]},
            "reset_values": values_of,
            "start": TaskGraph("begin"),
            "step": TaskGraph("walk"),
            "observation": "Walker.Spot",
            "action": "Walker.Step",
            "action_space": Discrete(3),
            "faults": ("below_zero",),
        }
        return declare(SYSTEMS, folder, **(attributes | changes))

    return make


def xs(env: TorchVectorEnv) -> list[float]:
    return env.sim.tensor("Walker.Spot.x").flatten().tolist()


def test_what_is_kept_outlives_episodes_and_other_state_does_not(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0, options={"x": [1.0, 2.0, 3.0]})
    env.step(torch.tensor([2, 0, 1]))
    assert xs(env) == [1, 2, 4]
    assert env.sim.tensor("Goal.begun").tolist() == [2, 1, 1]
    assert env.sim.tensor("Count.begun").tolist() == [1, 1, 1]
    env.reset()
    assert (xs(env), env.sim.tensor("Goal.begun").tolist()) == ([1, 2, 3], [3, 2, 2])
    assert env.sim.tensor("Count.begun").tolist() == [1, 1, 1]
    state = env.state_dict()
    env.reset(options={"x": np.zeros(3)})
    env.load_state_dict(state)
    env.reset()
    assert xs(env) == [1, 2, 3]


@pytest.mark.parametrize(
    "x", [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0]), np.array([3.0, 2, 1])[::-1]],
    ids=["list", "tuple", "array", "tensor", "backwards"],
)  # fmt: skip
def test_tensors_arrays_and_lists_of_any_number(walkers: Walkers, x: Any) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3)
    env.reset(seed=0, options={"x": x, "pair": [[1, 0], [0, 1], [1, 1]]})
    assert xs(env) == [11, 102, 113]
    assert not env.sim.tensor("Goal.given").any(), "the systems that begin an episode see it and may clear it"


def test_only_rows_of_worlds_that_begin_count(walkers: Walkers) -> None:
    environment = walkers()()
    env = TorchVectorEnv(environment, num_worlds=4)
    env.reset(seed=0, options={"x": [5.0] * 4})
    before = snapshot(env.sim)
    mask = torch.tensor([False, True, False, True])
    env.reset(options={"reset_mask": mask, "x": [13.0, 1.0, 13.0, 2.0]})
    given, worlds = environment.asked
    assert (given["x"].tolist(), worlds.tolist(), worlds.dtype) == ([1, 2], [1, 3], torch.int64)
    assert xs(env) == [5, 1, 5, 2]
    assert_same_bits(of_worlds(before, ~mask), of_worlds(snapshot(env.sim), ~mask))
    env.reset(options={"reset_mask": torch.zeros(4, dtype=torch.bool), "x": [13.0] * 4})
    assert xs(env) == [5, 1, 5, 2]
    env.sim.reset(mask, options={"pair": np.full((4, 2), 1)})
    assert xs(env) == [5, 111, 5, 112]


def test_options_beside_a_seed(walkers: Walkers) -> None:
    envs = [TorchVectorEnv(walkers()(), num_worlds=3, copy=True) for _ in range(2)]
    first, _ = envs[0].reset(seed=4)
    second, _ = envs[1].reset(seed=4, options={"x": [1.0, 2.0, 3.0]})
    assert torch.equal(first[:, 1], second[:, 1])
    assert second[:, 0].tolist() == [1, 2, 3]
    for options in ({}, {"x": None, "pair": None, "reset_mask": None}):
        assert torch.equal(envs[0].reset(seed=4, options=options)[0], first)


def test_a_single_environment_takes_them_without_worlds(walkers: Walkers) -> None:
    env = SingleEnv(walkers()())
    observation, _ = env.reset(seed=0, options={"x": 3.0, "pair": [2, 1]})
    assert observation[0] == 123
    with pytest.raises(ValueError, match=r"^reset has no option 'y' here; it has: x, pair$"):
        env.reset(options={"y": 1})
    with pytest.raises(ValueError, match=r"^x of world 0 must not be 13$"):
        env.reset(options={"x": 13})
    with pytest.raises(TypeError, match=r"^x must be a torch tensor or a numpy array, got str"):
        env.reset(options={"x": "three"})
    with pytest.raises(TypeError, match=r"^options must be a dict or None, got list$"):
        env.reset(options=["x"])
    env.hold({"x": 4.0})
    assert [env.reset()[0][0] for _ in range(2)] == [env.reset(options={"x": 4.0})[0][0]] * 2
    with pytest.raises(ValueError, match=r"^reset has no option 'y' here; it has: x, pair$"):
        env.hold({"y": 1})
    held = env.reset()[0][0]
    env.hold(None)
    assert env.reset(options={"x": 5.0})[0][0] == env.reset()[0][0] != held  # kept, and not held any more


def test_a_fault_at_the_start_is_that_worlds_alone(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3)
    with pytest.raises(WorldFault, match="below_zero") as fault:
        env.reset(seed=0, options={"x": [1.0, -1.0, 3.0]})
    assert fault.value.mask.tolist() == [False, True, False]
    env.reset(options={"reset_mask": fault.value.mask, "x": [7.0, 8.0, 9.0]})
    assert xs(env) == [1, 8, 3]


def test_a_refused_reset_changes_nothing(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3)
    env.reset(seed=0, options={"x": [1.0, 2.0, 3.0]})
    env.step(torch.tensor([1, 2, 0]))
    before = snapshot(env.sim)

    def reset(line: str) -> None:
        options = eval(line)
        if isinstance(options, dict):
            with pytest.raises((TypeError, ValueError)):
                env.reset(seed=9, options={**options, "reset_mask": torch.tensor([True, True, False])})
        env.reset(seed=9, options=options)

    messages.refused("reset options", reset, lambda: assert_same_bits(before, snapshot(env.sim)))


@pytest.mark.full
def test_the_simulator_knows_no_mask_by_name(walkers: Walkers) -> None:
    sim = Simulator(walkers()(), 3)
    with pytest.raises(ValueError, match=r"^reset has no option 'reset_mask'; it has: x, pair$"):
        sim.reset(options={"reset_mask": torch.ones(3, dtype=torch.bool)})
    with pytest.raises(ValueError, match=r"^reset has no option 'x'; it has: none$"):
        Simulator(walkers(reset_options={})(), 3).reset(options={"x": [1, 2, 3]})


def test_the_first_reset_is_of_all_worlds(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=2)
    with pytest.raises(ResetNeeded):
        env.reset(options={"reset_mask": torch.tensor([True, False]), "x": [1.0, 2.0]})
    env.reset(options={"x": [1.0, 2.0]})
    assert xs(env) == [1, 2]


def test_arrays_that_torch_does_not_view(walkers: Walkers, recwarn: pytest.WarningsRecorder) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3)
    for dtype in (np.uint16, np.uint32, np.uint64, np.float16, np.dtype(">i4")):
        env.reset(options={"x": np.array([1, 2, 3]).astype(dtype)})
        assert xs(env) == [1, 2, 3]
    env.reset(options={"x": np.broadcast_to(np.float32(2), 3)})
    assert xs(env) == [2, 2, 2]
    assert not recwarn.list


# ---- values for all worlds, and held ones --------------------------------------------------------------------------


def test_what_has_no_axis_of_worlds_is_for_all(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=2)
    env.reset(seed=0, options={"x": 3.0, "pair": [1, 2]})  # as many numbers as worlds
    assert xs(env) == [213, 213]
    env.reset(options={"reset_mask": torch.tensor([False, True]), "x": 4, "pair": [[9, 9], [0, 1]]})
    assert xs(env) == [213, 104]
    grouped = GroupedEnv(walkers()(), num_worlds=4, groups=2)
    grouped.async_reset(seed=0, options={"x": [1.0, 2.0, 3.0, 4.0], "pair": [0, 1]})
    assert all(grouped.recv() for _ in range(2))
    assert [x for group in grouped.environments for x in xs(group)] == [101, 102, 103, 104]
    grouped.hold({"x": [5.0, 6.0, 7.0, 8.0]})
    grouped.async_reset()
    assert all(grouped.recv() for _ in range(2))
    assert [x for group in grouped.environments for x in xs(group)] == [105, 106, 107, 108]


def test_an_option_goes_to_a_field(walkers: Walkers) -> None:
    own = {"reset_values": Environment.reset_values, "reset_options": {"x": "Goal.x", "given": "Goal.given"}}
    env = TorchVectorEnv(walkers(**own)(), num_worlds=3)
    env.reset(seed=0, options={"x": [1, 2, 3], "given": 1})
    assert xs(env) == [1, 2, 3]
    with pytest.raises(ValueError, match=r"^given has 300, but Goal\.given is u8: whole numbers from 0 to 255$"):
        env.reset(options={"given": [1, 300, 2]})
    for x, said in (2000, "2000"), (float("nan"), "nan"):
        with pytest.raises(ValueError, match=rf"^x has {said}, but Goal\.x is between -1000\.0 and 1000\.0$"):
            env.reset(options={"x": [1, x, 2]})
    with pytest.raises(TypeError, match=r"^given must be integers, got bool$"):
        env.reset(options={"given": True})
    assert xs(env) == [1, 2, 3]


@pytest.mark.parametrize("executor", ["batch", "per_world"])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_held_options_last_until_they_are_released(walkers: Walkers, executor: str, mode: AutoresetMode) -> None:
    """Where something else is in the kept singletons by then, or is given; what is not held is not touched."""
    env = TorchVectorEnv(walkers()(), num_worlds=3, autoreset_mode=mode, executor=executor)
    end = torch.full((3,), 2)

    def next_episodes() -> list[float]:
        for _ in range(1 if mode is AutoresetMode.SAME_STEP else 2):
            env.step(end)
        return xs(env)

    env.reset(seed=0)
    env.hold({"x": [1.0, 2.0, 3.0]})
    assert xs(env) == [0, 0, 0]
    assert next_episodes() == [1, 2, 3] and env.sim.tensor("Goal.begun").tolist() == [2, 2, 2]
    env.sim.tensor("Goal.x")[...] = 50
    env.sim.tensor("Pair.values")[...] = 1
    assert next_episodes() == [111, 112, 113]
    env.reset(options={"x": 7, "pair": [0, 0]})  # for one episode
    assert xs(env) == [7, 7, 7] and next_episodes() == [1, 2, 3]
    env.hold({"pair": [2, 0]}, mask=torch.tensor([True, False, False]))  # in place of x
    assert next_episodes() == [21, 2, 3]
    env.hold({"x": 9}, mask=torch.tensor([False, True, False]))
    state = env.state_dict()
    env.hold(None)
    env.sim.tensor("Goal.x")[...] = 4
    env.sim.tensor("Pair.values")[...] = 0
    assert next_episodes() == [4, 4, 4]
    other = TorchVectorEnv(walkers()(), num_worlds=3, autoreset_mode=mode)
    for loaded in (env, other):
        loaded.load_state_dict(state)
        loaded.sim.tensor("Goal.x")[...] = 0
        loaded.sim.copy_worlds([1], [2])
        loaded.reset()
        assert xs(loaded) == [20, 9, 9]
    before = TorchVectorEnv(walkers()(), num_worlds=3, autoreset_mode=mode)
    before.reset(seed=0)
    env.load_state_dict(before.state_dict())
    env.reset()
    assert xs(env) == [0, 0, 0], "the state holds nothing"


def test_what_cannot_be_held_is_refused(walkers: Walkers) -> None:
    env = TorchVectorEnv(walkers()(), num_worlds=3)
    env.hold({"x": 5})
    for options, error, says in [
        ({"y": 1}, ValueError, "reset has no option 'y'; it has: x, pair"),
        ({"x": [1, 2]}, ValueError, "x must have a row for each of 3 worlds"),
        ({"x": 13}, ValueError, "x of world 0 must not be 13"),
        (3, TypeError, "options must be a dict or None, got int"),
    ]:
        with pytest.raises(error, match=says):
            env.hold(options)
    env.reset(seed=0)
    assert xs(env) == [5, 5, 5]
    state = env.state_dict()
    state["held"].popitem()
    with pytest.raises(CheckpointError, match="what it holds for later episodes does not fit"):
        env.load_state_dict(state)


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "megakernel", "per_world"])
def test_emulated_devices_hold_the_same(executor: str) -> None:
    sims = [Simulator(COMPILED["hall"](), 5), emulated_simulator("hall", 5, executor)]
    for sim in sims:
        sim.hold({"wind": [1.0, 2.0, 3.0, 4.0, 5.0]}, torch.tensor([True, True, False, True, False]))
        sim.reset(seed=0)
        for step in range(50):
            sim.step()
            sim.tensor("pushes.Wind.strength")[step % 5] = 40
    assert int(sims[0].tensor("World.episode").min()) > 0
    assert_same_bits(snapshot(sims[0]), snapshot(sims[1]))


# ---- declarations --------------------------------------------------------------------------------------------------


def test_refused_values_change_nothing(walkers: Walkers) -> None:
    values: list[Any] = []
    sim = Simulator(walkers(reset_values=lambda self, options, worlds: values[-1])(), 2)
    sim.reset(seed=0)
    before = snapshot(sim)

    def reset(line: str) -> None:
        values.append(eval(line))
        sim.reset(options={"x": [1, 2]})

    messages.refused("reset values", reset, lambda: assert_same_bits(before, snapshot(sim)))


def test_a_wrong_seed_is_refused_before_anything_is_given(walkers: Walkers) -> None:
    sim = Simulator(walkers()(), 2)
    sim.reset(seed=0)
    before = snapshot(sim)
    with pytest.raises(ValueError, match="seed must be"):
        sim.reset(seed=-5, options={"x": [1, 2]})
    assert_same_bits(before, snapshot(sim))


def test_reset_values_must_be_defined(walkers: Walkers) -> None:
    sim = Simulator(walkers(reset_values=Environment.reset_values)(), 2)
    says = r"^Declared has reset_options, but does not define reset_values\(\)$"
    with pytest.raises(NotImplementedError, match=says):
        sim.reset(options={"x": [1, 2]})
    sim.reset()


def test_declarations_are_checked(walkers: Walkers) -> None:
    messages.refused("declared reset options", lambda line: Simulator(walkers(**eval(f"dict({line})"))(), 1))


def test_unsigned_options_are_given_and_held(tmp_path: Path) -> None:
    wide = component("Wide", a=u16, b=u32, c=u64, d=u8)
    environment = declare(
        "TBS_SYSTEM void run(World &world, Wide &wide, Reward &reward) { reward.value = f32(wide.d); }",
        tmp_path,
        archetypes=[Archetype("Agent", Step, Reward, count=1)],
        action="Agent.Step",
        action_space=Discrete(3),
        observation="Agent.Step",
        singletons=[wide],
        kept=[wide],
        step=TaskGraph("run"),
        reset_options={name: f"Wide.{name}" for name in "abcd"},
    )
    sim = Simulator(environment(), 3)
    given = {"a": [1, 2, 65535], "b": [4, 5, 2**32 - 1], "c": [7, 8, 9], "d": [1, 2, 255]}
    sim.reset(seed=1, options=given)
    assert all(sim.tensor(f"Wide.{name}").flatten().tolist() == values for name, values in given.items())
    sim.hold({"b": 6})
    sim.reset()
    assert sim.tensor("Wide.b").flatten().tolist() == [6, 6, 6]
    with pytest.raises(ValueError, match="-1"):
        sim.reset(options={"b": np.int32(-1)})
