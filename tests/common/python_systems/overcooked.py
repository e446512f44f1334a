"""Overcooked's rules in Python; starts and observations stay in C++."""

from __future__ import annotations

from pathlib import Path

from torch_batchsim.envs.overcooked.codes import (
    COUNTER,
    DISH,
    DISHES,
    FLOOR,
    NOTHING,
    ONION,
    ONIONS,
    POT,
    SERVING,
    SOUP,
    TOMATO,
    TOMATOES,
    Action,
)
from torch_batchsim.envs.overcooked.env import (
    Aim,
    Choice,
    Cooking,
    Item,
    Kitchen,
    Overcooked,
    Place,
    ShapedReturn,
    ShapedReward,
    Shaping,
    SparseReturn,
    SparseReward,
    Start,
    TeamReturn,
    Terrain,
)
from torch_batchsim.envs.overcooked.layout_recipes import MOST_RECIPES

from torch_batchsim import (
    Component,
    Constant,
    Episode,
    Reward,
    TaskGraph,
    Warp,
    World,
    f32,
    function,
    i16,
    i32,
    system,
    u8,
    u32,
    vec2,
)

LAYOUTS, CELLS, AGENTS, HEIGHT, EACH = map(Constant, ("layouts", "cells", "agents", "height", "each_ingredient"))
IDLE = -1  # Cooking.left of a soup that does not cook yet


class Layouts(Component):
    """As Overcooked makes it of its options, of bytes."""

    terrain: u8[LAYOUTS, CELLS]
    background: u8[LAYOUTS, CELLS, 5 * AGENTS + 16]
    items: u8[LAYOUTS, CELLS, 3]
    left: i16[LAYOUTS, CELLS]
    cell: i32[LAYOUTS, AGENTS]
    facing: i32[LAYOUTS, AGENTS]
    held: u8[LAYOUTS, AGENTS, 3]
    value: f32[LAYOUTS, EACH, EACH]
    paid: u8[LAYOUTS, MOST_RECIPES, 2]
    paid_recipes: i32[LAYOUTS]
    cook_time: i16[LAYOUTS, EACH, EACH]
    placement_reward: f32[LAYOUTS]
    dish_reward: f32[LAYOUTS]
    soup_reward: f32[LAYOUTS]
    most: i32[LAYOUTS]
    timestep: i32[LAYOUTS]
    last: i32


@function
def inside_of(cell: int) -> u32:
    return min(u32(cell), u32(CELLS - 1))


@function
def ahead_of(cell: int, direction: int) -> int:
    way = direction & 7
    across = HEIGHT if way == Action.EAST else -HEIGHT if way == Action.WEST else 0
    return i32(inside_of(cell + (-1 if way == Action.NORTH else 1 if way == Action.SOUTH else across)))


@function
def layout_in(kitchen: Kitchen, layouts: Layouts) -> u32:
    return min(u32(kitchen.layout), u32(layouts.last))


@function
def put(item: Item, kind: int, onions: int, tomatoes: int) -> None:
    item.kind = kind
    item.onions = onions
    item.tomatoes = tomatoes


@function
def is_dish_useful(world: World, soups: u32) -> bool:
    terrain, items = world.rows("Cell", Terrain), world.rows("Cell", Item)
    held: u32 = 0
    for hand in world.rows("Chef", Item):
        held += u32(hand.kind == DISH)
    if AGENTS != 2 or held >= soups:
        return False
    for cell in range(items.count):  # noqa: SIM110
        if items[cell].kind == DISH and terrain[cell].kind == COUNTER:
            return False
    return True


@function
def soups_in_pots(world: World, most: int) -> u32:
    terrain, items, cooking = world.rows("Cell", Terrain), world.rows("Cell", Item), world.rows("Cell", Cooking)
    soups: u32 = 0
    for cell in range(items.count):
        item = items[cell]
        if terrain[cell].kind != POT or item.kind != SOUP:
            continue
        soups += u32(cooking[cell].left != IDLE or item.onions + item.tomatoes < most)
    return soups


@function
def use_pot(hand: Item, soup: Item, cooking: Cooking, layouts: Layouts, layout: u32, by_hand: bool) -> vec2:
    if hand.kind == NOTHING and by_hand and soup.kind == SOUP and cooking.left == IDLE:
        cooking.left = layouts.cook_time[layout, soup.onions & 7, soup.tomatoes & 7]
    elif hand.kind == DISH and soup.kind == SOUP and cooking.left == 0:
        put(hand, soup.kind, soup.onions, soup.tomatoes)
        put(soup, NOTHING, 0, 0)
        return vec2(0, layouts.soup_reward[layout])
    elif hand.kind == ONION or hand.kind == TOMATO:
        ingredients = soup.onions + soup.tomatoes
        if soup.kind != NOTHING and not (cooking.left == IDLE and ingredients < layouts.most[layout]):
            return vec2(0, 0)
        put(soup, SOUP, soup.onions + (hand.kind == ONION), soup.tomatoes + (hand.kind == TOMATO))
        cooking.left = IDLE
        put(hand, NOTHING, 0, 0)
        return vec2(0, layouts.placement_reward[layout])
    return vec2(0, 0)


