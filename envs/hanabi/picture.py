"""The picture and the text of a game: everything, also what the players do not see.

In the picture, above: score, and whether the game is over or how many turns are left; tokens and the deck; fireworks,
as stacks; discards, each beside the others of its kind. Below: the hands, oldest cards to the left, that of the player
to move in gold. Under each card is what its holder can know of it by reveals: colours and ranks that are plausible, in
gold what was revealed of this very card. The last line is the last move; the cards that it was about have a gold edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from math import ceil, cos, radians, sin
from typing import NamedTuple

import numpy as np

from torch_batchsim.draw import Canvas, Colour, Point, Sprite, text_width

from .codes import Absent, MoveType, Revealed
from .rules import Rules

NONE = Absent.NONE
PLAY, DISCARD, REVEAL_COLOR, REVEAL_RANK = MoveType
LETTERS, NAMES = "RYGWB", ("red", "yellow", "green", "white", "blue")

# ---- what there is to show -------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A card in a hand, and what is known of it."""

    color: int
    rank: int
    colors: int  # bits of those that are plausible
    ranks: int
    revealed: int  # bits of Revealed

    @property
    def knowledge(self) -> str:
        """As in the reference's states: colour and rank that were revealed, or X; then those that are plausible."""
        color = LETTERS[self.color] if self.revealed & Revealed.COLOR_REVEALED else "X"
        rank = str(self.rank + 1) if self.revealed & Revealed.RANK_REVEALED else "X"
        colors = "".join(letter for bit, letter in enumerate(LETTERS) if self.colors >> bit & 1)
        return f"{color}{rank}|{colors}{''.join(str(bit + 1) for bit in range(5) if self.ranks >> bit & 1)}"


class Scene:
    """The columns of a world as plain numbers."""

    def __init__(self, world: Mapping[str, np.ndarray], rules: Rules) -> None:
        self.rules = rules
        self.fireworks: list[int] = [min(played, rules.ranks) for played in world["Table.fireworks"].tolist()]
        numbers = ("information", "lives", "mover", "left", "over")
        self.information, self.lives, self.mover, self.left, self.over = (int(world[f"Table.{n}"]) for n in numbers)
        self.deck = rules.cards - int(world["Table.dealt"])
        self.last = {key.removeprefix("Last."): int(world[key]) for key in world if key.startswith("Last.")}

        bits, self.discards = int(world["Table.discards"]) & (1 << rules.cards) - 1, []  # how many, [colour][rank]
        for _ in range(rules.colors):
            self.discards.append([])
            for copies in rules.copies:
                self.discards[-1].append((bits & (1 << copies) - 1).bit_count())
                bits >>= copies

        last_kind = rules.kinds - 1  # what somebody has written into the state may be anything
        if not _is_a_move(self.last, rules):
            self.last = dict.fromkeys(self.last, NONE) | {"scored": 0, "token": 0, "outcome": 0}
        cards = zip(*(world[f"Held.Card.{n}"].tolist() for n in ("kind", "colors", "ranks", "revealed")), strict=True)
        held = [
            None if kind == NONE else Held(*divmod(min(kind, last_kind), rules.ranks), *known) for kind, *known in cards
        ]
        self.hands = [held[first : first + rules.hand_size] for first in range(0, len(held), rules.hand_size)]

    @property
    def score(self) -> str:
        return f"{sum(self.fireworks) if self.lives else 0}/{self.rules.kinds}"

    @property
    def end(self) -> str:
        """What there is to say of the end of the game, if anything."""
        if not self.over:
            return f"Turns left: {self.left}" if self.deck == 0 else ""
        if self.lives == 0:
            return "Game over: no life left"
        return "Game over: " + ("all is played" if sum(self.fireworks) == self.rules.kinds else "no turn left")

    def was_revealed(self, player: int, position: int) -> bool:
        """Whether the last move was a reveal that applies to this card."""
        card, last = self.hands[player][position], self.last
        if card is None or last["target"] != player:
            return False
        if position < 8:  # of those further behind, the state keeps nothing
            return bool(last["outcome"] >> position & 1)
        return card.color == last["color"] or card.rank == last["rank"]

    @property
    def last_move(self) -> str:
        last = self.last
        if last["player"] == NONE:
            return "none"
        who = f"player {last['player']}"
        if last["type"] in (PLAY, DISCARD):
            verb = "played" if last["type"] == PLAY else "discarded"
            color, rank = divmod(last["kind"], self.rules.ranks)
            result = (": scored" if last["scored"] else ": a life lost") if last["type"] == PLAY else ""
            token = ", token back" if last["token"] else ""
            return f"{who} {verb} {_name(color, rank)} (card {last['position']}){result}{token}"
        target = last["target"]
        what = NAMES[last["color"]] if last["type"] == REVEAL_COLOR else f"rank {last['rank'] + 1}"
        cards = [str(i) for i in range(self.rules.hand_size) if self.was_revealed(target, i)]
        return f"{who} revealed {what} to player {target}: card{'s' * (len(cards) > 1)} {' '.join(cards)}"


