"""Settings of PPO for the games: see ``Environment.training``."""

# For a GPU, and untested. Discount, lambda, entropy, passes over a rollout and learning rate are those of Baker et al.
# (2020), whose networks also have attention and a memory.
_FULL = {
    "total_steps": 5_000_000_000,
    "num_envs": 20_480,
    "num_steps": 40,
    "num_minibatches": 16,
    "update_epochs": 4,
    "learning_rate": 3e-4,
    "anneal_lr": False,
    "gamma": 0.998,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
    "hidden_sizes": (512, 512),
    "activation": "relu",
    "eval_stochastic": True,
}

_ONE_AGAINST_ONE = {
    "total_steps": 2_700_000,
    "num_envs": 1024,
    "num_steps": 32,
    "num_minibatches": 8,
    "update_epochs": 4,
    "learning_rate": 2e-3,
    "anneal_lr": False,
    "gamma": 0.97,
    "ent_coef": 0.003,
    "norm_obs": True,  # velocities are up to 10 m/s, most other numbers at most 1
    "hidden_sizes": (64, 64),
    "activation": "relu",
    "threads": 1,
    "eval_stochastic": True,  # predictable players are easily avoided
}

TRAINING = {
    "": _FULL,
    "preset=empty-room": _ONE_AGAINST_ONE,
    "preset=walls": _ONE_AGAINST_ONE,
}

SWEEP = {
    "num_steps": [16, 32, 40, 64],
    "update_epochs": (2, 6),
    "learning_rate": (1e-4, 3e-3, "log"),
    "gamma": [0.95, 0.97, 0.99, 0.998],
    "gae_lambda": (0.9, 0.99),
    "ent_coef": (1e-3, 0.03, "log"),
}
"""Ranges of a sweep: see ``Environment.sweep``.

The score of a game between two teams of one policy says little about it: compare the best trials by
``python -m torch_batchsim.train.match``."""
