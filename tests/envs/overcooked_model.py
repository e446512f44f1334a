"""Overcooked in plain Python: the rules of one world, what its agents see, and players that cook.

Without torch, because the recorder of golden games (``tests/oracles/record_overcooked.py``), which runs beside the
reference, uses it too. The rules are written from their description, not from the environment's systems; golden games
show that they are the reference's.

A cell's number is ``x * height + y``. An item is ``(kind, onions, tomatoes)``, the latter two of a soup. A layout is
any object with the attributes of ``torch_batchsim.envs.overcooked.Layout`` (``Kitchen`` is a plain one).
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

FLOOR, POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING, OUTSIDE = range(8)
NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
MOVES = ((0, -1), (0, 1), (1, 0), (-1, 0))
Item = tuple[int, int, int]
NOTHING: Item = (0, 0, 0)
ONION: Item = (1, 0, 0)
TOMATO: Item = (2, 0, 0)
DISH: Item = (3, 0, 0)
SOUP = 4  # a kind
SYMBOLS = " PXOTDS"  # in the order of the codes of terrain


@dataclass
class Kitchen:
    """What a layout says, for the model. ``values`` and ``cook_times`` are ``[8, 8]``, by onions and tomatoes."""

    starts: Sequence[tuple[int, int]]
    max_ingredients: int
    placement_reward: float
    dish_reward: float
    soup_reward: float
    timestep: int
    facings: Sequence[int]
    held: Sequence[Item]
    items: Sequence[tuple[int, int, int, int, int, int]]
    terrain: np.ndarray | None = None  # uint8 [width, height]
    values: np.ndarray = field(default_factory=lambda: np.zeros((8, 8), np.float32))
    cook_times: np.ndarray = field(default_factory=lambda: np.zeros((8, 8), np.int32))


def kitchen_from(about: Mapping[str, Any]) -> Kitchen:
    """Of what golden files say: ``terrain`` as rows of symbols, ``recipes`` as ``[onions, tomatoes, value, time]``."""
    kitchen = Kitchen(**{key: value for key, value in about.items() if key not in ("terrain", "recipes")})
    kitchen.terrain = np.array([[SYMBOLS.index(symbol) for symbol in row] for row in about["terrain"]], np.uint8).T
    for onions, tomatoes, value, time in about["recipes"]:
        kitchen.values[onions, tomatoes], kitchen.cook_times[onions, tomatoes] = value, time
    return kitchen


def padded(layout: Any, width: int, height: int) -> SimpleNamespace:
    """The same layout with cells that are outside to its right and below it."""
    terrain = np.full((width, height), OUTSIDE, np.uint8)
    terrain[: layout.terrain.shape[0], : layout.terrain.shape[1]] = layout.terrain
    return SimpleNamespace(**{**vars(layout), "terrain": terrain})


# ---- the rules -----------------------------------------------------------------------------------------------------


@dataclass
class Chef:
    cell: int
    facing: int = NORTH
    held: Item = NOTHING


class World:
    """One world at the start of an episode. ``agents`` is all starts of the layout unless given."""

    def __init__(self, layout: Any, old_dynamics: bool = False, agents: int | None = None) -> None:
        self.layout, self.old_dynamics = layout, old_dynamics
        self.width, self.height = layout.terrain.shape
        self.terrain: list[int] = layout.terrain.reshape(-1).tolist()
        self.steps = [dx * self.height + dy for dx, dy in MOVES]  # from a cell to its neighbours
        starts = list(zip(layout.starts, layout.facings, layout.held, strict=True))[:agents]
        self.chefs = [Chef(x * self.height + y, facing, tuple(held)) for (x, y), facing, held in starts]
        self.items: dict[int, Item] = {}  # that lie on counters and in pots
        self.left: dict[int, int] = {}  # of soups in pots: steps until ready, -1 before they cook
        for x, y, kind, onions, tomatoes, left in layout.items:
            cell = x * self.height + y
            self.items[cell] = (kind, onions, tomatoes)
            if self.terrain[cell] == POT:
                self.left[cell] = left
        self.timestep: int = layout.timestep

    def step(self, actions: Sequence[int]) -> tuple[list[float], list[float]]:
        """Advance; the sparse and the shaped reward of each chef."""
        rewards = self.interact(actions)
        self.move(actions)
        self.cook()
        return rewards

    def interact(self, actions: Sequence[int]) -> tuple[list[float], list[float]]:
        sparse, shaped = [0.0] * len(self.chefs), [0.0] * len(self.chefs)
        worth_a_dish = sum(not self.idle(pot) or self.has_room(pot) for pot in self.left)
        for i, (chef, action) in enumerate(zip(self.chefs, actions, strict=True)):
            if action != INTERACT:
                continue
            cell = chef.cell + self.steps[chef.facing]
            place, there = self.terrain[cell], self.items.get(cell, NOTHING)
            if place == COUNTER and (chef.held == NOTHING) != (there == NOTHING):
                self.put(cell, chef.held)
                chef.held = there
            elif place in (ONIONS, TOMATOES) and chef.held == NOTHING:
                chef.held = ONION if place == ONIONS else TOMATO
            elif place == DISHES and chef.held == NOTHING:
                if self.dish_is_useful(worth_a_dish):
                    shaped[i] = self.layout.dish_reward
                chef.held = DISH
            elif place == POT:
                shaped[i] = self.use_pot(chef, cell, there)
            elif place == SERVING and chef.held[0] == SOUP:
                sparse[i] = float(self.layout.values[chef.held[1:]])
                chef.held = NOTHING
        return sparse, shaped

    def use_pot(self, chef: Chef, pot: int, soup: Item) -> float:
        if chef.held == NOTHING:
            if soup != NOTHING and self.idle(pot) and not self.old_dynamics:
                self.left[pot] = int(self.layout.cook_times[soup[1:]])
        elif chef.held == DISH:
            if soup != NOTHING and self.left[pot] == 0:
                chef.held = soup
                del self.items[pot], self.left[pot]
                return self.layout.soup_reward
        elif chef.held in (ONION, TOMATO) and self.has_room(pot):
            self.items[pot] = (SOUP, soup[1] + (chef.held == ONION), soup[2] + (chef.held == TOMATO))
            self.left[pot] = -1
            chef.held = NOTHING
            return self.layout.placement_reward
        return 0.0

    def dish_is_useful(self, worth_a_dish: int) -> bool:
        """``worth_a_dish``: pots before this step whose soup cooks, is ready or is begun, but not full ones that wait.
        The reference knows this reward for two players only."""
        dishes = sum(chef.held == DISH for chef in self.chefs)
        return len(self.chefs) == 2 and DISH not in self.items.values() and dishes < worth_a_dish

    def move(self, actions: Sequence[int]) -> None:
        before = [chef.cell for chef in self.chefs]
        after = list(before)
        for i, (chef, action) in enumerate(zip(self.chefs, actions, strict=True)):
            if action < STAY:
                chef.facing = action
                if self.terrain[chef.cell + self.steps[action]] == FLOOR:
                    after[i] += self.steps[action]
        if not collide(before, after):
            for chef, cell in zip(self.chefs, after, strict=True):
                chef.cell = cell

    def cook(self) -> None:
        self.timestep += 1
        for pot, left in self.left.items():
            if self.old_dynamics and left < 0 and self.ingredients(pot) == 3:
                left = int(self.layout.cook_times[self.items[pot][1:]])
            self.left[pot] = left - 1 if left > 0 else left

    def put(self, cell: int, item: Item) -> None:
        """Lay something on a counter, or nothing."""
        if item == NOTHING:
            del self.items[cell]
        else:
            self.items[cell] = item

    def idle(self, pot: int) -> bool:
        return self.left[pot] < 0

    def ingredients(self, pot: int) -> int:
        return sum(self.items[pot][1:])

    def has_room(self, pot: int) -> bool:
        return pot not in self.left or (self.idle(pot) and self.ingredients(pot) < self.layout.max_ingredients)

    # ---- what is seen, and the state as bytes ----------------------------------------------------------------------

    def encode(self, agent: int, horizon: int = 400) -> np.ndarray:
        """What an agent sees, int32 ``[width, height, 5 P + 16]``."""
        chefs = len(self.chefs)
        layers = np.zeros((len(self.terrain), 5 * chefs + 16), np.int32)
        order = [self.chefs[agent], *self.chefs[:agent], *self.chefs[agent + 1 :]]
        for place, chef in enumerate(order):
            layers[chef.cell, place] = 1
            layers[chef.cell, chefs + 4 * place + chef.facing] = 1
        rest = layers[:, 5 * chefs :]
        rest[:, :6] = self._fixed_layers()
        for cell, item in [(chef.cell, chef.held) for chef in self.chefs] + list(self.items.items()):
            kind, onions, tomatoes = item
            if kind == SOUP and self.left.get(cell, 0) < 0:
                rest[cell, 6:8] = onions, tomatoes
            elif kind == SOUP:
                left = self.left.get(cell, 0)
                rest[cell, 8:12] = onions, tomatoes, left, left == 0
            elif kind:
                rest[cell, {DISH: 12, ONION: 13, TOMATO: 14}[item]] = 1
        rest[:, 15] = horizon - self.timestep < 40
        return layers.reshape(self.width, self.height, -1)

    def _fixed_layers(self) -> np.ndarray:
        if not hasattr(self, "_fixed"):
            self._fixed = np.array(self.terrain)[:, None] == [POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING]
        return self._fixed

    def arrays(self) -> dict[str, np.ndarray]:
        """The state in the environment's own terms, see ``pack``, for one world (leading dimension 1)."""
        cells = len(self.terrain)
        items, left = np.zeros((cells, 3), np.uint8), np.zeros(cells, np.int16)
        for cell, item in self.items.items():
            items[cell] = item
            left[cell] = self.left.get(cell, 0)
        chefs = [(c.cell, c.facing, c.held) for c in self.chefs]
        state = dict(zip(("cell", "facing", "held"), map(np.array, zip(*chefs, strict=True)), strict=True))
        state |= {"items": items, "left": left, "timestep": np.array(self.timestep)}
        return {name: array[None] for name, array in state.items()}

    def assign(self, state: dict[str, np.ndarray], world: int = 0) -> World:
        """Take over one world of ``arrays`` (or ``unpack``)."""
        state = {name: array[world].tolist() for name, array in state.items()}
        chefs = zip(state["cell"], state["facing"], state["held"], strict=True)
        self.chefs = [Chef(cell, facing, tuple(held)) for cell, facing, held in chefs]
        self.items = {cell: tuple(item) for cell, item in enumerate(state["items"]) if item[0]}
        self.left = {cell: state["left"][cell] for cell in self.items if self.terrain[cell] == POT}
        self.timestep = state["timestep"]
        return self


