"""The picture of a kitchen, in which a person can follow a game.

Above: the return so far, the pay of this step, the time (red in the last steps, which the observation marks), and the
orders with their pay (a star: bonus included). Below: the kitchen, with chefs in colours of their own and with their
numbers. A chef holds its thing in front. A pot shows its ingredients and, before it cooks, their number; while it
cooks, a bar and the steps left; when the soup is ready, steam and a green tick.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from math import ceil, cos, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from torch_batchsim.draw import Colour, Point, Scene, Sprite, mixed, text_width

from .codes import (
    COUNTER,
    DIRECTIONS,
    DISH,
    DISHES,
    FLOOR,
    NOTHING,
    ONION,
    ONIONS,
    OUTSIDE,
    POT,
    SERVING,
    SOUP,
    TOMATO,
    TOMATOES,
)
from .layout import Layout

URGENT = 40  # the last steps, in which the observation has its layer of urgency

CELL, WIDEST, HIGHEST = 48, 640, 512  # pixels: a cell, unless the kitchen would be larger than this
NARROWEST, SCORE, BAR, CARD, ICON, GAP = 240, 28, 6, 24, 16, 4  # pixels: the picture; heights above the kitchen

# ---- colours and shapes ----------------------------------------------------------------------------------------------

DARK, INK, WHITE, GREY = (34, 37, 48), (40, 34, 30), (255, 255, 255), (70, 74, 90)
GREEN, RED, GOLD, BRASS, ORANGE = (58, 158, 76), (222, 62, 48), (250, 196, 60), (166, 116, 24), (250, 140, 40)
WOOD, WOOD_EDGE, CRATE, CRATE_EDGE = (190, 150, 108), (146, 108, 72), (134, 94, 60), (104, 70, 42)
STEEL, STOVE, STOVE_EDGE, IRON = (128, 136, 150), (88, 94, 106), (60, 64, 74), (50, 53, 62)
HATCH, HATCH_EDGE, SKIN, OUTLINE = (74, 146, 98), (44, 96, 66), (246, 204, 164), (52, 44, 44)
WATER, ONION_SOUP, TOMATO_SOUP = (120, 164, 196), (232, 196, 116), (212, 82, 54)

Shape = tuple  # kind, colour, size (of a circle its radius, of a line its width), points
Shapes = tuple[Shape, ...]
Item = tuple[int, int, int]  # kind, onions, tomatoes


def _star(points: int, outer: float, inner: float) -> list[Point]:
    angles = [pi * i / points for i in range(2 * points)]
    return [(sin(a) * (inner if i % 2 else outer), -cos(a) * (inner if i % 2 else outer)) for i, a in enumerate(angles)]


def _placed(shapes: Shapes, x: float, y: float, scale: float) -> Shapes:
    return tuple(
        (kind, colour, size * scale, *((x + scale * px, y + scale * py) for px, py in points))
        for kind, colour, size, *points in shapes
    )


def _block(top: Colour, edge: Colour) -> Shapes:
    return ("rectangle", edge, 0, (-0.5, -0.5), (0.5, 0.5)), ("rectangle", top, 0, (-0.48, -0.48), (0.48, 0.38))


# Lengths are in cells, from the middle of one. Items fill a cell here, and are drawn smaller.
ITEMS: dict[int, Shapes] = {
    NOTHING: (),
    ONION: (
        ("polygon", (126, 150, 60), 0, (-0.12, -0.2), (-0.16, -0.5), (0, -0.34), (0.16, -0.5), (0.12, -0.2)),
        ("circle", (150, 96, 40), 0.4, (0, 0.08)),
        ("circle", (240, 208, 130), 0.33, (0, 0.08)),
        ("line", (190, 136, 66), 0.07, (-0.1, -0.2), (-0.14, 0.36)),
        ("line", (190, 136, 66), 0.07, (0.1, -0.2), (0.14, 0.36)),
    ),
    TOMATO: (
        ("circle", (150, 28, 26), 0.42, (0, 0.06)),
        ("circle", (232, 62, 48), 0.35, (0, 0.06)),
        *_placed((("polygon", (60, 140, 56), 0, *_star(5, 0.26, 0.09)),), 0, -0.22, 1),
    ),
    DISH: (("circle", STEEL, 0.46, (0, 0)), ("circle", WHITE, 0.4, (0, 0)), ("circle", (214, 220, 230), 0.25, (0, 0))),
}
COUNTER_TOP = _block(WOOD, WOOD_EDGE)
BOX = ("rectangle", CRATE_EDGE, 0, (-0.4, -0.42), (0.4, 0.34)), ("rectangle", CRATE, 0, (-0.35, -0.37), (0.35, 0.29))
IN_BOX = (-0.17, -0.2), (0.17, -0.2), (-0.17, 0.11), (0.17, 0.11)
TERRAIN: dict[int, Shapes] = {
    POT: (
        *_block(STOVE, STOVE_EDGE),
        ("circle", IRON, 0.39, (0, -0.1)),
        ("rectangle", STEEL, 0, (-0.46, -0.16), (0.46, -0.04)),
        ("circle", STEEL, 0.36, (0, -0.1)),
        ("circle", IRON, 0.3, (0, -0.1)),
    ),
    COUNTER: COUNTER_TOP,
    ONIONS: COUNTER_TOP + BOX + sum((_placed(ITEMS[ONION], x, y, 0.34) for x, y in IN_BOX), ()),
    TOMATOES: COUNTER_TOP + BOX + sum((_placed(ITEMS[TOMATO], x, y, 0.34) for x, y in IN_BOX), ()),
    DISHES: COUNTER_TOP + sum((_placed(ITEMS[DISH], x, -0.04 - 1.3 * x, 0.64) for x in (-0.06, 0, 0.06)), ()),
    SERVING: (  # a bell
        *_block(HATCH, HATCH_EDGE),
        ("circle", GOLD, 0.27, (0, 0.06)),
        ("rectangle", HATCH, 0, (-0.4, 0.1), (0.4, 0.36)),
        ("rectangle", BRASS, 0, (-0.34, 0.1), (0.34, 0.18)),
        ("circle", GOLD, 0.07, (0, -0.25)),
    ),
    OUTSIDE: (),
}
TILES = tuple((("rectangle", colour, 0, (-0.5, -0.5), (0.5, 0.5)),) for colour in ((236, 228, 212), (228, 218, 199)))
FLAMES: Shapes = (("circle", ORANGE, 0.42, (0, -0.1)), *TERRAIN[POT][3:])
WAVE = (0, 0.05), (-0.035, -0.04), (0.035, -0.18), (-0.035, -0.32), (0, -0.42)
READY: Shapes = (
    *(
        ("line", WHITE, 0.05, (x + a, y), (x + b, z - 0.015))
        for x in (-0.2, -0.02)
        for (a, y), (b, z) in pairwise(WAVE)
    ),
    ("circle", WHITE, 0.18, (0.31, -0.31)),
    ("circle", GREEN, 0.155, (0.31, -0.31)),
    ("line", WHITE, 0.06, (0.22, -0.32), (0.31, -0.23)),
    ("line", WHITE, 0.06, (0.27, -0.23), (0.4, -0.38)),
)
STAR: Shapes = (("polygon", GOLD, 0, *_star(5, 0.5, 0.22)),)
CLOCK: Shapes = (
    ("circle", WHITE, 0.48, (0, 0)),
    ("circle", DARK, 0.36, (0, 0)),
    ("line", WHITE, 0.12, (0, 0.06), (0, -0.28)),
    ("line", WHITE, 0.12, (-0.06, 0), (0.24, 0)),
)
COIN: Shapes = (
    ("circle", BRASS, 0.48, (0, 0)),
    ("circle", GOLD, 0.38, (0, 0)),
    ("rectangle", BRASS, 0, (-0.07, -0.22), (0.07, 0.22)),
)
HAT = 0.1  # its middle, behind that of the chef
PUFFS = [(x, y + HAT) for x, y in _star(4, 0.17, 0.17)]


def chef_colour(number: int) -> Colour:
    """Hues that lie far apart, blue and red first; of the chefs from 8 on also darker and paler ones."""
    lightness, saturation = ((0.5, 0.85), (0.34, 0.75), (0.7, 0.8))[number // 8 % 3]
    return tuple(round(255 * part) for part in colorsys.hls_to_rgb((0.6 + number * 0.382) % 1, lightness, saturation))


@lru_cache(maxsize=128)
def _chef(number: int) -> Shapes:
    """Seen from above, facing north: hands, body, face, and hat."""
    hands, eyes = [(-0.33, -0.28), (0.33, -0.28)], [(-0.08, -0.33), (0.08, -0.33)]
    return (
        *(("circle", OUTLINE, 0.1, hand) for hand in hands),
        *(("circle", SKIN, 0.075, hand) for hand in hands),
        ("circle", OUTLINE, 0.43, (0, 0.03)),
        ("circle", chef_colour(number), 0.4, (0, 0.03)),
        ("circle", SKIN, 0.2, (0, -0.23)),
        *(("circle", INK, 0.045, eye) for eye in eyes),
        *(("circle", OUTLINE, 0.12, puff) for puff in PUFFS),
        *(("circle", WHITE, 0.1, puff) for puff in PUFFS),
        ("circle", WHITE, 0.2, (0, HAT)),
    )


@lru_cache(maxsize=256)
def _item(kind: int, onions: int, tomatoes: int) -> Shapes:
    """Of a soup: its ingredients, in a dish."""
    if kind != SOUP:
        return ITEMS[kind]
    liquid = ("circle", _soup_colour(onions, tomatoes), 0.37, (0, 0))
    return (*ITEMS[DISH], liquid, *_ingredients(onions, tomatoes, 0, 0, 0.66))


@lru_cache(maxsize=256)
def _content(onions: int, tomatoes: int, left: int) -> Shapes:
    """Of a pot whose soup has some steps left to cook: 0, ready; -1, not begun; 1 stands for all others."""
    liquid = ("circle", WATER if left < 0 else _soup_colour(onions, tomatoes), 0.3, (0, -0.1))
    sign = READY if left == 0 else ()
    return (*(FLAMES if left > 0 else ()), liquid, *_ingredients(onions, tomatoes, 0, -0.1, 0.52), *sign)


def _ingredients(onions: int, tomatoes: int, x: float, y: float, size: float) -> Shapes:
    """In rows that fill a square."""
    kinds = [ONION] * onions + [TOMATO] * tomatoes
    per_row = max(1, ceil(sqrt(len(kinds))))
    rows = [kinds[i : i + per_row] for i in range(0, len(kinds), per_row)]
    pitch = size / max(per_row, 1.6)
    places = [
        (kind, x + pitch * (i - (len(row) - 1) / 2), y + pitch * (j - (len(rows) - 1) / 2))
        for j, row in enumerate(rows)
        for i, kind in enumerate(row)
    ]
    return sum((_placed(ITEMS[kind], px, py, pitch) for kind, px, py in places), ())


def _soup_colour(onions: int, tomatoes: int) -> Colour:
    return mixed(ONION_SOUP, TOMATO_SOUP, tomatoes / max(1, onions + tomatoes))


@lru_cache(maxsize=4096)
def _sprite(shapes: Shapes, cell: int, facing: Point) -> Sprite:
    """Shapes with ``cell`` pixels for a cell, turned so that their north is where ``facing`` points."""
    side, (fx, fy) = 2 * ceil(0.6 * cell), facing

    def draw(canvas: Scene) -> None:
        for kind, colour, size, *points in shapes:
            at = [(side / 2 - (x * fy + y * fx) * cell, side / 2 + (x * fx - y * fy) * cell) for x, y in points]
            if kind == "circle":
                canvas.circle(at[0], size * cell, colour)
            elif kind == "line":
                canvas.line(at[0], at[1], size * cell, colour)
            elif kind == "rectangle":
                canvas.rectangle(at[0], at[1], colour)
            else:
                canvas.polygon(at, colour)

    return Sprite(side, side, draw)


def _stamp(canvas: Scene, centre: Point, cell: float, shapes: Shapes, facing: Point = (0, -1)) -> None:
    canvas.stamp(_sprite(shapes, round(cell), facing), centre)


# ---- the picture -----------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """Where things are in a picture, in pixels."""

    width: int
    height: int
    cell: int
    left: int  # of the kitchen
    top: int
    rows: int

    def centre(self, cell: int) -> Point:
        x, y = divmod(int(cell), self.rows)
        return self.left + (x + 0.5) * self.cell, self.top + (y + 0.5) * self.cell


def draw(world: Mapping[str, np.ndarray], layout: Layout, *, horizon: int) -> Scene:
    """A picture of one world; height and width are even.

    Args:
        world: all columns of the world by name, as ``Environment.scene`` gets them.
        layout: of this world, with orders, pay and cook times.
        horizon: steps of an episode.
    """
    columns, rows = world["Chef.View.layers"].shape[1:3]
    cell = max(12, min(CELL, WIDEST // columns, HIGHEST // rows) // 2 * 2)
    width = max(NARROWEST, columns * cell)
    cards = _cards(layout, width)
    top = SCORE + BAR + GAP + (max((card.row for card in cards), default=-1) + 1) * (CARD + GAP)
    frame = Frame(width, top + rows * cell, cell, (width - columns * cell) // 2, top, rows)

    canvas = Scene(frame.width, frame.height, DARK)
    _draw_score(canvas, world, horizon)
    for card in cards:
        _draw_card(canvas, card)
    _draw_cells(canvas, frame, world, layout)
    _draw_chefs(canvas, frame, world)
    return canvas


def _draw_score(canvas: Scene, world: Mapping[str, np.ndarray], horizon: int) -> None:
    width, step, y = canvas.width, int(world["Kitchen.timestep"]), SCORE / 2
    pay = float(world["Chef.SparseReward.value"].sum())
    texts = f"{world['Chef.SparseReturn.value'].sum():g}", f"{pay:+g}" if pay else "", f"{step}/{horizon}"
    scale = 2 if sum(text_width(text, 2) for text in texts) + 72 <= width else 1
    colour = RED if horizon - step < URGENT else WHITE
    _stamp(canvas, (16, y), 18, COIN)
    canvas.text((28, y), texts[0], GOLD, scale)
    canvas.text((36 + text_width(texts[0], scale), y), texts[1], (110, 230, 120), scale)
    canvas.text((width - 28, y), texts[2], colour, scale, align=1.0)
    _stamp(canvas, (width - 16, y), 18, CLOCK)
    canvas.rectangle((6, SCORE), (width - 6, SCORE + BAR), GREY)
    canvas.rectangle((6, SCORE), (6 + round((width - 12) * min(1.0, step / horizon)), SCORE + BAR), colour)


def _draw_cells(canvas: Scene, frame: Frame, world: Mapping[str, np.ndarray], layout: Layout) -> None:
    items, left = _items(world, "Cell"), world["Cell.Cooking.left"].tolist()
    for number, kind in enumerate(world["Cell.Terrain.kind"].tolist()):
        at = frame.centre(number)
        canvas.row("Cell", number)
        tile = TILES[sum(divmod(number, frame.rows)) % 2]
        _stamp(canvas, at, frame.cell, tile if kind == FLOOR else TERRAIN[kind])
        if items[number][0] == NOTHING:
            continue
        if kind == POT:
            _draw_soup(canvas, at, frame.cell, items[number], left[number], layout)
        else:
            _stamp(canvas, at, 0.56 * frame.cell, _item(*items[number]))


def _draw_soup(canvas: Scene, at: Point, cell: int, soup: Item, left: int, layout: Layout) -> None:
    """In a pot; below it a strip with the bar, and with words if they fit."""
    _, onions, tomatoes = soup
    _stamp(canvas, at, cell, _content(onions, tomatoes, min(left, 1)))
    height, (x, bottom) = (11 if cell >= 24 else cell // 5), (at[0] - cell / 2, at[1] + cell / 2)
    done = 0 if left < 0 else 1 - left / max(1, left, int(layout.cook_times[onions, tomatoes]))
    canvas.rectangle((x, bottom - height), (x + cell, bottom), DARK)
    canvas.rectangle((x, bottom - height), (x + round(cell * done), bottom), GREEN)
    text = {0: "READY", -1: f"{onions + tomatoes}/{layout.max_ingredients}"}.get(left, str(left))
    if height == 11 and text_width(text) <= cell:
        canvas.text((at[0], bottom - height / 2), text, WHITE, align=0.5)


def _draw_chefs(canvas: Scene, frame: Frame, world: Mapping[str, np.ndarray]) -> None:
    cell, held = frame.cell, _items(world, "Chef")
    places = [frame.centre(place) for place in world["Chef.Place.cell"]]
    facings = [tuple(DIRECTIONS)[facing] for facing in world["Chef.Place.facing"]]
    for number, ((x, y), (fx, fy)) in enumerate(zip(places, facings, strict=True)):
        canvas.row("Chef", number)
        _stamp(canvas, (x, y), cell, _chef(number), (fx, fy))
        scale = 2 if cell >= 44 and number < 10 else 1
        canvas.text((x - HAT * cell * fx, y - HAT * cell * fy), str(number), INK, scale, align=0.5)
    for number, ((x, y), (fx, fy), item) in enumerate(zip(places, facings, held, strict=True)):  # over all chefs
        if item[0] != NOTHING:
            canvas.row("Chef", number)
            _stamp(canvas, (x + 0.37 * cell * fx, y + 0.37 * cell * fy), 0.48 * cell, _item(*item))


def _items(world: Mapping[str, np.ndarray], of: str) -> list[Item]:
    """The item in each cell, or in each chef's hands."""
    return list(zip(*(world[f"{of}.Item.{field}"].tolist() for field in ("kind", "onions", "tomatoes")), strict=True))


