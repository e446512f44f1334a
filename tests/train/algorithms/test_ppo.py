import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from torch_batchsim.train import PPOConfig, Trainer, evaluate, generalised_advantages
from torch_batchsim.train.commands.tuned import tuned_config
from training import assert_goes_on_to_the_bit, assert_same

import torch_batchsim  # noqa: F401

SMALL = {"num_envs": 6, "num_steps": 8, "num_minibatches": 2, "total_steps": 480, "hidden_sizes": (16,)}


def cartpole(num_envs=16):
    return gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=num_envs)


def cartpole_trainer(seed=1, iterations=6):
    config = PPOConfig(
        seed=seed,
        num_envs=16,
        num_steps=32,
        num_minibatches=4,
        total_steps=iterations * 512,
        hidden_sizes=(16, 16),
    )
    return Trainer(cartpole(), config)


# ---- advantages ------------------------------------------------------------------------------------------


def test_estimate_bootstraps_from_the_final_observation(toy_env):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL))
    trainer.groups[0].agent.value = lambda inputs: inputs.sum(-1)
    trainer.rollout()
    batch, storage, config = trainer.groups[0].estimate(trainer.storage), trainer.storage, trainer.config
    values, flags = storage.obs.sum(-1), (storage.terminations, storage.truncations)
    assert flags[0].any() and flags[1].any()
    next_values = torch.where(flags[0] | flags[1], storage.final_obs.sum(-1), values[1:])
    series = storage.rewards, values[:-1], next_values, *flags
    expected = generalised_advantages(*series, config.gamma, config.gae_lambda)
    torch.testing.assert_close(batch.advantages.view(-1, 6), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(batch.returns, batch.advantages + batch.values)


def test_final_observations_count_only_where_an_episode_was_truncated(toy_env):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL))
    trainer.rollout()
    expected = trainer.groups[0].estimate(trainer.storage).returns
    storage = trainer.storage
    storage.final_obs[~storage.truncations] = torch.nan
    assert torch.equal(trainer.groups[0].estimate(trainer.storage).returns, expected)
    storage.terminations |= storage.truncations
    storage.truncations.zero_()
    storage.final_obs.fill_(torch.nan)
    assert trainer.groups[0].estimate(trainer.storage).returns.isfinite().all()


# ---- rollouts --------------------------------------------------------------------------------------------


def test_the_simulator_writes_the_rollout_in_place():
    trainer, twin = cartpole_trainer(), cartpole()
    twin.reset(seed=1)
    storage = trainer.storage
    for _ in range(3):
        trainer.rollout()
        for t in range(storage.num_steps):
            obs, rewards, terminations, truncations, infos = twin.step(storage.actions[t])
            assert torch.equal(storage.obs[t + 1], obs)
            assert torch.equal(storage.rewards[t], rewards)
            assert torch.equal(storage.terminations[t], terminations)
            assert torch.equal(storage.truncations[t], truncations)
            ends = infos["_final_obs"]
            assert torch.equal(storage.final_obs[t][ends], infos["final_obs"][ends])
    assert storage.terminations.any()


def test_episode_statistics_are_the_mean_over_rows_of_the_latest_episodes(toy_env):
    trainer = Trainer(toy_env(num_envs=2), PPOConfig(**SMALL | {"num_envs": 2}))
    trainer.rollout()  # episodes of 2 steps in row 0 and of 3 in row 1; the reward is the number of the step
    metrics = trainer.episodes.statistics(trainer.storage)
    row_0, row_1 = [1 + 2, 3 + 4, 5 + 6, 7 + 8], [1 + 2 + 3, 4 + 5 + 6]
    assert metrics["charts/episodic_return"].item() == (sum(row_0) / 4 + sum(row_1) / 2) / 2
    assert metrics["charts/episodic_length"].item() == 2.5
    trainer.rollout()
    metrics = trainer.episodes.statistics(trainer.storage)
    row_0, row_1 = [9 + 10, 11 + 12, 13 + 14, 15 + 16], [7 + 8 + 9, 10 + 11 + 12, 13 + 14 + 15]
    assert metrics["charts/episodic_return"].item() == (sum(row_0) / 4 + sum(row_1) / 3) / 2


