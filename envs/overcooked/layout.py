"""Kitchens of Overcooked: what a layout file says, checked, and as tables.

The file format is that of overcooked_ai 1.1.0, "the reference" below: a Python dict literal. Of it, ``"grid"`` is
needed: rows of symbols, top first; spaces around a row do not count.

| symbol | cell              | symbol  | cell                                                              |
|--------|-------------------|---------|-------------------------------------------------------------------|
| space  | floor             | D       | dish dispenser                                                    |
| X      | counter           | S       | serving place                                                     |
| P      | pot               | 1 .. 9  | floor, where this player starts                                   |
| O      | onion dispenser   | ``*``   | floor, where a player starts: players after the numbered ones,    |
| T      | tomato dispenser  |         | in reading order (not in the reference)                           |

The other keys, each of which may also be an option of ``read_layout``. ``None`` stands for "not given".

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

A ``start_state`` has orders of its own, which are those that count, as in the reference: without ``"all_orders"`` every
soup is paid for, without ``"bonus_orders"`` none has a bonus. ``recipe_values`` and ``recipe_times`` always go with
``start_all_orders``. How long a soup cooks is said by its recipe alone; a ``"cook_time"`` of a soup does not count.
Things lie in pots and on counters only.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from torch_batchsim.base.names import suggestion

Recipe = tuple[int, int]  # onions, tomatoes
Cell = tuple[int, int]  # x, y

# Numbers that the state holds; systems.h has them by the same names.
Ground = IntEnum("Ground", "FLOOR POT COUNTER ONIONS TOMATOES DISHES SERVING OUTSIDE", start=0)
ItemKind = IntEnum("ItemKind", "NOTHING ONION TOMATO DISH SOUP", start=0)
Action = IntEnum("Action", "NORTH SOUTH EAST WEST STAY INTERACT", start=0)
FLOOR, POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING, OUTSIDE = Ground
NOTHING, ONION, TOMATO, DISH, SOUP = ItemKind

SYMBOLS = {" ": FLOOR, "P": POT, "X": COUNTER, "O": ONIONS, "T": TOMATOES, "D": DISHES, "S": SERVING}
ITEMS = {"onion": ONION, "tomato": TOMATO, "dish": DISH, "soup": SOUP}
DIRECTIONS = {(0, -1): Action.NORTH, (0, 1): Action.SOUTH, (1, 0): Action.EAST, (-1, 0): Action.WEST}

KEYS = (
    "start_all_orders", "start_bonus_orders", "order_bonus", "max_num_ingredients",
    "delivery_reward", "recipe_values", "onion_value", "tomato_value",
    "cook_time", "recipe_times", "onion_time", "tomato_time",
    "rew_shaping_params", "start_state", "layout_name", "num_items_for_soup",
)  # fmt: skip
SHAPING = {"PLACEMENT_IN_POT_REW": 3, "DISH_PICKUP_REWARD": 3, "SOUP_PICKUP_REWARD": 5}
UNREAD_SHAPING = ("DISH_DISP_DISTANCE_REW", "POT_DISTANCE_REW", "SOUP_DISTANCE_REW")

MOST_CELLS = 4096
MOST_PLAYERS = 40
MOST_INGREDIENTS = 7  # so that a recipe fits the tables of 8 x 8
MOST_RECIPES = sum(n + 1 for n in range(1, MOST_INGREDIENTS + 1))
LONGEST = 32767  # steps: what is left of them is a 16-bit column
GREATEST = float(np.finfo(np.float32).max)
DEFAULT = 20  # value and time of a soup for which no rule holds

LAYOUTS = Path(__file__).parent / "layouts"
UNNAMED = "unnamed_layout"


@dataclass(frozen=True, eq=False)
class Layout:
    """A kitchen, as ``read_layout`` makes it. Its arrays are read-only.

    Attributes:
        name: for messages and captions.
        terrain: uint8 [width, height]: 0 floor, 1 pot, 2 counter, 3 onion, 4 tomato, 5 dish dispenser, 6 serving place.
        starts: (x, y) of each starting place, in the order of players.
        orders, bonus_orders: recipes (onions, tomatoes) that are paid for, and those of them with a bonus.
        values: float32 [8, 8], [onions, tomatoes]: what delivery pays, bonus included; 0 of what is not ordered.
        cook_times: int32 [8, 8], [onions, tomatoes]: steps; 0 of what is no recipe.
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


