"""Mean return of a policy, one episode in each world."""

from __future__ import annotations

from typing import NamedTuple

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from .networks import ActorCritic


class Evaluation(NamedTuple):
    """Return and length of one episode of each row, float32 `[N]` each."""

    returns: Tensor
    lengths: Tensor


@torch.no_grad()
def evaluate(env: VectorEnv, agent: ActorCritic, seed: int, deterministic: bool = True) -> Evaluation:
    """Runs the first episode of every row to its end.

    Every episode that starts is counted. (The first N episodes to *end* would be the short ones.) A
    deterministic policy takes its likeliest action, or the mean of a Gaussian; otherwise actions are drawn.
    """
    policy, device = agent.policy, env.device
    generator = torch.Generator(device).manual_seed(seed)
    obs, infos = env.reset(seed=seed)
    actions = policy.empty_actions(env.num_envs)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    returns = torch.zeros(env.num_envs, device=device)
    lengths = torch.zeros(env.num_envs, device=device)
    while running.any():
        outputs = agent.outputs(agent.encoder(obs))
        if deterministic:
            policy.mode(outputs, actions, infos.get("action_mask"))
        else:
            noise = policy.noise((env.num_envs,), generator)
            policy.sample(outputs, noise, actions, infos.get("action_mask"))
        obs, rewards, terminations, truncations, infos = env.step(policy.to_env(actions))
        returns += rewards * running
        lengths += running
        running &= ~(terminations | truncations)
    return Evaluation(returns, lengths)
