"""Atari: games of the Atari 2600, a console in each world, compared with ale-py 0.12.1 frame by frame.

ROMs are read from the installed ale-py (``pip install torch_batchsim[atari]``), or from ``rom=``. The 104 games are
``games.GAMES``; ``torch_batchsim/Pong-v0`` is ``torch_batchsim/Atari-v0`` with ``game="pong"``.

| action          | Discrete(n): the game's own, in the order of ``games.Action``; of several games, the most choices |
|-----------------|---------------------------------------------------------------------------------------------------|
| full_action_set | Discrete(18): ``games.Action``; what a game does not know does nothing                            |

| obs       | uint8                                                                                   |
|-----------|-----------------------------------------------------------------------------------------|
| ``ram``   | ``[128]``                                                                               |
| ``rgb``   | ``[lines, 160, 3]``: the brighter one of the last two frames; 210 lines, up to 250      |
| ``gray``  | ``[lines, 160]``                                                                        |
| ``84x84`` | ``[stack, 84, 84]``: gray, by area, the oldest first                                    |

Reward: the change of the score, summed over the frames of a step.
End: terminated when the game is over, or a life is lost with ``episodic_life``; truncated after ``max_episode_frames``.
``infos``: ``lives``, ``score``, ``frames`` of the episode.

Options, with their defaults:

- ``game`` (``"pong"``): a name, or a list; world i then plays game i modulo their number
- ``mode``, ``difficulty`` (the game's first mode; 0): as ale-py numbers them
- ``rom`` (ale-py's): the path of a ROM, or of a folder of ROMs
- ``obs`` (``"84x84"``), ``stack`` (4), ``stack_start`` (``"copies"`` of the first picture, or ``"zeros"``)
- ``maximum`` (True): of the last two frames; else the last one is shown
- ``frame_skip`` (4): frames of a step
- ``sticky_actions`` (0.0): the probability, each frame, that the last action goes on
- ``noop_max`` (30): an episode begins after 1 to so many frames without action; 0: after none
- ``fire_at_reset`` (True): then FIRE for a frame, where the game has this action
- ``episodic_life`` (False): an episode ends with a life; the next goes on with the game, after frames without action
  and FIRE as at its start
- ``clip_rewards`` (False): to their sign
- ``max_episode_frames`` (108,000)
- ``full_action_set`` (False)
- ``start`` (``"noop"``): each episode begins with other bytes in RAM, drawn by the world; ``"cached"``: as one of 32
  such consoles, which have started before; ``"ale"``: with the bytes of ale-py, in the order of its episodes
- ``format`` (``"auto"``: the game's, as ale-py finds it): ``"ntsc"`` or ``"pal"``, the television's palette and lines
- ``compiled`` (False): compiles ROMs on CPU. Frames take less time, Seaquest's a third to a half, with the same
  results; g++ takes 13 (Seaquest) to 51 s (Klax), and the cache keeps a game's code as C++. CUDA interprets ROMs
- ``pictures`` (False): with ``obs="ram"``, keeps pictures, which ``render`` needs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Option,
    Parameters,
    Reward,
    Simulator,
    Struct,
    TaskGraph,
    boolean,
    component,
    i16,
    i32,
    u8,
    u16,
    u32,
)

from .compiled import Plugged, definitions
from .games import Action, Title
from .games import game as facts_of
from .palette import palette
from .roms import read_rom
from .rules import Game, games_constants
from .screen import Palette
from .training import TRAINING

MAPPERS = {"2K": 0, "4K": 0, "F8": 1, "F8SC": 1, "F6": 2, "F6SC": 2, "E0": 3, "FE": 4, "DPC": 5}  # console/machine.h
BANKS = 16384  # bytes of the largest ROM
DRAWS = 8192  # of ale-py's generator that are kept
SEED_OF_ALE = 4753849
CACHED = 32  # consoles of a game that start="cached" keeps
HOLDS = 32  # of SELECT, whose lengths ale-py draws for Adventure
BEFORE, AFTER = 28, 8  # the most frames and runs of frames that a game's start needs
# Room of the log from which frames are drawn on CUDA (console/log.h): writes of three frames. Of the 104 games the most
# in a frame are 1,671.
LOGGED_FRAMES, LOGGED_WRITES = 4, 5120


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
    unfinished: u16  # frames since the last one that ended by itself
    left: u8  # clocks to the end of the line
    line: u8  # of the picture
    picture: u8  # which one is drawn
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


class Past(Component):  # of all episodes of a world
    episodes: i32
    draws: i32  # of ale-py's generator


class Session(Component):
    frames: i32  # of this episode
    lives: i16
    action: u8  # that of the last frame
    phase: u8  # BEGUN until a step is played, PLAYED, or LIFE_LOST where that has ended the episode, not the game


class Plug(Struct):  # what a console must know of its game
    first_line: i32
    lines: i32
    most_turn: i32
    mode: i32
    first_mode: i32
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
    actions: u8[BEFORE]


class After(Struct):
    count: u32
    actions: u8[AFTER]
    frames: i16[AFTER]


class Choice(Component):
    action: i32  # of the game's


class Atari(Environment):
    """Args: see ``__init__``."""

    constants = Constants(
        game=Option("pong", help="a name, or a list of names"),
        obs=Option("84x84", choices=("ram", "rgb", "gray", "84x84")),
        stack=Option(4, minimum=1, maximum=16, help="pictures of 84 x 84"),
        stack_start=Option("copies", choices=("copies", "zeros"), help="what the stack holds at first"),
        maximum=Option(True, help="shows the brighter one of the last two frames"),
        frame_skip=Option(4, minimum=1, maximum=64, help="frames of a step"),
        start=Option("noop", choices=("noop", "cached", "ale"), help="what RAM holds at first"),
        format=Option("auto", choices=("auto", "ntsc", "pal"), help="the television"),
        episodic_life=Option(False, help="an episode ends with a life"),
        full_action_set=Option(False, help="18 actions, not those of the game"),
    )
    parameters = Parameters(
        sticky_actions=Option(0.0, minimum=0.0, maximum=1.0, help="probability that the last action goes on"),
        noop_max=Option(30, minimum=0, help="frames without action at the start, at most"),
        fire_at_reset=Option(True, help="FIRE at the start, where the game has it"),
        clip_rewards=Option(False, help="to their sign"),
        max_episode_frames=Option(108_000, minimum=1),
    )
    enums = (Title,)
    observation, action = "Console.View", "Console.Choice"
    info = {"lives": "Game.lives", "score": "Game.score", "frames": "Session.frames"}
    faults = {
        "instruction_halts": "an instruction halts the processor, opcode {value}: the ROM or its state is damaged",
        "frames_never_end": "no frame has ended by itself in the last {value}: the ROM or its state is damaged",
    }
    metadata = {"render_fps": 15, "score": "score"}
    training = TRAINING

    def __init__(
        self,
        game: str | Sequence[str] = "pong",
        mode: int | None = None,
        difficulty: int | None = None,
        rom: str | PathLike[str] | None = None,
        pictures: bool = False,
        compiled: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            game: a name, or several, which worlds play in turn.
            mode, difficulty: as ale-py numbers them; the first mode and 0 by default.
            rom: a ROM's path, or a folder's; ale-py's by default.
            pictures: with ``obs="ram"`` too.
            compiled: ROMs, on CPU.
            options: as declared by ``constants`` and ``parameters``.

        Raises ValueError for a game, mode, difficulty or ROM that is unknown or another's, TypeError for ``pictures``
        and ``compiled`` that are no bool, ImportError without ale-py.
        """
        names = (game,) if isinstance(game, str) else tuple(game)
        if not names:
            raise ValueError("game must be one name or a list of at least one, got an empty list")
        super().__init__(game=", ".join(names), **options)
        for option, value in (("pictures", pictures), ("compiled", compiled)):
            if not isinstance(value, bool):
                raise TypeError(f"option {option} must be True or False, got {value!r}")
        self.compiled = compiled  # not a constant: a state may go from compiled ROMs to interpreted ones
        self.games = tuple(facts_of(name) for name in names)
        if self.constants.format != "auto":
            self.games = tuple(replace(one, pal=self.constants.format == "pal") for one in self.games)
        self.modes = [one.checked_mode(mode) for one in self.games]
        self.difficulties = [one.checked_difficulty(difficulty) for one in self.games]
        self.roms = np.stack([_padded(self._rom_of(one.name, rom)) for one in self.games])
        constants = self.constants
        self.lines = max(one.lines for one in self.games)
        self.draws = pictures or constants.obs != "ram"
        self.add_constants(
            games=len(self.games),
            lines=self.lines,
            draws=DRAWS,
            holds=HOLDS,
            dpc=any(one.mapper == "DPC" for one in self.games),
            cartridge_ram=any(one.cartridge_ram for one in self.games),
            pictures=self.draws,
            channels=3 if constants.obs == "rgb" else 1,
            two_frames=constants.maximum and constants.frame_skip > 1,
            fills_stack=constants.stack_start == "copies",
            start_of_ale=constants.start == "ale",
            start_cached=constants.start == "cached",
            logged_frames=LOGGED_FRAMES,
            logged_writes=LOGGED_WRITES,
            cached=CACHED * len(self.games) if constants.start == "cached" else 1,
            **games_constants(self.games),
        )
        self.add_constants(saved_bytes=self._saved_layout[1])
        self._fills_cache = False

    def _rom_of(self, name: str, path: str | PathLike[str] | None) -> bytes:
        return read_rom(name, path)

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        return {
            **super().described_options(),
            "mode": "of the game, the first one by default",
            "difficulty": "of the game, 0 by default",
            "rom": "a ROM's path, or a folder's; ale-py's by default",
            "pictures": "keeps pictures, with obs='ram' too",
            "compiled": "compiles ROMs, on CPU",
        }

    # ---- the declaration ---------------------------------------------------------------------------------------------

    @cached_property
    def definitions(self) -> str:
        if not self.compiled:
            return ""
        plugged = [Plugged(one.mapper.removesuffix("SC").replace("2K", "4K"), one.cartridge_ram) for one in self.games]
        return definitions([rom.tobytes() for rom in self.roms], plugged)

    @property
    def systems(self) -> tuple[str, ...]:
        look = {"ram": "look_ram.h", "rgb": "look_colours.h", "gray": "look_colours.h", "84x84": "look_small.h"}
        return ("systems.h", *(("draw_pictures.h",) if self.draws else ()), look[self.constants.obs])

    @property
    def start(self) -> TaskGraph:
        return TaskGraph("begin", *self._draw, *(("shrink_first",) if self.constants.obs == "84x84" else ()))

    @property
    def step(self) -> TaskGraph:
        return TaskGraph("play", *self._draw, *(("shrink_next",) if self.constants.obs == "84x84" else ()))

    @property
    def _draw(self) -> tuple[str, ...]:
        return ("draw_pictures",) if self.draws else ()

    @property
    def observe(self) -> TaskGraph:
        return TaskGraph({"ram": "look_at_ram", "84x84": "look_at_stack"}.get(self.constants.obs, "look_at_screen"))

    @cached_property
    def singletons(self) -> list[type[Component]]:
        size = (2, self.lines, 160) if self.draws else (1, 1, 1)
        # Of `newest` the first counts: rows of a multiple of 16 bytes are copied in whole words.
        ring = component("Stack", pixels=u8[self.constants.stack * 84 * 84], newest=u8[16])
        small = [ring] if self.constants.obs == "84x84" else []
        return [
            *(Cpu, Ram, Riot, Tia, Cartridge, Game, Past, Session),
            component("CartridgeRam", bytes=u8[128 if self.constants.dpc or self.constants.cartridge_ram else 4]),
            component("Picture", pixels=u8[size]),
            *small,
        ]

    @cached_property
    def workspace(self) -> list[type[Component]]:
        """What frames leave to ``draw_pictures`` on CUDA."""
        words = 4 + self.constants.logged_frames * (Tia.size // 4 + 8) + self.constants.logged_writes
        return [component("Log", words=u32[words if self.draws else 1])]

    @property
    def lasting(self) -> list[type[Component]]:
        return self.workspace

    @property
    def _saved_layout(self) -> tuple[dict[type[Component], int], int]:
        """The components of ``Saved`` in systems.h with their places in it, and its bytes."""
        places, end = {}, 4  # after `filled`
        for part in self.singletons:
            if part.__name__ in ("Cpu", "Ram", "Riot", "Tia", "Cartridge", "Game", "CartridgeRam"):
                places[part] = -(-end // part.alignment) * part.alignment
                end = places[part] + part.layout.size
        widest = max(part.alignment for part in places)
        return places, -(-end // widest) * widest

    @property
    def kept(self) -> list[type[Component]]:
        if self.constants.episodic_life:
            return self.singletons
        return [Ram, Past] if self.constants.start == "ale" else []

    @cached_property
    def archetypes(self) -> list[Archetype]:
        lines, stack = self.lines, self.constants.stack
        views = {
            "ram": component("View", bytes=u8[128]),
            "rgb": component("View", pixels=u8[lines, 160, 3]),
            "gray": component("View", pixels=u8[lines, 160]),
            "84x84": component("View", pixels=u8[stack, 84, 84]),
        }
        return [Archetype("Console", Choice, views[self.constants.obs], Reward, count=1)]

    def _actions(self, i: int) -> list[int]:
        """What each choice presses in game i."""
        facts = self.games[i]
        if not self.constants.full_action_set:
            return [int(action) for action in facts.minimal_actions]
        return [action if action in facts.legal_actions else 0 for action in range(18)]

    @property
    def action_space(self) -> Discrete:
        return Discrete(max(len(self._actions(i)) for i in range(len(self.games))))

    # ---- games as resources ------------------------------------------------------------------------------------------

    @cached_property
    def resources(self) -> list[type[Component]]:
        count = len(self.games)
        return [
            component("Plugs", games=Plug[count]),
            component("Roms", bytes=u8[count, BANKS]),
            component("Starts", before=Before[count], after=After[count], holds=u8[HOLDS]),
            component("Generator", draws=u32[DRAWS]),
            component("Cache", words=u32[self.constants.cached * self.constants.saved_bytes // 4]),
            *([Palette] if self.constants.obs != "ram" else []),
        ]

    def resource_values(self) -> dict[str, Any]:
        plugs = [self._plug(i) for i in range(len(self.games))]
        draws = np.random.RandomState(SEED_OF_ALE).randint(0, 2**32, DRAWS, np.uint32)
        return {
            **{f"Plugs.games.{name}": np.array([plug[name] for plug in plugs]) for name in plugs[0]},
            "Roms.bytes": self.roms,
            **self._starts(),
            "Generator.draws": draws,
            **self._cache,
            **({"Palette.shades": palette()} if self.constants.obs != "ram" else {}),
        }

    def _plug(self, i: int) -> dict[str, Any]:
        facts, actions = self.games[i], self._actions(i)
        return {
            "first_line": facts.ystart,
            "lines": facts.lines,
            "most_turn": facts.most_turn,
            "mode": facts.selected_mode(self.modes[i]),
            "first_mode": facts.selected_mode(facts.modes[0]),
            "shown_at": facts.shown_at,
            "presses": facts.presses,
            "title": int(facts.title),
            "mapper": MAPPERS[facts.mapper],
            "extra_ram": facts.cartridge_ram,
            "pal": facts.pal,
            "comb": facts.comb,
            "left_paddles": facts.paddles != "",
            "right_paddles": facts.paddles == "both",
            "swapped_paddles": facts.swapped_paddles,
            "swapped_ports": facts.swapped_ports,
            "has_modes": facts.shown_at != 0,
            "fires": Action.FIRE in facts.minimal_actions,
            "difficulty": self.difficulties[i],
            "difficulty_of_rom": 3 if facts.name == "amidar" else 0,
            "actions": actions + [0] * (18 - len(actions)),
        }

    def _starts(self) -> dict[str, np.ndarray]:
        before = [list(map(int, facts.before_actions)) for facts in self.games]
        after = [
            [(int(action), len(list(run))) for action, run in groupby(facts.start_actions)] for facts in self.games
        ]
        filled = [runs + [(0, 0)] * (AFTER - len(runs)) for runs in after]
        # One of three of its draws: the others are two players' sticky actions.
        holds = np.random.RandomState(1).randint(0, 2**32, 3 * HOLDS, np.uint32)[::3] & 255
        return {
            "Starts.holds": holds.astype(np.uint8),
            "Starts.before.count": np.array([len(frames) for frames in before]),
            "Starts.before.actions": np.array([frames + [0] * (BEFORE - len(frames)) for frames in before]),
            "Starts.after.count": np.array([len(runs) for runs in after]),
            "Starts.after.actions": np.array([[action for action, _ in runs] for runs in filled]),
            "Starts.after.frames": np.array([[frames for _, frames in runs] for runs in filled]),
        }

    @cached_property
    def _cache(self) -> dict[str, Any]:
        """Consoles that this environment itself has started: one that has none to copy keeps what it starts."""
        if self.constants.start != "cached" or self._fills_cache:
            return {}
        filler = object.__new__(type(self))  # a copy, with these ROMs: copy() would make it from arguments
        vars(filler).update(vars(self), _fills_cache=True)
        sim = Simulator(filler, self.constants.cached, device="cpu")
        sim.reset(seed=0)
        saved = np.zeros((self.constants.cached, self.constants.saved_bytes), np.uint8)
        for part, place in self._saved_layout[0].items():
            for field in part.layout.fields:
                values = sim.tensor(f"{part.__name__}.{field.name}").contiguous().numpy()
                values = values.reshape(len(saved), -1).view(np.uint8)
                saved[:, place + field.offset :][:, : values.shape[1]] = values
        saved[:, 0] = 1  # filled
        return {"Cache.words": saved.reshape(-1).view(np.uint32)}

    def render(self, world: Mapping[str, np.ndarray]) -> np.ndarray:
        if not self.draws:
            raise ValueError("with obs='ram' no picture is drawn, and none can be rendered: give pictures=True")
        title = int(world["Game.title"].item())
        facts = next(one for one in self.games if one.title == title)
        shades = palette()[int(facts.pal), :, :3]
        return shades[world["Picture.pixels"][int(world["Tia.picture"].item()), : facts.lines]]


def _padded(rom: bytes) -> np.ndarray:
    """In a space for the largest; 2 KiB show twice in the 4 KiB that a console sees."""
    rom = rom + rom if len(rom) == 2048 else rom
    return np.frombuffer(rom.ljust(BANKS, b"\0"), np.uint8)


def atari_of(name: str, game: str) -> type[Atari]:
    """The class of one game."""

    class OneGame(Atari):
        def __init__(self, game: str = game, **options: Any) -> None:
            super().__init__(game=game, **options)

    OneGame.__name__ = OneGame.__qualname__ = name
    OneGame.__module__ = __package__ or __name__
    OneGame.__doc__ = f"``Atari`` with the game {game}."
    return OneGame
