"""Systems that take several worlds at a time: which ones are together must not show.

tests/torch_batchsim/resolve/test_executors.py runs the environment "yard", which has one in `start` and in a `Repeat`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import messages
import numpy as np
import pytest
import torch
from environments.yard import Yard
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from support import assert_same_bits, declare, emulated_cuda, ended_worlds, full_but, random_actions, snapshot

from torch_batchsim import (
    Archetype,
    BuildError,
    Component,
    Environment,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    i32,
)
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import of_worlds


class Spot(Component):
    x: i32


class Act(Component):
    kind: i32


class Sum(Component):
    x: i32
    together: i32


class Sheet(Component):
    x: i32[64]


TEXT = """
TBS_SYSTEM void run(Worlds<4> &worlds, Sheet &sheet, Warp &warp) {
    warp.for_each(16 * worlds.count, [&](u32 i) { sheet.x[i] = worlds[i / 16].rows<Stone, const Spot>()[i % 16].x; });
    for (u32 k = 0; k < worlds.count; ++k) {
        const i32 total = warp.sum(16, [&](u32 i) { return sheet.x[16 * k + i]; });
        warp.once([&] { worlds[k].get<Sum>() = Sum{total, SEEN}; });
        const World world = worlds[k];
        if (total < 0) world.fail(Fault::nan, total);
    }
}
"""


def environment(folder: Path, text: str = TEXT.replace("SEEN", "0"), **changes: Any) -> Environment:
    attributes = {
        "archetypes": [Archetype("Walker", Act, Reward, count=1), Archetype("Stone", Spot, count=16)],
        "singletons": [Sum],
        "workspace": [Sheet],
        "step": TaskGraph("run"),
        "observation": "Walker.Act",
        "action": "Walker.Act",
        "action_space": Discrete(3),
    }
    return declare(text, folder, **(attributes | changes))()


@pytest.mark.parametrize("executor", full_but(["batch"], ["batch", "per_world"]))
def test_each_world_has_its_own_result(executor: str, tmp_path: Path) -> None:
    made = environment(tmp_path)
    for worlds in (1, 3, 4, 9):
        sim = Simulator(made, worlds, executor=executor)
        sim.reset(seed=0)
        spots = torch.randint(0, 100, (worlds, 16), dtype=torch.int32)
        sim.tensor("Stone.Spot.x").copy_(spots)
        sim.step()
        assert torch.equal(sim.tensor("Sum.x"), spots.sum(1).int())
    assert "step     run over 4 worlds at a time, 32 lanes each" in str(sim.graph)
    sim.tensor("Stone.Spot.x")[6, 0] = -10_000
    with pytest.raises(WorldFault, match="world 6: system 'run' failed at row 0: nan") as raised:
        sim.step()
    assert raised.value.mask.nonzero().flatten().tolist() == [6]


@pytest.mark.full
def test_a_system_that_looks_at_its_company_is_found(tmp_path: Path) -> None:
    """By what the tests of executors compare."""
    made = environment(tmp_path, TEXT.replace("SEEN", "i32(worlds.count)"))
    together = []
    for executor in ("batch", "per_world"):
        sim = Simulator(made, 7, executor=executor)
        sim.reset(seed=0)
        sim.step()
        together.append(sim.tensor("Sum.together").tolist())
    assert together == [[4, 4, 4, 4, 3, 3, 3], [1] * 7]


@pytest.mark.full
def test_a_hidden_access_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TBS_DEBUG")  # quick builds do not inline systems, which the compiler's check needs
    text = "#define QUIET(name) name\n" + TEXT.replace("worlds[k].get<Sum>()", "worlds[k].QUIET(get)<Sum>()")
    with pytest.raises(
        BuildError, match=r"systems.h:7: system 'run' \(systems.h:3\) does get<Sum>, which the engine has not"
    ):
        Simulator(environment(tmp_path, text.replace("SEEN", "0")), 1)


def yard(mode: AutoresetMode, tile: int | None = None, worlds: int = 50, **kwargs: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(Yard(), num_worlds=worlds, autoreset_mode=mode, **kwargs)
    if tile is not None:
        env.sim.memory.context.tile = tile
    full = TorchVectorEnv(Yard(), num_worlds=50)
    env.reset(seed=3)
    generator = np.random.default_rng(1)
    for step in range(25):
        env.step(random_actions(full, generator)[:worlds])
        ended = ended_worlds(env)
        if mode is AutoresetMode.DISABLED and step % 3 == 0 and ended.any():
            env.reset(options={"reset_mask": ended})
    return env


@pytest.mark.full
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_tiles_and_gaps_do_not_show(mode: AutoresetMode) -> None:
    expected = snapshot(yard(mode).sim)
    assert len(set(yard(mode).sim.tensor("depot.Tally.score").tolist())) > 40
    for tile in (1, 4, 7):
        assert_same_bits(expected, snapshot(yard(mode, tile).sim))
        assert_same_bits(expected, snapshot(yard(mode, tile, _library=emulated_cuda("yard")).sim))
    few = snapshot(yard(mode, worlds=11).sim)
    assert_same_bits(of_worlds(expected, torch.arange(50) < 11), few)


def test_refused_systems_of_several_worlds(tmp_path: Path) -> None:
    def declared(line: str) -> None:
        parameters, _, body = line.partition(" ## ")
        Program(environment(tmp_path, f"TBS_SYSTEM void run({parameters}) {{ {body} }}\n"))

    messages.refused("several worlds at a time", declared)
