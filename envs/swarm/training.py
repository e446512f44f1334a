"""Settings with which PPO learns this environment, found by trial: see ``Environment.training``."""

TRAINING = {
    "": {
        "total_steps": 6_000_000,
        "num_envs": 256,
        "num_steps": 64,
        "num_minibatches": 8,
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "ent_coef": 0.005,
        "hidden_sizes": (128, 128),
    },
}
