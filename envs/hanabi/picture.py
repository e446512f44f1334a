"""The picture of a game.

Above: score, and whether the game is over or how many turns are left; tokens and the deck; fireworks,
as stacks; discards, each beside the others of its kind. Below: the hands, oldest cards to the left, that of the player
to move in gold. Under each card is its holder's knowledge from reveals: plausible colours and ranks, in gold those
revealed of this very card. The last line is the last move; its cards have a gold edge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from itertools import pairwise
from math import ceil, cos, radians, sin
from typing import NamedTuple

import numpy as np

from torch_batchsim.draw import Colour, Point, Sprite, mixed, text_width
from torch_batchsim.draw import Scene as Drawing

from .rules import Rules
from .scene import LETTERS, Scene

# ---- cards and tokens ------------------------------------------------------------------------------------------------

NIGHT, PANEL, LIT, PLATE, GHOST, FAINT = (
    (17, 20, 36),
    (31, 36, 58),
    (42, 48, 78),
    (21, 25, 43),
    (58, 64, 94),
    (84, 92, 126),
)
WHITE, PALE, INK, GOLD = (255, 255, 255), (158, 168, 200), (30, 28, 36), (255, 200, 66)
RED, AZURE, BACK = (236, 76, 70), (96, 184, 240), (90, 78, 160)
COLORS = (214, 54, 56), (244, 198, 44), (46, 160, 84), (238, 238, 232), (48, 108, 216)
WIDTH, HEIGHT, SMALL = 52, 70, (14, 18)  # pixels: a card; one among the discards
MARKS, PITCH = (68, 41), 12  # pixels: the marks below a card, and from mark to mark


def _arc(x: float, y: float, radius: float, start: float, end: float) -> list[Point]:
    angles = [radians(start + (end - start) * i / 12) for i in range(13)]  # 0 to the right, 90 down
    return [(x + radius * cos(a), y + radius * sin(a)) for a in angles]


DIGITS: tuple[list[Point], ...] = (  # the stroke of a pen, 1 high
    [(-0.22, -0.28), (0.06, -0.5), (0.06, 0.5)],
    [*_arc(0, -0.21, 0.29, 185, 395), (-0.3, 0.5), (0.31, 0.5)],
    [*_arc(-0.03, -0.25, 0.25, 200, 440), *_arc(-0.03, 0.22, 0.28, 280, 520)],
    [(0.15, 0.5), (0.15, -0.5), (-0.32, 0.2), (0.34, 0.2)],
    [(0.26, -0.5), (-0.2, -0.5), *_arc(-0.02, 0.18, 0.32, 222, 500)],
)


def _ink(color: int) -> Colour:
    """The colour of writing on a card."""
    return INK if LETTERS[color] in "YW" else WHITE


def _rounded(canvas: Drawing, corner: Point, opposite: Point, radius: float, colour: Colour) -> None:
    (left, top), (right, bottom) = corner, opposite
    canvas.rectangle((left + radius, top), (right - radius, bottom), colour)
    canvas.rectangle((left, top + radius), (right, bottom - radius), colour)
    for x in (left + radius, right - radius):
        for y in (top + radius, bottom - radius):
            canvas.circle((x, y), radius - 0.5, colour)


@lru_cache(maxsize=256)
def _box(width: int, height: int, fill: Colour, edge: Colour, thick: int, radius: int = 6) -> Sprite:
    def draw(canvas: Drawing) -> None:
        _rounded(canvas, (0, 0), (width, height), radius, edge)
        _rounded(canvas, (thick, thick), (width - thick, height - thick), max(1, radius - thick), fill)

    return Sprite(width, height, draw)


@lru_cache(maxsize=64)
def _face(color: int, rank: int) -> Sprite:
    """A burst of the colour, with the rank on it and the colour's letter below."""
    colour, middle = COLORS[color], (WIDTH / 2, 30)

    def draw(canvas: Drawing) -> None:
        _rounded(canvas, (0, 0), (WIDTH, HEIGHT), 7, mixed(colour, INK, 0.5))
        _rounded(canvas, (2, 2), (WIDTH - 2, HEIGHT - 2), 5, colour)
        light = mixed(colour, INK, 0.12) if LETTERS[color] == "W" else mixed(colour, WHITE, 0.22)
        for ray in range(12):
            x, y = cos(radians(30 * ray)), sin(radians(30 * ray))
            tip = 22 if ray % 2 else 17
            canvas.line((middle[0] + 9 * x, middle[1] + 9 * y), (middle[0] + tip * x, middle[1] + tip * y), 2, light)
            canvas.circle((middle[0] + tip * x, middle[1] + tip * y), 2, light)
        points = [(middle[0] + 32 * x, middle[1] + 32 * y) for x, y in DIGITS[rank]]
        for start, end in pairwise(points):
            canvas.line(start, end, 6, _ink(color))
        for point in points:
            canvas.circle(point, 2.75, _ink(color))
        canvas.text((WIDTH / 2, HEIGHT - 10), LETTERS[color], _ink(color), align=0.5)

    return Sprite(WIDTH, HEIGHT, draw)


