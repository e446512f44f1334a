"""The picture of a kitchen shows what a person needs to follow a game."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from torch_batchsim.envs.overcooked import picture
from torch_batchsim.envs.overcooked.layout import Layout, layout_names, read_layout

ROOM = read_layout("cramped_room", start_all_orders=[{"ingredients": ["onion"] * 3}, {"ingredients": ["tomato"]}])
POT, SERVING = (2, 0), (3, 3)  # x, y in that layout
TOP = 66  # pixels above its kitchen


def world_of(layout: Layout, padding: int = 0, chefs: int | None = None) -> dict[str, np.ndarray]:
    """The columns that a picture is drawn from, at the start; with rows and columns of padding beyond the layout."""
    terrain = np.pad(layout.terrain, ((0, padding), (0, padding)), constant_values=picture.OUTSIDE)
    width, height = terrain.shape
    starts = layout.starts[:chefs]
    world: dict[str, Any] = {
        "Cell.Terrain.kind": terrain.reshape(-1),
        "Cell.Cooking.left": np.zeros(width * height, np.int16),
        "Chef.Place.cell": np.array([x * height + y for x, y in starts], np.int32),
        "Chef.Place.facing": np.zeros(len(starts), np.int32),
        "Chef.View.layers": np.zeros((len(starts), width, height, 5 * len(starts) + 16), np.uint8),
        "Chef.SparseReward.value": np.zeros(len(starts), np.float32),
        "Chef.SparseReturn.value": np.zeros(len(starts), np.float32),
        "Kitchen.timestep": np.int32(0),
    }
    for of, field in itertools.product(("Cell", "Chef"), ("kind", "onions", "tomatoes")):
        world[f"{of}.Item.{field}"] = np.zeros(width * height if of == "Cell" else len(starts), np.uint8)
    return world


def put(world: dict[str, np.ndarray], of: str, row: int, kind: int, onions: int = 0, tomatoes: int = 0) -> None:
    for field, value in (("kind", kind), ("onions", onions), ("tomatoes", tomatoes)):
        world[f"{of}.Item.{field}"][row] = value


def cell(pixels: np.ndarray, x: int, y: int, top: int = TOP, size: int = 48) -> np.ndarray:
    return pixels[top + y * size : top + (y + 1) * size, x * size : (x + 1) * size]


def has(pixels: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((pixels == colour).all(-1).any())


@pytest.mark.parametrize("name", layout_names())
def test_every_layout_has_a_picture_of_even_size(name: str) -> None:
    layout = read_layout(name)
    pixels = picture.draw(world_of(layout), layout, horizon=400).pixels
    assert pixels.dtype == np.uint8
    assert pixels.shape[0] % 2 == pixels.shape[1] % 2 == 0
    assert pixels.shape[2] == 3


def test_chefs_differ_and_show_where_they_look() -> None:
    assert len({picture.chef_colour(number) for number in range(40)}) == 40
    pictures = set()
    for facing in range(4):
        world = world_of(ROOM)
        world["Chef.Place.facing"][0] = facing
        pictures.add(picture.draw(world, ROOM, horizon=400).pixels.tobytes())
    assert len(pictures) == 4


def test_items_differ_wherever_they_are() -> None:
    items = [(0,), (1,), (2,), (3,), (4, 1, 0), (4, 0, 1), (4, 3, 0), (4, 2, 1), (4, 1, 2), (4, 0, 3)]
    for of, row in (("Chef", 1), ("Cell", 0), ("Cell", 4)):
        pictures = set()
        for item in items:
            world = world_of(ROOM)
            put(world, of, row, *item)
            pictures.add(picture.draw(world, ROOM, horizon=400).pixels.tobytes())
        assert len(pictures) == len(items)


def test_a_pot_shows_how_far_it_is() -> None:
    pots = []
    for left in (-1, 20, 10, 1, 0):
        world = world_of(ROOM)
        row = POT[0] * ROOM.terrain.shape[1] + POT[1]
        put(world, "Cell", row, picture.SOUP, 3, 0)
        world["Cell.Cooking.left"][row] = left
        pots.append(cell(picture.draw(world, ROOM, horizon=400).pixels, *POT))
    green = [(pot[-1] == picture.GREEN).all(-1).sum() for pot in pots]  # below what is written there
    assert green == sorted(green)
    assert green[:2] == [0, 0]
    assert [has(pot, picture.ORANGE) for pot in pots] == [False, True, True, True, False]  # flames


def test_time_turns_red_and_pay_is_shown() -> None:
    world = world_of(ROOM)
    for step, red in ((360, False), (361, True), (400, True), (500, True)):
        world["Kitchen.timestep"] = np.int32(step)
        assert has(picture.draw(world, ROOM, horizon=400).pixels[:TOP], picture.RED) == red
    before = picture.draw(world, ROOM, horizon=400).pixels
    world["Chef.SparseReward.value"][1] = 20
    assert (picture.draw(world, ROOM, horizon=400).pixels != before).any()


def test_padding_is_dark() -> None:
    pixels = picture.draw(world_of(ROOM, padding=2), ROOM, horizon=400).pixels
    assert (cell(pixels, 6, 2) == picture.DARK).all()
    assert (cell(pixels, 1, 5) == picture.DARK).all()
    assert np.array_equal(pixels[TOP : TOP + 192, :240], picture.draw(world_of(ROOM), ROOM, horizon=400).pixels[TOP:])


def test_a_crowd_fits() -> None:
    rows = ["*" * 12] * 3 + ["*" * 4 + " " * 8] + [" " * 12] * 3
    layout = read_layout("\n".join(["X" * 14, *(f"X{row}X" for row in rows), "XXPXOXTXDXSXXX"]))
    pixels = picture.draw(world_of(layout), layout, horizon=400).pixels
    assert pixels.shape[1] == 14 * 44
    assert all(has(pixels, picture.chef_colour(number)) for number in range(40))
