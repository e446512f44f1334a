"""Record what overcooked_ai makes of layouts: `python record_overcooked_layouts.py`, in an environment of its own.

That environment: `python -m venv overcooked; overcooked/bin/pip install 'numpy<2' scipy overcooked-ai==1.1.0`.
Writes tests/envs/golden/overcooked_layouts.json: every layout that comes with overcooked_ai, and some of them with
other settings. A number per recipe stands for (onions, tomatoes) = (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), ...
"""

import copy
import json
from pathlib import Path

from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld, OvercookedState, Recipe
from overcooked_ai_py.static import LAYOUTS_DIR
from overcooked_ai_py.utils import read_layout_dict

GOLDEN = Path(__file__).parents[1] / "envs" / "golden" / "overcooked_layouts.json"


def order(onions, tomatoes):
    return {"ingredients": ["onion"] * onions + ["tomato"] * tomatoes}


def thing(name, *position):
    return {"name": name, "position": list(position)}


def soup(onions, tomatoes, position, **more):
    contents = [thing(name, *position) for name in order(onions, tomatoes)["ingredients"]]
    return {**thing("soup", *position), "_ingredients": contents, **more}


def player(position, orientation, held_object=None):
    return {"position": list(position), "orientation": list(orientation), "held_object": held_object}


SEVEN, MIXED = order(6, 1), order(1, 2)
# In cramped_room: a pot at (2, 0), counters at (0, 0) and (4, 3).
BUSY = {
    "players": [
        player((3, 1), (1, 0), soup(1, 2, (3, 1), cooking_tick=20, cook_time=20)),
        player((1, 2), (0, 1), thing("dish", 1, 2)),
    ],
    "objects": [soup(2, 1, (2, 0), cooking_tick=13, cook_time=99), thing("tomato", 0, 0), thing("onion", 4, 3)],
    "timestep": 17,
}
CALM = {"players": [player((1, 1), (0, -1)), player((2, 2), (-1, 0))], "objects": []}
SHAPING = {"PLACEMENT_IN_POT_REW": 0, "DISH_PICKUP_REWARD": 1.5, "SOUP_PICKUP_REWARD": -2}

VARIANTS = [
    ("cramped_room", {"cook_time": 5}),
    ("cramped_room", {"delivery_reward": 7.5, "start_all_orders": []}),
    ("cramped_room", {"start_all_orders": [order(1, 0), order(0, 2)], "start_bonus_orders": [order(0, 2)]}),
    ("cramped_room", {"onion_value": -3, "tomato_value": 4, "onion_time": 1, "tomato_time": 9, "start_all_orders": []}),
    ("cramped_room", {"max_num_ingredients": 5, "start_all_orders": []}),
    ("cramped_room", {"max_num_ingredients": 7, "onion_value": 2, "tomato_value": 3, "start_all_orders": [SEVEN]}),
    ("cramped_room", {"max_num_ingredients": 1, "num_items_for_soup": 1, "start_all_orders": []}),
    ("cramped_room", {"rew_shaping_params": SHAPING}),
    ("cramped_room", {"start_player_positions": [[3, 2], [1, 1], [2, 1]]}),
    ("cramped_room", {"start_state": BUSY}),
    ("cramped_room", {"start_state": {**BUSY, "all_orders": [MIXED, order(3, 0)], "bonus_orders": [MIXED]}}),
    ("bonus_order_test", {"order_bonus": 0.5}),
    ("bonus_order_test", {"recipe_values": [0, 1, -2], "recipe_times": [0, 3, 5]}),
    ("bonus_order_test", {"recipe_values": None, "onion_value": 5, "tomato_value": 6}),
    ("bonus_order_test", {"recipe_times": None, "cook_time": 9, "recipe_values": None, "delivery_reward": 50}),
    # The lists of values and times go with the layout's orders, but what is paid for is what the state says.
    ("bonus_order_test", {"start_state": {**CALM, "all_orders": [order(2, 0), order(1, 1)]}}),
    ("soup_coordination", {"order_bonus": 0}),
    ("you_shall_not_pass", {"start_bonus_orders": []}),
    ("tutorial_1", {"start_state": None}),
    ("tutorial_1", {"onion_time": 3, "tomato_time": 300}),
    ("tutorial_3", {"onion_value": None, "tomato_value": None}),
]


def load(name, overrides):
    """As `OvercookedGridworld.from_layout_name` does, but None takes a key away."""
    settings = {key: value for key, value in {**read_layout_dict(name), **overrides}.items() if value is not None}
    settings = copy.deepcopy(settings)
    positions = settings.pop("start_player_positions", None)
    grid = [row.strip() for row in settings.pop("grid").split("\n")]
    Recipe.ALL_RECIPES_CACHE.clear()  # else it still has the recipes of a layout with larger soups
    Recipe.configure({"max_num_ingredients": settings.get("max_num_ingredients", 3)})  # needed to read a state
    if "start_state" in settings:
        settings["start_state"] = OvercookedState.from_dict(settings["start_state"])
    moved = {} if positions is None else {"start_player_positions": [tuple(position) for position in positions]}
    return OvercookedGridworld.from_grid(grid, settings, moved)


def counts(recipe):
    return [list(recipe.ingredients).count("onion"), list(recipe.ingredients).count("tomato")]


def item(state, x, y):
    """Position, name, onions, tomatoes, steps left."""
    if state.name != "soup":
        return [x, y, state.name, 0, 0, 0]
    left = -1 if state.is_idle else state.cook_time_remaining
    return [x, y, "soup", state.ingredients.count("onion"), state.ingredients.count("tomato"), left]


def record(name, overrides):
    world = load(name, overrides)
    state = world.get_standard_start_state().deepcopy()
    most = Recipe.MAX_NUM_INGREDIENTS
    recipes = [Recipe(order(n - t, t)["ingredients"]) for n in range(1, most + 1) for t in range(n + 1)]
    return {
        "layout": name,
        "overrides": overrides,
        "terrain": ["".join(row) for row in world.terrain_mtx],
        "starts": state.player_positions,
        "orders": [counts(recipe) for recipe in state.all_orders],
        "bonus_orders": [counts(recipe) for recipe in state.bonus_orders],
        "max_ingredients": most,
        "values": [world.get_recipe_value(state, recipe) for recipe in recipes],
        "times": [recipe.time for recipe in recipes],
        "shaping": [world.reward_shaping_params[key] for key in SHAPING],
        "timestep": state.timestep,
        "orientations": state.player_orientations,
        "held": [item(p.held_object, *p.position)[2:5] if p.held_object else None for p in state.players],
        "items": [item(thing, *place) for place, thing in state.objects.items()],
    }


if __name__ == "__main__":
    names = sorted(path.stem for path in Path(LAYOUTS_DIR).glob("*.layout"))
    records = [record(name, {}) for name in names] + [record(name, overrides) for name, overrides in VARIANTS]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in records)
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(f"[\n{lines}\n]\n")
    print(f"{GOLDEN}: {len(names)} layouts, {len(VARIANTS)} variants")
