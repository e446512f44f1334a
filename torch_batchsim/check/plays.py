"""The long run of a check: all worlds by random and extreme actions; records observations, rewards and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

from ..declare.spaces import bounds
from ..errors import WorldFault
from ..vector.vector_env import TorchVectorEnv
from .policies import STYLES, Policy

_SHARES = {"random": 0.5, "held": 0.2, "lowest": 0.1, "highest": 0.1, "corners": 0.1}  # of the steps
_MOST_FAULTS = 3


@dataclass
class Seen:
    """The range of one part of the observation, over all rows and steps."""

    low: torch.Tensor  # of the space
    high: torch.Tensor
    least: torch.Tensor | None = None
    greatest: torch.Tensor | None = None
    moved: torch.Tensor | None = None  # elements that have changed from a step to the next one of an episode


@dataclass
class Play:
    """Records of the long run. Problems are sentences, of each kind the first."""

    steps: int = 0
    rows: int = 0
    observations: dict[str, Seen] = field(default_factory=dict)
    out_of_bounds: dict[str, str] = field(default_factory=dict)
    not_finite: dict[str, str] = field(default_factory=dict)
    no_legal: str = ""
    faults: list[str] = field(default_factory=list)
    rewards: tuple[float, float] = (np.inf, -np.inf)
    returns: tuple[float, float] = (np.inf, -np.inf)  # of episodes that ended
    lengths: list[int] = field(default_factory=list)
    ended: torch.Tensor | None = None  # worlds that have ended an episode
    masked: bool = False
    terminated: int = 0  # episodes

    @property
    def mean_length(self) -> float:
        """Steps of an episode; 0 where none has ended."""
        return float(np.mean(self.lengths)) if self.lengths else 0.0


def named(name: str, value: Any) -> dict[str, torch.Tensor]:
    """The tensors of an observation by name: ``"observation"``, or ``"observation.key"`` of a dict."""
    if isinstance(value, Mapping):
        return {key: tensor for part in value for key, tensor in named(f"{name}.{part}", value[part]).items()}
    return {name: torch.as_tensor(value)}


def parts_of(space: Any) -> dict[str, Any]:
    """The spaces of an observation's parts, by the same names."""
    if isinstance(space, Dict):
        return {f"observation.{key}": part for key, part in space.items()}
    return {"observation": space}


def where(row: int, agents: int, element: tuple[int, ...] = ()) -> str:
    """A row in words."""
    agent = f", agent {row % agents}" if agents > 1 else ""
    return f"world {row // agents}{agent}" + (f", element {list(element)}" if element else "")


def play_all(env: TorchVectorEnv, steps: int, seed: int) -> Play:
    """Play by each style of actions, for its share of the steps."""
    play = Play(rows=env.num_envs, ended=torch.zeros(env.num_worlds, dtype=torch.bool))
    for name, space in parts_of(env.single_observation_space).items():
        play.observations[name] = Seen(*(torch.as_tensor(np.asarray(end)) for end in bounds(space)))
    for number, style in enumerate(STYLES):
        _Run(env, play, style).run(max(1, round(_SHARES[style] * steps)), seed + number)
    return play


