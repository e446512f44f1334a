"""Strings of bits, several worlds at a time, all archetypes and operations of lanes in systems in Python.

Compiled, under emulated CUDA and as Python they give the same bits, and those of a model in plain Python.
"""

# ruff: noqa: B023 - a function of lanes is called where it stands

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Bits,
    Block,
    Component,
    Constants,
    Entity,
    Environment,
    Parameters,
    Reward,
    Struct,
    TaskGraph,
    Warp,
    World,
    Worlds,
    boolean,
    component,
    copy_elements,
    f32,
    function,
    i32,
    no_row,
    system,
    u8,
    u64,
    vec2,
    write_bits,
    write_packed_bits,
    zeros,
)
from torch_batchsim.build import emulation
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, snapshot

SIZE = 143
WAYS = (2, 3, 5)


class Hand(Component):
    kinds: i32[4]
    tokens: i32


class Code(Component):
    words: u64[3]


class View(Component):
    bits: u8[143]
    packed: u8[18]
    real: f32[143]
    flags: boolean[143]


class Act(Component):
    choice: i32


class Place(Component):
    at: vec2
    weight: i32


class Wind(Component):
    x: f32


class Found(Component):
    first: i32[4]
    number: i32[4]
    index: i32[4]
    windy: i32
    most: i32


class Spare(Struct):  # of no component
    counts: i32[40]
    mean: f32


class Lanes(Component):
    before: i32[40]
    cells: i32[40]
    copy: i32[40]
    deck: i32[12]
    drawn: f32[4]
    bits: i32
    total: i32
    one: i32
    few: boolean[8]


class Sheet(Component):
    x: f32[64]


class Flight(Component):
    age: i32


@function
def append_one_hot(bits: Bits, index: int, count: int) -> None:
    bits.append(1 << index if index < count else 0, count)


@system
def encode(world: World, hand: Hand, code: Code) -> None:
    bits = Bits(SIZE)
    for i in range(4):
        append_one_hot(bits, hand.kinds[i], 25)
    for _i in range(len(WAYS)):
        bits.append(hand.tokens & 1, 1)
    bits.append_thermometer(hand.tokens, 34)
    bits.append(hand.tokens > 2, 1)
    bits.store(code.words)


@system
def show(world: World, code: Code, view: View, warp: Warp) -> None:
    write_bits(code.words, view.bits, warp)
    write_packed_bits(code.words, view.packed, warp)
    write_bits(code.words, view.real, warp)
    write_bits(code.words, view.flags, warp)