def _is_a_move(last: Mapping[str, int], rules: Rules) -> bool:
    if last["type"] in (PLAY, DISCARD):
        return last["kind"] < rules.kinds
    value, values = (last["color"], rules.colors) if last["type"] == REVEAL_COLOR else (last["rank"], rules.ranks)
    return last["type"] in (REVEAL_COLOR, REVEAL_RANK) and last["target"] < rules.players and value < values


def text(world: Mapping[str, np.ndarray], rules: Rules) -> str:
    """A text of one world, much like the reference's states; ``world`` has its columns, as ``Environment.render``.

    A card is ``G3 || GX|G12345``: what it is; its colour and its rank if they were revealed, or X; and what is
    plausible to its holder. Players and positions in a hand count from 0.
    """
    scene = Scene(world, rules)

    def hands() -> Iterator[str]:
        for player, hand in enumerate(scene.hands):
            yield f"Player {player}" + (", to move" if player == scene.mover and not scene.over else "")
            yield from (f"{_name(card.color, card.rank)} || {card.knowledge}" for card in hand if card is not None)
            yield "-----"

    heights = (_name(color, height - 1) for color, height in enumerate(scene.fireworks))
    discards = (
        _name(color, rank)
        for color, counts in enumerate(scene.discards)
        for rank, count in enumerate(counts)
        for _ in range(count)
    )
    lines = [
        f"Score: {scene.score}",
        f"Life tokens: {scene.lives}/{rules.max_life_tokens}",
        f"Info tokens: {scene.information}/{rules.max_information_tokens}",
        f"Fireworks: {' '.join(heights)}",
        "Hands:",
        *hands(),
        f"Deck size: {scene.deck}",
        f"Discards: {' '.join(discards)}".rstrip(),
        f"Last move: {scene.last_move}",
        *([scene.end] if scene.end else []),
    ]
    return "\n".join(lines)


def _name(color: int, rank: int) -> str:
    return f"{LETTERS[color]}{rank + 1}"


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
MARKS, PITCH = (68, 41), 12  # pixels: what is below a card, and from mark to mark there


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


def _mixed(colour: Colour, other: Colour, share: float) -> Colour:
    return tuple(round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))


def _ink(color: int) -> Colour:
    """What is written with on a card."""
    return INK if LETTERS[color] in "YW" else WHITE


def _rounded(canvas: Canvas, corner: Point, opposite: Point, radius: float, colour: Colour) -> None:
    (left, top), (right, bottom) = corner, opposite
    canvas.rectangle((left + radius, top), (right - radius, bottom), colour)
    canvas.rectangle((left, top + radius), (right, bottom - radius), colour)
    for x in (left + radius, right - radius):
        for y in (top + radius, bottom - radius):
            canvas.circle((x, y), radius - 0.5, colour)


@lru_cache(maxsize=256)
def _box(width: int, height: int, fill: Colour, edge: Colour, thick: int, radius: int = 6) -> Sprite:
    def draw(canvas: Canvas) -> None:
        _rounded(canvas, (0, 0), (width, height), radius, edge)
        _rounded(canvas, (thick, thick), (width - thick, height - thick), max(1, radius - thick), fill)

    return Sprite(width, height, draw)


@lru_cache(maxsize=64)
def _face(color: int, rank: int) -> Sprite:
    """A burst of the colour, with the rank on it and the colour's letter below."""
    colour, middle = COLORS[color], (WIDTH / 2, 30)

    def draw(canvas: Canvas) -> None:
        _rounded(canvas, (0, 0), (WIDTH, HEIGHT), 7, _mixed(colour, INK, 0.5))
        _rounded(canvas, (2, 2), (WIDTH - 2, HEIGHT - 2), 5, colour)
        light = _mixed(colour, INK, 0.12) if LETTERS[color] == "W" else _mixed(colour, WHITE, 0.22)
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
    """What is known of a card: a row for colours, a row for ranks."""

    def draw(canvas: Canvas) -> None:
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
    def draw(canvas: Canvas) -> None:
        canvas.circle((8, 8), 7, _mixed(colour, INK, 0.45) if there else GHOST)
        canvas.circle((8, 8), 5, colour if there else PANEL)
        if there:
            canvas.circle((5.5, 5.5), 1.75, _mixed(colour, WHITE, 0.6))

    return Sprite(16, 16, draw)


# ---- the picture -----------------------------------------------------------------------------------------------------

