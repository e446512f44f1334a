"""Overcooked: every step of recorded games of the reference, rules in scenes set by hand, and the model beyond them.

The games are in ``golden/overcooked`` (see ``tests/oracles/record_overcooked.py``). ``overcooked_model`` is a model in
plain Python: it must play these games too, and then stands for what the reference does not know: the old dynamics,
encodings for other than two chefs, up to 40 of them, and layouts of several sizes in one batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st
from overcooked_model import (
    COUNTER, DISH, DISHES, EAST, FLOOR, INTERACT, NORTH, NOTHING, ONION, ONIONS, OUTSIDE, POT, SERVING, SOUP, SOUTH,
    STAY, TOMATO, TOMATOES, WEST, Chef, Cooks, Item, Kitchen, World, collide, digests, kitchen_from, pack, padded,
    unpack,
)  # fmt: skip
from torch_batchsim.envs.overcooked import Layout, Overcooked, layout_names, read_layout

from torch_batchsim import TorchVectorEnv

GOLDEN = Path(__file__).parent / "golden" / "overcooked"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
FACTORS = [0.0, 1.0, 0.5, -2.0]  # of shaped rewards; with these all sums are exact


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Torch's threads wait for each other busily: beside other work these small tensors would take 30 times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def kitchen_env(worlds: int = 1, mode: AutoresetMode = AutoresetMode.DISABLED, **options: Any) -> TorchVectorEnv:
    return TorchVectorEnv(Overcooked(**options), num_worlds=worlds, autoreset_mode=mode)


def state_of(env: TorchVectorEnv) -> dict[str, np.ndarray]:
    """The state as views of the simulator's memory, see ``pack``."""
    sim = env.sim
    names = {"cell": "Chef.Place.cell", "facing": "Chef.Place.facing", "held": "Chef.Item", "items": "Cell.Item"}
    names |= {"left": "Cell.Cooking.left", "timestep": "Kitchen.timestep"}
    return {part: sim.tensor(name).numpy() for part, name in names.items()}


def assign(env: TorchVectorEnv, state: dict[str, np.ndarray]) -> None:
    for part, array in state_of(env).items():
        array[...] = state[part]


def step(env: TorchVectorEnv, actions: Any) -> SimpleNamespace:
    """A step; what comes of it by world, ``[worlds, agents, ...]``, as arrays."""
    rows = torch.from_numpy(np.asarray(actions, np.int64).reshape(-1))
    observations, rewards, _, truncations, infos = env.step(rows)
    given = {"seen": observations, "rewards": rewards, "truncated": truncations, **infos}
    return SimpleNamespace(**{k: env.by_world(v).numpy() for k, v in given.items() if isinstance(v, torch.Tensor)})


# ---- recorded games ------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """Games of one layout with the same options. Arrays ``[steps, games, ...]`` or, of starts and middles, ``[games]``."""

    name: str
    overrides: dict[str, Any]
    horizon: int
    kitchen: Kitchen
    arrays: SimpleNamespace

    @property
    def agents(self) -> int:
        return len(self.kitchen.starts)


@cache
def cases(name: str) -> list[Case]:
    with np.load(GOLDEN / f"{name}.npz") as file:
        arrays = dict(file)
    found, first_step, first_game = [], 0, 0
    for about in json.loads(arrays.pop("about").tobytes()):
        games, steps = about["games"], about["steps"]
        of_case = {}
        for key, array in arrays.items():
            if not len(array):
                of_case[key] = None  # the reference does not encode
            elif key in ("starts", "start_views", "checkpoints", "seen"):
                of_case[key] = array[first_game : first_game + games]
            else:
                rows = array[first_step : first_step + games * steps]
                of_case[key] = rows.reshape(games, steps, *array.shape[1:]).swapaxes(0, 1)
        first_step, first_game = first_step + games * steps, first_game + games
        kitchen = kitchen_from(about["kitchen"])
        found.append(Case(name, about["overrides"], about["horizon"], kitchen, SimpleNamespace(**of_case)))
    return found


