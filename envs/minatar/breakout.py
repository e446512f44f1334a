"""Breakout: a paddle keeps a ball in play, which breaks bricks.

The ball moves diagonally by a cell in each step. Walls and bricks turn it round; the paddle sends it back up, and also
sideways where the ball comes at its edge. Of bricks that it meets in a row it breaks the first. A wall of three rows
stands anew when the ball comes down after the last brick.

Reward: 1 for each brick. Start: the ball in a corner below the wall, left or right by chance, and moving down.
End: terminated when the ball reaches the floor beside the paddle.
"""

from __future__ import annotations

from torch_batchsim import Component, Episode, Reward, TaskGraph, World, boolean, i32, system, u32
from torch_batchsim.math import clamp

from .common import Action, Choice, MinAtar, Move, View, clear, limit, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.LEFT, Action.RIGHT)
WALL = (1 << 30) - 1  # all bricks: bits 0 .. 9 are the row y = 1, from the left


class Ball(Component):
    x: i32
    y: i32
    last_x: i32  # where it was before this step
    last_y: i32
    dx: i32  # -1 or 1
    dy: i32
    strikes: boolean  # has met a brick in this step


class Paddle(Component):
    x: i32


class Bricks(Component):
    bits: u32


@system
def serve(world: World, ball: Ball, paddle: Paddle, bricks: Bricks):
    right = world.random.chance(0.5)  # begins there
    ball.x = 9 if right else 0
    ball.y = 3
    ball.dx = -1 if right else 1
    ball.dy = 1
    ball.last_x, ball.last_y = ball.x, ball.y
    paddle.x = 4
    bricks.bits = WALL


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, USED[choice.action] if world.parameters.minimal_actions else choice.action)


@system
def steer(world: World, move: Move, paddle: Paddle):
    if move.action == Action.LEFT:
        paddle.x = max(paddle.x - 1, 0)
    elif move.action == Action.RIGHT:
        paddle.x = min(paddle.x + 1, 9)


@system
def fly(world: World, ball: Ball, paddle: Paddle, bricks: Bricks, reward: Reward, episode: Episode):
    from_x = ball.x
    from_y = ball.y
    x = from_x + ball.dx
    y = from_y + ball.dy
    if x < 0 or x > 9:
        x = clamp(x, 0, 9)
        ball.dx = -ball.dx
    brick = u32(1) << (10 * (y - 1) + x) if 1 <= y <= 3 else u32(0)
    meets = bricks.bits & brick != 0
    if y < 0:
        y = 0
        ball.dy = -ball.dy
    elif meets:
        if not ball.strikes:
            reward.value = 1
            bricks.bits &= ~brick
            y = from_y
            ball.dy = -ball.dy
    elif y == 9:
        if bricks.bits == 0:
            bricks.bits = WALL
        if from_x == paddle.x:
            y = from_y
            ball.dy = -ball.dy
        elif x == paddle.x:
            y = from_y
            ball.dx = -ball.dx
            ball.dy = -ball.dy
        else:
            episode.terminated = True
    ball.strikes = meets
    ball.last_x, ball.last_y = from_x, from_y
    ball.x, ball.y = x, y


@system
def look(world: World, ball: Ball, paddle: Paddle, bricks: Bricks, view: View):
    clear(world, view)
    for y in range(3):
        for x in range(10):
            view.cells[y + 1, x, 3] = u32(bricks.bits >> (10 * y + x)) & 1
    view.cells[9, paddle.x, 0] = 1
    view.cells[ball.y, ball.x, 1] = 1
    view.cells[ball.last_y, ball.last_x, 2] = 1


class Breakout(MinAtar):
    channels = ("paddle", "ball", "trail", "brick")
    used = USED
    parts = (Ball, Paddle, Bricks)
    start = TaskGraph(serve)
    step = TaskGraph(decide, steer, fly, limit)
    look = look
    training = TRAINING["breakout"]
    sweep = SWEEP
