"""Returns, lengths and infos of episodes as metrics, while they run."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..base.active import counted_ends, zeroed
from ..base.kernels import ADDRESS, NUMBER, can_compute, fields, library
from ..base.ranks import Ranks
from .environment import num_agents
from .rollout import Storage


class _Given(ctypes.Structure):
    """The record of a rollout for C++."""

    _fields_ = fields(NUMBER, "steps rows")
    _fields_ += fields(ADDRESS, "rewards terminations truncations active running latest")


class Episodes:
    """Follows the episodes of all rows from rollout to rollout.

    running and latest float32 `[2, N]` are return and length: of the episode that runs, and of the latest that ended
    (NaN before the first).
    """

    def __init__(self, env: VectorEnv, ranks: Ranks) -> None:
        self.ranks, self.num_agents = ranks, num_agents(env)
        self.running = torch.zeros(2, env.num_envs, device=env.device)
        self.latest = torch.full_like(self.running, torch.nan)
        # Whether every row that takes part has ended an episode: before, only short ones have, and a mean is theirs.
        self.all_ended = torch.zeros((), dtype=torch.bool, device=env.device)
        # Metrics that are infos at the end of an episode; in this rollout the sum of each, and last how many ended.
        score = env.metadata.get("score")  # which counts in place of the rewards
        self.infos = {"charts/score": score} if score else {}
        self.infos |= {f"figures/{name}": name for name in env.metadata.get("figures", ())}
        self.sums = torch.zeros(len(self.infos) + 1, device=env.device)

    def begin(self) -> None:
        """Before a rollout."""
        self.acted = self.running[1] > 0  # since the last end of the row

    def note(self, infos: Mapping[str, Any], active: Tensor | None) -> None:
        """Behind a step: takes the infos of episodes that it ended; `active` bool `[N]` acted in it."""
        if not self.infos:
            return
        ended = infos["_final_info"]
        if active is not None:  # an agent that has left meets the end of its world as well
            acted = self.acted | active
            ended, self.acted = ended & acted, acted & ~ended
        numbers = torch.stack([infos["final_info"][name].float() for name in self.infos.values()])
        self.sums[:-1] += torch.where(ended, numbers, 0.0).sum(1)
        self.sums[-1] += ended.sum()

    @torch.no_grad()
    def statistics(self, rollout: Storage) -> dict[str, Tensor]:
        """Return and length of the latest episodes, as a mean over rows: short episodes do not count more.

        All are NaN until every row that has taken part has ended an episode: the first to end are the short ones.
        Rewards of a row up to its last end belong to finished episodes, the rest to the one still running.
        Where worlds have several agents, each has its own mean as well: in a zero-sum game that of all rows is 0.
        Steps in which a row is inactive do not count, nor an end after such steps only.
        """
        self._follow(rollout)
        of_latest = _sums_and_counts(self.latest)
        names, totals = ["charts/episodic_return", "charts/episodic_length"], [of_latest]
        if self.infos:
            names += self.infos
            totals.append(torch.stack([self.sums[:-1], self.sums[-1].expand(len(self.infos))], dim=1))
        if self.num_agents > 1:
            names += (f"charts/episodic_return/agent_{i}" for i in range(self.num_agents))
            totals.append(_sums_and_counts(self.latest[0].view(-1, self.num_agents).T))
        in_the_first = (self.running[1] > 0) & self.latest[1].isnan()
        have_ended = torch.stack([of_latest[1, 1], in_the_first.sum().float()])  # and who has yet to
        of_all = self.ranks.sum(torch.cat([*totals, have_ended.unsqueeze(0)]))
        self.sums.zero_()
        self.all_ended |= (of_all[-1, 0] > 0) & (of_all[-1, 1] == 0)
        means = of_all[:-1, 0] / of_all[:-1, 1]  # NaN where no episode has ended
        return dict(zip(names, torch.where(self.all_ended, means, torch.nan).unbind(), strict=True))

    def _follow(self, rollout: Storage) -> None:
        """Return and length of each row, where the rollout leaves them."""
        active = None if rollout.active is None else rollout.active[:-1]
        series = rollout.rewards, rollout.terminations, rollout.truncations, active
        if can_compute(rollout.rewards):
            places = (None if each is None else each.data_ptr() for each in (*series, self.running, self.latest))
            given = _Given(*rollout.rewards.shape, *places)
            library().follow_episodes(ctypes.addressof(given))  # type: ignore[union-attr]
            return
        ends = rollout.terminations | rollout.truncations
        amounts = torch.stack([rollout.rewards, torch.ones_like(rollout.rewards)], dim=1)  # [T, 2, N]
        if active is not None:
            ends = counted_ends(ends, active, self.running[1])
            amounts = zeroed(amounts, active.unsqueeze(1).expand_as(amounts))
        finished = ends.flip(0).cummax(0).values.flip(0)
        counts, ended = ends.sum(0), finished[0]
        done = (amounts * finished.unsqueeze(1)).sum(0)
        self.latest.copy_(torch.where(ended, (self.running + done) / counts, self.latest))
        self.running.mul_(~ended).add_(amounts.sum(0) - done)

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.running.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        return {"running": self.running, "latest": self.latest, "all_ended": self.all_ended}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, own in self.state_dict().items():
            own.copy_(state[name])


def _sums_and_counts(values: Tensor) -> Tensor:
    """Of each row of `[n, ...]`, of numbers other than NaN: float32 `[n, 2]`."""
    return torch.stack([values.nansum(1), values.isfinite().sum(1).float()], dim=1)
