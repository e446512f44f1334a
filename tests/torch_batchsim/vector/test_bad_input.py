"""Bad input: one clear sentence at the call, with what was given and what is allowed, and nothing changes."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.error import ClosedEnvironmentError, NameNotFound, NamespaceNotFound, ResetNeeded, VersionNotFound
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode
from support import assert_same_bits, declare, snapshot
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.cartpole.env import CartState, Push

import torch_batchsim
from torch_batchsim import (
    Archetype,
    BuildError,
    CheckpointError,
    Component,
    Constants,
    Environment,
    EpisodeStatistics,
    GroupedEnv,
    Option,
    Parameters,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    TorchVectorWrapper,
    WorldFault,
    boolean,
    component,
    f32,
    i32,
    u8,
)
from torch_batchsim.build import jit
from torch_batchsim.resolve.program import Program

ID = "torch_batchsim/CartPole-v0"


def refused(error: type[Exception], facts: str, call: Callable[[], Any], sim: Simulator | None = None) -> None:
    """``call`` raises exactly ``error``, whose message has each word of ``facts``, and ``sim`` has not changed.

    The message is one line: no stack of causes, no raw Python object in it.
    """
    before = snapshot(sim) if sim else None
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error, f"{raised.type}: {raised.value}"
    text = raised.value.args[0] if error is KeyError else str(raised.value)
    assert all(word in text for word in facts.split()), text
    assert "\n" not in text.strip() and len(text) < 420 and "0x" not in text, text
    assert raised.value.__suppress_context__ or raised.value.__context__ is None, "a cause that says it again"
    if sim:
        assert_same_bits(before, snapshot(sim))


def short(value: Any) -> str:
    """The id of a parameter."""
    return re.sub(r"\W+", " ", str(value))[:40]


@pytest.fixture
def env() -> TorchVectorEnv:
    """CartPole in the middle of things."""
    env = TorchVectorEnv(CartPole(), 4, render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(3):
        env.step(torch.tensor([0, 1, 1, 0]))
    return env


# ---- making --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["tpu", "meta", "mps", "", "cuda:x", None, 1.5], ids=repr)
def test_unknown_device(device: Any) -> None:
    for output in ("torch", "numpy"):
        call = lambda output=output: gymnasium.make_vec(ID, device=device, output=output)  # noqa: E731
        refused(ValueError, f"device 'cpu' 'cuda:<index>' {device!r}", call)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda")], ids=str)
def test_cuda_without_a_gpu_names_the_missing_part(device: Any) -> None:
    missing = "a build of torch with CUDA" if torch.version.cuda is None else "an NVIDIA GPU with its driver"
    refused(RuntimeError, f"{device!r} {missing}", lambda: gymnasium.make_vec(ID, device=device))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_too_many_and_arrays_of_a_gpu() -> None:
    count = torch.cuda.device_count()
    refused(ValueError, f"'cuda:{count}' {count}", lambda: gymnasium.make_vec(ID, device=f"cuda:{count}"))
    refused(ValueError, "'numpy' device='cuda'", lambda: gymnasium.make_vec(ID, device="cuda", output="numpy"))


@pytest.mark.parametrize("count", [0, -1, 2.0, 2.5, "4", True, float("nan"), [3]], ids=repr)
def test_number_of_worlds_that_is_no_positive_integer(count: Any) -> None:
    for name in ("num_envs", "num_worlds"):
        refused(ValueError, f"{name} {count!r}", lambda n=name: gymnasium.make_vec(ID, **{n: count}))
    refused(ValueError, f"num_worlds {count!r}", lambda: Simulator(CartPole(), count))


def test_numbers_of_rows_and_worlds_that_do_not_fit() -> None:
    refused(ValueError, "num_worlds=1000000000000 Cart", lambda: gymnasium.make_vec(ID, num_envs=10**12))
    refused(ValueError, "num_envs 2 4 6 5", lambda: TorchVectorEnv(Duel(), 5))
    refused(ValueError, "num_envs 2 1", lambda: TorchVectorEnv(Duel(), 1))
    refused(ValueError, "num_envs=3 num_worlds=3", lambda: TorchVectorEnv(Duel(), 3, num_worlds=3))


@pytest.mark.parametrize(
    ("argument", "value", "error", "facts"),
    [
        ("autoreset_mode", "sometimes", ValueError, "'NextStep' 'SameStep' 'Disabled' 'sometimes'"),
        ("autoreset_mode", None, ValueError, "autoreset_mode None"),
        ("output", "jax", ValueError, "'torch' 'numpy' 'jax'"),
        ("render_mode", "human", ValueError, "'rgb_array' 'human'"),
        ("copy", 1, TypeError, "copy 1"),
        ("final_obs", None, TypeError, "final_obs None"),
        ("num_threads", 0, ValueError, "num_threads 1024 0"),
        ("num_environments", 3, TypeError, "CartPole 'num_environments'"),
        ("gravty", 3.0, TypeError, "CartPole 'gravty' 'gravity' continuous,"),
        ("gravity", "9.8", TypeError, "gravity number '9.8'"),
        ("gravity", float("nan"), ValueError, "gravity finite nan"),
        ("masspole", 0, ValueError, "masspole 0.0"),
        ("max_episode_steps", 0, ValueError, "max_episode_steps 1 0"),
        ("sutton_barto_reward", 1, TypeError, "sutton_barto_reward True False 1"),
    ],
)
def test_options(argument: str, value: Any, error: type[Exception], facts: str) -> None:
    refused(error, facts, lambda: gymnasium.make_vec(ID, **{argument: value}))


def test_unknown_ids_are_gymnasiums_errors() -> None:
    for id, error in (("/CartPol-v0", NameNotFound), ("/CartPole-v9", VersionNotFound), ("m/A-v0", NamespaceNotFound)):
        with pytest.raises(error):
            gymnasium.make_vec("torch_batchsim" + id)


@pytest.mark.parametrize("environment", [CartPole, "CartPole", None], ids=str)
def test_an_environment_that_is_no_environment(environment: Any) -> None:
    for make in (TorchVectorEnv, Simulator):
        with pytest.raises(TypeError, match="environment must be an instance of Environment"):
            make(environment, 2)


# ---- reset ---------------------------------------------------------------------------------------------------------


def test_a_simulator_takes_no_actions() -> None:
    sim = Simulator(CartPole(), 2)
    refused(TypeError, "sim.tensor('Cart.Push.direction')", lambda: sim.step(torch.zeros(2)))  # type: ignore[arg-type]


def test_step_and_others_before_reset() -> None:
    env = TorchVectorEnv(CartPole(), 3, render_mode="rgb_array")
    actions = torch.zeros(3, dtype=torch.int64)
    mask = torch.ones(3, dtype=torch.bool)
    refused(ResetNeeded, "reset() step()", lambda: env.step(actions), env.sim)
    refused(ResetNeeded, "reset() render()", env.render, env.sim)
    refused(ResetNeeded, "reset() render_world()", lambda: env.render_world(0), env.sim)
    refused(ResetNeeded, "first reset", lambda: env.reset(options={"reset_mask": mask}), env.sim)
    refused(RuntimeError, "first reset", lambda: env.sim.reset(mask), env.sim)
    refused(RuntimeError, "reset() step()", env.sim.step, env.sim)
    refused(RuntimeError, "reset() act_and_step()", lambda: env.sim.act_and_step(actions), env.sim)
    env.reset(seed=0)
    env.step(actions)


@pytest.mark.parametrize("seed", [-1, 2**64, 2.5, "a", True, [1, 2, 3, 4], torch.tensor(3)], ids=repr)
def test_seeds(env: TorchVectorEnv, seed: Any) -> None:
    facts = f"seed 2**64 {seed!r}"
    numpys_own = env.np_random.bit_generator.state
    refused(ValueError, facts, lambda: env.reset(seed=seed), env.sim)
    refused(ValueError, facts, lambda: env.sim.reset(seed=seed), env.sim)
    refused(ValueError, facts, lambda: env.sim.reseed(seed), env.sim)
    assert env.np_random.bit_generator.state == numpys_own


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        (5, TypeError, "options dict int"),
        ({"low": -0.1}, ValueError, "'low' reset_mask"),
        ({"reset_mask": np.ones(3, bool)}, ValueError, "reset_mask [4] [3]"),
        ({"reset_mask": torch.ones(5, dtype=torch.bool)}, ValueError, "reset_mask [4] [5]"),
        ({"reset_mask": torch.ones(4, 1, dtype=torch.bool)}, ValueError, "reset_mask [4] 1]"),
        ({"reset_mask": torch.tensor(True)}, ValueError, "reset_mask [4] []"),
        ({"reset_mask": np.ones(4)}, TypeError, "reset_mask bool float64"),
        ({"reset_mask": torch.ones(4, dtype=torch.bool, device="meta")}, TypeError, "reset_mask memory meta"),
        ({"reset_mask": torch.ones(4, dtype=torch.bool).to_sparse()}, TypeError, "reset_mask dense sparse"),
        ({"reset_mask": torch.ones(4, dtype=torch.uint8)}, TypeError, "reset_mask bool uint8"),
        ({"reset_mask": [True] * 4}, TypeError, "reset_mask tensor array list"),
        ({"reset_mask": True}, TypeError, "reset_mask tensor array bool"),
        ({"reset_mask": np.array(["a"] * 4)}, TypeError, "reset_mask bool"),
        ({"reset_mask": np.array([None] * 4)}, TypeError, "reset_mask bool object"),
    ],
    ids=str,
)
def test_reset_options(env: TorchVectorEnv, options: Any, error: type[Exception], facts: str) -> None:
    for seed in (None, 3):
        refused(error, facts, lambda seed=seed: env.reset(seed=seed, options=options), env.sim)


def test_masks_of_rows_that_split_a_world() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=3)
    env.reset(seed=0)
    for mask in (torch.tensor([1, 0, 0, 0, 1, 1]).bool(), np.array([1, 1, 0, 1, 1, 1], bool)):
        refused(ValueError, "reset_mask agents", lambda m=mask: env.reset(options={"reset_mask": m}), env.sim)
    refused(ValueError, "[6] [3] [5]", lambda: env.reset(options={"reset_mask": np.ones(5, bool)}), env.sim)
    refused(ValueError, "mask [3] [6]", lambda: env.sim.reset(np.ones(6, bool)), env.sim)


def test_the_single_environments_options() -> None:
    env = gymnasium.make(ID).unwrapped
    env.reset(seed=0)
    refused(ValueError, "'low'", lambda: env.reset(options={"low": 1}), env.sim)
    refused(ValueError, "seed", lambda: env.reset(seed=-1), env.sim)


@pytest.mark.parametrize(
    ("continuous", "action", "error", "facts"),
    [
        (False, np.array([1]), ValueError, "Discrete(2) array([1]) [1]"),
        (False, [1, 0], ValueError, "Discrete(2) [1, 0] [2]"),
        (False, torch.tensor([[1]]), ValueError, "tensor([[1]]) [1, 1]"),
        (False, [[1], [1, 2]], TypeError, "Discrete(2) [[1], 2]]"),
        (False, 1.0, TypeError, "Discrete(2) integers 1.0"),
        (False, "left", TypeError, "Discrete(2) 'left'"),
        (False, None, TypeError, "Discrete(2) None"),
        (True, 0.5, ValueError, "Box(-1.0, 0.5 [] [1]"),
    ],
    ids=str,
)
def test_actions_of_a_single_environment(continuous: bool, action: Any, error: type[Exception], facts: str) -> None:
    env = gymnasium.make(ID, continuous=continuous)
    env.reset(seed=0)
    with pytest.raises(error) as raised:
        env.step(action)
    assert all(word in str(raised.value) for word in facts.split()), raised.value
    assert env.unwrapped.sim.tensor("World.step").item() == 0


def test_masks_before_the_first_reset() -> None:
    id = "torch_batchsim/Hanabi-v0"
    env = gymnasium.make_vec(id, num_envs=2)
    singles = [gymnasium.make(id, **each).unwrapped for each in ({}, {"turns": "all"}, {"as_agent": 0})]
    masks = [env.action_masks, env.get_action_masks, env.sample_actions, *(single.action_masks for single in singles)]
    for call in masks:
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before \w+\(\)"):
            call()
    assert TorchVectorEnv(CartPole(), 2).sample_actions().shape == (2,)  # all of which are legal


# ---- actions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "error", "facts"),
    [
        (torch.zeros(3, dtype=torch.int64), ValueError, "[4] [3]"),
        (torch.zeros(4, 1, dtype=torch.int64), ValueError, "[4] 1]"),
        (0, ValueError, "[4] []"),
        (np.zeros((), np.int64), ValueError, "[4] []"),
        ([[0, 1], [1]], ValueError, "[4] ragged"),
        (torch.zeros(4), TypeError, "int64 int32 int16 int8 uint8 bool float32"),
        (torch.full((4,), float("nan")), TypeError, "float32"),
        (np.zeros(4), TypeError, "float64"),
        (torch.zeros(4, dtype=torch.complex64), TypeError, "complex64"),
        (torch.zeros(4, dtype=torch.float16), TypeError, "float16"),
        (torch.zeros(4, dtype=torch.uint16), TypeError, "uint16"),
        (np.array(["left"] * 4), TypeError, "numbers <U4"),
        (np.array([None] * 4), TypeError, "numbers object"),
        (None, TypeError, "tensor array NoneType"),
        ("left", TypeError, "tensor array str"),
        (torch.zeros(4, dtype=torch.int64, device="meta"), ValueError, "cpu meta"),
        (torch.nested.nested_tensor([torch.zeros(4, dtype=torch.int64)]), TypeError, "dense nested"),
        (torch.zeros(4, dtype=torch.int64).to_sparse(), TypeError, "dense layout"),
        (torch.tensor([0, 1, 2, 0]), ValueError, "2 world Discrete(2) stepped"),
        (torch.tensor([0, -1, 2, 0]), ValueError, "-1 world 1 Discrete(2)"),
        (np.array([1, 0, 0, 255], np.uint8), ValueError, "255 world 3"),
        (np.array([2**40, 0, 0, 0]), ValueError, f"{2**40} world 0"),
        (np.array([-(2**63), 0, 0, 0]), ValueError, f"{-(2**63)} world 0"),
        (np.array([0, 2**63, 0, 0], np.uint64), ValueError, f"64 sign {2**63}"),
        ([0, 0, 0, 9], ValueError, "9 world 3"),
    ],
    ids=short,
)
def test_discrete_actions(env: TorchVectorEnv, actions: Any, error: type[Exception], facts: str) -> None:
    refused(error, f"action {facts}", lambda: env.step(actions), env.sim)
    env.step(torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(float("nan"), torch.float32), (float("inf"), torch.float64), (1.5, torch.float32), (-1.0000002, torch.float32)],
)
def test_box_actions(value: float, dtype: torch.dtype) -> None:
    env = TorchVectorEnv(Drift(), 4)
    env.reset(seed=0)
    env.step(torch.zeros(4, 3))
    actions = torch.zeros(4, 3, dtype=dtype)
    actions[2, 0] = value
    facts = f"action {actions[2, 0].item()} of world 2, element 0 Box(-1.0"
    refused(ValueError, facts, lambda: env.step(actions), env.sim)
    refused(TypeError, "float32 float64 bool", lambda: env.step(actions.bool()), env.sim)
    refused(ValueError, "[4, 3] [4]", lambda: env.step(actions[:, 0]), env.sim)
    actions[2, 0] = 1.0  # the bounds themselves are allowed
    actions[3, 0] = -1.0
    env.step(actions)


def test_multidiscrete_actions_name_world_agent_and_element() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=3)
    env.reset(seed=0)
    actions = torch.zeros(6, 2, dtype=torch.int64)
    actions[5, 1] = 2
    with pytest.raises(ValueError, match=r"action 2 of world 2, agent 1, element 1 .*MultiDiscrete\(\[3 2\]\)"):
        env.step(actions)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_bad_action_among_many(threads: int) -> None:
    """The first of them is named, whichever thread finds one."""
    env = TorchVectorEnv(CartPole(), 40_000, num_threads=threads)
    env.reset(seed=0)
    env.step(torch.ones(40_000, dtype=torch.int64))
    actions = torch.zeros(40_000, dtype=torch.int64)
    actions[[39_999, 31_234]] = torch.tensor([4, 5])
    refused(ValueError, "5 31234", lambda: env.step(actions), env.sim)


def test_an_action_outside_a_space_with_a_start() -> None:
    env = TorchVectorEnv(_walk(action_space=Discrete(3, start=-1))(), 2)
    env.reset(seed=0)
    env.step(torch.tensor([-1, 1]))
    refused(ValueError, "2 world 1 start=-1", lambda: env.step(torch.tensor([0, 2])), env.sim)


# ---- habits of Stable-Baselines3's users ---------------------------------------------------------------------------

VEC_ENV = "torch_batchsim.adapters.stable_baselines3.StableBaselinesVecEnv"


@pytest.mark.parametrize("wrapper", [None, EpisodeStatistics, TorchVectorWrapper], ids=short)
def test_methods_of_its_vector_environments(env: TorchVectorEnv, wrapper: type | None) -> None:
    names = "step_async", "step_wait", "seed", "set_options", "env_method", "env_is_wrapped", "get_images"
    wrapped = wrapper(env) if wrapper else env
    for name in names:  # as attributes: hasattr must go on to say that there are none
        refused(AttributeError, f"'{name}' {VEC_ENV}", lambda name=name: getattr(wrapped, name), env.sim)
        assert not hasattr(wrapped, name)
    refused(AttributeError, "reset(seed=...)", lambda: wrapped.seed(0))
    refused(TypeError, f"get_attr indices None {VEC_ENV}", lambda: wrapped.get_attr("render_mode", None))
    refused(TypeError, f"set_attr indices [1] {VEC_ENV}", lambda: wrapped.set_attr("note", 1, [1]))
    with pytest.raises(AttributeError) as other:
        _ = env.steps
    assert "Stable-Baselines3" not in str(other.value) and not env.has_attr("note")


@pytest.mark.parametrize("rows", [1, 4])
def test_the_action_of_one_row(rows: int) -> None:
    env = gymnasium.make_vec(ID, num_envs=rows)
    env.reset()
    for action in (1, np.int64(1), env.single_action_space.sample()):
        refused(ValueError, f"[{rows}] [] gymnasium.make {VEC_ENV}", lambda a=action: env.step(a), env.sim)
    box = gymnasium.make_vec("torch_batchsim/CartPoleContinuous-v0", num_envs=rows + 1)
    box.reset()
    refused(ValueError, f"[{rows + 1}, 1] [1] {VEC_ENV}", lambda: box.step(box.single_action_space.sample()), box.sim)
    with pytest.raises(ValueError) as other:
        env.step([0] * (rows + 1))
    assert str(other.value) == f"actions must have shape [{rows}], got [{rows + 1}]"


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "error", "facts"),
    [
        ({"observations": torch.zeros(4, 5)}, ValueError, "1, [4, 4] 5]"),
        ({"observations": np.zeros((4, 4), np.float32)}, TypeError, "ndarray"),
        ({"observations": torch.zeros(4, 4).double()}, TypeError, "torch.float32 torch.float64"),
        ({"observations": torch.zeros(4, 4).T}, ValueError, "contiguous"),
        ({"observations": {"x": torch.zeros(4, 4)}}, ValueError, "observations 'x'"),
        ({"rewards": torch.zeros(4, requires_grad=True)}, ValueError, "gradient"),
        ({"rewards": torch.zeros(4, device="meta")}, ValueError, "cpu meta"),
        ({"rewards": torch.zeros(1).expand(4)}, ValueError, "contiguous"),
        ({"terminations": torch.zeros(4)}, TypeError, "terminations torch.bool torch.float32"),
        ({"truncations": torch.zeros(4, 1)}, TypeError, "truncations torch.bool"),
        ({"final_obs": torch.zeros(4)}, ValueError, "1, [4, 4] [4]"),
        ({"actions": torch.zeros(4)}, TypeError, "torch.int32 torch.float32"),
        ({"action_mask": torch.zeros(4)}, ValueError, "action_mask none"),
    ],
    ids=short,
)
def test_bind(env: TorchVectorEnv, bound: dict[str, Any], error: type[Exception], facts: str) -> None:
    zeros = torch.zeros(4, dtype=torch.int64)
    before = [tensor.data_ptr() for tensor in env.step(zeros)[:4]]
    env.step(zeros)  # their places take turns
    good = {"terminations": torch.zeros(4, dtype=torch.bool), "final_obs": torch.zeros(4, 4)}
    refused(error, facts, lambda: env.bind(**(good | bound)), env.sim)
    assert [tensor.data_ptr() for tensor in env.step(zeros)[:4]] == before


def test_bind_of_final_obs_where_it_is_missing_and_of_one_tensor_for_two(env: TorchVectorEnv) -> None:
    later = TorchVectorEnv(CartPole(), 4, autoreset_mode=AutoresetMode.NEXT_STEP)
    refused(ValueError, "final_obs SAME_STEP", lambda: later.bind(final_obs=torch.zeros(4, 4)), later.sim)
    tensor = torch.zeros(4, 4)
    refused(ValueError, "different", lambda: env.bind(observations=tensor, final_obs=tensor), env.sim)


def test_names_of_tensors(env: TorchVectorEnv) -> None:
    sim = env.sim
    refused(KeyError, "'Crt.CartState' 'Cart.CartState'? columns:", lambda: sim.tensor("Crt.CartState"))
    refused(KeyError, "CartState 'y' x, x_dot, theta, theta_dot", lambda: sim.tensor("Cart.CartState.y"))
    refused(AttributeError, "CartState 'y' x, x_dot, theta, theta_dot", lambda: sim.Cart.CartState.y)
    refused(KeyError, "'CartState.x' 'Cart.CartState.x'?", lambda: sim.tensor("CartState.x"))
    refused(TypeError, "by_world list", lambda: env.by_world([1, 2, 3, 4]))
    refused(TypeError, "name 'cartpole'", lambda: torch_batchsim.make_vec(5))
    refused(ValueError, "mask [4] [1]", lambda: env.hold({}, np.ones(1, bool)))
    refused(AttributeError, "Simulator 'Crat' 'Cart'?", lambda: sim.Crat)
    refused(KeyError, "step, episode, terminated, truncated", lambda: sim.tensor("World.time"))
    for name, dtype in (("Cart.CartState.x", torch.float32), ("World.step", torch.int32)):
        refused(ValueError, f"{name} bound", lambda n=name, d=dtype: sim.bind(n, torch.zeros(4, dtype=d)))
    drift = Simulator(Drift(), 2)
    refused(TypeError, "Particle.Trail types Particle.Trail.flips,", lambda: drift.tensor("Particle.Trail"))


@pytest.mark.parametrize(
    ("source", "target", "error", "facts"),
    [
        ([0], [4], ValueError, "target 0 3 4"),
        ([-1], [2], ValueError, "source 0 3 -1"),
        ([0], [1, 2], ValueError, "length 1 2"),
        ([0, 1], [2, 2], ValueError, "distinct"),
        ([0.0], [2], TypeError, "source [k] torch.float32 [1]"),
        ("a", [2], TypeError, "source [k] 'a'"),
        ([True, False, False, False], [1], TypeError, "source [k] torch.bool"),
        (0, 1, TypeError, "source [k] torch.int64 []"),
    ],
    ids=str,
)
def test_copy_worlds(env: TorchVectorEnv, source: Any, target: Any, error: type[Exception], facts: str) -> None:
    refused(error, facts, lambda: env.sim.copy_worlds(source, target), env.sim)


def test_worlds_to_draw(env: TorchVectorEnv) -> None:
    for world in (4, -1, 1.0, "a"):
        refused(ValueError, f"world 0 3 {world!r}", lambda w=world: env.render_world(w))


# ---- checkpoints ---------------------------------------------------------------------------------------------------


def test_checkpoints(env: TorchVectorEnv) -> None:
    class Other(CartPole):
        parameters = Parameters(**{**CartPole.parameters.options, "wind": 0.0})

    Other.__name__ = "CartPole"
    good = env.state_dict()
    tensors = good["tensors"]
    (state,) = (name for name in tensors if name.endswith("column_Cart_CartState"))
    lacking = {**good, "tensors": {k: v for k, v in tensors.items() if k != state}}
    for bad, facts in (
        (None, "NoneType 'format'"),
        ({"weight": torch.zeros(3)}, "dict 'format'"),  # a model's
        ({**good, "format": 4}, "4 3"),
        (TorchVectorEnv(Drift(), 4).state_dict(), "environment Drift, CartPole"),
        (TorchVectorEnv(CartPole(gravity=1.6), 4).state_dict(), "gravity 1.6, 9.8"),
        (TorchVectorEnv(Other(), 4).state_dict(), "wind 0.0, None"),
        (TorchVectorEnv(CartPole(), 5).state_dict(), "5 4"),
        ({"format": 3}, "'signature'"),
        ({**good, "tensors": None}, "'tensors' NoneType"),
        ({k: v for k, v in good.items() if k != "started"}, "'started'"),
        (lacking, f"{state} 64"),
        ({**good, "tensors": {**tensors, "seed": torch.zeros(24, dtype=torch.uint8)}}, "seed 32"),
        ({**good, "tensors": {**tensors, "seed": [1, 2, 3, 4]}}, "seed 32"),
    ):
        for loader in (env, env.sim):
            refused(CheckpointError, facts, lambda one=loader, bad=bad: one.load_state_dict(bad), env.sim)
    env.step(torch.zeros(4, dtype=torch.int64))


def test_ended_worlds_have_no_place_in_same_step() -> None:
    """They await a reset, which SAME_STEP has done already: they would go on beyond their end."""
    waiting = TorchVectorEnv(CartPole(max_episode_steps=1), 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    waiting.reset(seed=0)
    waiting.step(torch.zeros(2, dtype=torch.int64))
    env = TorchVectorEnv(CartPole(max_episode_steps=1), 2)
    env.reset(seed=0)
    refused(CheckpointError, "ended SAME_STEP", lambda: env.load_state_dict(waiting.state_dict()), env.sim)
    waiting.step(torch.zeros(2, dtype=torch.int64))
    env.load_state_dict(waiting.state_dict())


def test_a_closed_environment_refuses_everything(env: TorchVectorEnv) -> None:
    state = env.state_dict()
    env.close()
    single = gymnasium.make(ID, render_mode="rgb_array").unwrapped
    single.reset()
    single.close()
    calls: list[Callable[[], Any]] = [
        lambda: env.step(torch.zeros(4, dtype=torch.int64)),
        env.reset,
        lambda: env.reset(seed=1),
        env.render,
        lambda: env.render_world(0),
        lambda: env.bind(rewards=torch.zeros(4)),
        env.state_dict,
        lambda: env.load_state_dict(state),
        env.check_faults,
        lambda: single.step(0),
        single.reset,
        single.render,
    ]
    for call in calls:
        refused(ClosedEnvironmentError, "closed", call, env.sim)


def test_samples_where_nothing_is_legal() -> None:
    env = torch_batchsim.make_vec("torch_batchsim/Hanabi-v0", num_worlds=3)
    env.reset(seed=0)
    env.action_mask[1] = False
    refused(ValueError, "world 1 legal", env.sample_actions)
    env.sim.memory.columns["ended"][1] = 1
    env.sample_actions()


def test_a_fault_of_nan_is_one_sentence() -> None:
    env = TorchVectorEnv(Drift(), 3)
    env.reset(seed=0)
    env.sim.Particle.Body.position[1] = float("nan")
    refused(WorldFault, "world 1: nan", lambda: env.step(torch.zeros(3, 3)))
    env.reset(options={"reset_mask": torch.tensor([False, True, False])})
    env.step(torch.zeros(3, 3))


# ---- declarations --------------------------------------------------------------------------------------------------


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


class Time(Component):
    now: i32


WALK = """
TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step, Reward &reward) {
    spot.x += f32(step.towards);
    reward.value = spot.x;
}
"""
WALKER = Archetype("Walker", Spot, Step, Reward, count=1)


def _walk(text: str = WALK, folder: Path | None = None, **changes: Any) -> type[Environment]:
    attributes = {
        "archetypes": (WALKER,),
        "step": TaskGraph("walk"),
        "observation": "Walker.Spot",
        "action": "Walker.Step.towards",
        "action_space": Discrete(2),
    }
    return declare(text, folder, **(attributes | changes))


def test_the_walk_itself_is_sound() -> None:
    Program(_walk()())
    Program(_walk("", step=TaskGraph())())


@pytest.mark.parametrize("annotation", [float, int, list, np.float32, torch.float32, "float", "f33", 3, None], ids=str)
def test_a_field_of_unknown_type(annotation: Any) -> None:
    call = lambda: type("Wrong", (Component,), {"__annotations__": {"right": f32, "wrong": annotation}})  # noqa: E731
    refused(SchemaError, "Wrong known types: f32, boolean, vec2, quat" + " 'f33'" * (annotation == "f33"), call)


@pytest.mark.parametrize("extent", [0, -1, 2.5, True, "3", (2, 0)], ids=repr)
def test_extents_of_arrays(extent: Any) -> None:
    refused(TypeError, "f32[...] positive", lambda: f32[extent])
    refused(TypeError, "f32[2] f32[2,", lambda: f32[2][3])


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("const Step &step", "const Stp &step", "systems.h:2: 'walk' 'Stp' 'Step'? Reward, Spot,"),
        ("void walk", "int walk", "'walk' void 'int'"),
        ("World &world", "World world", "'walk' 'World world'"),
        ("const Step &step", "Walker &step", "'Walker' archetype"),
        ("spot, ", "spot ", "'walk' comma"),
        ("World &world, ", "", "systems.h:2: first 'walk' World &"),
        ("Spot &spot", "Spot spot", "systems.h:2: 'walk' copy"),
        ("Spot &spot", "Spot *spot", "systems.h:2: *spot' 'walk'"),
        ("walk", "wolk", "'step' Declared 'walk' systems.h"),
        (WALK, WALK + WALK, "systems.h:7: 'walk' twice systems.h:2"),
        ("const Step &step", "const Spot &step", "systems.h:2: Spot twice"),
        ("const Step &step", "World &other", "World twice"),
        ("Reward &reward)", "Reward &reward, const Time &time)", "systems.h:2: 'walk' Spot, Step, Reward, Time"),
        (WALK, "", "'walk' systems.h none"),
        (WALK, "TBS_FUNCTION void walk(World &world) {}", "'walk' function TBS_SYSTEM"),
        ("TBS_SYSTEM", "// #include <map>\n#include <vector>\nTBS_SYSTEM", "systems.h:3: <vector>"),
    ],
)
def test_systems_that_are_not_understood(old: str, new: str, facts: str) -> None:
    archetypes = (WALKER, Archetype("Stone", Time, count=2))
    environment = _walk(WALK.replace(old, new), archetypes=archetypes)
    refused(SchemaError, facts, lambda: Simulator(environment(), 1))


def test_a_missing_systems_file(tmp_path: Path) -> None:
    environment, file = _walk(folder=tmp_path), tmp_path / "systems.h"
    file.unlink()
    refused(SchemaError, f"{file} exist", lambda: Simulator(environment(), 1))
    file.mkdir()
    refused(SchemaError, f"{file} folder", lambda: Simulator(environment(), 1))


class SmallStep(Component):
    towards: u8


class LongMask(Component):
    legal: boolean[7]


SMALL = {"archetypes": (Archetype("Walker", Spot, SmallStep, Step, Reward, count=1),), "action": "Walker.SmallStep"}
MASKED = {"archetypes": (Archetype("Walker", Spot, Step, LongMask, Reward, count=1),), "action_mask": "Walker.LongMask"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"action": ""}, "'action' column"),
        ({"action": None}, "action name None"),
        ({"action": "Walker.Stp"}, "'Walker.Stp' 'Walker.Step'?"),
        ({"action_space": None}, "range between(0, action_space"),
        ({"action_space": MultiBinary(3)}, "Discrete, MultiDiscrete Box, MultiBinary(3)"),
        ({"action_space": Box(-1, 1, (2,))}, "fit Walker.Step"),
        ({"action_space": Box(-1, 1, ())}, "fit Walker.Step torch.int32"),
        ({**SMALL, "action_space": Discrete(257)}, "Discrete(257) Walker.SmallStep torch.uint8"),
        ({**SMALL, "action_space": Discrete(3, start=-1)}, "start=-1) Walker.SmallStep torch.uint8"),
        ({"action_mask": "Walker.Spot"}, "action_mask 'Walker.Spot' booleans"),
        (MASKED, "Discrete(2) 2 [7]"),
        ({"observation": ""}, "observation columns: Walker.Spot, Walker.Step,"),
        ({"observation": "Spot"}, "'Spot' 'Walker.Spot'?"),
        ({"observation": "Walker.Spot.y"}, "Spot 'y' x"),
        ({"observation": Spot}, "test_bad_input.Spot 'Walker.Spot'"),
        ({"observation": ["Walker.Spot"]}, "observation dict ['Walker.Spot']"),
        ({"observation_space": Box(-1, 1, (2,))}, "fit Walker.Spot"),
        ({"observation_space": Box(-1, 1, (), np.float64)}, "fit Walker.Spot float32"),
        ({"archetypes": (Archetype("Walker", Spot, Step, count=1),)}, "'Reward'"),
        ({"archetypes": (WALKER,) * 2}, "Walker twice"),
        ({"archetypes": WALKER}, "archetypes list tuple"),
        ({"archetypes": []}, "Declared archetypes agents"),
        ({"archetypes": [Spot, Step]}, "archetypes Archetype(...)"),
        ({"singletons": Spot}, "singletons list tuple test_bad_input.Spot"),
        ({"singletons": (Spot,)}, "Spot singleton archetype"),
        ({"constants": {"size": 9}}, "Constants(size=9)"),
        ({"parameters": 3}, "parameters Parameters(...)"),
        ({"metadata": {"score": "sum"}}, "score 'sum' info"),
        ({"metadata": {"figures": ("sum",)}}, "figure 'sum' info"),
        ({"faults": ("nan",)}, "Declared 'nan' engine"),
        ({"faults": ("lost", "lost")}, "Declared 'lost' twice"),
        ({"faults": ("no good",)}, "'no good'"),
        ({"faults": "lost"}, "faults list tuple 'lost'"),
        ({"info": {"spot": "Walker.Spt"}}, "'Walker.Spt' 'Walker.Spot'?"),
        ({"info": {"final_obs": "Walker.Spot"}}, "info 'final_obs'"),
        ({"info": {"_mine": "Walker.Spot"}}, "info '_mine'"),
        ({"start": TaskGraph("begin")}, "'start' Declared 'begin' systems.h"),
        ({"step": None}, "Declared step TaskGraph None"),
        ({"step": ["walk"]}, "TaskGraph ['walk'] TaskGraph('walk')"),
        ({"step_counters": "Walker.Spot"}, "step_counters tuple 'Walker.Spot'"),
        ({"systems": "TBS_SYSTEM void walk(World &) {}"}, "header 'systems.h' text"),
    ],
    ids=short,
)
def test_declarations(changes: dict[str, Any], facts: str) -> None:
    refused(SchemaError, facts, lambda: TorchVectorEnv(_walk(**changes)(), num_worlds=1))


def test_an_environment_without_a_step() -> None:
    attributes = {name: vars(_walk())[name] for name in ("archetypes", "observation", "action", "action_space")}
    refused(SchemaError, "Declared 'step' TaskGraph(", lambda: Simulator(declare("", **attributes)(), 1))


@pytest.mark.parametrize(
    ("declaration", "error", "facts"),
    [
        (lambda: Archetype("Cart", CartState, count=0), SchemaError, "Cart count 2147475456 0"),
        (lambda: Archetype("Cart", CartState, count=True), SchemaError, "Cart count True"),
        (lambda: Archetype("Cart", CartState, count=2.0), SchemaError, "Cart count 2.0"),
        (lambda: Archetype("Cart", CartState, count=2**31), SchemaError, "Cart count"),
        (lambda: Archetype("Cart", count=1), SchemaError, "Cart components"),
        (lambda: Archetype("Cart", CartState, CartState, count=1), SchemaError, "Cart twice"),
        (lambda: Archetype("Cart", "CartState", count=1), SchemaError, "Cart 'CartState' component"),
        (lambda: Archetype("Cart", Drift, count=1), SchemaError, "component Drift(Component)"),
        (lambda: Archetype(CartState, count=1), SchemaError, 'Archetype("CartStates"'),
        (lambda: Archetype("Cart", Component, count=1), SchemaError, "component class"),
        (lambda: Archetype("class", CartState, Push, count=1), SchemaError, "'class'"),
        (lambda: Archetype("my cart", CartState, count=1), SchemaError, "'my cart' letters"),
        (lambda: Archetype("a__b", CartState, count=1), SchemaError, "'a__b'"),
        (lambda: Archetype("Cart", Push, cuont=2), TypeError, "'cuont' 'count'?"),
        (lambda: TaskGraph("a", 3), SchemaError, "name Repeat(times, 3"),
        (lambda: component("Empty"), SchemaError, "Empty fields"),
        (lambda: component("Bad", int=f32), SchemaError, "Bad 'int'"),
        (lambda: component("lambda", x=f32), SchemaError, "'lambda'"),
        (lambda: type("Loose", (Component,), {"x": f32[2], "__annotations__": {"y": f32}}), SchemaError, "Loose: x"),
        (lambda: type("Wider", (Spot,), {"__annotations__": {"width": f32}}), SchemaError, "Wider Component only"),
        (lambda: Parameters(wind=[1]), SchemaError, "wind [1] bool, int, float"),
        (lambda: Parameters(name="a"), SchemaError, "name 'a' bool, int, float"),
        (lambda: Constants(wind=None), SchemaError, "bool, int, float, str"),
        (lambda: Parameters(**{"for": 1}), SchemaError, "'for'"),
        (lambda: Parameters(copy=1), SchemaError, "'copy'"),  # others take these arguments
        (lambda: Parameters(device=1), SchemaError, "'device'"),
        (lambda: Parameters(num_envs=1), SchemaError, "'num_envs'"),
        (lambda: Parameters(render_mode=1), SchemaError, "'render_mode'"),
        (lambda: Parameters(wind=Option(1, minimum=2)), ValueError, "wind 2, 1"),
        (lambda: Option(5, minimum="a"), SchemaError, "minimum 'a'"),
        (lambda: Option(5, minimum=9, maximum=1), SchemaError, "minimum 9 maximum 1"),
        (lambda: Option("a", choices="abc"), SchemaError, "choices tuple 'abc'"),
        (lambda: Option(10, minimun=2), TypeError, "'minimun' 'minimum'?"),
        (lambda: torch_batchsim.between(5), TypeError, "between 'high' low,"),
        (lambda: torch_batchsim.register("a/B-v0", CartPole, foo=3), TypeError, "register 'foo' id,"),
        (
            lambda: torch_batchsim.register("test/E-v0", type("Endless", (Environment,), {}), max_episode_steps=5),
            TypeError, "Endless max_episode_steps",
        ),
    ],
)  # fmt: skip
def test_parts_of_declarations(declaration: Callable[[], Any], error: type[Exception], facts: str) -> None:
    refused(error, facts, declaration)


# ---- attributes without a meaning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "facts"),
    [
        ({"setp": TaskGraph("walk")}, "'setp' 'step'?"),
        ({"strat": TaskGraph("walk")}, "'strat' 'start'?"),
        ({"observaton": "a.B"}, "'observaton' 'observation'?"),
        ({"mask": "Walker.Legal"}, "'mask' 'action_mask'?"),
        ({"metadata": {"scor": "x"}}, "'scor' 'score'?"),
        ({"render": 5}, "render method 5"),
        ({"prepare": lambda self: None}, "prepare() Library"),
        ({"metadata": ["fast"]}, "metadata dict ['fast']"),
        ({"sweep": 3}, "sweep dict 3"),
        ({"library_options": ["grid"]}, "library_options dict"),
        ({"name": 3}, "name string 3"),
        ({"agents": 3}, "'agents' archetype"),
        ({"num_envs": 3}, "worlds make_vec("),
        ({"max_episode_steps": 200}, "Parameters(max_episode_steps="),
        ({"reset": TaskGraph("walk")}, "TaskGraph("),
        ({"training": {"threads": 1}}, "{'threads': 1}"),
    ],
)
def test_attributes_that_mean_nothing(attributes: dict[str, Any], facts: str) -> None:
    held = {"observation": "Walker.Spot", "action": "Walker.Step", **attributes}
    refused(SchemaError, f"Declared {facts}", lambda: declare("", **held))


def test_attributes_of_the_author() -> None:
    """Names far from the engine's attributes, or with values of another kind, are the author's own."""
    agents = property(lambda self: self.constants.agents)  # read by a property of theirs
    declare("", steps_to_goal=3, physics=TaskGraph("walk"), observation="a.B", observations=[1], agents=agents)


# ---- registering ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "environment", "error", "facts"),
    [
        ("Maze-v0", "maze:Maze", ValueError, "'my_project/Maze-v0' 'Maze-v0'"),
        ("mine/Maze", "maze:Maze", ValueError, "'my_project/Maze-v0' 'mine/Maze'"),
        ("mine/Maze-v0", "Maze", ValueError, "'module:Class' 'Maze'"),
        ("mine/Maze-v0", 3, TypeError, "Environment 'module:Class' 3"),
        ("mine/Maze-v0", dict, TypeError, "Environment 'module:Class'"),
        ("mine/Maze-v0", CartPole(), TypeError, "instance CartPole class"),
    ],
)
def test_bad_registrations(id: str, environment: Any, error: type[Exception], facts: str) -> None:
    refused(error, facts, lambda: torch_batchsim.register(id, environment))


def test_registered_names_that_lead_nowhere() -> None:
    for name, environment, error, facts in (
        ("Nowhere", "no_such_module:Maze", ValueError, "'no_such_module:Maze' 'no_such_module' missing"),
        ("Nobody", "os:Nobody", ValueError, "module os 'Nobody'"),
        ("Function", "os:getcwd", TypeError, "Environment 'cartpole' 'file.py'"),
    ):
        torch_batchsim.register(f"bad_input/{name}-v0", environment)
        refused(error, facts, lambda name=name: gymnasium.make_vec(f"bad_input/{name}-v0"))
    refused(ValueError, "'cartpol' 'cartpole'?", lambda: torch_batchsim.make_vec("cartpol"))


def test_an_id_is_registered_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # as a notebook does that runs a cell again
            torch_batchsim.register("bad_input/Again-v0", "os:Nobody")
    with pytest.warns(UserWarning, match="os:Nobody.*os:Other"):
        torch_batchsim.register("bad_input/Again-v0", "os:Other")
    assert gymnasium.spec("bad_input/Again-v0").kwargs["environment"] == "os:Other"


WALKS = """
import torch_batchsim
from environments.drift import Drift
class {0}(Drift): pass
class {1}(Drift): pass
torch_batchsim.register("walks/{0}-v0", {0})
"""


def test_environments_of_files_and_modules_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, empty, header = (tmp_path / name for name in ("walks_one.py", "walks_none.py", "walks.h"))
    file.write_text(WALKS.format("OneWalk", "OneOther"))
    empty.write_text("")
    header.write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in (str(file), f"{file}:OneWalk", f"{file}:walks/OneWalk-v0", "walks_one:OneWalk", "walks/OneWalk-v0"):
        assert torch_batchsim.find_id(name) == "walks/OneWalk-v0"
    for name, facts in (
        (f"{file}:OneOther", f"'OneOther' {file}:walks/OneWalk-v0"),
        ("walks_one", "'walks_one' cartpole walks_one:my_project/Name-v0"),
        (str(tmp_path), "Python"),
        (str(header), "Python"),
        ("walks/Two-v0", "'walks/Two-v0' 'walks/OneWalk-v0'?"),
        ("nowhere.py", "file nowhere.py"),
        (str(empty), "walks_none.py registers"),
    ):
        refused(ValueError, facts, lambda name=name: torch_batchsim.find_id(name))
    assert torch_batchsim.make_vec(str(file), num_envs=2).sim.environment.name == "OneWalk"


ENTRIES = {
    "from roads.env import Road": "roads/Road-v0",
    "from roads.env import Road as Way": "roads/Road-v0",
    "from roads.env import *": "roads/Road-v0",
    "import roads.env": "roads/Road-v0",
    "from roads.env import Road\ntorch_batchsim.register('entry/Mine-v0', Road)": "entry/Mine-v0",
    "torch_batchsim.register('entry/Text-v0', 'roads.env:Road')": "entry/Text-v0",
    "from roads.env import Road\nclass Own(Road): pass\ntorch_batchsim.register('entry/Own-v0', Own)": "entry/Own-v0",
    "from roads.env import Road\nclass Unregistered(Road): pass": "my_project/Unregistered-v0 Unregistered",
    "from roads.bare import Bare": "my_project/Bare-v0 Bare",
    "from roads.env import Road\nfrom torch_batchsim.envs.cartpole import CartPole": "several CartPole-v0 Road-v0",
    "": "registers no environment Name",
}


@pytest.mark.parametrize("text", ENTRIES, ids=range(len(ENTRIES)))
def test_a_file_may_take_its_class_from_elsewhere(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of its own comes first, then what it registers, then what it imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    registered, loaded = dict(gymnasium.registry), set(sys.modules)
    for name in [name for name in registered if not name.startswith("torch_batchsim/")]:  # by other tests
        del gymnasium.registry[name]
    (tmp_path / "roads").mkdir()
    (tmp_path / "roads" / "bare.py").write_text("from environments.drift import Drift\nclass Bare(Drift): pass\n")
    road = "import torch_batchsim\nfrom environments.drift import Drift\nclass Road(Drift): pass\n"
    (tmp_path / "roads" / "env.py").write_text(f"{road}torch_batchsim.register('roads/Road-v0', Road)\n")
    file, found = tmp_path / "road_entry.py", ENTRIES[text]
    file.write_text(f"import torch_batchsim\n{text}\n")
    try:
        if "/" not in found or " " in found:
            refused(ValueError, f"road_entry.py {found}", lambda: torch_batchsim.find_id(str(file)))
        for name in (str(file), f"{file}:{found}", "road_entry:Road")[: 0 if " " in found else 3]:
            if "Own" not in found or name != "road_entry:Road":
                assert torch_batchsim.find_id(name) == found
    finally:
        gymnasium.registry.clear()
        gymnasium.registry.update(registered)
        for name in set(sys.modules) - loaded:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("line", "error", "facts"),
    [
        ("class Plaice(Drift): pass\nx = Place", ValueError, "3: 'Place' 'Plaice'?"),
        ("x = (3", ValueError, "2: '('"),
        ("import nonesuch", ValueError, "2: 'nonesuch'"),
        ("from torch_batchsim import Archetpye", ValueError, "2: 'Archetpye'"),
        ("torch_batchsim.Archetpye", ValueError, "2: 'Archetpye' 'Archetype'?"),
        ("{}['a']", ValueError, "2: KeyError: 'a'"),
        ("torch_batchsim.Archetype('X', Drift, count=3)", SchemaError, "2: component class"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, line: str, error: type[Exception], facts: str) -> None:
    file = tmp_path / "mistaken_walk.py"
    file.write_text(f"import torch_batchsim; from environments.drift import Drift\n{line}\n")
    for _ in range(2):  # it is not taken for a whole module the second time
        refused(error, f"mistaken_walk.py:{facts}", lambda: torch_batchsim.find_id(str(file)))


class Leveled(CartPole):
    def __init__(self, levels: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.levels = levels


class Alone(CartPole):
    def __init__(self, levels: int = 3) -> None:
        super().__init__()


class Unmade(CartPole):
    def __init__(self) -> None:
        pass


class Priced(CartPole):
    def resource_values(self) -> Any:
        return 5


class Drawn(CartPole):
    def render(self, world: Any) -> Any:
        return 5


def test_methods_of_the_author() -> None:
    assert Leveled(4, gravity=1.0).levels == 4 and torch_batchsim.make_vec(Leveled, 1, levels=5)
    for call in (lambda: torch_batchsim.make_vec(Leveled, levles=5), lambda: Leveled(levles=5)):
        refused(TypeError, "Leveled 'levles' 'levels'?", call)
    for call in (lambda: Alone(gravity=1.0), lambda: torch_batchsim.make_vec(Alone, gravity=1.0)):
        refused(TypeError, "Alone.__init__ 'gravity' **options", call)
    refused(TypeError, "Alone 'grvity' 'gravity'?", lambda: Alone(grvity=1.0))
    for make in (Simulator, TorchVectorEnv):
        refused(SchemaError, "Unmade.__init__ super().__init__(**options)", lambda make=make: make(Unmade(), 1))
    refused(SchemaError, "Priced: resource_values dict 5", lambda: Simulator(Priced(), 1))
    env = TorchVectorEnv(Drawn(), 1)
    env.reset()
    refused(TypeError, "Drawn.render() uint8 5", lambda: env.render_world(0))


def test_options_do_not_change_afterwards() -> None:
    environment = CartPole()
    with pytest.raises(TypeError, match="do not change"):
        environment.parameters["gravity"] = 0.0
    with pytest.raises(TypeError, match="do not change"):
        environment.parameters.gravity = 0.0
    assert environment.parameters.gravity == 9.8


# ---- the build -----------------------------------------------------------------------------------------------------


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    refused(BuildError, "'no-such-compiler' PATH g++ CXX", lambda: Simulator(CartPole(), 1))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(BuildError, "'g++' PATH", lambda: Simulator(CartPole(), 1))


def test_a_cache_that_cannot_be_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root may write everywhere, a file in the directory's place stands for a read-only cache."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(place))
        refused(BuildError, f"cache {place}: TORCH_BATCHSIM_CACHE", lambda: Simulator(CartPole(), 1))
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o500)
    for place in (tmp_path / "cache", tmp_path):
        monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(place))
        refused(BuildError, f"cache {place}:", lambda: Simulator(CartPole(), 1))


def test_a_read_only_cache_that_holds_the_library_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache filled by an administrator: nothing is written where nothing is to be built."""
    Simulator(CartPole(), 1)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jit, "build_lock", refuse)
    assert Simulator(CartPole(), 1).execution.library.build_seconds == 0.0
    assert torch_batchsim.make_vec(CartPole, 2).sim.execution.library.build_seconds == 0.0


