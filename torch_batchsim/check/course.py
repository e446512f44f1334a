"""Checks of whole episodes: they end, rewards and observations change, and actions matter."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete

from ..declare.spaces import bounds
from ..vector.vector_env import TorchVectorEnv
from .outcomes import Failed, Skipped, Warned
from .plays import named
from .policies import Policy
from .subject import Subject

_TWIN_STEPS = 40
_MOST_PARTS = 16  # of an action, each of which is varied by itself
_MOST_NAMED = 8  # elements in a sentence


def episodes(subject: Subject) -> str:
    play = subject.play
    count = len(play.lengths)
    if not count:
        return _limit(subject)
    if max(play.lengths) == 1:
        raise Failed(
            f"each of {count} episodes ended in its first step",
            "look at the system that sets episode.terminated: is it true from the start?",
        )
    never = int((~play.ended).sum())
    lengths = f"{min(play.lengths)} to {max(play.lengths)} steps, {play.mean_length:.3g} on average"
    if never and "max_episode_steps" not in subject.environment.parameters:
        raise Warned(
            f"{never} of {len(play.ended)} worlds ended no episode in {play.steps} steps, others did after {lengths}",
            "give episodes a limit: episode.truncated = episode.step >= u32(world.parameters.max_episode_steps)",
        )
    return f"{count} ended, after {lengths}; {play.terminated} of them were terminated"


def _limit(subject: Subject) -> str:
    """The sentence where no episode has ended by itself: with ``max_episode_steps`` they must end at this limit."""
    limit = subject.environment.parameters.get("max_episode_steps")
    steps = subject.play.steps
    if limit is None:
        raise Failed(
            f"no episode ended in {steps} steps of {subject.worlds} worlds",
            "set episode.terminated, or episode.truncated at a limit of steps; where episodes are longer: --steps more",
        )
    env = subject.make(checked=True)
    env.reset(seed=subject.seed)
    env.episode_steps = torch.full((env.num_envs,), max(0, int(limit) - 2), dtype=torch.int32)
    policy = Policy(env, env.num_worlds, seed=subject.seed)
    ended = torch.zeros(env.num_worlds, dtype=torch.bool)
    for _ in range(3):
        env.step(policy(env))
        ended |= env.ended_worlds()
    if not bool(ended.all()):
        raise Failed(
            f"{int((~ended).sum())} of {len(ended)} episodes went on after max_episode_steps = {limit} steps",
            "a system of step sets episode.truncated = episode.step >= u32(world.parameters.max_episode_steps)",
        )
    return f"none ended by itself in {steps} steps; all end at max_episode_steps = {limit}"


def rewards(subject: Subject) -> str:
    play = subject.play
    least, greatest = play.rewards
    if least > greatest:
        raise Skipped("no reward was finite")
    if least == greatest == 0:
        raise Warned(
            f"the reward was 0 in all {play.steps} steps of {play.rows} rows",
            "random actions may never earn one (then a shaped reward helps); else look at the writer of Reward",
        )
    constant_returns = not play.lengths or play.returns[0] == play.returns[1]
    if least == greatest and constant_returns:
        raise Warned(
            f"the reward was {least:g} in every step, and no episode's return differs",
            "a policy learns nothing from a constant, unless episodes differ in length",
        )
    returns = f"; returns {play.returns[0]:g} to {play.returns[1]:g}" if play.lengths else ""
    return f"rewards {least:g} to {greatest:g}{returns}"


def observations(subject: Subject) -> str:
    if subject.play.lengths and max(subject.play.lengths) == 1:
        raise Skipped("each episode has one step")
    constant, notes = [], []
    for name, seen in subject.play.observations.items():
        if seen.moved is None:
            continue
        still = ~seen.moved.reshape(-1)
        if bool(still.all()):
            constant.append(name)
        elif bool(still.any()):
            shown = still.nonzero().flatten().tolist()
            more = ", ..." if len(shown) > _MOST_NAMED else ""
            elements = ", ".join(_element(subject, name, i) for i in shown[:_MOST_NAMED])
            notes.append(f"{len(shown)} of {still.numel()} elements of {name} never did: {elements}{more}")
    if constant:
        kind = Failed if len(constant) == len(subject.play.observations) else Warned
        raise kind(
            f"{' and '.join(constant)} never changed within an episode in {subject.play.steps} steps",
            "is the system that writes it in 'observe' (or in 'step'), and do the columns that it reads change?",
        )
    return "observations change within episodes" + (f" ({'; '.join(notes)})" if notes else "")


def _element(subject: Subject, name: str, i: int) -> str:
    """An element of an observation: its number, and its field where there are several."""
    known = subject.program.observations
    column = next(iter(known.values())) if name == "observation" else known.get(name.removeprefix("observation."))
    fields = () if column is None else column.component.fields
    place = i
    for field in fields:
        count = math.prod(field.type.tensor_shape)
        if place < count:
            return str(i) if len(fields) == 1 else f"{i} ({field.name}{f'[{place}]' if count > 1 else ''})"
        place -= count
    return str(i)


def actions(subject: Subject) -> str:
    """From one state, other actions lead to other results."""
    env = subject.make(checked=True)
    env.reset(seed=subject.seed)
    start = env.state_dict()
    policy = Policy(env, env.num_worlds, seed=subject.seed)
    expected = _outcome(env, policy, start)
    other = Policy(env, env.num_worlds, seed=subject.seed + 1)
    if _outcome(env, other, start) == expected:
        raise Warned(
            f"other actions changed no observation, reward or end in {_TWIN_STEPS} steps",
            "does a system read the action's component, and is it in 'step'?",
        )
    dead = _dead_parts(env, policy, start, expected)
    if dead:
        raise Warned(
            f"part {', '.join(map(str, dead))} of the action changed no observation, reward or end in {_TWIN_STEPS} "
            "steps",
            "does a system read it? Random play may never reach the states in which it matters",
        )
    return "other actions lead to other observations, rewards or ends"


def _dead_parts(env: TorchVectorEnv, policy: Policy, start: dict, expected: list[bytes]) -> list[int]:
    """Parts of an action that make no difference by themselves; empty where masks bind the parts together."""
    space = env.single_action_space
    width = int(np.prod(space.shape)) if isinstance(space, (Box, MultiDiscrete)) else 1
    if not 1 < width <= _MOST_PARTS or env.action_mask is not None:
        return []
    low, high = (np.broadcast_to(end, space.shape).reshape(-1) for end in bounds(space))
    dead = []
    for part in range(width):
        found = []
        for end in (low[part], high[part]):
            value = float(np.clip(end, -1e3, 1e3))
            found.append(_outcome(env, policy, start, (part, value)))
        if all(outcome == found[0] for outcome in found):
            dead.append(part)
    return dead


def _outcome(
    env: TorchVectorEnv, policy: Policy, start: dict, fixed: tuple[int, float] | None = None
) -> list[bytes]:
    """The results of steps from a state on; ``fixed``: an element of all actions, and its value."""
    env.load_state_dict(start)
    shown = []
    for _ in range(_TWIN_STEPS):
        actions = policy(env)
        if fixed is not None:
            actions = actions.clone()
            actions.view(len(actions), -1)[:, fixed[0]] = fixed[1]
        observations, *outcome, _ = env.step(actions)
        parts = [*named("observation", observations).values(), *outcome]
        shown.append(b"".join(part.numpy().tobytes() for part in parts))
    return shown
