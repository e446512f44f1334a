"""Rewards, lives and ends beside ale-py's, frame by frame: its RAM goes into worlds that have the rules only.

Random play reaches few ends, so bytes that rules read are written too: into ale-py, whose next frame both then judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judged import Judged
from support import of_today
from torch_batchsim.envs import atari
from torch_batchsim.envs.atari.games import GAMES, Action, game

SOME = ["asteroids", "breakout", "klax", "qbert", "tennis", "video_cube"]
SPANS = {  # bytes that a rule reads in a loop: the first, and how many
    "alien": (0x83, 9), "backgammon": (0x80, 28), "defender": (0x9C, 6), "klax": (0xB3, 25), "riverraid": (0xCD, 11),
    "road_runner": (0xC9, 4), "star_gunner": (0x83, 4), "tic_tac_toe_3d": (0x9A, 64), "video_checkers": (0x80, 35),
    "video_cube": (0xA0, 54),
}  # fmt: skip
Write = Callable[[str, Any, int], None]  # game, console, frames since the start


@cache
def ale() -> Any:
    """ale-py, silent."""
    module = pytest.importorskip("ale_py", reason="ale-py is not installed: rules are not compared with it")
    module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
    return module


def console(name: str) -> Any:
    made = ale().ALEInterface()
    for option, value in (("random_seed", 1), ("frame_skip", 1)):
        made.setInt(option, value)
    made.setFloat("repeat_action_probability", 0.0)
    made.loadROM(ale().roms.get_rom_path(name))
    return made


def cartridge_ram(name: str, played: Any) -> np.ndarray:
    """The RAM of a cartridge, from the text of a saved state: its name, the bank, and a number for each byte."""
    if not GAMES[name].cartridge_ram:
        return np.zeros(128, np.uint8)
    state = played.cloneState().serialize()
    mark = b"Cartridge" + GAMES[name].mapper.encode()
    at = state.index(mark) + len(mark) + 4
    return np.frombuffer(state, np.int32, 128 + 1, at)[1:].astype(np.uint8)


def compare(
    names: list[str],
    frames: int,
    seed: int,
    write: Write = lambda *_: None,
    often: Mapping[str, Action] | None = None,
) -> dict[str, tuple[int, int]]:
    """Plays all games with random actions, modes and difficulties; rewards and ends that each had.

    ``often`` are actions that are taken in six of seven frames.
    """
    judged, consoles = Judged(names), [console(name) for name in names]
    rng = np.random.default_rng(seed)
    since, earned, ended = np.zeros(len(names), int), np.zeros(len(names), int), np.zeros(len(names), int)
    for frame in range(frames):
        begins = np.array([frame == 0 or played.game_over() for played in consoles])
        rewards = np.zeros(len(names), int)
        for i, (name, played) in enumerate(zip(names, consoles, strict=True)):
            if begins[i]:
                played.setMode(int(rng.choice(game(name).modes[:40])))
                played.setDifficulty(int(rng.choice(list(map(int, game(name).difficulties.split())))))
                played.reset_game()
                since[i] = 0
            else:
                if since[i] > 3:
                    write(name, played, int(since[i]))
                usual = often and rng.random() < 6 / 7
                rewards[i] = played.act(int(often[name] if usual else rng.choice(game(name).minimal_actions)))
            since[i] += 1
        found = judged.frame(
            np.stack([played.getRAM() for played in consoles]),
            begins,
            np.stack([cartridge_ram(name, played) for name, played in zip(names, consoles, strict=True)]),
        )
        expected = rewards, [played.lives() for played in consoles], [played.game_over() for played in consoles]
        found[0][begins] = 0  # what is earned in a start is nobody's
        earned += rewards != 0
        ended += np.array(expected[2])
        for i, name in enumerate(names):
            ours, theirs = (tuple(int(column[i]) for column in columns) for columns in (found, expected))
            assert ours == theirs, f"{name}, frame {frame}, {since[i]} of its episode: reward, lives, over"
    return {name: (int(earned[i]), int(ended[i])) for i, name in enumerate(names)}


@cache
def rules_text() -> str:
    return (Path(atari.__file__).parent / "rules.h").read_text()


@cache
def bytes_read(name: str) -> tuple[list[int], list[int]]:
    """Addresses and numbers in the text of a game's rule."""
    text = rules_text().split(f"Seen {name}(Memory", 1)[1].split("TBS_FUNCTION", 1)[0]
    numbers = [int(number, 0) for number in re.findall(r"\b(?:0x[0-9A-F]{1,2}|\d{1,3})\b", text)]
    first, count = SPANS.get(name, (0, 0))
    addresses = {number for number in numbers if 0x80 <= number < 0x100} | set(range(first, first + count))
    return sorted(addresses), sorted({number & 0xFF for number in numbers} | {0, 1, 0xFF})


