"""``AgentsVectorEnv``: the same games as by row, by the names of agents, and what other libraries make of it."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.melee import Melee
from gymnasium.vector import AutoresetMode
from support import ENVIRONMENTS, all_but_hideseek, random_actions
from torch_batchsim.envs.overcooked import Overcooked

import torch_batchsim
from torch_batchsim import AgentsVectorEnv, EpisodeStatistics, TorchVectorEnv, WorldFault
from torch_batchsim.testing import assert_same_bits, snapshot

ID = "torch_batchsim/Overcooked-v0"
WORLDS = 5


def pair(name: str, mode: AutoresetMode = AutoresetMode.SAME_STEP, **kwargs: Any) -> tuple[TorchVectorEnv, Any]:
    """An environment by row, and one by agent."""
    make = {"num_worlds": WORLDS, "autoreset_mode": mode, "num_threads": 1, **kwargs}
    return TorchVectorEnv(ENVIRONMENTS[name](), **make), AgentsVectorEnv(TorchVectorEnv(ENVIRONMENTS[name](), **make))


def split(rows: TorchVectorEnv, actions: torch.Tensor) -> dict[str, torch.Tensor]:
    return {f"agent_{i}": part.clone() for i, part in enumerate(rows.by_world(actions).unbind(1))}


def assert_equal(expected: Any, found: Any, agent: int, agents: int) -> None:
    """An agent's part is that of its rows."""
    if isinstance(expected, dict):
        assert expected.keys() == found.keys()
        for key in expected:
            assert_equal(expected[key], found[key], agent, agents)
    else:
        assert type(expected) is type(found)
        assert np.array_equal(np.asarray(expected[agent::agents]), np.asarray(found), equal_nan=True)


def assert_same(expected: tuple[Any, ...], found: tuple[Any, ...], agents: int) -> None:
    assert len(expected) == len(found)
    for rows, by_agent in zip(expected, found, strict=True):
        assert list(by_agent) == [f"agent_{i}" for i in range(agents)]
        for i, own in enumerate(by_agent.values()):
            assert_equal(rows, own, i, agents)


def games(name: str, mode: AutoresetMode, steps: int = 16, **kwargs: Any) -> None:
    """Play the same game by row and by agent, and compare all results, and all that worlds hold at the end."""
    rows, by_agent = pair(name, mode, **kwargs)
    agents, generator = rows.num_agents, np.random.default_rng(0)
    assert_same(rows.reset(seed=3), by_agent.reset(seed=3), agents)
    for step in range(steps):
        actions = random_actions(rows, generator)
        assert_same(rows.step(actions), by_agent.step(split(rows, actions)), agents)
        state = torch.as_tensor(by_agent.state())
        assert state.shape == (WORLDS, *by_agent.state_space.shape)
        if not isinstance(rows.observations, dict):
            assert torch.equal(state.nan_to_num(), rows.observations.reshape(WORLDS, -1).nan_to_num())
        if mode is AutoresetMode.DISABLED and step % 5 == 4:
            ended = torch.arange(WORLDS) % 2 == 0
            options = {"reset_mask": ended}
            assert_same(rows.reset(options=options), by_agent.reset(options=options), agents)
    assert_same_bits(snapshot(rows.sim), snapshot(by_agent.sim))


# ---- the same games ------------------------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", all_but_hideseek(sorted(ENVIRONMENTS)))
def test_results_of_agents_are_those_of_rows(name: str, mode: AutoresetMode) -> None:
    games(name, mode)


@pytest.mark.crossed
@pytest.mark.parametrize("kwargs", [{"output": "numpy"}, {"copy": True}, {"copy": False}], ids=str)
@pytest.mark.parametrize("name", ["duel", "melee"])
def test_in_every_kind_of_output(name: str, kwargs: dict[str, Any]) -> None:
    games(name, AutoresetMode.SAME_STEP, **kwargs)


def test_results_are_views_that_stay_as_long_as_rows_do() -> None:
    _, env = pair("overcooked")
    env.reset(seed=0)
    actions = {agent: torch.zeros(WORLDS, dtype=torch.int64) for agent in env.possible_agents}
    first = env.step(actions)
    rows = env.vector_env.observations
    assert first[0]["agent_1"].data_ptr() == env.by_world(rows)[:, 1].data_ptr()
    assert env.state().data_ptr() == rows.data_ptr()
    kept = first[0]["agent_0"].clone()
    first[4]["agent_0"]["note"] = first[4]["agent_0"]["final_info"]["note"] = first[0]["note"] = "mine"
    env.step(actions)
    assert torch.equal(first[0]["agent_0"], kept)
    place = first[0]["agent_0"].data_ptr()
    del first, rows
    third = env.step(actions)
    assert third[0]["agent_0"].data_ptr() == place
    assert "note" not in third[0] | third[4]["agent_0"] | third[4]["agent_0"]["final_info"]


