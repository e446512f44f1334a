"""Record games of the reference into tests/envs/golden/hanabi: `python record_hanabi.py`.

Runs in an environment of its own, where ``open_spiel==2.0.2`` and ``hanabi-learning-environment==0.0.4`` (its build
needs CMAKE_POLICY_VERSION_MINIMUM=3.5 in the environment) are installed, and needs nothing else. What is recorded comes
from OpenSpiel, which wraps the same source; every game is played in the package itself too, with the same deck, and
must be the same. It prints what happens in the games of each case.

A case is a set of parameters; one file per case, ``<case>.npz``. Rows are the states of its games in which somebody is
to move, and after them the end: a game of n moves has n + 1 rows, game follows game.

- ``about``: JSON as uint8: ``{"parameters", "bits", "moves"}``: those of ``Rules`` that are not the defaults, the size
  of the encoding, and the number of move uids.
- By game: ``lengths`` uint8 (moves), ``kinds`` uint8 (who plays, place in ``PLAYERS``), ``starts`` uint8 (who begins),
  ``decks`` uint8 ``[games, cards]`` (``colour * ranks + rank``, in the order of dealing: player 0's whole hand,
  player 1's, ..., the draws; cards that were not dealt come last), ``returns`` float32 (the reference's, the same for
  all players), ``fireworks`` uint8 ``[games, colours]`` (cards played of each colour at the end).
- By row: ``moves`` uint8 (the uid of the move made there; 255 at the end), ``players`` uint8 (who makes it; at the
  end: whose turn it would be), ``masks`` uint64 (bit ``uid`` for each legal move; 0 at the end), ``information``,
  ``lives``, ``scores`` uint8 (0 once the last life is lost), ``ended`` bool, and digests, uint64: ``views`` of all
  players' encodings together (uint8 ``[players, bits]``), ``own`` of the encoding for the one in ``players``.
- In full, of some rows: ``seen_rows`` int32 (which), ``seen`` uint8 ``[seen, players, bytes]`` (encodings, by
  ``np.packbits`` along the last axis).

What a digest is: ``digests`` in tests/envs/overcooked_model.py. How an encoding is made: tests/envs/hanabi_model.py.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyspiel
from hanabi_learning_environment import pyhanabi

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "envs"))

from hanabi_model import OBSERVATION_TYPES, PRESETS, Game, Hinters, Rules, digests, random_move  # noqa: E402

GOLDEN = TESTS / "envs" / "golden" / "hanabi"
PLAYERS = ("random", "random, seldom playing", "hints", "hints, erring", "knowing their cards", "knowing, erring")
COLUMNS = ("games", "moves", "mean score", "all played", "lives lost", "deck empty", "last turns", "colours", "full")
ODD = {
    "one_of_each": {"players": 3, "colors": 1, "ranks": 1, "hand_size": 1},
    "one_rank": {"players": 4, "ranks": 1, "hand_size": 3, "max_information_tokens": 4},
    "two_ranks": {"players": 5, "colors": 4, "ranks": 2, "hand_size": 2, "max_information_tokens": 5},
    "three_colors": {"players": 3, "colors": 3, "ranks": 4, "hand_size": 3, "max_information_tokens": 5,
                     "max_life_tokens": 2},
    "four_colors_seer": {"players": 4, "colors": 4, "ranks": 3, "hand_size": 3, "observation_type": "seer"},
    "two_colors_minimal": {"players": 2, "colors": 2, "ranks": 4, "hand_size": 4, "observation_type": "minimal"},
    "hand_of_one": {"players": 2, "hand_size": 1, "max_life_tokens": 5},
    "hand_of_eight": {"players": 3, "hand_size": 8, "max_information_tokens": 12},
    "hand_of_nine": {"players": 2, "hand_size": 9},  # above 8 the outcome of reveals is cut short
    "hand_of_ten": {"players": 5, "hand_size": 10},  # all cards are dealt at once
    "no_information": {"players": 2, "max_information_tokens": 0, "max_life_tokens": 20},
    "one_information": {"players": 3, "max_information_tokens": 1, "max_life_tokens": 1},
    "many_tokens": {"players": 4, "max_information_tokens": 30, "max_life_tokens": 10},
    "three_players_hand_of_four": {"players": 3, "hand_size": 4, "colors": 4},
}  # fmt: skip
for count in (2, 3, 4, 5):
    ODD[f"random_start_{count}"] = {"players": count, "random_start_player": True}


def cases():
    """Parameters of each case, by name, and how many games of each of ``PLAYERS``."""
    found = {}
    for count in (2, 3, 4, 5):
        for name in ("Hanabi-Full", "Hanabi-Full-Minimal", "Hanabi-Small", "Hanabi-Very-Small"):
            preset = {"players": count, **PRESETS[name]}
            games = (40, 6, 24, 16, 6, 8) if name == "Hanabi-Full" else (6, 2, 3, 3, 2, 2)
            if name.endswith("Small"):
                games = (25, 13, 20, 18, 12, 12)
            found[f"{name[7:].lower().replace('-', '_')}_{count}"] = preset, games
        found[f"seer_{count}"] = {"players": count, "observation_type": "seer"}, (6, 2, 3, 3, 2, 2)
    quick = {"one_of_each": 3, "one_rank": 12, "two_ranks": 20, "hand_of_ten": 20}
    for name, parameters in ODD.items():
        found[name] = parameters, (quick[name],) * 6 if name in quick else (12, 2, 5, 4, 3, 4)
    return found


# ---- the package itself --------------------------------------------------------------------------------------------


class Package:
    """Games of one set of parameters in the package itself, with decks that are given.

    It has no call to deal a chosen card, but a deal that happened can be had from the history and made again.
    """

    def __init__(self, rules, parameters):
        names = {**parameters, "observation_type": OBSERVATION_TYPES.index(rules.observation_type), "seed": 1}
        self.game = pyhanabi.HanabiGame(names)
        self.encoder = pyhanabi.ObservationEncoder(self.game)
        self.rules, self.deals = rules, {}
        while len(self.deals) < rules.kinds:
            state = self.game.new_initial_state()
            while state.cur_player() == pyhanabi.CHANCE_PLAYER_ID:
                state.deal_random_card()
            for item in state.move_history():
                move = item.move()
                self.deals[move.color() * rules.ranks + move.rank()] = move

    def begin(self, deck, start):
        while True:  # the start is drawn at random, where at all
            self.state, self.deck = self.game.new_initial_state(), iter(deck)
            self.deal()
            if self.state.cur_player() == start:
                return

    def deal(self):
        """After the end there would be cards to deal too."""
        while not self.state.is_terminal() and self.state.cur_player() == pyhanabi.CHANCE_PLAYER_ID:
            self.state.apply_move(self.deals[next(self.deck)])

    def move(self, uid):
        self.state.apply_move(self.game.get_move(uid))
        self.deal()

    def row(self):
        """What ``Oracle.row`` tells. After the end it would still list moves."""
        state, players = self.state, range(self.rules.players)
        ended = state.is_terminal()
        legal = [] if ended else [self.game.get_move_uid(move) for move in state.legal_moves()]
        views = [self.encoder.encode(state.observation(player)) for player in players]
        tokens = state.information_tokens(), state.life_tokens()
        return ended, legal, *tokens, state.score(), state.fireworks(), np.array(views, np.uint8)


# ---- OpenSpiel -----------------------------------------------------------------------------------------------------


class Oracle:
    """One game in OpenSpiel with a given deck."""

    def __init__(self, game, rules, deck):
        self.rules, self.state, self.deck = rules, game.new_initial_state(), iter(deck)
        self.deal()
        self.start = self.state.current_player()

    def deal(self):
        while self.state.is_chance_node():
            self.state.apply_action(next(self.deck))

    def move(self, uid):
        before = self.score()
        self.state.apply_action(uid)
        self.deal()
        assert self.state.rewards() == [self.score() - before] * self.rules.players

    def score(self):
        return int(self.state.returns()[0])

    def row(self):
        """Ended, legal uids, information and life tokens, score, fireworks, views uint8 ``[players, bits]``."""
        lines = str(self.state).splitlines()
        lives, information = (int(lines[i].split(": ")[1]) for i in (0, 1))
        fireworks = [int(word[1:]) for word in lines[2].split(": ")[1].split()]
        views = np.array([self.state.observation_tensor(player) for player in range(self.rules.players)])
        assert set(np.unique(views)) <= {0, 1}
        ended = self.state.is_terminal()
        legal = [] if ended else self.state.legal_actions()
        return ended, legal, information, lives, self.score(), fireworks, views.astype(np.uint8)


# ---- games ---------------------------------------------------------------------------------------------------------


def chooser(kind, game, seed):
    """A function that returns the next move, for one of ``PLAYERS``."""
    if kind < 2:
        dice = random.Random(seed)
        return lambda: random_move(game, dice, plays=(1.0, 0.15)[kind])
    return Hinters(game, seed, noise=(0.0, 0.1)[kind % 2], peek=kind >= 4).move


class Recording:
    """The arrays of one file, as lists of rows."""

    def __init__(self, parameters, seed):
        self.parameters, self.seed = parameters, seed
        self.rules = Rules(**parameters)
        self.spiel = pyspiel.load_game("hanabi", {**parameters, "seed": 1 + seed})
        self.package = Package(self.rules, parameters)
        self.tally = Counter()
        by_game, by_row = "lengths kinds starts decks returns fireworks", "moves players masks information lives scores"
        self.arrays = {name: [] for name in f"{by_game} {by_row} ended views own seen_rows seen".split()}

    def play(self, kind):
        """One game, in the package and in OpenSpiel; the model follows for those who choose moves."""
        rules, rows = self.rules, self.arrays
        dice = random.Random(self.seed)
        deck = rules.deck()
        dice.shuffle(deck)
        oracle = Oracle(self.spiel, rules, deck)
        self.package.begin(deck, oracle.start)
        game = Game(rules, deck, oracle.start)
        choose, first = chooser(kind, game, self.seed), len(rows["moves"])
        while True:
            row = oracle.row()
            same(row, self.package.row())
            player = (oracle.start + len(rows["moves"]) - first) % rules.players
            assert row[0] or player == oracle.state.current_player() == self.package.state.cur_player()
            uid = 255 if row[0] else choose()
            self.keep(row, player, uid)
            if row[0]:
                break
            self.count(game, uid)
            for one in (oracle, self.package, game):
                one.move(uid)
        returns = oracle.state.returns()
        assert len(set(returns)) == 1
        rows["lengths"].append(len(rows["moves"]) - first - 1)
        for name, value in (("kinds", kind), ("starts", oracle.start), ("decks", deck), ("returns", returns[0])):
            rows[name].append(value)
        rows["fireworks"].append(row[5])
        self.tally.update(games=1, score=returns[0])
        self.tally.update({"all played": sum(row[5]) == rules.kinds, "lives lost": row[3] == 0})
        self.tally.update({"deck empty": game.undealt == 0, "colours": row[5].count(rules.ranks)})
        self.seed += 1

    def keep(self, row, player, uid):
        """Write down a state. In full: at a few random moves, seldom at an end."""
        ended, legal, information, lives, score, _, views = row
        rows, mask = self.arrays, sum(1 << move for move in legal)
        if random.Random(7919 * self.seed + len(rows["moves"])).random() < (0.08 if ended else 0.006):
            rows["seen_rows"].append(len(rows["moves"]))
            rows["seen"].append(np.packbits(views, axis=-1))
            self.tally["full"] += 1
        values = uid, player, mask, information, lives, score, ended
        for name, value in zip("moves players masks information lives scores ended".split(), values, strict=True):
            rows[name].append(value)
        rows["views"].extend(digests(views[None]))
        rows["own"].extend(digests(views[None, player]))

    def count(self, game, uid):
        self.tally["moves"] += 1
        self.tally["last turns"] += game.undealt == 0
        self.tally[("plays", "discards", "colour reveals", "rank reveals")[game.parts(uid)[0]]] += 1

    def save(self, path):
        dtypes = {"masks": np.uint64, "views": np.uint64, "own": np.uint64, "ended": bool, "returns": np.float32}
        dtypes["seen_rows"] = np.int32
        arrays = {name: np.array(rows, dtypes.get(name, np.uint8)) for name, rows in self.arrays.items()}
        shape = (-1, self.rules.players, (self.rules.bits + 7) // 8)
        arrays["seen"] = arrays["seen"].reshape(shape)  # also where there are none
        about = {"parameters": self.parameters, "bits": self.spiel.observation_tensor_shape()[0]}
        about["moves"] = self.spiel.num_distinct_actions()
        text = json.dumps(about, separators=(",", ":")).encode()
        np.savez_compressed(path, about=np.frombuffer(text, np.uint8), **arrays)


def same(one, other):
    """OpenSpiel and the package must tell the same."""
    assert one[:-1] == other[:-1], (one[:-1], other[:-1])
    assert np.array_equal(one[-1], other[-1])


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    print(f"{'':28}", *(f"{name:>11}" for name in COLUMNS))
    totals = Counter()
    for number, (name, (parameters, games)) in enumerate(cases().items()):
        recording = Recording(parameters, 1000 * number)
        for kind, count in enumerate(games):
            for _ in range(count):
                recording.play(kind)
        recording.save(GOLDEN / f"{name}.npz")
        totals.update(recording.tally)
        show(name, recording.tally)
    show("all", totals)
    print(", ".join(f"{totals[name]:,} {name}" for name in ("plays", "discards", "colour reveals", "rank reveals")))


def show(name, tally):
    tally = tally | {"mean score": round(tally["score"] / tally["games"], 2)}
    print(f"{name:28}", *(f"{tally[column]:>11}" for column in COLUMNS), flush=True)


if __name__ == "__main__":
    main()
