"""Bad input: one clear sentence at the call, that says what was given and what is allowed, and nothing changed."""

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
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
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
    Option,
    Parameters,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    boolean,
    f32,
    i32,
    u8,
)
from torch_batchsim.build import jit
from torch_batchsim.read.systems import Unit, read_systems
from torch_batchsim.resolve.program import Program

ID = "torch_batchsim/CartPole-v0"
DTYPES = "int64, int32, int16, int8, uint8 or bool"


def one_sentence(error: BaseException) -> str:
    """The message, after a look at its form: one line, no stack of causes, no raw Python object in it."""
    text = error.args[0] if isinstance(error, KeyError) else str(error)
    assert "\n" not in text.strip(), text
    assert len(text) < 420, text
    assert "0x" not in text, text
    assert error.__suppress_context__ or error.__context__ is None, "a cause that says it again"
    return text


def refused(error: type[Exception], says: str, call: Callable[[], Any], sim: Simulator | None = None) -> None:
    """``call`` raises exactly ``error``, its message contains ``says`` in order, and ``sim`` has not changed."""
    before = snapshot(sim) if sim else None
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error, f"{raised.type}: {raised.value}"
    assert says in one_sentence(raised.value), raised.value
    if sim:
        assert_same_bits(before, snapshot(sim))


@pytest.fixture
def env() -> TorchVectorEnv:
    """CartPole in the middle of things."""
    env = TorchVectorEnv(CartPole(), 4, render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(3):
        env.step(torch.tensor([0, 1, 1, 0]))
    return env


# ---- making --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("device", ["tpu", "meta", "mps", "", "cuda:x", None, 1.5], ids=repr)
def test_unknown_device(device: Any, output: str) -> None:
    says = f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}"
    refused(ValueError, says, lambda: gymnasium.make_vec(ID, device=device, output=output))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda")], ids=str)
def test_cuda_without_a_gpu_says_what_is_missing(device: Any) -> None:
    missing = "a build of torch with CUDA" if torch.version.cuda is None else "an NVIDIA GPU with its driver"
    refused(RuntimeError, f"device {device!r} needs {missing}; torch", lambda: gymnasium.make_vec(ID, device=device))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_too_many() -> None:
    count = torch.cuda.device_count()
    says = f"device 'cuda:{count}' does not exist; there are {count} CUDA devices"
    refused(ValueError, says, lambda: gymnasium.make_vec(ID, device=f"cuda:{count}"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_numpy_outputs_of_a_gpu() -> None:
    says = "output='numpy' needs device='cpu', got device='cuda'"
    refused(ValueError, says, lambda: gymnasium.make_vec(ID, device="cuda", output="numpy"))


@pytest.mark.parametrize("count", [0, -1, 2.0, 2.5, "4", True, float("nan"), [3]], ids=repr)
def test_number_of_worlds_that_is_no_positive_integer(count: Any) -> None:
    says = f"must be a positive integer, got {count!r}"
    for name in ("num_envs", "num_worlds"):
        refused(ValueError, f"{name} {says}", lambda n=name: gymnasium.make_vec(ID, **{n: count}))
    refused(ValueError, f"num_worlds {says}", lambda: Simulator(CartPole(), count))


def test_more_worlds_than_there_are_row_numbers() -> None:
    says = "num_worlds=1000000000000 with 1 rows of Cart each is more than"
    refused(ValueError, says, lambda: gymnasium.make_vec(ID, num_envs=10**12))


def test_rows_that_make_no_whole_worlds() -> None:
    says = "num_envs must be a multiple of the 2 agents of a world, such as"
    refused(ValueError, f"{says} 4 or 6, got 5", lambda: TorchVectorEnv(Duel(), 5))
    refused(ValueError, f"{says} 2, got 1", lambda: TorchVectorEnv(Duel(), 1))
    refused(
        ValueError,
        "num_envs=3 and num_worlds=3 contradict each other; give one of them",
        lambda: TorchVectorEnv(Duel(), 3, num_worlds=3),
    )


@pytest.mark.parametrize(
    ("argument", "value", "error", "says"),
    [
        ("autoreset_mode", "sometimes", ValueError, "one of 'NextStep', 'SameStep', 'Disabled', got 'sometimes'"),
        ("autoreset_mode", None, ValueError, "got None"),
        ("output", "jax", ValueError, "output must be 'torch' or 'numpy', got 'jax'"),
        ("render_mode", "human", ValueError, "render_mode must be 'rgb_array' or None, got 'human'"),
        ("copy", 1, TypeError, "copy must be True, False or None (two sets of outputs that take turns), got 1"),
        ("final_obs", None, TypeError, "final_obs must be True or False, got None"),
        ("num_threads", 0, ValueError, "num_threads must be an integer from 1 to 1024, got 0"),
        ("num_threads", 2.5, ValueError, "num_threads must be an integer from 1 to 1024, got 2.5"),
        ("num_threads", 2**40, ValueError, f"num_threads must be an integer from 1 to 1024, got {2**40}"),
        ("num_environments", 3, TypeError, "CartPole got an unexpected keyword argument 'num_environments'"),
        (
            "gravty", 3.0, TypeError,
            "CartPole got an unexpected keyword argument 'gravty' (did you mean 'gravity'?); it has: continuous, ",
        ),
        ("gravity", "9.8", TypeError, "option gravity must be a number, got '9.8'"),
        ("gravity", None, TypeError, "option gravity must be a number, got None"),
        ("gravity", True, TypeError, "option gravity must be a number, got True"),
        ("gravity", float("nan"), ValueError, "option gravity must be finite as a 32-bit float, got nan"),
        ("gravity", 1e39, ValueError, "option gravity must be finite as a 32-bit float, got 1e+39"),
        ("masspole", -0.1, ValueError, "option masspole must be greater than 0.0, got -0.1"),
        ("masspole", 0, ValueError, "option masspole must be greater than 0.0, got 0.0"),
        ("masspole", 1e-50, ValueError, "option masspole must be greater than 0.0, got 1e-50"),
        ("tau", float("inf"), ValueError, "option tau must be finite as a 32-bit float, got inf"),
        ("max_episode_steps", 0, ValueError, "option max_episode_steps must be at least 1, got 0"),
        ("max_episode_steps", 2.5, TypeError, "option max_episode_steps must be an integer, got 2.5"),
        ("max_episode_steps", 2**31, ValueError, f"option max_episode_steps must fit 32 bits, got {2**31}"),
        ("sutton_barto_reward", 1, TypeError, "option sutton_barto_reward must be True or False, got 1"),
    ],
)
def test_options(argument: str, value: Any, error: type[Exception], says: str) -> None:
    refused(error, says, lambda: gymnasium.make_vec(ID, **{argument: value}))


def test_unknown_ids_are_gymnasiums_errors() -> None:
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean: `CartPole`"):
        gymnasium.make_vec("torch_batchsim/CartPol-v0")
    with pytest.raises(gymnasium.error.VersionNotFound, match="v9"):
        gymnasium.make_vec("torch_batchsim/CartPole-v9")
    with pytest.raises(gymnasium.error.NamespaceNotFound):
        gymnasium.make_vec("torch_batchsimm/CartPole-v0")


@pytest.mark.parametrize("environment", [CartPole, "CartPole", None], ids=str)
def test_an_environment_that_is_none(environment: Any) -> None:
    with pytest.raises(TypeError, match="environment must be an instance of Environment, got"):
        TorchVectorEnv(environment, 2)
    with pytest.raises(TypeError, match="environment must be an instance of Environment, got"):
        Simulator(environment, 2)


# ---- reset ---------------------------------------------------------------------------------------------------------


def test_a_simulator_takes_no_actions() -> None:
    says = "takes no actions: write them before, sim.tensor('Cart.Push.direction')[...] = actions"
    refused(TypeError, says, lambda: Simulator(CartPole(), 2).step(torch.zeros(2)))  # type: ignore[arg-type]


def test_step_and_others_before_reset() -> None:
    env = TorchVectorEnv(CartPole(), 3, render_mode="rgb_array")
    actions = torch.zeros(3, dtype=torch.int64)
    mask = torch.ones(3, dtype=torch.bool)
    refused(ResetNeeded, "call reset() before step()", lambda: env.step(actions), env.sim)
    refused(ResetNeeded, "call reset() before render()", env.render, env.sim)
    refused(ResetNeeded, "call reset() before render_world()", lambda: env.render_world(0), env.sim)
    says = "the first reset must be of all worlds; call reset() without"
    refused(ResetNeeded, says, lambda: env.reset(options={"reset_mask": mask}), env.sim)
    refused(RuntimeError, says, lambda: env.sim.reset(mask), env.sim)
    refused(RuntimeError, "call reset() before step()", env.sim.step, env.sim)
    refused(RuntimeError, "call reset() before act_and_step()", lambda: env.sim.act_and_step(actions), env.sim)
    env.reset(seed=0)
    env.step(actions)


@pytest.mark.parametrize("seed", [-1, 2**64, 2.5, "a", True, [1, 2, 3, 4], torch.tensor(3)], ids=repr)
def test_seeds(env: TorchVectorEnv, seed: Any) -> None:
    says = f"seed must be an integer from 0 to 2**64 - 1 or None, got {seed!r}"
    numpys_own = env.np_random.bit_generator.state
    refused(ValueError, says, lambda: env.reset(seed=seed), env.sim)
    refused(ValueError, says, lambda: env.sim.reset(seed=seed), env.sim)
    refused(ValueError, says, lambda: env.sim.reseed(seed), env.sim)
    assert env.np_random.bit_generator.state == numpys_own


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (5, TypeError, "options must be a dict or None, got int"),
        ({"low": -0.1}, ValueError, "reset has no option 'low'; it has: reset_mask"),
        ({"reset_mask": np.ones(3, bool)}, ValueError, "reset_mask must have shape [4], got [3]"),
        ({"reset_mask": torch.ones(5, dtype=torch.bool)}, ValueError, "reset_mask must have shape [4], got [5]"),
        ({"reset_mask": torch.ones(4, 1, dtype=torch.bool)}, ValueError, "reset_mask must have shape [4], got [4, 1]"),
        ({"reset_mask": torch.tensor(True)}, ValueError, "reset_mask must have shape [4], got []"),
        ({"reset_mask": np.ones(4)}, TypeError, "reset_mask must have dtype bool, got float64"),
        ({"reset_mask": torch.ones(4, dtype=torch.uint8)}, TypeError, "reset_mask must have dtype bool, got uint8"),
        ({"reset_mask": [True] * 4}, TypeError, "must be a torch tensor or a numpy array of bools, got list"),
        ({"reset_mask": True}, TypeError, "must be a torch tensor or a numpy array of bools, got bool"),
        ({"reset_mask": np.array(["a"] * 4)}, TypeError, "reset_mask must have dtype bool, got"),
        ({"reset_mask": np.array([None] * 4)}, TypeError, "reset_mask must have dtype bool, got object"),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [None, 3])
def test_reset_options(env: TorchVectorEnv, seed: int | None, options: Any, error: type[Exception], says: str) -> None:
    refused(error, says, lambda: env.reset(seed=seed, options=options), env.sim)


def test_masks_of_rows_that_split_a_world() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=3)
    env.reset(seed=0)
    for mask in (torch.tensor([1, 0, 0, 0, 1, 1]).bool(), np.array([1, 1, 0, 1, 1, 1], bool)):
        says = "reset_mask must be the same for all agents of a world, because they share it"
        refused(ValueError, says, lambda m=mask: env.reset(options={"reset_mask": m}), env.sim)
    says = "reset_mask must have shape [6] or [3] (worlds), got [5]"
    refused(ValueError, says, lambda: env.reset(options={"reset_mask": np.ones(5, bool)}), env.sim)
    refused(ValueError, "mask must have shape [3], got [6]", lambda: env.sim.reset(np.ones(6, bool)), env.sim)


