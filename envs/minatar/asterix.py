"""Asterix: a player collects gold and keeps away from enemies.

Enemies and gold come in at the left or right edge, into one of the rows 1 .. 8 that is empty, and cross it. A thing is
gold with a chance of a third. While ``difficulty_ramping`` is on, things come and move more often every 102 steps.

Reward: 1 for each piece of gold. Start: the player at (5, 5), no things.
End: terminated when an enemy touches the player.
"""

from __future__ import annotations

from torch_batchsim import Component, Episode, Reward, TaskGraph, World, boolean, function, i32, system
from torch_batchsim.math import clamp

from .common import RAMPING, STEP_X, STEP_Y, Action, Choice, MinAtar, Move, View, clear, limit, moves, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.LEFT, Action.UP, Action.RIGHT, Action.DOWN)
MOVES = moves(USED)
RAMP = 100  # steps
NONE, ENEMY, GOLD = 0, 1, 2


class Player(Component):
    x: i32
    y: i32


class Things(Component):  # thing i is in row i + 1
    kind: i32[8]  # where it is NONE, x and last_x are equal
    x: i32[8]
    last_x: i32[8]  # before its last move
    dx: i32[8]  # how it moves


class Clock(Component):  # steps
    spawn: i32  # until a thing comes
    move: i32  # until things move
    ramp: i32
    spawn_every: i32
    move_every: i32
    level: i32


class Arrival(Component):  # what chance has drawn of the last thing
    right: boolean
    gold: boolean
    place: i32  # its row, counted among the empty ones


@system
def begin(world: World, player: Player, clock: Clock):
    player.x = 5
    player.y = 5
    clock.spawn = 10
    clock.spawn_every = 10
    clock.move = 5
    clock.move_every = 5
    clock.ramp = RAMP


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, MOVES[i32(world.parameters.minimal_actions)][choice.action])


@system
def spawn(world: World, things: Things, clock: Clock, arrival: Arrival):
    if clock.spawn == 0:
        clock.spawn = clock.spawn_every
        empty = 0
        for i in range(8):
            empty += things.kind[i] == NONE
        if empty > 0:
            arrival.right = world.random.chance(0.5)
            arrival.gold = world.random.chance(1 / 3)
            arrival.place = i32(world.random.below(empty))
            place = arrival.place
            for i in range(8):
                if things.kind[i] == NONE:
                    if place == 0:
                        things.kind[i] = GOLD if arrival.gold else ENEMY
                        things.x[i] = 0 if arrival.right else 9
                        things.last_x[i] = things.x[i]
                        things.dx[i] = 1 if arrival.right else -1
                    place -= 1
    clock.spawn -= 1


@function
def touch(player: Player, things: Things, reward: Reward, episode: Episode):
    i = player.y - 1
    if (things.kind[i] != NONE) & (things.x[i] == player.x):  # one branch, which is seldom taken
        if things.kind[i] == GOLD:
            things.kind[i] = NONE
            things.last_x[i] = things.x[i]
            reward.value += 1
        else:
            episode.terminated = True


@system
def walk(world: World, move: Move, player: Player, things: Things, clock: Clock, reward: Reward, episode: Episode):
    player.x = clamp(player.x + STEP_X[move.action], 0, 9)
    player.y = clamp(player.y + STEP_Y[move.action], 1, 8)
    touch(player, things, reward, episode)
    if clock.move == 0:
        clock.move = clock.move_every
        for i in range(8):  # without branches, so that the compiler moves all at once
            x = things.x[i] + things.dx[i]
            stays = i32((things.kind[i] != NONE) & (x >= 0) & (x <= 9))
            things.kind[i] *= stays
            things.last_x[i] = things.x[i] * stays
            things.x[i] = x * stays
        touch(player, things, reward, episode)
    clock.move -= 1


@system
def ramp(world: World, clock: Clock):
    if world.parameters.difficulty_ramping and (clock.spawn_every > 1 or clock.move_every > 1):
        if clock.ramp >= 0:
            clock.ramp -= 1
        else:
            if clock.move_every > 1 and clock.level % 2 == 1:
                clock.move_every -= 1
            if clock.spawn_every > 1:
                clock.spawn_every -= 1
            clock.level += 1
            clock.ramp = RAMP


@system
def look(world: World, player: Player, things: Things, view: View):
    clear(world, view)
    view.cells[player.y, player.x, 0] = 1
    for i in range(8):  # without branches, which would be mispredicted
        x, last_x = things.x[i], things.last_x[i]
        view.cells[i + 1, x, 1] = things.kind[i] == ENEMY
        view.cells[i + 1, x, 3] = things.kind[i] == GOLD
        view.cells[i + 1, last_x, 2] = last_x != x


class Asterix(MinAtar):
    channels = ("player", "enemy", "trail", "gold")
    used = USED
    parameters = RAMPING
    parts = (Player, Things, Clock, Arrival)
    start = TaskGraph(begin)
    step = TaskGraph(decide, spawn, walk, ramp, limit)
    look = look
    training = TRAINING["asterix"]
    sweep = SWEEP
