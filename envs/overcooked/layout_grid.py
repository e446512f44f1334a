"""The grid of a layout: terrain, and places where players start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .codes import FLOOR, SYMBOLS
from .layout_checks import Cell, Problem, pair, sequence, where

MOST_CELLS = 4096
MOST_PLAYERS = 40


def read_grid(text: Any) -> tuple[np.ndarray, list[Cell]]:
    """Terrain [width, height] and starting places."""
    if not isinstance(text, str):
        raise Problem(f"its grid must be a text of rows, got {text!r}")
    rows = [row.strip() for row in text.strip().split("\n")]
    width, height = max(map(len, rows)), len(rows)
    if width == 0:
        raise Problem("its grid is empty")
    if width * height > MOST_CELLS:
        raise Problem(f"its grid is of {width} x {height} cells; {MOST_CELLS} cells at most are allowed")
    _check_rows(rows)
    starts = _read_starts(rows)
    for symbols, what in (
        ("P", "pot"),
        ("S", "serving place"),
        ("D", "dish dispenser"),
        ("OT", "onion or tomato dispenser"),
    ):
        if not any(symbol in row for symbol in symbols for row in rows):
            raise Problem(f"its grid has no {what} ({' or '.join(map(repr, symbols))})")
    return np.array([[SYMBOLS.get(symbol, FLOOR) for symbol in row] for row in rows], np.uint8).T, starts


def _check_rows(rows: Sequence[str]) -> None:
    width, height = len(rows[0]), len(rows)
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if symbol not in SYMBOLS and symbol not in "123456789*":
                allowed = " ".join(symbol for symbol in SYMBOLS if symbol != " ")
                raise Problem(f"{symbol!r} in {where(x, y)}; allowed are space (floor), {allowed}, 1 to 9 and *")
    for y, row in enumerate(rows):
        if len(row) != width:
            raise Problem(
                f"row {y + 1} of its grid has {len(row)} cells, but the first has {width} "
                "(spaces around a row do not count: a border of X, P, O, T, D, S is needed)"
            )
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if (x in (0, width - 1) or y in (0, height - 1)) and symbol not in "XPOTDS":
                what = "floor" if symbol == " " else f"start {symbol!r}"
                raise Problem(f"{what} on the border in {where(x, y)}; allowed there are X, P, O, T, D and S")


def _read_starts(rows: Sequence[str]) -> list[Cell]:
    numbered: dict[int, Cell] = {}
    others: list[Cell] = []
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if symbol == "*":
                others.append((x, y))
            elif symbol in "123456789":
                if int(symbol) in numbered:
                    raise Problem(f"player {symbol} starts in {where(*numbered[int(symbol)])} and in {where(x, y)}")
                numbered[int(symbol)] = (x, y)
    missing = [number for number in range(1, max(numbered, default=0)) if number not in numbered]
    if missing:
        raise Problem(f"its grid has a player {max(numbered)} but no player {missing[0]}; numbers go 1, 2, 3, ...")
    starts = [numbered[number] for number in sorted(numbered)] + others
    check_players(len(starts), "starting places (1 to 9, *) in its grid")
    return starts


def read_positions(given: Any, terrain: np.ndarray) -> list[Cell]:
    positions = sequence(given, "start_player_positions")
    check_players(len(positions), "start_player_positions")
    return standing([(p, f"player {i} of start_player_positions") for i, p in enumerate(positions, 1)], terrain)


def check_players(count: int, what: str) -> None:
    if not 1 <= count <= MOST_PLAYERS:
        raise Problem(f"the number of {what} must be 1 to {MOST_PLAYERS}, got {count}")


def standing(places: Iterable[tuple[Any, str]], terrain: np.ndarray) -> list[Cell]:
    """Cells of players: on the floor, all different. ``places``: a position and its owner."""
    taken: dict[Cell, str] = {}
    for position, whose in places:
        cell = cell_of(position, whose, terrain)
        if terrain[cell] != FLOOR:
            raise Problem(f"{whose} is in {where(*cell)}, which is not floor")
        if cell in taken:
            raise Problem(f"{whose} is where {taken[cell]} is, in {where(*cell)}")
        taken[cell] = whose
    return list(taken)


def cell_of(position: Any, whose: str, terrain: np.ndarray) -> Cell:
    x, y = pair(position, f"position of {whose}")
    width, height = terrain.shape
    if not (0 <= x < width and 0 <= y < height):
        raise Problem(f"position of {whose} is ({x}, {y}), outside of the grid of {width} x {height} cells")
    return x, y