def test_there_are_games_of_every_layout_and_much_happens_in_them() -> None:
    assert NAMES == layout_names()
    every = [case for name in NAMES for case in cases(name)]
    assert sum(case.arrays.ended.size for case in every) >= 50_000
    assert sum(np.count_nonzero(case.arrays.sparse) for case in every) >= 500
    assert sum(np.count_nonzero(case.arrays.shaped) for case in every) >= 3_000
    assert all(sum(np.count_nonzero(case.arrays.sparse) for case in cases(name)) for name in NAMES)
    assert sum(bool(case.overrides) for case in every) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_layouts_say_what_the_reference_makes_of_them(name: str) -> None:
    for case in cases(name):
        layout, kitchen = read_layout(name, **case.overrides), case.kitchen
        for key in ("terrain", "values", "cook_times"):
            assert np.array_equal(getattr(layout, key), getattr(kitchen, key)), key
        for key in ("starts", "facings", "held"):
            assert [*map(np.array_equal, getattr(layout, key), getattr(kitchen, key))] == [True] * case.agents, key
        assert sorted(layout.items) == sorted(map(tuple, kitchen.items))
        for key in ("max_ingredients", "placement_reward", "dish_reward", "soup_reward", "timestep"):
            assert getattr(layout, key) == getattr(kitchen, key), key


def seen_by_all(world: World, horizon: int) -> np.ndarray:
    """uint8 ``[1, agents, width, height, layers]``"""
    views = [world.encode(agent, horizon) for agent in range(len(world.chefs))]
    return np.stack(views).astype(np.uint8)[None]


@pytest.mark.parametrize("name", NAMES)
def test_the_model_plays_as_the_reference_does(name: str) -> None:
    for case in cases(name):
        told, starts = case.arrays, unpack(case.arrays.starts, case.agents)
        for game in range(len(told.starts)):
            world = World(case.kitchen).assign(starts, game)
            encodes = told.views is not None
            if encodes:
                assert digests(seen_by_all(world, case.horizon))[0] == told.start_views[game]
            for t in range(len(told.actions)):
                rewards = world.step(told.actions[t, game].tolist())
                assert np.array_equal(rewards, (told.sparse[t, game], told.shaped[t, game])), (game, t)
                assert digests(pack(world.arrays()))[0] == told.states[t, game], (game, t)
                assert (world.timestep >= case.horizon) == told.ended[t, game], (game, t)
                if encodes:
                    assert digests(seen_by_all(world, case.horizon))[0] == told.views[t, game], (game, t)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_the_references(name: str) -> None:
    for case in cases(name):
        told = case.arrays
        env = kitchen_env(len(told.starts), layout=name, horizon=case.horizon, **case.overrides)
        seen = env.by_world(env.reset(seed=0)[0]).numpy()
        from_start = (pack(state_of(env)) == told.starts).all(1)
        assert from_start.any()
        if told.views is not None:
            assert np.array_equal(digests(seen[from_start]), told.start_views[from_start])
        assign(env, unpack(told.starts, case.agents))
        steps, middle = len(told.actions), len(told.actions) // 2 - 1
        sums = np.zeros((2, *told.sparse.shape[1:]), np.float32)
        for t in range(steps):
            factor = FACTORS[t % len(FACTORS)]
            env.sim.tensor("Shaping.factor").fill_(factor)
            after = step(env, told.actions[t])
            same = digests(pack(state_of(env))) == told.states[t]
            assert same.all(), difference(case, env, t, int(np.argmin(same)))
            assert np.array_equal(after.sparse_reward, told.sparse[t]), t
            assert np.array_equal(after.shaped_reward, told.shaped[t]), t
            team = told.sparse[t].sum(1, keepdims=True)
            assert np.array_equal(after.rewards, team + np.float32(factor) * told.shaped[t]), t
            sums += told.sparse[t], told.shaped[t]
            assert np.array_equal(after.sparse_return, sums[0]) and np.array_equal(after.shaped_return, sums[1]), t
            assert np.array_equal(after.truncated, told.ended[t][:, None].repeat(case.agents, 1)), t
            if told.views is not None:
                assert np.array_equal(digests(after.seen), told.views[t]), t
            if t == middle:
                assert np.array_equal(pack(state_of(env)), told.checkpoints)
                assert told.seen is None or np.array_equal(after.seen, told.seen)
        assert told.ended[-1].all() and not told.ended[:-1].any()


