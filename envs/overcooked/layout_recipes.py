"""Recipes of a layout: orders, their values, cook times and shaped rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .layout_checks import Problem, check_keys, finite, frozen, integer, plain, sequence

Recipe = tuple[int, int]  # onions, tomatoes

MOST_INGREDIENTS = 7  # so that a recipe fits the tables of 8 x 8
MOST_RECIPES = sum(n + 1 for n in range(1, MOST_INGREDIENTS + 1))
LONGEST = 32767  # steps: the steps left are a 16-bit column
DEFAULT = 20  # value and time of a soup without a rule
SHAPING = {"PLACEMENT_IN_POT_REW": 3, "DISH_PICKUP_REWARD": 3, "SOUP_PICKUP_REWARD": 5}
UNREAD_SHAPING = ("DISH_DISP_DISTANCE_REW", "POT_DISTANCE_REW", "SOUP_DISTANCE_REW")


def most_ingredients(given: Mapping[str, Any]) -> int:
    most = integer(given.get("max_num_ingredients", 3), "max_num_ingredients", 1, MOST_INGREDIENTS)
    if integer(given.get("num_items_for_soup", most), "num_items_for_soup", 1, MOST_INGREDIENTS) != most:
        raise Problem(
            f"num_items_for_soup is {given['num_items_for_soup']}, but even the reference does not use it; "
            f"max_num_ingredients, here {most}, is the number that counts"
        )
    return most


def read_orders(given: Any, what: str, most: int) -> list[Recipe]:
    orders = []
    for number, order in enumerate(sequence(given, what), 1):
        whose = f"order {number} of {what}"
        recipe = _read_order(order, whose, most)
        if recipe in orders:
            raise Problem(f"{whose} is the same as order {orders.index(recipe) + 1}: {described(recipe)}")
        orders.append(recipe)
    return orders


def _read_order(order: Any, whose: str, most: int) -> Recipe:
    if not isinstance(order, Mapping) or set(order) != {"ingredients"}:
        raise Problem(f"{whose} must be as {{'ingredients': ['onion', 'tomato']}}, got {order!r}")
    names = sequence(order["ingredients"], f"ingredients of {whose}")
    for name in names:
        if not isinstance(name, str) or name not in ("onion", "tomato"):
            raise Problem(unknown_ingredient(whose, name))
    if not 1 <= len(names) <= most:
        raise Problem(f"{whose} has {len(names)} ingredients; 1 to {most} are allowed (max_num_ingredients)")
    return names.count("onion"), names.count("tomato")


def recipe_values(
    given: Mapping[str, Any],
    listed: Sequence[Recipe],
    recipes: Sequence[Recipe],
    orders: Sequence[Recipe],
    bonus_orders: Sequence[Recipe],
) -> dict[Recipe, float]:
    """The pay for each recipe of ``orders``."""
    keys = ("delivery_reward", "recipe_values", "onion_value", "tomato_value")
    values = _by_recipe(given, keys, listed, recipes, finite)
    bonus = plain(given.get("order_bonus", 2))
    infinite = isinstance(bonus, float) and bonus == float("inf")
    if not infinite:
        finite(bonus, "order_bonus")
    paid = {recipe: values[recipe] * (bonus if recipe in bonus_orders else 1) for recipe in orders}
    for recipe, value in paid.items():
        if not (infinite and recipe in bonus_orders):
            finite(value, f"value of {described(recipe)}")
        elif values[recipe] == 0:
            raise Problem(f"order_bonus is infinite, but {described(recipe)}, a bonus order, has the value 0")
    return paid


def cook_times(given: Mapping[str, Any], listed: Sequence[Recipe], recipes: Sequence[Recipe]) -> dict[Recipe, int]:
    def steps(value: Any, what: str) -> int:
        return integer(value, what, 0, LONGEST)

    times = _by_recipe(given, ("cook_time", "recipe_times", "onion_time", "tomato_time"), listed, recipes, steps)
    for recipe, time in times.items():
        steps(time, f"cook time of {described(recipe)}")
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
            raise Problem(
                f"{key} must not be 0: the reference takes a 0 for 'not given', and {DEFAULT} for every soup then; "
                f"{each_listed} may hold 0"
            )
    if whole in one:
        return dict.fromkeys(recipes, one[whole])
    if onion in one:
        return {(onions, tomatoes): onions * one[onion] + tomatoes * one[tomato] for onions, tomatoes in recipes}
    numbers = sequence(given.get(each_listed, ()), each_listed)
    numbers = [checked(number, f"{each_listed}[{i}]") for i, number in enumerate(numbers)]
    if each_listed in given and (not listed or len(numbers) != len(listed)):
        raise Problem(
            f"{each_listed} must have one number for each of start_all_orders, but these are {len(listed)}, "
            f"and it has {len(numbers)}"
        )
    return {**dict.fromkeys(recipes, DEFAULT), **dict(zip(listed, numbers, strict=bool(numbers)))}


def _check_rules(given: Mapping[str, Any], keys: tuple[str, str, str, str]) -> None:
    """No more than one of the rules is given, and that one in full."""
    whole, each_listed, onion, tomato = keys
    if (onion in given) != (tomato in given):
        one, other = (onion, tomato) if onion in given else (tomato, onion)
        raise Problem(f"{one} is given without {other}; give both or neither")
    rules = [key for key in (whole, each_listed, onion) if key in given]
    if len(rules) > 1:
        raise Problem(
            f"{rules[0]} and {rules[1]} exclude each other; an option of None, as {rules[1]}=None, removes "
            "that of the layout file"
        )


def shaping_rewards(given: Any) -> dict[str, float]:
    if given is None:
        return {key: float(value) for key, value in SHAPING.items()}
    check_keys(given, "rew_shaping_params", tuple(SHAPING), UNREAD_SHAPING)
    rewards = {key: float(finite(value, f"{key} of rew_shaping_params")) for key, value in given.items()}
    for key in UNREAD_SHAPING:
        if rewards.get(key, 0) != 0:
            raise Problem(f"{key} of rew_shaping_params must be 0: not even the reference pays it")
    return rewards


def unknown_ingredient(whose: str, name: object) -> str:
    return f"{whose} has the unknown ingredient {name!r}; allowed are 'onion' and 'tomato'"


def described(recipe: Recipe) -> str:
    return f"the soup of {recipe[0]} onions and {recipe[1]} tomatoes"


def table(numbers: Mapping[Recipe, float], dtype: type) -> np.ndarray:
    table = np.zeros((MOST_INGREDIENTS + 1,) * 2, dtype)
    for recipe, number in numbers.items():
        table[recipe] = number
    return frozen(table)
