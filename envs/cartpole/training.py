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