def difference(case: Case, env: TorchVectorEnv, t: int, game: int) -> str:
    """In which parts a state differs from the model's after the same steps."""
    world = World(case.kitchen).assign(unpack(case.arrays.starts, case.agents), game)
    for actions in case.arrays.actions[: t + 1, game].tolist():
        before = str((world.chefs, world.items, world.left))
        world.step(actions)
    mine, told = state_of(env), world.arrays()
    parts = [f"{k}: {mine[k][game].tolist()} not {told[k][0].tolist()}" for k in told if (mine[k][game] != told[k]).any()]
    return "\n".join([f"step {t} of game {game}, actions {actions}, from {before}", *parts])


# ---- scenes --------------------------------------------------------------------------------------------------------

GRID = """
    XXPPX
    O1 2T
    X   D
    XXSXX
"""
FIRST_POT, SECOND_POT, FREE, SERVE = (2, 0), (3, 0), (1, 0), (2, 3)  # places; FREE is a counter
OOO: Item = (SOUP, 3, 0)


def orders(*recipes: str) -> list[dict[str, Any]]:
    """``orders("oot")``: of two onions and a tomato."""
    names = {"o": "onion", "t": "tomato"}
    return [{"ingredients": [names[letter] for letter in recipe]} for recipe in recipes]


class Scene:
    """One world of ``GRID``, where chefs stand apart until told otherwise. Places are (x, y)."""

    def __init__(self, grid: str = GRID, **options: Any) -> None:
        self.env = kitchen_env(layout=grid, **{"cook_time": 5, **options})
        self.env.reset(seed=0)
        self.height = self.env.environment.height
        self.state = {name: array[0] for name, array in state_of(self.env).items()}

    def chef(self, i: int, x: int, y: int, facing: int = NORTH, held: Item = NOTHING) -> None:
        self.state["cell"][i] = x * self.height + y
        self.state["facing"][i] = facing
        self.state["held"][i] = held

    def lay(self, place: tuple[int, int], item: Item, left: int = 0) -> None:
        cell = place[0] * self.height + place[1]
        self.state["items"][cell], self.state["left"][cell] = item, left

    def step(self, *actions: int) -> None:
        after = step(self.env, actions)
        self.sparse, self.shaped = after.sparse_reward[0].tolist(), after.shaped_reward[0].tolist()

    def at(self, place: tuple[int, int]) -> Item:
        return tuple(self.state["items"][place[0] * self.height + place[1]].tolist())

    def left(self, place: tuple[int, int]) -> int:
        return int(self.state["left"][place[0] * self.height + place[1]])

    def held(self, i: int) -> Item:
        return tuple(self.state["held"][i].tolist())

    def place(self, i: int) -> tuple[int, int]:
        return divmod(int(self.state["cell"][i]), self.height)


@pytest.mark.parametrize(
    ("x", "y", "facing", "thing"), [(1, 1, WEST, ONION), (3, 1, EAST, TOMATO), (3, 2, EAST, DISH)], ids=str
)
def test_dispensers_fill_free_hands_only(x: int, y: int, facing: int, thing: Item) -> None:
    scene = Scene()
    scene.chef(0, x, y, facing)
    scene.chef(1, 2, 2)
    scene.step(INTERACT, STAY)
    assert scene.held(0) == thing
    for other in (ONION, TOMATO, DISH, OOO):
        scene.chef(0, x, y, facing, other)
        scene.step(INTERACT, STAY)
        assert scene.held(0) == other
    assert scene.shaped == [0, 0]


