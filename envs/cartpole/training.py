"""Settings of PPO and A2C for this environment, found by trial: see ``Environment.training``."""

_PPO = {
    "total_steps": 131_072,
    "num_envs": 128,
    "num_steps": 32,
    "num_minibatches": 8,
    "learning_rate": 5e-3,
    "gamma": 0.98,
    "vf_coef": 1.0,
    "hidden_sizes": (32, 32),
    "threads": 1,  # more are no faster with such small networks; the bits do not depend on it
}

# Without PPO's clipping a step must be smaller, of a whole rollout, whose advantages keep their size where little is
# left to learn. Normalised rewards bring returns within the reach of a critic that learns in small steps.
_A2C = {
    **_PPO,
    "total_steps": 524_288,
    "num_minibatches": 1,
    "learning_rate": 2e-3,
    "gamma": 0.99,
    "gae_lambda": 1.0,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
    "norm_adv": False,
    "norm_reward": True,
}

TRAINING = {"": _PPO, "algorithm=a2c": _A2C}

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