class _Run:
    """The steps of one style."""

    def __init__(self, env: TorchVectorEnv, play: Play, style: str) -> None:
        self.env, self.play, self.style, self.step = env, play, style, 0

    def run(self, steps: int, seed: int) -> None:
        env, play = self.env, self.play
        try:
            observations, infos = env.reset(seed=seed)
        except WorldFault as fault:
            self._fault(fault)
            return
        policy = Policy(env, env.num_worlds, self.style, seed)
        returns = torch.zeros(env.num_envs, dtype=torch.float64)
        before = self._observed(observations, infos)
        for self.step in range(1, steps + 1):
            lengths = env.sim.tensor("World.step") + 1
            try:
                results = env.step(policy(env))
            except WorldFault as fault:
                self._fault(fault)
                if fault.outputs is None or len(play.faults) >= _MOST_FAULTS:
                    return
                results = fault.outputs
                env.reset(options={"reset_mask": fault.mask})
                returns[fault.mask.repeat_interleave(env.num_agents)] = 0
            observations, rewards, terminations, _, infos = results
            ended = env.ended_worlds()
            returns += rewards
            self._rewarded(rewards, ended, returns, lengths)
            play.terminated += int(terminations.view(env.num_worlds, -1)[ended].any(1).sum())
            after = self._observed(observations, infos)
            self._moved(before, after, ~ended.repeat_interleave(env.num_agents))
            if "final_obs" in infos and bool(infos["_final_obs"].any()):
                active = infos["final_info"].get("active")
                self._judge(infos["final_obs"], infos["_final_obs"] if active is None else infos["_final_obs"] & active)
            before = after
            play.steps += 1

    def _fault(self, fault: WorldFault) -> None:
        kind = f"{self._when}: {fault.faults[0]}"
        if len(self.play.faults) < _MOST_FAULTS:
            self.play.faults.append(kind)

    @property
    def _when(self) -> str:
        when = f"step {self.step}" if self.step else "the reset"
        return f"with {STYLES[self.style]}, in {when}"

    def _observed(self, observations: Any, infos: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        active = infos.get("active")  # policies ignore the other rows
        self._judge(observations, active)
        self._masks(infos.get("action_mask"))
        for name, value in infos.items():
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                rows = torch.arange(len(value)) if active is None else active.nonzero().flatten()
                self._finite(f"info.{name}", value[rows], rows)
        return {name: tensor.clone() for name, tensor in named("observation", observations).items()}

    def _judge(self, observations: Any, rows: torch.Tensor | None = None) -> None:
        """Record the values of observations; ``rows`` is the mask of those that exist, None for all."""
        for name, tensor in named("observation", observations).items():
            seen = self.play.observations[name]
            numbers = torch.arange(len(tensor)) if rows is None else rows.nonzero().flatten()
            tensor = tensor if rows is None else tensor[rows]
            if not len(tensor):
                continue
            if tensor.dtype.is_floating_point and not self._finite(name, tensor, numbers):
                continue
            least, greatest = tensor.amin(0), tensor.amax(0)
            seen.least = least if seen.least is None else torch.minimum(seen.least, least)
            seen.greatest = greatest if seen.greatest is None else torch.maximum(seen.greatest, greatest)
            if name not in self.play.out_of_bounds and bool(((least < seen.low) | (greatest > seen.high)).any()):
                at = ((tensor < seen.low) | (tensor > seen.high)).nonzero()[0].tolist()
                low, high = (_at(end, tensor, at).item() for end in (seen.low, seen.high))
                self.play.out_of_bounds[name] = (
                    f"{name} is {tensor[tuple(at)].item():g}, its space has {low:g} to {high:g} "
                    f"({self._place(int(numbers[at[0]]), at[1:])})"
                )

    def _finite(self, name: str, tensor: torch.Tensor, numbers: torch.Tensor | None = None) -> bool:
        finite = torch.isfinite(tensor)
        if bool(finite.all()):
            return True
        if name not in self.play.not_finite:
            at = (~finite).nonzero()[0].tolist()
            row = at[0] if numbers is None else int(numbers[at[0]])
            self.play.not_finite[name] = f"{name} is {tensor[tuple(at)].item()} ({self._place(row, at[1:])})"
        return False

    def _masks(self, mask: torch.Tensor | None) -> None:
        if mask is None or self.play.no_legal:
            return
        self.play.masked = True
        space = self.env.single_action_space
        first = 0
        for part, count in enumerate(_choices(space)):
            some = mask[:, first : first + count].any(1)
            if not bool(some.all()):
                of_part = f", part {part} of the action" if isinstance(space, MultiDiscrete) else ""
                self.play.no_legal = f"no action is legal ({self._place(int((~some).nonzero()[0]))}{of_part})"
            first += count

    def _rewarded(
        self, rewards: torch.Tensor, ended: torch.Tensor, returns: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        play = self.play
        if self._finite("reward", rewards):
            play.rewards = min(play.rewards[0], float(rewards.min())), max(play.rewards[1], float(rewards.max()))
        if bool(ended.any()):
            of_ended = returns.view(self.env.num_worlds, -1)[ended]
            play.returns = min(play.returns[0], float(of_ended.min())), max(play.returns[1], float(of_ended.max()))
            play.lengths += lengths[ended].tolist()
            play.ended |= ended
            returns.view(self.env.num_worlds, -1)[ended] = 0

    def _moved(
        self, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], rows: torch.Tensor
    ) -> None:
        for name, tensor in after.items():
            moved = (tensor != before[name])[rows].any(0)
            seen = self.play.observations[name]
            seen.moved = moved if seen.moved is None else seen.moved | moved

    def _place(self, row: int, element: list[int] | tuple[int, ...] = ()) -> str:
        return f"{where(row, self.env.num_agents, tuple(element))}; {self._when}"


def _at(bound: torch.Tensor, tensor: torch.Tensor, at: list[int]) -> torch.Tensor:
    return bound.expand(tensor.shape[1:])[tuple(at[1:])]


def _choices(space: Discrete | MultiDiscrete) -> Iterator[int]:
    yield from np.asarray(getattr(space, "nvec", getattr(space, "n", 0))).reshape(-1).tolist()
