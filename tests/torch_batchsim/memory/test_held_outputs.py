"""Results that a caller still holds are never overwritten, and whoever lets go of them pays no memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from gymnasium.vector import VectorEnv
from support import full_but

from torch_batchsim import AgentsVectorEnv, TorchVectorEnv
from torch_batchsim.memory import outputs
from torch_batchsim.run import step_call
from torch_batchsim.testing import random_actions

ENVS = {
    "CartPole": {"max_episode_steps": 7},
    "Overcooked": {"horizon": 9},
    "Hanabi": {},
}
STEPS, ROWS = 24, 6


def made(name: str, **options: Any) -> TorchVectorEnv:
    return gymnasium.make_vec(f"torch_batchsim/{name}-v0", num_envs=ROWS, **ENVS[name], **options).unwrapped


def leaves(tree: Any) -> list[Any]:
    """Tensors and arrays in dicts and tuples."""
    if isinstance(tree, (dict, tuple, list)):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in leaves(part)]
    return [tree]


def bytes_of(tree: Any) -> list[bytes]:
    if isinstance(tree, torch.UntypedStorage):
        return [bytes(tree)]
    return [np.ascontiguousarray(torch.as_tensor(leaf).numpy()).tobytes() for leaf in leaves(tree)]


def played(env: VectorEnv, keep: Callable[[tuple[Any, ...]], Any]) -> tuple[list[Any], list[list[bytes]]]:
    """What ``keep`` takes of each result, and the bytes of it then; now and then half of the worlds are reset."""
    kept, then = [], []

    def take(*results: Any) -> None:
        kept.append(keep(results))
        then.append(bytes_of(kept[-1]))

    observations, infos = env.reset(seed=3)
    take(observations, None, None, None, infos)
    for step, actions in enumerate(random_actions(env, STEPS)):
        take(*env.step(actions.numpy() if env.unwrapped.output == "numpy" else actions))
        if step % 5 == 4:
            mask = torch.arange(ROWS) % 4 < 2  # all agents of a world alike
            observations, infos = env.reset(options={"reset_mask": mask})
            take(observations, None, None, None, infos)
    return kept, then


def without_final(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Final values of rows that have not ended are undefined."""
    infos = {key: value for key, value in results[4].items() if "final" not in key}
    return *(part for part in results[:4] if part is not None), infos


WAYS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "everything": without_final,
    "observations": lambda results: results[0],
    "a view": lambda results: leaves(results[0])[0][2:],
    "a row": lambda results: leaves(results[0])[0][1],
    "another dtype": lambda results: torch.as_tensor(leaves(results[0])[0]).view(torch.uint8),
    "an array": lambda results: np.asarray(leaves(results[0])[0]),
    "part of an array": lambda results: np.asarray(leaves(results[0])[0])[1:, ::2],
    "dlpack": lambda results: np.from_dlpack(leaves(results[0])[0]),
    "a detached one": lambda results: torch.as_tensor(leaves(results[0])[0]).detach(),
    "storage": lambda results: torch.as_tensor(leaves(results[0])[0]).untyped_storage(),
    "a memoryview": lambda results: np.asarray(memoryview(np.asarray(leaves(results[0])[0]))),
}


@pytest.mark.crossed
@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("way", full_but(WAYS.keys() - {"storage"}, WAYS))  # others go through the storage too
def test_what_a_caller_holds_stays(way: str, output: str) -> None:
    for name in ENVS:
        kept, then = played(made(name, output=output, num_threads=1), WAYS[way])
        assert [bytes_of(held) for held in kept] == then, name
        assert len({tuple(one) for one in then}) > 2, name


