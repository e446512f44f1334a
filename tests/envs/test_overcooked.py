"""Overcooked: every step of recorded games of the reference, old rules in scenes set by hand, and a model beyond them.

The games are in ``golden/overcooked`` (see ``tests/oracles/record_overcooked.py``). ``overcooked_model`` is a model in
plain Python: it must play these games too, and then stands for what the reference does not know: the old dynamics,
encodings for other than two chefs, up to 40 of them, and layouts of several sizes in one batch.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
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
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from overcooked_model import (
    COUNTER,
    DISH,
    DISHES,
    EAST,
    FLOOR,
    INTERACT,
    NORTH,
    NOTHING,
    ONION,
    ONIONS,
    OUTSIDE,
    POT,
    SERVING,
    SOUP,
    STAY,
    TOMATO,
    TOMATOES,
    Cooks,
    Item,
    Kitchen,
    World,
    digests,
    kitchen_from,
    pack,
    padded,
    unpack,
)
from python_systems.overcooked import PythonOvercooked
from support import full_but, of_today, sampled
from torch_batchsim.envs.overcooked import Layout, Overcooked, layout_names, read_layout

from torch_batchsim import TorchVectorEnv, WorldFault

GOLDEN = Path(__file__).parent / "golden" / "overcooked"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
FACTORS = [0.0, 1.0, 0.5, -2.0]  # of shaped rewards; with these all sums are exact


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
    """Games of one layout with the same options. Arrays: ``[steps, games, ...]``, of starts and middles ``[games]``."""

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
    assert layout_names() == NAMES
    every = [case for name in NAMES for case in cases(name)]
    assert sum(case.arrays.ended.size for case in every) >= 50_000
    assert sum(np.count_nonzero(case.arrays.sparse) for case in every) >= 500
    assert sum(np.count_nonzero(case.arrays.shaped) for case in every) >= 3_000
    assert all(sum(np.count_nonzero(case.arrays.sparse) for case in cases(name)) for name in NAMES)
    assert sum(bool(case.overrides) for case in every) >= 10


def seen_by_all(world: World, horizon: int) -> np.ndarray:
    """uint8 ``[1, agents, width, height, layers]``"""
    views = [world.encode(agent, horizon) for agent in range(len(world.chefs))]
    return np.stack(views).astype(np.uint8)[None]


@pytest.mark.parametrize("name", sampled(NAMES, 12))
def test_the_model_plays_as_the_reference_does(name: str) -> None:
    for case in cases(name):
        record, starts = case.arrays, unpack(case.arrays.starts, case.agents)
        for game in range(len(record.starts)):
            world = World(case.kitchen).assign(starts, game)
            encodes = record.views is not None
            if encodes:
                assert digests(seen_by_all(world, case.horizon))[0] == record.start_views[game]
            for t in range(len(record.actions)):
                rewards = world.step(record.actions[t, game].tolist())
                assert np.array_equal(rewards, (record.sparse[t, game], record.shaped[t, game])), (game, t)
                assert digests(pack(world.arrays()))[0] == record.states[t, game], (game, t)
                assert (world.timestep >= case.horizon) == record.ended[t, game], (game, t)
                if encodes:
                    assert digests(seen_by_all(world, case.horizon))[0] == record.views[t, game], (game, t)


@pytest.mark.parametrize("name", of_today(NAMES[::5], 3))
def test_every_step_of_rules_in_python_is_the_references(name: str) -> None:
    test_every_step_is_the_references(name, PythonOvercooked)


FIRST = "counter_circuit_o_1order"


@pytest.mark.parametrize("name", [FIRST, *of_today([name for name in NAMES if name != FIRST], 10)])
def test_every_step_is_the_references(name: str, kind: type[Overcooked] = Overcooked) -> None:
    for case in cases(name):
        record = case.arrays
        env = TorchVectorEnv(
            kind(layout=name, horizon=case.horizon, **case.overrides),
            num_worlds=len(record.starts),
            autoreset_mode=AutoresetMode.DISABLED,
        )
        seen = env.by_world(env.reset(seed=0)[0]).numpy()
        from_start = (pack(state_of(env)) == record.starts).all(1)
        assert from_start.any()
        if record.views is not None:
            assert np.array_equal(digests(seen[from_start]), record.start_views[from_start])
        assign(env, unpack(record.starts, case.agents))
        steps, middle = len(record.actions), len(record.actions) // 2 - 1
        sums = np.zeros((2, *record.sparse.shape[1:]), np.float32)
        for t in range(steps):
            factor = FACTORS[t % len(FACTORS)]
            env.sim.tensor("Shaping.factor").fill_(factor)
            after = step(env, record.actions[t])
            same = digests(pack(state_of(env))) == record.states[t]
            assert same.all(), difference(case, env, t, int(np.argmin(same)))
            assert np.array_equal(after.sparse_reward, record.sparse[t]), t
            assert np.array_equal(after.shaped_reward, record.shaped[t]), t
            team = record.sparse[t].sum(1, keepdims=True)
            assert np.array_equal(after.rewards, team + np.float32(factor) * record.shaped[t]), t
            sums += record.sparse[t], record.shaped[t]
            assert np.array_equal(after.sparse_return, sums[0]) and np.array_equal(after.shaped_return, sums[1]), t
            assert (after.team_return == sums[0].sum(1, keepdims=True)).all(), t
            assert np.array_equal(after.truncated, record.ended[t][:, None].repeat(case.agents, 1)), t
            if record.views is not None:
                assert np.array_equal(digests(after.seen), record.views[t]), t
            if t == middle:
                assert np.array_equal(pack(state_of(env)), record.checkpoints)
                assert record.seen is None or np.array_equal(after.seen, record.seen)
        assert record.ended[-1].all() and not record.ended[:-1].any()


def difference(case: Case, env: TorchVectorEnv, t: int, game: int) -> str:
    """In which parts a state differs from the model's after the same steps."""
    world = World(case.kitchen).assign(unpack(case.arrays.starts, case.agents), game)
    for actions in case.arrays.actions[: t + 1, game].tolist():
        before = str((world.chefs, world.items, world.left))
        world.step(actions)
    mine, record = state_of(env), world.arrays()
    other = [name for name in record if (mine[name][game] != record[name][0]).any()]
    parts = [f"{name}: {mine[name][game].tolist()} not {record[name][0].tolist()}" for name in other]
    return "\n".join([f"step {t} of game {game}, actions {actions}, from {before}", *parts])


