"""Settings of PPO for this environment, found by trial: see ``Environment.training``."""

TRAINING = {
    "": {
        "total_steps": 64_000_000,
        "num_envs": 512,
        "num_steps": 32,
        "num_minibatches": 8,
        "update_epochs": 2,
        "learning_rate": 1e-3,
        "gae_lambda": 0.8,
        "ent_coef": 0.05,  # with less the first conventions are poor and persist
        "ent_coef_end": 0.005,
        "hidden_sizes": (128, 128),  # twice the steps/s of 256 units, and more points
        "activation": "relu",
        "anneal": ("Mercy.factor",),  # without it the agents never play a card
        "anneal_from": 0.45,
        "anneal_until": 0.7,
        "threads": 2,  # products take nearly all of the time; the bits do not depend on it
    },
    "preset=Hanabi-Very-Small": {
        "total_steps": 3_000_000,
        "num_envs": 256,
        "num_steps": 32,
        "num_minibatches": 8,
        "learning_rate": 3e-3,
        "gamma": 1.0,
        "ent_coef": 0.05,
        "ent_coef_end": 0.005,
        "hidden_sizes": (128, 128),
        "activation": "relu",
        "anneal": ("Mercy.factor",),
        "anneal_from": 0.3,
        "anneal_until": 0.7,
        "threads": 1,
    },
}

SWEEP = {
    "num_envs": [256, 512, 1024],
    "num_steps": [16, 32, 64],
    "update_epochs": (1, 4),
    "learning_rate": (3e-4, 3e-3, "log"),
    "gamma": [0.99, 1.0],
    "gae_lambda": (0.7, 0.98),
    "ent_coef": (0.01, 0.1, "log"),
    "anneal_from": (0.2, 0.5),
    "anneal_until": (0.55, 0.9),
}
"""Ranges of a sweep: see ``Environment.sweep``."""
