"""Mean return of a policy, one episode in each world."""

from __future__ import annotations

from typing import NamedTuple

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from .networks import ActorCritic

MAX_EPISODE_STEPS = 100_000
"""An evaluation gives up where an episode is longer than this."""


class EndlessEpisode(RuntimeError):
    """Episodes of an evaluation did not end within `MAX_EPISODE_STEPS`."""


class Evaluation(NamedTuple):
    """Return and length of one episode of each row, float32 `[N]` each."""

    returns: Tensor
    lengths: Tensor


@torch.no_grad()
def evaluate(env: VectorEnv, agent: ActorCritic, seed: int, deterministic: bool = True) -> Evaluation:
    """Runs the first episode of every row to its end.

    Every episode that starts is counted. (The first N episodes to *end* would be the short ones.) A
    deterministic policy takes its likeliest action, or the mean of a Gaussian; otherwise actions are drawn.
    Raises EndlessEpisode rather than go on for ever.
    """
    policy, device = agent.policy, env.device
    obs, infos = env.reset(seed=seed)
    generator = torch.Generator(device).manual_seed(seed)
    actions = policy.empty_actions(env.num_envs)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    returns = torch.zeros(env.num_envs, device=device)
    lengths = torch.zeros(env.num_envs, device=device)
    for _ in range(MAX_EPISODE_STEPS):
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
        if not running.any():
            break
    check_faults(env)
    if running.any():
        count = int(running.sum())
        raise EndlessEpisode(f"{count:,} of {len(running):,} episodes did not end within {MAX_EPISODE_STEPS:,} steps")
    return Evaluation(returns, lengths)


def check_faults(env: VectorEnv) -> None:
    """Raises the faults that on CUDA would be raised by a later step, if the environment knows faults."""
    if hasattr(env, "check_faults"):
        env.check_faults()