@lru_cache(maxsize=1024)
def _marks(some_colors: int, some_ranks: int, revealed: int, colors: int, ranks: int) -> Sprite:
    """Knowledge of a card: a row for colours, a row for ranks."""

    def draw(canvas: Drawing) -> None:
        canvas.stamp(_box(*MARKS, PLATE, PLATE, 1), (MARKS[0] / 2, MARKS[1] / 2))
        for color in range(colors):
            at = MARKS[0] / 2 + (color - (colors - 1) / 2) * PITCH, 10
            if some_colors >> color & 1:
                if revealed & 1:
                    canvas.circle(at, 8, GOLD)
                    canvas.circle(at, 6, PLATE)
                canvas.circle(at, 4.5, COLORS[color])
            else:
                canvas.circle(at, 1.5, GHOST)
        for rank in range(ranks):
            at = MARKS[0] / 2 + (rank - (ranks - 1) / 2) * PITCH, 29
            if some_ranks >> rank & 1:
                if revealed & 2:
                    canvas.stamp(_box(16, 20, GOLD, GOLD, 1, 4), at)
                canvas.text(at, str(rank + 1), INK if revealed & 2 else PALE, 2, align=0.5)
            else:
                canvas.circle(at, 1.5, GHOST)

    return Sprite(*MARKS, draw)


@lru_cache(maxsize=8)
def _disc(colour: Colour, there: bool) -> Sprite:
    def draw(canvas: Drawing) -> None:
        canvas.circle((8, 8), 7, mixed(colour, INK, 0.45) if there else GHOST)
        canvas.circle((8, 8), 5, colour if there else PANEL)
        if there:
            canvas.circle((5.5, 5.5), 1.75, mixed(colour, WHITE, 0.6))

    return Sprite(16, 16, draw)


# ---- the picture -----------------------------------------------------------------------------------------------------

GAP, PAD, TITLE, HEADER, FOOTER = 8, 12, 36, 44, 36  # pixels: between and in panels; heights
SLOT, PEEK, STACK = 74, 7, 60  # pixels: from card to card; the visible part of one under the next; from stack to stack
LINE = HEIGHT + MARKS[1] + 16  # pixels: of cards with their marks
COPY, ROW, APART = 18, 22, 4  # pixels: from discard to discard, and between ranks
TWO, ONE = 6, 13  # cards: up to here two hands are side by side; up to here a hand is one line


class Area(NamedTuple):
    """A part of the picture, in pixels."""

    left: int
    top: int
    width: int
    height: int


@lru_cache(maxsize=1)
def _back() -> Sprite:
    def draw(canvas: Drawing) -> None:
        canvas.stamp(_box(WIDTH, HEIGHT, BACK, mixed(BACK, WHITE, 0.6), 2, 7), (WIDTH / 2, HEIGHT / 2))
        canvas.text((WIDTH / 2, HEIGHT / 2), "?", mixed(BACK, WHITE, 0.6), 3, align=0.5)

    return Sprite(WIDTH, HEIGHT, draw)


