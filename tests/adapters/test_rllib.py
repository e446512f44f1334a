"""RLlib: its runners store what happened, its checker accepts several agents, its PPO learns here and with workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from libraries_of_others import library, run_example, run_script

import torch_batchsim
from torch_batchsim.testing import assert_same_bits, snapshot

ray, _ = library(__file__, "ray", "ray.rllib")

from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.connectors.env_to_module import FlattenObservations  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner  # noqa: E402
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner  # noqa: E402
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule  # noqa: E402
from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402

from torch_batchsim.adapters.rllib import RLlibMultiAgentEnv, RLlibVectorEnv  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"
CARTPOLE, OVERCOOKED, HANABI = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi"))


@pytest.fixture(scope="module", autouse=True)
def _ray_ends() -> Iterator[None]:
    yield
    ray.shutdown()


def runner_of(env_id: str, rows: int, **options) -> SingleAgentEnvRunner:
    config = PPOConfig().environment(RLlibVectorEnv, env_config={"env": env_id, **options})
    config.env_runners(num_envs_per_env_runner=rows, gym_env_vectorize_mode="vector_entry_point")
    return SingleAgentEnvRunner(config=config.debugging(seed=0))


def test_episodes_of_a_runner_are_those_of_cartpole() -> None:
    """Each stored transition is one of Gymnasium's own CartPole, and each episode starts and ends as one."""
    runner = runner_of(CARTPOLE, 4)
    episodes = runner.sample(num_episodes=12, random_actions=True)
    assert len(episodes) == 12
    reference = gymnasium.make("CartPole-v1").unwrapped
    reference.reset()
    for episode in episodes:
        observations, actions = episode.get_observations(), episode.get_actions()
        assert len(observations) == len(actions) + 1 == episode.get_return() + 1
        assert np.abs(observations[0]).max() <= 0.05
        for t, action in enumerate(actions):
            reference.state, reference.steps_beyond_terminated = tuple(observations[t].astype(float)), None
            following, _, terminated, _, _ = reference.step(action)
            assert np.allclose(following, observations[t + 1], atol=1e-5)
            assert terminated == (t == len(actions) - 1)


def test_rows_are_those_of_the_bare_environment() -> None:
    env = RLlibVectorEnv({"env": OVERCOOKED, "num_envs": 6})
    bare = gymnasium.make_vec(OVERCOOKED, num_envs=6, autoreset_mode="NextStep", output="numpy", copy=True)
    first, infos = env.reset(seed=4)
    assert np.array_equal(first, bare.reset(seed=4)[0])
    assert infos["_sparse_return"].all()
    env.action_space.seed(0)
    for _ in range(20):
        action = env.action_space.sample()
        for part, expected in zip(env.step(action)[:4], bare.step(action)[:4], strict=True):
            assert np.array_equal(part, expected)


def test_masks_are_observed() -> None:
    env = RLlibVectorEnv({"env": HANABI, "num_envs": 3})
    observations, infos = env.reset(seed=0)
    assert "action_mask" not in infos
    for _ in range(30):  # an illegal move would be a fault
        assert observations in env.observation_space
        observations = env.step(observations["action_mask"].argmax(1))[0]
    several = RLlibMultiAgentEnv({"env": HANABI})
    assert several.reset(seed=0)[0]["agent_0"] in several.observation_spaces["agent_0"]


def test_masks_are_heeded_by_their_example() -> None:
    config = PPOConfig().environment(RLlibVectorEnv, env_config={"env": HANABI})
    config.env_runners(num_envs_per_env_runner=3, gym_env_vectorize_mode="vector_entry_point")
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    episodes = SingleAgentEnvRunner(config=config.debugging(seed=0)).sample(num_episodes=6)  # no fault
    assert len(episodes) == 6


