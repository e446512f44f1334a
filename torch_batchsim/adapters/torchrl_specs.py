"""TorchRL: groups of the agents of a world, and the specs of their observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gymnasium
import torch
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

from ..declare.spaces import bounds
from ..vector.vector_env import TorchVectorEnv
from .records import ADAPTERS

ADAPTERS["torchrl"].require()

from torchrl.data import (  # noqa: E402
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import MarlGroupMapType  # noqa: E402
from torchrl.envs.utils import check_marl_grouping  # noqa: E402

GroupMap = MarlGroupMapType | Mapping[str, Sequence[str]] | str
Path = tuple[str, ...]
FLAGS = ("done", "terminated", "truncated")


@dataclass(frozen=True)
class Group:
    """Agents whose tensors are stacked.

    Attributes:
        name: key of their tensordict; None where worlds have one agent, whose tensors lie at the root.
        agents: their places among the agents of a world; None for all in order.
        shape: batch size of their tensordict.
    """

    name: str | None
    agents: torch.Tensor | slice | None
    shape: torch.Size

    def key(self, name: str) -> str | Path:
        """The key of an entry of the group."""
        return name if self.name is None else (self.name, name)


def grouping_of(env: TorchVectorEnv, group_map: GroupMap | None, names: list[str]) -> dict[str, list[str]] | None:
    """Names of agents by group; None without groups. Raises TypeError, ValueError."""
    if group_map is None:
        return None if len(names) == 1 else MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(names)
    if isinstance(group_map, MarlGroupMapType):
        return group_map.get_group_map(names)
    if group_map == "team":
        return _by_team(env, names)
    if not isinstance(group_map, Mapping):
        raise TypeError(f"group_map must be a MarlGroupMapType, a dict, 'team' or None, got {group_map!r}")
    grouping = {name: list(agents) for name, agents in group_map.items()}
    check_marl_grouping(grouping, names)
    return grouping


def _by_team(env: TorchVectorEnv, names: list[str]) -> dict[str, list[str]]:
    if env.team is None:
        raise ValueError(f"group_map='team' needs teams, which {env.environment.name} lacks")
    env.reset()
    teams = env.by_world(env.team)
    if not bool((teams == teams[0]).all()):
        raise ValueError(f"group_map='team' needs the same teams in all worlds of {env.environment.name}")
    numbers = teams[0].tolist()
    return {
        f"team_{team}": [name for name, number in zip(names, numbers, strict=True) if number == team]
        for team in sorted(set(numbers))
    }


def groups_of(grouping: dict[str, list[str]] | None, names: list[str], worlds: int) -> list[Group]:
    """The groups of ``grouping``; without it one of all agents."""
    if grouping is None:
        return [Group(None, None, torch.Size([worlds]))]
    groups = []
    for name, agents in grouping.items():
        places = [names.index(agent) for agent in agents]
        dense = places == list(range(places[0], places[0] + len(places)))
        chosen = slice(places[0], places[0] + len(places)) if dense else torch.tensor(places)
        chosen = None if places == list(range(len(names))) else chosen
        groups.append(Group(name, chosen, torch.Size([worlds, len(places)])))
    return groups


# ---- specs -----------------------------------------------------------------------------------------------------------


def observation_specs(space: gymnasium.Space, shape: torch.Size, device: torch.device) -> dict[Path, TensorSpec]:
    """Specs by path."""
    if isinstance(space, Dict):
        return {("observation", key): _box_spec(part, shape, device) for key, part in space.items()}
    return {("observation",): _box_spec(space, shape, device)}


def _box_spec(space: gymnasium.Space, shape: torch.Size, device: torch.device) -> TensorSpec:
    """The spec of a Box, and of other spaces as one of integers."""
    low, high = (torch.as_tensor(bound.astype(space.dtype), device=device) for bound in bounds(space))
    whole = (*shape, *(space.shape or (1,)))
    if low.is_floating_point() and bool((low.isinf() & high.isinf()).all()):
        return Unbounded(whole, device=device, dtype=low.dtype)
    return Bounded(low.expand(whole), high.expand(whole), whole, device=device, dtype=low.dtype)


def number_spec(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> TensorSpec:
    """The spec of an info or a reward."""
    if dtype is torch.bool:
        return Binary(shape[-1], shape=torch.Size(shape), dtype=dtype, device=device)
    return Unbounded(torch.Size(shape), device=device, dtype=dtype)


def flag_specs(shape: torch.Size, device: torch.device) -> dict[str, TensorSpec]:
    """The specs of ``FLAGS``."""
    return {name: Categorical(2, shape=(*shape, 1), dtype=torch.bool, device=device) for name in FLAGS}


def action_spec(space: gymnasium.Space, shape: torch.Size, device: torch.device, categorical: bool) -> TensorSpec:
    """The spec of actions: choices from 0, and several numbers in one row, whatever the space has."""
    if isinstance(space, Discrete):
        if categorical:
            return Categorical(int(space.n), shape=shape, device=device)
        return OneHot(int(space.n), shape=(*shape, int(space.n)), device=device)
    if isinstance(space, MultiDiscrete):
        choices = torch.as_tensor(space.nvec.reshape(-1))
        if categorical:
            return MultiCategorical(choices, shape=(*shape, len(choices)), device=device)
        return MultiOneHot(choices.tolist(), shape=(*shape, int(choices.sum())), device=device)
    return _box_spec(space, shape, device)


def one_hot_sizes(space: gymnasium.Space) -> list[int] | None:
    """Lengths of the parts of a one-hot action; None for a Box."""
    if isinstance(space, Discrete):
        return [int(space.n)]
    return space.nvec.reshape(-1).tolist() if isinstance(space, MultiDiscrete) else None


def from_one_hot(actions: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """The place of the greatest value of each part: ``[..., parts]``, or ``[...]`` of a single part."""
    if len(sizes) == 1:
        return actions.argmax(-1)
    return torch.stack([part.argmax(-1) for part in actions.split(sizes, -1)], -1)


def not_one_hot(actions: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """bool ``[...]``: the actions ``[..., sum of sizes]`` with a part that is not a single 1 and otherwise 0."""
    ones = actions == 1
    counts = torch.stack([part.sum(-1) for part in ones.split(sizes, -1)], -1)
    return (counts != 1).any(-1) | (ones != (actions != 0)).any(-1)


def composite(values: dict[str, TensorSpec], batch_size: torch.Size, device: torch.device) -> Composite:
    """With the arguments of a ``TensorDict``, so that the same code nests both."""
    return Composite(values, shape=batch_size, device=device)
