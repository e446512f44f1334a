"""A plain PPO in torch on Gymnasium's own vector CartPole, in the manner of CleanRL: ``trainers.py`` measures it beside
ours."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch_batchsim.train import Config


def network(outputs: int, config: Config, gain: float) -> nn.Sequential:
    """Hidden layers of tanh units, with orthogonal weights."""
    layers: list[nn.Module] = []
    size = 4
    for width in config.hidden_sizes:
        layers += [linear(size, width, 2**0.5), nn.Tanh()]
        size = width
    return nn.Sequential(*layers, linear(size, outputs, gain))


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights and no bias at first."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class PlainPPO:
    """``iterate`` is one rollout and its updates."""

    def __init__(self, config: Config) -> None:
        torch.manual_seed(0)
        self.config = config
        self.env = gymnasium.make_vec("CartPole-v1", config.num_envs, vectorization_mode="vector_entry_point")
        self.actor, self.critic = network(2, config, 0.01), network(1, config, 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=config.learning_rate, eps=1e-5)
        self.obs = torch.zeros(config.num_steps, config.num_envs, 4)
        shape = config.num_steps, config.num_envs
        self.actions, self.log_probs, self.rewards, self.dones, self.values = (torch.zeros(shape) for _ in range(5))
        self.next_obs = torch.as_tensor(self.env.reset(seed=0)[0])
        self.next_done = torch.zeros(config.num_envs)

    def iterate(self) -> None:
        """Rolls out, and updates."""
        self.rollout()
        advantages = self.advantages()
        parts = self.actions, self.log_probs, advantages, advantages + self.values
        batch = [self.obs.flatten(0, 1), *(part.flatten() for part in parts)]
        for _ in range(self.config.update_epochs):
            for chosen in torch.randperm(len(batch[0])).chunk(self.config.num_minibatches):
                self.update(*(part[chosen] for part in batch))

    def act(self, seen: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions, drawn if none are given, their log-probabilities, entropies and values."""
        chances = torch.distributions.Categorical(logits=self.actor(seen))
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.critic(seen).flatten()

    @torch.no_grad()
    def rollout(self) -> None:
        """Acts for some steps."""
        for t in range(self.config.num_steps):
            self.obs[t], self.dones[t] = self.next_obs, self.next_done
            action, self.log_probs[t], _, self.values[t] = self.act(self.next_obs)
            self.actions[t] = action
            seen, reward, terminated, truncated, _ = self.env.step(action.numpy())
            self.rewards[t] = torch.as_tensor(np.asarray(reward))
            self.next_obs, self.next_done = torch.as_tensor(seen), torch.as_tensor(terminated | truncated).float()

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """Generalised advantage estimates, ``[T, N]``."""
        config, found = self.config, torch.zeros_like(self.rewards)
        last, following, ended = torch.zeros(config.num_envs), self.critic(self.next_obs).flatten(), self.next_done
        for t in reversed(range(config.num_steps)):
            delta = self.rewards[t] + config.gamma * following * (1 - ended) - self.values[t]
            last = delta + config.gamma * config.gae_lambda * (1 - ended) * last
            found[t], following, ended = last, self.values[t], self.dones[t]
        return found

    def update(self, seen: Tensor, action: Tensor, before: Tensor, advantage: Tensor, wanted: Tensor) -> None:
        """One step of the optimiser."""
        config = self.config
        _, log_prob, entropy, value = self.act(seen, action)
        ratio = (log_prob - before).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
        policy_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
        value_loss = 0.5 * (value - wanted).square().mean()
        loss = policy_loss - config.ent_coef * entropy.mean() + config.vf_coef * value_loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, config.max_grad_norm)
        self.optimizer.step()