@function
def use_cell(ground: int, hand: Item, item: Item, layouts: Layouts, layout: u32, dish_useful: bool) -> vec2:
    empty = hand.kind == NOTHING
    if ground == COUNTER and empty != (item.kind == NOTHING):
        if empty:
            put(hand, item.kind, item.onions, item.tomatoes)
            put(item, NOTHING, 0, 0)
        else:
            put(item, hand.kind, hand.onions, hand.tomatoes)
            put(hand, NOTHING, 0, 0)
    elif ground == SERVING and hand.kind == SOUP:
        value = layouts.value[layout, hand.onions & 7, hand.tomatoes & 7]
        put(hand, NOTHING, 0, 0)
        return vec2(value, 0)
    elif empty and (ground == ONIONS or ground == TOMATOES or ground == DISHES):  # noqa: SIM109
        put(hand, ONION if ground == ONIONS else TOMATO if ground == TOMATOES else DISH, 0, 0)
        return vec2(0, layouts.dish_reward[layout] if dish_useful else 0.0)
    return vec2(0, 0)


@function
def takes_dish(world: World, i: int) -> bool:
    place = world.rows("Chef", Place)[i]
    there = world.rows("Cell", Terrain)[ahead_of(place.cell, place.facing)].kind == DISHES
    return world.rows("Chef", Choice)[i].action == Action.INTERACT and there and (
        world.rows("Chef", Item)[i].kind == NOTHING
    )


@system
def interact(world: World, kitchen: Kitchen, layouts: Layouts) -> None:
    places, choices, hands = world.rows("Chef", Place), world.rows("Chef", Choice), world.rows("Chef", Item)
    terrain, items, cooking = world.rows("Cell", Terrain), world.rows("Cell", Item), world.rows("Cell", Cooking)
    sparse, shaped = world.rows("Chef", SparseReward), world.rows("Chef", ShapedReward)
    layout = layout_in(kitchen, layouts)

    any_takes_dish = False
    for i in range(AGENTS):
        any_takes_dish |= takes_dish(world, i)
        place = places[i]
        if place.cell != i32(inside_of(place.cell)):
            world.fail("no_such_cell", place.cell)
        if u32(place.facing) > Action.WEST:
            world.fail("no_such_direction", place.facing)
    if kitchen.layout != i32(layout):
        world.fail("no_such_layout", kitchen.layout)
    soups = soups_in_pots(world, layouts.most[layout]) if any_takes_dish else u32(0)

    for i in range(AGENTS):
        earned = vec2(0, 0)
        if choices[i].action == Action.INTERACT:
            cell = ahead_of(places[i].cell, places[i].facing)
            ground = terrain[cell].kind
            if ground == POT:
                by_hand = not world.parameters.old_dynamics
                earned = use_pot(hands[i], items[cell], cooking[cell], layouts, layout, by_hand)
            else:
                useful = takes_dish(world, i) and is_dish_useful(world, soups)
                earned = use_cell(ground, hands[i], items[cell], layouts, layout, useful)
        sparse[i].value = earned.x
        shaped[i].value = earned.y


@system
def aim(world: World, place: Place, choice: Choice, aim: Aim) -> None:
    ahead = ahead_of(place.cell, choice.action)
    place.facing = choice.action if choice.action < Action.STAY else place.facing
    aim.cell = ahead if world.rows("Cell", Terrain)[ahead].kind == FLOOR else place.cell


@system
def walk(world: World, warp: Warp) -> None:
    places, aims = world.rows("Chef", Place), world.rows("Chef", Aim)

    def collides(i: int) -> bool:
        hit = False
        for j in range(i):
            swap = aims[i].cell == places[j].cell and aims[j].cell == places[i].cell
            hit |= aims[i].cell == aims[j].cell or swap
        return hit

    def go(i: int) -> None:
        places[i].cell = aims[i].cell

    collision = warp.any(AGENTS, collides)
    if collision:
        return
    warp.for_each(AGENTS, go)


@system
def start_full_pots(world: World, item: Item, cooking: Cooking, kitchen: Kitchen, layouts: Layouts) -> None:
    if not world.parameters.old_dynamics or cooking.left != IDLE or item.onions + item.tomatoes != 3:
        return
    cooking.left = layouts.cook_time[layout_in(kitchen, layouts), item.onions, item.tomatoes]


@system
def cook(world: World, cooking: Cooking) -> None:
    cooking.left = cooking.left - (cooking.left > 0)


@system
def pay(
    world: World,
    sparse: SparseReward,
    shaped: ShapedReward,
    sparse_return: SparseReturn,
    shaped_return: ShapedReturn,
    team_return: TeamReturn,
    reward: Reward,
    shaping: Shaping,
) -> None:
    team, all_shaped = 0.0, 0.0
    for of_chef in world.rows("Chef", SparseReward):
        team += of_chef.value
    for shaped_of_chef in world.rows("Chef", ShapedReward):
        all_shaped += shaped_of_chef.value
    reward.value = team + shaping.factor * (shaped.value + shaping.shared * (all_shaped - shaped.value))
    sparse_return.value += sparse.value
    shaped_return.value += shaped.value
    team_return.value += team


@system
def tick(world: World, kitchen: Kitchen, episode: Episode) -> None:
    kitchen.timestep += 1
    episode.truncated = kitchen.timestep >= world.parameters.horizon


class PythonOvercooked(Overcooked):
    systems = str(Path(__file__).with_name("overcooked_rest.h"))
    step = TaskGraph(interact, aim, walk, start_full_pots, cook, pay, tick)
    resources = [Layouts, Shaping, Start]

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.add_constants(each_ingredient=self.layouts[0].values.shape[0])
