"""Mean return of a policy, one episode in each world."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from .networks import ActorCritic, Observation

MAX_EPISODE_STEPS = 100_000
"""An evaluation gives up where an episode is longer than this."""


class EndlessEpisode(RuntimeError):
    """Episodes of an evaluation did not end within `MAX_EPISODE_STEPS`."""


class Evaluation(NamedTuple):
    """Return and length of one episode of each row, float32 `[N]` each.

    The return is the sum of rewards, or, where `env.metadata["score"]` names an info, that info at the end. Where
    `infos["active"]` is false, rewards and steps do not count: a length of 0 is of a row that took no part.
    """

    returns: Tensor
    lengths: Tensor


def measure(env: VectorEnv) -> str:
    """Which number an episode is judged by: "score", where the environment names one, else "return"."""
    return "score" if env.metadata.get("score") else "return"


def evaluate(
    env: VectorEnv,
    agent: ActorCritic,
    seed: int,
    deterministic: bool = True,
    watch: Callable[[Tensor], None] | None = None,
    untrained: Tensor | None = None,
) -> Evaluation:
    """Runs the first episode of every row to its end, with the actions of a policy.

    A deterministic policy takes its likeliest action, or the mean of a Gaussian; otherwise actions are drawn.
    Rows that are `untrained`, bool `[N]`, act as before a training: all choices are as likely, and numbers are
    standard normal. `watch` and what is raised: see `run_episodes`.
    """
    policy = agent.policy
    generator = torch.Generator(env.device).manual_seed(seed % 2**64)  # the reset refuses what is beyond
    actions, drawn = policy.empty_actions(env.num_envs), policy.empty_actions(env.num_envs)

    def act(obs: Observation, mask: Tensor | None) -> Tensor:
        outputs = agent.outputs(agent.encoder(obs))
        if deterministic:
            policy.mode(outputs, actions, mask)
        else:
            policy.sample(outputs, policy.noise((env.num_envs,), generator), actions, mask)
        if untrained is not None:
            policy.sample(torch.zeros_like(outputs), policy.noise((env.num_envs,), generator), drawn, mask)
            actions[untrained] = drawn[untrained]
        return policy.to_env(actions)

    return run_episodes(env, act, seed, watch)


@torch.no_grad()
def run_episodes(
    env: VectorEnv,
    act: Callable[[Observation, Tensor | None], Tensor],
    seed: int,
    watch: Callable[[Tensor], None] | None = None,
) -> Evaluation:
    """Runs the first episode of every row to its end, with the actions that `act(observations, action_mask)` returns.

    Every episode that starts is counted. (The first N episodes to *end* would be the short ones.) `watch` is called
    after the reset and after every step, with the rows, bool `[N]`, whose first episode had not ended before that.
    Raises EndlessEpisode rather than go on for ever.
    """
    obs, infos = env.reset(seed=seed)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    score = env.metadata.get("score")
    returns = torch.zeros(env.num_envs, device=env.device)
    lengths = torch.zeros(env.num_envs, device=env.device)
    if watch:
        watch(running)
    for _ in range(MAX_EPISODE_STEPS):
        actions = act(obs, infos.get("action_mask"))
        active = infos.get("active")
        counts = running if active is None else running & active  # before the step writes over it
        obs, rewards, terminations, truncations, infos = env.step(actions)
        if watch:
            watch(running)
        ended = terminations | truncations
        counted = infos.get("final_info", infos)[score] if score else returns + rewards
        returns = torch.where(running & ended if score else counts, counted, returns)
        lengths += counts
        running &= ~ended
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
