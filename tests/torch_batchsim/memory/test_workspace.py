"""Workspace: memory that a system has for as long as it runs for a world.

The builds of tests/common/support.py fill it with other bytes before each system, the engine's own do not. That these
agree shows that nothing is taken from the world or the system before.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import messages
import pytest
import torch
from environments.shelf import Shelf
from environments.yard import Yard
from gymnasium.spaces import Discrete
from support import (
    COMPILED,
    EMULATION,
    assert_same_bits,
    declare,
    emulated_simulator,
    full_but,
    library,
    snapshot,
)

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    component,
    i32,
    u8,
)
from torch_batchsim.base.shared import BLOCK_THREADS, CHIP_OF_BLOCK, CHIP_OF_WARP, LANES
from torch_batchsim.build.codegen import Target
from torch_batchsim.declare.columns import Column
from torch_batchsim.resolve import chip
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import random_actions

WORLDS = 30


def step(sim: Simulator, steps: int = 25) -> Simulator:
    sim.reset(seed=5)
    generator = torch.Generator().manual_seed(8)
    for _ in range(steps):
        sim.act_and_step(torch.randint(4, (WORLDS, 1), generator=generator))
    return sim


def test_it_is_no_part_of_worlds() -> None:
    sim = Simulator(environment(None), 40, num_threads=2)
    assert set(sim.program.workspaces) == {"Heap", "Pile"}
    for names in (sim.program.columns, sim.state_dict()["tensors"], [str(sim.graph)]):
        assert not [name for name in names if "Heap" in name or "Pile" in name]
    with pytest.raises(KeyError, match=r"tensor 'Pile\.byte' does not exist"):
        sim.tensor("Pile.byte")


# ---- on chip, and in rows ------------------------------------------------------------------------------------------


@pytest.mark.full
def test_rows_are_for_what_is_not_on_chip() -> None:
    sim, phase = Simulator(Yard(), WORLDS), 1  # byte that CUDA executors have for each world beside
    sizes = {name: column.component.size for name, column in sim.program.workspaces.items()}
    for executor, in_rows in (("graph", ["depot.Sheet"]), ("megakernel", ["depot.Sheet"]), ("per_world", sizes)):
        emulated = emulated_simulator("yard", WORLDS, executor)
        size = sum(sizes[name] for name in in_rows)
        assert emulated.bytes_per_world - sim.bytes_per_world == pytest.approx(size + phase), executor


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "megakernel"])
def test_both_places_give_the_same_bits(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block on chip: nothing, what one group of lanes of eight needs, one byte less than all eight, and all."""
    expected = snapshot(step(Simulator(Yard(), WORLDS)))
    nodes = Program(Yard()).nodes
    sizes = [chip.place(node).bytes * BLOCK_THREADS // node.lanes for node in nodes if node.lanes > 1]
    assert len(set(sizes)) == 3
    for most in (0, max(sizes) // 8, max(sizes) - 1, CHIP_OF_BLOCK):
        monkeypatch.setattr(chip, "chip_bytes_of", lambda _, most=most: most)
        assert_same_bits(snapshot(step(emulated_simulator("yard", WORLDS, executor))), expected)


@pytest.mark.full
@pytest.mark.parametrize(("words", "placed"), [(CHIP_OF_WARP // 4, 1), (CHIP_OF_WARP // 4 + 1, 0)])
def test_the_limit(words: int, placed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    TBS_SYSTEM void run(World &world, Heap &heap, Sum &sum, Warp &warp) {
        constexpr u32 words = sizeof(Heap) / 4;
        warp.for_each(words, [&](u32 i) { heap.values[i] = sum.x + i32(i % 7); });
        const i32 total = warp.sum(words, [&](u32 i) { return heap.values[(i * 7919) % words]; });
        warp.once([&] { sum.x = total % 1000; });
    }
    """
    heap = component("Heap", values=i32[words])
    made = environment(tmp_path, text, step=TaskGraph("run"), workspace=[heap])
    program = Program(made)
    (node,) = program.graphs["step"]
    assert len(chip.place(node).offsets) == placed
    assert len(chip.in_rows(program, "graph", chip.chip_bytes_of(torch.device("cpu")))) == 1 - placed
    monkeypatch.setitem(COMPILED, "limit", lambda: made)
    plain = Simulator(made, 20)
    emulated = Simulator(made, 20, _library=library("limit", Target("cuda"), "-include", str(EMULATION)))
    assert ("workspace_Heap" in emulated.memory.others) == (placed == 0)
    for sim in (plain, emulated):
        sim.reset(seed=0)
        sim.tensor("Sum.x").copy_(torch.arange(20))
        for _ in range(2):
            sim.step()
    assert_same_bits(snapshot(emulated), snapshot(plain))


def test_places_of_a_group() -> None:
    """In order, what has room, each at a multiple of 16 bytes; of a block eight times as much as of a warp."""

    def offsets(lanes: int, *sizes: int) -> dict[int, int]:
        columns = [Column(f"c{i}", "", component(f"C{i}", x=u8[n]), 1, True) for i, n in enumerate(sizes)]
        system = SimpleNamespace(lanes=lanes)
        node = SimpleNamespace(lanes=system.lanes, workspaces=columns)
        placed = chip.place(node)
        assert placed.bytes % 16 == 0
        return {columns.index(column): offset for column, offset in placed.offsets.items()}

    most = CHIP_OF_WARP
    assert offsets(1, 8) == {}
    assert offsets(32, 3, 40, 1) == {0: 0, 1: 16, 2: 64}
    assert offsets(32, 16, most, most - 16, 16) == {0: 0, 2: 16}
    assert offsets(256, 8 * most) == {0: 0} and offsets(256, 8 * most + 1) == {}


@pytest.mark.parametrize("allowed", [166_912, 232_448], ids=["8.0 and 8.7", "9.0 to 11.x"])
def test_where_all_workspace_of_a_block_fits_on_chip(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices for which has_whole_chip() of csrc/tbs/workspace.h lets code take that for granted."""
    properties = SimpleNamespace(shared_memory_per_block_optin=allowed)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert chip.chip_bytes_of(torch.device("cuda")) >= BLOCK_THREADS // LANES["Warp"] * CHIP_OF_WARP


@pytest.mark.full
def test_a_solver_with_a_part_on_chip_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All contacts on chip; the solver in a row; three contacts on chip and the others beside it."""

    def played(**kwargs: Any) -> Simulator:
        env = TorchVectorEnv(COMPILED["shelf"](), num_worlds=5, **kwargs)
        env.reset(seed=2)
        for actions in random_actions(env, 12):
            env.step(actions)
        return env.sim

    sim = played()
    expected = snapshot(sim)
    assert sim.tensor("physics.Contacts.count").max() > 6
    emulation = ("-include", str(EMULATION))
    assert_same_bits(snapshot(played(_library=library("shelf", Target("cuda"), *emulation))), expected)
    with monkeypatch.context() as patched:
        patched.setattr(chip, "chip_bytes_of", lambda _: 0)
        assert_same_bits(snapshot(played(_library=library("shelf", Target("cuda"), *emulation))), expected)
    monkeypatch.setattr("torch_batchsim.physics.library.CHIP_OF_WARP", 6144)
    options = {"physics": {**Shelf.library_options["physics"], "contacts": 16}}
    monkeypatch.setitem(COMPILED, "shelf", type("Shelf", (Shelf,), {"library_options": options}))
    few = snapshot(played())
    assert_same_bits(snapshot(played(_library=library("shelf", Target("cuda"), *emulation))), few)


# ---- a large one ---------------------------------------------------------------------------------------------------


class Spot(Component):
    x: i32


class Act(Component):
    kind: i32


class Sum(Component):
    x: i32


LARGE = """
TBS_SYSTEM void run(World &world, Heap &heap, Sum &sum, Pile &pile) {
    for (u32 i = 0; i < 100000; ++i) heap.values[i] = sum.x + i32(i % 7);
    i32 total = 0;
    for (u32 i = 0; i < 100000; ++i) total += heap.values[(i * 7919) % 100000];
    pile.byte[2] = u8(total % 100);
    sum.x = total % 1000 + i32(pile.byte[2]);
}
TBS_SYSTEM void one(World &world, Pile &pile, Act &act, Row row) {
    pile.byte[0] = u8(act.kind);
    act.kind = i32(pile.byte[0]) + 1 + i32(row.index);
}
"""
HEAP, PILE = component("Heap", values=i32[100_000]), component("Pile", byte=u8[3])


def environment(folder: Path | None, text: str = LARGE, **changes: Any) -> Environment:
    attributes = {
        "archetypes": [Archetype("Walker", Act, Reward, count=1), Archetype("Stone", Spot, count=2)],
        "singletons": [Sum],
        "workspace": [HEAP, PILE],
        "step": TaskGraph("run", "one"),
        "observation": "Walker.Act",
        "action": "Walker.Act",
        "action_space": Discrete(3),
    }
    return declare(text, folder, **(attributes | changes))()


@pytest.mark.parametrize("executor", full_but(["batch"], ["batch", "per_world"]))
def test_large_workspace_on_each_thread(executor: str) -> None:
    sim = Simulator(environment(None), 40, num_threads=2, executor=executor)
    sim.reset(seed=0)
    sim.tensor("Sum.x").copy_(torch.arange(40))
    before = torch.arange(40)
    for step in range(3):
        sim.step()
        total = 100_000 * before + sum(i % 7 for i in range(100_000))
        before = total % 1000 + total % 100
        assert torch.equal(sim.tensor("Sum.x").long(), before)
        assert (sim.tensor("Walker.Act.kind") == step + 1).all()
    assert sim.bytes_per_world < 200


LEAKY = """
TBS_SYSTEM void run(World &world, Heap &heap, Sum &sum) {
    if (world.step() == 1) for (u32 i = 0; i < 8; ++i) heap.values[i] = 5;
    sum.x = 0;
    for (u32 i = 0; i < 8; ++i) sum.x += i32(heap.values[i] == 5);
}
"""


TARGETS = [Target(), pytest.param(Target("cuda"), marks=pytest.mark.full)]


@pytest.mark.parametrize("target", TARGETS, ids=["cpu", "cuda"])
def test_what_is_left_from_before_is_found(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that reads what another call has written gives other results in the tests' builds."""
    made = environment(tmp_path, LEAKY, step=TaskGraph("run"))
    monkeypatch.setitem(COMPILED, "leaky", lambda: made)
    emulation = ["-include", str(EMULATION)] if target.cuda else []
    sim = Simulator(made, 3, _library=library("leaky", target, *emulation))
    sim.reset(seed=0)
    sim.step()
    assert (sim.tensor("Sum.x") == 8).all()
    sim.step()
    assert (sim.tensor("Sum.x") < 8).all()


LASTING = """
TBS_SYSTEM void leave(World &world, Pile &pile, Sum &sum) {
    for (u32 i = 0; i < 3; ++i) pile.byte[i] = u8(sum.x + i32(i));
}
TBS_SYSTEM void find(World &world, Pile &pile, Sum &sum, Warp &warp) {
    const u32 found = warp.sum(3, [&](u32 i) { return u32(pile.byte[i]); });
    warp.once([&] { sum.x = i32(found); });
}
"""


EXECUTORS = [("graph", True), ("megakernel", True), ("per_world", False)]


@pytest.mark.parametrize(("executor", "lasts"), full_but(["graph"], EXECUTORS))
def test_what_lasts_is_left_for_later_systems(
    executor: str, lasts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CUDA, in rows; other workspace holds other bytes in each system."""
    made = environment(tmp_path, LASTING, step=TaskGraph("leave", "find"), lasting=[PILE] if lasts else [])
    monkeypatch.setitem(COMPILED, "lasting", lambda: made)
    sim = Simulator(made, 5, _library=library("lasting", Target("cuda", executor), "-include", str(EMULATION)))
    assert not lasts or "workspace_Pile" in sim.memory.others
    sim.reset(seed=0)
    sim.tensor("Sum.x").copy_(torch.arange(5))
    sim.step()
    assert torch.equal(sim.tensor("Sum.x").long(), 3 * torch.arange(5) + 3) == lasts


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_refused_workspace(tmp_path: Path) -> None:
    def declared(line: str) -> None:
        parameters, _, changes = line.partition(" ## ")
        text = f"TBS_SYSTEM void run(World &world, {parameters}) {{}}\n"
        Program(environment(tmp_path, text, **({"step": TaskGraph("run")} | eval(changes))))

    messages.refused("workspace", declared)


def test_it_is_not_reached_through_the_world(tmp_path: Path) -> None:
    def declared(line: str) -> None:
        text = f"TBS_SYSTEM void run(World &world) {{ {line} }}\n"
        Program(environment(tmp_path, text, step=TaskGraph("run")))

    messages.refused("workspace through the world", declared)


def test_lanes_write_it_inside_of_operations(tmp_path: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Pile &pile, Warp &warp) { pile.byte[0] = 1; }\n"
    with pytest.raises(SchemaError, match=r"runs on several lanes, all of which would do 'pile.byte\[0\] ='"):
        Program(environment(tmp_path, text, step=TaskGraph("run")))