# ---- old dynamics, in scenes set by hand: games of the reference have shown the new ones --------------------------

GRID = """
    XXPPX
    O1 2T
    X   D
    XXSXX
"""
FIRST_POT, SECOND_POT, FREE = (2, 0), (3, 0), (1, 0)  # places; FREE is a counter
OOO: Item = (SOUP, 3, 0)


def orders(*recipes: str) -> list[dict[str, Any]]:
    """``orders("oot")``: of two onions and a tomato."""
    names = {"o": "onion", "t": "tomato"}
    return [{"ingredients": [names[letter] for letter in recipe]} for recipe in recipes]


class Scene:
    """One world of ``GRID``, where chefs stand apart at first. Places are (x, y)."""

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
        self.shaped = step(self.env, actions).shaped_reward[0].tolist()

    def at(self, place: tuple[int, int]) -> Item:
        return tuple(self.state["items"][place[0] * self.height + place[1]].tolist())

    def left(self, place: tuple[int, int]) -> int:
        return int(self.state["left"][place[0] * self.height + place[1]])

    def held(self, i: int) -> Item:
        return tuple(self.state["held"][i].tolist())


@pytest.mark.full
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


# ---- against the model, beyond the reference -----------------------------------------------------------------------


def random_options(dice: random.Random, most: int) -> dict[str, Any]:
    """Orders, values, times and rewards of a layout, by one rule or another."""
    recipes = ["o" * (total - t) + "t" * t for total in range(1, most + 1) for t in range(total + 1)]
    listed = dice.sample(recipes, dice.randint(1, len(recipes)))
    several = len(listed)
    values = [
        {},
        {"delivery_reward": dice.randint(1, 30)},
        {"recipe_values": [dice.randint(0, 80) / 4 for _ in range(several)]},
        {"onion_value": dice.randint(1, 9), "tomato_value": dice.randint(1, 9)},
    ]
    times = [
        {"cook_time": dice.randint(1, 9)},
        {"recipe_times": [dice.randint(0, 9) for _ in range(several)]},
        {"onion_time": dice.randint(1, 3), "tomato_time": dice.randint(1, 3)},
    ]
    shaping = ("PLACEMENT_IN_POT_REW", "DISH_PICKUP_REWARD", "SOUP_PICKUP_REWARD")
    return {
        "start_all_orders": orders(*listed),
        "start_bonus_orders": orders(*dice.sample(listed, dice.randint(0, several))),
        "order_bonus": dice.choice([0.5, 2, 3]),
        "max_num_ingredients": most,
        "rew_shaping_params": {name: dice.randint(-4, 20) / 4 for name in shaping},
        **dice.choice(values),
        **dice.choice(times),
    }


def random_kitchen(dice: random.Random, width: int, height: int, starts: int, most: int) -> Layout:
    """Mostly floor, with all that is needed somewhere at the border, and more anywhere."""
    floor: list[tuple[int, int]] = []
    while len(floor) < starts:
        rows = [["X"] * width for _ in range(height)]
        inside = [(x, y) for x in range(1, width - 1) for y in range(1, height - 1)]
        for x, y in inside:
            rows[y][x] = " " if dice.random() < 0.85 else dice.choice("XXPOTDS")
        border = [(x, y) for x in range(width) for y in range(height) if (x, y) not in inside]
        sides = [(x, y) for x, y in border if (x in (0, width - 1)) != (y in (0, height - 1))]
        for (x, y), symbol in zip(dice.sample(sides, 8), "PSD" + dice.choice(["O", "T", "OT"]) + "PODX", strict=False):
            rows[y][x] = symbol
        floor = [(x, y) for x, y in inside if rows[y][x] == " "]
    for i, (x, y) in enumerate(dice.sample(floor, starts)):
        rows[y][x] = str(i + 1) if i < 9 else "*"
    return read_layout("\n".join(map("".join, rows)), **random_options(dice, most))


