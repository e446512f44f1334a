"""Settings of PPO for these environments, found by trial: see ``Environment.training``."""

GRID = {
    "": {
        "total_steps": 3_000_000,
        "num_envs": 1100,
        "num_steps": 64,
        "num_minibatches": 8,
        "learning_rate": 1e-3,
        "hidden_sizes": (64, 64),
    },
}

CONTINUOUS = {
    "": {
        "total_steps": 5_000_000,
        "num_envs": 1100,
        "num_steps": 50,
        "num_minibatches": 8,
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "hidden_sizes": (64, 64),
    },
}