@system
def shift(worlds: Worlds[4], sheet: Sheet, warp: Warp) -> None:
    p = worlds.parameters

    def read(i: int) -> None:
        stone = worlds[i // 3].rows("Stone", Place)[i % 3]
        sheet.x[i] = 0.5 * stone.at.x + p.gust + worlds.repetition()

    warp.for_each(3 * worlds.count, read)

    def write(i: int) -> None:
        world = worlds[i // 3]
        draw = world.random_of(i % 3)
        world.rows("Stone", Place)[i % 3].at.x = sheet.x[i] + draw.uniform() + world.step()
        world.rows("Stone", Place)[i % 3].at.y = draw.uniform(2, 3)

    warp.for_each(3 * worlds.count, write)


@system
def gather(world: World, sheet: Sheet, found: Found, warp: Warp) -> None:
    for table, places, winds in world.tables(Place, Wind | None):

        def take(i: int) -> None:
            sheet.x[table.first + i] = places[i].at.x + (winds[i].x if winds is not None else 0.25)
            places[i].weight += table.number
            if winds is not None:
                winds[i].x += 1

        warp.for_each(table.count, take)

        def note() -> None:
            k = table.number % 4
            found.first[k] = table.first
            found.number[k] = table.number
            if table.count > 1:
                found.index[k] = table.index_of(table.entity(table.count - 1))
            if table.index_of(Entity()) != no_row:
                found.index[k] = -100
            found.windy += 1 if winds is not None else 0

        warp.once(note)
    total = warp.sum(8, lambda i: sheet.x[i] if i < 3 else 0.0)

    def write() -> None:
        found.most = world.most_rows(Place) + i32(total)

    warp.once(write)


@system
def shoot(world: World, act: Act) -> None:
    if world.random.chance(0.7):
        world.create("Shot", Flight(age=1), Place(weight=3))


@system
def work(world: World, lanes: Lanes, warp: Warp) -> None:
    spare = warp.shared(Spare)

    def count(i: int) -> None:
        spare.counts[i] = world.random_of(i).below(9)
        lanes.cells[i] = spare.counts[i] * 2

    warp.for_each(40, count)

    def take(i: int, before: int) -> None:
        lanes.before[i] = before

    total = warp.scan(40, lambda i: spare.counts[i], take)
    bits = warp.ballot(32, lambda i: spare.counts[i] > 4)
    one = warp.broadcast(7, lambda i: spare.counts[i] * i)
    copy_elements(lanes.copy, lanes.cells, warp)

    def note() -> None:
        lanes.total, lanes.bits, lanes.one = total, i32(bits), one
        draw = world.random_of(100)
        for i in range(3):
            lanes.drawn[i] = draw.uniform(1, 2)
        lanes.drawn[3] = draw.normal()
        lanes.drawn[3] += draw.integer(2, 5)
        lanes.drawn[3] += draw.below(3)
        for i in range(12):
            lanes.deck[i] = i
        draw.shuffle(lanes.deck, 7)

    warp.once(note)


@system
def deal(world: World, lanes: Lanes) -> None:
    deck = zeros(i32, 12)
    for i in range(len(deck)):
        deck[i] = i
    world.random.shuffle(deck, len(deck))
    world.random.shuffle(lanes.deck, 5)
    draw = world.random
    lanes.drawn[0] += draw.uniform()
    lanes.drawn[0] += draw.integer(0, 3)
    lanes.total += deck[0] * 100 + deck[11]
    lanes.few[0] = lanes.total in (1, 2, 300) or lanes.one not in WAYS
    lanes.few[1] = lanes.one in WAYS
    lanes.few[2] = deck[3] in (deck[4] + 1, deck[5], 7)


@system
def big(world: World, lanes: Lanes, block: Block) -> None:
    bits = block.ballot(32, lambda i: lanes.cells[i] > 3)

    def note() -> None:
        lanes.few[3] = bits & 5 != 0

    block.once(note)


@system
def of_options(world: World, lanes: Lanes, levels: Levels) -> None:  # noqa: F821 - made by component(...)
    p, rows = world.parameters, len(levels.height)
    c = world.constants
    for i in range(c.levels):
        lanes.drawn[1] += levels.height[i] * p.gust + rows
    lanes.drawn[2] += world.get("Levels").height[1]


SYSTEMS = (encode, show, shift, gather, shoot, work, deal, big, of_options)


class Cases(Environment):
    archetypes = [
        Archetype("Player", Act, Reward, Hand, Code, View, count=2),
        Archetype("Stone", Place, Wind, count=3),
        Archetype("Tree", Place, count=2),
        Archetype("Shot", Place, Flight, capacity=30),
        Archetype("One", Lanes, count=1),
    ]
    singletons = [Found]
    workspace = [Sheet]
    parameters = Parameters(gust=0.3)
    constants = Constants(levels=3)
    step = TaskGraph(*SYSTEMS)
    observation, action = "Player.Act", "Player.Act"
    action_space = Discrete(3)

    @cached_property
    def resources(self) -> list[type[Component]]:
        return [component("Levels", height=f32[self.constants.levels])]

    def resource_values(self) -> dict[str, object]:
        return {"Levels.height": [1.0, 2.5, -1.0]}


WORLDS = 11


def simulator(executor: str | None = None, **options: object) -> torch_batchsim.Simulator:
    return torch_batchsim.Simulator(Cases(), WORLDS, executor=executor, **options)


Simulator = torch_batchsim.Simulator


def run(simulators: list[Simulator], steps: int, check: Callable[[Simulator], None]) -> None:
    generator = np.random.default_rng(0)
    for each in simulators:
        each.reset(seed=0)
    for _ in range(steps):
        kinds, tokens = generator.integers(0, 28, (WORLDS, 2, 4)), generator.integers(-2, 40, (WORLDS, 2))
        for each in simulators:
            each.tensor("Player.Hand.kinds").copy_(torch.from_numpy(kinds))
            each.tensor("Player.Hand.tokens").copy_(torch.from_numpy(tokens))
            each.step()
        check(simulators[0])
        expected = snapshot(simulators[0])
        for other in simulators[1:]:
            assert_same_bits(expected, snapshot(other))


def as_modelled(sim: torch_batchsim.Simulator) -> None:
    """Bits of hands, and what scan, ballot, broadcast and copies give."""
    kinds, tokens = sim.tensor("Player.Hand.kinds").tolist(), sim.tensor("Player.Hand.tokens").tolist()
    bits, packed = sim.tensor("Player.View.bits"), sim.tensor("Player.View.packed").numpy()
    for w in range(WORLDS):
        for r in range(2):
            expected = []
            for kind in kinds[w][r]:
                expected += [int(i == kind) for i in range(25)]
            token = tokens[w][r]
            expected += 3 * [token & 1] + [int(i < token) for i in range(34)] + [int(token > 2)]
            expected += [0] * (SIZE - len(expected))
            assert bits[w, r].tolist() == expected
            assert np.unpackbits(packed[w, r], bitorder="little")[:SIZE].tolist() == expected
    assert torch.equal(sim.tensor("Player.View.real"), bits.float())
    assert torch.equal(sim.tensor("Player.View.flags"), bits.bool())
    cells, before = sim.tensor("One.Lanes.cells")[:, 0] // 2, sim.tensor("One.Lanes.before")[:, 0]
    assert torch.equal(before, torch.cumsum(cells, 1) - cells)
    assert torch.equal(sim.tensor("One.Lanes.copy")[:, 0], 2 * cells)
    assert torch.equal(sim.tensor("One.Lanes.one")[:, 0], 7 * cells[:, 7])
    wanted = ((cells[:, :32] > 4) << torch.arange(32)).sum(1)
    assert torch.equal(sim.tensor("One.Lanes.bits")[:, 0].long() & 0xFFFFFFFF, wanted)
    deck = sim.tensor("One.Lanes.deck")[:, 0]
    assert torch.equal(deck.sort(1).values, torch.arange(12).expand(WORLDS, 12).int())
    assert torch.equal(deck[:, 7:], torch.arange(7, 12).expand(WORLDS, 5).int())
    assert not torch.equal(deck[0], deck[1])
    numbers, first = sim.tensor("Found.number"), sim.tensor("Found.first")
    assert (numbers > 0).sum(1).tolist() == [3] * WORLDS  # Stone, Tree and Shot
    assert [sorted(row[own > 0].tolist()) for row, own in zip(first, numbers, strict=True)] == [[0, 3, 5]] * WORLDS
    assert torch.equal(sim.tensor("Found.windy"), sim.tensor("World.step").int())  # of one archetype in each step
    assert bool((sim.tensor("Found.index")[:, :] >= 0).all())


@pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")
def test_python_and_compiled_agree() -> None:
    run([simulator("batch"), simulator("python")], 4, as_modelled)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")
def test_all_executors_agree() -> None:
    program = Program(Cases())
    emulated = [simulator(_library=emulation.load(program, name)) for name in EXECUTORS["cuda"]]
    run([simulator("batch"), simulator("python"), simulator("per_world"), *emulated], 12, as_modelled)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")
def test_a_checked_build_and_one_world_under_a_debugger_agree() -> None:
    debugged = simulator()
    with debugged.debug(world=6):
        run([simulator("batch"), simulator(checks=True), debugged], 3, as_modelled)


def test_bits_in_a_function_called_directly() -> None:
    bits = Bits(70)
    append_one_hot(bits, 3, 64)
    bits.append_thermometer(0, 2)
    words = np.zeros(2, np.uint64)
    bits.append(5, 3)
    bits.store(words)
    assert words.tolist() == [8, 5 << 2]
    with pytest.raises(IndexError, match=r"2 bits behind 69 of Bits\(70\)"):
        bits.append(0, 2)
    with pytest.raises(ValueError, match="5 has more than 1 bits"):
        bits.append(5, 1)
