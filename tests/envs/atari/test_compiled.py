"""ROMs that are compiled: the same bits as interpreted ones, and what is found in a ROM."""

from __future__ import annotations

import os
import random
import warnings
from dataclasses import replace
from datetime import date
from typing import Any
from unittest import mock

import pytest
import torch
from own_roms import AS_ALE, INIT, LDA, STA, rom
from support import assert_same_bits, of_today, snapshot
from torch_batchsim.envs.atari import env as atari_env
from torch_batchsim.envs.atari.compiled import CompiledRom, Plugged, definitions
from torch_batchsim.envs.atari.games import GAMES

import torch_batchsim
from torch_batchsim import Simulator, WorldFault
from torch_batchsim.build import emulation
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program

TODAY = int(os.environ.get("ATARI_SEED", date.today().toordinal()))
HALTS = {0x02, 0x12, 0x22, 0x32, 0x42, 0x52, 0x62, 0x72, 0x92, 0xB2, 0xD2, 0xF2}
KIB = {"4K": 4, "F8": 8, "F8SC": 8, "F6": 16, "E0": 8, "FE": 8, "DPC": 10}
NAMES = ("superman", "pong", "breakout", "boxing", "freeway", "tennis", "skiing", "enduro")

JSR, RTS, JMP, JMP_INDIRECT, INC, DEX, BNE = 0x20, 0x60, 0x4C, 0x6C, 0xE6, 0xCA, 0xD0
MARK = 0x5B  # of the routine that only an indirect jump reaches


def turns_rom() -> bytes:
    """Code in RAM that changes, a jump by a pointer, one by RTS, a loop over the end of a page."""
    once = [*INIT, LDA, INC, STA, 0x80, LDA, 0x90, STA, 0x81, LDA, RTS, STA, 0x82]
    begin = 0xF000 + len(once) + 21  # of what runs in the picture
    code = [JSR, 0x80, 0x00, 0xA5, 0x81, 0x49, 0x01, STA, 0x81]
    routine = begin + len(code) + 18
    code += [LDA, routine & 0xFF, STA, 0xA0, LDA, routine >> 8, STA, 0xA1, JMP_INDIRECT, 0xA0, 0x00]
    code += [LDA, 0, STA, 0xA2, 0x4C, 0, 0xF0]  # not reached
    code += [LDA, MARK, STA, 0xA3]
    back = begin + len(code) + 6
    code += [LDA, (back + 2) >> 8, 0x48, LDA, (back + 2) & 0xFF, 0x48, RTS, 0x00, 0x00]
    code += [0xEA] * (0xFC - (begin + len(code)) % 256)
    code += [0xA2, 4, INC, 0x92, DEX, BNE, 0xFB]
    return rom(once, code)


def random_rom(mapper: str, seed: int, halts: bool = False, opcodes: int = 256) -> bytes:
    """Random bytes, which read as many instructions, from the last address with a vector in each bank."""
    chosen = random.Random(f"{mapper} {seed}")
    values = chosen.sample(range(256), opcodes)
    data = [chosen.choice(values) for _ in range(1024 * KIB[mapper])]
    data = [0xEA if byte in HALTS and not halts else byte for byte in data]
    banks = 8192 if mapper == "DPC" else len(data)
    for end in range(4096, banks + 1, 4096):
        data[end - 4 : end] = [0x00, 0xF4 if mapper != "E0" else 0xFC, 0x40, 0xFD]
    return bytes(data)