# ---- orders ----------------------------------------------------------------------------------------------------------


class Card(NamedTuple):
    """An order, and its place in the picture."""

    ingredients: tuple[int, ...]  # kinds
    pay: str
    bonus: bool
    row: int
    left: int  # pixels
    width: int


def _cards(layout: Layout, width: int) -> list[Card]:
    """Side by side, in rows."""
    cards: list[Card] = []
    row, left = 0, 6
    for order in layout.orders:
        ingredients = (ONION,) * order[0] + (TOMATO,) * order[1]
        bonus, pay = order in layout.bonus_orders, f"{layout.values[order]:g}"
        needs = 14 + (ICON - 2) * len(ingredients) + text_width(pay) + 16 * bonus
        if left + needs > width - 6 and left > 6:
            row, left = row + 1, 6
        cards.append(Card(ingredients, pay, bonus, row, left, needs))
        left += needs + GAP
    return cards


def _draw_card(canvas: Scene, card: Card) -> None:
    top = SCORE + BAR + GAP + card.row * (CARD + GAP)
    colour = (86, 74, 40) if card.bonus else (60, 64, 80)
    canvas.rectangle((card.left, top), (card.left + card.width, top + CARD), colour)
    x, y = card.left + 4, top + CARD / 2
    for kind in card.ingredients:
        _stamp(canvas, (x + ICON / 2, y), ICON, ITEMS[kind])
        x += ICON - 2
    canvas.text((x + 6, y), card.pay, GOLD if card.bonus else WHITE)
    if card.bonus:
        _stamp(canvas, (card.left + card.width - 10, y), 13, STAR)
