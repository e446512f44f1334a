"""Play that earns rewards in games where other tests' random play earns none.

`HOLDS` were found by trying seeds. `SCRIPTS` were found by search from saved states: of states that differ in the
bytes that hold the player's place some were drawn, played on at random, and new ones kept, until there was a reward.
"""

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
        "9x12 5x19 9x4 12x12 7x14 12x4 7x20 14x14 10x2 7x11 14x6 11x14 2x9 4x19 16x2 0x10 8x5 4x4 15x18 10x4 8x7 "
        "7x18 5x19 14x10 17x20 0x3 1x4 17x21 1x15 0x13 3x7 8x4 12x7 5x16 9x18 3x3 9x8 12x14 4x11 17x15 8x1 12x9 "
        "7x17 5x9 13x4 5x9 8x2 2x16 11x20 12x10 10x10 15x10 4x9 2x1 9x7 16x6 14x3 17x7 6x18 3x7 5x4 3x7 9x12 17x14 "
        "7x11 12x9 6x20 13x2 9x1 8x4 17x20 0x10 12x30 7x2 14x2 15x9 12x11 17x11 4x14 10x15 12x20 2x19 3x4 14x2 "
        "5x20 17x15 2x10 4x8 "
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