def consoles(roms: list[tuple[str, bytes]], num_worlds: int | None = None, **options: Any) -> Any:
    """A world for each mapper and ROM."""
    facts = {
        name: replace(GAMES["superman"], name=name, mapper=mapper)
        for name, (mapper, _) in zip(NAMES, roms, strict=False)
    }
    data = dict(zip(NAMES, (each for _, each in roms), strict=False))
    vector = {"num_threads": 1, "autoreset_mode": "Disabled", "obs": "ram", "pictures": True, **AS_ALE}
    with (
        mock.patch.object(atari_env, "read_rom", lambda name, path: data[name]),
        mock.patch.object(atari_env, "facts_of", lambda name: facts[name]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        return torch_batchsim.make_vec(
            atari_env.Atari, game=list(facts), num_worlds=num_worlds or len(roms), **{**vector, **options}
        )


def same_bits(roms: list[tuple[str, bytes]], frames: int, seed: int = 0) -> Any:
    """Compares all of the state after each frame, and faults. Returns the compiled worlds."""
    envs = [consoles(roms, compiled=compiled) for compiled in (False, True)]
    chosen = torch.Generator().manual_seed(seed)
    said: list[list[str]] = [[], []]

    def both(frame: int, act: Any) -> None:
        for env, faults in zip(envs, said, strict=True):
            try:
                act(env)
            except WorldFault as fault:
                faults.append(str(fault))
        assert said[0] == said[1], f"faults of frame {frame}"
        assert_same_bits(snapshot(envs[0].sim), snapshot(envs[1].sim))

    both(-1, lambda env: env.reset(seed=seed))
    for frame in range(frames):
        actions = torch.randint(0, 18, (len(roms),), generator=chosen)
        both(frame, lambda env, actions=actions: env.step(actions))
    envs[0].close()
    return envs[1]


def test_code_in_ram_and_jumps_by_pointers() -> None:
    env = same_bits([("4K", turns_rom())], 4)
    ram = env.sim.tensor("Ram.bytes")[0]
    assert int(ram[0x23]) == MARK and int(ram[0x22]) != 0
    # The program that runs is the one that was compiled.
    env.sim.tensor("Roms.bytes")[0, turns_rom().index(bytes([LDA, MARK])) + 1] = 0x11
    counted = []
    for _ in range(2):
        before = ram.clone()
        env.step(torch.zeros(1, dtype=torch.int64))
        counted.append(tuple((ram - before)[0x10:0x12].tolist()))
    assert sorted(counted) == [(0, 1), (1, 0)]  # by the code in RAM, which changes each frame
    assert int(ram[0x23]) == MARK
    env.close()


@pytest.mark.parametrize("seed", of_today(range(20), 1))  # of each cartridge g++ compiles all opcodes: 5 s each
def test_random_code_of_every_cartridge(seed: int) -> None:
    """Frames of 25,000 instructions, in which banks and RAM change at any place."""
    roms = [(mapper, random_rom(mapper, seed)) for mapper in KIB]
    same_bits([*roms, ("4K", random_rom("4K", seed + 1000, halts=True))], 20, seed).close()


@pytest.mark.full
def test_frames_that_never_end_and_instructions_that_halt() -> None:
    loop = [LDA, 0x44, STA, 0x09, STA, 0x02]
    endless = [rom([*INIT, *part, JMP, 0x05, 0xF0], []) for part in (loop, [0xEA])]
    same_bits([("4K", endless[0]), ("4K", endless[1]), ("4K", rom([*INIT, 0xEA, 0x92], []))], 6).close()


@pytest.mark.full
def test_executors_and_threads_have_the_same_bits() -> None:
    """CUDA, here an emulated device, interprets."""
    roms = [("4K", turns_rom()), ("F8", random_rom("F8", 6, opcodes=48))]
    env = consoles(roms, compiled=True, num_worlds=6)
    made = env.sim.environment
    seen = []
    others = [{"num_threads": 2}, {"executor": "per_world", "num_threads": 1}, {"checks": True, "num_threads": 1}]
    others += [{"_library": emulation.load(Program(made), executor)} for executor in EXECUTORS["cuda"]]
    for options in others:
        sim = Simulator(made, 6, **options)
        sim.reset(seed=2)
        for _ in range(3):
            sim.step()
        seen.append(snapshot(sim))
    for other in seen[1:]:
        assert_same_bits(seen[0], other)


# What is found --------------------------------------------------------------------------------------------------------


def test_code_is_found_behind_jumps_and_between() -> None:
    data = turns_rom()
    found = CompiledRom(data, Plugged("4K"))
    assert data.index(bytes([LDA, MARK])) in found.entries  # by a jump whose pointer is not known
    assert 0xFFC not in found.code and 0 in found.entries
    assert found.leaders <= found.code.keys() and found.entries <= found.leaders


def test_banks_are_followed_through_hot_spots() -> None:
    first = rom([*INIT, 0xAD, 0xF8, 0xFF], [])
    second = bytes([0xEA] * 8 + [LDA, 7, STA, 0x80, 0x4C, 0x08, 0xF0]).ljust(4096, b"\x02")
    found = CompiledRom(second + first, Plugged("F8"))
    assert {8, 10} <= found.code.keys()  # in bank 0, behind the instruction that selects it
    assert 8 in found.entries and 4096 in found.entries


def test_equal_roms_are_compiled_once() -> None:
    first, other = turns_rom(), rom([*INIT], [])
    text = definitions([first, other, first], [Plugged("4K")] * 3)
    assert "case 2: return program_0<" in text and "program_1<" in text and "program_2" not in text


def test_no_code_is_no_error() -> None:
    assert not CompiledRom(b"\x02" * 4096, Plugged("4K")).code
    env = consoles([("4K", b"\x02" * 0xFFC + b"\x00\xf0\x00\xf0")], compiled=True)
    with pytest.raises(WorldFault, match="opcode 2"):
        env.reset(seed=0)
    env.close()


@pytest.mark.parametrize(("given", "error"), [("yes", TypeError), (2, TypeError)])
def test_the_option_is_true_or_false(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="option compiled must be True or False, got"):
        consoles([("4K", turns_rom())], compiled=given)


# Games ----------------------------------------------------------------------------------------------------------------


def games_of_today() -> list[str]:
    if os.environ.get("ATARI_GAMES") == "all":
        return list(GAMES)
    return random.Random(f"compiled {TODAY}").sample(sorted(GAMES), 3)


@pytest.mark.full
@pytest.mark.parametrize(("number", "name"), [*enumerate(games_of_today())])
def test_games_have_the_same_bits(number: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """RAM, registers and pictures of every frame, from the start of the day's seed.

    Of three games one, another one each day, has an ordinary build, which takes g++ three times as long.
    """
    pytest.importorskip("ale_py")
    if number % 3 == 0:
        monkeypatch.delenv("TBS_DEBUG", raising=False)
    options = {"num_threads": 1, "obs": "ram", "pictures": True, "frame_skip": 1}
    envs = [
        torch_batchsim.make_vec(atari_env.Atari, game=name, num_worlds=4, compiled=compiled, **options)
        for compiled in (False, True)
    ]
    chosen = random.Random(f"{name} {TODAY}")
    for env in envs:
        env.reset(seed=TODAY)
    assert_same_bits(*(snapshot(env.sim) for env in envs))
    actions = torch.zeros(4, dtype=torch.int64)
    for _ in range(1500):
        if chosen.random() < 0.15:
            actions[chosen.randrange(4)] = chosen.randrange(int(envs[0].single_action_space.n))
        for env in envs:
            env.step(actions)
        assert_same_bits(*(snapshot(env.sim) for env in envs))
    for env in envs:
        env.close()
