from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Constants, Environment, Option, Parameters, Reward, Struct, TaskGraph, component
from torch_batchsim import i8, i16, i32, u8, u16, u32, boolean, between

from .games import Action, Title, game as game_of
from .rules import Game, games_constants
from .roms import read_rom

MAPPERS = {"2K": 0, "4K": 0, "F8": 1, "F8SC": 1, "F6": 2, "F6SC": 2, "E0": 3, "FE": 4, "DPC": 5}
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
    draws_all: u8  # pictures of the last step had less lines than the screen
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


class Past(Component):  # of all episodes of a world
    episodes: i32
    draws: i32  # of ale-py's generator


class Session(Component):
    frames: i32  # of this episode
    lives: i16
    action: u8  # that of the last frame
    goes_on: boolean  # the episode has ended with a life, and the game has not


class Plug(Struct):  # what a console must know of its game
    first_line: i32
    lines: i32
    most_turn: i32
    mode: i32
    shown_at: u8
    presses: u8
    title: u8
    mapper: u8
    extra_ram: boolean
    pal: boolean
    comb: boolean
    left_paddles: boolean
    right_paddles: boolean
    swapped_paddles: u8
    swapped_ports: boolean
    has_modes: boolean
    fires: boolean
    difficulty: u8
    difficulty_of_rom: u8
    actions: u8[18]


class Before(Struct):
    count: u32
    actions: u8[28]


class After(Struct):
    count: u32
    actions: u8[8]
    frames: i16[8]


class Choice(Component):
    action: i32 = between(0, 17)


class View(Component):
    bytes: u8[128]


def mt19937(count: int, seed: int = 4753849) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 2**32, count, np.uint32)


class Atari(Environment):
    systems = "systems.h"
    constants = Constants(
        game=Option("pong"),
        obs=Option("ram", choices=("ram",)),
        start=Option("noop", choices=("ale", "noop", "cached")),
        frame_skip=Option(4, minimum=1, maximum=64),
        full_action_set=Option(False),
    )
    parameters = Parameters(
        sticky_actions=Option(0.0, minimum=0.0, maximum=1.0),
        noop_max=Option(30, minimum=0),
        fire_at_reset=Option(True),
        episodic_life=Option(False),
        clip_rewards=Option(False),
        max_episode_frames=Option(108_000, minimum=1),
    )
    enums = (Title,)
    start = TaskGraph("begin")
    step = TaskGraph("play")
    observe = TaskGraph("look_at_ram")
    observation, action = "Console.View", "Console.Choice"
    faults = ("instruction_halts",)

    def __init__(self, game: str | Sequence[str] = "pong", mode=None, difficulty=None, rom=None, pictures=False, **options: Any) -> None:
        names = (game,) if isinstance(game, str) else tuple(game)
        super().__init__(game=", ".join(names), **options)
        self.games = tuple(game_of(name) for name in names)
        self.modes = tuple(one.checked_mode(mode) for one in self.games)
        self.difficulties = tuple(one.checked_difficulty(difficulty) for one in self.games)
        self.rom = rom
        self.add_constants(
            games=len(self.games), draws=DRAWS, lines=max(g.lines for g in self.games),
            start_of_ale=self.constants.start == "ale", pictures=bool(pictures), **games_constants(self.games),
        )

    @property
    def singletons(self):
        shape = (2, self.constants.lines, 160) if self.constants.pictures else (1, 1, 1)
        return [Cpu, Ram, Riot, Tia, Cartridge, CartridgeRam, Game, Past, Session, self.picture]

    @cached_property
    def picture(self):
        return component("Picture", pixels=u8[(2, self.constants.lines, 160) if self.constants.pictures else (1, 1, 1)])

    @property
    def kept(self):
        return self.singletons  # all that goes on after a lost life

    @property
    def archetypes(self):
        return [Archetype("Console", Choice, View, Reward, count=1)]

    @cached_property
    def actions(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(map(int, g.legal_actions if self.constants.full_action_set else g.minimal_actions)) for g in self.games)

    @property
    def action_space(self):
        return Discrete(max(18 if self.constants.full_action_set else len(a) for a in self.actions))

    @cached_property
    def resources(self):
        n = len(self.games)
        return [
            component("Plugs", games=Plug[n]),
            component("Roms", bytes=u8[n, 16384]),
            component("Starts", before=Before[n], after=After[n]),
            component("Generator", draws=u32[DRAWS]),
        ]

    def _plug(self, i: int) -> dict[str, Any]:
        g = self.games[i]
        actions = [a if a in self.actions[i] else 0 for a in range(18)] if self.constants.full_action_set else [*self.actions[i]]
        return dict(
            first_line=g.ystart, lines=g.lines, most_turn=g.most_turn, mode=g.shown_mode(self.modes[i]), shown_at=g.shown_at,
            presses=g.presses, title=int(g.title), mapper=MAPPERS[g.mapper], extra_ram=g.cartridge_ram, pal=g.pal, comb=g.comb,
            left_paddles=g.paddles != "", right_paddles=g.paddles == "both", swapped_paddles=g.swapped_paddles,
            swapped_ports=g.swapped_ports, has_modes=g.shown_at != 0 or len(g.modes) > 1, fires=Action.FIRE in g.minimal_actions,
            difficulty=self.difficulties[i], difficulty_of_rom=3 if g.name == "amidar" else 0,
            actions=actions + [0] * (18 - len(actions)),
        )

    def resource_values(self):
        plugs = [self._plug(i) for i in range(len(self.games))]
        return {
            **{f"Plugs.games.{key}": np.array([plug[key] for plug in plugs]) for key in plugs[0]},
            "Roms.bytes": np.stack([_padded(read_rom(g.name, self.rom)) for g in self.games]),
            **self._starts(),
            "Generator.draws": mt19937(DRAWS),
        }

    def _starts(self):
        before = [[int(a) for a in g.before_actions] for g in self.games]
        after = [[(int(a), len(list(same))) for a, same in groupby(g.start_actions)] for g in self.games]
        return {
            "Starts.before.count": np.array([len(b) for b in before]),
            "Starts.before.actions": np.array([b + [0] * (28 - len(b)) for b in before], np.uint8),
            "Starts.after.count": np.array([len(a) for a in after]),
            "Starts.after.actions": np.array([[x[0] for x in a] + [0] * (8 - len(a)) for a in after], np.uint8),
            "Starts.after.frames": np.array([[x[1] for x in a] + [0] * (8 - len(a)) for a in after], np.int16),
        }


def _padded(rom: bytes) -> np.ndarray:
    """16 KiB; 2 KiB show twice in the 4 KiB that a console sees."""
    rom = rom + rom if len(rom) == 2048 else rom
    return np.frombuffer(rom.ljust(16384, b"\0"), np.uint8)
