"""Kitchens of Overcooked: layout files, checked, as tables.

The file format is that of overcooked_ai 1.1.0, "the reference" below: a Python dict literal. Its ``"grid"`` is
required: rows of symbols, top first; spaces around a row do not count.

| symbol | cell              | symbol  | cell                                                              |
|--------|-------------------|---------|-------------------------------------------------------------------|
| space  | floor             | D       | dish dispenser                                                    |
| X      | counter           | S       | serving place                                                     |
| P      | pot               | 1 .. 9  | floor, where this player starts                                   |
| O      | onion dispenser   | ``*``   | floor, where a player starts: players after the numbered ones,    |
| T      | tomato dispenser  |         | in reading order (not in the reference)                           |

The other keys may also be options of ``read_layout``. ``None`` stands for "not given".

| key                            | meaning                                                              | if not given |
|--------------------------------|----------------------------------------------------------------------|--------------|
| start_all_orders               | soups that are paid for, ``[{"ingredients": ["onion", ...]}, ...]``  | every soup   |
| start_bonus_orders             | those of them that are paid for ``order_bonus`` times                | none         |
| order_bonus                    | number, or infinity                                                  | 2            |
| max_num_ingredients            | of a soup, 1 to 7                                                    | 3            |
| delivery_reward                | value of every soup, or                                              | 20           |
| recipe_values                  | of each of start_all_orders (20 for other soups), or                 |              |
| onion_value, tomato_value      | of each ingredient in it                                             |              |
| cook_time                      | steps that every soup cooks, or                                      | 20           |
| recipe_times                   | each of start_all_orders (20 for other soups), or                    |              |
| onion_time, tomato_time        | for each ingredient in it                                            |              |
| rew_shaping_params             | ``{"PLACEMENT_IN_POT_REW": ..., "DISH_PICKUP_REWARD": ...,           | 3, 3, 5      |
|                                | "SOUP_PICKUP_REWARD": ...}``                                         |              |
| start_state                    | players, objects, orders, timestep at the start, as the reference's  |              |
|                                | ``OvercookedState.to_dict`` gives them                               |              |
| layout_name                    | of a text (a file goes by its own name)                              |              |
| num_items_for_soup             | nothing: the reference does not use it either; must equal            |              |
|                                | max_num_ingredients                                                  |              |

A ``start_state`` has orders of its own, which replace the others, as in the reference: without ``"all_orders"`` every
soup is paid for, without ``"bonus_orders"`` none has a bonus. ``recipe_values`` and ``recipe_times`` always belong to
``start_all_orders``. Only its recipe decides how long a soup cooks; a ``"cook_time"`` of a soup does not count.
Things lie in pots and on counters only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .layout_checks import Cell, Problem, check_keys, frozen, suggestion
from .layout_grid import read_grid, read_positions
from .layout_recipes import (
    Recipe,
    cook_times,
    described,
    most_ingredients,
    read_orders,
    recipe_values,
    shaping_rewards,
    table,
)
from .layout_start import Start, read_state
from .layout_text import parse

KEYS = (
    "start_all_orders", "start_bonus_orders", "order_bonus", "max_num_ingredients",
    "delivery_reward", "recipe_values", "onion_value", "tomato_value",
    "cook_time", "recipe_times", "onion_time", "tomato_time",
    "rew_shaping_params", "start_state", "layout_name", "num_items_for_soup",
)  # fmt: skip

LAYOUTS = Path(__file__).parent / "layouts"
UNNAMED = "unnamed_layout"


@dataclass(frozen=True, eq=False)
class Layout:
    """A kitchen, as ``read_layout`` makes it. Its arrays are read-only.

    Attributes:
        name: for messages and captions.
        terrain: uint8 [width, height]: 0 floor, 1 pot, 2 counter, 3 onion, 4 tomato, 5 dish dispenser, 6 serving place.
        starts: (x, y) of each starting place, in the order of players.
        orders, bonus_orders: recipes (onions, tomatoes) that pay, and those of them with a bonus.
        values: float32 [8, 8], [onions, tomatoes]: pay of a delivery, bonus included; 0 without an order.
        cook_times: int32 [8, 8], [onions, tomatoes]: steps; 0 outside of recipes.
        max_ingredients: of a soup.
        placement_reward, dish_reward, soup_reward: shaped rewards.
        timestep: at the start.
        facings: of each player at the start: 0 north, 1 south, 2 east, 3 west.
        held: of each player: (kind, onions, tomatoes). Kinds: 0 nothing, 1 onion, 2 tomato, 3 dish, 4 soup; the
            numbers are those of ingredients in a soup, and 0 of anything else.
        items: (x, y, kind, onions, tomatoes, left) of each thing in a pot or on a counter. ``left``: of a soup in a
            pot, steps until it is ready, -1 if it does not cook yet; else 0.
    """

    name: str
    terrain: np.ndarray
    starts: tuple[Cell, ...]
    orders: tuple[Recipe, ...]
    bonus_orders: tuple[Recipe, ...]
    values: np.ndarray
    cook_times: np.ndarray
    max_ingredients: int
    placement_reward: float
    dish_reward: float
    soup_reward: float
    timestep: int
    facings: tuple[int, ...]
    held: tuple[tuple[int, int, int], ...]
    items: tuple[tuple[int, int, int, int, int, int], ...]


def layout_names() -> list[str]:
    """Names of the layouts that come with the package, which are those of the reference."""
    return sorted(path.stem for path in LAYOUTS.glob("*.layout"))


def read_layout(source: str | os.PathLike | Layout, /, **overrides: Any) -> Layout:
    """Read and check a layout.

    Args:
        source: one of ``layout_names()``; a path (``os.PathLike``, or a str that ends in ``.layout``); a text, which is
            a str of several lines or one that begins with ``{``: the content of a file, or just its grid; or a
            ``Layout``, which is returned as it is.
        overrides: keys of a layout file but ``grid``, which replace the file's; ``None`` removes the file's, as in
            ``recipe_times=None, cook_time=10``. Also ``start_player_positions``, a list of
            (x, y), instead of the places in the grid.

    Raises:
        ValueError: for an unknown name, and for any error in a layout or an override. A message names a place in the
            grid by row and column from 1, and by x and y from 0 as in ``start_state``.
        OSError: if a file is unreadable.
        TypeError: if ``source`` is of another type.
    """
    if isinstance(source, Layout):
        if overrides:
            given = ", ".join(overrides)
            raise ValueError(f"layout {source.name!r} is already read; give {given} to its read_layout")
        return source
    name, place, text = _find(source)
    given: dict[str, Any] = {}
    try:
        given = _settings(name, text, overrides)
        return _build(given)
    except Problem as problem:
        raise ValueError(f"layout {place or given.get('layout_name', UNNAMED)!r}: {problem}") from None


def _find(source: str | os.PathLike) -> tuple[str | None, str | None, str]:
    """Name and place of the layout, None for a text; and the text."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return None, None, source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and source.endswith(".layout")):
        path = Path(source)
        try:
            return path.stem, str(path), path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"layout {str(path)!r}: it is not a text in UTF-8: {error}") from None
    if not isinstance(source, str):
        raise TypeError(f"a layout must be a name, a path, a text or a Layout, got {source!r}")
    names = layout_names()
    if source not in names:
        raise ValueError(
            f"unknown layout {source!r}{suggestion(source, names)}; torch_batchsim.envs.overcooked.layout_names() "
            f"gives all {len(names)}; a path must end in '.layout', a text must have several lines or begin with '{{'"
        )
    return source, source, (LAYOUTS / f"{source}.layout").read_text(encoding="utf-8")


