"""Search play that reaches rewards which end long games, for tests/envs/golden/atari: a script of actions in stages.

    python tests/oracles/search_atari_ends.py adventure

Each stage goes on from saved states, as ``search_atari_rewards.py script`` does, until its goal is met: a key that is
carried, a criminal in jail, one piece less on the board. Its cells are numbers read from RAM, whose addresses were
found by watching games; states near the goal are drawn more often, and a shorter path to a known cell replaces the
longer one. The script is written when a reward ends the last stage. ale-py must be installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from search_atari_rewards import WORLDS, Consoles

SCRIPTS = Path(__file__).parents[1] / "envs" / "golden" / "atari"
WALK, STAND, FIRE = [2, 3, 4, 5, 6, 7, 8, 9], [0], [1]

Array = np.ndarray
Rams = Callable[[Array], Array]  # of RAM [worlds, 128] as integers


@dataclass
class Stage:
    cell: Rams  # [worlds, n]
    goal: Rams  # bool [worlds]; a reward is one too
    actions: list[int]  # those named twice are drawn twice as often
    weight: Rams | None = None  # of cells [cells, n]
    longest: int = 20  # frames that an action is held
    span: int = 100  # frames that are played on from a state


def at(ram: Array, address: int) -> Array:
    return ram[:, address & 0x7F]


def columns(*parts: Array) -> Array:
    return np.stack(parts, 1)


def stages_of_adventure() -> Iterator[Stage]:
    """Yellow key, yellow castle, black key, black castle, chalice, home."""
    room, carried, chalice, key = 0x8A, 0x9D, 0x90, 0x75

    def stage(goal: Rams, wanted: int | None = None, more: tuple[int, ...] = ()) -> Stage:
        def cell(ram: Array) -> Array:
            extra = [at(ram, address) for address in more]
            return columns(at(ram, room), at(ram, 0x8B) >> 3, at(ram, 0x8C) >> 3, at(ram, carried), *extra)

        def weight(cells: Array) -> Array:
            return np.where(cells[:, 3] == wanted, 1.0, 1e-9)

        return Stage(cell, goal, WALK, weight if wanted else None, 16)

    yield stage(lambda ram: at(ram, 0xC8) != 0x1C, more=(0xC8,))
    yield stage(lambda ram: at(ram, carried) == key)
    yield stage(lambda ram: at(ram, 0xCA) != 0x1C, key)
    yield stage(lambda ram: at(ram, room) == 0x1C)
    yield stage(lambda ram: at(ram, carried) == chalice)
    yield stage(lambda ram: at(ram, room) == 0x10, chalice)
    yield stage(lambda ram: at(ram, 0xB9) == 0x12, chalice)


class Superman:
    """Addresses of the game, and facts of its RAM."""

    room, x, y, carried, free = 0x9B, 0x9C, 0x9D, 0x97, 0x84
    criminals, pieces = range(0xA3, 0xB5, 3), {0xCA: 0x2A, 0xCD: 0x30, 0xD0: 0x36}

    @staticmethod
    def place(ram: Array, *more: Array) -> Array:
        return columns(at(ram, Superman.room), at(ram, Superman.x) >> 4, at(ram, Superman.y) >> 4, *more)

    @staticmethod
    def with_him(ram: Array) -> Array:
        held = np.zeros(len(ram), int)
        for number, criminal in enumerate(Superman.criminals, 1):
            ahead = at(ram, criminal + 1) - at(ram, Superman.x)
            level = np.abs(at(ram, criminal + 2) - at(ram, Superman.y)) < 3
            held[(at(ram, criminal) == at(ram, Superman.room)) & (ahead > -9) & (ahead < 21) & level] = number
        return held

    @staticmethod
    def jailed(ram: Array) -> Array:
        return np.sum([at(ram, criminal) == 0 for criminal in Superman.criminals], 0)

    @staticmethod
    def there(ram: Array, near: int = 256) -> Array:
        """Pieces that lie in the room of the bridge, near its middle."""
        held = at(ram, Superman.carried)
        lie = [
            (at(ram, piece) == 0x18) & (np.abs(at(ram, piece + 1) - 0x48) <= near) & (held != number)
            for piece, number in Superman.pieces.items()
        ]
        return np.sum(lie, 0)

    @staticmethod
    def at_work(ram: Array, x_bits: int, y_bits: int, near: int = 256) -> Array:
        """His place without so many bits, and how far the bridge has come."""
        carried = at(ram, Superman.carried)
        place = at(ram, Superman.room), at(ram, Superman.x) >> x_bits, at(ram, Superman.y) >> y_bits
        holds_piece = np.isin(carried, list(Superman.pieces.values())).astype(int)
        return columns(*place, carried, Superman.there(ram, near), holds_piece)

    @staticmethod
    def lets_go(ram: Array, count: int, near: int = 256) -> Array:
        """Whether so many pieces lie there, and he carries nothing."""
        return (Superman.there(ram, near) >= count) & (at(ram, Superman.carried) == Superman.free)

    @staticmethod
    def whole(ram: Array) -> Array:
        return at(ram, 0xC7) == 0x18


def stages_of_bridge() -> Iterator[Stage]:
    """Three pieces to its room, then to its middle, where it stands again."""
    for count in range(1, 4):
        yield Stage(
            lambda ram: Superman.at_work(ram, 3, 3),
            lambda ram, count=count: Superman.lets_go(ram, count),  # type: ignore[misc]
            STAND * 3 + WALK,
            lambda cells, count=count: np.where(  # type: ignore[misc]
                cells[:, 4] < count - 1,
                0.01,
                np.where(cells[:, 5] > 0, 6.0, np.where(cells[:, 3] == Superman.free, 1.0, 0.1)),
            ),
            25,
        )
    for count in range(1, 4):
        yield Stage(
            lambda ram: Superman.at_work(ram, 2, 4, near=4),
            lambda ram, count=count: Superman.whole(ram) | Superman.lets_go(ram, count, near=4),  # type: ignore[misc]
            STAND * 3 + WALK,
            lambda cells, count=count: np.where(  # type: ignore[misc]
                (cells[:, 0] != 0x18) | (cells[:, 4] < count - 1), 0.01, np.where(cells[:, 5] > 0, 3.0, 1.0)
            ),
            25,
        )


def stages_of_superman() -> Iterator[Stage]:
    """The bridge falls, six criminals go to jail, three pieces to the bridge, Clark Kent to the Daily Planet."""
    yield Stage(lambda ram: Superman.place(ram, at(ram, 0xEC)), lambda ram: at(ram, 0xEC) == 0xAA, [3], span=900)
    yield Stage(Superman.place, lambda ram: (at(ram, 0x9F) & 0x40) == 0, WALK)
    for count in range(1, 7):
        yield Stage(
            lambda ram: Superman.place(ram, Superman.with_him(ram), Superman.jailed(ram)),
            lambda ram, count=count: Superman.jailed(ram) >= count,  # type: ignore[misc]
            WALK,
            lambda cells: np.where(cells[:, 3] > 0, 5.0, 0.1),
        )
    yield from stages_of_bridge()
    yield Stage(
        lambda ram: Superman.place(ram, at(ram, Superman.carried)),
        lambda ram: (at(ram, 0x9F) & 0x40) != 0,
        STAND * 3 + WALK,
        lambda cells: np.where(cells[:, 3] == Superman.free, 1.0, 0.02),
        25,
    )
    yield Stage(
        lambda ram: Superman.place(ram, at(ram, 0x9F) >> 6),
        lambda ram: np.zeros(len(ram), bool),
        STAND * 3 + WALK,
        lambda cells: np.where(cells[:, 3] & 1, 1.0, 0.02),
        25,
    )


def stages_of_video_cube() -> Iterator[Stage]:
    """A face gets the colour of its middle, tile by tile."""

    def right(ram: Array) -> Array:
        face = ram[:, 0x20:0x29]
        return (face == face[:, 4:5]).sum(1) * (face[:, 4] == 1)

    for count in range(3, 10):
        yield Stage(
            lambda ram: columns(*(at(ram, address) for address in (0xD6, 0xF3, 0xF4, 0xF7, 0xD8, 0xD9)), right(ram)),
            lambda ram, count=count: right(ram) >= count,  # type: ignore[misc]
            [0, 2, 3, 4, 5, 1],
            lambda cells, count=count: np.where(  # type: ignore[misc]
                cells[:, 6] < count - 1, 0.01, np.where(cells[:, 3] == 1, 3.0, 1.0)
            ),
            10,
            200,
        )


def stages_of_video_checkers() -> Iterator[Stage]:
    """The computer takes one piece after another."""
    squares = [address & 0x7F for address in range(0x80, 0xA3) if address % 9 != 0x88 % 9]

    def own(ram: Array) -> Array:
        return np.isin(ram[:, squares], [0x10, 0x20]).sum(1)

    for count in range(11, -1, -1):
        yield Stage(
            lambda ram: np.concatenate([ram[:, squares], ram[:, [0x64, 0x67, 0x68, 0x69]]], 1),
            lambda ram, count=count: own(ram) <= count,  # type: ignore[misc]
            [0, 0, 1, 1, 6, 7, 8, 9],
            longest=8,
            span=260,
        )


def stages_of_video_chess() -> Iterator[Stage]:
    """The computer takes one piece after another, and gives mate."""

    def own(ram: Array) -> Array:
        return ((ram[:, :64] & 8) != 0).sum(1)

    for count in range(15, -1, -1):
        yield Stage(
            lambda ram: np.concatenate([ram[:, :64] & 15, ram[:, [0x73]], ram[:, [0x5D]] >> 1], 1),
            lambda ram, count=count: (own(ram) <= count) & (at(ram, 0xF3) == 0),  # type: ignore[misc]
            [*STAND * 3, *FIRE * 2, *WALK],
            longest=8,
            span=400,
        )


def stages_of_backgammon() -> Iterator[Stage]:
    """Bears off all pieces. With difficulty 0, ale-py's unless another is chosen, the computer does not answer."""
    points = {0x87: 25, 0x95: 25, 0x8E: 40}  # pips of each; of the bars, and of the wrong way out
    for i in range(6):
        points |= {0x81 + i: 1 + i, 0x88 + i: 7 + i, 0x8F + i: 24 - i, 0x96 + i: 18 - i}
    places, pips = [address & 0x7F for address in points], np.array(list(points.values()))

    def signed(ram: Array) -> Array:
        return ram.astype(np.uint8).astype(np.int8).astype(int)

    def own(ram: Array) -> Array:
        return np.maximum(-signed(ram[:, places]), 0) @ pips

    def whole(ram: Array) -> Array:
        pieces = signed(ram[:, :0x1C])
        return (np.maximum(-pieces, 0).sum(1) == 15) & (np.maximum(pieces, 0).sum(1) == 15)

    for left in [*range(162, 19, -5), *range(19, -1, -1)]:
        yield Stage(
            lambda ram: ram[:, [*range(0x1C), 0x44, 0x45, 0x46, 0x48, 0x6F]],
            lambda ram, left=left: (own(ram) <= left) & whole(ram),  # type: ignore[misc]
            [0, 0, 1, 3, 4],
            longest=16,
            span=400,
        )