def draw(world: Mapping[str, np.ndarray], rules: Rules, hidden: Collection[int] = ()) -> Drawing:
    """A picture of one world; height and width are even and follow from the rules.

    ``world`` has all columns by name, as ``Environment.scene`` gets them. Of the players ``hidden``, until the game is
    over, it shows the backs of the cards.
    """
    scene = Scene(world, rules)
    side_by_side = 2 if rules.hand_size <= TWO else 1
    lines = ceil(rules.hand_size / ONE)
    hand_width, hand_height = ceil(rules.hand_size / lines) * SLOT + 2 * PAD, TITLE + lines * LINE
    discards_width = sum(rules.copies) * COPY + (rules.ranks - 1) * APART + 2 * PAD
    widths = [226, max(rules.colors * STACK, 108) + 2 * PAD, max(discards_width, 96 + 2 * PAD)]
    table = TITLE + PAD + max(90, HEIGHT + (rules.ranks - 1) * PEEK, rules.colors * ROW)
    width = max(sum(widths) + 4 * GAP, side_by_side * (hand_width + GAP) + GAP) // 2 * 2
    rows = [range(p, min(p + side_by_side, rules.players)) for p in range(0, rules.players, side_by_side)]
    height = (HEADER + table + GAP + len(rows) * (hand_height + GAP) + FOOTER) // 2 * 2

    canvas = Drawing(width, height, NIGHT)
    _draw_header(canvas, scene)
    _draw_footer(canvas, scene)
    left, spare = GAP, (width - sum(widths) - 4 * GAP) // 3
    for part, own in zip((_draw_tokens, _draw_fireworks, _draw_discards), widths, strict=True):
        _lay(canvas, (left, HEADER), _box(own + spare, table, PANEL, PANEL, 1))
        part(canvas, scene, Area(left + PAD, HEADER, own + spare - 2 * PAD, table))
        left += own + spare + GAP
    for row, of in enumerate(rows):
        share = (width - GAP) // len(of)
        for column, player in enumerate(of):
            area = Area(
                GAP + column * share, HEADER + table + GAP + row * (hand_height + GAP), share - GAP, hand_height
            )
            _draw_hand(canvas, scene, player, area, lines, player in hidden and not scene.over)
    return canvas


def _lay(canvas: Drawing, corner: Point, sprite: Sprite) -> None:
    width, height = sprite.scene.width, sprite.scene.height
    canvas.stamp(sprite, (corner[0] + width / 2, corner[1] + height / 2))


def _draw_header(canvas: Drawing, scene: Scene) -> None:
    width, y = canvas.width, HEADER / 2
    if scene.over:
        canvas.rectangle((0, 0), (width, HEADER - GAP), (120, 30, 44))
        y -= GAP / 2
    canvas.text((GAP + PAD, y), f"Score {scene.score}", GOLD, 3)
    canvas.text((width - GAP - PAD, y), scene.end, WHITE if scene.over else RED, 2, align=1)


def _draw_footer(canvas: Drawing, scene: Scene) -> None:
    width, height = canvas.width, canvas.height
    words = "Last move: " + scene.last_move.replace("player ", "P")
    scale = 2 if text_width(words, 2) <= width - 2 * (GAP + PAD) else 1
    canvas.text((GAP + PAD, height - FOOTER / 2 - 2), words, WHITE, scale)


def _draw_tokens(canvas: Drawing, scene: Scene, area: Area) -> None:
    rules = scene.rules
    tokens = (
        ("Info", scene.information, rules.max_information_tokens, AZURE),
        ("Lives", scene.lives, rules.max_life_tokens, RED),
    )
    y, step = area.top + area.height / 6, area.height / 3
    for title, there, most, colour in tokens:
        canvas.text((area.left, y), title, PALE, 2)
        for number in range(most if most <= 8 else 0):
            canvas.stamp(_disc(colour, number < there), (area.left + 75 + 17 * number, y))
        if most > 8:
            canvas.stamp(_disc(colour, there > 0), (area.left + 75, y))
            canvas.text((area.left + 90, y), f"{there}/{most}", WHITE, 2)
        y += step
    canvas.text((area.left, y), "Deck", PALE, 2)
    for under in range(min(3, scene.deck)):
        canvas.stamp(_box(18, 24, BACK, mixed(BACK, WHITE, 0.6), 2, 3), (area.left + 75 + 3 * under, y - 2 * under))
    canvas.text((area.left + 98, y), str(scene.deck), WHITE if scene.deck else RED, 2)


