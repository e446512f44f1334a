"""What rules.h keeps of a game from one frame to the next, and which games it is compiled for."""

from __future__ import annotations

from collections.abc import Iterable

from torch_batchsim import Component, boolean, i16, i32, u8

from .games import Facts


class Game(Component):
    score: i32
    reward: i32  # of the last frame
    latches: i16[4]  # what a game's own rules remember
    lives: i16
    title: u8  # a Title
    over: boolean


def games_constants(played: Iterable[Facts]) -> dict[str, int]:
    """Constants for ``add_constants``, by which rules.h has the rules of these games only."""
    bits = [0] * 4
    for facts in played:
        bits[facts.title // 26] |= 1 << facts.title % 26
    return {f"games_{i}": word for i, word in enumerate(bits)}