# ---- options that somebody sets --------------------------------------------------------------------------------------


def settable() -> dict[str, Any]:
    cartpole = "torch_batchsim/CartPole-v0"
    return {
        "vector": lambda: gymnasium.make_vec(cartpole, num_envs=2),
        "single": lambda: gymnasium.make(cartpole).unwrapped,
        "simulator": lambda: gymnasium.make_vec(cartpole, num_envs=2).unwrapped.sim,
        "declaration": CartPole,
        "grouped": lambda: GroupedEnv(CartPole(), 4, groups=2),
        "wrapper": lambda: EpisodeStatistics(gymnasium.make_vec(cartpole, num_envs=2)),
    }


@pytest.mark.parametrize("kind", settable())
def test_an_option_that_is_set_has_an_effect_or_is_refused(kind: str) -> None:
    made = settable()[kind]()
    for name in ("gravity", "max_episode_steps"):
        with pytest.raises(AttributeError, match=f"{name} is an option of CartPole and cannot be set: .*{name}=50"):
            setattr(made, name, 50)
    made.remark = "mine"
    assert made.remark == "mine"
    if kind == "declaration":  # which is what others are made of
        return
    arguments = {"copy": True, "output": "numpy", "final_obs": False, "num_threads": 2, "executor": "per_world"}
    for name, value in {**arguments, "autoreset_mode": "NextStep", "watchdog": 1.0, "checks": True, "log": 5}.items():
        with pytest.raises(AttributeError):  # one of Python's where there is a property
            setattr(made, name, value)
        if hasattr(made, "set_attr"):
            with pytest.raises(AttributeError):
                made.set_attr(name, value)


