"""Play that earns rewards in games where other tests' random play earns none: tests/oracles/search_atari_rewards.py."""

from __future__ import annotations

import random
from collections.abc import Iterator

from torch_batchsim.envs.atari.games import GAMES

HOLDS = {  # game: seed, the longest that an action is held, frames in which there is a reward
    "elevator_action": (122, 40, 1900),
    "hangman": (120, 40, 900),
    "keystone_kapers": (103, 150, 550),
    "laser_gates": (104, 40, 370),
    "mario_bros": (103, 40, 1430),
    "miniature_golf": (113, 40, 920),
    "pitfall": (103, 150, 120),
    "pitfall2": (120, 150, 1020),
    "road_runner": (116, 150, 380),
    "skiing": (100, 40, 10),
    "solaris": (109, 150, 3400),
    "surround": (111, 40, 80),
    "tennis": (102, 40, 890),
    "tetris": (118, 40, 2400),
    "tic_tac_toe_3d": (114, 40, 870),
    "word_zapper": (125, 30, 3020),
}
SCRIPTS = {  # game: actions and for how many frames each
    # The first key, over the ladder, the rope and the skull.
    "montezuma_revenge": (
        "14x12 17x11 10x10 3x4 10x13 6x3 16x13 13x7 3x1 7x3 13x7 0x18 4x12 10x6 14x6 0x3 13x11 6x9 5x7 16x1 17x6 "
        "5x16 17x18 4x7 12x7 7x4 1x17 12x4 11x17 4x7 15x16 8x4 7x7 10x5 4x20 8x20 9x3 12x3 14x6 9x18 12x9 4x15 "
        "17x2 13x20 16x3 2x1 15x14 1x16 17x9 8x11 2x11 1x12 15x1 10x10 3x19 4x32 2x20 8x5 17x9 "
    ),
    "venture": (  # a treasure
        "9x12 5x19 9x4 12x12 7x14 12x4 7x20 14x14 10x1 6x2 10x11 4x14 17x1 2x17 6x1 7x3 12x2 0x7 3x20 9x17 7x17 "
        "10x19 13x2 9x18 14x1 12x2 9x5 15x12 5x5 11x3 8x1 7x9 17x18 9x15 4x13 6x3 8x2 5x18 15x13 4x17 2x14 12x2 "
        "9x5 17x27 15x8 17x20 3x5 17x7 1x15 17x23 0x10 5x7 9x12 17x5 7x17 9x4 15x7 14x12 13x4 0x5 4x17 17x20 1x7 "
        "17x6 "
    ),
}


def held_actions(name: str, seed: int, longest: int) -> Iterator[int]:
    """The game's own actions, each held for 1 to ``longest`` frames."""
    chosen = random.Random(f"{name} {seed} {longest}")
    while True:
        action = int(chosen.choice(GAMES[name].minimal_actions))
        yield from [action] * chosen.randint(1, longest)


def scripted_actions(name: str) -> Iterator[int]:
    for run in SCRIPTS[name].split():
        action, frames = map(int, run.split("x"))
        yield from [action] * frames
