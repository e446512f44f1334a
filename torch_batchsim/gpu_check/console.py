"""Atari with a ROM that is assembled here, since ale-py's are not on every machine."""

from __future__ import annotations

from os import PathLike

from ..envs.atari.env import Atari

_SIZE = 4096
_START = [0x78, 0xD8, 0xA2, 0xFF, 0x9A]  # SEI, CLD, LDX #255, TXS
_SYNC = [0xA9, 2, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xA9, 0, 0x85, 0x00]  # VSYNC for three lines
_PLACE = [0x85, 0x10, 0xA9, 0x33, 0x85, 0x04, 0x85, 0x08, 0x85, 0x11, 0xA5, 0x80, 0x85, 0x06, 0x85, 0x2A]
# Sums of RAM, by which worlds go different ways: LDX #80, then LDA 143,X; ADC 143; STA 143,X; BCC; INC 144; DEX; BNE.
_THINK = [0xE6, 0x80, 0xA2, 80, 0xB5, 143, 0x65, 143, 0x95, 143, 0x90, 2, 0xE6, 144, 0xCA, 0xD0, 0xF3]
# 220 lines with eight writes each: background, playfield, both players.
_DRAW = [0xA0, 220, 0x85, 0x02, 0x98, 0x45, 0x80, 0x85, 0x09, 0x85, 0x0E, 0x4A, 0x85, 0x1B, 0x85, 0x0F, 0x65, 150]
_DRAW += [0x85, 0x1C, 0x85, 0x07, 0x4A, 0x85, 0x08, 0x88, 0xD0, 0xE6]
_COLLIDE = [0xA5, 0x37, 0x85, 0xE8, 0x85, 0x2C]  # into RAM, and cleared


def assembled() -> bytes:
    """A program of 4 KiB: it computes with RAM, draws lines, and reads collisions."""
    loop = 0xF000 + len(_START)
    code = [*_START, *_SYNC, *_THINK, *_PLACE, *_DRAW, *_COLLIDE, 0x4C, loop & 0xFF, loop >> 8]
    return bytes(code).ljust(_SIZE - 4, b"\0") + bytes([0x00, 0xF0, 0x00, 0xF0])


class Console(Atari):
    """A console with that ROM, which is taken for one of a game without modes."""

    def __init__(self, **options: object) -> None:
        """Args: ``options`` as those of ``Atari``."""
        super().__init__(game="superman", **{"start": "cached", **options})

    def _rom_of(self, name: str, path: str | PathLike[str] | None) -> bytes:
        return assembled()