GAP, PAD, TITLE, HEADER, FOOTER = 8, 12, 36, 44, 36  # pixels: between and in panels; heights
SLOT, PEEK, STACK = 74, 7, 60  # pixels: from card to card; what is seen of one under the next, and from stack to stack
LINE = HEIGHT + MARKS[1] + 16  # pixels: of cards with their marks
COPY, ROW, APART = 18, 22, 4  # pixels: from discard to discard, and between ranks
TWO, ONE = 6, 13  # cards: up to here two hands are side by side; up to here a hand is one line


class Area(NamedTuple):
    """A part of the picture, in pixels."""

    left: int
    top: int
    width: int
    height: int


def draw(world: Mapping[str, np.ndarray], rules: Rules) -> np.ndarray:
    """A picture ``uint8 [height, width, 3]`` of one world; height and width are even and follow from the rules.

    ``world`` has all columns by name, as ``Environment.render`` gets them.
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

    canvas = Canvas(width, height, NIGHT)
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
            _draw_hand(canvas, scene, player, area, lines)
    return canvas.pixels


def _lay(canvas: Canvas, corner: Point, sprite: Sprite) -> None:
    height, width = sprite.colours.shape[:2]
    canvas.stamp(sprite, (corner[0] + width / 2, corner[1] + height / 2))


def _draw_header(canvas: Canvas, scene: Scene) -> None:
    width, y = canvas.pixels.shape[1], HEADER / 2
    if scene.over:
        canvas.rectangle((0, 0), (width, HEADER - GAP), (120, 30, 44))
        y -= GAP / 2
    canvas.text((GAP + PAD, y), f"Score {scene.score}", GOLD, 3)
    canvas.text((width - GAP - PAD, y), scene.end, WHITE if scene.over else RED, 2, align=1)


def _draw_footer(canvas: Canvas, scene: Scene) -> None:
    height, width = canvas.pixels.shape[:2]
    words = "Last move: " + scene.last_move.replace("player ", "P")
    scale = 2 if text_width(words, 2) <= width - 2 * (GAP + PAD) else 1
    canvas.text((GAP + PAD, height - FOOTER / 2 - 2), words, WHITE, scale)


def _draw_tokens(canvas: Canvas, scene: Scene, area: Area) -> None:
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
        canvas.stamp(_box(18, 24, BACK, _mixed(BACK, WHITE, 0.6), 2, 3), (area.left + 75 + 3 * under, y - 2 * under))
    canvas.text((area.left + 98, y), str(scene.deck), WHITE if scene.deck else RED, 2)


def _draw_fireworks(canvas: Canvas, scene: Scene, area: Area) -> None:
    canvas.text((area.left, area.top + TITLE / 2), "Fireworks", PALE, 2)
    first = area.left + (area.width - (scene.rules.colors - 1) * STACK) / 2
    for color, played in enumerate(scene.fireworks):
        x, y = first + color * STACK, area.top + TITLE + HEIGHT / 2
        if played == 0:
            canvas.stamp(_box(WIDTH, HEIGHT, PLATE, _mixed(COLORS[color], PANEL, 0.6), 2), (x, y))
            canvas.text((x, y), LETTERS[color], _mixed(COLORS[color], PANEL, 0.4), 2, align=0.5)
        if scene.last["scored"] and scene.last["kind"] == color * scene.rules.ranks + played - 1:
            under = (played - 1) * PEEK
            canvas.stamp(_box(WIDTH + 8, HEIGHT + 8 + under, PANEL, GOLD, 3, 9), (x, y + under / 2))
        for rank in range(played):
            canvas.stamp(_face(color, rank), (x, y + rank * PEEK))


def _draw_discards(canvas: Canvas, scene: Scene, area: Area) -> None:
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
                fill, edge = (COLORS[color],) * 2 if there else (PLATE, _mixed(COLORS[color], PANEL, 0.65))
                canvas.stamp(_box(*SMALL, fill, edge, 1, 3), (x, y))
                canvas.text((x, y), str(rank + 1), _ink(color) if there else FAINT, align=0.5)
                x += COPY
            x += APART


def _draw_hand(canvas: Canvas, scene: Scene, player: int, area: Area, lines: int) -> None:
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
        if card is None:
            canvas.stamp(_box(WIDTH, HEIGHT, PLATE, GHOST, 1), (x, y))
            continue
        if scene.was_revealed(player, position):
            canvas.stamp(_box(WIDTH + 8, HEIGHT + 8, fill, GOLD, 3, 9), (x, y))
        canvas.stamp(_face(card.color, card.rank), (x, y))
        marks = _marks(card.colors, card.ranks, card.revealed, scene.rules.colors, scene.rules.ranks)
        canvas.stamp(marks, (x, y + HEIGHT / 2 + 8 + MARKS[1] / 2))
