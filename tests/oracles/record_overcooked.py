"""Record games of the reference package into tests/envs/golden/overcooked: `python record_overcooked.py`.

Runs in an environment of its own, where ``overcooked-ai==1.1.0`` (with ``numpy<2`` and ``scipy``) is installed, and
needs nothing else. It prints what happens in the games of each layout.

A case is a layout, what overrides it, and a horizon; all games of a case play to its end. One file per layout,
``<layout>.npz``, with these arrays, where games follow case after case, steps follow game after game:

- ``about``: JSON as uint8: a list of cases ``{"overrides", "horizon", "kitchen", "games", "steps"}``, ``steps`` per
  game; ``kitchen`` is what the reference makes of the layout (see ``kitchen_of``).
- ``actions`` uint8 ``[steps, agents]``; after each step ``sparse`` and ``shaped`` float32 ``[steps, agents]`` (rewards
  by agent), ``ended`` bool ``[steps]``, ``states`` and ``views`` uint64 ``[steps]``: digests of the packed state
  and of all agents' encodings together (uint8 ``[agents, width, height, layers]``).
- ``starts`` uint8 ``[games, bytes]``: the packed states at the start, and ``start_views`` uint64 ``[games]``.
- ``checkpoints`` uint8 ``[games, bytes]``: the packed states after half of the steps; ``seen`` uint8
  ``[games, agents, width, height, layers]``: the encodings there.

The reference encodes for two players only; for others ``views``, ``start_views`` and ``seen`` have no rows.
How states are packed and what a digest is: ``pack`` and ``digests`` in tests/envs/overcooked_model.py.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from overcooked_ai_py.mdp.actions import Action, Direction
from overcooked_ai_py.mdp.overcooked_env import OvercookedEnv
from overcooked_ai_py.mdp.overcooked_mdp import ObjectState, OvercookedGridworld, OvercookedState, Recipe, SoupState
from overcooked_ai_py.static import LAYOUTS_DIR

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "envs"))

from overcooked_model import COUNTER, DISH, FLOOR, INTERACT, POT, Cooks, World, digests, kitchen_from, pack  # noqa: E402

COLUMNS = [
    "steps", "placed", "soups", "delivered", "paid", "dish rewards", "on counters", "off counters", "collisions",
    "swaps",
]  # fmt: skip
GOLDEN = TESTS / "envs" / "golden" / "overcooked"
KINDS = ["", "onion", "tomato", "dish", "soup"]


def orders(*recipes):
    names = {"o": "onion", "t": "tomato"}
    return [{"ingredients": [names[letter] for letter in recipe]} for recipe in recipes]


def thing(name, x, y, **others):
    return {"name": name, "position": [x, y], **others}


def soup(x, y, recipe, tick):
    ingredients = [thing(order, x, y) for order in orders(recipe)[0]["ingredients"]]
    return thing("soup", x, y, _ingredients=ingredients, cooking_tick=tick)


UNDER_WAY = {
    "players": [
        {"position": [1, 1], "orientation": [1, 0], "held_object": soup(1, 1, "oto", 6)},
        {"position": [3, 2], "orientation": [0, 1], "held_object": thing("dish", 3, 2)},
    ],
    "objects": [soup(2, 0, "oot", 2), soup(2, 3, "t", -1), thing("tomato", 0, 0), soup(4, 0, "ooo", 6)],
    "bonus_orders": orders("oto"),
    "all_orders": orders("oto", "t", "ooo"),
    "timestep": 30,
}
OVERRIDES = [
    ("cramped_room", {"cook_time": 3, "delivery_reward": 7}, 120),
    ("cramped_room", {"start_all_orders": orders("oo", "ooo", "o"), "start_bonus_orders": orders("oo"),
                      "order_bonus": 1.5, "recipe_values": [4, 12, 0.25], "recipe_times": [5, 9, 0]}, 120),
    ("cramped_room", {"rew_shaping_params": {"PLACEMENT_IN_POT_REW": 0.5, "DISH_PICKUP_REWARD": 2.25,
                                             "SOUP_PICKUP_REWARD": -1}, "cook_time": 4}, 120),
    ("simple_o_t", {"max_num_ingredients": 2, "start_all_orders": orders("oo", "ot", "t"), "recipe_values": [3, 5, 0],
                    "recipe_times": [1, 2, 0]}, 120),
    ("mdp_test", {"max_num_ingredients": 5, "start_all_orders": orders("ooooo", "ottoo", "tttt"),
                  "start_bonus_orders": orders("ottoo")}, 200),
    ("mdp_test", {"start_all_orders": [], "start_bonus_orders": orders("t", "ttt"), "order_bonus": 3}, 120),
    ("mdp_test", {"start_state": UNDER_WAY}, 100),
    ("cramped_room_tomato", {"onion_time": 3, "onion_value": 2.5, "tomato_value": -1}, 120),
    ("counter_circuit", {"onion_value": 2, "tomato_value": 5, "onion_time": 1, "tomato_time": 3,
                         "order_bonus": 0}, 120),
    ("tutorial_1", {"start_all_orders": orders("ooo")}, 120),
    ("multiplayer_schelling", {"cook_time": 2}, 120),
    ("cramped_room_single", {"start_all_orders": orders("o"), "recipe_values": [3], "recipe_times": [2]}, 120),
]  # fmt: skip


def make(layout, overrides):
    """The reference's grid world. What it knows of recipes is kept in a class, so it is forgotten before."""
    Recipe.ALL_RECIPES_CACHE = {}
    Recipe.configure({"max_num_ingredients": overrides.get("max_num_ingredients", 3)})
    overrides = dict(overrides)
    if "start_state" in overrides:
        overrides["start_state"] = OvercookedState.from_dict(overrides["start_state"])
    return OvercookedGridworld.from_layout_name(layout, **overrides)


