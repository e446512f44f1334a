"""Enumerations that an author declares in Python and uses in C++."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

import pytest
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Component, Reward, SchemaError, Simulator, TaskGraph, i32, u8
from torch_batchsim.resolve.program import Program


class Direction(IntEnum):
    LEFT = -3
    RIGHT = 70000


class Fruit(IntEnum):
    NOTHING = 0
    APPLE = 200


class Basket(Component):
    held: u8
    towards: i32


class Act(Component):
    kind: i32


TEXT = """
static_assert(sizeof(Fruit) == 1 && sizeof(Direction) == 4);
TBS_SYSTEM void gather(World &world, Basket &basket, const Act &act) {
    basket.held = basket.held == NOTHING ? APPLE : Fruit::NOTHING;
    basket.towards = act.kind == 0 ? LEFT : Direction::RIGHT;
}
"""


def environment(**changes: Any) -> Any:
    attributes = {
        "archetypes": [Archetype("Gatherer", Basket, Act, Reward, count=1)],
        "step": TaskGraph("gather"),
        "observation": "Gatherer.Act",
        "action": "Gatherer.Act.kind",
        "action_space": Discrete(2),
        "enums": (Direction, Fruit),
        **changes,
    }
    return declare(TEXT, **attributes)()


def test_systems_use_them_by_the_same_names() -> None:
    sim = Simulator(environment(), 2)
    sim.reset(seed=0)
    sim.tensor("Gatherer.Act.kind")[1] = 1
    sim.step()
    assert sim.tensor("Gatherer.Basket.held").flatten().tolist() == [Fruit.APPLE] * 2
    assert sim.tensor("Gatherer.Basket.towards").flatten().tolist() == [Direction.LEFT, Direction.RIGHT]


class Plain(Enum):
    ONE = 1


@pytest.mark.parametrize(
    "enums, message",
    [
        ((Plain,), "enums must be IntEnum classes with values, got <enum 'Plain'>"),
        ((IntEnum,), "enums must be IntEnum classes with values"),
        ((3,), "enums must be IntEnum classes with values, got 3"),
        (Direction, "enums must be a list or tuple"),
        ((Fruit, Fruit), "enumeration Fruit gives C\\+\\+ the name Fruit, which is taken"),
        ((Fruit, IntEnum("Other", "APPLE")), "enumeration Other gives C\\+\\+ the name APPLE, which is taken"),
        ((IntEnum("Basket", "FULL"),), "enumeration Basket gives C\\+\\+ the name Basket"),
        ((IntEnum("State", "Row"),), "enumeration State gives C\\+\\+ the name Row"),
        ((IntEnum("State", "double"),), "enumeration State or a value of it cannot be named 'double'"),
        ((IntEnum("State", {"MANY": 2**31}),), "State.MANY is 2147483648, which 32 bits with a sign cannot hold"),
        ((IntEnum("State", "gather"),), "system 'gather' would hide what has this name already: .* a value of one"),
    ],
)
def test_refusals(enums: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Program(environment(enums=enums))