def collide(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether two would be in one cell, or would change places."""
    moves = {(a, b) for a, b in zip(before, after, strict=True) if a != b}
    return len(set(after)) < len(after) or any((b, a) in moves for a, b in moves)


_PARTS = (("cell", "<i2", 1), ("facing", "u1", 1), ("held", "u1", 3), ("items", "u1", 3), ("left", "<i2", 1))


def pack(state: dict[str, np.ndarray]) -> np.ndarray:
    """States as bytes, uint8 ``[worlds, bytes]``: the same state is the same bytes.

    ``state``: ``cell`` and ``facing`` ``[worlds, agents]``, ``held`` ``[worlds, agents, 3]``, ``items``
    ``[worlds, cells, 3]``, ``left`` ``[worlds, cells]`` (all as in the environment) and ``timestep`` ``[worlds]``.
    """
    worlds = len(state["timestep"])
    parts = [state[name].astype(dtype).reshape(worlds, -1).view(np.uint8) for name, dtype, _ in _PARTS]
    return np.concatenate([*parts, state["timestep"].astype("<i4").reshape(worlds, 1).view(np.uint8)], 1)


def unpack(rows: np.ndarray, agents: int) -> dict[str, np.ndarray]:
    """The inverse of ``pack``."""
    worlds, size = rows.shape
    cells = (size - 4 - 6 * agents) // 5
    state, start = {}, 0
    for name, dtype, width in _PARTS:
        count = (agents if name in ("cell", "facing", "held") else cells) * width
        end = start + count * np.dtype(dtype).itemsize
        state[name] = np.ascontiguousarray(rows[:, start:end]).view(dtype).reshape(worlds, *[-1, 3][: 1 + (width > 1)])
        start = end
    return state | {"timestep": np.ascontiguousarray(rows[:, start:]).view("<i4")[:, 0]}


def digests(rows: np.ndarray) -> np.ndarray:
    """64 bits of each row of bytes: uint64 ``[rows]`` of uint8 ``[rows, ...]``."""
    rows = np.ascontiguousarray(rows)
    hashes = b"".join(hashlib.blake2b(memoryview(row).cast("B"), digest_size=8).digest() for row in rows)
    return np.frombuffer(hashes, "<u8")


# ---- players that cook ---------------------------------------------------------------------------------------------


@dataclass
class Mood:
    """What moves one player beside the meals: an errand to some cell, and how long it has stood still."""

    errand: int = -1
    errand_left: int = 0
    still: int = 0
    cell: int = -1


@dataclass
class Cooks:
    """Players of one world that cook and deliver, who err at times.

    Each goes to the nearest place where it can do something for the meals: begin a full pot, fetch what a pot lacks,
    fetch a dish, deliver. What it cannot bring there itself it lays on a counter that another reaches who can.
    ``noise`` of all actions are random, and now and then a player goes to some place for no good reason. Each pot gets
    a recipe by chance, a share ``paid`` of them out of those that are paid for.
    """

    world: World
    seed: int
    noise: float = 0.1
    paid: float = 0.7
    recipes: dict[int, tuple[int, int]] = field(default_factory=dict)  # planned, by pot

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.moods = [Mood() for _ in self.world.chefs]
        self.reach = [self._reachable(i) for i in range(len(self.world.chefs))]
        self.anyones = set().union(*self.reach)

    def _reachable(self, i: int, blocked: Iterable[int] = ()) -> set[int]:
        """All places that a player can stand before, without a way through some cells."""
        terrain, start = self.world.terrain, self.world.chefs[i].cell
        seen, ahead = {start, *blocked}, [start]
        while ahead:
            cell = ahead.pop()
            for step in self.world.steps:
                if cell + step not in seen:
                    seen.add(cell + step)
                    if terrain[cell + step] == FLOOR:
                        ahead.append(cell + step)
        return {cell for cell in seen if terrain[cell] != FLOOR}

    def actions(self) -> list[int]:
        for pot in self.world.left.keys() | self.of(POT, self.anyones):
            self._plan(pot)
        return [self._action(i) for i in range(len(self.world.chefs))]

    def of(self, place: int, cells: Iterable[int]) -> set[int]:
        return {cell for cell in cells if self.world.terrain[cell] == place}

    def _plan(self, pot: int) -> None:
        """Keep a recipe that what is in the pot can still become, or find one."""
        _, onions, tomatoes = self.world.items.get(pot, NOTHING)
        planned = self.recipes.get(pot, (-1, -1))
        begun = bool(onions or tomatoes)
        if onions <= planned[0] and tomatoes <= planned[1] and (begun or self.random.random() < 0.99):
            return
        have_onions, have_tomatoes = (bool(self.of(place, self.anyones)) for place in (ONIONS, TOMATOES))
        most = self.world.layout.max_ingredients
        possible = [
            (o, t)
            for o in range(onions, (most if have_onions else onions) + 1)
            for t in range(tomatoes, (most if have_tomatoes else tomatoes) + 1)
            if 1 <= o + t <= most and (o + t == 3 or not self.world.old_dynamics)
        ]
        paid = [recipe for recipe in possible if self.world.layout.values[recipe] > 0]
        chosen = paid if paid and self.random.random() < self.paid else possible
        self.recipes[pot] = self.random.choice(chosen or [(onions, tomatoes)])

    def _action(self, i: int) -> int:
        chef, mood = self.world.chefs[i], self.moods[i]
        mood.still = mood.still + 1 if mood.cell == chef.cell else 0
        mood.cell = chef.cell
        if self.random.random() < self.noise:
            return self.random.randrange(6)
        if mood.errand < 0 and self.random.random() < (0.3 if mood.still > 4 else 0.01):
            others = [other.cell for other in self.world.chefs if other is not chef]
            places = self._reachable(i, others if mood.still > 4 else ())  # a way out, or just anywhere
            mood.errand, mood.errand_left = self.random.choice(sorted(places) or [-1]), self.random.randint(4, 20)
        goals = {mood.errand} if mood.errand >= 0 else self._goals(i)
        action = self._toward(i, goals) if goals else self.random.randrange(6)
        mood.errand_left -= 1
        if mood.errand_left <= 0 or action == INTERACT:
            mood.errand = -1
        return action

    def _toward(self, i: int, goals: set[int]) -> int:
        """The action on the shortest way to interact with one of the places, around the others if there is one."""
        world, start = self.world, self.world.chefs[i].cell
        others = {chef.cell for chef in world.chefs} - {start}
        for blocked in (others, set()):
            ahead, seen = deque([(start, -1)]), {start}
            while ahead:
                cell, first = ahead.popleft()
                for action, step in enumerate(world.steps):
                    if cell + step in goals:
                        there = cell == start and world.chefs[i].facing == action
                        return INTERACT if there else action if first < 0 else first
                for action in self.random.sample(range(4), 4):
                    to = cell + world.steps[action]
                    if to not in seen and to not in blocked and world.terrain[to] == FLOOR:
                        seen.add(to)
                        ahead.append((to, action if first < 0 else first))
        return self.random.randrange(6)

    def _goals(self, i: int) -> set[int]:
        held, mine = self.world.chefs[i].held, self.reach[i]
        if held == NOTHING:
            return self._goals_of_free_hands(mine)
        if held[0] == SOUP:
            return self.of(SERVING, mine) or self._hand_over(i, SERVING) or self._free_counters(mine)
        pots = self.of(POT, mine)
        if held == DISH:
            cooking = {pot for pot in pots if pot in self.world.left and not self.world.idle(pot)}
            ready = {pot for pot in cooking if self.world.left[pot] == 0}
            useful = ready or cooking or (set() if pots else self._hand_over(i, POT))
        else:
            lacking = {pot for pot in pots if self._lacks(pot)[held[0] - 1] > 0}
            room = {pot for pot in pots if self.world.has_room(pot)} if self.random.random() < 0.2 else set()
            useful = lacking or room or (set() if pots else self._hand_over(i, POT))
        return useful or (self._free_counters(mine) if self.random.random() < 0.3 else set())

    def _goals_of_free_hands(self, mine: set[int]) -> set[int]:
        world = self.world
        on_counters = {cell: world.items[cell] for cell in self.of(COUNTER, mine) if cell in world.items}
        if self.of(SERVING, mine):
            soups = {cell for cell, item in on_counters.items() if item[0] == SOUP}
            if soups:
                return soups
        pots = self.of(POT, mine)
        full = {pot for pot in pots if pot in world.left and world.idle(pot) and not any(self._lacks(pot))}
        if full and not world.old_dynamics:
            return full
        useful = self.of(COUNTER, set().union(*(reach for reach in self.reach if self.of(POT, reach))))
        at_hand = [world.items[cell] for cell in useful if cell in world.items] + [chef.held for chef in world.chefs]
        served = pots or self.of(POT, self.anyones)
        wanted = []
        if sum(not world.idle(pot) for pot in served if pot in world.left) > at_hand.count(DISH) or (
            pots and DISH in on_counters.values() and any(not world.idle(p) for p in pots if p in world.left)
        ):
            wanted.append((DISH, DISHES))
        for k, (item, place) in enumerate(((ONION, ONIONS), (TOMATO, TOMATOES))):
            lack = sum(self._lacks(pot)[k] for pot in served)
            if lack > (sum(chef.held == item for chef in world.chefs) if pots else at_hand.count(item)):
                wanted.append((item, place))
        for item, place in wanted:
            lying = {cell for cell, there in on_counters.items() if there == item} if pots else set()
            goals = lying or self.of(place, mine)
            if goals:
                return goals
        return set()

    def _lacks(self, pot: int) -> tuple[int, int]:
        if pot in self.world.left and not self.world.idle(pot):
            return (0, 0)
        _, onions, tomatoes = self.world.items.get(pot, NOTHING)
        planned = self.recipes[pot]
        return max(0, planned[0] - onions), max(0, planned[1] - tomatoes)

    def _free_counters(self, cells: Iterable[int]) -> set[int]:
        return {cell for cell in self.of(COUNTER, cells) if cell not in self.world.items}

    def _hand_over(self, i: int, place: int) -> set[int]:
        """Free counters that another player reaches too who also reaches such a place."""
        others = [reach for j, reach in enumerate(self.reach) if j != i and self.of(place, reach)]
        return self._free_counters(self.reach[i] & set().union(*others)) if others else set()
