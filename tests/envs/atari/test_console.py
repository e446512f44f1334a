"""The console without a game's ROM: a model of the processor, ROMs of our own with golden digests, executors."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_6507 import OPCODES, Model
from own_roms import INIT, LDA, STA, ale_console, atari, console, picture, rom, tia_rom
from support import assert_same_bits, full_but, of_today, snapshot

from torch_batchsim import Simulator, WorldFault
from torch_batchsim.build import emulation
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program

JAM = 0x02
JAMS = [number for number, (name, _) in enumerate(OPCODES) if name == "JAM"]
NO_ACTION = torch.zeros(1, dtype=torch.int64)


# The processor --------------------------------------------------------------------------------------------------------


def jammed_rom() -> bytes:
    """Random bytes, half of them an instruction that halts."""
    chosen = random.Random(5)
    return bytes(JAM if chosen.random() < 0.5 else chosen.randrange(256) for _ in range(0xFFC)) + b"\x80\x00\x00\xf4"


def drawn(opcode: int, data: bytes, chosen: random.Random) -> tuple[Model, Model]:
    """A state with the instruction at 0x80, and the one after it, where the next one halts."""
    for _ in range(10_000):
        ram = [chosen.randrange(256) for _ in range(128)]
        ram[0:3] = opcode, chosen.randrange(256), chosen.choice([0x00, *range(0xF0, 0x100)])
        ram[3 - (OPCODES[opcode][1] in ("imp", "acc")) :][:1] = [ram[3]]
        memory = dict(enumerate(ram, 0x80)) | dict(enumerate(data, 0xF000))
        a, x, y = (chosen.choice([0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)]) for _ in range(3))
        flags = chosen.randrange(256) | 0x30
        state = {"a": a, "x": x, "y": y, "sp": chosen.randrange(0x84, 0xFC), "flags": flags, "pc": 0x80}
        before = Model(**state, memory=memory)
        try:
            after = Model(**state, memory=dict(memory))
            after.step()
            if after.pc < 0x1000 and after.read(after.pc) != JAM:  # put one there, and try again
                memory[after.pc] = JAM
                after = Model(**state, memory=dict(memory))
                after.step()
            if after.read(after.pc) == JAM and memory[0x80] == opcode:
                return before, after
        except KeyError:  # it reaches a device
            continue
    raise AssertionError(f"no state found for opcode {opcode:02X}")


def run_all(rounds: int) -> None:
    data, chosen = jammed_rom(), random.Random(rounds)
    opcodes = [number for number in range(256) if number not in JAMS]
    env = console(rom(INIT, []), num_worlds=len(opcodes))
    env.reset(seed=0)
    tensor = env.sim.tensor
    tensor("Roms.bytes")[0, :4096] = torch.tensor(list(data), dtype=torch.uint8)
    for _ in range(rounds):
        pairs = [drawn(opcode, data, chosen) for opcode in opcodes]
        for name in ("a", "x", "y", "sp", "flags", "pc"):
            tensor(f"Cpu.{name}")[:] = torch.tensor([getattr(before, name) for before, _ in pairs])
        rams = [[before.memory[address] for address in range(0x80, 0x100)] for before, _ in pairs]
        tensor("Ram.bytes")[:] = torch.tensor(rams, dtype=torch.uint8)
        tensor("Game.over")[:] = False
        with pytest.raises(WorldFault, match="halts the processor, opcode 2"):
            env.step(torch.zeros(len(opcodes), dtype=torch.int64))
        for world, (opcode, (before, after)) in enumerate(zip(opcodes, pairs, strict=True)):
            found = {name: int(tensor(f"Cpu.{name}")[world]) for name in ("a", "x", "y", "sp", "flags", "pc", "cycle")}
            expected = {name: getattr(after, name) for name in found} | {"pc": after.pc & 0xFFFF}
            code = [before.memory[0x80 + i] for i in range(3)]
            assert found == expected, f"{opcode:02X} {OPCODES[opcode]} {code}: from {before.a, before.x, before.y}"
            ram = tensor("Ram.bytes")[world].tolist()
            assert ram == [after.memory[address] for address in range(0x80, 0x100)], f"{opcode:02X} {OPCODES[opcode]}"
    env.close()


def test_every_opcode_against_a_model() -> None:
    run_all(1)


@pytest.mark.full
def test_every_opcode_with_many_operands() -> None:
    run_all(12)


def test_instructions_that_halt_are_faults_of_their_world() -> None:
    env = console(rom(INIT, []), num_worlds=2)
    env.reset(seed=0)
    env.sim.tensor("Cpu.pc")[1] = 0x80
    env.sim.tensor("Ram.bytes")[1, 0] = 0x92
    with pytest.raises(WorldFault, match=r"world 1: .*an instruction halts the processor, opcode 146"):
        env.step(torch.zeros(2, dtype=torch.int64))
    assert env.sim.tensor("Tia.lines")[0] == 33  # the other world goes on


def test_frames_that_never_end_are_faults_of_their_world() -> None:
    """3,600 in a row: what ends a frame is its number of instructions."""
    env = console(rom(INIT, []), num_worlds=2)
    env.reset(seed=0)
    tensor = env.sim.tensor
    tensor("Cpu.pc")[1] = 0x80
    tensor("Ram.bytes")[1, :3] = torch.tensor([0x4C, 0x80, 0x00])  # jumps to itself
    actions = torch.zeros(2, dtype=torch.int64)
    for count in range(1, 4):
        env.step(actions)
        assert tensor("Tia.unfinished").tolist() == [0, count]
    tensor("Tia.unfinished")[1] = 3598
    env.step(actions)
    with pytest.raises(WorldFault, match=r"world 1: .*no frame has ended by itself in the last 3600: the ROM or"):
        env.step(actions)
    assert tensor("Tia.lines")[0] == 33  # the other world goes on
    env.reset(options={"reset_mask": torch.tensor([False, True])})
    env.step(actions)
    assert tensor("Tia.unfinished").tolist() == [0, 0]
    env.close()


# ROMs of our own ------------------------------------------------------------------------------------------------------


def digest_of(seed: int, frames: int = 4) -> int:
    env = console(tia_rom(seed))
    env.reset(seed=0)
    for _ in range(frames):
        env.step(NO_ACTION)
    seen = env.sim.tensor("Ram.bytes")[0].numpy().tobytes() + picture(env).numpy().tobytes()
    env.close()
    return zlib.crc32(seen)


DIGESTS = {
    1: 1956657953,
    2: 3580339075,
    3: 2405129566,
    4: 2499886870,
}  # RAM and picture of ROMs, which agree with ale-py's


@pytest.mark.parametrize("seed", full_but([1], DIGESTS))
def test_random_writes_to_the_tia(seed: int) -> None:
    assert digest_of(seed) == DIGESTS[seed]


def same_as_ale(data: bytes, folder: Path, frames: int, pal: bool = False) -> None:
    pytest.importorskip("ale_py")
    import ale_py

    ale, env = ale_console(data, folder), console(data, pal=pal)
    env.reset(seed=0)
    for frame in range(frames):
        np.testing.assert_array_equal(env.sim.tensor("Ram.bytes")[0], ale.getRAM(), f"RAM of frame {frame}")
        np.testing.assert_array_equal(picture(env), ale.getScreen(), f"picture of frame {frame}")
        ale.act(ale_py.Action.NOOP)
        env.step(NO_ACTION)
    env.close()


def test_random_writes_to_the_tia_as_in_ale(tmp_path: Path) -> None:
    same_as_ale(tia_rom(1000), tmp_path, 3)


@pytest.mark.parametrize("seed", of_today(range(40), 10))
def test_many_random_writes_to_the_tia_as_in_ale(tmp_path: Path, seed: int) -> None:
    same_as_ale(tia_rom(2000 + seed), tmp_path, 4)


@pytest.mark.full
def test_pulls_beyond_the_stack_have_the_byte_below_on_the_bus(tmp_path: Path) -> None:
    code = [*INIT, LDA, 0x2A, STA, 0xFF, 0x68, STA, 0x80, 0xA2, 0xFF, 0x9A]
    env = console(rom(code, []))
    env.reset(seed=0)
    assert env.sim.tensor("Ram.bytes")[0, 0] == 0x2A
    env.close()
    same_as_ale(rom(code, []), tmp_path, 2)


@pytest.mark.parametrize("lines", full_but([290], [290, 300]))
def test_frames_without_an_end(tmp_path: Path, lines: int) -> None:
    """No VSYNC: a frame ends with a write after 290 lines. Without any write it ends after 25,000 instructions."""
    loop = [LDA, 0x44, STA, 0x09, STA, 0x02] if lines == 300 else [0xEA]
    code = [*INIT, *loop, 0x4C, 0x05, 0xF0]
    same_as_ale(rom(code, []), tmp_path, 5, pal=True)  # for which it holds what has so many lines


def test_decimal_differences_of_digits_above_9(tmp_path: Path) -> None:
    pairs = [(0x01, 0xFF), (0x00, 0xAA), (0x50, 0x9F), (0x20, 0xEF), (0x00, 0xA1)]
    code = [*INIT, 0xF8]
    for i, (left, right) in enumerate(pairs):
        code += [0x38, LDA, left, 0xE9, right, STA, 0x80 + i]
    same_as_ale(rom([*code, 0xD8], []), tmp_path, 1)


@pytest.mark.full
@pytest.mark.parametrize(("format", "lines", "most"), [("ntsc", 210, 291), ("pal", 250, 343)])
def test_televisions(format: str, lines: int, most: int) -> None:
    """One that is named is as the game's own: palette, lines, and where a frame without VSYNC ends."""
    endless = rom([*INIT, LDA, 0x44, STA, 0x09, STA, 0x02, 0x4C, 0x05, 0xF0], [])
    for data in (tia_rom(5), endless):
        options: dict[str, Any] = {"obs": "rgb", "render_mode": "rgb_array"}
        own = console(data, pal=format == "pal", **options)
        named = console(data, pal=format != "pal", format=format, **options)
        seen = []
        for env in (own, named):
            env.reset(seed=0)
            for _ in range(2):
                observations = env.step(NO_ACTION)[0]
            seen.append((observations, env.render(), env.sim.tensor("Ram.bytes"), env.sim.tensor("Tia.lines")))
        assert seen[0][0].shape == (1, lines, 160, 3) and seen[0][1][0].shape == (lines, 160, 3)
        for one, other in zip(*seen, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (seen[0][3] == most) == (data == endless)
        for env in (own, named):
            env.close()


# Cartridges -----------------------------------------------------------------------------------------------------------

LDA_FROM, STA_AT, INC = 0xAD, 0x8D, 0xE6


@pytest.mark.parametrize(("mapper", "first_spot", "banks", "begins"), [("F8", 0xF8, 2, 1), ("F6", 0xF6, 4, 0)])
def test_banks_follow_hot_spots(mapper: str, first_spot: int, banks: int, begins: int) -> None:
    """Each bank counts its frames, and selects the next one, where the program goes on."""
    clear = [LDA, 0, *(byte for i in range(banks) for byte in (STA, 0x80 + i))]
    spots = [first_spot + (bank + 1) % banks for bank in range(banks)]
    data = [rom([*INIT, *clear], [INC, 0x80 + bank, LDA_FROM, spot, 0xFF]) for bank, spot in enumerate(spots)]
    env = console(b"".join(data), mapper=mapper)
    env.reset(seed=0)
    counts = env.sim.tensor("Ram.bytes")[0, :banks]
    total = int(counts.sum())
    assert total > 60
    for frame in range(total, total + 9):
        before = counts.clone()
        env.step(NO_ACTION)
        assert (counts - before).tolist() == [int((begins + frame) % banks == bank) for bank in range(banks)]
    env.close()


def seen_by(data: bytes, mapper: str, count: int) -> list[int]:
    env = console(data, mapper=mapper)
    env.reset(seed=0)
    seen = env.sim.tensor("Ram.bytes")[0, :count].tolist()
    env.close()
    return seen


def test_e0_shows_slices_in_three_windows() -> None:
    reads: list[int] = []
    expected = [(0, 3), (1, 1), (2, 6), (0, 0), (1, 7), (2, 3)]  # windows, and slices of 1 KiB
    for i, (window, part) in enumerate(expected):
        reads += [LDA_FROM, 0xE0 + 8 * window + part, 0xFF, LDA_FROM, 0xF7, 0xF0 + 4 * window, STA, 0x80 + i]
    code = rom(INIT, reads, start=0xFC00)
    slices = [bytes([0x40 + part]) * 1024 for part in range(7)] + [code[:0xF7] + bytes([0x47]) + code[0xF8:]]
    assert seen_by(b"".join(slices), "E0", 6) == [0x40 + part for _, part in expected]


def test_fe_has_its_banks_at_two_addresses() -> None:
    code = rom(INIT, [LDA_FROM, 0x00, 0xD5, STA, 0x80, LDA_FROM, 0x00, 0xF5, STA, 0x81])
    data = code[:0x500] + bytes([0x11]) + code[0x501:] + bytes([0x22]) * 4096
    assert seen_by(data, "FE", 2) == [0x22, 0x11]


@pytest.mark.full
def test_ram_of_a_cartridge_is_written_and_read_at_two_addresses() -> None:
    code = rom(INIT, [LDA, 0x5A, STA_AT, 0x07, 0xF0, LDA_FROM, 0x87, 0xF0, STA, 0x80])
    assert seen_by(code + code, "F8SC", 1) == [0x5A]


# Starts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_cached_starts_are_those_of_consoles_that_have_started() -> None:
    """32 of them, each of which began with bytes of its own."""
    options = {"frame_skip": 1, "noop_max": 0, "fire_at_reset": False}
    begun = Simulator(atari(**options), 32, num_threads=1)
    begun.reset(seed=0)
    begun.step()  # the frame that gives a cached console its picture
    columns = ("Cpu.cycle", "Cpu.pc", "Ram.bytes", "Riot.value", "Tia.x", "Game.score")
    known = {state: i for i, state in enumerate(states(begun, columns))}
    assert len(known) == 32
    sim = Simulator(atari(start="cached", **options), 64, num_threads=1)
    sim.reset(seed=1)
    drawn = [known[state] for state in states(sim, columns)]
    assert 20 <= len(set(drawn)) <= 32  # 64 draws leave out 4 in the mean
    sim.reset()
    again = [known[state] for state in states(sim, columns)]
    assert sum(one != other for one, other in zip(drawn, again, strict=True)) > 48  # other ones in other episodes
    other_threads = Simulator(atari(start="cached", **options), 7, num_threads=2)
    other_threads.reset(seed=1)
    assert [known[state] for state in states(other_threads, columns)] == drawn[:7]


def states(sim: Simulator, columns: tuple[str, ...]) -> list[bytes]:
    return [b"".join(sim.tensor(name)[world].numpy().tobytes() for name in columns) for world in range(sim.num_worlds)]


# Executors ------------------------------------------------------------------------------------------------------------


def played(made: Any, steps: int, **options: Any) -> Any:
    sim = Simulator(made, 3, **options)
    sim.reset(seed=3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        sim.tensor("Console.Choice.action")[:] = torch.randint(0, 18, (3, 1), generator=generator)
        sim.step()
    return snapshot(sim)


@pytest.mark.parametrize(("obs", "start"), of_today([("rgb", "cached"), ("84x84", "ale")], 1))
def test_executors_have_the_same_bits(obs: str, start: str) -> None:
    made = atari(obs=obs, start=start)
    program = Program(made)
    first = played(made, 3)
    for options in ({"executor": "per_world"}, {"checks": True}):
        assert_same_bits(first, played(made, 3, **options))
    for executor in EXECUTORS["cuda"]:
        assert_same_bits(first, played(made, 3, _library=emulation.load(program, executor)))
