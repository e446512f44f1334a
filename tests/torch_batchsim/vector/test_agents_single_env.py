"""``gymnasium.make`` of environments with several agents: all together, or one of them beside a partner policy."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from libraries_of_others import run_script
from support import ENVIRONMENTS, all_but_hideseek
from torch_batchsim.envs.overcooked import Overcooked

import torch_batchsim
from torch_batchsim import TorchVectorEnv
from torch_batchsim.vector.agents_single_env import JointEnv, OneAgentEnv
from torch_batchsim.vector.single_env import SingleEnv

ID = "torch_batchsim/Overcooked-v0"
# The form in which an environment takes whatever its action space holds.
OURS = [
    ("CartPole-v0", {}),
    ("Overcooked-v0", {}),
    ("Overcooked-v0", {"as_agent": 1}),
    ("Hanabi-v0", {"illegal_moves": "penalty"}),
    pytest.param("Hanabi-v0", {"illegal_moves": "penalty", "turns": "all"}, marks=pytest.mark.full),
    pytest.param("Hanabi-v0", {"illegal_moves": "penalty", "turns": "all", "as_agent": 1}, marks=pytest.mark.full),
    ("Swarm-v0", {}),
]


def quietly_checked(env: gymnasium.Env) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*Box observation space m..imum value is -?infinity")
        warnings.filterwarnings("ignore", ".*For Box action spaces, we recommend")
        check_env(env.unwrapped, skip_render_check=env.spec is None)


# ---- gymnasium's checker -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kwargs"), OURS)
def test_gymnasiums_checker_has_nothing_to_say(name: str, kwargs: dict[str, Any]) -> None:
    env = gymnasium.make(f"torch_batchsim/{name}", **kwargs)
    quietly_checked(env)
    env.close()


@pytest.mark.parametrize("name", all_but_hideseek(sorted({*ENVIRONMENTS} - {"hanabi", "overcooked"})))
def test_gymnasiums_checker_on_environments_of_all_kinds(name: str) -> None:
    """All agents together, and the last one beside partners who draw what is legal."""
    environment = ENVIRONMENTS[name]()
    quietly_checked(JointEnv(environment))
    last = TorchVectorEnv(environment, num_worlds=1).num_agents - 1
    quietly_checked(OneAgentEnv(ENVIRONMENTS[name](), last))


# ---- all agents together -------------------------------------------------------------------------------------------


def test_all_together_is_the_vector_environments_first_world() -> None:
    single = gymnasium.make(ID, horizon=30)
    rows = TorchVectorEnv(Overcooked(horizon=30), num_worlds=1, num_threads=1)
    assert isinstance(single.unwrapped, JointEnv) and single.unwrapped.possible_agents == ["agent_0", "agent_1"]
    observation, info = single.reset(seed=4)
    observations, infos = rows.reset(seed=4)
    assert observation in single.observation_space and list(info) == ["agent_0", "agent_1"]
    generator = np.random.default_rng(0)
    for step in range(30):
        actions = generator.integers(0, 6, 2)
        observation, reward, terminated, truncated, info = single.step({"agent_0": actions[0], "agent_1": actions[1]})
        observations, rewards, _, truncations, infos = rows.step(actions)
        last = infos["final_info"] if truncated else infos
        shown = infos["final_obs"] if truncated else observations
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert reward == rewards.sum().item() and not terminated and truncated == truncations[0].item() == (step == 29)
        for i, agent in enumerate(("agent_0", "agent_1")):
            assert np.array_equal(observation[agent], shown[i])
            assert info[agent]["reward"] == rewards[i].item() and info[agent]["truncated"] == truncated
            assert info[agent]["shaped_return"] == last["shaped_return"][i].item()


def test_agents_whose_episode_has_ended_may_be_left_out_and_the_flags_are_the_worlds() -> None:
    env = JointEnv(ENVIRONMENTS["melee"]())
    _, info = env.reset(seed=0)
    generator, alone, ended = np.random.default_rng(0), 0, False
    while not ended:
        there = [agent for agent in env.possible_agents if info[agent]["active"]]
        alone += len(there) < 4
        _, reward, terminated, truncated, info = env.step({agent: generator.integers(1, 4) for agent in there})
        ended = terminated or truncated
        assert reward == sum(info[agent]["reward"] for agent in env.possible_agents)
        assert all(info[agent]["terminated"] or info[agent]["truncated"] for agent in there) or not ended
    assert alone > 0


# ---- one agent and its partners ------------------------------------------------------------------------------------


def test_the_partner_sees_the_others_observations() -> None:
    env = JointEnv(ENVIRONMENTS["duel"](fighters=3))
    asked = []

    def partner(observations: dict[str, np.ndarray], infos: dict[str, Any]) -> list[list[int]]:
        asked.append((observations, infos))
        return [[0, 1], [2, 0]]

    one = OneAgentEnv(ENVIRONMENTS["duel"](fighters=3), 1, partner)
    all_of_them, info = env.reset(seed=7)
    own, own_info = one.reset(seed=7)
    for _ in range(12):
        for key in ("self", "cells"):
            assert np.array_equal(own[key], all_of_them["agent_1"][key])
        assert np.array_equal(own_info["action_mask"], info["agent_1"]["action_mask"])
        others = [all_of_them[agent] for agent in ("agent_0", "agent_2")]
        own, reward, terminated, truncated, own_info = one.step([1, 1])
        for i, other in enumerate(others):
            assert all(np.array_equal(asked[-1][0][key][i], other[key]) for key in other)
        mask = np.stack([info[agent]["action_mask"] for agent in ("agent_0", "agent_2")])
        assert np.array_equal(asked[-1][1]["action_mask"], mask)
        all_of_them, _, *flags, info = env.step({"agent_0": [0, 1], "agent_1": [1, 1], "agent_2": [2, 0]})
        assert reward == info["agent_1"]["reward"] and [terminated, truncated] == flags
    assert terminated or truncated


@pytest.mark.parametrize("agent", [0, 1])
def test_partners_draw_legal_actions_by_the_seed(agent: int) -> None:
    """Hanabi faults where a move is not legal: two games to their ends are without."""
    games = []
    for _ in range(2):
        env = gymnasium.make("torch_batchsim/Hanabi-v0", turns="all", as_agent=agent)
        _, info = env.reset(seed=5)
        env.action_space.seed(1)
        game, ended = [], False
        while not ended:
            action = env.action_space.sample(info["action_mask"].astype(np.int8))
            observation, reward, terminated, truncated, info = env.step(action)
            game.append((observation.tobytes(), reward))
            ended = terminated or truncated
        games.append(game)
    assert games[0] == games[1] and len(games[0]) > 3
    seen = set()
    env = gymnasium.make(ID, as_agent=agent, horizon=10).unwrapped
    for seed in range(40):
        env.reset(seed=seed)
        seen.add(int(env._legal_actions(None, {})[0]))
    assert seen == set(range(6))


def test_masks_on_call() -> None:
    kinds = [{}, {"turns": "all"}, {"turns": "all", "as_agent": 1}]
    single, joint, one = (gymnasium.make("torch_batchsim/Hanabi-v0", **kwargs).unwrapped for kwargs in kinds)
    infos = [env.reset(seed=0)[1] for env in (single, joint, one)]
    assert np.array_equal(single.action_masks(), infos[0]["action_mask"]) and single.action_masks().shape == (20,)
    assert all(np.array_equal(joint.action_masks()[agent], infos[1][agent]["action_mask"]) for agent in infos[1])
    assert np.array_equal(one.action_masks(), infos[2]["action_mask"]) and one.action_masks().sum() == 1
    assert not hasattr(gymnasium.make(ID).unwrapped, "action_masks")


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("kwargs", [{}, {"as_agent": 1}], ids=str)
def test_a_copy_goes_on_as_the_original_does(kwargs: dict[str, Any], way: str) -> None:
    env = gymnasium.make(ID, **kwargs)
    env.reset(seed=0)
    env.action_space.seed(0)
    twin = copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))
    for _ in range(5):
        action = env.action_space.sample()
        for one, other in zip(env.step(action)[:4], twin.step(action)[:4], strict=True):
            assert str(one) == str(other)


@pytest.mark.parametrize("kwargs", [{}, {"as_agent": 1}], ids=str)
def test_in_gymnasiums_own_vectorisers(kwargs: dict[str, Any]) -> None:
    env = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync", **kwargs)
    env.reset(seed=0)
    observations, rewards, *_ = env.step(env.action_space.sample())
    assert rewards.shape == (2,) and observations in env.observation_space


# ---- which one is made, and bad input ------------------------------------------------------------------------------


def test_which_form_is_made() -> None:
    def kind(name: str, **kwargs: Any) -> type:
        return type(gymnasium.make(f"torch_batchsim/{name}", **kwargs).unwrapped)

    assert kind("CartPole-v0") is SingleEnv and kind("CartPole-v0", as_agent=0) is OneAgentEnv
    assert kind("Overcooked-v0") is JointEnv and kind("Overcooked-v0", as_agent=0) is OneAgentEnv
    assert kind("Hanabi-v0") is SingleEnv and kind("Hanabi-v0", turns="all") is JointEnv
    assert torch_batchsim.make(Overcooked, as_agent="agent_1").agent == "agent_1"


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"as_agent": 2}, ValueError, "0 to 1 .*agent_0, agent_1.* 2"),
        ({"as_agent": "chef"}, ValueError, "as_agent must be .* got 'chef'"),
        ({"as_agent": True}, ValueError, "as_agent must be .* got True"),
        ({"as_agent": 0, "partner": 3}, TypeError, "partner must be a function of .* got 3"),
        ({"partner": len}, ValueError, "partner plays the agents beside one: give as_agent=0 too"),
        ({"agnt": 2}, TypeError, "agnt"),
    ],
)
def test_bad_arguments(kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gymnasium.make(ID, **kwargs)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ([0, 0], ValueError, r"actions of the partner must have shape \[1\], got \[2\]"),
        (0, ValueError, r"actions of the partner must have shape \[1\], got \[\]"),
        ("left", TypeError, "actions of the partner must be .* got str"),
        ([7], ValueError, "action 7 of world 0, agent 0 is not in Discrete"),
        ([0.5], TypeError, "actions must have dtype"),
    ],
)
def test_bad_answers_of_a_partner(answer: Any, error: type[Exception], message: str) -> None:
    env = gymnasium.make(ID, as_agent=1, partner=lambda observations, infos: answer).unwrapped
    env.reset(seed=0)
    before = env.sim.tensor("Chef.Place.cell").clone()
    with pytest.raises(error, match=message):
        env.step(2)
    assert torch.equal(before, env.sim.tensor("Chef.Place.cell")) and env.sim.tensor("World.step")[0] == 0


def test_other_bad_input() -> None:
    with pytest.raises(ValueError, match=r"Overcooked has 2 agents in a world; use gymnasium.make"):
        SingleEnv(Overcooked())
    env = gymnasium.make(ID).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({"agent_0": 0, "agent_1": 0})
    env.reset(seed=0)
    for actions, error, fact in (
        ({"agent_0": 0}, ValueError, "agent_1"),
        (0, TypeError, "dict.* int"),
        ({"agent_0": 0, "agent_1": [0, 0]}, ValueError, r"agent_1.* \[2\]"),
    ):
        with pytest.raises(error, match=fact):
            env.step(actions)
    one = gymnasium.make(ID, as_agent=0).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        one.step(0)
    one.reset(seed=0)
    for action, error, fact in (
        ([1, 2], ValueError, r"Discrete.* \[1, 2\]"),
        ("left", TypeError, r"Discrete\(6\).* 'left'"),
        (9, ValueError, "9 of world 0, agent 0 "),
    ):
        with pytest.raises(error, match=fact):
            one.step(action)
    assert one.step(torch.tensor(1))[0].shape == one.observation_space.shape
    one.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        one.step(0)


def test_the_script_on_the_page_plays_an_episode() -> None:
    names = run_script("Gymnasium, one environment")
    assert names["truncated"] and names["info"]["shaped_return"].shape == ()


@pytest.mark.full  # for HideSeek's build
def test_observations_show_the_time_as_in_the_vector_environment() -> None:
    """Systems see the limit that gymnasium's ``TimeLimit`` has, also after a copy."""
    one = gymnasium.make("torch_batchsim/HideSeek-v0", max_episode_steps=8)
    many = gymnasium.make_vec("torch_batchsim/HideSeek-v0", num_worlds=1, max_episode_steps=8)
    seen, _ = one.reset(seed=3)
    expected, _ = many.reset(seed=3)
    for step in range(8):
        assert np.array_equal(seen["agent_0"]["self"], expected["self"][0].numpy())
        if step == 4:
            one = copy.deepcopy(one)
        actions = np.zeros(many.action_space.shape, np.int64)
        seen, _, _, truncated, _ = one.step({f"agent_{i}": own for i, own in enumerate(actions)})
        expected = many.step(actions)[4]["final_obs"] if step == 7 else many.step(actions)[0]
    assert truncated
