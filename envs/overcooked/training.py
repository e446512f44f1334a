"""Settings of PPO for this environment, found by trial: see ``Environment.training``."""

_ALL = {
    "total_steps": 5_000_000,
    "num_envs": 128,
    "num_steps": 100,
    "num_minibatches": 8,
    "learning_rate": 1e-3,
    "gae_lambda": 0.98,
    "target_kl": 0.02,  # without it one update in thousands leads far off, and a pair loses what it has learned
    "ent_coef_end": 0.001,  # so that actions drawn at the end are nearly the likeliest ones
    "hidden_sizes": (64, 64),
    # Without games that others have begun, pairs in large kitchens never learn to serve a soup. Without a share of
    # the other's shaped rewards nobody hands onions to the one at the pots.
    "anneal": ("Shaping.factor", "Shaping.shared", "Start.random_objects"),
    "anneal_until": 0.4,
    "threads": 1,  # the bits do not depend on it; beside other work more threads would wait for each other
    "eval_episodes": 256,
    "eval_stochastic": True,  # the likeliest actions of a half-trained pair often block each other forever
}

TRAINING = {
    "": _ALL,
    # Three recipes, with tomatoes: most mixtures pay nothing, and 5 million steps find no paying one.
    "layout=counter_circuit": {**_ALL, "total_steps": 12_000_000},
    # With 0.4 the pair of seed 3 cooks, but has not learned to serve when only serving pays.
    "layout=counter_circuit_o_1order": {**_ALL, "anneal_until": 0.6},
}

SWEEP = {
    "num_envs": [128, 256, 512],
    "num_steps": [50, 100, 200],
    "update_epochs": (2, 8),
    "learning_rate": (3e-4, 3e-3, "log"),
    "gae_lambda": (0.9, 1.0),
    "ent_coef": (3e-4, 0.05, "log"),
    "anneal_until": (0.2, 0.9),
}
"""Ranges of a sweep: see ``Environment.sweep``."""