@pytest.mark.parametrize("thing", [ONION, TOMATO, DISH, OOO], ids=str)
def test_counters_hold_one_thing(thing: Item) -> None:
    scene = Scene()
    scene.chef(0, 1, 1)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(FREE)) == (NOTHING, NOTHING)
    scene.chef(0, 1, 1, NORTH, thing)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(FREE)) == (NOTHING, thing)
    scene.chef(0, 1, 1, NORTH, TOMATO)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(FREE)) == (TOMATO, thing)
    scene.chef(0, 1, 1)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(FREE)) == (thing, NOTHING)
    assert (scene.sparse, scene.shaped, scene.left(FREE)) == ([0, 0], [0, 0], 0)


@pytest.mark.parametrize("giver", [0, 1])
def test_chefs_interact_in_their_order(giver: int) -> None:
    """The first may lay down what the second takes in the same step, but not the other way round."""
    scene = Scene("XXPXX\nO1 2T\nXXX D\nXXSXX")
    shared = (2, 2)
    scene.chef(giver, 2, 1, SOUTH, ONION)
    scene.chef(1 - giver, 3, 2, WEST)
    scene.step(INTERACT, INTERACT)
    assert scene.held(giver) == NOTHING
    assert scene.held(1 - giver) == (ONION if giver == 0 else NOTHING)
    assert scene.at(shared) == (NOTHING if giver == 0 else ONION)


def test_of_two_the_first_gets_the_last_room_in_a_pot() -> None:
    scene = Scene("XXXXX\nO1P2T\nX   D\nXXSXX")
    pot = (2, 1)
    scene.chef(0, 1, 1, EAST, ONION)
    scene.chef(1, 3, 1, WEST, TOMATO)
    scene.lay(pot, (SOUP, 1, 1), -1)
    scene.step(INTERACT, INTERACT)
    assert (scene.at(pot), scene.held(0), scene.held(1)) == ((SOUP, 2, 1), NOTHING, TOMATO)
    assert scene.shaped == [3, 0]
    scene.chef(0, 1, 1, EAST)
    scene.chef(1, 3, 1, WEST, DISH)
    scene.lay(pot, (SOUP, 1, 1), 0)
    scene.chef(0, 1, 1, EAST, DISH)
    scene.step(INTERACT, INTERACT)
    assert (scene.at(pot), scene.held(0), scene.held(1)) == (NOTHING, (SOUP, 1, 1), DISH)
    assert scene.shaped == [5, 0]


@pytest.mark.parametrize("soup", [(SOUP, 1, 0), (SOUP, 0, 2), (SOUP, 1, 2), OOO], ids=str)
def test_free_hands_start_a_pot_with_one_to_three_ingredients(soup: Item) -> None:
    scene = Scene()
    scene.chef(0, 2, 1)
    scene.lay(FIRST_POT, soup, -1)
    scene.step(STAY, STAY)
    assert scene.left(FIRST_POT) == -1  # by itself it does not cook
    lefts = []
    for _ in range(6):
        scene.step(INTERACT, STAY)  # again and again: this neither stops nor restarts it
        lefts.append(scene.left(FIRST_POT))
    assert lefts == [4, 3, 2, 1, 0, 0]
    assert (scene.at(FIRST_POT), scene.held(0)) == (soup, NOTHING)


def test_an_empty_pot_cannot_be_started() -> None:
    scene = Scene()
    scene.chef(0, 2, 1)
    scene.step(INTERACT, STAY)
    assert (scene.at(FIRST_POT), scene.left(FIRST_POT)) == (NOTHING, 0)


@pytest.mark.parametrize("ingredient", [ONION, TOMATO], ids=["onion", "tomato"])
@pytest.mark.parametrize(
    ("soup", "left", "takes"),
    [
        (NOTHING, 0, True), ((SOUP, 1, 0), -1, True), ((SOUP, 0, 2), -1, True), ((SOUP, 2, 1), -1, False),
        ((SOUP, 1, 0), 3, False), ((SOUP, 1, 0), 0, False),
    ],
)  # fmt: skip
def test_pots_take_three_ingredients_until_they_cook(ingredient: Item, soup: Item, left: int, takes: bool) -> None:
    scene = Scene()
    scene.chef(0, 2, 1, NORTH, ingredient)
    scene.lay(FIRST_POT, soup, left)
    scene.step(INTERACT, STAY)
    if takes:
        added = (SOUP, soup[1] + (ingredient == ONION), soup[2] + (ingredient == TOMATO))
        assert (scene.at(FIRST_POT), scene.left(FIRST_POT), scene.held(0)) == (added, -1, NOTHING)
        assert scene.shaped == [3, 0]
    else:
        assert (scene.at(FIRST_POT), scene.held(0), scene.shaped) == (soup, ingredient, [0, 0])
        assert scene.left(FIRST_POT) == (left - 1 if left > 0 else left)
    assert scene.sparse == [0, 0]