def totals(state: dict[str, np.ndarray], terrain: np.ndarray) -> np.ndarray:
    """Onions, tomatoes and dishes of each world, ``[worlds, 3]``: those in soups, and under soups out of pots, too."""
    in_pot = np.concatenate([np.zeros_like(state["cell"], bool), terrain == POT], 1)
    kind, onions, tomatoes = np.moveaxis(np.concatenate([state["held"], state["items"]], 1).astype(int), -1, 0)
    dishes = (kind == DISH[0]) + (kind == SOUP) * ~in_pot
    return np.stack([((kind == 1) + onions).sum(1), ((kind == 2) + tomatoes).sum(1), dishes.sum(1)], 1)


def taken_and_served(state: dict[str, np.ndarray], terrain: np.ndarray, actions: np.ndarray, height: int) -> np.ndarray:
    """By how much ``totals`` must change: what comes from dispensers less what is served, for nothing else may."""
    ahead = state["cell"] + np.array([-1, 1, height, -height])[state["facing"]]
    place = np.take_along_axis(terrain, ahead.astype(np.int64), 1)
    kind, onions, tomatoes = np.moveaxis(state["held"].astype(int), -1, 0)
    takes = [(actions == INTERACT) & (place == source) & (kind == 0) for source in (ONIONS, TOMATOES, DISHES)]
    serves = (actions == INTERACT) & (place == SERVING) & (kind == SOUP)
    given = (onions, tomatoes, np.ones_like(kind))
    return np.stack([(take.astype(int) - serves * gone).sum(1) for take, gone in zip(takes, given, strict=True)], 1)


def check_order(state: dict[str, np.ndarray], terrain: np.ndarray, most: np.ndarray) -> None:
    """Chefs stand on the floor, each in a cell of its own; things lie on counters, soups in pots, none too full."""
    cells = state["cell"]
    assert all(len(set(row)) == len(row) for row in cells.tolist())
    assert (np.take_along_axis(terrain, cells.astype(np.int64), 1) == FLOOR).all()
    kind, onions, tomatoes = np.moveaxis(state["items"], -1, 0)
    assert np.isin(terrain[kind > 0], (POT, COUNTER)).all() and (kind[(terrain == POT) & (kind > 0)] == SOUP).all()
    assert ((kind == SOUP) == (onions + tomatoes > 0)).all() and (onions + tomatoes <= most[:, None]).all()
    assert ((state["left"] == 0) | ((terrain == POT) & (kind == SOUP))).all() and (state["left"] >= -1).all()


def play_beside_the_model(env: TorchVectorEnv, seed: int, steps: int, busy: Sequence[float] = ()) -> Counter:
    """Worlds of the environment and of the model: all alike. Chefs of every other world cook, others act at random.
    ``busy``: in what share of all steps each chef does anything at all."""
    kitchen, parameters = env.environment, env.environment.parameters
    seen = env.by_world(env.reset(seed=seed)[0]).numpy()
    state, tally, dice = state_of(env), Counter(), random.Random(seed)
    worlds = []
    for w, index in enumerate(env.sim.tensor("Kitchen.layout").tolist()):
        layout = padded(kitchen.layouts[index], kitchen.width, kitchen.height)
        world = World(layout, parameters.old_dynamics, env.num_agents)
        if parameters.random_start:
            for chef, cell in zip(world.chefs, state["cell"][w].tolist(), strict=True):
                chef.cell = cell
        if parameters.random_objects:
            take_objects(world, state["held"][w], state["items"][w], state["left"][w])
        worlds.append(world)
    terrain, most = np.array([w.terrain for w in worlds]), np.array([w.layout.max_ingredients for w in worlds])
    assert np.array_equal(env.sim.tensor("Cell.Terrain.kind").numpy(), terrain)
    assert np.array_equal(seen, views_of(worlds, parameters.horizon))
    cooks = [Cooks(world, seed + w) for w, world in enumerate(worlds)]
    for _ in range(steps):
        before = {name: array.copy() for name, array in state.items()}
        chosen = [c.actions() if w % 2 else dice.choices(range(6), k=env.num_agents) for w, c in enumerate(cooks)]
        idle = np.array([[dice.random() >= share for share in busy or [1.0] * env.num_agents] for _ in worlds])
        actions = np.where(idle, STAY, chosen)
        factor = dice.choice(FACTORS)
        shared = dice.choice([0.0, 0.5, 1.0])
        env.sim.tensor("Shaping.factor").fill_(factor)
        env.sim.tensor("Shaping.shared").fill_(shared)
        after = step(env, actions)
        sparse, shaped = np.moveaxis([world.step(a) for world, a in zip(worlds, actions.tolist(), strict=True)], 1, 0)
        assert np.array_equal(pack(state), np.concatenate([pack(world.arrays()) for world in worlds]))
        assert np.array_equal(after.sparse_reward, sparse) and np.array_equal(after.shaped_reward, shaped)
        given = shaped + shared * (shaped.sum(1, keepdims=True) - shaped)
        assert np.array_equal(after.rewards, sparse.sum(1, keepdims=True) + factor * given)
        assert np.array_equal(after.seen, views_of(worlds, parameters.horizon))
        assert (after.seen <= env.single_observation_space.high).all()
        assert (after.truncated == (state["timestep"] >= parameters.horizon)[:, None]).all()
        check_order(state, terrain, most)
        expected = taken_and_served(before, terrain, actions, kitchen.height)
        assert np.array_equal(totals(state, terrain) - totals(before, terrain), expected)
        served = (before["held"][..., 0] == SOUP) & (state["held"][..., 0] == 0) & (actions == INTERACT)
        moved = np.count_nonzero(before["cell"] != state["cell"])
        tally.update(served=int(served.sum()), shaped=np.count_nonzero(shaped), moved=moved)
        if after.truncated.any():
            break
    return tally


