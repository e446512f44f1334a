"""Hanabi: every step of recorded games of the reference, and of the environment's own games beside the model.

The games are in ``golden/hanabi`` (see ``tests/oracles/record_hanabi.py``); that ``hanabi_model`` plays them too is in
``test_hanabi_model``. So the model stands for what was not recorded.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hanabi_model import Game, Rules, digests, random_move, sections
from support import assert_same_bits, full_but, of_today, of_worlds, snapshot
from test_hanabi_model import NAMES, recorded, shuffled
from torch_batchsim.envs.hanabi import PRESETS, Hanabi, unpack_bits

from torch_batchsim import TorchVectorEnv, WorldFault
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import state_tables

ID = "torch_batchsim/Hanabi-v0"
DTYPES = ("uint8", "float32", "bits")
MODES = list(AutoresetMode)
STATE = ("Deck", "Table", "Last", "Held_Card")


def hanabi(rules: Rules, worlds: int, mode: AutoresetMode = AutoresetMode.DISABLED, **options: Any) -> TorchVectorEnv:
    return TorchVectorEnv(Hanabi(**{**asdict(rules), **options}), num_worlds=worlds, autoreset_mode=mode)


def seen(env: TorchVectorEnv, observations: torch.Tensor) -> np.ndarray:
    """uint8 ``[worlds, agents, bits]`` of observations of any type, which have zeros and ones only."""
    if env.environment.constants.obs_dtype == "bits":
        padded = np.unpackbits(observations.numpy(), axis=-1, bitorder="little")
        assert not padded[:, env.environment.bits :].any()
        observations = unpack_bits(observations, env.environment.bits)
    array = observations.numpy()
    assert ((array == 0) | (array == 1)).all()
    return env.by_world(torch.from_numpy(array.astype(np.uint8))).numpy()


def actions_of(env: TorchVectorEnv, movers: Any, uids: Any) -> torch.Tensor:
    """Actions of all rows: the movers' uids ``[worlds]``, and of others the no-op."""
    if env.num_agents == 1:
        return torch.as_tensor(np.asarray(uids, np.int64))
    actions = np.full((env.num_worlds, env.num_agents), env.environment.moves)
    actions[np.arange(env.num_worlds), movers] = uids
    return torch.from_numpy(actions.reshape(-1))


def masks_of(env: TorchVectorEnv, movers: Any, legal: Any, over: Any) -> np.ndarray:
    """bool ``[worlds, agents, moves (+ 1)]``, from the bits of the movers' legal moves, uint64 ``[worlds]``.

    After the end, where no move is legal, all choices are allowed.
    """
    moves = env.environment.moves
    own = (np.asarray(legal, np.uint64)[:, None] >> np.arange(moves, dtype=np.uint64) & np.uint64(1)).astype(bool)
    over = np.asarray(over, bool)
    assert not own[over].any()
    if env.num_agents == 1:
        masks = own[:, None].copy()
    else:
        masks = np.zeros((env.num_worlds, env.num_agents, moves + 1), bool)
        masks[..., moves] = True
        masks[np.arange(env.num_worlds), movers] = np.pad(own, ((0, 0), (0, 1)))
    masks[over] = True
    return masks


def state_of(env: TorchVectorEnv) -> dict[str, torch.Tensor]:
    return {name: snapshot(env.sim)[f"column_{name}"] for name in STATE}


# ---- recorded games ------------------------------------------------------------------------------------------------

# All files are shown to all players, as bytes; these also to the player to move, in some other way.
CURRENT = {
    "random_start_2": "uint8", "random_start_3": "bits", "random_start_4": "bits", "random_start_5": "float32",
    "small_4": "bits", "very_small_3": "uint8", "one_rank": "bits", "three_colors": "float32",
}  # fmt: skip


SHOWN = [
    ("full_2", "all", "uint8"),
    *of_today([(name, "all", "uint8") for name in NAMES if name != "full_2"], 6),
    ("small_4", "current", CURRENT["small_4"]),
    *of_today([(name, "current", dtype) for name, dtype in CURRENT.items() if name != "small_4"], 4),
]


@pytest.mark.parametrize(("name", "turns", "dtype"), SHOWN)
def test_every_step_is_the_references(name: str, turns: str, dtype: str) -> None:
    """All games of a file at once; those that are over stand still."""
    record = recorded(name)
    env = hanabi(record.rules, len(record.lengths), turns=turns, obs_dtype=dtype)
    assert (env.environment.bits, env.environment.moves) == (record.about["bits"], record.about["moves"])
    options = {"deck": record.decks, "start_player": torch.from_numpy(record.starts)}
    observations, infos = env.reset(seed=0, options=options)
    rewards, terminations = torch.zeros(2, env.num_envs)
    lengths, before = record.lengths.astype(int), 0
    for t in range(lengths.max() + 2):
        rows = record.first + np.minimum(t, lengths)
        movers, scores, ended = record.players[rows], record.scores[rows].astype(int), record.ended[rows]
        views = seen(env, observations)
        same = digests(views) == record.views[rows] if turns == "all" else digests(views[:, 0]) == record.own[rows]
        assert same.all(), f"step {t}\n{difference(env, views, options['deck'], rows, record, int(np.argmin(same)))}"
        masks = env.by_world(infos["action_mask"]).numpy()
        assert np.array_equal(masks, masks_of(env, movers, record.masks[rows], ended)), t
        for tensor, expected in ((rewards, scores - before), (terminations, ended), (infos["score"], scores)):
            assert (env.by_world(tensor).numpy() == expected[:, None]).all(), t
        before = scores
        uids = np.where(t < lengths, record.moves[rows], t % env.environment.moves)
        observations, rewards, terminations, truncations, infos = env.step(actions_of(env, movers, uids))
        assert not truncations.any()


def difference(
    env: TorchVectorEnv, views: np.ndarray, decks: np.ndarray, rows: np.ndarray, record: Any, game: int
) -> str:
    """Which bits of which sections differ, from what the model shows after the same moves."""
    model = Game(record.rules, decks[game].tolist(), int(record.starts[game]))
    for row in range(record.first[game], rows[game]):
        model.move(int(record.moves[row]))
    return f"game {game}: " + ", ".join(sections_that_differ(model, expected_views(env, model), views[game]))


