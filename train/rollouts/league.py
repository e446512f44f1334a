"""Self-play against the past: policies that are kept now and then play one of two teams in a share of the worlds.

Rows that a past policy plays are in the rollout, as all are, but nothing is learned from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from ..base.config import Config
from ..policies.networks import ActorCritic, Player
from .acting import Acting

MOST = 20
"""Past policies that are kept, the latest."""
PLAYERS = 4
"""Past policies that play at a time, each in its part of the worlds."""


class League:
    """Past policies, and the rows that some of them play now.

    The last `past_share` of the worlds are theirs: in every other of these the team with the lower number, else that
    with the higher, is played by one of `PLAYERS` past policies, drawn anew whenever one is kept. Before the first
    iteration the untrained policy is kept, then the present one every `past_every` iterations, the latest `MOST`.

    Raises ValueError where there are not two teams, or too few worlds.
    """

    def __init__(self, everyone: Sequence[Acting], team: Tensor | None, agents: int, config: Config) -> None:
        numbers = [] if team is None else team.unique().tolist()
        if len(numbers) != 2:
            raise ValueError(
                f"past_share is {config.past_share}, but past policies play one of two teams, and this environment has "
                f"{len(numbers) or 'none'}"
            )
        self.config, self.members, self.drawn = config, [], []
        worlds = len(team) // agents
        count = round(config.past_share * worlds)
        if count < 2 * PLAYERS:
            raise ValueError(
                f"past_share {config.past_share} of {worlds} worlds are {count}, too few for {PLAYERS} past "
                "policies: each needs a world for either team"
            )
        world = torch.arange(len(team), device=team.device) // agents - (worlds - count)  # of the league, from 0
        side = torch.tensor(numbers, device=team.device, dtype=team.dtype)[(world // PLAYERS) % 2]
        past = (world >= 0) & (team == side)
        self.players: list[list[Acting]] = []
        """For each policy that learns the past ones of it, in their order."""
        self.own: list[Tensor] = []
        """For each policy that learns, the rows that it plays, int64 `[n]`."""
        for each in everyone:
            rows = torch.ones_like(past) if each.team is None else team == each.team
            self.own.append((rows & ~past).nonzero().flatten())
            parts = (rows & past & (world % PLAYERS == i) for i in range(PLAYERS))
            places = [part.nonzero().flatten() for part in parts]
            self.players.append([Acting(each.team, place, Player(_past(each.agent), len(place))) for place in places])

    def begin(self, iteration: int, agents: Sequence[ActorCritic]) -> None:
        """Before an iteration: keeps the present policies if it is time, and draws who plays."""
        if iteration % self.config.past_every or (self.members and self.members[-1]["iteration"] == iteration):
            return  # the second time where a fault has ended that iteration
        self.members.append({"iteration": iteration, "agents": [_state(agent) for agent in agents]})
        del self.members[: -MOST]
        generator = torch.Generator().manual_seed((self.config.seed * 1_000_003 + iteration) % 2**64)
        self.drawn = torch.randint(len(self.members), (PLAYERS,), generator=generator).tolist()
        self._seat()
        self.forget()

    def latest(self, teams: Sequence[int | None]) -> dict[str, Any]:
        """The latest policies, as `agents_of` reads a trainer's state."""
        agents = self.members[-1]["agents"]
        groups = [{"team": team, "agent": agent} for team, agent in zip(teams, agents, strict=True)]
        return {"config": asdict(self.config), "groups": groups}

    @property
    def acting(self) -> list[Acting]:
        """Who plays for the past."""
        return [each for players in self.players for each in players]

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        for player in self._all():
            player.forget()

    def _seat(self) -> None:
        for number, players in enumerate(self.players):
            for each, member in zip(players, self.drawn, strict=True):
                each.agent.load_state_dict(self.members[member]["agents"][number])

    def _all(self) -> list[Player]:
        return [each.player for each in self.acting]

    def state_dict(self) -> dict[str, Any]:
        hidden = [player.hidden for player in self._all()]
        return {"members": self.members, "drawn": self.drawn, "hidden": hidden}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.members, self.drawn = list(state["members"]), list(state["drawn"])
        if self.members:
            self._seat()
        for player, hidden in zip(self._all(), state["hidden"], strict=True):
            player.hidden = hidden.to(player.hidden.device, copy=True)


def _past(agent: ActorCritic) -> ActorCritic:
    return deepcopy(agent).requires_grad_(False)


def _state(agent: ActorCritic) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in agent.state_dict().items()}