def take_objects(world: World, held: np.ndarray, items: np.ndarray, left: np.ndarray) -> None:
    """Puts these into the world's hands and pots."""
    for chef, item in zip(world.chefs, held.tolist(), strict=True):
        chef.held = tuple(item)
    for cell, (item, steps) in enumerate(zip(items.tolist(), left.tolist(), strict=True)):
        if world.terrain[cell] == POT and item[0] == SOUP:
            world.items[cell], world.left[cell] = tuple(item), steps


def views_of(worlds: list[World], horizon: int) -> np.ndarray:
    return np.array([[world.encode(i, horizon) for i in range(len(world.chefs))] for world in worlds])


@pytest.mark.full
@pytest.mark.parametrize(("width", "height", "agents"), full_but([8], [(6, 5, 1), (8, 6, 2), (9, 7, 5), (9, 11, 8)]))
def test_random_kitchens_are_the_models(width: int, height: int, agents: int) -> None:
    """Four of them in a batch, the last three of any size that fits, which are padded; some have more starts."""
    tally: Counter = Counter()

    @settings(max_examples=8, deadline=None, phases=[Phase.generate])  # a smaller seed is no simpler example
    @given(
        st.integers(0, 10**9), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.5, 1.0]), st.integers(60, 110),
        st.integers(1, 5),
    )  # fmt: skip
    def play(seed: int, old_dynamics: bool, random_start: bool, objects: float, horizon: int, most: int) -> None:
        dice = random.Random(seed)
        most = max(most, 3) if old_dynamics else most
        sizes = [(width, height)] + [(dice.randint(5, width), dice.randint(5, height)) for _ in range(3)]
        starts = [agents if w * h < 30 else agents + dice.randint(0, 2) for w, h in sizes]
        fits = [(w, h) if (w - 2) * (h - 2) * 0.6 > agents + 2 else (width, height) for w, h in sizes]
        layouts = [random_kitchen(dice, w, h, n, most) for (w, h), n in zip(fits, starts, strict=True)]
        options = {"old_dynamics": old_dynamics, "random_start": random_start, "horizon": horizon}
        options["random_objects"] = objects
        env = kitchen_env(8, layout=layouts, agents=agents, **options)
        tally.update(play_beside_the_model(env, seed, horizon))

    play()
    assert min(tally[what] for what in ("served", "shaped", "moved")) > 0, tally  # or little has been shown


# Chefs who can do all without a step, and others in a hall: if all walked, some would always collide, and none move.
FORTY = "\n".join(
    ["XOX" * 5, "S*P" * 5, "XDX" * 5, "S*P" * 5, "XTX" * 5, "S*P" * 5, "XDX" * 5, "S*P" * 5, "XOX" * 5]
    + [f"X{' *' * 5} **X", "X" + " " * 13 + "X", f"X{'* ' * 6}*X", f"T{' *' * 6} S", "XPXDXPXXXPXDXPX"]
)


@pytest.mark.full
def test_forty_chefs_in_one_kitchen() -> None:
    env = kitchen_env(4, layout=FORTY, horizon=130, cook_time=4)
    assert env.num_agents == 40 and env.single_observation_space.shape == (15, 14, 5 * 40 + 16)
    tally = play_beside_the_model(env, seed=1, steps=130, busy=[0.9] * 20 + [0.1] * 20)
    assert tally["served"] >= 10 and tally["moved"] >= 100, tally


@pytest.mark.parametrize(
    "name",
    full_but(["cramped_room"], ["cramped_room", "forced_coordination", "counter_circuit", "multiplayer_schelling"]),
)
def test_old_dynamics_are_the_models_in_known_kitchens(name: str) -> None:
    tally = play_beside_the_model(kitchen_env(8, layout=name, old_dynamics=True), seed=2, steps=300)
    assert tally["served"] >= 8, tally