@pytest.mark.parametrize(("left", "taken"), [(-1, False), (3, False), (1, False), (0, True)])
def test_a_dish_takes_a_soup_that_is_ready(left: int, taken: bool) -> None:
    scene = Scene()
    scene.chef(0, 2, 1, NORTH, DISH)
    scene.lay(FIRST_POT, (SOUP, 1, 1), left)
    scene.step(INTERACT, STAY)
    assert scene.held(0) == ((SOUP, 1, 1) if taken else DISH)
    assert scene.at(FIRST_POT) == (NOTHING if taken else (SOUP, 1, 1))
    assert scene.shaped == [5 * taken, 0]
    if taken:
        assert scene.left(FIRST_POT) == 0
        scene.step(INTERACT, STAY)  # a soup does not go back
        assert (scene.held(0), scene.at(FIRST_POT), scene.shaped) == ((SOUP, 1, 1), NOTHING, [0, 0])


def test_a_dish_does_nothing_to_an_empty_pot() -> None:
    scene = Scene()
    scene.chef(0, 2, 1, NORTH, DISH)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(FIRST_POT)) == (DISH, NOTHING)


@pytest.mark.parametrize(
    ("soup", "pays"),
    [((SOUP, 3, 0), 20), ((SOUP, 1, 1), 14), ((SOUP, 0, 1), 0), ((SOUP, 2, 1), 0)],
    ids=["ordered", "bonus", "not ordered", "of other ingredients"],
)
def test_what_a_soup_pays_goes_to_who_serves_it_and_the_reward_to_all(soup: Item, pays: float) -> None:
    options = {"start_all_orders": orders("ooo", "to"), "start_bonus_orders": orders("ot"), "recipe_values": [20, 7]}
    scene = Scene(**options, shaping_factor=0.25)
    scene.chef(0, 2, 1, NORTH, ONION)
    scene.chef(1, 2, 2, SOUTH, soup)
    after = step(scene.env, [[INTERACT, INTERACT]])
    assert scene.held(1) == NOTHING
    assert after.sparse_reward.tolist() == [[0, pays]]
    assert after.shaped_reward.tolist() == [[3, 0]]
    assert after.rewards.tolist() == [[pays + 0.75, pays]]


@pytest.mark.parametrize("thing", [NOTHING, ONION, TOMATO, DISH], ids=str)
def test_nothing_but_soup_is_served(thing: Item) -> None:
    scene = Scene()
    scene.chef(0, 2, 2, SOUTH, thing)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.at(SERVE), scene.sparse) == (thing, NOTHING, [0, 0])


