"""PettingZoo's own checkers, SuperSuit's conversion, and what they do not look at: worlds, agents that leave, turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from libraries_of_others import library, run_script
from support import COMPILED

import torch_batchsim  # noqa: F401  (registers the environments)
from torch_batchsim import Environment
from torch_batchsim.errors import WorldFault

checks, state_checks, supersuit = library(__file__, "pettingzoo.test", "pettingzoo.test.state_test", "supersuit")
from torch_batchsim.adapters.pettingzoo import PettingZooAECEnv, env, parallel_env  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:reset has no option 'options'")  # which the checkers give
CARTPOLE, OVERCOOKED, SWARM, HANABI, HIDESEEK = (
    f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Swarm", "Hanabi", "HideSeek")
)
HIDESEEK_TOO = [
    CARTPOLE, OVERCOOKED, SWARM, pytest.param(HIDESEEK, marks=[pytest.mark.full])
]  # fmt: skip


@pytest.mark.parametrize("source", [*HIDESEEK_TOO, HANABI])
def test_its_own_checks_of_interfaces(source: str) -> None:
    checks.parallel_api_test(parallel_env(source), num_cycles=60)
    checks.api_test(env(source), num_cycles=60)
    checks.seed_test(partial(env, source), num_cycles=20)


def checks_without_masks(source: str, **options: Any) -> None:
    """Those that draw from the whole action space."""
    parallel, in_turn = (partial(make, source, **options) for make in (parallel_env, env))
    checks.parallel_seed_test(parallel, num_cycles=20)
    checks.max_cycles_test(SimpleNamespace(parallel_env=parallel, env=in_turn))
    state_checks.state_test(in_turn(), parallel())


@pytest.mark.parametrize("source", HIDESEEK_TOO)
def test_its_own_checks_with_actions_that_may_not_be_legal(source: str) -> None:
    checks_without_masks(source)


@pytest.mark.full
def test_they_pass_hanabi_if_such_actions_cost_only() -> None:
    lives = 20  # so that no game ends before max_cycles
    checks_without_masks(HANABI, illegal_moves="penalty", max_life_tokens=lives)


@pytest.mark.parametrize("source", [OVERCOOKED, HANABI])
def test_its_own_check_of_pictures(source: str, capsys: pytest.CaptureFixture) -> None:
    checks.render_test(partial(env, source))
    assert ("Fireworks" in capsys.readouterr().out) == (source == HANABI)


def test_supersuit_makes_a_vector_environment_of_copies() -> None:
    of_agents = supersuit.pettingzoo_env_to_vec_env_v1(parallel_env(OVERCOOKED, horizon=30))
    vector = supersuit.concat_vec_envs_v1(of_agents, 3, num_cpus=1, base_class="gymnasium")
    ours = gymnasium.make_vec(OVERCOOKED, num_worlds=1, horizon=30, output="numpy", copy=True)
    observations, _ = vector.reset(seed=4)
    expected, _ = ours.reset(seed=4)
    draws, ended = np.random.default_rng(0), 0
    for _ in range(70):
        assert observations.shape == (6, *ours.single_observation_space.shape)
        assert np.array_equal(observations[:2], expected)
        actions = draws.integers(0, 6, 6)
        observations, rewards, _, truncations, _ = vector.step(actions)
        expected, expected_rewards, _, expected_truncations, _ = ours.step(actions[:2])
        assert np.array_equal(rewards[:2], expected_rewards)
        assert np.array_equal(truncations[:2], expected_truncations)
        ended += truncations.any()
    assert ended == 2


def test_supersuit_fills_in_for_agents_that_leave() -> None:
    world = parallel_env(COMPILED["melee"](max_episode_steps=12))
    vector = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(world))
    observations, _ = vector.reset(seed=6)  # with which nobody is missing, here and in the next episode
    draws, alone, terminations = np.random.default_rng(0), 0, np.zeros(4)
    while not terminations.any():
        assert observations.shape == (4, 4)
        observations, _, terminations, _, _ = vector.step(draws.integers(0, 4, 4))
        alone += 0 < len(world.agents) < 4
    assert alone


def test_black_death_adds_a_step_and_takes_boxes_only() -> None:
    """Which the page says of it."""
    lengths, ended = [], []
    for wrapper in (lambda world: world, supersuit.black_death_v3):
        world, draws, steps = wrapper(parallel_env(CARTPOLE)), np.random.default_rng(0), []
        world.reset(seed=3)
        while world.agents:
            steps.append(world.step({agent: int(draws.integers(2)) for agent in world.agents}))
        lengths.append(len(steps))
        ended.append([part["agent_0"] for part in steps[-1][:4]])
    assert lengths[1] == lengths[0] + 1
    assert ended[0][2:] == [True, False]
    assert not ended[1][0].any() and ended[1][1:] == [0, True, True]
    with pytest.raises(AssertionError, match="black death must be Box spaces"):
        supersuit.black_death_v3(parallel_env(HANABI)).reset(seed=0)


def test_who_made_an_illegal_move_may_choose_again() -> None:
    game = env(HANABI)
    game.reset(seed=0)
    player, mask = game.agent_selection, game.last()[0]["action_mask"]
    with pytest.raises(WorldFault, match="illegal_move"):
        game.step(int(np.argmin(mask)))
    assert game.agent_selection == player
    game.step(int(np.argmax(game.last()[0]["action_mask"])))
    assert game.agent_selection != player


def play(world: Any, draws: np.random.Generator) -> list[tuple[Any, ...]]:
    """An episode of random actions, as rows of agents that were there."""
    seen, _ = world.reset(seed=int(draws.integers(1000)))
    steps = []
    while world.agents:
        agents = world.agents
        actions = {agent: int(draws.integers(0, 4)) for agent in agents}
        results = world.step(actions)
        steps.append((agents, seen, actions, *results))
        seen = results[0]
    return steps


def test_agents_leave_at_their_own_ends() -> None:
    melee: Callable[[], Environment] = partial(COMPILED["melee"], max_episode_steps=12)
    world, draws = parallel_env(melee()), np.random.default_rng(1)
    left_early = missing = 0
    for _ in range(20):
        steps = play(world, draws)
        missing += len(steps[0][0]) < len(world.possible_agents)
        for (agents, *_, terminations, truncations, _), (later, *_) in pairwise(steps):
            gone = [agent for agent in agents if terminations[agent] or truncations[agent]]
            assert later == [agent for agent in agents if agent not in gone]
            left_early += len(gone)
        for agents, _, _, observations, rewards, terminations, truncations, infos in steps:
            assert all(list(part) == agents for part in (observations, rewards, terminations, truncations, infos))
            assert all(type(flag) is bool for flag in (*terminations.values(), *truncations.values()))
    assert left_early
    assert missing, "no episode began with an agent missing"
    assert world.step({}) == ({}, {}, {}, {}, {})


def test_a_world_is_the_vector_environments() -> None:
    world, vector = parallel_env(OVERCOOKED), gymnasium.make_vec(OVERCOOKED, num_worlds=1, output="numpy", copy=True)
    seen, infos = world.reset(seed=7)
    observation, _ = vector.reset(seed=7)
    kept, draws = [], np.random.default_rng(0)
    for _ in range(50):
        kept.append((seen, observation))
        actions = draws.integers(0, 6, 2)
        seen, rewards, _, _, infos = world.step(dict(zip(world.agents, actions, strict=True)))
        observation, expected, _, _, of_rows = vector.step(actions)
        assert list(rewards.values()) == expected.tolist()
        assert [infos[agent]["sparse_return"] for agent in world.agents] == of_rows["sparse_return"].tolist()
    for by_agent, rows in kept:  # long after: they are copies
        assert np.array_equal(np.stack(list(by_agent.values())), rows)
    assert np.array_equal(world.state(), observation.reshape(-1))
    assert world.state_space.contains(world.state())


def test_turns_are_taken_by_whom_the_game_says() -> None:
    game = env(HANABI)
    assert isinstance(game, PettingZooAECEnv)
    assert game.action_space("agent_0").n == 20  # as in the reference: there is no no-op
    game.reset(seed=5)
    for i, agent in enumerate(game.agents):
        game.action_space(agent).seed(i)
    turns = []
    for agent in game.agent_iter():
        observation, _, terminated, truncated, _ = game.last()
        if terminated or truncated:
            game.step(None)
            continue
        turns.append(agent)
        other = next(name for name in game.agents if name != agent)
        assert not game.observe(other)["action_mask"].any()
        assert observation["action_mask"].dtype == np.int8
        game.step(game.action_space(agent).sample(observation["action_mask"]))
    assert turns == [f"agent_{i % 2}" for i in range(len(turns))]
    assert len(turns) > 4


def test_an_agent_gets_its_rewards_since_its_last_turn() -> None:
    game = env(HANABI, lose_score=False)
    for seed in range(20):
        game.reset(seed=seed)
        owed = dict.fromkeys(game.agents, 0.0)
        while game.agents:
            agent = game.agent_selection
            observation, reward, terminated, truncated, _ = game.last()
            assert reward == owed[agent]
            over = terminated or truncated
            plays = np.flatnonzero(observation["action_mask"][5:10]) + 5
            game.step(None if over else plays[0])
            if not over:
                owed[agent] = 0.0
                owed = {name: owed[name] + game.rewards[name] for name in owed}
    assert game.agents == []


def test_bad_input_is_refused() -> None:
    world = parallel_env(OVERCOOKED)
    with pytest.raises(gymnasium.error.ResetNeeded):
        world.step({"agent_0": 0, "agent_1": 0})
    world.reset(seed=0)
    for actions, message in (
        ({"agent_0": 0}, "an action of each of agent_0, agent_1; missing are agent_1"),
        ({"agent_0": 0, "agent_1": 0.5}, r"the action of agent_1 must be in Discrete\(6\), got 0.5"),
        ({"agent_0": [0, 1], "agent_1": 0}, r"the action of agent_0 must be in Discrete\(6\), got \[0, 1\]"),
        ({"agent_0": 0, "agent_1": None}, "the action of agent_1 must be in"),
        ({"agent_0": 0, "agent_1": True}, "the action of agent_1 must be in .*, got True"),
        ({"agent_0": 0, "agent_1": "1"}, "the action of agent_1 must be in .*, got '1'"),
        ({"agent_0": 0, "agent_1": 0, "chef": 0}, "agents are agent_0, agent_1, got 'chef'"),
        ({"agent_0": 0, "agent_1": 6}, "agent 1 is not in Discrete"),
    ):
        with pytest.raises(ValueError, match=message):
            world.step(actions)
    with pytest.raises(TypeError, match="actions must be a dict with the name of each agent, got list"):
        world.step([0, 0])
    with pytest.raises(ValueError, match="max_cycles must be a positive integer, got 0"):
        parallel_env(OVERCOOKED, max_cycles=0)
    with pytest.raises(ValueError, match="masks of a Discrete action space, which Overcooked"):
        PettingZooAECEnv(OVERCOOKED)
    with pytest.warns(UserWarning, match="has no option 'sede', and ignores it; it has: no options"):
        world.reset(options={"sede": 1})
    game = env(HANABI)
    game.reset(seed=0)
    with pytest.raises(ValueError, match=r"the action of agent_0 must be in Discrete\(20\), got 20"):
        game.step(20)


@pytest.mark.parametrize("made", [partial(parallel_env, OVERCOOKED), partial(env, OVERCOOKED), partial(env, HANABI)])
def test_unknown_agents_are_refused(made: Callable[[], Any]) -> None:
    world = made()
    world.reset(seed=0)
    calls = [world.observation_space, world.action_space]
    for call in calls + ([world.observe] if isinstance(world, PettingZooAECEnv) else []):
        with pytest.raises(ValueError, match="agents are agent_0, agent_1, got 'zz'"):
            call("zz")


def test_the_script_of_the_page() -> None:
    names = run_script("PettingZoo")
    assert names["parallel"].agents == [] and names["game"].agents == []
