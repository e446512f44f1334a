"""Every row of ``final_obs`` and ``final_info`` is the row's true last value, in all kinds of results."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from support import ENVIRONMENTS, full_but
from torch.utils import _pytree
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.overcooked import Overcooked

from torch_batchsim import AgentsVectorEnv, EpisodeStatistics, TorchVectorEnv
from torch_batchsim.testing import random_actions

KINDS = {
    "tensors": {},
    "copies": {"copy": True},
    "one set": {"copy": False},
    "arrays": {"output": "numpy"},
    "copied arrays": {"output": "numpy", "copy": True},
}


def array(value: Any) -> np.ndarray:
    return np.asarray(torch.as_tensor(value))


def leaves(tree: Any, start: str = "") -> dict[str, np.ndarray]:
    if isinstance(tree, dict):
        parts = {name: part for name, part in tree.items() if not name.startswith("_")}
        return {at: leaf for name, part in parts.items() for at, leaf in leaves(part, f"{start}{name}.").items()}
    return {start: array(tree)}


@pytest.mark.crossed
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", full_but(["cartpole", "hanabi"], [*ENVIRONMENTS, "duel"]))
def test_rows_that_go_on_have_the_values_of_the_step(name: str, kind: str) -> None:
    """Rows that have ended have those of an environment that waits for a reset behind each end."""
    make: Callable[..., Any] = Duel if name == "duel" else ENVIRONMENTS[name]
    env = TorchVectorEnv(make(), num_worlds=6, num_threads=1, **KINDS[kind])
    plain = TorchVectorEnv(make(), num_worlds=6, num_threads=1, autoreset_mode="Disabled")
    env.reset(seed=1)
    plain.reset(seed=1)
    ends = 0
    for actions in random_actions(plain, 30):
        result = env.step(actions.numpy() if env.output == "numpy" else actions)
        expected = plain.step(actions)
        infos = result[4]
        ended = array(infos["_final_obs"])
        for key, now, true in (("final_obs", result[0], expected[0]), ("final_info", result[4], expected[4])):
            last = leaves(infos[key])
            now = leaves({at: part for at, part in now.items() if "final" not in at} if isinstance(now, dict) else now)
            for at, value in last.items():
                assert np.array_equal(value[~ended], now[at][~ended]), (key, at)
                assert np.array_equal(value, leaves(true)[at]), (key, at)
        ends += ended.sum()
        if ended.any():
            plain.reset(options={"reset_mask": plain.ended_worlds()})
    assert ends or name in ("hideseek", "swarm", "overcooked")


def replaced(observations: np.ndarray, infos: dict[str, Any]) -> np.ndarray:
    """The idiom of CleanRL's scripts and of many others."""
    following = observations.copy()
    for row, last in enumerate(infos["final_obs"]):
        if last is not None:
            following[row] = last
    return following


def test_the_idiom_that_replaces_rows_one_by_one() -> None:
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=8, output="numpy", max_episode_steps=6)
    env.reset(seed=0)
    for _ in range(20):
        observations, _, terminated, truncated, infos = env.step(np.zeros(8, dtype=np.int64))
        ended = terminated | truncated
        following = replaced(observations, infos)
        assert np.array_equal(following[~ended], observations[~ended])
        assert (following[ended] != observations[ended]).any(1).all()


def read() -> dict[str, Callable[[Any], Any]]:
    return {
        "[]": lambda infos: infos["final_obs"],
        "get": lambda infos: infos.get("final_obs"),
        "pop": lambda infos: infos.pop("final_obs"),
        "setdefault": lambda infos: infos.setdefault("final_obs"),
        "items": lambda infos: dict(list(infos.items()))["final_obs"],
        "values": lambda infos: list(infos.values())[list(infos).index("final_obs")],
        "dict": lambda infos: dict(infos)["final_obs"],
        "**": lambda infos: {**infos}["final_obs"],
        "|": lambda infos: (infos | {"more": 1})["final_obs"],
        "|, right": lambda infos: ({"more": 1} | infos)["final_obs"],
        "update": lambda infos: _updated(infos)["final_obs"],
        "copy": lambda infos: infos.copy()["final_obs"],
        "copy.copy": lambda infos: copy.copy(infos)["final_obs"],
        "deepcopy": lambda infos: copy.deepcopy(infos)["final_obs"],
        "pickle": lambda infos: pickle.loads(pickle.dumps(infos))["final_obs"],
        "torch.save": lambda infos: _loaded(infos)["final_obs"],
        "a tree": lambda infos: _pytree.tree_map(lambda leaf: leaf, infos)["final_obs"],
        "json": lambda infos: torch.tensor(json.loads(json.dumps(infos, default=torch.Tensor.tolist))["final_obs"]),
        "popitem": lambda infos: next(part for key, part in iter(infos.popitem, None) if key == "final_obs"),
        "a step later": None,
    }


def _loaded(infos: Any) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(infos, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def _updated(infos: Any) -> dict[str, Any]:
    own: dict[str, Any] = {}
    own.update(infos)
    return own


@pytest.mark.parametrize("way", read())
def test_however_it_is_read(way: str) -> None:
    env = TorchVectorEnv(CartPole(max_episode_steps=5), 4)
    env.reset(seed=0)
    for _ in range(7):
        observations, *_, infos = env.step(torch.zeros(4, dtype=torch.int64))
        held = observations.clone()
        if way == "a step later":
            for _ in range(3):
                env.step(torch.ones(4, dtype=torch.int64))
            last = infos["final_obs"]
        else:
            last = read()[way](infos)
        ended = infos["_final_obs"] if "_final_obs" in infos else torch.zeros(4, dtype=torch.bool)
        if way != "popitem":
            assert torch.equal(last[~ended], held[~ended])
            assert not ended.any() or not torch.equal(last[ended], held[ended])
    assert isinstance(infos, dict)


def test_nobody_else_pays() -> None:
    """Entries that nobody reads are not completed: rows that go on keep what was there."""
    env = TorchVectorEnv(CartPole(), 4)
    env.reset(seed=0)
    *_, infos = env.step(torch.zeros(4, dtype=torch.int64))
    assert "final_obs" in infos and len(infos) == 4 and set(infos.keys()) >= {"final_obs"}
    assert not env.sim.tensor("final.Cart.CartState").any()
    assert infos["final_obs"].any() and env.sim.tensor("final.Cart.CartState").any()


def test_wrappers_and_agents_by_name() -> None:
    env = EpisodeStatistics(TorchVectorEnv(CartPole(max_episode_steps=5), 4))
    env.reset(seed=0)
    for _ in range(8):
        observations, *_, infos = env.step(torch.zeros(4, dtype=torch.int64))
        going = ~infos["_final_obs"]
        assert torch.equal(infos["final_obs"][going], observations[going])
    for wrap in (lambda rows: rows, EpisodeStatistics):
        by_agent = AgentsVectorEnv(wrap(TorchVectorEnv(Overcooked(horizon=5), num_worlds=3)))
        by_agent.reset(seed=0)
        for step in range(12):
            actions = {agent: torch.full((3,), step % 6) for agent in by_agent.possible_agents}
            observations, *_, infos = by_agent.step(actions)
            for agent in by_agent.possible_agents:
                going = ~infos[agent]["_final_obs"]
                assert torch.equal(infos[agent]["final_obs"][going], observations[agent][going])
                assert not going.all() or infos[agent]["final_obs"].any()
