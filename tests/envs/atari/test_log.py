"""On CUDA a thread runs frames and logs writes to the TIA, and a warp draws them: emulated, with the CPU's bits."""

from __future__ import annotations

from typing import Any

import pytest
import sass
import torch
from own_roms import INIT, LDA, STA, atari, late_colour_rom, plays, rom, thinking_rom, tia_rom
from races import Detector, Mutation, Race, memory_of, watched
from support import COMPILED, assert_same_bits, of_today, snapshot, spoil
from torch_batchsim.envs.atari import env as atari_env
from torch_batchsim.envs.atari.games import GAMES

from torch_batchsim import Simulator, TorchVectorEnv
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program

pytestmark = pytest.mark.full


def played(made: atari_env.Atari, steps: int, **run: Any) -> Any:
    sim = Simulator(made, 3, **run)
    sim.reset(seed=3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        sim.tensor("Console.Choice.action")[:] = torch.randint(0, made.action_space.n, (3, 1), generator=generator)
        sim.step()
    return snapshot(sim)


def assert_drawn_alike(made: atari_env.Atari, steps: int, executor: str = "graph") -> None:
    on_cpu = played(made, steps, num_threads=1)
    assert_same_bits(played(made, steps, _library=emulation.load(Program(made), executor)), on_cpu)


ENDLESS = rom([*INIT, LDA, 0x44, STA, 0x09, STA, 0x02, 0x4C, 0x05, 0xF0], [])  # without VSYNC
OF_ALE = {"obs": "rgb", "start": "ale", "frame_skip": 3}
ROMS: dict[str, tuple[bytes, dict[str, Any], dict[str, Any], tuple[int, int]]] = {  # facts, options, the log's room
    "random writes, of which the log holds half": (tia_rom(1), {}, {"obs": "rgb"}, (2, 300)),
    "random writes, of which the log holds few": (tia_rom(2), {}, {"obs": "84x84"}, (4, 36)),
    "two televisions' colours and a comb": (tia_rom(7), {"pal": True, "comb": True}, {"obs": "rgb"}, (4, 5120)),
    "steps of one frame": (tia_rom(8), {}, {"obs": "gray", "frame_skip": 1}, (4, 5120)),
    "episodes end within steps": (tia_rom(9), {}, {"frame_skip": 6, "max_episode_frames": 11}, (4, 5120)),
    # These five have two builds, one for each room.
    "frames without an end": (ENDLESS, {}, OF_ALE, (4, 5120)),
    "a colour changes in the blank in which a frame ends": (late_colour_rom(), {}, OF_ALE, (4, 5120)),
    "frames in two parts": (thinking_rom(1), {}, OF_ALE, (4, 5120)),
    "frames without an end, little room": (ENDLESS, {}, {"obs": "rgb", "frame_skip": 3}, (3, 12)),
    "frames in many parts, little room": (thinking_rom(3), {}, {"obs": "rgb", "frame_skip": 3}, (3, 12)),
}


@pytest.mark.parametrize("name", ROMS)
def test_pictures_are_those_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, facts, options, (frames, writes) = ROMS[name]
    monkeypatch.setattr(atari_env, "LOGGED_FRAMES", frames)
    monkeypatch.setattr(atari_env, "LOGGED_WRITES", writes)
    with plays(data, **facts):
        given = {"full_action_set": True, "noop_max": 2, "sticky_actions": 0.25, **options}
        assert_drawn_alike(atari_env.Atari(game="superman", **given), 8)


def test_frames_of_thinking_games_are_unfinished() -> None:
    with plays(thinking_rom(3)):
        sim = Simulator(atari_env.Atari(game="superman", frame_skip=3, noop_max=0), 1)
    sim.reset(seed=0)
    seen = set()
    for _ in range(6):
        sim.step()
        seen.add(int(sim.tensor("Tia.unfinished")[0]))
    assert len(seen) > 1


def test_pictures_of_the_megakernel() -> None:
    assert_drawn_alike(atari(obs="84x84", start="cached"), 4, "megakernel")


@pytest.mark.parametrize("game", of_today(sorted(GAMES), 2))
def test_pictures_of_games(game: str) -> None:
    pytest.importorskip("ale_py", reason="ale-py is not installed: no game's pictures are compared")
    assert_drawn_alike(atari_env.Atari(game=game, obs="rgb", start="cached", max_episode_frames=30), 12)


def races(monkeypatch: pytest.MonkeyPatch, *mutations: Mutation) -> list[Race]:
    monkeypatch.setitem(COMPILED, "atari", lambda: atari(start="cached", max_episode_frames=7))
    library = watched("atari", "graph", *mutations)
    detector = Detector(library.path)
    env = TorchVectorEnv(COMPILED["atari"](), num_worlds=3, _library=library)
    env.reset(seed=7)
    found = detector.races(memory_of(env.sim))
    for _ in range(3):
        if mutations and found:
            return found  # a report of many races takes seconds
        spoil(env.sim)
        env.step(torch.zeros(3, dtype=torch.int64))
        found += detector.races(memory_of(env.sim))
    assert detector.accesses > 10_000_000
    return found


def test_no_lanes_draw_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    found = races(monkeypatch)
    assert found == [], "\n".join(map(str, found[:20]))


def test_a_lane_that_draws_all_columns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    every = "for (u32 i = 0; i < n; ++i) body(i);\n        sync();"
    own = "for (u32 i = first_lane(); i < n; i += stride()) body(i);\n        sync();"
    assert any("column_Picture" in str(race) for race in races(monkeypatch, Mutation("tbs/lanes.h", own, every)))


@pytest.mark.skipif(sass.nvcc() is None or sass.cuobjdump() is None, reason="no nvcc, or no cuobjdump with nvdisasm")
def test_atari_is_run_by_threads_and_drawn_by_warps() -> None:
    """As docs/gpu.md states: drawing has few registers and little code, which fits the cache of instructions."""
    found = {kernel.nodes: kernel for kernel in sass.kernels(atari(start="cached"), "graph") if not kernel.resets}
    drawing, running = found["draw_pictures",], found["play",]
    assert drawing.registers <= 72 and drawing.stack <= 256 and drawing.shared <= 1024
    assert drawing.instructions <= 3_300 and drawing.accesses["ST", 8] + drawing.accesses["STG", 8] > 4
    assert running.stack <= 940 and running.instructions <= 29_500 and running.shared <= 1024
    assert not drawing.unsafe and not running.unsafe