def test_the_single_environments_options() -> None:
    env = gymnasium.make(ID).unwrapped
    env.reset(seed=0)
    refused(ValueError, "reset has no option 'low' here; it has: none", lambda: env.reset(options={"low": 1}), env.sim)
    refused(ValueError, "seed must be an integer from 0", lambda: env.reset(seed=-1), env.sim)


@pytest.mark.parametrize(
    ("continuous", "action", "error", "says"),
    [
        (False, np.array([1]), ValueError, "Discrete(2), got array([1]) of shape [1]; the shape must be [] (a number)"),
        (False, [1, 0], ValueError, "Discrete(2), got [1, 0] of shape [2]; the shape must be [] (a number)"),
        (False, torch.tensor([[1]]), ValueError, "got tensor([[1]]) of shape [1, 1]; the shape must be [] (a number)"),
        (False, [[1], [1, 2]], TypeError, "Discrete(2), got [[1], [1, 2]]"),
        (False, 1.0, TypeError, "Discrete(2), which holds integers, got 1.0"),
        (False, "left", TypeError, "Discrete(2), got 'left'"),
        (False, None, TypeError, "Discrete(2), got None"),
        (True, 0.5, ValueError, "Box(-1.0, 1.0, (1,), float32), got 0.5 of shape []; the shape must be [1]"),
    ],
    ids=str,
)
def test_actions_of_a_single_environment(continuous: bool, action: Any, error: type[Exception], says: str) -> None:
    env = gymnasium.make(ID, continuous=continuous)
    env.reset(seed=0)
    with pytest.raises(error, match=re.escape("the action must be an element of ") + ".*" + re.escape(says)):
        env.step(action)
    assert env.unwrapped.sim.tensor("World.step").item() == 0


def test_masks_before_the_first_reset() -> None:
    env = gymnasium.make_vec("torch_batchsim/Hanabi-v0", num_envs=2)
    for name in ("action_masks", "get_action_masks", "sample_actions"):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before \w+\(\): until then no mask is known"):
            getattr(env, name)()
    for options in ({}, {"turns": "all"}, {"as_agent": 0}):
        single = gymnasium.make("torch_batchsim/Hanabi-v0", **options).unwrapped
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before action_masks\(\)"):
            single.action_masks()
    assert TorchVectorEnv(CartPole(), 2).sample_actions().shape == (2,)  # all of which are legal


