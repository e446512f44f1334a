"""PPO of RLlib on Overcooked, with a policy of its own for each agent."""

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations

from torch_batchsim.adapters.rllib import RLlibMultiAgentEnv

config = (
    PPOConfig()
    .environment(RLlibMultiAgentEnv, env_config={"env": "torch_batchsim/Overcooked-v0"})
    .env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=4,
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(multi_agent=True),
    )
    .multi_agent(policies={"agent_0", "agent_1"}, policy_mapping_fn=lambda agent, episode, **kwargs: agent)
    .training(train_batch_size_per_learner=800, minibatch_size=400, num_epochs=1)
)
algorithm = config.build_algo()
for _ in range(2):
    result = algorithm.train()
algorithm.stop()