def test_outputs_bound_by_row_are_returned_by_agent() -> None:
    _, env = pair("overcooked")
    env.reset(seed=0)
    rewards = torch.zeros(3, 2 * WORLDS)
    env.vector_env.bind_slots(rewards=rewards)
    actions = {agent: np.zeros(WORLDS, np.int64) for agent in env.possible_agents}
    for t in range(3):
        env.vector_env.select_slot(t)
        assert env.step(actions)[1]["agent_1"].data_ptr() == rewards[t, 1:].data_ptr()
    env.vector_env.unbind()
    assert env.step(actions)[1]["agent_1"].data_ptr() not in [part.data_ptr() for part in rewards[:, 1]]


def test_statistics_of_episodes_reach_each_agent() -> None:
    rows, _ = pair("melee")
    env = AgentsVectorEnv(EpisodeStatistics(TorchVectorEnv(Melee(), num_worlds=WORLDS)))
    rows = EpisodeStatistics(rows)
    assert_same(rows.reset(seed=0), env.reset(seed=0), 4)
    for _ in range(15):
        actions = random_actions(rows.unwrapped, np.random.default_rng(0))
        assert_same(rows.step(actions), env.step(split(rows.unwrapped, actions)), 4)


def test_a_fault_has_its_outputs_by_agent() -> None:
    rows, env = pair("duel")
    actions = torch.zeros(2 * WORLDS, 2, dtype=torch.int64)
    faults = []
    for made, given in ((rows, actions), (env, split(rows, actions))):
        made.reset(seed=0)
        made.sim.tensor("Fighter.Place.strength")[3] = 1000
        with pytest.raises(WorldFault, match="world 3") as raised:
            made.step(given)
        faults.append(raised.value)
    assert_same(faults[0].outputs, faults[1].outputs, 2)