def scribble(seed: int) -> Write:
    """Writes bytes that a rule reads, in three of ten frames, often numbers that it compares them with."""
    rng = np.random.default_rng(seed)

    def write(name: str, played: Any, since: int) -> None:
        if rng.random() < 0.7:
            return
        addresses, numbers = bytes_read(name)
        for _ in range(int(rng.integers(1, 4))):
            digits = int(rng.integers(10)) * 16 + int(rng.integers(10))
            value = (int(rng.choice(numbers)), digits, int(rng.integers(256)))[int(rng.integers(3))]
            played.setRAM(int(rng.choice(addresses)) - 0x80, value)

    return write


def bytes_at(first: int, *values: int) -> dict[int, int]:
    return {first + i: value for i, value in enumerate(values)}


ENDS: dict[str, list[tuple[dict[int, int], int]]] = {  # bytes, written before each frame, and the reward of the end
    "backgammon": [
        (bytes_at(0x80, 0x100 - 15, *[0] * 12, 15, *[0] * 14), 1),
        (bytes_at(0x80, 0, 0x100 - 15, *[0] * 12, 15, *[0] * 13), -1),
    ],
    "et": [({0xE5: 0xFF, 0x80: 8}, 0)],
    "klax": [({0xA8: 4, **bytes_at(0xB3, *[4] * 25)}, 0)],
    "othello": [({0xC0: 0}, 0)],
    "pitfall2": [({0xC9: 0, 0xC8: 0x90, 0xC7: 0x19}, 1)],
    "superman": [({0x9F: 0x40, 0x80: 0xAC, 0x81: 0xF2}, 1)],
    "tic_tac_toe_3d": [({0xFF: 0xF3, 0xFE: 0x10, 0xE1: 8}, 1), ({0xFF: 0xF3, 0xFE: 0x10, 0xE1: 1}, -1)],
    "venture": [({0xC6: 0, 0xCD: 0xFF, 0xBF: 0x80}, 0)],
    "video_checkers": [
        (bytes_at(0x80, 0x90, *[0] * 34), -1),
        (bytes_at(0x80, 0x10, *[0] * 34), 1),
    ],
}


def held(written: Mapping[int, int]) -> Write:
    def write(name: str, played: Any, since: int) -> None:
        for address, value in written.items():
            played.setRAM(address - 0x80, value)

    return write


GROUPS = [list(GAMES)[first : first + 13] for first in range(0, len(GAMES), 13)]


def test_some_games_agree_in_random_play() -> None:
    compare(SOME, 250, seed=1)


@pytest.mark.full
def test_some_games_agree_where_bytes_are_written() -> None:
    reached = compare(SOME, 250, seed=2, write=scribble(2))
    assert sum(rewards > 0 for rewards, _ in reached.values()) >= 4, reached
    assert sum(ends > 0 for _, ends in reached.values()) >= 2, reached


@pytest.mark.parametrize("names", of_today(GROUPS, 3), ids=lambda names: f"{names[0]}..{names[-1]}")  # all in 3 days
def test_all_games_agree_in_random_play(names: list[str]) -> None:
    compare(names, 2500, seed=3)


@pytest.mark.parametrize("names", of_today(GROUPS, 3), ids=lambda names: f"{names[0]}..{names[-1]}")  # all in 3 days
def test_all_games_agree_where_bytes_are_written(names: list[str]) -> None:
    reached = compare(names, 1000, seed=4, write=scribble(4))
    assert sum(rewards > 0 for rewards, _ in reached.values()) >= 10, reached
    assert sum(ends > 0 for _, ends in reached.values()) >= 5, reached


HELD = {"enduro": Action.FIRE, "freeway": Action.UP, "haunted_house": Action.UP, "ice_hockey": Action.RIGHT}


@pytest.mark.full
def test_games_agree_where_an_action_is_held() -> None:
    """Which earns the first two rewards that random play does not."""
    reached = compare(list(HELD), 2600, seed=9, often=HELD)
    assert all(rewards > 0 for rewards, _ in reached.values()), reached


@pytest.mark.full
@pytest.mark.parametrize("name", ENDS)
def test_ends_that_need_many_bytes_agree(name: str) -> None:
    for written, reward in ENDS[name]:
        rewards, ends = compare([name], 70, seed=5, write=held(written))[name]
        assert ends > 0 and (rewards > 0) == (reward != 0)
