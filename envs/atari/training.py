"""Settings of PPO: of RAM tried with Pong; of pictures some of those of OpenAI's baselines, untried here."""

TRAINING = {
    "": {
        "total_steps": 10_000_000,
        "num_steps": 128,
        "learning_rate": 2.5e-4,
        "threads": 1,
    },
    "obs=ram": {
        "total_steps": 10_000_000,
        "num_envs": 64,
        "num_steps": 128,
        "num_minibatches": 8,
        "update_epochs": 4,
        "learning_rate": 1e-3,
        "gamma": 0.99,
        "ent_coef": 0.01,
        "hidden_sizes": (128, 128),
        "activation": "relu",
        "norm_obs": True,
        "threads": 1,
    },
}
