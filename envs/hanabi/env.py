"""Hanabi: a team that sees all cards but its own gives hints and plays. Equal to DeepMind's, move by move.

Source: Bard et al. (2020), "The Hanabi Challenge: A New Frontier for AI Research"; rules, moves and the canonical
encoding as in the package ``hanabi-learning-environment`` 0.0.4. Below, P are players, C colours, R ranks, H the cards
of a whole hand, D those of the deck. A card is its kind, ``colour * R + rank``, both from 0.

| action                              | Discrete(2 H + (P - 1) (C + R)); with ``turns="all"`` one more              |
|-------------------------------------|-----------------------------------------------------------------------------|
| 0 .. H-1                            | discard the card at this position of the own hand, the oldest first         |
| H .. 2H-1                           | play it                                                                     |
| 2H + (o-1) C + colour               | reveal this colour to the player who comes o turns later, o in 1..P-1       |
| 2H + (P-1) C + (o-1) R + rank       | reveal this rank                                                            |
| the last one, with ``turns="all"``  | no-op, the only legal action of those who wait                              |

| observation          | [bits], uint8 (``obs_dtype``), 0 or 1; players by offset from the one who looks            |
|----------------------|--------------------------------------------------------------------------------------------|
| (P-1) H C R          | hands of the others: the kind of each card, one-hot                                        |
| P                    | whose hands are short of a card                                                            |
| D - P H              | cards left in the deck, as so many leading ones                                            |
| C R                  | fireworks: the highest rank of each colour, one-hot                                        |
| tokens               | of information, then lives, as so many leading ones                                        |
| D                    | discards: of each kind, as so many leading ones                                            |
| P + 4 + P            | the last move: who made it; play, discard, reveal colour or rank; to whom                  |
| C + R + H            | the colour or rank that it revealed, and the positions to which it applied                 |
| H + C R + 2          | the position and kind of its card; whether it scored, and earned a token                   |
| P H (C R + C + R)    | of each card, the own hand first: plausible kinds, revealed colour, revealed rank          |
|                      | (not with ``observation_type="minimal"``)                                                  |

A row is a world, seen by the player to move (``turns="current"``), or each player (``turns="all"``): row
``world * P + player``. ``infos``: ``action_mask``, bool ``[rows, moves]``, which allows every choice after the end,
because none is made; ``score``, float32 ``[rows]``: cards in the fireworks, 0 once the last life is lost; with
``critic=True`` also ``own_hand``, bool ``[rows, H, C R]``: the kinds of the own cards, one-hot, for a centralised
critic (``Environment.critic``).
Reward, the same for all: the change of the score. So the last life lost takes all back, as in the reference's
``rl_env``; with ``lose_score=False`` it does not (``score`` does). ``Mercy.factor`` is the part of the score that the
last life lost leaves: one for all worlds, ``sim.tensor("Mercy.factor")``, which may change between steps.
An illegal move is a fault of its world, which stays as it is in that step: ``illegal_move`` with the move, or
``not_your_turn`` with the number of a player who waits. With ``illegal_moves="penalty"`` its player's reward is less by
``illegal_penalty``, and the lowest legal move replaces it; moves of players who wait are ignored.
Start: a shuffled deck, player 0 begins, or with ``random_start_player`` any. ``reset(options=...)`` takes, for the
episodes that it begins, ``deck``: integers ``[worlds, D]``, kinds in the order in which they are dealt, player 0's
whole hand, then player 1's, ..., then the draws; and ``start_player``: integers ``[worlds]``.
End: terminated when the last life is lost, all fireworks are complete, or each player has had a turn after the last
card was drawn.

Options, with their defaults:

- ``preset`` (``"Hanabi-Full"``): ``"Hanabi-Full"`` (also as ``-CardKnowledge``), ``"Hanabi-Full-Minimal"``,
  ``"Hanabi-Small"``, ``"Hanabi-Very-Small"``
- ``players`` (2): 2 to 5
- ``colors``, ``ranks`` (preset): 1 to 5
- ``hand_size`` (preset, or 5 cards for 2 and 3 players, 4 for more): at least 1; all hands together within the deck
- ``max_information_tokens`` (preset): up to 255; with 0 nobody ever reveals or discards
- ``max_life_tokens`` (preset): 1 to 255
- ``observation_type`` (preset): ``"minimal"``, ``"card_knowledge"``, ``"seer"`` (also the own cards)
- ``random_start_player`` (False): any player begins, not always the first
- ``turns`` (``"current"``): ``"current"``, ``"all"``
- ``obs_dtype`` (``"uint8"``): ``"uint8"``, ``"float32"``, or ``"bits"``: eight to a byte, lowest first; ``unpack_bits``
  of this package makes floats of them in a network (the bundled trainer does not)
- ``lose_score`` (True): the last life lost takes back all rewards
- ``illegal_moves`` (``"fault"``): ``"fault"``, ``"penalty"``; ``illegal_penalty`` (1.0): the cost of an illegal move
  with ``"penalty"``
- ``critic`` (False): ``own_hand`` in ``infos``
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Control,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    component,
    f32,
    i32,
    i64,
    u8,
    u64,
)
from torch_batchsim.draw import Scene
from torch_batchsim.types import FieldType

from . import picture, scene
from .codes import Absent, MoveType, Revealed
from .rules import Rules
from .training import SWEEP, TRAINING

_FULL = {"colors": 5, "ranks": 5, "max_information_tokens": 8, "max_life_tokens": 3}
_SMALL = {"ranks": 5, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1}
PRESETS: dict[str, dict[str, Any]] = {  # rl_env.make of the reference
    "Hanabi-Full": _FULL,
    "Hanabi-Full-CardKnowledge": _FULL,
    "Hanabi-Full-Minimal": {**_FULL, "observation_type": "minimal"},
    "Hanabi-Small": {**_SMALL, "colors": 2},
    "Hanabi-Very-Small": {**_SMALL, "colors": 1},
}
_OBSERVATION_TYPES = ("minimal", "card_knowledge", "seer")
_MOST_TOKENS = 255  # a byte

# The limits of the reference (class HanabiGame), narrower where it crashes or plays nonsense.
_RULES = {
    "colors": Option(5, minimum=1, maximum=5),
    "ranks": Option(5, minimum=1, maximum=5),
    "hand_size": Option(5, minimum=1),
    "max_information_tokens": Option(8, minimum=0, maximum=_MOST_TOKENS),
    "max_life_tokens": Option(3, minimum=1, maximum=_MOST_TOKENS),
    "observation_type": Option("card_knowledge", choices=_OBSERVATION_TYPES),
}


class Card(Component):  # in a hand, and common knowledge of it
    kind: u8  # 255: no card
    colors: u8  # bits of those that are plausible
    ranks: u8
    revealed: u8  # outright: 1 its colour, 2 its rank


class Choice(Component):
    move: i32


class Score(Component):
    value: f32


class Mercy(Component):
    factor: f32  # the part of the score that the last life lost leaves


class Last(Component):  # the last move; 255 for fields without a value
    player: u8
    type: u8  # of MoveType
    target: u8
    color: u8
    rank: u8
    position: u8
    kind: u8
    scored: u8
    token: u8  # whether a play gave an information token back
    outcome: u8  # bits of the positions that a reveal applied to


class Hanabi(Environment):
    """Args: see ``__init__``."""

    constants = Constants(
        preset=Option("Hanabi-Full", choices=tuple(PRESETS)),
        players=Option(2, minimum=2, maximum=5),
        turns=Option("current", choices=("current", "all"), help="rows of a world: one, or one per player"),
        obs_dtype=Option("uint8", choices=("uint8", "float32", "bits"), help="bits: eight to a byte, lowest first"),
        illegal_moves=Option("fault", choices=("fault", "penalty")),
        critic=Option(False, help="the own hand, in infos"),
    )
    parameters = Parameters(
        random_start_player=Option(False, help="any player begins, in place of the first"),
        lose_score=Option(True, help="the last life lost takes back all rewards"),
        illegal_penalty=Option(1.0, minimum=0, help="of a move, with illegal_moves='penalty'"),
    )
    resources = (Mercy,)
    start = TaskGraph("deal")
    step = TaskGraph("act")
    observation, action, action_mask = "Player.View", "Player.Choice", "Player.Legal"
    info = {"score": "Player.Score"}
    enums = (MoveType, Revealed, Absent)
    faults = ("illegal_move", "not_your_turn")
    judges_illegal_actions = True

    @property
    def systems(self) -> tuple[str, ...]:
        return ("systems.h", *(("critic.h",) if self.constants.critic else ()))

    @property
    def observe(self) -> TaskGraph:
        return TaskGraph("encode", "show", *(("show_own_hand",) if self.constants.critic else ()))

    @property
    def critic(self) -> dict[str, str]:
        return {"own_hand": "Player.OwnHand"} if self.constants.critic else {}

    @property
    def reset_options(self) -> dict[str, FieldType]:
        return {"deck": i32[self.rules.cards], "start_player": i32}

    metadata = {"render_fps": 2, "score": "score"}
    training = TRAINING
    sweep = SWEEP

    def __init__(
        self,
        preset: str = "Hanabi-Full",
        players: int = 2,
        colors: int | None = None,
        ranks: int | None = None,
        hand_size: int | None = None,
        max_information_tokens: int | None = None,
        max_life_tokens: int | None = None,
        observation_type: str | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            preset: a game of the reference's, see ``PRESETS``; the arguments that follow are as it says if not given.
            players: 2 to 5.
            colors, ranks: 1 to 5 of each.
            hand_size: cards in a hand; where no preset says, 5 for 2 and 3 players, 4 for more.
            max_information_tokens, max_life_tokens: with which a game begins, up to 255; at least one life.
            observation_type: ``"minimal"`` (without what is known of cards), ``"card_knowledge"``, or ``"seer"`` (all
                cards are known).
            options: as declared by ``constants`` and ``parameters``.

        Raises TypeError or ValueError, which name what was given and what is allowed.
        """
        super().__init__(preset=preset, players=players, **options)
        given = {
            "colors": colors,
            "ranks": ranks,
            "hand_size": hand_size,
            "max_information_tokens": max_information_tokens,
            "max_life_tokens": max_life_tokens,
            "observation_type": observation_type,
        }
        usual = {"hand_size": 5 if self.constants.players < 4 else 4, "observation_type": "card_knowledge"}
        chosen = {**usual, **PRESETS[preset], **{name: value for name, value in given.items() if value is not None}}
        checked = {name: option.checked(name, chosen[name]) for name, option in _RULES.items()}
        self.rules = rules = Rules(players=self.constants.players, **checked)
        rules.check()
        self.moves, self.bits = rules.moves, rules.bits
        self.agents = 1 if self.constants.turns == "current" else rules.players
        self._choices = rules.moves + (self.agents > 1)
        self.add_constants(
            colors=rules.colors,
            ranks=rules.ranks,
            hand_size=rules.hand_size,
            information_tokens=rules.max_information_tokens,
            life_tokens=rules.max_life_tokens,
            cards=rules.cards,
            moves=rules.moves,
            choices=self._choices,
            bits=rules.bits,
            agents=self.agents,
            seer=rules.observation_type == "seer",
            knowledge=rules.observation_type != "minimal",
            packed=self.constants.obs_dtype == "bits",
            penalises=self.constants.illegal_moves == "penalty",
        )

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        return {**super().described_options(), **_RULES}

    # ---- the declaration ---------------------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> list[type[Component]]:
        """``Deck``: its cards in the order of dealing, in which a reset leaves a given deck."""
        return [component("Deck", cards=u8[self.rules.cards], given=u8, start=u8)]  # start: given player + 1; 0: none

    @cached_property
    def singletons(self) -> list[type[Component]]:
        table = component(
            "Table",
            discards=i64,  # bits, as the observation shows them
            fireworks=u8[self.rules.colors],  # cards of each colour
            information=u8,  # tokens
            lives=u8,
            dealt=u8,  # cards, of those in the deck
            mover=u8,  # whose turn it is
            left=u8,  # turns, once the deck is empty
            over=u8,
        )
        return [*self.kept, table, Last]

    @cached_property
    def archetypes(self) -> list[Archetype]:
        elements = {"uint8": u8[self.bits], "float32": f32[self.bits], "bits": u8[-(-self.bits // 8)]}
        view = component("View", bits=elements[self.constants.obs_dtype])
        legal = component("Legal", moves=boolean[self._choices])
        hand = component("OwnHand", cards=boolean[self.rules.hand_size, self.rules.kinds])
        shown = (view, legal, hand) if self.constants.critic else (view, legal)
        encoding = component("Encoding", words=u64[-(-self.bits // 64)], legal=u64[1])  # both of them as bits
        # Row player * hand_size + position.
        hands = Archetype("Held", Card, count=self.rules.players * self.rules.hand_size)
        return [hands, Archetype("Player", Choice, encoding, *shown, Score, Reward, count=self.agents)]

    @property
    def action_space(self) -> Discrete:
        return Discrete(self._choices)

    @property
    def controls(self) -> list[Control]:
        """In the order of actions, without the no-op: it is the only one of those who wait."""
        rules = self.rules
        labels = [f"{verb} card {i}" for verb in ("Discard", "Play") for i in range(rules.hand_size)]
        for hints in (scene.NAMES[: rules.colors], [str(rank + 1) for rank in range(rules.ranks)]):
            for offset in range(1, rules.players):
                whom = "" if rules.players == 2 else f" to player +{offset}"
                labels += [f"Hint {what}{whom}" for what in hints]
        return [Control(label, action) for action, label in enumerate(labels)]

    @property
    def observation_space(self) -> Box:
        if self.constants.obs_dtype == "bits":
            return Box(0, 255, (-(-self.bits // 8),), np.uint8)
        return Box(0, 1, (self.bits,), np.dtype(self.constants.obs_dtype))

    def resource_values(self) -> dict[str, float]:
        return {"Mercy.factor": 0.0 if self.parameters.lose_score else 1.0}

    # ---- given decks -----------------------------------------------------------------------------------------------

    def reset_values(self, options: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if "deck" in options:
            self._check_deck(options["deck"], worlds)
            values |= {"Deck.cards": options["deck"], "Deck.given": 1}
        if "start_player" in options:
            players, last = options["start_player"], self.rules.players - 1
            wrong = (players < 0) | (players > last)
            if bool(wrong.any()):
                world, player = int(worlds[wrong][0]), int(players[wrong][0])
                raise ValueError(f"start_player of world {world} is {player}, but must be 0 to {last}")
            values["Deck.start"] = players.long() + 1
        return values

    def _check_deck(self, deck: torch.Tensor, worlds: torch.Tensor) -> None:
        outside = (deck < 0) | (deck >= self.rules.kinds)
        if bool(outside.any()):
            row, place = outside.nonzero()[0].tolist()
            raise ValueError(
                f"deck of world {int(worlds[row])} has {int(deck[row, place])} at {place}, but cards are "
                f"colour * {self.rules.ranks} + rank, from 0 to {self.rules.kinds - 1}"
            )
        right = torch.tensor(self.rules.copies * self.rules.colors, device=deck.device)
        counts = torch.zeros(len(worlds), self.rules.kinds, dtype=torch.int64, device=deck.device)
        counts.scatter_add_(1, deck.long(), torch.ones_like(deck, dtype=torch.int64))
        wrong = counts != right
        if bool(wrong.any()):
            row, kind = wrong.nonzero()[0].tolist()
            color, rank = divmod(kind, self.rules.ranks)
            raise ValueError(
                f"deck of world {int(worlds[row])} must have {int(right[kind])} of card {kind} (colour {color}, rank "
                f"{rank}), got {int(counts[row, kind])}"
            )

    # ---- pictures --------------------------------------------------------------------------------------------------

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        return picture.draw(world, self.rules)

    def scene_for(self, world: Mapping[str, np.ndarray], agents: Collection[int]) -> Scene:
        """With the backs of these players' cards; where a row is the player to move, of that one's."""
        one = self.constants.turns == "current"
        return picture.draw(world, self.rules, {int(world["Table.mover"])} if one else agents)

    def render_text(self, world: Mapping[str, np.ndarray]) -> str:
        return scene.text(world, self.rules)


def unpack_bits(packed: torch.Tensor | np.ndarray, bits: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Observations of ``obs_dtype="bits"``, uint8 ``[..., bytes]``, as zeros and ones ``[..., bits]`` of ``dtype``."""
    if isinstance(packed, np.ndarray):
        packed = torch.from_numpy(packed)
    if not isinstance(packed, torch.Tensor):
        raise TypeError(f"packed must be a tensor or an array, got {type(packed).__name__}")
    if packed.dtype != torch.uint8 or packed.shape[-1:] != (-(-bits // 8),):
        given = f"{str(packed.dtype).removeprefix('torch.')} {list(packed.shape)}"
        raise ValueError(f"packed must be uint8 [..., {-(-bits // 8)}] for {bits} bits, got {given}")
    places = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return (packed.unsqueeze(-1) >> places & 1).flatten(-2)[..., :bits].to(dtype)
