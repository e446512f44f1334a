"""Numbers that the state holds; systems.h has them by the same names."""

from __future__ import annotations

from enum import IntEnum


class MoveType(IntEnum):
    """Of moves, in the order of the reference's encoding."""

    PLAY = 0
    DISCARD = 1
    REVEAL_COLOR = 2
    REVEAL_RANK = 3


class Revealed(IntEnum):
    """Bits of ``Card.revealed``."""

    COLOR_REVEALED = 1
    RANK_REVEALED = 2


class Absent(IntEnum):
    """In place of a missing card, player, colour, ..."""

    NONE = 255