# ---- actions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "error", "says"),
    [
        (torch.zeros(3, dtype=torch.int64), ValueError, "actions must have shape [4], got [3]"),
        (torch.zeros(4, 1, dtype=torch.int64), ValueError, "actions must have shape [4], got [4, 1]"),
        (0, ValueError, "actions must have shape [4], got []"),
        (np.zeros((), np.int64), ValueError, "actions must have shape [4], got []"),
        ([[0, 1], [1]], ValueError, "actions must have shape [4], got ragged lists"),
        (torch.zeros(4), TypeError, f"actions must have dtype {'int64'}"),
        (torch.zeros(4), TypeError, f"{DTYPES}, got float32"),
        (torch.full((4,), float("nan")), TypeError, f"{DTYPES}, got float32"),
        (np.zeros(4), TypeError, f"{DTYPES}, got float64"),
        (torch.zeros(4, dtype=torch.complex64), TypeError, f"{DTYPES}, got complex64"),
        (torch.zeros(4, dtype=torch.float16), TypeError, f"{DTYPES}, got float16"),
        (torch.zeros(4, dtype=torch.uint16), TypeError, f"{DTYPES}, got uint16"),
        (np.array(["left"] * 4), TypeError, "actions must be numbers, got a numpy array of dtype <U4"),
        (np.array([None] * 4), TypeError, "actions must be numbers, got a numpy array of dtype object"),
        (None, TypeError, "actions must be a torch tensor or a numpy array, got NoneType"),
        ("left", TypeError, "actions must be a torch tensor or a numpy array, got str"),
        (torch.zeros(4, dtype=torch.int64, device="meta"), ValueError, "actions must be on cpu, got a tensor on meta"),
        (torch.zeros(4, dtype=torch.int64).to_sparse(), TypeError, "actions must be a dense tensor, got layout"),
        (torch.tensor([0, 1, 2, 0]), ValueError, "action 2 of world 2 is not in Discrete(2); no world has stepped"),
        (torch.tensor([0, -1, 2, 0]), ValueError, "action -1 of world 1 is not in Discrete(2)"),
        (np.array([1, 0, 0, 255], np.uint8), ValueError, "action 255 of world 3 is not in Discrete(2)"),
        (np.array([2**40, 0, 0, 0]), ValueError, f"action {2**40} of world 0 is not in Discrete(2)"),
        (np.array([-(2**63), 0, 0, 0]), ValueError, f"action {-(2**63)} of world 0 is not in Discrete(2)"),
        (np.array([0, 2**63, 0, 0], np.uint64), ValueError, f"must be numbers of 64 bits with a sign, got {2**63}"),
        ([0, 0, 0, 9], ValueError, "action 9 of world 3 is not in Discrete(2)"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", str(value))[:40],
)
def test_discrete_actions(env: TorchVectorEnv, actions: Any, error: type[Exception], says: str) -> None:
    refused(error, says, lambda: env.step(actions), env.sim)
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
    says = f"action {actions[2, 0].item()} of world 2, element 0 is not in Box(-1.0, [1. 2. 3.], (3,), float32)"
    refused(ValueError, says, lambda: env.step(actions), env.sim)
    refused(TypeError, "dtype float32 or float64, got bool", lambda: env.step(actions.bool()), env.sim)
    refused(ValueError, "actions must have shape [4, 3], got [4]", lambda: env.step(actions[:, 0]), env.sim)
    actions[2, 0] = 1.0  # the bounds themselves are allowed
    actions[3, 0] = -1.0
    env.step(actions)


def test_multidiscrete_actions_name_world_agent_and_element() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=3)
    env.reset(seed=0)
    actions = torch.zeros(6, 2, dtype=torch.int64)
    actions[5, 1] = 2
    says = "action 2 of world 2, agent 1, element 1 is not in MultiDiscrete([3 2]); no world has stepped"
    refused(ValueError, says, lambda: env.step(actions), env.sim)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_bad_action_among_many(threads: int) -> None:
    """The first of them is named, whichever thread finds one."""
    env = TorchVectorEnv(CartPole(), 40_000, num_threads=threads)
    env.reset(seed=0)
    env.step(torch.ones(40_000, dtype=torch.int64))
    actions = torch.zeros(40_000, dtype=torch.int64)
    actions[[39_999, 31_234]] = torch.tensor([4, 5])
    refused(ValueError, "action 5 of world 31234 is not in Discrete(2)", lambda: env.step(actions), env.sim)