@pytest.mark.parametrize(
    ("pots", "held", "lies", "pays"),
    [
        ([], NOTHING, NOTHING, 0),
        ([((SOUP, 1, 0), -1)], NOTHING, NOTHING, 3),
        ([((SOUP, 1, 1), -1)], NOTHING, NOTHING, 3),
        ([((SOUP, 2, 1), -1)], NOTHING, NOTHING, 0),  # full, but nobody has started it
        ([((SOUP, 2, 1), 3)], NOTHING, NOTHING, 3),
        ([((SOUP, 2, 1), 0)], NOTHING, NOTHING, 3),
        ([((SOUP, 2, 1), 0)], ONION, NOTHING, 3),
        ([((SOUP, 2, 1), 0)], DISH, NOTHING, 0),
        ([((SOUP, 2, 1), 0)], OOO, NOTHING, 3),
        ([((SOUP, 2, 1), 0), ((SOUP, 1, 0), 4)], DISH, NOTHING, 3),
        ([((SOUP, 2, 1), 0), ((SOUP, 3, 0), -1)], DISH, NOTHING, 0),
        ([((SOUP, 2, 1), 0)], NOTHING, DISH, 0),
        ([((SOUP, 2, 1), 0), ((SOUP, 1, 0), 4)], NOTHING, DISH, 0),
        ([((SOUP, 2, 1), 0)], NOTHING, OOO, 3),
        ([((SOUP, 2, 1), 0)], NOTHING, ONION, 3),
    ],
)
def test_a_dish_is_rewarded_while_soups_await_it(pots: Sequence, held: Item, lies: Item, pays: float) -> None:
    """More soups in pots (not full ones that nobody has started) than dishes in hands, and no dish on a counter."""
    scene = Scene()
    scene.chef(0, 2, 2, NORTH, held)
    scene.chef(1, 3, 2, EAST)
    for place, (soup, left) in zip((FIRST_POT, SECOND_POT), pots, strict=False):
        scene.lay(place, soup, left)
    scene.lay(FREE, lies)
    scene.step(STAY, INTERACT)
    assert scene.shaped == [0, pays]
    assert scene.held(1) == DISH


def test_of_two_dishes_at_once_for_one_soup_the_first_is_rewarded() -> None:
    scene = Scene("XXPPX\nD1 2D\nX   O\nXXSXX")
    scene.chef(0, 1, 1, WEST)
    scene.chef(1, 3, 1, EAST)
    scene.lay(FIRST_POT, (SOUP, 1, 0), -1)
    scene.step(INTERACT, INTERACT)
    assert scene.shaped == [3, 0]


@pytest.mark.parametrize(
    ("held", "pot", "facing", "pays"),
    [
        (ONION, (NOTHING, 0), NORTH, [3, 0]),  # the pot was empty when the step began
        (ONION, ((SOUP, 2, 0), -1), NORTH, [3, 3]),  # it was not full
        (NOTHING, ((SOUP, 3, 0), -1), NORTH, [0, 0]),  # it had not been started
        (DISH, ((SOUP, 3, 0), 0), NORTH, [5, 3]),  # the soup was in the pot, and the dish is under it now
        (DISH, ((SOUP, 3, 0), 3), SOUTH, [0, 0]),  # a dish lies on a counter now
    ],
    ids=["first ingredient", "last ingredient", "start", "soup taken", "dish laid down"],
)
def test_pots_count_as_they_were_and_dishes_as_they_are(held: Item, pot: tuple, facing: int, pays: list) -> None:
    scene = Scene("XXPXX\nD12 D\nX X O\nXXSXX")
    scene.chef(0, 2, 1, facing, held)
    scene.chef(1, 3, 1, EAST)
    scene.lay(FIRST_POT, *pot)
    scene.step(INTERACT, INTERACT)
    assert scene.shaped == pays
    assert scene.held(1) == DISH


THREE = GRID.replace("X   D", "X  3D")


@pytest.mark.parametrize("grid", [GRID.replace("2", " "), THREE], ids=["one", "three"])
def test_other_than_two_chefs_get_no_reward_for_dishes(grid: str) -> None:
    """As in the reference, which counts dishes for two only."""
    scene = Scene(grid)
    scene.chef(0, 3, 2, EAST)
    agents = scene.env.num_agents
    for i in range(1, agents):
        scene.chef(i, i, 1)
    scene.lay(FIRST_POT, OOO, 0)
    scene.step(INTERACT, *[STAY] * (agents - 1))
    assert (scene.held(0), scene.shaped) == (DISH, [0] * agents)


# ---- movement ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [((1, 1), (3, 1)), ((3, 1), (1, 1))])
def test_two_that_want_the_same_cell_stay_and_turn(places: tuple) -> None:
    scene = Scene()
    toward = {(1, 1): EAST, (3, 1): WEST}
    for i, place in enumerate(places):
        scene.chef(i, *place, facing=SOUTH)
    scene.step(*[toward[place] for place in places])
    assert (scene.place(0), scene.place(1)) == places
    assert scene.state["facing"].tolist() == [toward[place] for place in places]


