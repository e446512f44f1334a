"""Melee in plain Python: the outputs of every row, also of ends of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from environments.melee import FIGHTERS


@dataclass
class Bout:
    """One world. ``points`` at first are drawn by the environment."""

    points: list[int]
    limit: int
    rests: list[int] = field(default_factory=lambda: [0] * FIGHTERS)
    wounds: list[int] = field(default_factory=lambda: [0] * FIGHTERS)
    rewards: list[float] = field(default_factory=lambda: [0.0] * FIGHTERS)
    fallen: list[bool] = field(default_factory=lambda: [False] * FIGHTERS)  # in this step
    gone: list[bool] = field(default_factory=lambda: [False] * FIGHTERS)
    absent: list[int] = field(default_factory=list)
    over: bool = False
    late: bool = False
    now: int = 0

    def __post_init__(self) -> None:
        self.absent = [0 if here else 2 for here in self.active]

    @property
    def active(self) -> list[bool]:
        return [points > 0 for points in self.points]

    @property
    def terminated(self) -> list[bool]:
        return [self.over or fallen for fallen in self.fallen]

    @property
    def truncated(self) -> list[bool]:
        return [self.late or gone for gone in self.gone]

    @property
    def ended(self) -> bool:
        return self.over or self.late

    @property
    def seen(self) -> list[list[float]]:
        shown = zip(self.absent, self.points, self.rests, self.wounds, strict=True)
        return [[p if a < 2 else inf, r if a < 2 else -inf, i, w] for i, (a, p, r, w) in enumerate(shown)]

    def step(self, strikes: list[int]) -> list[int]:
        """Take the actions of those that are there; returns what the action column then holds."""
        active, strikes = self.active, [s if here else 0 for s, here in zip(strikes, self.active, strict=True)]
        targets = [(i + strike) % FIGHTERS for i, strike in enumerate(strikes) if strike > 0]
        self.now += 1
        self.wounds = [targets.count(i) for i in range(FIGHTERS)]
        self.rests = [rests + 1 if strike == 0 else 0 for rests, strike in zip(self.rests, strikes, strict=True)]
        self.rewards = [-float(w) if here else 0.0 for w, here in zip(self.wounds, active, strict=True)]
        self.points = [p - w if here else p for p, w, here in zip(self.points, self.wounds, active, strict=True)]
        self.fallen = [here and p <= 0 for p, here in zip(self.points, active, strict=True)]
        self.gone = [here and p > 0 and r == 3 for p, r, here in zip(self.points, self.rests, active, strict=True)]
        self.points = [0 if gone else p for p, gone in zip(self.points, self.gone, strict=True)]
        self.absent = [0 if here else absent + 1 for absent, here in zip(self.absent, self.active, strict=True)]
        self.over = not any(self.active[0::2]) or not any(self.active[1::2])
        self.late = self.now >= self.limit
        return strikes
