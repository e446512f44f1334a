"""Settings with which PPO learns this environment, found by trial: see ``Environment.training``."""

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
        "threads": 1,  # as fast as more with networks so small, and the same bits on every number of cores
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
"""What a sweep tries: see ``Environment.sweep``."""
