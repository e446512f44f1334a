"""PPO for discrete actions in one file, to be read from top to bottom and copied, in the manner of CleanRL.

    python examples/ppo_discrete.py --env-id torch_batchsim/CartPole-v0 --seed 1

It needs torch, gymnasium and tyro. The simulator writes observations, rewards and ends of episodes into the tensors of
the rollout, so there is no line that stores them. T is the number of steps of a rollout, N that of environments.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import gymnasium
import torch
import tyro
from torch import Tensor, nn
from torch.distributions import Categorical

import torch_batchsim


@dataclass
class Args:
    env_id: str = "torch_batchsim/CartPole-v0"
    """An environment with a Box of floats to see, and one Discrete choice."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    device: str = "cpu"
    """Where all of it happens: cpu or cuda."""
    total_steps: int = 150_000
    """Steps of all environments together."""
    num_envs: int = 128
    """Environments that are stepped side by side."""
    num_steps: int = 32
    """Steps of each environment in a rollout."""
    learning_rate: float = 3e-3
    """Adam's step size at first; it falls to 0 in a straight line."""
    gamma: float = 0.98
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate."""
    num_minibatches: int = 8
    """Equal parts that a rollout is cut into, of at least 2 samples."""
    update_epochs: int = 4
    """Passes over a rollout."""
    clip_coef: float = 0.2
    """How far the ratio of probabilities may go from 1 before it is clipped."""
    ent_coef: float = 0.01
    """Weight of the entropy."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longer gradients are scaled to this length."""


def layer(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, inputs: int, choices: int, width: int = 64) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            layer(inputs, width), nn.Tanh(), layer(width, width), nn.Tanh(), layer(width, choices, 0.01)
        )
        self.critic = nn.Sequential(
            layer(inputs, width), nn.Tanh(), layer(width, width), nn.Tanh(), layer(width, 1, 1.0)
        )

    def policy(self, observations: Tensor) -> Categorical:
        return Categorical(logits=self.actor(observations), validate_args=False)

    def value(self, observations: Tensor) -> Tensor:
        return self.critic(observations).squeeze(-1)


if __name__ == "__main__":
    args = tyro.cli(Args)
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    T, N = args.num_steps, args.num_envs
    if not 0 < args.num_minibatches <= T * N // 2 or T * N % args.num_minibatches:  # one sample has no deviation
        raise SystemExit(
            f"--num-minibatches must cut the {T * N} samples of a rollout (--num-steps {T} x --num-envs {N}) into "
            f"equal parts of at least 2, got {args.num_minibatches}"
        )

    env = gymnasium.make_vec(args.env_id, num_envs=N, device=args.device)
    env = torch_batchsim.EpisodeStatistics(env)  # counts returns and lengths on the device
    size, choices = env.single_observation_space.shape, int(env.single_action_space.n)
    agent = Agent(size[0], choices).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    # The rollout. Step t goes from observations[t] to observations[t + 1], or, where it ends an episode, to
    # final_observations[t], whose other rows hold anything; observations[t + 1] is then the first of the next episode.
    observations = torch.zeros(T + 1, N, *size, device=device)
    final_observations = torch.zeros(T, N, *size, device=device)
    actions = torch.zeros(T, N, dtype=torch.int64, device=device)
    rewards = torch.zeros(T, N, device=device)
    terminations = torch.zeros(T, N, dtype=torch.bool, device=device)
    truncations = torch.zeros(T, N, dtype=torch.bool, device=device)

    observations[T], _ = env.reset(seed=args.seed)
    env.bind_slots(  # from here on a step with slot t selected writes these at index t
        observations=observations[1:],
        final_obs=final_observations,
        rewards=rewards,
        terminations=terminations,
        truncations=truncations,
    )

    num_updates = max(1, args.total_steps // (T * N))
    started = time.time()
    for update in range(num_updates):
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (1 - update / num_updates)

        with torch.no_grad():
            observations[0] = observations[T]
            for t in range(T):
                actions[t] = agent.policy(observations[t]).sample()
                env.select_slot(t)
                env.step(actions[t])

            # What was seen before each step, as one batch: networks like one large batch better than many small ones.
            seen, chosen = observations[:T].flatten(0, 1), actions.flatten()
            old_log_probs = agent.policy(seen).log_prob(chosen)
            values = agent.value(observations)  # [T + 1, N]

            # A terminated episode has no future. One that was cut off has, and the value of its last observation
            # stands for it.
            next_values = torch.where(truncations, agent.value(final_observations), values[1:])
            deltas = rewards + args.gamma * torch.where(terminations, 0, next_values) - values[:T]
            goes_on = ~(terminations | truncations)
            advantages, advantage = torch.zeros_like(rewards), torch.zeros(N, device=device)
            for t in reversed(range(T)):
                advantage = deltas[t] + args.gamma * args.gae_lambda * goes_on[t] * advantage
                advantages[t] = advantage
            returns = (advantages + values[:T]).flatten()
            advantages = advantages.flatten()

        for _ in range(args.update_epochs):
            for batch in torch.randperm(T * N, device=device).chunk(args.num_minibatches):
                policy, value = agent.policy(seen[batch]), agent.value(seen[batch])
                ratio = (policy.log_prob(chosen[batch]) - old_log_probs[batch]).exp()
                advantage = advantages[batch]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = 0.5 * (value - returns[batch]).square().mean()
                entropy = policy.entropy().mean()

                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        if (update + 1) % 4 == 0 or update + 1 == num_updates:
            mean_return, _, episodes = env.totals()  # since it was asked last; waits for the device
            steps = (update + 1) * T * N
            rate = steps / (time.time() - started)
            print(f"{steps:>9} steps  {rate:>9.0f} steps/s  {episodes:>5} episodes  return {mean_return:.1f}")

    env.close()
