"""A critic that reads what the policy does not see."""

import json
import re

import gymnasium
import numpy as np
import pytest
import torch
from environments.coin import CoinToss
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hideseek import HideSeek
from torch_batchsim.train import NotFinite, PPOConfig, Trainer, evaluate
from torch_batchsim.train.algorithms import config_of
from torch_batchsim.train.export import ABOUT, export
from training import assert_goes_on_to_the_bit

from torch_batchsim import SchemaError, TorchVectorEnv

SETTINGS = {
    "num_envs": 64, "num_steps": 8, "num_minibatches": 2, "total_steps": 64 * 8 * 60, "hidden_sizes": (16,),
    "learning_rate": 1e-2, "gamma": 0.9, "central_critic": True,
}  # fmt: skip


def trainer(**changes):
    return Trainer(TorchVectorEnv(CoinToss(), num_envs=64), config_of(SETTINGS | changes))


def explained(made):
    for _ in range(made.num_iterations):
        metrics = made.iterate()
    return metrics["losses/explained_variance"].item()


@pytest.mark.full
def test_it_explains_what_the_policy_cannot_see():
    """Episodes are cut short: what they led to is valued by the coin of the episode that ends, not of the next."""
    assert explained(trainer()) > 0.95
    assert explained(trainer(central_critic=False)) < 0.05


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "a2c"},
        {"memory": "gru", "memory_size": 8},
        {"norm_obs": True},
        {"algorithm": "a2c", "memory": "lstm", "memory_size": 8, "norm_obs": True},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_it_goes_with_other_settings(settings):
    assert explained(trainer(**settings)) > 0.9


@pytest.mark.full
def test_the_policy_does_not_read_it():
    agent = trainer(norm_obs=True).groups[0].agent
    seen, sides = torch.rand(6, 2), [{"truth": torch.full((6,), side)} for side in (-1.0, 1.0)]
    tails, heads = (agent.encode(seen, side) for side in sides)
    assert torch.equal(agent.outputs(tails), agent.outputs(heads))
    assert torch.equal(agent.outputs(tails), agent.outputs(agent.encode(seen)))
    assert not torch.equal(agent.value(tails), agent.value(heads))


@pytest.mark.full
@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_rollouts_hold_it_where_the_environment_writes(memory):
    """In place, and at the ends of episodes as it was."""
    made = trainer(memory=memory)
    made.rollout()
    storage = made.storage
    truth, ends = storage.critic_obs["truth"], storage.truncations
    sign = torch.tensor([1.0, -1.0]).repeat(32)
    assert ends.any() and not storage.terminations.any()
    assert torch.equal(storage.rewards * sign, truth[:-1])
    assert torch.equal(storage.final_critic_obs["truth"][ends], truth[:-1][ends])
    assert not torch.equal(truth[1:][ends], truth[:-1][ends])


@pytest.mark.parametrize("settings", [{"norm_obs": True}, {"algorithm": "a2c", "memory": "gru"}], ids=["ppo", "a2c"])
def test_it_goes_on_to_the_bit(settings):
    assert_goes_on_to_the_bit(lambda: trainer(**settings))


@pytest.mark.full
def test_hide_and_seek_reads_all_things_by_attention():
    env = TorchVectorEnv(HideSeek(preset="empty-room", flat=False, critic=True), num_worlds=16)
    names = ("agents", "all_agents", "all_boxes")
    assert list(env.single_critic_space) == ["all_agents", "all_boxes", "all_ramps"]
    settings = SETTINGS | {"num_envs": env.num_envs, "total_steps": 10_000, "policies": "teams"}
    made = Trainer(env, PPOConfig(**settings, encoders=tuple(f"{name}=attention" for name in names)))
    made.iterate()
    agent = made.groups[0].agent
    assert list(agent.actor.trunk.attention.sets) == ["agents"]
    assert list(agent.critic.trunk.attention.sets) == list(names)
    assert evaluate(env, made.agents, 1, deterministic=False).returns.isfinite().all()


def test_an_exported_policy_does_without(tmp_path):
    gymnasium.register("tests/CoinToss-v0", vector_entry_point=lambda **options: TorchVectorEnv(CoinToss(), **options))
    made = trainer(total_steps=64 * 8)
    made.iterate()
    contents = {"env": "tests/CoinToss-v0", "env_options": {}, "trainer": made.state_dict()}
    [path] = export(contents, tmp_path / "policy.pt2")
    extra = {ABOUT: ""}
    program = torch.export.load(path, extra_files=extra)
    assert json.loads(extra[ABOUT])["observation"] == {"shape": [2], "dtype": "float32"}
    assert not [name for name in program.state_dict if "critic" in name]
    assert program.module()(torch.rand(5, 2)).shape == (5,)
    del gymnasium.registry["tests/CoinToss-v0"]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_it_needs_an_environment_that_names_something():
    env = TorchVectorEnv(CartPole(), num_worlds=4)
    with pytest.raises(ValueError, match=r"central_critic is on, but the environment names nothing for a critic"):
        Trainer(env, PPOConfig(num_envs=env.num_envs, central_critic=True))


def test_nan_is_named():
    made = trainer()
    made.rollout()
    made.storage.critic_obs["truth"][3, 5] = torch.nan
    made.finite.look_at_rollout(1, made.storage)
    with pytest.raises(NotFinite, match=re.escape("info['truth'] of world 2, agent 1 (row 5) is nan after step 3")):
        made.check_finite()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Player.Truth", "critic must be a dict, got 'Player.Truth'"),
        ({"truth": 3}, "critic 'truth' must be the name of a column, got 3"),
        ({"team": "Player.Truth"}, "critic 'team' is a name of gymnasium's or the engine's own"),
        ({"guess": "Player.Truth"}, "critic 'guess' is a name of info too"),
    ],
)
def test_names_that_it_cannot_have(given, message):
    kind = type("CoinToss", (CoinToss,), {"critic": given, "info": {"guess": "Player.Guess"}})
    kind.__module__ = CoinToss.__module__
    with pytest.raises(SchemaError, match=re.escape(message)):
        TorchVectorEnv(kind(), num_worlds=2)


def test_spaces_follow_from_ranges():
    env = TorchVectorEnv(CoinToss(), num_worlds=3)
    assert env.single_critic_space == gymnasium.spaces.Dict(truth=gymnasium.spaces.Box(-1, 1, (), np.float32))
    _, infos = env.reset(seed=1)
    assert infos["truth"].shape == (6,)