def test_two_cannot_change_places() -> None:
    scene = Scene()
    scene.chef(0, 1, 1)
    scene.chef(1, 2, 1)
    scene.step(EAST, WEST)
    assert (scene.place(0), scene.place(1)) == ((1, 1), (2, 1))
    assert scene.state["facing"].tolist() == [EAST, WEST]


@pytest.mark.parametrize("action", [STAY, INTERACT, NORTH])
def test_nobody_walks_into_one_who_stays(action: int) -> None:
    scene = Scene()
    scene.chef(0, 1, 1)
    scene.chef(1, 2, 1)
    scene.step(EAST, action)
    assert (scene.place(0), scene.place(1)) == ((1, 1), (2, 1))


@pytest.mark.parametrize("first", [0, 1])
def test_one_may_follow_another(first: int) -> None:
    scene = Scene()
    scene.chef(first, 2, 1)
    scene.chef(1 - first, 1, 1)
    scene.step(EAST, EAST)
    assert (scene.place(first), scene.place(1 - first)) == ((3, 1), (2, 1))


def test_a_collision_of_two_stops_a_third() -> None:
    scene = Scene(THREE)
    scene.chef(0, 1, 1)
    scene.chef(1, 3, 1)
    scene.chef(2, 2, 2, held=ONION)
    scene.step(EAST, WEST, EAST)
    assert [scene.place(i) for i in range(3)] == [(1, 1), (3, 1), (2, 2)]
    assert scene.state["facing"].tolist() == [EAST, WEST, EAST]
    scene.step(STAY, STAY, EAST)
    assert scene.place(2) == (3, 2)


def test_four_may_go_round() -> None:
    """Each into a cell that another leaves, with no two changing places."""
    scene = Scene(THREE.replace("1 2", "142"))
    for i, place in enumerate([(1, 1), (2, 1), (2, 2), (1, 2)]):
        scene.chef(i, *place)
    scene.step(EAST, SOUTH, WEST, NORTH)
    assert [scene.place(i) for i in range(4)] == [(2, 1), (2, 2), (1, 2), (1, 1)]


@pytest.mark.parametrize(("action", "x", "y"), [(NORTH, 2, 1), (SOUTH, 2, 2), (WEST, 1, 2), (EAST, 3, 2)])
def test_who_walks_against_something_turns(action: int, x: int, y: int) -> None:
    scene = Scene()
    scene.chef(0, x, y, facing=(action + 1) % 4)
    scene.chef(1, 1, 1)
    scene.step(action, STAY)
    assert (scene.place(0), int(scene.state["facing"][0])) == ((x, y), action)


@pytest.mark.parametrize("action", [NORTH, SOUTH, EAST, WEST])
def test_moves(action: int) -> None:
    scene = Scene("XXPXX\nX  2X\nX 1 X\nX   X\nXDSOX")
    scene.chef(0, 2, 2, held=DISH)
    scene.step(action, STAY)
    dx, dy = [(0, -1), (0, 1), (1, 0), (-1, 0)][action]
    assert (scene.place(0), scene.held(0)) == ((2 + dx, 2 + dy), DISH)


def test_chefs_interact_before_others_move_and_look_before_they_turn() -> None:
    scene = Scene()
    scene.chef(0, 2, 1, EAST)
    scene.chef(1, 3, 1, NORTH, ONION)
    scene.step(NORTH, INTERACT)
    assert scene.at(SECOND_POT) == (SOUP, 1, 0)
    scene.step(INTERACT, STAY)
    assert scene.left(FIRST_POT) == 0  # an empty pot; the first chef has turned to it
    assert scene.left(SECOND_POT) == -1


