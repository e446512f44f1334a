"""Seaquest: a submarine shoots fish and submarines, picks up divers, and comes up for air.

Enemies come in at the left or right edge of the rows 1 .. 8, a submarine with a chance of a third, else a fish; divers
every thirty steps. A row has no enemies of two directions. Submarines shoot ahead every eleventh step.
Oxygen lasts for 200 steps below the surface. Whoever comes up with divers gets new oxygen, and leaves one diver there;
with six divers, all. While ``difficulty_ramping`` is on, enemies then come and move more often.

Reward: 1 for each enemy that is shot, and up to 10 for the oxygen left when six divers come up.
Start: the submarine at (5, 0), facing left, no enemies.
End: terminated when an enemy or a shot touches the submarine, without oxygen, or at the surface without divers.

As in the original, coming up with six divers leaves -1 of them, and with -1 divers one may come up once more.
Everything lies in lists in its order of arrival, and a thing that goes takes the first equal one out of its list, since
it matters which of several things in a cell a shot meets.
"""

from __future__ import annotations

from typing import Annotated

from torch_batchsim import (
    Component,
    Episode,
    Reward,
    Struct,
    TaskGraph,
    World,
    boolean,
    function,
    i8,
    i32,
    system,
)
from torch_batchsim.math import clamp

from .common import RAMPING, STEP_X, STEP_Y, Action, Choice, MinAtar, Move, View, clear, limit, moves, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.LEFT, Action.UP, Action.RIGHT, Action.DOWN, Action.FIRE)
MOVES = moves(USED)
OXYGEN = 200  # steps
DIVERS_EVERY, DIVERS_MOVE = 30, 5
RELOAD, TORPEDOES_EVERY = 5, 10
MOST_DIVERS = 6
# Enemies that come in every step move every third one, so 30 are there at most, and in ten steps, the life of a shot,
# 40 of them shoot at most once.
CAPACITY = 48
KINDS = 5
FISH, SUBS, TORPEDOES, BULLETS, DIVERS = range(KINDS)  # torpedoes of enemies, bullets of the player


class Thing(Struct):
    x: i8
    y: i8
    right: boolean  # moves to the right
    wait: i8  # steps until it moves
    load: i8  # steps until it shoots


class Sea(Component):
    """Of each kind a list. The first things of all kinds lie together, since most lists are short."""

    count: i32[KINDS]
    things: Annotated[Thing, CAPACITY, KINDS]


class Sub(Component):  # the player's
    x: i32
    y: i32
    right: boolean  # faces to the right
    wait: i32  # steps until it can shoot
    oxygen: i32
    divers: i32
    surfaced: boolean


class Clock(Component):  # steps
    enemy: i32  # until one comes
    diver: i32
    enemy_every: i32
    move_every: i32  # less one
    level: i32


class Arrivals(Component):  # what chance has drawn of the last enemy and the last diver
    right: boolean
    sub: boolean
    row: i32
    diver_right: boolean
    diver_row: i32


@system
def begin(world: World, sub: Sub, clock: Clock):
    sub.x = 5
    sub.oxygen = OXYGEN
    sub.surfaced = True
    clock.enemy = 20
    clock.enemy_every = 20
    clock.diver = DIVERS_EVERY
    clock.move_every = 5


# ---- lists ---------------------------------------------------------------------------------------------------------


@function
def add(world: World, sea: Sea, kind: int, thing: Thing):
    if sea.count[kind] < CAPACITY:
        sea.things[sea.count[kind], kind] = thing
        sea.count[kind] += 1
    else:
        world.fail("full", sea.count[kind])


@function
def take_out(sea: Sea, kind: int, i: int):
    sea.count[kind] -= 1
    for j in range(i, sea.count[kind]):
        sea.things[j, kind] = sea.things[j + 1, kind]


@function
def take_out_like(sea: Sea, kind: int, i: int) -> int:
    """Take out the first thing that equals thing i; returns where it was."""
    x, y, right = sea.things[i, kind].x, sea.things[i, kind].y, sea.things[i, kind].right
    wait, load = sea.things[i, kind].wait, sea.things[i, kind].load
    first = 0
    while first < i and not (
        sea.things[first, kind].x == x
        and sea.things[first, kind].y == y
        and sea.things[first, kind].right == right
        and sea.things[first, kind].wait == wait
        and sea.things[first, kind].load == load
    ):
        first += 1
    take_out(sea, kind, first)
    return first


@function
def first_at(sea: Sea, kind: int, x: int, y: int) -> int:
    """The place of the first thing in a cell, -1 without one."""
    for i in range(sea.count[kind]):
        if sea.things[i, kind].x == x and sea.things[i, kind].y == y:
            return i
    return -1