@pytest.mark.full
def test_fewer_chefs_than_starts_take_the_first_of_them() -> None:
    env = kitchen_env(2, layout="multiplayer_schelling", agents=2)
    assert env.num_agents == 2 and env.environment.layouts[0].starts[:2] == ((3, 1), (3, 5))
    play_beside_the_model(env, seed=0, steps=50)
    assert env.sim.tensor("Kitchen.timestep").tolist() == [50, 50]


# ---- several layouts, random starts --------------------------------------------------------------------------------

MIXED = ["cramped_room", "coordination_ring", "large_room", "scenario2_s"]  # 5 x 4, 5 x 5, 7 x 7 and 7 x 4 cells


@pytest.mark.full
def test_each_episode_draws_one_of_the_layouts() -> None:
    env = kitchen_env(4000, AutoresetMode.SAME_STEP, layout=MIXED, horizon=2)
    assert env.single_observation_space.shape == (7, 7, 26)
    env.reset(seed=3)
    drawn = [env.sim.tensor("Kitchen.layout").numpy().copy()]
    for _ in range(4):
        after = step(env, np.full((4000, 2), STAY))
        drawn.append(env.sim.tensor("Kitchen.layout").numpy().copy())
    assert np.array_equal(drawn[0], drawn[1]) and np.array_equal(drawn[2], drawn[3])
    for before, now in zip(drawn[0::2], drawn[2::2], strict=False):
        counts = np.histogram2d(before, now, bins=4)[0]  # 250 each, and so whatever has been before
        assert (abs(counts - 250) < 5 * 250**0.5).all(), counts
    worlds = [World(padded(env.environment.layouts[index], 7, 7)) for index in drawn[-1][:40]]
    assert np.array_equal(after.seen[:40], views_of(worlds, 2))
    small = after.seen[drawn[-1] == 0]
    assert not small[:, :, 5:, :, :-1].any() and not small[:, :, :, 4:, :-1].any()
    assert small[..., -1].all()  # two steps before the end; also where nothing is
    assert (env.sim.tensor("Cell.Terrain.kind").view(-1, 7, 7)[:, 5:] == OUTSIDE).any()


def starts_of(env: TorchVectorEnv, seed: int | None = None) -> np.ndarray:
    env.reset(seed=seed)
    return state_of(env)["cell"].copy()


@pytest.mark.full
def test_random_starts_are_free_cells_of_ones_own() -> None:
    env = kitchen_env(500, AutoresetMode.SAME_STEP, layout="multiplayer_schelling", random_start=True, horizon=3)
    first = starts_of(env, seed=5)
    assert np.array_equal(starts_of(env, seed=5), first)
    assert not np.array_equal(starts_of(env, seed=6), first)
    assert len(np.unique(first, axis=0)) > 480  # of 22 * 21 * 20 * 19
    terrain = env.environment.layouts[0].terrain.reshape(-1)
    episodes = [starts_of(env, seed=7)]
    for _ in range(3):
        for _ in range(3):
            after = step(env, np.full((500, 4), STAY))
        episodes.append(state_of(env)["cell"].copy())
    for cells in episodes:
        assert (terrain[cells] == FLOOR).all() and (np.diff(np.sort(cells, 1), axis=1) > 0).all()
    assert len({cells.tobytes() for cells in episodes}) == 4
    state = state_of(env)
    assert not state["facing"].any() and not state["held"].any()
    places = after.seen[:, 0, :, :, :4].reshape(500, -1, 4)  # in the eyes of the first chef
    assert np.array_equal(places.argmax(1), state["cell"]) and (places.sum(1) == 1).all()


@pytest.mark.parametrize(
    ("layout", "ways", "most"),
    [
        pytest.param("cramped_room", 6 * 5, 90, marks=pytest.mark.full, id="six"),
        pytest.param("XXPXX\nO1X2T\nXXXXD\nXXSXX", 2, 30, id="two"),
    ],
)
def test_all_random_starts_are_equally_likely(layout: str, ways: int, most: float) -> None:
    """Of two chefs in six cells and in two. ``most`` of chi-squared: more has a probability below 1e-7."""
    env = kitchen_env(2000 * ways, layout=layout, random_start=True)
    counts = np.unique(starts_of(env, seed=11), axis=0, return_counts=True)[1]
    assert len(counts) == ways
    assert ((counts - 2000) ** 2 / 2000).sum() < most


def test_without_random_start_all_begin_alike() -> None:
    env = kitchen_env(50, layout="cramped_room")
    assert (starts_of(env, seed=1) == [1 * 4 + 2, 3 * 4 + 1]).all()
    state = state_of(env)
    assert not state["held"].any() and not state["items"].any()


ORDERS = [{"ingredients": ["onion"] * 3}, {"ingredients": ["onion", "tomato"]}, {"ingredients": ["tomato"] * 2}]
PAID = {"start_all_orders": ORDERS, "recipe_values": [20, 5, -7], "recipe_times": [4, 9, 2]}


