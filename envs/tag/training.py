"""Settings of PPO for these environments, not tuned: see ``Environment.training``. Rows are of 100 worlds."""

from typing import Any

CONTINUOUS: dict[str, dict[str, Any]] = {
    "": {
        "policies": "teams",
        "total_steps": 3_000_000,
        "num_envs": 1100,
        "num_steps": 50,
        "num_minibatches": 5,
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "hidden_sizes": (64, 64),
    },
}

GRID = {"": {**CONTINUOUS[""], "total_steps": 2_000_000}}
