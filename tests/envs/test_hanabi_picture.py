"""The picture and the text of a game show all that there is in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields

import hanabi_model as model
import numpy as np
import pytest
from support import full_but, sampled
from torch_batchsim.envs.hanabi import picture, scene
from torch_batchsim.envs.hanabi.env import Rules

NONE = 255
World = dict[str, np.ndarray]
SMALL = model.PRESETS["Hanabi-Very-Small"]


def rules_of(game: model.Game) -> Rules:
    return Rules(**{field.name: getattr(game.rules, field.name) for field in fields(Rules)})


def world_of(game: model.Game) -> World:
    """The columns that a picture is drawn from."""
    rules, last = game.rules, game.last
    cards = []
    for hand in game.hands:
        known = [(c.colors, c.ranks, c.color_revealed + 2 * c.rank_revealed) for c in hand]
        cards += [(c.color * rules.ranks + c.rank, *k) for c, k in zip(hand, known, strict=True)]
        cards += [(NONE, 0, 0, 0)] * (rules.hand_size - len(hand))
    bits = "".join("1" * n + "0" * (rules.copies(kind % rules.ranks) - n) for kind, n in enumerate(game.discards))
    numbers = {
        "Table.information": game.information,
        "Table.lives": game.lives,
        "Table.dealt": game.dealt,
        "Table.mover": game.player,
        "Table.left": game.left,
        "Table.over": game.ended,
        "Last.scored": last is not None and last.scored,
        "Last.token": last is not None and last.token,
        "Last.outcome": 0 if last is None else sum(1 << place for place in last.outcome if place < 8),
    }
    for name in ("player", "type", "target", "color", "rank", "position", "kind"):
        value = -1 if last is None else getattr(last, name)
        numbers[f"Last.{name}"] = NONE if value < 0 else value
    world = {name: np.array(value, np.uint8) for name, value in numbers.items()}
    for column, name in enumerate(("kind", "colors", "ranks", "revealed")):
        world[f"Held.Card.{name}"] = np.array([card[column] for card in cards], np.uint8)
    world["Table.fireworks"] = np.array(game.fireworks, np.uint8)
    world["Table.discards"] = np.array(int(bits[::-1], 2), np.uint64)
    return world


def dealt(rules: model.Rules, seed: int = 0) -> model.Game:
    deck = rules.deck()
    random.Random(seed).shuffle(deck)
    return model.Game(rules, deck)


def games(seed: int, *all_rules: model.Rules) -> Iterator[model.Game]:
    """Each game again and again as it goes on, until it has ended."""
    for rules in all_rules:
        game = dealt(rules, seed)
        players = model.Hinters(game, seed, noise=0.2)
        while not game.ended:
            yield game
            game.move(players.move())
        yield game


def drawn(game: model.Game) -> np.ndarray:
    return picture.draw(world_of(game), rules_of(game)).pixels


def text_of(game: model.Game) -> str:
    return scene.text(world_of(game), rules_of(game))


def card(name: str, ranks: int = 5) -> int:
    """The kind of ``"G3"``."""
    return "RYGWB".index(name[0]) * ranks + int(name[1]) - 1


def scripted(hands: str, draws: str = "", **rules: int) -> model.Game:
    """A game whose deck begins so."""
    cards = [card(name) for name in (hands + " " + draws).split()]
    rest = model.Rules(**rules).deck()
    for kind in cards:
        rest.remove(kind)
    return model.Game(model.Rules(**rules), cards + rest)


# ---- text ----------------------------------------------------------------------------------------------------------


def test_a_text_in_full() -> None:
    game = scripted("R1 R1 Y2 G3 B5  Y1 W4 B1 R2 G1", "W5 R3 Y4", players=2)
    for move in (15, 5, 4, 11, 9):  # rank 1 to player 1, who plays Y1; discard of B5; yellow to player 0; a play of R3
        game.move(move)
    assert text_of(game) == (
        "Score: 1/25\nLife tokens: 2/3\nInfo tokens: 7/8\nFireworks: R0 Y1 G0 W0 B0\nHands:\n"
        "Player 0\n"
        "R1 || XX|RGWB12345\nR1 || XX|RGWB12345\nY2 || YX|Y12345\nG3 || XX|RGWB12345\nY4 || XX|RYGWB12345\n-----\n"
        "Player 1, to move\n"
        "W4 || XX|RYGWB2345\nB1 || X1|RYGWB1\nR2 || XX|RYGWB2345\nG1 || X1|RYGWB1\nW5 || XX|RYGWB12345\n-----\n"
        "Deck size: 37\nDiscards: R3 B5\nLast move: player 0 played R3 (card 4): a life lost"
    )


def test_the_last_move_in_words() -> None:
    def last(game: model.Game, move: int) -> str:
        game.move(move)
        return text_of(game).partition("Last move: ")[2].partition("\n")[0]

    game = scripted("R1 R1 Y2 G3 B5  Y1 W4 B1 R2 G1", "W5 R3 Y4", players=2)
    assert "Last move: none" in text_of(game)
    assert last(game, 15) == "player 0 revealed rank 1 to player 1: cards 0 2 4"
    assert last(game, 5) == "player 1 played Y1 (card 0): scored"
    assert last(game, 4) == "player 0 discarded B5 (card 4)"
    assert last(game, 11) == "player 1 revealed yellow to player 0: card 2"
    assert last(game, 9) == "player 0 played R3 (card 4): a life lost"

    game = scripted("R1 R2 R3 R4 R5  R1 R1 R2 R3 R4", colors=1, players=2)
    assert last(game, 10) == "player 0 revealed red to player 1: cards 0 1 2 3 4"
    game = model.Game(model.Rules(players=2, colors=1, ranks=1, hand_size=1), [0, 0, 0])
    game.move(2)
    assert last(game, 1) == "player 1 played R1 (card 0): scored, token back"

    game = dealt(model.Rules(players=2, hand_size=25))  # where the outcome has no bits for most of the cards
    cards = " ".join(str(place) for place, held in enumerate(game.hands[1]) if held.rank == 0)
    assert last(game, 50 + 5) == f"player 0 revealed rank 1 to player 1: cards {cards}"


@pytest.mark.parametrize("seed", range(3))
def test_a_game_can_be_read_from_its_texts(seed: int) -> None:
    full, three = model.Rules(players=2 + seed), model.Rules(players=5, colors=3, ranks=4, hand_size=3)
    for game in games(seed, full, three, model.Rules(players=2, observation_type="seer"), model.Rules(**SMALL)):
        lines, rules = text_of(game).split("\n"), game.rules
        value = dict(line.split(":", 1) for line in lines if ":" in line)
        assert value["Score"] == f" {game.score}/{rules.kinds}"
        assert value["Life tokens"] == f" {game.lives}/{rules.max_life_tokens}"
        assert value["Info tokens"] == f" {game.information}/{rules.max_information_tokens}"
        assert [int(stack[1]) for stack in value["Fireworks"].split()] == game.fireworks
        discards = [card(name, rules.ranks) for name in value["Discards"].split()]
        assert [discards.count(kind) for kind in range(rules.kinds)] == game.discards
        assert int(value["Deck size"]) == game.undealt
        hands = "\n".join(lines[lines.index("Hands:") + 1 :]).split("\n-----")
        for player, hand in enumerate(game.hands):
            title, *cards = hands[player].strip().split("\n")
            assert title == f"Player {player}" + ", to move" * (player == game.player and not game.ended)
            assert len(cards) == len(hand)
            for line, held in zip(cards, hand, strict=True):
                name, knowledge = line.split(" || ")
                assert card(name, rules.ranks) == held.color * rules.ranks + held.rank
                revealed, plausible = knowledge.split("|")
                assert revealed[0] == ("RYGWB"[held.color] if held.color_revealed else "X")
                assert revealed[1] == (str(held.rank + 1) if held.rank_revealed else "X")
                assert sum(1 << "RYGWB".index(sign) for sign in plausible if sign.isalpha()) == held.colors
                assert sum(1 << int(sign) - 1 for sign in plausible if sign.isdigit()) == held.ranks


def test_the_end_is_in_words() -> None:
    lost = dealt(model.Rules(players=2, max_life_tokens=1))
    while not lost.ended:
        lost.move(next(5 + i for i, held in enumerate(lost.hands[lost.player]) if held.rank > 2))
    assert text_of(lost).endswith("\nGame over: no life left")
    assert "Score: 0/25" in text_of(lost)

    won = model.Game(model.Rules(players=2, colors=1, ranks=1, hand_size=1), [0, 0, 0])
    won.move(1)
    assert text_of(won).endswith("\nGame over: all is played")

    idle = dealt(model.Rules(players=2, hand_size=25))
    assert text_of(idle).endswith("\nTurns left: 2")
    idle.move(50)
    assert text_of(idle).endswith("\nTurns left: 1")
    idle.move(50)
    assert text_of(idle).endswith("\nGame over: no turn left")


# ---- picture -------------------------------------------------------------------------------------------------------


def box(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int, int]:
    """Where two pictures differ: left, top, width, height."""
    rows, columns = np.nonzero((first != second).any(-1))
    return columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1


def changed(world: World, name: str, value: int, place: int | None = None) -> World:
    column = world[name].copy()
    column[() if place is None else place] = value
    return {**world, name: column}


def others(world: World, rules: Rules, dice: random.Random) -> Iterator[tuple[str, World]]:
    """Worlds that differ in one thing; each thing in turn, to a random other value."""

    def other(now: int, choices: range) -> int:
        return dice.choice([value for value in choices if value != now])

    over, held = bool(world["Table.over"]), np.flatnonzero(world["Held.Card.kind"] != NONE).tolist()
    place = dice.choice(held)
    for name, choices in (("kind", range(rules.kinds)), ("revealed", range(4))):
        value = other(int(world[f"Held.Card.{name}"][place]), choices)
        if len(choices) > 1:
            yield f"{name} of card {place}", changed(world, f"Held.Card.{name}", value, place)
    for name, size in (("colors", rules.colors), ("ranks", rules.ranks)):
        value = int(world[f"Held.Card.{name}"][place]) ^ 1 << dice.randrange(size)
        yield f"{name} of card {place}", changed(world, f"Held.Card.{name}", value, place)
    yield f"card {place} is missing", changed(world, "Held.Card.kind", NONE, place)

    color = dice.randrange(rules.colors)
    value = other(int(world["Table.fireworks"][color]), range(rules.ranks + 1))
    yield f"fireworks {color}", changed(world, "Table.fireworks", value, color)
    bits, first = int(world["Table.discards"]), 0
    for kind in range(rules.kinds):
        copies = rules.copies[kind % rules.ranks]
        count = (bits >> first & (1 << copies) - 1).bit_count()
        cleared = bits & ~(((1 << copies) - 1) << first)
        value = cleared | ((1 << other(count, range(copies + 1))) - 1) << first
        first += copies
        if dice.random() < 4 / rules.kinds:
            yield f"discards of kind {kind}", changed(world, "Table.discards", value)
    tables = {
        "information": range(rules.max_information_tokens + 1),
        "lives": range(rules.max_life_tokens + 1),
        "dealt": range(rules.cards + 1),
        "over": range(2),
    }
    tables |= {} if over else {"mover": range(rules.players)}
    tables |= {} if over or world["Table.dealt"] < rules.cards else {"left": range(rules.players + 1)}
    for name, choices in tables.items():
        yield name, changed(world, f"Table.{name}", other(int(world[f"Table.{name}"]), choices))

    kind_of_move = int(world["Last.type"])
    if kind_of_move == NONE:
        return
    lasts = {"player": range(rules.players)}
    if kind_of_move >= model.REVEAL_COLOR:
        name, size = ("color", rules.colors) if kind_of_move == model.REVEAL_COLOR else ("rank", rules.ranks)
        lasts |= {"target": range(rules.players), name: range(size)}
        first = int(world["Last.target"]) * rules.hand_size
        there = [i for i in range(min(8, rules.hand_size)) if world["Held.Card.kind"][first + i] != NONE]
        yield "outcome", changed(world, "Last.outcome", int(world["Last.outcome"]) ^ 1 << dice.choice(there))
    else:
        lasts |= {"type": range(2), "position": range(rules.hand_size), "kind": range(rules.kinds), "token": range(2)}
        lasts |= {"scored": range(2)} if kind_of_move == model.PLAY else {}
    for name, choices in lasts.items():
        if len(choices) > 1:
            yield f"last {name}", changed(world, f"Last.{name}", other(int(world[f"Last.{name}"]), choices))


RULES = (
    *(model.Rules(players=players) for players in (2, 5)),
    model.Rules(**SMALL),
    model.Rules(players=4, colors=3, hand_size=7, max_information_tokens=20, max_life_tokens=11),
    model.Rules(players=2, hand_size=25, max_information_tokens=255, max_life_tokens=255),
)


@pytest.mark.parametrize("rules", sampled(RULES, 1))
def test_whatever_differs_is_seen(rules: model.Rules) -> None:
    dice, seen = random.Random(3), set()
    moments = [world_of(game) for game in games(5, rules)]
    for world in (moments[0], *dice.sample(moments[1:-1], 2 if len(moments) > 4 else 0), moments[-1]):
        own = rules_of(dealt(rules))
        pixels, text = picture.draw(world, own).pixels, scene.text(world, own)
        for what, other in others(world, own, dice):
            assert not np.array_equal(pixels, picture.draw(other, own).pixels), what
            assert text != scene.text(other, own), what
            seen.add(what.split()[0])
    assert len(seen) >= 10


@pytest.mark.parametrize("players", full_but([2], range(2, 6)))
def test_every_game_has_a_picture_of_even_size(players: int) -> None:
    for colors, ranks in ((1, 1), (1, 5), (2, 3), (3, 2), (4, 4), (5, 1), (5, 5)):
        cards = model.Rules(colors=colors, ranks=ranks, hand_size=1).cards
        for hand_size in {1, 4, cards // players} if cards >= 4 * players else {cards // players} - {0}:
            game = dealt(model.Rules(players, colors, ranks, hand_size, max_information_tokens=0))
            pixels = drawn(game)
            assert pixels.dtype == np.uint8
            assert (pixels.shape[0] % 2, pixels.shape[1] % 2, pixels.shape[2]) == (0, 0, 3)
            assert pixels.shape[1] <= 1010


@pytest.mark.full
def test_the_pictures_of_a_game_have_one_size() -> None:
    for rules in (model.Rules(), model.Rules(**SMALL)):
        assert len({drawn(game).shape for game in games(1, rules)}) == 1


@pytest.mark.full
def test_the_end_is_seen() -> None:
    for game in games(2, model.Rules(players=3)):
        dark = drawn(game)[0, 0].tolist() == list(picture.NIGHT)
        assert dark != game.ended


def test_what_was_revealed_is_marked_in_gold() -> None:
    game = dealt(model.Rules(players=3))
    game.player, world, own = 2, world_of(game), rules_of(game)
    taken = []
    for revealed in range(4):
        other = picture.draw(changed(world, "Held.Card.revealed", revealed, 2), own).pixels
        if revealed:
            left, top, width, height = box(picture.draw(world, own).pixels, other)
            assert (other[top : top + height, left : left + width] == picture.GOLD).all(-1).any()
            taken.append((top, top + height))
    (color_top, color_end), (rank_top, rank_end), both = taken
    assert color_end <= rank_top
    assert both == (color_top, rank_end)


def test_backs_say_nothing_of_the_cards() -> None:
    """The picture of those who play is the same whatever they hold, until the game is over; others' cards show."""
    game = dealt(model.Rules(players=3))
    world, own = world_of(game), rules_of(game)
    mine, theirs = (changed(world, "Held.Card.kind", (int(world["Held.Card.kind"][i]) + 1) % 25, i) for i in (1, 6))
    seen = picture.draw(world, own, {0}).pixels
    assert not np.array_equal(seen, picture.draw(world, own).pixels)
    assert np.array_equal(seen, picture.draw(mine, own, {0}).pixels)
    assert not np.array_equal(seen, picture.draw(mine, own, {1}).pixels)
    assert not np.array_equal(seen, picture.draw(theirs, own, {0}).pixels)
    over = changed(world, "Table.over", 1)
    assert np.array_equal(picture.draw(over, own, {0}).pixels, picture.draw(over, own).pixels)
