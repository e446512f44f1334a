"""The numbers that the state holds, and the symbols and names of them in layouts."""

from __future__ import annotations

from enum import IntEnum

# systems.h has these by the same names.
Ground = IntEnum("Ground", "FLOOR POT COUNTER ONIONS TOMATOES DISHES SERVING OUTSIDE", start=0)
ItemKind = IntEnum("ItemKind", "NOTHING ONION TOMATO DISH SOUP", start=0)
Action = IntEnum("Action", "NORTH SOUTH EAST WEST STAY INTERACT", start=0)
FLOOR, POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING, OUTSIDE = Ground
NOTHING, ONION, TOMATO, DISH, SOUP = ItemKind

SYMBOLS = {" ": FLOOR, "P": POT, "X": COUNTER, "O": ONIONS, "T": TOMATOES, "D": DISHES, "S": SERVING}
ITEMS = {"onion": ONION, "tomato": TOMATO, "dish": DISH, "soup": SOUP}
DIRECTIONS = {(0, -1): Action.NORTH, (0, 1): Action.SOUTH, (1, 0): Action.EAST, (-1, 0): Action.WEST}
