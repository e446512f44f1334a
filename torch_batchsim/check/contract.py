"""Checks of single steps: spaces, dtypes, bounds, numbers, masks, faults, rejected actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

from ..declare.spaces import bounds
from ..errors import WorldFault
from ..run.snapshots import assert_same_bits, snapshot
from .outcomes import Failed, Skipped, Warned
from .plays import named, parts_of
from .policies import Policy
from .subject import Subject


def build(subject: Subject) -> str:
    env = subject.make(1, checked=True)
    env.close()
    return f"{subject.environment.name} is declared without contradiction and compiles"


def spaces(subject: Subject) -> str:
    """Reset and step return arrays of the shapes and dtypes that the spaces promise."""
    env = subject.make(output="numpy", checked=True)
    declared = parts_of(env.single_observation_space)
    observations, _ = env.reset(seed=subject.seed)
    for _ in range(3):
        for name, space in declared.items():
            tensor = named("observation", observations)[name]
            expected = (env.num_envs, *space.shape)
            if tuple(tensor.shape) != expected or tensor.numpy().dtype != space.dtype:
                raise Failed(
                    f"{name} is {tensor.dtype} of shape {list(tensor.shape)}, its space has {space.dtype} and shape "
                    f"{list(expected)}",
                    "let the component of the observation and observation_space have one shape and dtype",
                )
        actions = env.action_space.sample()
        if env.action_mask is not None:
            actions = _legal(env)
        observations, rewards, terminations, truncations, _ = env.step(actions)
        for name, array, dtype in (
            ("reward", rewards, np.float32),
            ("termination", terminations, np.bool_),
            ("truncation", truncations, np.bool_),
        ):
            if array.shape != (env.num_envs,) or array.dtype != dtype:
                raise Failed(f"{name} is {array.dtype} of shape {list(array.shape)}, not {np.dtype(dtype)} [rows]")
    observations, actions = (" ".join(str(s).split()) for s in (env.single_observation_space, env.single_action_space))
    return f"observations are {observations}, actions {actions}"  # NumPy breaks and pads the lines of bounds


def _legal(env: Any) -> torch.Tensor:
    return Policy(env, env.num_worlds)(env)


def faults(subject: Subject) -> str:
    if subject.play.faults:
        raise Failed(
            "a system reported a fault: " + "; ".join(subject.play.faults),
            "repair the system that the message names; a fault stops a world's training",
        )
    return f"{subject.play.steps} steps of {subject.play.rows} rows, random and extreme actions, without a fault"


def bounds_of_observations(subject: Subject) -> str:
    if subject.play.out_of_bounds:
        raise Failed(
            "; ".join(subject.play.out_of_bounds.values()),
            "widen observation_space, or scale or clamp the value in the system that writes it",
        )
    return "all observations, final ones included, lie within observation_space"


def finite(subject: Subject) -> str:
    found = subject.play.not_finite
    wrong = [says for name, says in found.items() if not name.startswith("info.")]
    remedy = "look for a division by 0, the root or logarithm of a negative number, and values that grow without limit"
    if wrong:
        raise Failed("; ".join(wrong), remedy)
    if found:
        raise Warned("; ".join(found.values()), remedy)
    return "no NaN and no infinity in observations, rewards and infos"


def masks(subject: Subject) -> str:
    if subject.play.no_legal:
        raise Failed(
            subject.play.no_legal,
            "allow at least one choice in each part of every row: of rows that are not active and after the end too",
        )
    if not subject.play.masked:
        raise Skipped("the environment has no action_mask")
    return "every row had a legal action in every step"


def refused_actions(subject: Subject) -> str:
    """Actions outside the space change nothing; systems clip those that ``clips_actions`` promises to clip."""
    env = subject.make(min(subject.few_worlds, 4), checked=True)
    env.reset(seed=subject.seed)
    space = env.single_action_space
    legal = _legal(env)
    before = snapshot(env.sim)
    clips = isinstance(space, Box) and subject.environment.clips_actions
    wrong = _outside(space, legal, clips)
    for what, actions in wrong.items():
        try:
            env.step(actions)
        except ValueError:
            pass
        else:
            raise Failed(f"an action of {what} was not rejected")
        try:
            assert_same_bits(before, snapshot(env.sim))
        except AssertionError as error:
            raise Failed(f"an action of {what} was rejected, but has changed {error}") from None
    rejected = f"rejected, with nothing changed: {', '.join(wrong)}"
    if not clips:
        return rejected
    for far in (-1e30, 1e30):
        try:
            observations, *_ = env.step(torch.full_like(legal, far))
        except WorldFault as fault:
            raise Failed(f"an action of {far:g} is a fault: {fault.faults[0]}", _CLIP) from None
        for name, tensor in named("observation", observations).items():
            space = parts_of(env.single_observation_space)[name]
            low, high = (torch.as_tensor(np.asarray(end)) for end in bounds(space))
            if bool(((tensor < low) | (tensor > high) | ~torch.isfinite(tensor)).any()):
                raise Failed(f"after an action of {far:g} {name} is not within its space", _CLIP)
    return f"{rejected}; 1e30 and -1e30 are clipped"


_CLIP = "clips_actions = True promises that systems clip: clamp the action where it is read, or remove the promise"


def _outside(space: Any, legal: torch.Tensor, clips: bool) -> dict[str, torch.Tensor]:
    """Batches with one element outside the space."""
    low, high = (np.asarray(end).reshape(-1)[0] for end in bounds(space))
    if isinstance(space, Box):
        values = {"NaN": np.nan, "infinity": np.inf}
        if not clips and np.isfinite(high):
            values |= {f"{high + 1:g}": high + 1}
        if not clips and np.isfinite(low):
            values |= {f"{low - 1:g}": low - 1}
    else:
        values = {str(high + 1): high + 1, str(low - 1): low - 1}
        legal = legal.long()
    batches = {}
    for what, value in values.items():
        batch = legal.clone()
        batch.view(-1)[0] = float(value)
        batches[what] = batch
    return batches
