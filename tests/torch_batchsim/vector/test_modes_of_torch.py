"""Torch's global modes of a caller: results are the same in them, and nothing of them stays in the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from environments.duel import Duel
from support import ENVIRONMENTS, full_but
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.train import A2CConfig, PPOConfig, Trainer, evaluate

from torch_batchsim import AgentsVectorEnv, EpisodeStatistics, GroupedEnv, TorchVectorEnv, TorchVectorWrapper
from torch_batchsim.base.modes import plain_torch
from torch_batchsim.run import step_call
from torch_batchsim.testing import random_actions

ROWS, STEPS = 8, 12


class Refusing(TorchFunctionMode):
    """Lets nothing be made in it."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is torch.zeros:
            raise AssertionError("made in a mode of the caller")
        return function(*arguments, **(options or {}))


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "device": default_device,
    "a device": lambda: torch.device("meta"),
    "dtype": default_dtype,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "function": Refusing,
    "fake": FakeTensorMode,
}
by_mode = pytest.mark.parametrize("mode", MODES)


def leaves(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, dict):
        return [leaf for key, part in tree.items() if "final" not in key for leaf in leaves(part)]
    return [tree]


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    pairs = [pair for parts in zip(one, other, strict=True) for pair in zip(*map(leaves, parts), strict=True)]
    return all(torch.equal(a, b) and a.dtype == b.dtype and not b.is_inference() for a, b in pairs)


@pytest.mark.crossed
@by_mode
@pytest.mark.parametrize("name", full_but(["cartpole", "overcooked"], ENVIRONMENTS))
@pytest.mark.parametrize("short", [True, False], ids=["short call", "general way"])
def test_steps_in_a_mode_and_after_it(name: str, mode: str, short: bool) -> None:
    """Made, reset and stepped in a mode, and then without it, or the other way round: as one that never saw a mode."""
    plain = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=ROWS, num_threads=1)
    actions = random_actions(plain, STEPS)
    for inside in ((True, False), (False, True), (False, False)):
        plain.reset(seed=3)
        with MODES[mode]() if inside[0] else torch.enable_grad():
            env = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=ROWS, num_threads=1)
            env.reset(seed=3)
        if not short:
            env.sim.execution.step_call = step_call.never
        for step, action in enumerate(actions):
            expected, given = plain.step(action), action.clone()
            with MODES[mode]() if inside[1] and step % 5 < 3 else torch.enable_grad():
                found = env.step(given)
            assert same(expected, found), (inside, step)
            if step == 6:
                mask = torch.arange(ROWS) % 4 < 2
                plain.reset(options={"reset_mask": mask})
                with MODES[mode]() if inside[1] else torch.enable_grad():
                    env.reset(options={"reset_mask": mask})
        weights = torch.ones(2, requires_grad=True)
        (leaves(found[0])[0].float().sum() * weights).sum().backward()  # inference tensors would refuse
        leaves(found[0])[0].zero_()


@by_mode
def test_what_stands_around_rows(mode: str) -> None:
    """By agent, in groups, with statistics, with a dict of observations: made in a mode, used after it."""
    zeros = torch.zeros(4, dtype=torch.int64)
    rows = torch.zeros(8, 2, dtype=torch.int64)
    with MODES[mode]():
        by_agent = AgentsVectorEnv(TorchVectorEnv(Overcooked(), num_worlds=4))
        by_agent.reset(seed=0)
        counted = EpisodeStatistics(TorchVectorEnv(CartPole(), 4))
        counted.reset(seed=0)
        grouped = GroupedEnv(CartPole(), 8, groups=2)
        duel = TorchVectorEnv(Duel(), 8)
        duel.reset(seed=0)
        by_agent.step(dict.fromkeys(by_agent.possible_agents, zeros))
        counted.step(zeros)
        assert counted.totals()[2] == 0
        counted.load_state_dict(counted.state_dict())
        duel.step(rows)
    for _ in range(3):
        by_agent.step(dict.fromkeys(by_agent.possible_agents, zeros))
        counted.step(zeros)
        duel.step(rows)
    counted.reset()
    grouped.async_reset(seed=0)
    for _ in range(2):
        batch = grouped.recv()
        grouped.send(batch.group, zeros)
    grouped.close()
    state = duel.state_dict()
    with MODES[mode]():
        duel.load_state_dict(state)
        duel.sim.copy_worlds([0], [1])
        duel.sim.tensor("World.step")
    duel.step(rows)


SHORT: dict[str, Any] = {"total_steps": 2048, "num_steps": 16, "num_minibatches": 2, "update_epochs": 1}


@cache
def trained(config: Any, mode: str | None = None) -> tuple[torch.Tensor, ...]:
    """The returns of an evaluation after two updates in the mode, and the parameters after one more outside of it."""
    with MODES[mode]() if mode else torch.enable_grad():
        trainer = Trainer(TorchVectorEnv(CartPole(), 32, num_threads=1), config)
        for _ in range(2):
            trainer.iterate()
        score = evaluate(TorchVectorEnv(CartPole(), 8, num_threads=1), trainer.agents, seed=1)
    trainer.iterate()
    return score.returns, *(p.detach().clone() for p in trainer.groups[0].agent.parameters())


@pytest.mark.crossed
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(PPOConfig(**SHORT), id="ppo"),
        pytest.param(PPOConfig(**SHORT, memory="gru"), id="gru"),
        pytest.param(A2CConfig(total_steps=2048, num_steps=16), id="a2c", marks=pytest.mark.full),
    ],
)
@by_mode
def test_a_training_in_a_mode(mode: str, config: Any) -> None:
    expected, found = trained(config), trained.__wrapped__(config, mode)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(expected, found, strict=True))


