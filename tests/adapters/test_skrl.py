"""skrl: what its memories hold, and PPO, IPPO and MAPPO by its own runner."""

from __future__ import annotations

import gymnasium
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.vector import AutoresetMode
from libraries_of_others import library, run_example, run_script

from torch_batchsim import TorchVectorEnv

library(__file__, "skrl")

from skrl.agents.torch.dqn import DQN  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.trainers.torch import SequentialTrainer  # noqa: E402
from skrl.utils.model_instantiators.torch import deterministic_model  # noqa: E402
from skrl.utils.spaces.torch import unflatten_tensorized_space  # noqa: E402

from torch_batchsim.adapters.skrl import SkrlEnv, SkrlMultiAgentEnv  # noqa: E402

CARTPOLE, HANABI, OVERCOOKED = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Hanabi", "Overcooked"))
ROWS, STEPS = 4, 100


def stored_by_skrl(env: SkrlEnv) -> dict[str, torch.Tensor]:
    """Observations ``[steps, rows, 4]`` and so on, which an agent that plays at random keeps of all its transitions."""
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [], "activations": []}]
    models = {
        name: deterministic_model(**spaces, device=env.device, network=network, output="ACTIONS")
        for name in ("q_network", "target_q_network")
    }
    memory = RandomMemory(memory_size=STEPS, num_envs=ROWS, device=env.device)
    quiet = {"write_interval": 0, "checkpoint_interval": 0}
    settings = {"random_timesteps": 10 * STEPS, "learning_starts": 10 * STEPS, "experiment": quiet}
    agent = DQN(models=models, memory=memory, **spaces, device=env.device, cfg=settings)
    trainer = {"timesteps": STEPS, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(cfg=trainer, env=env, agents=agent).train()
    return {name: memory.get_tensor_by_name(name) for name in memory.get_tensor_names()}


def test_stored_transitions_are_those_that_were_played() -> None:
    torch.manual_seed(0)
    stored = stored_by_skrl(SkrlEnv(CARTPOLE, num_envs=ROWS, seed=3, max_episode_steps=30))
    played = gymnasium.make_vec(CARTPOLE, num_envs=ROWS, copy=True, max_episode_steps=30)
    observations, _ = played.reset(seed=3)
    ends = 0
    for step in range(STEPS):
        assert torch.equal(stored["observations"][step], observations)
        actions = stored["actions"][step].view(-1).long()
        following, rewards, terminated, truncated, _ = played.step(actions)
        assert torch.equal(stored["next_observations"][step], following)  # of the next episode, where one ended
        assert torch.equal(stored["rewards"][step].view(-1), rewards)
        assert torch.equal(stored["terminated"][step].view(-1), terminated)
        assert not torch.equal(observations, following)
        ends, observations = ends + int((terminated | truncated).sum()), following
    assert ends > 5


def test_results_of_a_step() -> None:
    env = SkrlEnv(CARTPOLE, num_envs=3, max_episode_steps=1)
    own = env.vector_env
    observations, _ = env.reset()
    assert env.reset()[0] is observations  # worlds begin anew by themselves
    assert (env.num_envs, env.num_agents, env.device, env.state()) == (3, 1, torch.device("cpu"), None)
    results = env.step(torch.ones(3, 1, dtype=torch.int64))
    assert [tuple(part.shape) for part in results[:4]] == [(3, 4), (3, 1), (3, 1), (3, 1)]
    assert results[0].data_ptr() == own.observations.data_ptr()  # no copy
    assert results[3].all() and not torch.equal(results[4]["final_obs"], results[0])
    assert env.reset()[0] is results[0]
    assert env.render() is None


def test_copies_and_bound_outputs_are_returned_as_they_come() -> None:
    copies = {"two sets": None, "copies": True}
    made = {name: gymnasium.make_vec(CARTPOLE, num_envs=3, copy=copy) for name, copy in copies.items()}
    envs = {name: SkrlEnv(env, seed=1) for name, env in made.items()}
    for env in envs.values():
        env.reset()
    rewards = torch.empty(3)
    for step in range(40):
        if step == 20:
            made["two sets"].bind(rewards=rewards)
        actions = torch.full((3, 1), step % 2)
        results = [env.step(actions)[:4] for env in envs.values()]
        assert all(torch.equal(*parts) for parts in zip(*results, strict=True))
    assert results[0][1].data_ptr() == rewards.data_ptr()


def test_agents_are_the_rows_of_their_worlds() -> None:
    bare = gymnasium.make_vec(OVERCOOKED, num_worlds=2, copy=True)
    env = SkrlMultiAgentEnv(OVERCOOKED, num_worlds=2, seed=1)
    rows, _ = bare.reset(seed=1)
    observations, _ = env.reset()
    assert env.possible_agents == env.agents == ["agent_0", "agent_1"]
    assert (env.num_envs, env.num_agents, env.max_num_agents) == (2, 2, 2)
    for seed in range(6):
        for agent, name in enumerate(env.agents):
            assert torch.equal(observations[name], bare.by_world(rows)[:, agent].reshape(2, -1).float())
            assert torch.equal(env.state()[name], rows.reshape(2, -1).float())
            assert env.state()[name].shape[1:] == env.state_space(name).shape
        actions = torch.randint(0, 6, (2, 2, 1), generator=torch.Generator().manual_seed(seed))
        rows, rewards, terminated, truncated, _ = bare.step(actions.view(-1))
        observations, *others, _ = env.step(dict(zip(env.agents, actions.unbind(1), strict=True)))
        for part, of_rows in zip(others, (rewards, terminated, truncated), strict=True):
            assert torch.equal(torch.cat([part[name] for name in env.agents], 1), bare.by_world(of_rows))


@pytest.mark.parametrize("turns", ["current", "all"])
def test_masks_are_in_front_of_observations(turns: str) -> None:
    env = SkrlMultiAgentEnv(HANABI, num_worlds=4, turns=turns, masked=True)
    observations, _ = env.reset()
    for _ in range(50):  # an illegal move is a fault, which the next step raises
        actions = {}
        for name in env.agents:
            parts = unflatten_tensorized_space(env.observation_space(name), observations[name])
            assert parts["observation"].shape[1:] == env.vector_env.single_observation_space.shape
            actions[name] = torch.multinomial(parts["action_mask"], 1)
        observations, *_ = env.step(actions)
    env.vector_env.check_faults()


def test_masks_of_several_parts_stand_side_by_side() -> None:
    env = SkrlEnv(TorchVectorEnv(Duel(), num_worlds=3), masked=True, seed=0)
    observations, infos = env.reset()
    assert env.observation_space["action_mask"].shape == (5,)
    parts = unflatten_tensorized_space(env.observation_space, observations)
    assert torch.equal(parts["action_mask"], infos["action_mask"].float())
    chosen = [part.argmax(1) for part in parts["action_mask"].split([3, 2], 1)]
    assert env.step(torch.stack(chosen, 1))[0].shape == observations.shape


def test_actions_outside_a_box_are_clipped() -> None:
    envs = [SkrlEnv(TorchVectorEnv(Drift(), 8), seed=0) for _ in range(2)]
    high = torch.as_tensor(envs[0].action_space.high)
    for env in envs:
        env.reset()
    far, near = (env.step(actions.expand(8, -1))[0] for env, actions in zip(envs, (high + 50, high), strict=True))
    assert torch.equal(far, near)


def test_actions_of_numpy_are_taken() -> None:
    for steps in (lambda actions: actions, lambda actions: actions.numpy()):
        torch.manual_seed(0)
        env, drift = SkrlMultiAgentEnv(OVERCOOKED, num_worlds=2, seed=1), SkrlEnv(TorchVectorEnv(Drift(), 2), seed=1)
        env.reset(), drift.reset()
        seen = [env.step(dict.fromkeys(env.agents, steps(torch.randint(6, (2, 1)))))[0]["agent_1"] for _ in range(5)]
        seen += [drift.step(steps(4 * torch.randn(2, 3)))[0] for _ in range(5)]
        if isinstance(steps(torch.zeros(1)), torch.Tensor):
            expected = [part.clone() for part in seen[4::5]]
    assert all(torch.equal(*parts) for parts in zip(seen[4::5], expected, strict=True))


def test_actions_that_do_not_fit_are_refused_before_anything_steps() -> None:
    env, one = SkrlMultiAgentEnv(OVERCOOKED, num_worlds=2, seed=1), SkrlEnv(CARTPOLE, num_envs=2, seed=1)
    env.reset(), one.reset()
    fits = torch.zeros(2, 1, dtype=torch.int64)
    agents = "actions must be of agent_0, agent_1, got those of "
    for actions, words in (
        ({"agent_0": fits}, agents + "agent_0$"),
        ({}, agents + "no agent"),
        ({"agent_0": fits, "agent_1": fits, "agent_2": fits}, agents + "agent_0, agent_1, agent_2"),
        ({"agent_0": fits, "agent_1": fits[:1]}, r"actions of agent_1 must have shape \[2, 1\], got \[1, 1\]"),
    ):
        with pytest.raises(ValueError, match=words):
            env.step(actions)
    with pytest.raises(TypeError, match="actions must be a dict with an entry for each agent, got Tensor"):
        env.step(fits)  # type: ignore[arg-type]
    for actions in (fits[:1], fits.expand(2, 2), fits.view(1, 2)):
        with pytest.raises(ValueError, match=r"actions must have shape \[2, 1\], got \["):
            one.step(actions)
    with pytest.raises(TypeError, match="actions must be a torch tensor or a numpy array, got str"):
        one.step("left")  # type: ignore[arg-type]
    one.step(fits.view(2))
    assert not env.vector_env.episode_steps.any()


def test_bad_input_is_refused() -> None:
    made = gymnasium.make_vec(CARTPOLE, num_envs=2, autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match="autoreset_mode=SAME_STEP, got an environment with autoreset_mode=NEXT_STEP"):
        SkrlEnv(made)
    with pytest.raises(ValueError, match="needs output='torch', got an environment with output='numpy'"):
        SkrlEnv(gymnasium.make_vec(CARTPOLE, num_envs=2, output="numpy"))
    with pytest.raises(ValueError, match="masked=True needs action masks"):
        SkrlEnv(CARTPOLE, num_envs=2, masked=True)


@pytest.mark.full
def test_ppo_learns_cartpole_as_on_the_page(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_script("skrl")
    assert names["after"] > 450 > names["before"]


@pytest.mark.full
def test_ippo_and_mappo_learn_overcooked(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for returns in run_example("skrl_mappo")["returns"].values():
        assert returns[-1] > returns[0] + 1