def test_returns_are_reported_by_agent_where_worlds_have_several(toy_env):
    env = toy_env(num_envs=4)
    env.num_agents = 2
    trainer = Trainer(env, PPOConfig(**SMALL | {"num_envs": 4}))
    trainer.rollout()
    metrics = trainer.episodes.statistics(trainer.storage)
    agents = [metrics[f"charts/episodic_return/agent_{i}"].item() for i in range(2)]
    assert agents == trainer.episodes.latest[0].view(2, 2).mean(0).tolist()
    assert metrics["charts/episodic_return"].item() == sum(agents) / 2
    assert agents[0] != agents[1]


def test_means_begin_when_every_row_has_ended_an_episode(toy_env):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL | {"num_steps": 2}))
    seen = []
    for _ in range(4):  # rows 0 and 4 end after 2 steps, 1 and 5 after 3, 2 after 4, 3 after 5
        trainer.rollout()
        seen.append(trainer.episodes.statistics(trainer.storage)["charts/episodic_length"].item())
    assert torch.tensor(seen).isnan().tolist() == [True, True, False, False]
    assert seen[2] == pytest.approx((2 + 3 + 4 + 5 + 2 + 3) / 6)


def test_episode_statistics_are_nan_before_any_episode_ended(toy_env):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL | {"num_steps": 1}))
    trainer.rollout()
    assert trainer.episodes.statistics(trainer.storage)["charts/episodic_return"].isnan()


# ---- iterations ------------------------------------------------------------------------------------------

PICTURE = spaces.Box(0, 255, (4, 4, 3), np.uint8)
VECTOR = spaces.Box(-1, 1, (3,), np.float32)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "masked"),
    [
        (VECTOR, spaces.Discrete(4), False),
        (VECTOR, spaces.Discrete(4), True),
        (VECTOR, spaces.MultiDiscrete([2, 3]), False),
        (VECTOR, spaces.Box(-0.1, 0.1, (2,), np.float32), False),
        (VECTOR, spaces.Box(-0.1, 0.1, (2, 2), np.float32), False),
        (PICTURE, spaces.Discrete(2), False),
        (spaces.Box(-1, 1, (), np.float32), spaces.Discrete(2), False),
        (spaces.Dict(near=VECTOR, far=PICTURE), spaces.Discrete(2), False),
    ],
)
def test_every_kind_of_space_trains_and_resumes(toy_env, observation_space, action_space, masked):
    def trainer():
        return Trainer(toy_env(6, observation_space, action_space, masked), PPOConfig(**SMALL))

    before, after = (made.groups[0].learner.parameters for made in (trainer(), assert_goes_on_to_the_bit(trainer)))
    assert not torch.equal(before, after)


def test_metrics_have_the_names_of_cleanrl():
    metrics = cartpole_trainer().iterate()
    groups = {
        "charts": "episodic_return episodic_length learning_rate",
        "losses": "policy_loss value_loss entropy approx_kl old_approx_kl clipfrac explained_variance grad_norm",
        "time": "simulation policy update",
    }
    assert set(metrics) == {f"{group}/{name}" for group, names in groups.items() for name in names.split()}
    assert all(value.shape == () for value in metrics.values())


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not():
    trainers = [cartpole_trainer(seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        for _ in range(3):
            trainer.iterate()
    assert_same(trainers[0].state_dict(), trainers[1].state_dict())
    assert not torch.equal(trainers[0].groups[0].learner.parameters, trainers[2].groups[0].learner.parameters)


def test_the_learning_rate_falls_to_zero_over_the_run():
    trainer = cartpole_trainer(iterations=4)
    rates = [trainer.iterate()["charts/learning_rate"].item() for _ in range(4)]
    assert rates == pytest.approx([2.5e-4 * share for share in (1, 0.75, 0.5, 0.25)])


@pytest.mark.parametrize(("end", "weights"), [(None, [0.04] * 4), (0.0, [0.04, 0.03, 0.02, 0.01])])
def test_the_weight_of_the_entropy_goes_to_its_end(toy_env, end, weights):
    """Seen in the gradient: of the loss nothing else is left."""
    settings = {"total_steps": 4 * 48, "ent_coef": 0.04, "ent_coef_end": end, "vf_coef": 0.0, "num_minibatches": 1}
    trainer = Trainer(toy_env(), PPOConfig(**SMALL | settings))
    seen = []
    for _ in range(4):
        trainer.iterate()
        group = trainer.groups[0]
        batch = group.estimate(trainer.storage)._replace(advantages=torch.zeros(48))
        losses, metrics, _ = group.learner.losses(batch)
        seen.append(float(-losses.detach() / metrics["losses/entropy"]))
    assert seen == pytest.approx(weights, rel=1e-4)


def kitchen(num_envs=8, **options):
    return gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_envs=num_envs, horizon=12, **options)


def kitchen_trainer(figures=(), **settings):
    """Three episodes in two rollouts."""
    config = PPOConfig(
        num_envs=8, num_steps=18, num_minibatches=2, total_steps=8 * 18 * 8, hidden_sizes=(8,), **settings
    )  # fmt: skip
    env = kitchen()
    env.metadata["figures"] = figures
    return Trainer(env, config)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0.0, 0.5, [1, 0.75, 0.5, 0.25, 0, 0, 0, 0]), (0.25, 0.75, [1, 1, 1, 0.75, 0.5, 0.25, 0, 0])],
)
def test_a_tensor_is_annealed_from_1_to_0(first, last, expected):
    trainer = kitchen_trainer(anneal=("Shaping.factor",), anneal_from=first, anneal_until=last)
    factors = []
    for _ in range(8):
        trainer.iterate()
        factors.append(float(trainer.env.sim.tensor("Shaping.factor")))
    assert factors == expected