def test_an_action_that_a_space_with_a_start_does_not_have(tmp_path: Path) -> None:
    environment = _walk(tmp_path, action_space=Discrete(3, start=-1))()
    env = TorchVectorEnv(environment, 2)
    env.reset(seed=0)
    env.step(torch.tensor([-1, 1]))
    says = "action 2 of world 1 is not in Discrete(3, start=-1)"
    refused(ValueError, says, lambda: env.step(torch.tensor([0, 2])), env.sim)


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "error", "says"),
    [
        ({"observations": torch.zeros(4, 5)}, ValueError, "needs shape [4, 1, 4] or [4, 4], got [4, 5]"),
        ({"observations": np.zeros((4, 4), np.float32)}, TypeError, "needs a torch tensor, got ndarray"),
        ({"observations": torch.zeros(4, 4).double()}, TypeError, "needs dtype torch.float32, got torch.float64"),
        ({"observations": torch.zeros(4, 4).T}, ValueError, "needs a contiguous tensor"),
        ({"observations": {"x": torch.zeros(4, 4)}}, ValueError, "bind of observations needs one tensor, got 'x'"),
        ({"rewards": torch.zeros(4, requires_grad=True)}, ValueError, "needs a tensor without gradient"),
        ({"rewards": torch.zeros(4, device="meta")}, ValueError, "needs a tensor on cpu, got one on meta"),
        ({"rewards": torch.zeros(1).expand(4)}, ValueError, "needs a contiguous tensor"),
        ({"terminations": torch.zeros(4)}, TypeError, "terminations needs dtype torch.bool, got torch.float32"),
        ({"truncations": torch.zeros(4, 1)}, TypeError, "truncations needs dtype torch.bool, got"),
        ({"final_obs": torch.zeros(4)}, ValueError, "needs shape [4, 1, 4] or [4, 4], got [4]"),
        ({"actions": torch.zeros(4)}, TypeError, "needs dtype torch.int32, got torch.float32"),
        ({"action_mask": torch.zeros(4)}, ValueError, "action_mask cannot be bound: this environment has none"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", str(value))[:40],
)
def test_bind(env: TorchVectorEnv, bound: dict[str, Any], error: type[Exception], says: str) -> None:
    zeros = torch.zeros(4, dtype=torch.int64)
    before = [tensor.data_ptr() for tensor in env.step(zeros)[:4]]
    env.step(zeros)  # their places take turns
    good = {"terminations": torch.zeros(4, dtype=torch.bool), "final_obs": torch.zeros(4, 4)}
    refused(error, says, lambda: env.bind(**(good | bound)), env.sim)
    assert [tensor.data_ptr() for tensor in env.step(zeros)[:4]] == before


def test_bind_of_final_obs_where_there_is_none() -> None:
    env = TorchVectorEnv(CartPole(), 4, autoreset_mode=AutoresetMode.NEXT_STEP)
    says = "final_obs cannot be bound: it is delivered with SAME_STEP and final_obs=True only"
    refused(ValueError, says, lambda: env.bind(final_obs=torch.zeros(4, 4)), env.sim)


def test_names_of_tensors(env: TorchVectorEnv) -> None:
    sim = env.sim
    says = "tensor 'Crt.CartState' does not exist (did you mean 'Cart.CartState'?); columns: Cart.CartState, "
    refused(KeyError, says, lambda: sim.tensor("Crt.CartState"))
    says = "component CartState has no field 'y'; it has x, x_dot, theta, theta_dot"
    refused(KeyError, says, lambda: sim.tensor("Cart.CartState.y"))
    refused(AttributeError, says, lambda: sim.Cart.CartState.y)
    says = "tensor 'CartState.x' does not exist (did you mean 'Cart.CartState.x'?)"
    refused(KeyError, says, lambda: sim.tensor("CartState.x"))
    refused(TypeError, "by_world needs a torch tensor, got list", lambda: env.by_world([1, 2, 3, 4]))
    refused(TypeError, "or the name of one, such as 'cartpole'", lambda: torch_batchsim.make_vec(5))
    refused(ValueError, "got [1, 2]; one seed serves all worlds", lambda: env.reset(seed=[1, 2]))
    refused(ValueError, "mask must have shape [4], got [1]", lambda: env.hold({}, np.ones(1, bool)))
    refused(AttributeError, "Simulator has no attribute 'Crat' (did you mean 'Cart'?)", lambda: sim.Crat)
    refused(KeyError, "World has step, episode, terminated, truncated", lambda: sim.tensor("World.time"))
    for name, dtype in (("Cart.CartState.x", torch.float32), ("World.step", torch.int32)):
        says = f"{name} cannot be bound; whole columns, final values and flags of worlds and agents can"
        refused(ValueError, says, lambda n=name, d=dtype: sim.bind(n, torch.zeros(4, dtype=d)))
    drift = Simulator(Drift(), 2)
    says = "Particle.Trail has fields of different types, so it is not one tensor; ask for Particle.Trail.flips, "
    refused(TypeError, says, lambda: drift.tensor("Particle.Trail"))


@pytest.mark.parametrize(
    ("source", "target", "error", "says"),
    [
        ([0], [4], ValueError, "target must be indices of worlds, from 0 to 3, got 4"),
        ([-1], [2], ValueError, "source must be indices of worlds, from 0 to 3, got -1"),
        ([0], [1, 2], ValueError, "source and target must be of one length, got 1 and 2"),
        ([0, 1], [2, 2], ValueError, "target worlds must be distinct"),
        ([0.0], [2], TypeError, "source must be world indices of shape [k], got torch.float32 of shape [1]"),
        ("a", [2], TypeError, "source must be world indices of shape [k], got 'a'"),
        ([True, False, False, False], [1], TypeError, "source must be world indices of shape [k], got torch.bool"),
        (0, 1, TypeError, "source must be world indices of shape [k], got torch.int64 of shape []"),
    ],
    ids=str,
)
def test_copy_worlds(env: TorchVectorEnv, source: Any, target: Any, error: type[Exception], says: str) -> None:
    refused(error, says, lambda: env.sim.copy_worlds(source, target), env.sim)


def test_worlds_to_draw(env: TorchVectorEnv) -> None:
    for world in (4, -1, 1.0, "a"):
        refused(ValueError, f"world must be an integer from 0 to 3, got {world!r}", lambda w=world: env.render_world(w))


# ---- checkpoints ---------------------------------------------------------------------------------------------------


def _states() -> dict[str, tuple[Any, str]]:
    good = TorchVectorEnv(CartPole(), 4).state_dict()
    (state,) = (name for name in good["tensors"] if name.endswith("column_Cart_CartState"))
    lacking = {**good, "tensors": {k: v for k, v in good["tensors"].items() if k != state}}
    short = {**good, "tensors": {**good["tensors"], "seed": torch.zeros(24, dtype=torch.uint8)}}
    wrong = {**good, "tensors": {**good["tensors"], "seed": [1, 2, 3, 4]}}
    return {
        "none": (None, "this is not a state of a simulator: NoneType without 'format'"),
        "a model's": ({"weight": torch.zeros(3)}, "this is not a state of a simulator: dict without 'format'"),
        "later": ({**good, "format": 4}, "the state has format 4, this version reads format 3"),
        "another environment's": (
            TorchVectorEnv(Drift(), 4).state_dict(),
            "the state is of another environment: its environment is Drift, here CartPole",
        ),
        "another gravity's": (
            TorchVectorEnv(CartPole(gravity=1.6), 4).state_dict(),
            "the state is of another environment: its gravity is 1.6, here 9.8",
        ),
        "5 worlds": (TorchVectorEnv(CartPole(), 5).state_dict(), "the state has 5 worlds, this simulator 4"),
        "no signature": ({"format": 3}, "the state is damaged: it has no 'signature'"),
        "no tensors": ({**good, "tensors": None}, "the state is damaged: its 'tensors' is NoneType"),
        "no started": ({k: v for k, v in good.items() if k != "started"}, "the state is damaged: it has no 'started'"),
        "lacking": (lacking, f"the state is damaged: it lacks {state} of 64 bytes"),
        "short": (short, "the state is damaged: it lacks seed of 32 bytes"),
        "wrong": (wrong, "the state is damaged: it lacks seed of 32 bytes"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "none",
        "a model's",
        "later",
        "another environment's",
        "another gravity's",
        "5 worlds",
        "no signature",
        "no tensors",
        "no started",
        "lacking",
        "short",
        "wrong",
    ],
)
def test_checkpoints(env: TorchVectorEnv, case: str) -> None:
    state, says = _states()[case]
    refused(CheckpointError, says, lambda: env.load_state_dict(state), env.sim)
    refused(CheckpointError, says, lambda: env.sim.load_state_dict(state), env.sim)
    env.step(torch.zeros(4, dtype=torch.int64))


def test_a_component_that_has_changed() -> None:
    class Other(CartPole):
        parameters = Parameters(**{**CartPole.parameters.options, "wind": 0.0})

    Other.__name__ = "CartPole"
    state = Simulator(Other(), 2).state_dict()
    refused(
        CheckpointError,
        "the state is of another environment: its wind is 0.0, here None",
        lambda: Simulator(CartPole(), 2).load_state_dict(state),
    )


def test_ended_worlds_have_no_place_in_same_step() -> None:
    """They await a reset, which SAME_STEP has done already: they would go on beyond their end."""
    waiting = TorchVectorEnv(CartPole(max_episode_steps=1), 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    waiting.reset(seed=0)
    waiting.step(torch.zeros(2, dtype=torch.int64))
    env = TorchVectorEnv(CartPole(max_episode_steps=1), 2)
    env.reset(seed=0)
    says = "the state holds ended worlds that await a reset, which with SAME_STEP never happens"
    refused(CheckpointError, says, lambda: env.load_state_dict(waiting.state_dict()), env.sim)
    waiting.step(torch.zeros(2, dtype=torch.int64))
    env.load_state_dict(waiting.state_dict())


# ---- a closed environment ------------------------------------------------------------------------------------------


def test_a_closed_environment_refuses_everything(env: TorchVectorEnv) -> None:
    state = env.state_dict()
    env.close()
    actions = torch.zeros(4, dtype=torch.int64)
    calls: list[Callable[[], Any]] = [
        lambda: env.step(actions),
        env.reset,
        lambda: env.reset(seed=1),
        env.render,
        lambda: env.render_world(0),
        lambda: env.bind(rewards=torch.zeros(4)),
        env.state_dict,
        lambda: env.load_state_dict(state),
        env.check_faults,
    ]
    for call in calls:
        refused(ClosedEnvironmentError, "closed", call, env.sim)
    single = gymnasium.make(ID, render_mode="rgb_array").unwrapped
    single.reset()
    single.close()
    for call in (lambda: single.step(0), single.reset, single.render):
        refused(ClosedEnvironmentError, "closed", call)


# ---- faults --------------------------------------------------------------------------------------------------------


def test_faults_of_unnamed_kinds_stay_within_their_world() -> None:
    env = TorchVectorEnv(Drift(), 3)
    env.reset(seed=0)
    env.sim.Particle.Body.position[1] = float("nan")
    with pytest.raises(WorldFault) as raised:
        env.step(torch.zeros(3, 3))
    one_sentence(raised.value)
    env.reset(options={"reset_mask": raised.value.mask})
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


def _walk(folder: Path, text: str = WALK, **changes: Any) -> type[Environment]:
    attributes = {
        "archetypes": (Archetype("Walker", Spot, Step, Reward, count=1),),
        "step": TaskGraph("walk"),
        "observation": "Walker.Spot",
        "action": "Walker.Step.towards",
        "action_space": Discrete(2),
    }
    return declare(text, folder, **(attributes | changes))


def test_the_walk_itself_is_sound(tmp_path: Path) -> None:
    Program(_walk(tmp_path)())


@pytest.mark.parametrize("annotation", [float, int, list, np.float32, torch.float32, "float", "f33", 3, None], ids=str)
def test_a_field_of_unknown_type(annotation: Any) -> None:
    with pytest.raises(SchemaError) as raised:
        type("Wrong", (Component,), {"__annotations__": {"right": f32, "wrong": annotation}})
    text = one_sentence(raised.value)
    assert text.startswith(("field Wrong.wrong has unknown type ", "component Wrong: name 'f33' is not defined"))
    assert "known types: f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, vec2, vec3, vec4, quat" in text


@pytest.mark.parametrize("extent", [0, -1, 2.5, True, "3", (2, 0)], ids=repr)
def test_extents_of_arrays(extent: Any) -> None:
    with pytest.raises(TypeError, match=r"extents of f32\[...\] must be positive integers, got"):
        f32[extent]
    with pytest.raises(TypeError, match=r"f32\[2\] is an array already; give all its extents at once, as in f32\[2, "):
        f32[2][3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            WALK.replace("const Step &step", "const Stp &step").replace("step.towards", "0"),
            "systems.h:2: system 'walk' names component 'Stp', which does not exist (did you mean 'Step'?); "
            "components: Reward, Spot, Step",
        ),
        (WALK.replace("void walk", "int walk"), "'walk' must return void, got 'int': write TBS_SYSTEM void walk("),
        (WALK.replace("World &world", "World world"), "'walk' takes 'World world', a copy: write 'World &world'"),
        (WALK.replace("const Step &step", "Walker &step"), "component 'Walker', which is an archetype: take comp"),
        (WALK.replace("spot, ", "spot "), "of system 'walk' is not understood: a comma is missing; a system takes"),
        (WALK.replace("World &world, ", ""), "systems.h:2: the first parameter of system 'walk' must be World &"),
        (WALK.replace("Spot &spot", "Spot spot"), "systems.h:2: system 'walk' takes 'Spot spot', a copy: write"),
        (WALK.replace("Spot &spot", "Spot *spot"), "systems.h:2: parameter 'Spot *spot' of system 'walk' is not"),
        (WALK.replace("walk", "wolk"), "task graph 'step' of Declared names system 'walk', which systems.h does not"),
        (WALK + WALK, "systems.h:7: system 'walk' is defined twice, first at systems.h:2"),
        (
            WALK.replace("const Step &step", "const Spot &step"),
            "systems.h:2: system 'walk' takes Spot twice, by 'Spot &spot' and by 'const Spot &step'; leave one out",
        ),
        (WALK.replace("const Step &step", "World &other"), "takes World twice, by 'World &world' and by 'World &o"),
        ("", "which systems.h does not define; it defines: none"),
        ("TBS_FUNCTION void walk(World &world) {}", "(it has a function of this name: put TBS_SYSTEM in front of it)"),
    ],
)
def test_systems_that_name_what_is_not(tmp_path: Path, text: str, says: str) -> None:
    refused(SchemaError, says, lambda: Simulator(_walk(tmp_path, text)(), 1))