def test_random_objects_are_of_the_soups_that_pay() -> None:
    """A quarter of the pots and of the chefs have something, all kinds equally likely."""
    env = kitchen_env(4000, layout="counter_circuit_o_1order", random_objects=1.0, **PAID)
    env.reset(seed=4)
    state, terrain = state_of(env), env.environment.layouts[0].terrain.reshape(-1)
    pots, left = state["items"][:, terrain == POT].reshape(-1, 3), state["left"][:, terrain == POT].reshape(-1)
    assert not state["items"][:, terrain != POT].any() and not state["left"][:, terrain != POT].any()

    def share(of: np.ndarray, expected: float) -> None:
        assert abs(of.mean() - expected) < 5 * (expected * (1 - expected) / of.size) ** 0.5

    filled = pots[:, 0] == SOUP
    share(filled, 0.25)
    assert not pots[~filled].any() and not left[~filled].any()
    onions = pots[filled][:, 1] == 3
    assert np.unique(pots[filled][:, 1:], axis=0).tolist() == [[1, 1], [3, 0]]  # the third order pays less than nothing
    share(onions, 0.5)
    for steps, time in ((left[filled][onions], 4), (left[filled][~onions], 9)):
        share(steps == -1, 0.5)
        assert sorted(set(steps.tolist())) == list(range(-1, time + 1))
        share(steps[steps >= 0] == 0, 1 / (time + 1))
    held = state["held"].reshape(-1, 3)
    share(held[:, 0] > 0, 0.25)
    kinds = held[held[:, 0] > 0][:, 0]
    dish, onion, tomato, soup = (kinds == kind for kind in (DISH[0], ONION[0], TOMATO[0], SOUP))
    share(dish, 1 / 3)
    share(soup, 1 / 3)
    share(onion, 1 / 3 * (1 / 2 + 1 / 2 * 1 / 2))  # of three onions, or one of onion and tomato
    share(tomato, 1 / 3 * 1 / 2 * 1 / 2)
    assert np.unique(held[held[:, 0] == SOUP][:, 1:], axis=0).tolist() == [[1, 1], [3, 0]]
    assert not held[held[:, 0] != SOUP][:, 1:].any()
    env.sim.tensor("Start.random_objects").fill_(0.3)
    env.reset(seed=5)
    share(state["held"].any((1, 2)) | state["items"].any((1, 2)), 0.3 * (1 - 0.75**4))


@pytest.mark.full
def test_random_objects_leave_what_the_layout_puts_there() -> None:
    env = kitchen_env(50, layout="tutorial_1", random_objects=1.0)
    env.reset(seed=0)
    state, pot = state_of(env), 2 * 5 + 2
    assert (state["items"][:, pot] == [SOUP, 2, 0]).all() and (state["left"][:, pot] == -1).all()
    assert state["held"].any()


def test_random_objects_and_places_may_be_set_between_episodes() -> None:
    env = kitchen_env(300, AutoresetMode.SAME_STEP, layout="cramped_room", horizon=2)
    env.reset(seed=0)
    for name in ("Start.random_objects", "Start.random_places"):
        env.sim.tensor(name).fill_(1.0)
    for _ in range(2):
        step(env, np.full((300, 2), STAY))
    state = state_of(env)
    assert 100 < np.count_nonzero(state["held"][..., 0]) < 200 and len(np.unique(state["cell"], axis=0)) == 6 * 5
    for name in ("Start.random_objects", "Start.random_places"):
        env.sim.tensor(name).fill_(0.5)
    for _ in range(2):
        step(env, np.full((300, 2), STAY))
    state = state_of(env)
    assert 40 < np.count_nonzero(state["held"][..., 0]) < 110
    assert 100 < np.count_nonzero((state["cell"] == [1 * 4 + 2, 3 * 4 + 1]).all(1)) < 220


# ---- worlds, episodes, types ---------------------------------------------------------------------------------------


def test_after_an_episode_the_same_game_can_be_played_again() -> None:
    """A recorded game, twice in a row: the end is reported, sums and the kitchen begin anew, at its timestep."""
    case = next(case for case in cases("mdp_test") if "start_state" in case.overrides)
    record = case.arrays
    assert case.kitchen.timestep == 30
    options = {"layout": case.name, "horizon": case.horizon, **case.overrides}
    env = kitchen_env(len(record.starts), AutoresetMode.SAME_STEP, **options)
    seen = env.by_world(env.reset(seed=0)[0]).numpy()
    sums = {"sparse_return": record.sparse.sum(0), "shaped_return": record.shaped.sum(0)}
    assert sums["sparse_return"].any() and sums["shaped_return"].any()
    for _ in range(2):
        assert np.array_equal(digests(seen), record.start_views)
        for t, actions in enumerate(record.actions):
            observations, rewards, _, truncations, infos = env.step(torch.from_numpy(actions.reshape(-1)))
            assert np.array_equal(env.by_world(rewards).numpy(), record.sparse[t].sum(1, keepdims=True).repeat(2, 1))
            assert np.array_equal(env.by_world(truncations).numpy(), record.ended[t][:, None].repeat(2, 1))
            seen = env.by_world(observations).numpy()
            if not record.ended[t].any():
                assert np.array_equal(digests(seen), record.views[t])
                so_far = record.sparse[: t + 1].sum(0)
                assert np.array_equal(env.by_world(infos["sparse_return"]).numpy(), so_far)
        assert np.array_equal(digests(env.by_world(infos["final_obs"]).numpy()), record.views[-1])
        for name, expected in sums.items():
            assert np.array_equal(env.by_world(infos["final_info"][name]).numpy(), expected)
            assert not infos[name].any()
        assert np.array_equal(pack(state_of(env)), record.starts)