def test_an_annealed_training_resumes_to_the_bit():
    assert_goes_on_to_the_bit(lambda: kitchen_trainer(anneal=("Shaping.factor",)))


@pytest.mark.parametrize("threads", [2, 3])
def test_a_training_has_the_same_bits_on_any_number_of_threads(threads):
    def trained(count):
        torch.set_num_threads(count)
        config = PPOConfig(num_envs=128, num_steps=16, num_minibatches=2, hidden_sizes=(64, 64), total_steps=100_000)
        trainer = Trainer(kitchen(128), config)
        for _ in range(3):
            trainer.iterate()
        return trainer.state_dict()

    before = torch.get_num_threads()
    try:
        assert_same(trained(1), trained(threads))
    finally:
        torch.set_num_threads(before)


def test_nothing_is_annealed_unless_asked_for():
    trainer = kitchen_trainer()
    trainer.iterate()
    assert float(trainer.env.sim.tensor("Shaping.factor")) == 0


def test_the_score_and_figures_are_means_of_the_episodes_that_ended(monkeypatch):
    trainer = kitchen_trainer(figures=("team_return",), anneal=("Shaping.factor",))
    reported, step = [], trainer.env.step

    def fake_scores(actions):
        *outputs, infos = step(actions)
        infos["final_info"]["team_return"].copy_(torch.arange(8) + 10.0 * len(reported))
        reported.append(infos["_final_info"].all().item())
        return *outputs, infos

    monkeypatch.setattr(trainer.env, "step", fake_scores)
    metrics = [trainer.iterate() for _ in range(2)]
    scores = [each["charts/score"].item() for each in metrics]
    assert [each["figures/team_return"].item() for each in metrics] == scores
    assert [t for t, ended in enumerate(reported) if ended] == [11, 23, 35]
    assert scores == [3.5 + 110, 3.5 + (230 + 350) / 2]


def test_the_score_is_nan_where_no_episode_has_ended():
    config = PPOConfig(num_envs=8, num_steps=4, num_minibatches=2, total_steps=64, hidden_sizes=(8,))
    assert Trainer(kitchen(), config).iterate()["charts/score"].isnan()


def test_matrix_products_are_as_exact_as_said_and_only_while_training(toy_env, monkeypatch):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL, matmul_precision="medium"))
    rollout, seen = trainer.rollout, []
    monkeypatch.setattr(trainer, "rollout", lambda: (seen.append(torch.get_float32_matmul_precision()), rollout()))
    trainer.iterate()
    assert (seen, torch.get_float32_matmul_precision()) == (["medium"], "highest")


def test_target_kl_ends_the_updates(toy_env):
    config = PPOConfig(**SMALL, update_epochs=50, learning_rate=1e-2, target_kl=0.01)
    trainer = Trainer(toy_env(), config)
    trainer.iterate()
    taken = trainer.groups[0].learner.optimizer.state_dict()["state"][0]["step"].item()
    assert taken < 50 * 2


def test_gradients_are_clipped_to_the_norm(toy_env):
    trainer = Trainer(toy_env(), PPOConfig(**SMALL, max_grad_norm=1e-3))
    trainer.iterate()
    assert trainer.groups[0].learner.parameters.grad.norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_cartpole_learns():
    config = PPOConfig(
        num_envs=64, num_steps=32, num_minibatches=4, total_steps=100_000, learning_rate=7e-3, gamma=0.98,
        max_grad_norm=5.0, vf_coef=1.0, hidden_sizes=(32, 32),
    )  # fmt: skip
    trainer = Trainer(cartpole(64), config)
    for _ in range(trainer.num_iterations):
        trainer.iterate()
    assert evaluate(cartpole(100), trainer.groups[0].agent, seed=7).returns.mean() > 195