# ---- old dynamics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("soup", "last"), [((SOUP, 2, 0), ONION), ((SOUP, 1, 1), TOMATO), ((SOUP, 0, 2), ONION)])
def test_old_pots_start_with_the_third_ingredient(soup: Item, last: Item) -> None:
    scene = Scene(old_dynamics=True, onion_time=2, tomato_time=1, cook_time=None)
    scene.chef(0, 2, 1, NORTH, last)
    scene.lay(FIRST_POT, soup, -1)
    scene.step(STAY, STAY)
    assert scene.left(FIRST_POT) == -1
    scene.step(INTERACT, STAY)
    onions, tomatoes = soup[1] + (last == ONION), soup[2] + (last == TOMATO)
    lefts = [scene.left(FIRST_POT)]
    for _ in range(6):
        scene.step(STAY, STAY)
        lefts.append(scene.left(FIRST_POT))
    time = 2 * onions + tomatoes
    assert lefts == [max(time - 1 - t, 0) for t in range(7)]  # the step of the third ingredient is one of cooking
    assert scene.at(FIRST_POT) == (SOUP, onions, tomatoes)


@pytest.mark.parametrize("soup", [(SOUP, 1, 0), (SOUP, 1, 1)], ids=str)
def test_old_pots_are_not_started_by_hand(soup: Item) -> None:
    scene = Scene(old_dynamics=True)
    scene.chef(0, 2, 1)
    scene.lay(FIRST_POT, soup, -1)
    for _ in range(3):
        scene.step(INTERACT, STAY)
    assert (scene.at(FIRST_POT), scene.left(FIRST_POT), scene.held(0)) == (soup, -1, NOTHING)


def test_an_old_pot_that_is_full_starts_whatever_chefs_do() -> None:
    scene = Scene(old_dynamics=True)
    scene.lay(FIRST_POT, (SOUP, 1, 2), -1)
    scene.lay(FREE, OOO)  # of no matter: it is not in a pot
    scene.step(STAY, STAY)
    assert (scene.left(FIRST_POT), scene.left(FREE)) == (4, 0)


def test_old_pots_start_once_and_wait_for_a_dish() -> None:
    scene = Scene(old_dynamics=True, cook_time=2)
    scene.chef(0, 2, 1, NORTH, ONION)
    scene.lay(FIRST_POT, (SOUP, 2, 0), -1)
    scene.step(INTERACT, STAY)
    for _ in range(4):
        scene.step(INTERACT, STAY)
        assert scene.left(FIRST_POT) == 0
    scene.chef(0, 2, 1, NORTH, DISH)
    scene.step(INTERACT, STAY)
    assert (scene.held(0), scene.shaped) == (OOO, [5, 0])


def test_an_old_pot_may_need_no_time() -> None:
    scene = Scene(old_dynamics=True, cook_time=None, start_all_orders=orders("ooo"), recipe_times=[0])
    scene.chef(0, 2, 1, NORTH, ONION)
    scene.lay(FIRST_POT, (SOUP, 2, 0), -1)
    scene.step(INTERACT, STAY)
    assert (scene.at(FIRST_POT), scene.left(FIRST_POT)) == (OOO, 0)


def test_old_pots_count_three_even_where_more_would_fit() -> None:
    scene = Scene(old_dynamics=True, max_num_ingredients=5)
    scene.lay(FIRST_POT, (SOUP, 2, 2), -1)
    scene.lay(SECOND_POT, (SOUP, 2, 0), -1)
    scene.chef(0, 3, 1, NORTH, TOMATO)
    scene.step(INTERACT, STAY)
    assert (scene.left(FIRST_POT), scene.left(SECOND_POT)) == (-1, 4)


def test_for_an_old_full_pot_a_dish_is_rewarded_one_step_later() -> None:
    """When the third ingredient goes in, the pot was not full at the step's begin; then it cooks: both count."""
    scene = Scene(old_dynamics=True)
    scene.chef(0, 2, 1, NORTH, ONION)
    scene.chef(1, 3, 2, EAST)
    scene.step(INTERACT, INTERACT)
    assert scene.shaped == [3, 0]  # the pot was empty
    scene.chef(1, 3, 2, EAST)
    scene.lay(FIRST_POT, OOO, -1)
    scene.step(STAY, INTERACT)
    assert (scene.shaped, scene.left(FIRST_POT)) == ([0, 0], 4)  # it was full and did not cook yet
    scene.chef(1, 3, 2, EAST)
    scene.step(STAY, INTERACT)
    assert scene.shaped == [0, 3]