# ---- states of the reference as those of the model -----------------------------------------------------------------


def item_of(thing):
    if thing is None:
        return (0, 0, 0)
    names = thing.ingredients if thing.name == "soup" else []
    return (KINDS.index(thing.name), names.count("onion"), names.count("tomato"))


def left_of(soup):
    return -1 if soup.is_idle else soup.cook_time - soup._cooking_tick


def chef_of(player, height):
    x, y = player.position
    return x * height + y, Direction.DIRECTION_TO_INDEX[player.orientation], item_of(player.held_object)


def kitchen_of(mdp):
    """What the reference makes of a layout, in numbers, for ``kitchen_from``."""
    state = mdp.get_standard_start_state()
    recipes = []
    for recipe in sorted(Recipe.ALL_RECIPES):
        names = recipe.ingredients
        value, time = mdp.get_recipe_value(state, recipe), recipe.time
        recipes.append([names.count("onion"), names.count("tomato"), value, time])
    chefs = [chef_of(player, mdp.height) for player in state.players]
    things = []
    for at, thing in sorted(state.objects.items()):
        things.append((*at, *item_of(thing), left_of(thing) if mdp.get_terrain_type_at_pos(at) == "P" else 0))
    return {
        "terrain": ["".join(row) for row in mdp.terrain_mtx],
        "starts": [player.position for player in state.players],
        "recipes": recipes,
        "max_ingredients": Recipe.MAX_NUM_INGREDIENTS,
        "placement_reward": mdp.reward_shaping_params["PLACEMENT_IN_POT_REW"],
        "dish_reward": mdp.reward_shaping_params["DISH_PICKUP_REWARD"],
        "soup_reward": mdp.reward_shaping_params["SOUP_PICKUP_REWARD"],
        "timestep": state.timestep,
        "facings": [facing for _, facing, _ in chefs],
        "held": [held for _, _, held in chefs],
        "items": things,
    }