def test_actions_of_another_thread_do_not_mix_with_those_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that comes during a step is refused, and what it wanted is in memory of its own."""
    _, env = pair("overcooked")
    env.reset(seed=0)
    actions = dict.fromkeys(env.agents, torch.full((WORLDS,), 1))
    step, seen = env.vector_env.step, []

    def during(rows: torch.Tensor) -> Any:
        monkeypatch.setattr(env.vector_env, "step", step)
        token = env.sim.execution.token.pop()  # as of a thread that is inside
        with pytest.raises(RuntimeError, match="another thread is stepping"):
            env.step(dict.fromkeys(env.agents, torch.full((WORLDS,), 4)))
        env.sim.execution.token.append(token)
        seen.append(rows.tolist())
        return step(rows)

    monkeypatch.setattr(env.vector_env, "step", during)
    env.step(actions)
    assert seen == [[1] * 2 * WORLDS]


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_a_copy_goes_on_as_the_original_does(way: str) -> None:
    _, env = pair("duel")
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    env.action_space("agent_1").seed(3)
    twins = env, copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))
    assert twins[0].action_space("agent_1").sample().tolist() == twins[1].action_space("agent_1").sample().tolist()
    for _ in range(15):
        actions = split(env.vector_env, random_actions(env.vector_env, generator))
        results = [made.step(actions)[1] for made in twins]
        assert all(torch.equal(results[0][agent], results[1][agent]) for agent in env.agents)
        assert_same_bits(*(snapshot(made.sim) for made in twins))


# ---- how it is made ------------------------------------------------------------------------------------------------


def test_made_by_gymnasium_and_by_the_package() -> None:
    env = gymnasium.make_vec(ID, by_agent=True, num_worlds=3, horizon=20)
    assert isinstance(env, AgentsVectorEnv) and env.unwrapped is env
    assert (env.num_envs, env.num_worlds, env.num_agents, env.max_num_agents) == (3, 3, 2, 2)
    assert env.agents == env.possible_agents == ["agent_0", "agent_1"]
    assert env.metadata["autoreset_mode"] is env.autoreset_mode is AutoresetMode.SAME_STEP
    assert env.device == torch.device("cpu") and not env.closed
    again = gymnasium.make_vec(env.spec)
    assert isinstance(again, AgentsVectorEnv) and again.num_envs == 3
    assert again.vector_env.environment.parameters.horizon == 20
    assert gymnasium.make_vec(ID, by_agent=True, num_envs=4).num_worlds == 4
    assert torch_batchsim.make_vec(Overcooked, 2, by_agent=True).num_worlds == 2
    assert torch_batchsim.make_vec(Overcooked, by_agent=True).num_worlds == 1
    assert isinstance(gymnasium.make_vec(ID, by_agent=False, num_worlds=3), TorchVectorEnv)
    for wrong in ({"by_agent": True, "num_envs": 4}, {"by_agent": "yes"}, {"by_agent": True, "num_worlds": 0}):
        with pytest.raises((TypeError, ValueError), match=r"num_worlds|by_agent"):
            gymnasium.make_vec(ID, **{"num_worlds": 3, **wrong})


def test_one_agent_in_a_world_has_a_name_too() -> None:
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", by_agent=True, num_worlds=3)
    observations, infos = env.reset(seed=0)
    assert list(observations) == ["agent_0"] and infos == {"agent_0": {}}
    assert env.step({"agent_0": torch.ones(3, 1, dtype=torch.int32)})[0]["agent_0"].shape == (3, 4)


def test_spaces_are_each_agents_own() -> None:
    envs = [pair("overcooked")[1] for _ in range(2)]
    spaces = [made.action_space(agent) for made in envs for agent in made.agents]
    assert len({id(space) for space in spaces}) == 4 and len(set(map(str, spaces))) == 1
    assert envs[0].action_space("agent_0") is envs[0].action_spaces["agent_0"]
    assert envs[0].observation_space("agent_0") is envs[0].observation_spaces["agent_0"]
    for space in spaces:
        space.seed(0)
    assert len({tuple(space.sample() for _ in range(9)) for space in spaces}) == 1


@pytest.mark.parametrize("name", ["duel", "zoo", "overcooked"])
def test_states_are_in_their_space(name: str) -> None:
    for output in ("torch", "numpy"):
        _, env = pair(name, output=output)
        env.reset(seed=0)
        state = env.state()
        assert isinstance(state, np.ndarray if output == "numpy" else torch.Tensor)
        assert all(np.asarray(world) in env.state_space for world in state)
        assert env.state_spaces == dict.fromkeys(env.agents, env.state_space)


def test_a_state_has_the_parts_of_a_dict_by_key() -> None:
    _, env = pair("duel")
    observations, _ = env.reset(seed=0)
    parts = [observations[agent][key].float() for agent in env.agents for key in ("cells", "self")]
    assert torch.equal(env.state(), torch.cat(parts, 1)) and env.state().dtype == torch.float32
    assert env.state_space.high[:9].tolist() == [255.0] * 7 + [np.inf] * 2


def test_agents_are_those_under_way_where_nobody_resets_them() -> None:
    env = AgentsVectorEnv(TorchVectorEnv(Melee(), num_worlds=3, autoreset_mode="Disabled"))
    env.reset(seed=0)
    generator, seen = np.random.default_rng(0), set()
    while env.agents:
        rows = env.vector_env
        ended = rows.sim.tensor("World.terminated") | rows.sim.tensor("World.truncated")
        there = (rows.by_world(rows.active) & ~ended[:, None]).any(0)
        assert env.agents == [agent for agent, is_there in zip(env.possible_agents, there, strict=True) if is_there]
        assert env.num_agents == len(env.agents) and env.max_num_agents == 4
        seen.add(env.num_agents)
        env.step({agent: torch.from_numpy(generator.integers(0, 4, 3)) for agent in env.agents})  # the others may lack
    assert len(seen) > 1
    env.reset()
    assert env.agents


def test_masks_and_teams_as_properties() -> None:
    _, env = pair("duel")
    _, infos = env.reset(seed=0)
    assert torch.equal(env.action_mask["agent_1"], infos["agent_1"]["action_mask"])
    assert env.team is env.active is None
    _, env = pair("melee")
    _, infos = env.reset(seed=0)
    assert env.action_mask is None
    for name in ("team", "active"):
        assert torch.equal(getattr(env, name)["agent_3"], infos["agent_3"][name])
    rows = torch.arange(4 * WORLDS)
    assert env.split(rows)["agent_2"].tolist() == rows[2::4].tolist()
    assert env.split({"a": rows, "b": "text"})["agent_3"]["b"] == "text"
    for wrong in (rows[1:], rows[: env.num_worlds].numpy(), rows.sum(), {"a": rows, "b": {"c": rows[:-1]}}):
        with pytest.raises(ValueError, match=rf"split needs {len(rows)} rows, 4 agents in each of .* got shape \["):
            env.split(wrong)


def test_pictures_are_of_worlds() -> None:
    env = gymnasium.make_vec(ID, by_agent=True, num_worlds=3, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == 3 and frames[0].dtype == np.uint8
    assert np.array_equal(frames[2], env.vector_env.render_world(2))
    env.vector_env.unwrapped.render_worlds = 2
    assert len(env.render()) == 2
    many = gymnasium.make_vec(ID, by_agent=True, num_worlds=65, render_mode="rgb_array")
    many.reset(seed=0)
    with pytest.raises(ValueError, match="does not draw 65 worlds"):
        many.render()
    with pytest.warns(UserWarning, match="render\\(\\) without a render_mode"):
        assert pair("overcooked")[1].render() is None


# ---- bad input -----------------------------------------------------------------------------------------------------


def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


BAD = {
    "no dict": (lambda a: zeros(2 * WORLDS), TypeError, "dict.* Tensor"),
    "unknown": (lambda a: a | {"chef": a["agent_0"]}, ValueError, "'chef'.* agent_0, agent_1"),
    "missing": (lambda a: {"agent_0": a["agent_0"]}, ValueError, "agent_1"),
    "shape": (lambda a: a | {"agent_1": zeros(4)}, ValueError, r"agent_1.*\[5\].*\[5, 1\].*\[4\]"),
    "scalar": (lambda a: a | {"agent_1": 3}, ValueError, r"agent_1.* \[\]"),
    "text": (lambda a: a | {"agent_1": "left"}, TypeError, "agent_1.* str"),
    "floats": (lambda a: dict.fromkeys(a, zeros(5, dtype=torch.float32)), TypeError, "dtype"),
    "a float": (lambda a: a | {"agent_1": zeros(5, dtype=torch.float32)}, TypeError, "agent_1.* torch.float32"),
    "value": (lambda a: a | {"agent_1": torch.tensor([0, 0, 0, 6, 0])}, ValueError, "6 of world 3, agent 1 "),
    "sparse": (lambda a: a | {"agent_1": zeros(5).to_sparse()}, TypeError, "dense"),
    "meta": (lambda a: a | {"agent_1": zeros(5).to("meta")}, ValueError, "agent_1 .*cpu.* meta"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_actions_change_nothing(case: str) -> None:
    _, env = pair("overcooked")
    env.reset(seed=0)
    good = dict.fromkeys(env.possible_agents, zeros(WORLDS))
    env.step(good)
    make, error, message = BAD[case]
    before = snapshot(env.sim)
    with pytest.raises(error, match=message):
        env.step(make(good))
    assert_same_bits(before, snapshot(env.sim))
    env.step(good)


def test_other_kinds_of_actions_that_fit() -> None:
    _, env = pair("overcooked")
    env.reset(seed=0)
    reference = copy.deepcopy(env)
    numbers = [0, 1, 2, 3, 4]
    reference.step(dict.fromkeys(env.agents, torch.tensor(numbers)))
    learnt = torch.tensor(numbers, dtype=torch.float32, requires_grad=True)
    kinds = [numbers, np.array(numbers, np.uint16), torch.tensor(numbers, dtype=torch.int32)[:, None]]
    for kind in kinds:
        made = copy.deepcopy(env)
        made.step({"agent_0": kind, "agent_1": torch.tensor(numbers)})
        assert_same_bits(snapshot(reference.sim), snapshot(made.sim))
    with pytest.raises(TypeError, match="actions must have dtype"):
        env.step(dict.fromkeys(env.agents, learnt))
    drift = AgentsVectorEnv(TorchVectorEnv(ENVIRONMENTS["drift"](), num_worlds=2))
    drift.reset(seed=0)
    drift.step({agent: torch.zeros(2, *drift.action_space(agent).shape, requires_grad=True) for agent in drift.agents})


def test_other_bad_input() -> None:
    _, env = pair("overcooked")
    actions = dict.fromkeys(env.possible_agents, zeros(WORLDS))
    foreign = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    for call, error, fact in (
        (lambda: env.step(actions), gymnasium.error.ResetNeeded, "step"),
        (env.state, gymnasium.error.ResetNeeded, "state"),
        (lambda: env.action_space("chef"), ValueError, "'chef'"),
        (lambda: env.observation_space(2), ValueError, "agent 2"),
        (lambda: env.reset(options={"deck": 1}), ValueError, "'deck'"),
        (lambda: env.bind(rewards=torch.zeros(2 * WORLDS)), AttributeError, "env.vector_env.bind"),
        (lambda: env.chefs, AttributeError, "'chefs'"),
        (lambda: AgentsVectorEnv(3), TypeError, "TorchVectorEnv.* 3"),
        (lambda: AgentsVectorEnv(foreign), TypeError, "TorchVectorEnv"),
    ):
        with pytest.raises(error, match=fact):
            call()
    env.reset(seed=0)
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.step(actions)
    assert env.closed


def test_examples_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, "docs/agents.md", "exec"), {})