class _Problem(ValueError):
    """What is wrong with a layout; ``read_layout`` adds which one."""


def layout_names() -> list[str]:
    """Names of the layouts that come with the package, which are those of the reference."""
    return sorted(path.stem for path in LAYOUTS.glob("*.layout"))


def read_layout(source: str | os.PathLike | Layout, /, **overrides: Any) -> Layout:
    """Read and check a layout.

    Args:
        source: one of ``layout_names()``; a path (``os.PathLike``, or a str that ends in ``.layout``); a text, which is
            a str of several lines or one that begins with ``{``: the content of a file, or just its grid; or a
            ``Layout``, which is returned as it is.
        overrides: keys of a layout file but ``grid``, which replace the file's; ``None`` takes the file's away, as
            ``recipe_times=None`` must where ``cook_time`` is given instead. Also ``start_player_positions``, a list of
            (x, y), instead of the places in the grid.

    Raises:
        ValueError: for an unknown name, and for whatever is wrong with a layout or an override. A message says where
            in the grid by row and column from 1, and by x and y from 0 as they are in ``start_state``.
        OSError: if a file cannot be read.
        TypeError: if ``source`` is of another type.
    """
    if isinstance(source, Layout):
        if overrides:
            given = ", ".join(overrides)
            raise ValueError(f"layout {source.name!r} has been read already, {given} must be given to its read_layout")
        return source
    name, place, text = _find(source)
    given: dict[str, Any] = {}
    try:
        given = _settings(name, text, overrides)
        return _build(given)
    except _Problem as problem:
        raise ValueError(f"layout {place or given.get('layout_name', UNNAMED)!r}: {problem}") from None


def _find(source: str | os.PathLike) -> tuple[str | None, str | None, str]:
    """Name of the layout and where it is, None of a text given as such; and the text."""
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
            f"there is no layout {source!r}{suggestion(source, names)}; torch_batchsim.envs.overcooked.layout_names() "
            f"gives all {len(names)}; a path must end in '.layout', a text must have several lines or begin with '{{'"
        )
    return source, source, (LAYOUTS / f"{source}.layout").read_text(encoding="utf-8")


