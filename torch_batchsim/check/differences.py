"""The result of a comparison of two environments: agreement, or the first difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_MOST_NUMBERS = 32  # of an observation in a message


@dataclass(frozen=True)
class Comparison:
    """Two environments have agreed.

    Attributes:
        steps: of each row.
        rows: compared in each step.
        episodes: of worlds, that ended.
        largest: the largest difference of two numbers, by name as in ``Difference.name``.
    """

    steps: int
    rows: int
    episodes: int
    largest: Mapping[str, float]

    def __str__(self) -> str:
        differences = ", ".join(f"{name} {value:.2g}" for name, value in self.largest.items())
        return (
            f"{self.steps} steps of {self.rows} rows agree, {self.episodes} episodes ended; "
            f"largest differences: {differences}"
        )


@dataclass(frozen=True)
class Difference:
    """The first difference.

    Attributes:
        name: ``"observation"``, ``"observation.<key>"``, ``"final_observation"`` (with SAME_STEP, that at the end
            of an episode), ``"reward"``, ``"termination"``, ``"truncation"`` or ``"info.<name>"``.
        step: the first is 1; 0 is the reset.
        episode_step: of the row's episode, counted in the same way.
        world, agent, row: where; the agent is None if worlds have one.
        element: the index within the row, ``()`` of a number.
        expected: the value of the reference; ``found``: that of ``env``.
        action: of the row in this step, None at a reset; ``seen``: the row's observations before it, by name.
        others: by name, the number of rows that differ in this step.
        before: lines about the steps before; ``hint``: a possible cause.
    """

    name: str
    step: int
    episode_step: int
    world: int
    agent: int | None
    row: int
    element: tuple[int, ...]
    expected: Any
    found: Any
    action: Any
    seen: Arrays
    others: Mapping[str, int]
    before: tuple[str, ...]
    hint: str = ""

    def __str__(self) -> str:
        element = f"[{', '.join(map(str, self.element))}]" if self.element else ""
        where = f"world {self.world}" + (f", agent {self.agent}" if self.agent is not None else "")
        when = f"in step {self.step} (step {self.episode_step} of the episode)" if self.step else "at the first reset"
        lines = [
            f"{self.name}{element} differs first {when}, {where}: expected {self.expected}, found {self.found}",
            "rows that differ in this step: " + ", ".join(f"{rows} in {name}" for name, rows in self.others.items()),
        ]
        if self.action is not None:
            lines.append(f"action {self.action}, after the observation {self._seen_in_short()}")
        return "\n".join([*lines, *self.before, *([self.hint] if self.hint else [])])

    def _seen_in_short(self) -> str:
        shown = []
        for name, array in self.seen.items():
            key = name.removeprefix("observation").lstrip(".")
            numbers = array.tolist() if array.size <= _MOST_NUMBERS else f"of shape {list(array.shape)}"
            shown.append(f"{key} {numbers}".lstrip())
        return ", ".join(shown)


class Mismatch(AssertionError):
    """Raised by ``compare``: two environments differ; ``difference`` has the facts."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.difference,)
