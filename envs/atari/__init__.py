"""Atari, and a class for each game, which are made when they are asked for: ``Pong`` is ``Atari`` with that game."""

from __future__ import annotations

from typing import Any

from .games import GAMES, class_name

__all__ = ["Atari"]  # by __getattr__

_NAMES = {class_name(name): name for name in GAMES}


def __getattr__(name: str) -> Any:
    if name != "Atari" and name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .env import Atari, atari_of

    globals()[name] = made = Atari if name == "Atari" else atari_of(name, _NAMES[name])
    return made
