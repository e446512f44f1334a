"""Dynamic tables at their edges: declarations, growth, overflow, exports, handles from elsewhere, extreme sizes."""

from __future__ import annotations

import warnings
from typing import Any

import messages
import numpy as np
import pytest
import torch
from environments.zoo import COMMANDS, Body, Kin, Zoo
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from support import assert_same_bits, declare, of_worlds, snapshot

from torch_batchsim import (
    Archetype,
    BuildError,
    Component,
    Entity,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    f32,
    i32,
)
from torch_batchsim.memory.inputs import changed_numbers
from torch_batchsim.resolve.program import Program


class Spot(Component):
    x: i32


class Order(Component):
    rows: i32


class Seen(Component):
    rows: i32


PLAYER = Archetype("Player", Order, Seen, Reward, count=1)
SYSTEMS = """
TBS_SYSTEM void fill(World &world, const Order &order) {
    for (i32 i = 0; i < order.rows; ++i) world.create<Item>(Spot{i});
    if (order.rows < 0) {
        for (u32 i = 0; i < world.count<Item>(); ++i) world.destroy(world.entity<Item>(i));
    }
}
TBS_SYSTEM void walk(World &world, Spot &spot) { spot.x += 1; }
TBS_SYSTEM void count(World &world, Seen &seen) { seen.rows = i32(world.count<Item>()); }
TBS_SYSTEM void sum(World &world, Warp &warp, Seen &seen) {
    const Rows<const Spot> spots = world.rows<Item, const Spot>();
    const i32 total = warp.sum(spots.count, [&](u32 i) { return spots[i].x; });
    warp.once([&] { seen.rows += total; });
}
"""


def box(text: str = SYSTEMS, **attributes: Any) -> Any:
    """An environment of one player, who orders rows of a dynamic archetype Item."""
    given = {
        "archetypes": (PLAYER, Archetype("Item", Spot, capacity=8, limit=32)),
        "step": TaskGraph("fill", "walk", "count"),
        "observation": "Player.Seen",
        "action": "Player.Order",
        "action_space": Discrete(100),
        **attributes,
    }
    return declare(text, **given)()


def order(sim: Simulator, rows: list[int]) -> None:
    sim.Player.Order.rows[:, 0] = torch.tensor(rows)
    sim.step()


# ---- declarations --------------------------------------------------------------------------------------------------


def test_refused_archetypes() -> None:
    messages.refused("dynamic archetypes", lambda line: eval(line))


def test_systems_are_refused_before_a_compiler_runs() -> None:
    def declared(line: str) -> None:
        Program(box(f"{SYSTEMS}TBS_SYSTEM void bad{line}", step=TaskGraph("bad")))

    messages.refused("systems and rows", declared)


@pytest.mark.full
def test_what_helper_functions_do_is_seen() -> None:
    text = SYSTEMS + """
    TBS_FUNCTION Entity make(World &world, i32 x) { return world.create<Item>(Spot{x}); }
    TBS_FUNCTION void make_two(World &world) { make(world, 1); make(world, 2); }
    TBS_SYSTEM void by_helper(World &world) { if (world.step() == 1) make_two(world); }
    TBS_FUNCTION i32 look(World &world) { return world.rows<Item, const Spot>()[0].x; }
    TBS_SYSTEM void race(World &world, Spot &spot) { spot.x = look(world); }
    """
    environment = box(text, step=TaskGraph("by_helper", "count"))
    assert Program(environment).graphs["step"][0].changes == ["Item"]
    sim = Simulator(environment, 2)
    sim.reset(seed=0)
    sim.step()
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [2, 2]
    with pytest.raises(SchemaError, match=r"reads Item.Spot of other rows while each row writes its own"):
        Program(box(text, step=TaskGraph("race")))


