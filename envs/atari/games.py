"""The games: what is known of their ROMs, controllers, actions, modes and starts. rules.h has their scores and ends.

The numbers are those of ale-py 0.12.1, whose names the games have. `GAMES["pong"]` is a game, `GAMES.values()` has all
104, in the order of their names, which is that of `Title`, their numbers in systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from torch_batchsim.base.names import suggestion


class Action(IntEnum):
    NOOP = 0
    FIRE = 1
    UP = 2
    RIGHT = 3
    LEFT = 4
    DOWN = 5
    UPRIGHT = 6
    UPLEFT = 7
    DOWNRIGHT = 8
    DOWNLEFT = 9
    UPFIRE = 10
    RIGHTFIRE = 11
    LEFTFIRE = 12
    DOWNFIRE = 13
    UPRIGHTFIRE = 14
    UPLEFTFIRE = 15
    DOWNRIGHTFIRE = 16
    DOWNLEFTFIRE = 17
    RESET = 18  # the console's switches, which only starts press
    SELECT = 19


ALL = " ".join(map(str, range(18)))  # a joystick's actions
BYTES = {"2K": 2048, "4K": 4096, "F8": 8192, "F8SC": 8192, "F6": 16384, "F6SC": 16384, "E0": 8192, "FE": 8192,
          "DPC": 10495}  # of a ROM, by its cartridge's chips  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Facts about a game, as options of the constructor; what is left out is as in most games."""

    name: str
    md5: str
    mapper: str = "4K"
    pal: bool = False  # it draws as many lines as a European television has, in that palette
    ystart: int = 34  # the first line of the picture
    height: int = 0  # lines of the picture; 0: 210, and 250 of PAL
    comb: bool = True  # HMOVE blackens the first columns
    paddles: str = ""  # in "left" port, or "both"
    swapped_paddles: bool = False
    most_turn: int = 790_196  # of a paddle: the highest resistance
    swapped_ports: bool = False  # the player's joystick is in the right port
    minimal: str = ALL  # numbers of Action: those that do something
    fire: bool = True  # else no action fires, of the full set either
    difficulties: str = "0"  # bit 0: the left switch, bit 1: the right one
    modes: Sequence[int] = (0,)  # the first one unless another is chosen
    shown_at: int = 0  # the byte of RAM that shows the mode (klax: of its cartridge's), 0: a start selects none
    shown_as: tuple[int, int] = (0, 1)  # shown_as[0] + shown_as[1] * mode
    presses: int = 2  # frames that SELECT is held until the next mode shows
    before: str = ""  # what a start does before it selects the mode: frames and actions
    start: str = ""  # what it does after that

    @property
    def title(self) -> Title:
        """Its number, in systems too."""
        return Title[self.name.upper()]

    @property
    def size(self) -> int:
        """Bytes of the ROM."""
        return BYTES[self.mapper]

    @property
    def lines(self) -> int:
        """Lines of the picture."""
        return self.height or (250 if self.pal else 210)

    @property
    def cartridge_ram(self) -> bool:
        return self.mapper.endswith("SC")

    @property
    def minimal_actions(self) -> tuple[Action, ...]:
        return tuple(Action(int(number)) for number in self.minimal.split())

    @property
    def legal_actions(self) -> tuple[Action, ...]:
        """Of the full set: what the game ignores does nothing."""
        full = [Action(number) for number in range(18)]
        return tuple(action for action in full if self.fire or "FIRE" not in action.name)

    def shown_mode(self, mode: int) -> int:
        """The number by which the game shows a mode (`mode_of` in rules.h)."""
        if self.name == "video_checkers":
            return mode + 6 * (mode // 10)  # decimal digits
        return self.shown_as[0] + self.shown_as[1] * mode

    def selected_mode(self, mode: int) -> int:
        """The number by which a start selects it: that which the game shows, but where it selects by a menu."""
        return mode if self.name in ("double_dunk", "video_cube") else self.shown_mode(mode)

    @property
    def before_actions(self) -> tuple[Action, ...]:
        return _frames(self.before)

    @property
    def start_actions(self) -> tuple[Action, ...]:
        """The action of each frame."""
        return _frames(self.start)

    def checked_mode(self, mode: int | None) -> int:
        """The mode, or the first one for None. Raises ValueError where the game has no such mode."""
        return _checked(f"{self.name} has no mode", mode, self.modes, self.modes[0])

    def checked_difficulty(self, difficulty: int | None) -> int:
        """The switches, 0 for None. Raises ValueError where the game has no such difficulty."""
        known = sorted({0, *map(int, self.difficulties.split())})
        return _checked(f"{self.name} has no difficulty", difficulty, known, 0)


def _checked(what: str, given: int | None, known: Sequence[int], otherwise: int) -> int:
    if given is None:
        return otherwise
    if isinstance(given, bool) or given not in known:
        raise ValueError(f"{what} {given!r}; it has {', '.join(map(str, known))}")
    return int(given)


def _frames(text: str) -> tuple[Action, ...]:
    """``"2 NOOP, FIRE"``: an action for each frame."""
    frames: list[Action] = []
    for part in filter(None, text.split(", ")):
        *count, name = part.split()
        frames += [Action[name]] * int(count[0] if count else 1)
    return tuple(frames)


FOR_TWO = ("combat", "joust", "maze_craze", "warlords")  # ale-py has their ROMs, and no rules


def game(name: str) -> Facts:
    """A game by its name. Raises ValueError where there is none, which names the nearest."""
    if name in FOR_TWO:
        raise ValueError(f"{name} is played by two, and worlds have one player")
    if name not in GAMES:
        raise ValueError(f"no game is called {name!r}{suggestion(str(name), GAMES)}; known are {', '.join(GAMES)}")
    return GAMES[name]


# fmt: off
_TABLE = (
    Facts("adventure", "4b27f5397c442d25f0c418ccdacf1926", pal=True, difficulties="0 1 2 3", modes=(0, 1, 2),
          shown_at=0xDD),
    Facts("air_raid", "35be55426c1fec32dfb503b4f0651572", pal=True, minimal="0 1 3 4 11 12", modes=range(1, 9),
          shown_at=0xAA, presses=10, before="20 SELECT", start="FIRE"),
    Facts("alien", "f1a0a23e6464d954e3a9579c4ccd01c8", difficulties="0 1 2 3", modes=range(4), shown_at=0x81,
          presses=1),
    Facts("amidar", "acb7750b4d0c4bd34969802a7deb2990", minimal="0 1 2 3 4 5 10 11 12 13", difficulties="0 3"),
    Facts("assault", "de78b3a064d374390ac0710f95edde92", minimal="0 1 2 3 4 11 12"),
    Facts("asterix", "89a68746eff7f266bbf08de2483abe55", "F8", minimal="0 2 3 4 5 6 7 8 9", start="FIRE"),
    Facts("asteroids", "ccbd36746ed4525821a8083b0d6d2c2c", "F8", comb=False,
          minimal="0 1 2 3 4 5 6 7 10 11 12 13 14 15", difficulties="0 3", modes=(*range(32), 128), shown_at=0x80),
    Facts("atlantis", "9ad36e699ef6f45d9eb6c4cf90475c9f", minimal="0 1 11 12", modes=range(4), shown_at=0x8D),
    Facts("atlantis2", "826481f6fc53ea47c9f272f7050eedf7", minimal="0 1 11 12"),
    Facts("backgammon", "8556b42aa05f94bc29ff39c39b11bff4", paddles="left", most_turn=1_000_000, minimal="1 3 4",
          difficulties="3", shown_at=0xDC, shown_as=(3, 0), presses=1),
    Facts("bank_heist", "00ce0bdd43aed84a983bef38fe7f5ee3", difficulties="0 1 2 3", modes=range(0, 29, 4),
          shown_at=0x80, presses=1),
    Facts("basic_math", "819aeeb9a2e11deb54e6de334f843894", "2K", minimal="0 1 2 3 4 5", difficulties="0 2 3",
          modes=range(5, 9), shown_at=0xC5),
    Facts("battle_zone", "41f252a66c6301f1e8ab3612c19bc5d4", "F8", comb=False, modes=(1, 2, 3), shown_at=0xA1),
    Facts("beam_rider", "79ab4123a83dc11d468fb2108ea09e2e", "F8", minimal="0 1 2 3 4 6 7 11 12", difficulties="0 1",
          start="RIGHT"),
    Facts("berzerk", "136f75c4dd02c29283752b7e5799f978", modes=(*range(1, 10), 16, 17, 18), shown_at=0x80,
          before="20 NOOP"),
    Facts("blackjack", "0a981c03204ac2b278ba392674682560", "2K", paddles="left", most_turn=795_000,
          minimal="0 1 2 5", difficulties="0 1 2 3"),
    Facts("bowling", "c9b7afad3bfd922e006a6bfc1d4f3fe7", "2K", minimal="0 1 2 5 10 13", difficulties="0 1",
          modes=(0, 2, 4), shown_at=0x82),
    Facts("boxing", "c3ef5c4653212088eda54dc91d787870", "2K", difficulties="0 1 2 3"),
    Facts("breakout", "f34f08e5eb96e500e851a80be3277a56", "2K", paddles="left", minimal="0 1 3 4",
          difficulties="0 1", modes=range(0, 45, 4), shown_at=0xB2, presses=1),
    Facts("carnival", "028024fb8e5e5f18ea586652f9799c96", ystart=26, height=214, minimal="0 1 3 4 11 12"),
    Facts("casino", "b816296311019ab69a21cb9e9e235d12", paddles="left", minimal="0 1 2 5", difficulties="0 1 2 3",
          modes=(0, 2, 3), shown_at=0xD4, start="60 NOOP, 2 FIRE"),
    Facts("centipede", "91c2098e88a6b13f977af8c003e0bca5", "F8", modes=(22, 86), shown_at=0xA7),
    Facts("chopper_command", "c1cb228470a87beb5f36e90ac745da26", difficulties="0 1", modes=(0, 2), shown_at=0xE0),
    Facts("crazy_climber", "55ef7b65066428367844342ed59f956c", "F8", minimal="0 2 3 4 5 6 7 8 9", difficulties="0 1",
          modes=range(4), shown_at=0x80),
    Facts("crossbow", "8cd26dcf249456fe4aeb8db42d49df74", "F6", difficulties="0 1", modes=range(0, 7, 2),
          shown_at=0x8D, shown_as=(1, 1)),
    Facts("darkchambers", "106855474c69d08c8ffa308d47337269", "F6SC", comb=False, start="486 NOOP"),
    Facts("defender", "0f643c34e40e3f1daafd9c524d3ffe64", difficulties="0 1", modes=(*range(1, 10), 16),
          shown_at=0x9B),
    Facts("demon_attack", "f0e0addc07971561ab80d9abe1b8d333", minimal="0 1 3 4 11 12", difficulties="0 1",
          modes=range(1, 8, 2), shown_at=0xEA, presses=1),
    Facts("donkey_kong", "36b20c427975760cb9cf4a47e41369e4"),
    Facts("double_dunk", "368d88a6c071caba60b4f778615aae94", "F6", modes=range(16), start="UPFIRE"),
    Facts("earthworld", "5aea9974b975a6a844e6df10d2b861c4", "F8"),
    Facts("elevator_action", "71f8bacfbdca019113f3f0801849057e", "F8SC", start="16 FIRE"),
    Facts("enduro", "94b92a882f6dbaa6993a46e2dcc58402", minimal="0 1 3 4 5 8 9 11 12", start="FIRE"),
    Facts("entombed", "6b683be69f92958abe0e2a9945157ad5", difficulties="0 2", start="FIRE, 5 NOOP"),
    Facts("et", "615a3bf251a38eb6638cdc7ffbde5480", "F8", difficulties="0 1 2 3", modes=(0, 1, 2), shown_at=0xEA,
          shown_as=(1, 1), presses=25),
    Facts("fishing_derby", "b8865f05676e64f3bec72b9defdacfa7", "2K", difficulties="0 1 2 3"),
    Facts("flag_capture", "30512e0e83903fc05541d2f6a6a62654", "2K", modes=(8, 9, 10), shown_at=0xD6),
    Facts("freeway", "8e0ab801b1705a740b476b7f588c6d16", "2K", minimal="0 2 5", difficulties="0 1", modes=range(8),
          shown_at=0x80, presses=1),
    Facts("frogger", "081e2c114c9c20b61acf25fc95c71bf4", minimal="0 2 3 4 5", difficulties="0 1", modes=(0, 1, 2),
          shown_at=0xDD, shown_as=(1, 2)),
    Facts("frostbite", "4ca73eb959299471788f0b685c3ba0b5", modes=(0, 2), shown_at=0x80, presses=1),
    Facts("galaxian", "211774f4c5739042618be8ff67351177", "F8", minimal="0 1 3 4 11 12", difficulties="0 1",
          modes=range(1, 10), shown_at=0xB3, presses=1),
    Facts("gopher", "c16c79aad6272baffb8aae9a7fff0864", minimal="0 1 2 3 4 10 11 12", difficulties="0 1",
          modes=(0, 2), shown_at=0xD3, presses=5, before="4 RESET", start="FIRE"),
    Facts("gravitar", "8ac18076d01a6b63acf6e2cab4968940", "F8", modes=range(5), shown_at=0x80, presses=10,
          start="16 FIRE"),
    Facts("hangman", "f16c709df0a6c52f47ff52b9d95b7d8d", difficulties="0 1", modes=range(4), shown_at=0xEE),
    Facts("haunted_house", "f0a6e99f5875891246c3dbecbf2d2cea", difficulties="0 1", modes=range(9), shown_at=0xCC),
    Facts("hero", "fca4a5be1251927027f2c24774a02160", "F8", modes=range(5), shown_at=0x80, presses=1),
    Facts("human_cannonball", "7972e5101fa548b952d852db24ad6060", "2K", difficulties="0 1", modes=range(8),
          shown_at=0xB6, shown_as=(1, 1)),
    Facts("ice_hockey", "a4c08c4994eb9d24fb78be1793e82e26", difficulties="0 1 2 3", modes=(0, 2), shown_at=0x80),
    Facts("jamesbond", "e51030251e440cffaab1ac63438b44ae", "E0", modes=(0, 1), shown_at=0x8C, presses=20),
    Facts("journey_escape", "718ae62c70af4e5fd8e932fee216948a", height=230,
          minimal="0 2 3 4 5 6 7 8 9 11 12 13 14 15 16 17", difficulties="0 1", start="FIRE"),
    Facts("kaboom", "5428cdfada281c569c74c7308c7f2c26", "2K", paddles="left", minimal="0 1 3 4", start="FIRE"),
    Facts("kangaroo", "4326edb70ff20d0ee5ba58fa5cb09d60", "F8", modes=(0, 1), shown_at=0xBA),
    Facts("keystone_kapers", "6c1f3f2e359dbf55df462ccbcdd2f6bf", pal=True, minimal="0 1 2 3 4 5 6 7 8 9 10 11 12 13",
          start="RESET"),
    Facts("king_kong", "0dd4c69b5f9a7ae96a7a08329496779a", pal=True, minimal="0 1 2 3 4 5", modes=range(4),
          shown_at=0xEC, shown_as=(0, 2)),
    Facts("klax", "eed9eaf1a0b6a2b9bc4c8032cb43e3fb", "F6SC", pal=True, modes=(0, 1, 2), shown_at=0xEA,
          start="FIRE, NOOP"),
    Facts("koolaid", "534e23210dd1993c828d944c6ac4d9fb", minimal="0 2 3 4 5 6 7 8 9"),
    Facts("krull", "4baada22435320d185c95b7dd2bcdb24", "F8"),
    Facts("kung_fu_master", "5b92a93b23523ff16e2789b820e2a4c5", "F8", minimal="0 2 3 4 5 8 9 11 12 13 14 15 16 17"),
    Facts("laser_gates", "8e4cd60d93fcde8065c1a2b972a26377", pal=True, start="RESET"),
    Facts("lost_luggage", "2d76c5d1aad506442b9e9fb67765e051", minimal="0 2 3 4 5 6 7 8 9", fire=False,
          difficulties="0 1", modes=(0, 1), shown_at=0x94, shown_as=(1, 3), start="FIRE"),
    Facts("mario_bros", "e908611d99890733be31733a979c62d8", "F8", modes=range(0, 7, 2), shown_at=0x80, presses=5,
          start="10 NOOP, 7 FIRE"),
    Facts("miniature_golf", "df62a658496ac98a3aa4a6ee5719c251", "2K", difficulties="0 1"),
    Facts("montezuma_revenge", "3347a6dd59049b15a38394aa2dafa585", "E0"),
    Facts("mr_do", "aa7bb54d2c189a31bb1fa20099e42859", "F8", pal=True, minimal="0 1 2 3 4 5 10 11 12 13",
          modes=range(4), shown_at=0x80, presses=5, start="FIRE"),
    Facts("ms_pacman", "87e79cd41ce136fd4f72cc6e2c161bee", "F8", comb=False, minimal="0 2 3 4 5 6 7 8 9",
          modes=range(4), shown_at=0x99, presses=10),
    Facts("name_this_game", "36306070f0c90a72461551a7a4f3a209", minimal="0 1 3 4 11 12", difficulties="0 1",
          modes=(8, 24, 40), shown_at=0xDE),
    Facts("othello", "113cd09c9771ac278544b7e90efe7df2", "2K", minimal="0 1 2 3 4 5 6 7 8 9", difficulties="0 2",
          modes=(0, 1, 2), shown_at=0xDE, shown_as=(1, 1)),
    Facts("pacman", "fc2233fc116faef0d3c31541717ca2db", pal=True, minimal="0 2 3 4 5", difficulties="0 1",
          modes=range(8), shown_at=0xCC, shown_as=(1, 1)),
    Facts("phoenix", "7e52a95074a66640fcfde124fffd491a", "F8", minimal="0 1 3 4 5 11 12 13"),
    Facts("pitfall", "3e90cf23106f2e08b2781e41299de556", start="UP"),
    Facts("pitfall2", "6d842c96d5a01967be9680080dd5be54", "DPC", start="UP"),
    Facts("pong", "60e0ea3cbe0913d39803477945e9e5ec", "2K", paddles="both", swapped_paddles=True,
          minimal="0 1 3 4 11 12", difficulties="0 1 2 3", modes=(0, 1), shown_at=0x96),
    Facts("pooyan", "4799a40b6e889370b7ee55c17ba65141", ystart=26, height=220, minimal="0 1 2 5 10 13",
          modes=range(10, 71, 20), shown_at=0xBD, before="2 SELECT, NOOP"),
    Facts("private_eye", "ef3a4f64b6494ba770862768caf04b86", "F8", difficulties="0 1 2 3", modes=range(5),
          shown_at=0x80, start="UP"),
    Facts("qbert", "484b0076816a104875e00467d431c2d2", ystart=40, minimal="0 1 2 3 4 5", difficulties="0 1"),
    Facts("riverraid", "393948436d1f4cc3192410bb918f9724", difficulties="0 1"),
    Facts("road_runner", "ce5cc62608be2cd3ed8abd844efb8919", "F6"),
    Facts("robotank", "4f618c2429138e0280969193ed6c107e", "FE"),
    Facts("seaquest", "240bfbac5163af4df5ae713985386f92", difficulties="0 1"),
    Facts("sir_lancelot", "dd0cbe5351551a538414fb9e37fc56e8", "F8", pal=True, minimal="0 1 3 4 11 12",
          start="RESET, LEFT"),
    Facts("skiing", "b76fbadc8ffb1f83e2ca08b6fb4d6c9f", "2K", minimal="0 3 4", fire=False, start="16 DOWN"),
    Facts("solaris", "e72eb8d4410152bdcb69e7fba327b420", "F6"),
    Facts("space_invaders", "72ffbef6504b75e69ee1045af9075f66", minimal="0 1 3 4 11 12", difficulties="0 1",
          modes=range(16), shown_at=0xDC),
    Facts("space_war", "b702641d698c60bcdc922dbd8c9dd49c", "2K", pal=True, modes=range(6, 18), shown_at=0xA7),
    Facts("star_gunner", "a3c1c70024d7aabb41381adbfb6d3b25", modes=range(4), shown_at=0xF4, presses=15),
    Facts("superman", "a9531c763077464307086ec9a1fd057d", difficulties="0 1 2 3"),
    Facts("surround", "4d7517ae69f95cfbc053be01312b7dba", "2K", swapped_ports=True, minimal="0 2 3 4 5",
          difficulties="0 1 2 3", modes=(0, 2), shown_at=0xF9, shown_as=(1, 1)),
    Facts("tennis", "42cdd6a9e42a3639e190722b8ea3fc51", "2K", difficulties="0 1 2 3", modes=(0, 2), shown_at=0x80),
    Facts("tetris", "b0e1ee07fbc73493eac5651a52f90f00", "2K", minimal="0 1 3 4 5"),
    Facts("tic_tac_toe_3d", "0db4f4150fecf77e4ce72ca4d04c052f", "2K", minimal="0 1 2 3 4 5 6 7 8 9",
          difficulties="0 2", modes=range(9), shown_at=0x88),
    Facts("time_pilot", "fc2104dd2dadf9a6176c1c1c8f87ced9", "F8", minimal="0 1 2 3 4 5 10 11 12 13",
          difficulties="0 1 2"),
    Facts("trondead", "fb27afe896e7c928089307b32e5642ee", difficulties="0 1"),
    Facts("turmoil", "7a5463545dfb2dcfdafa6074b2f2c15e", minimal="0 1 2 3 4 5 6 7 8 9 11 12", modes=range(9),
          shown_at=0xEA, start="FIRE"),
    Facts("tutankham", "085322bae40d904f53bdcc56df0593fc", "E0", minimal="0 2 3 4 5 10 11 12", modes=range(0, 13, 4),
          shown_at=0xAB),
    Facts("up_n_down", "a499d720e7ee35c62424de882a3351b6", "F8", ystart=30, minimal="0 1 2 5 10 13",
          difficulties="0 1 2 3", start="FIRE"),
    Facts("venture", "3e899eba0ca8cd2972da1ae5479b4f0d", difficulties="0 1 2 3"),
    Facts("video_checkers", "539d26b6e9df0da8e7465f0f5ad863b7", minimal="1 6 7 8 9",
          modes=(*range(1, 10), *range(11, 20)), shown_at=0xF6, presses=1),
    Facts("video_chess", "f0b7db930ca0e548c41a97160b9f6275", minimal="0 1 2 3 4 5 6 7 8 9", modes=range(5),
          shown_at=0xEA, presses=1),
    Facts("video_cube", "3f540a30fdee0b20aed7288e4a5ea528", difficulties="0 1",
          modes=tuple(100 * cube + m for cube in range(51) for m in range(3)), start="61 NOOP, FIRE, 2 NOOP"),
    Facts("video_pinball", "107cc025334211e6d29da0b6be46aec7", minimal="0 1 2 3 4 5 10 11 12", difficulties="0 1",
          modes=(0, 2), shown_at=0xC1),
    Facts("wizard_of_wor", "7e8aa18bc9502eb57daaf5e7c1e94da7", swapped_ports=True, minimal="0 1 2 3 4 5 10 11 12 13",
          difficulties="0 1"),
    Facts("word_zapper", "ec3beb6d8b5689e867bafb5d5f507491", difficulties="0 1 2 3", modes=range(24), shown_at=0xDB,
          start="486 NOOP, FIRE, 2 NOOP"),
    Facts("yars_revenge", "c5930d0e8cdae3e037349bfa08e871be", difficulties="0 1", modes=range(0, 97, 32),
          shown_at=0xE3, presses=1, before="2 SELECT", start="FIRE"),
    Facts("zaxxon", "eea0da9b987d661264cce69a7c13c3bd", "F8", modes=range(0, 25, 8), shown_at=0x82, presses=10),
)
# fmt: on

GAMES = {each.name: each for each in _TABLE}
Title = IntEnum("Title", [each.upper() for each in GAMES], start=0)  # type: ignore[misc]  # one list of names


def class_name(game: str) -> str:
    """``space_invaders`` as ``SpaceInvaders``."""
    return game.title().replace("_", "")