def _settings(name: str | None, text: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What a file and ``overrides`` say together. What is None there is not in it."""
    own_name = {} if name is None else {"layout_name": name}
    given = _parse(text) if text.lstrip().startswith(("{", "#")) else {"grid": text}
    _check_keys(given, "a layout file", ("grid",), KEYS)
    if "grid" in overrides:
        raise _Problem("its grid cannot be replaced; give the grid, or a file with it, as the layout itself")
    _check_keys(overrides, "the options of a layout", (), (*KEYS, "start_player_positions"))
    return {key: value for key, value in {**given, **own_name, **overrides}.items() if value is not None}


def _build(given: Mapping[str, Any]) -> Layout:
    name = given.get("layout_name", UNNAMED)
    if not isinstance(name, str) or not name:
        raise _Problem(f"layout_name must be a text, got {name!r}")
    terrain, starts = _read_grid(given.get("grid"))
    if "start_player_positions" in given and "start_state" in given:
        raise _Problem("start_player_positions and start_state both say where players start; give start_state=None too")
    if "start_player_positions" in given:
        starts = _read_positions(given["start_player_positions"], terrain)
    most = _most_ingredients(given)
    recipes = [(total - tomatoes, tomatoes) for total in range(1, most + 1) for tomatoes in range(total + 1)]
    listed = _read_orders(given.get("start_all_orders", ()), "start_all_orders", most)
    times = _cook_times(given, listed, recipes)
    start = _Start(starts, listed, _read_orders(given.get("start_bonus_orders", ()), "start_bonus_orders", most))
    if "start_state" in given:
        start = _read_state(given["start_state"], terrain, times, most)
    orders = start.orders or recipes
    strange = [recipe for recipe in start.bonus_orders if recipe not in orders]
    if strange:
        raise _Problem(f"every bonus order must be one of all orders, but {_described(strange[0])} is not")
    shaping = _shaping(given.get("rew_shaping_params"))
    return Layout(
        name=name,
        terrain=_frozen(terrain),
        starts=tuple(start.places),
        orders=tuple(orders),
        bonus_orders=tuple(start.bonus_orders),
        values=_table(_values(given, listed, recipes, orders, start.bonus_orders), np.float32),
        cook_times=_table(times, np.int32),
        max_ingredients=most,
        placement_reward=shaping["PLACEMENT_IN_POT_REW"],
        dish_reward=shaping["DISH_PICKUP_REWARD"],
        soup_reward=shaping["SOUP_PICKUP_REWARD"],
        timestep=start.timestep,
        facings=tuple(start.facings) or (0,) * len(start.places),
        held=tuple(start.held) or ((0, 0, 0),) * len(start.places),
        items=tuple(start.items),
    )


# ---- the file ------------------------------------------------------------------------------------------------------


def _parse(text: str) -> dict[str, Any]:
    """The dict in a layout file. The reference evaluates the file as Python; here a literal is all that it may be."""
    body = text.lstrip()
    lines_before = text[: len(text) - len(body)].count("\n")
    try:
        tree = ast.parse("\n" * lines_before + body, mode="eval").body
    except SyntaxError as error:
        raise _Problem(f"line {error.lineno}: {error.msg}; {_ALLOWED}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # zero bytes, lone surrogates, deep nesting
        raise _Problem(f"it cannot be parsed ({error}); {_ALLOWED}") from None
    if not isinstance(tree, ast.Dict):
        raise _Problem(f"line {tree.lineno}: not a dict; {_ALLOWED}")
    return _literal(tree)


_ALLOWED = (
    "a layout is a grid or a dict literal; in it may be texts, numbers, None, True, False, lists, tuples, "
    "dicts with texts as keys, and float('inf')"
)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        items = [_literal(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict):
        return _literal_dict(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = node.operand if isinstance(node.operand, ast.Constant) else _float_call(node.operand)
        value = number.value if isinstance(number, ast.Constant) else number
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    value = _float_call(node)
    if value is None:
        raise _Problem(f"line {node.lineno}, column {node.col_offset + 1}: not allowed here; {_ALLOWED}")
    return value


def _literal_dict(node: ast.Dict) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise _Problem(f"line {value.lineno}: a key that is not a text; {_ALLOWED}")
        if key.value in values:
            raise _Problem(f"line {key.lineno}: the key {key.value!r} is there twice")
        values[key.value] = _literal(value)
    return values


def _float_call(node: ast.expr) -> float | None:
    """``float('inf')`` and the like; None if it is something else."""
    match node:
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []):
            try:
                return float(text)
            except ValueError:
                return None
    return None


# ---- the grid ------------------------------------------------------------------------------------------------------


def _read_grid(text: Any) -> tuple[np.ndarray, list[Cell]]:
    """Terrain [width, height] and starting places."""
    if not isinstance(text, str):
        raise _Problem(f"its grid must be a text of rows, got {text!r}")
    rows = [row.strip() for row in text.strip().split("\n")]
    width, height = max(map(len, rows)), len(rows)
    if width == 0:
        raise _Problem("its grid is empty")
    if width * height > MOST_CELLS:
        raise _Problem(f"its grid is of {width} x {height} cells; {MOST_CELLS} cells at most are allowed")
    _check_rows(rows)
    starts = _read_starts(rows)
    for symbols, what in (
        ("P", "pot"),
        ("S", "serving place"),
        ("D", "dish dispenser"),
        ("OT", "onion or tomato dispenser"),
    ):
        if not any(symbol in row for symbol in symbols for row in rows):
            raise _Problem(f"its grid has no {what} ({' or '.join(map(repr, symbols))})")
    return np.array([[SYMBOLS.get(symbol, FLOOR) for symbol in row] for row in rows], np.uint8).T, starts


def _check_rows(rows: Sequence[str]) -> None:
    width, height = len(rows[0]), len(rows)
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if symbol not in SYMBOLS and symbol not in "123456789*":
                allowed = " ".join(symbol for symbol in SYMBOLS if symbol != " ")
                raise _Problem(f"{symbol!r} in {_where(x, y)}; allowed are space (floor), {allowed}, 1 to 9 and *")
    for y, row in enumerate(rows):
        if len(row) != width:
            raise _Problem(
                f"row {y + 1} of its grid has {len(row)} cells, but the first has {width} "
                "(spaces around a row do not count: a border of X, P, O, T, D, S is needed)"
            )
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if (x in (0, width - 1) or y in (0, height - 1)) and symbol not in "XPOTDS":
                what = "floor" if symbol == " " else f"start {symbol!r}"
                raise _Problem(f"{what} on the border in {_where(x, y)}; allowed there are X, P, O, T, D and S")


def _read_starts(rows: Sequence[str]) -> list[Cell]:
    numbered: dict[int, Cell] = {}
    others: list[Cell] = []
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            if symbol == "*":
                others.append((x, y))
            elif symbol in "123456789":
                if int(symbol) in numbered:
                    raise _Problem(f"player {symbol} starts in {_where(*numbered[int(symbol)])} and in {_where(x, y)}")
                numbered[int(symbol)] = (x, y)
    missing = [number for number in range(1, max(numbered, default=0)) if number not in numbered]
    if missing:
        raise _Problem(f"its grid has a player {max(numbered)} but no player {missing[0]}; numbers go 1, 2, 3, ...")
    starts = [numbered[number] for number in sorted(numbered)] + others
    _check_players(len(starts), "starting places (1 to 9, *) in its grid")
    return starts


def _read_positions(given: Any, terrain: np.ndarray) -> list[Cell]:
    positions = _sequence(given, "start_player_positions")
    _check_players(len(positions), "start_player_positions")
    return _standing([(p, f"player {i} of start_player_positions") for i, p in enumerate(positions, 1)], terrain)


def _check_players(count: int, what: str) -> None:
    if not 1 <= count <= MOST_PLAYERS:
        raise _Problem(f"there are {count} {what}; 1 to {MOST_PLAYERS} are allowed")


def _standing(places: Iterable[tuple[Any, str]], terrain: np.ndarray) -> list[Cell]:
    """Cells of players: on the floor, each another one. ``places``: a position and whose it is."""
    taken: dict[Cell, str] = {}
    for position, whose in places:
        cell = _cell(position, whose, terrain)
        if terrain[cell] != FLOOR:
            raise _Problem(f"{whose} is in {_where(*cell)}, where there is no floor")
        if cell in taken:
            raise _Problem(f"{whose} is where {taken[cell]} is, in {_where(*cell)}")
        taken[cell] = whose
    return list(taken)


def _cell(position: Any, whose: str, terrain: np.ndarray) -> Cell:
    x, y = _pair(position, f"position of {whose}")
    width, height = terrain.shape
    if not (0 <= x < width and 0 <= y < height):
        raise _Problem(f"position of {whose} is ({x}, {y}), outside of the grid of {width} x {height} cells")
    return x, y


# ---- recipes -------------------------------------------------------------------------------------------------------


def _most_ingredients(given: Mapping[str, Any]) -> int:
    most = _integer(given.get("max_num_ingredients", 3), "max_num_ingredients", 1, MOST_INGREDIENTS)
    if _integer(given.get("num_items_for_soup", most), "num_items_for_soup", 1, MOST_INGREDIENTS) != most:
        raise _Problem(
            f"num_items_for_soup is {given['num_items_for_soup']}, but even the reference does not use it; "
            f"max_num_ingredients, here {most}, says how many a soup may have"
        )
    return most


def _read_orders(given: Any, what: str, most: int) -> list[Recipe]:
    orders = []
    for number, order in enumerate(_sequence(given, what), 1):
        whose = f"order {number} of {what}"
        recipe = _read_order(order, whose, most)
        if recipe in orders:
            raise _Problem(f"{whose} is the same as order {orders.index(recipe) + 1}: {_described(recipe)}")
        orders.append(recipe)
    return orders


def _read_order(order: Any, whose: str, most: int) -> Recipe:
    if not isinstance(order, Mapping) or set(order) != {"ingredients"}:
        raise _Problem(f"{whose} must be as {{'ingredients': ['onion', 'tomato']}}, got {order!r}")
    names = _sequence(order["ingredients"], f"ingredients of {whose}")
    for name in names:
        if not isinstance(name, str) or name not in ("onion", "tomato"):
            raise _Problem(_unknown_ingredient(whose, name))
    if not 1 <= len(names) <= most:
        raise _Problem(f"{whose} has {len(names)} ingredients; 1 to {most} are allowed (max_num_ingredients)")
    return names.count("onion"), names.count("tomato")


def _values(
    given: Mapping[str, Any],
    listed: Sequence[Recipe],
    recipes: Sequence[Recipe],
    orders: Sequence[Recipe],
    bonus_orders: Sequence[Recipe],
) -> dict[Recipe, float]:
    """What each recipe of ``orders`` is worth when delivered."""
    keys = ("delivery_reward", "recipe_values", "onion_value", "tomato_value")
    values = _by_recipe(given, keys, listed, recipes, _finite)
    bonus = _plain(given.get("order_bonus", 2))
    infinite = isinstance(bonus, float) and bonus == float("inf")
    if not infinite:
        _finite(bonus, "order_bonus")
    paid = {recipe: values[recipe] * (bonus if recipe in bonus_orders else 1) for recipe in orders}
    for recipe, value in paid.items():
        if not (infinite and recipe in bonus_orders):
            _finite(value, f"value of {_described(recipe)}")
        elif values[recipe] == 0:
            raise _Problem(f"order_bonus is infinite, but {_described(recipe)}, a bonus order, has the value 0")
    return paid


def _cook_times(given: Mapping[str, Any], listed: Sequence[Recipe], recipes: Sequence[Recipe]) -> dict[Recipe, int]:
    def steps(value: Any, what: str) -> int:
        return _integer(value, what, 0, LONGEST)

    times = _by_recipe(given, ("cook_time", "recipe_times", "onion_time", "tomato_time"), listed, recipes, steps)
    for recipe, time in times.items():
        steps(time, f"cook time of {_described(recipe)}")
    return times


def _by_recipe(
    given: Mapping[str, Any],
    keys: tuple[str, str, str, str],
    listed: Sequence[Recipe],
    recipes: Sequence[Recipe],
    checked: Callable[[Any, str], Any],
) -> dict[Recipe, Any]:
    """Value or cook time of every recipe. ``keys`` name the rules: one number for all soups, a list for ``listed``,
    and a number for each onion and each tomato. ``checked`` takes a number and what to call it in a message."""
    whole, each_listed, onion, tomato = keys
    _check_rules(given, keys)
    one = {key: checked(given[key], key) for key in (whole, onion, tomato) if key in given}
    for key, number in one.items():
        if number == 0:
            raise _Problem(
                f"{key} must not be 0: the reference takes a 0 for 'not given', and {DEFAULT} for every soup then; "
                f"{each_listed} may hold 0"
            )
    if whole in one:
        return dict.fromkeys(recipes, one[whole])
    if onion in one:
        return {(onions, tomatoes): onions * one[onion] + tomatoes * one[tomato] for onions, tomatoes in recipes}
    numbers = _sequence(given.get(each_listed, ()), each_listed)
    numbers = [checked(number, f"{each_listed}[{i}]") for i, number in enumerate(numbers)]
    if each_listed in given and (not listed or len(numbers) != len(listed)):
        raise _Problem(
            f"{each_listed} must have one number for each of start_all_orders, but these are {len(listed)}, "
            f"and it has {len(numbers)}"
        )
    return {**dict.fromkeys(recipes, DEFAULT), **dict(zip(listed, numbers, strict=bool(numbers)))}


def _check_rules(given: Mapping[str, Any], keys: tuple[str, str, str, str]) -> None:
    """No more than one of the rules is given, and that one in full."""
    whole, each_listed, onion, tomato = keys
    if (onion in given) != (tomato in given):
        one, other = (onion, tomato) if onion in given else (tomato, onion)
        raise _Problem(f"{one} is given, but {other} is not; both or none must be")
    rules = [key for key in (whole, each_listed, onion) if key in given]
    if len(rules) > 1:
        raise _Problem(
            f"{rules[0]} and {rules[1]} exclude each other; an option of None, as {rules[1]}=None, takes away "
            "what the layout file says"
        )


def _shaping(given: Any) -> dict[str, float]:
    if given is None:
        return {key: float(value) for key, value in SHAPING.items()}
    _check_keys(given, "rew_shaping_params", tuple(SHAPING), UNREAD_SHAPING)
    rewards = {key: float(_finite(value, f"{key} of rew_shaping_params")) for key, value in given.items()}
    for key in UNREAD_SHAPING:
        if rewards.get(key, 0) != 0:
            raise _Problem(f"{key} of rew_shaping_params must be 0: not even the reference pays it")
    return rewards


def _unknown_ingredient(whose: str, name: object) -> str:
    return f"{whose} has the unknown ingredient {name!r}; allowed are 'onion' and 'tomato'"


def _described(recipe: Recipe) -> str:
    return f"the soup of {recipe[0]} onions and {recipe[1]} tomatoes"


def _table(numbers: Mapping[Recipe, float], dtype: type) -> np.ndarray:
    table = np.zeros((MOST_INGREDIENTS + 1,) * 2, dtype)
    for recipe, number in numbers.items():
        table[recipe] = number
    return _frozen(table)


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


# ---- the state at the start ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Start:
    """How a game begins. No ``orders`` stand for all recipes, no ``facings`` for north, no ``held`` for nothing."""

    places: Sequence[Cell]
    orders: Sequence[Recipe]
    bonus_orders: Sequence[Recipe]
    facings: Sequence[int] = ()
    held: Sequence[tuple[int, int, int]] = ()
    items: Sequence[tuple[int, int, int, int, int, int]] = ()
    timestep: int = 0


def _read_state(state: Any, terrain: np.ndarray, times: Mapping[Recipe, int], most: int) -> _Start:
    _check_keys(state, "start_state", ("players", "objects"), ("all_orders", "bonus_orders", "timestep"))
    players = [(p, f"player {i} of start_state") for i, p in enumerate(_sequence(state["players"], "its players"), 1)]
    _check_players(len(players), "players in start_state")
    for player, whose in players:
        _check_keys(player, whose, ("position", "orientation"), ("held_object",))
    return _Start(
        places=_standing([(player["position"], whose) for player, whose in players], terrain),
        orders=_read_orders(state.get("all_orders", ()), "start_state's all_orders", most),
        bonus_orders=_read_orders(state.get("bonus_orders", ()), "start_state's bonus_orders", most),
        facings=[_read_facing(player["orientation"], whose) for player, whose in players],
        held=[_read_held(player, whose, times) for player, whose in players],
        items=_read_objects(state["objects"], terrain, times),
        timestep=_integer(state.get("timestep", 0), "timestep of start_state", 0, 2**31 - 2),
    )


def _read_facing(given: Any, whose: str) -> int:
    direction = _pair(given, f"orientation of {whose}")
    if direction not in DIRECTIONS:
        raise _Problem(
            f"orientation of {whose} must be (0, -1) north, (0, 1) south, (1, 0) east or (-1, 0) west, got {given!r}"
        )
    return DIRECTIONS[direction]


def _read_held(player: Mapping[str, Any], whose: str, times: Mapping[Recipe, int]) -> tuple[int, int, int]:
    thing, whose = player.get("held_object"), f"held_object of {whose}"
    if thing is None:
        return 0, 0, 0
    kind, onions, tomatoes, left = _read_thing(thing, whose, times)
    if _pair(thing["position"], f"position of {whose}") != _pair(player["position"], "position"):
        raise _Problem(f"{whose} is at {thing['position']!r}, but the player is at {player['position']!r}")
    if left:
        raise _Problem(f"{whose} is a soup that is not ready; only a pot may have one")
    return kind, onions, tomatoes


def _read_objects(
    given: Any, terrain: np.ndarray, times: Mapping[Recipe, int]
) -> list[tuple[int, int, int, int, int, int]]:
    items: dict[Cell, tuple[int, int, int, int]] = {}
    for number, thing in enumerate(_sequence(given, "objects of start_state"), 1):
        whose = f"object {number} of start_state"
        kind, onions, tomatoes, left = _read_thing(thing, whose, times)
        cell = _cell(thing["position"], whose, terrain)
        if terrain[cell] not in (POT, COUNTER):
            raise _Problem(f"{whose} is in {_where(*cell)}, where there is neither a counter nor a pot")
        if terrain[cell] == POT and kind != SOUP:
            raise _Problem(f"{whose}, no soup, is in a pot in {_where(*cell)}")
        if terrain[cell] == COUNTER and left:
            raise _Problem(f"{whose}, a soup that is not ready, is on a counter in {_where(*cell)}")
        if cell in items:
            raise _Problem(f"{whose} is where another object is, in {_where(*cell)}")
        items[cell] = (kind, onions, tomatoes, left)
    return [(*cell, *item) for cell, item in items.items()]


def _read_thing(thing: Any, whose: str, times: Mapping[Recipe, int]) -> tuple[int, int, int, int]:
    """Its kind, onions, tomatoes, and steps left."""
    if not isinstance(thing, Mapping) or thing.get("name") not in tuple(ITEMS):
        raise _Problem(f"{whose} must be a dict with 'position' and a 'name' of {', '.join(ITEMS)}, got {thing!r}")
    if thing["name"] != "soup":
        _check_keys(thing, whose, ("name", "position"), ())
        return ITEMS[thing["name"]], 0, 0, 0
    if "state" in thing:
        raise _Problem(f"{whose} is a soup with a 'state', an old form; '_ingredients' and 'cooking_tick' say more")
    noted = ("cooking_tick", "_cooking_tick", "cook_time", "is_cooking", "is_ready", "is_idle")  # but the first unread
    _check_keys(thing, whose, ("name", "position", "_ingredients"), noted)
    recipe = _read_contents(thing, whose)
    if recipe not in times:
        most = max(map(sum, times))
        raise _Problem(f"{whose} is a soup of {sum(recipe)} ingredients; 1 to {most} are allowed (max_num_ingredients)")
    tick = _integer(thing.get("cooking_tick", -1), f"cooking_tick of {whose}", -1, times[recipe])
    if thing.get("_cooking_tick", tick) != tick:
        raise _Problem(
            f"{whose} has a '_cooking_tick' of {thing['_cooking_tick']!r}, but what counts, in the reference too, is "
            f"'cooking_tick', {tick} here"
        )
    return SOUP, *recipe, -1 if tick < 0 else times[recipe] - tick


def _read_contents(soup: Mapping[str, Any], whose: str) -> Recipe:
    counts = {"onion": 0, "tomato": 0}
    place = _pair(soup["position"], f"position of {whose}")
    for ingredient in _sequence(soup["_ingredients"], f"_ingredients of {whose}"):
        _check_keys(ingredient, f"an ingredient of {whose}", ("name", "position"), ())
        if ingredient["name"] not in tuple(counts):
            raise _Problem(_unknown_ingredient(whose, ingredient["name"]))
        if _pair(ingredient["position"], f"position of an ingredient of {whose}") != place:
            raise _Problem(f"{whose} is at {place}, but an ingredient of it at {ingredient['position']!r}")
        counts[ingredient["name"]] += 1
    return counts["onion"], counts["tomato"]


# ---- values of the right type, and words for messages --------------------------------------------------------------


def _check_keys(given: Any, what: str, needed: Sequence[str], others: Sequence[str]) -> None:
    """``given`` is a dict with all of ``needed`` and nothing but these and ``others``."""
    if not isinstance(given, Mapping):
        raise _Problem(f"{what} must be a dict, got {given!r}")
    known = (*needed, *others)
    for key in given:
        if key not in known:
            raise _Problem(f"{key!r} is unknown in {what}{suggestion(str(key), known)}; known are {', '.join(known)}")
    missing = [key for key in needed if key not in given]
    if missing:
        raise _Problem(f"{what} must have {', '.join(map(repr, missing))}")


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: Any, what: str) -> int | float:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= GREATEST:
        raise _Problem(f"{what} must be a number that is finite as a 32-bit float, got {value!r}")
    return value


def _integer(value: Any, what: str, low: int, high: int) -> int:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _Problem(f"{what} must be a whole number from {low} to {high}, got {value!r}")
    return value


def _sequence(value: Any, what: str) -> list[Any]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, list | tuple):
        raise _Problem(f"{what} must be a list, got {value!r}")
    return list(value)


def _pair(value: Any, what: str) -> tuple[int, int]:
    pair = [_plain(number) for number in _sequence(value, what)]
    if len(pair) != 2 or not all(type(number) is int for number in pair):
        raise _Problem(f"{what} must be two whole numbers (x, y), got {value!r}")
    return pair[0], pair[1]


def _where(x: int, y: int) -> str:
    return f"row {y + 1}, column {x + 1} (x={x}, y={y})"