def test_steps_without_the_short_call(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made("CartPole")
    env.sim.execution.step_call = step_call.never
    for way in ("everything", "a row", "storage"):
        kept, then = played(env, WAYS[way])
        assert [bytes_of(held) for held in kept] == then


def test_what_a_gradient_needs_stays() -> None:
    """Losses of several steps, and one gradient of all: torch notices no write of the simulator."""
    losses: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    weights = {copy: torch.linspace(-1, 1, 8).view(4, 2).requires_grad_() for copy in losses}
    for copy, held in losses.items():
        env = made("CartPole", copy=copy or None)
        observations, _ = env.reset(seed=1)
        for _ in range(12):
            logits = observations @ weights[copy]
            held.append(torch.log_softmax(logits, 1)[:, 0].sum())
            observations, *_ = env.step(torch.zeros(ROWS, dtype=torch.int64))
        sum(held).backward()
    assert torch.equal(weights[True].grad, weights[False].grad)


def test_agents_by_name() -> None:
    env = AgentsVectorEnv(made("Overcooked"))
    env.reset(seed=0)
    kept, then = [], []
    for step in range(STEPS):
        actions = {agent: torch.full((ROWS // 2,), step % 6) for agent in env.possible_agents}
        observations, rewards, *_ = env.step(actions)
        kept.append((observations["agent_1"], rewards["agent_0"]))
        then.append(bytes_of(kept[-1]))
    assert [bytes_of(held) for held in kept] == then


def test_what_is_held_stays_when_outputs_are_bound() -> None:
    env = made("CartPole")
    first, _ = env.reset(seed=0)
    second, *_ = env.step(torch.zeros(ROWS, dtype=torch.int64))
    then = bytes_of((first, second))
    env.bind(rewards=torch.zeros(ROWS))
    for _ in range(4):
        env.step(torch.ones(ROWS, dtype=torch.int64))
    env.sim.memory.outputs.unbind()
    for _ in range(4):
        env.step(torch.ones(ROWS, dtype=torch.int64))
    assert bytes_of((first, second)) == then


@pytest.mark.full
def test_who_lets_go_pays_no_memory() -> None:
    """Two sets take turns. Spare ones come with what is held, and go when steps do without them."""
    env = made("CartPole")
    actions = torch.zeros(ROWS, dtype=torch.int64)
    env.reset(seed=0)
    env.reset()
    bytes_at_first = env.sim.memory.num_bytes
    observations, *others = env.step(actions)
    places = set()
    for _ in range(20):
        observations, *others = env.step(actions)
        places.add(observations.data_ptr())
    assert len(places) == 2 and env.sim.memory.num_bytes == bytes_at_first
    bytes_then = []
    for _ in range(4):  # rollouts
        held = [env.step(actions) for _ in range(16)]
        bytes_then.append(env.sim.memory.num_bytes)
    assert bytes_at_first < bytes_then[1] == bytes_then[2] == bytes_then[3]  # memory comes again
    del held, others
    gc.collect()
    for _ in range(100):
        observations, *_ = env.step(actions)
    assert env.sim.memory.num_bytes <= bytes_at_first


def test_one_set_is_written_to_by_every_call() -> None:
    env = made("CartPole", copy=False)
    observations, _ = env.reset(seed=0)
    then = bytes_of(observations)
    other, *_ = env.step(torch.zeros(ROWS, dtype=torch.int64))
    assert other.data_ptr() == observations.data_ptr() and bytes_of(observations) != then


def test_dicts_are_the_callers_own() -> None:
    """A caller that changes a dict of results changes no later result."""
    env = TorchVectorEnv(Duel(), num_worlds=2)
    observations, _ = env.reset(seed=0)
    for actions in random_actions(env, 5):
        assert set(observations) == {"self", "cells"}
        observations.clear()
        observations, *_, infos = env.step(actions)
        assert set(infos["final_obs"]) == {"self", "cells"}
        infos["final_obs"].clear()
        infos.clear()


def test_a_dict_of_observations_is_held() -> None:
    kept, then = played(TorchVectorEnv(Duel(), num_worlds=ROWS // 2), WAYS["observations"])
    assert [bytes_of(held) for held in kept] == then


def test_one_result_that_is_kept_costs_no_more_than_itself() -> None:
    """Rollouts, of one of which a result is kept for ever: spare sets behind it are still found."""
    env = made("CartPole")
    actions = torch.zeros(ROWS, dtype=torch.int64)
    env.reset(seed=0)
    sizes, kept = [], []
    for rollout in range(12):
        held = [env.step(actions) for _ in range(8)]
        kept += [held[5][1]] if rollout in (2, 5) else []
        sizes.append(env.sim.memory.num_bytes)
    assert sizes[-1] == sizes[7]
    then = bytes_of(tuple(kept))
    for _ in range(50):
        env.step(actions)
    assert bytes_of(tuple(kept)) == then


def test_a_result_that_is_kept_is_looked_at_once() -> None:
    """Its memory takes no turns any more, so later steps are plain ones."""
    env = made("CartPole")
    actions = torch.zeros(ROWS, dtype=torch.int64)
    kept = [env.reset(seed=0), env.step(actions)]
    for _ in range(3):
        env.step(actions)
    then = bytes_of(tuple(kept))
    assert all(env.sim.step_plainly(actions) for _ in range(20))
    assert bytes_of(tuple(kept)) == then


def test_more_than_the_spare_sets_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers then get copies, and memory stays as it is."""
    monkeypatch.setattr(outputs, "_MOST_SPARES", 3)
    for way in ("everything", "a row", "an array"):
        env = made("Overcooked")
        kept, then = played(env, WAYS[way])
        assert [bytes_of(held) for held in kept] == then
    monkeypatch.setattr(outputs, "_MOST_SPARE_BYTES", 0)
    kept, then = played(made("CartPole"), WAYS["everything"])
    assert [bytes_of(held) for held in kept] == then


def test_results_that_are_asked_for_after_outputs_were_bound_stay() -> None:
    actions = torch.zeros(ROWS, dtype=torch.int64)
    for arrange in ("bind", "unbind", "slots"):
        env = made("CartPole")
        env.reset(seed=0)
        if arrange == "slots":
            env.bind_slots(rewards=torch.zeros(2, ROWS))
            held, *_ = env.step(actions)
            env.unbind()
        else:
            env.bind(rewards=torch.zeros(ROWS))
            env.step(actions)
            if arrange == "unbind":
                env.unbind()
            held = env.observations
        then = bytes_of(held)
        for _ in range(6):
            env.step(actions)
        assert bytes_of(held) == then, arrange


def test_what_a_graph_writes_to_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a CUDA graph is captured (pretended), new memory is made and never given back."""
    env = made("CartPole")
    actions = torch.zeros(ROWS, dtype=torch.int64)
    env.reset(seed=0)
    held = [env.step(actions)[0] for _ in range(6)]
    del held[3:]
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "is_capturing", lambda device: True)
        held += [env.step(actions)[0] for _ in range(4)]
        held.append(env.reset(options={"reset_mask": torch.arange(ROWS) < 3})[0])
    written = [weakref.ref(memory) for memory, _ in env.sim.memory.outputs._captured[-1].own.values()]
    written += [weakref.ref(tensor) for tensor in env.sim.memory.outputs.present.tensors.values()]
    held.clear()
    env.reset(options={"reset_mask": torch.arange(ROWS) < 3})
    env.reset(options={"reset_mask": torch.arange(ROWS) < 3})
    env.bind(rewards=torch.zeros(ROWS))
    for _ in range(100):
        env.step(actions)
    env.unbind()
    gc.collect()
    assert all(tensor() is not None for tensor in written)
