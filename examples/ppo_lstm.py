"""PPO with an LSTM in one file, in the manner of CleanRL: CartPole that does not show velocities.

    python examples/ppo_lstm.py --seed 1
    python examples/ppo_lstm.py --seed 1 --no-memory  # for comparison: the LSTM forgets everything after each step

It needs torch, gymnasium and tyro. As in ppo_discrete.py the simulator writes into the tensors of the rollout. The LSTM
begins each episode with zeros; an update runs it again over whole rollouts, of some environments at a time. T is the
number of steps of a rollout, N that of environments, M that of a minibatch.
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
    shown: tuple[int, ...] = (0, 2)
    """Which numbers of an observation the agent sees: of CartPole place and angle, without velocities."""
    memory: bool = True
    """Whether the LSTM remembers the step before."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    device: str = "cpu"
    """Where all of it happens: cpu or cuda."""
    total_steps: int = 500_000
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
    """Equal parts that the environments of a rollout are cut into."""
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


State = tuple[Tensor, Tensor]  # of the LSTM: hidden and cell, [rows, width] each


class Agent(nn.Module):
    """``shown`` are the numbers of an observation that it sees, divided by ``scale``."""

    def __init__(self, shown: Tensor, scale: Tensor, choices: int, width: int = 64) -> None:
        super().__init__()
        self.shown, self.scale, self.width = shown, scale, width
        self.encoder = nn.Sequential(layer(len(shown), width), nn.Tanh())
        self.lstm = nn.LSTMCell(width, width)  # (encoded observations, state before) -> state
        for name, parameter in self.lstm.named_parameters():
            nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter)
        self.actor = nn.Sequential(layer(width, width), nn.Tanh(), layer(width, choices, 0.01))
        self.critic = nn.Sequential(layer(width, width), nn.Tanh(), layer(width, 1, 1.0))

    def encoded(self, observations: Tensor) -> Tensor:
        return self.encoder(observations.index_select(-1, self.shown) / self.scale)

    def policy(self, hidden: Tensor) -> Categorical:
        return Categorical(logits=self.actor(hidden), validate_args=False)

    def value(self, hidden: Tensor) -> Tensor:
        return self.critic(hidden).squeeze(-1)


def kept(state: State, rows: Tensor) -> State:
    """The state with zeros in all rows but these, a bool tensor ``[rows]``."""
    return state[0] * rows[:, None], state[1] * rows[:, None]


if __name__ == "__main__":
    args = tyro.cli(Args)
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    T, N = args.num_steps, args.num_envs
    if not 0 < args.num_minibatches <= T * N // 2 or N % args.num_minibatches:  # one sample has no deviation
        raise SystemExit(
            f"--num-minibatches must cut the {N} environments (--num-envs) into equal parts of at least 2 "
            f"samples (--num-steps {T}), got {args.num_minibatches}"
        )

    env = gymnasium.make_vec(args.env_id, num_envs=N, device=args.device)
    env = torch_batchsim.EpisodeStatistics(env)  # counts returns and lengths on the device
    shown = torch.tensor(args.shown, device=device)
    high = torch.as_tensor(env.single_observation_space.high, device=device)  # of CartPole twice where it ends
    agent = Agent(shown, high[shown] / 2, int(env.single_action_space.n)).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    # The rollout. Step t goes from observations[t] to observations[t + 1], or, where it ends an episode, to
    # final_observations[t], whose other rows hold anything; observations[t + 1] is then the first of the next episode.
    observations = torch.zeros(T + 1, N, 4, device=device)
    final_observations = torch.zeros(T, N, 4, device=device)
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

    state = (torch.zeros(N, agent.width, device=device), torch.zeros(N, agent.width, device=device))
    num_updates = max(1, args.total_steps // (T * N))
    started = time.time()
    for update in range(num_updates):
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (1 - update / num_updates)

        with torch.no_grad():
            observations[0] = observations[T]
            first_state, states = state, []
            goes_on = torch.zeros(T, N, dtype=torch.bool, device=device)
            for t in range(T):
                state = agent.lstm(agent.encoded(observations[t]), state)
                states.append(state)
                actions[t] = agent.policy(state[0]).sample()
                env.select_slot(t)
                env.step(actions[t])
                goes_on[t] = ~(terminations[t] | truncations[t])
                state = kept(state, goes_on[t] & args.memory)
            states.append(agent.lstm(agent.encoded(observations[T]), state))

            # All at once: what was thought of each observation, and of last ones of episodes after those before them.
            hidden, cells = (torch.stack(parts) for parts in zip(*states, strict=True))  # [T + 1, N, width]
            old_log_probs, values = agent.policy(hidden[:T]).log_prob(actions), agent.value(hidden)
            before_last = tuple(part[:T].flatten(0, 1) * args.memory for part in (hidden, cells))
            last, _ = agent.lstm(agent.encoded(final_observations).flatten(0, 1), before_last)
            final_values = agent.value(last).view(T, N)

            # A terminated episode has no future. One that was cut off has, and the value of its last observation
            # stands for it.
            next_values = torch.where(truncations, final_values, values[1:])
            deltas = rewards + args.gamma * torch.where(terminations, 0, next_values) - values[:T]
            advantages, advantage = torch.zeros_like(rewards), torch.zeros(N, device=device)
            for t in reversed(range(T)):
                advantage = deltas[t] + args.gamma * args.gae_lambda * goes_on[t] * advantage
                advantages[t] = advantage
            returns = advantages + values[:T]

        for _ in range(args.update_epochs):
            for rows in torch.randperm(N, device=device).chunk(args.num_minibatches):  # environments, with all steps
                encoded = agent.encoded(observations[:T, rows])  # [T, M, width]
                now = first_state[0][rows], first_state[1][rows]
                thoughts = []
                for t in range(T):
                    now = agent.lstm(encoded[t], now)
                    thoughts.append(now[0])
                    now = kept(now, goes_on[t, rows] & args.memory)
                thoughts = torch.stack(thoughts)

                policy, value = agent.policy(thoughts), agent.value(thoughts)
                ratio = (policy.log_prob(actions[:, rows]) - old_log_probs[:, rows]).exp()
                advantage = advantages[:, rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = 0.5 * (value - returns[:, rows]).square().mean()
                entropy = policy.entropy().mean()

                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy
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