def refused() -> dict[str, Callable[[TorchVectorEnv, torch.Tensor], Any]]:
    def fake(env: TorchVectorEnv, actions: torch.Tensor) -> Any:
        with FakeTensorMode() as mode:
            return env.step(mode.from_tensor(actions))

    def resized(actions: torch.Tensor) -> torch.Tensor:
        actions.untyped_storage().resize_(0)
        return actions

    return {
        "fake": fake,
        "no storage": lambda env, actions: env.step(resized(actions.clone())),
        "zeros": lambda env, actions: env.step(torch._efficientzerotensor((ROWS,), dtype=torch.int64)),
        "functional": lambda env, actions: env.step(torch._to_functional_tensor(actions)),
        "subclass": lambda env, actions: env.step(TwoTensor(actions, actions)),
        "vmap": lambda env, actions: torch.vmap(lambda each: env.step(each)[0])(actions.expand(2, -1)),
        "grad": lambda env, actions: torch.func.jvp(lambda x: env.step(x)[0], (actions,), (actions,)),
        "functionalize": lambda env, actions: torch.func.functionalize(lambda x: env.step(x)[0])(actions),
        "bound": lambda env, actions: env.bind(rewards=FakeTensorMode().from_tensor(torch.zeros(ROWS))),
        "mask": lambda env, actions: env.reset(
            options={"reset_mask": FakeTensorMode().from_tensor(torch.ones(ROWS, dtype=torch.bool))}
        ),
    }


@pytest.mark.crossed
@pytest.mark.parametrize("kind", refused())
@pytest.mark.parametrize("short", [True, False])
def test_tensors_without_memory_are_refused(kind: str, short: bool) -> None:
    env = TorchVectorEnv(CartPole(continuous=kind == "grad"), ROWS)
    env.reset(seed=0)
    if not short:
        env.sim.execution.step_call = step_call.never
    actions = torch.zeros(ROWS, 1) if kind == "grad" else torch.zeros(ROWS, dtype=torch.int64)
    with pytest.raises(TypeError, match="only stands for one: leave FakeTensorMode"):
        refused()[kind](env, actions)
    env.step(actions)
    assert env.sim.tensor("World.step").tolist() == [1] * ROWS


@pytest.mark.parametrize("short", [True, False])
def test_a_lazy_negation_is_resolved(short: bool) -> None:
    env = TorchVectorEnv(CartPole(continuous=True), 2)
    env.reset(seed=0)
    if not short:
        env.sim.execution.step_call = step_call.never
    actions = torch.full((2, 1), 0.5j).conj().imag
    assert actions.is_neg()
    env.step(actions)
    assert env.sim.tensor("Cart.Push").flatten().tolist() == [-0.5, -0.5]


@pytest.mark.full
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_function_around_steps(backend: str) -> None:
    """Several environments, the first step inside, with properties and wrappers: as without the compiler."""
    torch._dynamo.reset()

    def rollout(env: Any, weights: torch.Tensor) -> torch.Tensor:
        observations, _ = env.reset(seed=1)
        seen = []
        for _ in range(6):
            actions = (observations @ weights > 0).long()
            observations, rewards, *_ = env.step(actions)
            seen.append(observations.sum(1) * rewards + env.unwrapped.observations[:, 0])
        return torch.stack(seen)

    compiled = torch.compile(rollout, backend=backend)
    weights = torch.tensor([0.1, 0.5, 1.0, 0.3])
    for rows in (ROWS, ROWS, 16, 4):
        for wrap in (lambda env: env, EpisodeStatistics):
            found = compiled(wrap(TorchVectorEnv(CartPole(), rows)), weights)
            assert torch.equal(found, rollout(wrap(TorchVectorEnv(CartPole(), rows)), weights)), (rows, wrap)

    @torch.compile(backend=backend)
    def step(env: TorchVectorEnv, actions: torch.Tensor) -> torch.Tensor:
        return env.step(actions)[0] * 2

    for rows in (16, 8, 16):
        env, plain = (TorchVectorEnv(CartPole(), rows) for _ in range(2))
        env.reset(seed=2)
        plain.reset(seed=2)
        for _ in range(5):
            actions = torch.ones(rows, dtype=torch.int64)
            assert torch.equal(step(env, actions), plain.step(actions)[0] * 2)


class Encoded(TorchVectorWrapper):
    """Observations by a network, as a caller's wrapper returns them."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.network = torch.nn.Linear(4, 3)
        self.devices: list[torch.device] = []

    def reset(self, **options: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        observations, infos = self.env.reset(**options)
        self.devices.append(torch.zeros(1).device)
        return self.network(observations), infos

    def step(self, actions: Any) -> tuple[Any, ...]:
        observations, *others = self.env.step(actions)
        return (self.network(observations), *others)


def test_code_of_the_caller_runs_in_the_callers_modes() -> None:
    env = EpisodeStatistics(Encoded(TorchVectorEnv(CartPole(), 4)))
    for mode, learns in ((torch.no_grad, False), (torch.inference_mode, False), (torch.enable_grad, True)):
        with mode():
            observations, _ = env.reset(seed=0)
            assert observations.requires_grad == learns
            assert env.step(torch.zeros(4, dtype=torch.int64))[0].requires_grad == learns
    with torch.device("meta"):
        with pytest.raises(RuntimeError):
            Encoded(TorchVectorEnv(CartPole(), 4)).reset()  # its network is on that device
        env.reset()
    assert env.env.devices[-1].type == "meta"
    with torch.no_grad(), plain_torch():
        assert not torch.is_grad_enabled()
