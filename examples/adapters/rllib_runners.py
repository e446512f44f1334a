"""PPO of RLlib on CartPole, with two runners as processes of their own, as on a cluster."""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from torch_batchsim.adapters.rllib import RLlibVectorEnv

ray.init(num_cpus=2)  # on a cluster: ray.init(address="auto")
config = (
    PPOConfig()
    .environment(RLlibVectorEnv, env_config={"env": "torch_batchsim/CartPole-v0", "num_threads": 1})
    .env_runners(
        num_env_runners=2,
        num_cpus_per_env_runner=1,
        num_envs_per_env_runner=64,
        gym_env_vectorize_mode="vector_entry_point",
    )
    .learners(num_learners=0)  # 1 or more are workers
    .fault_tolerance(restart_failed_env_runners=True)
    .training(train_batch_size_per_learner=4096, minibatch_size=512, num_epochs=2)
)
algorithm = config.build_algo()
for _ in range(2):
    result = algorithm.train()
algorithm.stop()
