"""Mean return of a policy, one episode in each world."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from torch_batchsim import StepTimeout, SystemCrash, WorldFault
from torch_batchsim.base.modes import in_training_modes

from ..policies.encoders import Observation
from ..policies.networks import ActorCritic
from .acting import Acting, Agents, acting
from .environment import check_faults, num_agents
from .finite import FiniteCheck, NoLegalAction, NotFinite

SEED_OFFSET = 1_000_000
"""Keeps the episodes of an evaluation apart from those of the training."""

MAX_EPISODE_STEPS = 100_000
"""An evaluation gives up where an episode is longer than this."""


Act = Callable[[Observation, Tensor | None, Tensor | None], Tensor]
"""Actions for observations, which choices are legal, and who is active."""


class EndlessEpisode(RuntimeError):
    """Episodes of an evaluation did not end within `MAX_EPISODE_STEPS`."""


UNMEASURED = (EndlessEpisode, NotFinite, NoLegalAction, WorldFault, StepTimeout, SystemCrash)
"""Errors that keep episodes from running to their ends; the trainer causes none of them."""


class Evaluation(NamedTuple):
    """Return and length of one episode of each row, float32 `[N]` each.

    The return is the sum of rewards, or, where `env.metadata["score"]` names an info, that info at the end. Where
    `infos["active"]` is false, rewards and steps do not count: a length of 0 is of a row that took no part.
    """

    returns: Tensor
    lengths: Tensor


@in_training_modes
def evaluate(
    env: VectorEnv,
    agents: Agents,
    seed: int,
    deterministic: bool = True,
    watch: Callable[[Tensor], None] | None = None,
    untrained: Tensor | None = None,
    by_reward: bool = False,
) -> Evaluation:
    """Runs the first episode of every row to its end, with the actions of a policy, or of one for each team.

    A deterministic policy takes its likeliest action, or the mean of a Gaussian; otherwise actions are drawn.
    Rows that are `untrained`, bool `[N]`, act as before a training: all choices are as likely, and numbers are
    standard normal. `watch`, `by_reward` and errors: see `run_episodes`.
    """
    policy = (agents if isinstance(agents, ActorCritic) else next(iter(agents.values()))).policy
    generator = torch.Generator(env.device).manual_seed(seed % 2**64)  # the reset refuses larger ones
    actions, drawn = policy.empty_actions(env.num_envs), policy.empty_actions(env.num_envs)
    everyone: list[Acting] = []

    def act(obs: Observation, mask: Tensor | None, active: Tensor | None) -> Tensor:
        everyone.extend([] if everyone else acting(agents, env.num_envs, getattr(env, "team", None)))
        for each in everyone:
            outputs = each.outputs(obs, active)
            if deterministic:
                each.mode(outputs, actions, mask)
            else:
                each.sample(outputs, policy.noise((len(outputs),), generator), actions, mask)
        if untrained is not None:
            noise = policy.noise((env.num_envs,), generator)
            policy.sample(torch.zeros(env.num_envs, policy.num_outputs, device=env.device), noise, drawn, mask)
            actions[untrained] = drawn[untrained]
        return policy.to_env(actions)

    return run_episodes(env, act, seed, watch, by_reward)


@torch.no_grad()
def run_episodes(
    env: VectorEnv,
    act: Act,
    seed: int,
    watch: Callable[[Tensor], None] | None = None,
    by_reward: bool = False,
) -> Evaluation:
    """Runs the first episode of every row to its end, with the actions that `act` returns.

    Every episode that starts is counted. (The first N episodes to *end* would be the short ones.) `watch` is called
    after the reset and after every step, with the rows, bool `[N]`, whose first episode had not ended before that.
    Returns are sums of rewards `by_reward`, even where the environment names a score. Raises EndlessEpisode rather than
    run for ever, NotFinite where an observation to act on is NaN or infinite, and NoLegalAction where a mask allows
    nothing: on the CPU before that action, elsewhere at the end.
    """
    obs, infos = env.reset(seed=seed)
    finite = FiniteCheck(env, num_agents(env))
    stands = env.metadata.get("autoreset_mode") == AutoresetMode.DISABLED  # ended worlds, with their last observation
    running = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    score = None if by_reward else env.metadata.get("score")
    returns = torch.zeros(env.num_envs, device=env.device)
    lengths = torch.zeros(env.num_envs, device=env.device)
    if watch:
        watch(running)
    for step in range(MAX_EPISODE_STEPS):
        active = infos.get("active")
        acts = active if not stands else running if active is None else running & active
        finite.look_at_step(step, obs, infos.get("action_mask"), acts)
        if env.device.type == "cpu":  # where looking does not wait
            finite.raise_found()
        actions = act(obs, infos.get("action_mask"), active)
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
    finite.raise_found()
    if running.any():
        count = int(running.sum())
        raise EndlessEpisode(f"{count:,} of {len(running):,} episodes did not end within {MAX_EPISODE_STEPS:,} steps")
    return Evaluation(returns, lengths)
