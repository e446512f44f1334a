"""MAPPO in Overcooked, as in TorchRL's multi-agent tutorial.

Prints returns of both chefs, shaped rewards included.
"""

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import FlattenObservation, TransformedEnv
from torchrl.modules import MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from torch_batchsim.adapters.torchrl import TorchRLEnv

torch.manual_seed(0)
seen = ("agents", "observation")
env = TorchRLEnv("torch_batchsim/Overcooked-v0", num_worlds=64, horizon=100, obs_dtype="float32", shaping_factor=1)
env = TransformedEnv(env, FlattenObservation(-3, -1, in_keys=[seen]))
env.set_seed(0)


def network(outputs, centralized):
    inputs = env.observation_spec[seen].shape[-1]
    return MultiAgentMLP(inputs, outputs, 2, centralized=centralized, share_params=True, num_cells=[64, 64])


actor = ProbabilisticActor(
    TensorDictModule(network(6, centralized=False), [seen], [("agents", "logits")]),
    [("agents", "logits")],
    [("agents", "action")],
    spec=env.full_action_spec,
    distribution_class=torch.distributions.Categorical,
    return_log_prob=True,
)
critic = TensorDictModule(network(1, centralized=True), [seen], [("agents", "state_value")])
loss = ClipPPOLoss(actor, critic)
names = {"value": "state_value", "sample_log_prob": "action_log_prob"}
keys = ("reward", "action", "done", "terminated", "value", "sample_log_prob")
loss.set_keys(**{key: ("agents", names.get(key, key)) for key in keys})
loss.make_value_estimator(ValueEstimators.GAE, gamma=0.99, lmbda=0.98)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
returns = []  # of both chefs, with shaped rewards
for batch in Collector(env, actor, frames_per_batch=64 * 100, total_frames=64 * 100 * 15):
    returns.append(batch["next", "agents", "reward"].sum((1, 2)).mean().item())
    for flag in ("done", "terminated"):  # are the world's; the loss wants them for each agent
        batch["next", "agents", flag] = batch["next", flag].unsqueeze(-2).expand(64, 100, 2, 1)
    for _ in range(4):
        with torch.no_grad():
            parameters = {"params": loss.critic_network_params, "target_params": loss.target_critic_network_params}
            loss.value_estimator(batch, **parameters)
        rows = batch.reshape(-1)
        for chosen in torch.randperm(len(rows)).split(1600):
            losses = loss(rows[chosen])
            optimizer.zero_grad()
            sum(losses[f"loss_{part}"] for part in ("objective", "critic", "entropy")).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
print(returns)