def test_a_system_that_matches_no_archetype(tmp_path: Path) -> None:
    stones = Archetype("Stone", Time, count=2)
    walkers = Archetype("Walker", Spot, Step, Reward, count=1)
    text = WALK.replace("Reward &reward)", "Reward &reward, const Time &time)")
    environment = _walk(tmp_path, text, archetypes=(walkers, stones))
    says = "systems.h:2: system 'walk' matches no archetype: none has all of Spot, Step, Reward, Time"
    refused(SchemaError, says, lambda: Simulator(environment(), 1))


def test_a_missing_systems_file(tmp_path: Path) -> None:
    environment = _walk(tmp_path)
    (tmp_path / "systems.h").unlink()
    says = f"the systems' file {tmp_path / 'systems.h'} does not exist"
    refused(SchemaError, says, lambda: Simulator(environment(), 1))
    (tmp_path / "systems.h").mkdir()
    refused(SchemaError, f"{tmp_path / 'systems.h'} is a folder", lambda: Simulator(environment(), 1))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"action": ""}, "Declared has no 'action': name the column of what agents do, action = 'Archet"),
        ({"observation": ""}, "'Archetype.Component', or a field of it; columns: Walker.Spot, Walker.Step, Walker.Rew"),
        ({"action": "Walker.Stp"}, "action 'Walker.Stp' does not exist (did you mean 'Walker.Step'?)"),
        ({"observation": "Spot"}, "observation 'Spot' does not exist (did you mean 'Walker.Spot'?)"),
        ({"observation": "Walker.Spot.y"}, "component Spot has no field 'y'; it has x"),
        ({"action_space": None}, "needs a range, such as `towards: i32 = between(0, 1)`; or give action_space"),
        ({"action_space": MultiBinary(3)}, "action_space must be Discrete, MultiDiscrete or Box, got MultiBinary(3)"),
        ({"action_space": Box(-1, 1, (2,))}, "does not fit column Walker.Step"),
        ({"action_space": Box(-1, 1, ())}, "does not fit column Walker.Step, which holds torch.int32"),
        ({"observation_space": Box(-1, 1, (2,))}, "does not fit column Walker.Spot"),
        ({"observation_space": Box(-1, 1, (), np.float64)}, "does not fit column Walker.Spot, which holds float32"),
        ({"archetypes": (Archetype("Walker", Spot, Step, count=1),)}, "component 'Reward', which does not exist"),
        ({"archetypes": (Archetype("Walker", Spot, Step, Reward, count=1),) * 2}, "the name Walker is used twice"),
        ({"constants": {"size": 9}}, "constants must be Constants(...), such as constants = Constants(size=9), got {"),
        ({"parameters": 3}, "parameters must be Parameters(...)"),
        ({"singletons": (Spot,)}, "component Spot is a singleton and in an archetype; take it out of one, or give"),
        ({"metadata": {"score": "sum"}}, "metadata names the score 'sum', which must be an info with one number a row"),
        ({"metadata": {"figures": ("sum",)}}, "metadata names the figure 'sum', which must be an info with one number"),
        ({"faults": ("nan",)}, "faults of Declared: 'nan' is a fault of the engine's own; rename it"),
        ({"faults": ("lost", "lost")}, "faults of Declared name 'lost' twice; leave one out"),
        ({"faults": ("no good",)}, "a fault cannot be named 'no good'"),
        ({"action_mask": "Walker.Spot"}, "action_mask 'Walker.Spot' must hold booleans, one for each"),
        ({"info": {"spot": "Walker.Spt"}}, "info 'Walker.Spt' does not exist (did you mean 'Walker.Spot'?)"),
        ({"start": TaskGraph("begin")}, "task graph 'start' of Declared names system 'begin', which systems.h does"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", str(value))[:40],
)
def test_declarations(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    refused(SchemaError, says, lambda: Simulator(_walk(tmp_path, **changes)(), 1))


def _component(name: str, *fields: str) -> type[Component]:
    return type(name, (Component,), {"__annotations__": dict.fromkeys(fields, f32)})


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        (
            lambda: Archetype("Cart", CartState, count=0),
            "archetype Cart: count must be an integer from 1 to 2147475456 (rows have 32-bit numbers), got 0",
        ),
        (
            lambda: Archetype("Cart", CartState, count=True),
            "count must be an integer from 1 to 2147475456 (rows have 32-bit numbers), got True",
        ),
        (
            lambda: Archetype("Cart", CartState, count=2.0),
            "count must be an integer from 1 to 2147475456 (rows have 32-bit numbers), got 2.0",
        ),
        (lambda: Archetype("Cart", CartState, count=2**31), "count must be an integer"),
        (lambda: Archetype("Cart", count=1), "archetype Cart has no components"),
        (lambda: Archetype("Cart", CartState, CartState, count=1), "archetype Cart names a component twice"),
        (lambda: Archetype("Cart", "CartState", count=1), "archetype Cart: 'CartState' is not a component class"),
        (lambda: Archetype("Cart", Drift, count=1), "component class; inherit from Component: class Drift(Component)"),
        (lambda: Archetype(CartState, count=1), 'an archetype has its name first: Archetype("CartStates", CartState, '),
        (lambda: Archetype("Cart", Component, count=1), "is not a component class"),
        (lambda: Archetype("class", CartState, Push, count=1), "an archetype cannot be named 'class'"),
        (lambda: Archetype("my cart", CartState, count=1), "an archetype cannot be named 'my cart': a name is letters"),
        (lambda: Archetype("a__b", CartState, count=1), "an archetype cannot be named 'a__b'"),
        (lambda: TaskGraph("a", 3), "a task graph lists systems by name, and Repeat(times, ...) of them, got 3"),
        (lambda: _component("Empty"), "component Empty has no fields"),
        (lambda: _component("Bad", "int"), "a field of component Bad cannot be named 'int'"),
        (lambda: _component("lambda", "x"), "a component cannot be named 'lambda'"),
        (lambda: Parameters(wind=[1]), "option wind has default [1]; its type must be one of bool, int, float"),
        (lambda: Parameters(name="a"), "option name has default 'a'; its type must be one of bool, int, float"),
        (lambda: Constants(wind=None), "its type must be one of bool, int, float, str"),
        (lambda: Parameters(**{"for": 1}), "an option cannot be named 'for'"),
    ],
)
def test_parts_of_declarations(declaration: Callable[[], Any], says: str) -> None:
    refused(SchemaError, says, declaration)


