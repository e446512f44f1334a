"""RLlib: its runners store what happened, its checker accepts several agents, its PPO learns here and with workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
import torch
from libraries_of_others import library, run_script

import torch_batchsim
from torch_batchsim.bench import adapters
from torch_batchsim.errors import MissingExtra

ray, _ = library(__file__, "ray", "ray.rllib")

from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.connectors.env_to_module import FlattenObservations  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner  # noqa: E402
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner  # noqa: E402
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule  # noqa: E402
from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402

from torch_batchsim.adapters.rllib import RLlibMultiAgentEnv, RLlibVectorEnv  # noqa: E402

CARTPOLE, OVERCOOKED, HANABI = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Overcooked", "Hanabi"))


@pytest.fixture(scope="module", autouse=True)
def _ray_ends() -> Iterator[None]:
    yield
    ray.shutdown()


def runner_of(env_id: str, rows: int, **options) -> SingleAgentEnvRunner:
    config = PPOConfig().environment(RLlibVectorEnv, env_config={"env_id": env_id, **options})
    config.env_runners(num_envs_per_env_runner=rows, gym_env_vectorize_mode="vector_entry_point")
    return SingleAgentEnvRunner(config=config.debugging(seed=0))


def test_episodes_of_a_runner_are_what_happened() -> None:
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
    env = RLlibVectorEnv({"env_id": OVERCOOKED, "num_envs": 6})
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
    env = RLlibVectorEnv({"env_id": HANABI, "num_envs": 3})
    observations, infos = env.reset(seed=0)
    assert "action_mask" not in infos
    for _ in range(30):  # an illegal move would be a fault
        assert observations in env.observation_space
        observations = env.step(observations["action_mask"].argmax(1))[0]
    several = RLlibMultiAgentEnv({"env_id": HANABI})
    assert several.reset(seed=0)[0]["agent_0"] in several.observation_spaces["agent_0"]


def test_masks_are_heeded_by_their_example() -> None:
    config = PPOConfig().environment(RLlibVectorEnv, env_config={"env_id": HANABI})
    config.env_runners(num_envs_per_env_runner=3, gym_env_vectorize_mode="vector_entry_point")
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    episodes = SingleAgentEnvRunner(config=config.debugging(seed=0)).sample(num_episodes=6)  # no fault
    assert len(episodes) == 6


def test_several_agents_pass_their_check() -> None:
    """Their check asks for membership of spaces and equal keys; what is told is one world of the bare environment."""
    env = RLlibMultiAgentEnv({"env_id": OVERCOOKED})
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
    config = PPOConfig().environment(RLlibMultiAgentEnv, env_config={"env_id": OVERCOOKED})
    config.multi_agent(policies={"both"}, policy_mapping_fn=lambda agent, episode, **kwargs: "both")
    config.env_runners(
        num_envs_per_env_runner=2,
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(multi_agent=True),
    )
    episodes = MultiAgentEnvRunner(config=config).sample(num_episodes=2, random_actions=True)
    assert [len(episode) for episode in episodes] == [400, 400]
    assert {agent for episode in episodes for agent in episode.agent_ids} == {"agent_0", "agent_1"}


@pytest.mark.full
def test_agents_that_come_and_go() -> None:
    torch_batchsim.register("tests/Melee-v0", "environments.melee:Melee")
    with pytest.raises(ValueError, match="come and go, which needs RLlibMultiAgentEnv"):
        RLlibVectorEnv({"env_id": "tests/Melee-v0", "num_envs": 4})
    env = RLlibMultiAgentEnv({"env_id": "tests/Melee-v0"})
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
        RLlibVectorEnv({"env_id": CARTPOLE})
    with pytest.raises(TypeError, match="env_config needs 'env_id'"):
        RLlibVectorEnv({"num_envs": 2})
    with pytest.raises(TypeError, match="env_config takes no copy: RLlib decides it; got False"):
        RLlibMultiAgentEnv({"env_id": OVERCOOKED, "copy": False})


def test_the_missing_library_is_named(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "torch_batchsim.adapters.rllib")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"needs ray.*pip install 'torch_batchsim\[rllib\]'"):
        __import__("torch_batchsim.adapters.rllib")


def test_the_benchmark_measures_it(tmp_path, capsys) -> None:
    adapters.main(["RLlib", "--seconds", "0.01", "--runs", "1", "--json", str(tmp_path / "figures.json")])
    assert "RLlib" in capsys.readouterr().out


@pytest.mark.full
def test_workers_as_on_a_cluster() -> None:
    result = run_script("RLlib", 1)["result"]
    assert result["num_env_steps_sampled_lifetime"] >= 2 * 4096
    workers = result["fault_tolerance"]
    assert workers["num_healthy_workers"] == 2
    assert workers["num_remote_worker_restarts"] == 0


@pytest.mark.full
def test_several_agents_train() -> None:
    result = run_script("RLlib", 2)["result"]
    assert set(result["learners"]) >= {"agent_0", "agent_1"}


@pytest.mark.full
def test_the_script_of_the_page_learns() -> None:
    torch.set_num_threads(1)
    returns = run_script("RLlib")["returns"]
    assert returns[-1] > 4 * returns[0]
    assert returns[-1] > 100
