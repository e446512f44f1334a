"""Settings with which PPO learns each environment, found by trial."""

from __future__ import annotations

from .ppo import Config

CONFIGS = {
    "torch_batchsim/CartPole": Config(
        total_steps=131_072,
        num_envs=128,
        num_steps=32,
        num_minibatches=8,
        learning_rate=5e-3,
        gamma=0.98,
        vf_coef=1.0,
        hidden_sizes=(32, 32),
    ),
    "torch_batchsim/Swarm": Config(
        total_steps=6_000_000,
        num_envs=256,
        num_steps=64,
        num_minibatches=8,
        learning_rate=1e-3,
        gamma=0.98,
        ent_coef=0.005,
        hidden_sizes=(128, 128),
    ),
    "torch_batchsim/Overcooked": Config(
        total_steps=8_000_000,
        num_envs=128,
        num_steps=100,
        num_minibatches=8,
        learning_rate=1e-3,
        gae_lambda=0.98,
        hidden_sizes=(128, 128),
        anneal="Shaping.factor",
        anneal_until=0.4,
    ),
    "torch_batchsim/Hanabi": Config(
        total_steps=32_000_000,
        num_envs=512,
        num_steps=32,
        num_minibatches=8,
        update_epochs=2,
        learning_rate=1e-3,
        gae_lambda=0.8,
        ent_coef=0.05,  # with less the first conventions are poor, and stay
        ent_coef_end=0.005,
        hidden_sizes=(256, 256),
        activation="relu",
        anneal="Mercy.factor",  # without it nobody dares to play
        anneal_from=0.45,
        anneal_until=0.7,
        matmul_precision="medium",
    ),
    "torch_batchsim/Hanabi preset=Hanabi-Very-Small": Config(
        total_steps=3_000_000,
        num_envs=256,
        num_steps=32,
        num_minibatches=8,
        learning_rate=3e-3,
        gamma=1.0,
        ent_coef=0.05,
        ent_coef_end=0.005,
        hidden_sizes=(128, 128),
        activation="relu",
        anneal="Mercy.factor",
        anneal_from=0.3,
        anneal_until=0.7,
        matmul_precision="medium",
    ),
}
"""By environment id without its version, and for an option of the environment where that makes another task of it;
docs/training.md says how well they do."""
