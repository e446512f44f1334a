"""The place in an author's text of a fault that the engine reports, and hints in messages about declarations."""

from __future__ import annotations

from pathlib import Path

import messages
import pytest
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Reward,
    Struct,
    TaskGraph,
    f32,
    i32,
)
from torch_batchsim.errors import Fault
from torch_batchsim.resolve.program import Program

TEXT = """
TBS_FUNCTION void throw_stone(World &world) {
    world.create<Stone>(Spot{1});
}
TBS_SYSTEM void fill(World &world, const Order &order) {
    world.create<Item>(Spot{0});
    if (order.rows < 0) world.destroy(world.entity<Item>(0));
    if (order.rows > 9) world.fail(Fault::many, order.rows);
    throw_stone(world);
}
TBS_SYSTEM TBS_REACHES(create<Item>) void other(World &world, const Order &order) {
    world.create<Item>(Spot{2});
    world.fail(Fault::few);
    world.fail(Fault::few, 1);
}
TBS_SYSTEM void move(World &world, Hand &hand) {}
"""


class Order(Component):
    rows: i32


class Spot(Component):
    x: i32


class Hand(Component):
    x: i32


def place(folder: Path, text: str, system: str, cause: str, table: str = "") -> str:
    """The place of a fault, as the program resolves it."""
    (folder / "game.h").write_text(text)

    class Game(Environment):
        systems = str(folder / "game.h")
        archetypes = (
            Archetype("Player", Hand, Reward, count=1),
            Archetype("Item", Spot, capacity=4),
            Archetype("Stone", Spot, capacity=4),
        )
        singletons = (Order,)
        faults = ("many", "few")
        step = TaskGraph("fill", "other", "move")
        action = observation = "Player.Hand"
        action_space = Discrete(2)

    program = Program(Game())
    (node,) = (node for node in program.nodes if node.system.name == system)
    return program.fault_place(node, cause, table)


@pytest.mark.parametrize(
    ("system", "cause", "table", "expected"),
    [
        ("fill", "table_full", "Item", "game.h:6"),
        ("fill", "table_full", "Stone", "game.h:3"),
        ("fill", "stale_entity", "", "game.h:7"),
        ("fill", "many", "", "game.h:8"),
        ("other", "table_full", "Item", "game.h:12"),
        ("other", "few", "", "game.h:11"),  # of two calls
        ("other", "stale_entity", "", "game.h:11"),  # of none in its text
        ("fill", "too_many_created", "", "game.h:5"),  # which the engine reports
    ],
)
def test_the_only_call_that_can_be_it(tmp_path: Path, system: str, cause: str, table: str, expected: str) -> None:
    assert place(tmp_path, TEXT, system, cause, table) == expected


CALL = "    throw_stone(world);\n"


@pytest.mark.parametrize(
    ("more", "use"),
    [
        ("#define MAKE(w) w.create<Item>(Spot{3})\n", "MAKE(world);"),
        ("template <class T> TBS_FUNCTION void make(World &w) { w.create<T>(Spot{3}); }\n", "make<Item>(world);"),
        ("TBS_FUNCTION void again(World &world) { world.create<Item>(Spot{3}); }\n", "again(world);"),
    ],
)
def test_another_call_that_can_be_it_leaves_the_system(tmp_path: Path, more: str, use: str) -> None:
    reaches = TEXT.replace("TBS_SYSTEM void fill", "TBS_SYSTEM TBS_REACHES(create<Item>) void fill")
    assert place(tmp_path, more + reaches, "fill", "table_full", "Item") == "game.h:7"  # which does not use it
    text = more + reaches.replace(CALL, f"    {use}\n")
    assert place(tmp_path, text, "fill", "table_full", "Item") == "game.h:6"


def test_a_call_in_a_macro_has_a_place(tmp_path: Path) -> None:
    text = "#define MAKE(w) w.create<Stone>(Spot{3})\n" + TEXT.replace("throw_stone(world);", "MAKE(world);")
    assert place(tmp_path, text, "fill", "table_full", "Stone") == "game.h:1"


def test_a_fault_begins_with_its_place() -> None:
    fault = Fault(1, "fill", 0, "table_full", 8, "Item", place="game.h:6")
    assert str(fault).startswith("game.h:6: world 1: table Item is full: system 'fill' created more rows")
    assert str(Fault(1, "fill", 0, "many", 8)) == "world 1: system 'fill' failed at row 0: many (value 8)"
    assert str(Fault(1, "fill", 0, "many", 8, step=7)).endswith("many (value 8), in step 7 of its episode")
    assert str(Fault(1, "fill", 0, "many", 8, step=0)).endswith("many (value 8), as its episode began")


class Leg(Struct):
    x: f32


class Still(Environment):
    archetypes = (Archetype("Cart", Spot, count=1),)


def _program(**attributes: object) -> None:
    Program(type("Made", (Still,), attributes)())


def _field(annotation: object) -> None:
    type("Body", (Component,), {"__annotations__": {"x": annotation}})


def test_mistaken_declarations_have_remedies() -> None:
    messages.refused("declarations", lambda line: eval(line, {**vars(torch_batchsim), **globals()}))