def test_defaults_obey_their_own_limits() -> None:
    refused(ValueError, "option wind must be at least 2, got 1", lambda: Parameters(wind=Option(1, minimum=2)))


def test_options_that_allow_nothing() -> None:
    refused(SchemaError, "Option: minimum must be a number, got 'a'", lambda: Option(5, minimum="a"))
    refused(SchemaError, "minimum 9 is greater than maximum 1", lambda: Option(5, minimum=9, maximum=1))
    refused(SchemaError, "choices must be a tuple of values, got 'abc'", lambda: Option("a", choices="abc"))


# ---- what would silently mean nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"setp": TaskGraph("walk")}, "sets 'setp', which Environment does not have (did you mean 'step'?)"),
        ({"strat": TaskGraph("walk")}, "sets 'strat', which Environment does not have (did you mean 'start'?)"),
        ({"observaton": "a.B"}, "sets 'observaton', which Environment does not have (did you mean 'observation'?)"),
        ({"mask": "Walker.Legal"}, "sets 'mask', which Environment does not have (did you mean 'action_mask'?)"),
        ({"metadata": {"scor": "x"}}, "metadata has 'scor', which nobody reads (did you mean 'score'?)"),
        ({"render": 5}, "Declared: render must be a method, got 5"),
        ({"prepare": lambda self: None}, "Declared defines prepare(), a method of Library that is not called of Env"),
        ({"metadata": ["fast"]}, "Declared: metadata must be a dict, got ['fast']"),
        ({"sweep": 3}, "Declared: sweep must be a dict, got 3"),
        ({"library_options": ["grid"]}, "Declared: library_options must be a dict of dicts, by name of library, got"),
        ({"name": 3}, "Declared: name must be a string, got 3"),
        ({"agents": 3}, "sets 'agents', which the engine does not read: the agents are the rows of their archetype: A"),
        ({"num_envs": 3}, "does not read: the number of worlds is given where the environment is made: make_vec("),
        ({"max_episode_steps": 200}, "a limit of steps is a parameter, parameters = Parameters(max_episode_steps=Op"),
        ({"reset": TaskGraph("walk")}, "the systems that begin an episode are named in start: start = TaskGraph("),
        ({"training": {"threads": 1}}, "that they are for, \"\" for all: training = {\"\": {'threads': 1}}"),
    ],
)
def test_attributes_that_mean_nothing(attributes: dict[str, Any], says: str) -> None:
    held = {"observation": "Walker.Spot", "action": "Walker.Step", **attributes}
    refused(SchemaError, says, lambda: declare("", **held))