@pytest.mark.full
def test_attributes_that_are_named_as_options() -> None:
    """Those of the environment come first; a wrapper of the caller's keeps its own; errors of properties stay."""

    class Named(CartPole):
        constants = Constants(**CartPole.constants.options, closed=Option(1), metadata=Option(2), has_begun=Option(3))

    env = TorchVectorEnv(Named(), 2)
    env.reset(seed=0)
    env.close()
    assert env.closed is True and not env.has_begun

    class Limited(TorchVectorWrapper):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            self.max_episode_steps = 5

    assert Limited(gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=2)).max_episode_steps == 5
    with pytest.raises(AttributeError, match="CartPole has no action masks: every action is legal"):
        gymnasium.make("torch_batchsim/CartPole-v0").unwrapped.action_masks  # noqa: B018


def test_options_are_read_as_attributes() -> None:
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=2, gravity=3.0)
    single = gymnasium.make("torch_batchsim/CartPole-v0", gravity=4.0)
    assert (env.unwrapped.gravity, single.unwrapped.gravity, single.get_wrapper_attr("gravity")) == (3.0, 4.0, 4.0)
    with pytest.raises(AttributeError, match="gravity is an option of CartPole"):
        single.set_wrapper_attr("gravity", 5.0)
    several = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("torch_batchsim/CartPole-v0")] * 2)
    with pytest.raises(AttributeError, match="gravity is an option of CartPole"):
        several.set_attr("gravity", 5.0)
    assert several.get_attr("gravity") == (9.8, 9.8)


def test_a_declaration_may_keep_the_value_of_its_option() -> None:
    class Kept(CartPole):
        def __init__(self, gravity: float = 9.0, **options: Any) -> None:
            super().__init__(gravity=gravity, **options)
            self.gravity = gravity

    assert Kept(gravity=2.0).gravity == 2.0
