"""PPO with masks for actions that are not legal, in one file, in the manner of CleanRL: Hanabi, from a small deck on.

    python examples/ppo_masked.py --preset Hanabi-Very-Small --seed 1

It needs torch, gymnasium and tyro. It is ppo_discrete.py with a mask beside each observation: logits of what is not
legal are the least there are, when an action is drawn and again in the updates. One policy plays all seats. T is the
number of steps of a rollout, N that of environments.
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
    preset: str = "Hanabi-Very-Small"
    """Deck and tokens: Hanabi-Full, Hanabi-Small or Hanabi-Very-Small."""
    players: int = 2
    """At the table."""
    mercy_until: float = 0.7
    """The part of the training after which a team whose last life is lost keeps nothing, as the rules say. It keeps its
    points until 0.3, or nobody ever dares to play a card."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    device: str = "cpu"
    """Where all of it happens: cpu or cuda."""
    total_steps: int = 1_000_000
    """Steps of all environments together."""
    num_envs: int = 256
    """Environments that are stepped side by side."""
    num_steps: int = 32
    """Steps of each environment in a rollout."""
    learning_rate: float = 3e-3
    """Adam's step size at first; it falls to 0 in a straight line."""
    gamma: float = 1.0
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate."""
    num_minibatches: int = 8
    """Equal parts that a rollout is cut into, of at least 2 samples."""
    update_epochs: int = 4
    """Passes over a rollout."""
    clip_coef: float = 0.2
    """How far the ratio of probabilities may go from 1 before it is clipped."""
    ent_coef: float = 0.05
    """Weight of the entropy at first; it falls to a tenth of this in a straight line."""
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
    def __init__(self, inputs: int, choices: int, width: int = 128) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            layer(inputs, width), nn.ReLU(), layer(width, width), nn.ReLU(), layer(width, choices, 0.01)
        )
        self.critic = nn.Sequential(
            layer(inputs, width), nn.ReLU(), layer(width, width), nn.ReLU(), layer(width, 1, 1.0)
        )

    def policy(self, observations: Tensor, legal: Tensor) -> Categorical:
        logits = self.actor(observations.float())  # bits come as bytes, and are stored so
        least = torch.finfo(logits.dtype).min  # finite, or the entropy would be 0 times infinity
        return Categorical(logits=logits.masked_fill(~legal, least), validate_args=False)

    def value(self, observations: Tensor) -> Tensor:
        return self.critic(observations.float()).squeeze(-1)


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

    env = gymnasium.make_vec(
        "torch_batchsim/Hanabi-v0", num_envs=N, device=args.device, preset=args.preset, players=args.players
    )
    env = torch_batchsim.EpisodeStatistics(env)  # counts returns and lengths on the device
    mercy = env.sim.tensor("Mercy.factor")  # the part of its points that a team without lives keeps; may be written
    size, choices = env.single_observation_space.shape, int(env.single_action_space.n)
    agent = Agent(size[0], choices).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    # The rollout. Step t goes from observations[t] to observations[t + 1], or, where it ends an episode, to
    # final_observations[t], whose other rows hold anything; observations[t + 1] is then the first of the next episode.
    observations = torch.zeros(T + 1, N, *size, dtype=torch.uint8, device=device)
    final_observations = torch.zeros(T, N, *size, dtype=torch.uint8, device=device)
    legal = torch.zeros(T + 1, N, choices, dtype=torch.bool, device=device)  # beside the observations
    actions = torch.zeros(T, N, dtype=torch.int64, device=device)
    rewards = torch.zeros(T, N, device=device)
    terminations = torch.zeros(T, N, dtype=torch.bool, device=device)
    truncations = torch.zeros(T, N, dtype=torch.bool, device=device)

    observations[T], infos = env.reset(seed=args.seed)
    legal[T] = infos["action_mask"]
    env.bind_slots(  # from here on a step with slot t selected writes these at index t
        observations=observations[1:],
        action_mask=legal[1:],
        final_obs=final_observations,
        rewards=rewards,
        terminations=terminations,
        truncations=truncations,
    )

    num_updates = max(1, args.total_steps // (T * N))
    started = time.time()
    for update in range(num_updates):
        done = update / num_updates
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (1 - done)
        ent_coef = args.ent_coef * (1 - 0.9 * done)
        mercy.fill_(min(1.0, max(0.0, (args.mercy_until - done) / (args.mercy_until - 0.3))))

        with torch.no_grad():
            observations[0], legal[0] = observations[T], legal[T]
            for t in range(T):
                actions[t] = agent.policy(observations[t], legal[t]).sample()
                env.select_slot(t)
                env.step(actions[t])

            # What was seen before each step, as one batch: networks like one large batch better than many small ones.
            seen, allowed, chosen = observations[:T].flatten(0, 1), legal[:T].flatten(0, 1), actions.flatten()
            old_log_probs = agent.policy(seen, allowed).log_prob(chosen)
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
                policy, value = agent.policy(seen[batch], allowed[batch]), agent.value(seen[batch])
                ratio = (policy.log_prob(chosen[batch]) - old_log_probs[batch]).exp()
                advantage = advantages[batch]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = 0.5 * (value - returns[batch]).square().mean()
                entropy = policy.entropy().mean()

                loss = policy_loss + args.vf_coef * value_loss - ent_coef * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        if (update + 1) % 10 == 0 or update + 1 == num_updates:
            mean_return, _, episodes = env.totals()  # since it was asked last; waits for the device
            steps = (update + 1) * T * N
            rate = steps / (time.time() - started)
            print(f"{steps:>9} steps  {rate:>9.0f} steps/s  {episodes:>5} episodes  return {mean_return:.1f}")

    env.close()