@pytest.mark.full
def test_agents_that_become_inactive_are_terminated_once() -> None:
    """Here they have no ends of their own, as in environments without them."""
    torch_batchsim.register("tests/MeleeOfRLlib-v0", "environments.melee:Melee")
    env = RLlibMultiAgentEnv({"env": "tests/MeleeOfRLlib-v0"})
    step = env.vector_env.step

    def without_ends(actions: torch.Tensor) -> tuple:
        observations, rewards, terminations, truncations, infos = step(actions)
        return observations, rewards, torch.zeros_like(terminations), torch.zeros_like(truncations), infos

    env.vector_env.step = without_ends
    for seed in range(8):
        there, over = set(env.reset(seed=seed)[0]), {"__all__": False}
        while not over["__all__"]:
            seen, _, terminated, truncated, infos = env.step(dict.fromkeys(env.agents, 1))
            over = {name: terminated[name] or truncated[name] for name in terminated}
            assert set(seen) == set(infos) == set(over) - {"__all__"} == there
            active = env.vector_env.active
            assert all(over[name] != active[int(name[-1])] for name in there)
            there = {name for name in there if not over[name]}
            assert set(env.agents) == there
        assert len(there) < 4


def test_several_agents_pass_their_check() -> None:
    """Their check asks for membership of spaces and equal keys; the results are one world of the bare environment."""
    env = RLlibMultiAgentEnv({"env": OVERCOOKED})
    check_multiagent_environments(env)
    bare = gymnasium.make_vec(OVERCOOKED, num_worlds=1, autoreset_mode="Disabled", output="numpy", copy=True)
    observations, _ = env.reset(seed=2)
    assert np.array_equal(np.stack(list(observations.values())), bare.reset(seed=2)[0])
    for step in range(400):
        action = {name: (step + i) % 6 for i, name in enumerate(env.agents)}
        observations, rewards, terminated, truncated, infos = env.step(action)
        expected = bare.step(np.array(list(action.values())))
        assert np.array_equal(np.stack(list(observations.values())), expected[0])
        assert list(rewards.values()) == expected[1].tolist()
        assert terminated["__all__"] == expected[2].all()
        assert truncated["__all__"] == expected[3].all()
        assert infos["agent_1"]["sparse_return"] == expected[4]["sparse_return"][1]
    assert terminated["__all__"] or truncated["__all__"]
    assert env.agents == []


def test_a_runner_of_several_agents_samples() -> None:
    config = PPOConfig().environment(RLlibMultiAgentEnv, env_config={"env": OVERCOOKED})
    config.multi_agent(policies={"both"}, policy_mapping_fn=lambda agent, episode, **kwargs: "both")
    config.env_runners(
        num_envs_per_env_runner=2,
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(multi_agent=True),
    )
    episodes = MultiAgentEnvRunner(config=config).sample(num_episodes=2, random_actions=True)
    assert [len(episode) for episode in episodes] == [400, 400]
    assert {agent for episode in episodes for agent in episode.agent_ids} == {"agent_0", "agent_1"}


def test_each_agent_that_is_there_has_an_action_and_nobody_else() -> None:
    env = RLlibMultiAgentEnv({"env": OVERCOOKED})
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step({})
    env.reset(seed=0)
    env.step({"agent_0": 0, "agent_1": 1})
    before = snapshot(env.vector_env.sim)
    for actions, message in (
        ({}, "missing are agent_0, agent_1"),
        ({"agent_0": 1, "agent_1": 1, "chef": 1}, "agents are agent_0, agent_1, got 'chef'"),
        ({"agent_0": 1, "agent_1": [1]}, r"agent_1 .*\[1\]"),
        ({"agent_0": "1", "agent_1": 1}, "agent_0 .*'1'"),
        ({"agent_0": 1, "agent_1": 6}, r"agent 1 is not in Discrete\(6\); no world has stepped"),
    ):
        with pytest.raises(ValueError, match=message):
            env.step(actions)
    with pytest.raises(TypeError, match="must be a dict with the name of each agent, got list"):
        env.step([1, 1])
    assert_same_bits(before, snapshot(env.vector_env.sim))