def take_over(world, state):
    """Bring the model's world to a state of the reference."""
    for chef, player in zip(world.chefs, state.players, strict=True):
        chef.cell, chef.facing, chef.held = chef_of(player, world.height)
    world.items = {x * world.height + y: item_of(thing) for (x, y), thing in state.objects.items()}
    world.left = {}
    for (x, y), thing in state.objects.items():
        if world.terrain[x * world.height + y] == POT:
            world.left[x * world.height + y] = left_of(thing)
    world.timestep = state.timestep


def random_state(mdp, dice):
    """A start at random places, with things in hands, on counters and in pots."""

    def random_soup(at, in_pot):
        count = dice.randint(1, Recipe.MAX_NUM_INGREDIENTS)
        soup = SoupState(at, [ObjectState(dice.choice(["onion", "tomato"]), at) for _ in range(count)])
        if not in_pot:
            soup.auto_finish()
        elif dice.random() < 0.6:
            soup.begin_cooking()
            soup._cooking_tick = dice.randint(0, soup.cook_time)
        return soup

    def random_thing(at):
        name = dice.choice(KINDS[1:])
        return random_soup(at, False) if name == "soup" else ObjectState(name, at)

    base = mdp.get_standard_start_state()
    places = dice.sample(mdp.get_valid_player_positions(), mdp.num_players)
    state = OvercookedState.from_players_pos_and_or(
        [(at, dice.choice(Direction.ALL_DIRECTIONS)) for at in places],
        [order.to_dict() for order in base.bonus_orders],
        [order.to_dict() for order in base.all_orders],
    )
    for player in state.players:
        if dice.random() < 0.4:
            player.set_object(random_thing(player.position))
    for at in mdp.get_counter_locations():
        if dice.random() < 0.1:
            state.add_object(random_thing(at))
    for at in mdp.get_pot_locations():
        if dice.random() < 0.4:
            state.add_object(random_soup(at, True))
    return state


# ---- games ---------------------------------------------------------------------------------------------------------


def what_happens(world, before, joint, infos, tally):
    """Count what a step was good for. ``before``: cells and things held before it."""
    events = infos["event_infos"]
    tally["delivered"] += sum(events["soup_delivery"])
    tally["paid"] += sum(reward != 0 for reward in infos["sparse_reward_by_agent"])
    tally["soups"] += sum(events["soup_pickup"])
    tally["placed"] += sum(events["potting_onion"]) + sum(events["potting_tomato"])
    wanted = []
    for i, ((cell, held), action, chef) in enumerate(zip(before, joint, world.chefs, strict=True)):
        tally["dish rewards"] += held == (0, 0, 0) and chef.held == DISH and infos["shaped_reward_by_agent"][i] != 0
        tally["on counters"] += sum(events[f"{kind}_drop"][i] for kind in KINDS[1:])
        to = cell + world.steps[action] if action < 4 else cell
        wanted.append(to if world.terrain[to] == FLOOR else cell)
        ahead = cell + world.steps[chef.facing]
        if action == INTERACT and world.terrain[ahead] == COUNTER and held == (0, 0, 0) and chef.held != held:
            tally["off counters"] += 1
    cells = [cell for cell, _ in before]
    tally["collisions"] += len(set(wanted)) < len(wanted)
    pairs = [(i, j) for i in range(len(cells)) for j in range(i)]
    tally["swaps"] += any(wanted[i] == cells[j] and wanted[j] == cells[i] for i, j in pairs)


