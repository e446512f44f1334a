"""rsl_rl: its runner learns the continuous CartPole, and what its ``VecEnv`` promises."""

from __future__ import annotations

import gymnasium
import pytest
import torch
from environments.drift import Drift
from libraries_of_others import library, run_script

import torch_batchsim
from torch_batchsim import TorchVectorEnv

library(__file__, "rsl_rl", "tensordict")

from rsl_rl.runners import OnPolicyRunner  # noqa: E402
from rsl_rl.utils import check_nan  # noqa: E402

from torch_batchsim.adapters.rsl_rl import RslRlEnv  # noqa: E402

CARTPOLE = "torch_batchsim/CartPole-v0"
SMALL = {"class_name": "MLPModel", "hidden_dims": [8]}
SETTINGS = {
    "num_steps_per_env": 8, "save_interval": 100, "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**SMALL, "distribution_cfg": {"class_name": "GaussianDistribution"}}, "critic": SMALL,
    "algorithm": {"class_name": "PPO"},
}  # fmt: skip


def carts(num_envs: int, **options: object) -> RslRlEnv:
    return RslRlEnv(CARTPOLE, num_envs=num_envs, continuous=True, seed=2, **options)


@pytest.mark.full
def test_its_runner_learns_cartpole_as_on_the_page() -> None:
    returns = run_script("rsl_rl")["returns"]
    assert returns[-1] > 250 and returns[-1] > 3 * returns[0]


def test_results_of_a_step() -> None:
    env = carts(3, max_episode_steps=2)
    bare = gymnasium.make_vec(CARTPOLE, num_envs=3, continuous=True, max_episode_steps=2, copy=True)
    assert (env.num_envs, env.num_actions, env.max_episode_length, env.device) == (3, 1, 2, torch.device("cpu"))
    assert torch.equal(env.get_observations()["policy"], bare.reset(seed=2)[0])
    actions = torch.tensor([[0.5], [-1.0], [0.0]])
    for last in (False, True):
        observations, rewards, dones, extras = env.step(actions)
        expected = bare.step(actions)
        check_nan(observations, rewards, dones)
        assert observations is env.get_observations() and observations.batch_size == (3,)
        assert torch.equal(observations["policy"], expected[0]) and torch.equal(rewards, expected[1])
        assert dones.tolist() == extras["time_outs"].tolist() == [last] * 3
    own = env.vector_env
    assert observations["policy"].data_ptr() == own.observations.data_ptr()  # no copy
    env.step(actions)
    own.sim.tensor("Cart.CartState.x")[1] = 9.0
    _, _, dones, extras = env.step(actions)  # row 1 is both terminated and truncated: no value follows
    assert dones.tolist() == [True] * 3 and extras["time_outs"].tolist() == [True, False, True]
    env.step(actions)
    assert env.reset()[0] is env.get_observations() and not env.episode_length_buf.any()


def test_observations_stay_until_the_step_after_the_next_one() -> None:
    env = carts(4)
    first = env.get_observations()
    copy = first["policy"].clone()
    second = env.step(torch.ones(4, 1))[0]
    assert torch.equal(first["policy"], copy) and not torch.equal(second["policy"], copy)
    with pytest.raises(RuntimeError, match="lock"):
        second["policy"] = copy  # would be there again two steps later


def test_episode_lengths_move_the_time_limit() -> None:
    env = carts(4, max_episode_steps=500)
    env.episode_length_buf = torch.tensor([499, 0, 498, 7])
    assert env.episode_length_buf.tolist() == [499, 0, 498, 7]
    assert env.step(torch.zeros(4, 1))[3]["time_outs"].tolist() == [True, False, False, False]
    assert env.episode_length_buf.tolist() == [0, 1, 499, 8]
    assert env.step(torch.zeros(4, 1))[3]["time_outs"].tolist() == [False, False, True, False]
    with pytest.raises(ValueError, match=r"must have shape \[4\], got \[3\]"):
        env.episode_length_buf = torch.zeros(3)
    before = env.episode_length_buf
    for wrong in (-5, 2**31):
        with pytest.raises(ValueError, match=f"episode_steps must be from 0 to .*, got {wrong}"):
            env.episode_length_buf = torch.tensor([wrong, 0, 0, 0])
    assert torch.equal(env.episode_length_buf, before)
    before.fill_(3)  # a copy
    assert not torch.equal(env.episode_length_buf, before)


def test_actions_outside_a_box_are_clipped() -> None:
    envs = [RslRlEnv(TorchVectorEnv(Drift(), 8), seed=0) for _ in range(2)]
    assert envs[0].max_episode_length == 9
    low = torch.as_tensor(envs[0].vector_env.single_action_space.low)
    far, near = (env.step(actions.expand(8, -1))[0] for env, actions in zip(envs, (low - 50, low), strict=True))
    assert (far == near).all()


def test_a_runner_begins_at_random_lengths() -> None:
    torch.manual_seed(0)
    env = RslRlEnv(torch_batchsim.EpisodeStatistics(gymnasium.make_vec(CARTPOLE, num_envs=64, continuous=True)))
    OnPolicyRunner(env, SETTINGS).learn(1, init_at_random_ep_len=True)  # actions far outside the Box too
    lengths = env.episode_length_buf
    assert len(lengths.unique()) > 20 and lengths.max() > 100


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"CartPole has Discrete\(2\); make it with continuous=True"):
        RslRlEnv(CARTPOLE, num_envs=2)
    with pytest.raises(ValueError, match=r"and Overcooked has Discrete\(6\)$"):
        RslRlEnv("torch_batchsim/Overcooked-v0", num_worlds=2)
