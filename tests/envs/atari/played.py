"""Play that earns rewards in games where other tests' random play earns none.

Found by ``tests/oracles/search_atari_rewards.py`` and ``search_atari_ends.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

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
SCRIPTS = Path(__file__).parents[1] / "golden" / "atari"  # of a game: actions and for how many frames each


def held_actions(name: str, seed: int, longest: int) -> Iterator[int]:
    """The game's own actions, each held for 1 to ``longest`` frames."""
    chosen = random.Random(f"{name} {seed} {longest}")
    while True:
        action = int(chosen.choice(GAMES[name].minimal_actions))
        yield from [action] * chosen.randint(1, longest)


def scripted_actions(name: str) -> list[int]:
    runs = (run.split("x") for run in (SCRIPTS / f"{name}.txt").read_text().split())
    return [int(action) for action, frames in runs for _ in range(int(frames))]
