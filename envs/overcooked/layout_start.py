"""The state at the start of a game, ``start_state`` of a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .codes import COUNTER, DIRECTIONS, ITEMS, POT, SOUP
from .layout_checks import Cell, Problem, check_keys, integer, pair, sequence, where
from .layout_grid import cell_of, check_players, standing
from .layout_recipes import Recipe, read_orders, unknown_ingredient


@dataclass(frozen=True)
class Start:
    """The beginning of a game. Empty ``orders`` are all recipes, empty ``facings`` north, empty ``held`` no things."""

    places: Sequence[Cell]
    orders: Sequence[Recipe]
    bonus_orders: Sequence[Recipe]
    facings: Sequence[int] = ()
    held: Sequence[tuple[int, int, int]] = ()
    items: Sequence[tuple[int, int, int, int, int, int]] = ()
    timestep: int = 0


def read_state(state: Any, terrain: np.ndarray, times: Mapping[Recipe, int], most: int) -> Start:
    check_keys(state, "start_state", ("players", "objects"), ("all_orders", "bonus_orders", "timestep"))
    players = [(p, f"player {i} of start_state") for i, p in enumerate(sequence(state["players"], "its players"), 1)]
    check_players(len(players), "players in start_state")
    for player, whose in players:
        check_keys(player, whose, ("position", "orientation"), ("held_object",))
    return Start(
        places=standing([(player["position"], whose) for player, whose in players], terrain),
        orders=read_orders(state.get("all_orders", ()), "start_state's all_orders", most),
        bonus_orders=read_orders(state.get("bonus_orders", ()), "start_state's bonus_orders", most),
        facings=[_read_facing(player["orientation"], whose) for player, whose in players],
        held=[_read_held(player, whose, times) for player, whose in players],
        items=_read_objects(state["objects"], terrain, times),
        timestep=integer(state.get("timestep", 0), "timestep of start_state", 0, 2**31 - 2),
    )


def _read_facing(given: Any, whose: str) -> int:
    direction = pair(given, f"orientation of {whose}")
    if direction not in DIRECTIONS:
        raise Problem(
            f"orientation of {whose} must be (0, -1) north, (0, 1) south, (1, 0) east or (-1, 0) west, got {given!r}"
        )
    return DIRECTIONS[direction]


def _read_held(player: Mapping[str, Any], whose: str, times: Mapping[Recipe, int]) -> tuple[int, int, int]:
    thing, whose = player.get("held_object"), f"held_object of {whose}"
    if thing is None:
        return 0, 0, 0
    kind, onions, tomatoes, left = _read_thing(thing, whose, times)
    if pair(thing["position"], f"position of {whose}") != pair(player["position"], "position"):
        raise Problem(f"{whose} is at {thing['position']!r}, but the player is at {player['position']!r}")
    if left:
        raise Problem(f"{whose} is a soup that is not ready; only a pot may have one")
    return kind, onions, tomatoes


def _read_objects(
    given: Any, terrain: np.ndarray, times: Mapping[Recipe, int]
) -> list[tuple[int, int, int, int, int, int]]:
    items: dict[Cell, tuple[int, int, int, int]] = {}
    for number, thing in enumerate(sequence(given, "objects of start_state"), 1):
        whose = f"object {number} of start_state"
        kind, onions, tomatoes, left = _read_thing(thing, whose, times)
        cell = cell_of(thing["position"], whose, terrain)
        if terrain[cell] not in (POT, COUNTER):
            raise Problem(f"{whose} is in {where(*cell)}, which is neither a counter nor a pot")
        if terrain[cell] == POT and kind != SOUP:
            raise Problem(f"{whose}, no soup, is in a pot in {where(*cell)}")
        if terrain[cell] == COUNTER and left:
            raise Problem(f"{whose}, a soup that is not ready, is on a counter in {where(*cell)}")
        if cell in items:
            raise Problem(f"{whose} is where another object is, in {where(*cell)}")
        items[cell] = (kind, onions, tomatoes, left)
    return [(*cell, *item) for cell, item in items.items()]


def _read_thing(thing: Any, whose: str, times: Mapping[Recipe, int]) -> tuple[int, int, int, int]:
    """Its kind, onions, tomatoes, and steps left."""
    if not isinstance(thing, Mapping) or thing.get("name") not in tuple(ITEMS):
        raise Problem(f"{whose} must be a dict with 'position' and a 'name' of {', '.join(ITEMS)}, got {thing!r}")
    if thing["name"] != "soup":
        check_keys(thing, whose, ("name", "position"), ())
        return ITEMS[thing["name"]], 0, 0, 0
    if "state" in thing:
        raise Problem(f"{whose} is a soup with a 'state', an old form; '_ingredients' and 'cooking_tick' say more")
    noted = ("cooking_tick", "_cooking_tick", "cook_time", "is_cooking", "is_ready", "is_idle")  # but the first unread
    check_keys(thing, whose, ("name", "position", "_ingredients"), noted)
    recipe = _read_contents(thing, whose)
    if recipe not in times:
        most = max(map(sum, times))
        raise Problem(f"{whose} is a soup of {sum(recipe)} ingredients; 1 to {most} are allowed (max_num_ingredients)")
    tick = integer(thing.get("cooking_tick", -1), f"cooking_tick of {whose}", -1, times[recipe])
    if thing.get("_cooking_tick", tick) != tick:
        raise Problem(
            f"{whose} has a '_cooking_tick' of {thing['_cooking_tick']!r}, but what counts, in the reference too, is "
            f"'cooking_tick', {tick} here"
        )
    return SOUP, *recipe, -1 if tick < 0 else times[recipe] - tick


def _read_contents(soup: Mapping[str, Any], whose: str) -> Recipe:
    counts = {"onion": 0, "tomato": 0}
    place = pair(soup["position"], f"position of {whose}")
    for ingredient in sequence(soup["_ingredients"], f"_ingredients of {whose}"):
        check_keys(ingredient, f"an ingredient of {whose}", ("name", "position"), ())
        if ingredient["name"] not in tuple(counts):
            raise Problem(unknown_ingredient(whose, ingredient["name"]))
        if pair(ingredient["position"], f"position of an ingredient of {whose}") != place:
            raise Problem(f"{whose} is at {place}, but an ingredient of it at {ingredient['position']!r}")
        counts[ingredient["name"]] += 1
    return counts["onion"], counts["tomato"]
