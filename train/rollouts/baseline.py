"""The mean of the random policy: the line that a learning curve has to leave behind."""

from __future__ import annotations

import time
from typing import TypedDict

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from torch_batchsim import WorldFault

from ..policies.distributions import make_policy
from ..policies.encoders import Observation
from .environment import num_agents
from .evaluation import UNMEASURED, EndlessEpisode, run_episodes

WORLDS = 64
"""Worlds that run side by side, one episode each."""
MOST_ROUNDS = 4
"""How often they do so: 256 episodes are enough for a line in a picture."""
SECONDS = 0.5
"""Another round begins only where those before took less than this."""
MOST_SECONDS = 5.0
"""A round is given up after this."""
SEED_OFFSET = 2_000_000
"""Keeps these episodes apart from those of the training and of the evaluation."""


class Baseline(TypedDict):
    """The result of the random policy; a part of checkpoints."""

    mean: float | None
    """Return or score, mean over the rows that took part; None where it could not be measured."""
    episodes: int
    """Worlds whose first episode was counted, each to its end."""
    error: str | None
    """The reason why the mean is missing."""


def random_policy(env: VectorEnv, seed: int) -> Baseline:
    """The mean over whole episodes in which all legal actions are equally likely; takes seconds at most.

    Choices are drawn from those that are legal. Numbers of a Box are uniform between its bounds, and standard normal
    where it has none. As in an evaluation every episode that starts is counted, so that short ones do not count more.
    Each round has a seed of its own, made of `seed`: the same seed gives the same mean for the same number of rounds.
    """
    policy = make_policy(env.single_action_space, env.device)
    generator = torch.Generator(env.device).manual_seed(seed + SEED_OFFSET)
    actions = policy.empty_actions(env.num_envs)
    total, rows, worlds = 0.0, 0, env.num_envs // num_agents(env)
    start = time.thread_time()  # of this thread: other work on the machine changes nothing
    deadline = start + MOST_SECONDS

    def act(_: Observation, mask: Tensor | None, active: Tensor | None) -> Tensor:
        if time.thread_time() > deadline:
            raise EndlessEpisode(f"episodes did not end within {MOST_SECONDS:g} s")
        policy.uniform(generator, actions, mask)
        return policy.to_env(actions)

    for round_ in range(1, MOST_ROUNDS + 1):
        try:
            returns, lengths = run_episodes(env, act, seed + SEED_OFFSET + round_)
        except UNMEASURED as error:
            reason = error.faults[0] if isinstance(error, WorldFault) else error
            return Baseline(mean=None, episodes=0, error=str(reason))
        part = returns[lengths > 0].double()
        total, rows = total + part.sum().item(), rows + len(part)
        now = time.thread_time()
        if now - start > SECONDS:
            break
        deadline = now + MOST_SECONDS
    if not rows:
        return Baseline(mean=None, episodes=round_ * worlds, error="no agent was active")
    mean = total / rows
    if mean - mean != 0:  # infinity, or not a number
        return Baseline(mean=None, episodes=round_ * worlds, error=f"the mean is {mean}")
    return Baseline(mean=mean, episodes=round_ * worlds, error=None)