def expected_views(env: TorchVectorEnv, game: Game) -> np.ndarray:
    return game.views() if env.num_agents > 1 else game.encode(game.player)[None]


def sections_that_differ(game: Game, expected: np.ndarray, views: np.ndarray) -> list[str]:
    found, start = [], 0
    for name, size in sections(game.rules):
        rows, bits = np.nonzero((expected != views)[:, start : start + size])
        found += [f"{name} of row {row}, bit {bit}" for row, bit in zip(rows, bits, strict=True)]
        start += size
    return found


# ---- own games beside the model ------------------------------------------------------------------------------------


def games_of(env: TorchVectorEnv, lose_score: bool = True) -> list[Game]:
    """The model's games of episodes that have just begun."""
    rules = Rules(**asdict(env.environment.rules))
    decks, starts = env.sim.tensor("Deck.cards").tolist(), env.sim.tensor("Table.mover").tolist()
    assert all(sorted(deck) == rules.deck() for deck in decks)
    return [Game(rules, deck, start, lose_score) for deck, start in zip(decks, starts, strict=True)]


def assert_states_agree(env: TorchVectorEnv, games: list[Game]) -> None:
    """What pictures and users read, against the model."""
    rules = games[0].rules
    table = {
        "fireworks": [game.fireworks for game in games],
        "information": [game.information for game in games],
        "lives": [game.lives for game in games],
        "dealt": [game.dealt for game in games],
        "mover": [game.player for game in games],
        "left": [game.left for game in games],
        "over": [game.ended for game in games],
        "discards": [thermometers(game) for game in games],
    }
    for name, values in table.items():
        assert env.sim.tensor(f"Table.{name}").tolist() == values, name
    held = {name: env.sim.tensor(f"Held.Card.{name}").tolist() for name in ("kind", "colors", "ranks", "revealed")}
    for world, game in enumerate(games):
        for row in range(rules.players * rules.hand_size):
            hand, position = game.hands[row // rules.hand_size], row % rules.hand_size
            if position >= len(hand):
                assert held["kind"][world][row] == 255
                continue
            card = hand[position]
            expected = {"kind": card.color * rules.ranks + card.rank, "colors": card.colors, "ranks": card.ranks}
            expected["revealed"] = card.color_revealed + 2 * card.rank_revealed
            assert {name: held[name][world][row] for name in held} == expected
    last = {name: env.sim.tensor(f"Last.{name}").tolist() for name in ("player", "type", "target", "position", "kind")}
    for name, values in last.items():
        assert values == [255 if g.last is None or getattr(g.last, name) < 0 else getattr(g.last, name) for g in games]


def thermometers(game: Game) -> int:
    """The discards as the state has them."""
    bits, place = 0, 0
    for kind, count in enumerate(game.discards):
        bits |= ((1 << count) - 1) << place
        place += game.rules.copies(kind % game.rules.ranks)
    return bits


def play_beside_the_model(env: TorchVectorEnv, steps: int, seed: int, lose_score: bool = True) -> int:
    """Random legal moves, with AutoresetMode.SAME_STEP; returns how many games have ended."""
    dice, ends = random.Random(seed), 0
    observations, infos = env.reset(seed=seed)
    games = games_of(env, lose_score)
    for step in range(steps):
        expected = np.stack([expected_views(env, game) for game in games])
        assert np.array_equal(seen(env, observations), expected), step
        movers, legal = [game.player for game in games], [game.mask() for game in games]
        assert np.array_equal(
            env.by_world(infos["action_mask"]).numpy(), masks_of(env, movers, legal, [False] * len(games))
        )
        assert_states_agree(env, games)
        uids = [random_move(game, dice, plays=dice.random()) for game in games]
        observations, rewards, terminations, _, infos = env.step(actions_of(env, movers, uids))
        paid = [game.move(uid) for game, uid in zip(games, uids, strict=True)]
        ended = np.array([game.ended for game in games])
        assert (env.by_world(rewards).numpy() == np.array(paid)[:, None]).all()
        assert (env.by_world(terminations).numpy() == ended[:, None]).all()
        scores = np.array([0 if game.lives == 0 else sum(game.fireworks) for game in games])
        assert (env.by_world(infos["final_info"]["score"]).numpy()[ended] == scores[ended, None]).all()
        assert (env.by_world(infos["score"]).numpy() == np.where(ended, 0, scores)[:, None]).all()
        assert env.by_world(infos["final_info"]["action_mask"])[torch.from_numpy(ended)].all()
        final = seen(env, infos["final_obs"]) if ended.any() else None
        begun = games_of(env, lose_score) if ended.any() else games
        for world in ended.nonzero()[0]:
            assert np.array_equal(final[world], expected_views(env, games[world]))
            games[world], ends = begun[world], ends + 1
    return ends


@pytest.mark.parametrize(
    ("name", "options"),
    full_but(
        ["full_2"],
        [
            ("full_2", {"random_start_player": True}),
            ("full_5", {"lose_score": False}),
            ("small_3", {"random_start_player": True, "lose_score": False}),
            ("small_4", {"turns": "current", "obs_dtype": "bits", "random_start_player": True}),
            ("very_small_3", {"turns": "current", "lose_score": False}),
            ("seer_4", {"random_start_player": True}),
            ("hand_of_nine", {}),
            ("hand_of_one", {}),
            ("one_of_each", {"random_start_player": True}),
            ("one_rank", {"turns": "current", "obs_dtype": "bits"}),
            ("two_ranks", {"random_start_player": True}),
            ("no_information", {"lose_score": False}),
        ],
    ),
)
def test_own_games_are_the_models(name: str, options: dict[str, Any]) -> None:
    rules = recorded(name).rules
    env = hanabi(rules, 10, AutoresetMode.SAME_STEP, **{"turns": "all", **options})
    assert play_beside_the_model(env, 100, 3, options.get("lose_score", True)) >= 10


@pytest.mark.full
@pytest.mark.parametrize("turns", full_but(["current"], ["current", "all"]))
def test_a_critic_sees_the_own_hand(turns: str) -> None:
    game = Hanabi(players=3, turns=turns, critic=True, max_life_tokens=90)
    env = TorchVectorEnv(game, num_worlds=8, autoreset_mode=AutoresetMode.SAME_STEP)
    space = env.single_critic_space["own_hand"]
    assert (space.shape, space.dtype) == ((5, 25), np.bool_)
    dice, ends, short = np.random.default_rng(0), 0, 0
    _, infos = env.reset(seed=0)
    for _ in range(150):
        kinds = env.sim.tensor("Held.Card.kind").view(8, 3, 5)
        movers = env.sim.tensor("Table.mover").long()
        shown = kinds if turns == "all" else kinds[torch.arange(8), movers][:, None]
        expected = shown[..., None] == torch.arange(25)
        assert torch.equal(env.by_world(infos["own_hand"]), expected)
        short += int((~expected.any(-1)).sum())
        noise = torch.from_numpy(dice.random(infos["action_mask"].shape))
        _, _, terminations, _, infos = env.step(torch.where(infos["action_mask"], noise, 0).argmax(1))
        ends += int(terminations.sum())
    assert ends and (short or turns == "current")  # a hand lacks a card once its player has made the last turn
    assert TorchVectorEnv(Hanabi(), num_worlds=1).single_critic_space is None


@pytest.mark.full
def test_what_the_last_life_takes_can_be_anything_in_between() -> None:
    env = hanabi(Rules(**asdict(recorded("small_3").rules)), 1, turns="all", lose_score=False)
    game = Game(recorded("small_3").rules, [0, 9, 1, 8, 2, 9 - 2, *shuffled_rest([0, 9, 1, 8, 2, 7])])
    factor = env.sim.tensor("Mercy.factor")
    assert (factor.shape, factor.item()) == ((), 1)
    for value in (1, 0.5, 0):
        factor.fill_(value)
        env.reset(seed=0, options={"deck": [game.deck]})
        paid = []
        for mover, uid in ((0, 2), (1, 2), (2, 2), (0, 2)):  # ranks 0, 1, 2 of the first colour; then a 4 of the other
            _, rewards, terminations, _, infos = env.step(actions_of(env, [mover], [uid]))
            paid.append(rewards.tolist())
        assert terminations.all()
        assert paid == [[1] * 3, [1] * 3, [1] * 3, [3 * (value - 1)] * 3]
        assert infos["score"].tolist() == [0, 0, 0]


def shuffled_rest(first: list[int]) -> list[int]:
    rest = shuffled(recorded("small_3").rules, 0)
    for card in first:
        rest.remove(card)
    return rest


# ---- types of observations -----------------------------------------------------------------------------------------


@pytest.mark.full
def test_observations_of_all_types_are_the_same_bits() -> None:
    """With a row for each player, and final observations; for the others recorded games have shown it."""
    rules = recorded("two_colors_minimal").rules
    envs = [hanabi(rules, 20, AutoresetMode.SAME_STEP, turns="all", obs_dtype=dtype) for dtype in DTYPES]
    bits, generator = envs[0].environment.bits, np.random.default_rng(0)
    assert bits % 8, "or there are no bits behind the last one"
    shapes = [(bits,), (bits,), (-(-bits // 8),)]
    assert [env.single_observation_space.shape for env in envs] == shapes
    results = [env.reset(seed=1)[0] for env in envs]
    for _ in range(80):
        for env, observations in zip(envs, results, strict=True):
            assert observations.dtype == (torch.float32 if observations is results[1] else torch.uint8)
            assert np.array_equal(seen(env, observations), seen(envs[0], results[0]))
            assert torch.equal(env.action_mask, envs[0].action_mask)
        legal = envs[0].action_mask.numpy() * generator.random(envs[0].action_mask.shape)
        steps = [env.step(torch.from_numpy(legal.argmax(1))) for env in envs]
        results = [step[0] for step in steps]
        finals = [
            seen(env, step[4]["final_obs"])[step[2].view(20, -1)[:, 0]] for env, step in zip(envs, steps, strict=True)
        ]
        assert all(np.array_equal(final, finals[0]) for final in finals)


def test_unpack_bits() -> None:
    generator = np.random.default_rng(0)
    for bits in (1, 7, 8, 9, 64, 171, 658):
        array = generator.integers(0, 2, (3, 4, bits), np.uint8)
        packed = torch.from_numpy(np.packbits(array, axis=-1, bitorder="little"))
        assert torch.equal(unpack_bits(packed, bits), torch.from_numpy(array).float())
        assert torch.equal(unpack_bits(packed, bits, torch.bool), torch.from_numpy(array).bool())
    for wrong, says in [
        (torch.zeros(2, 3, dtype=torch.uint8), r"uint8 \[\.\.\., 2\] for 9 bits, got uint8 \[2, 3\]"),
        (torch.zeros(2, 2), r"uint8 \[\.\.\., 2\] for 9 bits, got float32 \[2, 2\]"),
        (torch.tensor(3, dtype=torch.uint8), r"got uint8 \[\]"),
    ]:
        with pytest.raises(ValueError, match=says):
            unpack_bits(wrong, 9)


# ---- decks ---------------------------------------------------------------------------------------------------------

TINY = Rules(colors=2, ranks=2, hand_size=1, random_start_player=True)  # 8 cards, in 1,120 orders


def deviation(counts: np.ndarray, expected: np.ndarray | float) -> float:
    return float((((counts - expected) ** 2) / expected).sum())


@pytest.mark.full
def test_all_orders_of_a_deck_and_all_starts_are_equally_likely() -> None:
    worlds, cells = 56_000, 1120 * 2
    env = hanabi(TINY, worlds)
    env.reset(seed=0)
    for _ in range(2):
        decks, starts = env.sim.tensor("Deck.cards").numpy(), env.sim.tensor("Table.mover").numpy()
        keys = (decks.astype(int) * 4 ** np.arange(8)).sum(1) * 2 + starts
        orders, counts = np.unique(keys, return_counts=True)
        assert len(orders) == cells
        assert abs(deviation(counts, worlds / cells) - cells) < 4 * (2 * cells) ** 0.5  # chi-square
        assert abs(int(starts.sum()) - worlds / 2) < 2 * worlds**0.5
        env.reset()


@pytest.mark.full
def test_each_card_is_equally_likely_at_each_place() -> None:
    worlds = 20_000
    env = hanabi(Rules(), worlds)
    env.reset(seed=1)
    decks = env.sim.tensor("Deck.cards").numpy().copy()
    counts = np.stack([np.bincount(decks[:, place], minlength=25) for place in range(50)])
    expected = np.bincount(Rules().deck()) / 50 * worlds
    assert abs(deviation(counts, expected) - 50 * 24) < 4 * (2 * 50 * 24) ** 0.5
    assert len(np.unique(decks, axis=0)) == worlds, "no two worlds have the same deck"
    env.reset()
    again = env.sim.tensor("Deck.cards").numpy().copy()
    assert len(np.unique(np.concatenate([decks, again]), axis=0)) == 2 * worlds, "nor two episodes"
    env.reset(seed=1)
    assert np.array_equal(env.sim.tensor("Deck.cards").numpy(), decks)
    env.reset(seed=2)
    assert not (env.sim.tensor("Deck.cards").numpy() == decks).all(1).any()


@pytest.mark.full
@pytest.mark.parametrize("players", full_but([2], [2, 3, 4, 5]))
def test_starting_players(players: int) -> None:
    """Whoever starts, player 0's hand is dealt first."""
    name = f"random_start_{players}"
    rules, worlds = recorded(name).rules, 3000
    env = hanabi(rules, worlds, obs_dtype=CURRENT[name])
    env.reset(seed=0)
    counts = np.bincount(env.sim.tensor("Table.mover").numpy(), minlength=players)
    assert deviation(counts, worlds / players) < 20
    hands = env.sim.tensor("Held.Card.kind")
    assert torch.equal(hands, env.sim.tensor("Deck.cards")[:, : hands.shape[1]])
    still = hanabi(rules, worlds, obs_dtype=CURRENT[name], random_start_player=False)
    still.reset(seed=0)
    assert not still.sim.tensor("Table.mover").any()


def some_decks(rules: Rules, worlds: int, seed: int = 0) -> np.ndarray:
    return np.array([shuffled(rules, seed + world) for world in range(worlds)])


@pytest.mark.parametrize("again", ["a reset", "an end"])
def test_what_is_given_holds_for_one_episode(again: str) -> None:
    decks = some_decks(Rules(), 6)
    env, other = (hanabi(Rules(), 6, AutoresetMode.SAME_STEP) for _ in range(2))
    env.reset(seed=5, options={"deck": decks, "start_player": [1] * 6})
    other.reset(seed=5)
    assert np.array_equal(env.sim.tensor("Deck.cards").numpy(), decks)
    assert env.sim.tensor("Table.mover").tolist() == [1] * 6
    if again == "a reset":
        env.reset()
        assert not env.sim.tensor("Table.mover").any()
    second = env.sim.tensor("Deck.cards") if again == "a reset" else decks_of_second_episode(env)
    other.reset()
    assert torch.equal(second, other.sim.tensor("Deck.cards")), "as if nothing had been given"
    assert not env.sim.tensor("Deck.given").any() and not env.sim.tensor("Deck.start").any()


def decks_of_second_episode(env: TorchVectorEnv) -> torch.Tensor:
    """Of each world, playing the oldest card again and again."""
    decks, begun = env.sim.tensor("Deck.cards").clone(), torch.zeros(env.num_worlds, dtype=torch.bool)
    for _ in range(100):
        _, _, terminations, _, _ = env.step(torch.full((env.num_envs,), env.environment.rules.hand_size))
        first = terminations & ~begun
        decks[first], begun = env.sim.tensor("Deck.cards")[first], begun | terminations
    assert begun.all()
    return decks


def test_a_starting_player_alone_leaves_the_deck_as_it_was() -> None:
    env = hanabi(Rules(random_start_player=True), 50)
    env.reset(seed=3)
    decks, starts = env.sim.tensor("Deck.cards").clone(), env.sim.tensor("Table.mover").clone()
    env.reset(seed=3, options={"start_player": 1 - starts.long()})
    assert torch.equal(env.sim.tensor("Deck.cards"), decks)
    assert torch.equal(env.sim.tensor("Table.mover"), 1 - starts)
    env.reset(seed=3, options={"deck": decks})
    assert torch.equal(env.sim.tensor("Table.mover"), starts)


def test_options_of_worlds_that_are_not_reset_do_not_count() -> None:
    env = hanabi(Rules(), 5)
    env.reset(seed=0)
    env.step(torch.full((5,), 5))
    before, decks = snapshot(env.sim), some_decks(Rules(), 5)
    mask = torch.tensor([False, True, False, True, False])
    nonsense = np.where(mask.numpy()[:, None], decks, 77)
    env.reset(options={"reset_mask": mask, "deck": nonsense, "start_player": torch.where(mask, 1, -5)})
    after = snapshot(env.sim)
    assert_same_bits(of_worlds(before, ~mask), of_worlds(after, ~mask))
    assert np.array_equal(env.sim.tensor("Deck.cards")[mask].numpy(), decks[mask.numpy()])
    assert env.sim.tensor("Table.mover").tolist() == [1] * 5
    env.reset(options={"reset_mask": torch.zeros(5, dtype=torch.bool), "deck": np.full((5, 50), 77)})
    assert_same_bits(after, snapshot(env.sim))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_decks_of_all_integer_types(dtype: Any) -> None:
    env = hanabi(Rules(), 4)
    decks, starts = some_decks(Rules(), 4), np.array([0, 1, 1, 0])
    env.reset(seed=0, options={"deck": decks.astype(dtype), "start_player": starts.astype(dtype)})
    assert np.array_equal(env.sim.tensor("Deck.cards").numpy(), decks)
    assert np.array_equal(env.sim.tensor("Table.mover").numpy(), starts)


def test_a_single_environment_takes_a_deck() -> None:
    env = gymnasium.make(ID)
    deck = shuffled(Rules(), 0)
    observation, info = env.reset(seed=0, options={"deck": deck, "start_player": 1})
    game = Game(Rules(), deck, 1)
    assert np.array_equal(observation, game.encode(1))
    dice = random.Random(0)
    while not game.ended:
        assert info["action_mask"].nonzero()[0].tolist() == game.legal()
        uid = random_move(game, dice, plays=0.2)
        observation, reward, terminated, truncated, info = env.step(uid)
        assert (reward, terminated, truncated) == (game.move(uid), game.ended, False)
        assert np.array_equal(observation, game.encode(game.player))
    env.reset()
    assert env.unwrapped.sim.tensor("Deck.cards").tolist() != [deck]
    with pytest.raises(ValueError, match="deck must have shape"):
        env.reset(options={"deck": deck[1:]})


# ---- illegal moves, other turns ------------------------------------------------------------------------------------


def some_way_in(turns: str, worlds: int, moves: int = 7, **options: Any) -> tuple[TorchVectorEnv, list[Game]]:
    """Games of ``small_3`` after some random moves; those that have ended have been given up for new ones."""
    env = hanabi(recorded("small_3").rules, worlds, turns=turns, **options)
    env.reset(seed=0)
    games, dice = games_of(env), random.Random(0)
    for _ in range(moves):
        uids = [random_move(game, dice, plays=0.2) for game in games]
        env.step(actions_of(env, [game.player for game in games], uids))
        for game, uid in zip(games, uids, strict=True):
            game.move(uid)
        ended = torch.tensor([game.ended for game in games])
        if ended.any():
            env.reset(options={"reset_mask": ended})
            games = [new if game.ended else game for game, new in zip(games, games_of(env), strict=True)]
    return env, games


@pytest.mark.parametrize("turns", full_but(["all"], ["current", "all"]))
def test_an_illegal_move_is_a_fault_of_its_world_alone(turns: str) -> None:
    """Every move that is not legal, each in a world of its own, beside worlds that go on."""
    worlds = 60
    (env, games), (other, _) = some_way_in(turns, worlds), some_way_in(turns, worlds)
    assert_same_bits(snapshot(env.sim), snapshot(other.sim))
    legal = [game.legal()[-1] for game in games]
    movers = [game.player for game in games]
    refused = {uid: world for world, game in enumerate(games) for uid in range(18) if not game.mask() >> uid & 1}
    assert sorted({*range(18)} - {*refused}) == [2, 3], "all but plays, which are always legal"
    for uid, world in refused.items():
        twins = (env.state_dict(), other.state_dict())
        before, uids = state_of(env), [*legal]
        uids[world] = uid
        faulty = torch.arange(worlds) == world
        with pytest.raises(WorldFault) as raised:
            env.step(actions_of(env, movers, uids))
        assert [(f.world, f.cause, f.value) for f in raised.value.faults] == [(world, "illegal_move", uid)]
        assert torch.equal(raised.value.mask, faulty)
        other.step(actions_of(other, movers, legal))
        assert_same_bits(*(of_worlds(state_of(e), ~faulty) for e in (env, other)))
        assert_same_bits(of_worlds(before, faulty), of_worlds(state_of(env), faulty))
        observations, rewards, terminations, _, infos = raised.value.outputs
        assert not env.by_world(rewards)[world].any() and not env.by_world(terminations)[world].any()
        assert np.array_equal(seen(env, observations)[world], expected_views(env, games[world]))
        expected = masks_of(env, movers, [game.mask() for game in games], [False] * worlds)[world]
        assert np.array_equal(env.by_world(infos["action_mask"])[world].numpy(), expected)
        env.load_state_dict(twins[0])
        other.load_state_dict(twins[1])
    with pytest.raises(WorldFault, match=r"illegal_move"):
        env.step(actions_of(env, movers, uids))
    env.reset(options={"reset_mask": faulty})
    env.step(actions_of(env, env.sim.tensor("Table.mover").tolist(), lowest_legal(env)))


def lowest_legal(env: TorchVectorEnv) -> list[int]:
    """By world: of the mover."""
    masks = env.by_world(env.action_mask)[..., : env.environment.moves]
    return masks.any(1).int().argmax(1).tolist()


def test_a_move_out_of_turn_is_a_fault() -> None:
    env, games = some_way_in("all", 6)
    legal, movers = [game.legal()[0] for game in games], [game.player for game in games]
    for wrong, offset in product((0, env.environment.moves - 1), (1, 2)):
        state, before = env.state_dict(), state_of(env)
        actions = env.by_world(actions_of(env, movers, legal)).clone()
        player = (movers[4] + offset) % 3
        actions[4, player] = wrong
        with pytest.raises(WorldFault) as raised:
            env.step(actions.flatten())
        assert [(f.world, f.cause, f.value) for f in raised.value.faults] == [(4, "not_your_turn", player)]
        moved = torch.tensor([world != 4 for world in range(6)])
        assert not env.by_world(raised.value.outputs[1])[4].any()
        assert_same_bits(of_worlds(before, ~moved), of_worlds(state_of(env), ~moved))
        assert (env.sim.tensor("Table.mover")[moved] == (torch.tensor(movers)[moved] + 1) % 3).all()
        env.load_state_dict(state)


def test_the_mover_must_move() -> None:
    env, games = some_way_in("all", 4)
    movers, no_op = [game.player for game in games], env.environment.moves
    before = state_of(env)
    with pytest.raises(WorldFault) as raised:
        env.step(actions_of(env, movers, [no_op] * 4))
    assert {(f.world, f.cause, f.value) for f in raised.value.faults} == {(w, "illegal_move", no_op) for w in range(4)}
    assert_same_bits(before, state_of(env))


@pytest.mark.parametrize("turns", full_but(["current"], ["current", "all"]))  # of other tests' build
def test_penalties(turns: str) -> None:
    """Any action of anybody: what it costs, and that the mover's is replaced by the lowest legal move."""
    worlds, penalty = 12, 0.25
    env = hanabi(recorded("small_3").rules, worlds, AutoresetMode.SAME_STEP, turns=turns,
                 illegal_moves="penalty", illegal_penalty=penalty)  # fmt: skip
    observations, _ = env.reset(seed=2)
    games, generator = games_of(env), np.random.default_rng(0)
    replaced = 0
    for _ in range(200):
        actions = generator.integers(0, env.single_action_space.n, (worlds, env.num_agents))
        if turns == "all":
            actions[generator.random(actions.shape) < 0.5] = env.environment.moves
        costs = np.zeros(actions.shape)
        paid = []
        for world, game in enumerate(games):
            row = game.player if turns == "all" else 0
            uid, legal = int(actions[world, row]), game.legal()
            costs[world] = actions[world] != env.environment.moves if turns == "all" else 0
            costs[world, row] = uid not in legal
            replaced += uid not in legal
            paid.append(game.move(uid if uid in legal else legal[0]))
        observations, rewards, terminations, _, _ = env.step(torch.from_numpy(actions.reshape(-1)))
        expected = np.array(paid)[:, None] - penalty * costs
        assert np.array_equal(env.by_world(rewards).numpy(), expected)
        ended = [game.ended for game in games]
        assert env.by_world(terminations)[:, 0].tolist() == ended
        games = [new if game.ended else game for game, new in zip(games, games_of(env), strict=True)]
        assert np.array_equal(seen(env, observations), np.stack([expected_views(env, game) for game in games]))
    assert replaced > 200


@pytest.mark.full
@pytest.mark.parametrize("turns", ["current", "all"])
def test_after_the_end_any_choice_is_allowed_and_nothing_happens(turns: str) -> None:
    env = hanabi(recorded("small_3").rules, 8, turns=turns)
    env.reset(seed=0)
    terminations = torch.zeros(8, dtype=torch.bool)
    for _ in range(60):
        env.step(actions_of(env, env.sim.tensor("Table.mover").tolist(), lowest_legal(env)))
        if env.sim.tensor("Table.over").all():
            break
    assert env.sim.tensor("Table.over").all() and env.action_mask.all()
    before = state_of(env)
    for action in range(env.single_action_space.n):  # none is a fault
        _, rewards, terminations, _, infos = env.step(torch.full((env.num_envs,), action))
        assert terminations.all() and not rewards.any() and infos["action_mask"].all()
    assert_same_bits(before, state_of(env))
    mask = torch.tensor([True, False] * 4)
    env.reset(options={"reset_mask": mask})
    assert env.by_world(env.action_mask).all(2).all(1).tolist() == (~mask).tolist()


@pytest.mark.full
@pytest.mark.parametrize("turns", ["current", "all"])
def test_masks_at_ends_with_next_step(turns: str) -> None:
    env = hanabi(recorded("small_3").rules, 8, AutoresetMode.NEXT_STEP, turns=turns)
    _, infos = env.reset(seed=0)
    ended, ends = np.zeros(8, bool), 0
    for _ in range(80):
        uids = np.where(ended, 0, lowest_legal(env))  # what an ended world does, does not matter
        _, rewards, terminations, _, infos = env.step(actions_of(env, env.sim.tensor("Table.mover").tolist(), uids))
        begun, ended = ended, env.by_world(terminations)[:, 0].numpy().copy()
        assert not (begun & ended).any() and not env.by_world(rewards).numpy()[begun].any()
        assert np.array_equal(env.by_world(infos["action_mask"]).numpy().all(2).all(1), ended)
        assert infos["action_mask"].any(1).all()  # what samples by a mask finds something in every row
        ends += int(begun.sum())
    assert ends > 20


# ---- registration, spaces, state -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("turns", "agents", "moves"), [("current", 1, 20), ("all", 2, 21)])
def test_it_is_registered(turns: str, agents: int, moves: int) -> None:
    env = gymnasium.make_vec(ID, num_worlds=3, turns=turns)
    assert (env.num_envs, env.num_worlds, env.num_agents) == (3 * agents, 3, agents)
    assert env.single_action_space == Discrete(moves)
    assert env.single_observation_space == Box(0, 1, (658,), np.uint8)
    observations, infos = env.reset(seed=0)
    assert (observations.shape, observations.dtype) == ((3 * agents, 658), torch.uint8)
    assert (infos["action_mask"].shape, infos["action_mask"].dtype) == ((3 * agents, moves), torch.bool)
    assert (infos["score"].shape, infos["score"].dtype) == ((3 * agents,), torch.float32)
    assert env.observation_space.contains(observations.numpy())
    if turns == "all":
        with pytest.raises(ValueError, match="5"):
            gymnasium.make_vec(ID, num_envs=5, turns=turns)
        assert gymnasium.make(ID, turns=turns).observation_space["agent_1"] == env.single_observation_space


@pytest.mark.full
def test_gymnasiums_checker() -> None:
    env = gymnasium.make(ID, illegal_moves="penalty", random_start_player=True, critic=True)  # the build of others too
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spaces(dtype: str) -> None:
    for preset, players in product(PRESETS, (2, 3, 4, 5)):
        environment = Hanabi(preset, players, obs_dtype=dtype)
        rules = Rules(**asdict(environment.rules))
        bits, high = (-(-rules.bits // 8), 255) if dtype == "bits" else (rules.bits, 1)
        space = Box(0, high, (bits,), np.float32 if dtype == "float32" else np.uint8)
        assert (environment.observation_space, environment.action_space) == (space, Discrete(rules.moves))
        assert Hanabi(preset, players, turns="all").action_space == Discrete(rules.moves + 1)
        assert (environment.bits, environment.rules.cards) == (rules.bits, rules.cards)


@pytest.mark.parametrize("turns", full_but(["all"], ["current", "all"]))
def test_the_state_of_a_world_is_small(turns: str) -> None:
    """Without observations, masks, rewards and actions."""
    sizes = {}
    for preset, players in product(PRESETS, (2, 3, 4, 5)):
        program = Program(Hanabi(preset, players, turns=turns))
        columns = [column for table in state_tables(program).values() for column in table]
        columns += [program.columns[name] for name in program.kept]
        sizes[preset, players] = sum(column.rows_per_world * size_of(column) for column in columns)
    assert max(sizes.values()) <= 512, sizes


def size_of(column: Any) -> int:
    return sum(f.type.size for f in column.component.fields)


def test_presets_are_the_references_and_what_is_given_comes_first() -> None:
    for players in (2, 3, 4, 5):
        full = Hanabi(players=players).rules
        assert asdict(full) == {k: v for k, v in asdict(Rules(players)).items() if k in asdict(full)}
        for name in ("small", "very_small", "full_minimal", "full"):
            record = asdict(recorded(f"{name}_{players}").rules)
            rules = asdict(Hanabi("Hanabi-" + name.replace("_", "-").title(), players).rules)
            assert rules == {key: record[key] for key in rules}
    changed = Hanabi("Hanabi-Small", 3, ranks=4, hand_size=1, max_life_tokens=2, observation_type="seer").rules
    assert (changed.colors, changed.ranks, changed.hand_size, changed.max_life_tokens) == (2, 4, 1, 2)
    assert changed.observation_type == "seer"


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"players": 1}, ValueError, "players must be at least 2, got 1"),
        ({"players": 6}, ValueError, "players must be at most 5, got 6"),
        ({"players": 2.0}, TypeError, "players must be .*2.0"),
        ({"players": True}, TypeError, "players must be .*True"),
        ({"colors": 0}, ValueError, "colors must be at least 1, got 0"),
        ({"colors": 6}, ValueError, "colors must be at most 5, got 6"),
        ({"colors": "5"}, TypeError, "colors must be .*'5'"),
        ({"ranks": 0}, ValueError, "ranks must be at least 1, got 0"),
        ({"ranks": 6}, ValueError, "ranks must be at most 5, got 6"),
        ({"ranks": 2.5}, TypeError, "ranks must be .*2.5"),
        ({"hand_size": 0}, ValueError, "hand_size must be at least 1, got 0"),
        ({"hand_size": -1}, ValueError, "hand_size must be at least 1, got -1"),
        ({"hand_size": 26}, ValueError, "hand_size must be at most 25, got 26: 2 players would hold 52 cards"),
        ({"players": 3, "colors": 1}, ValueError, "hand_size must be at most 3, got 5.*1 colours of 5 ranks have 10"),
        ({"preset": "Hanabi-Very-Small", "players": 5, "ranks": 3}, ValueError, "hand_size must be at most 1, got 2"),
        ({"max_information_tokens": -1}, ValueError, "max_information_tokens must be at least 0, got -1"),
        ({"max_information_tokens": 256}, ValueError, "max_information_tokens must be at most 255, got 256"),
        ({"max_information_tokens": 1.5}, TypeError, "max_information_tokens must be .*1.5"),
        ({"max_life_tokens": 0}, ValueError, "max_life_tokens must be at least 1, got 0"),
        ({"max_life_tokens": 256}, ValueError, "max_life_tokens must be at most 255, got 256"),
        ({"observation_type": "bogus"}, ValueError, "must be one of 'minimal', 'card_knowledge', 'seer', got"),
        ({"observation_type": 1}, TypeError, "observation_type must be a string, got 1"),
        ({"preset": "Hanabi-Huge"}, ValueError, "preset must be one of 'Hanabi-Full'.*got 'Hanabi-Huge'"),
        ({"preset": None}, TypeError, "preset must be a string, got None"),
        ({"turns": "both"}, ValueError, "turns must be .*'both'"),
        ({"obs_dtype": "float64"}, ValueError, "obs_dtype must be .*'float64'"),
        ({"illegal_moves": "ignore"}, ValueError, "illegal_moves must be .*'ignore'"),
        ({"illegal_penalty": -1.0}, ValueError, "illegal_penalty must be at least 0, got -1.0"),
        ({"illegal_penalty": float("nan")}, ValueError, "illegal_penalty"),
        ({"lose_score": 1}, TypeError, "lose_score must be .*1"),
        ({"random_start_player": "yes"}, TypeError, "random_start_player must be .*'yes'"),
        ({"colours": 5}, TypeError, "colours.*colors"),
        ({"seed": 3}, TypeError, "seed"),
    ],
    ids=str,
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """The reference's own checks (and where it has none but crashes), names and types too."""
    with pytest.raises(error, match=says):
        Hanabi(**options)
    with pytest.raises(error, match=says):
        gymnasium.make_vec(ID, **options)


@pytest.mark.full
def test_the_limits_are_allowed() -> None:
    rules = Rules(hand_size=25, max_information_tokens=255, max_life_tokens=255)
    assert play_beside_the_model(hanabi(rules, 10, AutoresetMode.SAME_STEP), 20, 0) == 100  # two moves each


DECK = Rules().deck()
WRONG_DECKS: list[tuple[Any, Any, type[Exception], str]] = [
    ("deck", np.array([DECK] * 3, np.float32), TypeError, "deck must be integers, got float32"),
    ("deck", torch.ones(3, 50, dtype=torch.bool), TypeError, "deck must be integers, got bool"),
    ("deck", torch.ones(3, 50, dtype=torch.complex64), TypeError, "deck must be integers, got complex64"),
    ("deck", "RYGWB", TypeError, "deck must be a torch tensor or a numpy array, got str"),
    ("deck", [DECK, DECK[1:], DECK], ValueError, "deck must have numbers in rows of one length, got ragged lists"),
    ("deck", [DECK] * 2, ValueError, "deck must have a row for each of 3 worlds, got shape [2, 50]"),
    ("deck", DECK[:49], ValueError, "deck must have shape [50] for each world, got [49]"),
    ("deck", [DECK[1:]] * 3, ValueError, "deck must have shape [50] for each world, got [49]"),
    ("deck", [[DECK]] * 3, ValueError, "deck must have shape [50] for each world, got [1, 50]"),
    ("deck", [DECK, DECK, [25, *DECK[1:]]], ValueError, "deck of world 2 has 25 at 0, but cards are colour * 5 +"),
    ("deck", [DECK, [*DECK[:-1], -1], DECK], ValueError, "deck of world 1 has -1 at 49"),
    ("deck", [[0, *DECK[:-1]], DECK, DECK], ValueError, "deck of world 0 must have 3 of card 0 (colour 0, rank 0)"),
    ("deck", [DECK, [1, *DECK[1:]], DECK], ValueError, "world 1 must have 3 of card 0 (colour 0, rank 0), got 2"),
    ("deck", [DECK, DECK, [*DECK[:-1], 23]], ValueError, "world 2 must have 2 of card 23 (colour 4, rank 3), got 3"),
    ("start_player", [0, 1, 2], ValueError, "start_player of world 2 is 2, but must be 0 to 1"),
    ("start_player", [0, -1, 0], ValueError, "start_player of world 1 is -1, but must be 0 to 1"),
    ("start_player", [0.0, 1.0, 0.0], TypeError, "start_player must be integers, got float"),
    ("start_player", [False, True, False], TypeError, "start_player must be integers, got bool"),
    ("start_player", [[0], [1], [0]], ValueError, "start_player must have shape [] for each world, got [1]"),
    ("start_player", 2, ValueError, "start_player of world 0 is 2, but must be 0 to 1"),
    ("start", [0, 1, 0], ValueError, "reset has no option 'start'; it has: reset_mask, deck, start_player"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "error", "says"), WRONG_DECKS, ids=[w[3] for w in WRONG_DECKS])
def test_a_refused_reset_changes_nothing(name: str, value: Any, error: type[Exception], says: str) -> None:
    env = hanabi(Rules(), 3)
    env.reset(seed=0)
    env.step(torch.full((3,), 5))
    before = snapshot(env.sim)
    fine = {"deck": [DECK] * 3, "start_player": [1] * 3}
    for options in ({name: value}, {**fine, name: value}):
        for seed in (None, 4):
            with pytest.raises(error) as raised:
                env.reset(seed=seed, options=options)
            assert says in str(raised.value)
            assert_same_bits(before, snapshot(env.sim))
    observations, *_ = env.step(torch.full((3,), 5))
    twin = hanabi(Rules(), 3)
    twin.reset(seed=0)
    twin.step(torch.full((3,), 5))
    assert torch.equal(twin.step(torch.full((3,), 5))[0], observations)


def test_the_world_that_is_named_is_the_one_in_the_batch() -> None:
    env = hanabi(Rules(), 3)
    env.reset(seed=0)
    mask = torch.tensor([False, False, True])
    with pytest.raises(ValueError, match=r"deck of world 2 must have 2 of card 23 .*got 3"):
        env.reset(options={"reset_mask": mask, "deck": [DECK, DECK, [*DECK[:-1], 23]]})
    with pytest.raises(ValueError, match=r"start_player of world 2 is 7"):
        env.reset(options={"reset_mask": mask, "start_player": [0, 0, 7]})


PICTURED = [
    *(f"Table.{n}" for n in "mover dealt lives fireworks left information discards over".split()),
    *(f"Held.Card.{n}" for n in "kind colors ranks revealed".split()),
    *(f"Last.{n}" for n in "player type target color rank position kind outcome".split()),
]


@pytest.mark.full
def test_odd_states_harm_nobody_else() -> None:
    """Whatever somebody has written into a field, each in a world of its own; others lie between these, and so many
    behind them that a place too far is in one."""
    rules, worlds = recorded("small_3").rules, 300
    env, other = (hanabi(rules, worlds, turns="current", illegal_moves="penalty") for _ in range(2))
    for each in (env, other):
        each.reset(seed=1)
    fields = [*PICTURED, "Deck.cards", "Deck.given", "Deck.start"]
    places = {name: 1 + 3 * i for i, name in enumerate(fields)}
    odd = torch.zeros(worlds, dtype=torch.bool)
    odd[list(places.values())] = True
    generator = np.random.default_rng(0)
    for step in range(40):
        for each in (env, other):
            each.reset(options={"reset_mask": odd})
        for name, world in places.items():
            env.sim.tensor(name)[world] = 235 + step % 20
        world = places[PICTURED[step % len(PICTURED)]]
        assert env.render_world(world).shape == other.render_world(world).shape
        actions = torch.from_numpy(generator.integers(0, env.environment.moves, worlds))
        mine, theirs = env.step(actions), other.step(actions)
        assert torch.equal(mine[0][~odd], theirs[0][~odd]) and torch.equal(mine[1][~odd], theirs[1][~odd])
        assert_same_bits(*(of_worlds(state_of(each), ~odd) for each in (env, other)))


@pytest.mark.parametrize(("turns", "illegal_moves"), [("current", "penalty"), ("current", "fault"), ("all", "fault")])
def test_odd_actions_in_the_column_harm_nobody(turns: str, illegal_moves: str) -> None:
    """`Simulator.step` does not look at actions; in one world of these, a place too far is in another one."""
    rules = recorded("small_3").rules
    env = hanabi(rules, 300, turns=turns, illegal_moves=illegal_moves)
    env.reset(seed=1)
    for odd in (-1, -59, -64, -128, -(2**31), 33, 63, 64, 2**31 - 1):
        env.reset(seed=1)
        before, movers = snapshot(env.sim), env.sim.tensor("Table.mover").clone()
        moves = actions_of(env, movers.tolist(), lowest_legal(env)).view(300, -1)
        moves[1, 0] = odd
        env.sim.tensor("Player.Choice.move").copy_(moves)
        if illegal_moves == "fault":
            with pytest.raises(WorldFault) as raised:
                env.sim.step()
            assert [(f.world, f.cause, f.value) for f in raised.value.faults] == [(1, "illegal_move", odd)]
            world = torch.arange(300) == 1
            names = [f"column_{name}" for name in STATE]
            first, second = ({n: t for n, t in s.items() if n in names} for s in (before, snapshot(env.sim)))
            assert_same_bits(of_worlds(first, world), of_worlds(second, world))
        else:
            env.sim.step()
        moved = env.sim.tensor("Table.mover") != movers
        assert moved.sum() == (299 if illegal_moves == "fault" else 300)
