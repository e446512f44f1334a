"""A copy of an adapter, pickled or deep, goes on as the original does, in memory of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from libraries_of_others import adapter

from torch_batchsim.adapters.records import ADAPTERS, CARTPOLE, OVERCOOKED, Adapter

HANABI = "torch_batchsim/Hanabi-v0"
SHORT = {"num_worlds": 4, "max_episode_steps": 7}  # episodes end within the test
Call = Callable[[Any], Any]


def of_torchrl(env: Any) -> Any:
    """By the masks in the action spec, worlds that are done begin anew."""
    done = env.step(env.rand_action())
    masks = {"_reset": done["next", "done"]}
    return done, env.reset(done.empty().update(masks)) if masks["_reset"].any() else ()


def by_agent(env: Any) -> Any:
    return env.step(dict.fromkeys(env.agents, torch.randint(4, ()).numpy()[()]))


def in_turn(game: Any) -> Any:
    """A turn of PettingZoo's games, anew after their ends."""
    if not game.agents:
        game.reset()
    observation, _, terminated, truncated, _ = game.last()
    legal = observation["action_mask"].nonzero()[0]
    game.step(None if terminated or truncated else int(legal[int(torch.randint(len(legal), ()))]))
    return observation, game.state()


MULTI = {"num_worlds": 4, "horizon": 7}
# Other state of adapters: module and class, a function that makes it, and one that steps it.
CASES: dict[str, tuple[str, str, Call, Call]] = {
    "skrl agents": (
        "skrl", "SkrlMultiAgentEnv", lambda c: c(OVERCOOKED, seed=0, **MULTI),
        lambda env: (env.step(dict.fromkeys(env.agents, torch.randint(4, (4, 1))))[:4], env.state()),
    ),
    "torchrl": ("torchrl", "TorchRLEnv", lambda c: c(CARTPOLE, **SHORT), of_torchrl),
    "torchrl masks": (
        "torchrl", "TorchRLEnv", lambda c: c(HANABI, num_worlds=4, autoreset_mode="SameStep"), of_torchrl,
    ),
    "pufferlib masks": (
        "pufferlib", "PufferLibEnv", lambda c: c(HANABI, num_worlds=4),
        lambda env: (env.step(env.action_mask.argmax(1)), env.action_mask),
    ),
    "pettingzoo turns": ("pettingzoo", "env", lambda c: c(HANABI), in_turn),
    "rllib agents": ("rllib", "RLlibMultiAgentEnv", lambda c: c({"env": OVERCOOKED, "horizon": 30}), by_agent),
}  # fmt: skip
LENGTHS = {CARTPOLE: {"max_episode_steps": 7}, OVERCOOKED: {"horizon": 30}}  # episodes end within the test, or do not
PLAYED = [record for record in ADAPTERS.values() if record.module != "envpool"]  # which refuses copies


def leaves(value: Any) -> Iterator[np.ndarray]:
    """Copies of all numbers in an adapter's results, but for final values, which are valid at ends only."""
    if isinstance(value, (Mapping, tuple, list)) or hasattr(value, "batch_size"):
        for name, part in value.items() if hasattr(value, "items") else enumerate(value):
            if not str(name).startswith("final"):
                yield from leaves(part)
    elif isinstance(value, (torch.Tensor, np.ndarray, np.generic, int, float)) or hasattr(value, "__dlpack__"):
        array = value.numpy().copy() if isinstance(value, torch.Tensor) else np.array(value)
        if array.dtype != object:
            yield array


def played(env: Any, step: Call, steps: int = 12) -> list[list[np.ndarray]]:
    results = []
    for number in range(steps):
        torch.manual_seed(number)
        results.append(list(leaves(step(env))))
    return results


def assert_alike(copy: list[list[np.ndarray]], original: list[list[np.ndarray]]) -> None:
    for number, (one, other) in enumerate(zip(copy, original, strict=True)):
        assert len(one) == len(other) >= 2, f"step {number}"
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left, right), f"step {number}"
    assert any(repr(parts) != repr(original[0]) for parts in original), "nothing happens"


of_both_kinds = pytest.mark.parametrize(
    "copied", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)


def assert_copies_go_on(original: Any, step: Call, copied: Call) -> None:
    """The copy plays first: a change of the original by the copy would show in the original's later steps."""
    played(original, step, 3)
    copy = copied(original)
    again = played(copy, step)
    assert_alike(again, played(original, step))
    assert_alike(played(copied(copy), step), played(original, step))


@of_both_kinds
@pytest.mark.parametrize("record", PLAYED, ids=str)
def test_a_copy_goes_on_alike(record: Adapter, copied: Call) -> None:
    play = adapter(record.module, "play")
    original, step, actions = play(
        record.environment, record.rows or 4, **record.options, **LENGTHS[record.environment]
    )
    assert_copies_go_on(original, lambda env: step(env, actions[int(torch.randint(len(actions), ()))]), copied)


@of_both_kinds
@pytest.mark.parametrize("name", CASES)
def test_other_state_goes_on_alike(name: str, copied: Call) -> None:
    module, cls, make, step = CASES[name]
    original = make(adapter(module, cls))
    original.reset()
    assert_copies_go_on(original, step, copied)


@of_both_kinds
def test_copies_of_rsl_rl_have_counters_of_their_own(copied: Call) -> None:
    original = adapter("rsl_rl", "RslRlEnv")(CARTPOLE, seed=0, continuous=True, **SHORT)
    copy = copied(original)
    copy.episode_length_buf = torch.tensor([6, 0, 6, 0])
    for env, expected in ((copy, [True, False, True, False]), (original, [False] * 4)):
        assert env.step(torch.zeros(4, 1))[3]["time_outs"].tolist() == expected
