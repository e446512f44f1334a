"""Hanabi in plain Python: the rules of one game, what its players see, and players that follow hints.

Without torch, because the recorder of golden games (``tests/oracles/record_hanabi.py``), which runs beside the
reference, uses it too. Golden games show that it is the reference's game: ``hanabi-learning-environment`` 0.0.4.

Below, ``P`` are players, ``C`` colours, ``R`` ranks, ``H`` the hand size, ``I`` and ``L`` the most information and life
tokens, ``D`` the cards of the deck. Colours, ranks and players count from 0; so a card of rank r is playable when its
colour has r cards in the fireworks. A kind of card is the number ``colour * R + rank``.

Rules
=====

- Cards: of rank 0 there are 3 of each colour, of the highest rank 1, of others 2. With ``R = 1`` there are 3, as rank 0
  comes first. So ``D = C * n`` with n = 3, 4, 6, 8, 10 for R = 1..5.
- Deal: player 0 a whole hand, then player 1, ...; whoever starts. Then the starting player moves, then the next, and
  nobody is ever skipped. A hand is in order of age, oldest first: a card that leaves lets the newer ones move down by
  one place, a new card goes to the end. A drawn card comes right after the move, before the next player sees anything.
- Tokens begin at their most, ``I`` and ``L``.
- Discard: legal for any card in the hand, below ``I`` information tokens; gives one.
- Play: always legal for any card in the hand. A playable card goes to the fireworks; if that completes its colour it
  gives an information token, unless there are ``I`` already. Any other card goes to the discards and takes a life.
- Reveal a colour or a rank to another player: legal with an information token, takes it, and must apply to at least one
  card that the target holds at present. (Also with observation type seer.)
- There is always a legal move: in the last turns too every player whose turn it is holds a card.
- Score: cards in the fireworks; 0 once the last life is lost. The reward of a move is the change of the score, so the
  last life lost takes all back (``lose_score=False``: keeps it; the reference does not know that).
- The game ends when the last life is lost, or when all C * R are in the fireworks, or when everybody has had one turn
  after the last card was drawn: P moves, the one who drew it included, who is the last to move. If the first deal takes
  all cards there are just P moves.
- After a move that loses the last life or completes all fireworks no card is drawn: the hand stays one short. That is
  what OpenSpiel shows. (The reference's state has a chance node there; its ``rl_env`` deals on, so there the final
  observation has the next card in the hand. Reward and end are the same.) After the end no move is legal. (The package
  itself still lists some; OpenSpiel does not.)

Moves
=====

``2 H + (P - 1) (C + R)`` of them, at most 60 for any parameters that are allowed. Their uids, in this order:

- ``position`` in 0..H-1: discard the card there
- ``H + position``: play the card there
- ``2 H + (offset - 1) C + colour``: reveal the colour to player (mover + offset) % P, offset in 1..P-1
- ``2 H + (P - 1) C + (offset - 1) R + rank``: reveal the rank to that player

Encoding
========

The canonical encoder: zeros and ones, for an observer, in these sections. Other players are always counted from the
observer: ``offset`` means player (observer + offset) % P; offset 0 is the observer. All sections are the same for
whoever is to move, and no section shows who is. ``sections`` has names and sizes.

1. Hands, ``(P - 1) H C R``. For offsets 1..P-1, for positions 0..H-1: one-hot of the kind of the card there. Positions
   behind the last card of a shorter hand are all zero. The observer's own hand is not here (also not for seers).
2. Short hands, ``P``. For offsets 0..P-1: whether that hand has fewer than H cards.
3. Deck, ``D - P H``: as many leading ones as cards are left to draw. (0 bits if all are dealt.)
4. Fireworks, ``C R``. For each colour: one-hot of the highest rank played (bit fireworks - 1), all zero if none.
5. Information tokens, ``I``: as many leading ones as there are.
6. Life tokens, ``L``: as many leading ones as there are.
7. Discards, ``D``. For each colour, for each rank, as many bits as there are such cards: as many leading ones as lie in
   the discards, also those that were played in vain.
8. Last move, ``2 P + 4 + C + R + 2 H + C R + 2``. All zero before the first move (deals are no moves). Otherwise, of
   the latest move, whoever made it (the observer too, who then sees it from offset 0):
   a. who, ``P``: one-hot of the offset of the player who moved.
   b. type, ``4``: one-hot of play, discard, reveal colour, reveal rank. (In this order; uids begin with discards.)
   c. target, ``P``: for reveals, one-hot of the target's offset, from the observer. (The source's comment says from
      the one who moved; its code does not.)
   d. colour, ``C``: for reveals of a colour, one-hot.
   e. rank, ``R``: for reveals of a rank, one-hot.
   f. outcome, ``H``: for reveals, whether the card at each position of the target's hand is of that colour or rank,
      known before or not. Only positions 0..7: the reference keeps 8 bits, and those of larger hands stay 0.
   g. position, ``H``: for plays and discards, one-hot of the card's position before it left.
   h. card, ``C R``: for plays and discards, one-hot of its kind.
   i. ``1``: for plays, whether it went to the fireworks.
   j. ``1``: for plays, whether an information token came back: a colour completed, and there were fewer than I. (Not
      for discards, which always give one.)
9. Knowledge, ``P H (C R + C + R)``; not with observation type minimal. For offsets 0..P-1, the observer first, for
   positions 0..H-1, of the card there:
   a. plausible, ``C R``: bit of a kind: whether neither its colour nor its rank has been excluded by a reveal. Revealed
      to be of a colour: only that one is left. Not among those when a colour was revealed to the hand: that colour
      falls away. The same for ranks. Nothing else counts: not what is seen elsewhere, nor the discards; and a card for
      which a single colour is left that way is not "revealed".
   b. revealed colour, ``C``: one-hot once that colour was revealed for this very card.
   c. revealed rank, ``R``: likewise.
   A new card is plausible as everything, with nothing revealed. Knowledge moves with its card. Positions without a
   card are all zero. It is common knowledge: the same bits for every observer but for the order of players.
   With observation type seer all of this is as if colour and rank had been revealed of every card when it was dealt,
   so the observer's own cards are here; reveals change nothing.

With ``P = 2`` and all else standard these are 125, 2, 40, 25, 8, 3, 50, 55 (2, 4, 2, 5, 5, 5, 5, 25, 1, 1) and 350
bits: 658, and 308 for minimal. With 3, 4, 5 players 956, 1,041, 1,280, and
431, 481, 580 for minimal. Hanabi-Small has 171, 226, 281, 336 for 2..5 players, Hanabi-Very-Small 106, 139, 172, 205.

Parameters
==========

Names, types and defaults as in ``Rules``; hands are of 5 cards for 2 and 3 players, of 4 for more. Presets:
``PRESETS``. The reference checks, in this order (it aborts the process with "Input requirements failed at FILE:LINE in
HanabiGame: EXPRESSION"; no other message):

- ``num_players_ >= MinPlayers() && num_players_ <= MaxPlayers()``: players 2..5
- ``num_colors_ > 0 && num_colors_ <= kMaxNumColors``: colors 1..5
- ``num_ranks_ > 0 && num_ranks_ <= kMaxNumRanks``: ranks 1..5
- ``hand_size_ * num_players_ <= cards_per_color_ * num_colors_``: the first deal within the deck

That is all. What it lets through and what comes of it:

- ``hand_size``: 0 and below crash (segmentation fault in the first deal). Above 8 the source says "not supported"; it
  plays on, but for the outcome of reveals (8. f).
- ``max_information_tokens``: 0 is a sound game without reveals and discards. Below 0 the encoding has fewer bits than
  its sections and later ones are misplaced. No upper limit.
- ``max_life_tokens``: with 0 the game is at its end before the first deal. Below 0 likewise, with a misplaced encoding.
  No upper limit. (``rl_env`` says at least 1, and unchecked for all parameters: colours and ranks 2..5, hands of 4..5.)
- ``observation_type``: 0 minimal, 1 card knowledge, 2 seer; OpenSpiel takes the names ``minimal``, ``card_knowledge``,
  ``seer`` and says "Invalid observation_type X" otherwise. Any other integer is like card knowledge.
- ``random_start_player``: the starting player is drawn anew for each game, all equally likely.
- ``seed``: -1 means one from the system.
- Unknown names are ignored, and texts read as numbers as far as they go (2.7 is 2). OpenSpiel knows types and names:
  "Unknown parameter 'X'. Available parameters are: ...".

An illegal move aborts the process too ("... in ApplyMove: MoveIsLegal(move)"); OpenSpiel raises "Invalid move
(Play 4)".
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from overcooked_model import digests

__all__ = ["PRESETS", "Game", "Hinters", "Rules", "digests", "random_move", "sections"]

PLAY, DISCARD, REVEAL_COLOR, REVEAL_RANK = range(4)  # as the encoding has them
OBSERVATION_TYPES = ("minimal", "card_knowledge", "seer")
PRESETS = {  # of rl_env.make, each with players
    "Hanabi-Full": {"colors": 5, "ranks": 5, "max_information_tokens": 8, "max_life_tokens": 3},
    "Hanabi-Full-Minimal": {
        "colors": 5, "ranks": 5, "max_information_tokens": 8, "max_life_tokens": 3, "observation_type": "minimal",
    },
    "Hanabi-Small": {"colors": 2, "ranks": 5, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
    "Hanabi-Very-Small": {"colors": 1, "ranks": 5, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
}  # fmt: skip
PRESETS["Hanabi-Full-CardKnowledge"] = PRESETS["Hanabi-Full"]


@dataclass(frozen=True)
class Rules:
    """The parameters of a game. ``hand_size`` None: by the number of players."""

    players: int = 2
    colors: int = 5
    ranks: int = 5
    hand_size: int | None = None
    max_information_tokens: int = 8
    max_life_tokens: int = 3
    observation_type: str = "card_knowledge"
    random_start_player: bool = False

    def __post_init__(self) -> None:
        for name in ("players", "colors", "ranks"):
            low, high, value = 1 + (name == "players"), 5, getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be {low} to {high}, got {value}")
        if self.hand_size is None:
            object.__setattr__(self, "hand_size", 5 if self.players < 4 else 4)
        if self.hand_size < 1 or self.hand_size * self.players > self.cards:
            most = self.cards // self.players
            raise ValueError(f"hand_size must be 1 to {most} for {self.cards} cards, got {self.hand_size}")
        if self.max_information_tokens < 0 or self.max_life_tokens < 1:
            raise ValueError("max_information_tokens must be at least 0, max_life_tokens at least 1")
        if self.observation_type not in OBSERVATION_TYPES:
            raise ValueError(f"observation_type must be one of {OBSERVATION_TYPES}, got {self.observation_type!r}")

    def copies(self, rank: int) -> int:
        """How many cards of this rank there are of each colour."""
        return 3 if rank == 0 else 1 if rank == self.ranks - 1 else 2

    @cached_property
    def kinds(self) -> int:
        return self.colors * self.ranks

    @cached_property
    def cards(self) -> int:
        return self.colors * sum(self.copies(rank) for rank in range(self.ranks))

    @cached_property
    def moves(self) -> int:
        return 2 * self.hand_size + (self.players - 1) * (self.colors + self.ranks)

    @cached_property
    def bits(self) -> int:
        return sum(size for _, size in sections(self))

    def deck(self) -> list[int]:
        """All cards by kind, in order."""
        return [kind for kind in range(self.kinds) for _ in range(self.copies(kind % self.ranks))]


def sections(rules: Rules) -> list[tuple[str, int]]:
    """The sections of the encoding, with their numbers of bits. Those of the last move one by one."""
    players, colors, ranks, hand = rules.players, rules.colors, rules.ranks, rules.hand_size
    last = [("who", players), ("type", 4), ("target", players), ("colour", colors), ("rank", ranks)]
    last += [("outcome", hand), ("position", hand), ("card", rules.kinds), ("scored", 1), ("token", 1)]
    knows = 0 if rules.observation_type == "minimal" else players * hand * (rules.kinds + colors + ranks)
    return [
        ("hands", (players - 1) * hand * rules.kinds),
        ("short hands", players),
        ("deck", rules.cards - players * hand),
        ("fireworks", rules.kinds),
        ("information tokens", rules.max_information_tokens),
        ("life tokens", rules.max_life_tokens),
        ("discards", rules.cards),
        *((f"last move: {name}", size) for name, size in last),
        ("knowledge", knows),
    ]


# ---- the rules -----------------------------------------------------------------------------------------------------


@dataclass
class Card:
    """A card in a hand, and what is commonly known of it."""

    number: int  # its place in the deck
    color: int
    rank: int
    colors: int  # bits of those that are plausible
    ranks: int
    color_revealed: bool = False
    rank_revealed: bool = False

    def reveal_color(self, color: int) -> bool:
        """Take a reveal of this colour to the hand into account; whether it applies."""
        self.colors &= 1 << color if self.color == color else ~(1 << color)
        self.color_revealed |= self.color == color
        return self.color == color

    def reveal_rank(self, rank: int) -> bool:
        self.ranks &= 1 << rank if self.rank == rank else ~(1 << rank)
        self.rank_revealed |= self.rank == rank
        return self.rank == rank


@dataclass
class Last:
    """The last move, players by their own numbers. -1 stands for what it does not have."""

    player: int
    type: int
    target: int = -1
    color: int = -1
    rank: int = -1
    outcome: Sequence[int] = ()  # positions
    position: int = -1
    kind: int = -1
    scored: bool = False
    token: bool = False


@dataclass
class Game:
    """One game after the first deal. ``deck``: kinds in the order in which cards are dealt, whole hands first.

    ``player`` is who is to move (after the end: who would be), ``left`` how many moves there will be once the deck is
    empty. ``lose_score``: the last life lost takes the score back.
    """

    rules: Rules
    deck: Sequence[int]
    start: int = 0
    lose_score: bool = True
    last: Last | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self.hands: list[list[Card]] = [[] for _ in range(rules.players)]
        self.fireworks, self.discards = [0] * rules.colors, [0] * rules.kinds
        self.information, self.lives = rules.max_information_tokens, rules.max_life_tokens
        self.player, self.left, self.dealt = self.start, rules.players, 0
        for player in range(rules.players):
            for _ in range(rules.hand_size):
                self.draw(player)

    def draw(self, player: int) -> None:
        if self.dealt < len(self.deck):
            color, rank = divmod(self.deck[self.dealt], self.rules.ranks)
            card = Card(self.dealt, color, rank, (1 << self.rules.colors) - 1, (1 << self.rules.ranks) - 1)
            if self.rules.observation_type == "seer":
                card.reveal_color(color)
                card.reveal_rank(rank)
            self.hands[player].append(card)
            self.dealt += 1

    @property
    def undealt(self) -> int:
        return len(self.deck) - self.dealt

    @property
    def score(self) -> int:
        return 0 if self.lives == 0 and self.lose_score else sum(self.fireworks)

    @property
    def ended(self) -> bool:
        return self.lives == 0 or sum(self.fireworks) == self.rules.kinds or self.left == 0

    def playable(self, kind: int) -> bool:
        return self.fireworks[kind // self.rules.ranks] == kind % self.rules.ranks

    def parts(self, uid: int) -> tuple[int, int, int]:
        """Of a move: its type, position or offset of the target, and the colour or rank revealed (else -1)."""
        rules, hand = self.rules, self.rules.hand_size
        if uid < 2 * hand:
            return (DISCARD if uid < hand else PLAY), uid % hand, -1
        uid -= 2 * hand
        if uid < (rules.players - 1) * rules.colors:
            return REVEAL_COLOR, 1 + uid // rules.colors, uid % rules.colors
        uid -= (rules.players - 1) * rules.colors
        return REVEAL_RANK, 1 + uid // rules.ranks, uid % rules.ranks

    def at_offset(self, offset: int) -> int:
        return (self.player + offset) % self.rules.players

    def legal(self) -> list[int]:
        """The uids of the legal moves, ascending."""
        return [] if self.ended else [uid for uid in range(self.rules.moves) if self._is_legal(*self.parts(uid))]

    def _is_legal(self, type: int, where: int, value: int) -> bool:
        if type in (PLAY, DISCARD):
            full = self.information == self.rules.max_information_tokens
            return where < len(self.hands[self.player]) and not (type == DISCARD and full)
        cards = self.hands[self.at_offset(where)]
        return self.information > 0 and any((c.color if type == REVEAL_COLOR else c.rank) == value for c in cards)

    def mask(self) -> int:
        """The legal moves as bits: bit ``uid``."""
        return sum(1 << uid for uid in self.legal())

    def move(self, uid: int) -> int:
        """Make a move; its reward."""
        type, where, value = self.parts(uid)
        if self.ended or not 0 <= uid < self.rules.moves or not self._is_legal(type, where, value):
            raise ValueError(f"move {uid} is not legal, only {self.legal()}")
        before = self.score
        if self.undealt == 0:
            self.left -= 1
        if type in (PLAY, DISCARD):
            self.last = self._put_down(type, where)
        else:
            self.last = self._reveal(type, self.at_offset(where), value)
        if type in (PLAY, DISCARD) and not self.ended:
            self.draw(self.player)
        self.player = self.at_offset(1)
        return self.score - before

    def _put_down(self, type: int, position: int) -> Last:
        card = self.hands[self.player].pop(position)
        kind = card.color * self.rules.ranks + card.rank
        scored = type == PLAY and self.playable(kind)
        self.fireworks[card.color] += scored
        self.discards[kind] += not scored
        self.lives -= type == PLAY and not scored
        completed = scored and self.fireworks[card.color] == self.rules.ranks
        token = (type == DISCARD or completed) and self.information < self.rules.max_information_tokens
        self.information += token
        return Last(self.player, type, position=position, kind=kind, scored=scored, token=type == PLAY and token)

    def _reveal(self, type: int, target: int, value: int) -> Last:
        self.information -= 1
        hand, by_color = self.hands[target], type == REVEAL_COLOR
        applies = [card.reveal_color(value) if by_color else card.reveal_rank(value) for card in hand]
        outcome = [position for position, it_does in enumerate(applies) if it_does]
        color, rank = (value, -1) if by_color else (-1, value)
        return Last(self.player, type, target=target, color=color, rank=rank, outcome=outcome)

    # ---- what is seen ----------------------------------------------------------------------------------------------

    def encode(self, observer: int) -> np.ndarray:
        """What a player sees, uint8 ``[bits]``; see the top of this file."""
        rules = self.rules
        hands = self.hands[observer:] + self.hands[:observer]
        parts = [self._hands_of_others(hands), np.array([len(hand) < rules.hand_size for hand in hands], np.uint8)]
        parts.append(leading(self.undealt, rules.cards - rules.players * rules.hand_size))
        parts += [one_hot(height - 1, rules.ranks) for height in self.fireworks]
        parts.append(leading(self.information, rules.max_information_tokens))
        parts.append(leading(self.lives, rules.max_life_tokens))
        parts += [leading(count, rules.copies(kind % rules.ranks)) for kind, count in enumerate(self.discards)]
        parts.append(self._last_move(observer))
        if rules.observation_type != "minimal":
            parts.append(self._knowledge(hands))
        return np.concatenate(parts)

    def views(self) -> np.ndarray:
        """What all players see, uint8 ``[players, bits]``."""
        return np.stack([self.encode(player) for player in range(self.rules.players)])

    def _hands_of_others(self, hands: Sequence[Sequence[Card]]) -> np.ndarray:
        bits = np.zeros((self.rules.players - 1, self.rules.hand_size, self.rules.kinds), np.uint8)
        for row, hand in zip(bits, hands[1:], strict=True):
            for position, card in enumerate(hand):
                row[position, card.color * self.rules.ranks + card.rank] = 1
        return bits.reshape(-1)

    def _last_move(self, observer: int) -> np.ndarray:
        rules, last = self.rules, self.last
        if last is None:
            size = 2 * rules.players + 4 + rules.colors + rules.ranks + 2 * rules.hand_size + rules.kinds + 2
            return np.zeros(size, np.uint8)
        outcome = np.zeros(rules.hand_size, np.uint8)
        outcome[[position for position in last.outcome if position < 8]] = 1
        return np.concatenate([
            one_hot((last.player - observer) % rules.players, rules.players),
            one_hot(last.type, 4),
            one_hot(-1 if last.target < 0 else (last.target - observer) % rules.players, rules.players),
            one_hot(last.color, rules.colors),
            one_hot(last.rank, rules.ranks),
            outcome,
            one_hot(last.position, rules.hand_size),
            one_hot(last.kind, rules.kinds),
            np.array([last.scored, last.token], np.uint8),
        ])  # fmt: skip

    def _knowledge(self, hands: Sequence[Sequence[Card]]) -> np.ndarray:
        rules = self.rules
        bits = np.zeros((rules.players, rules.hand_size, rules.kinds + rules.colors + rules.ranks), np.uint8)
        for row, hand in zip(bits, hands, strict=True):
            for position, card in enumerate(hand):
                color = card.color if card.color_revealed else -1
                rank = card.rank if card.rank_revealed else -1
                row[position] = knowledge_of_card(rules.colors, rules.ranks, card.colors, card.ranks, color, rank)
        return bits.reshape(-1)


@cache
def one_hot(index: int, size: int) -> np.ndarray:
    """uint8 ``[size]``; all zero for index -1."""
    return np.array([i == index for i in range(size)], np.uint8)


@cache
def leading(ones: int, size: int) -> np.ndarray:
    return np.array([i < ones for i in range(size)], np.uint8)


@cache
def knowledge_of_card(colors: int, ranks: int, some_colors: int, some_ranks: int, color: int, rank: int) -> np.ndarray:
    """uint8 ``[colors * ranks + colors + ranks]``. Plausible ones as bits; what is revealed, or -1."""
    plausible = [some_colors >> c & some_ranks >> r & 1 for c in range(colors) for r in range(ranks)]
    return np.concatenate([np.array(plausible, np.uint8), one_hot(color, colors), one_hot(rank, ranks)])


# ---- players -------------------------------------------------------------------------------------------------------


def random_move(game: Game, dice: random.Random, plays: float = 1.0) -> int:
    """A random legal move; with a chance of 1 - ``plays`` one that is not a play, if there is one."""
    legal = game.legal()
    quiet = [uid for uid in legal if game.parts(uid)[0] != PLAY]
    return dice.choice(quiet if quiet and dice.random() >= plays else legal)


@dataclass
class Hinters:
    """Players of one game who follow hints, and err at times.

    A reveal promises that the newest card it applies to can be played. Players play what is promised or what they can
    be sure of, else they reveal, else they discard what is of no use, else the oldest of which nothing is revealed.
    A share ``noise`` of all moves is random. ``peek``: they know their own cards, and reveal at random.
    """

    game: Game
    seed: int
    noise: float = 0.0
    peek: bool = False

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.promised: set[int] = set()  # places in the deck

    def move(self) -> int:
        """The uid of the next move."""
        game, hand = self.game, self.game.rules.hand_size
        if self.dice.random() < self.noise:
            return random_move(game, self.dice)
        cards = game.hands[game.player]
        could_be = [self._could_be(card) for card in cards]
        sure = [i for i, kinds in enumerate(could_be) if all(map(game.playable, kinds))]
        known = [i for i, card in enumerate(cards) if card.number in self.promised and self._may_play(could_be[i])]
        if sure or known:
            return hand + min(sure or known, key=lambda i: cards[i].rank if self.peek else -i)
        legal = game.legal()
        reveals = [uid for uid in legal if uid >= 2 * hand]
        uid = self._reveal(reveals)
        if uid is not None:
            return uid
        if reveals and self.dice.random() < 0.5 and self._must_not_discard(could_be):
            return self.dice.choice(reveals)
        if 0 in legal:
            return self._discard(could_be)
        return self.dice.choice(reveals) if reveals else hand + self._discard(could_be)

    def _could_be(self, card: Card) -> list[int]:
        """Kinds that a card of the one to move can be, from what this player sees."""
        game, ranks = self.game, self.game.rules.ranks
        if self.peek:
            return [card.color * ranks + card.rank]
        seen = list(game.discards)
        for color, height in enumerate(game.fireworks):
            for rank in range(height):
                seen[color * ranks + rank] += 1
        for player, hand in enumerate(game.hands):
            for other in hand if player != game.player else ():
                seen[other.color * ranks + other.rank] += 1
        kinds = [kind for kind in range(game.rules.kinds) if seen[kind] < game.rules.copies(kind % ranks)]
        return [kind for kind in kinds if card.colors >> kind // ranks & card.ranks >> kind % ranks & 1]

    def _may_play(self, kinds: Sequence[int]) -> bool:
        return any(map(self.game.playable, kinds)) and (self.game.lives > 1 or not self.peek)

    def _of_no_use(self, kind: int) -> bool:
        """Played already, or a card below it is lost."""
        game, (color, rank) = self.game, divmod(kind, self.game.rules.ranks)
        below = range(game.fireworks[color], rank)
        lost = any(game.discards[kind - rank + r] == game.rules.copies(r) for r in below)
        return lost or rank < game.fireworks[color]

    def _must_not_discard(self, could_be: Sequence[Sequence[int]]) -> bool:
        return not any(all(map(self._of_no_use, kinds)) for kinds in could_be)

    def _reveal(self, reveals: Sequence[int]) -> int | None:
        """A reveal that lets somebody play, the nearest first; of those the one that applies to most cards."""
        game, best = self.game, (0, 0)
        promised_kinds = {self.game.deck[number] for number in self.promised}
        for uid in reveals if not self.peek or self.dice.random() < 0.3 else ():
            type, offset, value = game.parts(uid)
            hand = game.hands[game.at_offset(offset)]
            applies = [card for card in hand if (card.color if type == REVEAL_COLOR else card.rank) == value]
            kind = game.deck[applies[-1].number]
            if game.playable(kind) and kind not in promised_kinds:
                best = max(best, (10 * (5 - offset) + len(applies), uid))
        if best == (0, 0):
            return None
        type, offset, value = game.parts(best[1])
        hand = game.hands[game.at_offset(offset)]
        applies = [card.number for card in hand if (card.color if type == REVEAL_COLOR else card.rank) == value]
        self.promised.add(applies[-1])
        return best[1]

    def _discard(self, could_be: Sequence[Sequence[int]]) -> int:
        game = self.game
        cards = game.hands[game.player]
        useless = [i for i, kinds in enumerate(could_be) if all(map(self._of_no_use, kinds))]
        if useless:
            return useless[0]
        if self.peek:  # the one that is needed last, of which there is another
            ranks = game.rules.ranks
            spare = [game.discards[k[0]] + 1 < game.rules.copies(k[0] % ranks) for k in could_be]
            return max(range(len(cards)), key=lambda i: (spare[i], cards[i].rank))
        unknown = [i for i, card in enumerate(cards) if not (card.color_revealed or card.rank_revealed)]
        return (unknown or [0])[0]
