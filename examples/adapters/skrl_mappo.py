"""IPPO and MAPPO in Overcooked, by skrl's own Runner.

Prints an agent's mean return in each run of 200 steps of 32 kitchens.
"""

import gymnasium
from skrl.utils.runner.torch import Runner

import torch_batchsim
from torch_batchsim.adapters.skrl import SkrlMultiAgentEnv


def trained(algorithm: str, runs: int) -> list[float]:
    """Mean return of an agent in each run of 200 steps of 32 kitchens."""
    options = {"horizon": 100, "shaping_factor": 1.0, "obs_dtype": "float32"}
    kitchens = gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_worlds=32, **options)
    episodes = torch_batchsim.EpisodeStatistics(kitchens)
    env = SkrlMultiAgentEnv(episodes)
    policy = [{"name": "net", "input": "OBSERVATIONS", "layers": ["flatten", 64, 64], "activations": "tanh"}]
    shared = [{"name": "net", "input": "STATES", "layers": [64, 64], "activations": "tanh"}]
    settings = {
        "seed": 0,
        "models": {
            "separate": True,
            "policy": {
                "class": "CategoricalMixin",
                "unnormalized_log_prob": True,
                "network": policy,
                "output": "ACTIONS",
            },
            "value": {
                "class": "DeterministicMixin",
                "network": shared if algorithm == "MAPPO" else policy,
                "output": "ONE",
            },
        },
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {
            "class": algorithm,
            "rollouts": 50,
            "learning_epochs": 4,
            "mini_batches": 4,
            "learning_rate": 2e-3,
            "entropy_loss_scale": 0.01,
            "learning_rate_scheduler_kwargs": {name: {} for name in env.possible_agents},  # skrl 2.1 needs it
            "experiment": {"directory": "runs/skrl", "write_interval": 0, "checkpoint_interval": 0},
        },
        "trainer": {"class": "SequentialTrainer", "timesteps": 200, "close_environment_at_exit": False},
    }
    runner = Runner(env, settings)
    returns = []
    for _ in range(runs):
        runner.run("train")
        returns.append(episodes.totals()[0])
    return returns


returns = {algorithm: trained(algorithm, runs=5) for algorithm in ("IPPO", "MAPPO")}
print(returns)
