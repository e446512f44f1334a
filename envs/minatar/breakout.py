"""Breakout: a paddle keeps a ball in play, which breaks bricks.

The ball moves diagonally by a cell in each step. Walls and bricks turn it round; the paddle sends it back up, and also
sideways where the ball comes at its edge. Of bricks that it meets in a row it breaks the first. A wall of three rows
stands anew when the ball comes down after the last brick.

Reward: 1 for each brick. Start: the ball in a corner below the wall, left or right by chance, and moving down.
End: terminated when the ball reaches the floor beside the paddle.
"""

from __future__ import annotations

from torch_batchsim import Component, Episode, Reward, TaskGraph, World, f32, i32, system, u8, u32, zeros
from torch_batchsim.math import clamp

from .common import STEP_X, Action, Choice, MinAtar, Move, View, clear, limit, moves, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.LEFT, Action.RIGHT)
MOVES = moves(USED)
WALL = (1 << 30) - 1  # all bricks: bits 0 .. 9 are the row y = 1, from the left


class Ball(Component):
    x: i32
    y: i32
    dx: i32  # -1 or 1
    dy: i32


class Trail(Component):  # where the ball was before this step
    x: i32
    y: i32


class Contact(Component):
    brick: i32  # 1 where the ball has met one in this step


class Paddle(Component):
    x: i32


class Bricks(Component):
    bits: u32


@system
def serve(world: World, ball: Ball, trail: Trail, paddle: Paddle, bricks: Bricks):
    right = world.random.chance(0.5)  # begins there
    ball.x = 9 if right else 0
    ball.y = 3
    ball.dx = -1 if right else 1
    ball.dy = 1
    trail.x, trail.y = ball.x, ball.y
    paddle.x = 4
    bricks.bits = WALL


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, MOVES[i32(world.parameters.minimal_actions)][choice.action])


@system
def steer(world: World, move: Move, paddle: Paddle):
    paddle.x = clamp(paddle.x + STEP_X[move.action], 0, 9)


@system
def fly(
    world: World, ball: Ball, trail: Trail, contact: Contact, paddle: Paddle, bricks: Bricks, reward: Reward,
    episode: Episode,
):  # fmt: skip
    """Without branches, also those of `and` and `or`, so that the compiler moves the balls of many worlds at once."""
    x = clamp(ball.x + ball.dx, 0, 9)
    y = ball.y + ball.dy
    at_floor = y == 9
    brick = u32(1) << (10 * (y - 1) + x) if (y >= 1) & (y <= 3) else u32(0)
    meets = bricks.bits & brick != 0
    breaks = meets & (contact.brick == 0)
    left = bricks.bits & ~brick if breaks else bricks.bits
    bricks.bits = WALL if at_floor & (left == 0) else left
    reward.value = f32(breaks)
    caught = at_floor & (ball.x == paddle.x)
    at_edge = at_floor & (ball.x != paddle.x) & (x == paddle.x)  # of the paddle
    episode.terminated = at_floor & (ball.x != paddle.x) & (x != paddle.x)
    back = breaks | caught | at_edge
    at_side = x != ball.x + ball.dx
    trail.x, trail.y = ball.x, ball.y
    ball.x, ball.y = x, ball.y if back else max(y, 0)
    ball.dx = -ball.dx if at_side != at_edge else ball.dx
    ball.dy = -ball.dy if back | (y < 0) else ball.dy
    contact.brick = i32(meets)


@system
def look(world: World, ball: Ball, trail: Trail, paddle: Paddle, bricks: Bricks, view: View):
    clear(world, view)
    wall = zeros(u8, 30)  # taken apart in a few wide instructions
    for k in range(30):
        wall[k] = u32(bricks.bits >> k) & 1
    for y in range(3):
        for x in range(10):
            view.cells[y + 1, x, 3] = wall[10 * y + x]
    view.cells[9, paddle.x, 0] = 1
    view.cells[ball.y, ball.x, 1] = 1
    view.cells[trail.y, trail.x, 2] = 1


class Breakout(MinAtar):
    channels = ("paddle", "ball", "trail", "brick")
    used = USED
    parts = (Ball, Trail, Contact, Paddle, Bricks)
    start = TaskGraph(serve)
    step = TaskGraph(decide, steer, fly, limit)
    look = look
    training = TRAINING["breakout"]
    sweep = SWEEP