def test_attributes_of_the_author() -> None:
    """What is not near an attribute of the engine's, or holds something else, is the author's own."""
    agents = property(lambda self: self.constants.agents)  # read by a property of theirs
    declare("", steps_to_goal=3, physics=TaskGraph("walk"), observation="a.B", observations=[1], agents=agents)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"step": None}, "Declared: step must be a TaskGraph, got None"),
        ({"action": None}, "Declared: action must be a name, got None"),
        ({"archetypes": Archetype("Walker", Spot, Step, Reward, count=1)}, "archetypes must be a list or tuple, got"),
        ({"singletons": Spot}, "singletons must be a list or tuple, got <class 'test_bad_input.Spot'>; write single"),
        ({"observation": Spot}, "got <class 'test_bad_input.Spot'>; write 'Walker.Spot'"),
        ({"step_counters": "Walker.Spot"}, "step_counters must be a tuple of names, got 'Walker.Spot'; write ('Walker"),
        ({"archetypes": []}, "Declared has no archetypes: the agents, at least, need one, such as archetypes = [Arch"),
        ({"archetypes": [Spot, Step]}, "archetypes must be Archetype(...) each, got <class"),
        ({"systems": "TBS_SYSTEM void walk(World &) {}"}, "is the name of a header, such as 'systems.h', got text"),
    ],
)
def test_declarations_are_refused_by_the_vector_environment(
    tmp_path: Path, attributes: dict[str, Any], says: str
) -> None:
    refused(SchemaError, says, lambda: TorchVectorEnv(_walk(tmp_path, **attributes)(), num_worlds=1))


def test_an_environment_without_a_step(tmp_path: Path) -> None:
    held = {"archetypes": [Archetype("Walker", Spot, Step, Reward, count=1)], "observation": "Walker.Spot"}
    environment = declare("", tmp_path, action="Walker.Step", action_space=Discrete(2), **held)
    says = "Declared has no 'step': name the systems of a step, step = TaskGraph("
    refused(SchemaError, says, lambda: Simulator(environment(), 1))
    Program(declare("", tmp_path, step=TaskGraph(), action="Walker.Step", action_space=Discrete(2), **held)())


def test_a_field_without_its_colon() -> None:
    held = {"x": f32[2], "__annotations__": {"y": f32}}
    says = "component Loose: x = f32[2] declares no field; write x: f32[2]"
    refused(SchemaError, says, lambda: type("Loose", (Component,), held))


@pytest.mark.parametrize(
    ("id", "environment", "error", "says"),
    [
        ("Maze-v0", "maze:Maze", ValueError, "id must be of the form 'my_project/Maze-v0', got 'Maze-v0'"),
        ("mine/Maze", "maze:Maze", ValueError, "id must be of the form 'my_project/Maze-v0', got 'mine/Maze'"),
        ("mine/Maze-v0", "Maze", ValueError, "environment must be a class, or 'module:Class', got 'Maze'"),
        ("mine/Maze-v0", 3, TypeError, "environment must inherit from Environment, or be 'module:Class', got 3"),
        ("mine/Maze-v0", dict, TypeError, "environment must inherit from Environment, or be 'module:Class', got"),
        ("mine/Maze-v0", CartPole(), TypeError, "got an instance of CartPole; give the class: make_vec"),
    ],
)
def test_what_is_registered(id: str, environment: Any, error: type[Exception], says: str) -> None:
    refused(error, says, lambda: torch_batchsim.register(id, environment))


def test_what_a_registered_name_leads_to() -> None:
    torch_batchsim.register("bad_input/Nobody-v0", "os:Nobody")
    torch_batchsim.register("bad_input/Function-v0", "os:getcwd")
    torch_batchsim.register("bad_input/Nowhere-v0", "no_such_module:Maze")
    says = "'no_such_module:Maze' cannot be made: module 'no_such_module' is missing"
    refused(ValueError, says, lambda: gymnasium.make_vec("bad_input/Nowhere-v0"))
    refused(ValueError, "module os has no 'Nobody'", lambda: gymnasium.make_vec("bad_input/Nobody-v0"))
    says = "must be a class that inherits from Environment, or the name of one, such as 'cartpole', 'file.py' or"
    refused(TypeError, says, lambda: gymnasium.make_vec("bad_input/Function-v0"))
    says = "there is no environment 'cartpol' (did you mean 'cartpole'?)"
    refused(ValueError, says, lambda: torch_batchsim.make_vec("cartpol"))


def test_an_id_is_registered_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # as a notebook does that runs a cell again
            torch_batchsim.register("bad_input/Again-v0", "os:Nobody")
    with pytest.warns(UserWarning, match="was registered as os:Nobody, and is os:Other from now on$"):
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
    file = tmp_path / "walks_one.py"
    file.write_text(WALKS.format("OneWalk", "OneOther"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in (str(file), f"{file}:OneWalk", f"{file}:walks/OneWalk-v0", "walks_one:OneWalk", "walks/OneWalk-v0"):
        assert torch_batchsim.find_id(name) == "walks/OneWalk-v0"
    says = f"{file} registers no 'OneOther'; name one of {file}:walks/OneWalk-v0"
    refused(ValueError, says, lambda: torch_batchsim.find_id(f"{file}:OneOther"))
    says = "there is no environment 'walks_one'; known are: cartpole"
    refused(ValueError, says, lambda: torch_batchsim.find_id("walks_one"))
    refused(ValueError, "write walks_one:my_project/Name-v0", lambda: torch_batchsim.find_id("walks_one"))
    (tmp_path / "walks.h").write_text("")
    for path in (tmp_path, tmp_path / "walks.h"):
        refused(ValueError, "is not an environment: name the Python", lambda p=path: torch_batchsim.find_id(str(p)))
    says = "no environment 'walks/Two-v0' (did you mean 'walks/OneWalk-v0'?); where a module"
    refused(ValueError, says, lambda: torch_batchsim.find_id("walks/Two-v0"))
    refused(ValueError, "there is no file nowhere.py", lambda: torch_batchsim.find_id("nowhere.py"))
    empty = tmp_path / "walks_none.py"
    empty.write_text("")
    refused(ValueError, "walks_none.py registers no environment: write", lambda: torch_batchsim.find_id(str(empty)))
    assert torch_batchsim.make_vec(str(file), num_envs=2).sim.environment.name == "OneWalk"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("class Plaice(Drift): pass\nx = Place", "3: name 'Place' is not defined (did you mean 'Plaice'?)"),
        ("x = (3", "2: '(' was never closed"),
        ("import nonesuch", "2: No module named 'nonesuch'"),
        ("from torch_batchsim import Archetpye", "cannot import name 'Archetpye' from 'torch_batchsim' (did you mean"),
        ("torch_batchsim.Archetpye", "has no attribute 'Archetpye' (did you mean 'Archetype'?)"),
        ("{}['a']", "2: KeyError: 'a'"),
        ("torch_batchsim.Archetype('X', Drift, count=3)", "is not a component class"),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_line(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "mistaken_walk.py"
    file.write_text(f"import torch_batchsim; from environments.drift import Drift\n{line}\n")
    for _ in range(2):  # it is not taken for a whole module the second time
        with pytest.raises(ValueError, match=rf"^mistaken_walk\.py:.*{re.escape(says)}"):
            torch_batchsim.find_id(str(file))


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


def test_arguments_of_an_own_init() -> None:
    assert Leveled(4, gravity=1.0).levels == 4 and torch_batchsim.make_vec(Leveled, 1, levels=5)
    says = "Leveled got an unexpected keyword argument 'levles' (did you mean 'levels'?); it has: levels, "
    refused(TypeError, says, lambda: torch_batchsim.make_vec(Leveled, levles=5))
    refused(TypeError, says, lambda: Leveled(levles=5))
    says = "Alone.__init__ does not take the option 'gravity': write def __init__(self, levels, **options), and call"
    refused(TypeError, says, lambda: Alone(gravity=1.0))
    refused(TypeError, says, lambda: torch_batchsim.make_vec(Alone, gravity=1.0))
    refused(TypeError, "Alone got an unexpected keyword argument 'grvity' (did you mean 'gr", lambda: Alone(grvity=1.0))
    for make in (Simulator, TorchVectorEnv):
        with pytest.raises(SchemaError, match=r"Unmade.__init__ does not call super\(\).__init__\(\*\*options\): call"):
            make(Unmade(), 1)


def test_methods_that_return_something_else() -> None:
    says = "Priced: resource_values must return a dict of values by name, got 5"
    refused(SchemaError, says, lambda: Simulator(Priced(), 1))
    env = TorchVectorEnv(Drawn(), 1)
    env.reset()
    says = "Drawn.render() must return an array of uint8 [height, width, 3], got 5"
    refused(TypeError, says, lambda: env.render_world(0))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Archetype("Cart", Push, cuont=2), "Archetype has no argument 'cuont' (did you mean 'count'?); it "),
        (lambda: Option(10, minimun=2), "Option has no argument 'minimun' (did you mean 'minimum'?); it takes: def"),
        (lambda: torch_batchsim.between(5), "between: missing a required argument: 'high'; it takes: low, high"),
        (lambda: torch_batchsim.register("a/B-v0", CartPole, foo=3), "register has no argument 'foo'; it takes: id, "),
    ],
)
def test_arguments_of_declarations(call: Callable[[], Any], says: str) -> None:
    refused(TypeError, says, call)