@pytest.mark.full
def test_cartpole_is_learned_with_continuous_actions_by_the_same_settings():
    def carts(number):
        return gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=number, continuous=True)

    config = tuned_config("torch_batchsim/CartPole-v0", ["continuous=True"])
    trainer = Trainer(carts(config.num_envs), config)
    for _ in range(trainer.num_iterations):
        trainer.iterate()
    assert evaluate(carts(100), trainer.groups[0].agent, seed=7).returns.mean() > 475


# ---- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps is 0, but must be at least 1"),
        ({"gamma": 1.5}, "gamma is 1.5, but must be between 0 and 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, but must be greater than 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"seed": -1}, r"seed is -1, but must be from 0 to 2\*\*63 - 1"),
        ({"seed": 2**63}, "seed is 9223372036854775808, but must be from 0"),
        ({"target_kl": 0.0}, "target_kl is 0.0"),
        ({"ent_coef_end": -0.1}, "ent_coef_end is -0.1, but must be 0 or more"),
        ({"activation": "gelu"}, r"activation is gelu, but must be one of \('tanh', 'relu'\)"),
        ({"matmul_precision": "low"}, r"matmul_precision is low, but must be one of \('highest', 'high', 'medium'\)"),
        ({"hidden_sizes": (32, 0)}, "hidden_sizes"),
        ({"num_minibatches": 7}, "num_minibatches is 7, but must divide the rollout: 8 steps x 6 rows = 48"),
        ({"num_minibatches": 48}, "norm_adv needs at least 2"),
        ({"total_steps": 47}, "total_steps is 47, but one rollout has 48"),
        ({"anneal": ("Shaping.factor",)}, "anneal names 'Shaping.factor', which is not a tensor of this environment"),
        ({"anneal_until": 0.0}, "anneal_until is 0.0, but must be greater than 0 and at most 1"),
        ({"anneal_from": 0.5}, "anneal_from is 0.5, but must be from 0 to anneal_until"),
        ({"anneal_until": 2.0}, "anneal_until is 2.0, but must be greater than 0 and at most 1"),
    ],
)
def test_bad_settings_are_refused(toy_env, changes, message):
    with pytest.raises(ValueError, match=message):
        Trainer(toy_env(), PPOConfig(**SMALL | changes))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Shaping.faktor", r"anneal names 'Shaping.faktor', which is not a tensor.*factor"),
        ("Kitchen.layout", r"which is int32 \[4\]; it must be one float for all worlds"),
        ("Chef.Reward", r"which is float32 \[4, 2\]"),
        ("Layouts.most", r"which is int32 \[1\]"),
    ],
)
def test_only_a_number_of_the_environment_is_annealed(name, message):
    with pytest.raises(ValueError, match=message):
        kitchen_trainer(anneal=("Shaping.factor", name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_worlds=4, by_agent=True),
         "a policy for each of ['agent_0', 'agent_1'], but this trainer has one policy for all rows"),
        (lambda: gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=4, output="numpy"), "output='numpy'"),
        (lambda: gymnasium.make_vec("CartPole-v1", num_envs=4), "CartPoleVectorEnv has no bind_slots()"),
    ],
)  # fmt: skip
def test_what_it_cannot_train_is_refused_at_once(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Trainer(make(), PPOConfig())


def test_only_same_step_autoreset_is_taken(toy_env):
    env = toy_env()
    env.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(ValueError, match="autoreset_mode"):
        Trainer(env, PPOConfig(**SMALL))


@pytest.mark.parametrize(
    "unknown",
    [
        {"observation_space": spaces.Discrete(3)},
        {"observation_space": spaces.Dict(a=spaces.Discrete(3))},
        {"action_space": spaces.MultiBinary(3)},
        {"action_space": spaces.Discrete(3, start=1)},
    ],
)
def test_other_spaces_are_refused(toy_env, unknown):
    env = toy_env()
    for name, space in unknown.items():
        setattr(env, f"single_{name}", space)
    with pytest.raises(ValueError, match="but the trainer takes"):
        Trainer(env, PPOConfig(**SMALL))
