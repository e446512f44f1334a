"""Environments that come with the engine, in a checked build: nothing is found in them, in whichever way they step."""

import re
import subprocess

import pytest
import torch
from support import of_today
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.hideseek import HideSeek
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim import Checks, TorchVectorEnv, WorldFault
from torch_batchsim.build import emulation, jit
from torch_batchsim.build.checked import flags
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.check.policies import Policy
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, snapshot
from torch_batchsim.vector.partial_step import step_some

pytestmark = pytest.mark.full

EVERY = Checks(leftovers=1)


@pytest.mark.parametrize("environment", [HideSeek, Hanabi, Overcooked, Swarm, CartPole])
def test_nothing_is_found(environment):
    env, plain = (TorchVectorEnv(environment(), num_worlds=2, checks=c, num_threads=1) for c in (EVERY, False))
    policy = Policy(env, 2)
    for each in (env, plain):
        each.reset(seed=0)
    for _ in range(50):
        actions = policy(env)
        env.step(actions)
        plain.step(actions)
    assert_same_bits(snapshot(env.sim), snapshot(plain.sim))


def test_loops_over_rows_with_nothing_to_check_are_vectors(tmp_path):
    program, unit = Program(CartPole(), Checks()), tmp_path / "unit.cpp"
    unit.write_text(generate(program, Target()))
    options = [*jit.compiler_flags("cpu"), *flags(program), f"-I{jit.CSRC}", "-fopt-info-vec-optimized"]
    command = [jit.cpp_compiler(), *options, "-c", str(unit), "-o", str(tmp_path / "unit.o")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert len(re.findall(r"run_checked\.h:\d+:\d+: optimized: loop vectorized", said)) >= 2  # push_cart and judge


@pytest.mark.parametrize("environment", of_today([HideSeek, Hanabi, Overcooked, Swarm, CartPole], 2))
def test_nothing_is_found_on_cuda_and_bits_are_those_of_an_ordinary_build(environment):
    checked = emulation.load(Program(environment(), Checks()), "graph")
    env = TorchVectorEnv(environment(), num_worlds=2, checks=Checks(), _library=checked)
    plain = TorchVectorEnv(environment(), num_worlds=2, checks=False, num_threads=1)
    policy = Policy(plain, 2)
    for each in (env, plain):
        each.reset(seed=0)
    for _ in range(12):
        actions = policy(plain)
        env.step(actions)
        plain.step(actions)
    env.sim.check_faults()
    assert_same_bits(snapshot(env.sim), snapshot(plain.sim))


@pytest.mark.parametrize("environment", [HideSeek, CartPole])
def test_nothing_is_found_where_some_worlds_step(environment):
    options = {"num_worlds": 3, "autoreset_mode": "NextStep", "num_threads": 1}
    env, plain = (TorchVectorEnv(environment(), checks=c, **options) for c in (EVERY, False))
    policy = Policy(env, 3)
    for each in (env, plain):
        each.reset(seed=0)
    for step in range(20):
        worlds, actions = torch.arange(3) % 2 == step % 2, policy(env)
        step_some(env, actions, worlds)
        step_some(plain, actions, worlds)
    assert_same_bits(snapshot(env.sim), snapshot(plain.sim))


def test_a_fault_where_some_worlds_step_is_that_of_its_world():
    env = TorchVectorEnv(CartPole(), num_worlds=4, checks=True, autoreset_mode="NextStep")
    env.reset(seed=0)
    actions = torch.zeros(4, dtype=torch.long)
    env.sim.tensor("Cart.CartState.x")[2] = float("nan")
    step_some(env, actions, torch.tensor([True, True, False, True]))  # it stands still
    with pytest.raises(WorldFault) as caught:
        step_some(env, actions, torch.tensor([False, True, True, False]))
    assert caught.value.mask.nonzero().tolist() == [[2]] and caught.value.stepped
    assert "nan in Cart.CartState.x" in str(caught.value)
    assert env.sim.tensor("World.step").tolist() == [1, 2, 1, 1]
