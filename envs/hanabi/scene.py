"""A game for people who watch: all of it, hands included; and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from .codes import Absent, MoveType, Revealed
from .rules import Rules

NONE = Absent.NONE
PLAY, DISCARD, REVEAL_COLOR, REVEAL_RANK = MoveType
LETTERS, NAMES = "RYGWB", ("red", "yellow", "green", "white", "blue")


class Held(NamedTuple):
    """A card in a hand, and common knowledge of it."""

    color: int
    rank: int
    colors: int  # bits of plausible ones
    ranks: int
    revealed: int  # bits of Revealed

    @property
    def knowledge(self) -> str:
        """As in the reference's states: revealed colour and rank, or X; then the plausible ones."""
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

        bits, self.discards = int(world["Table.discards"]) & (1 << rules.cards) - 1, []  # counts, [colour][rank]
        for _ in range(rules.colors):
            self.discards.append([])
            for copies in rules.copies:
                self.discards[-1].append((bits & (1 << copies) - 1).bit_count())
                bits >>= copies

        last_kind = rules.kinds - 1  # a user may have written any number into the state
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
        """A sentence about the end of the game, empty before it."""
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
        if position < 8:  # the state keeps eight positions
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

    A card is ``G3 || GX|G12345``: its kind; colour and rank if they were revealed, or X; and the kinds plausible
    to its holder. Players and positions in a hand count from 0.
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
