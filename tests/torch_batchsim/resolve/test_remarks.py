"""Text is read for mistakes once, and again only where its declarations have changed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Component, Constants, Parameters, Reward, SchemaError, TaskGraph, f32, i32
from torch_batchsim.resolve import remarks
from torch_batchsim.resolve.program import Program

TEXT = """
TBS_SYSTEM void move(World &world, Ball &ball, const Move &move) {
    ball.cells[Constants::place] = float(move.choice) + parameters.gust;
    ball.cells[0] = move.choice / 2;
}
"""


class Move(Component):
    choice: i32


def program(cells: int = 4, place: int = 2, gust: float = 0.5) -> list[str]:
    """The warnings of a program of the text."""
    ball = type("Ball", (Component,), {"__annotations__": {"cells": f32[cells]}})
    constants, parameters = Constants(place=place), Parameters(gust=gust)
    described: dict[str, Any] = {
        "archetypes": (Archetype("Cart", ball, Move, Reward, count=1),), "step": TaskGraph("move"),
        "observation": "Cart.Ball", "action": "Cart.Move", "action_space": Discrete(2),
        "constants": constants, "parameters": parameters,
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Program(declare(TEXT, **described)())
    return [str(warning.message) for warning in caught]


def test_the_same_text_is_read_once_and_warned_of_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, read = program(), []
    made = remarks._read_mistakes
    monkeypatch.setattr(remarks, "_read_mistakes", lambda *arguments: read.append(1) or made(*arguments))
    assert program() == first and any("move.choice / 2" in each for each in first) and read == []
    assert program(gust=0.25) == first
    for changed in ({"place": 5}, {"cells": 2}):
        read.clear()
        with pytest.raises(SchemaError, match=r"has [24] elements"):
            program(**changed)
        assert read == [1]
        with pytest.raises(SchemaError, match=r"has [24] elements"):
            program(**changed)
        assert read == [1]
    assert program() == first and read == [1]
