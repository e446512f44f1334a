"""Freeway: a chicken crosses eight lanes of cars.

The chicken stands in the column x = 4 and moves up or down, at most every third step. A car that touches it puts it
back to the lower edge. Cars leave at one edge and come in at the other; a car of speed 1 moves in every second step,
one of speed 5 in every sixth.

Reward: 1 for each time that it reaches the upper edge; then it is back at the lower one, and all cars get new speeds
and directions. Start: cars at the left edge with drawn speeds and directions.
End: terminated after 2,501 steps.
"""

from __future__ import annotations

from torch_batchsim import Component, Episode, Reward, TaskGraph, World, function, i32, system
from torch_batchsim.math import clamp

from .common import Action, Choice, MinAtar, Move, View, clear, limit, moves, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.UP, Action.DOWN)
MOVES = moves(USED)
PACE = 3  # steps from a move of the chicken to the next
LAST_STEP = 2501
COLUMN = 4


class Chicken(Component):
    y: i32
    wait: i32  # steps until it can move


class Cars(Component):  # car i drives in row i + 1
    x: i32[8]
    wait: i32[8]
    speed: i32[8]  # -5 .. 5 without 0: steps that it waits between two moves; below 0 to the left


@function
def draw_speeds(world: World, cars: Cars):
    for i in range(8):
        speed = world.random.integer(1, 5)
        cars.wait[i] = speed
        cars.speed[i] = -speed if world.random.chance(0.5) else speed


@system
def line_up(world: World, chicken: Chicken, cars: Cars):
    chicken.y = 9
    chicken.wait = PACE
    draw_speeds(world, cars)


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, MOVES[i32(world.parameters.minimal_actions)][choice.action])


@system
def walk(world: World, move: Move, chicken: Chicken, cars: Cars, reward: Reward):
    if chicken.wait == 0:
        if move.action == Action.UP:
            chicken.wait = PACE
            chicken.y = max(chicken.y - 1, 0)
        elif move.action == Action.DOWN:
            chicken.wait = PACE
            chicken.y = min(chicken.y + 1, 9)
    if chicken.y == 0:
        reward.value = 1
        chicken.y = 9
        draw_speeds(world, cars)
    chicken.wait = max(chicken.wait - 1, 0)


@function
def touched(chicken: Chicken, cars: Cars) -> bool:
    return 1 <= chicken.y <= 8 and cars.x[clamp(chicken.y - 1, 0, 7)] == COLUMN


@system
def drive(world: World, chicken: Chicken, cars: Cars, episode: Episode):
    hit = touched(chicken, cars)
    for i in range(8):  # without branches, so that the compiler moves all at once
        speed = cars.speed[i]
        moves = cars.wait[i] == 0
        x = cars.x[i] + (1 if speed > 0 else -1)
        x = 9 if x < 0 else x
        x = 0 if x > 9 else x
        cars.x[i] = x if moves else cars.x[i]
        cars.wait[i] = abs(speed) if moves else cars.wait[i] - 1
    if hit or touched(chicken, cars):
        chicken.y = 9
    episode.terminated = episode.step >= LAST_STEP


@system
def look(world: World, chicken: Chicken, cars: Cars, view: View):
    clear(world, view)
    view.cells[chicken.y, COLUMN, 0] = 1
    for i in range(8):
        x, speed = cars.x[i], cars.speed[i]
        behind = x - 1 if speed > 0 else x + 1
        view.cells[i + 1, x, 1] = 1
        view.cells[i + 1, 9 if behind < 0 else 0 if behind > 9 else behind, 1 + abs(speed)] = 1


class Freeway(MinAtar):
    channels = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
    used = USED
    parts = (Chicken, Cars)
    start = TaskGraph(line_up)
    step = TaskGraph(decide, walk, drive, limit)
    look = look
    training = TRAINING["freeway"]
    sweep = SWEEP
