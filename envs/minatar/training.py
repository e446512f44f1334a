"""Settings of PPO, the same for all games and not tuned: see ``Environment.training``."""

_PPO = {
    "total_steps": 2_000_000,
    "num_envs": 256,
    "num_steps": 32,
    "num_minibatches": 8,
    "update_epochs": 2,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "ent_coef": 0.01,
    "hidden_sizes": (128, 128),
    "activation": "relu",
    "threads": 1,
}

TRAINING = {game: {"": _PPO} for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")}

SWEEP = {
    "num_envs": [128, 256, 512],
    "num_steps": [16, 32, 64],
    "update_epochs": (2, 8),
    "learning_rate": (3e-4, 3e-3, "log"),
    "gamma": [0.98, 0.99, 0.995],
    "gae_lambda": (0.8, 0.98),
    "ent_coef": (1e-3, 0.03, "log"),
}
"""Ranges of a sweep: see ``Environment.sweep``."""
