"""The check beside a reference: an object in Python that takes a world's state and steps it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from ..run.world_state import WorldState
from ..vector.vector_env import TorchVectorEnv
from .differences import Difference
from .outcomes import Failed, Skipped
from .plays import named
from .policies import STYLES, Policy
from .subject import Subject

_ATOL = _RTOL = 1e-5
_WORLDS, _STEPS = 4, 250  # of each style of actions


def reference(subject: Subject) -> str:
    if subject.reference is None:
        raise Skipped("no reference was given (--reference module:factory)")
    other = subject.reference()
    for name in ("reset", "step"):
        if not callable(getattr(other, name, None)):
            raise Failed(
                f"the reference {type(other).__name__} has no method {name}", "give it reset(state) and step(action)"
            )
    env = subject.make(min(subject.worlds, _WORLDS), checked=True, autoreset_mode=AutoresetMode.DISABLED)
    steps = 0
    for number, style in enumerate(STYLES):
        env.reset(seed=subject.seed + number)
        policy = Policy(env, env.num_worlds, style, subject.seed + number)
        for _ in range(min(_STEPS, max(1, subject.steps // len(STYLES)))):
            steps += 1
            _step(env, other, policy(env), steps)
            ended = env.ended_worlds()
            if bool(ended.any()):
                env.reset(options={"reset_mask": ended})
    return f"{steps} steps of {env.num_worlds} worlds agree with {type(other).__name__}, each from the same state"


def _step(env: TorchVectorEnv, other: Any, actions: torch.Tensor, step: int) -> None:
    """One step of all worlds beside the reference, which takes each world's state and actions in turn."""
    agents = env.num_agents
    seen = {name: tensor.clone().numpy() for name, tensor in named("observation", env.observations).items()}
    moments = env.sim.tensor("World.step").tolist()
    expected = []
    for world in range(env.num_worlds):
        first = other.reset(WorldState(env.sim, world))
        if first is not None:
            first = first[0] if isinstance(first, tuple) else first
            _compare(env, world, _observed(first), _of_world(seen, world, agents), step - 1, None, seen, moments[world])
        rows = actions[world * agents : (world + 1) * agents].numpy()
        outcome = other.step(rows if agents > 1 else rows[0])
        if not isinstance(outcome, tuple) or len(outcome) not in (4, 5):
            raise Failed(
                f"the reference's step returned {type(outcome).__name__}",
                "return (observation, reward, terminated, truncated), or these and infos",
            )
        state = getattr(other, "state", None)
        state = state() if callable(state) else state
        observation, *rest = outcome[:4]
        values = {**_observed(observation), **dict(zip(("reward", "termination", "truncation"), rest, strict=True))}
        if isinstance(state, Mapping):
            values |= {f"state {name}": value for name, value in state.items()}
        expected.append(values)
    observations, *outcome, _ = env.step(actions)
    found = {name: tensor.numpy() for name, tensor in named("observation", observations).items()}
    found |= {n: t.numpy() for n, t in zip(("reward", "termination", "truncation"), outcome, strict=True)}
    for world, values in enumerate(expected):
        own = _of_world(found, world, agents)
        after = WorldState(env.sim, world)
        own |= {name: after[name.removeprefix("state ")] for name in values if name.startswith("state ")}
        _compare(env, world, values, own, step, actions, seen, moments[world] + 1)


def _observed(observation: Any) -> dict[str, Any]:
    if isinstance(observation, Mapping):
        return {f"observation.{key}": value for key, value in observation.items()}
    return {"observation": observation}


def _of_world(arrays: Mapping[str, np.ndarray], world: int, agents: int) -> dict[str, np.ndarray]:
    rows = slice(world * agents, (world + 1) * agents)
    return {name: array[rows] if agents > 1 else array[rows][0] for name, array in arrays.items()}


def _compare(
    env: TorchVectorEnv,
    world: int,
    expected: Mapping[str, Any],
    found: Mapping[str, np.ndarray],
    step: int,
    actions: torch.Tensor | None,
    seen: Mapping[str, np.ndarray],
    moment: int,
) -> None:
    agents = env.num_agents
    wrong = {}
    for name, value in expected.items():
        if value is None:
            continue
        if name not in found:
            raise Failed(f"the reference has {name!r}, which is missing in the environment; it has: {', '.join(found)}")
        a, b = np.asarray(value), np.asarray(found[name])
        if a.shape != b.shape and a.size == b.size:
            a = a.reshape(b.shape)  # a number in place of an array of one
        if a.shape != b.shape:
            raise Failed(f"{name} has shape {list(a.shape)} in the reference, {list(b.shape)} in the environment")
        floating = "f" in a.dtype.kind + b.dtype.kind
        differs = ~np.isclose(b, a, _RTOL, _ATOL, equal_nan=True) if floating else a != b
        if np.any(differs):
            wrong[name] = a, b, np.argwhere(differs)
    if not wrong:
        return
    name, (a, b, places) = next(iter(wrong.items()))
    place = tuple(int(i) for i in places[0])
    of_agents = agents > 1 and not name.startswith("state ")
    agent = place[0] if of_agents else 0
    row = world * agents + agent
    raise Failed(
        str(
            Difference(
                name=name,
                step=step,
                episode_step=moment,
                world=world,
                agent=agent if of_agents else None,
                row=row,
                element=place[1:] if of_agents else place,
                expected=a[place].item(),
                found=b[place].item(),
                action=None if actions is None else actions[row].tolist(),
                seen={name: array[row] for name, array in seen.items()},
                others={name: len(at) if at.ndim else 1 for name, (_, _, at) in wrong.items()},
                before=(),
            )
        ),
        "both began this step from the same state, so one of them is wrong in this step",
    )