def stages_of_earthworld() -> Iterator[Stage]:
    """Rooms and what lies in them, until a clue shows."""
    yield Stage(
        lambda ram: np.concatenate([ram[:, 0x03:0x13], ram[:, [0x25, 0x26]] >> 4], 1),
        lambda ram: np.zeros(len(ram), bool),
        [0, *FIRE * 2, *WALK],
        longest=30,
        span=300,
    )


STAGES: dict[str, Callable[[], Iterator[Stage]]] = {
    "adventure": stages_of_adventure,
    "superman": stages_of_superman,
    "video_cube": stages_of_video_cube,
    "video_checkers": stages_of_video_checkers,
    "video_chess": stages_of_video_chess,
    "backgammon": stages_of_backgammon,
    "earthworld": stages_of_earthworld,
}
Node = tuple["Node | None", list[int]]  # the state before, and actions since


def actions_to(node: Node | None) -> list[int]:
    parts = []
    while node is not None:
        node, part = node
        parts.append(part)
    return [action for part in reversed(parts) for action in part]


def play_stage(
    consoles: Consoles, stage: Stage, start: list[Array], seconds: float, seed: int
) -> tuple[list[Array], list[int], float] | None:
    """The state that meets the goal, actions that lead to it, and their last reward."""
    rng, began = np.random.default_rng(seed), time.monotonic()
    for world in range(WORLDS):
        consoles.load(world, start)
    first = stage.cell(consoles.ram.astype(int))[:1]
    known, states, nodes, lengths = {first.tobytes(): 0}, [start], [(None, [])], [0]
    weights, draws = [1.0], [0]
    while time.monotonic() - began < seconds:
        chances = np.array(weights) / np.sqrt(np.array(draws) + 1)
        origins = rng.choice(len(states), WORLDS, p=chances / chances.sum())
        for world, origin in enumerate(origins):
            consoles.load(world, states[origin])
            draws[origin] += 1
        base: list[Node] = [nodes[origin] for origin in origins]
        before, since = [lengths[origin] for origin in origins], [[] for _ in range(WORLDS)]
        actions, left, over = np.zeros(WORLDS, int), np.zeros(WORLDS, int), np.zeros(WORLDS, bool)
        for frame in range(stage.span):
            ended = left == 0
            actions[ended] = rng.choice(stage.actions, ended.sum())
            left[ended] = rng.integers(1, stage.longest + 1, ended.sum())
            left -= 1
            consoles.frame(actions)
            for world, action in enumerate(actions.tolist()):
                since[world].append(action)
            ram = consoles.ram.astype(int)
            met = np.flatnonzero((stage.goal(ram) | (consoles.rewards != 0)) & ~over)
            if len(met):
                world = int(met[0])
                path = actions_to((base[world], since[world]))
                return consoles.save(world), path, float(consoles.rewards[world])
            over |= consoles.over
            if frame % 4 != 3:
                continue
            cells = stage.cell(ram)
            likely = stage.weight(cells) if stage.weight else np.ones(WORLDS)
            for world in np.flatnonzero(~over):
                cell, length = cells[world].tobytes(), before[world] + len(since[world])
                place = known.setdefault(cell, len(states))
                if place == len(states):
                    states.append([])
                    nodes.append((None, []))
                    lengths.append(0)
                    weights.append(float(likely[world]))
                    draws.append(0)
                elif length >= lengths[place] - 8:
                    continue
                base[world], before[world], since[world] = (base[world], since[world]), length, []
                states[place], nodes[place], lengths[place] = consoles.save(world), base[world], length
    return None


def find(game: str, seconds: float, seed: int) -> None:
    consoles = Consoles(game)
    state, actions = consoles.save(0), []
    for number, stage in enumerate(STAGES[game](), 1):
        reached = play_stage(consoles, stage, state, seconds, seed)
        if reached is None:
            raise SystemExit(f"{game}: stage {number} was not reached in {seconds:g} seconds")
        state, path, reward = reached
        actions += path
        print(f"stage {number}: {len(actions)} frames", flush=True)
        if reward != 0:
            runs = [f"{action}x{len(list(run))}" for action, run in groupby(actions)]
            lines, line = [], ""
            for run in runs:
                if len(line) + len(run) > 118:
                    lines, line = [*lines, line.rstrip()], ""
                line += run + " "
            (SCRIPTS / f"{game}.txt").write_text("\n".join([*lines, line.rstrip()]) + "\n")
            print(f"reward {reward:g}")
            return
    raise SystemExit(f"{game}: no reward after the last stage")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", choices=list(STAGES))
    parser.add_argument("--seconds", type=float, default=120.0, help="of a stage, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    find(given.game, given.seconds, given.seed)
