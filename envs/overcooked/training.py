"""Settings with which PPO learns this environment, found by trial: see ``Environment.training``."""

TRAINING = {
    "": {
        "total_steps": 8_000_000,
        "num_envs": 128,
        "num_steps": 100,
        "num_minibatches": 8,
        "learning_rate": 1e-3,
        "gae_lambda": 0.98,
        "hidden_sizes": (128, 128),
        "anneal": "Shaping.factor",
        "anneal_until": 0.4,
        "threads": 1,  # the same bits on every number of cores; beside other work more would wait for each other
        "eval_episodes": 256,
        "eval_stochastic": True,  # the likeliest actions of a half-trained pair often block each other for ever
    },
}
