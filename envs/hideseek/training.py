"""Settings with which PPO learns the games: see ``Environment.training``."""

_ONE_AGAINST_ONE = {
    "total_steps": 4_000_000,
    "num_envs": 1024,
    "num_steps": 32,
    "num_minibatches": 8,
    "update_epochs": 2,
    "learning_rate": 1e-3,
    "gamma": 0.95,
    "hidden_sizes": (64, 64),
    "activation": "relu",
    "threads": 1,
}

TRAINING = {
    "": {},
    "preset=empty-room": _ONE_AGAINST_ONE,
    "preset=walls": _ONE_AGAINST_ONE,
}