@pytest.mark.full
def test_float_observations_are_the_same_numbers() -> None:
    options = {"layout": "cramped_room", "cook_time": 6, "random_start": True, "horizon": 60}
    envs = [kitchen_env(6, obs_dtype=dtype, **options) for dtype in ("uint8", "float32")]
    assert [env.single_observation_space.dtype for env in envs] == [np.uint8, np.float32]
    for env in envs:
        env.reset(seed=8)
    cooks = [Cooks(World(env.environment.layouts[0]).assign(state_of(env), w), w) for w in range(6)]
    for _ in range(60):
        for w, cook in enumerate(cooks):
            cook.world.assign(state_of(envs[0]), w)
        actions = [cook.actions() for cook in cooks]
        small, large = (step(env, actions).seen for env in envs)
        assert (small.dtype, large.dtype) == (np.uint8, np.float32)
        assert np.array_equal(small, large)
    assert small[..., -1].all()


@pytest.mark.full
def test_long_times_need_float_observations() -> None:
    with pytest.raises(ValueError, match=r"300 steps.*255.*float32"):
        Overcooked(cook_time=300)
    assert Overcooked(cook_time=255).observation_space.high.max() == 255
    scene = Scene("cramped_room", cook_time=300, obs_dtype="float32")
    scene.chef(0, 2, 1)
    scene.lay((2, 0), (SOUP, 1, 0), -1)
    after = step(scene.env, [[INTERACT, STAY]])
    assert after.seen[0, 0, 2, 0, 20] == 299


@pytest.mark.parametrize("horizon", [1, 39, 40, 41, 60])
def test_urgency_and_the_end(horizon: int) -> None:
    env = kitchen_env(layout="cramped_room", horizon=horizon)
    urgent = [bool(env.reset(seed=0)[0][..., -1].all())]
    for t in range(1, horizon + 1):
        after = step(env, [[STAY, STAY]])
        urgent.append(bool(after.seen[..., -1].all()))
        assert urgent[-1] == after.seen[..., -1].any()
        assert after.truncated.tolist() == [[t == horizon] * 2]
    assert urgent == [horizon - t < 40 for t in range(horizon + 1)]


def test_the_factor_of_shaped_rewards_can_be_changed_while_running() -> None:
    scene = Scene(shaping_factor=0.5)
    factor = scene.env.sim.tensor("Shaping.factor")
    assert (factor.shape, factor.item()) == ((), 0.5)
    paid = []
    for value in (0.5, 2.0, 0.0):
        factor.fill_(value)
        scene.chef(0, 2, 1, NORTH, ONION)
        paid.append(step(scene.env, [[INTERACT, STAY]]).rewards.tolist())
    assert paid == [[[1.5, 0]], [[6, 0]], [[0, 0]]]
    scene.env.reset()
    assert factor.item() == 0.0  # episodes come and go, it stays


# ---- registration, bad input ---------------------------------------------------------------------------------------


def test_it_is_registered_and_rows_are_chefs() -> None:
    env = gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_envs=6, layout="cramped_room", horizon=3)
    assert (env.num_envs, env.num_worlds, env.num_agents) == (6, 3, 2)
    observations, _ = env.reset(seed=0)
    assert (observations.shape, observations.dtype) == ((6, 5, 4, 26), torch.uint8)
    assert env.single_observation_space.shape == (5, 4, 26)
    assert env.single_action_space == gymnasium.spaces.Discrete(6)
    by_world = env.by_world(observations)
    assert by_world.shape == (3, 2, 5, 4, 26) and by_world.data_ptr() == observations.data_ptr()
    actions = torch.full((6,), STAY)
    assert [bool(env.step(actions)[3].any()) for _ in range(3)] == [False, False, True]
    by_worlds = gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_worlds=5, layout="multiplayer_schelling")
    assert (by_worlds.num_envs, by_worlds.num_agents) == (20, 4)


