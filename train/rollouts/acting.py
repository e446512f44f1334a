"""Who acts for which rows: one policy for all, or one for each team."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..policies.drawing import drawing
from ..policies.encoders import Observation
from ..policies.networks import ActorCritic, Player
from .rollout import Storage, map_leaves

Agents = ActorCritic | Mapping[int, ActorCritic]
"""One for all rows, or one for each team by its number."""


@dataclass
class Acting:
    """A policy and the rows that it acts for, int64 `[n]`; None stands for all rows."""

    team: int | None
    rows: Tensor | None
    player: Player

    @property
    def agent(self) -> ActorCritic:
        return self.player.agent

    def begin(self, storage: Storage, noise: Tensor) -> Callable[[int], None]:
        """At the beginning of a rollout: a function that writes the actions of step t into the storage, given the noise
        of all steps of its rows `[T, n, outputs]`."""
        self.player.begin()
        if self.rows is None:
            given = storage.obs, noise, storage.action_masks, storage.actions
            at_once = drawing(self.agent, *given, self.player.hidden, storage.active)
            if at_once is not None:
                return at_once.draw
        noises, actions = noise.unbind(), storage.actions.unbind()
        active, masks = storage.active, storage.action_masks

        def act(t: int) -> None:
            outputs = self.outputs(storage.seen[t], None if active is None else active[t])
            self.sample(outputs, noises[t], actions[t], None if masks is None else masks[t])

        return act

    def part(self, tensor: Tensor | None) -> Tensor | None:
        """The part of its rows, of `[N, ...]`."""
        return tensor if tensor is None or self.rows is None else tensor[self.rows]

    def outputs(self, observation: Observation, active: Tensor | None) -> Tensor:
        """Outputs of the policy for its rows `[n, outputs]`, given the observations of all rows."""
        seen = observation if self.rows is None else map_leaves(lambda leaf: leaf[self.rows], observation)
        return self.player.outputs(seen, self.part(active))

    def sample(self, outputs: Tensor, noise: Tensor, actions: Tensor, mask: Tensor | None) -> None:
        """Writes actions that are drawn with the noise of its rows into `actions` of all rows `[N, ...]`."""
        if self.rows is None:
            self.agent.policy.sample(outputs, noise, actions, mask)
            return
        own = torch.empty_like(actions[self.rows])
        self.agent.policy.sample(outputs, noise, own, self.part(mask))
        actions[self.rows] = own

    def mode(self, outputs: Tensor, actions: Tensor, mask: Tensor | None) -> None:
        """Writes the likeliest actions of its rows into `actions` of all rows `[N, ...]`."""
        if self.rows is None:
            self.agent.policy.mode(outputs, actions, mask)
            return
        own = torch.empty_like(actions[self.rows])
        self.agent.policy.mode(outputs, own, self.part(mask))
        actions[self.rows] = own

    def ended(self, ends: Tensor) -> None:
        """Behind a step: which rows have ended an episode, bool `[N]` of all rows."""
        if self.player.remembers:
            self.player.ended(self.part(ends))


def acting(agents: Agents, rows: int, team: Tensor | None) -> list[Acting]:
    """Who acts for `rows` rows, of teams int `[rows]`. Raises ValueError for a team that has no policy."""
    if isinstance(agents, ActorCritic):
        return [Acting(None, None, Player(agents, rows))]
    found = []
    for number, places in rows_of_teams(team).items():
        if number not in agents:
            raise ValueError(f"team {number} has no policy; policies are those of teams {sorted(agents)}")
        found.append(Acting(number, places, Player(agents[number], len(places))))
    return found


def rows_of_teams(team: Tensor | None) -> dict[int, Tensor]:
    """The rows of each team, int64 `[n]`, by its number. Raises ValueError where there are no teams."""
    if team is None:
        raise ValueError("policies is 'teams', but this environment has no teams: infos['team'] is missing")
    return {int(number): (team == number).nonzero().flatten() for number in team.unique()}