def test_samples_where_nothing_is_legal() -> None:
    env = torch_batchsim.make_vec("torch_batchsim/Hanabi-v0", num_worlds=3)
    env.reset(seed=0)
    env.action_mask[1] = False
    says = "world 1 has no legal action: the mask of a row that acts must allow one"
    with pytest.raises(ValueError, match=says):
        env.sample_actions()
    env.sim.memory.columns["ended"][1] = 1
    env.sample_actions()


# ---- the build -----------------------------------------------------------------------------------------------------


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    says = "no C++ compiler: 'no-such-compiler' is not on PATH; apt install g++ (11 or later) brings it, or set CXX"
    refused(BuildError, says, lambda: Simulator(CartPole(), 1))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(BuildError, "no C++ compiler: 'g++' is not on PATH", lambda: Simulator(CartPole(), 1))


def test_a_cache_that_cannot_be_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root may write everywhere, a file in the directory's place stands for a read-only cache."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(place))
        for says in (f"cannot write to the build cache {place}: ", "or set TORCH_BATCHSIM_CACHE to a directory that"):
            refused(BuildError, says, lambda: Simulator(CartPole(), 1))
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / "cache"))
    refused(BuildError, f"cannot write to the build cache {tmp_path / 'cache'}: ", lambda: Simulator(CartPole(), 1))
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path))
    refused(BuildError, f"cannot write to the build cache {tmp_path}: ", lambda: Simulator(CartPole(), 1))


def test_a_read_only_cache_that_holds_the_library_serves(build_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache filled by an administrator: nothing is written where nothing is to be built."""
    Simulator(CartPole(), 1)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jit, "_build_lock", refuse)
    assert Simulator(CartPole(), 1).execution.library.build_seconds == 0.0
    assert torch_batchsim.make_vec(CartPole, 2).sim.execution.library.build_seconds == 0.0


def test_standard_headers_in_systems(tmp_path: Path) -> None:
    source = tmp_path / "systems.h"
    source.write_text("\n// #include <map>\n#include <vector>\nTBS_SYSTEM void nothing(World &world) {}\n")
    with pytest.raises(SchemaError, match=r"systems\.h:3: systems cannot include <vector>"):
        read_systems(Unit(source))


def test_one_tensor_for_two_outputs() -> None:
    env = TorchVectorEnv(CartPole(), 4)
    env.reset(seed=0)
    tensor = torch.zeros(4, 4)
    with pytest.raises(ValueError, match="different tensors for different outputs"):
        env.bind(observations=tensor, final_obs=tensor)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"archetypes": [Spot]}, "archetypes must be Archetype(...) each, got"),
        ({"step": ["walk"]}, "step must be a TaskGraph, got ['walk']; write step = TaskGraph('walk')"),
        ({"observation": ["Walker.Spot"]}, "observation must be a name or a dict, got ['Walker.Spot']"),
        ({"faults": "lost"}, "faults must be a list or tuple, got 'lost'"),
        ({"info": {"final_obs": "Walker.Spot"}}, "info 'final_obs' is a name of gymnasium's or the engine's own"),
        ({"info": {"_mine": "Walker.Spot"}}, "info '_mine' is a name of gymnasium's or the engine's own"),
    ],
)
def test_attributes_of_a_wrong_kind(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    refused(SchemaError, f"Declared: {says}", lambda: Program(_walk(tmp_path, **changes)()))


class SmallStep(Component):
    towards: u8


class LongMask(Component):
    legal: boolean[7]


def test_actions_that_their_column_cannot_hold(tmp_path: Path) -> None:
    text = WALK.replace("const Step", "const SmallStep")
    archetypes = (Archetype("Walker", Spot, SmallStep, Reward, count=1),)
    for space in (Discrete(257), Discrete(3, start=-1)):
        environment = _walk(
            tmp_path, text, archetypes=archetypes, action="Walker.SmallStep.towards", action_space=space
        )
        says = f"action_space {space} has values that column Walker.SmallStep of torch.uint8 cannot hold"
        refused(SchemaError, says, lambda environment=environment: Program(environment()))


def test_a_mask_of_another_length_than_the_choices(tmp_path: Path) -> None:
    archetypes = (Archetype("Walker", Spot, Step, LongMask, Reward, count=1),)
    environment = _walk(tmp_path, archetypes=archetypes, action_mask="Walker.LongMask")
    says = "must have one boolean for each choice of action_space Discrete(2), that is 2, got shape [7]"
    refused(SchemaError, says, lambda: Program(environment()))


def test_components_inherit_from_component_alone() -> None:
    with pytest.raises(SchemaError, match="component Wider must inherit from Component only"):
        type("Wider", (Spot,), {"__annotations__": {"width": f32}})


def test_names_of_options_that_others_take() -> None:
    for name in ("copy", "device", "num_envs", "render_mode"):
        refused(SchemaError, f"an option cannot be named '{name}'", lambda name=name: Parameters(**{name: 1}))


def test_options_do_not_change_afterwards() -> None:
    environment = CartPole()
    with pytest.raises(TypeError, match="do not change"):
        environment.parameters["gravity"] = 0.0
    with pytest.raises(TypeError, match="do not change"):
        environment.parameters.gravity = 0.0
    assert environment.parameters.gravity == 9.8


def test_registering_a_limit_that_the_environment_does_not_have() -> None:
    with pytest.raises(TypeError, match="Endless is registered with max_episode_steps, but has no option of that name"):
        torch_batchsim.register("test/Endless-v0", type("Endless", (Environment,), {}), max_episode_steps=5)