@pytest.mark.parametrize(
    "helper",
    [
        "TBS_FUNCTION i32 look(World &w) noexcept { return w.rows<Item, const Spot>()[0].x; }",
        "TBS_FUNCTION i32 look(World &w, i32 k = i32(0)) { return w.rows<Item, const Spot>()[k].x; }",
        "template <class Any> TBS_FUNCTION i32 look(Any &w) { return w.template rows<Item, const Spot>()[0].x; }",
        "#define look(w) (w).rows<Item, const Spot>()[0].x",
        "#define look(w) \\\n (w).rows<Item, const Spot>()[0].x",
    ],
)
def test_races_by_way_of_helpers_are_refused(helper: str) -> None:
    text = helper + "\nTBS_SYSTEM void race(World &world, Spot &spot) { const char q = '}'; spot.x = look(world) + q; }"
    with pytest.raises(SchemaError, match=r"reads Item.Spot of other rows while each row writes its own"):
        Program(box(SYSTEMS + text, step=TaskGraph("race")))


@pytest.mark.full
def test_an_order_that_is_used_twice_is_a_fault() -> None:
    text = SYSTEMS + """
    TBS_SYSTEM void twice(World &world, const Order &order, Warp &warp) {
        warp.for_each(u32(order.rows), [&](u32 i) { world.create_at<Item>(i == 3 ? 1u : i, Spot{i32(i)}); });
    }
    """
    sim = Simulator(box(text, step=TaskGraph("twice", "count")), 3)
    sim.reset(seed=0)
    with pytest.raises(WorldFault, match="'twice' failed at row 0: order_used_twice: create_at was called") as raised:
        order(sim, [3, 5, 0])
    assert raised.value.mask.tolist() == [False, True, False]
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [3, 0, 0]


@pytest.mark.full
def test_operations_that_would_differ_do_not_compile() -> None:
    lines = {
        "warp.scan(4u, [&](u32 i) { return i > 1; }, [&](u32 i, u32 b) {});": "scan takes integer terms",
        "warp.sum(4u, [&](u32 i) { return i > 1; });": "sum of conditions: write count",
        "struct Much { f32 x[2000]; }; warp.shared<Much>();": "shared<T>: at most 3 KiB for a Warp",
    }
    systems = [f"TBS_SYSTEM void bad{i}(World &world, Warp &warp) {{ {line} }}\n" for i, line in enumerate(lines)]
    with pytest.raises(BuildError) as raised:
        Simulator(box(SYSTEMS + "".join(systems), step=TaskGraph("bad0", "bad1", "bad2")), 1)
    assert all(says in str(raised.value) for says in lines.values())


def test_operations_write_the_components_of_the_row() -> None:
    text = SYSTEMS + """
    TBS_SYSTEM void end(World &world, Seen &seen, Reward &reward, Episode &episode, Block &block) {
        block.once([&] { seen.rows = 3; episode.truncated = world.step() == 2; });
        if (seen.rows == 3 && !episode.truncated) block.once([&] { reward.value = 1.5f; });
    }
    """
    sim = Simulator(box(text, step=TaskGraph("end")), 2)
    sim.reset(seed=0)
    sim.step()
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [3, 3]
    assert sim.tensor("Player.Reward.value").flatten().tolist() == [1.5, 1.5]
    sim.step()
    assert sim.tensor("World.truncated").tolist() == [True, True]


# ---- growth and overflow -------------------------------------------------------------------------------------------


def test_a_world_grows_between_steps_and_tensors_are_exported_anew() -> None:
    sim = Simulator(box(), 3)
    sim.reset(seed=0)
    order(sim, [6, 5, 0])  # three quarters of 8 in world 0
    spots, ragged, layout = sim.tensor("Item.Spot.x"), sim.ragged("Item.Spot.x"), sim.layout
    assert ragged.first.tolist() == [0, 8, 16]
    before = ragged.packed()[0].tolist()
    order(sim, [1, 1, 1])
    assert sim.layout == layout + 1
    assert sim.ragged("Item.Spot.x").first.tolist() == [0, 16, 24]  # only the world that needed it
    assert sim.ragged("Item.Spot.x").world(0).tolist() == [x + 1 for x in before[:6]] + [1]
    assert ragged.packed()[0].tolist() == before and sim.tensor("Item.Spot.x").data_ptr() != spots.data_ptr()
    stays = sim.tensor("Item.Spot.x")
    order(sim, [1, 0, 1])
    assert sim.layout == layout + 2 and sim.tensor("Item.Spot.x").data_ptr() != stays.data_ptr()  # world 1 had 6
    stays, layout = sim.tensor("Item.Spot.x"), sim.layout
    order(sim, [0, 0, 0])
    assert sim.tensor("Item.Spot.x").data_ptr() == stays.data_ptr() and sim.layout == layout


