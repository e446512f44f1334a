"""Settings of PPO for this environment, found by trial: see ``Environment.training``."""

TRAINING = {
    "": {
        "total_steps": 131_072,
        "num_envs": 128,
        "num_steps": 32,
        "num_minibatches": 8,
        "learning_rate": 5e-3,
        "gamma": 0.98,
        "vf_coef": 1.0,
        "hidden_sizes": (32, 32),
        "threads": 1,  # more are no faster with such small networks; the bits do not depend on it
    },
}

SWEEP = {
    "num_envs": [64, 128, 256],
    "num_steps": [16, 32, 64],
    "update_epochs": (2, 8),
    "learning_rate": (1e-3, 2e-2, "log"),
    "gamma": [0.97, 0.98, 0.99],
    "gae_lambda": (0.85, 1.0),
    "ent_coef": (1e-4, 0.03, "log"),
}
"""Ranges of a sweep: see ``Environment.sweep``."""
