"""Space Invaders: a cannon shoots at a block of aliens.

The block moves sideways; where it would leave the grid it moves a row down and turns round. It is the faster the fewer
aliens are left. One of the aliens nearest to the cannon's column shoots every tenth step. Where all are shot the next
block comes, which is faster while ``difficulty_ramping`` is on.

Reward: 1 for each alien. Start: the cannon at x = 5, 24 aliens in four rows.
End: terminated when a shot or an alien meets the cannon, or aliens would leave the lowest row.
"""

from __future__ import annotations

from torch_batchsim import Component, Episode, Reward, TaskGraph, World, function, i32, system
from torch_batchsim.math import clamp

from .common import RAMPING, STEP_X, Action, Choice, MinAtar, Move, View, clear, limit, moves, stick
from .training import SWEEP, TRAINING

USED = (Action.NOTHING, Action.LEFT, Action.RIGHT, Action.FIRE)
MOVES = moves(USED)
RELOAD = 5  # steps from a shot of the cannon to the next
SHOTS_EVERY = 10  # steps
BLOCK_ROWS, BLOCK = 4, 0b0011111100  # what stands in each of its rows
BLOCK_SIZE = 24


class Cannon(Component):
    x: i32
    wait: i32  # steps until it is loaded


class Aliens(Component):
    rows: i32[10]  # bit x: an alien is there
    count: i32
    direction: i32  # -1 or 1
    wait: i32  # steps until they move
    slowest: i32  # what it is at most
    load: i32  # steps until one shoots


class Shots(Component):
    up: i32[10]  # the cannon's; bit x of row y
    down: i32[10]


@function
def line_up(aliens: Aliens):
    for y in range(BLOCK_ROWS):
        aliens.rows[y] = BLOCK
    aliens.count = BLOCK_SIZE


@system
def begin(world: World, cannon: Cannon, aliens: Aliens):
    cannon.x = 5
    line_up(aliens)
    aliens.direction = -1
    aliens.slowest = 12
    aliens.wait = 12
    aliens.load = SHOTS_EVERY


@system
def decide(world: World, choice: Choice, move: Move):
    stick(world, move, MOVES[i32(world.parameters.minimal_actions)][choice.action])


@system
def steer(world: World, move: Move, cannon: Cannon, shots: Shots):
    if move.action == Action.FIRE and cannon.wait == 0:
        shots.up[9] |= 1 << cannon.x
        cannon.wait = RELOAD
    cannon.x = clamp(cannon.x + STEP_X[move.action], 0, 9)
    cannon.wait = max(cannon.wait - 1, 0)


@system
def fly(world: World, cannon: Cannon, shots: Shots, episode: Episode):
    for y in range(9):
        shots.up[y] = shots.up[y + 1]
    shots.up[9] = 0
    for y in range(9, 0, -1):
        shots.down[y] = shots.down[y - 1]
    shots.down[0] = 0
    if shots.down[9] >> cannon.x & 1 != 0:
        episode.terminated = True


@system
def march(world: World, cannon: Cannon, aliens: Aliens, episode: Episode):
    if aliens.rows[9] >> cannon.x & 1 != 0:
        episode.terminated = True
    if aliens.wait == 0:
        aliens.wait = min(aliens.count, aliens.slowest)
        columns = 0
        for y in range(10):
            columns |= aliens.rows[y]
        if columns & (1 if aliens.direction < 0 else 1 << 9) != 0:
            aliens.direction = -aliens.direction
            lowest = aliens.rows[9]
            if lowest != 0:
                episode.terminated = True
            for y in range(9, 0, -1):
                aliens.rows[y] = aliens.rows[y - 1]
            aliens.rows[0] = lowest  # as in the original, in the last observation of an episode
        else:
            for y in range(10):
                aliens.rows[y] = aliens.rows[y] >> 1 if aliens.direction < 0 else aliens.rows[y] << 1
        if aliens.rows[9] >> cannon.x & 1 != 0:
            episode.terminated = True
    aliens.wait -= 1


@function
def nearest_column(aliens: Aliens, x: int) -> int:
    """The column with aliens nearest to x, of two the left one; -1 without aliens."""
    columns = 0
    for y in range(10):
        columns |= aliens.rows[y]
    for distance in range(10):
        left, right = x - distance, x + distance
        if left >= 0 and columns >> left & 1 != 0:
            return left
        if right <= 9 and columns >> right & 1 != 0:
            return right
    return -1


@system
def shoot(world: World, cannon: Cannon, aliens: Aliens, shots: Shots):
    if aliens.load == 0:
        aliens.load = SHOTS_EVERY
        x = nearest_column(aliens, cannon.x)
        if x >= 0:
            lowest = 9
            while lowest > 0 and aliens.rows[lowest] >> x & 1 == 0:
                lowest -= 1
            shots.down[lowest] |= 1 << x
    aliens.load -= 1


@system
def hit(world: World, aliens: Aliens, shots: Shots, reward: Reward):
    met = 0
    for y in range(10):
        met |= aliens.rows[y] & shots.up[y]
    if met == 0:
        return
    hits = 0
    for y in range(10):
        both = aliens.rows[y] & shots.up[y]
        aliens.rows[y] ^= both
        shots.up[y] ^= both
        while both != 0:
            both &= both - 1
            hits += 1
    reward.value = hits
    aliens.count -= hits
    if aliens.count == 0:
        if world.parameters.difficulty_ramping and aliens.slowest > 6:
            aliens.slowest -= 1
        line_up(aliens)


@system
def look(world: World, cannon: Cannon, aliens: Aliens, shots: Shots, view: View):
    clear(world, view)
    moving = 2 if aliens.direction < 0 else 3
    for y in range(10):
        row, up, down = aliens.rows[y], shots.up[y], shots.down[y]
        if row != 0:
            for x in range(10):
                alien = row >> x & 1
                view.cells[y, x, 1] = alien
                view.cells[y, x, moving] = alien
        if up | down != 0:
            for x in range(10):
                view.cells[y, x, 4] = up >> x & 1
                view.cells[y, x, 5] = down >> x & 1
    view.cells[9, cannon.x, 0] = 1


class SpaceInvaders(MinAtar):
    channels = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    used = USED
    parameters = RAMPING
    parts = (Cannon, Aliens, Shots)
    start = TaskGraph(begin)
    step = TaskGraph(decide, steer, fly, march, shoot, hit, limit)
    look = look
    training = TRAINING["space_invaders"]
    sweep = SWEEP