class Recording:
    """The arrays of one file, as lists of rows."""

    def __init__(self):
        self.cases, self.tally = [], Counter()
        names = "actions sparse shaped ended states views starts start_views checkpoints seen"
        self.arrays = {name: [] for name in names.split()}

    def play(self, mdp, world, horizon, players, start, seed):
        """One game; returns its number of steps. Not by ``env.step``, which plans ways first, for two players only."""
        env = OvercookedEnv.from_mdp(mdp, start_state_fn=start, horizon=horizon, info_level=0)
        dice = random.Random(seed)
        rows = self.arrays
        self.keep(env, world, "starts", "start_views")
        cooks = Cooks(world, seed, *players) if players else None
        first = env.state.timestep
        while not env.is_done():
            joint = cooks.actions() if cooks else [dice.randrange(6) for _ in world.chefs]
            before = [(chef.cell, chef.held) for chef in world.chefs]
            env.state, infos = mdp.get_state_transition(env.state, [Action.INDEX_TO_ACTION[a] for a in joint])
            rows["actions"].append(joint)
            rows["sparse"].append(infos["sparse_reward_by_agent"])
            rows["shaped"].append(infos["shaped_reward_by_agent"])
            rows["ended"].append(env.is_done())
            self.keep(env, world, "states", "views")
            if env.state.timestep - first == (horizon - first) // 2:
                self.keep(env, world, "checkpoints", "seen")
            what_happens(world, before, joint, infos, self.tally)
        return horizon - first

    def keep(self, env, world, states, views):
        """Write down the present state and what is seen of it, whole or as digests, and tell the model."""
        take_over(world, env.state)
        state = pack(world.arrays())
        self.arrays[states].extend(state if states in ("starts", "checkpoints") else digests(state))
        if len(world.chefs) == 2:
            seen = np.stack(env.lossless_state_encoding_mdp(env.state))
            assert seen.min() >= 0 and seen.max() <= 255
            seen = seen.astype(np.uint8)[None]
            self.arrays[views].extend(seen if views == "seen" else digests(seen))

    def case(self, layout, overrides, horizon, kinds, seed):
        """Games of a case; ``kinds``: of each, who plays, and whether it starts from the layout's start."""
        mdp = make(layout, overrides)
        about = kitchen_of(mdp)
        kitchen = kitchen_from(about)
        for number, (players, standard) in enumerate(kinds):
            start = random_state(mdp, random.Random(seed + number))
            start_fn = None if standard else lambda state=start: state
            steps = self.play(mdp, World(kitchen), horizon, players, start_fn, seed + number)
        self.cases.append(
            {"overrides": overrides, "horizon": horizon, "kitchen": about, "games": len(kinds), "steps": steps}
        )

    def save(self, path):
        dtypes = {"actions": np.uint8, "sparse": np.float32, "shaped": np.float32, "ended": bool}
        dtypes |= {"states": np.uint64, "views": np.uint64, "start_views": np.uint64}
        arrays = {name: np.array(rows, dtypes.get(name, np.uint8)) for name, rows in self.arrays.items()}
        about = np.frombuffer(json.dumps(self.cases, separators=(",", ":")).encode(), np.uint8)
        np.savez_compressed(path, about=about, **arrays)


# Of each game: who plays (share of random actions, and of recipes that are surely paid for; None plays at random), and
# whether it starts from the layout's start.
CAREFUL, SLOPPY = (0.03, 1.0), (0.12, 0.6)
LONG = [(None, True), (CAREFUL, True), (SLOPPY, False)]
SHORT = [(None, False), (SLOPPY, True), (SLOPPY, False), (CAREFUL, False)]


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    names = sorted(path.stem for path in Path(LAYOUTS_DIR).glob("*.layout"))
    print(f"{'':40}", *(f"{name:>12}" for name in COLUMNS))
    totals = Counter()
    for number, name in enumerate(names):
        recording, seed = Recording(), 1000 * number
        recording.case(name, {}, 400, LONG, seed)
        recording.case(name, {}, 50, SHORT, seed + 100)
        for i, (layout, overrides, horizon) in enumerate(OVERRIDES):
            if layout == name:
                kinds = [(SLOPPY, True)] * 3 if "start_state" in overrides else LONG
                recording.case(name, overrides, horizon, kinds, seed + 200 + 10 * i)
        recording.save(GOLDEN / f"{name}.npz")
        tally = recording.tally | {"steps": len(recording.arrays["ended"])}
        print(f"{name:40}", *(f"{tally[column]:>12}" for column in COLUMNS), flush=True)
        totals.update(tally)
    print(f"{'all':40}", *(f"{totals[column]:>12}" for column in COLUMNS))


if __name__ == "__main__":
    main()
