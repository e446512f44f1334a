"""The model of Hanabi plays every recorded game of the reference, bit by bit; and rules beyond the reference.

The games are in ``golden/hanabi`` (see ``tests/oracles/record_hanabi.py``).
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hanabi_model import PRESETS, Game, Rules, digests, sections
from support import full_but

GOLDEN = Path(__file__).parent / "golden" / "hanabi"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))


@cache
def recorded(name: str) -> SimpleNamespace:
    """One file: its arrays, ``rules``, and ``first``, the row with which each game begins."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        arrays = dict(file)
    about = json.loads(arrays.pop("about").tobytes())
    first = np.cumsum([0, *(arrays["lengths"].astype(int) + 1)])
    assert first[-1] == len(arrays["moves"])
    return SimpleNamespace(**arrays, first=first[:-1], rules=Rules(**about["parameters"]), about=about)


def shuffled(rules: Rules, seed: int) -> list[int]:
    deck = rules.deck()
    random.Random(seed).shuffle(deck)
    return deck


# ---- recorded games ------------------------------------------------------------------------------------------------


def test_there_are_many_games_that_get_far() -> None:
    files = [recorded(name) for name in NAMES]
    assert sum(len(record.lengths) for record in files) >= 2_000
    assert {record.rules.players for record in files} == {2, 3, 4, 5}
    for preset in PRESETS.values():
        assert all(Rules(players=players, **preset) in [record.rules for record in files] for players in (2, 3, 4, 5))
    assert {record.rules.observation_type for record in files} == {"minimal", "card_knowledge", "seer"}
    assert sum(int((record.fireworks.sum(1) == record.rules.kinds).sum()) for record in files) >= 250
    assert sum(int((record.lives[record.ended] == 0).sum()) for record in files) >= 500
    assert sum(len(record.seen) for record in files) >= 400
    of_start = [set(record.starts) for record in files if record.rules.random_start_player]
    assert sorted(map(len, of_start)) == [2, 3, 4, 5]
    for name in ("full_2", "full_3", "full_4", "full_5"):
        record = recorded(name)
        assert record.returns.max() == 25 and np.median(record.returns[record.kinds == 2]) >= 19, name


@pytest.mark.parametrize("name", full_but(["full_2", "small_4", "random_start_5"], NAMES))
def test_the_model_plays_as_the_reference_does(name: str) -> None:
    record = recorded(name)
    assert (record.rules.bits, record.rules.moves) == (record.about["bits"], record.about["moves"])
    for number, (first, length) in enumerate(zip(record.first, record.lengths, strict=True)):
        assert sorted(record.decks[number]) == record.rules.deck()
        game = Game(record.rules, record.decks[number].tolist(), int(record.starts[number]))
        for row in range(first, first + length + 1):
            check(record, game, row)
            if row < first + length:
                reward = game.move(int(record.moves[row]))
                assert reward == int(record.scores[row + 1]) - int(record.scores[row]), row
        assert game.ended and record.moves[first + length] == 255
        assert game.fireworks == record.fireworks[number].tolist()
        assert game.score == record.returns[number]


def check(record: SimpleNamespace, game: Game, row: int) -> None:
    """That the model is in the recorded state."""
    assert game.player == record.players[row], row
    state = game.mask(), game.information, game.lives, game.score, game.ended
    assert state == tuple(getattr(record, x)[row] for x in "masks information lives scores ended".split()), row
    views = game.views()
    if row in record.seen_rows:
        bits = np.unpackbits(record.seen[np.searchsorted(record.seen_rows, row)], axis=-1, count=record.rules.bits)
        assert np.array_equal(bits, views), difference(game.rules, bits, views)
    assert digests(views[None])[0] == record.views[row], row
    assert digests(views[None, game.player])[0] == record.own[row], row


def difference(rules: Rules, expected: np.ndarray, views: np.ndarray) -> str:
    """Which bits of which sections differ."""
    found, start = [], 0
    for name, size in sections(rules):
        players, bits = np.nonzero((expected != views)[:, start : start + size])
        found += [f"{name}: player {p}, bit {b}" for p, b in zip(players, bits, strict=True)]
        start += size
    return "\n".join(found)


# ---- what was not recorded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lose_score", [True, False])
def test_the_score_of_a_lost_game_is_taken_back_or_kept(lose_score: bool) -> None:
    rules = Rules(colors=2, hand_size=2, max_information_tokens=3, max_life_tokens=1)
    game = Game(rules, [0, 9, 1, 8, *[2] * 16], lose_score=lose_score)
    assert [game.move(2), game.move(2)] == [1, 1] and game.score == 2
    reward = game.move(2)  # the last card of the other colour, which needs another four
    assert (reward, game.score) == ((-2, 0) if lose_score else (0, 2))
    assert game.ended and game.legal() == [] and game.fireworks == [2, 0]
    assert [len(hand) for hand in game.hands] == [1, 2]  # no card is drawn any more
    with pytest.raises(ValueError, match="not legal"):
        game.move(0)


def test_a_colour_completed_gives_a_token_only_below_the_most() -> None:
    rules = Rules(colors=2, ranks=1, hand_size=2, max_information_tokens=1)
    game = Game(rules, [0, 0, 1, 1, 0, 1])
    game.move(2)
    assert game.information == 1 and (game.last.scored, game.last.token) == (True, False)
    rules = Rules(colors=3, ranks=1, hand_size=2, max_information_tokens=1)
    game = Game(rules, [0, 0, 1, 1, 2, 2, 0, 1, 2])
    game.move(game.legal()[-1])
    assert game.information == 0
    game.move(2)
    assert game.information == 1 and (game.last.scored, game.last.token) == (True, True)


def test_moves_have_the_uids_of_the_reference() -> None:
    game = Game(Rules(players=3), shuffled(Rules(players=3), 0))
    parts = [game.parts(uid) for uid in range(game.rules.moves)]
    assert parts[:10] == [(1, i, -1) for i in range(5)] + [(0, i, -1) for i in range(5)]
    assert parts[10:20] == [(2, offset, color) for offset in (1, 2) for color in range(5)]
    assert parts[20:] == [(3, offset, rank) for offset in (1, 2) for rank in range(5)]


def test_no_parameters_have_more_than_60_moves() -> None:
    most = max(Rules(players=p, hand_size=50 // p).moves for p in (2, 3, 4, 5))
    assert most == 60
