"""rl_games: its own runner from a YAML file, masks, time outs, several agents, and its players."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from libraries_of_others import PAGE, library, run_script

import torch_batchsim

library(__file__, "rl_games")

import yaml  # noqa: E402
from rl_games.torch_runner import Runner  # noqa: E402

from torch_batchsim.adapters.rl_games import RlGamesEnv, register  # noqa: E402

CARTPOLE, HANABI, OVERCOOKED = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Hanabi", "Overcooked"))
ROOT = PAGE.parents[1]
SETTINGS = yaml.safe_load((ROOT / "examples" / "adapters" / "rl_games_cartpole.yaml").read_text())

CONTINUOUS = {
    "mu_activation": "None", "mu_init": {"name": "default"}, "sigma_activation": "None",
    "sigma_init": {"name": "const_initializer", "val": 0}, "fixed_sigma": True,
}  # fmt: skip


def trained(env_config: dict[str, Any], kind: str = "discrete", **config: Any) -> RlGamesEnv:
    """Two epochs by rl_games' runner, and one game by its player; the environment of the training."""
    settings = deepcopy(SETTINGS)
    few = {"num_actors": 8, "horizon_length": 8, "minibatch_size": 64, "mini_epochs": 1, "max_epochs": 2}
    game = {"player": {"games_num": 1}, "full_experiment_name": "few"}
    params = settings["params"]
    params["config"] |= {**few, **game, "env_config": env_config, **config}
    params["algo"]["name"] = "a2c_continuous" if kind == "continuous" else "a2c_discrete"
    params["model"]["name"] = "continuous_a2c_logstd" if kind == "continuous" else f"{kind}_a2c"
    params["network"]["space"] = {kind: CONTINUOUS if kind == "continuous" else {}}
    register()
    runner = Runner()
    runner.load(settings)
    agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
    agent.train()
    checkpoint = next(Path("runs/few/nn").glob("last_*_ep_2_*.pth"))
    runner.load(settings)
    runner.run({"train": False, "play": True, "checkpoint": str(checkpoint)})
    return agent.vec_env


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.full
def test_its_runner_trains_cartpole_as_on_the_page(capsys) -> None:
    Path("examples").symlink_to(ROOT / "examples")
    run_script("rl_games")
    assert float(re.findall(r"av reward: ([\d.]+)", capsys.readouterr().out)[-1]) > 300


@pytest.mark.parametrize("turns", ["current", "all"])
def test_masked_players_of_hanabi_make_no_illegal_move(turns: str) -> None:
    agents = 2 if turns == "all" else 1
    env_config = {"env": HANABI, "turns": turns}
    env = trained(env_config, use_action_masks=True, minibatch_size=64 * agents)
    env.vector_env.check_faults()  # an illegal move is one


def test_moves_without_masks_are_faults(capsys) -> None:
    with pytest.raises(Exception, match="illegal_move"):
        trained({"env": HANABI}, use_action_masks=False)


def test_agents_share_a_central_value() -> None:
    config = {"minibatch_size": 64, "mini_epochs": 1, "learning_rate": 1e-3, "clip_value": True}
    network = {"name": "actor_critic", "central_value": True, "mlp": SETTINGS["params"]["network"]["mlp"]}
    central = {**config, "normalize_input": False, "truncate_grads": True, "grad_norm": 1.0, "network": network}
    env_config = {"env": OVERCOOKED, "central_value": True, "horizon": 5}
    env = trained(env_config, minibatch_size=128, central_value_config=central)
    assert env.get_env_info()["state_space"].shape == (2 * 520,)
    inputs = env.reset()
    assert inputs["obs"].shape == (16, 5, 4, 26) and inputs["obs"].dtype == torch.float32
    assert torch.equal(inputs["states"], inputs["obs"].reshape(8, -1))


def test_actions_of_several_numbers() -> None:
    trained({"env": "torch_batchsim/Swarm-v0", "max_episode_steps": 20}, "multi_discrete")


def test_a_box_of_actions() -> None:
    trained({"env": CARTPOLE, "continuous": True}, "continuous", bounds_loss_coef=1e-4)


def test_results_of_a_step() -> None:
    env = RlGamesEnv(num_actors=3, env=CARTPOLE, seed=5, max_episode_steps=2)
    bare = gymnasium.make_vec(CARTPOLE, num_envs=3, max_episode_steps=2)
    assert torch.equal(env.reset(), bare.reset(seed=5)[0])
    actions = torch.tensor([1, 0, 1])
    for last in (False, True):
        observations, rewards, dones, infos = env.step(actions)
        expected = bare.step(actions)
        assert torch.equal(observations, expected[0]) and torch.equal(rewards, expected[1])
        assert dones.tolist() == infos["time_outs"].tolist() == [last] * 3
    env.vector_env.sim.tensor("Cart.CartState.x").copy_(torch.tensor([[0.0], [9.0], [0.0]]))
    env.step(actions)
    env.vector_env.sim.tensor("Cart.CartState.x")[1] = 9.0
    _, _, dones, infos = env.step(actions)  # both terminated and truncated: no value follows
    assert dones.tolist() == [True] * 3 and infos["time_outs"].tolist() == [True, False, True]


def test_dones_without_final_observations() -> None:
    env = RlGamesEnv(num_actors=2, env=CARTPOLE, final_obs=False, max_episode_steps=1)
    env.reset()
    assert env.step(torch.zeros(2, dtype=torch.int64))[2].all()


def test_bad_input_is_refused() -> None:
    env = RlGamesEnv(num_actors=2, env=CARTPOLE)
    assert not env.has_action_masks()
    with pytest.raises(ValueError, match="use_action_masks needs action masks, which CartPole lacks"):
        env.get_action_masks()
    torch_batchsim.register("tests/DuelOfRlGames-v0", "environments.duel:Duel")
    with pytest.raises(ValueError, match=r"parts of equal length, got MultiDiscrete\(\[3 2\]\)"):
        RlGamesEnv(num_actors=2, env="tests/DuelOfRlGames-v0").get_action_masks()