def _draw_fireworks(canvas: Drawing, scene: Scene, area: Area) -> None:
    canvas.text((area.left, area.top + TITLE / 2), "Fireworks", PALE, 2)
    first = area.left + (area.width - (scene.rules.colors - 1) * STACK) / 2
    for color, played in enumerate(scene.fireworks):
        x, y = first + color * STACK, area.top + TITLE + HEIGHT / 2
        if played == 0:
            canvas.stamp(_box(WIDTH, HEIGHT, PLATE, mixed(COLORS[color], PANEL, 0.6), 2), (x, y))
            canvas.text((x, y), LETTERS[color], mixed(COLORS[color], PANEL, 0.4), 2, align=0.5)
        if scene.last["scored"] and scene.last["kind"] == color * scene.rules.ranks + played - 1:
            under = (played - 1) * PEEK
            canvas.stamp(_box(WIDTH + 8, HEIGHT + 8 + under, PANEL, GOLD, 3, 9), (x, y + under / 2))
        for rank in range(played):
            canvas.stamp(_face(color, rank), (x, y + rank * PEEK))


def _draw_discards(canvas: Drawing, scene: Scene, area: Area) -> None:
    canvas.text((area.left, area.top + TITLE / 2), "Discards", PALE, 2)
    copies = scene.rules.copies
    first = area.left + (area.width - sum(copies) * COPY - (len(copies) - 1) * APART + COPY) / 2
    for color, counts in enumerate(scene.discards):
        x, y = first, area.top + TITLE + (color + 0.5) * ROW
        for rank, count in enumerate(counts):
            kind = color * len(copies) + rank
            for copy in range(copies[rank]):
                there = copy < count
                if there and copy == count - 1 and scene.last["kind"] == kind and not scene.last["scored"]:
                    canvas.stamp(_box(SMALL[0] + 6, SMALL[1] + 6, PANEL, GOLD, 2, 5), (x, y))
                fill, edge = (COLORS[color],) * 2 if there else (PLATE, mixed(COLORS[color], PANEL, 0.65))
                canvas.stamp(_box(*SMALL, fill, edge, 1, 3), (x, y))
                canvas.text((x, y), str(rank + 1), _ink(color) if there else FAINT, align=0.5)
                x += COPY
            x += APART


def _draw_hand(canvas: Drawing, scene: Scene, player: int, area: Area, lines: int, is_hidden: bool) -> None:
    moves = player == scene.mover and not scene.over
    fill, edge = (LIT, GOLD) if moves else (PANEL, PANEL)
    _lay(canvas, (area.left, area.top), _box(int(area.width), int(area.height), fill, edge, 2))
    y = area.top + TITLE / 2 + 2
    canvas.text((area.left + PAD, y), f"Player {player}", GOLD if moves else PALE, 2)
    if moves:
        x = area.left + area.width - PAD
        canvas.text((x, y), "to move", GOLD, 2, align=1)
        x -= text_width("to move", 2) + 20
        canvas.polygon([(x, y - 7), (x, y + 7), (x + 11, y)], GOLD)
    hand = scene.hands[player]
    per_line = ceil(len(hand) / lines)
    first = area.left + (area.width - (per_line - 1) * SLOT) / 2
    for position, card in enumerate(hand):
        line, column = divmod(position, per_line)
        x, y = first + column * SLOT, area.top + TITLE + line * LINE + HEIGHT / 2
        canvas.row("Held", player * scene.rules.hand_size + position)
        if card is None:
            canvas.stamp(_box(WIDTH, HEIGHT, PLATE, GHOST, 1), (x, y))
            continue
        if scene.was_revealed(player, position):
            canvas.stamp(_box(WIDTH + 8, HEIGHT + 8, fill, GOLD, 3, 9), (x, y))
        canvas.stamp(_back() if is_hidden else _face(card.color, card.rank), (x, y))
        marks = _marks(card.colors, card.ranks, card.revealed, scene.rules.colors, scene.rules.ranks)
        canvas.stamp(marks, (x, y + HEIGHT / 2 + 8 + MARKS[1] / 2))
    canvas.row()