@function
def opposes(sea: Sea, kind: int, row: int, right: bool) -> bool:
    """Whether a thing in the row moves the other way."""
    found = False
    for i in range(sea.count[kind]):
        found = found or (sea.things[i, kind].y == row and sea.things[i, kind].right != right)
    return found


@function
def advance(sea: Sea, kind: int, i: int):
    sea.things[i, kind].x += 1 if sea.things[i, kind].right else -1


@function
def is_out(x: int) -> bool:
    return x < 0 or x > 9


# ---- rules ---------------------------------------------------------------------------------------------------------


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, MOVES[i32(world.parameters.minimal_actions)][choice.action])


@system
def spawn(world: World, sea: Sea, clock: Clock, arrivals: Arrivals):
    if clock.enemy == 0:
        clock.enemy = clock.enemy_every
        right = world.random.chance(0.5)
        arrivals.right = right
        arrivals.sub = world.random.chance(1 / 3)
        arrivals.row = world.random.integer(1, 8)
        row = arrivals.row
        if not opposes(sea, SUBS, row, right) and not opposes(sea, FISH, row, right):
            x = 0 if right else 9
            if arrivals.sub:
                add(world, sea, SUBS, Thing(x=x, y=row, right=right, wait=clock.move_every, load=TORPEDOES_EVERY))
            else:
                add(world, sea, FISH, Thing(x=x, y=row, right=right, wait=clock.move_every))
    if clock.diver == 0:
        clock.diver = DIVERS_EVERY
        arrivals.diver_right = world.random.chance(0.5)
        arrivals.diver_row = world.random.integer(1, 8)
        start = 0 if arrivals.diver_right else 9
        diver = Thing(x=start, y=arrivals.diver_row, right=arrivals.diver_right, wait=DIVERS_MOVE)
        add(world, sea, DIVERS, diver)
    clock.enemy = max(clock.enemy - 1, 0)
    clock.diver = max(clock.diver - 1, 0)


@system
def steer(world: World, move: Move, sub: Sub, sea: Sea):
    if move.action == Action.FIRE and sub.wait == 0:
        add(world, sea, BULLETS, Thing(x=sub.x, y=sub.y, right=sub.right))
        sub.wait = RELOAD
    x_step = STEP_X[move.action]
    sub.x = clamp(sub.x + x_step, 0, 9)
    sub.right = x_step > 0 if x_step != 0 else sub.right
    sub.y = clamp(sub.y + STEP_Y[move.action], 0, 8)
    sub.wait = max(sub.wait - 1, 0)


@system
def fly(world: World, sea: Sea, reward: Reward):
    """The player's bullets, the last first."""
    for i in range(sea.count[BULLETS] - 1, -1, -1):
        advance(sea, BULLETS, i)
        x, y = i32(sea.things[i, BULLETS].x), i32(sea.things[i, BULLETS].y)
        gone = is_out(x)
        if not gone:
            fish = first_at(sea, FISH, x, y)
            if fish >= 0:
                take_out(sea, FISH, fish)
            else:
                enemy = first_at(sea, SUBS, x, y)
                if enemy >= 0:
                    take_out(sea, SUBS, enemy)
                gone = enemy >= 0
            gone = gone or fish >= 0
            reward.value += gone
        if gone:
            take_out_like(sea, BULLETS, i)


@function
def rescues(sea: Sea, sub: Sub, i: int) -> bool:
    return sea.things[i, DIVERS].x == sub.x and sea.things[i, DIVERS].y == sub.y and sub.divers < MOST_DIVERS


@system
def drift(world: World, sea: Sea, sub: Sub):
    for i in range(sea.count[DIVERS] - 1, -1, -1):
        saved = rescues(sea, sub, i)
        gone = saved
        if not saved:
            if sea.things[i, DIVERS].wait == 0:
                sea.things[i, DIVERS].wait = DIVERS_MOVE
                advance(sea, DIVERS, i)
                saved = rescues(sea, sub, i)
                gone = saved or is_out(sea.things[i, DIVERS].x)
            else:
                sea.things[i, DIVERS].wait -= 1
        if gone:
            take_out_like(sea, DIVERS, i)
        sub.divers += saved


@function
def swim(sea: Sea, kind: int, i: int, sub: Sub, clock: Clock, reward: Reward, episode: Episode) -> int:
    """Move an enemy when it is time; returns which place of the list went, or -1."""
    if sea.things[i, kind].x == sub.x and sea.things[i, kind].y == sub.y:
        episode.terminated = True
    if sea.things[i, kind].wait > 0:
        sea.things[i, kind].wait -= 1
        return -1
    sea.things[i, kind].wait = clock.move_every
    advance(sea, kind, i)
    x, y = i32(sea.things[i, kind].x), i32(sea.things[i, kind].y)
    if is_out(x):
        return take_out_like(sea, kind, i)
    if x == sub.x and y == sub.y:
        episode.terminated = True
        return -1
    bullet = first_at(sea, BULLETS, x, y)
    if bullet < 0:
        return -1
    take_out(sea, BULLETS, bullet)
    reward.value += 1
    return take_out_like(sea, kind, i)