def test_overflow_names_table_capacity_and_worlds_and_touches_no_other() -> None:
    sim, calm = Simulator(box(), 4), Simulator(box(), 4)
    for both in (sim, calm):
        both.reset(seed=0)
        order(both, [3, 3, 3, 3])
    order(calm, [0, 0, 0, 2])
    with pytest.raises(WorldFault) as raised:
        order(sim, [0, 6, 50, 2])
    assert raised.value.mask.tolist() == [False, True, True, False]
    assert [(f.world, f.system, f.cause, f.table, f.value) for f in raised.value.faults] == [
        (1, "fill", "table_full", "Item", 8),
        (2, "fill", "table_full", "Item", 8),
    ]
    assert "world 1: table Item is full: system 'fill' created more rows than its capacity of 8" in str(raised.value)
    assert sim.ragged("Item.Spot.x").counts.tolist() == [3, 3, 3, 5]  # none of the new rows of a full world
    others = ~raised.value.mask
    assert_same_bits(of_worlds(snapshot(sim), others), of_worlds(snapshot(calm), others))
    sim.reset(raised.value.mask)
    assert sim.ragged("Item.Spot.x").counts.tolist() == [3, 0, 0, 5]
    order(sim, [0, 16, 16, 0])  # those worlds have grown
    assert sim.ragged("Item.Spot.x").counts.tolist() == [3, 16, 16, 5]


@pytest.mark.full
def test_no_table_grows_past_its_limit() -> None:
    sim = Simulator(box(), 2)
    sim.reset(seed=0)
    for _ in range(4):
        order(sim, [8, 0])
    assert sim.ragged("Item.Spot.x").counts.tolist() == [32, 0]
    with pytest.raises(WorldFault, match="capacity of 32"):
        order(sim, [1, 0])
    order(sim, [-1, 0])  # destroys all
    assert sim.ragged("Item.Spot.x").counts.tolist() == [0, 0]
    with pytest.raises(ValueError, match="world 1 would have 33 rows of Item, whose limit is 32; nothing was created"):
        sim.create("Item", [1] * 33)
    assert len(sim.create("Item", [1] * 32)) == 32


@pytest.mark.full
def test_a_burst_gets_the_room_that_it_wanted() -> None:
    sim = Simulator(box(), 2)
    sim.reset(seed=0)
    with pytest.raises(WorldFault) as raised:
        order(sim, [30, 0])
    sim.reset(raised.value.mask)
    order(sim, [30, 0])
    assert sim.ragged("Item.Spot.x").counts.tolist() == [30, 0]
    order(sim, [0, 4])
    with pytest.raises(WorldFault):
        order(sim, [0, 30])  # 34 in all, where the limit is 32
    order(sim, [0, 28])
    assert sim.ragged("Item.Spot.x").counts.tolist() == [30, 32]
    other = Simulator(box(), 2)
    other.reset(seed=0)
    other.create("Item", [0] * 8)  # full: room is made for what systems create next
    order(other, [1, 0])
    assert other.ragged("Item.Spot.x").counts.tolist() == [9, 0]


@pytest.mark.full
def test_a_copy_of_no_world_moves_nothing() -> None:
    sim = Simulator(box(), 2)
    sim.reset(seed=0)
    spots, layout = sim.tensor("Item.Spot"), sim.layout
    sim.copy_worlds([], [])
    assert sim.tensor("Item.Spot").data_ptr() == spots.data_ptr() and sim.layout == layout
    sim.copy_worlds([0], [1])
    assert sim.layout == layout + 1


