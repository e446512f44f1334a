from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Constants, Environment, Option, Parameters, Reward, Struct, TaskGraph, component
from torch_batchsim import i8, i16, i32, u8, u16, u32, boolean, between

from .games import GAMES, Action, game as game_of
from .roms import read_rom

MAPPERS = {"2K": 0, "4K": 0, "F8": 1, "F8SC": 1, "F6": 2, "F6SC": 2, "E0": 3, "FE": 4, "DPC": 5}
START_GAME, START_MODE, START_END = 32, 33, 34
DRAWS = 8192


class Cpu(Component):
    cycle: i32  # since the frame began
    pc: u16
    a: u8
    x: u8
    y: u8
    sp: u8
    flags: u8


class Ram(Component):
    bytes: u8[128]


class Riot(Component):
    set: i32  # the cycle at which the timer was written
    late_cycle: i32  # at which it was first read after its expiry
    value: u8
    shift: u8
    late: u8
    direction: u8


class Tia(Component):
    frame: i32  # the clock at which the frame began
    last: i32  # the clock up to which the beam has drawn
    sync_end: i32
    moved: i32  # the clock of the last HMOVE
    dump_end: i32  # a cycle
    paddle: i32  # ohms
    collisions: u16
    lines: u16  # of the last frame
    left: u8  # clocks to the end of the line
    line: u8  # of the picture
    picture: u8  # which one is drawn
    unfinished: u8  # the last frame did not end by itself
    blanked: u8
    dumped: u8
    comb: u8
    mirrored: u8
    control: u8
    star: u8
    star_phase: u8
    star_shape: u8
    ball_on: u8
    ball_delayed: u8
    colors: u8[4]
    playfield: u8[3]
    copies: u8[2]
    reflected: u8[2]
    graphics: u8[2]
    delayed: u8[2]
    missile_on: u8[2]
    locked: u8[2]
    skip_first: u8[2]
    vertical_delay: u8[3]
    motion: u8[5]
    x: u8[6]


class Cartridge(Component):
    slices: u8[4]


class CartridgeRam(Component):
    bytes: u8[128]


class Resets(Component):
    count: i32
    draws: i32


class GameFacts(Struct):
    first_line: i32
    lines: i32
    most_turn: i32
    mapper: u8
    extra_ram: boolean
    pal: boolean
    comb: boolean
    left_paddles: boolean
    right_paddles: boolean
    swapped_paddles: u8
    swapped_ports: boolean
    shown_at: u8
    difficulty: u8
    native_difficulty: u8


class Choice(Component):
    action: i32 = between(0, 17)


class View(Component):
    bytes: u8[128]


def mt19937(count: int, seed: int = 4753849) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 2**32, count, np.uint32)


class Atari(Environment):
    systems = "systems.h"
    constants = Constants(game=Option("pong"), start=Option("ale", choices=("ale", "noop", "cached")))
    singletons = (Cpu, Ram, Riot, Tia, Cartridge, CartridgeRam, Resets)
    kept = (Ram, Resets)
    start = TaskGraph("begin")
    step = TaskGraph("run")
    observe = TaskGraph("look")
    observation, action = "Console.View", "Console.Choice"
    action_space = Discrete(18)
    faults = ("instruction_halts",)
    archetypes = (Archetype("Console", Choice, View, Reward, count=1),)

    def __init__(self, game: str = "pong", **options: Any) -> None:
        super().__init__(game=str(game), **options)
        names = (game,) if isinstance(game, str) else tuple(game)
        self.games = tuple(game_of(name) for name in names)
        self.add_constants(games=len(self.games), draws=DRAWS, lines=max(g.lines for g in self.games), rom=16384)

    @cached_property
    def resources(self):
        n = len(self.games)
        return [
            component("Games", facts=GameFacts[n]),
            component("Roms", bytes=u8[n, 16384]),
            component("Starts", what=u8[n, 64], frames=u16[n, 64]),
            component("Generator", draws=u32[DRAWS]),
        ]

    def resource_values(self):
        facts: dict[str, list] = {}
        roms, what, frames = [], [], []
        for g in self.games:
            for key, value in dict(
                first_line=g.ystart, lines=g.lines, most_turn=g.most_turn, mapper=MAPPERS[g.mapper],
                extra_ram=g.cartridge_ram, pal=g.pal, comb=g.comb, left_paddles=g.paddles != "",
                right_paddles=g.paddles == "both", swapped_paddles=g.swapped_paddles, swapped_ports=g.swapped_ports,
                shown_at=g.shown_at, difficulty=0, native_difficulty=3 if g.name == "amidar" else 0,
            ).items():
                facts.setdefault(f"Games.facts.{key}", []).append(value)
            rom = np.frombuffer(read_rom(g.name), np.uint8)
            full = np.zeros(16384, np.uint8)
            full[: len(rom)] = rom
            if len(rom) == 2048:
                full[2048:4096] = rom
            roms.append(full)
            script = [(0, 60), (18, 4), (START_GAME, 0)]
            script += [(int(a), 1) for a in g.before_actions]
            if len(g.modes) > 1 or g.shown_at:
                script += [(START_MODE, g.shown_mode(g.modes[0]) | g.presses << 8), (18, 4)]
            script += [(18, 4)]
            acts = [int(a) for a in g.start_actions]
            while acts:
                k = 1
                while k < len(acts) and acts[k] == acts[0]:
                    k += 1
                script.append((acts[0], k))
                acts = acts[k:]
            script += [(START_END, 0)]
            script += [(START_END, 0)] * (64 - len(script))
            what.append([s[0] for s in script])
            frames.append([s[1] for s in script])
        return {
            **{k: np.array(v) for k, v in facts.items()},
            "Roms.bytes": np.stack(roms), "Starts.what": np.array(what, np.uint8),
            "Starts.frames": np.array(frames, np.uint16), "Generator.draws": mt19937(DRAWS),
        }
