"""A policy that learns, with the rows that it acts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..policies.networks import ActorCritic, Player
from ..rollouts.acting import Acting
from ..rollouts.rollout import Storage, map_leaves
from .learner import Learner


@dataclass
class Group:
    """A policy that learns from the rows that it acts for."""

    acting: Acting
    learner: Learner

    @property
    def agent(self) -> ActorCritic:
        return self.acting.player.agent

    @property
    def player(self) -> Player:
        return self.acting.player

    @property
    def suffix(self) -> str:
        """The suffix of the names of its metrics."""
        return "" if self.acting.team is None else f"/team_{self.acting.team}"

    def estimate(self, storage: Storage) -> Any:
        """The batch of its part of a rollout."""
        return self.learner.estimate(storage.of(self.acting.rows), self.player.before)

    def note(self, storage: Storage) -> None:
        """Behind the updates: adds the observations to the moments that normalise the next ones."""
        if self.agent.observations is not None:
            seen = storage.of(self.acting.rows)
            both = seen.obs, seen.critic_obs
            shown = (None if each is None else map_leaves(lambda leaf: leaf[:-1], each) for each in both)
            self.agent.note(*shown, seen.acted, self.learner.ranks)

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.player.forget()
        self.learner.forget()

    def state_dict(self) -> dict[str, Any]:
        """All that its next iteration depends on, but for the generator."""
        return {"team": self.acting.team, "hidden": self.player.hidden, **self.learner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.player.hidden = state["hidden"].to(self.player.hidden.device, copy=True)
        self.learner.load_state_dict(state)