def test_players_take_turns() -> None:
    """RLlib asks who is observed: one player of three, by masks of its own moves; everybody sees the end."""
    options = {"env": HANABI, "players": 3, "lose_score": False}
    # RLlib's check of the environment plays random moves, which would be illegal at times.
    config = PPOConfig().environment(RLlibMultiAgentEnv, env_config=options, disable_env_checking=True)
    config.multi_agent(policies={"all"}, policy_mapping_fn=lambda agent, episode, **kwargs: "all")
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    config.env_runners(num_envs_per_env_runner=2)
    episodes = MultiAgentEnvRunner(config=config.debugging(seed=0)).sample(num_episodes=6)  # an illegal move is a fault
    for episode in episodes:
        assert sorted(episode.agent_ids) == ["agent_0", "agent_1", "agent_2"]
        moves = {agent: list(episode.env_t_to_agent_t[agent].data) for agent in episode.agent_ids}
        assert episode.is_terminated and len(episode) > 4
        for t in range(len(episode)):
            assert [agent for agent, by_time in moves.items() if by_time[t] != "S"] == [f"agent_{t % 3}"]
        assert all(by_time[-1] != "S" for by_time in moves.values())
        assert len({own.get_return() for own in episode.agent_episodes.values()}) == 1  # rewards between turns too
    env = RLlibMultiAgentEnv({"env": HANABI, "players": 3})
    observations, _ = env.reset(seed=0)
    assert list(observations) == ["agent_0"] and len(env.agents) == 3
    assert observations["agent_0"] in env.observation_spaces["agent_0"]
    for actions, message in (
        ({"agent_0": 1, "agent_1": 1}, "actions must be of agent_0 now, got those of agent_1"),
        ({"agent_0": 30}, r"the action of agent_0 must be in Discrete\(30\), got 30"),  # the no-op of those who wait
    ):
        with pytest.raises(ValueError, match=message):
            env.step(actions)
    assert list(env.step({"agent_0": 5})[0]) == ["agent_1"]  # has played a card
    assert RLlibMultiAgentEnv({"env": HANABI, "turns": "current"}).possible_agents == ["agent_0"]


@pytest.mark.full
def test_agents_that_come_and_go() -> None:
    torch_batchsim.register("tests/Melee-v0", "environments.melee:Melee")
    with pytest.raises(ValueError, match="come and go: use RLlibMultiAgentEnv"):
        RLlibVectorEnv({"env": "tests/Melee-v0", "num_envs": 4})
    env = RLlibMultiAgentEnv({"env": "tests/Melee-v0"})
    left = 0
    for seed in range(5):
        env.reset(seed=seed)
        for _ in range(200):
            there = list(env.agents)
            observations, rewards, terminated, truncated, _ = env.step(dict.fromkeys(there, 1 + seed % 3))
            assert list(observations) == list(rewards) == there
            gone = [name for name in there if terminated[name] or truncated[name]]
            assert env.agents == [name for name in there if name not in gone]
            left += len(gone)
            if terminated["__all__"] or truncated["__all__"]:
                break
        assert env.agents == []
    assert left


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="gym_env_vectorize_mode='vector_entry_point'"):
        RLlibVectorEnv({"env": CARTPOLE})
    with pytest.raises(TypeError, match="env_config of RLlibVectorEnv needs 'env'"):
        RLlibVectorEnv({"num_envs": 2})


@pytest.mark.full
def test_workers_as_on_a_cluster() -> None:
    result = run_example("rllib_runners")["result"]
    assert result["num_env_steps_sampled_lifetime"] >= 2 * 4096
    workers = result["fault_tolerance"]
    assert workers["num_healthy_workers"] == 2
    assert workers["num_remote_worker_restarts"] == 0


@pytest.mark.full
def test_several_agents_train() -> None:
    result = run_example("rllib_policies")["result"]
    assert set(result["learners"]) >= {"agent_0", "agent_1"}


@pytest.mark.full
def test_the_script_of_the_page_learns() -> None:
    torch.set_num_threads(1)
    returns = run_script("RLlib")["returns"]
    assert returns[-1] > 4 * returns[0]
    assert returns[-1] > 100


@pytest.mark.full
def test_tasks_train_seeds_and_say_which_failed(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "train_ray.py"), "cartpole", "--seeds=2", f"--folder={tmp_path}"]
    command += ["--total-steps=2048", "--num-envs=64", "--num-steps=16", "--eval-episodes=4", "--track=none"]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert sorted(line[:14] for line in first.stdout.splitlines()) == ["seed 1: return", "seed 2: return"]
    (tmp_path / "seed-1" / "checkpoint.pt").write_bytes(b"damaged")
    second = subprocess.run([*command, "--total-steps=4096"], capture_output=True, text=True)
    assert second.returncode == 1
    assert "seed 1" in second.stderr and "checkpoint.pt" in second.stderr
    assert second.stdout.startswith("seed 2: return") and "after 4,096 steps" in second.stdout
