"""Steps with ordinary actions take one call of C++; all others are looked at in Python, with the same results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from support import ENVIRONMENTS, random_actions
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import BuildError, TorchVectorEnv
from torch_batchsim.base.shared import action_dtypes
from torch_batchsim.build import jit
from torch_batchsim.run import step_call
from torch_batchsim.testing import assert_same_bits, snapshot

ROWS = 6


@pytest.fixture
def env() -> TorchVectorEnv:
    env = TorchVectorEnv(CartPole(), ROWS)
    env.reset(seed=3)
    return env


@pytest.fixture(autouse=True)
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def plainly(env: TorchVectorEnv, actions: Any) -> bool:
    """Whether the short call stepped; it changes nothing otherwise."""
    before = snapshot(env.sim)
    stepped = env.sim.step_plainly(actions)
    if not stepped:
        assert_same_bits(before, snapshot(env.sim))
    return stepped


@pytest.mark.parametrize("name", ["cartpole", "drift", "duel"])
def test_both_ways_have_the_same_results(name: str) -> None:
    """For every dtype: integers, floats, and the two parts of MultiDiscrete."""
    short, general = (TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=5) for _ in range(2))
    for env in (short, general):
        env.reset(seed=1)
    general.sim.execution.step_call = step_call.never
    generator = np.random.default_rng(0)
    for dtype in action_dtypes(short.sim.program.action.dtype):
        for _ in range(4):
            actions = random_actions(short, generator).to(dtype)  # bool: 0 and 1 only
            results = [env.step(actions) for env in (short, general)]
            assert torch.equal(results[0][1], results[1][1])
            assert_same_bits(snapshot(short.sim), snapshot(general.sim), f"{dtype}: ")
        assert plainly(short, actions) and not plainly(general, actions)
        general.step(actions)


def test_memory_that_is_contiguous_is_read_where_it_lies(env: TorchVectorEnv) -> None:
    """Also a part of a larger tensor, or one with odd strides for a dimension of one."""
    many = torch.tensor([[0] * ROWS, [1] * ROWS])
    other = TorchVectorEnv(CartPole(), ROWS)
    other.reset(seed=3)
    assert plainly(env, many[1])
    other.step(many[1].clone())
    assert_same_bits(snapshot(env.sim), snapshot(other.sim))
    single = TorchVectorEnv(CartPole(), 1)
    single.reset(seed=0)
    assert plainly(single, torch.zeros(8, dtype=torch.long)[::8])


class Tagged(torch.Tensor):
    pass


NOT_PLAIN: dict[str, Callable[[torch.Tensor], Any]] = {
    "an array": lambda actions: actions.numpy(),
    "a list": lambda actions: actions.tolist(),
    "None": lambda actions: None,
    "a subclass": lambda actions: actions.as_subclass(Tagged),
    "too few": lambda actions: actions[1:],
    "another dimension": lambda actions: actions[:, None],
    "strides": lambda actions: actions.repeat_interleave(2)[::2],
    "sparse": lambda actions: actions.to_sparse(),
    "meta": lambda actions: actions.to("meta"),
    "floats": lambda actions: actions.float(),
    "halves": lambda actions: actions.to(torch.bfloat16),
    "complex": lambda actions: actions.to(torch.complex64),
    "not legal": lambda actions: actions + 7,
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_other_actions_are_left_to_a_closer_look(env: TorchVectorEnv, kind: str) -> None:
    actions = NOT_PLAIN[kind](torch.ones(ROWS, dtype=torch.long))
    assert not plainly(env, actions)
    assert plainly(env, torch.ones(ROWS, dtype=torch.long))  # nothing is left of the refusal


def test_what_is_pending_is_left_to_a_closer_look(env: TorchVectorEnv) -> None:
    actions = torch.ones(ROWS, dtype=torch.long)
    for flag in (env.sim.memory.fault_flag, env.sim.memory.crowded_flag):
        flag[0] = 1
        assert not plainly(env, actions)
        flag[0] = 0
        assert plainly(env, actions)
    torch.set_num_threads(torch.get_num_threads() + 1)
    assert not plainly(env, actions)
    env.step(actions)
    assert plainly(env, actions)
    assert not plainly(TorchVectorEnv(CartPole(), ROWS), actions)  # not reset
    with env.sim.tracing(1000):
        assert not plainly(env, actions)
    assert plainly(env, actions)


def test_a_forked_child_takes_the_general_way(env: TorchVectorEnv) -> None:
    actions = torch.ones(ROWS, dtype=torch.long)
    child = os.fork()
    if child == 0:
        plain = env.sim.step_plainly(actions)
        env.step(actions)
        os._exit(1 if plain else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert plainly(env, actions)


def test_no_reference_is_kept(env: TorchVectorEnv) -> None:
    actions = torch.ones(ROWS, dtype=torch.long)
    held = sys.getrefcount(actions), sys.getrefcount(None), sys.getrefcount(env.sim.execution.step_call)
    for _ in range(1000):
        env.step(actions)
        env.sim.step_plainly(None)
    after = sys.getrefcount(actions), sys.getrefcount(None), sys.getrefcount(env.sim.execution.step_call)
    assert after[0] == held[0] and abs(after[1] - held[1]) < 500 and after[2] == held[2]


def test_wrong_use_of_the_call_raises(env: TorchVectorEnv) -> None:
    call: Any = env.sim.execution.step_call
    actions = torch.ones(ROWS, dtype=torch.long)
    for arguments in ((), (actions,), (actions, 1), (actions, 1, []), (actions, 1, (), [])):
        with pytest.raises(TypeError, match="actions, the address of outputs, their tensors and the watched ones"):
            call(*arguments)
    with pytest.raises(TypeError):
        call(actions, "here", (), b"")
    with pytest.raises(TypeError):
        type(call)()


def test_the_module_has_a_name_of_the_packages_own(env: TorchVectorEnv) -> None:
    own = "torch_batchsim.csrc.host.step_call"
    assert type(env.sim.execution.step_call).__module__ == own
    loaded = {name for name in sys.modules if name.rpartition(".")[2] == "step_call"}
    assert loaded == {"torch_batchsim.run.step_call", own}


def test_without_the_module_steps_go_on(env: TorchVectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python's headers are missing, say: with a warning, and the same results."""
    load = step_call._module.__wrapped__

    def fails(*arguments: Any) -> None:
        raise BuildError("Python.h: No such file or directory")

    with monkeypatch.context() as patch:
        patch.setattr(jit, "load_module", fails)
        with pytest.warns(RuntimeWarning, match=r"some microseconds longer.*Python\.h"):
            assert load() is None
        patch.setattr(step_call, "_module", lambda: None)
        other = TorchVectorEnv(CartPole(), ROWS)
        other.reset(seed=3)
    actions = torch.ones(ROWS, dtype=torch.long)
    assert not plainly(other, actions)
    assert torch.equal(env.step(actions)[0], other.step(actions)[0])