def _settings(name: str | None, text: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file and ``overrides``, without those that are None."""
    own_name = {} if name is None else {"layout_name": name}
    given = parse(text) if text.lstrip().startswith(("{", "#")) else {"grid": text}
    check_keys(given, "a layout file", ("grid",), KEYS)
    if "grid" in overrides:
        raise Problem("an option must not replace its grid; give the grid, or a file with it, as the layout itself")
    check_keys(overrides, "the options of a layout", (), (*KEYS, "start_player_positions"))
    return {key: value for key, value in {**given, **own_name, **overrides}.items() if value is not None}


def _build(given: Mapping[str, Any]) -> Layout:
    name = given.get("layout_name", UNNAMED)
    if not isinstance(name, str) or not name:
        raise Problem(f"layout_name must be a text, got {name!r}")
    terrain, starts = read_grid(given.get("grid"))
    if "start_player_positions" in given and "start_state" in given:
        raise Problem("start_player_positions and start_state exclude each other; give start_state=None too")
    if "start_player_positions" in given:
        starts = read_positions(given["start_player_positions"], terrain)
    most = most_ingredients(given)
    recipes = [(total - tomatoes, tomatoes) for total in range(1, most + 1) for tomatoes in range(total + 1)]
    listed = read_orders(given.get("start_all_orders", ()), "start_all_orders", most)
    times = cook_times(given, listed, recipes)
    start = Start(starts, listed, read_orders(given.get("start_bonus_orders", ()), "start_bonus_orders", most))
    if "start_state" in given:
        start = read_state(given["start_state"], terrain, times, most)
    orders = start.orders or recipes
    strange = [recipe for recipe in start.bonus_orders if recipe not in orders]
    if strange:
        raise Problem(f"every bonus order must be one of all orders, but {described(strange[0])} is not")
    shaping = shaping_rewards(given.get("rew_shaping_params"))
    return Layout(
        name=name,
        terrain=frozen(terrain),
        starts=tuple(start.places),
        orders=tuple(orders),
        bonus_orders=tuple(start.bonus_orders),
        values=table(recipe_values(given, listed, recipes, orders, start.bonus_orders), np.float32),
        cook_times=table(times, np.int32),
        max_ingredients=most,
        placement_reward=shaping["PLACEMENT_IN_POT_REW"],
        dish_reward=shaping["DISH_PICKUP_REWARD"],
        soup_reward=shaping["SOUP_PICKUP_REWARD"],
        timestep=start.timestep,
        facings=tuple(start.facings) or (0,) * len(start.places),
        held=tuple(start.held) or ((0, 0, 0),) * len(start.places),
        items=tuple(start.items),
    )
