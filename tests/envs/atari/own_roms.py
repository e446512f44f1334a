"""ROMs that tests assemble, and consoles that play them: on our machine, and on ale-py's where it is installed."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch_batchsim.envs.atari import env as atari_env
from torch_batchsim.envs.atari.games import GAMES

import torch_batchsim

START = 0xF000
LDA, LDX, STA, STX, WSYNC = 0xA9, 0xA2, 0x85, 0x86, 0x02
AS_ALE = {"start": "ale", "frame_skip": 1, "full_action_set": True, "noop_max": 0, "fire_at_reset": False}


def rom(once: list[int], each_frame: list[int], start: int = START) -> bytes:
    """4 KiB: `once`, then frames of 262 lines; `each_frame` runs in the picture, and must keep to its lines.

    It begins at ``start``, and ends with the 4 KiB.
    """
    loop = start + len(once)
    frame = [LDA, 2, STA, 0, STA, WSYNC, STA, WSYNC, STA, WSYNC, LDA, 0, STA, 0]
    wait = [LDX, 30, STA, WSYNC, 0xCA, 0xD0, 0xFB]
    code = [*once, *frame, *wait, *each_frame, 0x4C, loop & 0xFF, loop >> 8]
    size = START + 0x1000 - start
    assert len(code) < size - 16
    return bytes(code).ljust(size - 4, b"\0") + bytes([0x00, start >> 8, 0x00, start >> 8])


INIT = [0x78, 0xD8, LDX, 0xFF, 0x9A]


def tia_rom(seed: int) -> bytes:
    """Random writes to the TIA at random times, and collisions that are read into RAM."""
    chosen = random.Random(seed)
    registers = [*range(0x04, 0x15), *range(0x1B, 0x2D)]
    code: list[int] = []
    while len(code) < 3300:
        kind = chosen.random()
        if kind < 0.72:
            register = chosen.choice(registers)
            value = chosen.randrange(256)
            if register == 0x0A and value & 4 and chosen.random() < 0.5:
                value &= 0xFB
            code += [LDA, value, STA, register]
        elif kind < 0.82:
            code += [STA, WSYNC]
        elif kind < 0.9:
            code += [0xEA] * chosen.randrange(1, 6)
        elif kind < 0.93:
            code += [LDA, chosen.choice([0, 0, 0, 2]), STA, 0x01]
        else:
            code += [0xA5, 0x30 + chosen.randrange(8), STA, 0x80 + chosen.randrange(128)]
    return rom(INIT, [*code, LDA, 0, STA, 0x01])


def atari(**options: Any) -> atari_env.Atari:
    """An environment with a ROM of our own."""
    with mock.patch.object(atari_env, "read_rom", lambda name, path: tia_rom(3)):
        given = {"full_action_set": True, "noop_max": 2, "sticky_actions": 0.25, **options}
        return atari_env.Atari(game="superman", **given)


def thinking_rom(loops: int) -> bytes:
    """Colours change with each frame, also in the middle of a line; in every fourth it then counts for longer than a
    frame, in loops of some 33,000 instructions."""

    def wait(lines: int) -> list[int]:
        return [LDX, lines, STA, WSYNC, 0xCA, 0xD0, 0xFB]

    top = [0xE6, 0x80, 0xA5, 0x80, STA, 0x09]
    middle = [*[0xEA] * 14, 0xA5, 0x80, 0x49, 0xF0, STA, 0x09]
    count = [LDX, 0x40, 0xA0, 0, 0x88, 0xD0, 0xFD, 0xCA, 0xD0, 0xF8] * loops
    think = [0xA5, 0x80, 0x29, 3, 0xD0, len(count), *count]
    return rom(INIT, [*top, *wait(60), *middle, *think, *wait(160)])


def late_colour_rom() -> bytes:
    """Frames of 100 lines; a colour changes in the blank in which a frame ends."""
    loop = START + len(INIT)
    wait = [LDX, 100, STA, WSYNC, 0xCA, 0xD0, 0xFB]
    end = [LDA, 2, STA, 0, STA, WSYNC, STA, WSYNC, 0xA5, 0x80, 0x0A, STA, 0x09, LDA, 0, STA, 0]
    code = [*INIT, *wait, 0xE6, 0x80, *end, 0x4C, loop & 0xFF, loop >> 8]
    return bytes(code).ljust(4092, b"\0") + bytes([0x00, 0xF0, 0x00, 0xF0])


@contextmanager
def plays(data: bytes, **changes: Any) -> Iterator[None]:
    """Superman is a game with this ROM, and with other facts."""
    facts = replace(GAMES["superman"], **{"mapper": "4K", **changes})
    with (
        mock.patch.object(atari_env, "read_rom", lambda name, path: data),
        mock.patch.object(atari_env, "facts_of", lambda name: facts),
    ):
        yield


def console(
    data: bytes, num_worlds: int = 1, pal: bool = False, mapper: str = "4K", **options: Any
) -> torch_batchsim.TorchVectorEnv:
    """Worlds that play the ROM as if it were Superman's, which has no modes and ends for a certain byte only."""
    vector = {"num_threads": 1, "autoreset_mode": "Disabled", "obs": "ram", "pictures": True, **AS_ALE}
    with plays(data, pal=pal, mapper=mapper), warnings.catch_warnings():
        warnings.simplefilter("error")
        return torch_batchsim.make_vec(atari_env.Atari, game="superman", num_worlds=num_worlds, **{**vector, **options})


def picture(env: torch_batchsim.TorchVectorEnv, world: int = 0) -> torch.Tensor:
    """The picture of indices that the last frame has drawn."""
    return env.sim.tensor("Picture.pixels")[world, int(env.sim.tensor("Tia.picture")[world])]


def ale_console(data: bytes, folder: Path) -> Any:
    """ale-py's console with the ROM, under a name that has no modes."""

    path = folder / "boxing.bin"
    path.write_bytes(data)
    return ale_of(path)


def ale_of(path: str | Path, sticky_actions: float = 0.0, mode: int | None = None, difficulty: int = 0) -> Any:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", sticky_actions)
    ale.loadROM(str(path))
    if mode is not None:
        ale.setMode(mode)
        ale.setDifficulty(difficulty)
    ale.reset_game()
    return ale