@pytest.mark.parametrize(
    ("rows", "layout", "says"),
    [(5, "cramped_room", "4 or 6"), (1023, "cramped_room", "1022 or 1024"), (6, "multiplayer_schelling", "4 or 8")],
)
def test_rows_that_do_not_divide(rows: int, layout: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        gymnasium.make_vec("torch_batchsim/Overcooked-v0", num_envs=rows, layout=layout)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"agents": 3}, "agents.* 3.*cramped_room.* 2 "),
        ({"agents": 0}, "agents must be .*1 to 40, got 0"),
        ({"agents": 41}, "agents must be .*1 to 40, got 41"),
        ({"agents": True}, "agents must be .*True"),
        ({"layout": ["cramped_room", "multiplayer_schelling"]}, "cramped_room 2.*multiplayer_schelling 4"),
        ({"layout": ["cramped_room", "cramped_room_single"], "agents": 2}, "cramped_room_single has 1"),
        ({"layout": []}, "empty"),
        ({"layout": "no_such_kitchen"}, "no_such_kitchen"),
        ({"start_all_orders": [{"ingredients": ["carrot"]}]}, "carrot"),
        ({"start_all_orders": orders("oooo")}, "4 ingredients"),
        ({"start_bonus_orders": orders("tt")}, "bonus"),
        ({"obs_dtype": "float64"}, "obs_dtype"),
        ({"cook_time": -1}, "cook_time"),
        ({"old_dynamics": True, "max_num_ingredients": 2, "start_all_orders": []}, "old_dynamics.*3 ingredients"),
        ({"shaping_factor": float("nan")}, "shaping_factor"),
        ({"random_objects": 1.5}, "random_objects"),
        ({"cooktime": 3}, "cooktime.*cook_time"),
    ],
    ids=str,
)
def test_options_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError if "cooktime" in options else ValueError, match=says):
        Overcooked(**options)


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("Chef.Place.cell", 20, "no_such_cell"),
        ("Chef.Place.cell", -1, "no_such_cell"),
        ("Chef.Place.cell", 2**31 - 1, "no_such_cell"),
        ("Chef.Place.facing", 4, "no_such_direction"),
        ("Chef.Place.facing", -(10**9), "no_such_direction"),
        ("Kitchen.layout", 1, "no_such_layout"),
        ("Kitchen.layout", -(10**9), "no_such_layout"),
    ],
)
def test_what_cannot_be_is_a_fault_of_its_world(name: str, value: int, cause: str) -> None:
    """Whatever somebody has written into the state."""
    env, other = (kitchen_env(5, horizon=50) for _ in range(2))
    for each in (env, other):
        each.reset(seed=1)
    env.sim.tensor(name)[2] = value
    actions = np.random.default_rng(0).integers(0, 6, (5, 2))
    with pytest.raises(WorldFault) as fault:
        step(env, actions)
    assert {(f.world, f.cause, f.value) for f in fault.value.faults} == {(2, cause, value)}
    step(other, actions)
    for part, array in state_of(env).items():
        assert np.array_equal(np.delete(array, 2, 0), np.delete(state_of(other)[part], 2, 0)), part
    env.reset(options={"reset_mask": fault.value.mask})
    step(env, actions)


@pytest.mark.parametrize("name", ["Cell.Item.kind", "Cell.Item.onions", "Chef.Item.kind", "Chef.Item.tomatoes"])
def test_odd_items_harm_nobody_else(name: str) -> None:
    env, other = (kitchen_env(3, horizon=50) for _ in range(2))
    for each in (env, other):
        each.reset(seed=1)
    env.sim.tensor(name)[1] = 255
    generator = np.random.default_rng(0)
    for _ in range(30):
        actions = generator.integers(0, 6, (3, 2))
        mine, theirs = step(env, actions), step(other, actions)
        assert np.array_equal(mine.seen[::2], theirs.seen[::2])


@pytest.mark.full
def test_a_game_that_is_over_at_its_start_is_refused() -> None:
    state = {"players": [{"position": (1, 1), "orientation": (0, -1)}], "objects": [], "timestep": 30}
    with pytest.raises(ValueError, match="layout cramped_room_single starts at timestep 30, but horizon is 30"):
        Overcooked("cramped_room_single", start_state=state, horizon=30)
    env = kitchen_env(layout="cramped_room_single", start_state=state, horizon=31)
    env.reset(seed=0)
    assert step(env, [[STAY]]).truncated.all()


def test_two_ways_to_say_where_chefs_start_are_refused() -> None:
    with pytest.raises(ValueError, match="start_player_positions and start_state exclude"):
        read_layout("tutorial_1", start_player_positions=[(1, 1)])


def test_layouts_of_one_name_are_still_counted_each() -> None:
    texts = ["XPXXX\nO 12D\nXXXSX", "XPXXX\nO  1D\nXXXSX"]
    for layouts in (texts, texts[::-1]):
        with pytest.raises(ValueError, match="layouts of one batch must have equally many starting places"):
            Overcooked(layouts)
        with pytest.raises(ValueError, match="agents is 2, but layout unnamed_layout has 1 starting places"):
            Overcooked(layouts, agents=2)
        assert Overcooked(layouts, agents=1).agents == 1