def test_a_table_survives_where_there_is_no_memory_to_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulator(box(), 2)
    sim.reset(seed=0)
    order(sim, [7, 0])
    before, allocate, calls = snapshot(sim), torch.empty, []

    def failing(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(args)
        if len(calls) == 5:
            raise RuntimeError("out of memory")
        return allocate(*args, **kwargs)

    monkeypatch.setattr(torch, "empty", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        sim.step()
    monkeypatch.undo()
    assert_same_bits(before, snapshot(sim))
    order(sim, [5, 0])  # it is tried again
    assert sim.ragged("Item.Spot.x").counts.tolist() == [12, 0]


@pytest.mark.full
def test_growth_follows_from_a_world_alone() -> None:
    """What other worlds do neither gives nor takes room."""
    quiet, busy = Simulator(box(), 2), Simulator(box(), 2)
    for sim in (quiet, busy):
        sim.reset(seed=0)
    for step in range(4):
        order(quiet, [2, 0])
        order(busy, [2, 7 * (step < 2)])
    one = torch.tensor([True, False])
    assert_same_bits(
        {k: v for k, v in of_worlds(snapshot(quiet), one).items() if "Order" not in k},
        {k: v for k, v in of_worlds(snapshot(busy), one).items() if "Order" not in k},
    )


@pytest.mark.full
def test_an_ended_world_drops_what_it_creates() -> None:
    text = SYSTEMS + """
    TBS_SYSTEM void end(World &world, const Order &order, Episode &episode) { episode.terminated = order.rows == 5; }
    TBS_SYSTEM void first_item(World &world) { world.create<Item>(Spot{100}); }
    """
    graphs = {"start": TaskGraph("first_item"), "step": TaskGraph("end", "fill", "walk", "count")}
    sim = Simulator(box(text, **graphs), 2)
    sim.reset(seed=0)
    before = sim.entities("Item").packed()[0]
    order(sim, [5, 2])
    assert sim.ragged("Item.Spot.x").world(0).tolist() == [100]  # of the new episode's start
    assert sim.ragged("Item.Spot.x").world(1).tolist() == [101, 1, 2]
    assert sim.find([0, 1], before).tolist() == [-1, 0]  # the row at the same place is another entity
    waiting = Simulator(box(text, **graphs), 2, autoreset=AutoresetMode.DISABLED)
    waiting.reset(seed=0)
    order(waiting, [5, 2])
    with pytest.raises(ValueError, match="world 0 has ended and awaits its reset, which would drop new rows"):
        waiting.create("Item", [1, 0])
    assert waiting.ragged("Item.Spot.x").counts.tolist() == [6, 3]


# ---- handles -------------------------------------------------------------------------------------------------------


def test_handles_of_other_simulators_worlds_episodes_and_tables_mean_nothing() -> None:
    sim, other = Simulator(Zoo(), 2), Simulator(Zoo(), 2)
    sim.reset(seed=1)
    other.reset(seed=2)
    own, foreign = sim.entities("Animal").world(0), other.entities("Animal").world(0)
    assert sim.find([0, 0], own).tolist() == [0, 1]
    assert sim.find([0, 0], foreign).tolist() == [-1, -1]
    assert sim.find([1, 1], own).tolist() == [-1, -1]
    wrong_table = own.clone()
    wrong_table[:, 1] = 2
    assert sim.find([0, 0], wrong_table).tolist() == [-1, -1]
    before = snapshot(sim)
    for handles, says in ((foreign, "is not a row of a dynamic table in world 0"), (own[[0, 0]], "named twice")):
        with pytest.raises(ValueError, match=says):
            sim.destroy([0, 0], handles)
    assert_same_bits(before, snapshot(sim))
    sim.destroy([0], own[:1])
    with pytest.raises(ValueError, match=r"it was destroyed, or is of another world, episode or simulator"):
        sim.destroy([0], own[:1])
    sim.reset()
    assert sim.find([0, 0], own).tolist() == [-1, -1]


def test_rows_of_fixed_archetypes_have_handles_from_outside_too() -> None:
    """So that a row that ``create`` makes, or an order, can name one."""
    sim = Simulator(Zoo(), 3)
    sim.reset(seed=1)
    commands = sim.entities("Command")
    assert commands.shape == (3, COMMANDS, 4) and commands.dtype == torch.int32
    assert sim.find([0, 1, 2], commands[:, 3]).tolist() == [3, 3, 3]
    assert sim.find([1, 2, 0], commands[:, 3]).tolist() == [-1, -1, -1]
    sim.tensor("Command.Order.kind")[:, 0] = 4
    sim.tensor("Command.Order.target")[:, 0] = torch.stack([commands[0, 3], commands[0, 3], commands[2, 4]])
    sim.step()
    assert sim.tensor("Command.Answer.alive")[:, 0].tolist() == [1, 0, 1]  # the second is of another world
    with pytest.raises(ValueError, match="'Food' has no handles; archetypes of Zoo with them: Animal, "):
        sim.entities("Food")
    sim.reset()
    assert sim.find([0], commands[0, :1]).tolist() == [-1]


def test_numbers_that_another_dtype_loses() -> None:
    def lost(given: list[Any], dtype: torch.dtype, to: torch.dtype) -> list[bool]:
        tensor = torch.tensor(given, dtype=dtype)
        return changed_numbers(tensor, tensor.to(to)).tolist()

    assert lost([0.5, 2.0], torch.float32, torch.int8) == [True, False]
    assert lost([-1, 2**32], torch.int64, torch.uint32) == [True, True]
    assert lost([-1, 3], torch.int64, torch.uint64) == [True, False]
    assert lost([-1, 3], torch.int32, torch.uint32) == lost([-1, 3], torch.int8, torch.uint8) == [True, False]
    assert lost([200, 3], torch.uint8, torch.int8) == lost([2**31, 3], torch.uint32, torch.int32) == [True, False]
    assert lost([2.0**63, float("nan"), 5.0], torch.float64, torch.int64) == [True, True, False]
    assert lost([0, 1, 2], torch.int32, torch.bool) == [False, False, True]
    assert lost([1 / 3, 1e-60], torch.float64, torch.float32) == [False, False]


def test_systems_meet_stale_and_foreign_handles() -> None:
    sim = Simulator(Zoo(), 3)
    sim.reset(seed=1)
    animals = sim.entities("Animal")
    sim.Command.Order.kind[:, 0] = 2  # destroy
    sim.Command.Order.target[0, 0] = animals.world(0)[1]
    sim.Command.Order.target[1, 0] = animals.world(0)[0]  # of world 0
    sim.Command.Order.target[2, 0] = sim.entities("Animal").world(2)[0]
    sim.Command.Order.kind[2, 1] = 2  # the same, by another row at the same time: no fault
    sim.Command.Order.target[2, 1] = sim.entities("Animal").world(2)[0]
    with pytest.raises(WorldFault, match="world 1: system 'obey' failed at row 0: stale_entity") as raised:
        sim.step()
    assert raised.value.mask.tolist() == [False, True, False]
    assert sim.ragged("Animal.Body.value").counts.tolist() == [1, 2, 1]
    sim.Command.Order.kind[2, 1] = 0
    with pytest.raises(WorldFault) as raised:
        sim.step()  # all of them are destroyed or foreign now
    assert raised.value.mask.tolist() == [True, True, True]


def test_handles_outlive_growth_and_compaction() -> None:
    sim = Simulator(box(), 2)
    sim.reset(seed=0)
    order(sim, [7, 7])
    kept = sim.entities("Item").world(1)[4:5].clone()
    x = sim.ragged("Item.Spot.x").world(1)[4].item()
    sim.destroy([1, 1], sim.entities("Item").world(1)[:2])
    for step in range(3):
        order(sim, [0, 2])
        assert sim.find([1], kept).tolist() == [2]
        assert sim.ragged("Item.Spot.x").world(1)[2].item() == x + step + 1
    assert sim.layout > 0


def test_refused_calls_from_outside_change_nothing() -> None:
    sim = Simulator(Zoo(), 3)
    sim.reset(seed=0)
    before = snapshot(sim)
    messages.refused("rows from outside", lambda line: eval(line, globals(), {"sim": sim}))
    assert_same_bits(before, snapshot(sim))


# ---- exports -------------------------------------------------------------------------------------------------------


def test_exports_agree_with_each_other() -> None:
    sim = Simulator(box(), 5)
    sim.reset(seed=0)
    counts = [3, 0, 5, 1, 0]
    order(sim, counts)
    ragged = sim.ragged("Item.Spot.x")
    worlds = [[i + 1 for i in range(count)] for count in counts]
    values, offsets = ragged.packed()
    assert values.tolist() == [x for world in worlds for x in world] and offsets.tolist() == [0, 3, 3, 8, 9, 9]
    assert [ragged.world(w).tolist() for w in range(5)] == worlds
    assert [ragged.worlds[s].item() for s in ragged.slots()] == [0, 0, 0, 2, 2, 2, 2, 2, 3]
    padded, mask = ragged.padded(fill=-1)
    assert padded.tolist() == [row + [-1] * (5 - len(row)) for row in worlds]
    assert mask.sum(1).tolist() == counts
    assert ragged.padded(2)[0].tolist() == [[1, 2], [0, 0], [1, 2], [1, 0], [0, 0]]
    assert ragged.padded(0)[0].shape == (5, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.nested is a prototype
        nested = ragged.nested()
        assert [row.tolist() for row in nested.unbind()] == worlds
        assert nested.values().data_ptr() == sim.tensor("Item.Spot.x").data_ptr()
    sim.tensor("Item.Spot.x")[ragged.slots()] = 50  # the simulator's own memory
    order(sim, [0] * 5)
    assert set(sim.ragged("Item.Spot.x").packed()[0].tolist()) == {51}


def test_fields_of_mixed_structs_and_handles_are_ragged_too() -> None:
    sim = Simulator(Zoo(), 2)
    sim.reset(seed=3)
    parents, entities = sim.ragged("Animal.Kin.parent"), sim.entities("Animal")
    assert parents.values.dtype == torch.int32 and parents.values.shape[1:] == (4,)
    for world in range(2):
        assert parents.world(world)[1].tolist() == entities.world(world)[0].tolist()
    assert sim.Animal.Kin.name[sim.ragged("Animal.Kin.name").slots()].tolist() == [0, 7, 0, 7]
    assert parents.padded()[0].shape == (2, 2, 4)


# ---- extremes ------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_worlds_without_rows_in_every_node() -> None:
    sim = Simulator(box(step=TaskGraph("fill", "walk", "count", "sum")), 5)
    sim.reset(seed=0)
    order(sim, [0] * 5)
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [0] * 5
    ragged = sim.ragged("Item.Spot.x")
    assert ragged.packed()[0].shape == (0,) and ragged.padded()[0].shape == (5, 0)
    order(sim, [0, 3, 0, 0, 0])
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [0, 3 + 6, 0, 0, 0]
    order(sim, [-1] * 5)
    assert sim.tensor("Player.Seen.rows").flatten().tolist() == [0] * 5


@pytest.mark.full
def test_a_million_worlds_of_one_row() -> None:
    worlds = 1_000_000
    sim = Simulator(box(archetypes=(PLAYER, Archetype("Item", Spot, capacity=1))), worlds)
    sim.reset(seed=0)
    sim.Player.Order.rows.fill_(1)
    sim.step()
    assert int(sim.ragged("Item.Spot.x").counts.sum()) == worlds
    handles = sim.entities("Item")
    last = torch.arange(worlds - 3, worlds)
    assert sim.find(last, handles.values[last]).tolist() == [0, 0, 0]
    sim.Player.Order.rows.fill_(-1)
    sim.Player.Order.rows[5] = 0
    sim.step()
    assert sim.ragged("Item.Spot.x").counts.nonzero().flatten().tolist() == [5]
    assert sim.ragged("Item.Spot.x").world(5).tolist() == [2]


@pytest.mark.full
def test_one_world_of_a_million_rows() -> None:
    text = SYSTEMS + """
    TBS_SYSTEM void thin(World &world, const Spot &spot, Entity self) { if (spot.x % 3 == 0) world.destroy(self); }
    """
    rows = 1_000_000
    item = Archetype("Item", Spot, capacity=4, limit=2**21)
    sim = Simulator(box(text, archetypes=(PLAYER, item), step=TaskGraph("walk", "thin", "fill", "count")), 1)
    sim.reset(seed=0)
    handles = sim.create("Item", [0] * rows, {"Spot.x": torch.arange(rows)})
    order(sim, [1])
    expected = [x for x in range(1, rows + 1) if x % 3 != 0] + [0]
    assert sim.ragged("Item.Spot.x").world(0).tolist() == expected
    asked = torch.tensor([0, 1, 2, rows - 2, rows - 1])
    found = sim.find([0] * 5, handles[asked]).tolist()
    assert found == [0, 1, -1, -1 if (rows - 1) % 3 == 0 else expected.index(rows - 1), len(expected) - 2]


def test_bookkeeping_is_at_most_24_bytes_a_row() -> None:
    sim = Simulator(Zoo(), 50)
    sim.reset(seed=0)
    per_slot = [sim.memory.tables["Animal"][name] for name in ("world", "birth", "doomed")]
    slots = sim.tensor("Animal.Body").shape[0]
    assert sum(t.numel() * t.element_size() for t in per_slot) == 16 * slots
    columns = sim.memory.tables["Animal"].columns
    assert columns[0].component is Body and columns[1].component is Kin


def test_a_state_is_of_the_rows_and_not_of_the_slots() -> None:
    sim = Simulator(box(), 3)
    sim.reset(seed=0)
    order(sim, [2, 0, 7])
    state = sim.state_dict()
    assert state["tables"]["Item"]["Item.Spot"].shape == (9, 4)
    order(sim, [1, 1, 1])
    after = snapshot(sim)
    for _ in range(4):
        order(sim, [5, 1, 1])
    sim.load_state_dict(state)
    order(sim, [1, 1, 1])
    assert_same_bits(after, snapshot(sim))
    damaged = {**state, "tables": {"Item": {**state["tables"]["Item"], "counts": torch.tensor([9, 0, 0]).int()}}}
    huge = {**state, "tables": {"Item": {**state["tables"]["Item"], "rooms": torch.tensor([8, 2**40, 8])}}}
    for wrong in (damaged, huge):
        with pytest.raises(ValueError, match="the state is damaged: it lacks the rows of Item"):
            sim.load_state_dict(wrong)
    assert_same_bits(after, snapshot(sim))


@pytest.mark.full
def test_rows_of_a_world_are_drawn() -> None:
    environment = box()
    seen: list[np.ndarray] = []

    def render(world: dict[str, np.ndarray]) -> np.ndarray:
        seen.append(world["Item.Spot.x"])
        return np.zeros((2, 2, 3), np.uint8)

    type(environment).render = staticmethod(render)
    env = TorchVectorEnv(environment, num_worlds=3, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(torch.tensor([2, 0, 4]))
    env.render_world(2)
    env.render_world(1)
    assert [rows.tolist() for rows in seen[-2:]] == [[1, 2, 3, 4], []]


class Link(Component):
    to: Entity
    weight: f32


class Mark(Component):
    value: i32


@pytest.mark.full
def test_fixed_rows_have_handles_without_any_dynamic_table() -> None:
    text = """
    TBS_SYSTEM void link(World &world, Link &link, Row row, Entity self) {
        link.to = row.index == 0 ? self : world.entity<Node>(row.index - 1);
    }
    TBS_SYSTEM void follow(World &world, const Link &link, Mark &mark) {
        const Seen *other = world.find<Player, const Seen>(link.to);
        mark.value = i32(world.index_of<Node>(link.to)) * 10 + (other ? 1 : 0) + (world.alive(link.to) ? 5 : 0);
    }
    """
    archetypes = (PLAYER, Archetype("Node", Link, Mark, count=3))
    sim = Simulator(box(text, archetypes=archetypes, step=TaskGraph("link", "follow")), 2)
    sim.reset(seed=0)
    sim.step()
    assert sim.tensor("Node.Mark.value").tolist() == [[5, 5, 15]] * 2
    handles = sim.tensor("Node.Link.to")[1]
    assert sim.find([1, 1, 1], handles).tolist() == [0, 0, 1]
    assert sim.find([0, 0, 0], handles).tolist() == [-1, -1, -1]
