"""Settings of PPO for this environment, found by trial: see ``Environment.training``."""

TRAINING = {
    "": {
        "total_steps": 1_000_000,
        "num_envs": 128,
        "num_steps": 32,
        "num_minibatches": 8,
        "update_epochs": 4,
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "ent_coef": 0.0,
        "hidden_sizes": (64, 64),
        "norm_obs": True,
        "norm_reward": True,
        "threads": 2,
    },
}

SWEEP = {
    "num_envs": [128, 256, 512],
    "num_steps": [16, 32, 64],
    "update_epochs": (2, 8),
    "learning_rate": (3e-4, 3e-3, "log"),
    "gamma": [0.97, 0.98, 0.99],
    "gae_lambda": (0.9, 0.99),
    "ent_coef": (1e-5, 1e-2, "log"),
}
"""Ranges of a sweep: see ``Environment.sweep``."""