@system
def swim_subs(world: World, sea: Sea, sub: Sub, clock: Clock, reward: Reward, episode: Episode):
    for i in range(sea.count[SUBS] - 1, -1, -1):
        load = i32(sea.things[i, SUBS].load)
        right = sea.things[i, SUBS].right
        y = i32(sea.things[i, SUBS].y)
        moves = sea.things[i, SUBS].wait == 0
        x = sea.things[i, SUBS].x + (0 if not moves else 1 if right else -1)
        gone = swim(sea, SUBS, i, sub, clock, reward, episode)
        if load == 0:  # also where it has just gone
            add(world, sea, TORPEDOES, Thing(x=x, y=y, right=right))
        if gone != i:
            place = i if gone < 0 else i - 1
            sea.things[place, SUBS].load = TORPEDOES_EVERY if load == 0 else load - 1


@system
def run_torpedoes(world: World, sea: Sea, sub: Sub, episode: Episode):
    for i in range(sea.count[TORPEDOES] - 1, -1, -1):
        if sea.things[i, TORPEDOES].y == sub.y and sea.things[i, TORPEDOES].x == sub.x:
            episode.terminated = True
        advance(sea, TORPEDOES, i)
        if is_out(sea.things[i, TORPEDOES].x):
            take_out_like(sea, TORPEDOES, i)
        elif sea.things[i, TORPEDOES].y == sub.y and sea.things[i, TORPEDOES].x == sub.x:
            episode.terminated = True


@system
def swim_fish(world: World, sea: Sea, sub: Sub, clock: Clock, reward: Reward, episode: Episode):
    for i in range(sea.count[FISH] - 1, -1, -1):
        swim(sea, FISH, i, sub, clock, reward, episode)


@system
def breathe(world: World, sub: Sub, clock: Clock, reward: Reward, episode: Episode):
    if sub.oxygen <= 0:
        episode.terminated = True
    if sub.y > 0:
        sub.oxygen -= 1
        sub.surfaced = False
    elif not sub.surfaced:
        if sub.divers == 0:
            episode.terminated = True
        else:
            sub.surfaced = True
            if sub.divers == MOST_DIVERS:
                sub.divers = 0
                reward.value += sub.oxygen * 10 // OXYGEN
            sub.oxygen = OXYGEN
            sub.divers -= 1
            if world.parameters.difficulty_ramping:
                if clock.move_every > 2 and clock.level % 2 == 1:
                    clock.move_every -= 1
                if clock.enemy_every > 1:
                    clock.enemy_every -= 1
                clock.level += 1


# ---- the view ------------------------------------------------------------------------------------------------------


@function
def show(view: View, sea: Sea, kind: int, channel: int):
    for i in range(sea.count[kind]):
        view.cells[sea.things[i, kind].y, sea.things[i, kind].x, channel] = 1


@function
def show_with_trails(view: View, sea: Sea, kind: int, channel: int):
    for i in range(sea.count[kind]):
        x, y = i32(sea.things[i, kind].x), i32(sea.things[i, kind].y)
        view.cells[y, x, channel] = 1
        behind = x - (1 if sea.things[i, kind].right else -1)
        if not is_out(behind):
            view.cells[y, behind, 3] = 1


@system
def look(world: World, sea: Sea, sub: Sub, view: View):
    clear(world, view)
    view.cells[sub.y, sub.x, 0] = 1
    view.cells[sub.y, sub.x - 1 if sub.right else sub.x + 1, 1] = 1
    show(view, sea, BULLETS, 2)
    show(view, sea, TORPEDOES, 4)
    show_with_trails(view, sea, FISH, 5)
    show_with_trails(view, sea, SUBS, 6)
    show_with_trails(view, sea, DIVERS, 9)
    oxygen = max(sub.oxygen, 0) * 10 // OXYGEN
    for x in range(10):  # always as many, so that no branch is mispredicted
        view.cells[9, x, 7] = x < oxygen
        view.cells[9, x, 8] = (x >= 9 - sub.divers) & (x < 9)


class Seaquest(MinAtar):
    channels = (
        "sub_front", "sub_back", "friendly_bullet", "trail", "enemy_bullet", "enemy_fish", "enemy_sub", "oxygen_gauge",
        "diver_gauge", "diver",
    )  # fmt: skip
    used = USED
    parameters = RAMPING
    parts = (Sea, Sub, Clock, Arrivals)
    start = TaskGraph(begin)
    step = TaskGraph(decide, spawn, steer, fly, drift, swim_subs, run_torpedoes, swim_fish, breathe, limit)
    look = look
    faults = ("full",)
    training = TRAINING["seaquest"]
    sweep = SWEEP
